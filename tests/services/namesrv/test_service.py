"""The name server's service on a fake reactor: ports, requests, probes, expiry, kvConfig.json, 905."""

from __future__ import annotations

import errno
import random
from typing import Any

from twisted.application import service
from twisted.internet import error
from twisted.internet.address import IPv4Address
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IReactorPluggableNameResolver
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python import usage
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from rocketha.errors import CorruptStore
from rocketha.namesrv import requests
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.services.config.loading import NamesrvConfig
from rocketha.services.namesrv import tap as namesrv_tap
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.platform import Platform
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire.codes import RequestCode as Code
from rocketha.wire.codes import ResponseCode
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.remoting import Command, decode, encode
from tests.namesrv.helpers import command, register_command
from tests.services.broker_case import HeldWork
from tests.services.events_case import events_of

KV_PATH = "/ns/kvConfig.json"
BROKER = "10.0.0.1"


class Names:
    """A resolver that knows one address, so that no test waits for a real one."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def resolveHostName(self, receiver: Any, hostName: str, portNumber: int = 0, *_: Any, **__: Any) -> Any:
        self.asked.append(hostName)
        receiver.resolutionBegan(self)
        receiver.addressResolved(IPv4Address("TCP", "192.0.2.7", portNumber))
        receiver.resolutionComplete()
        return self


@implementer(IReactorPluggableNameResolver)
class NamedReactor(MemoryReactorClock):
    """A reactor in memory whose names are not looked up by a thread of the real one."""

    def __init__(self) -> None:
        super().__init__()
        self.nameResolver = Names()


class Peer:
    """One connection to the name server."""

    def __init__(self, case: NameServerCase, host: str = "10.0.0.1") -> None:
        factory = case.reactor.tcpServers[-1][1]
        self.protocol: RemotingProtocol = factory.buildProtocol(IPv4Address("TCP", host, 40000))
        self.transport = StringTransport(peerAddress=IPv4Address("TCP", host, 40000))
        self.protocol.makeConnection(self.transport)
        self._buffer = FrameBuffer()
        self._opaque = 0

    def say(self, request: Command) -> None:
        """Send a request."""
        self._opaque += 1
        request.opaque = self._opaque
        self.protocol.dataReceived(encode(request))

    def heard(self) -> list[Command]:
        """Every answer since the last look."""
        answers = [decode(frame) for frame in self._buffer.feed(self.transport.value())]
        self.transport.clear()
        return answers

    def ask(self, request: Command) -> Command:
        """Send a request and take its answer."""
        self.say(request)
        (answer,) = self.heard()
        assert answer.opaque == self._opaque
        return answer

    def lose(self, reason: Exception | None = None) -> None:
        """The connection breaks."""
        self.protocol.connectionLost(Failure(reason or error.ConnectionLost()))


class NameServerCase(SynchronousTestCase):
    """A started service with one registered broker at hand."""

    def setUp(self) -> None:
        self.reactor = NamedReactor()
        self.disk = MemoryDisk(random.Random(0))
        self.config = NamesrvConfig(kv_config_path=KV_PATH)
        self.works: list[HeldWork] = []

    def work(self, reactor: Any, name: str) -> HeldWork:
        self.works.append(HeldWork(reactor, name))
        return self.works[-1]

    def platform(self) -> Platform:
        return Platform(disk=self.disk, reactor=self.reactor, work=self.work)

    def start(self, **keys: Any) -> NameServerService:
        """The service, listening."""
        for name, value in keys.items():
            setattr(self.config, name, value)
        self.service = NameServerService(self.config, self.platform())
        self.service.privilegedStartService()
        self.service.startService()
        self.addCleanup(lambda: self.service.running and self.service.stopService())
        return self.service

    def knows_topic(self, topic: str = "T1") -> bool:
        """Whether a client is given a route."""
        return Peer(self).ask(command(Code.GET_ROUTEINFO_BY_TOPIC, topic=topic)).code == 0

    def probes(self) -> list[Any]:
        """Connections that were asked for."""
        return [client for client in self.reactor.tcpClients if client[0] == BROKER]

    def answer_probe(self, accepted: bool | None) -> None:
        """The broker's port answers, refuses, or nothing comes back."""
        _host, _port, factory, _timeout, _bind = self.reactor.tcpClients.pop()
        if accepted:
            protocol = factory.buildProtocol(None)
            transport = StringTransport()
            transport.abortConnection = lambda: None
            protocol.makeConnection(transport)
        else:
            reason = error.TimeoutError() if accepted is None else error.ConnectionRefusedError()
            factory.clientConnectionFailed(None, Failure(reason))


class LifeTests(NameServerCase):
    """Start and stop."""

    def test_opens_nothing_before_the_start(self) -> None:
        """Neither a port nor a file nor a timer."""
        NameServerService(self.config, self.platform())
        self.assertEqual((self.reactor.tcpServers, self.reactor.getDelayedCalls()), ([], []))

    def test_listens_on_loopback(self) -> None:
        """127.0.0.1:9876 unless told otherwise."""
        self.start()
        port, _factory, _backlog, interface = self.reactor.tcpServers[0]
        self.assertEqual((port, interface), (9876, "127.0.0.1"))

    def test_endpoint_strings(self) -> None:
        """Instead of port and address, any number."""
        made = NameServerService(
            self.config, self.platform(), ["tcp:1:interface=127.0.0.1", "tcp:2:interface=127.0.0.1"]
        )
        made.startService()
        self.assertEqual([server[0] for server in self.reactor.tcpServers], [1, 2])
        made.stopService()

    def test_taken_port_is_an_error(self) -> None:
        """Not a name server that runs on, deaf."""
        self.reactor.listenTCP = self.refuse
        made = NameServerService(self.config, self.platform())
        self.assertRaises(CannotListenError, made.startService)

    def refuse(self, *_args: Any, **_keys: Any) -> None:
        raise CannotListenError("127.0.0.1", 9876, OSError(errno.EADDRINUSE, "in use"))

    def test_stop_and_start_again(self) -> None:
        """Connections end, no timer stays, and a second start begins empty."""
        self.start()
        peer = Peer(self)
        peer.ask(register_command())
        self.successResultOf(self.service.stopService())
        self.assertTrue(peer.transport.disconnecting)
        peer.lose()
        self.assertEqual([call for call in self.reactor.getDelayedCalls() if call.active()], [])
        self.assertRaises(RuntimeError, lambda: self.service.server)
        self.service.startService()
        self.assertFalse(self.knows_topic())

    def test_ready(self) -> None:
        """From the start; with needWaitForService after its time (regression D11)."""
        made = NameServerService(self.config, self.platform())
        self.assertFalse(made.ready)
        self.assertTrue(self.start().ready)
        self.successResultOf(self.service.stopService())
        self.assertFalse(self.start(need_wait_for_service=True).ready)
        self.reactor.advance(45)
        self.assertTrue(self.service.ready)


class ConnectionTests(NameServerCase):
    """Regression B8 and expiry, from the socket's side."""

    def setUp(self) -> None:
        super().setUp()
        self.start()
        self.broker = Peer(self)
        self.broker.ask(register_command(address=f"{BROKER}:10911"))

    def test_b8_reset_connection_keeps_routes_for_the_grace(self) -> None:
        """20 resets, each followed by a new registration: a client always gets its route, also when the port is not
        asked any more."""
        probed = 0
        for _ in range(20):
            self.broker.lose()
            self.assertTrue(self.knows_topic())
            if self.probes():
                self.answer_probe(True)
                probed += 1
            self.reactor.pump([0.25] * 8)
            self.assertTrue(self.knows_topic())
            self.broker = Peer(self)
            self.broker.ask(register_command(address=f"{BROKER}:10911"))
            self.reactor.pump([0.25] * 8)
            self.assertTrue(self.knows_topic())
        self.assertEqual(self.probes(), [])

    def test_b8_dead_broker_goes_at_once(self) -> None:
        """Its port refuses."""
        self.broker.lose()
        ((_host, port, _factory, timeout, _bind),) = self.probes()
        self.assertEqual(port, 10911)
        self.assertLess(timeout, 3)
        self.answer_probe(False)
        self.assertFalse(self.knows_topic())

    def test_b8_silent_host_goes_with_the_grace(self) -> None:
        """A host that swallows the probe."""
        self.broker.lose()
        self.answer_probe(None)
        self.reactor.pump([0.25] * 11)
        self.assertTrue(self.knows_topic())
        self.reactor.pump([0.25] * 2)
        self.assertFalse(self.knows_topic())

    def test_b8_answering_port_is_asked_once(self) -> None:
        """Its routes live for the longest time between two registrations of a Java broker."""
        self.broker.lose()
        self.answer_probe(True)
        self.reactor.pump([0.25] * 4 * 60)
        self.assertTrue(self.knows_topic())
        self.assertEqual(self.probes(), [])
        self.reactor.pump([0.25] * 4 * 4)
        self.assertFalse(self.knows_topic())

    def test_nobody_makes_it_connect_to_where_he_likes(self) -> None:
        """A stranger registers other hosts' ports and hangs up: no connection, and one to his own, once."""
        for number in range(50):
            peer = Peer(self, "10.6.6.6")
            peer.ask(register_command("evil", f"192.0.2.{number + 1}:{22 + number}", cluster="E"))
            peer.lose()
        self.reactor.pump([0.25] * 20)
        self.assertEqual(self.reactor.tcpClients, [])
        peer = Peer(self, "10.6.6.6")
        peer.ask(register_command("evil", "10.6.6.6:22", cluster="E"))
        peer.lose()
        self.answer_probe(True)
        self.reactor.pump([0.25] * 4 * 130)
        self.assertEqual(self.reactor.tcpClients, [])

    def test_host_names_are_probed_where_they_came_from(self) -> None:
        """brokerIP1 may be a name: it is not looked up; a refusal may be another host's."""
        peer = Peer(self, "10.0.0.7")
        peer.ask(register_command("b", "broker.example:10911"))
        peer.lose()
        self.assertEqual(self.reactor.nameResolver.asked, [])
        self.assertEqual(self.reactor.tcpClients[-1][:2], ("10.0.0.7", 10911))
        self.answer_probe(False)
        self.assertEqual(self.service.server.liveness.suspects, 1)

    def test_a_broker_behind_another_address(self) -> None:
        """It is not asked, and has the grace to register anew."""
        peer = Peer(self, "10.0.0.99")
        peer.ask(register_command("b", "10.0.0.7:10911"))
        peer.lose()
        self.assertEqual((self.reactor.tcpClients, self.service.server.liveness.suspects), ([], 1))
        Peer(self, "10.0.0.98").ask(register_command("b", "10.0.0.7:10911"))
        self.reactor.pump([0.25] * 20)
        self.assertIn("b", [key.name for key in self.service.server.table.brokers])

    def test_ipv6(self) -> None:
        """Addresses in brackets."""
        peer = Peer(self, "::1")
        peer.ask(register_command("b", "[::1]:10911"))
        peer.lose()
        self.assertEqual(self.reactor.tcpClients[-1][:2], ("::1", 10911))

    def test_client_connection_is_nobodys_death(self) -> None:
        """Only connections by which brokers registered are looked at."""
        client = Peer(self)
        client.ask(command(Code.GET_ROUTEINFO_BY_TOPIC, topic="T1"))
        client.lose()
        self.assertEqual(self.probes(), [])

    def test_expired_broker(self) -> None:
        """Its connection is closed and its routes go, within 5 s after the 10 s it asked for."""
        self.broker.ask(register_command(address=f"{BROKER}:10911", heartbeatTimeoutMillis="10000"))
        self.reactor.pump([1] * 9)
        self.assertTrue(self.knows_topic())
        self.assertFalse(self.broker.transport.disconnecting)
        self.reactor.pump([1] * 7)
        self.assertFalse(self.knows_topic())
        self.assertTrue(self.broker.transport.disconnecting)

    def test_heartbeats_keep_it(self) -> None:
        """904 every second, as a broker with acting master sends it."""
        names = {"clusterName": "C", "brokerName": "broker-a", "brokerAddr": f"{BROKER}:10911"}
        for _ in range(200):
            self.assertEqual(self.broker.ask(command(Code.BROKER_HEARTBEAT, **names)).code, 0)
            self.reactor.advance(1)
        self.assertTrue(self.knows_topic())

    def test_tick_survives_an_exception(self) -> None:
        """A LoopingCall stops for good at the first one: ours must not."""
        scan, failures = self.service.server.liveness.scan, iter([ZeroDivisionError("our mistake")])

        def failing_once(now_ms: int) -> Any:
            for failure in failures:
                raise failure
            return scan(now_ms)

        self.service.server.liveness.scan = failing_once  # type: ignore[method-assign]
        self.reactor.pump([1] * 130)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertFalse(self.knows_topic())

    def test_own_pause_expires_nobody(self) -> None:
        """The process was stopped for an hour: brokers get their time anew."""
        self.reactor.advance(3600)
        self.reactor.pump([1] * 100)
        self.assertTrue(self.knows_topic())
        self.reactor.pump([1] * 30)
        self.assertFalse(self.knows_topic())

    def test_stop_cancels_probes(self) -> None:
        """Nothing comes back into a stopped service."""
        self.broker.lose()
        self.successResultOf(self.service.stopService())
        self.reactor.advance(10)
        self.assertEqual(self.flushLoggedErrors(), [])


class MinBrokerIdTests(NameServerCase):
    """905 goes to the broker's own port, as in Java."""

    def test_slave_is_told_of_its_new_master(self) -> None:
        """One frame, oneway; a broker that cannot be reached is logged and forgotten."""
        self.start(notify_min_broker_id_changed=True)
        peer = Peer(self)
        peer.ask(register_command(address="10.0.0.2:10921", broker_id=2))
        peer.ask(register_command(address=f"{BROKER}:10911", broker_id=0))
        self.reactor.advance(0.1)
        # The memory reactor's resolver finds 127.0.0.1 for everything: the port tells them apart.
        _host, port, factory, _timeout, _bind = self.reactor.tcpClients[-1]
        self.assertEqual((port, len(self.reactor.tcpClients)), (10921, 1))
        transport = StringTransport()
        factory.buildProtocol(None).makeConnection(transport)
        (told,) = [decode(frame) for frame in FrameBuffer().feed(transport.value())]
        self.assertEqual((told.code, told.is_oneway), (Code.NOTIFY_MIN_BROKER_ID_CHANGE, True))
        self.assertEqual(told.fields["minBrokerAddr"], f"{BROKER}:10911")

    def test_unreachable(self) -> None:
        """No unhandled error."""
        self.start(notify_min_broker_id_changed=True)
        peer = Peer(self)
        peer.ask(register_command(address="10.0.0.2:10921", broker_id=2))
        peer.ask(register_command(address=f"{BROKER}:10911", broker_id=0))
        self.reactor.advance(0.1)
        self.reactor.tcpClients[-1][2].clientConnectionFailed(None, Failure(error.ConnectionRefusedError()))
        self.reactor.advance(10)
        self.assertEqual(self.flushLoggedErrors(), [])


class KvConfigFileTests(NameServerCase):
    """kvConfig.json is on the disk when a change is acknowledged."""

    def put(self, value: str) -> Command:
        return Peer(self).ask(command(Code.PUT_KV_CONFIG, namespace="NS", key="k", value=value))

    def get(self) -> Command:
        return Peer(self).ask(command(Code.GET_KV_CONFIG, namespace="NS", key="k"))

    def test_survives_a_power_cut(self) -> None:
        """The acknowledged value is read by the next process."""
        self.start()
        self.assertEqual([self.put("1").code, self.put("2").code], [0, 0])
        self.disk.crash()
        self.start()
        self.assertEqual(self.get().fields, {"value": "2"})

    def test_damaged_file_falls_back(self) -> None:
        """To the backup; without one the name server does not start with a table that nobody wrote."""
        self.start()
        self.put("1")
        self.put("2")
        self.disk.flip_bit(KV_PATH, 0, 0)
        self.start()
        self.assertEqual(self.get().fields, {"value": "1"})
        self.disk.remove(KV_PATH + ".bak")
        self.assertRaises(CorruptStore, self.start)

    def test_every_disk_failure_is_answered_and_undone(self) -> None:
        """Fail the 1st, 2nd, ... operation: code 1, the old value stays, and the next try works."""
        self.start()
        self.put("old")
        said, failures = events_of(self), 0
        for number in range(1, 40):
            self.disk.fail_at(number, errno.ENOSPC)
            answer = self.put(f"new{number}")
            self.disk.heal()
            if answer.code == 0:
                break
            failures += 1
            self.assertIn("could not be saved", answer.remark or "")
            self.assertEqual(self.get().fields, {"value": "old"})
        self.assertGreater(failures, 5)
        self.assertEqual([each["event"] for each in said].count("disk.failed"), failures)
        self.assertEqual(self.put("last").code, 0)
        self.disk.crash()
        self.start()
        self.assertEqual(self.get().fields, {"value": "last"})

    def test_without_a_file(self) -> None:
        """An empty path keeps the table in memory only (simulations)."""
        self.start(kv_config_path="")
        self.assertEqual(self.put("1").code, 0)
        self.assertEqual(self.get().fields, {"value": "1"})

    def say(self, key: str, value: str | None) -> Peer:
        """Put, or delete where ``value`` is None; without waiting for the answer."""
        peer, fields = Peer(self), {"namespace": "NS", "key": key}
        if value is None:
            peer.say(command(Code.DELETE_KV_CONFIG, **fields))
        else:
            peer.say(command(Code.PUT_KV_CONFIG, **fields, value=value))
        return peer

    def test_h3_a_slow_disk_holds_up_the_maker_and_nobody_else(self) -> None:
        """The answer follows the write; meanwhile others are answered, from the table that is on the disk."""
        self.start()
        self.put("old")
        self.works[-1].held = True
        before = self.disk.operations
        maker = self.say("k", "new")
        self.assertEqual((maker.heard(), self.disk.operations), ([], before))
        self.assertEqual(Peer(self).ask(register_command()).code, 0)
        self.assertTrue(self.knows_topic())
        self.assertEqual(self.get().fields, {"value": "old"})
        self.works[-1].let_go()
        self.assertEqual([answer.code for answer in maker.heard()], [0])
        self.assertEqual(self.get().fields, {"value": "new"})

    def test_changes_that_come_while_one_is_written(self) -> None:
        """Are written together, once, each made from the one before; what is there already waits for it too."""
        self.start()
        self.works[-1].held = True
        first, again = self.say("k", "1"), self.say("absent", None)
        more = [self.say("k", "2"), self.say("other", "3"), self.say("k", None), self.say("k", None)]
        self.assertEqual(len(self.works[-1].waiting), 1)
        self.works[-1].let_go()
        self.assertEqual([len(peer.heard()) for peer in (first, again, *more)], [1, 1, 0, 0, 0, 0])
        self.assertEqual(self.get().fields, {"value": "1"})
        self.assertEqual(len(self.works[-1].waiting), 1)
        self.works[-1].let_go()
        self.assertEqual([[answer.code for answer in peer.heard()] for peer in more], [[0]] * 4)
        self.assertEqual((self.get().code, self.works[-1].waiting), (ResponseCode.QUERY_NOT_FOUND, []))
        self.disk.crash()
        self.start()
        self.assertEqual(self.service.server.kv.tables, {"NS": {"other": "3"}})

    def test_a_failure_takes_what_was_made_from_it(self) -> None:
        """All who wait are told, and the table is as on the disk; what comes afterwards is made from that."""
        self.start()
        self.put("old")
        self.works[-1].held = True
        peers = [self.say("k", "1"), self.say("other", "2"), self.say("third", "3")]
        self.disk.fail_at(1, errno.ENOSPC, only=["write"])
        self.works[-1].let_go()
        for peer in peers:
            (answer,) = peer.heard()
            self.assertEqual(answer.code, 1)
            self.assertIn("could not be saved", answer.remark or "")
        self.assertEqual((self.get().fields, self.works[-1].waiting), ({"value": "old"}, []))
        self.works[-1].held = False
        self.say("other", "4")
        self.disk.crash()
        self.start()
        self.assertEqual(self.service.server.kv.tables, {"NS": {"k": "old", "other": "4"}})

    def test_too_many_changes(self) -> None:
        """Only so many may wait; they are counted out again, whether they were written or not."""
        self.patch(requests, "KV_UNSAVED_MAX", 3)
        self.start()
        for fails in (False, True, False):
            self.works[-1].held = True
            peers = [self.say(f"k{number}", "v") for number in range(4)]
            self.assertEqual([answer.code for answer in peers[3].heard()], [2])
            if fails:
                self.disk.fail_at(1, errno.ENOSPC, only=["write"])
            self.works[-1].let_go()
            self.works[-1].let_go()
            self.assertEqual([len(peer.heard()) for peer in peers], [1, 1, 1, 0])
            self.works[-1].held = False
            self.assertEqual(self.put("1").code, 0)

    def test_a_stop_waits_for_what_is_written(self) -> None:
        """The maker hears of it before its connection ends; no change is taken any more."""
        self.start()
        self.works[-1].held = True
        maker = self.say("k", "1")
        stopped = self.service.stopService()
        self.assertNoResult(stopped)
        self.assertEqual([answer.code for answer in self.say("k", "2").heard()], [1])
        self.works[-1].let_go()
        self.assertEqual([answer.code for answer in maker.heard()], [0])
        self.successResultOf(stopped)
        self.assertTrue(maker.transport.disconnecting)
        self.start()
        self.assertEqual(self.get().fields, {"value": "1"})

    def test_a_maker_that_is_gone(self) -> None:
        """Its change stays, and nobody is told."""
        self.start()
        self.works[-1].held = True
        maker = self.say("k", "1")
        maker.lose()
        self.works[-1].let_go()
        self.assertEqual((maker.heard(), self.get().fields), ([], {"value": "1"}))

    def test_refused_update_is_audited(self) -> None:
        """security.md: audit every refusal."""
        self.start()
        answer = Peer(self).ask(command(Code.UPDATE_NAMESRV_CONFIG, b"kvConfigPath=/etc/cron.d/x"))
        self.assertEqual(answer.code, 16)


class OptionsTests(SynchronousTestCase):
    """``twistd rocketha-namesrv``."""

    def parse(self, *arguments: str) -> namesrv_tap.Options:
        options = namesrv_tap.Options()
        options.parseOptions(list(arguments))
        return options

    def test_flags_over_file(self) -> None:
        """--config, --port, --bind, --data, --set, --listen."""
        path = self.mktemp()
        with open(path, "w") as file:
            file.write("listenPort=1\nneedWaitForService=true\n")
        options = self.parse(
            "--config",
            path,
            "--port",
            "2",
            "--data",
            "/ns",
            "--set",
            "topicsMax=5",
            "--listen",
            "tcp:3:interface=127.0.0.1",
        )
        assert options.loaded is not None
        config = options.loaded.config
        self.assertEqual((config.listen_port, config.need_wait_for_service, config.topics_max), (2, True, 5))
        self.assertEqual(config.kv_config_path, "/ns/kvConfig.json")
        made = namesrv_tap.makeService(options)
        self.assertTrue(service.IService.providedBy(made))

    def test_errors(self) -> None:
        """Each a usage error that says where."""
        for arguments, part in (
            (["--config", "/nonexistent"], "/nonexistent: cannot be read"),
            (["--port", "x"], "flag listenPort: listenPort='x' is refused"),
            (["--bind", "host"], "bindAddress"),
            (["--set", "x"], "KEY=VALUE is wanted"),
            (["--set", "listenPrt=1"], "did you mean listenPort?"),
            (["--listen", "nonsense:1"], "--listen nonsense:1"),
            (["--listen", "tcp:port"], "--listen tcp:port"),
        ):
            with self.subTest(arguments=arguments):
                problem = self.assertRaises(usage.UsageError, self.parse, *arguments)
                self.assertIn(part, str(problem))

    def test_unparsed_options(self) -> None:
        """A service is not made of nothing."""
        self.assertRaises(usage.UsageError, namesrv_tap.makeService, namesrv_tap.Options())
