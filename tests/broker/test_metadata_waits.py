"""The answer to a change of topics or groups waits for the replicas (regression F2: apache/rocketmq #9804)."""

from __future__ import annotations

import unittest

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rocketha.broker import metadata_waits
from rocketha.broker.data_version import DataVersion
from rocketha.broker.metadata_waits import OURS_MS, STRANGER_MS, MetadataWaits, Versions, WaitingAnswer
from rocketha.wire.remoting import Answer, Command

BOUND_MS = 1000


def version(topics: int, groups: int = 0, epoch: int = 7) -> Versions:
    return Versions((epoch, topics), (epoch, groups))


def waiting(versions: Versions, now_ms: int, opaque: int = 0, connection: object = None) -> WaitingAnswer:
    return WaitingAnswer(versions, now_ms + BOUND_MS, connection, Command(17, opaque=opaque), Answer())


class WaitsTests(unittest.TestCase):
    def setUp(self) -> None:
        self.away: set[int] = set()
        self.waits = MetadataWaits(lambda replica: replica not in self.away)
        self.waits.begin({2, 3}, 0)
        for member in (2, 3):
            self.waits.has(member, version(1), 0)

    def released(self, now_ms: int) -> list[tuple[int, tuple[int, ...]]]:
        return [(each.waiting.command.opaque, each.lacking) for each in self.waits.released(now_ms)]

    def test_until_the_last_has_it(self) -> None:
        """Any of them may be the next master."""
        self.assertEqual(self.waits.lacking(version(2), 10), (2, 3))
        self.waits.add(waiting(version(2), 10, 1))
        self.waits.has(2, version(2), 10)
        self.assertEqual(self.released(20), [])
        self.waits.has(3, version(3), 10)
        self.assertEqual(self.released(30), [(1, ())])

    def test_both_tables_count(self) -> None:
        """A new topic says nothing of a new group."""
        self.waits.add(waiting(version(2, 2), 10, 1))
        for member in (2, 3):
            self.waits.has(member, version(2, 1), 10)
        self.assertEqual(self.released(20), [])
        for member in (2, 3):
            self.waits.has(member, version(2, 2), 10)
        self.assertEqual(self.released(20), [(1, ())])

    def test_the_bound(self) -> None:
        """Then it is known who lacks the change."""
        self.waits.add(waiting(version(2), 10, 1))
        self.waits.has(2, version(2), 10)
        self.assertEqual(self.waits.next_deadline_ms(), 10 + BOUND_MS)
        self.assertEqual(self.released(9 + BOUND_MS), [])
        self.assertEqual(self.released(10 + BOUND_MS), [(1, (3,))])

    def test_who_leaves_the_set(self) -> None:
        """Cannot be elected."""
        self.waits.add(waiting(version(2), 10, 1))
        self.waits.has(2, version(2), 10)
        self.waits.members_are({2}, 20)
        self.assertEqual(self.released(20), [(1, ())])

    def test_a_member_that_never_asks_is_a_java_broker(self) -> None:
        """It is given time to ask at the beginning of the term, and of its membership, and no more."""
        self.waits.members_are({2, 3, 4}, 100)
        self.assertEqual(self.waits.lacking(version(1), 99 + STRANGER_MS), (4,))
        self.assertEqual(self.waits.lacking(version(1), 100 + STRANGER_MS), ())

    def test_a_member_that_is_not_connected_is_none(self) -> None:
        """It does not ask because it cannot, and may be elected all the same."""
        self.waits.members_are({2, 3, 4}, 100)
        self.away.add(4)
        self.assertEqual(self.waits.lacking(version(1), 100 + 10 * STRANGER_MS), (4,))

    def test_a_broker_of_ours_is_known_as_one(self) -> None:
        """Also to the next master: after a partition its question may be later than its link."""
        self.waits.heard_of((4,), 0)
        self.waits.end()
        self.waits.begin({2, 4}, 20_000)
        self.assertEqual(self.waits.ours(20_000), [2, 3, 4])
        self.assertEqual(self.waits.lacking(version(1), 19_999 + OURS_MS), (2, 4))
        self.assertEqual(self.waits.lacking(version(1), 20_000 + OURS_MS), ())
        self.assertEqual(self.waits.ours(OURS_MS + 20_000), [])

    def test_a_java_broker_in_the_place_of_ours(self) -> None:
        """It takes the tables in its own time, and nobody waits for ever."""
        self.assertEqual(self.waits.lacking(version(2), OURS_MS - 1), (2, 3))
        self.waits.has(2, version(1), OURS_MS - 1)
        self.assertEqual(self.waits.lacking(version(2), OURS_MS), (2,))

    def test_who_may_join_the_set(self) -> None:
        """A replica of ours that has the tables; a Java broker, known by its silence."""
        self.assertTrue(self.waits.is_fit(2, version(1), 10))
        self.assertFalse(self.waits.is_fit(2, version(2), 10))
        self.assertFalse(self.waits.is_fit(4, version(1), 10))
        self.assertFalse(self.waits.is_fit(4, version(1), 9 + STRANGER_MS))
        self.assertTrue(self.waits.is_fit(4, version(1), 10 + STRANGER_MS))
        self.waits.has(4, version(0), 11 + STRANGER_MS)
        self.assertFalse(self.waits.is_fit(4, version(1), 11 + STRANGER_MS))

    def test_a_master_that_knows_who_is_ours(self) -> None:
        """By the former one's word, of five seconds ago at least, the others are Java's: they need not be awaited."""
        self.waits.heard_of((2,), 0)
        self.waits.begin({5}, STRANGER_MS - 1)
        self.assertFalse(self.waits.is_fit(5, version(1), STRANGER_MS))
        self.waits.begin({5}, STRANGER_MS)
        self.assertTrue(self.waits.is_fit(5, version(1), STRANGER_MS))
        self.assertFalse(self.waits.is_fit(2, version(1), STRANGER_MS))

    def test_the_version_of_another_term_is_no_version(self) -> None:
        """A demoted master has a higher counter and none of the new one's changes."""
        self.waits.has(2, version(900, 900, epoch=6), 10)
        self.assertEqual(self.waits.lacking(version(1), 10), (2,))

    def test_what_replicas_said_to_another_master_does_not_count(self) -> None:
        """A term begins with nothing known."""
        self.waits.begin({2, 3}, 10)
        self.assertEqual(self.waits.lacking(version(1), 10), (2, 3))

    def test_a_later_word_wins(self) -> None:
        """Its disk was replaced: it takes all anew."""
        self.waits.has(2, Versions.of(None, DataVersion()), 10)
        self.assertEqual(self.waits.lacking(version(1), 10), (2,))

    def test_the_end_of_a_term(self) -> None:
        """Whoever waits must be told that nobody knows."""
        self.waits.add(waiting(version(2), 10, 1))
        self.assertEqual([each.command.opaque for each in self.waits.end()], [1])
        self.assertEqual(self.waits.lacking(version(2), 10), ())
        self.assertIsNone(self.waits.next_deadline_ms())

    def test_who_asked_is_gone(self) -> None:
        """Its answer is not kept."""
        here, gone = object(), object()
        self.waits.add(waiting(version(2), 10, 1, gone))
        self.waits.add(waiting(version(2), 10, 2, here))
        self.waits.forget(gone)
        self.assertEqual(self.released(10 + BOUND_MS), [(2, (2, 3))])

    def test_many_answers(self) -> None:
        """Are bounded: the next one does not wait."""
        for _ in range(metadata_waits.WAITING_MAX):
            self.assertTrue(self.waits.add(waiting(version(2), 10)))
        self.assertFalse(self.waits.add(waiting(version(2), 10)))

    def test_many_strangers(self) -> None:
        """Who says he is replica 1, 2, 3, ... does not fill the memory; members still count."""
        for number in range(10, 10 + 2 * metadata_waits.WAITING_MAX):
            self.waits.has(number, version(1), 10)
        self.waits.has(3, version(5), 10)
        self.waits.has(2, version(5), 10)
        self.assertEqual(self.waits.lacking(version(5), 10), ())


class WaitsMachine(RuleBasedStateMachine):
    """Against a list that is looked through each time."""

    @initialize()
    def begin(self) -> None:
        self.away: set[int] = set()
        self.waits = MetadataWaits(lambda replica: replica not in self.away)
        self.waits.begin({1, 2, 3}, 0)
        self.has: dict[int, int] = {}
        self.heard: dict[int, int] = {}
        self.since = dict.fromkeys((1, 2, 3), 0)
        self.now_ms = self.counter = 0
        self.open: dict[int, tuple[int, int]] = {}

    @rule(ms=st.sampled_from((0, 1, 500, 3000, 70_000)))
    def time(self, ms: int) -> None:
        self.now_ms += ms

    @rule()
    def change(self) -> None:
        self.counter += 1
        versions = version(self.counter)
        if self.waits.lacking(versions, self.now_ms):
            self.open[self.counter] = (self.counter, self.now_ms + BOUND_MS)
            self.waits.add(waiting(versions, self.now_ms, self.counter))

    @rule(member=st.integers(1, 4), back=st.integers(0, 3))
    def asks(self, member: int, back: int) -> None:
        self.has[member] = max(0, self.counter - back)
        self.heard[member] = self.now_ms
        self.waits.has(member, version(self.has[member]), self.now_ms)

    @rule(members=st.sets(st.integers(1, 4)))
    def away_are(self, members: set[int]) -> None:
        self.away.clear()
        self.away.update(members)

    @rule(members=st.sets(st.integers(1, 4)))
    def set_is(self, members: set[int]) -> None:
        self.since = {member: self.since.get(member, self.now_ms) for member in members}
        self.waits.members_are(members, self.now_ms)

    def lacks(self, wanted: int) -> tuple[int, ...]:
        found = []
        for member, since in sorted(self.since.items()):
            if self.has.get(member, -1) >= wanted:
                continue
            patience = OURS_MS if member in self.heard else STRANGER_MS
            quiet = self.now_ms - max(since, self.heard.get(member, 0))
            if quiet < patience or member in self.away:
                found.append(member)
        return tuple(found)

    @invariant()
    def goes_out(self) -> None:
        wanted = []
        for counter, (needed, deadline) in sorted(self.open.items()):
            lacking = self.lacks(needed)
            if lacking and self.now_ms < deadline:
                break
            wanted.append((counter, lacking))
        for counter, _ in wanted:
            del self.open[counter]
        self_released = [(each.waiting.command.opaque, each.lacking) for each in self.waits.released(self.now_ms)]
        assert self_released == wanted, (self_released, wanted)
        assert len(self.waits) == len(self.open)


WaitsMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
WaitsMachineTests = WaitsMachine.TestCase
