"""The broker as a Twisted service: a store, its ports, its clocks.

Decides nothing about messages: it gives requests to the pure parts of :mod:`rocketha.broker`, carries out their
effects, and keeps time.  Nothing is opened before ``startService``.

Theory of operation.  Start: recovery in a thread, then the tables, then the ports, then registration; a request never
meets a half-recovered store.  Serving: all work of one read is one turn (:mod:`rocketha.protocols.remoting`); at its
end what was staged is appended as one write, answered (or left to the flusher under SYNC_FLUSH), and pulls that
waited for it run again.  Two timers: one a second for everything that is merely periodic, one for the next deadline
of a held pull or a delayed message.  Stop: hand the role over, unregister, flush, save, close the store, close the
ports; between these two a former master may linger (:mod:`rocketha.services.broker.lingering`).

Java: ``BrokerController``, ``BrokerStartup``.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from twisted.application import service
from twisted.internet import defer, task
from twisted.python.failure import Failure

from rocketha import compiled
from rocketha.broker.delayed_delivery import DelayedDelivery
from rocketha.broker.master_watch import MasterWatch
from rocketha.broker.role import NOT_AVAILABLE, Role
from rocketha.broker.routes import CHANGES, ROUTES
from rocketha.broker.state import BrokerIdentity
from rocketha.broker.unsaved import NotSavedYet
from rocketha.errors import ConfigError, DiskFailure, RequestRefused
from rocketha.observe import events
from rocketha.observe.logging import emit, lasting, make_logger
from rocketha.observe.metrics import Registry
from rocketha.observe.refusals import Refusals
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.protocols.turn import Turn
from rocketha.services.broker import metrics as broker_metrics
from rocketha.services.broker.clock import BrokerClock
from rocketha.services.broker.effects import BrokerEffects
from rocketha.services.broker.group import BrokerGroup
from rocketha.services.broker.lingering import Lingering
from rocketha.services.broker.own_host import address_of, is_address
from rocketha.services.broker.parts import Responder, make_parts
from rocketha.services.broker.ports import BrokerPorts
from rocketha.services.broker.registration import Registration
from rocketha.services.broker.requests import RoleRequests
from rocketha.services.broker.role import RoleContext, RoleSource
from rocketha.services.broker.role_sources import role_source_of
from rocketha.services.broker.upkeep import BrokerUpkeep
from rocketha.services.config import views
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.features.delayed import DelayedMessages
from rocketha.services.features.feature import BrokerFeature
from rocketha.services.features.finding import Enabled
from rocketha.services.features.host import PluginHost, Surroundings
from rocketha.services.features.reading import Reading
from rocketha.services.process.clients import ConnectedClients
from rocketha.services.process.fatal import end_process
from rocketha.services.process.physical_memory import physical_memory_bytes
from rocketha.services.replication.context import ReplicationContext
from rocketha.services.replication.jobs import LogChanges
from rocketha.services.replication.mode import mode_of
from rocketha.services.replication.status import ReplicationStatus
from rocketha.services.tables.waits import NewTopics, SavedAnswers
from rocketha.services.waiting.blocking import BlockingWork, Worker
from rocketha.services.waiting.cold_reads import ColdReads, Read
from rocketha.services.waiting.fetches import Fetches
from rocketha.services.waiting.flusher import Flusher
from rocketha.services.waiting.log_reads import LogReads
from rocketha.services.waiting.parked_requests import ParkedRequests
from rocketha.services.waiting.wakeups import Wakeups
from rocketha.store.disk import Disk
from rocketha.store.index import TOGETHER
from rocketha.store.messages import RecoveryReport
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.codes import PrivateCode
from rocketha.wire.remoting import Answer, Command
from rocketha.wire.routes import unsupported


class BrokerService(service.MultiService):
    """A running broker.

    :param config: see :class:`BrokerConfig`.
    :param disk: where the store is.
    :param listen: endpoint strings of the main port; from ``bindAddress`` and ``listenPort`` where empty.
    :param warnings: what to log at the start.
    :param reactor: the global one, taken at the start, where not given.
    :param chance: where producers leave the choice of a queue to the broker.
    :param work: makes the threads for blocking work: log, small files, the store's upkeep, reads of all sorts.
    :param wall: seconds since 1970; the reactor's clock where not given.
    :param pid: this process's number, for message ids and the abort file.
    :param memory: the machine's memory, bytes.
    :param role_source: who decides about the role; what the configuration says where not given.
    :param plugins: that are on, in order.
    """

    def __init__(
        self,
        config: BrokerConfig,
        disk: Disk,
        listen: Sequence[str] = (),
        warnings: Sequence[str] = (),
        reactor: Any = None,
        chance: random.Random | None = None,
        work: Callable[[Any, str], BlockingWork] = Worker,
        wall: Callable[[], float] | None = None,
        pid: Callable[[], int] = os.getpid,
        memory: Callable[[], int] = physical_memory_bytes,
        role_source: Callable[[RoleContext], RoleSource] | None = None,
        plugins: Sequence[Enabled] = (),
    ) -> None:
        super().__init__()
        self.setName("broker")
        self.config = config
        self.log = make_logger()
        self.identity = BrokerIdentity(
            config.broker_cluster_name,
            config.broker_name,
            config.broker_id,
            _address(config.broker_ip1, config.listen_port),
            _address(config.broker_ip2, config.replication.ha_listen_port),
        )
        self.recovery: RecoveryReport | None = None
        self.serving = False
        self.started: defer.Deferred[None] = defer.Deferred()
        self.metrics = Registry()
        self.refusals = Refusals("broker", self._steady_seconds, lambda number: self.state.clients.client_id(number))
        self.disk = disk
        self._listen = tuple(listen)
        self._warnings = tuple(warnings)
        self.reactor = reactor
        self.chance, self._pid = chance or random.Random(), pid
        self._work = work
        self._wall, self._memory = wall, memory
        self._mode = mode_of(config.replication)
        self._role_source = role_source
        self._plugins = tuple(plugins)
        self._failed: str | None = None
        self._starting: defer.Deferred[Any] | None = None
        self._built = False
        self._flush_clock: task.LoopingCall | None = None
        self.factories: list[RemotingFactory] = []
        self.registration: Registration | None = None
        self.group: BrokerGroup | None = None
        self.features: list[BrokerFeature] = []
        self._lingering: Lingering | None = None

    # --- what it is made of

    def _build(self, own_address: str) -> None:
        self._built = True
        self._log_work, self.file_work, self._upkeep_work, self._read_work, pull_work, query_work = self._works
        parts = make_parts(
            self.config, own_address, self.identity, self.disk, self.file_work, self._now(), self.wall_ms, self.chance,
            self._pid(),
            self._runtime_facts,
            self._memory(),
        )  # fmt: skip
        self.store, self.stats, self.state, self.rules = parts.store, parts.stats, parts.state, parts.rules
        self.delays, self.held = parts.delays, parts.held
        self.sends, self.pulls, self.waiting, self.files = parts.sends, parts.pulls, parts.waiting, parts.files
        self._turn = Turn()
        self._turn.afterwards = self._settle
        self.flusher = Flusher(self.store, self.waiting, self._log_work, self.as_turn)
        self.effects = BrokerEffects(self.state, self.factories, self.files, self._topics_changed, self.flusher.on_disk)
        self.upkeep = BrokerUpkeep(self.config, self.state, self.store, self.effects, self.files, self._upkeep_work)
        self._changes = LogChanges(self.flusher, self.upkeep, self._log_work)
        self.cold = self._cold_reads(parts.consumers_reads, pull_work)
        self.cold_queries = self._cold_reads(parts.look_ups, query_work)
        self.delayed = DelayedDelivery(
            self.state, self.store, self.delays, self.sends, self.cold.fetches.begin,
            lambda: self.log.error("delayed messages: {trace}", trace=Failure().getTraceback()),
        )  # fmt: skip
        self._served: dict[int, Responder] = dict(parts.requests)
        for cold, reads in ((self.cold, parts.consumers_reads), (self.cold_queries, parts.look_ups)):
            self._served |= {int(code): cold.ask for code in reads}
        self.wakeups = Wakeups(self.held, self.delayed, self.cold.again)
        self.features += [
            DelayedMessages(self.delayed, self.delays, self.state.store, self._now),
            Reading(self.held, self.wakeups, self.cold, self.cold_queries, self.as_turn, self._now),
        ]
        self._changes.over = self._log_changed
        self.parked = ParkedRequests(self.reactor)
        self.new_topics = NewTopics(
            self.parked, self.state, self.files, self.sends, self._serve_request, self.as_turn,
            lambda: self._changes.busy,
        )
        self.plugins = PluginHost(
            self._plugins,
            Surroundings(
                self.state, self.store, self.disk, self.files, self.metrics, self.refusals, self.reactor, self.wall_ms,
                self._read_work, self.as_turn, self.request, lambda: self.serving, self._storing,
                lambda: self._changes.busy, self._shown_end, self.effects.carry_out,
            ),
        )  # fmt: skip
        self._routes = {**ROUTES, **self.plugins.routes}
        self.watch = MasterWatch()
        self._mastership = self.watch.now
        self._clock = BrokerClock(self.reactor, self._now, self._next_due_ms, self._due, self._second, self.as_turn)

    def _runtime_facts(self, now_ms: int) -> dict[str, str]:
        facts = broker_metrics.runtime_facts(self)
        for feature in self.features:
            facts.update(feature.runtime_facts())
        return facts

    def _cold_reads(self, reads: Mapping[int, Read], work: BlockingWork) -> ColdReads:
        fetches = Fetches(self.disk, work, self.reactor, self._now, self.as_turn, lambda: self._changes.busy)
        return ColdReads(reads, fetches, self._serve_request, lambda: self._requests.read_refusal())

    # --- start

    def startService(self) -> None:
        """Twisted: recover, then serve; ``started`` fires when the ports are open."""
        super().startService()
        if self.reactor is None:
            from twisted.internet import reactor

            self.reactor = reactor
        for warning in self._warnings:
            self.log.warn("{warning}", warning=warning)
        began = self.reactor.seconds()
        names = ("log", "files", "upkeep", "reads", "pulls", "queries")  # upkeep is long, and a query may be
        self._works = [self._work(self.reactor, f"rocketha-{name}") for name in names]
        for work in self._works:
            work.start()
        self._starting = self._own_address()
        self._starting.addCallback(self._open).addCallback(self._recovered, began).addErrback(self._not_started)

    def _own_address(self) -> defer.Deferred[str]:
        host = self.config.broker_ip1
        if is_address(host):
            return defer.succeed(host)
        return self._works[0].run(functools.partial(address_of, host))

    def _open(self, own_address: str) -> defer.Deferred[tuple[RecoveryReport, ReplicaLog]]:
        self._build(own_address)
        return self._log_work.run(functools.partial(self._load, self._now(), self._pid()))

    def _load(self, now_ms: int, pid: int) -> tuple[RecoveryReport, ReplicaLog]:
        """In the log's thread."""
        return self._mode.open_log(
            self.store, self.disk, self.config.replication, self.waiting.sync_flush, now_ms, pid
        )  # fmt: skip

    def _recovered(self, loaded: tuple[RecoveryReport, ReplicaLog], began: float) -> None:
        self.recovery, log = report, _ = loaded
        for note in report.notes:
            self.log.warn("store: {note}", note=note)
        self.files.load()
        self._replicate(log, report)
        if not self.running:
            return
        ports = BrokerPorts(
            self, self.config, self._listen, self.reactor, self._turn, self.factories, self.refusals, self._routes
        )
        ports.open(self.replication.links.factory)
        self.plugins.open(self)
        self._serve(began)

    def _replicate(self, log: ReplicaLog, report: RecoveryReport) -> None:
        keys = self.config.replication
        self.replication = self._mode.replication(
            ReplicationContext(
                log, keys, self.reactor, self.chance, self._changes, self.flusher, self.refusals, self.waiting,
                self.wakeups, self.as_turn, LogReads(self._read_work), self, report.clean,
            )
        )  # fmt: skip
        self.replication_status = ReplicationStatus(self.replication, self.state, self.waiting, self.reactor, self.wall)
        replication = self.replication
        role_source = self._role_source or role_source_of(self._mode)
        self.role_source = role_source(
            RoleContext(
                keys, self.identity, replication, self.watch, self.reactor, self.chance, self.disk, self.file_work,
                self.wall_ms, lambda: self.plugins.health.unfit,
            )
        )  # fmt: skip
        self.group = BrokerGroup(
            keys, self.reactor, self._now, self.state, self.store, self.delays, self.watch,
            lambda: replication.own_id, lambda: self._changes.busy, self.effects.save, self._topics_changed,
            replication, replication.replicas, functools.partial(self.parked.resume, self._serve_request),
            self.as_turn, lambda: replication.send_refusal is None,
        )  # fmt: skip
        self.watch.watch(self._mastership_changed)
        self._saved_answers = SavedAnswers(self.files, self.group.metadata)
        if self.role_source.hands_over:
            self._lingering = Lingering(
                self.reactor, keys, self.watch, self.group.forwarding, self.state.clients, self.identity, self.chance
            )
        clients = ConnectedClients(self.factories, self.refusals, self._purposes)
        self.features += [self.replication_status, self.group, self.plugins]
        served = {**self._served, **self.role_source.requests, PrivateCode.CLIENTS: clients.answer}
        for feature in self.features:
            served.update(feature.requests)
        self._requests = RoleRequests(self.parked, served, replication, self.group.forwarding, self._routes)
        self.replication.role_changed.append(self._role_changed)

    def _serve(self, began: float) -> None:
        self.serving = True
        config = self.config
        self._clock.start()
        self._flush_clock = task.LoopingCall(lasting(self.flusher.kick, "a flush"))
        self._flush_clock.clock = self.reactor
        self._flush_clock.start(config.store.flush_interval_commit_log / 1000, now=False)
        addresses = tuple(filter(None, (item.strip() for item in config.namesrv_addr.split(";"))))
        self.registration = Registration(
            self.reactor, addresses, self._registered_as, self.state.topics, views.registration(config),
            self.role_source.learned,
        )  # fmt: skip
        self.role_source.begin()
        self.registration.start()
        self.plugins.start()
        broker_metrics.install(self.metrics, self)
        for feature in self.features:
            feature.install(self.metrics)
        report = self.recovery
        how = "new" if report is None or not report.end else "clean" if report.clean else "after a crash"
        seconds = self.reactor.seconds() - began
        if not compiled.AVAILABLE:
            self.log.info("rocketha was installed without its compiled part: batches cost two to four times the CPU")
        root = config.store.store_path_root_dir
        emit(self.log, events.BrokerStarted(self.identity.broker_name, self.identity.address, root, how, seconds))
        self.started.callback(None)

    def _not_started(self, failure: Failure) -> None:
        self._failed = failure.getErrorMessage()
        if not isinstance(failure.value, (ConfigError, DiskFailure)):
            self.log.error("{trace}", trace=failure.getTraceback())
        end_process(self.reactor, f"the broker can not start: {self._failed}")
        self.started.errback(failure)
        self.started.addErrback(lambda _: None)

    # --- stop

    @defer.inlineCallbacks
    def stopService(self) -> Any:
        """Twisted: leave in order; fires when the store is closed."""
        try:
            yield self._leave()
        finally:  # a process that ends without a signal waits for its threads
            if self._starting is not None:
                for work in self._works:
                    work.stop()

    @defer.inlineCallbacks
    def _leave(self) -> Any:
        was_serving = self.serving
        led = was_serving and self.watch.leads
        if was_serving:
            for feature in reversed(self.features):
                yield feature.leave()
            yield self.role_source.end()
            self.replication.stop()
        self.serving = False
        for feature in reversed(self.features):
            feature.stop()
        if self._flush_clock is not None:
            self._clock.stop()
            self._flush_clock.stop()
        if self.registration is not None:
            yield self.registration.stop()
            yield self.files.settle()  # whoever changed a table hears before its connection ends
        lingering = self._lingering
        linger = was_serving and lingering is not None and lingering.wanted(led)
        if linger and lingering is not None:
            self._requests.only_pass_on()
            yield self._end_store(was_serving)
            yield lingering.begin()
        for feature in reversed(self.features):
            feature.end()
        yield defer.maybeDeferred(super().stopService)
        for factory in self.factories:
            factory.close_all()
        if not linger:
            yield self._end_store(was_serving)

    def hurry(self) -> None:
        """Stop without waiting for clients, if it stops."""
        if self._lingering is not None:
            self._lingering.hurry()

    @defer.inlineCallbacks
    def _end_store(self, was_serving: bool) -> Any:
        if self._starting is not None:
            yield self._starting
        if self._built:
            yield self._changes.idle()
            self._turn.afterwards = None  # turns go on while it closes, in another thread
            yield self.flusher.idle()
            yield self.upkeep.idle()
            yield self.files.idle()
        if was_serving:
            yield self._log_work.run(self._close)
            emit(self.log, events.BrokerStopped(self.identity.broker_name, self.store.max_physical_offset))

    def _close(self) -> None:
        """In the log's thread, while nothing else runs: save and close."""
        try:
            self.files.save_all_blocking()
        finally:
            self._mode.end_log(self.replication.log)
            self.store.close(self._now())

    def holding(self, ids: Sequence[int]) -> set[int]:
        """Connections of clients that sent a heartbeat, or for which a pull waits."""
        clients, held = self.state.clients, self.held
        return {each for each in ids if held.waits_for(each) or clients.client_id(each) is not None}

    def _purposes(self, ids: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
        return {number: self.state.clients.purpose(number) for number in ids}

    # --- requests

    def connected(self, connection: RemotingProtocol) -> None:
        """A client is there; nothing to do before it asks."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """A client is gone: its pulls wait no more and its groups rebalance."""
        for feature in self.features:
            feature.disconnected(connection)
        self.sends.disconnected(connection.id)
        for change in self.state.clients.disconnected(connection.id):
            self.state.notify(change)
        if self.state.effects:
            self.effects.carry_out()

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """Answer or stage one request.

        :raises RequestRefused: answered by the protocol.
        """
        if self.plugins.judges and command.code in self._requests.table:
            self.plugins.judge(connection, command)
        return self._serve_request(connection, command)

    def _serve_request(self, connection: Any, command: Command) -> Answer | None:
        """The same of one that was judged, and may have waited since."""
        handler = self._requests.table.get(command.code)
        if handler is None:
            raise unsupported(command.code)
        if self._changes.busy:
            return self._requests.park(connection, command)
        try:
            answer = handler(connection, command, self._now())
        except RequestRefused:
            self.effects.carry_out()
            raise
        except NotSavedYet as needed:
            refusal = self.new_topics.park(connection, command, needed.topic)
            self.effects.carry_out()
            return refusal
        saves = self.effects.carry_out() if self.state.effects else ()
        if answer is not None and (saves or command.code in CHANGES):
            return self._saved_answers.answer(connection, command, answer, saves)
        return answer

    def turn_ended(self) -> None:
        """Append what the turn staged, answer it, and wake who waited for it."""
        if self.sends.staged and not self._changes.busy:
            now_ms = self._now()
            arrived = self.sends.commit(now_ms)
            self._turn.say()  # senders need not wait until readers are woken
            if arrived:
                self.replication.stored(arrived)
            if self.waiting.sync_flush and (len(self.waiting) or self.replication.shows_confirmed):
                self.flusher.kick()  # also what no sender waits for, where consumers do
        self._clock.rearm_if_earlier()

    def _topics_changed(self, topics: Sequence[str]) -> None:
        """Tell the nameservers, and let every pull of these topics run again: it may get another answer now."""
        if self.registration is not None:
            self.registration.topics_changed(topics)
        self.wakeups.topics_changed(topics, self._now())

    def as_turn(self, work: Callable[[], None]) -> None:
        """Do the work of a timer, or of news of a replica, as one turn; within one it is part of it."""
        if self._turn.active:
            work()
            return
        self._turn.active = True
        try:
            work()
            self.turn_ended()
        finally:
            self._turn.end()

    def _settle(self) -> None:
        if not self._changes.busy:
            self.store.settle(TOGETHER)  # a few wait for others, or for the upkeep

    # --- the role

    def _role_changed(self, role: Role) -> None:
        """Everything that depends on the role follows it."""
        replication = self.replication
        self.state.is_slave = role is not Role.MASTER
        self._requests.role_changed(role)
        if role is not Role.MASTER:
            self.sends.refuse(NOT_AVAILABLE)
        for feature in self.features:
            feature.role_changed(role)
        if role is Role.MASTER:
            self._clock.rearm_if_earlier()  # no turn need end soon
        else:
            self.new_topics.role_lost()
            self.new_topics.go_on()
        number = replication.broker_id(self.identity.broker_id)
        self.identity = self.state.identity = attrs.evolve(self.identity, broker_id=number)
        if role is Role.SLAVE:
            self._register()

    def _mastership_changed(self) -> None:
        """A master registers when it leads, not when its role begins: now its tables have the version of its epoch.

        Of two masters a nameserver believes the one with the newer epoch.
        """
        before, self._mastership = self._mastership, self.watch.now
        if self.watch.leads and before != self._mastership:  # else its SyncStateSet changed
            self._register()

    def _storing(self) -> bool:
        replication = self.replication
        stores = replication.role is Role.MASTER and replication.send_refusal is None
        return self.serving and stores and not self._changes.busy

    def _shown_end(self) -> int:
        confirmed = self.store.confirm_offset
        return min(confirmed, self.store.flushed_offset) if self.waiting.sync_flush else confirmed

    def _register(self) -> None:
        if self.registration is not None:
            self.registration.register()

    def fit(self, replica: int) -> bool:
        """See :class:`~rocketha.services.replication.context.ReplicationOwner`."""
        return self.group is not None and self.group.metadata.is_fit(replica)

    def resumed(self) -> None:
        """What waited goes on in the order in which it came."""
        if self.group is not None:
            self.group.forwarding.go_on()
        self.new_topics.go_on()

    def _registered_as(self) -> BrokerIdentity | None:
        return None if self.replication.role is Role.FENCED else self.identity

    def _log_changed(self) -> None:
        """The log was cut, or made fit for another role: what waited for that, or was staged before, goes on."""
        if self.serving:
            self.as_turn(self.new_topics.go_on)
            self.replication.second()

    # --- time

    def wall(self) -> float:
        """Seconds since 1970: for what is written down."""
        return (self._wall or self.reactor.seconds)()

    def _steady_seconds(self) -> float:
        return float(self.reactor.seconds())

    def wall_ms(self) -> int:
        """ms since 1970."""
        return int(self.wall() * 1000)

    def _now(self) -> int:
        """ms of the reactor's clock, which does not step: for whatever waits."""
        return int(self.reactor.seconds() * 1000)

    def _next_due_ms(self) -> int | None:
        waiting_ms, readers_ms = self.waiting.next_deadline_ms(), self.wakeups.next_due_ms()
        return readers_ms if waiting_ms is None else waiting_ms if readers_ms is None else min(waiting_ms, readers_ms)

    def _due(self) -> None:
        now_ms = self._now()
        self.waiting.expired(now_ms)
        if not self._changes.busy and not self.replication.undecided:
            self.wakeups.due(now_ms)

    def _second(self) -> None:
        now_ms = self._now()
        self.waiting.expired(now_ms)
        for feature in self.features:
            feature.second()
        if not self._changes.busy:
            self.upkeep.second(now_ms)
            self.replication.second()

    # --- for people and machines

    def healthy(self) -> str | None:
        """None, or why this process should be restarted."""
        return self._failed

    def ready(self) -> str | None:
        """None, or why the broker can not serve now."""
        if self._failed is not None:
            return self._failed
        if not self.serving:
            return "starting" if self.running else "stopped"
        if not self.store.writable(self._now()):
            return "the store takes no messages: its disk is full or failed"
        unready = self.role_source.ready() or self.replication.ready()
        for feature in self.features:
            unready = unready or feature.unready()
        if unready is not None:
            return unready
        if self.registration is not None and not self.registration.registered:
            return "not registered with every nameserver"
        return None


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
