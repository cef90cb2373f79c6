"""What a broker shows on its status page: its group as it sees it, its topics, and how far consumers have read.

Nothing here reads the disk: messages and lag are counted from the queues' ends, also where replicas have yet to confirm
the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rocketha.broker.names import is_for_clients, is_system_group
from rocketha.broker.offsets import split_key
from rocketha.broker.request import Responder
from rocketha.broker.role import Role
from rocketha.observe.overview import Consumption, Group, Overview, Process, Replica, Rows, Topic, tell
from rocketha.observe.refusals import Refusals, refused_by
from rocketha.replication.epochs import NO_EPOCH
from rocketha.services.core.feature import BrokerFeature
from rocketha.wire.codes import PrivateCode
from rocketha.wire.remoting import Answer, Command

if TYPE_CHECKING:
    from rocketha.services.broker.running import RunningBroker

_OF_A_MASTER = "Why this broker is the master, or another one: rocketha controller why, or a controller's page."
_OF_A_SLAVE = "What the other replicas have is on the master's page; who is in sync, there and on the controllers'."
_BUSY = "The log is being changed: topics and consumer groups are shown again when that is over."


def overview(broker: RunningBroker | None, refusals: Refusals) -> Overview:
    """As of now.

    :param broker: None before its store is recovered.
    """
    if broker is None:
        return Overview("broker", notes=("The store is being recovered.",))
    identity, role, busy = broker.state.identity, broker.replication.role, broker.core.busy()
    notes = [_OF_A_MASTER if role is Role.MASTER else _OF_A_SLAVE, *([_BUSY] if busy else [])]
    return Overview(
        f"broker {identity.cluster_name}/{identity.broker_name} at {identity.address}",
        list(_processes(broker)),
        [_group(broker)],
        [] if busy else _topics(broker),
        [] if busy else _consumers(broker),
        refused_by(refusals),
        notes=notes,
    )


class OwnPage(BrokerFeature):
    """Tells other processes what the page shows that they cannot know (OVERVIEW, 11010)."""

    def __init__(self, broker: RunningBroker) -> None:
        self._broker = broker
        self.requests: Mapping[int, Responder] = {PrivateCode.OVERVIEW: self._answer}

    def _answer(self, connection: Any, command: Command, now_ms: int) -> Answer:
        return Answer(body=tell(overview(self._broker, self._broker.core.refusals)))


def _processes(broker: RunningBroker) -> Iterator[Process]:
    identity, replication = broker.state.identity, broker.replication
    name = f"{identity.cluster_name}/{identity.broker_name}"
    role, why = replication.role.name.lower(), broker.unready()
    detail = f"this one{': ' + why if why else ''}"
    own = f"{name}:{replication.own_id or identity.broker_id}"
    yield Process(own, "broker", identity.address, role, not why, detail)
    if replication.role is Role.SLAVE:
        source = replication.source_view()
        address = replication.master_address or source.address
        detail = "" if source.connected else "this slave has no link to it"
        yield Process(name, "broker", address or "not known", "master", source.connected, detail)
    for address, registered in broker.registration.nameservers():
        yield Process(address, "nameserver", address, "registered" if registered else "not registered", registered)


def _group(broker: RunningBroker) -> Group:
    identity, replication = broker.state.identity, broker.replication
    end, members, role = replication.log_end, replication.members, replication.role
    own_id = replication.own_id or identity.broker_id
    leads = role is Role.MASTER
    epoch = None if replication.epoch == NO_EPOCH else replication.epoch
    own_in_sync = own_id in members if leads and members else None
    replicas = [Replica(own_id, identity.address, role.name.lower(), own_in_sync, epoch, end, 0 if leads else None)]
    linked = set()
    for view in replication.replica_views().values():
        known = view.acknowledged >= 0
        acked, lag = (view.acknowledged, max(0, end - view.acknowledged)) if known else (None, None)
        replicas.append(Replica(view.broker_id, view.peer, "slave", view.in_sync, None, acked, lag))
        linked.add(view.broker_id)
    for member in members:
        if member != own_id and member not in linked:  # it still counts, and has no link
            replicas.append(Replica(member, "no link", "", True))
    source = "this master, by its links" if leads else "this broker"
    return Group(identity.cluster_name, identity.broker_name, source, replicas, epoch, replication.set_epoch or None)


def _topics(broker: RunningBroker) -> Rows[Topic]:
    queues, identity, table = broker.store.queues.queues, broker.state.identity, broker.state.topics.table
    own = identity.cluster_name, identity.broker_name

    def row(name: str) -> Topic:
        messages = sum(queue.next_offset - queue.min_offset for queue in queues.get(name, {}).values())
        return Topic(name, table[name].write_queue_nums, [identity.broker_name], messages)

    return Rows.of((name for name in sorted(table) if is_for_clients(name) and name not in own), row)


def _consumers(broker: RunningBroker) -> Rows[Consumption]:
    """The largest lag first."""
    clients, committed, lags = broker.state.clients, broker.state.offsets.committed, broker.statistics.lags

    def row(key: str) -> Consumption:
        topic, group = split_key(key)
        here = clients.consumers.get(group)
        return Consumption(group, topic, lags.messages(key), 0 if here is None else len(here.members))

    known = {key: None for key in lags.largest() if key in committed} | dict.fromkeys(committed)
    return Rows.of((key for key in known if not is_system_group(split_key(key)[1])), row)
