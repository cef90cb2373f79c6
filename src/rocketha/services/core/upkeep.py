"""What a broker does once a second: statistics, silent clients, tables and files.

Java: the scheduled tasks of ``BrokerController.initializeBrokerScheduledTasks`` and ``DefaultMessageStore``.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.broker import effects as wanted
from rocketha.errors import DiskFailure
from rocketha.observe import events
from rocketha.observe.logging import emit, make_logger
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.core.effects import BrokerEffects
from rocketha.services.core.parts import BrokerParts
from rocketha.services.waiting.blocking import BlockingWork, Underway, exception_of
from rocketha.store.config import HOUR
from rocketha.store.expiry import Filling
from rocketha.store.upkeep import Upkeep


def emit_disk_notices(log: Any, upkeep: Upkeep) -> None:
    """Log what has not been logged yet."""
    for notice in upkeep.notices():
        if isinstance(notice, Filling):
            emit(log, events.DiskFilling(notice.path, notice.used_ratio, notice.consequence))
        else:
            reason = f"the disk is {notice.used_ratio:.0%} full"
            emit(
                log,
                events.LogExpiredEarly(notice.path, notice.age_ms / HOUR, notice.reserved_ms / HOUR, reason),
            )


CLIENTS_EVERY_S = 10


class BrokerUpkeep:
    """Of one broker.

    :ivar paused: no job of the store is begun: its log is about to be cut.
    """

    def __init__(self, config: BrokerConfig, parts: BrokerParts, effects: BrokerEffects, work: BlockingWork) -> None:
        self.paused = False
        self._config = config
        self._state = parts.state
        self._store = parts.store
        self._files = parts.files
        self._effects = effects
        self._work = work
        self._jobs = Underway()
        self._seconds_run = 0
        self._log = make_logger()

    def second(self, now_ms: int) -> None:
        """A second has passed."""
        state = self._state
        self._seconds_run += 1
        state.stats.sample(now_ms)
        if self._seconds_run % CLIENTS_EVERY_S == 0:
            closing, changes = state.clients.expire(now_ms)
            for change in changes:
                state.notify(change)
            for connection_id in closing:
                state.effects.append(wanted.CloseConnection(connection_id, "no heartbeat for 120 s"))
            state.locks.expire(now_ms)
        if state.effects:
            self._effects.carry_out()
        for which in ("topics", "groups", "deleted"):  # what the disk refused is tried again
            self._files[which].begin()
        if self._seconds_run % max(1, self._config.flush_consumer_offset_interval // 1000) == 0:
            self._files["offsets"].begin()
            self._files["delays"].begin()
        if not self.paused:
            for job in self._store.maintenance(now_ms, state.wall_ms()):
                self._run(job)
            emit_disk_notices(self._log, self._store.upkeep)

    def _run(self, job: Any) -> None:
        def done(result: Any) -> None:
            failure = exception_of(result)
            self._store.finished(job, failure)
            if isinstance(failure, DiskFailure):
                emit(self._log, events.DiskFailed(failure.path, failure.operation, failure.message))
            elif isinstance(result, Failure):
                self._log.error("{kind}: {trace}", kind=job.kind, trace=result.getTraceback())

        self._jobs.add(self._work.run(job.run).addBoth(done))

    def idle(self) -> defer.Deferred[None]:
        """Fires when none of its jobs is under way."""
        return self._jobs.idle()
