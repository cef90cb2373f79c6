"""Small files that are replaced whole: old contents or new, never a mixture, whatever moment the power fails.

Pure.  Java's counterpart is ``MixAll.string2File``, which writes in place.  Names and the ``.bak`` are Java's, so
that either broker starts on the other's files.  Order, each step only after the one before: write the new contents
beside the file, sync them, keep the former contents as ``.bak``, rename over the file, sync the directory.
"""

from __future__ import annotations

import errno

from rocketha.errors import DiskFailure
from rocketha.store.disk import Disk
from rocketha.wire.limits import TABLE_FILE_BYTES_MAX

SIZE_MAX = TABLE_FILE_BYTES_MAX
"""Largest file that :func:`load` believes, and that :func:`save` writes, bytes."""


def save(disk: Disk, path: str, data: bytes, backup: bool = True) -> None:
    """Replace a file's contents; when this returns they are on the disk.

    :param backup: keep what was there as ``path + ".bak"``.
    :raises DiskFailure: the file then holds its former contents (or, if only the last sync failed, the new ones).
    """
    if len(data) > SIZE_MAX:
        raise DiskFailure(path, "write", errno.EFBIG, f"{len(data)} bytes, and no more than {SIZE_MAX} are read")
    if backup and disk.exists(path):
        former = disk.read_all(path, SIZE_MAX)
        if former and former != data:
            replace(disk, path + ".bak", former)
    replace(disk, path, data)


def load(disk: Disk, path: str) -> bytes | None:
    """The file's contents, else those of its ``.bak``; None when there is neither.

    An empty file counts as missing: Java leaves one behind when it dies while writing in place.
    """
    for name in (path, path + ".bak"):
        if disk.exists(name):
            data = disk.read_all(name, SIZE_MAX)
            if data:
                return data
    return None


def candidates(disk: Disk, path: str) -> list[bytes]:
    """The contents of the file and of its ``.bak``, those that exist and are not empty: for a caller that parses them
    and falls back where the first is damaged."""
    found = [disk.read_all(name, SIZE_MAX) for name in (path, path + ".bak") if disk.exists(name)]
    return [data for data in found if data]


def replace(disk: Disk, path: str, data: bytes) -> None:
    """The same as :func:`save` without a backup, of any size."""
    temporary = path + ".tmp"
    if disk.exists(temporary):  # left by a crash
        disk.remove(temporary)
    file = disk.create(temporary, 0)
    try:
        if data:
            file.write(0, [data])
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_dir(path.rpartition("/")[0] or "/")


def make_dirs(disk: Disk, path: str) -> None:
    """Create a directory and its missing parents so that a power cut leaves them there.

    Those that are there are synced too: who made them may have died before it came to that.
    """
    chain = []
    while path and path != "/":
        chain.append(path)
        path = path.rpartition("/")[0]
    if not chain:
        return
    if not disk.exists(chain[0]):
        disk.make_dirs(chain[0])
    for name in chain:  # from the innermost: above there are directories that only their owner may open
        try:
            disk.sync_dir(name.rpartition("/")[0] or "/")
        except DiskFailure as failure:
            if failure.errno not in (errno.EACCES, errno.EPERM):
                raise
            return
