"""Which replicas a controller has registered: request 1006 and its answer.

Pure.  Java: ``BrokerReplicasInfo``, as ``mqadmin getSyncStateSet`` shows it.
"""

from __future__ import annotations

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire import json_dialect, json_members
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.controller_calls import MEMBERS_MAX, Call
from rocketha.wire.remoting import Command

GROUPS_MAX = 16
"""Of one name, in several clusters."""


def get_replicas(broker_name: str) -> Call:
    """1006, for one group."""
    return Call(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, {}, json_dialect.dumps([broker_name]))


def replicas(answer: Command, cluster: str, broker_name: str) -> tuple[int, ...]:
    """The ids of all registered replicas, in sync or not, ascending; none of an unknown group.

    Where a name is used in several clusters our controllers show each as ``cluster:name``.

    :raises RequestRefused: the controller's refusal.
    :raises RemoteProtocolError: it is no such table.
    """
    if answer.code != ResponseCode.SUCCESS:
        raise RequestRefused(answer.code, (answer.remark or "")[:1000])
    found = json_members.json_object(answer.body, "a list of replicas")
    groups = json_members.table(found, "replicasInfoTable", GROUPS_MAX)
    key = next((each for each in (f"{cluster}:{broker_name}", broker_name) if each in groups), None)
    if key is None:
        return ()
    group = json_members.as_object(groups[key], "a list of replicas")
    ids: set[int] = set()
    for name in ("inSyncReplicas", "notInSyncReplicas"):
        for row in json_members.rows(group, name, MEMBERS_MAX):
            ids.add(json_members.long(row, "brokerId", low=1))
    if len(ids) > MEMBERS_MAX:
        raise RemoteProtocolError(f"{len(ids)} replicas of {broker_name}, at most {MEMBERS_MAX}")
    return tuple(sorted(ids))
