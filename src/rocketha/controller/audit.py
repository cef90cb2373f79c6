"""Why is this broker the master?  The decisions of a group, for people.

Knows the audit trail of a group, which is part of the replicated state: the same on every node, and it outlives the log
entries that a snapshot replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rocketha.controller import events
from rocketha.controller.events import (
    Alive,
    AlterSyncStateSet,
    ApplyBrokerId,
    CleanBrokerData,
    ElectMaster,
    Event,
    RegisterBroker,
    Saw,
    Why,
)
from rocketha.controller.group import BrokerGroup, Did
from rocketha.wire import json_dialect
from rocketha.wire.controller_log import decode_decision


def body(group: BrokerGroup, heard: Iterable[Alive] = ()) -> bytes:
    """The body of 11003: the group, who of it is heard, and its last decisions, oldest first."""
    return json_dialect.dumps(whole(group, heard))


def whole(group: BrokerGroup, heard: Iterable[Alive]) -> dict[str, Any]:
    """The same before it is JSON."""
    return {**describe(group), "alive": [alive(each) for each in heard], "decisions": trail(group)}


def describe(group: BrokerGroup) -> dict[str, Any]:
    """The present state."""
    found: dict[str, Any] = {
        "clusterName": group.cluster,
        "brokerName": group.broker_name,
        "masterBrokerId": group.master_id,
        "masterEpoch": group.master_epoch,
        "syncStateSet": list(group.in_sync),
        "syncStateSetEpoch": group.set_epoch,
        "brokerAddrs": {str(broker_id): address for broker_id, address in group.addresses.items()},
        "nextBrokerId": group.next_id,
        "forgotten": group.forgotten,
        "cleanedBrokerAddrs": {str(broker_id): member.address for broker_id, member in group.cleaned.items()},
        "formerSyncStateSet": list(group.holders),
        "unconfirmedMaster": group.unconfirmed.winner if group.unconfirmed is not None else None,
    }
    return found


def trail(group: BrokerGroup) -> list[dict[str, Any]]:
    """The last decisions, oldest first."""
    return [_decision(data) for data in group.decisions]


def _decision(data: bytes) -> dict[str, Any]:
    row = decode_decision(data)
    event = events.decode(row.entry)
    evidence = event.evidence
    return {
        "index": row.log_index,
        "did": named(Did, row.did),
        "why": named(Why, evidence.why),
        "reason": evidence.reason,
        "asker": evidence.asker,
        "leaderClockMs": evidence.now_ms,
        "request": _request(event),
        "alive": [alive(replica) for replica in evidence.alive],
        "seen": [
            {"brokerId": each.broker_id, "saw": named(Saw, each.saw), "text": each.text} for each in evidence.seen
        ],
        "uncleanAllowed": evidence.unclean,
        "masterBrokerId": row.master or None,
        "masterEpoch": row.master_epoch,
        "syncStateSet": list(row.in_sync),
        "syncStateSetEpoch": row.set_epoch,
    }


def alive(replica: Alive) -> dict[str, int]:
    """A broker that is heard, in JSON."""
    return {
        "brokerId": replica.broker_id,
        "epoch": replica.epoch,
        "maxOffset": replica.max_offset,
        "electionPriority": replica.priority,
    }


def _request(event: Event) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": type(event).__name__}
    if isinstance(event, AlterSyncStateSet):
        found |= {"masterBrokerId": event.master_id, "masterEpoch": event.master_epoch}
        found |= {"syncStateSet": list(event.new_set), "syncStateSetEpoch": event.set_epoch}
    elif isinstance(event, ElectMaster):
        found |= {"brokerId": event.broker_id, "designateElect": event.designate}
        if event.expected_master:
            found |= {"expectedMaster": event.expected_master, "expectedEpoch": event.expected_epoch}
    elif isinstance(event, ApplyBrokerId):
        found |= {"brokerId": event.broker_id, "registerCheckCode": event.check_code}
    elif isinstance(event, RegisterBroker):
        found |= {"brokerId": event.broker_id, "brokerAddress": event.address}
    elif isinstance(event, CleanBrokerData):
        found |= {"brokerIds": list(event.broker_ids), "isCleanLivingBroker": event.living}
    return found


def named(kinds: type[Did] | type[Why] | type[Saw], value: int) -> str:
    """The name of a value; the number where a newer controller wrote it."""
    try:
        return kinds(value).name
    except ValueError:
        return str(value)
