"""Connections follow the limit of open files."""

from __future__ import annotations

import resource

from twisted.trial.unittest import SynchronousTestCase

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
            (1024, 1024, 768), (1024, 4096, 3072), (1024, 524_288, 57_344), (1024, INFINITE, 57_344), (256, 256, 16),
            (INFINITE, INFINITE, 57_344), (100_000, 100_000, 57_344),
        ):  # fmt: skip
            self.have(soft, hard)
            self.assertEqual(open_files.connections_allowed(), expected, (soft, hard))

    def test_the_soft_limit_is_raised(self) -> None:
        """As far as the hard one allows, and never lowered."""
        for soft, hard, expected in (
            (1024, 4096, [(4096, 4096)]), (1024, INFINITE, [(65_536, INFINITE)]), (1024, 1024, []),
            (100_000, 200_000, []), (INFINITE, INFINITE, []),
        ):  # fmt: skip
            self.have(soft, hard)
            open_files.raise_limit()
            self.assertEqual(self.set, expected, (soft, hard))

    def test_every_role(self) -> None:
        """The 1,025th client is let in where the system allows it, unless the file says otherwise."""
        self.have(1024, 20_000)
        home = {"HOME": "/home"}
        peers = b"controllerDLegerPeers=n0-127.0.0.1:1\ncontrollerDLegerSelfId=n0\n"
        for load, text in ((load_broker, b""), (load_namesrv, b""), (load_controller, peers)):
            for more, expected in ((b"", 15_000), (b"connectionsMax=7\n", 7)):
                config = load(text + more, environment=home).config  # type: ignore[operator]
                self.assertEqual(config.remoting.connections_max, expected, (load, more))
