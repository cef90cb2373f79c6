"""What a server makes of the source that a listed proxy announces: policies of users go by it, and little else."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet import task
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.access.askers import Askers
from rocketha.access.identity import Identity, Part
from rocketha.access.trusted import parse
from rocketha.addresses import Networks
from rocketha.broker.routes import ROUTES
from rocketha.protocols.proxy_port import ProxyPort
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.services.access.guard import guarded
from rocketha.services.access.users import FAILURES_AT_ONCE
from rocketha.services.config.proxies import ProxiesConfig
from rocketha.services.raft.operators import Operators
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.remoting import Answer, Command, decode
from tests.namesrv.helpers import command, register_command
from tests.services.access.test_accounts_log import ANN, AccountsCase
from tests.services.broker_case import BrokerCase, Client, heartbeat, pull_fields, records, send_fields
from tests.services.namesrv.test_service import NameServerCase, Peer

PROXY = "10.0.0.9"


def header(host: str, port: int = 4444) -> bytes:
    """Version 1; UNKNOWN without a host."""
    return f"PROXY TCP4 {host} 10.0.0.1 {port} 10911\r\n".encode() if host else b"PROXY UNKNOWN\r\n"


class Through(Client):
    """A connection to a broker, from somewhere, that begins with something."""

    def __init__(self, factory: Any, host: str, begin: bytes) -> None:
        address = IPv4Address("TCP", host, 50000)
        self.transport = StringTransport(peerAddress=address)
        self.transport.abortConnection = self.transport.loseConnection  # type: ignore[method-assign]
        self.protocol = factory.buildProtocol(address)
        self.protocol.makeConnection(self.transport)
        self._buffer = FrameBuffer()
        self._opaque = 0
        if begin:
            self.protocol.dataReceived(begin)


class BrokerTests(AccountsCase):
    """A broker with users, one of whom may send from 10.1.1.0/24."""

    def start(self) -> Any:
        if "proxyProtocol" not in self.config:
            self.config += f"proxyProtocolNetworks=192.0.2.0/24,{PROXY}\ninsecureNetwork=true\n"
        return super().start()

    def setUp(self) -> None:
        super().setUp()
        self.make_ann()
        entries = [
            {"resource": "Topic:F", "actions": ["Pub", "Sub"], "decision": "Allow", "sourceIps": ["10.1.1.0/24"]},
            {"resource": "Topic:P", "actions": ["Pub"], "decision": "Allow", "sourceIps": [f"{PROXY}/32"]},
        ]
        self.ok(RequestCode.AUTH_UPDATE_ACL, {"subject": "User:ann"}, {"policies": [{"entries": entries}]})

    def through(self, host: str = PROXY, begin: bytes = b"", port: int = 10911) -> Through:
        (factory,) = (each[1] for each in self.clock.tcpServers if each[0] == port)
        return Through(factory, host, begin)

    def sends(self, client: Client, topic: str = "F", who: tuple[str, str] = ANN) -> Command:
        return self.ask(RequestCode.SEND_MESSAGE_V2, send_fields(topic), b"body", who, client)

    def test_policies(self) -> None:
        for host, begin, topic, source in (
            (PROXY, header("10.1.1.7"), "F", ""),
            ("192.0.2.77", header("10.1.1.7"), "F", ""),
            (PROXY, header("10.2.2.2"), "F", "10.2.2.2"),
            (PROXY, header("10.1.1.7"), "P", "10.1.1.7"),
            (PROXY, header(""), "P", ""),
            (PROXY, header(""), "F", PROXY),
            ("10.1.1.7", b"", "F", ""),
            ("10.2.2.2", b"", "F", "10.2.2.2"),
        ):
            for port in (10911, 10909):
                answer = self.sends(self.through(host, begin, port), topic)
                said = f"User:ann has no permission to access Topic:{topic} from {source}, no matched policies."
                self.assertEqual((answer.code, answer.remark), (16, said) if source else (0, None), (host, begin))

    def test_who_is_not_listed(self) -> None:
        for port in (10911, 10909):
            client = self.through("10.2.2.2", header("10.1.1.7"), port)
            client.say(client.command(RequestCode.GET_BROKER_RUNTIME_INFO))
            self.assertEqual((client.heard(), client.transport.disconnecting), ([], True), port)

    def test_what_is_kept_and_shown(self) -> None:
        client = self.through(begin=header("10.1.1.7"))
        self.assertEqual(self.sends(client).code, 0)
        body = heartbeat("c@1", "G", "F")
        self.assertEqual(self.ask(RequestCode.HEART_BEAT, {}, body, ANN, client).code, 0)
        found = self.ask(RequestCode.PULL_MESSAGE, pull_fields("F"), None, ANN, client)
        (message,) = records(found)
        self.assertEqual(message.born_host, bytes((10, 1, 1, 7)) + (4444).to_bytes(4))
        found = self.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "G"})
        self.assertEqual([each["clientAddr"] for each in json.loads(found.body)["connectionSet"]], ["10.1.1.7:4444"])

    def test_failed_logins_are_those_of_who_is_behind_it(self) -> None:
        """So one of its clients shuts out no other."""
        wrong = {"AccessKey": "ann", "Signature": "x"}
        for _ in range(FAILURES_AT_ONCE):
            client = self.through(begin=header("10.3.0.1"))
            client.say(client.command(RequestCode.HEART_BEAT, wrong))
            client.close()
        answer = self.through(begin=header("10.3.0.1")).ask(RequestCode.HEART_BEAT, wrong)
        self.assertEqual(answer.remark, "too many logins of this user from this address failed: later")
        for begin in (header("10.1.1.7"), header("")):
            answer = self.through(begin=begin).ask(RequestCode.HEART_BEAT, wrong)
            self.assertEqual(answer.remark, "check signature failed.")
        self.assertEqual(self.sends(self.through(begin=header("10.1.1.7"))).code, 0)

    def test_makers_are_counted_by_the_proxy(self) -> None:
        for announced in ("10.3.0.1", "10.3.0.2"):
            client = self.through(begin=header(announced))
            body = heartbeat("c@1", f"G{announced[-1]}", "F")
            self.assertEqual(self.ask(RequestCode.HEART_BEAT, {}, body, client=client).code, 0)
        self.assertEqual(list(self.broker.core.state.made._free_ms), [PROXY])


class PortsTests(BrokerCase):
    """A broker with a port for replicas."""

    config = f"brokerRole=SYNC_MASTER\nproxyProtocolNetworks={PROXY}\ninsecureNetwork=true\n"

    def test_only_those_for_clients_have_proxies(self) -> None:
        found = {port: isinstance(factory, ProxyPort) for port, factory, *_ in self.clock.tcpServers}
        self.assertEqual(found, {10911: True, 10909: True, 10912: False})


class _Service:
    """Takes whatever comes."""

    def connected(self, connection: RemotingProtocol) -> None:
        """Nothing to do."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """Nothing to do."""

    def turn_ended(self) -> None:
        """Nothing is staged."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        return Answer(0)


class IdentityTests(SynchronousTestCase):
    """An address of ``tls.trustedPeers`` is worth something on the connection that comes from it, and only there."""

    THEIRS = "10.0.0.3"

    def setUp(self) -> None:
        own = Identity("c", Part.BROKER, "a", 0)
        trusted = parse(
            ";".join(
                f"{who}@{self.THEIRS},{PROXY}" for who in ("broker/a/1", "controller/n0", "nameserver/x", "operator/o")
            )
        )
        service = guarded(_Service(), Askers(lambda transport: (), (own,), trusted), ROUTES)
        factory = RemotingFactory(service, task.Clock())
        self.port = ProxyPort(factory, Networks.parse(PROXY), factory.refusals)

    def ask(self, code: int, host: str, begin: bytes = b"") -> int:
        client = Through(self.port, host, begin)
        fields = {"clusterName": "c", "brokerName": "a", "brokerId": "1", "masterBrokerId": "1"}
        client.say(client.command(code, fields))
        (frame,) = FrameBuffer().feed(client.transport.value())
        client.protocol.connectionLost(Failure(ConnectionDone()))
        return decode(frame).code

    def test_each_request_of_a_member(self) -> None:
        claimed = [code for code, route in ROUTES.items() if route.claims is not None]
        self.assertGreater(len(claimed), 20)
        served = [code for code in claimed if self.ask(code, self.THEIRS) == 0]
        for code in (
            RequestCode.NOTIFY_BROKER_ROLE_CHANGED,
            RequestCode.GET_ALL_TOPIC_CONFIG,
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE,
        ):
            self.assertIn(code, served)
        for code in claimed:
            for announced in (self.THEIRS, "127.0.0.1", PROXY, ""):
                self.assertEqual(
                    self.ask(code, PROXY, header(announced)), ResponseCode.NO_PERMISSION, (code, announced)
                )

    def test_this_machine(self) -> None:
        """Who comes by a proxy of this machine is not on it, whatever he is said to be."""
        operators: Any = Operators(None, "broker", lambda: False, lambda *_: None, Answer(0))  # type: ignore[arg-type]
        factory = RemotingFactory(_Service(), task.Clock())
        port = ProxyPort(factory, Networks.parse(f"127.0.0.9,{PROXY}"), factory.refusals)

        def connect(host: str, begin: bytes) -> RemotingProtocol:
            Through(port, host, begin)
            return factory.connections[max(factory.connections)]

        self.assertTrue(operators.is_operator(connect("127.0.0.1", b"")))
        for host in (PROXY, "127.0.0.9"):
            for announced in ("127.0.0.1", "10.0.0.1", ""):
                connection = connect(host, header(announced))
                self.assertFalse(operators.is_operator(connection))


class NameServerTests(NameServerCase):
    """One behind a proxy, at which a broker of 10.0.0.1 is registered."""

    def setUp(self) -> None:
        super().setUp()
        self.start(proxies=ProxiesConfig(proxy_protocol_networks=PROXY))
        self.broker = Peer(self)
        self.assertEqual(self.broker.ask(register_command()).code, 0)

    def peer(self, announced: str, port: int = 4444) -> Peer:
        peer = Peer(self, PROXY)
        peer.protocol.dataReceived(header(announced, port))
        return peer

    def registered(self) -> str:
        (live,) = self.service.server.table.live.values()
        return live.host

    def test_nobody_is_dialed_where_a_proxy_says(self) -> None:
        peer = self.peer("10.7.7.7")
        self.assertEqual(peer.ask(register_command("b", "10.7.7.7:22", cluster="E")).code, 0)
        peer.lose()
        self.assertEqual((self.reactor.tcpClients, self.service.server.liveness.suspects), ([], 1))
        self.assertEqual(self.peer("10.7.7.7").ask(register_command("b", "10.7.7.7:22", cluster="E")).code, 0)

    def test_the_announced_host_is_not_the_same_host(self) -> None:
        """Who comes from where a broker did may take its place; who is only said to is asked about."""
        stranger = self.peer("10.0.0.1")
        stranger.say(register_command(broker_id=0))
        self.assertEqual((stranger.heard(), self.registered()), ([], "10.0.0.1"))
        self.assertEqual(self.reactor.tcpClients[-1][:2], ("10.0.0.1", 10911), "the one that holds the place is asked")
        self.broker.lose()
        fields = {"clusterName": "C", "brokerName": "broker-a", "brokerAddr": "10.0.0.1:10911", "brokerId": "0"}
        answer = self.peer("10.0.0.1", 5555).ask(command(RequestCode.UNREGISTER_BROKER, **fields))
        self.assertNotEqual(answer.code, 0)
        self.assertEqual(Peer(self).ask(command(RequestCode.UNREGISTER_BROKER, **fields)).code, 0)

    def test_newcomers_are_counted_by_the_proxy(self) -> None:
        for number in range(3):
            self.peer(f"10.7.7.{number}").ask(register_command(f"b{number}", f"10.7.7.{number}:1", cluster="E"))
        self.assertEqual(set(self.service._newcomers._free_ms), {"10.0.0.1", PROXY})

    def test_clients_are_shown_as_announced(self) -> None:
        peer = self.peer("10.1.1.7")
        peer.ask(command(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="T1"))
        self.assertIn("10.1.1.7:4444", [each.peer for each in self.service.factory.connections.values()])  # type: ignore[union-attr]
