"""IP addresses as connections show them, in one form each, and lists of them.

Pure.  A port that takes IPv4 and IPv6 shows an IPv4 address in IPv6's clothes (``::ffff:10.0.0.1``), and a link-local
one with its zone (``fe80::1%eth0``): whoever compares addresses does it here, or with what comes from here.
"""

from __future__ import annotations

import ipaddress
import re

import attrs

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MAPPED_BITS = 96
"""Of an IPv6 address that stand before the IPv4 address in it."""


def address_of(host: str) -> Address:
    """An IP address: that of IPv4 where it is one in IPv6's clothes, and without a zone.

    :raises ValueError: it is none.
    """
    address = ipaddress.ip_address(host.partition("%")[0])
    return (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address


def plain(host: str) -> str:
    """The one text of an IP address; what is none as it is."""
    try:
        return str(address_of(host))
    except ValueError:
        return host


def _network(text: str) -> Network:
    network = ipaddress.ip_network(text)
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is not None and network.prefixlen >= _MAPPED_BITS:
        return ipaddress.IPv4Network((mapped, network.prefixlen - _MAPPED_BITS))
    return network


@attrs.frozen
class Networks:
    """Addresses and networks; false where there are none."""

    listed: tuple[Network, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Networks:
        """``10.0.0.0/8, 192.0.2.7``, separated by commas or semicolons.

        :raises ValueError: a part is no network.
        """
        return cls(tuple(_network(each.strip()) for each in re.split("[;,]", text) if each.strip()))

    def __len__(self) -> int:
        return len(self.listed)

    def __contains__(self, host: str) -> bool:
        """Whether this IP address is in one of them; what is none is not."""
        try:
            address = address_of(host)
        except ValueError:
            return False
        return any(address in network for network in self.listed)


NOBODY = Networks()
