"""The status port's flags and the values every process has."""

from __future__ import annotations

import subprocess
import sys

from twisted.internet.endpoints import serverFromString
from twisted.internet.testing import MemoryReactor
from twisted.python import usage
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import ConfigError
from rocketha.observe.events import NameserverStopped
from rocketha.observe.logging import emit, make_logger
from rocketha.observe.metrics import Registry
from rocketha.services.broker import tap as broker_tap
from rocketha.services.cluster import tap as cluster_tap
from rocketha.services.namesrv import tap as namesrv_tap
from rocketha.services.process.status import StatusService, install_process_metrics, status_endpoint


class EndpointTests(SynchronousTestCase):
    """--http: a port, HOST:PORT, or an endpoint string."""

    def test_what_is_understood(self) -> None:
        """A bare port is loopback; a host is bound as given; an endpoint string is left alone."""
        for given, wanted in (
            ("8088", "tcp:8088:interface=127.0.0.1"),
            ("10.0.0.1:80", "tcp:80:interface=10.0.0.1"),
            ("[::1]:80", r"tcp6:80:interface=\:\:1"),
            ("tcp:80:interface=127.0.0.1", "tcp:80:interface=127.0.0.1"),
            ("unix:/tmp/x", "unix:/tmp/x"),
        ):
            self.assertEqual(status_endpoint(given), wanted)
            serverFromString(MemoryReactor(), wanted)

    def test_what_is_not(self) -> None:
        """A ConfigError, never a traceback."""
        hosts = ("", "host", "99999999", "70000", "localhost:", "localhost:http")
        for given in (*hosts, "tcp:x", "ssl:443:privateKey=/no"):
            self.assertRaises(ConfigError, status_endpoint, given)

    def test_it_listens_where_it_is_told(self) -> None:
        """Nothing is opened before startService; then exactly that port on that address."""
        reactor = MemoryReactor()
        status = StatusService("tcp:8088:interface=127.0.0.1", Registry(), lambda: None, lambda: None, reactor)
        self.assertEqual(reactor.tcpServers, [])
        status.startService()
        ((port, _factory, _backlog, interface),) = reactor.tcpServers
        self.assertEqual((port, interface), (8088, "127.0.0.1"))
        self.successResultOf(status.stopService())

    def test_events_while_it_runs(self) -> None:
        """They are counted from the start to the stop, and shown to nobody after it."""
        metrics, reactor = Registry(), MemoryReactor()
        status = StatusService("tcp:8088:interface=127.0.0.1", metrics, lambda: None, lambda: None, reactor)
        emit(make_logger(), NameserverStopped())
        status.startService()
        emit(make_logger(), NameserverStopped())
        self.successResultOf(status.stopService())
        emit(make_logger(), NameserverStopped())
        self.assertIn('rocketha_events_total{event="namesrv.stopped"} 1.0\n', metrics.exposition())
        self.assertIn('rocketha_events_total{event="status.started"} 1.0\n', metrics.exposition())

    def test_only_with_the_port(self) -> None:
        """A process that opens none imports neither Klein nor what that needs."""
        program = (
            "import sys\n"
            "from rocketha.services.broker import tap as broker\n"
            "from rocketha.services.cluster import tap as cluster\n"
            "from rocketha.services.controller import tap as controller\n"
            "from rocketha.services.namesrv import tap as namesrv\n"
            "http = sys.argv[1:]\n"
            "for tap in (broker, controller, namesrv, cluster):\n"
            "    options = tap.Options()\n"
            "    options.parseOptions([*http, '--data', '/tmp/nowhere'])\n"
            "    tap.makeService(options)\n"
            "print(sorted({'klein', 'werkzeug'} & set(sys.modules)))\n"
        )
        for flags, wanted in (((), "[]"), (("--http", "8088"), "['klein', 'werkzeug']")):
            command = [sys.executable, "-c", program, *flags]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(done.stdout.strip(), wanted, done.stderr)


class FlagTests(SynchronousTestCase):
    """usage.UsageError before anything is built, with the flag's name in it."""

    def test_mistakes(self) -> None:
        """Each mistake names its flag or key, for each of the services."""
        everywhere = (
            (["--http", "nonsense"], "--http"),
            (["--log-level", "loud"], "--log-level"),
            (["--set", "novalue"], "--set"),
            (["extra"], "Wrong number"),
        )
        of_the_broker = (
            (["--set", "noSuchKey=1"], "noSuchKey"),
            (["--config", "/does/not/exist"], "/does/not/exist"),
            (["--set", "aclEnable=true"], "aclEnable"),
            (["--set", "brokerRole=SLAVE"], "brokerRole"),
        )
        for options, mistakes in (
            (namesrv_tap.Options, everywhere),
            (broker_tap.Options, everywhere + of_the_broker),
            (cluster_tap.Options, everywhere + of_the_broker),
        ):
            for arguments, word in mistakes:
                error = self.assertRaises(usage.UsageError, options().parseOptions, arguments)
                self.assertIn(word, str(error))

    def test_cluster_flags(self) -> None:
        """--host must be an address, or localhost, and ports must be ports."""
        for arguments, word in (
            (["--host", "somewhere"], "--host"),
            (["--namesrv-port", "0"], "--namesrv-port"),
            (["--broker-port", "port"], "listenPort"),
        ):
            error = self.assertRaises(usage.UsageError, cluster_tap.Options().parseOptions, arguments)
            self.assertIn(word, str(error))
        options = cluster_tap.Options()
        options.parseOptions(["--host", "localhost", "--data", "/d"])
        assert options.broker is not None
        self.assertEqual(options.broker.config.bind_address, "127.0.0.1")

    def test_everything_listens_on_the_host(self) -> None:
        """--host reaches both services and the address clients are told; the broker registers next door."""
        options = cluster_tap.Options()
        options.parseOptions(["--host", "::1", "--namesrv-port", "1234", "--data", "/d"])
        assert options.broker is not None
        assert options.namesrv is not None
        broker = options.broker.config
        self.assertEqual(options.namesrv.config.bind_address, "::1")
        self.assertEqual((broker.bind_address, broker.broker_ip1, broker.namesrv_addr), ("::1", "::1", "[::1]:1234"))
        self.assertEqual(broker.store.store_path_root_dir, "/d/store")

    def test_the_broker_reads_a_java_configuration(self) -> None:
        """A broker.conf as RocketMQ ships it; flags win over it, --set too."""
        path = self.mktemp()
        with open(path, "w", encoding="ascii") as file:
            file.write("brokerClusterName = C\nbrokerName=b\nlistenPort=30911\nflushDiskType=SYNC_FLUSH\n")
        options = broker_tap.Options()
        options.parseOptions(["-c", path, "--port", "30915", "--set", "maxMessageSize=65536"])
        assert options.loaded is not None
        found = options.loaded.config
        self.assertEqual((found.broker_cluster_name, found.broker_name, found.listen_port), ("C", "b", 30915))
        self.assertEqual((found.store.flush_disk_type, found.store.max_message_size), ("SYNC_FLUSH", 65536))


class ProcessMetricsTests(SynchronousTestCase):
    """Prometheus's names for what a process is."""

    def test_they_are_plausible(self) -> None:
        """This process uses memory and CPU, and has files open."""
        registry = Registry()
        install_process_metrics(registry)
        text = registry.exposition()
        values = dict(line.split(" ") for line in text.splitlines() if not line.startswith("#"))
        self.assertGreater(float(values["process_resident_memory_bytes"]), 5_000_000)
        self.assertGreater(float(values["process_cpu_seconds_total"]), 0)
        self.assertGreater(float(values["process_open_fds"]), 2)
