"""What a nameserver shows on its status page: who is registered, and the topics of each."""

from __future__ import annotations

from rocketha.broker.names import is_for_clients
from rocketha.namesrv.effects import Address
from rocketha.namesrv.route_table import MASTER_ID, Broker, BrokerKey, RouteTable
from rocketha.observe.overview import Group, Overview, Process, Replica, Rows, Topic
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
    brokers = dict(sorted(table.brokers.items()))
    numbers: dict[tuple[str, ...], tuple[BrokerKey, int]] = {}
    for key, broker in brokers.items():
        for number, address in _replicas(broker):
            about = "broker", address
            numbers[about if about not in numbers else (*about, *key, str(number))] = key, number

    def process(about: tuple[str, ...]) -> Process:
        (key, number), address = numbers[about], about[1]
        live = table.live.get(Address(key.cluster, address))
        ago = "" if live is None else f"registered {max(0, now_ms - live.heard_ms) / 1000:.0f} s ago"
        role = "master" if number == MASTER_ID else "slave"
        return Process(f"{key.cluster}/{key.name}:{number}", "broker", address, role, True, ago)

    def group(key: BrokerKey) -> Group:
        replicas = []
        for number, address in _replicas(brokers[key]):
            live = table.live.get(Address(key.cluster, address))
            heard_ms = None if live is None else max(0, now_ms - live.heard_ms)
            version = None if live is None else live.version.state_version
            epoch = version if number == MASTER_ID and version else None
            role = "master" if number == MASTER_ID else "slave"
            replicas.append(Replica(number, address, role, epoch=epoch, heard_ms=heard_ms))
        epoch = next((each.epoch for each in replicas if each.epoch is not None), None)
        return Group(key.cluster, key.name, "registrations", replicas, epoch)

    def topic(name: str) -> Topic:
        rows = table.topics[name]
        return Topic(name, sum(each.write_queues for each in rows.values()), sorted(key.name for key in rows))

    own = {name for key in table.brokers for name in key}
    topics = (name for name in sorted(table.topics) if is_for_clients(name) and name not in own)
    return Overview(
        "nameserver",
        Rows.of(numbers, process),
        Rows.of(brokers, group),
        Rows.of(topics, topic),
        refused=refused_by(refusals),
        notes=_NOTES,
    )


def _replicas(broker: Broker) -> list[tuple[int, str]]:
    return sorted(broker.addresses.items())
