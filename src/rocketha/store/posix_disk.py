"""The disk of a POSIX system: the only module of the store that opens files.

What it must not know: what the files mean.  Java counterpart: ``DefaultMappedFile``, except that nothing is mapped: a
full or dying disk then answers a write with an errno, where a mapping would end the process with SIGBUS.

Every OSError becomes a :class:`DiskFailure`.  EINTR is retried by Python itself (PEP 475).

What only some systems have is used where it is there: ``fdatasync`` and ``posix_fallocate`` (not on macOS), reads that
do not wait (Linux), ``SEEK_DATA``, ``F_FULLFSYNC`` (macOS).
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import stat
import sys
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn, TypeVar

from rocketha.errors import DiskFailure
from rocketha.store.disk import Buffer, DiskSpace, open_failure, sync_file, sync_names

BUFFERS_MAX = 1024
"""IOV_MAX on Linux: buffers of one pwritev."""

SYNCS_AT_ONCE = 8
"""Of many files."""

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EINVAL)
"""Of a file system, a kernel, a sandbox that does not know or allow RWF_NOWAIT."""

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
"""macOS: its fsync gives bytes to the drive, which may keep them in memory; this waits until they are stored."""
_NO_FULL_SYNC = (*_NOT_SUPPORTED, errno.ENOTSUP, errno.ENOTTY)
"""Of file systems of other machines, which know fsync alone."""

_LOCKS_APART = sys.platform == "linux"
"""``flock`` and locks on bytes do not see each other.  Elsewhere they do, and one process must not take both."""

FILE_MODE = 0o600
DIRECTORY_MODE = 0o700
"""Messages, consumers' names and secrets are nobody's business but the owner's."""

T = TypeVar("T")


def private_dirs(path: str) -> None:
    """Make a directory and those above it that are missing, each for its owner alone; fine if it is there.

    ``os.makedirs`` gives its mode to the innermost one only.

    :raises OSError: one cannot be made, or is no directory.
    """
    try:
        os.mkdir(path, DIRECTORY_MODE)
    except FileNotFoundError:
        parent = os.path.dirname(path.rstrip("/"))
        if parent == path or not parent:
            raise
        private_dirs(parent)
        private_dirs(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def private_file(path: str, flags: int) -> int:
    """``os.open`` for an opener: a file that is made is its owner's alone."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def _write_joined(fd: int, buffers: Sequence[Buffer], offset: int) -> int:
    return os.pwrite(fd, b"".join(buffers), offset)


_fdatasync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
_pwritev: Callable[[int, Sequence[Buffer], int], int] = getattr(os, "pwritev", _write_joined)
_allocate: Callable[[int, int, int], None] | None = getattr(os, "posix_fallocate", None)
"""Without it a new file takes its place on the disk as it is written: a full disk then refuses writes into it."""
_SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)


def _sync(fd: int, sync: Callable[[int], None] = os.fsync) -> None:
    """Return when what was written can not be lost to a power cut.

    :param sync: for systems whose fsync means that.
    """
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
            return
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:
                raise
    sync(fd)


def _fail(path: str, operation: str, error: OSError) -> NoReturn:
    raise DiskFailure(path, operation, error.errno or 0, error.strerror or str(error)) from error


def _open(path: str, operation: str, function: Callable[[], int]) -> int:
    try:
        return function()
    except OSError as error:
        raise open_failure(path, operation, error.errno or 0, error.strerror or str(error)) from error
    except ValueError as error:  # a path with a NUL
        raise DiskFailure(path, operation, errno.EINVAL, str(error)) from error


class PosixFile:
    """An open descriptor."""

    __slots__ = ("_fd", "_size_changed", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self._size_changed = False

    def read(self, offset: int, size: int) -> bytes:
        try:
            data = os.pread(self._fd, size, offset)
            if len(data) == size:
                return data
            parts = [data]
            got = len(data)
            while data and got < size:
                data = os.pread(self._fd, size - got, offset + got)
                parts.append(data)
                got += len(data)
            return b"".join(parts)
        except OSError as error:
            _fail(self.path, "read", error)

    def read_cached(self, offset: int, view: memoryview) -> bool | None:
        """See :meth:`rocketha.store.disk.File.read_cached`: preadv2 with RWF_NOWAIT.  Where a system or a file system
        has no such thing (tmpfs, NFS, ZFS), nobody knows.
        """
        if not _NOWAIT:
            return None
        try:
            return os.preadv(self._fd, (view,), offset, _NOWAIT) == len(view)
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return False
            if error.errno in _NOT_SUPPORTED:
                return None
            _fail(self.path, "read", error)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        try:
            for start in range(0, len(buffers), BUFFERS_MAX):
                part = buffers[start : start + BUFFERS_MAX] if len(buffers) > BUFFERS_MAX else buffers
                wanted = sum(map(len, part))
                written = _pwritev(self._fd, part, offset)
                if written != wanted:
                    self._write_rest(offset, b"".join(part), written)
                offset += wanted
        except OSError as error:
            _fail(self.path, "write", error)

    def _write_rest(self, offset: int, data: bytes, written: int) -> None:
        """Go on after a short write; a disk that takes nothing at all is full."""
        view = memoryview(data)
        while written < len(data):
            step = os.pwrite(self._fd, view[written:], offset + written)
            if step <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written += step

    def sync(self) -> None:
        try:
            if self._size_changed:
                _sync(self._fd)
                self._size_changed = False
            else:
                _sync(self._fd, _fdatasync)
        except OSError as error:
            _fail(self.path, "sync", error)
        except ValueError as error:  # closed: Python refuses -1 itself
            raise DiskFailure(self.path, "sync", errno.EBADF, os.strerror(errno.EBADF)) from error

    def size(self) -> int:
        try:
            return os.fstat(self._fd).st_size
        except OSError as error:
            _fail(self.path, "size", error)

    def truncate(self, size: int) -> None:
        try:
            self._size_changed = True
            os.ftruncate(self._fd, size)
        except OSError as error:
            _fail(self.path, "truncate", error)

    def next_data(self, offset: int) -> int | None:
        if _SEEK_DATA is None:
            return offset
        try:
            return os.lseek(self._fd, offset, _SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return None
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):
                return offset
            _fail(self.path, "seek", error)

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            try:
                os.close(fd)
            except OSError as error:
                _fail(self.path, "close", error)


_HELD: set[str] = set()
"""Lock files of this process.  A second descriptor must not even be opened: closing it would drop the byte lock."""


class PosixLock:
    """A held lock file: ``flock`` keeps out other rockethas, the byte lock keeps out Java; see ``_LOCKS_APART``."""

    __slots__ = ("_fd", "_path")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd

    def release(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
            _HELD.discard(self._path)


class PosixDisk:
    """The operating system's files."""

    def open(self, path: str) -> PosixFile:
        return PosixFile(path, _open(path, "open", lambda: os.open(path, os.O_RDWR | os.O_CLOEXEC)))

    def create(self, path: str, size: int, preallocate: bool = False) -> PosixFile:
        fd = _open(path, "create", lambda: private_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        try:
            os.ftruncate(fd, size)
            if preallocate and size and _allocate is not None:
                _allocate(fd, 0, size)
        except OSError as error:
            os.close(fd)
            os.unlink(path)
            _fail(path, "create", error)
        made = PosixFile(path, fd)
        made._size_changed = True
        return made

    def read_all(self, path: str, size_max: int) -> bytes:
        opened = self.open(path)
        try:
            data = opened.read(0, size_max + 1)
        finally:
            opened.close()
        if len(data) > size_max:
            raise DiskFailure(path, "read", errno.EFBIG, f"longer than {size_max} bytes")
        return data

    def list(self, path: str) -> list[str]:
        return sorted(_call(path, "list", lambda: os.listdir(path)))

    def exists(self, path: str) -> bool:
        return self._mode(path) is not None

    def is_dir(self, path: str) -> bool:
        mode = self._mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def _mode(self, path: str) -> int | None:
        try:
            return os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            _fail(path, "stat", error)

    def is_link(self, path: str) -> bool:
        return _call(path, "stat", lambda: os.path.islink(path))

    def real_path(self, path: str) -> str:
        return _call(path, "stat", lambda: os.path.realpath(path))

    def size(self, path: str) -> int:
        return _call(path, "size", lambda: os.stat(path).st_size)

    def remove(self, path: str) -> None:
        _call(path, "remove", lambda: os.unlink(path))

    def remove_tree(self, path: str) -> None:
        def remove_all() -> None:
            if not os.path.lexists(path):
                return
            if os.path.islink(path) or not os.path.isdir(path):
                os.unlink(path)
                return
            for parent, directories, files in os.walk(path, topdown=False):
                for name in files:
                    os.unlink(os.path.join(parent, name))
                for name in directories:
                    inner = os.path.join(parent, name)
                    if os.path.islink(inner):
                        os.unlink(inner)
                    else:
                        os.rmdir(inner)
            os.rmdir(path)

        _call(path, "remove", remove_all)

    def rename(self, old: str, new: str) -> None:
        _call(old, "rename", lambda: os.rename(old, new))

    def make_dirs(self, path: str) -> None:
        _call(path, "mkdir", lambda: private_dirs(path))

    def sync_dir(self, path: str) -> None:
        fd = _open(path, "sync", lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        try:
            _sync(fd)
        except OSError as error:
            _fail(path, "sync", error)
        finally:
            os.close(fd)

    def sync_all(self, files: Collection[str], directories: Collection[str]) -> None:
        """See :meth:`rocketha.store.disk.Disk.sync_all`: by threads, which share the commits of the file system's
        journal.
        """
        syncs = [functools.partial(sync_file, self, path) for path in files]
        syncs += [functools.partial(sync_names, self, path) for path in directories]
        if len(syncs) < SYNCS_AT_ONCE:
            for sync in syncs:
                sync()
            return
        with ThreadPoolExecutor(SYNCS_AT_ONCE, "sync") as threads:
            for _ in threads.map(lambda sync: sync(), syncs):
                pass

    def lock(self, path: str) -> PosixLock:
        """See :meth:`rocketha.store.disk.Disk.lock`.

        Java takes a POSIX lock on byte 0 (``FileChannel.tryLock(0, 1, false)``), which excludes other processes only.
        Outside of Linux that is refused where another process has the file under ``flock``, too.
        """
        real = _call(path, "lock", lambda: os.path.realpath(path))
        if real in _HELD:
            raise DiskFailure(path, "lock", errno.EAGAIN, "held by another store of this process")
        directory = os.path.isdir(real)
        flags = os.O_RDONLY | os.O_DIRECTORY if directory else os.O_RDWR | os.O_CREAT
        fd = _call(path, "lock", lambda: private_file(path, flags))
        try:
            if directory:
                _lock_directory(fd)
            else:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _LOCKS_APART:
                    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
                if os.fstat(fd).st_size == 0:
                    os.pwrite(fd, b"lock", 0)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EACCES, errno.EAGAIN):
                raise DiskFailure(
                    path, "lock", errno.EAGAIN, "held by another process, which must stop first"
                ) from error
            _fail(path, "lock", error)
        _HELD.add(real)
        return PosixLock(real, fd)

    def space(self, path: str) -> DiskSpace:
        found = _call(path, "statvfs", lambda: os.statvfs(path))
        return DiskSpace(*(blocks * found.f_frsize for blocks in (found.f_blocks, found.f_bfree, found.f_bavail)))


class ReadingDisk(PosixDisk):
    """The same for somebody who copies another's store: files are opened for reading alone, and none that is a symbolic
    link, which may lead to what the copy's readers may not see.  A linked directory is followed: so operators move a
    log to another disk.
    """

    def open(self, path: str) -> PosixFile:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a FIFO is no file, and not waited for
        try:
            return PosixFile(path, _open(path, "open", lambda: os.open(path, flags)))
        except DiskFailure as failure:
            if failure.errno == errno.ELOOP and os.path.islink(path):
                said = "a symbolic link, and none is followed to a file of a store"
                raise DiskFailure(path, "open", errno.ELOOP, said) from None
            raise


def _lock_directory(fd: int) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EBADF:  # NFS, where flock is a lock on bytes, which a directory has none of
            raise


def _call(path: str, operation: str, function: Callable[[], T]) -> T:
    try:
        return function()
    except OSError as error:
        _fail(path, operation, error)
    except ValueError as error:  # a path with a NUL
        raise DiskFailure(path, operation, errno.EINVAL, str(error)) from error
