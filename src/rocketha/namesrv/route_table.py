"""Which brokers there are, at which addresses, and which topics they have.

Knows no wire format, no clock and no connection beyond its number.  Theory of operation: a broker is known by cluster
*and* name (Java: by name alone, so that equal names in two clusters overwrite each other); below it broker ids map to
addresses; a live record per address says when it was last heard of, over which connection, and with which data version.
Topics map to queue data per broker.  A registration is checked whole before anything is changed.  Every method that
changes something returns the effects it wants (:mod:`rocketha.namesrv.effects`).  Times are milliseconds of the
caller's clock.

A broker with very many topics registers in parts (``enableSplitRegistration``), and nothing in a part says that it is
one.  Parts of Java 5.5.0 all carry one data version, so a topic is also taken in when what the broker says of it is
new; and what is missing from a part is not gone: see :class:`Rounds`.

Java class: ``RouteInfoManager``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import attrs

from rocketha.errors import RequestRefused
from rocketha.namesrv.data_version import DataVersion
from rocketha.namesrv.effects import (
    Address,
    BrokerAppeared,
    BrokerRejected,
    BrokerRemoved,
    Effect,
    NameShared,
    NotifyMinBrokerId,
)
from rocketha.namesrv.register_body import RegisterBody, Topic
from rocketha.wire.codes import ResponseCode

MASTER_ID = 0
HEARTBEAT_TIMEOUT_MS = 120_000
"""Of a broker that does not say (Java: DEFAULT_BROKER_CHANNEL_EXPIRED_TIME)."""

PERM_READ, PERM_WRITE = 4, 2
SYS_FLAG_UNIT, SYS_FLAG_UNIT_SUB = 1, 2


class Options(Protocol):
    """The part of ``NamesrvConfig`` that the table acts on; read anew at each use, so a live change counts at once."""

    @property
    def delete_topic_with_broker_registration(self) -> bool: ...
    @property
    def notify_min_broker_id_changed(self) -> bool: ...
    @property
    def brokers_max(self) -> int: ...
    @property
    def topics_max(self) -> int: ...


class BrokerKey(NamedTuple):
    """What a broker is known by."""

    cluster: str
    name: str


@attrs.define(slots=True)
class Broker:
    """One broker name of one cluster: a master and its replicas.  ``addresses`` is never empty."""

    key: BrokerKey
    addresses: dict[int, str]
    enable_acting_master: bool = False
    zone: str | None = None


@attrs.frozen(slots=True)
class QueueData:
    """The queues of one topic on one broker.

    :ivar told_perm: what the broker said; ``perm`` is another where an operator or the lack of a master changed it.
    """

    read_queues: int
    write_queues: int
    perm: int
    sys_flag: int = 0
    told_perm: int = attrs.field(default=attrs.Factory(lambda self: self.perm, takes_self=True), eq=False)

    def says(self, topic: Topic) -> bool:
        """Whether this is what the broker said last."""
        here = self.read_queues, self.write_queues, self.told_perm, self.sys_flag
        return here == (topic.read_queues, topic.write_queues, topic.perm, topic.sys_flag)


@attrs.define(slots=True)
class Rounds:
    """Which topics a broker still has, seen from registrations that may be parts.

    Every broker has a topic of its own name, in one part of each round.  A registration without it is a part; from then
    on, what was not named between one such topic and the next, nor in the round before, is gone.  Two rounds, because a
    topic that is deleted moves others from one part to another.
    """

    split: bool = False
    _before: set[str] | None = None
    _present: set[str] = attrs.Factory(set)

    def kept(self, named: set[str], has_own: bool) -> set[str] | None:
        """All topics of the broker, now that it named some; None: not known yet."""
        if not has_own:
            self.split = True
            self._present |= named
            return None
        if not self.split:
            return named
        found = None if self._before is None else self._before | self._present | named
        self._before, self._present = self._present, set(named)
        return found

    def add(self, name: str) -> None:
        """A topic was registered by itself."""
        if self.split:
            self._present.add(name)


@attrs.define(slots=True)
class Live:
    """One registered address.

    :ivar connection: by which it registered last.
    :ivar host: where that comes from.
    :ivar since_ms: when it appeared.
    """

    key: BrokerKey
    heard_ms: int
    timeout_ms: int
    version: DataVersion
    connection: int
    host: str
    ha_address: str
    since_ms: int
    rounds: Rounds = attrs.Factory(Rounds)


@attrs.frozen(slots=True)
class Registration:
    """A REGISTER_BROKER request.  ``enable_acting_master`` is ``None`` for a broker too old to say."""

    cluster: str
    name: str
    address: str
    broker_id: int
    ha_address: str
    connection: int
    body: RegisterBody
    timeout_ms: int = HEARTBEAT_TIMEOUT_MS
    enable_acting_master: bool | None = False
    zone: str | None = None
    host: str = ""

    @property
    def key(self) -> BrokerKey:
        """What the broker is known by."""
        return BrokerKey(self.cluster, self.name)


class Registered(NamedTuple):
    """The answer to a registration: the master's addresses, for a slave that has one."""

    master_address: str | None
    ha_address: str | None
    effects: list[Effect]


class RouteTable:
    """The state of one name server.

    Invariants: every address in a broker's ``addresses`` stands there once; a broker without addresses is not kept;
    queue data belong to brokers that are kept; ``live`` may also hold addresses that no broker id points to (a master
    that another one replaced).
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self.brokers: dict[BrokerKey, Broker] = {}
        self.topics: dict[str, dict[BrokerKey, QueueData]] = {}
        self.live: dict[Address, Live] = {}
        self.filter_servers: dict[Address, tuple[str, ...]] = {}
        self.mappings: dict[str, dict[str, Mapping[str, Any]]] = {}  # static topics: topic, broker name, mapping

    # -- registration ---------------------------------------------------------------------------------------------

    def register(self, request: Registration, now_ms: int) -> Registered:
        """Take a broker's registration in.

        A registration with a smaller ``state_version`` than that of the live address which holds its id is ignored (an
        old master that woke up; regression B1), and answered as if it were not.

        :raises RequestRefused: SYSTEM_ERROR (1), for a first registration that carries exactly one topic (such bodies
            are updates of a registration that must be there), and beyond ``brokersMax`` and ``topicsMax``.
        """
        here = Address(request.cluster, request.address)
        broker = self.brokers.get(request.key)
        rejected = self._rejection(request, broker)
        if rejected is not None:
            return Registered(None, None, [rejected, *self.remove([here], "it claims an id that a newer epoch holds")])
        self._check_room(request, broker, here)
        effects: list[Effect] = []
        known = self.live.get(here)
        if known is not None and known.key != request.key:
            effects.extend(self.remove([here], f"it registered as {request.name}"))
            broker = self.brokers.get(request.key)
        first = broker is None
        if broker is None:
            broker = self.brokers[request.key] = Broker(request.key, {})
            effects.extend(self._shared_name(request.name))
        old_min = min(broker.addresses, default=MASTER_ID)
        broker.enable_acting_master = bool(request.enable_acting_master)
        broker.zone = request.zone
        # One address has one id: a slave that became master leaves its old id.
        for broker_id in [i for i, a in broker.addresses.items() if a == request.address and i != request.broker_id]:
            del broker.addresses[broker_id]
        first = broker.addresses.get(request.broker_id) is None or first
        broker.addresses[request.broker_id] = request.address
        self._take_topics(request, broker, first)
        known = self.live.get(here)
        if known is None:
            effects.append(BrokerAppeared(here, request.name, request.broker_id))
        self.live[here] = Live(
            request.key,
            now_ms,
            request.timeout_ms,
            request.body.version,
            request.connection,
            request.host,
            request.ha_address,
            known.since_ms if known is not None else now_ms,
            known.rounds if known is not None else Rounds(),
        )
        self._take_filter_servers(here, request.body.filter_servers)
        if request.broker_id < old_min and self._options.notify_min_broker_id_changed:
            effects.append(_notify_new_minimum(broker.addresses, request.ha_address))
        return Registered(*self._master_of(broker, request.broker_id), effects)

    def holder(self, request: Registration) -> Address | None:
        """Who has the name and id that another address claims, in the same epoch: the larger one wins by itself."""
        broker = self.brokers.get(request.key)
        held_by = broker.addresses.get(request.broker_id) if broker is not None else None
        if held_by is None or held_by == request.address:
            return None
        there = Address(request.cluster, held_by)
        held = self.live.get(there)
        same = held is not None and held.version.state_version == request.body.version.state_version
        return there if same else None

    def _rejection(self, request: Registration, broker: Broker | None) -> BrokerRejected | None:
        held_by = broker.addresses.get(request.broker_id) if broker is not None else None
        if held_by is None or held_by == request.address:
            return None
        held = self.live.get(Address(request.cluster, held_by))
        if held is None or held.version.state_version <= request.body.version.state_version:
            return None
        return BrokerRejected(
            Address(request.cluster, request.address),
            request.name,
            request.broker_id,
            held_by,
            request.body.version.state_version,
            held.version.state_version,
        )

    def _check_room(self, request: Registration, broker: Broker | None, here: Address) -> None:
        topics = request.body.topics
        if len(topics) == 1 and (broker is None or request.broker_id not in broker.addresses):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "register broker failed")
        if here not in self.live and len(self.live) >= self._options.brokers_max:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"register broker failed: brokersMax={self._options.brokers_max} are registered",
            )
        if len(self.topics) + len(topics) > self._options.topics_max:
            new = sum(topic.name not in self.topics for topic in topics)
            if new and len(self.topics) + new > self._options.topics_max:
                raise RequestRefused(
                    ResponseCode.SYSTEM_ERROR,
                    f"register broker failed: topicsMax={self._options.topics_max} are reached",
                )

    def _shared_name(self, name: str) -> list[NameShared]:
        clusters = sorted(key.cluster for key in self.brokers if key.name == name)
        return [NameShared(name, tuple(clusters))] if len(clusters) > 1 else []

    def _take_topics(self, request: Registration, broker: Broker, first: bool) -> None:
        """Masters bring topics, and of a new-style broker the lowest id while there is no master; other slaves do
        not."""
        is_master = request.broker_id == MASTER_ID
        is_prime_slave = (
            not is_master and request.enable_acting_master is not None and request.broker_id == min(broker.addresses)
        )
        if not is_master and not is_prime_slave:
            return
        body = request.body
        known = self.live.get(Address(request.cluster, request.address))
        changed = first or known is None or known.version != body.version
        if known is not None and self._options.delete_topic_with_broker_registration and not body.mappings:
            self._drop_gone(known.rounds, body.topics, broker.key)
        for topic in body.topics:
            queues = self.topics.setdefault(topic.name, {})
            present = queues.get(broker.key)
            if changed or present is None or not present.says(topic):
                queues[broker.key] = _queue_data(topic, is_prime_slave and broker.enable_acting_master)
        if changed:
            for name, mapping in body.mappings.items():
                self.mappings.setdefault(name, {})[mapping["bname"]] = mapping

    def _drop_gone(self, rounds: Rounds, topics: tuple[Topic, ...], key: BrokerKey) -> None:
        if len(topics) == 1:  # an update, not the whole table: nothing is missing from it
            rounds.add(topics[0].name)
            return
        named = {topic.name for topic in topics}
        kept = rounds.kept(named, key.name in named)
        if kept is not None:
            for name in [n for n, queues in self.topics.items() if key in queues and n not in kept]:
                self._drop_queue_data(name, key)

    def _take_filter_servers(self, here: Address, servers: tuple[str, ...] | None) -> None:
        if servers:
            self.filter_servers[here] = servers
        elif servers is not None:
            self.filter_servers.pop(here, None)

    def _master_of(self, broker: Broker, broker_id: int) -> tuple[str | None, str | None]:
        """What a slave is told: Java slaves take the address for their metadata from this answer."""
        master = broker.addresses.get(MASTER_ID) if broker_id != MASTER_ID else None
        live = self.live.get(Address(broker.key.cluster, master)) if master is not None else None
        return (master, live.ha_address) if live is not None else (None, None)

    # -- removal --------------------------------------------------------------------------------------------------

    def unregister(self, here: Address, connection: int, left: bool = False) -> list[Effect]:
        """An UNREGISTER_BROKER request.  It counts for the address, whatever name and id it names.

        :param left: that connection is over by which it registered, and the request comes from the same host.
        :raises RequestRefused: SYSTEM_ERROR (1); another one registered the address: a stranger asks, or the broker
            has registered anew in the meantime (regression B2).
        """
        live = self.live.get(here)
        if live is not None and live.connection != connection and not left:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"unregister broker failed: {here.address} is registered by another connection, from {live.host}",
            )
        return self.remove([here], "it unregistered")

    def remove(self, brokers: Iterable[Address], reason: str) -> list[Effect]:
        """Take addresses out of the table, and what hangs on them alone."""
        effects: list[Effect] = []
        for here in brokers:
            live = self.live.pop(here, None)
            self.filter_servers.pop(here, None)
            if live is None:
                continue
            key = live.key
            broker = self.brokers.get(key)
            broker_id = _id_of(broker, here.address) if broker is not None else None
            effects.append(BrokerRemoved(here, key.name, broker_id, reason))
            if broker is not None and broker_id is not None:
                effects.extend(self._remove_id(broker, broker_id, here.address))
        return effects

    def _remove_id(self, broker: Broker, broker_id: int, address: str) -> list[Effect]:
        was_minimum = broker_id == min(broker.addresses)
        del broker.addresses[broker_id]
        if not broker.addresses:
            del self.brokers[broker.key]
            for name in [n for n, queues in self.topics.items() if broker.key in queues]:
                self._drop_queue_data(name, broker.key)
            return []
        if not broker.enable_acting_master:
            return []
        if MASTER_ID not in broker.addresses:
            self._change_perm(broker.key, lambda perm: perm & ~PERM_WRITE)
        if was_minimum and self._options.notify_min_broker_id_changed:
            lowest = min(broker.addresses)
            receivers = tuple(broker.addresses[i] for i in sorted(broker.addresses))
            return [NotifyMinBrokerId(receivers, lowest, broker.addresses[lowest], offline_address=address)]
        return []

    def _drop_queue_data(self, topic: str, key: BrokerKey) -> None:
        queues = self.topics[topic]
        queues.pop(key, None)
        if not queues:
            del self.topics[topic]

    # -- requests of tools ----------------------------------------------------------------------------------------

    def heard(self, cluster: str, address: str, now_ms: int) -> None:
        """A heartbeat; of an unknown broker it means nothing."""
        live = self.live.get(Address(cluster, address))
        if live is not None:
            live.heard_ms = now_ms

    def wipe_write_perm(self, name: str) -> int:
        """Take the write bit from all topics of a broker; the number of topics."""
        return sum(self._change_perm(key, lambda perm: perm & ~PERM_WRITE) for key in self.keys_of(name))

    def add_write_perm(self, name: str) -> int:
        """Make all topics of a broker readable and writable; the number of topics."""
        return sum(self._change_perm(key, lambda perm: PERM_READ | PERM_WRITE) for key in self.keys_of(name))

    def _change_perm(self, key: BrokerKey, change: Any) -> int:
        count = 0
        for queues in self.topics.values():
            data = queues.get(key)
            if data is not None:
                queues[key] = attrs.evolve(data, perm=change(data.perm))
                count += 1
        return count

    def keys_of(self, name: str) -> list[BrokerKey]:
        """The brokers of that name, in every cluster."""
        return sorted(key for key in self.brokers if key.name == name)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, on all brokers or on those of one cluster."""
        for key in [k for k in self.topics.get(topic, ()) if cluster is None or k.cluster == cluster]:
            self._drop_queue_data(topic, key)
        if topic not in self.topics:
            self.mappings.pop(topic, None)

    def register_topic(self, topic: str, queues: Mapping[str, QueueData]) -> bool:
        """REGISTER_TOPIC_IN_NAMESRV: queue data by broker name.  Whether it was taken: all names must be known."""
        if not queues or not all(self.keys_of(name) for name in queues):
            return False
        if topic not in self.topics and len(self.topics) >= self._options.topics_max:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"topicsMax={self._options.topics_max} are reached")
        table = self.topics.setdefault(topic, {})
        for name, data in queues.items():
            table.update(dict.fromkeys(self.keys_of(name), data))
        return True

    # -- questions ------------------------------------------------------------------------------------------------

    def version_of(self, cluster: str, address: str) -> DataVersion | None:
        """The version with which an address registered last."""
        live = self.live.get(Address(cluster, address))
        return live.version if live is not None else None

    def visible(self, keys: Iterable[BrokerKey]) -> Iterator[Broker]:
        """The brokers that one answer may show, by name: a Java client knows brokers by name only, so of equal names in
        several clusters it is given the first cluster's (the same on every name server)."""
        shown = None
        for key in sorted(keys, key=lambda key: (key.name, key.cluster)):
            broker = self.brokers.get(key)
            if broker is not None and key.name != shown:
                shown = key.name
                yield broker

    def clusters(self) -> dict[str, list[str]]:
        """Cluster to broker names, both sorted."""
        found: dict[str, list[str]] = {}
        for key in sorted(self.brokers):
            found.setdefault(key.cluster, []).append(key.name)
        return found

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """The topics of the brokers of a cluster, sorted."""
        return sorted(name for name, queues in self.topics.items() if any(key.cluster == cluster for key in queues))

    def unit_topics(self, wanted: int, unwanted: int = 0) -> list[str]:
        """The topics whose flags on their first broker hold ``wanted`` and not ``unwanted``, sorted."""
        flags = {name: queues[min(queues)].sys_flag for name, queues in self.topics.items()}
        return sorted(name for name, flag in flags.items() if flag & wanted and not flag & unwanted)


def _queue_data(topic: Topic, read_only: bool) -> QueueData:
    perm = topic.perm & ~PERM_WRITE if read_only else topic.perm
    return QueueData(topic.read_queues, topic.write_queues, perm, topic.sys_flag, topic.perm)


def _id_of(broker: Broker, address: str) -> int | None:
    return next((broker_id for broker_id, held in broker.addresses.items() if held == address), None)


def _notify_new_minimum(addresses: Mapping[int, str], ha_address: str) -> NotifyMinBrokerId:
    """All but the newcomer are told, unless it is alone."""
    lowest = min(addresses)
    receivers = tuple(addresses[i] for i in sorted(addresses) if i != lowest or len(addresses) == 1)
    return NotifyMinBrokerId(receivers, lowest, addresses[lowest], ha_address=ha_address)
