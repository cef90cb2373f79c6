"""The two small files of a Raft node: ``state``, its term and vote, and ``progress``, hints on how far its log is safe.

Pure.  It must not know the log.  ``state`` is replaced whole (:mod:`rocketha.store.atomic_file`), and is on the disk
before :meth:`VoteFile.save` returns: whoever answers a vote afterwards can never vote twice in a term.  A damaged or
missing one stops the node; there is no older copy to fall back to, because an older vote is a wrong one.

``progress`` has two slots written in turn, never synced while running.  A hint is written only after what it speaks of
was synced, so one that is there is true, and one that is lost costs nothing but the proof that the end of the log was
safe.
"""

from __future__ import annotations

from rocketha.errors import ConfigError, CorruptStore, RemoteProtocolError
from rocketha.store import atomic_file
from rocketha.store.disk import Disk, File
from rocketha.wire import raft_records
from rocketha.wire.raft_records import Progress, StateFile
from rocketha.wire.spec.raft_log import PROGRESS_SLOT_BYTES

STATE_BYTES_MAX = 1 << 20
SLOTS = 2


def check_owner(path: str, found: tuple[str, str], wanted: tuple[str, str]) -> None:
    """Refuse the files of another node: it would vote and acknowledge in that one's name.

    :param found: group and node in the file.
    :raises ConfigError: they differ.
    """
    if found != wanted:
        raise ConfigError(
            f"{path} belongs to node {found[1]!r} of group {found[0]!r}, this is node {wanted[1]!r} of group "
            f"{wanted[0]!r}: each node needs a directory of its own, and a copy of another node's is not one"
        )


class VoteFile:
    """The file ``state``."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/state"

    def load(self) -> StateFile | None:
        """What is on the disk; None where there is no file.

        :raises CorruptStore: it is damaged.
        """
        if not self._disk.exists(self.path):
            return None
        data = self._disk.read_all(self.path, STATE_BYTES_MAX)
        return raft_records.parse_state(data, lambda reason: CorruptStore(self.path, 0, reason))

    def save(self, state: StateFile) -> None:
        """Replace the file; on the disk when this returns.

        :raises DiskFailure: the former state is there, or, if it was the directory's sync that failed, either.
        """
        atomic_file.save(self._disk, self.path, raft_records.build_state(state), backup=False)


class ProgressFile:
    """The file ``progress``."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/progress"
        self._file: File | None = None
        self._number = 0

    def load(self) -> list[Progress]:
        """The hints that are there, newest first.  Damaged ones are none: a power cut tears them."""
        if not self._disk.exists(self.path):
            return []
        data = self._disk.read_all(self.path, SLOTS * PROGRESS_SLOT_BYTES)
        found = []
        for slot in range(SLOTS):
            try:
                found.append(raft_records.parse_progress(data[slot * PROGRESS_SLOT_BYTES :][:PROGRESS_SLOT_BYTES]))
            except RemoteProtocolError:
                continue
        found.sort(reverse=True)
        self._number = found[0].number if found else 0
        return found

    def open(self) -> None:
        """Make ready to write; the file is made where it is missing or too short."""
        size = SLOTS * PROGRESS_SLOT_BYTES
        if self._disk.exists(self.path):
            self._file = self._disk.open(self.path)
            if self._file.size() < size:
                self._file.truncate(size)
        else:
            self._file = self._disk.create(self.path, size, preallocate=True)

    def write(self, sequence: int, synced: int, commit: int) -> None:
        """Replace the older hint.  Not synced.

        :param sequence: of the segment that ``synced`` is about.
        """
        if self._file is not None:
            self._number += 1
            hint = raft_records.build_progress(Progress(self._number, sequence, synced, commit))
            self._file.write(self._number % SLOTS * PROGRESS_SLOT_BYTES, [hint])

    def sync(self) -> None:
        """The hints are on the disk when this returns."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Give the descriptor back."""
        if self._file is not None:
            self._file.close()
            self._file = None
