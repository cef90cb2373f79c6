"""How much of a log a replica dispatches between two reads: a whole slice, or next to nothing while it is far behind.

The simulated reactor has time for all slices between two reads; this one has time for one, and the log grows as told.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from twisted.trial.unittest import SynchronousTestCase

from rocketha.observe.refusals import Refusals
from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.core.log_changes import LogChanges
from rocketha.services.process.platform import Platform
from rocketha.services.replication.classic import ClassicDialect
from rocketha.services.replication.context import ReplicaContext
from rocketha.services.replication.dispatching import BEHIND_BYTES, DISPATCH_BYTES
from rocketha.services.replication.slave import Following
from rocketha.services.waiting.flusher import Flusher
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.replica_log import ReplicaLog

READ = 256 * 1024


class GrowingLog:
    """A log that says what was asked of it."""

    ready = False
    damage = None
    dispatched_offset = 0
    store = SimpleNamespace(leads=False)

    def __init__(self) -> None:
        self.end = 0
        self.slices: list[int] = []

    def dispatch(self, bytes_max: int) -> bool:
        self.slices.append(bytes_max)
        self.dispatched_offset = min(self.end, self.dispatched_offset + bytes_max)
        return self.dispatched_offset < self.end


class Rounds:
    """A reactor whose rounds are made one by one."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def seconds(self) -> float:
        return 0.0

    def callLater(self, _seconds: float, call: Callable[[], None]) -> object:
        self.due.append(call)
        return call

    def round(self) -> None:
        """All that is due now, and nothing that comes of it."""
        due, self.due = self.due, []
        for call in due:
            call()


class SliceTests(SynchronousTestCase):
    """Of one replica; a turn is a read and then a slice."""

    def setUp(self) -> None:
        self.log, self.reactor = GrowingLog(), Rounds()
        log, chance = cast(ReplicaLog, self.log), random.Random(1)
        context = ReplicaContext(
            log,
            ReplicationConfig(),
            Platform(disk=MemoryDisk(chance), reactor=self.reactor, chance=chance),
            cast(LogChanges, SimpleNamespace(busy=False)),
            cast(Flusher, SimpleNamespace(kick=lambda: None)),
            Refusals("broker", float),
        )
        self.following = Following(context, ClassicDialect(log), lambda: None, lambda cause, reason: None)

    def turn(self, size: int) -> int:
        """What one dispatches when so much arrived before it."""
        self.log.end += size
        done = len(self.log.slices)
        if size:
            self.following.turn_ended(cast(Any, None))
        if len(self.log.slices) == done:  # it has one due already
            self.reactor.round()
        self.assertEqual(len(self.log.slices), done + 1)
        return self.log.slices[-1]

    def test_far_behind(self) -> None:
        """While reads are full the log comes first; queues go on, so that they are made some day in any case."""
        self.assertEqual([self.turn(READ) for _ in range(20)], [BEHIND_BYTES] * 20)
        self.assertEqual(self.log.dispatched_offset, 20 * BEHIND_BYTES)

    def test_level_again(self) -> None:
        """As soon as less arrives, queues are made in whole slices, to the end."""
        self.assertEqual([self.turn(size) for size in (READ, READ, 0, 0)], [BEHIND_BYTES] * 2 + [DISPATCH_BYTES] * 2)
        self.assertEqual(self.turn(DISPATCH_BYTES), DISPATCH_BYTES)
        while self.log.dispatched_offset < self.log.end:
            self.turn(0)
        self.assertEqual(self.reactor.due, [])
        self.assertEqual(self.turn(1000), DISPATCH_BYTES)
