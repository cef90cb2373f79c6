"""What :mod:`rocketha.broker.role_life` wants done: questions to the controllers, files, orders to the replication.

Values only.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import attrs

from rocketha.wire.controller_calls import Call


class Question(Enum):
    """What the leading controller is asked; of each kind one at a time."""

    NEXT_ID = "a free id (1012)"
    APPLY = "that id (1013)"
    REGISTER = "to take our address (1003)"
    ELECT = "for a master (1002)"
    INFO = "who is master (1004)"
    CONFIRM = "whether we may act as master (11006, of Java's controllers 1004)"
    ALTER = "for another SyncStateSet (1001)"
    REPLICAS = "which replicas are registered (1006)"
    HAND_OVER = "to make a replica the master (1002)"


class Setback(Enum):
    """Why an order could not be carried out."""

    ELECTION_NEEDED = "bytes of this epoch may be missing, so it is master in a new epoch or not at all"
    FAILED = "the disk failed, or the log is damaged"
    REPLACED = "another order came"


class Leaving(Enum):
    """How far a stop has come."""

    NO = "it stays"
    RETIRING = "replicas get what they lack"
    HANDING_OVER = "one of them is to be elected"
    FOLLOWING = "the new master is waited for"
    LEFT = "over"


@attrs.frozen
class RoleTiming:
    """All in ms.

    :ivar request: a controller may take to answer; lease questions a third of the lease, if that is less.
    :ivar poll: syncBrokerMetadataPeriod.
    :ivar lease: masterLease.
    :ivar retry: after no answer, at least; up to twice as long.
    :ivar elect: between questions for a master.
    :ivar register: between registrations that are refused.
    :ivar replicas: how often a master asks who is registered.
    :ivar retire: for replicas to reach the log's end when this master is replaced.
    :ivar hand_over: handoverTimeout.
    :ivar resign: silence after which the controllers have another master, or are asked again; doubles each time, up to
        ``resign_max``.
    """

    request: int = 2000
    poll: int = 5000
    lease: int = 3000
    retry: int = 100
    elect: int = 1000
    register: int = 1000
    replicas: int = 5000
    retire: int = 200
    hand_over: int = 3000
    resign: int = 1500
    resign_max: int = 12_000


# --- to the controllers


class Ask(NamedTuple):
    """Ask whoever leads; then ``answered`` or ``unanswered`` with this number."""

    number: int
    question: Question
    call: Call
    timeout_ms: int


class Beat(NamedTuple):
    """Send a heartbeat to all of them now, besides those that go out regularly."""


class HangUp(NamedTuple):
    """End all connections to them, which tells them that this broker does not do its work."""


# --- on the disk; then ``saved`` or ``not_saved``


class Want(NamedTuple):
    """Write the application."""

    broker_id: int
    check_code: str


class GiveUp(NamedTuple):
    """Remove the application."""


class Keep(NamedTuple):
    """The id is ours."""

    broker_id: int


# --- to the replication


class Fence(NamedTuple):
    """No send, no read, no acknowledgement from now on."""

    why: str


class Suspend(NamedTuple):
    """There may be another master: no acknowledgement and no read before :class:`Resume`, or another order.

    :ivar from_ms: from then on, steady.
    """

    from_ms: int


class Resume(NamedTuple):
    """There is none."""


class Retire(NamedTuple):
    """No new sends; then ``done`` when every member has what the log has.

    :ivar replaced: no reads either, since there is another master; what was sent is still acknowledged.
    """

    order: int
    why: str
    replaced: bool


class Lead(NamedTuple):
    """Be master; acknowledge nothing before :class:`LeaseConfirmed`.  Then ``done`` or ``failed``.

    :ivar again: it is master already, of the epoch before.
    """

    order: int
    epoch: int
    members: tuple[int, ...]
    set_epoch: int
    again: bool


class Follow(NamedTuple):
    """Be a replica of a master, whose main port is at ``address``.  Then ``done`` or ``failed``."""

    order: int
    master_id: int
    address: str
    epoch: int


class LeaseConfirmed(NamedTuple):
    """The controllers, asked at ``asked_ms``, said that we are master of ``epoch``."""

    epoch: int
    asked_ms: int


class SetKnown(NamedTuple):
    """The SyncStateSet of our own epoch."""

    members: tuple[int, ...]
    set_epoch: int


class SetRefused(NamedTuple):
    """A change of the set was refused; see ``SyncState.refused``."""

    change: int
    code: int
    in_order: bool


class SetUnanswered(NamedTuple):
    """Nobody knows what became of a change of the set."""

    change: int


class Registered(NamedTuple):
    """All replicas that the controllers know."""

    replicas: tuple[int, ...]


# --- to others


class Noticed(NamedTuple):
    """The notice (1008) of this number may be answered.

    :ivar confirmed: the controllers said nothing against it.
    """

    notice: int
    confirmed: bool


class Trouble(NamedTuple):
    """Something an operator should know; empty: it is over."""

    text: str


class Left(NamedTuple):
    """The role is handed over, or cannot be: stop."""


Effect = (
    Ask
    | Beat
    | HangUp
    | Want
    | GiveUp
    | Keep
    | Fence
    | Suspend
    | Resume
    | Retire
    | Lead
    | Follow
    | LeaseConfirmed
    | SetKnown
    | SetRefused
    | SetUnanswered
    | Registered
    | Noticed
    | Trouble
    | Left
)
