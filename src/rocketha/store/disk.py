"""What the store asks of a disk: the interface between pure code and the operating system.

Pure.  Two implementations pass the same contract suite (``tests/store/test_disk_contract.py``): ``posix_disk`` for
production, ``memory_disk`` for tests and the simulator, which also fails, tears and forgets.  Paths are absolute
strings with ``/``.

What is durable.  Bytes written are visible to every reader at once and survive the death of the process; they survive
the death of the machine only after :meth:`File.sync`.  A new, renamed or removed name survives it only after
:meth:`Disk.sync_dir` of its directory.  After a failed sync nothing may be assumed about the bytes written since the
last good one: the kernel may have dropped them and will report success the next time, so a caller must never retry a
sync and believe the answer.  What could not even be opened, for want of descriptors or memory, is
:class:`rocketha.errors.NotOpened`: no sync failed, and the same is tried again.

What is made belongs to its owner alone: files are made 0600 and directories 0700, whatever the umask.  What is there
keeps its modes: Java may have made it, and may take it back.

Every failure is a :class:`rocketha.errors.DiskFailure` with the path, the operation and the errno.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from rocketha.errors import DiskFailure, NotOpened

Buffer = bytes | bytearray | memoryview


def open_failure(path: str, operation: str, number: int, message: str) -> DiskFailure:
    """Why something could not be opened."""
    wanting = number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
    return (NotOpened if wanting else DiskFailure)(path, operation, number, message)


def sync_file(disk: Disk, path: str) -> None:
    """The bytes of a file are on the disk when this returns, if it is there."""
    if disk.exists(path):  # expired or deleted meanwhile
        file = disk.open(path)
        try:
            file.sync()
        finally:
            file.close()


def sync_names(disk: Disk, path: str) -> None:
    """The names in a directory are on the disk when this returns, if it is there."""
    if disk.is_dir(path):
        disk.sync_dir(path)


class File(Protocol):
    """An open file.  Reads and writes name their offset; there is no position.  Usable from one thread at a time,
    except that reading and syncing may run beside writing."""

    path: str

    def read(self, offset: int, size: int) -> bytes:
        """The bytes at ``offset``; fewer than ``size`` where the file ends."""

    def read_cached(self, offset: int, view: memoryview) -> bool | None:
        """Fill ``view`` with the bytes at ``offset`` if no disk has to be waited for.

        :returns: False: it would have to; None: nobody knows.  Then ``view`` holds nothing of use.
        """

    def write(self, offset: int, buffers: Sequence[Buffer]) -> None:
        """All bytes of the buffers, one after the other, at ``offset``.  After a failure any part may be there."""

    def sync(self) -> None:
        """The file's bytes, and its size where that changed, are on the disk when this returns (``fdatasync``)."""

    def size(self) -> int:
        """Bytes of the file."""

    def truncate(self, size: int) -> None:
        """Cut, or extend by zeros."""

    def next_data(self, offset: int) -> int | None:
        """The first offset at or after ``offset`` that may hold something else than zeros; None when there is none.

        May answer too early (``offset`` itself), never too late: lets a reader skip the holes of a sparse file.
        """

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""


class Lock(Protocol):
    """A held lock."""

    def release(self) -> None:
        """Give it up; a second call does nothing."""


class DiskSpace(NamedTuple):
    """Of one file system, in bytes.

    :ivar total: its size.
    :ivar free: what nothing is written to.
    :ivar available: what of that is left to processes that are not root.
    """

    total: int
    free: int
    available: int

    @property
    def used_ratio(self) -> float:
        """Used part, 0.0 to 1.0, as ``df`` counts it: of what this process could have; 1.0 where that is nothing."""
        used = self.total - self.free
        reach = used + self.available
        return used / reach if reach > 0 else 1.0


class Disk(Protocol):
    """A file system."""

    def open(self, path: str) -> File:
        """An existing file, for reading and writing."""

    def create(self, path: str, size: int, preallocate: bool = False) -> File:
        """A new file of ``size`` zero bytes; fails with EEXIST rather than touch an existing one.

        :param preallocate: reserve the blocks now, so that a later write cannot find the disk full; else sparse.
        """

    def read_all(self, path: str, size_max: int) -> bytes:
        """The whole of a small file; EFBIG where it is longer than ``size_max``."""

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""

    def exists(self, path: str) -> bool:
        """Whether something has this name."""

    def is_dir(self, path: str) -> bool:
        """Whether it is a directory."""

    def is_link(self, path: str) -> bool:
        """Whether it is a symbolic link itself, wherever that points."""

    def real_path(self, path: str) -> str:
        """The same place without symbolic links; what is not there yet is named too."""

    def size(self, path: str) -> int:
        """Bytes of a file."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and everything in it; does not follow links.  Nothing there: nothing happens."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in one step, replacing what had it; or a directory one that nothing has."""

    def make_dirs(self, path: str) -> None:
        """Create a directory and its missing parents; fine if it is there."""

    def sync_dir(self, path: str) -> None:
        """The names in a directory are on the disk when this returns."""

    def sync_all(self, files: Collection[str], directories: Collection[str]) -> None:
        """All of these are on the disk when this returns; what is not there any more is left out.

        Several are synced at once: a disk takes many in little more time than one.  Where one fails, others may be
        synced or not.
        """

    def lock(self, path: str) -> Lock:
        """Take the exclusive lock on a file, made if need be, or on a directory, against other processes and this one;
        EAGAIN if held.  Of a directory Java takes none, and NFS has none between machines.
        """

    def space(self, path: str) -> DiskSpace:
        """Of the file system that holds ``path``."""
