"""The simulated reactor: timers by a clock that drifts and jumps, processes that freeze, die and are busy."""

from __future__ import annotations

import contextlib
import gc
import random
from typing import Any

from twisted.internet import defer, error, protocol, task
from twisted.internet.interfaces import IReactorCore, IReactorTCP, IReactorTime
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from rocketha.simulation.host import Host, Process
from rocketha.simulation.scheduler import ProcessDied
from rocketha.simulation.world import World


class Program:
    """A process that keeps what happened to it."""

    def __init__(self) -> None:
        self.process: Any = None
        self.seen: list[Any] = []

    def __call__(self, process: Process) -> Program:
        self.process = process
        return self

    @property
    def reactor(self) -> Any:
        """Of the present incarnation."""
        return self.process.reactor

    def note(self, world: World, what: Any) -> None:
        """Keep something with its true time."""
        self.seen.append((round(world.now, 6), what))


class ReactorCase(SynchronousTestCase):
    """A world of one host."""

    def setUp(self) -> None:
        self.world = World(1)
        self.program = Program()

    def host(self, rate: float = 1.0) -> Host:
        """Its host, started."""
        host = self.world.add_host("n0", self.program, rate=rate)
        self.world.run(0)
        return host

    def later(self, delay: float, what: Any) -> Any:
        """A timer that notes something."""
        return self.program.reactor.callLater(delay, self.program.note, self.world, what)


class TimerTests(ReactorCase):
    """IReactorTime as Twisted's own keeps it."""

    def test_provides_the_interfaces(self) -> None:
        """Of Twisted's reactor, those that the services use."""
        self.host()
        for interface in (IReactorTime, IReactorTCP, IReactorCore):
            verifyObject(interface, self.program.reactor)

    def test_timers_fire_in_order(self) -> None:
        """By time, then by age."""
        self.host()
        for delay, what in ((0.2, "c"), (0.1, "a"), (0.1, "b"), (0, "now")):
            self.later(delay, what)
        self.world.run(1)
        self.assertEqual(self.program.seen, [(0.0, "now"), (0.1, "a"), (0.1, "b"), (0.2, "c")])

    def test_cancel_delay_reset(self) -> None:
        """A cancelled call never fires, a delayed one later, a reset one when it was last told to."""
        self.host()
        cancelled, delayed, sooner = self.later(0.1, "cancelled"), self.later(0.1, "delayed"), self.later(5, "sooner")
        cancelled.cancel()
        delayed.delay(0.3)
        sooner.reset(0.2)
        self.assertEqual(len(self.program.reactor.getDelayedCalls()), 2)
        self.world.run(1)
        self.assertEqual(self.program.seen, [(0.2, "sooner"), (0.4, "delayed")])
        self.assertRaises(error.AlreadyCancelled, cancelled.cancel)
        self.assertRaises(error.AlreadyCalled, delayed.cancel)
        self.assertEqual(self.program.reactor.timers, 0)

    def test_drift(self) -> None:
        """A clock that is 5 % fast lets a second pass in 0.952 s of true time."""
        self.host(rate=1.05)
        self.later(1.05, "fast")
        self.world.run(2)
        self.assertEqual(self.program.seen, [(1.0, "fast")])

    def test_jumps(self) -> None:
        """A clock that is set changes what time it is, and no timer."""
        host = self.host()
        self.later(10, "timer")
        before = self.program.reactor.wall()
        host.clock.jump(-3600)
        self.world.run(20)
        self.assertEqual(self.program.seen, [(10.0, "timer")])
        self.assertAlmostEqual(self.program.reactor.wall() - before, 20 - 3600, 3)

    def test_looping_call(self) -> None:
        """What most services use."""
        self.host()
        loop = task.LoopingCall(lambda: self.program.note(self.world, "tick"))
        loop.clock = self.program.reactor
        loop.start(0.25, now=False)
        self.world.run(1)
        self.assertEqual([when for when, _ in self.program.seen], [0.25, 0.5, 0.75, 1.0])

    def test_an_exception_is_counted_and_the_world_goes_on(self) -> None:
        """As Twisted logs it."""
        self.host()
        self.program.reactor.callLater(0.1, lambda: 1 // 0)
        self.later(0.2, "after")
        self.world.run(1)
        self.assertEqual([name for _, name, _ in self.world.scheduler.failures], ["n0"])
        self.assertEqual(len(self.program.seen), 1)


class ProcessTests(ReactorCase):
    """What may happen to a process."""

    def test_frozen_processes_get_everything_at_the_thaw(self) -> None:
        """In order, and late."""
        host = self.host()
        self.later(1, "a")
        self.later(2, "b")
        self.later(9, "c")
        host.freeze(whole=False)
        self.world.run(5)
        self.assertEqual(self.program.seen, [])
        host.thaw()
        self.world.run(5)
        self.assertEqual(self.program.seen, [(5.0, "a"), (5.0, "b"), (9.0, "c")])

    def test_the_dead_do_nothing(self) -> None:
        """A restarted process is a new one: the timers of the old one are gone."""
        host = self.host()
        self.later(1, "old")
        old = self.program.reactor
        host.kill()
        host.start()
        self.world.run(0.5)
        self.assertIsNot(self.program.reactor, old)
        old.callLater(0.1, self.program.note, self.world, "ghost")
        self.later(1, "new")
        self.world.run(5)
        self.assertEqual(self.program.seen, [(1.5, "new")])

    def test_a_sync_on_the_reactor_keeps_it_busy(self) -> None:
        """Timers that are due meanwhile come late."""
        host = self.host()
        host.disk.slow = 2000.0  # a second or more

        def save() -> None:
            host.disk.create("/f", 10).sync()
            self.later(0, "saved")

        self.program.reactor.callLater(0, save)
        self.later(0.5, "timer")
        self.world.run(5)
        self.assertEqual([what for _, what in self.program.seen], ["timer", "saved"])
        self.assertTrue(all(when >= 1.0 for when, _ in self.program.seen), self.program.seen)

    def test_a_disk_that_gets_well_ends_what_it_kept_a_process_busy_with(self) -> None:
        """What came due meanwhile comes then, and what was written leaves then, in order; a timer keeps its time."""
        host, peer = self.host(), self.world.add_host("n1", lambda process: process)
        self.world.run(0)
        heard: list[Any] = []
        listener = protocol.Protocol()
        listener.dataReceived = lambda data: heard.append((round(self.world.now, 1), data))  # type: ignore[method-assign]
        assert peer.process is not None
        peer.process.reactor.listenTCP(1, protocol.Factory.forProtocol(lambda: listener))
        talker = protocol.Protocol()
        self.program.reactor.connectTCP(peer.address, 1, protocol.ClientFactory.forProtocol(lambda: talker))
        self.world.run(1)
        host.disk.slow = 20000.0  # ten seconds or more

        def save() -> None:
            host.disk.create("/f", 10).sync()
            talker.transport.write(b"saved")
            self.later(0.2, "meanwhile")

        self.program.reactor.callLater(0, save)
        self.later(5, "timer")
        self.program.reactor.callLater(0.5, lambda: talker.transport.write(b", said later"))
        self.world.run(2)
        self.assertEqual((self.program.seen, heard), ([], []))
        host.disk.slow = 1.0
        self.world.run(0.1)
        self.assertEqual([(round(when, 1), what) for when, what in self.program.seen], [(3.0, "meanwhile")])
        self.assertEqual({when for when, _ in heard}, {3.0})
        self.assertEqual(b"".join(data for _, data in heard), b"saved, said later")
        self.world.run(10)
        self.assertEqual(self.program.seen[1:], [(6.0, "timer")])

    def test_work_takes_its_time_beside_the_reactor(self) -> None:
        """Results come one after the other, and timers fire meanwhile."""
        host = self.host()
        host.disk.slow = 1000.0
        file = host.disk.create("/f", 10)
        work = self.program.process.work()
        done: list[Any] = []
        for number in range(2):
            work.run(file.sync).addCallback(lambda _, number=number: done.append((self.world.now, number)))
        self.later(0.1, "timer")
        self.world.run(10)
        self.assertEqual([number for _, number in done], [0, 1])
        self.assertGreaterEqual(done[0][0], 0.5)
        self.assertGreaterEqual(done[1][0], done[0][0] + 0.5)
        self.assertEqual(self.program.seen, [(0.1, "timer")])

    def test_work_is_done_sooner_when_the_disk_gets_well(self) -> None:
        """Whichever end of its time the call itself is made at, and what comes after it is not cut short."""
        host = self.host()
        file = host.disk.create("/f", 10)
        ends = set()
        for _ in range(20):
            host.disk.slow = 4000.0
            work, done = self.program.process.work(), list[float]()
            began, syncs = self.world.now, host.disk.syncs
            for _ in range(2):
                work.run(file.sync).addCallback(lambda _, done=done: done.append(self.world.now))
            ends.add(host.disk.syncs - syncs)
            self.world.run(1.0)
            self.assertEqual(done, [])
            host.disk.slow = 400.0
            self.world.run(10.0)
            self.assertEqual(len(done), 2)
            self.assertLess(done[0] - began, 1.0 + 0.5)
            self.assertGreaterEqual(done[1], done[0] + 0.2)
            self.assertEqual(host.disk.syncs - syncs, 2)
        self.assertEqual(ends, {0, 1})

    def test_work_that_fails(self) -> None:
        """Its error is the result."""
        self.host()
        failed = self.program.process.work().run(lambda: 1 // 0)
        self.world.run(1)
        self.failureResultOf(failed, ZeroDivisionError)

    def test_death_at_an_operation_of_the_disk(self) -> None:
        """Nothing after it happens, whatever catches exceptions; what was written before stays, unsynced."""
        host = self.host()
        host.disk.make_dirs("/d")
        host.disk.die_at = 3

        def save() -> None:
            file = host.disk.create("/d/f", 0)
            file.write(0, [b"one"])
            try:
                file.write(3, [b"two"])
            except Exception:
                self.program.seen.append("caught")
            finally:  # the files of a dead process are closed; nobody is there to be told
                with contextlib.suppress(ProcessDied):
                    self.program.seen.append(file.read(0, 3))
            self.program.seen.append("went on")

        reasons: list[type[BaseException]] = []

        def save_elsewhere(failure: Failure) -> None:
            """A Deferred stops nothing: it gives what it caught to code that would not run any more."""
            reasons.append(failure.type)
            host.disk.create("/d/g", 0)

        def begin() -> None:
            defer.maybeDeferred(save).addErrback(save_elsewhere)

        self.program.reactor.callLater(0, begin)
        self.world.run(1)
        self.assertFalse(host.alive)
        self.assertEqual((self.program.seen, reasons), ([], [ProcessDied]))
        self.assertEqual(host.disk.read_all("/d/f", 100), b"one")
        self.assertFalse(host.disk.exists("/d/g"))
        gc.collect()
        self.flushLoggedErrors(ProcessDied)  # outside of a run, Twisted says so

    def test_power_cut_loses_what_was_not_synced(self) -> None:
        """kill -9 does not."""
        for end, kept in (("kill", True), ("power_off", False)):
            with self.subTest(end):
                lost = 0
                for seed in range(20):
                    world = World(seed)
                    program = Program()
                    host = world.add_host("n0", program)
                    world.run(0)
                    file = host.disk.create("/f", 0)
                    file.sync()
                    host.disk.sync_dir("/")
                    file.write(0, [b"x" * 100])
                    getattr(host, end)()
                    host.start()
                    world.run(0)
                    lost += host.disk.read_all("/f", 1000) != b"x" * 100
                self.assertEqual(lost == 0, kept, lost)


class DeterminismTests(SynchronousTestCase):
    """The streams of chance."""

    def test_streams_do_not_disturb_each_other(self) -> None:
        """Another stream's use changes nothing; another seed changes all."""
        one, two = World(7), World(7)
        one.chance("other").random()
        self.assertEqual(one.chance("x").random(), two.chance("x").random())
        self.assertNotEqual(World(8).chance("x").random(), two.chance("x").random())
        self.assertIsInstance(two.chance("x"), random.Random)
