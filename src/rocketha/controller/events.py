"""What the controller's log holds: one class a request, each with the evidence the leader had.

Pure.  Theory of operation: an entry is an intent, not a decision.  The leader proposes what was asked together with
what it knew at that moment (who was alive, what probes saw, why); ``ControllerState.apply`` decides when the entry is
committed, on every node alike.  So the checks see all entries before this one, requests need not wait for each other,
and the log itself answers "why".  Time in the evidence is information for people; no rule looks at it.  Java's classes
(``EventMessage``: ApplyBrokerIdEvent, UpdateBrokerAddressEvent, ElectMasterEvent, AlterSyncStateSetEvent,
CleanBrokerDataEvent) hold decisions instead.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.wire import controller_log
from rocketha.wire.controller_log import Alive, EntryRow, Seen

__all__ = [
    "ALL_EVENTS",
    "CONTROLLER",
    "Alive",
    "AlterSyncStateSet",
    "ApplyBrokerId",
    "CleanBrokerData",
    "ConfirmMaster",
    "ElectMaster",
    "Event",
    "EventKind",
    "Evidence",
    "RegisterBroker",
    "Saw",
    "Seen",
    "Why",
    "decode",
    "encode",
]

CONTROLLER = -1
"""``broker_id`` of an election that no broker asked for, as on Java's wire."""


class EventKind(IntEnum):
    """The kind byte of an entry."""

    APPLY_BROKER_ID = 1
    REGISTER_BROKER = 2
    ELECT_MASTER = 3
    ALTER_SYNC_STATE_SET = 4
    CLEAN_BROKER_DATA = 5
    CONFIRM_MASTER = 6


class Why(IntEnum):
    """What made the leader propose an entry."""

    REQUESTED = 0  # a broker's or a tool's request of any other kind
    BROKER_ASKED = 1  # a broker found its group without a master
    ADMIN_ASKED = 2  # an operator designated a broker
    PORT_REFUSED = 3  # the master's own port refused a connection: its process is gone
    NOBODY_HEARS_IT = 4  # silent to probes, and no controller and no replica hears it
    LEASE_EXPIRED = 5  # no heartbeat for longer than the master announced
    MASTER_MISSING = 6  # the group has no master and a member of its set is alive
    UNHEARD_SINCE_START = 7  # a fresh leader never heard the master
    HANDED_OVER = 8  # the master stops, or is unfit, and named the broker that follows


class Saw(IntEnum):
    """What was seen of a broker."""

    PORT_REFUSED = 1
    PORT_ANSWERED = 2
    PORT_SILENT = 3
    CONTROLLER_HEARS = 4
    CONTROLLER_DOES_NOT_HEAR = 5
    REPLICA_HEARS = 6
    REPLICA_DOES_NOT_HEAR = 7
    HEARTBEAT_LATE = 8
    CONNECTION_CLOSED = 9


@attrs.frozen(slots=True)
class Evidence:
    """What the leader knew when it proposed.

    :ivar why: what made it propose; ``reason`` says it in words.
    :ivar now_ms: its clock, information only.
    :ivar asker: address of who asked, empty for itself.
    :ivar unclean: ``enableElectUncleanMaster``: a broker outside the SyncStateSet may be elected.
    :ivar adopt: brokers that this controller has no record of may register under the id they bring.
    :ivar operator: who designates a master may say which brokers are given up: it asks from the controller's own
        machine, or ``remoteAdminEnable`` is set.
    :ivar never_told: log index of the group's last election, if this node, which proposed that election in its present
        term, can vouch that its winner never heard of it: the notice found its port closed, and nothing that names it
        was answered to anybody of the group since.  0 where it can not.
    :ivar alive: the registered replicas it thought alive, by id.
    :ivar seen: what probes, the other controllers and the replicas said.
    """

    why: int = Why.REQUESTED
    reason: str = ""
    now_ms: int = 0
    asker: str = ""
    unclean: bool = False
    adopt: bool = False
    never_told: int = 0
    alive: tuple[Alive, ...] = ()
    seen: tuple[Seen, ...] = ()
    operator: bool = False


NOTHING_KNOWN = Evidence()


@attrs.frozen(slots=True)
class ApplyBrokerId:
    """1013: take an id; the address stands in the check code."""

    cluster: str
    broker_name: str
    broker_id: int
    check_code: str
    evidence: Evidence = NOTHING_KNOWN


@attrs.frozen(slots=True)
class RegisterBroker:
    """1003: a broker that has its id is there, at this address."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    evidence: Evidence = NOTHING_KNOWN


@attrs.frozen(slots=True)
class ElectMaster:
    """1002, or the controller's own decision that the master is gone.

    :ivar broker_id: who asks, or whom an operator designates; ``CONTROLLER`` for an election nobody asked for.
    :ivar designate: only ``broker_id`` may win.
    :ivar expected_master: elect only if this is still the master (0: if there is none) ...
    :ivar expected_epoch: ... in this epoch; 0 and 0: whatever is.  An election proposed about a master that has been
        replaced meanwhile must not replace its successor.
    :ivar newest_epoch: the newest that the leader heard any member name; 0: none.  If the log knows of none so new, it
        has lost elections.
    """

    cluster: str
    broker_name: str
    broker_id: int = CONTROLLER
    designate: bool = False
    expected_master: int = 0
    expected_epoch: int = 0
    evidence: Evidence = NOTHING_KNOWN
    newest_epoch: int = 0


@attrs.frozen(slots=True)
class AlterSyncStateSet:
    """1001: the master reports who is in sync; ``new_set`` ascending.  ``cluster`` may be empty: it names none."""

    cluster: str
    broker_name: str
    master_id: int
    master_epoch: int
    set_epoch: int
    new_set: tuple[int, ...]
    evidence: Evidence = NOTHING_KNOWN


@attrs.frozen(slots=True)
class CleanBrokerData:
    """1011: forget these ids, or without ids the whole group; ``living``: also if they are alive (and always all)."""

    cluster: str
    broker_name: str
    broker_ids: tuple[int, ...]
    living: bool = False
    evidence: Evidence = NOTHING_KNOWN


@attrs.frozen(slots=True)
class ConfirmMaster:
    """An elected broker that acknowledges nothing until this is answered (ours alone; no Java broker sends it)."""

    cluster: str
    broker_name: str
    broker_id: int
    master_epoch: int
    evidence: Evidence = NOTHING_KNOWN


Event = ApplyBrokerId | RegisterBroker | ElectMaster | AlterSyncStateSet | CleanBrokerData | ConfirmMaster

ALL_EVENTS: tuple[type, ...] = (
    ApplyBrokerId,
    RegisterBroker,
    ElectMaster,
    AlterSyncStateSet,
    CleanBrokerData,
    ConfirmMaster,
)

_DESIGNATE, _LIVING, _UNCLEAN, _ADOPT, _OPERATOR = 1, 2, 4, 8, 16
_NEWEST = 32  # only so that a program which knows nothing of newest epochs refuses the entry: it would elect


def encode(event: Event) -> bytes:
    """The log entry of an event.

    :raises RemoteProtocolError: when a value does not fit (``requests.decode`` lets none through).
    """
    evidence = event.evidence
    flags = (_UNCLEAN if evidence.unclean else 0) | (_ADOPT if evidence.adopt else 0)
    flags |= _OPERATOR if evidence.operator else 0
    broker_id = expected = master_epoch = set_epoch = 0
    subject = ""
    ids: tuple[int, ...] = ()
    if type(event) is AlterSyncStateSet:
        kind, broker_id, ids = EventKind.ALTER_SYNC_STATE_SET, event.master_id, event.new_set
        master_epoch, set_epoch = event.master_epoch, event.set_epoch
    elif type(event) is ApplyBrokerId:
        kind, broker_id, subject = EventKind.APPLY_BROKER_ID, event.broker_id, event.check_code
    elif type(event) is RegisterBroker:
        kind, broker_id, subject = EventKind.REGISTER_BROKER, event.broker_id, event.address
    elif type(event) is ElectMaster:
        kind, broker_id, expected = EventKind.ELECT_MASTER, event.broker_id, event.expected_master
        master_epoch, set_epoch = event.expected_epoch, event.newest_epoch
        flags |= (_DESIGNATE if event.designate else 0) | (_NEWEST if event.newest_epoch else 0)
    elif type(event) is CleanBrokerData:
        kind, ids = EventKind.CLEAN_BROKER_DATA, event.broker_ids
        flags |= _LIVING if event.living else 0
    elif type(event) is ConfirmMaster:
        kind, broker_id, master_epoch = EventKind.CONFIRM_MASTER, event.broker_id, event.master_epoch
    else:
        raise TypeError(f"{type(event).__name__} is no event of the controller")
    row = EntryRow(
        kind,
        evidence.why,
        flags,
        broker_id,
        expected,
        master_epoch,
        set_epoch,
        evidence.now_ms,
        evidence.never_told,
        event.cluster,
        event.broker_name,
        subject,
        evidence.asker,
        evidence.reason,
        ids,
        evidence.alive,
        evidence.seen,
    )
    return controller_log.encode_entry(row)


def decode(data: bytes) -> Event:
    """The event of a log entry.

    :raises RemoteProtocolError: not an entry, or of a kind that this program does not know.
    """
    row = controller_log.decode_entry(data)
    make = _MAKERS.get(row.kind)
    if make is None:
        raise RemoteProtocolError(f"controller log entry of the unknown kind {row.kind}")
    evidence = Evidence(
        row.why,
        row.reason,
        row.now_ms,
        row.asker,
        bool(row.flags & _UNCLEAN),
        bool(row.flags & _ADOPT),
        row.never_told,
        row.alive,
        row.seen,
        bool(row.flags & _OPERATOR),
    )
    return make(row, evidence)


_MAKERS: dict[int, Callable[[EntryRow, Evidence], Event]] = {
    EventKind.APPLY_BROKER_ID: lambda row, evidence: ApplyBrokerId(
        row.cluster, row.broker_name, row.broker_id, row.subject, evidence
    ),
    EventKind.REGISTER_BROKER: lambda row, evidence: RegisterBroker(
        row.cluster, row.broker_name, row.broker_id, row.subject, evidence
    ),
    EventKind.ELECT_MASTER: lambda row, evidence: ElectMaster(
        row.cluster,
        row.broker_name,
        row.broker_id,
        bool(row.flags & _DESIGNATE),
        row.expected_master,
        row.master_epoch,
        evidence,
        row.set_epoch,
    ),
    EventKind.ALTER_SYNC_STATE_SET: lambda row, evidence: AlterSyncStateSet(
        row.cluster, row.broker_name, row.broker_id, row.master_epoch, row.set_epoch, row.ids, evidence
    ),
    EventKind.CLEAN_BROKER_DATA: lambda row, evidence: CleanBrokerData(
        row.cluster, row.broker_name, row.ids, bool(row.flags & _LIVING), evidence
    ),
    EventKind.CONFIRM_MASTER: lambda row, evidence: ConfirmMaster(
        row.cluster, row.broker_name, row.broker_id, row.master_epoch, evidence
    ),
}
