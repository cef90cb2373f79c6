"""What a broker is in its group, and which requests it does not serve as that.

Pure.  A slave refuses as Java's does, by the answer of a request that is rejected before it is looked at (2); clients
try another broker, or again.  A fenced broker is one that does not know what it is: it was just started, or was told
that another one is master, or has not heard of a controller for longer than it may believe itself.  It stores nothing
and shows nothing: what it has may be less than what was acknowledged, or more than what will be kept (regression A9).

Java: ``SendMessageProcessor.rejectRequest``, ``PullMessageProcessor.rejectRequest``, ``RunningFlags.isFenced``.
"""

from __future__ import annotations

from enum import Enum

from rocketha.broker.routes import Kind
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


class Gate(Enum):
    """What stands before a kind of request in a role."""

    OPEN = "served"
    MAY_STORE = "served while it holds the lease and enough replicas are in sync; else refused or passed on"
    MAY_SHOW = "served while it holds the lease; else refused"
    DECIDED = "served; waits while there may be another master"
    MAY_CHANGE = "served while it holds the lease, until it hands over; else refused"
    SLAVE_READS = "served where slaveReadEnable says so; else refused or passed on"
    MASTERS = "asked of the master; served here where it cannot be asked, or slaveReadEnable says so"
    BUSY = "refused (2) or passed on"
    NOT_AVAILABLE = "refused (14) or passed on"
    UNKNOWN_ROLE = "refused (2): its role is not known yet"


REFUSALS = {Gate.BUSY: BUSY, Gate.NOT_AVAILABLE: NOT_AVAILABLE, Gate.UNKNOWN_ROLE: UNKNOWN_ROLE}

_LEASED_MASTER = {
    Kind.SEND: Gate.MAY_STORE,
    Kind.PULL: Gate.MAY_SHOW,
    Kind.LOOK: Gate.MAY_SHOW,
    Kind.BOUND: Gate.DECIDED,
    Kind.CHANGE: Gate.MAY_CHANGE,
    Kind.DELETION: Gate.MAY_CHANGE,
}
_SLAVE = {Kind.SEND: Gate.BUSY, Kind.PULL: Gate.SLAVE_READS, Kind.PROGRESS: Gate.MASTERS}
_FENCED = {
    Kind.SEND: Gate.NOT_AVAILABLE,
    Kind.PULL: Gate.UNKNOWN_ROLE,
    Kind.LOOK: Gate.UNKNOWN_ROLE,
    Kind.PROGRESS: Gate.MASTERS,
}


def gate(kind: Kind, role: Role, leased: bool) -> Gate:
    """What stands before it.

    :param leased: a master is one for as long as its lease holds, and a change anywhere else is an election away from
        being undone, so it is never a success.  A slave changes nothing by agreeing to a deletion.
    """
    if role is Role.MASTER:
        return _LEASED_MASTER.get(kind, Gate.OPEN) if leased else Gate.OPEN
    if leased and (kind is Kind.CHANGE or (kind is Kind.DELETION and role is not Role.SLAVE)):
        return Gate.NOT_AVAILABLE
    return (_SLAVE if role is Role.SLAVE else _FENCED).get(kind, Gate.OPEN)
