"""What links cost: of brokers that have nothing to do, or whose peers are gone (G6), and of those that break (G7)."""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter
from typing import Any

from twisted.internet.protocol import Factory, Protocol

from rocketha.simulation.host import Host
from rocketha.wire.ha_frames import encode_classic_head
from tests import processor
from tests.services.controlled_case import CONTROLLER_PORT, ControlledCase
from tests.services.replication_case import ReplicationCase

HA_PORT = 10912
LONG_S = 300.0
SHARE_MAX = 0.01
"""Of a processor, all brokers of a test and the simulator together: one of them costs less."""


class CostCase(ReplicationCase):
    """Counts attempts to connect, by port."""

    def setUp(self) -> None:
        super().setUp()
        self.attempts: Counter[int] = Counter()
        connect = self.world.network.connect

        def counted(reactor: Any, host: str, port: int, *more: Any) -> Any:
            self.attempts[port] += 1
            return connect(reactor, host, port, *more)

        self.world.network.connect = counted  # type: ignore[method-assign]

    def live(self, events_max: float) -> None:
        """Five minutes in which nobody asks anything.

        :param events_max: a second: reads, timers and results of threads.
        """
        self.attempts.clear()
        events, began = self.world.scheduler.events, time.process_time()
        self.run_for(LONG_S)
        spent = time.process_time() - began
        self.assertLess(spent / LONG_S, SHARE_MAX * processor.slowness())
        self.assertLess((self.world.scheduler.events - events) / LONG_S, events_max)


class Ending(Protocol):
    """What stands at a master's HA port and is no master."""

    said = b""
    stays = False

    def connectionMade(self) -> None:
        self.transport.write(self.said)  # type: ignore[union-attr]
        if not self.stays:
            self.transport.loseConnection()  # type: ignore[union-attr]


class SlaveTests(CostCase):
    """A classic slave and its master: 16 events a second where all is well, most of them heartbeats of the link."""

    def setUp(self) -> None:
        super().setUp()
        self.master = self.broker("master", "")
        where = f"brokerRole=SLAVE\nbrokerId=1\nhaMasterAddress={self.master.address}:{HA_PORT}\n"
        self.slave = self.broker("slave", where)
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, self.slave))

    def tries(self, events_max: float = 40.0) -> None:
        """It goes on trying, at most twice a second, and follows soon after its master is back."""
        self.live(events_max)
        self.assertGreater(self.attempts[HA_PORT], LONG_S / 5)
        self.assertLess(self.attempts[HA_PORT], 2 * LONG_S)

    def returned(self) -> None:
        """The master is back."""
        self.send(self.master, b"again")
        self.until("level", lambda: self.level(self.master, self.slave), 5.0)

    def test_idle(self) -> None:
        """One link, and no other is tried."""
        self.live(40.0)
        self.assertEqual(self.attempts, {})

    def test_the_master_is_gone(self) -> None:
        """Its host refuses."""
        self.master.kill()
        self.tries()
        self.restart(self.master)
        self.returned()

    def test_the_master_is_cut_off(self) -> None:
        """Nothing answers."""
        self.world.partition("cut", [self.master], [self.slave])
        self.tries()
        self.world.heal("cut")
        self.returned()

    def test_the_master_ends_each_link(self) -> None:
        """At once, with half a word, with nonsense; or it says nothing at all."""
        self.master.kill()
        for said in (b"", encode_classic_head(0, 1000)[:5], encode_classic_head(77, 0), b"\xff" * 40):
            impostor = self.impostor(said)
            self.tries()
            impostor.kill()
        impostor = self.impostor(b"", stays=True)
        self.live(40.0)
        self.assertLess(self.attempts[HA_PORT], LONG_S)
        impostor.kill()

    def impostor(self, said: bytes, stays: bool = False) -> Host:
        """The master's host runs this instead."""
        factory = Factory.forProtocol(type("Impostor", (Ending,), {"said": said, "stays": stays}))
        ours = self.master.program
        self.master.program = lambda process: process.reactor.listenTCP(HA_PORT, factory)
        self.master.start()
        self.run_for(1.0)
        self.master.program = ours
        return self.master


class ControlledTests(ControlledCase, CostCase):
    """Three brokers under a controller: 110 events a second, heartbeats every second each and what follows of them."""

    controllers_count = 1

    def setUp(self) -> None:
        super().setUp()
        self.start_group()
        self.run_for(5.0)

    def test_idle(self) -> None:
        """No connection is made."""
        self.live(250.0)
        self.assertEqual(self.attempts, {})

    def test_the_controller_is_gone(self) -> None:
        """Each broker goes on looking for it, a few times a second."""
        self.controllers[0].kill()
        self.live(250.0)
        self.assertGreater(self.attempts[CONTROLLER_PORT], 3 * LONG_S / 10)
        self.assertLess(self.attempts[CONTROLLER_PORT], 3 * 4 * LONG_S)

    def test_a_slave_is_cut_off_from_its_master(self) -> None:
        """The controller reaches both."""
        slave = next(host for host in self.brokers if host is not self.master())
        self.world.partition("cut", [self.master()], [slave])
        self.live(250.0)
        self.assertGreater(self.attempts[HA_PORT], LONG_S / 5)
        self.assertLess(self.attempts[HA_PORT], 2 * LONG_S)
        self.world.heal("cut")
        self.whole()


class TurnoverTests(ReplicationCase):
    """A slave whose connection breaks again and again (G7): whole brokers, with what they note of each other."""

    rounds, warm_rounds = 10_000, 500

    def test_nothing_is_left(self) -> None:
        """Objects and allocated blocks of both are as many after ten thousand links as after five hundred."""
        master = self.broker("master", "")
        slave = self.broker("slave", f"brokerRole=SLAVE\nbrokerId=1\nhaMasterAddress={master.address}:{HA_PORT}\n")
        self.send(master)
        self.until("level", lambda: self.level(master, slave))
        following, links = (
            self.service(slave).broker.replication.following,
            self.service(master).broker.replication.links,
        )
        before = (0, 0)
        for round_ in range(self.rounds):
            if round_ == self.warm_rounds:
                before = self.counted()
            link = following.connection
            for stream in self.world.network.between(master.address, slave.address):
                stream.reset()
            self.until(
                "another link",
                lambda link=link: following.connection not in (None, link) and len(links.factory.connections) == 1,  # type: ignore[misc]
                2.0,
            )
        objects, blocks = self.counted()
        self.assertLess(objects - before[0], 3_000)  # one of each link would be 9,500
        self.assertLess(blocks - before[1], 5_000)

    @staticmethod
    def counted() -> tuple[int, int]:
        """Objects of the garbage collector, and allocated blocks."""
        gc.collect()
        return len(gc.get_objects()), sys.getallocatedblocks()
