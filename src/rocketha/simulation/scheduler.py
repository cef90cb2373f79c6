"""True time and what happens in it: one heap of events for all simulated hosts.

Knows nothing of networks or services.  Theory of operation: an event is a call, the moment it is due, and the process
it belongs to (or none: the world itself).  Events at one moment run in the order they were made, so a run depends on
nothing but its seed.  A process that is frozen keeps its events until it thaws; one that is busy (a blocking disk call
on its reactor) gets them when it is done, which may be sooner than it seemed; one that is dead never gets them.  After
each event, what transports have collected to say leaves: that is the end of a reactor turn, and of its blocking calls.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable
from typing import Any

from twisted.python.failure import Failure


class ProcessDied(BaseException):
    """Unwinds the code of a simulated process that dies in the middle of it; no ``except Exception`` may stop that."""


class Delay:
    """Something takes true time, and may be over sooner than it seemed: a blocking call, one at a time.

    :ivar under_way: whether it is not over yet.
    """

    __slots__ = ("_of", "_over", "_scheduler", "_until", "under_way")

    def __init__(self, scheduler: Scheduler, of: Owner | None) -> None:
        self._scheduler = scheduler
        self._of = of
        self._over: Callable[[], None] = lambda: None
        self._until = 0.0
        self.under_way = False

    def begin(self, for_s: float, over: Callable[[], None]) -> None:
        """It takes so long from now; `over` is called then."""
        self.under_way = True
        self._over = over
        self._until = self._scheduler.now + for_s
        self._scheduler.at(self._until, self._of, self._due)

    def hasten(self, share: float) -> None:
        """It takes only this share (below 1) of what it still had to."""
        left_s = self._until - self._scheduler.now
        if self.under_way and left_s > 0.0:
            self.begin(left_s * share, self._over)

    def _due(self) -> None:
        """It is over, unless that was before, or another one has begun since: then this is not its event."""
        if self.under_way and self._until <= self._scheduler.now:
            self.under_way = False
            self._over()


class Owner:
    """Whose events they are: a process.

    :ivar dead: its events never run.
    :ivar frozen: its events wait.
    :ivar busy: the blocking call that its one thread is in.
    :ivar meter: whose ``spent_s`` (seconds of blocking calls in an event) makes it busy; None for none.
    :ivar waiting: its events that came due while it was frozen or busy.
    :ivar unsaid: calls that its kernel makes, dead or alive, when it is not busy any more.
    """

    __slots__ = ("busy", "dead", "frozen", "meter", "name", "unsaid", "waiting")

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.name = name
        self.dead = False
        self.frozen = False
        self.busy = Delay(scheduler, None)
        self.meter: Any = None
        self.waiting: list[tuple[int, Callable[..., None], tuple[Any, ...]]] = []
        self.unsaid: list[tuple[Callable[..., None], tuple[Any, ...]]] = []


_Entry = tuple[float, int, Owner | None, Callable[..., None], tuple[Any, ...]]


class Scheduler:
    """The heap.

    :ivar now: true time in seconds since the run's beginning.
    :ivar events: how many have run.
    :ivar unflushed: transports with something to say at the end of this event.
    :ivar failures: exceptions that no code caught, with the process they are of.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self.unflushed: list[Any] = []
        self.failures: list[tuple[float, str, Failure]] = []
        self.on_failure: Callable[[str, Failure], None] | None = None
        self._heap: list[_Entry] = []
        self._sequence = 0
        self._stopped = False

    def at(self, when: float, owner: Owner | None, call: Callable[..., None], *args: Any) -> None:
        """Run ``call(*args)`` at a true time, not before now."""
        self._sequence = sequence = self._sequence + 1
        heapq.heappush(self._heap, (when if when > self.now else self.now, sequence, owner, call, args))

    def after(self, delay_s: float, owner: Owner | None, call: Callable[..., None], *args: Any) -> None:
        """Run ``call(*args)`` some seconds of true time from now."""
        self.at(self.now + delay_s, owner, call, *args)

    def thaw(self, owner: Owner) -> None:
        """Let a frozen process have what it missed, in order."""
        owner.frozen = False
        self._go_on(owner)

    def when_free(self, owner: Owner, call: Callable[..., None], *args: Any) -> None:
        """Run ``call(*args)`` now, or at the end of the process's blocking call."""
        if owner.busy.under_way:
            owner.unsaid.append((call, args))
        else:
            call(*args)

    def _free(self, owner: Owner) -> None:
        """Its blocking call is over."""
        unsaid, owner.unsaid = owner.unsaid, []
        for call, args in unsaid:
            call(*args)
        self._go_on(owner)

    def _go_on(self, owner: Owner) -> None:
        """It gets what it missed, if nothing holds it any more."""
        if not owner.frozen and not owner.busy.under_way:
            waiting, owner.waiting = owner.waiting, []
            for sequence, call, args in waiting:
                heapq.heappush(self._heap, (self.now, sequence, owner, call, args))

    def stop(self) -> None:
        """End :meth:`run` after the present event."""
        self._stopped = True

    def run(self, until: float) -> None:
        """Run what is due up to and including a true time; it is that time afterwards, unless stopped."""
        heap, self._stopped = self._heap, False
        pop = heapq.heappop
        while heap and heap[0][0] <= until and not self._stopped:
            when, sequence, owner, call, args = pop(heap)
            self.now = when
            if owner is not None:
                if owner.dead:
                    continue
                if owner.frozen or owner.busy.under_way:
                    owner.waiting.append((sequence, call, args))
                    continue
            self.events += 1
            try:
                call(*args)
            except ProcessDied:
                pass
            except Exception:
                self.failed(owner.name if owner is not None else "world", Failure())
            if owner is not None and owner.meter is not None and owner.meter.spent_s:
                owner.busy.begin(owner.meter.take_spent_s(), functools.partial(self._free, owner))
            if self.unflushed:
                self.flush()
        if not self._stopped:
            self.now = max(self.now, until)

    def flush(self) -> None:
        """The end of a turn: what was written leaves."""
        unflushed, self.unflushed = self.unflushed, []
        for transport in unflushed:
            transport.flush()

    def failed(self, name: str, failure: Failure) -> None:
        """An exception reached the reactor."""
        self.failures.append((self.now, name, failure))
        if self.on_failure is not None:
            self.on_failure(name, failure)

    def pending(self, owner: Owner) -> list[tuple[float, Callable[..., None]]]:
        """What waits for one process: (true time, call), for tests and limits."""
        due = [(when, call) for when, _, whose, call, _ in self._heap if whose is owner]
        return [(self.now, call) for _, call, _ in owner.waiting] + sorted(due, key=lambda entry: entry[0])
