"""What all request handlers have in common.

Pure.  A handler is a method ``(connection, command, now_ms) -> Answer | None``: ``None`` means that the answer comes
later, through an effect.  A refusal is raised as :class:`~rocketha.errors.RequestRefused`.

Two clocks, which never meet.  ``now_ms`` is steady: it says how long something takes and when its time is over, and
means nothing to anybody else.  ``wall_ms`` is the time of day, which may step by hours: it is written down, and
compared with what was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rocketha.broker.state import BrokerState
from rocketha.errors import RemoteProtocolError
from rocketha.wire.codes import ResponseCode
from rocketha.wire.fields import refused
from rocketha.wire.remoting import Answer, Command

Responder = Callable[[Any, Command, int], Answer | None]
"""Answers a request of a connection (:class:`Peer`, or more) at a time in ms; None: it is answered later, or was."""
Parsed = TypeVar("Parsed")

OK = Answer()
EMPTY_HEADER = Answer(fields={})
"""Success with ``extFields`` present and empty: requests whose answer has a header class without a set field."""

REPEATED_BYTES_MAX = 4096
REPEATED_BODIES_MAX = 2048
"""Together at most 8 MiB of bodies."""


def read_body(parse: Callable[[bytes], Parsed], body: bytes) -> Parsed:
    """What a request's body holds.  The frame was good, so a bad body costs the request, not the connection.

    :raises RequestRefused: 1, as Java's parser exceptions end.
    """
    if not body:
        raise refused("the request has no body", ResponseCode.SYSTEM_ERROR)
    try:
        return parse(body)
    except RemoteProtocolError as problem:
        raise refused(f"the request's body: {problem}", ResponseCode.SYSTEM_ERROR) from None


class RepeatedBodies(Generic[Parsed]):
    """Remembers what small bodies hold.

    Clients send the same heartbeat and the same lock request every 20 or 30 s, and reading it takes most of the time
    that such a request costs.  The parsed values must be immutable.
    """

    def __init__(self, parse: Callable[[bytes], Parsed]) -> None:
        self._parse = parse
        self._known: dict[bytes, Parsed] = {}

    def __call__(self, body: bytes) -> Parsed:
        """As ``parse``, whose errors pass."""
        known = self._known.get(body)
        if known is not None:
            return known
        parsed = self._parse(body)
        if len(body) <= REPEATED_BYTES_MAX:
            if len(self._known) >= REPEATED_BODIES_MAX:
                self._known.clear()
            self._known[body] = parsed
        return parsed


def refuse_on_slave(state: BrokerState) -> None:
    """Tables are changed on the master only; slaves copy them.

    :raises RequestRefused: 1 with Java's remark.
    """
    if state.is_slave:
        raise refused(
            "Can't modify topic or subscription group from slave broker, please execute it from master broker.",
            ResponseCode.SYSTEM_ERROR,
        )
