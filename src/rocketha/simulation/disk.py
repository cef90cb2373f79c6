"""A host's disk: a :class:`MemoryDisk` whose operations take time, and where a process may die at any of them.

Theory of operation.  Every sync costs simulated time, more on a slow disk.  Asked for on the reactor, it keeps the
process busy so long; asked for in :class:`SimulatedWork`, the result comes so much later, and whether the call itself
happened at the beginning or at the end of that time is left to chance, because a real thread may do either.  When the
disk gets faster, the rest of both takes less.  Lost and torn writes, errors and the full disk are those of
:class:`MemoryDisk`.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.simulation.scheduler import Delay, Owner, ProcessDied, Scheduler
from rocketha.store.memory_disk import SECTOR, MemoryDisk

T = TypeVar("T")

SYNC_S = 0.0005
"""What a sync takes at least; up to three times that by chance."""


class SimulatedDisk(MemoryDisk):
    """See the module.

    :ivar read_s: what a read of the commit log takes that is not in memory (``cached`` False).
    :ivar spent_s: time taken by the operations since somebody looked.
    :ivar die_at: the process dies at the so-maniest operation from now; 0 for never.
    :ivar died: called then.
    :ivar hastened: called when the disk gets faster, with the share of its time that what is under way takes now.
    :ivar gone: whoever asks for something is dead: what a Deferred, which stops any exception, has gone on with.
    :ivar syncs: how many were asked for.
    """

    def __init__(self, chance: random.Random, tear_bytes: int = SECTOR) -> None:
        super().__init__(chance, tear_bytes)
        self._slow = 1.0
        self.read_s = 0.0
        self.spent_s = 0.0
        self.die_at = 0
        self.gone = False
        self.syncs = 0
        self.broken = False
        self.died: Callable[[], None] = lambda: None
        self.hastened: Callable[[float], None] = lambda share: None

    @property
    def slow(self) -> float:
        """What a sync's time is multiplied with, and a read's."""
        return self._slow

    @slow.setter
    def slow(self, slow: float) -> None:
        """What is under way takes less of its rest if this is less than before."""
        before, self._slow = self._slow, slow
        if slow < before:
            self.hastened(slow / before)

    def step(self, path: str, operation: str, opens: bool = False) -> None:
        if self.gone:
            raise ProcessDied(f"before {operation} of {path}")
        if self.die_at:
            self.die_at -= 1
            if not self.die_at:
                self.died()
                raise ProcessDied(f"at {operation} of {path}")
        if operation == "sync":
            self.syncs += 1
            self.spent_s += self.sync_s()
        super().step(path, operation, opens)

    def stale(self, path: str, operation: str) -> BaseException:
        return ProcessDied(f"before {operation} of {path}") if self.gone else super().stale(path, operation)

    def waited_for(self, path: str) -> None:
        if "/commitlog/" in path:
            self.spent_s += self.read_s * self.slow

    def sync_s(self) -> float:
        """How long a sync takes now."""
        return SYNC_S * (1.0 + 2.0 * self.random.random()) * self.slow

    def take_spent_s(self) -> float:
        """Time taken since the last call."""
        spent, self.spent_s = self.spent_s, 0.0
        return spent


class SimulatedWork:
    """One thread of a process: :class:`rocketha.services.waiting.blocking.BlockingWork`.

    :ivar busy: the call that it is in.
    """

    def __init__(self, scheduler: Scheduler, owner: Owner, disk: SimulatedDisk, chance: random.Random) -> None:
        self.busy = Delay(scheduler, owner)
        self._disk = disk
        self._random = chance
        self._queue: collections.deque[tuple[Callable[[], Any], defer.Deferred[Any]]] = collections.deque()

    def start(self) -> None:
        """Nothing to start."""

    def run(self, call: Callable[[], T]) -> defer.Deferred[T]:
        result: defer.Deferred[T] = defer.Deferred()
        self._queue.append((call, result))
        if not self.busy.under_way:
            self._next()
        return result

    def _next(self) -> None:
        call, result = self._queue.popleft()
        if self._random.random() < 0.5:
            outcome, took_s = self._do(call)
            self.busy.begin(took_s, lambda: self._done(result, outcome))
        else:
            self.busy.begin(self._disk.sync_s(), lambda: self._done(result, self._do(call)[0]))

    def _do(self, call: Callable[[], Any]) -> tuple[Any, float]:
        """The call's outcome, and the disk's time for it; that is not the reactor's time."""
        before = self._disk.take_spent_s()
        try:
            outcome: Any = call()
        except ProcessDied:
            raise
        except Exception:
            outcome = Failure()
        took_s = self._disk.take_spent_s()
        self._disk.spent_s = before
        return outcome, took_s

    def _done(self, result: defer.Deferred[Any], outcome: Any) -> None:
        if self._queue:
            self._next()
        result.callback(outcome)

    def stop(self) -> None:
        """Finish what was given."""
        while self._queue:
            call, result = self._queue.popleft()
            outcome, _ = self._do(call)
            result.callback(outcome)
