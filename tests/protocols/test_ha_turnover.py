"""Ten thousand links between masters and slaves of ours, over real sockets on loopback (regression G7)."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Generator
from typing import Any

from twisted.internet.defer import Deferred, gatherResults, inlineCallbacks
from twisted.internet.endpoints import TCP4ClientEndpoint

from rocketha.protocols.ha_master import MasterHaFactory
from rocketha.protocols.ha_slave import SlaveHaFactory, SlaveHaProtocol
from tests.protocols.ha_case import Owner, Replica
from tests.protocols.test_ha_tcp import BIG, TcpCase
from tests.replication.links import Log, entries

LINKS, AT_A_TIME = 10_000, 50
WARM_ROUNDS = 40
LOG_BYTES = 100_000
"""More than one read brings, so that links end within blocks."""
OBJECTS_MAX, BLOCKS_MAX = 500, 2_000
"""By how much a count may differ that has nothing to do with links: one object or block of each would be 8,000."""


class Left:
    """What this process has: descriptors, timers, objects of the garbage collector, allocated blocks."""

    def __init__(self, reactor: Any) -> None:
        gc.collect()
        self.descriptors = len(os.listdir("/proc/self/fd"))
        self.timers = len(reactor.getDelayedCalls())
        self.objects = len(gc.get_objects())
        self.blocks = sys.getallocatedblocks()


class TurnoverTests(TcpCase):
    """Fifty links at a time, classic and of controller mode in turn; they end in four ways in turn."""

    timeout = 1200

    @inlineCallbacks
    def test_ten_thousand_links(self) -> Generator[Deferred[Any], Any, None]:
        """Descriptors, timers, objects and memory are as after the first two thousand."""
        log = Log(bytes(LOG_BYTES), file_size=BIG)
        owners = [Owner(log), Owner(log, entries((1, 0)))]
        places = [(self.listen(owner), owner, self.port) for owner in owners]
        warm = None
        for round_ in range(LINKS // AT_A_TIME):
            if round_ == WARM_ROUNDS:
                warm = Left(self.reactor)
            port, owner, factory = places[round_ % 2]
            yield self.turn_over(port, owner, factory, (self.away, self.cut, self.ended, self.whole)[round_ // 2 % 4])
        left = Left(self.reactor)
        assert warm is not None
        self.assertEqual((left.descriptors, left.timers), (warm.descriptors, warm.timers))
        self.assertLess(left.objects, warm.objects + OBJECTS_MAX)
        self.assertLess(left.blocks, warm.blocks + BLOCKS_MAX)
        self.assertEqual(sum(owner.opened for owner in owners), LINKS)
        self.assertEqual([owner.open_readers for owner in owners], [0, 0])

    @inlineCallbacks
    def turn_over(
        self, port: int, owner: Owner, factory: MasterHaFactory, end: Any
    ) -> Generator[Deferred[Any], Any, None]:
        """Links that come, and go."""
        replicas = [Replica(Log(file_size=BIG), None if owner.epochs is None else ()) for _ in range(AT_A_TIME)]
        endpoint = TCP4ClientEndpoint(self.reactor, "127.0.0.1", port)
        slaves = yield gatherResults([endpoint.connect(SlaveHaFactory(each, self.reactor)) for each in replicas])
        yield end(owner, factory, slaves, replicas)
        yield self.until(lambda: len(owner.of("closed")) >= AT_A_TIME and all(each.of("closed") for each in replicas))
        yield self.all_closed()
        self.assertEqual({len(each.of("closed")) for each in replicas}, {1})
        self.assertEqual(len(owner.of("closed")), AT_A_TIME)
        self.assertEqual(factory.connections, {})
        owner.events.clear()

    def away(
        self, owner: Owner, factory: MasterHaFactory, slaves: list[SlaveHaProtocol], replicas: list[Replica]
    ) -> Deferred[None]:
        """The slaves' processes die as soon as they are connected; the master has accepted them."""
        for slave in slaves:
            slave.transport.abortConnection()
        return self.until(lambda: len(owner.of("closed")) == AT_A_TIME)

    @inlineCallbacks
    def cut(
        self, owner: Owner, factory: MasterHaFactory, slaves: list[SlaveHaProtocol], replicas: list[Replica]
    ) -> Generator[Deferred[Any], Any, None]:
        """The slaves end it when they have a part of the log."""
        for slave, replica in zip(slaves, replicas, strict=True):
            yield self.until(lambda replica=replica: bool(replica.of("append")))  # type: ignore[misc]
            slave.abort("another master is to be followed")

    @inlineCallbacks
    def ended(
        self, owner: Owner, factory: MasterHaFactory, slaves: list[SlaveHaProtocol], replicas: list[Replica]
    ) -> Generator[Deferred[Any], Any, None]:
        """The master is no master any more."""
        yield self.until(lambda: len(factory.connections) == AT_A_TIME)
        yield self.until(lambda: len(owner.of("acked")) >= AT_A_TIME // 2)
        factory.abort_all("this broker is not the master")

    @inlineCallbacks
    def whole(
        self, owner: Owner, factory: MasterHaFactory, slaves: list[SlaveHaProtocol], replicas: list[Replica]
    ) -> Generator[Deferred[Any], Any, None]:
        """The slaves have everything and stop in order."""
        yield self.until(lambda: owner.events.count(("acked", LOG_BYTES)) >= AT_A_TIME)
        for slave, replica in zip(slaves, replicas, strict=True):
            self.assertEqual(replica.log.end, LOG_BYTES)
            slave.close("the broker stops")
