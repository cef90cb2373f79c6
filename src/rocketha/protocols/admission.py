"""Who may have one of a server's places: so many connections in all, so many from one address, and a few in reserve.

Loopback addresses may have them all: there every client of this machine has the same one.

Theory of operation.  Places cost whoever takes them nothing, so those who wait for one must not depend on those who
hold one doing something: where all are taken, somebody leaves for whoever comes.  Who that is is decided here, in
:meth:`Admission._make_room`, by the guest's standing:

- *Strangers* have said nothing valid yet.  Beyond a quarter of the places they leave first, the oldest first; fewer
  have time to speak, as long as somebody else can go.
- Then who is idle and holds nothing, the longest idle first.
- *Newcomers* have spoken.  One leaves of the address that has most of them, so a crowd from elsewhere costs nobody his
  place: the first in a line at whose end come those who spoke, and who spoke again while they stood in it.  So who is
  in the middle of something ends it.  (CLOCK, the second chance of paging.)
- Who is *settled* stays, unless he is idle for long: half of the places are for those who came first, since nothing
  else tells clients that were there before from a crowd at the same address.  As one leaves, the newcomer follows that
  came first.

Before one leaves, what it has said and nobody read yet is read: many may have come in the same turn of the reactor.  So
whoever asks at once is answered, however many come.

The *reserve*, a sixteenth more, is for those who keep the service going: replicas, other brokers, controllers,
operators.  They are known by their first request.  One who finds no place to settle has one there, from which only
those leave who are idle and hold nothing; where the reserve is full, he takes it from the address that has most of it.
(PostgreSQL keeps connections for superusers likewise, and Redis descriptors for its own; Bitcoin's nodes choose whom
they end by age and by address, too.)

What it must not know: what is said on connections.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Sequence
from typing import Protocol

import attrs

from rocketha.observe.refusals import Ended
from rocketha.protocols.endpoints import is_loopback
from rocketha.protocols.limits import Limits, reserve_of

CROWDED_S = 2
HEARD_AT_ONCE = 16
"""So many newcomers are read for one who comes, before the next one leaves unheard."""
IDLE_PLACE_S = 5
"""After so long without a word a connection that holds nothing may lose its place; longer than any answer is waited
for but that to a pull."""
SETTLED_IDLE_S = 40
"""Likewise one that is settled; longer than clients are silent between two heartbeats."""

Holding = Callable[[Sequence[int]], Container[int]]
"""Which of these connections, by id, hold something: a client, a broker, a pull that waits."""


class Guest(Protocol):
    """A connection as far as its admission goes.

    :ivar stirred: it has said something; reset here.
    """

    id: int
    socket_host: str
    stirred: bool

    @property
    def rest_s(self) -> int | None:
        """For how long nothing was said and nothing was under way; None while something is."""

    def hear(self) -> None:
        """Take what it has said and nobody has read."""

    def lose_place(self, cause: Ended, why: str) -> None:
        """It is admitted no more: end it."""


class _Standing(enum.Enum):
    STRANGER = enum.auto()
    NEWCOMER = enum.auto()
    SETTLED = enum.auto()
    RESERVE = enum.auto()


class _Line:
    """Guests in the order in which they leave, by address."""

    def __init__(self) -> None:
        self._guests: dict[str, OrderedDict[Guest, None]] = {}
        self._ranks: dict[int, OrderedDict[str, None]] = {}  # addresses by how many guests of theirs are here
        self._most = 0
        self._size = 0

    def __contains__(self, guest: Guest) -> bool:
        return guest in self._guests.get(guest.socket_host, ())

    def count(self, name: str) -> int:
        """How many of an address, or, without one, of all."""
        return len(self._guests.get(name, ())) if name else self._size

    def most(self) -> int:
        """How many the address has that has most."""
        return self._most

    def first(self, name: str) -> Guest | None:
        """Who is next of this address, or, without one, of that which has most."""
        if not name and self._size:
            name = next(iter(self._ranks[self._most]))
        return next(iter(self._guests.get(name, ())), None)

    def add(self, guest: Guest) -> None:
        """At the end of its address's."""
        name = guest.socket_host
        guests = self._guests.setdefault(name, OrderedDict())
        guests[guest] = None
        self._size += 1
        self._rank(name, len(guests) - 1, len(guests))

    def remove(self, guest: Guest) -> None:
        """It is there."""
        name = guest.socket_host
        guests = self._guests[name]
        del guests[guest]
        self._size -= 1
        self._rank(name, len(guests) + 1, len(guests))
        if not guests:
            del self._guests[name]

    def renew(self, guest: Guest) -> None:
        """To the end of its address's."""
        self._guests[guest.socket_host].move_to_end(guest)

    def _rank(self, name: str, before: int, now: int) -> None:
        if before:
            del self._ranks[before][name]
            if not self._ranks[before]:
                del self._ranks[before]
        if now:
            self._ranks.setdefault(now, OrderedDict())[name] = None
        if now > self._most or self._most not in self._ranks:
            self._most = now  # it changed by one


@attrs.define(eq=False)
class _Share:
    """What one address may have, or, without a name, all of them.

    :ivar guests: how many, without those in the reserve.
    """

    name: str
    limit: int
    reserve: int
    guests: int = 0
    settled: int = 0
    in_reserve: int = 0

    @property
    def refusal(self) -> str:
        return f"{self.guests + self.in_reserve} connections{self.name and f' of {self.name}'} are open"


@attrs.define
class _Stay:
    """A guest's: the shares that it counts in, the server's last.

    :ivar shows: its first request was one of those whom the reserve is for.
    """

    shares: list[_Share]
    standing: _Standing = _Standing.STRANGER
    shows: bool = False


class Admission:
    """The places of one server; its ports may share one.

    :param holding: who may not be ended as idle.  None: all who have spoken stay, and where only they are left a
        newcomer is refused.
    :param reserve: whether there are more places for who shows that they are for him.
    """

    def __init__(self, limits: Limits, holding: Holding | None = None, reserve: bool = False) -> None:
        self._limits = limits
        self._holding = holding
        self._has_reserve = reserve
        self._all = self._share("", limits.connections)
        self._hosts: dict[str, _Share] = {}
        self._stays: dict[Guest, _Stay] = {}  # in the order in which they came
        self._lines = {each: _Line() for each in _Standing if each is not _Standing.SETTLED}
        self._strangers, self._newcomers, self._reserved = self._lines.values()
        self._idle: dict[bool, deque[Guest]] | None = None  # by in reserve or not, next to leave first; None: unknown

    def _share(self, name: str, limit: int) -> _Share:
        return _Share(name, limit, reserve_of(limit) if self._has_reserve else 0)

    # -- coming and going ---------------------------------------------------------------------------------------------

    def admit(self, guest: Guest) -> str | None:
        """Give a place, or say why not."""
        name, shares = guest.socket_host, [self._all]
        if not is_loopback(name):
            shares.insert(0, self._hosts.get(name) or self._share(name, self._limits.connections_per_address))
        for share in shares:
            while share.guests >= share.limit:
                if not self._make_room(share):
                    return share.refusal
        if len(shares) > 1:
            self._hosts[name] = shares[0]  # anew: it may have lost its only guest
        self._stays[guest] = _Stay(shares)
        self._enter(guest, _Standing.STRANGER)
        return None

    def spoke(self, guest: Guest, shows: bool = False) -> None:
        """Its first valid frame has come.

        :param shows: it is one of those whom the reserve is for.
        """
        stay = self._stays.get(guest)
        if stay is not None and stay.standing is _Standing.STRANGER:
            stay.shows, guest.stirred = shows, False
            # Where others wait to settle, it has its turn after them.
            self._rise(guest, settles=not self._newcomers.count(""))
            if stay.standing is _Standing.STRANGER:
                self._change(guest, _Standing.NEWCOMER)

    def leave(self, guest: Guest) -> None:
        """Free its place, if it has one."""
        if guest in self._stays:
            self._take_out(guest)
            stay = self._stays.pop(guest)
            if not (stay.shares[0].guests or stay.shares[0].in_reserve):
                self._hosts.pop(guest.socket_host, None)

    def settle(self) -> None:
        """Once a second: those who came first have the places that became free."""
        self._idle = None
        if self._newcomers.count("") and (
            self._all.settled < self._all.limit // 2 or self._all.in_reserve < self._all.reserve
        ):
            waiting = [guest for guest, stay in self._stays.items() if stay.standing is _Standing.NEWCOMER]
            for guest in waiting:
                self._rise(guest, settles=True)

    def patience_s(self, name: str) -> int:
        """How long a guest from this address may say nothing."""
        shares = filter(None, (self._hosts.get(name), self._all))
        crowded = any(2 * self._strangers.count(share.name) > share.limit for share in shares)
        return min(CROWDED_S, self._limits.first_frame_s) if crowded else self._limits.first_frame_s

    # -- standings ----------------------------------------------------------------------------------------------------

    def _rise(self, guest: Guest, settles: bool) -> None:
        stay = self._stays[guest]
        if settles and all(share.settled < share.limit // 2 for share in stay.shares):
            self._change(guest, _Standing.SETTLED)
        elif stay.shows and self._room_in_reserve(guest, stay):
            self._change(guest, _Standing.RESERVE)

    def _change(self, guest: Guest, standing: _Standing) -> None:
        self._take_out(guest)
        self._enter(guest, standing)

    def _enter(self, guest: Guest, standing: _Standing) -> None:
        stay = self._stays[guest]
        stay.standing = standing
        for share in stay.shares:
            share.guests += standing is not _Standing.RESERVE
            share.settled += standing is _Standing.SETTLED
            share.in_reserve += standing is _Standing.RESERVE
        if standing in self._lines:
            self._lines[standing].add(guest)

    def _take_out(self, guest: Guest) -> None:
        stay = self._stays[guest]
        for share in stay.shares:
            share.guests -= stay.standing is not _Standing.RESERVE
            share.settled -= stay.standing is _Standing.SETTLED
            share.in_reserve -= stay.standing is _Standing.RESERVE
        if stay.standing in self._lines:
            self._lines[stay.standing].remove(guest)

    # -- making room --------------------------------------------------------------------------------------------------

    def _make_room(self, share: _Share) -> bool:
        """End one who counts there, or see that there is another one to be ended; False: there is none."""
        if self._strangers.count(share.name) > share.limit // 4:
            return self._end_stranger(share)
        if share is self._all and self._end_idle(False):
            return True
        if self._holding is not None and self._newcomers.count(share.name):
            return self._end_newcomer(share)
        return self._end_stranger(share)

    def _end_stranger(self, share: _Share) -> bool:
        guest = self._strangers.first(share.name)
        if guest is None:
            return False
        guest.hear()
        if guest in self._strangers:
            self._end(guest, "it said nothing, and no places are left")
        return True

    def _end_newcomer(self, share: _Share) -> bool:
        line, heard = self._newcomers, 0
        while (guest := line.first(share.name)) is not None:
            if not guest.stirred and heard < HEARD_AT_ONCE:
                heard += 1
                guest.hear()
                if guest not in line:
                    break
            if not guest.stirred:
                self._end(guest, "many came after it, and no places are left")
                break
            guest.stirred = False
            line.renew(guest)
        return True

    def _room_in_reserve(self, guest: Guest, stay: _Stay) -> bool:
        if any(share.in_reserve >= share.reserve for share in stay.shares[:-1]):
            return False
        if self._all.in_reserve < self._all.reserve:
            return True
        line = self._reserved
        if self._all.reserve and line.most() > line.count(guest.socket_host) + 1:
            other = line.first("")
            assert other is not None
            self._change(other, _Standing.NEWCOMER)
            return True
        return self._end_idle(True)

    def _end_idle(self, in_reserve: bool) -> bool:
        """End who is longest idle; those whom the reserve is for after all others."""
        if self._idle is None:
            self._idle = self._look_for_idle()
        while self._idle[in_reserve]:
            guest = self._idle[in_reserve].popleft()
            if self._is_idle(guest, in_reserve):
                self._end(guest, "it has long said nothing and holds nothing, and no places are left")
                return True
        return False

    def _is_idle(self, guest: Guest, in_reserve: bool) -> bool:
        stay = self._stays.get(guest)
        if stay is None or (stay.standing is _Standing.RESERVE) != in_reserve:
            return False
        return (guest.rest_s or 0) >= (SETTLED_IDLE_S if stay.standing is _Standing.SETTLED else IDLE_PLACE_S)

    def _look_for_idle(self) -> dict[bool, deque[Guest]]:
        if self._holding is None:
            return {False: deque(), True: deque()}
        idle = [
            (stay.shows, -rest_s, guest.id, guest)
            for guest, stay in self._stays.items()
            if (rest_s := guest.rest_s or 0) >= IDLE_PLACE_S
        ]
        holding = self._holding([guest.id for *_, guest in idle])
        idle.sort(key=lambda row: row[:3])
        leaving = [guest for *_, guest in idle if guest.id not in holding]
        return {kind: deque(each for each in leaving if self._is_idle(each, kind)) for kind in (False, True)}

    def _end(self, guest: Guest, why: str) -> None:
        self.leave(guest)
        guest.lose_place(Ended.LOST_PLACE, why)
