"""What a broker's service asks of each of its capabilities, and tells it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from twisted.internet import defer

from rocketha.broker.request import Responder
from rocketha.broker.role import Role
from rocketha.observe.metrics import Registry


class BrokerFeature:
    """One capability.  The service goes through all of them, in the order in which it has them; what a feature does not
    override is nothing to it.

    :ivar requests: codes that it answers; each has its row in the broker's routes.
    """

    requests: Mapping[int, Responder] = MappingProxyType({})

    def start(self) -> None:
        """The ports are open; the broker serves, and has no role yet."""

    def install(self, metrics: Registry) -> None:
        """Register its metrics."""

    def runtime_facts(self) -> Mapping[str, str]:
        """Its keys of GET_BROKER_RUNTIME_INFO."""
        return {}

    def role_changed(self, role: Role) -> None:
        """The broker has this role from now on."""

    def disconnected(self, connection: Any) -> None:
        """A client is gone."""

    def second(self) -> None:
        """A second has passed, and the broker serves."""

    def unready(self) -> str | None:
        """None, or why the broker is not what it should be."""
        return None

    def leave(self) -> defer.Deferred[None]:
        """The broker is to stop; it still has its role, and serves.  Fires when it may go on with that."""
        return defer.succeed(None)

    def stop(self) -> None:
        """The role has ended: begin nothing any more."""

    def end(self) -> None:
        """The ports close: keep nothing."""
