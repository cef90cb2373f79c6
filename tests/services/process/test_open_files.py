"""Connections follow the limit of open files."""

from __future__ import annotations

import resource

from twisted.trial.unittest import SynchronousTestCase

from rocketha.observe.http import CONNECTIONS_MAX
from rocketha.protocols.limits import reserve_of
from rocketha.services.config.loading import load_broker, load_controller, load_namesrv
from rocketha.services.process import open_files

INFINITE = resource.RLIM_INFINITY


class OpenFilesTests(SynchronousTestCase):
    """With limits of the test's choice; none is changed in earnest."""

    def have(self, soft: int, hard: int) -> None:
        self.set: list[tuple[int, int]] = []
        self.patch(resource, "getrlimit", lambda which: (soft, hard))
        self.patch(resource, "setrlimit", lambda which, limits: self.set.append(limits))

    def test_connections(self) -> None:
        """The hard limit counts, within reason; files have their part."""
        for soft, hard, expected in (
            (1024, 1024, 481),
            (1024, 4096, 2891),
            (1024, 524_288, 53_970),
            (1024, INFINITE, 53_970),
            (256, 256, 90),
            (INFINITE, INFINITE, 53_970),
            (100_000, 100_000, 53_970),
        ):
            self.have(soft, hard)
            self.assertEqual(open_files.connections_allowed(), expected, (soft, hard))

    def test_all_together(self) -> None:
        """Clients, the reserve, replicas with a file each, a store and the status port fit, whatever the limit is."""
        for allowed in (256, 300, 512, 1000, 1024, 2048, 4096, 20_000, 65_536, 200_000):
            self.have(allowed, allowed)
            for servers in (1, 2):
                clients = open_files.connections_allowed(servers, unbounded=True)
                ports = servers * (clients + reserve_of(clients))
                others = open_files.store_files() + 2 * open_files.replica_links() + CONNECTIONS_MAX
                at_once = open_files.PORTS * open_files.accepted_at_once()
                self.assertLessEqual(ports + others + at_once, allowed - 24, (allowed, servers))

    def test_more_than_there_are(self) -> None:
        """A number that cannot be had is lowered, and it is said; one that can be is taken as it is."""
        self.have(2048, 2048)
        loaded = load_broker(b"connectionsMax=5000\n", environment={}, host_name="h")
        self.assertEqual(loaded.config.remoting.connections_max, 1445)
        (warning,) = (each for each in loaded.warnings if "connectionsMax" in each)
        self.assertIn("broker.conf, line 1: connectionsMax=5000 counts as 1445", warning)
        self.have(200_000, 200_000)
        loaded = load_broker(b"connectionsMax=100000\n", environment={}, host_name="h")
        self.assertEqual(loaded.config.remoting.connections_max, 100_000)

    def test_two_in_one_process(self) -> None:
        """A nameserver and its controller have half of them each."""
        self.have(4096, 4096)
        file = b"enableControllerInNamesrv=true\ncontrollerDLegerPeers=n0-127.0.0.1:9878\n"
        for config in (
            load_namesrv(file, environment={}).config,
            load_controller(file, environment={}, embedded=True).config,
        ):
            self.assertEqual(config.remoting.connections_max, 1445)

    def test_the_soft_limit_is_raised(self) -> None:
        """As far as the hard one allows, and never lowered."""
        for soft, hard, expected in (
            (1024, 4096, [(4096, 4096)]),
            (1024, INFINITE, [(65_536, INFINITE)]),
            (1024, 1024, []),
            (100_000, 200_000, []),
            (INFINITE, INFINITE, []),
        ):
            self.have(soft, hard)
            open_files.raise_limit()
            self.assertEqual(self.set, expected, (soft, hard))

    def test_every_role(self) -> None:
        """The 1,025th client is let in where the system allows it, unless the file says otherwise."""
        self.have(1024, 20_000)
        home = {"HOME": "/home"}
        peers = b"controllerDLegerPeers=n0-127.0.0.1:1\ncontrollerDLegerSelfId=n0\n"
        for load, text in ((load_broker, b""), (load_namesrv, b""), (load_controller, peers)):
            for more, expected in ((b"", 14_117), (b"connectionsMax=7\n", 7)):
                config = load(text + more, environment=home).config  # type: ignore[operator]
                self.assertEqual(config.remoting.connections_max, expected, (load, more))
