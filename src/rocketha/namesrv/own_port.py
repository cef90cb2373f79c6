"""Where a nameserver or a controller may connect to a registered broker.

Whoever reaches one of them names an address; if they connected to each of these they would be a stranger's scanner.  So
they connect only to the host that the broker's own connection comes from.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketha.addresses import address_of


class OwnPort(NamedTuple):
    """A port to ask.

    :ivar address: ``host:port``, the host being the one that the connection came from.
    :ivar proves_death: whether a refusal is that of the registered address.
    """

    address: str
    proves_death: bool


def own_port(registered: str, host: str) -> OwnPort | None:
    """The port of a broker that registered an address over a connection from a host.

    None for an IP address that is not the host's: a proxy, or another network card.  Behind a name may be the host, and
    whoever comes over loopback is on this machine, under whatever address: an answer proves life there, a refusal
    proves nothing.
    """
    named, _, port = registered.rpartition(":")
    named = named.removeprefix("[").removesuffix("]")
    shown = f"[{host}]" if ":" in host else host
    try:
        source = address_of(host)
    except ValueError:
        return None
    try:
        same = address_of(named) == source
    except ValueError:
        return OwnPort(f"{shown}:{port}", False)
    return OwnPort(f"{shown}:{port}", same) if same or source.is_loopback else None


def names(registered: str, host: str) -> bool:
    """Whether a registered address is one of this host itself, and needs no looking up."""
    port = own_port(registered, host)
    return port is not None and port.proves_death
