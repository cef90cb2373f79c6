"""What a broker is in its group, and which requests it does not serve as that.

Pure.  A slave refuses as Java's does, by the answer of a request that is rejected before it is looked at (2); clients
try another broker, or again.  A fenced broker is one that does not know what it is: it was just started, or was told
that another one is master, or has not heard of a controller for longer than it may believe itself.  It stores nothing
and shows nothing: what it has may be less than what was acknowledged, or more than what will be kept (regression A9).

Java: ``SendMessageProcessor.rejectRequest``, ``PullMessageProcessor.rejectRequest``, ``RunningFlags.isFenced``.
"""

from __future__ import annotations

from enum import Enum

from rocketha.broker.routes import PULLS, SENDS, Kind, of_kind
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer


class Role(Enum):
    """Of one broker, at a time."""

    FENCED = "it does not know what it is"
    SLAVE = "it copies its master's log"
    MASTER = "it takes messages"


BUSY = Answer(ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control for a while")
"""Java's words to a request that a slave does not serve."""
NOT_AVAILABLE = Answer(
    ResponseCode.SERVICE_NOT_AVAILABLE, "service not available now: the broker does not know that it is the master"
)
NOT_ENOUGH = Answer(ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
UNKNOWN_ROLE = Answer(ResponseCode.SYSTEM_BUSY, "the broker does not know yet whether it is the master")


def refusals(role: Role, slave_reads: bool) -> dict[int, Answer]:
    """Request codes that are refused in this role, with the answers.

    :param slave_reads: slaveReadEnable.
    """
    if role is Role.MASTER:
        return {}
    if role is Role.SLAVE:
        return dict.fromkeys(SENDS if slave_reads else SENDS | PULLS, BUSY)
    return {
        **dict.fromkeys(SENDS, NOT_AVAILABLE),
        **dict.fromkeys(of_kind(Kind.PULL, Kind.LOOK), UNKNOWN_ROLE),
    }
