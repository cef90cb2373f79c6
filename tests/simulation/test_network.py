"""The simulated network, driven by real services: a name server and remoting clients on hosts of their own."""

from __future__ import annotations

from typing import Any

from twisted.internet import error, protocol
from twisted.internet.endpoints import HostnameEndpoint, TCP4ServerEndpoint, connectProtocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.config.loading import NamesrvConfig
from rocketha.services.namesrv.service import NameServerService
from rocketha.simulation.host import Host, Process
from rocketha.simulation.link import Quality
from rocketha.simulation.world import World
from rocketha.wire.codes import RequestCode

PORT = 9876
TABLE = {"namespace": "n", "key": "k"}


def name_server(process: Process) -> Any:
    """The program of a host: our name server."""
    config = NamesrvConfig(kv_config_path="/ns/kvConfig.json", bind_address=process.host.address, listen_port=PORT)
    service = NameServerService(config, process.platform())
    service.privilegedStartService()
    service.startService()
    return service


def client(process: Process) -> RemotingClient:
    """The program of a host: a remoting client."""
    return RemotingClient(Dialer(process.reactor))


class Answers:
    """Results of requests, with the true time they came."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.got: list[tuple[float, Any]] = []

    def __call__(self, result: Any) -> None:
        value = result.value if isinstance(result, Failure) else result.code
        self.got.append((self.world.now, value))

    @property
    def last(self) -> Any:
        """The newest."""
        return self.got[-1][1] if self.got else None


class NetworkCase(SynchronousTestCase):
    """A name server, and two clients."""

    quality = Quality()

    def setUp(self) -> None:
        self.start(1)

    def start(self, seed: int) -> None:
        """Another world."""
        self.world = World(seed, self.quality)
        self.server = self.world.add_host("ns", name_server)
        self.one = self.world.add_host("one", client)
        self.two = self.world.add_host("two", client)
        self.answers = Answers(self.world)
        self.world.run(0.1)

    def put(self, host: Host, value: str = "v", timeout_s: float = 3.0) -> None:
        """Ask the name server to keep a value."""
        assert host.process is not None
        asked = host.process.service.request(
            f"ns:{PORT}", RequestCode.PUT_KV_CONFIG, {**TABLE, "value": value}, timeout_s=timeout_s
        )
        asked.addBoth(self.answers)

    def ask(self, host: Host, wait_s: float = 4.0) -> Any:
        """One request and what came of it."""
        self.put(host)
        self.world.run(wait_s)
        return self.answers.last


class RequestTests(NetworkCase):
    """The services cannot tell."""

    def test_a_request_is_answered_within_round_trips(self) -> None:
        """One to connect, one for the request."""
        self.assertEqual(self.ask(self.one), 0)
        self.assertLess(self.answers.got[0][0] - 0.1, 0.02)
        self.assertEqual(self.world.scheduler.failures, [])

    def test_the_disk_outlives_the_process(self) -> None:
        """A value that was acknowledged is there after a power cut."""
        self.server.disk.make_dirs("/ns")
        self.server.disk.sync_dir("/")
        self.ask(self.one)
        self.server.power_off()
        self.server.start()
        self.world.run(1)
        self.assertIn(b'"v"', self.server.disk.read_all("/ns/kvConfig.json", 1000))
        self.assertEqual(self.ask(self.two), 0)

    def test_bandwidth(self) -> None:
        """200 kB at 100 kB/s take two seconds."""
        self.world.network.link(self.one.address, self.server.address).quality.bytes_per_s = 100_000
        for _ in range(5):
            self.put(self.one, "x" * 40_000, timeout_s=5)
        self.world.run(6)
        self.assertEqual([value for _, value in self.answers.got], [0] * 5)
        self.assertTrue(2.0 < self.answers.got[-1][0] < 2.3, self.answers.got)

    def test_loss_is_delay(self) -> None:
        """TCP sends again; nothing is missing and nothing comes twice."""
        self.world.network.link(self.one.address, self.server.address).quality.loss = 0.5
        for number in range(20):
            self.put(self.one, f"v{number}", timeout_s=60)
        self.world.run(60)
        self.assertEqual([value for _, value in self.answers.got], [0] * 20)
        self.assertGreater(self.answers.got[-1][0], 0.25)

    def test_every_split_is_the_same_to_a_service(self) -> None:
        """Frames cut at random points."""
        self.quality = Quality(split=1.0)
        for seed in range(20):
            self.start(seed)
            for number in range(5):
                self.put(self.one, f"v{number}")
            self.world.run(5)
            self.assertEqual([value for _, value in self.answers.got], [0] * 5)
            self.assertEqual(self.world.scheduler.failures, [])


class RefusalTests(NetworkCase):
    """Who answers when nobody is at home."""

    def test_a_dead_process_refuses(self) -> None:
        """Its kernel does, at once (Twisted's HostnameEndpoint tells after 0.3 s, when no address is left to try)."""
        self.server.kill()
        began = self.world.now
        self.assertIsInstance(self.ask(self.one), error.ConnectError)
        self.assertIn("refused", str(self.answers.last))
        self.assertLess(self.answers.got[0][0] - began, 0.31)

    def test_a_host_without_power_says_nothing(self) -> None:
        """The connection attempt times out."""
        self.server.power_off()
        self.ask(self.one)
        self.assertIn("timeout", str(self.answers.last))
        self.assertGreater(self.answers.got[0][0], 3.0)

    def test_a_frozen_process_is_connected_to_and_silent(self) -> None:
        """Its kernel accepts; when it thaws, it finds the request."""
        self.server.freeze(whole=False)
        self.put(self.one, timeout_s=30)
        connected = []
        endpoint = HostnameEndpoint(self.two.process.reactor, "ns", PORT)
        connectProtocol(endpoint, protocol.Protocol()).addCallback(connected.append)
        self.world.run(5)
        self.assertEqual((len(connected), self.answers.got), (1, []))
        self.server.thaw()
        self.world.run(0.1)
        self.assertEqual(self.answers.last, 0)

    def test_a_frozen_machine_is_silent(self) -> None:
        """Nobody answers a SYN; the sender tries again, and is heard after the thaw."""
        self.server.freeze(whole=True)
        self.put(self.one, timeout_s=3)
        self.world.run(0.5)
        self.server.thaw()
        self.world.run(2)
        self.assertEqual(self.answers.last, 0)
        self.assertTrue(1.1 < self.answers.got[0][0] < 1.2, self.answers.got)  # the second SYN, a second later

    def test_names(self) -> None:
        """A failing resolver gives Twisted's error."""
        self.one.process.reactor.nameResolver.failing = True
        self.ask(self.one)
        self.assertIn("DNS lookup failed", str(self.answers.last))

    def test_a_taken_port(self) -> None:
        """As on a real host."""
        listening = TCP4ServerEndpoint(self.server.process.reactor, PORT).listen(protocol.Factory())
        self.failureResultOf(listening, error.CannotListenError)


class EndTests(NetworkCase):
    """How connections end."""

    def setUp(self) -> None:
        super().setUp()
        self.ask(self.one)
        (self.stream,) = self.world.network.between(self.one.address, self.server.address)

    def connections(self) -> int:
        """As the name server counts them."""
        return len(self.server.process.service.factory.connections)

    def test_a_killed_client_is_noticed(self) -> None:
        """Its kernel says FIN."""
        self.assertEqual(self.connections(), 1)
        self.one.kill()
        self.world.run(0.1)
        self.assertEqual((self.connections(), len(self.world.network.streams)), (0, 0))

    def test_a_client_without_power_is_half_open(self) -> None:
        """Nobody told the server; it ends the connection by its own idle limit, of 120 s."""
        self.one.power_off()
        self.world.run(60)
        self.assertEqual(self.connections(), 1)
        self.world.run(70)
        self.assertEqual(self.connections(), 0)

    def test_a_server_that_lost_its_power(self) -> None:
        """The client's request waits, and is answered with a reset once the host is up again."""
        self.server.power_off()
        self.put(self.one, timeout_s=60)
        self.world.run(2)
        self.assertEqual(len(self.answers.got), 1)
        self.server.start()
        self.world.run(10)
        self.assertIsInstance(self.answers.last, error.ConnectionLost)

    def test_reset_in_the_middle(self) -> None:
        """Both ends lose it; the request under way fails."""
        self.put(self.one)
        self.stream.reset()
        self.world.run(0.1)
        self.assertIsInstance(self.answers.last, error.ConnectionLost)
        self.assertEqual(self.connections(), 0)

    def test_reset_mid_frame(self) -> None:
        """A frame of which only a part arrived is forgotten: the next connection begins anew."""
        link = self.world.network.link(self.one.address, self.server.address)
        link.quality.bytes_per_s, link.quality.split = 100_000, 1.0
        self.put(self.one, "x" * 200_000, timeout_s=30)
        self.world.run(1.0)
        self.assertGreater(self.server.process.service.factory.unfinished, 0)
        self.stream.reset()
        self.world.run(5.0)
        self.assertEqual(self.server.process.service.factory.unfinished, 0)
        self.assertEqual(self.ask(self.one), 0)

    def test_backpressure(self) -> None:
        """What a frozen receiver does not take stays with the sender, whose producer is told to pause and to go on."""
        sender = self.stream.client
        protocol, told = sender.protocol._wrappedProtocol, []
        for what in ("pauseProducing", "resumeProducing"):
            self.patch(protocol, what, lambda what=what: told.append(what))
        self.server.freeze(whole=False)
        for _ in range(20):
            self.put(self.one, "x" * 50_000, timeout_s=100)
        self.world.run(1)
        self.assertEqual(told, ["pauseProducing"])
        self.assertLessEqual(sender._under_way, 256 * 1024)
        self.server.thaw()
        self.world.run(1)
        self.assertEqual(told, ["pauseProducing", "resumeProducing"])
        self.assertEqual([value for _, value in self.answers.got], [0] * 21)


class HandshakeTests(NetworkCase):
    """What may happen between SYN and the first byte."""

    def test_a_reset_during_the_handshake_fails_the_attempt(self) -> None:
        """The server dies after it was reached and before the client knows: the attempt ends, it does not hang."""
        self.world.network.quality.jitter_s = 0.0
        for link in (
            self.world.network.link(self.one.address, self.server.address),
            self.world.network.link(self.server.address, self.one.address),
        ):
            link.quality.delay_s, link.quality.jitter_s = 0.1, 0.0
        self.put(self.one)
        self.world.run(0.15)
        (stream,) = self.world.network.between(self.one.address, self.server.address)
        stream.client.reset_came()
        self.world.run(4)
        self.assertIsInstance(self.answers.last, error.ConnectError)


class PartitionTests(NetworkCase):
    """Blocked links."""

    def test_a_partition_is_silence_and_heals(self) -> None:
        """The old connection goes on where it stopped; requests that waited are answered."""
        self.ask(self.one)
        self.world.partition("halves", [self.server, self.two], [self.one])
        self.put(self.one, timeout_s=20)
        self.put(self.two)
        self.world.run(5)
        self.assertEqual(len(self.answers.got), 2)  # one's first, two's
        self.world.heal("halves")
        self.world.run(10)
        self.assertEqual([value for _, value in self.answers.got], [0, 0, 0])

    def test_a_new_connection_needs_both_ways(self) -> None:
        """One way is not enough, whichever it is."""
        for one, two in ((self.one, self.server), (self.server, self.one)):
            with self.subTest(one.name):
                self.world.block("one-way", one, two)
                self.ask(self.one)
                self.assertIsInstance(self.answers.last, error.ConnectError)
                self.world.heal("one-way")

    def test_one_way(self) -> None:
        """With the way back blocked a request still arrives and is done; only its answer does not come."""
        self.ask(self.one)
        self.world.block("deaf", self.server, self.one)
        self.put(self.one, "w")
        self.world.run(4)
        self.assertIsInstance(self.answers.last, error.TimeoutError)
        self.assertIn(b'"w"', self.server.disk.read_all("/ns/kvConfig.json", 1000))

    def test_a_way_back_that_stays_blocked_stops_the_sender(self) -> None:
        """Without acknowledgements only a few segments leave."""
        self.ask(self.one)
        (stream,) = self.world.network.between(self.one.address, self.server.address)
        self.world.block("deaf", self.server, self.one)
        before = self.server.process.service.factory.bytes_in
        for _ in range(30):
            self.put(self.one, "x" * 5000)
            self.world.run(0.1)
        came = self.server.process.service.factory.bytes_in - before
        self.assertTrue(10_000 < came <= 20_440, came)
        self.assertGreater(stream.client._queued, 100_000)

    def test_bridge(self) -> None:
        """The server is seen by both, who do not see each other."""
        self.world.partition("bridge", [self.one], [self.two])
        self.assertEqual((self.ask(self.one), self.ask(self.two)), (0, 0))

    def test_a_killed_peer_behind_a_partition_is_half_open_or_told_late(self) -> None:
        """FIN is sent again until it passes."""
        self.ask(self.one)
        self.world.partition("cut", [self.server], [self.one])
        self.one.kill()
        self.world.run(5)
        self.assertEqual(len(self.server.process.service.factory.connections), 1)
        self.world.heal("cut")
        self.world.run(10)
        self.assertEqual(len(self.server.process.service.factory.connections), 0)

    def test_giving_up(self) -> None:
        """A sender without an answer for long enough loses the connection, and its peer does not know."""
        self.world.network.quality.give_up_s = 5.0
        self.ask(self.one)
        self.world.partition("cut", [self.server], [self.one])
        self.put(self.one, timeout_s=60)
        self.world.run(20)
        self.assertIsInstance(self.answers.last, error.TimeoutError)
        self.assertEqual(len(self.server.process.service.factory.connections), 1)


class ReplayTests(NetworkCase):
    """One seed, one run."""

    quality = Quality(loss=0.05, split=0.3, jitter_s=0.01)

    def digest(self, seed: int) -> tuple[int, int]:
        """A run with a bit of everything."""
        self.start(seed)
        for number in range(30):
            self.put(self.one if number % 3 else self.two, f"v{number}")
            self.world.run(0.05)
            if number == 10:
                self.world.partition("p", [self.one], [self.server])
            if number == 20:
                self.world.heal("p")
        self.server.kill()
        self.server.start()
        self.world.run(5)
        return self.world.trace.digest, self.world.scheduler.events

    def test_same_seed_same_run(self) -> None:
        """To the byte and the event; another seed is another run."""
        self.assertEqual(self.digest(5), self.digest(5))
        self.assertNotEqual(self.digest(5), self.digest(6))
