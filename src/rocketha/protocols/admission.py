"""Who may have one of a server's places: so many connections in all, so many from one address, and a few in reserve.

Loopback has them all: there every client of this machine has the same address.

Theory of operation.  Places cost whoever takes them nothing, so those who wait for one must not depend on those who
hold one doing something.  A guest whose first valid frame has not come is a *stranger*.  When all places are taken the
oldest stranger loses his to the newcomer, when there is nothing of his to be read: of the same address where it is that
one's share that is taken, else of all.
Where everybody has spoken, one who is idle and holds nothing leaves, the longest idle first.  And while half of the
places are strangers', each has but :data:`CROWDED_S` to speak.  So a flood of connections that say nothing, or little,
keeps nobody out: who comes and speaks at once stays.

Where none leaves, clients that work hold all places.  The *reserve*, a sixteenth more, is for those who keep the
service going: replicas, other brokers, controllers, operators.  Who it is that comes shows only by what he asks, so any
newcomer is there *on trial*: some seconds, and less when the next one waits for it (who asked for something else leaves
before who said nothing yet).  Who made such a request stays
(:meth:`Admission.shown`), takes a place among the others as soon as there is one, and is the last to leave for being
idle.  (PostgreSQL keeps connections for superusers likewise, and Redis descriptors for its own.)

Strangers who spoke are found out when their turn to leave comes, and once a second: nothing is done when a frame comes.

What it must not know: what is said on connections.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Sequence
from typing import Protocol

import attrs

from rocketha.observe.refusals import Ended
from rocketha.protocols.endpoints import is_loopback
from rocketha.protocols.limits import Limits, reserve_of

CROWDED_S = 2
HEARD_AT_ONCE = 16
"""So many of those on trial are looked at for one who asked what the reserve is not for, before the oldest leaves."""
IDLE_PLACE_S = 5
"""After so long without a word a connection that holds nothing may lose its place; longer than any answer is waited
for but that to a pull."""

Holding = Callable[[Sequence[int]], Container[int]]
"""Which of these connections, by id, hold something: a client, a broker, a pull that waits."""


class Guest(Protocol):
    """A connection as far as its admission goes.

    :ivar on_trial: set here: it has a place of the reserve and has not shown that it may.
    """

    id: int
    peer_host: str
    greeted: bool
    on_trial: bool

    @property
    def rest_s(self) -> int | None:
        """For how long nothing was said and nothing was under way; None while something is."""

    def hear(self) -> None:
        """Take what it has said and nobody has read: many may have come in the same turn of the reactor."""

    def lose_place(self, cause: Ended, why: str) -> None:
        """It is admitted no more: end it."""


@attrs.define(eq=False)
class _Share:
    """What one address may have, or the whole server.

    :ivar guests: how many, without those in the reserve.
    """

    limit: int
    reserve: int
    what: str
    guests: int = 0
    in_reserve: int = 0
    strangers: OrderedDict[Guest, None] = attrs.Factory(OrderedDict)  # oldest first; some may have spoken
    on_trial: OrderedDict[Guest, None] = attrs.Factory(OrderedDict)  # oldest first

    @property
    def refusal(self) -> str:
        return f"{self.guests + self.in_reserve} connections{self.what} are open"


@attrs.define
class _Stay:
    """A guest's: the shares that it counts in, the server's last."""

    shares: list[_Share]
    in_reserve: bool
    shown: bool = False


class Admission:
    """The places of one server; its ports may share one.

    :param holding: asked when all places are taken by guests that have spoken; those that are idle and hold nothing
        make room.  None: none of them does.
    :param reserve: whether there are more places for who shows that they are for him.
    """

    def __init__(self, limits: Limits, holding: Holding | None = None, reserve: bool = False) -> None:
        self._limits = limits
        self._holding = holding
        self._has_reserve = reserve
        self._all = self._share(limits.connections, "")
        self._hosts: dict[str, _Share] = {}
        self._stays: dict[Guest, _Stay] = {}
        self._idle: dict[bool, deque[Guest]] | None = None  # by in_reserve, next to leave first; None: look it up

    def _share(self, limit: int, what: str) -> _Share:
        return _Share(limit, reserve_of(limit) if self._has_reserve else 0, what)

    # -- coming and going ---------------------------------------------------------------------------------------------

    def admit(self, guest: Guest) -> str | None:
        """Give a place, or say why not."""
        name, shares = guest.peer_host, [self._all]
        if not is_loopback(name):
            host = self._hosts.get(name) or self._share(self._limits.connections_per_address, f" of {name}")
            shares.insert(0, host)
        full = next((share for share in shares if not self._room(share)), None)
        if full is not None and not all(map(self._room_in_reserve, shares)):
            return full.refusal
        if len(shares) > 1:
            self._hosts[name] = shares[0]  # anew: it may have lost its only guest
        guest.on_trial = full is not None
        self._stays[guest] = _Stay(shares, guest.on_trial)
        for share in shares:
            if guest.on_trial:
                share.in_reserve += 1
                share.on_trial[guest] = None
            else:
                share.guests += 1
                share.strangers[guest] = None
        return None

    def leave(self, guest: Guest) -> None:
        """Free its place, if it has one."""
        stay = self._stays.pop(guest, None)
        if stay is None:
            return
        for share in stay.shares:
            share.strangers.pop(guest, None)
            share.on_trial.pop(guest, None)
            if stay.in_reserve:
                share.in_reserve -= 1
            else:
                share.guests -= 1
        if not (stay.shares[0].guests or stay.shares[0].in_reserve):
            self._hosts.pop(guest.peer_host, None)

    def shown(self, guest: Guest) -> None:
        """It asked what only those ask whom the reserve is for."""
        stay = self._stays.get(guest)
        if stay is not None:
            stay.shown, guest.on_trial = True, False
            for share in stay.shares:
                share.on_trial.pop(guest, None)

    def settle(self) -> None:
        """Once a second: see who has spoken, and give places to those in the reserve who may stay."""
        self._idle = None
        for guest in [guest for guest in self._all.strangers if guest.greeted]:
            self._no_stranger(guest)
        if self._all.in_reserve > len(self._all.on_trial):
            for stay in self._stays.values():
                if stay.in_reserve and stay.shown and all(share.guests < share.limit for share in stay.shares):
                    stay.in_reserve = False
                    for share in stay.shares:
                        share.guests, share.in_reserve = share.guests + 1, share.in_reserve - 1

    def patience_s(self, name: str) -> int:
        """How long a guest from this address may say nothing."""
        shares = filter(None, (self._hosts.get(name), self._all))
        crowded = any(2 * len(share.strangers) > share.limit for share in shares)
        return min(CROWDED_S, self._limits.first_frame_s) if crowded else self._limits.first_frame_s

    # -- making room --------------------------------------------------------------------------------------------------

    def _room(self, share: _Share) -> bool:
        if share.guests < share.limit:
            return True
        while share.strangers:
            oldest = next(iter(share.strangers))
            if not oldest.greeted:
                oldest.hear()
            if oldest.greeted:
                self._no_stranger(oldest)
            elif oldest in share.strangers:
                return self._end(oldest, Ended.LOST_PLACE, "it said nothing, and no places are left")
            if share.guests < share.limit:
                return True
        return share is self._all and self._end_idle(False)

    def _room_in_reserve(self, share: _Share) -> bool:
        if share.in_reserve < share.reserve:
            return True
        for guest in list(itertools.islice(share.on_trial, HEARD_AT_ONCE)):
            guest.hear()
            if share.in_reserve < share.reserve:
                return True
            if guest in share.on_trial and guest.greeted:
                return self._end(guest, Ended.NO_PLACE, share.refusal)
        if share.on_trial:
            return self._end(next(iter(share.on_trial)), Ended.NO_PLACE, share.refusal)
        return bool(share.reserve) and share is self._all and self._end_idle(True)

    def _end_idle(self, in_reserve: bool) -> bool:
        """End who is longest idle; those whom the reserve is for after all others."""
        if self._idle is None:
            self._idle = self._look_for_idle()
        while self._idle[in_reserve]:
            guest = self._idle[in_reserve].popleft()
            stay = self._stays.get(guest)
            if stay is not None and stay.in_reserve == in_reserve and (guest.rest_s or 0) >= IDLE_PLACE_S:
                why = "it has long said nothing and holds nothing, and no places are left"
                return self._end(guest, Ended.LOST_PLACE, why)
        return False

    def _look_for_idle(self) -> dict[bool, deque[Guest]]:
        if self._holding is None:
            return {False: deque(), True: deque()}
        idle = [
            (stay.shown, -rest_s, guest.id, guest)
            for guest, stay in self._stays.items()
            if not guest.on_trial and (rest_s := guest.rest_s or 0) >= IDLE_PLACE_S
        ]
        holding = self._holding([guest.id for *_, guest in idle])
        idle.sort(key=lambda row: row[:3])
        leaving = [guest for *_, guest in idle if guest.id not in holding]
        return {kind: deque(each for each in leaving if self._stays[each].in_reserve == kind) for kind in (False, True)}

    def _end(self, guest: Guest, cause: Ended, why: str) -> bool:
        self.leave(guest)
        guest.lose_place(cause, why)
        return True

    def _no_stranger(self, guest: Guest) -> None:
        stay = self._stays.get(guest)
        for share in () if stay is None else stay.shares:
            share.strangers.pop(guest, None)
