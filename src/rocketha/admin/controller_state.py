"""The controllers' state over the network: saved, copied from other controllers, and who of a broker set has most.

What it must not know: the command line, the disk.  Other controllers may be Java's.

Java: ``mqadmin getSyncStateSet``, ``getBrokerEpoch``, ``electMaster``; the rest has no counterpart there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from rocketha.admin.client import NETWORK_ERRORS, RequestFailed, plain
from rocketha.admin.controllers import Controllers
from rocketha.controller.copied import FIRST_INDEX, CopiedSet, copied_set, snapshot_of
from rocketha.errors import RemoteProtocolError, RockethaError
from rocketha.services.controller.offline import SavedController
from rocketha.wire import controller_calls, fields, ha_status, json_members, replica_list
from rocketha.wire.codes import PrivateCode, RequestCode
from rocketha.wire.controller_calls import MasterInfo
from rocketha.wire.replica_list import ReplicaSet

SETS_AT_ONCE = 100
"""Broker sets asked for in one 1006."""

SAVE_TIMEOUT_S = 60.0
COPIED_FROM = "copied"
"""The controller that a copy of others' state names as its source."""


async def save(controllers: Controllers) -> SavedController:
    """What the controllers have decided up to now.

    :raises RequestFailed: it is refused, or nobody leads.
    """
    first = await controllers.ask_leader(PrivateCode.SNAPSHOT, timeout_s=SAVE_TIMEOUT_S)
    told = first.fields
    index, term = fields.long(told, "index"), fields.long(told, "term")
    parts, size = [bytes(first.body)], len(first.body)
    while parts[-1]:
        wanted = {"index": str(index), "offset": str(size)}
        answer = await controllers.ask_leader(PrivateCode.SNAPSHOT, wanted, SAVE_TIMEOUT_S)
        parts.append(bytes(answer.body))
        size += len(answer.body)
    saved = SavedController(fields.text(told, "group"), fields.text(told, "id"), index, term, b"".join(parts))
    saved.state()
    return saved


async def copied_sets(controllers: Controllers, names: Mapping[str, str]) -> list[CopiedSet]:
    """Broker sets as their controllers, ours or Java's, describe them.

    :param names: of the sets, each with its cluster.
    :raises RequestFailed: it is refused, or nobody leads.
    :raises RemoteProtocolError: what is answered is none.
    :return: those that the controllers know.
    """
    found: list[CopiedSet] = []
    ordered = sorted(names)
    for start in range(0, len(ordered), SETS_AT_ONCE):
        some = ordered[start : start + SETS_AT_ONCE]
        for name, replicas in (await replica_sets(controllers, {each: names[each] for each in some})).items():
            call = controller_calls.get_next_broker_id(names[name], name)
            next_id = controller_calls.next_broker_id(await controllers.ask_leader(call.code, call.fields))
            found.append(copied_set(names[name], name, next_id, replicas))
    return found


async def replica_sets(controllers: Controllers, names: Mapping[str, str]) -> dict[str, ReplicaSet]:
    """Broker sets as the leading controller has them; those that it does not know are left out.

    :param names: of the sets, each with its cluster, "" where that is not known.
    :raises RequestFailed: it is refused, or nobody leads.
    :raises RemoteProtocolError: what is answered is none.
    """
    call = replica_list.get_replicas(*names)
    told = replica_list.replica_sets(await controllers.ask_leader(call.code, body=call.body))
    found = {name: replica_list.named(told, cluster, name) for name, cluster in names.items()}
    return {name: each for name, each in found.items() if each is not None}


def copied_state(sets: Sequence[CopiedSet], group: str) -> SavedController:
    """The state that has these sets.

    :param group: of the controllers that are to get it.
    """
    return SavedController(group, COPIED_FROM, FIRST_INDEX, 1, snapshot_of(sets))


@attrs.frozen
class ReplicaLog:
    """The log of one broker of a set.

    :ivar epoch: the newest in its epoch file; -1: there is none.
    :ivar max_offset: the end of its log, bytes.
    :ivar problem: why that is not known; "" if it is.
    :ivar leads: whether it acts as master.
    """

    broker_id: int
    address: str
    epoch: int = -1
    max_offset: int = -1
    problem: str = ""
    leads: bool = False


async def cluster_of(controllers: Controllers, broker_name: str) -> str:
    """The cluster of a broker set, if only one has a set of this name.

    :raises RequestFailed: none has, or several.
    """
    answer = await controllers.ask_leader(PrivateCode.WHY, {"brokerName": broker_name})
    return json_members.text(json_members.json_object(answer.body, "11003"), "clusterName")


async def replica_logs(controllers: Controllers, cluster: str, broker_name: str) -> list[ReplicaLog]:
    """What each broker of a set has, by ids: asked of the brokers themselves.

    :raises RockethaError: the controllers do not know the set.
    """
    found = await copied_sets(controllers, {broker_name: cluster})
    if not found:
        raise RockethaError(f"the controllers do not know broker set {broker_name}")
    members = found[0].replicas.members
    return [await _log_of(controllers, broker_name, number, address) for number, address in members.items()]


async def _log_of(controllers: Controllers, broker_name: str, number: int, address: str) -> ReplicaLog:
    try:
        status = ha_status.decode_epochs((await controllers.ask(address, RequestCode.GET_BROKER_EPOCH_CACHE)).body)
    except (RequestFailed, RemoteProtocolError, *NETWORK_ERRORS) as problem:
        return ReplicaLog(number, address, problem=plain(problem))
    if status.broker_name != broker_name:
        return ReplicaLog(number, address, problem=f"broker {status.broker_id} of {status.broker_name} lives there")
    if status.broker_id not in (0, number):
        remedy = f"if {number} is gone: rocketha controller clean {broker_name} {number}"
        return ReplicaLog(number, address, problem=f"broker {status.broker_id} has its address; {remedy}")
    epoch = status.entries[-1].epoch if status.entries else -1
    return ReplicaLog(number, address, epoch, status.max_offset, leads=not status.broker_id)


def newest(logs: Sequence[ReplicaLog]) -> ReplicaLog:
    """The log that has everything that was acknowledged, if all brokers of the set are among these.

    A master's log has all that it acknowledged, and was chosen out of its predecessor's SyncStateSet: so the newest
    epoch's longest log has everything.  Of that epoch it is the one that acts as master, whatever the offsets say: it
    may take messages meanwhile, and was asked at another time than its replicas.  Of equal ones it is the smallest id.

    :raises RockethaError: one of them is not known: it may be that one.
    """
    unknown = [f"broker {each.broker_id} at {each.address}: {each.problem}" for each in logs if each.problem]
    if unknown:
        raise RockethaError(f"it is not known who has the newest log: {'; '.join(unknown)}")
    if not logs:
        raise RockethaError("the set has no broker")
    return max(logs, key=lambda each: (*_has(each), -each.broker_id))


def _has(log: ReplicaLog) -> tuple[int, bool, int]:
    """Of two brokers, the one with the greater of these has more, or may have by now."""
    return log.epoch, log.leads, log.max_offset


def may_have_more(logs: Sequence[ReplicaLog], chosen: int) -> list[int]:
    """Which brokers of a set may have more than one of them; all others if that one is none, or its log not known."""
    own = next((_has(each) for each in logs if each.broker_id == chosen and not each.problem), (-2, False, 0))
    others = (each for each in logs if each.broker_id != chosen)
    return [each.broker_id for each in others if each.problem or _has(each) > own]


async def elect(controllers: Controllers, cluster: str, broker_name: str, broker_id: int, wall_ms: int) -> MasterInfo:
    """Make a broker the master of its set.

    :raises RequestFailed: it is refused; 2011 where it is the master already.
    """
    call = controller_calls.elect_master(cluster, broker_name, broker_id, wall_ms, designate=True)
    return controller_calls.elected(await controllers.ask_leader(call.code, call.fields))


async def clean(controllers: Controllers, cluster: str, broker_name: str, broker_ids: Sequence[int]) -> None:
    """Remove members that are gone.

    :raises RequestFailed: it is refused: one is heard, for instance.
    """
    wanted = {
        "brokerName": broker_name,
        "brokerControllerIdsToClean": ";".join(map(str, broker_ids)),
        "isCleanLivingBroker": "false",
    }
    if cluster:
        wanted["clusterName"] = cluster
    await controllers.ask_leader(RequestCode.CLEAN_BROKER_DATA, wanted)
