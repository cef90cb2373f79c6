"""Which replicas a controller has registered: request 1006 and its answer.

Pure.  Java: ``BrokerReplicasInfo``, as ``mqadmin getSyncStateSet`` shows it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire import json_dialect, json_members
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.controller_calls import MEMBERS_MAX, Call
from rocketha.wire.remoting import Command

SETS_MAX = 20_000


@attrs.frozen
class ReplicaSet:
    """A broker set as a controller has it.

    :ivar master: the broker's id; 0: there is none.
    :ivar members: id to ``host:port``, of all that are registered, ascending; an address may be "".
    :ivar alive: those of them that are heard.
    :ivar in_sync: the SyncStateSet, ascending.
    """

    master: int
    master_epoch: int
    set_epoch: int
    members: Mapping[int, str]
    alive: frozenset[int]
    in_sync: tuple[int, ...]


def get_replicas(*broker_names: str) -> Call:
    """1006, for sets of these names."""
    return Call(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, json_dialect.dumps(list(broker_names)))


def replica_sets(answer: Command) -> dict[str, ReplicaSet]:
    """By the names that the controller calls them: see :func:`named`.

    :raises RequestRefused: the controller's refusal.
    :raises RemoteProtocolError: it is no such table.
    """
    if answer.code != ResponseCode.SUCCESS:
        raise RequestRefused(answer.code, (answer.remark or "")[:1000])
    found = json_members.json_object(answer.body, "a list of replicas")
    table = json_members.table(found, "replicasInfoTable", SETS_MAX)
    return {str(name): _set(json_members.as_object(row, "a list of replicas")) for name, row in table.items()}


def named(sets: Mapping[str, ReplicaSet], cluster: str, broker_name: str) -> ReplicaSet | None:
    """A set of those that were answered; None: the controller does not know it.

    Where a name is used in several clusters our controllers show each as ``cluster:name``.
    """
    return sets.get(f"{cluster}:{broker_name}") or sets.get(broker_name)


def replicas(answer: Command, cluster: str, broker_name: str) -> tuple[int, ...]:
    """The ids of all registered replicas, in sync or not, ascending; none of an unknown set.

    :raises RequestRefused: the controller's refusal.
    :raises RemoteProtocolError: it is no such table.
    """
    found = named(replica_sets(answer), cluster, broker_name)
    return () if found is None else tuple(found.members)


def _set(found: Mapping[str, object]) -> ReplicaSet:
    members: dict[int, str] = {}
    alive, in_sync = set(), set()
    for name in ("inSyncReplicas", "notInSyncReplicas"):
        for row in json_members.rows(found, name, MEMBERS_MAX):
            number = json_members.long(row, "brokerId", low=1)
            members[number] = json_members.text(row, "brokerAddress", "")
            if json_members.flag(row, "alive"):
                alive.add(number)
            if name == "inSyncReplicas":
                in_sync.add(number)
    if len(members) > MEMBERS_MAX:
        raise RemoteProtocolError(f"{len(members)} replicas in a set, at most {MEMBERS_MAX}")
    return ReplicaSet(
        max(0, json_members.long(found, "masterBrokerId", 0)),
        json_members.integer(found, "masterEpoch", 0, 0),
        json_members.integer(found, "syncStateSetEpoch", 0, 0),
        dict(sorted(members.items())),
        frozenset(alive),
        tuple(sorted(in_sync)),
    )
