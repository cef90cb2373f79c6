"""What a broker says to its controller and hears from it: 1001 to 1008, 1012, 1013, 904 and our own 11006.

Pure.  Knows header fields and bodies; not when a call is due, what to do with an answer, or connections.

Theory of operation: for each request a function that makes the :class:`Call` and one that reads the answer.  An answer
with another code than the call can succeed with is a :class:`RequestRefused` with the controller's code and remark
(``CONTROLLER_NOT_LEADER`` among them: ask 1005 who leads); an answer that says what can not be is a
:class:`RemoteProtocolError`.  A controller that knows no master leaves its fields out: ``master_id`` 0.

Java: ``BrokerOuterAPI``, ``ReplicasManager`` and the ``header.controller`` classes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire import json_members
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.json_members import INT_MAX, header_number
from rocketha.wire.remoting import Command
from rocketha.wire.spec import ha_bodies
from rocketha.wire.spec.format import Format

RETIRING_MASTER = "retiringMasterId"
"""Header field of ours in a designated 1002: the master's own id, when it hands its role over."""

RETIRING_REASON = "retiringReason"
"""Likewise: why it does, where it does not stop."""

MEMBERS_MAX = 256
"""Most ids in a SyncStateSet."""

PEERS_MAX = 64
ADDRESS_CHARACTERS_MAX = 300
REASON_CHARACTERS_MAX = 300
SET_BYTES_MAX = 8192

CONFIRM_MASTER = 11006
"""Our own: an elected broker asks whether it may act as master (controller/sync_state.py, ``confirm``)."""


class Call(NamedTuple):
    """One request: what ``RemotingClient.request`` and ``oneway`` take after the address."""

    code: int
    fields: dict[str, str]
    body: bytes = b""


class SyncSet(NamedTuple):
    """Who is in sync, ascending, and how often that changed."""

    members: tuple[int, ...]
    epoch: int


class MasterInfo(NamedTuple):
    """What the controller knows of a group; ``master_id`` 0 and no address while there is no master."""

    master_id: int
    master_address: str
    master_epoch: int
    in_sync: SyncSet


class ControllerInfo(NamedTuple):
    """The controllers as one of them sees them; no leader: empty texts.  ``peers``: id to ``host:port``."""

    leader_id: str
    leader_address: str
    is_leader: bool
    peers: Mapping[str, str]
    group: str


class Beat(NamedTuple):
    """What a 904 says.  ``confirms_role`` is ours: the master says that it acts in ``epoch``."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str  # host:port of the broker
    epoch: int  # newest in its epoch file
    max_offset: int
    confirm_offset: int
    timeout_ms: int = 10_000
    priority: int = INT_MAX
    confirms_role: bool = False


# --- bodies


def encode_set(in_sync: SyncSet) -> bytes:
    """A ``SyncStateSet``."""
    ids = ",".join(map(str, in_sync.members)).encode()
    return b'{"syncStateSet":[%b],"syncStateSetEpoch":%d}' % (ids, in_sync.epoch)


def decode_set(data: bytes) -> SyncSet:
    """A ``SyncStateSet``; members are sorted."""
    found = json_members.json_object(data, "a SyncStateSet")
    return SyncSet(_members(found), json_members.integer(found, "syncStateSetEpoch", 0, 0))


def _members(found: Mapping[str, Any]) -> tuple[int, ...]:
    ids = json_members.longs(found, "syncStateSet", MEMBERS_MAX)
    if any(each <= 0 for each in ids):
        raise RemoteProtocolError(f"syncStateSet holds what is no broker id: {str(ids)[:80]}")
    return tuple(sorted(set(ids)))


# --- requests


def alter_sync_state_set(
    cluster: str,
    broker_name: str,
    master_id: int,
    master_epoch: int,
    members: Collection[int],
    set_epoch: int,
    wall_ms: int,
) -> Call:
    """1001: the master reports another set; ``set_epoch`` is that of the present one, ``cluster`` a field of ours."""
    fields = {
        "clusterName": cluster,
        "brokerName": broker_name,
        "masterBrokerId": str(master_id),
        "masterEpoch": str(master_epoch),
        "invokeTime": str(wall_ms),
    }
    wanted = SyncSet(tuple(sorted(members)), set_epoch)
    return Call(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, fields, encode_set(wanted))


def elect_master(
    cluster: str,
    broker_name: str,
    broker_id: int,
    wall_ms: int,
    designate: bool = False,
    retiring: int | None = None,
    reason: str = "",
) -> Call:
    """1002: a broker that knows no master asks for one; ``designate``: this one is to lead.

    :param retiring: the master that says so, because it hands over: a field of ours, which Java does not look at.
    :param reason: why, if not because it stops; another such field.
    """
    fields = {
        "clusterName": cluster,
        "brokerName": broker_name,
        "brokerId": str(broker_id),
        "designateElect": "true" if designate else "false",
        "invokeTime": str(wall_ms),
    }
    if retiring is not None:
        fields[RETIRING_MASTER] = str(retiring)
    if reason:
        fields[RETIRING_REASON] = reason[:REASON_CHARACTERS_MAX]
    return Call(RequestCode.CONTROLLER_ELECT_MASTER, fields)


def register_broker(cluster: str, broker_name: str, broker_id: int, address: str, wall_ms: int) -> Call:
    """1003: an id's present address."""
    fields = {
        "clusterName": cluster,
        "brokerName": broker_name,
        "brokerId": str(broker_id),
        "brokerAddress": address,
        "invokeTime": str(wall_ms),
    }
    return Call(RequestCode.CONTROLLER_REGISTER_BROKER, fields)


def get_replica_info(cluster: str, broker_name: str) -> Call:
    """1004: who leads, who is in sync.

    :param cluster: a field of ours, for connections without heartbeats: what these name counts more.
    """
    return Call(RequestCode.CONTROLLER_GET_REPLICA_INFO, {"clusterName": cluster, "brokerName": broker_name})


def get_metadata() -> Call:
    """1005: which controller leads; any of them answers."""
    return Call(RequestCode.CONTROLLER_GET_METADATA_INFO, {})


def get_next_broker_id(cluster: str, broker_name: str) -> Call:
    """1012: an id that was free a moment ago."""
    return Call(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, {"clusterName": cluster, "brokerName": broker_name})


def apply_broker_id(cluster: str, broker_name: str, broker_id: int, check_code: str) -> Call:
    """1013: this id shall be ours; ``check_code`` (``address;millis``) makes a repetition harmless."""
    fields = {
        "clusterName": cluster,
        "brokerName": broker_name,
        "appliedBrokerId": str(broker_id),
        "registerCheckCode": check_code,
    }
    return Call(RequestCode.CONTROLLER_APPLY_BROKER_ID, fields)


def confirm_master(cluster: str, broker_name: str, broker_id: int, master_epoch: int) -> Call:
    """11006, ours: may this broker act as master of this epoch?"""
    fields = {
        "clusterName": cluster,
        "brokerName": broker_name,
        "brokerId": str(broker_id),
        "masterEpoch": str(master_epoch),
    }
    return Call(CONFIRM_MASTER, fields)


def heartbeat(beat: Beat) -> Call:
    """904, oneway, to every controller."""
    fields = {
        "clusterName": beat.cluster,
        "brokerName": beat.broker_name,
        "brokerId": str(beat.broker_id),
        "brokerAddr": beat.address,
        "epoch": str(beat.epoch),
        "maxOffset": str(beat.max_offset),
        "confirmOffset": str(beat.confirm_offset),
        "heartbeatTimeoutMills": str(beat.timeout_ms),
        "electionPriority": str(beat.priority),
    }
    if beat.confirms_role:
        fields["confirmsRole"] = "true"
    return Call(RequestCode.BROKER_HEARTBEAT, fields)


# --- answers


def altered(answer: Command) -> SyncSet:
    """1001, granted: the set as it is now."""
    _granted(answer)
    found = decode_set(answer.body)
    if not found.members:
        raise RemoteProtocolError("an altered SyncStateSet without members")
    epoch = header_number(answer.fields, "newSyncStateSetEpoch", 0, INT_MAX, found.epoch)
    if epoch != found.epoch:
        raise RemoteProtocolError(f"an altered SyncStateSet of epoch {epoch} in its header, {found.epoch} in its body")
    return found


def elected(answer: Command) -> MasterInfo:
    """1002: the new master, or the present one if it lives (Java's brokers take that for success, too)."""
    _granted(answer, ResponseCode.CONTROLLER_MASTER_STILL_EXIST)
    members = _members(json_members.json_object(answer.body, "the answer to an election")) if answer.body else ()
    info = _master(answer.fields, SyncSet(members, 0))
    if not info.master_id:
        raise RemoteProtocolError("the answer to an election names no master")
    return info


def registered(answer: Command) -> MasterInfo:
    """1003: the master, if there is one that lives."""
    _granted(answer)
    return _master(answer.fields, decode_set(answer.body) if answer.body else SyncSet((), 0))


def replica_info(answer: Command) -> MasterInfo:
    """1004."""
    _granted(answer)
    return _master(answer.fields, decode_set(answer.body) if answer.body else SyncSet((), 0))


def confirmed(answer: Command) -> MasterInfo:
    """11006, granted."""
    _granted(answer)
    return _master(answer.fields, decode_set(answer.body))


def metadata(answer: Command) -> ControllerInfo:
    """1005."""
    _granted(answer)
    fields = answer.fields
    peers: dict[str, str] = {}
    texts = [each for each in fields.get("peers", "").split(";") if each]
    if len(texts) > PEERS_MAX:
        raise RemoteProtocolError(f"{len(texts)} controllers, {PEERS_MAX} are allowed")
    for each in texts:
        name, _, address = each.partition(":")
        peers[name] = _address(address, "peers")
    leader = fields.get("controllerLeaderAddress", "")
    return ControllerInfo(
        fields.get("controllerLeaderId", ""),
        _address(leader, "controllerLeaderAddress") if leader else "",
        fields.get("isLeader", "").lower() == "true",
        peers,
        fields.get("group", ""),
    )


def next_broker_id(answer: Command) -> int:
    """1012."""
    _granted(answer)
    return header_number(answer.fields, "nextBrokerId", 1)


def applied(answer: Command) -> None:
    """1013, granted."""
    _granted(answer)


def role_changed(notice: Command) -> MasterInfo:
    """1008, a request: the controller tells who leads now.

    :raises RemoteProtocolError: it names no master, or no epoch.
    """
    if notice.code != RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
        raise RemoteProtocolError(f"request {notice.code} is no notice of a role")
    header_number(notice.fields, "masterEpoch", 1, INT_MAX)
    info = _master(notice.fields, decode_set(notice.body) if notice.body else SyncSet((), 0))
    if not info.master_id:
        raise RemoteProtocolError("a notice of a role names no master")
    return info


def _granted(answer: Command, *others: ResponseCode) -> None:
    if answer.code != ResponseCode.SUCCESS and answer.code not in others:
        raise RequestRefused(answer.code, (answer.remark or "")[:1000])


def _master(fields: Mapping[str, str], found: SyncSet) -> MasterInfo:
    """The header's epoch of the set counts where it is there, as in Java."""
    epoch = header_number(fields, "syncStateSetEpoch", 0, INT_MAX, found.epoch)
    master_id = header_number(fields, "masterBrokerId", 1) if "masterBrokerId" in fields else 0
    address = _address(fields.get("masterAddress", ""), "masterAddress") if master_id else ""
    master_epoch = header_number(fields, "masterEpoch", 0, INT_MAX, 0)
    return MasterInfo(master_id, address, master_epoch, SyncSet(found.members, epoch))


def _address(value: str, name: str) -> str:
    host, _, port = value.rpartition(":")
    good = host and port.isascii() and port.isdecimal() and len(port) < 6 and 0 < int(port) < 65536
    if not good or len(value) > ADDRESS_CHARACTERS_MAX or not value.isprintable() or " " in value:
        raise RemoteProtocolError(f"{name} is {value[:80]!r}, wanted is host:port")
    return value


FORMATS = (
    Format(
        name="sync-state-set",
        spec=ha_bodies.SYNC_STATE_SET,
        parse=decode_set,
        build=encode_set,
        bound=SET_BYTES_MAX,
        doc="The body of 1001, 1008 and of most answers of a controller (SyncStateSet).",
    ),
)
