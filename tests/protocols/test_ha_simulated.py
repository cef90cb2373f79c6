"""HA links on the simulated network: what a real one does to connections, at every seed the same."""

from __future__ import annotations

from typing import Any

from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.ha_master import MasterHaFactory
from rocketha.protocols.ha_slave import SlaveHaFactory, SlaveHaProtocol
from rocketha.replication.link import Cause
from rocketha.simulation.host import Process
from rocketha.simulation.link import Quality
from rocketha.simulation.world import World
from tests.protocols.ha_case import Owner, Replica
from tests.replication.links import Log, entries, text

PORT = 10912
FILE = 1 << 20
TELLING = 400_000
"""Bytes the log grows by each time: more than the window of a connection."""


class Follower(Replica):
    """A replica that connects again whenever its link is over."""

    def begin(self, process: Process, address: str) -> None:
        """Of each process of its host."""
        self.process, self.address = process, address
        self.connections = 0
        self.connect()

    def connect(self) -> None:
        endpoint = TCP4ClientEndpoint(self.process.reactor, self.address, PORT, timeout=3)
        factory = SlaveHaFactory(self, self.process.reactor)
        endpoint.connect(factory).addErrback(lambda failure: self.again())

    def again(self) -> None:
        self.process.reactor.callLater(0.5, self.connect)

    def closed(self, connection: SlaveHaProtocol, reason: str, cause: Cause | None) -> None:
        super().closed(connection, reason, cause)
        self.again()


class SimulatedCase(SynchronousTestCase):
    """A master and a replica on hosts of their own; their logs outlive their processes."""

    def start(self, seed: int) -> None:
        self.world = World(seed, Quality(loss=0.01, split=0.3))
        self.owner = Owner(Log(text(1000), file_size=FILE), entries((1, 0)))
        self.replica = Follower(Log(file_size=FILE), ())

        def master(process: Process) -> Any:
            self.port = MasterHaFactory(self.owner, process.reactor)
            return process.reactor.listenTCP(PORT, self.port)

        self.one = self.world.add_host("one", master)
        self.two = self.world.add_host("two", lambda process: self.replica.begin(process, self.one.address))
        self.world.run(0.1)

    def grow(self) -> None:
        """The master's log, within its file."""
        log = self.owner.log
        size = min(TELLING, FILE - log.end % FILE)
        log.append(log.end, bytes([log.end % 251]) * size)
        if self.one.process is not None:
            self.one.process.reactor.callLater(0, self.port.log_grew)

    def assert_equal(self) -> None:
        """The replica has all, and the master knows."""
        self.assertEqual(self.world.scheduler.failures, [])
        self.assertTrue(self.replica.log.data == self.owner.log.data, (self.replica.log.end, self.owner.log.end))
        self.assertEqual(self.owner.of("acked")[-1], ("acked", self.owner.log.end))


class FaultTests(SimulatedCase):
    """Each fault ends, and then the replica has all."""

    def test_reset_connections_and_dead_processes(self) -> None:
        """In the middle of blocks: the next connection goes on where the log ends."""
        for seed in range(4):
            self.start(seed)
            chance = self.world.chance("test")
            for round_ in range(30):
                self.grow()
                self.world.run(chance.random() * 0.02)
                fault = chance.choice(("reset", "kill one", "kill two", "", ""))
                if fault == "reset":
                    for stream in self.world.network.between(self.one.address, self.two.address):
                        stream.reset()
                elif fault:
                    host = self.one if fault == "kill one" else self.two
                    host.kill()
                    self.world.run(0.1)
                    host.start()
                self.world.run(chance.random() * 2 if round_ % 3 else 0.01)
                self.assertTrue(self.owner.log.data.startswith(self.replica.log.data))
            self.world.run(30)
            self.assert_equal()
            self.assertGreater(self.owner.opened, 5)

    def test_network_that_says_nothing(self) -> None:
        """A partition: both ends give the link up within 25 s, and have another when it is over."""
        self.start(7)
        self.world.run(5)
        self.world.partition("p", [self.one], [self.two])
        self.grow()
        self.world.run(25)
        self.assertIn("nothing was heard", self.owner.of("closed")[0][2])
        self.assertIn("nothing was heard", self.replica.of("closed")[0][1])
        self.assertEqual((self.port.connections, self.owner.open_readers), ({}, 0))
        self.world.heal("p")
        self.world.run(20)
        self.assert_equal()

    def test_process_that_stands_still(self) -> None:
        """A slave that is frozen for less than the silence goes on with the same link; its block waited for it."""
        self.start(8)
        self.world.run(5)
        self.two.freeze(whole=False)
        for _ in range(5):
            self.grow()
            self.world.run(2)
        self.two.thaw()
        self.world.run(5)
        self.assert_equal()
        self.assertEqual((self.owner.opened, self.replica.of("closed")), (1, []))

    def test_same_seed_same_run(self) -> None:
        """Nothing but the seed decides."""
        runs = []
        for _ in range(2):
            self.start(9)
            for _ in range(5):
                self.grow()
                self.world.run(0.3)
            self.world.run(2)
            self.assert_equal()
            runs.append((self.owner.events, self.replica.events, self.world.trace.digest))
        self.assertEqual(runs[0], runs[1])
