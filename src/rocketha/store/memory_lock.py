"""A held lock on a disk in memory.

Pure.  The death of the process, another life of the disk, gives it up.
"""

from __future__ import annotations

from typing import Protocol


class _Locks(Protocol):
    """What a lock needs of its disk."""

    life: int
    locks: set[str]


class MemoryLock:
    """A held lock."""

    def __init__(self, disk: _Locks, path: str) -> None:
        self._disk = disk
        self._path = path
        self._life = disk.life

    def release(self) -> None:
        if self._life == self._disk.life:
            self._disk.locks.discard(self._path)
            self._life = -1
