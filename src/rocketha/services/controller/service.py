"""A controller as a Twisted service: the port, the requests, the log behind them, and what follows from decisions.

Decides nothing: requests are read by :mod:`rocketha.controller.requests`, decided by
:class:`~rocketha.controller.state.ControllerState` when the Raft group has committed them, and
:mod:`rocketha.controller.failure_detector` says who is dead.  Nothing is opened before ``startService``; the reactor
enters there, or is given by a test or the simulator.

Theory of operation.  One port serves remoting and Raft.  A request that may change the state becomes a log entry with
the evidence this leader has, and its answer is the outcome of applying it; one that asks is answered after a barrier,
which many share.  A request that would change nothing is answered after a barrier too, without an entry, unless
something else about its set is on its way.  Before an election or a registration is decided a master that is not heard
is asked whether it lives.  A controller that does not lead answers as Java's does, 2007.

Java: ``ControllerManager``, ``ControllerRequestProcessor``, ``DLedgerController``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from twisted.application import service
from twisted.internet import defer
from twisted.python import log

from rocketha.access.routes import unsupported
from rocketha.broker.fair_budget import FairBudget, held_bytes
from rocketha.controller import answers, heartbeats
from rocketha.controller.events import AlterSyncStateSet, ConfirmMaster, ElectMaster, Event
from rocketha.controller.group import BrokerGroup, GroupKey
from rocketha.controller.liveness import ReplicaKey
from rocketha.controller.requests import Caller, Intent, Question, Requests
from rocketha.controller.routes import ROUTES, ControllerRoute
from rocketha.controller.state import ControllerState
from rocketha.controller.watched import address_of, master_key
from rocketha.errors import RequestRefused
from rocketha.observe import events
from rocketha.observe.logging import emit, lasting, make_logger
from rocketha.observe.overview import Overview
from rocketha.observe.refusals import Refusals
from rocketha.protocols.admission import Admission
from rocketha.protocols.remoting import RemotingProtocol, ServerParts
from rocketha.protocols.shared_port import SharedPort
from rocketha.protocols.turn import Turn
from rocketha.raft.config import RaftConfig
from rocketha.rates import IDS_AT_ONCE, NEWCOMERS_AT_ONCE, Rates
from rocketha.services.access.guard import guarded
from rocketha.services.config import views
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.controller.answers import FULL, OwnAnswers, answer_to_failure
from rocketha.services.controller.elections import Elections
from rocketha.services.controller.exported import NO_ROLE, ROLES, Exported
from rocketha.services.controller.notices import Notices
from rocketha.services.controller.overview import ControllerOverview
from rocketha.services.controller.sequencer import ControllerMachine, Sequencer
from rocketha.services.controller.watch import TICK_S, Watch
from rocketha.services.process.clients import ConnectedClients
from rocketha.services.process.own_process import OwnProcess
from rocketha.services.process.platform import Platform
from rocketha.services.process.reserve import shows_by
from rocketha.services.process.ticker import Ticker
from rocketha.services.raft.machine_store import MachineStore
from rocketha.services.raft.options import RaftMember, RaftOptions, RaftView
from rocketha.services.raft.service import RaftService
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, Command

_NOT_ITS_CONNECTION = "this broker's heartbeats do not come by this connection, or not from this host"
"""1001 and 11006: anybody else could put himself into the SyncStateSet, and be elected from there.  To a master this is
no answer (``sync_state.REFUSALS``): it asks again, by when its heartbeats come by its new connection.
"""

WAITING_MAX = 20_000
WAITING_BYTES_MAX = 64 * 1024 * 1024
"""Requests that wait for the log, for a majority, or for what a probe finds, and the memory that they take."""


class Counts(NamedTuple):
    """What a controller counts; see :mod:`rocketha.services.controller.metrics`."""

    sets: int
    headless: int
    behind: int
    heard: int
    heartbeats: int
    open: int
    suspected: int
    deaths: int
    elections: int
    notices: int


class ControllerService(service.MultiService):
    """A running controller.

    :param listen: endpoint strings; from the configuration where empty.
    :ivar exported: its metrics under Java's names; None: nobody asks for them.
    """

    def __init__(
        self,
        config: ControllerConfig,
        platform: Platform,
        listen: Sequence[str] = (),
        warnings: Sequence[str] = (),
        raft_options: RaftOptions | None = None,
    ) -> None:
        super().__init__()
        self.setName("controller")
        self.config = config
        self.log = make_logger()
        self.platform = platform
        self._reactor = platform.reactor
        self._listen = tuple(listen) or (
            views.endpoint(config.bind_address, config.listen_port, config.remoting.server_socket_backlog),
        )
        self._warnings = tuple(warnings)
        self._raft_options = raft_options
        self._raft: RaftService | None = None
        self._parts: list[service.IService] = []
        self.factory: SharedPort | None = None
        self._ticker: Ticker | None = None
        self._ids = Rates(IDS_AT_ONCE)
        self._newcomers = Rates(NEWCOMERS_AT_ONCE)
        self._clusters: dict[int, str] = {}  # connection -> the cluster its broker named
        self._waiting = FairBudget(WAITING_MAX, WAITING_BYTES_MAX)
        self._led = False
        self.refusals = Refusals("controller", platform.seconds)
        self.exported = Exported(config, platform.seconds) if config.metrics.exported else None
        if self.exported is not None:
            self.exported.install(self._role, self._alive)

    # -- life -----------------------------------------------------------------------------------------------------

    @property
    def raft(self) -> RaftService:
        """The member of the group; there once the service is started."""
        if self._raft is None:
            raise RuntimeError("the controller is not started")
        return self._raft

    @property
    def leading(self) -> bool:
        """Whether this controller decides."""
        return self._raft is not None and self._raft.is_leader

    def healthy(self) -> str | None:
        """None: what is fatal ends the process."""
        return None

    def ready(self) -> str | None:
        """None, or why requests cannot be answered, here or by the leader that 1005 names."""
        if not self.running or self._raft is None:
            return "stopped"
        return None if self._raft.leader_id else "no controller leads: is a majority running?"

    def raft_view(self) -> RaftView | None:
        """The Raft member for metrics; None while it does not run."""
        return self._own.raft_view() if self._raft is not None else None

    def _role(self) -> int:
        view = self.raft_view()
        return NO_ROLE if view is None else ROLES[view.node.role]

    def _alive(self) -> list[ReplicaKey]:
        if self._raft is None:
            return []
        watch, now_ms = self._watch, self._watch.now_ms()
        return [key for key in watch.liveness if watch.liveness.alive(key, now_ms)]

    def overview(self) -> Overview:
        """For the status page."""
        if self._raft is None:
            return Overview(f"controller {self.config.controller_dleger_self_id}")
        return self._overview.of(self._watch.liveness, self._watch.detector, self._watch.now_ms(), self.raft_view())

    def counts(self) -> Counts:
        """Numbers for metrics; of a running controller."""
        watch, groups = self._watch, list(self.state.groups())
        return Counts(
            len(groups),
            sum(group.master_id is None for group in groups),
            watch.sets_behind(),
            len(watch.liveness),
            watch.heartbeats,
            len(watch.detector.states()),
            watch.suspected,
            watch.deaths,
            self._elections.count,
            self._notices.pending,
        )

    def privilegedStartService(self) -> None:
        """Twisted: open the port, while still allowed to take a low one."""
        self._prepare()
        super().privilegedStartService()

    def startService(self) -> None:
        """Twisted: serve.  A port that is taken is an error, not a controller without a port."""
        self._prepare()
        super().startService()
        self._ticker = Ticker(self._reactor, lasting(self._tick, "the clock"), TICK_S)
        self._ticker.start()
        for warning in self._warnings:
            self.log.warn("{text}", text=warning)
        config, listen = self.config, ", ".join(self._listen)
        own, group = config.controller_dleger_self_id, config.controller_dleger_group
        emit(self.log, events.ControllerStarted(own, group, listen, config.self_address))

    @defer.inlineCallbacks
    def stopService(self) -> Any:
        """Twisted: hand leadership over, close the port and the log; fires when all is closed."""
        if self._ticker is not None:
            self._ticker.stop()
        self._ticker = None
        yield defer.maybeDeferred(super().stopService)
        if self._raft is not None:
            self._role_changed()
            self._notices.cancel()
            self._watch.stop()
        if self.factory is not None:
            self.factory.close_all()
        for part in self._parts:
            yield defer.maybeDeferred(part.disownServiceParent)
        self._parts = []
        self._raft = None
        self._clusters.clear()
        emit(self.log, events.ControllerStopped(self.config.controller_dleger_self_id))

    def _prepare(self) -> None:
        if self._raft is not None:
            return
        config, reactor_ = self.config, self._reactor
        self.state = ControllerState()
        self._elections = Elections(
            config, self.state, reactor_.seconds, self.platform.wall, lambda event: self._sequencer.decide(event)
        )
        if self.exported is not None:
            self._elections.elected = self.exported.elected
        self._watch = Watch(
            self.platform.dialer, config, self.state, self.other_voters, self._elections.elect, self.platform.stalls
        )
        self._notices = Notices(reactor_, self._watch.probes.connections, self._watch.probes.behind, self._elections)
        self._requests = Requests(self.state, self._watch, config)
        turn = Turn()
        raft = self._raft = self._make_raft(turn)
        self._sequencer = Sequencer(self.state, raft)
        self._elections.attach(self._watch, self._notices, raft.barrier)
        raft.on_role(self._role_changed)
        # A log that cannot be used was told to on_fatal: only what follows here is news.
        raft.started.addCallbacks(lambda _: self._recovered(), lambda _: None).addErrback(
            lambda why: log.err(why, "what follows the recovery of the log failed")
        )
        self._overview = ControllerOverview(config, self.state, self._requests.alive, self.refusals)
        self._own = OwnAnswers(
            config, raft, self._watch, self._notices, self.state, self._store, self.platform.askers.known
        )
        limits = views.limits(config.remoting)
        parts = ServerParts(
            turn=turn,
            refusals=self.refusals,
            admission=Admission(limits, lambda ids: self._clusters, reserve=True),
            shows=shows_by(ROUTES),
            answered=None if self.exported is None else self.exported.answered,
        )
        requests = guarded(self, self.platform.askers, ROUTES)
        self.factory = SharedPort(requests, reactor_, raft.port, limits, parts)
        self._process = OwnProcess(self.platform, self.platform.askers.known)
        self._clients = ConnectedClients((self.factory,), self.refusals, self._purposes, self._process)
        network = self.platform.network
        self._parts = [raft, *(network.port(reactor_, each, self.factory, self.refusals) for each in self._listen)]
        for part in self._parts:
            part.setServiceParent(self)

    def _make_raft(self, turn: Turn) -> RaftService:
        config = self.config
        node = config.controller_dleger_self_id
        options = self._raft_options or RaftOptions()
        tick_ms = options.tick_s * 1000
        core = RaftConfig(
            id=node,
            election_ticks=max(2, round(config.raft_election_timeout / tick_ms)),
            heartbeat_ticks=max(1, round(config.raft_heartbeat_interval / tick_ms)),
            preferred=tuple(each.strip() for each in config.raft_preferred_leaders.split(";") if each.strip()),
            cautious=config.raft_cautious,
            lease_reads=config.raft_lease_reads,
        )
        member = RaftMember(
            node,
            config.controller_dleger_group,
            config.peers,
            config.raft_directory,
            config.raft_join_existing,
            config.raft_secret,
            self.platform.askers.is_controller,
        )
        machine = ControllerMachine(self.state, self._elections.applied)
        self._store = MachineStore(member, machine, self.platform, options)
        return RaftService(
            member,
            self._store,
            self.platform,
            options,
            core,
            turn=turn,
            refusals=self.refusals,
        )

    def _recovered(self) -> None:
        """The log is open.  A group of one need not wait whether somebody else leads; the core knows where it must."""
        self._elections.replayed = self.raft.node.last_index
        members, forced = self.raft.node.members, self.raft.node.forced
        if forced:
            voters = ", ".join(sorted(members.voters))
            emit(self.log, events.ControllersForced(self.config.controller_dleger_self_id, forced, voters))
        if members.voters == {self.config.controller_dleger_self_id} and not members.outgoing:
            self.raft.node.campaign()
            self.raft.wake()

    def other_voters(self) -> Mapping[str, str]:
        """Id to ``host:port`` of the controllers that vote besides this one."""
        own = self.config.controller_dleger_self_id
        try:
            members = self.raft.node.members
        except RuntimeError:
            return {}
        return {node: members.addresses.get(node, "") for node in members.voters if node != own}

    def _tick(self) -> None:
        try:
            self._watch.tick()
            self._elections.tick()
        except Exception:
            self.log.failure("the tick failed; it goes on")

    def _role_changed(self) -> None:
        leading = self.leading and self.running
        if leading and not self._led:
            self._led = True
            emit(self.log, events.ControllerLeads(self.config.controller_dleger_self_id, self.raft.node.term))
            self._watch.led()
            self._elections.led()
        elif self._led and not leading:
            self._led = False
            emit(self.log, events.ControllerDeposed(self.config.controller_dleger_self_id))
            self._elections.deposed()
            self._watch.deposed()
            self._notices.cancel()

    # -- what connections say -------------------------------------------------------------------------------------

    def connected(self, connection: RemotingProtocol) -> None:
        """A connection is up: nothing to do before it asks."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """A connection ended: its brokers are suspects."""
        self._clusters.pop(connection.id, None)
        if self.running:
            self._watch.connection_lost(connection.id)

    def turn_ended(self) -> None:
        """Nothing is staged here."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """Answer one request, now or later."""
        if command.code == RequestCode.BROKER_HEARTBEAT:
            return self._heartbeat(connection, command)
        route = ROUTES.get(command.code)
        if route is None:
            raise unsupported(command.code)
        size = held_bytes(command)
        if not self._waiting.take(connection.id, size):
            return FULL
        try:
            result = self._begin(connection, command, route)
        except RequestRefused as refusal:
            result = Answer(refusal.code, refusal.remark)
        except Exception:
            self._waiting.give_back(connection.id, size)
            raise
        return self._later(connection, command, result, size)

    def _begin(
        self, connection: RemotingProtocol, command: Command, route: ControllerRoute
    ) -> Answer | defer.Deferred[Any]:
        if command.code == PrivateCode.CLIENTS:
            return self._clients.answer(connection, command)
        if command.code == PrivateCode.LOG_LEVEL:
            return self._process.log_level(connection, command)
        if not route.leader:
            return self._own.methods[command.code](connection, command)
        if route.names and command.fields.get("clusterName"):
            self._clusters[connection.id] = command.fields["clusterName"]
        if route.joins and self.leading:
            self._check_rates(connection, command)
        doubt = self._doubt(connection, command) if route.doubts and self.leading else None
        if doubt is None:
            return self._take(connection, command, route)
        return doubt.addCallback(lambda _: self._take(connection, command, route))

    def _check_rates(self, connection: RemotingProtocol, command: Command) -> None:
        """No host fills a group with ids, or this controller with groups."""
        cluster, name = command.fields.get("clusterName", ""), command.fields.get("brokerName", "")
        host, now_ms = connection.socket_host, self._watch.now_ms()
        applies = command.code == RequestCode.CONTROLLER_APPLY_BROKER_ID
        makes_group = applies or self.config.adopt_unknown_brokers
        if makes_group and self.state.record(cluster, name) is None and not self._newcomers.take(host, now_ms):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{host} makes too many broker groups: later")
        if applies and not self._ids.take((host, cluster, name), now_ms):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{host} applied for too many ids of {name}: later")

    def _later(
        self, connection: RemotingProtocol, command: Command, result: Answer | defer.Deferred[Any], size: int
    ) -> Answer | None:
        """Give the answer when it is there; until then the request has its place among those that wait."""
        if isinstance(result, defer.Deferred):
            result.addErrback(answer_to_failure, self.log)

            def say(answer: Answer) -> None:
                self._waiting.give_back(connection.id, size)
                connection.answer(command, answer)

            result.addCallback(say)
            return None
        self._waiting.give_back(connection.id, size)
        return result

    def _purposes(self, ids: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
        """The brokers that are heard by them."""
        return {number: {"brokers": sorted(map(str, self._watch.liveness.by_connection(number)))} for number in ids}

    # -- heartbeats -----------------------------------------------------------------------------------------------

    def _heartbeat(self, connection: RemotingProtocol, command: Command) -> Answer:
        key, beat = heartbeats.read(command.fields)
        if address_of(self.state, key) is None and self._watch.liveness.last(key) is None:
            if not self._newcomers.take(connection.socket_host, self._watch.now_ms()):
                remark = f"too many brokers that are not registered at {connection.socket_host}: later"
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, remark)
        self._clusters[connection.id] = key.cluster
        self._watch.heard(key, beat, connection.id, connection.proven_host)
        if self._notices.pending:
            self._notices.heard(GroupKey(key.cluster, key.broker_name), beat.address, beat.epoch)
        return _BEATEN

    # -- requests about the state ---------------------------------------------------------------------------------

    def _doubt(self, connection: RemotingProtocol, command: Command) -> defer.Deferred[Any] | None:
        """What must be found out before an election or a registration is decided; None for nothing."""
        registers = command.code == RequestCode.CONTROLLER_REGISTER_BROKER
        cluster = command.fields.get("clusterName") or self._clusters.get(connection.id, "")
        group = self.state.find(cluster, command.fields.get("brokerName", ""))
        if group is None:
            return None
        asker, master = command.fields.get("brokerId", "?")[:20], master_key(group)
        what = f"broker {asker} {'registers' if registers else 'asks for an election'}"
        number = int(asker) if registers and asker.isdecimal() else 0
        address = group.address(number)
        if address is not None:
            key = ReplicaKey(group.cluster, group.broker_name, number)
            moved = command.fields.get("brokerAddress", address) != address
            moved |= self._watch.liveness.host(key) not in ("", connection.proven_host)
            if moved or key == master:
                doubt = self._watch.registers(key, moved, connection.proven_host)
                if master in (None, key):
                    return doubt
                return doubt.addCallback(lambda _: self._watch.find_out(master, what))
        return None if master is None else self._watch.find_out(master, what)

    def _take(
        self, connection: RemotingProtocol, command: Command, route: ControllerRoute
    ) -> Answer | defer.Deferred[Any]:
        cluster = self._clusters.get(connection.id, "")
        caller = Caller(connection.peer, cluster, self._own.operators.is_operator(connection))
        found = self._requests.decode(command, caller, self.leading, self.platform.wall_ms())
        if isinstance(found, Answer):
            return found
        if isinstance(found, Intent):
            if not self._speaks_for_itself(connection, found.event):
                raise RequestRefused(ResponseCode.CONTROLLER_INVALID_REQUEST, _NOT_ITS_CONNECTION)
            result = self._sequencer.decide(found.event)
        else:
            result = self._inform(found)
        if route.tells:
            result.addCallback(lambda answer: self._telling(connection, command, caller, answer))
        return result

    def _speaks_for_itself(self, connection: RemotingProtocol, event: Event) -> bool:
        """Whether what only a master says comes by the connection of that master's heartbeats.

        A Java broker sends it to the leader as the controllers name it, its heartbeats to the addresses that it was
        configured with: where these differ only the host is the same.
        """
        if type(event) is AlterSyncStateSet:
            number = event.master_id
        elif type(event) is ConfirmMaster:
            number = event.broker_id
        elif type(event) is ElectMaster and event.designate and event.expected_master:  # it hands over
            number = event.expected_master
        else:
            return True
        key, liveness = ReplicaKey(event.cluster, event.broker_name, number), self._watch.liveness
        if key in liveness.by_connection(connection.id):
            return True
        last = liveness.last(key)
        return last is not None and not last.confirms and liveness.host(key) == connection.proven_host

    def _inform(self, question: Question) -> defer.Deferred[Any]:
        return self.raft.barrier().addCallback(
            lambda _: self._requests.answer(question, self.platform.wall_ms()) if self.leading else answers.NOT_LEADER
        )

    def _telling(self, connection: RemotingProtocol, command: Command, caller: Caller, answer: Answer) -> Answer:
        """An answer is about to tell a broker who leads its set."""
        cluster = caller.cluster  # what 1004 is answered about, whatever it names, if there is one
        if command.code != RequestCode.CONTROLLER_GET_REPLICA_INFO or not cluster:
            cluster = command.fields.get("clusterName") or cluster
        group = self.state.find(cluster, command.fields.get("brokerName", ""))
        if group is not None:
            heard = self._watch.liveness.by_connection(connection.id)
            here = [key.broker_id for key in heard if (key.cluster, key.broker_name) == group.key]
            strangers = [broker_id for broker_id in here if broker_id not in group.members]
            strangers = [each for each in strangers if self._may_register(group, each)]
            if strangers and answer.code == ResponseCode.SUCCESS:
                # It was cleaned, or its set was adopted with another broker: this makes a Java broker register.
                return answers.refusal(
                    ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, f"broker {strangers[0]} is to register", {}
                )
            for_itself = answer.code == ResponseCode.SUCCESS and command.fields.get("designateElect") != "true"
            # An election behind its registration in the log is applied before the answer to that is given.
            newest = (answer.fields or {}).get("masterEpoch") == str(group.master_epoch)
            self._elections.answered(group, here if for_itself and newest else [])
        return answer

    def _may_register(self, group: BrokerGroup, broker_id: int) -> bool:
        """Whether one that is heard and is no member could be, if it registered."""
        cleaned = group.cleaned.get(broker_id)
        last = self._watch.liveness.last(ReplicaKey(*group.key, broker_id))
        same = cleaned is not None and last is not None and last.address == cleaned.address
        return same or self.config.adopt_unknown_brokers


_BEATEN = Answer(remark="Heart beat success")
