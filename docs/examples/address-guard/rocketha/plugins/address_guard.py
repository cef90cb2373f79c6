"""An authenticator: who asks from an address that is not listed is denied.

It shows the interface.  An address proves little: whoever reaches the port from a listed machine is let in.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from zope.interface import implementer

from rocketha.interfaces import API, FeatureParts, IAuthenticator, IBrokerFeature, Key, Request


def networks(text: str) -> list[Any]:
    """The networks of ``10.0.0.0/8, 127.0.0.1``; ValueError where one is none."""
    return [ipaddress.ip_network(word.strip()) for word in text.split(",") if word.strip()]


@implementer(IAuthenticator)
class Guard:
    """One broker's."""

    name = "address-guard"

    def __init__(self, allowed: str) -> None:
        self._allowed = networks(allowed)

    def denies(self, request: Request) -> str | None:
        host = request.peer.rpartition(":")[0]
        if not host:  # a plug-in of this broker
            return None
        address = ipaddress.ip_address(host.strip("[]"))
        if any(address in network for network in self._allowed):
            return None
        return f"{host} is not among the addresses of address-guard.allowed"


@implementer(IBrokerFeature)
class AddressGuard:
    """The plug-in."""

    name = "address-guard"
    api = API
    version = "1.0"
    summary = "only known addresses may talk to the broker"
    keys: Mapping[str, Key] = {"allowed": Key("127.0.0.0/8, ::1", "Networks whose clients are served.")}

    def check_keys(self, keys: Mapping[str, str]) -> list[str]:
        try:
            networks(keys["allowed"])
        except ValueError as problem:
            return [str(problem)]
        return []

    def build(self, context: Any) -> FeatureParts:
        return FeatureParts(authenticators=[Guard(context.keys["allowed"])])


plugin = AddressGuard()
