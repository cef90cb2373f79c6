"""Who may have one of a listening port's places: so many connections in all, so many from one address.

Loopback has them all: there every client of this machine has the same address.

Theory of operation.  Places cost whoever takes them nothing, so those who wait for one must not depend on those who
hold one doing something.  A guest whose first valid frame has not come is a *stranger*.  When all places are taken the
oldest stranger loses his to the newcomer: of the same address where it is that one's share that is taken, else of all.
Where everybody has spoken, one who is idle and holds nothing leaves, the longest idle first (the port knows who that
is), and the newcomer is refused only where there is none.  And while half of the places are strangers', each has but
:data:`CROWDED_S` to speak.  So a flood of connections that say nothing keeps nobody out: who comes and speaks at once
stays.  (One that registers clients or goes on asking can: see docs/operations on networks.)

Strangers who spoke are found out when their turn to leave comes, and once a second: nothing is done when a frame comes.

What it must not know: what is said on connections.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import attrs

from rocketha.protocols.endpoints import is_loopback
from rocketha.protocols.limits import Limits

CROWDED_S = 2


class Guest(Protocol):
    """A connection as far as its admission goes."""

    peer_host: str
    greeted: bool


@attrs.define
class _Host:
    """What one address has."""

    guests: int = 0
    strangers: OrderedDict[Guest, None] = attrs.Factory(OrderedDict)


class Admission:
    """The places of one port.

    :param end: ends the connection of a guest who lost his place.
    :param idlest: one who spoke and may lose his place; None where nobody may.
    """

    def __init__(
        self, limits: Limits, end: Callable[[Guest], None], idlest: Callable[[], Guest | None] = lambda: None
    ) -> None:
        self._limits = limits
        self._end = end
        self._idlest = idlest
        self._guests: set[Guest] = set()
        self._strangers: OrderedDict[Guest, None] = OrderedDict()  # oldest first; some may have spoken
        self._hosts: dict[str, _Host] = {}

    def admit(self, guest: Guest) -> str | None:
        """Give a place, or say why not."""
        name, limits = guest.peer_host, self._limits
        host = self._hosts.get(name)
        if host is not None and host.guests >= limits.connections_per_address and not is_loopback(name):
            if not self._evict(host.strangers):
                return f"{host.guests} connections of {name} are open"
        elif len(self._guests) >= limits.connections and not (self._evict(self._strangers) or self._evict_idle()):
            return f"{limits.connections} connections are open"
        host = self._hosts.setdefault(name, _Host())  # anew: it may have lost its only guest
        host.guests += 1
        host.strangers[guest] = self._strangers[guest] = None
        self._guests.add(guest)
        return None

    def leave(self, guest: Guest) -> None:
        """Free its place, if it has one."""
        if guest not in self._guests:
            return
        self._guests.remove(guest)
        self._no_stranger(guest)
        host = self._hosts[guest.peer_host]
        host.guests -= 1
        if not host.guests:
            del self._hosts[guest.peer_host]

    def settle(self) -> None:
        """Once a second: see who has spoken."""
        for guest in [guest for guest in self._strangers if guest.greeted]:
            self._no_stranger(guest)

    def patience_s(self, name: str) -> int:
        """How long a guest from this address may say nothing."""
        limits, host = self._limits, self._hosts.get(name)
        of_host = len(host.strangers) if host is not None and not is_loopback(name) else 0
        crowded = 2 * len(self._strangers) > limits.connections or 2 * of_host > limits.connections_per_address
        return min(CROWDED_S, limits.first_frame_s) if crowded else limits.first_frame_s

    def _evict(self, strangers: OrderedDict[Guest, None]) -> bool:
        """Make room; False where all have spoken."""
        while strangers:
            oldest = next(iter(strangers))
            if oldest.greeted:
                self._no_stranger(oldest)
            else:
                self.leave(oldest)
                self._end(oldest)
                return True
        return False

    def _evict_idle(self) -> bool:
        guest = self._idlest()
        if guest is None:
            return False
        self.leave(guest)
        self._end(guest)
        return True

    def _no_stranger(self, guest: Guest) -> None:
        self._strangers.pop(guest, None)
        self._hosts[guest.peer_host].strangers.pop(guest, None)
