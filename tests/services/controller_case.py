"""Controllers in this process on loopback, and scripted brokers that talk to them over real sockets."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from twisted.internet import defer, reactor, task
from twisted.trial.unittest import TestCase

from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.peer_connections import PeerConnections
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.services.config.loading import load_controller
from rocketha.services.controller.service import ControllerService
from rocketha.services.process.platform import Platform
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode
from rocketha.wire.codes import RequestCode as Code
from rocketha.wire.remoting import Answer, Command
from tests.interop.harness.ports import free_ports

CLUSTER, NAME = "C", "broker-a"
BEAT_S = 0.1
FAST = (
    "raftElectionTimeout=250\nraftHeartbeatInterval=50\nbrokerSilence=350\nbrokerProbeTimeout=250\nbrokerProbePause=100\n"
    "scanInactiveMasterInterval=100\n"
)


def pause(seconds: float) -> defer.Deferred[None]:
    """Let time pass, where the point is that nothing happens in it."""
    return task.deferLater(reactor, seconds, lambda: None)  # type: ignore[arg-type]


@defer.inlineCallbacks
def until(what: str, check: Callable[[], Any], seconds: float = 30.0) -> Any:
    """The first true value of ``check``, asked every few milliseconds."""
    end = reactor.seconds() + seconds  # type: ignore[attr-defined]
    while True:
        found = check()
        if found:
            return found
        if reactor.seconds() > end:  # type: ignore[attr-defined]
            raise AssertionError(f"{what} did not come about within {seconds} s")
        yield pause(0.005)


class FakeBroker:
    """A broker of one set: registers, heartbeats, and answers 907, 1007 and 1008 as Java's does.

    :ivar told: the 1008 it was sent: (master id, master epoch), in order.
    """

    def __init__(self, case: ControllerCase, port: int) -> None:
        self.case = case
        self.address = f"127.0.0.1:{port}"
        self.port = port
        self.id = -1
        self.master: tuple[int | None, int] = (None, 0)
        self.told: list[tuple[int, int]] = []
        self.max_offset = 100
        self.confirms = False  # as ours announce
        self.frozen = False
        self.read_ms = 1
        self._held: list[Any] = []
        self._factory = RemotingFactory(self, reactor)  # type: ignore[arg-type]
        self._listening: Any = None
        self._out = PeerConnections(Dialer(reactor))
        self._beats = task.LoopingCall(self.beat)

    # -- its port

    def connected(self, connection: RemotingProtocol) -> None:
        if self.frozen:
            connection.transport.pauseProducing()
            self._held.append(connection)

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        pass

    def turn_ended(self) -> None:
        pass

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        if command.code == Code.GET_BROKER_HA_STATUS:
            leads = self.master[0] == self.id
            client = {"lastReadTimestamp": self.read_ms, "maxOffset": self.max_offset}
            return Answer(body=json_dialect.dumps({"master": leads, "haClientRuntimeInfo": client}))
        if command.code == Code.GET_BROKER_EPOCH_CACHE:
            return Answer(body=json_dialect.dumps({"brokerName": NAME, "clusterName": CLUSTER, "epochList": []}))
        if command.code == Code.NOTIFY_BROKER_ROLE_CHANGED:
            found = (int(command.fields["masterBrokerId"]), int(command.fields["masterEpoch"]))
            self.told.append(found)
            if found[1] > self.master[1]:
                self.master = found
            return Answer()
        return Answer(3, "not supported")

    # -- life

    def listen(self) -> None:
        self._listening = reactor.listenTCP(self.port, self._factory, interface="127.0.0.1")  # type: ignore[attr-defined]

    def start_beats(self) -> None:
        self._beats.start(BEAT_S, now=True)

    @defer.inlineCallbacks
    def start(self) -> Any:
        """Listen, take an id, register, be elected or be told, and heartbeat."""
        self.listen()
        found = yield self.ask(Code.CONTROLLER_GET_NEXT_BROKER_ID, clusterName=CLUSTER, brokerName=NAME)
        self.id = int(found.fields["nextBrokerId"])
        yield self.ask(
            Code.CONTROLLER_APPLY_BROKER_ID,
            clusterName=CLUSTER,
            brokerName=NAME,
            appliedBrokerId=str(self.id),
            registerCheckCode=f"{self.address};1",
        )
        yield self.join()

    @defer.inlineCallbacks
    def join(self) -> Any:
        """What a broker does that has its id."""
        answer = yield self.register()
        self.start_beats()
        if "masterBrokerId" not in answer.fields:
            answer = yield self.elect()
        if "masterBrokerId" in answer.fields:
            self.master = (int(answer.fields["masterBrokerId"]), int(answer.fields["masterEpoch"]))

    def register(self) -> defer.Deferred[Command]:
        return self.ask(
            Code.CONTROLLER_REGISTER_BROKER,
            clusterName=CLUSTER,
            brokerName=NAME,
            brokerId=str(self.id),
            brokerAddress=self.address,
        )

    def elect(self) -> defer.Deferred[Command]:
        return self.ask(
            Code.CONTROLLER_ELECT_MASTER,
            clusterName=CLUSTER,
            brokerName=NAME,
            brokerId=str(self.id),
            designateElect="false",
        )

    @defer.inlineCallbacks
    def alter(self, *ids: int) -> Any:
        """Report a SyncStateSet, with the epoch of the present one."""
        info = yield self.ask(Code.CONTROLLER_GET_REPLICA_INFO, brokerName=NAME)
        epoch = json_dialect.loads(info.body)["syncStateSetEpoch"]
        body = json_dialect.dumps({"syncStateSet": list(ids), "syncStateSetEpoch": epoch})
        found = yield self.ask(
            Code.CONTROLLER_ALTER_SYNC_STATE_SET,
            body,
            brokerName=NAME,
            masterBrokerId=str(self.id),
            masterEpoch=info.fields["masterEpoch"],
        )
        return found

    def beat(self) -> None:
        """One 904 to every controller."""
        for node in self.case.nodes.values():
            if node.running:
                self._beat_to(node)

    def _beat_to(self, node: ControllerService) -> None:
        fields = {
            "clusterName": CLUSTER,
            "brokerName": NAME,
            "brokerAddr": self.address,
            "brokerId": str(self.id),
            "epoch": str(self.master[1]),
            "maxOffset": str(self.max_offset),
            "heartbeatTimeoutMills": "3000",
        }
        if self.confirms:
            fields["confirmsRole"] = "true"
        connecting = self._out.connect(node.config.self_address, 1.0)
        connecting.addCallback(lambda connection: connection.notify(Code.BROKER_HEARTBEAT, fields))
        connecting.addErrback(lambda _: None)

    def ask(self, code: int, body: bytes = b"", **fields: str) -> defer.Deferred[Command]:
        """Ask whoever leads."""
        connecting = self._out.connect(self.case.leader().config.self_address, 1.0)
        return connecting.addCallback(lambda connection: connection.request(code, fields, body, timeout_s=5.0))

    # -- misfortunes

    def reset(self) -> None:
        """Every connection between it and the controllers breaks; heartbeats make new ones."""
        for connection in [*self._out._factory.connections.values(), *self._factory.connections.values()]:
            connection.transport.abortConnection()

    @defer.inlineCallbacks
    def kill(self) -> Any:
        """Its process is gone: port closed, connections reset."""
        if self._beats.running:
            self._beats.stop()
        listening, self._listening = self._listening, None
        if listening is not None:
            closing = listening.stopListening()
            for attempt in list(self._out._attempts):  # which would be a connection in a moment
                attempt.cancel()
            self.reset()
            yield closing
            yield until("its connections to end", lambda: not self._out._factory.connections)

    def freeze(self) -> None:
        """It stands still; its kernel does not."""
        self.frozen = True
        self._beats.stop()
        for connection in self._factory.connections.values():
            connection.transport.pauseProducing()
            self._held.append(connection)

    def thaw(self) -> None:
        """It goes on, with whatever lies in its sockets."""
        self.frozen = False
        held, self._held = self._held, []
        for connection in held:
            if connection.transport.connected:
                connection.transport.resumeProducing()
        self.start_beats()

    @defer.inlineCallbacks
    def stop(self) -> Any:
        yield self.kill()
        self.thaw_quietly()
        self._factory.close_all()
        self._out.close()
        yield until(
            "its connections to end", lambda: not self._factory.connections and not self._out._factory.connections
        )

    def thaw_quietly(self) -> None:
        for connection in self._held:
            connection.transport.abortConnection()
        self._held.clear()


class ControllerCase(TestCase):
    """``count`` controllers; all that is started is stopped."""

    count = 1
    keys = FAST
    timeout = 300

    @defer.inlineCallbacks
    def setUp(self) -> Any:
        self.brokers: list[FakeBroker] = []
        ports = free_ports(self.count)
        self.peers = ";".join(f"n{number}-127.0.0.1:{port}" for number, port in enumerate(ports))
        self.disks: dict[str, MemoryDisk] = {}
        self.nodes: dict[str, ControllerService] = {}
        self.fatal: list[str] = []
        for number in range(self.count):
            self.start_node(f"n{number}")
        yield self.await_leader()

    def start_node(self, node: str, **attributes: Any) -> ControllerService:
        """A controller, on the disk it had."""
        text = (
            f"{self.keys}controllerDLegerPeers={self.peers}\ncontrollerDLegerSelfId={node}\ncontrollerStorePath=/store"
        )
        config = load_controller(text.encode(), "test.conf", {}, {"HOME": "/"}).config
        for name, value in attributes.items():
            setattr(config, name, value)
        disk = self.disks.setdefault(node, MemoryDisk(random.Random(len(self.disks))))
        made = self.nodes[node] = ControllerService(
            config, Platform(disk=disk, chance=random.Random(len(self.disks) + 100), on_fatal=self.fatal.append)
        )
        made.privilegedStartService()
        made.startService()
        return made

    @defer.inlineCallbacks
    def tearDown(self) -> Any:
        for broker in self.brokers:
            yield broker.stop()
        yield defer.DeferredList([node.stopService() for node in self.nodes.values() if node.running])
        yield until(
            "connections to end",
            lambda: not any(node.factory is not None and node.factory.connections for node in self.nodes.values()),
        )
        self.assertEqual(self.fatal, [])

    def leading(self) -> list[ControllerService]:
        return [node for node in self.nodes.values() if node.running and node.leading]

    def leader(self) -> ControllerService:
        """Who leads.  AssertionError when nobody does."""
        found = self.leading()
        assert found, "nobody leads"
        return found[0]

    def await_leader(self) -> defer.Deferred[Any]:
        return until("a leader", lambda: len(self.leading()) == 1)

    @defer.inlineCallbacks
    def start_brokers(self, count: int) -> Any:
        """Brokers 1 .. count; 1 is the master, all are in sync, all know it."""
        for port in free_ports(count):
            broker = FakeBroker(self, port)
            self.brokers.append(broker)
            yield broker.start()
        if count > 1:
            ids = range(1, count + 1)
            yield until("all are alive everywhere", lambda: all(self.alive(number) for number in ids))
            answer = yield self.brokers[0].alter(*ids)
            self.assertEqual((answer.code, answer.remark), (0, None))
        return self.brokers

    @defer.inlineCallbacks
    def last_decision(self) -> Any:
        """The newest entry of the set's audit trail."""
        answer = yield self.brokers[-1].ask(PrivateCode.WHY, clusterName=CLUSTER, brokerName=NAME)
        return json_dialect.loads(answer.body)["decisions"][-1]

    def alive(self, number: int) -> bool:
        """Whether every controller hears a broker."""
        return all(node._watch.alive(CLUSTER, NAME, number) is not None for node in self.nodes.values() if node.running)

    @property
    def group(self) -> Any:
        """The set as the leader has it."""
        return self.leader().state.group(CLUSTER, NAME)

    def master(self) -> tuple[int | None, int]:
        """Master and epoch."""
        return self.group.master_id, self.group.master_epoch

    def await_master(self, *wanted: int) -> defer.Deferred[Any]:
        """One of these is the master."""
        return until(f"master {wanted}", lambda: self.leading() and self.group.master_id in wanted)
