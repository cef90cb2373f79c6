"""Sends that wait for disk and replicas: who is answered when, in which order, with which code."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.broker.acknowledgements import Acknowledgements, Replicas
from rocketha.wire.codes import ResponseCode

LATE_DISK, LATE_SLAVE, NO_SLAVE = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)


class Answers:
    """A connection: what was written, as (end, code)."""

    def __init__(self) -> None:
        self.said: list[tuple[int, int]] = []

    def write(self, data: bytes) -> None:
        end, code = data.split()
        self.said.append((int(end), int(code)))

    def put(self, waiting: Acknowledgements, end: int, now_ms: int = 0) -> None:
        waiting.stored(end, now_ms, self, lambda code: b"%d %d" % (end, code))


class AcknowledgementsTests(SynchronousTestCase):
    """Flush after 5 s, slaves after 3 s."""

    def setUp(self) -> None:
        self.answers = Answers()

    def made(self, sync_flush: bool, replicas: Replicas) -> Acknowledgements:
        waiting = Acknowledgements(sync_flush)
        waiting.replicas = replicas
        return waiting

    def test_nobody_waits(self) -> None:
        """ASYNC_FLUSH alone: at once."""
        waiting = self.made(False, Replicas.NOT_ASKED)
        self.answers.put(waiting, 10)
        self.assertEqual(self.answers.said, [(10, 0)])
        self.assertEqual(len(waiting), 0)

    def test_for_the_disk(self) -> None:
        """A flush answers what it covers, in order."""
        waiting = self.made(True, Replicas.NOT_ASKED)
        for end in (10, 20, 30):
            self.answers.put(waiting, end)
        self.assertEqual(waiting.flushed(20), 2)
        self.assertEqual(self.answers.said, [(10, 0), (20, 0)])
        self.assertEqual(waiting.replicated(99), 0)
        self.assertEqual(len(waiting), 1)

    def test_for_replicas(self) -> None:
        """The disk counts for nothing under ASYNC_FLUSH."""
        waiting = self.made(False, Replicas.AWAITED)
        for end in (10, 20):
            self.answers.put(waiting, end)
        self.assertEqual(waiting.flushed(20), 0)
        self.assertEqual(waiting.replicated(10), 1)
        self.assertEqual(waiting.replicated(9), 0)
        self.assertEqual(self.answers.said, [(10, 0)])

    def test_for_both(self) -> None:
        """Whichever comes last."""
        waiting = self.made(True, Replicas.AWAITED)
        for end in (10, 20):
            self.answers.put(waiting, end)
        waiting.replicated(20)
        self.assertEqual(self.answers.said, [])
        waiting.flushed(10)
        self.assertEqual(self.answers.said, [(10, 0)])
        waiting.flushed(30)
        self.answers.put(waiting, 30)
        waiting.replicated(30)
        self.assertEqual(self.answers.said, [(10, 0), (20, 0), (30, 0)])

    def test_no_slave(self) -> None:
        """At once, or when the own disk has it; the disk's failure stays what it is."""
        waiting = self.made(False, Replicas.MISSING)
        self.answers.put(waiting, 10)
        self.assertEqual(self.answers.said, [(10, NO_SLAVE)])
        waiting = self.made(True, Replicas.MISSING)
        self.answers.put(waiting, 20)
        self.answers.put(waiting, 30)
        waiting.flushed(20)
        waiting.expired(5000)
        self.assertEqual(self.answers.said[1:], [(20, NO_SLAVE), (30, LATE_DISK)])

    def test_those_without_a_slave_overtake_those_that_wait_for_one(self) -> None:
        """One that can not be answered stands in nobody's way (G2)."""
        waiting = self.made(True, Replicas.AWAITED)
        self.answers.put(waiting, 10)
        waiting.replicas = Replicas.MISSING
        self.answers.put(waiting, 20)
        waiting.flushed(20)
        self.assertEqual(self.answers.said, [(20, NO_SLAVE)])

    def test_g1_the_deadline_is_of_the_clock(self) -> None:
        """Whatever is sent meanwhile; what is there by then succeeds."""
        waiting = self.made(False, Replicas.AWAITED)
        for number in range(100):
            self.answers.put(waiting, number + 1, 100 * number)
        self.assertEqual(waiting.next_deadline_ms(), 3000)
        self.assertEqual(waiting.expired(2999), 0)
        self.assertEqual(waiting.expired(3100), 2)
        self.assertEqual(self.answers.said, [(1, LATE_SLAVE), (2, LATE_SLAVE)])
        self.assertEqual(waiting.replicated(100), 98)

    def test_each_need_has_its_deadline(self) -> None:
        """Replicas after 3 s, the disk after 5 s, also of one whose neighbours are late for the other reason."""
        waiting = self.made(True, Replicas.AWAITED)
        self.answers.put(waiting, 10, 0)
        self.answers.put(waiting, 20, 100)
        waiting.replicated(10)
        self.assertEqual(waiting.expired(3100), 1)
        self.assertEqual(self.answers.said, [(20, LATE_SLAVE)])
        self.assertEqual(waiting.next_deadline_ms(), 5000)
        self.assertEqual(waiting.expired(5000), 1)
        self.assertEqual(self.answers.said[1:], [(10, LATE_DISK)])
        self.assertEqual(waiting.late, 1, "a late disk is not counted")
        self.assertIsNone(waiting.next_deadline_ms())

    def test_a_failed_disk(self) -> None:
        """All are told, also who waits for replicas only: success would say that this broker has the message."""
        for sync_flush in (True, False):
            self.answers.said.clear()
            waiting = self.made(sync_flush, Replicas.AWAITED)
            self.answers.put(waiting, 10)
            self.assertEqual(waiting.disk_failed(), 1)
            waiting.replicated(10)
            self.assertEqual(self.answers.said, [(10, LATE_DISK)])

    def test_the_role_is_lost(self) -> None:
        """Nobody can say that a message is safe."""
        waiting = self.made(True, Replicas.AWAITED)
        self.answers.put(waiting, 10)
        waiting.replicas = Replicas.NOT_ASKED
        self.answers.put(waiting, 20)
        self.assertEqual(waiting.abandon(), 2)
        self.assertEqual(sorted(self.answers.said), [(10, LATE_SLAVE), (20, LATE_DISK)])
        self.assertEqual(waiting.late, 1)

    def test_of_a_majority_what_is_late_is_no_success(self) -> None:
        """Not even half a one: a client takes FLUSH_SLAVE_TIMEOUT for stored, and the message may be cut."""
        for sync_flush in (False, True):
            for end_it in (lambda w: w.expired(3000), Acknowledgements.abandon, Acknowledgements.disk_failed):
                self.answers.said.clear()
                waiting = self.made(sync_flush, Replicas.MAJORITY)
                self.assertTrue(waiting.asks_all)
                for end in (10, 20):
                    self.answers.put(waiting, end)
                waiting.flushed(20)
                waiting.replicated(10)
                end_it(waiting)
                self.assertEqual(self.answers.said, [(10, 0), (20, ResponseCode.SYSTEM_ERROR)])
                self.assertEqual(waiting.late, int(end_it is not Acknowledgements.disk_failed))

    def test_a_cut_log(self) -> None:
        """What disk and replicas had behind the cut says nothing of the bytes that come there."""
        waiting = self.made(True, Replicas.AWAITED)
        waiting.flushed(100)
        waiting.replicated(100)
        waiting.log_cut(50)
        self.answers.put(waiting, 60)
        waiting.flushed(50)
        self.assertEqual(self.answers.said, [])
        waiting.replicated(60)
        self.assertEqual(self.answers.said, [])
        waiting.flushed(60)
        self.assertEqual(self.answers.said, [(60, 0)])

    @settings(max_examples=300, deadline=None)
    @given(
        st.booleans(),
        st.lists(st.tuples(st.sampled_from("pfrt"), st.integers(0, 60)), max_size=40),
    )
    def test_as_a_plain_list(self, sync_flush: bool, steps: list[tuple[str, int]]) -> None:
        """Each is answered once, as soon as it may be and no sooner, and with the right code."""
        answers, waiting = Answers(), self.made(sync_flush, Replicas.AWAITED)
        open_: dict[int, int] = {}
        end = now_ms = disk = replicas = 0
        for what, number in steps:
            before = len(answers.said)
            if what == "p":
                end += number + 1
                open_[end] = now_ms
                answers.put(waiting, end, now_ms)
            elif what == "f":
                disk = max(disk, min(end, disk + 10 * number))
                waiting.flushed(disk)
            elif what == "r":
                replicas = max(replicas, min(end, replicas + 10 * number))
                waiting.replicated(replicas)
            else:
                now_ms += 100 * number
                waiting.expired(now_ms)
            expected = {}
            for each, since in open_.items():
                if each <= replicas and (each <= disk or not sync_flush):
                    expected[each] = 0
                elif what == "t" and each > replicas and since + 3000 <= now_ms:
                    expected[each] = int(LATE_SLAVE)
                elif what == "t" and sync_flush and each > disk and since + 5000 <= now_ms:
                    expected[each] = int(LATE_DISK)
            self.assertEqual(dict(answers.said[before:]), expected)
            for each in expected:
                del open_[each]
        self.assertEqual(len(waiting), len(open_))
