"""Whom a server's places in reserve are for: replicas, other brokers, controllers and operators, by what they ask.

Theory of operation.  A row says who asks for it (:class:`~rocketha.access.routes.Asker`).  One who passes requests of
clients on marks them.  This keeps clients that work from keeping out those who keep the service going; it is no
protection from somebody who means harm and knows the codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketha.access.routes import Asker, Route
from rocketha.broker.forward_rules import MARK
from rocketha.wire.remoting import Command


def shows_by(routes: Mapping[int, Route]) -> Callable[[Command], bool]:
    """Whether a request to a server with these rows is one of a replica, another broker, a controller or an
    operator."""
    others = frozenset(code for code, route in routes.items() if route.asker is not Asker.CLIENT)
    return lambda command: command.code in others or MARK in command.fields
