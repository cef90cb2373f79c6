"""The token bucket of a link."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.replication.throttle import Throttle


class ThrottleTests(SynchronousTestCase):
    """As fast as allowed, and no block late."""

    def test_g4_a_block_waits_for_the_time_of_the_one_before(self) -> None:
        """1 MB/s, blocks of 32 KiB: each leaves 33 ms after the one before, not at the next full second."""
        throttle, now_ms, left = Throttle(1_000_000, 2000), 0, []
        for _ in range(100):
            now_ms += throttle.wait_ms(now_ms)
            throttle.took(32_768, now_ms)
            left.append(now_ms)
        gaps = [after - before for before, after in itertools.pairwise(left)]
        self.assertLessEqual(max(gaps), 34)
        self.assertIn(left[-1], (3242, 3243))  # 99 * 32.768 less the burst

    def test_quiet_time_is_saved_up_to_the_burst(self) -> None:
        """And no further."""
        throttle = Throttle(1000, 500)
        throttle.took(501, 0)
        self.assertEqual([throttle.wait_ms(0), throttle.wait_ms(1)], [1, 0])
        self.assertEqual(throttle.wait_ms(100_000), 0)
        throttle.took(501, 100_000)
        self.assertEqual(throttle.wait_ms(100_000), 1)

    def test_no_limit(self) -> None:
        """Rate 0, Java's default (haFlowControlEnable=false)."""
        throttle = Throttle(0, 0)
        throttle.took(10**12, 0)
        self.assertEqual(throttle.wait_ms(0), 0)

    def test_a_clock_that_goes_back_gives_nothing(self) -> None:
        """Nor takes anything."""
        throttle = Throttle(1000, 100)
        throttle.took(200, 5000)
        self.assertEqual(throttle.wait_ms(5000), 100)
        self.assertEqual(throttle.wait_ms(10), 100)
        self.assertEqual([throttle.wait_ms(5099), throttle.wait_ms(5100)], [1, 0])

    def test_another_limit(self) -> None:
        """From now on; turned off, debts are forgotten."""
        throttle = Throttle(1000, 100)
        throttle.took(1100, 0)
        throttle.limit(2000, 100)
        self.assertEqual(throttle.wait_ms(0), 500)
        throttle.limit(0, 0)
        throttle.limit(1000, 1)
        self.assertEqual(throttle.wait_ms(9), 0)
        throttle.took(2, 9)
        self.assertEqual(throttle.wait_ms(9), 2)

    @given(
        st.integers(1, 10**9),
        st.integers(0, 10**6),
        st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 1 << 20)), min_size=1, max_size=30),
    )
    def test_never_faster_never_later(self, rate: int, burst: int, blocks: list[tuple[int, int]]) -> None:
        """In any stretch: burst, rate and one block; and a block leaves as soon as that is true."""
        throttle, now_ms, left = Throttle(rate, burst), 0, [(0, 0)]
        for pause_ms, size in blocks:
            now_ms += pause_ms
            wait_ms = throttle.wait_ms(now_ms)
            if wait_ms > 1:
                self.assertGreater(throttle.wait_ms(now_ms + wait_ms - 1), 0, "a millisecond less would do")
            now_ms += wait_ms
            self.assertEqual(throttle.wait_ms(now_ms), 0, "the time that it named is enough")
            throttle.took(size, now_ms)
            left.append((now_ms, size))
            for first in range(1, len(left)):
                sent = sum(each[1] for each in left[first:-1])
                self.assertLess(sent * 1000, burst * 1000 + rate * (now_ms - left[first][0]) + 1)
