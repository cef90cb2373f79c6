"""How far a replica's log was confirmed before a bad record in it was found, until it reaches there again, synced.

Pure.  Who found it: the dispatcher, or recovery, which ends the log there.  Likewise before all of the log was thrown
away, to be copied anew.  One decimal number, a log offset, in a file beside the epochs'.  A broker of Java's does not
read it.
"""

from __future__ import annotations

from rocketha.errors import CorruptStore
from rocketha.store import atomic_file
from rocketha.store.disk import Disk

SUFFIX = ".owed"
"""Behind the name of the epoch file."""
_BYTES_MAX = 64


def load(disk: Disk, epoch_path: str) -> int:
    """The offset; 0: there is no such file.

    :raises CorruptStore: there is one, with something else in it.
    """
    path = epoch_path + SUFFIX
    if not disk.exists(path):
        return 0
    data = disk.read_all(path, _BYTES_MAX)
    if not (data.isdigit() and len(data) <= 19):
        raise CorruptStore(path, 0, f"no log offset: {data!r}")
    return int(data)


def raise_to(disk: Disk, epoch_path: str, offset: int) -> None:
    """Bytes up to ``offset`` at least are missing; on the disk when this returns.

    :raises CorruptStore: see :func:`load`.
    :raises DiskFailure: the former or the new one is there.
    """
    if load(disk, epoch_path) < offset:
        save(disk, epoch_path, offset)


def save(disk: Disk, epoch_path: str, offset: int) -> None:
    """On the disk when this returns; 0 removes the file.

    :raises DiskFailure: the former or the new one is there.
    """
    path = epoch_path + SUFFIX
    if offset:
        atomic_file.save(disk, path, b"%d" % offset, backup=False)
    elif disk.exists(path):
        disk.remove(path)
        disk.sync_dir(path.rpartition("/")[0] or "/")
