"""What a nameserver shows on its status page: who is registered, and the topics of each."""

from __future__ import annotations

from rocketha.broker.names import is_for_clients
from rocketha.namesrv.effects import Address
from rocketha.namesrv.route_table import MASTER_ID, RouteTable
from rocketha.observe.overview import Group, Overview, Process, Replica, Topic
from rocketha.observe.refusals import Refusals, refused_by

_NOTES = (
    "What replicas have, and who is in sync, a nameserver is not told: see the page of a controller or of a master.",
    "Consumer groups and their lag are on the page of the group's master.",
)


def overview(table: RouteTable | None, refusals: Refusals, now_ms: int) -> Overview:
    """As of now.

    :param table: None while the nameserver does not run.
    """
    if table is None:
        return Overview("nameserver")
    processes, groups = [], []
    for key, broker in sorted(table.brokers.items()):
        replicas = []
        for number, address in sorted(broker.addresses.items()):
            live = table.live.get(Address(key.cluster, address))
            heard_ms = None if live is None else max(0, now_ms - live.heard_ms)
            role = "master" if number == MASTER_ID else "slave"
            ago = "" if heard_ms is None else f"registered {heard_ms / 1000:.0f} s ago"
            processes.append(Process(f"{key.cluster}/{key.name}:{number}", "broker", address, role, True, ago))
            version = None if live is None else live.version.state_version
            epoch = version if number == MASTER_ID and version else None
            replicas.append(Replica(number, address, role, epoch=epoch, heard_ms=heard_ms))
        epoch = next((each.epoch for each in replicas if each.epoch is not None), None)
        groups.append(Group(key.cluster, key.name, "registrations", replicas, epoch))
    own = {name for key in table.brokers for name in key}
    topics = [
        Topic(name, sum(each.write_queues for each in rows.values()), sorted(key.name for key in rows))
        for name, rows in sorted(table.topics.items())
        if is_for_clients(name) and name not in own
    ]
    return Overview("nameserver", processes, groups, topics, refused=refused_by(refusals), notes=_NOTES)
