"""kvConfig.json: read at the start, replaced by a thread when the table changes.

Theory of operation.  One write is under way at a time.  A table that comes meanwhile waits for its end, and takes the
place of one that waits already: each was made from the one before, so the newest has all their changes.  Whoever waits
hears when a table that has his change is on the disk.  If a write fails, all who wait are told so, also those whose
table was made from the one that is not on the disk: what counts then is the table that is there.

Java: ``KVConfigManager.persist``, in the thread of the request, whose failure is logged and nothing else.
"""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.namesrv.kv_config import KvConfig
from rocketha.observe.logging import emit_disk_failure, make_logger
from rocketha.services.waiting.blocking import BlockingWork, Underway, exception_of
from rocketha.store import atomic_file
from rocketha.store.disk import Disk

Settled = Callable[[Exception | None], None]
"""Told that a table is on the disk, or why it is not."""


class KvConfigFile:
    """The file of one name server.

    :param path: empty: there is none, and a table counts as saved at once.
    :param work: where it is written.
    :param saved: is given each table that is on the disk, and how many waited for it, before those are told.
    :param failed: is called when all that waits is given up, before those are told.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        work: BlockingWork,
        saved: Callable[[KvConfig, int], None],
        failed: Callable[[], None],
    ) -> None:
        self._disk = disk
        self._path = path
        self._work = work
        self._saved = saved
        self._failed = failed
        self._table: KvConfig | None = None  # being written
        self._next: KvConfig | None = None
        self._wait_for_this: list[Settled] = []
        self._wait_for_next: list[Settled] = []
        self._underway = Underway()
        self._log = make_logger()

    def load(self) -> KvConfig:
        """The file's table, or its backup's; an empty one where there is neither.  Blocking.

        :raises CorruptStore: what there is cannot be read.
        """
        found = atomic_file.candidates(self._disk, self._path) if self._path else []
        problems = []
        for data in found:
            try:
                table = KvConfig.decode(data)
            except RemoteProtocolError as damage:
                problems.append(str(damage))
                continue
            for problem in problems:
                self._log.warn("{path} is damaged ({problem}): its backup is used", path=self._path, problem=problem)
            return table
        if problems:
            raise CorruptStore(self._path, 0, f"neither the file nor its backup can be read: {problems[0]}")
        return KvConfig()

    def save(self, table: KvConfig, settled: Settled) -> None:
        """Replace the file by a table that was made from the newest one given before."""
        if not self._path:
            self._saved(table, 1)
            settled(None)
        elif self._table is None:
            self._wait_for_this.append(settled)
            self._write(table)
        elif table is self._table and self._next is None:
            self._wait_for_this.append(settled)
        else:
            self._next = table
            self._wait_for_next.append(settled)

    def idle(self) -> defer.Deferred[None]:
        """Fires when nothing is being written."""
        return self._underway.idle()

    def _write(self, table: KvConfig) -> None:
        self._table = table
        written = self._work.run(functools.partial(self._replace, table))
        self._underway.add(written.addBoth(self._written, table).addErrback(self._crashed))

    def _replace(self, table: KvConfig) -> None:
        """In the thread."""
        atomic_file.make_dirs(self._disk, posixpath.dirname(self._path))
        atomic_file.save(self._disk, self._path, table.encode())

    def _written(self, result: Any, table: KvConfig) -> None:
        failure = exception_of(result)
        waiting, following = self._wait_for_this, self._next
        self._table = self._next = None
        if failure is None:
            self._wait_for_this, self._wait_for_next = self._wait_for_next, []
            self._saved(table, len(waiting))
            if following is not None:
                self._write(following)
        else:
            waiting += self._wait_for_next
            self._wait_for_this, self._wait_for_next = [], []
            self._failed()
            self._complain(result, failure)
        for settled in waiting:
            settled(failure)

    def _complain(self, result: Failure, failure: Exception) -> None:
        if not emit_disk_failure(self._log, failure):
            self._log.failure("kvConfig.json was not written: {log_failure.value}", failure=result)

    def _crashed(self, failure: Failure) -> None:
        self._log.failure("a change of the KV configuration was not answered", failure=failure)
