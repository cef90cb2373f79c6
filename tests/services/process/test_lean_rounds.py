"""The reactor's rounds without log contexts."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, cast

from twisted.application.service import MultiService
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.trial import unittest

from rocketha.services.broker import tap as broker_tap
from rocketha.services.cluster import tap as cluster_tap
from rocketha.services.controller import tap as controller_tap
from rocketha.services.namesrv import tap as namesrv_tap
from rocketha.services.process.lean_rounds import BusyPolling, LeanRounds

PROGRAM = """
from twisted.internet import reactor
from twisted.internet.protocol import Protocol, ServerFactory, ClientFactory
from twisted.python import context, log
from rocketha.services.process.lean_rounds import LeanRounds

heard, log_of = [], lambda: context.get(log.ILogContext)["system"]

class Echo(Protocol):
    def dataReceived(self, data):
        heard.append((data, log_of()))
        self.transport.write(data[::-1])

class Ask(Protocol):
    def connectionMade(self):
        self.transport.write(b"abc")
    def dataReceived(self, data):
        heard.append((data, log_of()))
        self.transport.loseConnection()
    def connectionLost(self, reason):
        heard.append(reason.type.__name__)
        reactor.callFromThread(reactor.stop)

server, client = ServerFactory(), ClientFactory()
server.protocol, client.protocol = Echo, Ask
LeanRounds().privilegedStartService()
port = reactor.listenTCP(0, server, interface="127.0.0.1")
reactor.connectTCP("127.0.0.1", port.getHost().port, client)
reactor.callLater(20, reactor.stop)
reactor.run()
print(heard)
"""


class Pipe:
    """The reading end of a pipe, in a reactor."""

    def __init__(self, reactor: Any, read: Any) -> None:
        self.reading, self.writing = os.pipe()
        self.read = read
        self.lost: list[type] = []
        reactor.addReader(self)
        os.write(self.writing, b"x")

    def fileno(self) -> int:
        return self.reading

    def logPrefix(self) -> str:
        return "pipe"

    def doRead(self) -> Any:
        return self.read(self)

    def connectionLost(self, reason: Failure) -> None:
        self.lost.append(cast(type, reason.type))


class LeanRoundsTests(unittest.SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = EPollReactor()
        self.addCleanup(self._close)
        self.pipes: list[Pipe] = []
        LeanRounds(self.reactor).privilegedStartService()

    def _close(self) -> None:
        self.reactor.removeAll()
        for each in (*self.reactor._internalReaders, self.reactor._poller):
            each.close() if hasattr(each, "close") else each.connectionLost(Failure(ConnectionDone()))
        for pipe in self.pipes:
            os.close(pipe.reading)
            os.close(pipe.writing)

    def pipe(self, read: Any) -> Pipe:
        self.pipes.append(Pipe(self.reactor, read))
        return self.pipes[-1]

    def test_a_conversation(self) -> None:
        """Connections are made, heard and ended as ever, outside any log context."""
        ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
        self.assertEqual(ran.stderr, "")
        self.assertEqual(ran.stdout.strip(), "[(b'abc', '-'), (b'cba', '-'), 'ConnectionDone']")

    def test_what_fails_is_ended_and_logged(self) -> None:
        """An exception ends its descriptor and no other."""

        def fail(pipe: Pipe) -> None:
            raise ValueError("broken")

        heard: list[bytes] = []
        first, second = self.pipe(fail), self.pipe(lambda pipe: heard.append(os.read(pipe.reading, 1)))
        self.reactor.doIteration(0.0)
        self.assertEqual((first.lost, second.lost, heard), ([ValueError], [], [b"x"]))
        self.assertEqual([str(each.value) for each in self.flushLoggedErrors(ValueError)], ["broken"])
        self.assertNotIn(first, self.reactor.getReaders())

    def test_what_fails_when_it_ends(self) -> None:
        """Is logged too, and the others of the round are served."""

        class Stubborn(Pipe):
            def connectionLost(self, reason: Failure) -> None:
                raise RuntimeError("never")

        heard: list[bytes] = []
        self.pipes.append(Stubborn(self.reactor, lambda pipe: ConnectionDone()))
        self.pipe(lambda pipe: heard.append(os.read(pipe.reading, 1)))
        self.reactor.doIteration(0.0)
        self.assertEqual((len(self.flushLoggedErrors(RuntimeError)), heard), (1, [b"x"]))

    def test_gone_in_the_same_round(self) -> None:
        """Who was removed by one before it is not served."""
        served: list[Pipe] = []

        def remove_the_other(pipe: Pipe) -> None:
            served.append(pipe)
            for other in self.pipes:
                if other is not pipe:
                    self.reactor.removeReader(other)

        self.pipe(remove_the_other)
        self.pipe(remove_the_other)
        self.reactor.doIteration(0.0)
        self.assertEqual(len(served), 1)

    def test_other_reactors(self) -> None:
        """Stay as they are, one with names that we do not know too."""

        class Other(EPollReactor):
            pass

        other = Other()
        self.addCleanup(other._poller.close)
        for waker in other._internalReaders:
            self.addCleanup(waker.connectionLost, Failure(ConnectionDone()))
        LeanRounds(other).privilegedStartService()
        self.assertNotIn("doIteration", vars(other))
        self.assertIn("doIteration", vars(self.reactor))

    def test_a_round_that_waits(self) -> None:
        """Without a timeout it waits for an event, as Twisted's does."""
        heard: list[bytes] = []
        self.pipe(lambda pipe: heard.append(os.read(pipe.reading, 1)))
        self.reactor.doIteration(None)
        self.assertEqual(heard, [b"x"])

    def test_every_server_has_it(self) -> None:
        """Of each ``twistd`` plugin; and all speak to the service manager."""
        for tap in (broker_tap, cluster_tap, controller_tap, namesrv_tap):
            options = tap.Options()
            options.parseOptions([])
            whole = tap.makeService(options)
            assert isinstance(whole, MultiService)
            with self.subTest(tap.__name__):
                self.assertEqual(whole.getServiceNamed("lean rounds").name, "lean rounds")
                self.assertEqual(whole.getServiceNamed("notify").name, "notify")


READY = [(4, 1)]


class BusyPollingTests(unittest.SynchronousTestCase):
    """Time passes in polls: work comes so long after the one before."""

    def setUp(self) -> None:
        self.now_s = self.due_s = 0.0
        self.asked: list[float] = []
        self.gave_way = 0
        self.polling = BusyPolling(self.poll, lambda: self.now_s, self.give_way)

    def poll(self, timeout_s: float, most: int) -> list[tuple[int, int]]:
        self.asked.append(timeout_s)
        self.now_s += 1e-6
        if timeout_s:
            end_s = self.due_s if timeout_s < 0 else min(self.due_s, self.now_s + timeout_s)
            self.now_s = max(self.now_s, end_s)
        return READY if self.now_s >= self.due_s else []

    def give_way(self) -> None:
        self.gave_way += 1

    def rounds(self, count: int, apart_s: float, timeout_s: float | None = None) -> list[float]:
        """What was asked of the kernel in so many rounds."""
        self.asked.clear()
        for _ in range(count):
            self.due_s = self.now_s + apart_s
            self.polling.wait(timeout_s, 9)
        return self.asked

    def test_work_far_apart(self) -> None:
        """It sleeps, each time at once."""
        self.assertEqual(self.rounds(10, 0.001), [-1] * 10)
        self.assertEqual(self.gave_way, 0)

    def test_work_close_together(self) -> None:
        """Four times it sleeps; then it finds the next without, and lets others have the core meanwhile."""
        self.assertEqual(self.rounds(4, 100e-6), [-1] * 4)
        self.assertEqual({*self.rounds(20, 100e-6)}, {0})
        self.assertGreater(self.gave_way, 20 * 50)

    def test_it_was_not_worth_it(self) -> None:
        """Once, and it sleeps again, until four more sleeps were short."""
        self.rounds(5, 100e-6)
        asked = self.rounds(1, 0.01)
        self.assertEqual(({*asked[:-1]}, asked[-1]), ({0}, -1))
        self.assertLess(len(asked), 130)
        self.assertEqual(self.rounds(4, 100e-6), [-1] * 4)

    def test_work_a_little_too_far_apart(self) -> None:
        """It polls in vain every fifth time, not more often."""
        vain = [max(self.rounds(1, 200e-6)) == 0 or len(self.asked) > 1 for _ in range(50)]
        self.assertEqual(vain, [number % 5 == 4 for number in range(50)])

    def test_timers(self) -> None:
        """One that is due ends it in time; one that is due at once is no reason to ask twice; a sleep that only ended
        for one was not short."""
        self.rounds(5, 100e-6)
        self.assertEqual(self.rounds(1, 1.0, 50e-6), [50e-6])
        began_s = self.now_s
        self.assertEqual(self.rounds(1, 1.0, 0.002)[-1], 0.002)
        self.assertLess(self.now_s - began_s, 0.0025)
        self.assertEqual(self.rounds(6, 1.0, 200e-6), [200e-6] * 6)
