"""Brokers that have tables and no log, on hosts of a simulated network: who is master is said by the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from twisted.internet import defer

from rocketha.broker.delay_levels import DelayLevels, parse_levels
from rocketha.broker.effects import SaveConfig
from rocketha.broker.groups import SubscriptionGroupConfig
from rocketha.broker.master_watch import MasterWatch
from rocketha.broker.requests import request_table
from rocketha.broker.routes import CHANGES
from rocketha.broker.state import BrokerIdentity, BrokerRules, BrokerState
from rocketha.broker.stats import BrokerStats
from rocketha.broker.topics import TopicConfig
from rocketha.errors import DiskFailure
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.replication.metadata_context import TablesContext
from rocketha.services.replication.metadata_sync import MetadataSync
from rocketha.services.tables.broker_files import BrokerFiles, Saved
from rocketha.services.tables.waits import SavedAnswers
from rocketha.simulation.host import Process
from rocketha.simulation.world import World
from rocketha.store.deleted_topics import NAME, DeletedTable, LastRecord, Version
from rocketha.wire.remoting import Answer, Command
from rocketha.wire.store_files import QueueUnit
from tests.broker.support import ListStore
from tests.services.world_case import WorldCase

PORT = 10911
WALL_S = 1_700_000_000


@attrs.define
class Queue:
    """What is asked of a store's queue."""

    topic: str
    queue_id: int
    next_offset: int
    newest: int

    def last(self) -> QueueUnit:
        """The newest entry."""
        return QueueUnit(self.newest, 0, 0)


@attrs.define
class TableStore(ListStore):
    """The store's list of queues, as MasterTables goes through it."""

    def topics_complete(self, version: Version, below: int | None = None) -> None:
        """As the store does it."""
        below = self.max_physical_offset if below is None else below
        self.deleted_topics.topics_complete(below, LastRecord(0, 0), version)

    def replace_deleted(self, table: DeletedTable, log_begin: int) -> None:
        """As the store does it, where each queue is all of its topic."""
        self.deleted_topics.replace(table, log_begin)
        for topic, number in list(self.queues):
            messages = self.queues[topic, number]
            if topic in table and all(place < table[topic].below for place, _ in messages):
                self.deleted.append(topic)
                del self.queues[topic, number]

    def all(self) -> list[Queue]:
        return [
            Queue(topic, number, len(messages), messages[-1][0] if messages else 0)
            for (topic, number), messages in sorted(self.queues.items())
        ]


class _QueueView:
    def __init__(self, store: TableStore) -> None:
        self._store = store
        self.queues = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Node:
    """One broker's tables on one process: its port, its files, and what it takes from its master.

    :ivar answer_with: answers in place of this broker, for a code; None from it: no answer at all.
    """

    def __init__(self, process: Process, number: int, rules: BrokerRules, ack_timeout_ms: int) -> None:
        reactor = process.reactor
        self.number = number
        self.reactor = reactor
        self.address = f"{process.host.address}:{PORT}"
        self.store = TableStore()
        identity = BrokerIdentity("C", "broker-a", number, self.address)
        self.state = BrokerState(identity, self.store, BrokerStats(self.now_ms(), self.wall_ms), self.wall_ms, rules)
        self.delays = DelayLevels(parse_levels("1s 5s 10s"))
        self.state.delay_offsets = self.delays.dump
        self.files = BrokerFiles(
            process.disk,
            "/store",
            {
                "topics": ("topics.json", self.state.topics),
                "groups": ("subscriptionGroup.json", self.state.groups),
                "offsets": ("consumerOffset.json", self.state.offsets),
                "delays": ("delayOffset.json", self.delays),
                "modes": ("messageRequestMode.json", self.state.modes),
                "deleted": (NAME, self.store.deleted_topics),
            },
            process.work(),
        )
        self.files.load()
        self.watch = MasterWatch()
        self.told: list[str] = []
        self.disk_fails = self.store_busy = False
        self.asked_for_fitness = 0
        self.away: set[int] = set()  # replicas whose log does not follow
        self.strangers: set[int] = set()  # brokers that the controller does not name
        self.metadata = MetadataSync(
            TablesContext(
                Dialer(reactor),
                self.now_ms,
                self.state,
                _QueueView(self.store),
                self.delays,  # type: ignore[arg-type]
                self.watch,
                lambda: number,
                lambda: self.store_busy,
                lambda which: self.save(which),  # a test may put another in its place
                self.told.extend,
                self,
                self,
                5.0,
                ack_timeout_ms,
            )
        )
        self.saved_answers = SavedAnswers(self.files, self.metadata)
        self.table = {**request_table(self.state), **self.metadata.requests}
        self.asked: list[int] = []
        self.answer_with: dict[int, Callable[[Command], Answer | None]] = {}
        reactor.listenTCP(PORT, RemotingFactory(self, reactor))

    # what the log would say

    needed: frozenset[int] = frozenset()
    compares_logs = True
    stamps_tables = True
    linked = True  # this one's log follows whoever is master

    def follows(self, address: str) -> bool:
        return self.linked and address == self.watch.address

    def knows(self, replica: int) -> bool:
        return replica not in self.strangers

    def is_present(self, replica: int) -> bool:
        return replica not in self.away

    def fitness_changed(self) -> None:
        self.asked_for_fitness += 1

    def now_ms(self) -> int:
        return int(self.reactor.seconds() * 1000)

    def wall_ms(self) -> int:
        return WALL_S * 1000 + self.now_ms()

    def save(self, which: str) -> Saved:
        if self.disk_fails:
            return defer.succeed(DiskFailure(which, "write", 28, "no space left"))
        return self.files[which].save()

    def saved(self, which: str) -> Any:
        """The table as a restart would find it."""
        fresh = BrokerState(self.state.identity, ListStore(), BrokerStats(0, self.wall_ms), self.wall_ms)
        table = {"topics": fresh.topics, "groups": fresh.groups, "offsets": fresh.offsets}[which]
        file = self.files[which]
        table.load(file._disk.read_all(file._path, 1 << 26))
        return table

    # the port

    def connected(self, connection: RemotingProtocol) -> None:
        """Nothing to do."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        self.metadata.disconnected(connection)

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        self.asked.append(command.code)
        if command.code in self.answer_with:
            return self.answer_with[command.code](command)
        handler = self.table.get(command.code)
        if handler is None:
            return Answer(3, f" request type {command.code} not supported")
        answer = handler(connection, command, self.now_ms())
        saves = [self.save(effect.which) for effect in self.state.take_effects() if isinstance(effect, SaveConfig)]
        if answer is not None and (saves or command.code in CHANGES):
            return self.saved_answers.answer(connection, command, answer, saves)
        return answer

    def turn_ended(self) -> None:
        """Nothing is staged."""


class TablesCase(WorldCase):
    """A world of such brokers and one administrator."""

    ack_timeout_ms = 1000

    def setUp(self) -> None:
        self.world = World(7)
        self.numbers: dict[str, int] = {}
        self.admin = self.world.add_host("admin", lambda process: RemotingClient(Dialer(process.reactor)))
        self.world.run(0.01)

    def add(self, name: str, number: int, rules: BrokerRules | None = None) -> Node:
        """A broker that runs."""
        self.numbers[name] = number
        self.world.add_host(name, lambda process: Node(process, number, rules or BrokerRules(), self.ack_timeout_ms))
        self.world.run(0.01)
        return self.node(name)

    def node(self, name: str) -> Node:
        """The present incarnation of a broker."""
        found: Node = self.running(name)
        return found

    def lead(self, node: Node, *slaves: Node, epoch: int = 1, members: frozenset[int] | None = None) -> None:
        """Say who is master, to all of them."""
        node.state.is_slave = False
        everybody = frozenset({node.number, *(each.number for each in slaves)})
        node.watch.own(epoch, everybody if members is None else members)
        for slave in slaves:
            self.follow(slave, node, epoch)

    def follow(self, slave: Node, master: Node, epoch: int = 1) -> None:
        slave.state.is_slave = True
        slave.watch.other(master.address, epoch, master.number)

    def ask(self, node: Node, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> list[Command]:
        """A request of the administrator; the list gets its answer."""
        answers: list[Command] = []

        def now() -> None:
            process = self.admin.process
            assert process is not None
            asked: defer.Deferred[Command] = process.service.request(node.address, code, fields, body, 30.0)
            asked.addCallback(answers.append)

        process = self.admin.process
        assert process is not None
        process.reactor.callLater(0, now)
        return answers


def fill(node: Node) -> None:
    """Something in every table."""
    now_ms = node.now_ms()
    node.state.topics.put(TopicConfig("T", 3, 3, attributes={"message.type": "FIFO"}), now_ms)
    node.state.groups.update(SubscriptionGroupConfig("G", retry_max_times=3), now_ms)
    node.state.groups.forbid("G", "T", 4, True, now_ms)
    for _ in range(20):
        node.store.put("T", 0, now_ms)
        node.store.put("T", 1, now_ms)
    node.state.offsets.commit("G", "T", 1, 17, lambda: now_ms)
    node.delays.advance(2, 5, now_ms)
    node.state.modes.replace({"T": {"G": {"mode": "POP"}}})


class FilledPairCase(TablesCase):
    """Two, the first of which has something in every table; nobody has said who is master."""

    def setUp(self) -> None:
        super().setUp()
        self.master, self.slave = self.add("a", 1), self.add("b", 2)
        fill(self.master)


class LedTrioCase(TablesCase):
    """A master and two slaves, level."""

    def setUp(self) -> None:
        super().setUp()
        self.master, self.one, self.two = self.add("a", 1), self.add("b", 2), self.add("c", 3)
        self.lead(self.master, self.one, self.two)
        self.world.run(0.5)
