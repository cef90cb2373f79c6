"""A controller's state out of what other controllers, Java's or ours, answer about their broker sets.

Pure.  Theory of operation: nothing that tells who was given which id can be asked of Java's controllers, but members
with their addresses, the master, both epochs, the SyncStateSet and the next id can (1006, 1012).  That is all that
brokers compare with what they remember, so under a state made of it they go on as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from rocketha.controller.group import EPOCH_MAX, FIRST_BROKER_ID, BrokerGroup, GroupKey, Member
from rocketha.controller.registration import MEMBERS_MAX
from rocketha.controller.state import ControllerState
from rocketha.wire import controller_log, json_members

FIRST_INDEX = 1
"""The entry that a copied state stands for: the log of its controllers begins behind it."""


@attrs.frozen
class CopiedSet:
    """A broker set as its controllers describe it.

    :ivar master: the broker's id; 0: there is none.
    :ivar members: id to ``host:port``.
    :ivar alive: those of them that are heard.
    :ivar in_sync: ascending.
    """

    cluster: str
    broker_name: str
    next_id: int
    master: int
    master_epoch: int
    set_epoch: int
    members: Mapping[int, str]
    alive: frozenset[int]
    in_sync: tuple[int, ...]


def read_set(cluster: str, broker_name: str, next_id: int, found: Mapping[str, Any]) -> CopiedSet:
    """A set of the answer to 1006.

    :param next_id: of the answer to 1012.
    :param found: one of ``replicasInfoTable``.
    :raises RemoteProtocolError: it is not what a controller writes.
    """
    in_sync, others = _replicas(found, "inSyncReplicas"), _replicas(found, "notInSyncReplicas")
    members = {**in_sync, **others}
    return CopiedSet(
        cluster,
        broker_name,
        max([next_id, *(each + 1 for each in members)]),
        max(0, json_members.long(found, "masterBrokerId", 0)),
        json_members.integer(found, "masterEpoch", 0, 0, EPOCH_MAX),
        json_members.integer(found, "syncStateSetEpoch", 0, 0, EPOCH_MAX),
        {each: address for each, (address, _) in sorted(members.items())},
        frozenset(each for each, (_, alive) in members.items() if alive),
        tuple(sorted(in_sync)),
    )


def _replicas(found: Mapping[str, Any], name: str) -> dict[int, tuple[str, bool]]:
    return {
        json_members.long(row, "brokerId", None, FIRST_BROKER_ID): (
            json_members.text(row, "brokerAddress"),
            json_members.flag(row, "alive"),
        )
        for row in json_members.rows(found, name, MEMBERS_MAX)
    }


def snapshot_of(sets: Iterable[CopiedSet]) -> bytes:
    """The state that has these sets, as a snapshot.

    :raises RemoteProtocolError: one of them cannot be: a master outside its SyncStateSet, for instance.
    """
    groups = []
    for each in sorted(sets, key=lambda copied: (copied.cluster, copied.broker_name)):
        group = BrokerGroup(GroupKey(each.cluster, each.broker_name))
        group.next_id = each.next_id
        group.master, group.master_epoch = each.master, each.master_epoch
        group.in_sync, group.set_epoch = each.in_sync, each.set_epoch
        group.members = {number: Member(address, "") for number, address in each.members.items()}
        group.never_elected = not each.master_epoch
        group.forgotten = not each.members
        groups.append(group)
    data = controller_log.encode_snapshot(FIRST_INDEX, [controller_log.encode_group(each.row()) for each in groups])
    ControllerState().restore(data)
    return data
