"""Linearizable reads without entries: from which index on a read is up to date.

Pure.  Theory of operation (thesis 6.4).  A read that is asked at commit index c may be answered once a majority,
asked afterwards, still took this node for the leader of its term.  Reads wait for a *round*: a number sent with
heartbeats and returned by their answers.  All reads of a turn share one round, and one answer confirms all rounds up to
its own.
A new leader does not know the commit index before an entry of its own term is committed: its reads wait for that too.

With ``lease_reads`` a round that a majority answered with a promise also gives a lease, counted from the tick at which
the round was *sent*: they refuse votes for ``election_ticks`` from later on.  Ticks are of real time (``Core.clock``):
a process that is late with its ticks must not take its lease for longer.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

READS_MAX = 65_536
"""Reads waiting at a leader; more are refused."""

ROUNDS_MAX = 1024
"""Rounds not confirmed whose tick is remembered for the lease; a lease is only shorter without."""


class WaitingRead(NamedTuple):
    """A read at the leader: who asked ("" for this node itself), its number there, and the commit index then."""

    origin: str
    context: int
    index: int  # type: ignore[assignment]


class LeaderReads:
    """The reads that wait at a leader.

    :ivar round: the last round sent.
    :ivar confirmed: the last round that a majority answered.
    :ivar unsent: reads wait for a round that is not sent yet.
    :ivar leases: whether rounds give leases.
    :ivar lease_until: the leader's clock at which the lease ends.
    """

    __slots__ = ("_early", "_rounds", "_sent", "_waiting", "confirmed", "lease_until", "leases", "round", "unsent")

    def __init__(self, leases: bool = False) -> None:
        self.leases = leases
        self.round = 0
        self.confirmed = 0
        self.unsent = False
        self.lease_until = 0
        self._early: list[tuple[str, int]] = []  # asked before the leader knew the commit index
        self._waiting: deque[WaitingRead] = deque()
        self._rounds: deque[int] = deque()  # the round each of _waiting needs
        self._sent: deque[tuple[int, int]] = deque()  # (round, clock) not promised, for the lease

    def __len__(self) -> int:
        return len(self._early) + len(self._waiting)

    def ask_early(self, origin: str, context: int) -> None:
        """A read before an entry of the leader's term is committed."""
        self._early.append((origin, context))

    def ask(self, origin: str, context: int, commit: int) -> None:
        """A read at commit index ``commit``: it needs a round that begins after now."""
        self._waiting.append(WaitingRead(origin, context, commit))
        self._rounds.append(self.round + 1)
        self.unsent = True

    def commit_known(self, commit: int) -> None:
        """The first entry of the leader's term is committed."""
        early, self._early = self._early, []
        for origin, context in early:
            self.ask(origin, context, commit)

    def begin_round(self, tick: int) -> int:
        """The number of a round that begins now.

        :param tick: the leader's clock, for the lease.
        """
        self.round += 1
        self.unsent = False
        if self.leases and len(self._sent) < ROUNDS_MAX:
            self._sent.append((self.round, tick))
        return self.round

    def promised(self, round_number: int, lease_ticks: int) -> None:
        """A majority promised with its answers to a round to elect nobody else for so long."""
        while self._sent and self._sent[0][0] <= round_number:
            self.lease_until = max(self.lease_until, self._sent.popleft()[1] + lease_ticks)

    def confirm(self, round_number: int) -> list[WaitingRead]:
        """A majority answered a round; the reads that may be answered now."""
        if round_number <= self.confirmed:
            return []
        self.confirmed = round_number
        answered = []
        while self._rounds and self._rounds[0] <= round_number:
            self._rounds.popleft()
            answered.append(self._waiting.popleft())
        return answered

    def void_lease(self) -> None:
        """What is known of the time is void; rounds under way give no lease either."""
        self.lease_until = 0
        self._sent.clear()

    def end_leases(self) -> None:
        """There is no lease any more, in this term."""
        self.leases = False
        self.void_lease()

    def drop(self) -> list[tuple[str, int]]:
        """The leader steps down: (origin, context) of every read that will not be answered."""
        dropped = self._early + [(read.origin, read.context) for read in self._waiting]
        self._early, self._waiting, self._rounds = [], deque(), deque()
        return dropped
