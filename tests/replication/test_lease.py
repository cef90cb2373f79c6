"""The lease of a master, and the confirm offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.lease import Lease
from rocketha.replication.log_view import last_file_start


class LeaseTests(SynchronousTestCase):
    """When a broker may believe to be master."""

    def setUp(self) -> None:
        self.lease = Lease(3000)

    def test_a9_not_before_it_is_confirmed(self) -> None:
        """Told is not confirmed."""
        self.lease.begin(4)
        self.assertEqual((self.lease.holds(0), self.lease.ask_at_ms(7)), (False, 7))
        self.assertTrue(self.lease.confirmed(4, 100))
        self.assertEqual([self.lease.holds(now) for now in (100, 3099, 3100)], [True, True, False])

    def test_a21_an_answer_that_waited_for_the_thaw_counts_from_its_question(self) -> None:
        """Frozen from 200 to 60,000: the answer to what was asked before says nothing; one asked after does."""
        self.lease.begin(4)
        self.lease.confirmed(4, 100)
        self.assertTrue(self.lease.confirmed(4, 200))
        self.assertFalse(self.lease.holds(60_000))
        self.assertEqual(self.lease.ask_at_ms(60_000), 1200)
        self.assertTrue(self.lease.confirmed(4, 60_000))
        self.assertTrue(self.lease.holds(60_050))

    def test_answers_that_do_not_count(self) -> None:
        """Of another epoch, older, to no master."""
        self.assertFalse(self.lease.confirmed(-1, 0))
        self.lease.begin(4)
        self.assertFalse(self.lease.confirmed(3, 500))
        self.assertTrue(self.lease.confirmed(4, 500))
        self.assertFalse(self.lease.confirmed(4, 400))
        self.assertFalse(self.lease.holds(3500))

    def test_ends_with_the_role(self) -> None:
        """And has to be confirmed anew in another epoch."""
        self.lease.begin(4)
        self.lease.confirmed(4, 100)
        self.lease.begin(5)
        self.assertFalse(self.lease.holds(200))
        self.lease.confirmed(5, 100)
        self.lease.end()
        self.assertEqual((self.lease.holds(200), self.lease.ask_at_ms(200)), (False, None))

    def test_suspended(self) -> None:
        """From then on it does not hold, whatever is confirmed; undecided while it would; another epoch is not."""
        self.lease.begin(4)
        self.lease.confirmed(4, 100)
        self.lease.suspended_ms = 250
        self.assertEqual([self.lease.holds(249), self.lease.undecided(249)], [True, False])
        self.assertEqual([self.lease.holds(250), self.lease.undecided(250)], [False, True])
        self.lease.confirmed(4, 200)
        self.assertEqual(
            [self.lease.holds(300), self.lease.undecided(300), self.lease.undecided(3200)], [False, True, False]
        )
        self.lease.suspended_ms = None
        self.assertEqual([self.lease.holds(300), self.lease.undecided(300)], [True, False])
        self.lease.suspended_ms = 300
        self.lease.begin(5)
        self.assertIsNone(self.lease.suspended_ms)

    def test_asks_at_a_third(self) -> None:
        """Two answers may be lost."""
        self.lease.begin(4)
        self.lease.confirmed(4, 100)
        self.assertEqual(self.lease.ask_at_ms(150), 1100)


class ConfirmOffsetTests(SynchronousTestCase):
    """It never goes back, except with the log."""

    def test_a8_what_was_stored_is_clamped_to_the_log(self) -> None:
        """After a crash the checkpoint may be ahead."""
        found = [ConfirmOffset(100, 80).offset, ConfirmOffset(60, 80).offset, ConfirmOffset(-1, 80).offset]
        self.assertEqual(found, [80, 60, 0])

    def test_a_slave_follows_its_masters(self) -> None:
        """Up to its own end; a lower one, and Java's -1, change nothing."""
        confirm = ConfirmOffset(10, 10)
        self.assertEqual(
            [confirm.advance(50, 40), confirm.advance(20, 40), confirm.advance(-1, 40)], [True, False, False]
        )
        self.assertEqual(confirm.offset, 40)

    def test_c12_goes_back_with_the_log(self) -> None:
        """Which says that confirmed bytes were cut."""
        confirm = ConfirmOffset(50, 80)
        self.assertEqual([confirm.truncated(60), confirm.truncated(50), confirm.truncated(49)], [False, False, True])
        self.assertEqual(confirm.offset, 49)

    @given(st.lists(st.tuples(st.sampled_from(["advance", "cut", "grow"]), st.integers(-5, 100)), max_size=40))
    def test_invariants(self, steps: list[tuple[str, int]]) -> None:
        """Within the log, and monotone but for cuts."""
        confirm, log_end = ConfirmOffset(), 0
        for what, number in steps:
            before = confirm.offset
            if what == "advance":
                self.assertEqual(confirm.advance(number, log_end), confirm.offset > before)
                self.assertGreaterEqual(confirm.offset, before)
            elif what == "grow":
                log_end += abs(number)
            else:
                log_end = min(log_end, abs(number))
                self.assertEqual(confirm.truncated(log_end), before > log_end)
            self.assertTrue(0 <= confirm.offset <= log_end)


class LogViewTests(SynchronousTestCase):
    """Where a slave begins that wants the newest file only."""

    def test_s0_41_last_file(self) -> None:
        """facts/ha-classic.md 3.3: end 84594, files of 65536; never before the log's beginning."""

        class Log:
            file_size = 65536

            def __init__(self, begin: int, end: int) -> None:
                self.begin, self.end = begin, end

            def readable(self, offset: int) -> int:
                return self.end - offset

            def part_of_record(self, offset: int, limit: int) -> bool:
                return limit <= offset

        starts = [last_file_start(Log(*log)) for log in ((0, 84594), (0, 100), (0, 65536), (70000, 84594))]
        self.assertEqual(starts, [65536, 0, 65536, 70000])
