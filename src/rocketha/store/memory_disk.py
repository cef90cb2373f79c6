"""A disk in memory that fails, tears and forgets on purpose: for tests and the simulator.

Pure; chance is an injected ``random.Random``, so a seed repeats every run.  Theory of operation: a file is what
readers see (``Image``) plus the last state that a sync made durable, plus the writes since.
:meth:`MemoryDisk.crash` is a power cut: each write since the last sync survives, is lost or is torn, sector by sector
or byte by byte, whatever the order they were made in; names created, renamed or removed since their directory was
synced survive only up to a random point.
:meth:`MemoryDisk.kill` is the death of the process: all that was written stays.  A failed sync loses the writes it
was for even if the next sync succeeds, as Linux does.
"""

from __future__ import annotations

import errno
import functools
import random
from collections.abc import Callable, Collection, Sequence

from rocketha.errors import DiskFailure
from rocketha.store.disk import Buffer, DiskSpace, open_failure, sync_file, sync_names
from rocketha.store.memory_image import PAGE, Image, pages

SECTOR = 512

_MESSAGES = {
    errno.EMFILE: "Too many open files",
    errno.EIO: "Input/output error",
    errno.ENOSPC: "No space left on device",
    errno.ENOENT: "No such file or directory",
    errno.EEXIST: "File exists",
    errno.EBADF: "Bad file descriptor",
    errno.EAGAIN: "held by another process, which must stop first",
    errno.EISDIR: "Is a directory",
    errno.ENOTDIR: "Not a directory",
    errno.EROFS: "Read-only file system",
    errno.EFBIG: "File too large",
    errno.EINVAL: "Invalid argument",
}


def _failure(path: str, operation: str, number: int) -> DiskFailure:
    return DiskFailure(path, operation, number, _MESSAGES.get(number, f"error {number}"))


_Change = tuple[int, bytes | None, int]
"""(offset, bytes, 0) of a write, or (size, None, its place in the journal) of a truncation."""


class _Inode:
    __slots__ = ("cached", "durable", "pending", "seen")

    def __init__(self) -> None:
        self.seen = Image()
        self.durable = Image()
        self.pending: list[_Change] = []
        self.cached: set[int] = set()  # pages that were read where not all are in memory

    def change(self, change: _Change) -> None:
        _apply(self.seen, change)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()


def _apply(image: Image, change: _Change) -> None:
    at, data, _ = change
    if data is None:
        image.truncate(at)
    else:
        image.write(at, data)


class MemoryFile:
    """An open file of a :class:`MemoryDisk`; dead after the disk's crash or kill."""

    def __init__(self, disk: MemoryDisk, path: str, inode: _Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._life = disk.life
        self._open = True

    def _step(self, operation: str) -> None:
        if not self._open or self._life != self._disk.life:
            raise self._disk.stale(self.path, operation)
        self._disk.step(self.path, operation)

    def read(self, offset: int, size: int) -> bytes:
        self._step("read")
        if self._disk.cached is False and not self._in_memory(offset, size):
            self._disk.waited_for(self.path)
            self._inode.cached.update(pages(offset, size))
        return self._inode.seen.read(offset, size)

    def _in_memory(self, offset: int, size: int) -> bool:
        return self._inode.cached.issuperset(pages(offset, size))

    def read_cached(self, offset: int, view: memoryview) -> bool | None:
        if not self._disk.cached and (self._disk.cached is None or not self._in_memory(offset, len(view))):
            return self._disk.cached
        data = self.read(offset, len(view))
        view[: len(data)] = data
        return len(data) == len(view)

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        data = b"".join(buffers)
        try:
            self._step("write")
            self._disk.reserve(self.path, self._inode.seen, offset, len(data))
        except DiskFailure:
            if self._open and self._life == self._disk.life:
                part = self._disk.random.randrange(len(data) + 1)
                if part and self._disk.fits(self._inode.seen, offset, part):
                    self._inode.change((offset, data[:part], 0))
            raise
        self._inode.change((offset, data, 0))

    def sync(self) -> None:
        try:
            self._step("sync")
        except DiskFailure:
            self._inode.pending.clear()
            raise
        self._inode.sync()

    def size(self) -> int:
        self._step("size")
        return self._inode.seen.size

    def truncate(self, size: int) -> None:
        self._step("truncate")
        self._inode.change((size, None, self._disk.journal()))

    def next_data(self, offset: int) -> int | None:
        self._step("seek")
        first = offset // PAGE
        numbers = [number for number in self._inode.seen.pages if number >= first]
        if offset >= self._inode.seen.size or not numbers:
            return None
        return max(offset, min(numbers) * PAGE)

    def close(self) -> None:
        self._open = False


_Names = dict[str, "_Inode | None"]
"""path -> file, or None for a directory."""


class MemoryLock:
    """A held lock.  The death of the process, another life of the disk, gives it up."""

    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._life = disk.life

    def release(self) -> None:
        if self._life == self._disk.life:
            self._disk.locks.discard(self._path)
            self._life = -1


class MemoryDisk:
    """The disk.

    :ivar random: decides what a crash keeps and where a failing write stops.
    :ivar tear_bytes: size of the unit that a crash keeps or loses whole: :data:`SECTOR`, or 1 for the harshest disk.
    :ivar operations: how many operations were asked for so far.
    :ivar capacity_bytes: ENOSPC beyond this; None for no limit.
    :ivar cached: reads need not wait; False: but for what was read before; None: nobody knows.
    :ivar ratio: used part in what :meth:`space` answers, where there is no limit.
    """

    def __init__(self, chance: random.Random, tear_bytes: int = SECTOR) -> None:
        self.random = chance
        self.tear_bytes = tear_bytes
        self.operations = 0
        self.capacity_bytes: int | None = None
        self.cached: bool | None = True
        self.ratio = 0.1
        self.life = 0
        self.locks: set[str] = set()
        self.trace: list[tuple[str, str]] | None = None
        self._names: _Names = {"/": None}
        self._durable_names: _Names = {"/": None}
        self._name_changes: list[tuple[int, tuple[str, ...], Callable[[_Names], None]]] = []
        self._journal = 0
        self._journal_synced = 0
        self._fail_from = 0
        self._fail_until = 0
        self._fail_errno = errno.EIO
        self._fail_only: frozenset[str] | None = None

    # Faults

    def fail_at(self, number: int, error: int = errno.EIO, times: int = 1, only: Sequence[str] | None = None) -> None:
        """Fail the ``number``-th operation from now (1 is the next) and the ``times - 1`` after it.

        :param only: count and fail only these operations (``write``, ``sync`` ...); None for all.
        """
        self.operations = 0
        self._fail_from, self._fail_until = number, number + times
        self._fail_errno = error
        self._fail_only = None if only is None else frozenset(only)

    def heal(self) -> None:
        """Fail nothing any more."""
        self._fail_from = self._fail_until = 0

    def step(self, path: str, operation: str, opens: bool = False) -> None:
        """Count an operation, and fail it if it is the one to fail.

        :param opens: it begins with opening what it is about, and that is what fails.
        """
        if self.trace is not None:
            self.trace.append((operation, path))
        if self._fail_only is not None and operation not in self._fail_only:
            return
        self.operations += 1
        if self._fail_from <= self.operations < self._fail_until:
            failure = _failure(path, operation, self._fail_errno)
            raise open_failure(path, operation, failure.errno, failure.message) if opens else failure

    def waited_for(self, path: str) -> None:
        """A read had to wait, see :attr:`cached`."""

    def stale(self, path: str, operation: str) -> BaseException:
        """What an operation raises on a file that was closed, or opened by a process that is gone."""
        return _failure(path, operation, errno.EBADF)

    def kill(self) -> None:
        """The process dies: descriptors and locks are gone, every write stays."""
        self.life += 1
        self.locks.clear()

    def crash(self) -> None:
        """The power fails: what was not synced survives by chance, torn."""
        self.kill()
        # Names and sizes go through one journal: what survives of it is a beginning.
        kept = self.random.randrange(self._journal_synced, self._journal + 1)
        self._journal_synced = self._journal
        names = dict(self._durable_names)
        for place, _, change in self._name_changes:
            if place <= kept:
                change(names)
        self._name_changes.clear()
        self._names = {path: inode for path, inode in names.items() if self._has_parents(names, path)}
        self._durable_names = dict(self._names)
        for path in sorted(self._names):
            inode = self._names[path]
            if inode is not None:
                self._crash_file(inode, kept)

    def _has_parents(self, names: _Names, path: str) -> bool:
        while path != "/":
            path = _parent(path)
            if names.get(path, 0) is not None:
                return False
        return True

    def _crash_file(self, inode: _Inode, journal: int) -> None:
        mood = self.random.random()  # lose all, keep all, or decide for every piece
        cut = False
        for at, data, place in inode.pending:
            if data is None:
                if place <= journal:
                    inode.durable.truncate(at)
                else:
                    cut = True
            elif mood >= 0.2:
                room = max(0, inode.durable.size - at) if cut else len(data)
                self._crash_write(inode.durable, at, data[:room], mood > 0.8)
        inode.pending.clear()
        inode.seen = inode.durable.copy()

    def _crash_write(self, image: Image, at: int, data: bytes, whole: bool) -> None:
        if whole:
            image.write(at, data)
            return
        start = 0
        while start < len(data):
            stop = min(len(data), (at + start) // self.tear_bytes * self.tear_bytes + self.tear_bytes - at)
            if self.random.random() < 0.5:
                image.write(at + start, data[start:stop])
            start = stop

    def fits(self, image: Image, offset: int, size: int) -> bool:
        """Whether a write fits the capacity."""
        if self.capacity_bytes is None:
            return True
        pages = range(offset // PAGE, (offset + max(size, 1) - 1) // PAGE + 1)
        wanted = sum(number not in image.pages for number in pages)
        return self.used_bytes() + wanted * PAGE <= self.capacity_bytes

    def reserve(self, path: str, image: Image, offset: int, size: int) -> None:
        """ENOSPC where a write does not fit."""
        if not self.fits(image, offset, size):
            raise _failure(path, "write", errno.ENOSPC)

    def used_bytes(self) -> int:
        """Bytes of all pages of all files."""
        return sum(len(inode.seen.pages) for inode in self._names.values() if inode is not None) * PAGE

    def flip_bit(self, path: str, offset: int, bit: int = 0) -> None:
        """Rot: change one bit on the platter."""
        inode = self._file(path, "flip")
        byte = inode.seen.read(offset, 1)[0] ^ (1 << bit)
        inode.change((offset, bytes((byte,)), 0))
        inode.sync()

    # Disk

    def open(self, path: str) -> MemoryFile:
        self.step(path, "open", opens=True)
        return MemoryFile(self, path, self._file(path, "open"))

    def create(self, path: str, size: int, preallocate: bool = False) -> MemoryFile:
        self.step(path, "create", opens=True)
        if path in self._names:
            raise _failure(path, "create", errno.EEXIST)
        self._parent_there(path, "create")
        inode = _Inode()
        inode.seen.size = inode.durable.size = size  # the size goes where the name goes: one journal entry
        if preallocate:
            self.reserve(path, inode.seen, 0, size)
        self._change_names((path,), lambda names: names.__setitem__(path, inode))
        return MemoryFile(self, path, inode)

    def read_all(self, path: str, size_max: int) -> bytes:
        self.step(path, "read")
        image = self._file(path, "read").seen
        if image.size > size_max:
            raise _failure(path, "read", errno.EFBIG)
        return image.read(0, image.size)

    def list(self, path: str) -> list[str]:
        self.step(path, "list")
        if self._names.get(path, 0) is not None:
            raise _failure(path, "list", errno.ENOTDIR if path in self._names else errno.ENOENT)
        prefix = path.rstrip("/") + "/"
        return sorted(
            name[len(prefix) :]
            for name in self._names
            if name.startswith(prefix) and "/" not in name[len(prefix) :] and name != "/"
        )

    def exists(self, path: str) -> bool:
        self.step(path, "stat")
        return path in self._names

    def is_dir(self, path: str) -> bool:
        self.step(path, "stat")
        return self._names.get(path, 0) is None

    def is_link(self, path: str) -> bool:
        self.step(path, "stat")
        return False

    def real_path(self, path: str) -> str:
        self.step(path, "stat")
        return path

    def size(self, path: str) -> int:
        self.step(path, "size")
        return self._file(path, "size").seen.size

    def remove(self, path: str) -> None:
        self.step(path, "remove")
        self._file(path, "remove")
        self._change_names((path,), lambda names: _forget(names, path))

    def remove_tree(self, path: str) -> None:
        self.step(path, "remove")
        prefix = path.rstrip("/") + "/"
        for name in sorted((name for name in self._names if name == path or name.startswith(prefix)), reverse=True):
            self._change_names((name,), functools.partial(_forget, name=name))

    def rename(self, old: str, new: str) -> None:
        self.step(old, "rename")
        self._parent_there(new, "rename")
        if self._names.get(old, 0) is None:
            return self._rename_directory(old, new)
        inode = self._file(old, "rename")

        def move(names: _Names) -> None:
            names.pop(old, None)
            names[new] = inode

        self._change_names((old, new), move)

    def _rename_directory(self, old: str, new: str) -> None:
        if new in self._names:
            raise _failure(old, "rename", errno.ENOTEMPTY)

        def move(names: _Names) -> None:
            for name in [name for name in names if name == old or name.startswith(f"{old}/")]:
                names[new + name[len(old) :]] = names.pop(name)

        self._change_names((old, new), move)

    def make_dirs(self, path: str) -> None:
        self.step(path, "mkdir")
        parts = path.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            name = "/" + "/".join(parts[:count])
            if name not in self._names:
                self._change_names((name,), functools.partial(_make_directory, name=name))
            elif self._names[name] is not None:
                raise _failure(path, "mkdir", errno.EEXIST if count == len(parts) else errno.ENOTDIR)

    def sync_dir(self, path: str) -> None:
        self.step(path, "sync", opens=True)
        if self._names.get(path, 0) is not None:
            raise _failure(path, "sync", errno.ENOTDIR if path in self._names else errno.ENOENT)
        rest = []
        for place, paths, change in self._name_changes:
            if any(_parent(name) == path for name in paths):
                change(self._durable_names)
            else:
                rest.append((place, paths, change))
        self._name_changes = rest

    def sync_all(self, files: Collection[str], directories: Collection[str]) -> None:
        for path in files:
            sync_file(self, path)
        for path in directories:
            sync_names(self, path)

    def lock(self, path: str) -> MemoryLock:
        self.step(path, "lock")
        if path in self.locks:
            raise _failure(path, "lock", errno.EAGAIN)
        if path not in self._names:  # a directory is there
            self.create(path, 0).write(0, [b"lock"])
        self.locks.add(path)
        return MemoryLock(self, path)

    def space(self, path: str) -> DiskSpace:
        self.step(path, "statvfs")
        total = self.capacity_bytes or 10**12
        free = max(0, total - (self.used_bytes() if self.capacity_bytes else round(self.ratio * total)))
        return DiskSpace(total, free, free)

    def _file(self, path: str, operation: str) -> _Inode:
        inode = self._names.get(path, 0)
        if isinstance(inode, _Inode):
            return inode
        raise _failure(path, operation, errno.EISDIR if inode is None else errno.ENOENT)

    def _parent_there(self, path: str, operation: str) -> None:
        if self._names.get(_parent(path), 0) is not None:
            raise _failure(path, operation, errno.ENOENT)

    def _change_names(self, paths: tuple[str, ...], change: Callable[[_Names], None]) -> None:
        change(self._names)
        self._name_changes.append((self.journal(), paths, change))

    def journal(self) -> int:
        """The place of the next change of names or sizes in the journal."""
        self._journal += 1
        return self._journal


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _forget(names: _Names, name: str) -> None:
    names.pop(name, None)


def _make_directory(names: _Names, name: str) -> None:
    names[name] = None
