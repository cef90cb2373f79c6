"""Both ways to run blocking calls beside the reactor keep one contract."""

from __future__ import annotations

import threading
from typing import Any

from twisted.internet import defer, reactor
from twisted.trial.unittest import TestCase

from rocketha.services.waiting.blocking import Worker
from rocketha.services.waiting.sync_thread import SyncThread


class BlockingWorkContract:
    make: Any

    def setUp(self) -> None:
        self.work = self.make(reactor, "test-sync")
        self.work.start()
        self.stopped = False
        self.addCleanup(lambda: self.stopped or self.work.stop())

    @defer.inlineCallbacks
    def test_the_result_comes_in_the_reactor(self) -> Any:
        """A call runs in another thread; what waits for it runs in the reactor's, never inside run()."""
        where: list[int] = []
        result = self.work.run(threading.get_ident)
        result.addCallback(lambda ident: where.extend((ident, threading.get_ident())))
        self.assertEqual(where, [])
        yield result
        self.assertEqual(where[1], threading.get_ident())
        self.assertNotEqual(where[0], where[1])

    @defer.inlineCallbacks
    def test_calls_run_in_order_and_one_at_a_time(self) -> Any:
        """A thousand calls given at once end in the order they were given."""
        ended: list[int] = []
        yield defer.gatherResults([self.work.run(lambda n=n: ended.append(n)) for n in range(1000)])
        self.assertEqual(ended, list(range(1000)))

    @defer.inlineCallbacks
    def test_a_failure_goes_to_who_asked(self) -> Any:
        """An exception comes back as a failure; the next call runs all the same."""
        failing = self.work.run(lambda: 1 // 0)
        fine = self.work.run(lambda: "fine")
        with self.assertRaises(ZeroDivisionError):
            yield failing
        self.assertEqual((yield fine), "fine")

    @defer.inlineCallbacks
    def test_stop_waits_and_the_results_still_come(self) -> Any:
        """What was given before stop() is run before it returns, and is answered after it."""
        ran: list[int] = []
        results = [self.work.run(lambda n=n: ran.append(n)) for n in range(50)]
        self.stopped = True
        self.work.stop()
        self.assertEqual(len(ran), 50)
        yield defer.gatherResults(results)


class WorkerTests(BlockingWorkContract, TestCase):
    make = Worker


class SyncThreadTests(BlockingWorkContract, TestCase):
    make = SyncThread

    def test_a_stopped_thread_refuses(self) -> Any:
        """After stop() a call fails at once instead of waiting for ever."""
        self.work.stop()
        return self.assertFailure(self.work.run(lambda: None), RuntimeError)

    def test_stop_gives_its_descriptor_back(self) -> None:
        """Nothing of a stopped thread is left in the reactor; stopping twice is fine."""
        self.assertIn(self.work, reactor.getReaders())
        self.work.stop()
        self.work.stop()
        self.assertNotIn(self.work, reactor.getReaders())
        self.assertEqual(self.work.fileno(), -1)
