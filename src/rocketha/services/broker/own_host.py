"""The address of a broker whose ``brokerIP1`` is a host name.

Clients are told the name, and each looks it up where it is: so one broker is reached from two networks, and keeps its
name while its address changes. Records and message ids have no room for a name; they get the address that it has here.
"""

from __future__ import annotations

import ipaddress
import socket

from rocketha.errors import ConfigError


def is_address(host: str) -> bool:
    """Whether a host is an IP address, which is looked up nowhere."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def address_of(name: str) -> str:
    """The IP address of a host name: the first of version 4, as in Java, or else of version 6.  May wait for long.

    :raises ConfigError: there is none.
    """
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"brokerIP1={name} has no address: {getattr(error, 'strerror', None) or error}") from None
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    return str(found[0][4][0])
