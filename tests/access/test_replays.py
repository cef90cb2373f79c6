"""Which requests are not served a second time, and how much is remembered for that."""

from __future__ import annotations

import unittest
from unittest import mock

from rocketha.access import replays
from rocketha.access.policies import Refused
from rocketha.access.replays import AHEAD_MS, FORGOTTEN_AT_ONCE, Forgotten, Replays
from rocketha.access.stamp import NONCE_BYTES, Stamp

BEGAN_MS = 1_700_000_000_000
WINDOW_MS = 300_000


def stamp(number: int, time_ms: int) -> Stamp:
    return Stamp(10, time_ms, number.to_bytes(NONCE_BYTES), "")


class ReplaysTests(unittest.TestCase):
    """Of a broker that began at :data:`BEGAN_MS`."""

    def setUp(self) -> None:
        self.replays = Replays(WINDOW_MS, BEGAN_MS)
        self.now_ms = BEGAN_MS + 1_000_000

    def take(self, number: int, time_ms: int | None = None, user: str = "ann") -> None:
        self.replays.take(user, stamp(number, self.now_ms if time_ms is None else time_ms), self.now_ms)

    def refused(self, why: str, number: int, time_ms: int | None = None, user: str = "ann") -> None:
        with self.assertRaisesRegex(Refused, why) as refusal:
            self.take(number, time_ms, user)
        self.assertEqual(isinstance(refusal.exception, Forgotten), "sign it again" in str(refusal.exception))

    def test_once(self) -> None:
        self.take(1)
        self.refused("was sent before", 1)
        self.take(2)
        self.take(1, user="bob")
        self.take(1, self.now_ms - 1)
        self.assertEqual(self.replays.count, 4)

    def test_time(self) -> None:
        signed_ms = self.now_ms
        self.take(1, signed_ms - WINDOW_MS)
        self.take(2, signed_ms + AHEAD_MS)
        self.refused(r"signed 300\.0 s before the time of this broker: check both clocks", 3, signed_ms - WINDOW_MS - 1)
        self.refused(r"signed 10\.0 s after the time of this broker", 3, signed_ms + AHEAD_MS + 1)
        self.refused("signed", 3, 0)
        self.refused("signed", 3, 9_999_999_999_999)

    def test_remembered_until_it_is_refused_for_its_age(self) -> None:
        for late_ms in (0, 1, WINDOW_MS // 2, WINDOW_MS, WINDOW_MS + 1, 2 * WINDOW_MS):
            with self.subTest(late_ms=late_ms):
                self.setUp()
                signed_ms = self.now_ms
                self.take(1)
                self.now_ms += late_ms
                if late_ms < WINDOW_MS:
                    self.take(2)
                self.refused("before", 1, signed_ms)

    def test_what_was_ahead_is_remembered_longer(self) -> None:
        signed_ms = self.now_ms + AHEAD_MS
        self.take(1, signed_ms)
        self.now_ms += WINDOW_MS + AHEAD_MS
        self.take(2)
        self.refused("sent before", 1, signed_ms)

    def test_a_clock_set_back(self) -> None:
        """What was forgotten is refused though its time is of now again."""
        signed_ms = self.now_ms
        self.take(1)
        self.now_ms += WINDOW_MS + 1
        self.take(2)
        self.now_ms = signed_ms
        self.refused("sign it again", 1, signed_ms)

    def test_before_the_start(self) -> None:
        self.now_ms = BEGAN_MS + 5
        self.refused("before this broker began to serve: sign it again", 1, BEGAN_MS)
        self.take(1, BEGAN_MS + 1)

    def test_a_clock_that_is_behind(self) -> None:
        """For as long as it is behind nothing is served after a start; who looks for why is told of the clocks."""
        for passed_s in (1, 30, 60):
            self.now_ms = BEGAN_MS + passed_s * 1000
            said = r"sign it again\. It was signed 60\.0 s before the time of this broker: check both clocks"
            self.refused(f"began to serve: {said}", 1, self.now_ms - 60_000)
        self.now_ms += 1
        self.take(1, self.now_ms - 60_000)

    def test_before_a_switch(self) -> None:
        self.take(1)
        self.replays.begin(self.now_ms)
        self.refused("began to serve", 2, self.now_ms)
        self.now_ms += 1
        self.take(2)
        self.replays.begin(self.now_ms - 100)
        self.take(3)
        self.refused("began to serve", 4, self.now_ms - 1)

    def test_bounded(self) -> None:
        """Who fills it loses the oldest of his own; what was forgotten is refused, whoever brings it."""
        with mock.patch.object(replays, "REMEMBERED_MAX", 100):
            self.take(1, user="bob")
            first_ms = self.now_ms
            served = []
            for number in range(1000):
                self.now_ms += 1
                self.take(number)
                served.append((number, self.now_ms))
                self.assertLessEqual(self.replays.count, 100)
            for number, time_ms in served:
                self.refused("before", number, time_ms)
            self.refused("sent before", 1, first_ms, "bob")
            self.take(2, first_ms, "bob")

    def test_one_user_does_not_shorten_anothers_window(self) -> None:
        """Not even with times that are ahead."""
        with mock.patch.object(replays, "REMEMBERED_MAX", 100):
            for number in range(500):
                self.take(number, self.now_ms + min(number, AHEAD_MS))
            self.take(1, self.now_ms - WINDOW_MS, "bob")
            self.take(2, self.now_ms, "bob")
            self.refused("sign it again", 501, self.now_ms)

    def test_little_work_at_once(self) -> None:
        """Where many expire together, each request that comes forgets some of them."""
        signed_ms = self.now_ms
        for number in range(100):
            self.take(number)
        self.now_ms += WINDOW_MS + 1
        counts = []
        for number in range(100):
            self.take(number)
            counts.append(self.replays.count)
        self.assertEqual(counts[:2], [100 - FORGOTTEN_AT_ONCE + 1, 100 - 2 * FORGOTTEN_AT_ONCE + 2])
        self.assertEqual(counts[-1], 100)
        for number in range(100):
            self.refused("before", number, signed_ms)

    def test_many_users(self) -> None:
        """Those of whom nothing is remembered take no memory, and what they sent is refused."""
        with mock.patch.object(replays, "REMEMBERED_MAX", 100):
            for number in range(90):
                self.take(1, user=f"user{number}")
            signed_ms = self.now_ms
            self.now_ms += WINDOW_MS + 1
            for number in range(100):
                self.take(number)
            self.assertEqual(len(self.replays._users), 1)
            self.now_ms = signed_ms
            self.refused("sign it again", 1, signed_ms, "user0")

    def test_who_has_lost_all_he_had(self) -> None:
        """His time is not everybody's: it may be ahead of the others' clocks."""
        with mock.patch.object(replays, "REMEMBERED_MAX", 100):
            for number in range(300):
                self.take(number, self.now_ms + AHEAD_MS, f"user{number}")
                self.assertLessEqual(self.replays.count, 100)
            self.take(1, self.now_ms, "bob")
            for number in range(300):
                self.refused("before", number, self.now_ms + AHEAD_MS, f"user{number}")
            self.now_ms += WINDOW_MS + AHEAD_MS + 1
            for number in range(400):
                self.now_ms += 1
                self.take(number)
            self.assertEqual(len(self.replays._users), 1)

    def test_room_for_a_while(self) -> None:
        """Also where each has little: it is made for many at once, and those with most give most of it."""
        with mock.patch.object(replays, "REMEMBERED_MAX", 6400):
            for number in range(6400):
                self.take(number, user=f"user{number % 800}")
            self.take(6400, user="user0")
            self.assertEqual(self.replays.count, 6300)
            sizes = {len(seen.line) for seen in self.replays._users.values()}
            self.assertLessEqual(max(sizes) - min(sizes), 1)
            with mock.patch.object(self.replays, "_make_room") as made:
                for number in range(100):
                    self.now_ms += 1
                    self.take(number, user="bob")
            made.assert_not_called()
