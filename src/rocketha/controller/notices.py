"""What brokers are told after an election, in the order in which they should be.

Knows the request's form, not how it is sent.  Java tells the members it thinks alive, in any order; we tell every
member (one that is thought dead may be frozen or cut off and acknowledge when it wakes), the old master first: each
moment it does not know is one in which two brokers take messages.
Java class: ``NotifyBrokerRoleChangedRequestHeader``.
"""

from __future__ import annotations

import attrs

from rocketha.controller.answers import sync_state_set
from rocketha.controller.group import BrokerGroup, GroupKey
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Command, request


@attrs.frozen(slots=True)
class RoleChanged:
    """One NOTIFY_BROKER_ROLE_CHANGED (1008), oneway, to one broker.

    A notice with a larger ``master_epoch`` makes an undelivered one to the same address void.
    """

    group: GroupKey
    receiver_id: int
    receiver_address: str  # host:port
    master_id: int
    master_address: str
    master_epoch: int
    set_epoch: int
    in_sync: tuple[int, ...]
    index: int  # of the election in the log

    def command(self) -> Command:
        """The request."""
        fields = {
            "masterAddress": self.master_address,
            "masterBrokerId": str(self.master_id),
            "syncStateSetEpoch": str(self.set_epoch),
            "masterEpoch": str(self.master_epoch),
        }
        body = sync_state_set(self.in_sync, self.set_epoch)
        return request(int(RequestCode.NOTIFY_BROKER_ROLE_CHANGED), fields, body, oneway=True)


def role_changed(group: BrokerGroup, old_master: int, index: int) -> tuple[RoleChanged, ...]:
    """To every member of a group whose master was just elected: the old master, the new one, the others by id."""
    first = [broker_id for broker_id in (old_master, group.master) if broker_id in group.members]
    order = [*dict.fromkeys(first), *[broker_id for broker_id in sorted(group.members) if broker_id not in first]]
    told = (group.master, group.members[group.master].address, group.master_epoch, group.set_epoch, group.in_sync)
    return tuple(
        [RoleChanged(group.key, broker_id, group.members[broker_id].address, *told, index) for broker_id in order]
    )


def brought_up_to_date(notice: RoleChanged, group: BrokerGroup | None) -> RoleChanged | None:
    """The notice with the set and the master's address that hold now.

    :param group: the notice's, None if there is none any more.
    :returns: None when another election, or none, makes the master now, or its receiver does not live there any more:
        1008 names no group, and whoever has that address now would take it for its own.
    """
    if group is None or group.master_epoch != notice.master_epoch or group.master != notice.master_id:
        return None
    if group.address(notice.receiver_id) != notice.receiver_address:
        return None
    address = group.members[group.master].address
    return attrs.evolve(notice, master_address=address, set_epoch=group.set_epoch, in_sync=group.in_sync)
