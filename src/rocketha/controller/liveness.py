"""Which brokers this controller hears: the heartbeat table.

Must not know a socket, a clock or who leads.  Each controller has a table of its own, because brokers send 904 to all
of them; it is in no log except as evidence of an election.

Theory of operation.  A heartbeat holds for the time that the broker announced in it (10 s where it announced none), or
for the controller's own lease where that is shorter.  On one connection the epoch and the offset only move forward; a
heartbeat that comes by another connection is taken as it is, since the broker may have come back with an empty disk.
The table does not decide that anybody is dead: :mod:`rocketha.controller.failure_detector` does, and says so by
:meth:`died`.  A port that answered a probe counts as a sign of life (:meth:`proved`), but not as a heartbeat.

Each connection has its *rhythm*: the usual gap between two heartbeats, and how late they came of late.  A broker on a
busy machine, whose heartbeats come now and then half a second late, is given longer before its silence means anything
(:meth:`silent`); one that was punctual is not.  A fixed limit must be long enough for the worst of them all.  (The idea
of an accrual detector: Hayashibara et al., "The phi accrual failure detector", 2004; here with two numbers a broker.)

All times are milliseconds of *attended* time: while this process stood still nobody could be heard, so nobody is blamed
for that time, and who gives the times takes it out.

Java: ``DefaultBrokerHeartbeatManager``, ``BrokerLiveInfo``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import attrs

TIMEOUT_MS = 10_000
"""How long a heartbeat holds that does not say."""

REPLICAS_MAX = 200_000
"""Most replicas in the table; a heartbeat of one more takes the place of the one heard longest ago."""

PRIORITY_LOWEST = 2**31 - 1

PATIENCE = 2
"""A heartbeat's lateness counts so often in the patience with its broker, which is at most so many times the least."""

_MARGIN = 5  # a heartbeat may be late by a fifth of the usual gap without having been late before
_NEW_RHYTHM = 3  # so many gaps make one
_FADE = 8  # a gap moves the usual one by an eighth; with each punctual heartbeat an eighth of the lateness is forgotten
_NEVER_MS = -(10**15)


class ReplicaKey(NamedTuple):
    """One broker process of one set: clusters may have sets of the same name (regression B5)."""

    cluster: str
    broker_name: str
    broker_id: int

    def __str__(self) -> str:
        return f"{self.cluster}/{self.broker_name}:{self.broker_id}"


class Heartbeat(NamedTuple):
    """What a broker says of itself in a 904.

    :ivar max_offset: end of its commit log, bytes.
    :ivar timeout_ms: how long the controller may believe it alive.
    :ivar priority: the smaller wins an election.
    :ivar confirms: once elected it acknowledges nothing before the controller confirmed its role (not Java's).
    """

    address: str
    epoch: int = -1
    max_offset: int = -1
    confirm_offset: int = -1
    timeout_ms: int = TIMEOUT_MS
    priority: int = PRIORITY_LOWEST
    confirms: bool = False


@attrs.define(slots=True)
class _Rhythm:
    """Of the heartbeats of one connection: their usual gap (0: not known yet) and how late they came, fading."""

    usual_ms: int = 0
    late_ms: int = 0
    _gaps: int = 0  # seen, while they are few
    _early: int = 0  # in a row

    def beat(self, gap_ms: int) -> None:
        """One more came, so long after the one before it.

        One out of turn (a change of role) says nothing, nor do the first ones: a registration's, then those in turn.
        """
        usual_ms = self.usual_ms
        if self._gaps < _NEW_RHYTHM:
            self._gaps += 1
            self.usual_ms = max(usual_ms, gap_ms)
        elif 2 * gap_ms >= usual_ms:
            self._early = 0
            self.late_ms = max(min(gap_ms - usual_ms, usual_ms), self.late_ms - self.late_ms // _FADE)
            self.usual_ms += (gap_ms - usual_ms) // _FADE
        else:
            self._early += 1
            if self._early == _NEW_RHYTHM:
                self.usual_ms, self._early = gap_ms, 0

    def patience_ms(self, least_ms: int) -> int:
        """How long its next heartbeat may take: from ``least_ms`` to :data:`PATIENCE` times as long."""
        wanted = self.usual_ms + PATIENCE * self.late_ms + self.usual_ms // _MARGIN
        return max(least_ms, min(wanted, PATIENCE * least_ms))


@attrs.define(slots=True)
class _Entry:
    """``connection`` None: the one by which the last heartbeat came is closed.  ``dead``: proven, until it is heard.
    ``host``: the one that it spoke from, empty where that is not known.
    """

    last: Heartbeat
    connection: int | None
    heard_ms: int
    proved_ms: int
    dead: bool = False
    rhythm: _Rhythm = attrs.Factory(_Rhythm)
    host: str = ""


class Liveness:
    """The table.

    :param lease_ms: a heartbeat holds no longer than this, whatever it announces; 0 is no such limit.
    :param held_ms: who was heard so lately, by a connection that is open, gives neither its id nor its address away.
    """

    def __init__(self, lease_ms: int = 0, replicas_max: int = REPLICAS_MAX, held_ms: int = 0) -> None:
        self._lease_ms = lease_ms
        self._held_ms = held_ms
        self._replicas_max = replicas_max
        # Invariant: ordered by heard_ms, the one heard longest ago first.
        self._entries: dict[ReplicaKey, _Entry] = {}
        # Those that ran out long ago, and those known by their port only: out of the way of silent().
        self._lost: dict[ReplicaKey, _Entry] = {}
        # Invariant: a key is in the set of the connection that its entry names, and in no other.
        self._by_connection: dict[int, set[ReplicaKey]] = {}
        # Who is heard to live at an address.  Invariant: that is the address of its last heartbeat.
        self._by_address: dict[str, ReplicaKey] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ReplicaKey]:
        return iter(self._entries)

    # -- what is heard --------------------------------------------------------------------------------------------

    def heard(self, key: ReplicaKey, beat: Heartbeat, connection: int, now_ms: int) -> None:
        """A heartbeat came."""
        entry = self._entries.pop(key, None)
        if entry is None:
            entry = self._lost.pop(key, None)
        if entry is None:
            if len(self._entries) + len(self._lost) >= self._replicas_max:
                self._forget_one()
            entry = _Entry(beat, None, now_ms, now_ms)
        if entry.last.address != beat.address:
            self._move_out(key, entry)
        there = self._by_address.get(beat.address, key)
        if there == key or not self.held(there, connection, now_ms):
            self._by_address[beat.address] = key
        if entry.connection == connection:
            entry.last = _forward(entry.last, beat)
            if not entry.dead:
                entry.rhythm.beat(now_ms - entry.heard_ms)
        else:
            self._leave(key, entry)
            entry.rhythm = _Rhythm()
            entry.last, entry.connection = beat, connection
            self._by_connection.setdefault(connection, set()).add(key)
        entry.heard_ms = entry.proved_ms = now_ms
        entry.dead = False
        self._entries[key] = entry

    def proved(self, key: ReplicaKey, now_ms: int) -> None:
        """Its own port answered a probe: it is alive although its heartbeats do not come."""
        entry = self._find(key) or self._unheard(key)
        entry.proved_ms = max(entry.proved_ms, now_ms)
        entry.dead = False

    def came_from(self, key: ReplicaKey, host: str) -> None:
        """What it said, a heartbeat or a registration, came by a connection from this host."""
        (self._find(key) or self._unheard(key)).host = host

    def died(self, key: ReplicaKey) -> None:
        """It is known to be dead, whatever its last heartbeat announced."""
        entry = self._find(key)
        if entry is not None:
            entry.dead = True

    def moved(self, key: ReplicaKey) -> None:
        """It is known to be gone from where it was: the connection by which it was heard speaks for it no more."""
        entry = self._find(key)
        if entry is not None:
            self._leave(key, entry)
            entry.connection = None

    def connection_lost(self, connection: int) -> tuple[ReplicaKey, ...]:
        """A connection ended; the replicas whose last heartbeat came by it, sorted."""
        keys = self._by_connection.pop(connection, set())
        for key in sorted(keys):
            entry = self._find(key)
            if entry is not None:
                entry.connection = None
        return tuple(sorted(keys))

    def by_connection(self, connection: int) -> tuple[ReplicaKey, ...]:
        """The replicas whose last heartbeat came by a connection, sorted."""
        return tuple(sorted(self._by_connection.get(connection, ())))

    # -- what is known --------------------------------------------------------------------------------------------

    def alive(self, key: ReplicaKey, now_ms: int) -> bool:
        """Whether it was heard, or its port answered, within the time that its last heartbeat holds."""
        entry = self._find(key)
        if entry is None or entry.dead:
            return False
        return now_ms <= max(entry.heard_ms, entry.proved_ms) + self.holds_ms(key)

    def held(self, key: ReplicaKey, connection: int, now_ms: int, host: str = "") -> bool:
        """Whether it is heard by another connection than this one, which is open, in its turn.

        A broker that makes a new connection has closed the old one, or says nothing by it any more.  While that is
        open, silent and not older than its lease, the new one must come from the same host, as after a partition, or
        the broker's own port must have answered since: anybody can send heartbeats in the name of one that is frozen,
        and have it taken for alive.

        :param host: where this connection comes from.
        """
        entry = self._find(key)
        if entry is None or entry.connection in (None, connection):
            return False
        age_ms = now_ms - entry.heard_ms
        if not entry.dead and age_ms < self._held_ms:
            return True
        if not self._held_ms or (host and host == entry.host):
            return False
        return entry.proved_ms <= entry.heard_ms and age_ms <= self.holds_ms(key)

    def host(self, key: ReplicaKey) -> str:
        """Where it spoke from; empty where that is not known."""
        entry = self._find(key)
        return "" if entry is None else entry.host

    def last(self, key: ReplicaKey) -> Heartbeat | None:
        """Its newest heartbeat, however old."""
        entry = self._find(key)
        return None if entry is None or entry.heard_ms == _NEVER_MS else entry.last

    def holds_ms(self, key: ReplicaKey) -> int:
        """How long its last heartbeat holds; of one never heard, how long to wait for the first."""
        entry = self._find(key)
        announced = TIMEOUT_MS if entry is None else entry.last.timeout_ms
        return min(announced, self._lease_ms) if self._lease_ms else announced

    def left_ms(self, key: ReplicaKey, now_ms: int) -> int:
        """Until it is not alive any more if nothing comes from it; of one that is not, how long a heartbeat holds."""
        entry, holds_ms = self._find(key), self.holds_ms(key)
        if entry is None or entry.dead:
            return holds_ms
        left_ms = max(entry.heard_ms, entry.proved_ms) + holds_ms - now_ms
        return left_ms + 1 if left_ms >= 0 else holds_ms

    def age_ms(self, key: ReplicaKey, now_ms: int) -> int | None:
        """Since its last heartbeat; None where there was none."""
        entry = self._find(key)
        return None if entry is None or entry.heard_ms == _NEVER_MS else now_ms - entry.heard_ms

    def in_turn_ms(self, key: ReplicaKey) -> int:
        """How old its last heartbeat may be while they come as they usually do; 0 where that is not known yet."""
        entry = self._find(key)
        return 0 if entry is None else entry.rhythm.usual_ms + entry.rhythm.late_ms

    def at(self, address: str, now_ms: int) -> ReplicaKey | None:
        """Who is heard to live at ``host:port``; None for nobody.

        Addresses are given to others, as those of containers are: what a dead broker's port says is then another's
        word, and what is sent there is for another to read.
        """
        key = self._by_address.get(address)
        return key if key is not None and self.alive(key, now_ms) else None

    def taken(self, address: str | None, key: ReplicaKey, now_ms: int) -> bool:
        """Whether another than ``key`` is heard to live at its address."""
        return self.at(address or "", now_ms) not in (None, key)

    def connected(self, key: ReplicaKey) -> bool:
        """Whether the connection of its last heartbeat is open."""
        entry = self._find(key)
        return entry is not None and entry.connection is not None

    def unheard(self, key: ReplicaKey, for_ms: int, now_ms: int) -> bool:
        """Whether nothing came from it for longer than this, or the connection of its last heartbeat is closed."""
        age_ms = self.age_ms(key, now_ms)
        return age_ms is None or age_ms > for_ms or not self.connected(key)

    def silent(self, least_ms: int, now_ms: int) -> list[ReplicaKey]:
        """Those whose next heartbeat is overdue, oldest first, up to those that ran out: they are set aside here.

        :param least_ms: what a punctual broker is given; one that was late of late up to :data:`PATIENCE` times that.
        """
        found, ran_out = [], []
        for key, entry in self._entries.items():
            age_ms = now_ms - entry.heard_ms
            if age_ms <= least_ms:
                break
            gone = age_ms > 2 * self.holds_ms(key)
            if gone:
                ran_out.append(key)
            if gone or age_ms > entry.rhythm.patience_ms(least_ms):
                found.append(key)
        for key in ran_out:
            self._lost[key] = self._entries.pop(key)
        return found

    def forget(self, key: ReplicaKey) -> None:
        """It is no replica any more (its metadata was cleaned)."""
        entry = self._entries.pop(key, None) or self._lost.pop(key, None)
        if entry is not None:
            self._leave(key, entry)
            self._move_out(key, entry)

    # -- within ---------------------------------------------------------------------------------------------------

    def _find(self, key: ReplicaKey) -> _Entry | None:
        return self._entries.get(key) or self._lost.get(key)

    def _unheard(self, key: ReplicaKey) -> _Entry:
        """An entry for one that sent no heartbeat yet."""
        if len(self._entries) + len(self._lost) >= self._replicas_max:
            self._forget_one()
        entry = self._lost[key] = _Entry(Heartbeat(""), None, _NEVER_MS, _NEVER_MS)
        return entry

    def _leave(self, key: ReplicaKey, entry: _Entry) -> None:
        if entry.connection is not None:
            keys = self._by_connection.get(entry.connection, set())
            keys.discard(key)
            if not keys:
                self._by_connection.pop(entry.connection, None)

    def _move_out(self, key: ReplicaKey, entry: _Entry) -> None:
        if self._by_address.get(entry.last.address) == key:
            del self._by_address[entry.last.address]

    def _forget_one(self) -> None:
        for table in (self._lost, self._entries):
            for key in table:
                self.forget(key)
                return


def _forward(old: Heartbeat, new: Heartbeat) -> Heartbeat:
    """The new heartbeat, but an epoch and offsets that only move forward."""
    if new.epoch > old.epoch or (new.epoch == old.epoch and new.max_offset >= old.max_offset):
        return new
    return new._replace(epoch=old.epoch, max_offset=old.max_offset, confirm_offset=old.confirm_offset)
