"""Delay progress and the log disagree after a crash or a switch: the log decides (regressions A20, F6)."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import Any

from rocketha.broker import delayed_delivery
from rocketha.broker.role import NOT_AVAILABLE
from rocketha.errors import DiskFailure, RequestRefused
from rocketha.store import commitlog
from rocketha.wire import record
from rocketha.wire.codes import ResponseCode
from tests.services.broker_case import BrokerCase, HeldWork

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def key(number: int) -> str:
    return f"{number:032X}"


class ProgressTests(BrokerCase):
    """Level 1 waits 1 s; ten messages of it, one each 100 ms."""

    def setUp(self) -> None:
        super().setUp()
        client = self.connect()
        for number in range(10):
            properties = f"UNIQ_KEY\x01{key(number)}\x02DELAY\x011\x02"
            self.assertEqual(self.send(client, b"%d" % number, properties=properties).code, 0)
            self.advance(0.1)
        self.advance(0.55, 0.05)  # the first six are delivered

    def delivered(self) -> list[bytes]:
        self.broker.store.settle()
        found = self.broker.store.get("T", 0, 0, 100, 1 << 20)
        return [message.body for stored in found.buffers for _, message in record.scan(stored)]

    def begin_with(self, offset: int) -> None:
        """As a new master does that has this progress."""
        self.broker.core.parts.delays.offsets[1] = offset
        self.broker.delayed.delivery.start(self.broker.core.platform.now_ms())
        self.advance(2)

    def all_of_them(self) -> list[bytes]:
        return [b"%d" % number for number in range(10)]

    def test_as_it_should_be(self) -> None:
        """Six were delivered, and progress says so."""
        self.assertEqual(self.delivered(), self.all_of_them()[:6])
        self.assertEqual(self.broker.core.parts.delays.offsets, {1: 6})

    def test_what_is_due_at_the_start(self) -> None:
        """Goes out then, and not when a second has passed or somebody asks for something."""
        self.stop()
        self.clock.advance(3)
        self.service = self.start()
        self.advance(0.02, 0.01)
        self.assertEqual(self.delivered(), self.all_of_them())

    def test_a20_progress_behind_the_log(self) -> None:
        """What the former master delivered is not delivered again."""
        for offset in (0, 3, 6):
            self.begin_with(offset)
            self.assertEqual(self.delivered(), self.all_of_them())
        self.assertEqual(self.broker.core.parts.delays.offsets, {1: 10})

    def test_what_was_avoided_is_counted(self) -> None:
        """For people."""
        self.begin_with(2)
        self.assertEqual(
            (self.broker.delayed.delivery.repeats_avoided, self.broker.delayed.delivery.losses_avoided), (4, 0)
        )

    def test_f6_progress_ahead_of_the_log(self) -> None:
        """The former master delivered and died before the copies were replicated: they are made again."""
        self.begin_with(9)
        self.assertEqual(self.delivered(), self.all_of_them())
        self.assertEqual(
            (self.broker.delayed.delivery.repeats_avoided, self.broker.delayed.delivery.losses_avoided), (0, 3)
        )

    def test_progress_beyond_the_queue(self) -> None:
        """Is set to its end first."""
        self.begin_with(99)
        self.assertEqual(self.delivered(), self.all_of_them())

    def test_no_progress_and_the_oldest_have_expired(self) -> None:
        """The table lacks the level, and its queue does not begin at 0: each message is delivered once all the same."""
        queue = self.broker.store.queues.get(SCHEDULE, 0)
        assert queue is not None
        queue.min_offset = 7
        self.broker.core.parts.delays.offsets.clear()
        self.broker.delayed.delivery.start(self.broker.core.platform.now_ms())
        self.advance(2)
        self.assertEqual(self.broker.core.parts.delays.offsets, {1: 10})
        self.assertEqual(self.delivered(), [*self.all_of_them()[:6], b"7", b"8", b"9"])
        self.send(self.connect(), b"10", properties=f"UNIQ_KEY\x01{key(10)}\x02DELAY\x011\x02")
        self.advance(2)
        self.assertEqual(self.delivered(), [*self.all_of_them()[:6], b"7", b"8", b"9", b"10"])

    def test_only_so_far_back(self) -> None:
        """A step is a look into the index; they are bounded."""
        self.patch(delayed_delivery, "STEPS_BACK_MAX", 2)
        self.begin_with(9)
        self.assertEqual(self.delivered(), [*self.all_of_them()[:6], b"7", b"8", b"9"])

    def test_a_stop_ends_it(self) -> None:
        """Who is not master delivers nothing."""
        self.broker.delayed.delivery.stop()
        self.advance(3)
        self.assertEqual(len(self.delivered()), 6)
        self.assertIsNone(self.broker.delayed.delivery.next_due_ms())

    def test_nothing_before_the_log_is_confirmed(self) -> None:
        """A new master may not read what its replicas lack, so it cannot know yet; then it goes on by itself."""
        store, end = self.broker.store, self.broker.store.max_physical_offset
        store.confirm_offset = end - 1
        self.begin_with(3)
        self.assertEqual(len(self.delivered()), 5)  # of six one may not be seen
        self.assertEqual(self.broker.core.parts.delays.offsets, {1: 3})
        store.confirm_offset = None
        self.advance(0.5)
        self.assertEqual(self.delivered(), self.all_of_them())

    def test_progress_is_not_set_back_by_what_may_not_be_read(self) -> None:
        """Messages of the level that are stored and not confirmed are neither passed over nor delivered early."""
        store = self.broker.store
        store.confirm_offset = 1000  # some of the level
        self.advance(2)
        self.assertEqual(self.broker.core.parts.delays.offsets, {1: 6})
        store.confirm_offset = None
        self.advance(1.2)
        self.assertEqual(self.delivered(), self.all_of_them())

    def test_a_part_of_the_level_may_be_read(self) -> None:
        """It is delivered, and the rest when it may be read."""
        store = self.broker.store
        store.confirm_offset = store.physical_offset(SCHEDULE, 0, 8)
        self.advance(2)
        self.assertEqual(self.broker.core.parts.delays.offsets, {1: 8})
        store.confirm_offset = None
        self.advance(0.5)
        self.assertEqual(self.delivered(), self.all_of_them())


class ColdProgressTests(ProgressTests):
    """The same on a broker that was started again and has nothing in memory: a thread fetches all of it (H3)."""

    reading = advancing = waits = 0

    def setUp(self) -> None:
        self.patch(commitlog, "RECENT_BYTES", 0)
        super().setUp()
        self.stop()
        self.service = self.start()
        self.disk.waited_for = self.waited_for  # type: ignore[method-assign]
        self.disk.cached = False

    def work(self, reactor: Any, name: str) -> HeldWork:
        made = super().work(reactor, name)
        self.patch(made, "run", functools.partial(self.in_thread, made.run))
        return made

    def in_thread(self, run: Callable[[Callable[[], Any]], Any], call: Callable[[], Any]) -> Any:
        def reading() -> Any:
            self.reading += 1
            try:
                return call()
            finally:
                self.reading -= 1

        return run(reading)

    def waited_for(self, path: str) -> None:
        self.assertTrue(self.reading or not self.advancing, f"{path} is waited for in the reactor")
        self.waits += 1

    def advance(self, seconds: float, step: float = 0.1) -> None:
        """What a test looks at by itself may be waited for."""
        self.advancing = 1
        super().advance(seconds, step)
        self.advancing = 0

    def test_a_part_of_the_level_may_be_read(self) -> None:
        """Of a log that was confirmed to its end when the broker began."""
        self.advance(0.02, 0.01)
        super().test_a_part_of_the_level_may_be_read()

    def test_a20_progress_behind_the_log(self) -> None:
        super().test_a20_progress_behind_the_log()
        self.assertGreater(self.waits, 3)

    def test_f6_progress_ahead_of_the_log(self) -> None:
        super().test_f6_progress_ahead_of_the_log()
        self.assertGreater(self.waits, 3)


class StepTests(BrokerCase):
    """Progress goes no further than what was written.  Five messages that are due in one turn."""

    def setUp(self) -> None:
        super().setUp()
        client = self.connect()
        for number in range(5):
            properties = f"UNIQ_KEY\x01{key(number)}\x02DELAY\x011\x02"
            self.assertEqual(self.send(client, b"%d" % number, properties=properties).code, 0)

    def delivered(self) -> list[bytes]:
        self.broker.store.settle()
        found = self.broker.store.get("T", 0, 0, 100, 1 << 20)
        return [message.body for stored in found.buffers for _, message in record.scan(stored)]

    def test_what_cannot_be_delivered_behind_a_copy_that_is_not_written(self) -> None:
        """Is passed over when that copy is written, which is tried again."""
        restaged, append = self.broker.core.parts.sends.restaged, self.broker.store.append
        failures = 0

        def restage(origin: record.Record, *more: Any) -> Any:
            if origin.body in (b"1", b"4"):
                raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "its properties have become too long")
            return restaged(origin, *more)

        def fail(*_: Any) -> Any:
            nonlocal failures
            failures += 1
            raise DiskFailure("/store/commitlog", "write", errno.ENOSPC, "full")

        self.patch(self.broker.core.parts.sends, "restaged", restage)
        self.patch(self.broker.store, "append", fail)
        self.advance(1.1)
        self.assertGreater(failures, 0)
        self.assertEqual((self.broker.core.parts.delays.offsets, self.broker.delayed.delivery.skipped), ({}, 0))
        self.patch(self.broker.store, "append", append)
        self.advance(1.5)
        self.assertEqual(self.delivered(), [b"0", b"2", b"3"])
        self.assertEqual((self.broker.core.parts.delays.offsets, self.broker.delayed.delivery.skipped), ({1: 5}, 2))

    def test_refused_before_it_is_written(self) -> None:
        """By a broker that is no master any more: nothing is passed over."""
        restaged = self.broker.core.parts.sends.restaged

        def restage(origin: record.Record, *more: Any) -> Any:
            if origin.body == b"1":
                raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "its properties have become too long")
            return restaged(origin, *more)

        self.patch(self.broker.core.parts.sends, "restaged", restage)
        self.broker.delayed.delivery.deliver(self.broker.core.platform.now_ms() + 1000)
        self.assertEqual(self.broker.core.parts.sends.staged, 4)
        self.broker.core.parts.sends.refuse(NOT_AVAILABLE)
        self.assertEqual(self.broker.core.parts.delays.offsets, {})

    def test_a_damaged_message_between(self) -> None:
        """Those behind it are delivered once, and progress passes all of them."""
        place = self.broker.store.physical_offset(SCHEDULE, 0, 2)
        segments = self.broker.store.log.segments
        file = self.disk.open(segments.path(segments.base_of(place)))
        at = place - segments.base_of(place) + 88  # its body
        file.write(at, [bytes([file.read(at, 1)[0] ^ 4])])
        file.close()
        self.advance(5)
        self.assertEqual(self.delivered(), [b"0", b"1", b"3", b"4"])
        self.assertEqual(self.broker.core.parts.delays.offsets, {1: 5})


class ClockStepTests(BrokerCase):
    """Somebody sets the clock while messages wait (rocketmq#9455, #6448, #9406): each is delivered when its
    delay is over by a clock that does not step."""

    def put(self, number: int, level: int) -> None:
        self.send(self.connect(), b"%d" % number, properties=f"UNIQ_KEY\x01{key(number)}\x02DELAY\x01{level}\x02")

    def delivered(self) -> list[bytes]:
        found = self.broker.store.get("T", 0, 0, 100, 1 << 20)
        return [message.body for stored in found.buffers for _, message in record.scan(stored)]

    def test_a_step_while_it_waits(self) -> None:
        """Back or on, by little or much: level 2 waits 5 s, and what comes after the step waits 5 s too."""
        for number, step_s in enumerate((-3600, 3600, -3, 3, -86_400 * 9000, 86_400 * 9000)):
            with self.subTest(step_s=step_s):
                before = self.delivered()
                self.put(2 * number, 2)
                self.advance(2)
                self.set_by_s += step_s
                self.put(2 * number + 1, 2)
                self.advance(2.8)
                self.assertEqual(self.delivered(), before)
                self.advance(0.4)
                self.assertEqual(self.delivered(), [*before, b"%d" % (2 * number)])
                self.advance(1.6)
                self.assertEqual(len(self.delivered()), len(before) + 1)
                self.advance(0.4)
                self.assertEqual(len(self.delivered()), len(before) + 2)

    def test_steps_all_the_time(self) -> None:
        """A message a second, the clock set before each: each is delivered once, in order, a second later."""
        for number in range(30):
            self.set_by_s = 1800.0 * (number * 7 % 5 - 2)
            self.put(number, 1)
            self.advance(1.0)
        self.advance(0.2)
        self.assertEqual(self.delivered(), [b"%d" % number for number in range(30)])

    def test_copies_are_found_behind_a_step(self) -> None:
        """The log says that it was delivered, though the copy's time is an hour before the message's own."""
        for step_s in (-3600, 3600):
            self.put(step_s, 1)
            self.set_by_s += step_s
            self.advance(1.2)
        before = self.delivered()
        self.assertEqual(len(before), 2)
        self.broker.core.parts.delays.offsets.clear()
        self.broker.delayed.delivery.start(self.broker.core.platform.now_ms())
        self.advance(2)
        self.assertEqual((self.delivered(), self.broker.delayed.delivery.repeats_avoided), (before, 2))

    def test_a_start_after_the_clock_was_set_back(self) -> None:
        """Nobody knows how long they waited: due at once, as in Java; a second later everything waits as it should."""
        self.put(0, 2)
        self.stop()
        self.set_by_s -= 3600
        self.service = self.start()
        self.advance(0.1, 0.05)
        self.assertEqual(self.delivered(), [b"0"])
        self.put(1, 1)
        self.advance(1.1)
        self.assertEqual(self.delivered(), [b"0", b"1"])


class UnequalTests(BrokerCase):
    """What looks like a copy and is none."""

    def test_other_messages_under_the_same_key(self) -> None:
        """A client that gives every message one key loses none, be they equal, and some of them not delayed."""
        client = self.connect()
        plain, delayed = f"UNIQ_KEY\x01{key(7)}\x02", f"UNIQ_KEY\x01{key(7)}\x02DELAY\x011\x02"
        self.send(client, b"one", properties=plain)
        for body in (b"one", b"two"):
            self.send(client, body, properties=delayed)
        self.send(client, b"one", properties=plain)
        self.broker.delayed.delivery.start(self.broker.core.platform.now_ms())
        self.advance(1.5)
        self.send(client, b"two", properties=delayed)  # behind the copy of one that is its like
        self.broker.delayed.delivery.start(self.broker.core.platform.now_ms())
        self.advance(1.5)
        found = self.broker.store.get("T", 0, 0, 100, 1 << 20)
        bodies = [message.body for stored in found.buffers for _, message in record.scan(stored)]
        self.assertEqual(bodies, [b"one", b"one", b"one", b"two", b"two"])


class WithoutIndexTests(ProgressTests):
    config = "messageIndexEnable=false"

    def test_a20_progress_behind_the_log(self) -> None:
        """Nothing can be looked up: progress is believed, and messages come twice, as Java's."""
        self.begin_with(3)
        self.assertEqual(self.delivered(), [*self.all_of_them()[:6], *self.all_of_them()[3:]])

    def test_f6_progress_ahead_of_the_log(self) -> None:
        """Likewise, and they are lost."""
        self.begin_with(9)
        self.assertEqual(self.delivered(), [*self.all_of_them()[:6], b"9"])

    def test_progress_beyond_the_queue(self) -> None:
        """Is set to its end."""
        self.begin_with(99)
        self.assertEqual(self.delivered(), self.all_of_them()[:6])

    def test_what_was_avoided_is_counted(self) -> None:
        """Nothing."""
        self.begin_with(2)
        self.assertEqual(
            (self.broker.delayed.delivery.repeats_avoided, self.broker.delayed.delivery.losses_avoided), (0, 0)
        )

    def test_only_so_far_back(self) -> None:
        """No step."""
        self.begin_with(6)
        self.assertEqual(self.delivered(), self.all_of_them())

    def test_nothing_before_the_log_is_confirmed(self) -> None:
        """Then, by progress."""
        store = self.broker.store
        store.confirm_offset = store.max_physical_offset - 1
        self.begin_with(6)
        self.assertEqual(len(self.delivered()), 5)
        store.confirm_offset = None
        self.advance(0.5)
        self.assertEqual(self.delivered(), self.all_of_them())
