"""Who waits for a Raft group: for a proposal's outcome, or for a moment to read.

What it must not know: the core, connections, the disk.

Theory of operation.  Proposals of one turn are taken together; each then waits for the entry at its index.  When that
entry is applied and has the proposal's term it is ours, and the state machine's outcome is the answer; with another
term it is somebody else's, and the proposal surely had no effect.  A leader that lost its leadership knows neither yet:
such proposals wait a little, because the next leader usually settles them within milliseconds, and then fail with
:class:`ResultUnknown`.  Reads of one turn share one round, and those that come while one is under way share the next.
Everything ends by a deadline, counted in ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from typing import Protocol as Interface

import attrs
from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.errors import RockethaError
from rocketha.raft.errors import Busy, NotLeader
from rocketha.raft.messages import Entry, ReadState
from rocketha.services.raft.requests import Changes


class Lost(RockethaError):
    """A proposal was taken and its outcome is not known or void.

    :ivar maybe_applied: False if it surely had and will have no effect.
    """

    maybe_applied = True


class ResultUnknown(Lost):
    """This node lost the leadership, no majority stored the entry in time, or this node stops: the proposal may have
    an effect, now or later.
    """


class NotApplied(Lost):
    """Another leader's entry took its place: it had no effect and will have none."""

    maybe_applied = False


class NoMajority(RockethaError):
    """Nobody who could confirm a read answered in time."""


class Waiter(Interface):
    """Who waits for a proposal's outcome: a Deferred, or where there are thousands a second something cheaper.

    One of the two is called, once; it must not raise.
    """

    def callback(self, result: Any) -> Any:
        """The entry was applied, with this outcome."""

    def errback(self, fail: Failure | BaseException) -> Any:
        """It was refused, or its outcome is unknown."""


Waiting = tuple[int, Waiter, int]
"""The term of a proposal's entry, who waits for it, and the tick at which that is given up."""


class Proposals:
    """Proposals on their way.

    :param count_max: proposals that may wait to be given to the core.
    :param bytes_max: their bytes.
    :param one_max: bytes of one.
    :param patience_ticks: how long a proposal may wait for its outcome.
    """

    def __init__(self, count_max: int, bytes_max: int, one_max: int, patience_ticks: int) -> None:
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._one_max = one_max
        self._patience_ticks = patience_ticks
        self._queue: list[tuple[bytes, Waiter, int]] = []  # with the tick at which it is given up
        self._queued_bytes = 0
        # Invariants: an index is in one of the two at most; in each, who was added first is given up first.
        self._waiting: dict[int, Waiting] = {}
        self._orphans: dict[int, Waiting] = {}

    def add(self, data: bytes, tick: int, waiter: Waiter) -> None:
        """Queue one, at a tick.

        :raises Busy: too many are queued, or it is too large.
        """
        if len(data) > self._one_max:
            raise Busy(f"a proposal of {len(data)} bytes: {self._one_max} are allowed")
        if len(self._queue) >= self._count_max or self._queued_bytes + len(data) > self._bytes_max:
            raise Busy(f"{len(self._queue)} proposals of {self._queued_bytes} bytes wait already")
        self._queue.append((data, waiter, tick + self._patience_ticks))
        self._queued_bytes += len(data)

    @property
    def queued(self) -> int:
        """How many were not given to the core yet."""
        return len(self._queue)

    @property
    def waiting(self) -> int:
        """How many wait for their entry."""
        return len(self._waiting) + len(self._orphans)

    def queue(self) -> list[bytes]:
        """What to propose now."""
        return [data for data, _, _ in self._queue]

    def proposed(self, indexes: range, term: int) -> None:
        """The whole queue has become these entries."""
        queue, self._queue = self._queue, []
        self._queued_bytes = 0
        # Of an earlier leadership: their entries are no longer in this log, but may be in others'.
        replaced = [(index, self._orphans.pop(index)) for index in indexes if index in self._orphans]
        for index, (_, waiter, until_tick) in zip(indexes, queue, strict=True):
            self._waiting[index] = (term, waiter, until_tick)
        for index, (_, orphan, _) in replaced:  # last: who hears of it may propose again
            orphan.errback(ResultUnknown(f"entry {index} was replaced here before it was committed"))

    def refuse(self, error: RockethaError) -> None:
        """The queue cannot be proposed."""
        queue, self._queue = self._queue, []
        self._queued_bytes = 0
        for _, waiter, _ in queue:
            waiter.errback(error)

    def office_lost(self, leader_id: str, until_tick: int) -> None:
        """This node leads no more: what is queued is refused, what is on its way may still be settled."""
        for index, (term, waiter, own_tick) in self._waiting.items():
            self._orphans[index] = (term, waiter, min(own_tick, until_tick))
        self._waiting.clear()
        self.refuse(NotLeader(leader_id))

    def applied(self, entries: Sequence[Entry], outcomes: Sequence[object]) -> None:
        """Entries were applied, with these outcomes."""
        if not self._waiting and not self._orphans:
            return
        for entry, outcome in zip(entries, outcomes, strict=True):
            waiter = self._waiting.pop(entry.index, None) or self._orphans.pop(entry.index, None)
            if waiter is None:
                continue
            if waiter[0] == entry.term:
                waiter[1].callback(outcome)
            else:
                waiter[1].errback(NotApplied(f"entry {entry.index} is another leader's"))

    def superseded(self, index: int) -> None:
        """The entry at an index is none that anybody proposed here."""
        waiter = self._waiting.pop(index, None) or self._orphans.pop(index, None)
        if waiter is not None:
            waiter[1].errback(NotApplied(f"entry {index} is another leader's"))

    def skipped_to(self, index: int) -> None:
        """A snapshot replaced everything up to here: what became of each entry in it cannot be said."""
        for group in (self._waiting, self._orphans):
            for each in sorted(each for each in group if each <= index):
                group.pop(each)[1].errback(ResultUnknown(f"entry {each} is inside a snapshot"))

    def expire(self, tick: int) -> None:
        """It is this tick: give up what nobody settled."""
        self._give_up(self._waiting, tick, "no majority stored the entry in time")
        self._give_up(self._orphans, tick, "this node lost the leadership before the entry was committed")
        late = 0
        while late < len(self._queue) and self._queue[late][2] <= tick:
            late += 1
        if late:
            given_up, self._queue = self._queue[:late], self._queue[late:]
            self._queued_bytes -= sum(len(data) for data, _, _ in given_up)
            for _, waiter, _ in given_up:
                waiter.errback(Busy("the log took nothing in time"))

    @staticmethod
    def _give_up(waiting: dict[int, Waiting], tick: int, why: str) -> None:
        late = []
        for index, (_, _, until_tick) in waiting.items():
            if until_tick > tick:
                break
            late.append(index)
        for waiter in [waiting.pop(index)[1] for index in late]:
            waiter.errback(ResultUnknown(why))

    def end(self) -> None:
        """The service stops."""
        self.office_lost("", 0)
        self.expire(1 << 62)


class Barriers:
    """Reads that wait until they may be served.

    An answer to a round confirms the reads of all rounds before it, too.  So a round that is begun because the one
    before it may be lost does not make void what is only slow: between controllers that are far from each other every
    answer comes after the next round was begun.

    :param number: of the first round; numbers of an earlier process must not come again soon.
    :param patience_ticks: how long a read may wait.
    :param again_ticks: how long a round may go unanswered before another one is begun.
    """

    def __init__(self, number: int, patience_ticks: int, again_ticks: int) -> None:
        self._number = number
        self._patience_ticks = patience_ticks
        self._again_ticks = again_ticks
        self._new: list[tuple[int, defer.Deferred[None]]] = []  # (deadline, who)
        # Under way: (number, who asked since the round before), in the order in which they began.
        # Invariant: the first has somebody who waits for it; so patience bounds how many there are.
        self._rounds: list[tuple[int, list[tuple[int, defer.Deferred[None]]]]] = []
        self._round_tick = 0
        self._over: list[int] = []
        self._confirmed: list[tuple[int, list[tuple[int, defer.Deferred[None]]]]] = []  # (index, who)

    def add(self, tick: int) -> defer.Deferred[None]:
        """One more read, at a tick."""
        waiter: defer.Deferred[None] = defer.Deferred()
        self._new.append((tick + self._patience_ticks, waiter))
        return waiter

    def begin(self, tick: int) -> int | None:
        """The number of a round to begin now; None if there is nobody to begin one for, or one is under way."""
        if self._rounds and tick - self._round_tick < self._again_ticks:
            return None
        if not self._new and not self._rounds:
            return None
        self._round_tick = tick
        self._number = (self._number + 1) % (1 << 62)
        self._rounds.append((self._number, self._new))
        self._new = []
        return self._number

    def over(self) -> list[int]:
        """Rounds that nobody waits for any more although they were not answered; each is told once."""
        over, self._over = self._over, []
        return over

    def retry(self) -> None:
        """The round just begun could not be: its reads take part in the next."""
        self.lost([self._number])

    def lost(self, contexts: Sequence[int]) -> None:
        """Rounds that will not be answered: their reads take part in the next that is begun."""
        gone = [waiters for number, waiters in self._rounds if number in contexts]
        if gone:
            self._rounds = [each for each in self._rounds if each[0] not in contexts]
            self._new = [waiter for waiters in gone for waiter in waiters] + self._new
            self._drop_idle()

    def confirmed(self, states: Sequence[ReadState]) -> None:
        """Rounds were answered."""
        for state in states:
            numbers = [number for number, _ in self._rounds]
            if state.context in numbers:
                count = numbers.index(state.context) + 1
                self._over += numbers[: count - 1]
                self._confirmed.append(
                    (state.index, [waiter for _, waiters in self._rounds[:count] for waiter in waiters])
                )
                del self._rounds[:count]
                self._drop_idle()

    def _drop_idle(self) -> None:
        """Forget rounds at the beginning whose answer would confirm nothing."""
        while self._rounds and not self._rounds[0][1]:
            self._over.append(self._rounds.pop(0)[0])

    def applied(self, index: int) -> None:
        """The state machine stands at ``index``."""
        if not self._confirmed:
            return
        due = [waiters for wanted, waiters in self._confirmed if wanted <= index]
        self._confirmed = [each for each in self._confirmed if each[0] > index]
        for waiters in due:
            for _, waiter in waiters:
                waiter.callback(None)

    @property
    def waiting(self) -> int:
        """How many reads wait."""
        groups = (*self._rounds, *self._confirmed)
        return len(self._new) + sum(len(waiters) for _, waiters in groups)

    def expire(self, tick: int, error: RockethaError) -> None:
        """It is this tick: give up what waited too long."""
        late: list[defer.Deferred[None]] = []

        def kept(waiters: list[tuple[int, defer.Deferred[None]]]) -> list[tuple[int, defer.Deferred[None]]]:
            late.extend(waiter for deadline, waiter in waiters if deadline <= tick)
            return [each for each in waiters if each[0] > tick]

        self._new = kept(self._new)
        self._rounds = [(number, kept(waiters)) for number, waiters in self._rounds]
        self._drop_idle()
        self._confirmed = [(index, rest) for index, waiters in self._confirmed if (rest := kept(waiters))]
        for waiter in late:
            waiter.errback(error)


@attrs.frozen
class Waiters:
    """All who wait for something of a member.

    :ivar changes: of the group: its leader, its members.
    """

    proposals: Proposals
    barriers: Barriers
    changes: Changes

    def expire(self, tick: int) -> None:
        """Refuse those whose time is over."""
        self.proposals.expire(tick)
        self.barriers.expire(tick, NoMajority("no majority answered in time"))
        self.changes.expire(tick)

    def end(self, why: str) -> None:
        """Nobody is served any more."""
        self.proposals.end()
        self.barriers.expire(1 << 62, NoMajority(why))
        self.changes.end()
