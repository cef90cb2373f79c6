"""Who may have one of a listening port's places: so many connections in all, so many from one address.

Loopback has them all: there every client of this machine has the same address.

What it must not know: what is said on connections.
"""

from __future__ import annotations

from typing import Protocol

from rocketha.protocols.endpoints import is_loopback
from rocketha.protocols.limits import Limits


class Guest(Protocol):
    """A connection as far as its admission goes."""

    peer_host: str


class Admission:
    """The places of one port."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._guests: dict[Guest, None] = {}
        self._by_host: dict[str, int] = {}

    def admit(self, guest: Guest) -> str | None:
        """Give a place, or say why not."""
        host, limits = guest.peer_host, self._limits
        if len(self._guests) >= limits.connections:
            return f"{limits.connections} connections are open"
        same = self._by_host.get(host, 0)
        if same >= limits.connections_per_address and not is_loopback(host):
            return f"{same} connections of {host} are open"
        self._guests[guest] = None
        self._by_host[host] = same + 1
        return None

    def leave(self, guest: Guest) -> None:
        """Free its place, if it has one."""
        if guest in self._guests:
            del self._guests[guest]
            left = self._by_host[guest.peer_host] - 1
            if left:
                self._by_host[guest.peer_host] = left
            else:
                del self._by_host[guest.peer_host]
