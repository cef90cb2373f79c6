"""A controller's state out of what other controllers, Java's or ours, answer about their broker sets.

Pure.  Theory of operation: nothing that tells who was given which id can be asked of Java's controllers, but members
with their addresses, the master, both epochs, the SyncStateSet and the next id can (1006, 1012).  That is all that
brokers compare with what they remember, so under a state made of it they go on as before.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from rocketha.controller.group import EPOCH_MAX, BrokerGroup, GroupKey, Member
from rocketha.controller.state import ControllerState
from rocketha.errors import RemoteProtocolError
from rocketha.wire import controller_log
from rocketha.wire.replica_list import ReplicaSet

FIRST_INDEX = 1
"""The entry that a copied state stands for: the log of its controllers begins behind it."""


@attrs.frozen
class CopiedSet:
    """A broker set as its controllers describe it.

    :ivar next_id: that the next new broker of it gets.
    """

    cluster: str
    broker_name: str
    next_id: int
    replicas: ReplicaSet


def copied_set(cluster: str, broker_name: str, next_id: int, replicas: ReplicaSet) -> CopiedSet:
    """A set of the answer to 1006.

    :param next_id: of the answer to 1012.
    :raises RemoteProtocolError: our controllers could not go on with it.
    """
    epoch = max(replicas.master_epoch, replicas.set_epoch)
    if epoch > EPOCH_MAX:
        raise RemoteProtocolError(f"{broker_name} is in epoch {epoch}, allowed is 0 to {EPOCH_MAX}")
    return CopiedSet(cluster, broker_name, max([next_id, *(each + 1 for each in replicas.members)]), replicas)


def snapshot_of(sets: Iterable[CopiedSet]) -> bytes:
    """The state that has these sets, as a snapshot.

    :raises RemoteProtocolError: one of them cannot be: a master outside its SyncStateSet, for instance.
    """
    groups = []
    for each in sorted(sets, key=lambda copied: (copied.cluster, copied.broker_name)):
        group, replicas = BrokerGroup(GroupKey(each.cluster, each.broker_name)), each.replicas
        group.next_id = each.next_id
        group.master, group.master_epoch = replicas.master, replicas.master_epoch
        group.in_sync, group.set_epoch = replicas.in_sync, replicas.set_epoch
        group.members = {number: Member(address, "") for number, address in replicas.members.items()}
        group.never_elected = not replicas.master_epoch
        group.forgotten = not replicas.members
        groups.append(group)
    data = controller_log.encode_snapshot(FIRST_INDEX, [controller_log.encode_group(each.row()) for each in groups])
    ControllerState().restore(data)
    return data
