"""A replica's queues and index are made of its log, in slices, so that nothing else waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketha.errors import DiskFailure
from rocketha.observe.logging import emit_disk_failure, make_logger
from rocketha.services.core.log_changes import LogChanges
from rocketha.store.replica_dispatch import Damage
from rocketha.store.replica_log import ReplicaLog

DISPATCH_BYTES = 64 * 1024
"""Of the log dispatched before other work has its turn: half a millisecond of small messages."""
BEHIND_BYTES = 512
"""The same while more than :data:`DISPATCH_BYTES` arrive between two slices: reads are full.  A replica that is far
behind has the log first and its queues later; in all that takes no longer, and the log is what counts."""


class Dispatching:
    """Of one log.

    :param grown: queues were made longer.
    :param unreadable: told why the log can not be read; it is tried again when there is more.
    :param damaged: told of bytes that are no record: nothing is dispatched before they are cut.
    """

    def __init__(
        self,
        log: ReplicaLog,
        changes: LogChanges,
        reactor: Any,
        grown: Callable[[], None],
        unreadable: Callable[[str], None],
        damaged: Callable[[Damage], None],
    ) -> None:
        self._log = log
        self._changes = changes
        self._reactor = reactor
        self._grown = grown
        self._unreadable = unreadable
        self._damaged = damaged
        self._slice: Any = None
        self._gathers = False  # and it may come earlier
        self._sliced_at = log.end  # where the log ended at the last slice
        self._logger = make_logger()

    def begin(self) -> None:
        """Make queues of what may be dispatched: a slice now, the rest soon."""
        if self._gathers:
            self.stop()
        if self._slice is None and not self._changes.busy and not self._log.store.leads:
            self._run()

    def gather(self, seconds: float) -> None:
        """The same, but together with what comes until then: a message alone costs several times its share of many."""
        if self._slice is None:
            self._slice, self._gathers = self._reactor.callLater(seconds, self._run), True

    def stop(self) -> None:
        """Leave the rest."""
        if self._slice is not None:
            self._slice.cancel()
            self._slice, self._gathers = None, False

    def _run(self) -> None:
        self._slice, self._gathers = None, False
        if self._changes.busy or self._log.store.leads:
            return
        before, end = self._log.dispatched_offset, self._log.end
        behind = end - self._sliced_at > DISPATCH_BYTES
        self._sliced_at = end
        try:
            more = self._log.dispatch(BEHIND_BYTES if behind else DISPATCH_BYTES)
        except DiskFailure as error:
            emit_disk_failure(self._logger, error)
            self._unreadable(f"this replica's log can not be read: {error}")
            return
        damage = self._log.damage
        if damage is not None:
            self._damaged(damage)
        elif more:
            self._slice = self._reactor.callLater(0, self._run)
        if self._log.dispatched_offset > before:
            self._grown()
