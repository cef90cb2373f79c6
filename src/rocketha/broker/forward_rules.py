"""What a broker that is not master may do with a request meant for the master, and for how long.

Pure.  Must not know how a request travels (:mod:`rocketha.services.broker.forwarding`).

Why.  A Java client learns routes every 30 s.  After a switch it keeps sending to the former master, and retries there,
at once and twice, what is refused; a planned switch would fail its sends for up to half a minute.  So the former master
passes them on.

Never a chain: a request that is passed on names who did it (:data:`MARK`), and whoever receives such a one serves it,
refuses it, or keeps it for a moment because it is about to become master itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

from rocketha.broker.routes import PULLS
from rocketha.wire.codes import ResponseCode
from rocketha.wire.fields import INT_MAX
from rocketha.wire.remoting import Answer, Command

MARK = "rocketha.forwardedBy"
"""Field of a request that was passed on: the address of the broker that did.  Java reads the fields it knows and leaves
others alone."""

EPOCH_MARK = "rocketha.forwardedEpoch"
"""Beside it: the epoch of the master that it was passed on to, as the forwarder knew it."""

FORWARDER_FIELDS = frozenset({MARK, EPOCH_MARK})
"""Its client has not signed these."""

NEWER_MARK = "rocketha.masterEpoch"
"""Field of the refusal of such a request: the epoch of a newer master, for whom the forwarder should wait."""

REQUESTS_MAX = 10_000
BYTES_MAX = 64 * 1024 * 1024
"""Requests, and bytes of memory that they take, that one broker keeps or has on their way at a time; without pulls."""
PULLS_MAX = 8_000
PULL_BYTES_MAX = 32 * 1024 * 1024
"""The same of pulls: fewer than a master lets wait on one connection.  It answers what is more at once with no message,
and consumers ask again at once."""

HOLD_MS = 2000
"""How long a request waits for a master to be known: an election takes less, and the client's patience is 3 s."""
ANSWER_MS = 2700
"""From its arrival to its answer, whatever happens."""
PULL_HOLD_MS = 8000
"""A pull waits longer: refused, a consumer rests for 3 s; its patience is 15 s more than it lets the broker wait."""
PULL_MARGIN_MS = 5500


class Course(Enum):
    """What to do with a request."""

    FORWARD = "pass it on to the master"
    HOLD = "keep it until the master is known"
    REFUSE = "refuse it"


REFUSALS = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE})
"""Answers to a request that was not carried out, Java's too: it may be passed on to another broker."""


def course(command: Command, master: str | None, epoch: int = 0) -> Course:
    """What to do while this broker is not master.

    :param master: the master's address, None while none is known.
    :param epoch: of that master.
    """
    forwarder = command.fields.get(MARK)
    if forwarder is None:
        return Course.HOLD if master is None else Course.FORWARD
    # We may be the next master, and the other broker learned it first.  Not when a third one is, nor when the other
    # became master after it had passed this on to us.
    meant = epoch_in(command.fields, EPOCH_MARK)
    if master is None or epoch < meant or (master == forwarder and epoch == meant):
        return Course.HOLD
    return Course.REFUSE


def epoch_in(fields: Mapping[str, str], name: str) -> int:
    """The epoch in a field that another broker wrote; 0 where there is none."""
    text = fields.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


def told(command: Command, refusal: Answer, epoch: int) -> Answer:
    """The refusal of a request; who passed it on is told of a master that is newer than the one that it meant.

    :param epoch: of the master that is known.
    """
    if MARK not in command.fields or epoch <= epoch_in(command.fields, EPOCH_MARK):
        return refusal
    return refusal._replace(fields={**(refusal.fields or {}), NEWER_MARK: str(epoch)})


@attrs.frozen
class Patience:
    """How long one request may take.

    :ivar hold_ms: until a master must be known.
    :ivar answer_ms: until it is answered; both from its arrival.
    """

    hold_ms: int
    answer_ms: int


_BRIEF = Patience(HOLD_MS, ANSWER_MS)


def patience(command: Command) -> Patience:
    """By what the client waits for."""
    if command.code not in PULLS:
        return _BRIEF
    text = command.fields.get("suspendTimeoutMillis", "")
    suspend_ms = min(int(text), INT_MAX) if text.isascii() and text.isdigit() and len(text) < 19 else 0
    suspend_ms = min(suspend_ms, 60_000)
    hold_ms = max(HOLD_MS, min(PULL_HOLD_MS, suspend_ms))
    return Patience(hold_ms, hold_ms + suspend_ms + PULL_MARGIN_MS)
