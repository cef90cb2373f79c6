"""``trustedPeers``: IP addresses whose connections are taken for those of processes that can show no certificate.

Pure.  Java's brokers and controllers have no identity, and their HA and DLedger links no TLS.  An address is worth what
the network is: whoever can speak from it is believed (docs/identities).

``broker/broker-a/1@10.0.0.3,10.0.0.4; controller/n1@10.0.0.9``
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from rocketha.access.identity import EVERY, Identity, make
from rocketha.addresses import plain
from rocketha.errors import ConfigError

SYNTAX = "PART/NAME@ADDRESS,ADDRESS; broker/NAME/ID@ADDRESS; ..."

Trusted = Mapping[str, Sequence[Identity]]
"""IP address to who may be there."""


def parse(text: str) -> Trusted:
    """The list.

    :raises ConfigError: it is none.
    """
    found: dict[str, list[Identity]] = {}
    for entry in filter(None, (each.strip() for each in text.split(";"))):
        who, at, addresses = entry.partition("@")
        words = who.strip().split("/")
        if not at or not 2 <= len(words) <= 3:
            raise ConfigError(f"{entry[:80]!r}: {SYNTAX} is wanted")
        identity = make(EVERY, *words)
        for address in (each.strip() for each in addresses.split(",")):
            try:
                ipaddress.ip_address(address)
            except ValueError:
                raise ConfigError(f"{entry[:80]!r}: {address[:40]!r} is no IP address") from None
            found.setdefault(plain(address), []).append(identity)
    return found


def check(text: str) -> str | None:
    """What is allowed instead; None where it is a list."""
    try:
        parse(text)
    except ConfigError as problem:
        return str(problem)
    return None
