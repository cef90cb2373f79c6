"""The controller's answers, as Java 5.5.0 lays them out: header fields in its order, bodies in its order of keys.

Knows shapes and texts, not when they are due.  Where a test compares with recorded traffic the bytes are equal; the one
body that differs is the election's, because Java's own cannot be read by its mqadmin.  Java classes:
``*ResponseHeader``, ``SyncStateSet``, ``ElectMasterResponseBody``, ``BrokerReplicasInfo``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rocketha.controller.group import BrokerGroup
from rocketha.wire import json_dialect
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer

NOT_LEADER = Answer(int(ResponseCode.CONTROLLER_NOT_LEADER), "The controller is not in leader state")
NOTHING_ASKED = Answer(int(ResponseCode.SYSTEM_ERROR), "not set any response code")
"""What Java answers to 1006 without names."""


def refusal(code: int, remark: str, fields: Mapping[str, str] | None = None) -> Answer:
    """A request that is not granted."""
    return Answer(int(code), remark, fields)


def sync_state_set(in_sync: Iterable[int], epoch: int) -> bytes:
    """A ``SyncStateSet``."""
    return b'{"syncStateSet":[%b],"syncStateSetEpoch":%d}' % (",".join(map(str, in_sync)).encode(), epoch)


def altered(in_sync: Iterable[int], epoch: int) -> Answer:
    """1001, granted."""
    return Answer(fields={"newSyncStateSetEpoch": str(epoch)}, body=sync_state_set(in_sync, epoch))


def not_altered(code: int, remark: str) -> Answer:
    """1001, refused: Java's header class has an ``int``, so its zero is sent."""
    return Answer(int(code), remark, {"newSyncStateSetEpoch": "0"})


def master_fields(group: BrokerGroup) -> dict[str, str]:
    """Master, address and both epochs; the first two are absent while there is no master."""
    found = _master(group)
    found["syncStateSetEpoch"] = str(group.set_epoch)
    found["masterEpoch"] = str(group.master_epoch)
    return found


def _master(group: BrokerGroup) -> dict[str, str]:
    if not group.master:
        return {}
    return {"masterBrokerId": str(group.master), "masterAddress": group.address(group.master) or ""}


def elected(group: BrokerGroup, winner: int, master_epoch: int, set_epoch: int) -> Answer:
    """1002, a new master.

    The body holds what brokers read (``brokerMemberGroup``, ``syncStateSet``) and what mqadmin reads, which takes the
    whole for a member group.  Keys are quoted: with Java's unquoted ones mqadmin 5.5.0 throws after the election is
    done.
    """
    addresses = {str(broker_id): address for broker_id, address in group.addresses.items()}
    members = {"brokerAddrs": addresses, "brokerName": group.broker_name, "cluster": group.cluster}
    fields = {
        "masterBrokerId": str(winner),
        "masterAddress": group.address(winner) or "",
        "syncStateSetEpoch": str(set_epoch),
        "masterEpoch": str(master_epoch),
    }
    return Answer(
        fields=fields, body=json_dialect.dumps({"brokerMemberGroup": members, "syncStateSet": [winner], **members})
    )


def master_still_exists(group: BrokerGroup) -> Answer:
    """1002, the master lives: brokers take it for success."""
    return Answer(
        int(ResponseCode.CONTROLLER_MASTER_STILL_EXIST),
        f"The old master {group.master} is still alive, not need to elect new master for broker {group.broker_name}",
        master_fields(group),
        b'{"syncStateSet":[%b]}' % ",".join(map(str, group.in_sync)).encode(),
    )


def registered(cluster: str, broker_name: str, group: BrokerGroup, master_alive: bool) -> Answer:
    """1003, granted: the master is named if it is alive."""
    fields = _master(group) if master_alive else {}
    fields["clusterName"] = cluster
    fields["brokerName"] = broker_name
    if master_alive and group.master:
        fields["syncStateSetEpoch"] = str(group.set_epoch)
        fields["masterEpoch"] = str(group.master_epoch)
    return Answer(fields=fields, body=sync_state_set(group.in_sync, group.set_epoch))


def named(cluster: str, broker_name: str) -> dict[str, str]:
    """The header of 1003 and 1013 that says whom the answer is about."""
    return {"clusterName": cluster, "brokerName": broker_name}


def next_broker_id(cluster: str, broker_name: str, next_id: int) -> Answer:
    """1012."""
    return Answer(fields={"clusterName": cluster, "nextBrokerId": str(next_id), "brokerName": broker_name})


def replica_info(group: BrokerGroup) -> Answer:
    """1004, of a known group."""
    fields = _master(group)
    fields["masterEpoch"] = str(group.master_epoch)
    return Answer(fields=fields, body=sync_state_set(group.in_sync, group.set_epoch))


def confirmed(group: BrokerGroup) -> Answer:
    """11006, granted."""
    return Answer(fields=master_fields(group), body=sync_state_set(group.in_sync, group.set_epoch))


def replicas_info(group: BrokerGroup, alive: Iterable[int]) -> dict[str, Any]:
    """One entry of 1006's table."""
    living = frozenset(alive)
    rows = [
        {
            "alive": broker_id in living,
            "brokerAddress": address,
            "brokerId": broker_id,
            "brokerName": group.broker_name,
        }
        for broker_id, address in group.addresses.items()
    ]
    found: dict[str, Any] = {"inSyncReplicas": [row for row in rows if row["brokerId"] in group.in_sync]}
    if group.master:
        found["masterAddress"] = group.address(group.master)
        found["masterBrokerId"] = group.master
    found["masterEpoch"] = group.master_epoch
    found["notInSyncReplicas"] = [row for row in rows if row["brokerId"] not in group.in_sync]
    found["syncStateSetEpoch"] = group.set_epoch
    return found


def sync_state_data(table: Mapping[str, Mapping[str, Any]]) -> Answer:
    """1006."""
    return Answer(body=json_dialect.dumps({"replicasInfoTable": dict(table)}))


def metadata(group: str, leader_id: str, leader_address: str, is_leader: bool, peers: Mapping[str, str]) -> Answer:
    """1005, out of the raft state.

    :param leader_id: empty while no leader is known; the two leader fields are then left out, as DLedger's controller
        does.
    :param peers: id to ``host:port``.
    """
    fields = {"controllerLeaderId": leader_id, "controllerLeaderAddress": leader_address} if leader_id else {}
    fields["isLeader"] = "true" if is_leader else "false"
    fields["peers"] = "".join(f"{node}:{peers[node]};" for node in sorted(peers))
    fields["group"] = group
    return Answer(fields=fields)
