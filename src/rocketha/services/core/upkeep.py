"""What is done once a second to the files of a store, and to those of a broker's tables.

Java: the scheduled tasks of ``BrokerController.initializeBrokerScheduledTasks`` and ``DefaultMessageStore``.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.broker.delay_levels import ClockSteps
from rocketha.observe import events
from rocketha.observe.logging import emit, emit_disk_failure, make_logger
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.core.effects import BrokerEffects
from rocketha.services.core.parts import BrokerParts
from rocketha.services.waiting.blocking import BlockingWork, Underway, exception_of
from rocketha.store.config import HOUR
from rocketha.store.expiry import Filling
from rocketha.store.jobs import Job
from rocketha.store.message_store import MessageStore

CLOCK_STEP_MS = 1000
"""Less is what a time server corrects."""


class StoreUpkeep:
    """The jobs of one store: syncs of its indexes, expired files.

    :ivar paused: none is begun: the log is about to be cut.
    """

    def __init__(self, store: MessageStore, work: BlockingWork) -> None:
        self.paused = False
        self._store = store
        self._work = work
        self._jobs = Underway()
        self._clock = ClockSteps()
        self._log = make_logger()

    def second(self, now_ms: int, wall_ms: int) -> None:
        """A second has passed."""
        stepped_ms = self._clock.stepped_ms(now_ms, wall_ms)
        if abs(stepped_ms) >= CLOCK_STEP_MS:
            emit(self._log, events.ClockStepped(stepped_ms / 1000))
        if self.paused:
            return
        for job in self._store.maintenance(now_ms, wall_ms):
            self._jobs.add(self._work.run(job.run).addBoth(self._done, job))
        for notice in self._store.upkeep.notices():
            if isinstance(notice, Filling):
                emit(self._log, events.DiskFilling(notice.path, notice.used_ratio, notice.consequence))
            else:
                reason = f"the disk is {notice.used_ratio:.0%} full"
                age_h, reserved_h = notice.age_ms / HOUR, notice.reserved_ms / HOUR
                emit(self._log, events.LogExpiredEarly(notice.path, age_h, reserved_h, reason))

    def _done(self, result: Any, job: Job) -> None:
        failure = exception_of(result)
        self._store.finished(job, failure)
        if not emit_disk_failure(self._log, failure) and isinstance(result, Failure):
            self._log.error("{kind}: {trace}", kind=job.kind, trace=result.getTraceback())

    def idle(self) -> defer.Deferred[None]:
        """Fires when none of its jobs is under way."""
        return self._jobs.idle()


class BrokerUpkeep:
    """Of one broker.

    :ivar store: of its files.
    """

    def __init__(self, config: BrokerConfig, parts: BrokerParts, effects: BrokerEffects, work: BlockingWork) -> None:
        self.store = StoreUpkeep(parts.store, work)
        self._config = config
        self._state = parts.state
        self._files = parts.files
        self._effects = effects
        self._seconds_run = 0

    def second(self, now_ms: int) -> None:
        """A second has passed."""
        self._seconds_run += 1
        if self._state.effects:
            self._effects.carry_out()
        for which in ("topics", "groups", "deleted"):  # what the disk refused is tried again
            self._files[which].begin()
        if self._seconds_run % max(1, self._config.flush_consumer_offset_interval // 1000) == 0:
            self._files["offsets"].begin()
            self._files["delays"].begin()
        self.store.second(now_ms, self._state.wall_ms())
