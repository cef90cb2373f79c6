"""Times of the links: heartbeats, silence, a process that stood still, and the throttle."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rocketha.replication.autoswitch_master import AutoswitchMaster
from rocketha.replication.autoswitch_slave import AutoswitchSlave
from rocketha.replication.classic_master import ClassicMaster
from rocketha.replication.classic_slave import ClassicSlave
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.link import Ack, Close, Introduced, Send, SendLog
from rocketha.replication.throttle import Throttle
from rocketha.wire.ha_frames import (
    MasterHello,
    SlaveHello,
    encode_classic_head,
    encode_classic_report,
    encode_master_hello,
    encode_report,
    encode_slave_hello,
)
from tests.replication.links import FILE, Log, MasterEnd, Pair, SlaveEnd, autoswitch, classic, entries, text

DAY_MS = 24 * 3600 * 1000


def both() -> list[Pair]:
    """A pair of each protocol, at rest with 100 bytes."""
    return [
        classic(Log(text(100)), Log(text(100))).start(),
        autoswitch(Log(text(100)), entries((1, 0)), Log(text(100)), entries((1, 0))).start(),
    ]


class IdleTests(SynchronousTestCase):
    """A link without a message."""

    def test_h4_a_day_without_a_message(self) -> None:
        """No end is given up, and the first message of the next day is there at once; G6: no more turns than beats."""
        for pair in both():
            pair.wait(DAY_MS)
            self.assertEqual((pair.master.closed, pair.slave.closed), ("", ""))
            self.assertLess(pair.turns, 2 * DAY_MS // 5_000)
            pair.grow(text(9, 100))
            self.assertEqual((pair.master.acked(), pair.now_ms), (109, DAY_MS))

    def test_both_say_so_every_five_seconds(self) -> None:
        """S1.37; and not more often, whatever else is said in between."""
        pair = both()[0]
        pair.wait(2_000).grow(text(9, 100))
        before = len(pair.master.of(Send)), len(pair.slave.of(Send))
        pair.wait(4_999)
        self.assertEqual((len(pair.master.of(Send)), len(pair.slave.of(Send))), before)
        pair.wait(1)
        self.assertEqual(pair.master.of(Send)[-1], Send(encode_classic_head(109, 0)))
        self.assertEqual(pair.slave.of(Send)[-1], Send(encode_classic_report(109)))
        self.assertEqual((len(pair.master.of(Send)), len(pair.slave.of(Send))), (before[0] + 1, before[1] + 1))

    def test_nothing_is_due_early(self) -> None:
        """A tick before its time changes nothing."""
        for pair in both():
            for end in (pair.master, pair.slave):
                due = end.machine.next_due_ms()
                assert due is not None
                self.assertEqual(end.machine.tick(due - 1), [])
                self.assertEqual(end.machine.next_due_ms(), due)
                self.assertNotEqual(end.machine.tick(due), [])


class SilenceTests(SynchronousTestCase):
    """S1.35: the last *read* counts, not the last write."""

    def alone(self, end: MasterEnd | SlaveEnd) -> int:
        """When an end whose peer says nothing any more gives it up."""
        last = 0
        for _ in range(20):
            due = end.machine.next_due_ms()
            if due is None:
                break
            last = due
            end.run(end.machine.tick(due), due)
        self.assertIn("nothing was heard for 20000 ms", end.closed)
        return last

    def test_peer_that_is_gone(self) -> None:
        """20 s, though heartbeats went out without a complaint."""
        for pair in both():
            self.assertEqual((self.alone(pair.master), self.alone(pair.slave)), (20_000, 20_000))
            self.assertGreater(len(pair.master.of(Send)), 2)

    def test_peer_that_never_spoke(self) -> None:
        """A connection to the HA port that says nothing, and a master that does not answer a greeting."""
        self.assertEqual(self.alone(MasterEnd(ClassicMaster(Log(), 0), Log())), 20_000)
        pair = autoswitch(Log(), entries((1, 0)), Log())
        pair.slave.run(pair.slave.machine.begin(0), 0)
        self.assertEqual((self.alone(pair.master), self.alone(pair.slave)), (20_000, 20_000))

    def test_peer_that_never_comes_to_the_point(self) -> None:
        """Greetings again and again, or a byte now and then: 20 s from the connection on, and nobody is displaced."""
        hello = encode_slave_hello(SlaveHello(3))
        answer = encode_master_hello(MasterHello(0, 1, entries((1, 0))))
        pair = autoswitch(Log(), entries((1, 0)), Log())
        classic_end = MasterEnd(ClassicMaster(Log(), 0), Log())
        for end, said in (
            (pair.master, [hello, hello]),
            (pair.slave, [answer[:1], answer[1:2]]),
            (classic_end, [b"\0", b"\0"]),
        ):
            for place, data in enumerate(said):
                end.run(end.machine.received(data, 9_000 * (place + 1)), 9_000 * (place + 1))
            self.assertLessEqual(end.machine.next_due_ms() or 0, 20_000)
            end.run(end.machine.tick(19_999), 19_999)
            self.assertEqual((end.closed, end.machine.next_due_ms()), ("", 20_000))
            end.run(end.machine.tick(20_000), 20_000)
            self.assertIn("no handshake in 20000 ms", end.closed)
        self.assertEqual(pair.master.of(Introduced), [])

    def test_process_that_stood_still_during_a_handshake(self) -> None:
        """The report waits in the socket."""
        pair = autoswitch(Log(), entries((1, 0)), Log())
        machine = pair.master.machine
        machine.received(encode_slave_hello(SlaveHello(3)), 1_000)
        self.assertEqual((machine.tick(60_000), machine.next_due_ms()), ([], 65_000))
        effects = machine.received(encode_report(0), 60_001)
        self.assertEqual(effects, [Introduced(SlaveHello(3), 1), Ack(0)])
        self.assertEqual([type(each) for each in machine.tick(60_001)], [Send])
        self.assertEqual(machine.next_due_ms(), 65_001)

    def test_process_that_stood_still(self) -> None:
        """SIGSTOP for a minute: what the peer said waits in the socket; it is heard before it is judged, once."""
        for pair in both():
            for end in (pair.master, pair.slave):
                effects = end.machine.tick(60_000)
                self.assertEqual([type(each) for each in effects], [Send])
                due = end.machine.next_due_ms()
                assert due is not None
                self.assertEqual(due, 65_000)
                self.assertEqual([type(each) for each in end.machine.tick(due)], [Close])

    def test_any_byte_is_a_sign_of_life(self) -> None:
        """A block that takes a minute to arrive is no silence."""
        slave = ClassicSlave(0, FILE, 0)
        slave.begin(0)
        frame = encode_classic_head(0, 50) + text(50)
        for place, byte in enumerate(frame):
            slave.received(bytes([byte]), place * 1_000)
            slave.tick(place * 1_000)
        self.assertEqual((slave.closed, slave.end), ("", 50))


class ThrottleTests(SynchronousTestCase):
    """G4: the catch-up limit."""

    def test_g4_blocks_wait_their_turn(self) -> None:
        """1,000 bytes a second: the second block leaves when the first is paid, not at the next full second."""
        log = Log(text(300))
        machine = ClassicMaster(log, 0, batch_bytes=50, throttle=Throttle(1_000, 1))
        pair = Pair(MasterEnd(machine, log), SlaveEnd(ClassicSlave(64, FILE, 0), Log(text(64))))
        pair.start()
        self.assertEqual(len(pair.master.of(SendLog)), 1)
        self.assertEqual(machine.next_due_ms(), 61)
        pair.grow(text(10, 300))
        self.assertEqual(len(pair.master.of(SendLog)), 1)
        pair.wait(61)
        self.assertEqual(len(pair.master.of(SendLog)), 2)
        pair.wait(1_000)
        self.assertEqual((pair.master.acked(), pair.slave.closed), (310, ""))

    def test_signs_of_life_go_on(self) -> None:
        """A limit of a byte a second must not look like a dead master, nor as if the slave had all."""
        log = Log(text(900))
        machine = ClassicMaster(log, 0, batch_bytes=50, throttle=Throttle(1, 1))
        pair = Pair(MasterEnd(machine, log), SlaveEnd(ClassicSlave(64, FILE, 0), Log(text(64))))
        pair.start().wait(50_000)
        self.assertEqual((pair.master.closed, pair.slave.closed), ("", ""))
        self.assertEqual((len(pair.master.of(SendLog)), len(pair.master.of(Send))), (11, 0))

    def test_throttled_link_is_not_given_up(self) -> None:
        """While the confirm offset rises all the time, and at a block in 25 s: no frame says that there is no more."""
        for rate in (10, 100, 1_000):
            confirm = ConfirmOffset()
            log = Log(text(4_000, by=1), file_size=1 << 20)
            slave = Log(file_size=1 << 20)
            throttle = Throttle(rate, 1)
            pair = autoswitch(log, entries((1, 0)), slave, batch=2_500, confirm=confirm, throttle=throttle)
            machine = pair.master.machine
            assert isinstance(machine, AutoswitchMaster)
            pair.slave.machine = AutoswitchSlave(SlaveHello(2), slave, (), -1, 0, 0)
            pair.start()
            for turn in range(2_000):
                confirm.advance(turn, 4_000)
                machine.confirm_moved(pair.now_ms)
                pair.wait(20)
            self.assertEqual((pair.master.closed, pair.slave.closed), ("", ""))
            self.assertGreater(slave.end, 2_500)
            self.assertLessEqual(slave.end, 2_500 + 40 * rate + 9 * 64)
            if slave.end < 4_000:
                self.assertLessEqual(len(pair.master.of(Send)), 1)
            else:
                self.assertEqual(pair.slave.confirm, 1_999)


class ReplicasTests(SynchronousTestCase):
    """H1: three replicas are as fast as two."""

    def test_h1_a_third_replica_adds_no_wait(self) -> None:
        """The message is on all of them in as many exchanges as on one, and no time passes."""
        for slaves in (1, 2):
            log = Log(text(100))
            pairs = [autoswitch(log, entries((1, 0)), Log(text(100)), entries((1, 0))).start() for _ in range(slaves)]
            log.append(100, text(9, 100))
            for pair in pairs:
                pair.master.run(pair.master.machine.log_grew(0), 0)
            steps = 0
            while sum(pair.step() for pair in pairs):
                steps += 1
            self.assertEqual(([pair.master.acked() for pair in pairs], steps), ([109] * slaves, 1))
