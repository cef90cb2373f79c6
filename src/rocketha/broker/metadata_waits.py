"""Which replicas have which version of the tables, and the answers that wait for them.

Pure.  Must not know how a replica tells its version (:mod:`rocketha.services.replication.metadata_master`).

Theory of operation.  A change of topics or groups by an administrator is answered when every other member of the
SyncStateSet has taken it onto its disk: whichever of them is elected next has the topic (regression F2).  A replica
says with each question what it has.  Two things let an answer go without that, because a cluster must stay usable:

- the member left the set: it cannot be elected;
- the member is connected, and did not ask for so long that it must be a Java broker, which takes the tables in its
  own time.  Who was ever heard of as one of ours is given longer: its question may be late where its link is not.

The wait is bounded, as an administrator's patience is.  Then, and when the term ends, nobody knows whether the change
outlives an election: the answer is an error that says so.  The request can be repeated, and what is there already
waits like what is new.

Invariant of the waiting answers: in the order of both their versions and their deadlines, as tables only go forward
within a term and the bound is one number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import attrs

from rocketha.broker.data_version import DataVersion
from rocketha.wire.remoting import Answer, Command

STRANGER_MS = 5000
"""How long a connected member may be silent at first before it counts as one that does not know our question."""
OURS_MS = 60_000
"""The same for one that knew it: another broker may have been started in its place."""

WAITING_MAX = 4096
"""Answers that wait; a further one is given at once, as Java would."""


class Versions(NamedTuple):
    """How new somebody's tables are: (state version, counter) of topics and of groups."""

    topics: tuple[int, int]
    groups: tuple[int, int]

    @classmethod
    def of(cls, topics: DataVersion | None, groups: DataVersion | None) -> Versions:
        """The versions of two tables; None is older than any."""
        return cls(_pair(topics), _pair(groups))

    def reach(self, other: Versions) -> bool:
        """Whether these tables hold all that those held."""
        return self.topics >= other.topics and self.groups >= other.groups


def _pair(version: DataVersion | None) -> tuple[int, int]:
    return (-1, -1) if version is None else (version.state_version, version.counter)


@attrs.frozen
class WaitingAnswer:
    """The answer to a change, until the replicas have it.

    :ivar command: the head of the request.
    """

    versions: Versions
    deadline_ms: int
    connection: Any
    command: Command
    answer: Answer


class Released(NamedTuple):
    """An answer that goes out now, and the members that lack the change, sorted (none: all have it)."""

    waiting: WaitingAnswer
    lacking: tuple[int, ...]


class MetadataWaits:
    """The replicas and the waiting answers of one master's term; empty while this broker is none.

    :param present: whether a replica's log follows ours at the moment.
    """

    def __init__(self, present: Callable[[int], bool]) -> None:
        self._present = present
        self._first_ms: dict[int, int] = {}  # who is no member -> when this term first heard of it
        self._informed_ms: int | None = None  # when a master of ours first said who is ours
        self._began_ms = 0
        self._heard_ms: dict[int, int] = {}  # broker of ours -> when it asked last, or was heard of; outlives terms
        self._since_ms: dict[int, int] = {}  # member -> when it became one, as far as this term goes
        self._taken: dict[int, Versions] = {}
        self._waiting: deque[WaitingAnswer] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, members: Iterable[int], now_ms: int) -> None:
        """A term begins; what replicas said in another one counts no more."""
        self._taken.clear()
        self._first_ms.clear()
        self._began_ms = now_ms
        self._since_ms = dict.fromkeys(sorted(members), now_ms)

    def members_are(self, members: Iterable[int], now_ms: int) -> None:
        """The other members of the SyncStateSet."""
        self._since_ms = {member: self._since_ms.get(member, now_ms) for member in sorted(members)}

    def end(self) -> list[WaitingAnswer]:
        """The term is over; the answers that were waiting."""
        waiting = list(self._waiting)
        self._waiting.clear()
        self._since_ms.clear()
        self._taken.clear()
        return waiting

    def has(self, member: int, versions: Versions, now_ms: int) -> None:
        """A replica said which tables are on its disk.  A later word wins: a disk may have been replaced."""
        if member in self._since_ms or len(self._taken) < WAITING_MAX:
            self._taken[member] = versions
            self._heard(member, now_ms)

    def heard_of(self, brokers: Iterable[int], now_ms: int) -> None:
        """These are of our make, says one who knows; who is not named in time is not."""
        if self._informed_ms is None:
            self._informed_ms = now_ms
        for broker in brokers:
            self._heard(broker, now_ms)

    def _heard(self, broker: int, now_ms: int) -> None:
        if broker in self._heard_ms or len(self._heard_ms) < WAITING_MAX:
            self._heard_ms[broker] = now_ms

    def ours(self, now_ms: int) -> list[int]:
        """The brokers that asked lately, sorted."""
        return sorted(broker for broker, heard in self._heard_ms.items() if now_ms - heard < OURS_MS)

    def lacking(self, versions: Versions, now_ms: int) -> tuple[int, ...]:
        """The members to wait for until they have these tables, sorted."""
        return tuple(member for member, since in self._since_ms.items() if self._lacks(member, since, versions, now_ms))

    def _lacks(self, member: int, since_ms: int, versions: Versions, now_ms: int) -> bool:
        taken = self._taken.get(member)
        if taken is not None and taken.reach(versions):
            return False
        heard_ms = self._heard_ms.get(member)
        if heard_ms is not None:
            silent = now_ms - max(since_ms, heard_ms) >= OURS_MS
        else:
            told = self._informed_ms is not None and self._began_ms - self._informed_ms >= STRANGER_MS
            silent = told or now_ms - since_ms >= STRANGER_MS
        return not silent or not self._present(member)

    def is_fit(self, replica: int, versions: Versions, now_ms: int) -> bool:
        """Whether a replica may join the set: it has these tables, or is a Java broker.

        Else what was acknowledged before it joined would be gone when it is elected.
        """
        since_ms = self._since_ms.get(replica)
        if since_ms is None:
            if len(self._first_ms) >= WAITING_MAX:
                return False
            since_ms = self._first_ms.setdefault(replica, now_ms)
        return not self._lacks(replica, since_ms, versions, now_ms)

    def add(self, waiting: WaitingAnswer) -> bool:
        """Let an answer wait; False when too many do."""
        if len(self._waiting) >= WAITING_MAX:
            return False
        self._waiting.append(waiting)
        return True

    def forget(self, connection: Any) -> None:
        """Who asked is gone."""
        if self._waiting:
            self._waiting = deque(each for each in self._waiting if each.connection is not connection)

    def released(self, now_ms: int) -> list[Released]:
        """The answers that go out now, in order."""
        released = []
        while self._waiting:
            first = self._waiting[0]
            lacking = self.lacking(first.versions, now_ms)
            if lacking and now_ms < first.deadline_ms:
                break
            released.append(Released(self._waiting.popleft(), lacking))
        return released

    def next_deadline_ms(self) -> int | None:
        """When :meth:`released` has something to say at the latest."""
        return self._waiting[0].deadline_ms if self._waiting else None
