"""Somebody who reaches a controller's port and is no broker of the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet import defer, protocol, reactor
from twisted.internet.endpoints import TCP4ClientEndpoint

from rocketha import rates
from rocketha.controller.liveness import ReplicaKey
from rocketha.protocols.endpoints import Dialer, connect_protocol
from rocketha.protocols.peer_connections import PeerConnections
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode as Code
from rocketha.wire.remoting import Command
from tests.interop.harness.ports import free_ports
from tests.services.controller_case import CLUSTER, NAME, ControllerCase, FakeBroker, pause, until


class Stranger:
    """A connection from this host, and whatever it says."""

    def __init__(self, case: ControllerCase, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self._out = PeerConnections(Dialer(reactor))
        self._to = case.leader().config.self_address
        case.addCleanup(self._out.close)

    def say(self, code: int, body: bytes = b"", **fields: str) -> defer.Deferred[Command]:
        """One request on its one connection."""
        connecting = self._out.connect(self._to, 1.0)

        def said(connection: RemotingProtocol) -> defer.Deferred[Command]:
            return connection.request(code, {"clusterName": CLUSTER, "brokerName": NAME, **fields}, body, timeout_s=9.0)

        return connecting.addCallback(said)

    def beat(self, number: int, address: str = "", **fields: str) -> defer.Deferred[Command]:
        """A heartbeat of whom he likes."""
        beat = {"brokerId": str(number), "brokerAddr": address or self.address, **fields}
        return self.say(Code.BROKER_HEARTBEAT, epoch="9", maxOffset="99999999", **beat)

    def alter(self, master: int, epochs: Sequence[int], *ids: int) -> defer.Deferred[Command]:
        """1001, in the master's name."""
        body = json_dialect.dumps({"syncStateSet": list(ids), "syncStateSetEpoch": epochs[1]})
        return self.say(
            Code.CONTROLLER_ALTER_SYNC_STATE_SET, body, masterBrokerId=str(master), masterEpoch=str(epochs[0])
        )

    def designate(self, number: int) -> defer.Deferred[Command]:
        """What mqadmin electMaster sends."""
        return self.say(Code.CONTROLLER_ELECT_MASTER, brokerId=str(number), designateElect="true")

    def apply(self, number: int, name: str = NAME, address: str = "") -> defer.Deferred[Command]:
        """1013."""
        code = f"{address or self.address};1"
        return self.say(
            Code.CONTROLLER_APPLY_BROKER_ID, brokerName=name, appliedBrokerId=str(number), registerCheckCode=code
        )

    def register(self, number: int, address: str = "") -> defer.Deferred[Command]:
        """1003."""
        address = address or self.address
        return self.say(Code.CONTROLLER_REGISTER_BROKER, brokerId=str(number), brokerAddress=address)


class FiveRequestsTests(ControllerCase):
    """He wants to be the master."""

    timeout = 60

    @defer.inlineCallbacks
    def setUp(self) -> Any:
        yield super().setUp()
        self.one, self.two = yield self.start_brokers(2)
        self.one.confirms = True
        liveness = self.leader()._watch.liveness
        yield until("it is known as ours", lambda: liveness.last(ReplicaKey(CLUSTER, NAME, 1)).confirms)  # type: ignore[union-attr]
        self.stranger = Stranger(self, free_ports(1)[0])
        self.before = self.master()

    def unchanged(self) -> None:
        """Master, set and the addresses of both brokers."""
        self.assertEqual((self.master(), self.group.in_sync), (self.before, (1, 2)))
        self.assertEqual([self.group.address(number) for number in (1, 2)], [self.one.address, self.two.address])

    @defer.inlineCallbacks
    def test_in_the_masters_name(self) -> Any:
        """As if it stopped, and designated another one: only by the connection of its heartbeats."""
        asked = {"brokerId": "2", "designateElect": "true", "retiringMasterId": "1"}
        answer = yield self.stranger.say(Code.CONTROLLER_ELECT_MASTER, **asked)
        self.assertEqual(answer.code, 2005)
        self.unchanged()
        answer = yield self.one.ask(Code.CONTROLLER_ELECT_MASTER, clusterName=CLUSTER, brokerName=NAME, **asked)
        self.assertEqual((answer.code, answer.fields["masterBrokerId"]), (0, "2"))

    @defer.inlineCallbacks
    def test_his_own_id(self) -> Any:
        """An id, a heartbeat, himself into the set in the master's name, and an election."""
        found = yield self.stranger.say(Code.CONTROLLER_GET_NEXT_BROKER_ID)
        number = int(found.fields["nextBrokerId"])
        codes = []
        epochs = self.group.master_epoch, self.group.set_epoch
        for asked in (
            lambda: self.stranger.apply(number),
            lambda: self.stranger.beat(number),
            lambda: self.stranger.alter(1, epochs, 1, 2, number),
            lambda: self.stranger.beat(1, self.one.address),  # "I am the master"
            lambda: self.stranger.alter(1, epochs, 1, 2, number),
            lambda: self.stranger.designate(number),
        ):
            answer = yield asked()
            codes.append(answer.code)
        self.assertEqual(codes, [0, 0, 2005, 2005, 2005, 2012])
        self.unchanged()
        answer = yield self.one.alter(1, 2, number)
        self.assertEqual(answer.code, 0, "the master may have whom it wants")

    @defer.inlineCallbacks
    def test_a_slaves_id(self) -> Any:
        """He registers under the id of a living member of the set, with his own address, and is elected."""
        codes = []
        for asked in (
            lambda: self.stranger.register(2),
            lambda: self.stranger.beat(2),
            lambda: self.stranger.register(1),
        ):
            answer = yield asked()
            codes.append(answer.code)
        self.assertEqual(codes, [2005, 2005, 2005])
        self.unchanged()
        self.assertEqual(self.leader().refusals.requests["CONTROLLER_REGISTER_BROKER", "CONTROLLER_INVALID_REQUEST"], 2)

    def from_another_host(self) -> defer.Deferred[RemotingProtocol]:
        """A connection that does not come from 127.0.0.1."""
        host, port = self.leader().config.self_address.split(":")
        out = PeerConnections(Dialer(reactor))
        self.addCleanup(out.close)
        endpoint = TCP4ClientEndpoint(reactor, host, int(port), bindAddress=("127.0.0.2", 0))
        return connect_protocol(endpoint, out._factory.buildProtocol(None))

    @defer.inlineCallbacks
    def test_a_master_of_javas(self) -> Any:
        """It may name the leader otherwise for its heartbeats than for all else: by two connections of one host."""
        self.one.confirms = False
        liveness = self.leader()._watch.liveness
        yield until("it is known as Java's", lambda: not liveness.last(ReplicaKey(CLUSTER, NAME, 1)).confirms)  # type: ignore[union-attr]
        fields = {"clusterName": CLUSTER, "brokerName": NAME, "masterBrokerId": "1", "masterEpoch": "1"}
        body = json_dialect.dumps({"syncStateSet": [1], "syncStateSetEpoch": self.group.set_epoch})
        connection = yield self.from_another_host()
        answer = yield connection.request(Code.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body, timeout_s=9.0)
        self.assertEqual((answer.code, answer.fields), (2005, {}))
        self.unchanged()
        answer = yield self.stranger.alter(1, (self.group.master_epoch, self.group.set_epoch), 1)
        self.assertEqual((answer.code, self.group.in_sync), (0, (1,)))

    @defer.inlineCallbacks
    def test_its_address_from_another_host(self) -> Any:
        """A slave's registration word for word, from a host that is not its: it would not be asked any more."""
        connection = yield self.from_another_host()
        fields = {"clusterName": CLUSTER, "brokerName": NAME, "brokerId": "2", "brokerAddress": self.two.address}
        answer = yield connection.request(Code.CONTROLLER_REGISTER_BROKER, fields, timeout_s=9.0)
        self.assertEqual((answer.code, self.group.members[2].elsewhere), (2005, False))
        self.unchanged()

    @defer.inlineCallbacks
    def test_who_is_gone_may_come_back_elsewhere(self) -> Any:
        """A slave's process is killed and started with another address: at once, not when its lease is over."""
        yield self.two.kill()
        answer = yield self.stranger.register(2)
        self.assertEqual((answer.code, self.group.address(2)), (0, self.stranger.address))

    @defer.inlineCallbacks
    def test_a_frozen_slave(self) -> Any:
        """It says nothing, and its port says nothing: after its lease its id may go."""
        self.two.freeze()
        yield pause(0.5)
        answer = yield self.stranger.register(2)
        self.assertEqual(answer.code, 0)
        self.two.thaw()

    @defer.inlineCallbacks
    def test_its_address(self) -> Any:
        """Who says that another lives at the master's address does not make its port's answers another's."""
        yield self.stranger.beat(99, self.one.address)
        yield self.stranger.beat(99, self.one.address)
        liveness, watch = self.leader()._watch.liveness, self.leader()._watch
        self.assertEqual(liveness.at(self.one.address, watch.now_ms()).broker_id, 1)  # type: ignore[union-attr]


class FloodTests(ControllerCase):
    """He makes groups, brokers and cleans."""

    @defer.inlineCallbacks
    def test_groups(self) -> Any:
        """So many at once, and no more; a broker of a group that is there still joins."""
        self.leader()._newcomers = rates.Rates(5)
        yield self.start_brokers(1)
        stranger = Stranger(self, 1)
        answers = []
        for number in range(6):
            answer = yield stranger.apply(1, f"group-{number}")
            answers.append(answer)
        self.assertEqual([answer.code for answer in answers], [0] * 4 + [1] * 2)
        self.assertIn("too many broker groups", answers[-1].remark)
        answer = yield stranger.beat(7)
        self.assertEqual((answer.code, len(self.leader()._watch.liveness)), (1, 1))
        (port,) = free_ports(1)
        self.brokers.append(FakeBroker(self, port))
        yield self.brokers[-1].start()
        self.assertEqual(self.brokers[-1].id, 2)

    @defer.inlineCallbacks
    def test_a_leader_that_has_heard_nobody_yet(self) -> Any:
        """Has the whole group forgotten nobody may, though nobody is heard: it leads since a moment ago."""
        brokers = yield self.start_brokers(2)
        for broker in brokers:
            broker._beats.stop()
        yield self.nodes["n0"].stopService()
        self.start_node("n0")
        yield self.await_leader()
        for fields in ({"isCleanLivingBroker": "true"}, {"brokerControllerIdsToClean": "2"}):
            answer = yield Stranger(self, 1).say(Code.CLEAN_BROKER_DATA, **fields)
            self.assertEqual(answer.code, 2009)
        self.assertEqual(sorted(self.group.members), [1, 2])
        yield until("nobody is awaited", lambda: not self.leader()._watch.may_come(CLUSTER, NAME, 2))
        answer = yield Stranger(self, 1).say(Code.CLEAN_BROKER_DATA, brokerControllerIdsToClean="2")
        self.assertEqual(answer.code, 0)


class _Port(protocol.ServerFactory):
    """Counts who connects to a port that is no broker's."""

    def __init__(self) -> None:
        self.connections = 0

    def buildProtocol(self, addr: Any) -> protocol.Protocol:
        self.connections += 1
        return protocol.Protocol()


class KnockingTests(ControllerCase):
    """He has the controller connect to a port of his choice."""

    @defer.inlineCallbacks
    def setUp(self) -> Any:
        yield super().setUp()
        self.port = _Port()
        listening = reactor.listenTCP(0, self.port, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(listening.stopListening)
        self.stranger = Stranger(self, listening.getHost().port)

    @defer.inlineCallbacks
    def test_on_his_own_host_once(self) -> Any:
        """A group of his own, whose master he is: he hangs up, and is asked once."""
        yield self.stranger.apply(1)
        yield self.stranger.beat(1)
        yield self.stranger.say(Code.CONTROLLER_ELECT_MASTER, brokerId="1", designateElect="false")
        self.assertEqual(self.master(), (1, 1))
        yield until("it was told", lambda: self.port.connections)
        told = self.port.connections
        self.stranger._out.close()
        yield pause(3.0)
        self.assertLessEqual(self.port.connections - told, 1 + 3)  # the notice tries each second

    @defer.inlineCallbacks
    def test_on_another_host_never(self) -> Any:
        """He comes from 127.0.0.1; the address that he names is another's."""
        dialled = []
        connections = self.leader()._watch.probes.connections
        dial = connections.dial
        self.patch(connections, "dial", lambda to, s: (dialled.append(to), dial(to, s))[1])
        address = "192.0.2.7:6379"
        yield self.stranger.apply(1, address=address)
        yield self.stranger.beat(1, address)
        yield self.stranger.say(Code.CONTROLLER_ELECT_MASTER, brokerId="1", designateElect="false")
        self.assertEqual(self.master(), (1, 1))
        self.stranger._out.close()
        yield pause(1.0)
        self.assertEqual([each for each in dialled if each.startswith("192.")], [])
        self.assertEqual(set(dialled), {"127.0.0.1:6379"})
