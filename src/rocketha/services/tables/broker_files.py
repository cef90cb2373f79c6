"""The broker's tables as files under config/: loaded at start, saved when they change.

Theory of operation.  A table is written in a thread, from what it was when the write began: the reactor goes on, the
table too.  The thread also makes the text, so that no table is too large for the reactor.  One write of each is under
way at a time.  Whoever wants a change on the disk that came too late for it waits for the next one, which has all
changes until then; so the writes follow the disk and not the changes, and an older text never replaces a newer one.
Whoever waits is told when the table as it was then is on the disk, or that it is not.  After a failure the table is
dirty as before, and is written again when somebody asks; upkeep does every second.

Changes of topics and groups are acknowledged when they are on the disk, because they must outlive a crash then
(:mod:`rocketha.services.tables.waits`).  Consumer offsets and delay progress change all the time and are saved every
few seconds: after a crash a consumer sees some messages again, as with Java.  A damaged file falls back to its
``.bak``; with neither readable the broker refuses to start rather than forget.

Java: ``ConfigManager``, ``MixAll.string2File``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.observe.logging import emit_disk_failure, make_logger
from rocketha.services.waiting.blocking import BlockingWork, Underway, exception_of
from rocketha.store import atomic_file
from rocketha.store.disk import Disk

Saved = defer.Deferred[Exception | None]
"""Fires with None, or with why the disk does not have it; never fails."""


class Table(Protocol):
    """A table with a file."""

    dirty: bool

    def dump_later(self) -> Callable[[], bytes]:
        """What makes, in any thread, the file's text: with all changes so far, perhaps with later ones."""

    def load(self, data: bytes, path: str = ...) -> None:
        """Take over a file's text."""


class Writes(Protocol):
    """Whoever wants to hear of the writes of a file."""

    def write_began(self) -> None:
        """What this one has is fixed: a later change waits for the next."""

    def write_ended(self, failure: Exception | None) -> None:
        """It is on the disk, or failed; called before those that waited for it."""


class TableFile:
    """One table and its file."""

    def __init__(self, disk: Disk, path: str, table: Table, work: BlockingWork, underway: Underway) -> None:
        self._watchers: list[Writes] = []
        self._disk = disk
        self._path = path
        self._table = table
        self._work = work
        self._underway = underway
        self._writing = self._again = False
        self._wait_for_this: list[Saved] = []
        self._wait_for_next: list[Saved] = []
        self._log = make_logger()

    def watch(self, watcher: Writes) -> None:
        """Tell it of all writes from now on."""
        self._watchers.append(watcher)

    def load(self) -> None:
        """Read it, or its backup.

        :raises CorruptStore: neither can be read.
        """
        damage: list[CorruptStore] = []
        for data in atomic_file.candidates(self._disk, self._path):
            try:
                self._table.load(data, self._path)
            except CorruptStore as problem:
                damage.append(problem)
                continue
            for found in damage:
                self._log.warn("{problem}: its backup is used", problem=str(found))
            break
        else:
            if damage:
                raise damage[0]
        self._table.dirty = False

    def begin(self) -> None:
        """Write what changed: now, or as soon as the write under way has ended."""
        if not self._table.dirty:
            return
        if self._writing:
            self._again = True
        else:
            self._write()

    def save(self) -> Saved:
        """The same; fires when the table as it is now is on the disk."""
        if not self._table.dirty and not self._writing:
            return defer.succeed(None)
        saved: Saved = defer.Deferred()
        (self._wait_for_next if self._table.dirty else self._wait_for_this).append(saved)
        self.begin()
        return saved

    def save_blocking(self) -> None:
        """Write what changed in this thread; no write is under way.

        :raises DiskFailure: the file holds what it held; the table stays dirty.
        """
        if self._table.dirty:
            atomic_file.save(self._disk, self._path, self._table.dump_later()())
            self._table.dirty = False

    def _write(self) -> None:
        text = self._table.dump_later()
        self._table.dirty = self._again = False
        self._writing = True
        self._wait_for_this, self._wait_for_next = self._wait_for_next, []
        for watcher in self._watchers:
            watcher.write_began()
        written = self._work.run(lambda: atomic_file.save(self._disk, self._path, text()))
        self._underway.add(written.addBoth(self._written).addErrback(self._crashed))

    def _written(self, result: Any) -> None:
        failure = exception_of(result)
        self._writing = False
        waiting, self._wait_for_this = self._wait_for_this, []
        if failure is not None:
            self._table.dirty = True
            self._complain(result, failure)
        for watcher in self._watchers:
            try:
                watcher.write_ended(failure)
            except Exception:  # those behind it wait for the same
                self._crashed(Failure())
        for saved in waiting:
            saved.callback(failure)
        if self._again and not self._writing:
            self._write()

    def _complain(self, result: Failure, failure: Exception) -> None:
        if not emit_disk_failure(self._log, failure):
            self._log.error("{path}: {trace}", path=self._path, trace=result.getTraceback())

    def _crashed(self, failure: Failure) -> None:
        self._log.error("{path}: {trace}", path=self._path, trace=failure.getTraceback())


class BrokerFiles:
    """The files of one broker.

    :param tables: name of :class:`~rocketha.broker.effects.SaveConfig` to file name and table.
    :param work: where they are written.
    :param read_before: those that the store has read when it was loaded.
    """

    def __init__(
        self,
        disk: Disk,
        root: str,
        tables: Mapping[str, tuple[str, Table]],
        work: BlockingWork,
        read_before: Collection[str] = (),
    ) -> None:
        self._disk = disk
        self._directory = f"{root}/config"
        self._work = work
        self._underway = Underway()
        self._read_before = frozenset(read_before)
        self._files: dict[str, TableFile] = {}
        for which, (name, table) in tables.items():
            self.add(which, name, table)

    def add(self, which: str, name: str, table: Table) -> None:
        """One more, before :meth:`load`."""
        path = f"{self._directory}/{name}"
        self._files[which] = TableFile(self._disk, path, table, self._work, self._underway)

    def __getitem__(self, which: str) -> TableFile:
        return self._files[which]

    def load(self) -> None:
        """Read every file.

        :raises CorruptStore: neither a file nor its backup can be read.
        """
        atomic_file.make_dirs(self._disk, self._directory)
        for which, file in self._files.items():
            if which not in self._read_before:
                file.load()

    def settle(self) -> defer.Deferred[Any]:
        """Fires when all tables as they are now were written, or could not be; not for later changes."""
        return defer.gatherResults([file.save() for file in self._files.values()])

    def save_all_blocking(self) -> None:
        """Write whatever changed in this thread (clean stop), after :meth:`idle`.

        :raises DiskFailure: at the first that fails; the others are tried first.
        """
        failure: DiskFailure | None = None
        for file in self._files.values():
            try:
                file.save_blocking()
            except DiskFailure as problem:
                failure = failure or problem
        if failure is not None:
            raise failure

    def idle(self) -> defer.Deferred[None]:
        """Fires when nothing is being written."""
        return self._underway.idle()
