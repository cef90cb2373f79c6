"""A broker's store as somebody else reads it, while the broker runs or not: nothing of it is written or removed.

Pure.  Knows names and small files; what a log holds is ``scan``'s.  A store that a broker writes changes under the
reader: files appear and expire, the end moves on, and that of a replica back.  So nothing is remembered here: the
exporter looks again.  Java's stores and ours are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from rocketha.errors import ConfigError, CorruptStore, DiskFailure, RemoteProtocolError
from rocketha.export.manifest import COMMITLOG, DLEDGER, EpochRange, Manifest
from rocketha.store import atomic_file, checkpoint, epoch_file
from rocketha.store.disk import Disk
from rocketha.store.foreign_names import ForeignNames, is_number
from rocketha.store.segment import first_offset
from rocketha.wire import dledger
from rocketha.wire.json_dialect import FILE_BYTES_MAX, loads

SMALL_FILES = (
    "config/consumerOffset.json",
    "config/topics.json",
    "config/subscriptionGroup.json",
    "config/delayOffset.json",
    "epochFileCheckpoint",
)
"""Copied whole, where they are there."""
ID_BYTES_MAX = 4096
LEDGER = "dledger-"
_COMMITTED = re.compile(rb"^committedIndex=([0-9]{1,18})\s*$", re.MULTILINE)


@attrs.frozen
class Identity:
    """Which replica it is, as its brokerIdentity says, or the user."""

    cluster: str = ""
    broker_name: str = ""
    broker_id: int = 0


@attrs.frozen
class Source:
    """One store, of a broker whose log is a message log.

    :ivar root: storePathRootDir.
    :ivar logs: storePathCommitLog, each of its directories.
    :ivar layout: of the log's files.
    """

    disk: Disk
    root: str
    logs: tuple[str, ...]
    layout: str = COMMITLOG

    def segments(self) -> dict[int, str]:
        """Paths of the log's files by their first offset, ascending; a last one without a byte does not count.

        :raises CorruptStore: a number that is no offset.
        """
        found: dict[int, str] = {}
        for directory in self.logs:
            for name in ForeignNames().ours(self.disk, directory, is_number):
                found[first_offset(directory, name)] = f"{directory}/{name}"
        return dict(sorted(found.items()))

    def divided(self) -> int:
        """Where DLedger went on with an ordinary broker's log; 0 where the store has nothing from before."""
        return 0

    def has_log(self) -> bool:
        """Whether there is a file of a log that has a byte."""
        return any(self._size(path) for path in self.segments().values())

    def file_size(self) -> int:
        """Bytes of each file of the log.

        :raises ConfigError: there is none, or they differ.
        """
        sizes = {self._size(path): path for path in self.segments().values()}
        sizes.pop(0, None)
        if not sizes:
            raise ConfigError(f"no log in {', '.join(self.logs)}")
        if len(sizes) > 1:
            raise ConfigError(f"files of several sizes: {', '.join(sorted(sizes.values()))}")
        return next(iter(sizes))

    def _size(self, path: str) -> int:
        try:
            return self.disk.size(path)
        except DiskFailure:  # it expired meanwhile
            return 0

    def identity(self) -> Identity:
        """Of controller mode; an empty one of a broker that has no such file.

        :raises CorruptStore: the file is not one.
        """
        path = f"{self.root}/brokerIdentity"
        if not self.disk.exists(path):
            return Identity()
        parts = self.disk.read_all(path, ID_BYTES_MAX).decode("utf-8", "replace").split("#")
        if len(parts) != 3 or not (parts[2].isascii() and parts[2].isdigit()):
            raise CorruptStore(path, 0, "not cluster#brokerName#brokerId")
        return Identity(parts[0], parts[1], int(parts[2]))

    def epochs(self, manifest: Manifest) -> tuple[EpochRange, ...]:
        """Of the exported log; none of a broker without controllers.

        :raises CorruptStore: the file and its backup are damaged.
        """
        end = manifest.end
        entries = epoch_file.within(epoch_file.load(self.disk, f"{self.root}/epochFileCheckpoint"), end)
        untils = (*(entry.start_offset for entry in entries[1:]), end)
        return tuple(
            EpochRange(entry.epoch, entry.start_offset, until) for entry, until in zip(entries, untils, strict=False)
        )

    def confirmed(self, end: int, epochs: tuple[EpochRange, ...]) -> int:
        """Up to where nothing is ever cut: with epochs what the checkpoint says, otherwise all."""
        if not epochs:
            return end
        path = f"{self.root}/checkpoint"
        said = checkpoint.load(self.disk, path).confirm_offset if self.disk.exists(path) else 0
        return max(0, min(said, end))

    def small_files(self) -> list[tuple[str, bytes]]:
        """Names and bytes.  Java writes in place: what is half written is passed over for its backup."""
        found = []
        for name in SMALL_FILES:
            for data in atomic_file.candidates(self.disk, f"{self.root}/{name}"):
                if not name.endswith(".json") or _is_json(data):
                    found.append((name, data))
                    break
        return found


@attrs.frozen
class LedgerSource(Source):
    """One store, of a broker on DLedger: its log's entries are in ``dledger-<selfId>``.

    :ivar ledger: that directory.
    :ivar older: directories in which an ordinary broker had its log, whether it had one or not.
    """

    ledger: str = attrs.field(kw_only=True)
    older: tuple[str, ...] = attrs.field(kw_only=True)

    def segments(self) -> dict[int, str]:
        own, before = super().segments(), self._before()
        return {**before, **own} if self._joined(before, own) else own

    def divided(self) -> int:
        own = super().segments()
        return next(iter(own)) if self._joined(self._before(), own) else 0

    def _before(self) -> dict[int, str]:
        return Source(self.disk, self.root, self.older).segments()

    def _joined(self, before: Mapping[int, str], own: Mapping[int, str]) -> bool:
        """Whether one goes on where the other ends."""
        if not before or not own:
            return False
        last = max(before)
        return last + self._size(before[last]) == min(own)

    def epochs(self, manifest: Manifest) -> tuple[EpochRange, ...]:
        """The terms of the entries, which the export has found itself."""
        return manifest.epochs

    def confirmed(self, end: int, epochs: tuple[EpochRange, ...]) -> int:
        """Behind the last entry that the checkpoint says is committed; 0 where it, or its place, is not to be had."""
        for data in atomic_file.candidates(self.disk, f"{self.ledger}/checkpoint"):
            said = _COMMITTED.search(data)
            if said is not None:
                return min(end, self._end_of(int(said[1])))
        return 0

    def _end_of(self, index: int) -> int:
        """Log offset behind an entry, as the index of entries has it."""
        directory, at = f"{self.ledger}/index", index * dledger.UNIT_BYTES
        names = ForeignNames().ours(self.disk, directory, is_number)
        bases = [base for base in (first_offset(directory, name) for name in names) if base <= at]
        if not bases:
            return 0
        file = self.disk.open(f"{directory}/{max(bases):020d}")
        try:
            data = file.read(at - max(bases), dledger.UNIT_BYTES)
        finally:
            file.close()
        if len(data) < dledger.UNIT_BYTES:
            return 0
        unit = dledger.parse_unit(data)
        return unit.position + unit.size if unit.entry_index == index else 0


def found(disk: Disk, root: str, logs: tuple[str, ...] = (), self_id: str = "") -> Source:
    """The store in a directory: DLedger's if that is there, or a message log.

    :param logs: directories of the message log, where they are not in ``root``; with ``self_id`` of the one that
        DLedger went on with, else it is a message log.
    :param self_id: dLegerSelfId, where several members keep their data in one directory.
    :raises ConfigError: it is neither, or of several members.
    """
    ledgers = [name for name in disk.list(root) if name.startswith(LEDGER) and disk.is_dir(f"{root}/{name}/data")]
    if self_id:
        ledgers = [name for name in ledgers if name == LEDGER + self_id]
        if not ledgers:
            raise ConfigError(f"no data of DLedger in {root}/{LEDGER}{self_id}")
    if not self_id and (logs or not ledgers):
        return Source(disk, root, logs or (f"{root}/commitlog",))
    if len(ledgers) > 1:
        raise ConfigError(f"{root} has data of several members of DLedger: {', '.join(sorted(ledgers))}; say which")
    ledger = f"{root}/{ledgers[0]}"
    return LedgerSource(disk, root, (f"{ledger}/data",), DLEDGER, ledger=ledger, older=logs or (f"{root}/commitlog",))


def _is_json(data: bytes) -> bool:
    try:
        loads(data, FILE_BYTES_MAX)
    except RemoteProtocolError:
        return False
    return True
