"""The broker's tables as files under config/: loaded at start, saved when they change.

Theory of operation.  Topics and groups are saved before the answer to the request that changed them, because an
acknowledged topic must outlive a crash.  Consumer offsets and delay progress change all the time and are saved every
few seconds off the reactor: after a crash a consumer sees some messages again, as with Java.  A damaged file falls
back to its ``.bak``; with neither readable the broker refuses to start rather than forget.

Java: ``ConfigManager``, ``MixAll.string2File``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet import defer

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.observe.logging import make_logger
from rocketha.services.blocking import BlockingWork, Underway
from rocketha.store import atomic_file
from rocketha.store.disk import Disk


class Table(Protocol):
    """A table with a file."""

    dirty: bool

    def dump(self) -> bytes:
        """The file's text."""

    def load(self, data: bytes, path: str = ...) -> None:
        """Take over a file's text."""


class BrokerFiles:
    """The files of one broker.

    :param tables: name of :class:`~rocketha.broker.effects.SaveConfig` to file name and table.
    """

    def __init__(self, disk: Disk, root: str, tables: dict[str, tuple[str, Table]]) -> None:
        self._disk = disk
        self._directory = f"{root}/config"
        self._tables = tables
        self._log = make_logger()
        self._saving: set[str] = set()
        self._underway = Underway()

    def load(self) -> None:
        """Read every file.

        :raises CorruptStore: neither a file nor its backup can be read.
        """
        atomic_file.make_dirs(self._disk, self._directory)
        for name, table in self._tables.values():
            path = f"{self._directory}/{name}"
            damage: list[CorruptStore] = []
            for data in atomic_file.candidates(self._disk, path):
                try:
                    table.load(data, path)
                except CorruptStore as problem:
                    damage.append(problem)
                    continue
                for found in damage:
                    self._log.warn("{problem}: its backup is used", problem=str(found))
                break
            else:
                if damage:
                    raise damage[0]
            table.dirty = False

    def save(self, which: str) -> None:
        """Write a table now, if it changed since.

        :raises DiskFailure: the file holds what it held; the table stays dirty.
        """
        name, table = self._tables[which]
        if table.dirty:
            atomic_file.save(self._disk, f"{self._directory}/{name}", table.dump())
            table.dirty = False

    def save_all(self) -> None:
        """Write whatever changed (clean stop).

        :raises DiskFailure: at the first that fails; the others are tried first.
        """
        failure: DiskFailure | None = None
        for which in self._tables:
            try:
                self.save(which)
            except DiskFailure as problem:
                failure = failure or problem
        if failure is not None:
            raise failure

    def save_later(self, which: str, work: BlockingWork) -> None:
        """Write a table off the reactor, if it changed and is not being written."""
        name, table = self._tables[which]
        if not table.dirty or which in self._saving:
            return
        data, path = table.dump(), f"{self._directory}/{name}"
        table.dirty = False

        def done(result: Any) -> None:
            self._saving.discard(which)
            if result is not None:
                table.dirty = True
                self._log.error("{path} could not be saved: {why}", path=path, why=result.getErrorMessage())

        write: Callable[[], None] = lambda: atomic_file.save(self._disk, path, data)  # noqa: E731
        self._saving.add(which)
        self._underway.add(work.run(write).addBoth(done))

    def idle(self) -> defer.Deferred[None]:
        """Fires when nothing is being written."""
        return self._underway.idle()
