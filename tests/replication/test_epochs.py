"""The epoch cache and the consistent point (S0.20 to S0.34; facts: Java's EpochFileCache)."""

from __future__ import annotations

import itertools

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import InvariantBroken, RemoteProtocolError
from rocketha.replication.epochs import (
    EPOCHS_MAX,
    NO_EPOCH,
    OPEN_END,
    ElectionNeeded,
    EpochCache,
    EpochEntry,
    EpochSpan,
    consistent_point,
    fault,
)


def cache(*entries: tuple[int, int]) -> EpochCache:
    """A cache of (epoch, start) pairs."""
    return EpochCache(EpochEntry(*entry) for entry in entries)


def pairs(epochs: EpochCache) -> list[tuple[int, int]]:
    """Its entries as plain pairs."""
    return [tuple(entry) for entry in epochs.entries]


@attrs.define
class Replica:
    """A log of bytes that know who wrote them, its epochs, and the epoch in which it believes to be master."""

    number: int
    log: list[tuple[int, int, int]] = attrs.Factory(list)
    epochs: EpochCache = attrs.Factory(EpochCache)
    master_of: int = NO_EPOCH

    def write(self, count: int) -> None:
        """As master, current or not."""
        for _ in range(count):
            self.log.append((self.number, self.master_of, len(self.log)))

    def follow(self, master: Replica) -> int:
        """The handshake: cut, take over the list; where it was cut."""
        self.master_of = NO_EPOCH
        point = consistent_point(self.epochs, 0, len(self.log), master.epochs.entries, len(master.log), 0)
        assert point is not None
        if point < len(self.log):
            del self.log[point:]
            self.epochs.truncate_suffix(point)
        self.epochs.adopt(master.epochs, point)
        return point


def frame(master: Replica, position: int, block: int, java: bool) -> tuple[int, int, int]:
    """(epoch, its start, size) of a master's next frame, stamped as the seed wants it or as Java does."""
    span = master.epochs.at(position)
    assert span is not None
    size = min(block, len(master.log) - position)
    if position + size > span.end_offset:
        size = span.end_offset - position
        following = master.epochs.after(span.epoch)
        if java and following is not None:
            return following.epoch, following.start_offset, size
    return span.epoch, span.start_offset, size


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("elect"), st.integers(0, 3), st.just(0), st.just(False)),
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(0, 4), st.just(False)),
        st.tuples(st.just("follow"), st.integers(0, 3), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("again"), st.integers(0, 3), st.integers(0, 9), st.booleans()),
    ),
    max_size=50,
)


class GroupTests(SynchronousTestCase):
    """Four replicas that elect anybody at any time, and old masters that write on."""

    @settings(max_examples=400, deadline=None)
    @given(OPERATIONS)
    def test_logs_and_epochs_become_equal(self, operations: list[tuple[str, int, int, bool]]) -> None:
        """Whatever was elected and written: handshakes leave what is the master's, cut nothing equal, lists follow."""
        group = [Replica(number) for number in range(4)]
        epoch, master = 0, None
        for what, number, count, java in operations:
            replica = group[number]
            if what == "elect":
                epoch, master = epoch + 1, replica
                replica.epochs.begin(epoch, 0, len(replica.log))
                replica.master_of = epoch
            elif what == "write" and replica.master_of != NO_EPOCH:
                replica.write(count)
            elif what in ("follow", "again") and master is not None and replica is not master:
                self.copy(replica, master, count, java)
                if what == "again":
                    # The same master is elected again while this slave is connected (C3).
                    known = EpochCache(master.epochs.entries)
                    epoch += 1
                    master.epochs.begin(epoch, 0, len(master.log))
                    master.master_of = epoch
                    master.write(count % 3)
                    self.stream(replica, master, known, count, java)
        if master is not None:
            for replica in group:
                if replica is not master:
                    self.copy(replica, master, len(master.log) + 1, False)
                    self.assertEqual(replica.log, master.log)
                    self.assertEqual(pairs(replica.epochs), pairs(master.epochs))

    def copy(self, slave: Replica, master: Replica, count: int, java: bool) -> None:
        """A handshake, and some frames of at most three bytes."""
        before = list(slave.log)
        equal = before == master.log[: len(before)]
        point = slave.follow(master)
        self.assertEqual(slave.log, master.log[:point])
        if equal:
            self.assertEqual(slave.log, before, "bytes were cut that the master has")
        self.stream(slave, master, EpochCache(master.epochs.entries), count, java)

    def stream(self, slave: Replica, master: Replica, known: EpochCache, count: int, java: bool) -> None:
        """Frames to a slave that knows the master's list as it was at the handshake."""
        for _ in range(count):
            position = len(slave.log)
            epoch, start, size = frame(master, position, 3, java)
            known.announce(epoch, start, position, size)
            slave.epochs.adopt(known, position + size)
            slave.log += master.log[position : position + size]
            self.assertEqual(slave.log, master.log[: len(slave.log)])
            expected = [entry for entry in known.entries if entry.start_offset <= len(slave.log)]
            self.assertEqual(pairs(slave.epochs), [tuple(entry) for entry in expected])


class ConsistentPointTests(SynchronousTestCase):
    """S0.31, S0.34."""

    def test_s0_31_newest_equal_epoch_and_the_nearer_end(self) -> None:
        """facts/ha-autoswitch.md section 10: a slave of a master with (1,0), (3,294), (9,588) is cut to 588."""
        own = cache((1, 0), (3, 294), (4, 588))
        masters = cache((1, 0), (3, 294), (9, 588)).entries
        self.assertEqual(consistent_point(own, 0, 784, masters, 652, 0), 588)
        self.assertEqual(consistent_point(own, 0, 600, cache((1, 0), (3, 294), (4, 588)).entries, 784, 0), 600)
        self.assertEqual(consistent_point(own, 0, 784, cache((1, 0), (3, 290), (9, 588)).entries, 652, 0), 290)
        self.assertEqual(consistent_point(own, 0, 784, cache((1, 0), (3, 294), (9, 600)).entries, 652, 0), 588)

    def test_s0_34_nothing_in_common(self) -> None:
        """No equal epoch, or equal bytes that this log no longer has: it must not follow."""
        self.assertIsNone(consistent_point(cache((1, 0)), 0, 10, cache((1, 5), (2, 9)).entries, 20, 0))
        self.assertIsNone(consistent_point(cache(), 0, 10, cache((1, 0)).entries, 20, 0))
        self.assertIsNone(consistent_point(cache((1, 0)), 50, 90, cache((1, 0), (2, 49)).entries, 100, 0))
        self.assertEqual(consistent_point(cache((1, 0)), 50, 90, cache((1, 0), (2, 50)).entries, 100, 0), 50)

    def test_the_first_master_died_with_its_first_bytes(self) -> None:
        """Both logs go back to 0, so that is common; a log whose epochs do not is another matter."""
        self.assertEqual(consistent_point(cache((1, 0)), 0, 10, cache((2, 0)).entries, 20, 0), 0)
        self.assertIsNone(consistent_point(cache((1, 5)), 0, 10, cache((2, 0)).entries, 20, 0))
        self.assertIsNone(consistent_point(cache((1, 0)), 0, 10, cache((2, 5)).entries, 20, 0))
        self.assertIsNone(consistent_point(cache((1, 0)), 5, 10, cache((2, 0)).entries, 20, 0))
        self.assertIsNone(consistent_point(cache((1, 0)), 0, 10, (), 20, 0))

    def test_nothing_in_common_with_a_confirmed_log(self) -> None:
        """A master that came back with an empty disk: what others hold as confirmed is not equal to nothing."""
        own = cache((1, 0), (3, 500))
        self.assertEqual(consistent_point(own, 0, 900, cache((7, 0)).entries, 0, 0), 0)
        self.assertIsNone(consistent_point(own, 0, 900, cache((7, 0)).entries, 0, 1))
        self.assertEqual(consistent_point(own, 0, 900, cache((1, 0), (7, 400)).entries, 800, 600), 400)

    def test_an_empty_log_goes_on_where_it_is(self) -> None:
        """A new replica asks from its end, whatever its epochs are."""
        self.assertEqual(consistent_point(cache(), 0, 0, cache((1, 0)).entries, 20, 0), 0)
        self.assertEqual(consistent_point(cache((1, 0)), 64, 64, cache((7, 64)).entries, 80, 0), 64)

    def test_a12_slave_ahead_of_its_master_is_cut_to_its_end(self) -> None:
        """Also where the master's list reaches beyond its log, which then proves nothing."""
        own = cache((1, 0), (2, 100))
        self.assertEqual(consistent_point(own, 0, 150, cache((1, 0), (2, 100)).entries, 120, 0), 120)
        self.assertEqual(consistent_point(own, 0, 150, cache((1, 0), (2, 100)).entries, 90, 0), 90)
        self.assertEqual(consistent_point(own, 0, 150, cache((1, 0), (2, 100)).entries, 100, 0), 100)

    def test_epochs_beyond_the_masters_end_prove_nothing(self) -> None:
        """It lost those bytes and wrote others: the epoch before counts, although the newest is equal."""
        own, masters = cache((1, 0), (2, 100), (3, 120)), cache((1, 0), (2, 90), (3, 120))
        self.assertEqual(consistent_point(own, 0, 150, masters.entries, 110, 0), 90)

    def test_a_list_that_is_none_is_refused(self) -> None:
        """With what is wrong with it."""
        for entries, text in (
            ([(2, 0), (1, 5)], "does not rise"),
            ([(1, 5), (2, 4)], "does not rise"),
            ([(-1, 0)], "neither may be negative"),
            ([(1, -1)], "neither may be negative"),
        ):
            found = [EpochEntry(*entry) for entry in entries]
            caught = self.assertRaises(RemoteProtocolError, consistent_point, cache((1, 0)), 0, 9, found, 9, 0)
            self.assertIn(text, str(caught))
            self.assertRaises(InvariantBroken, EpochCache, found)


class RegressionTests(SynchronousTestCase):
    """Rows of the regression list."""

    def test_c2_elections_without_writes(self) -> None:
        """Three empty elections of different masters, then a write: lists equal, all join again without a cut."""
        group = [Replica(number) for number in range(3)]
        group[0].epochs.begin(1, 0, 0)
        group[0].master_of = 1
        group[0].write(100)
        for slave in group[1:]:
            slave.follow(group[0])
            slave.log = list(group[0].log)
        for epoch, master in ((2, group[1]), (3, group[2]), (4, group[0])):
            master.epochs.begin(epoch, 0, 100)
            master.master_of = epoch
            if epoch == 3:
                group[1].follow(master)
        group[0].write(50)
        for slave in group[1:]:
            self.assertEqual(slave.follow(group[0]), 100)
            slave.epochs.adopt(group[0].epochs, 150)
        self.assertEqual([pairs(each.epochs) for each in group], [[(1, 0), (4, 100)]] * 3)

    def test_c2_a_void_epoch_is_replaced_not_kept(self) -> None:
        """Java keeps it: then two masters write under one name, and what differs is never found."""
        old, new = Replica(0), Replica(1)
        old.epochs.begin(1, 0, 0)
        old.write(10)
        old.epochs.begin(2, 0, 10)
        new.follow(old)
        new.log = list(old.log)
        new.epochs.adopt(old.epochs, 10)
        self.assertEqual(new.epochs.last_epoch, 2)
        new.epochs.begin(3, 0, 10)
        old.master_of, new.master_of = 2, 3
        old.write(5)  # cut off
        new.write(5)
        self.assertEqual(old.follow(new), 10)

    def test_c3_same_master_elected_again_while_connected(self) -> None:
        """The next frame announces the epoch on the open connection."""
        known = cache((1, 0))
        self.assertFalse(known.announce(1, 0, 40, 10))
        self.assertTrue(known.announce(2, 50, 50, 0))
        own = cache((1, 0))
        self.assertTrue(own.adopt(known, 50))
        self.assertEqual(pairs(own), [(1, 0), (2, 50)])

    def test_c6_the_last_epoch_is_open_after_a_cut(self) -> None:
        """Java sets its end on a copy."""
        epochs = cache((1, 0), (2, 100), (3, 200))
        self.assertEqual(epochs.end_of(2), 200)
        self.assertTrue(epochs.truncate_suffix(150))
        self.assertEqual((epochs.end_of(2), epochs.at(10_000)), (OPEN_END, EpochSpan(2, 100, OPEN_END)))

    def test_c7_five_thousand_epochs(self) -> None:
        """More than Java's buffer holds: compared, and pruned with the log."""
        entries = [EpochEntry(number, number * 10) for number in range(1, 5001)]
        own = EpochCache(entries)
        self.assertEqual(consistent_point(own, 0, 50_005, entries, 60_000, 0), 50_005)
        self.assertTrue(own.truncate_prefix(40_000))
        self.assertEqual((len(own), own.first), (1002, EpochEntry(3999, 39_990)))
        self.assertFalse(own.truncate_prefix(40_000))

    def test_c10_what_lies_above_the_confirm_offset_stays_on_promotion(self) -> None:
        """The written rule: a new master keeps its log to the last whole record; its epoch begins there."""
        epochs = cache((1, 0))
        self.assertTrue(epochs.begin(2, 0, 784))
        self.assertEqual(pairs(epochs), [(1, 0), (2, 784)])


class CacheTests(SynchronousTestCase):
    """Each rule once."""

    def test_lookups(self) -> None:
        """By epoch, by offset, the one after."""
        epochs = cache((1, 10), (3, 294), (4, 588))
        self.assertEqual((epochs.first, epochs.last, epochs.last_epoch), (EpochEntry(1, 10), EpochEntry(4, 588), 4))
        self.assertEqual([epochs.get(number) for number in (0, 2, 3, 5)], [None, None, EpochEntry(3, 294), None])
        self.assertEqual(epochs.at(293), EpochSpan(1, 10, 294))
        self.assertEqual(epochs.at(294), EpochSpan(3, 294, 588))
        self.assertEqual(epochs.at(588), EpochSpan(4, 588, OPEN_END))
        self.assertEqual(epochs.at(0), EpochSpan(1, 10, 294))
        self.assertEqual([epochs.after(number) for number in (1, 3, 4)], [EpochEntry(3, 294), EpochEntry(4, 588), None])

    def test_without_epochs(self) -> None:
        """Nothing is found, nothing changes."""
        epochs = cache()
        found = (epochs.first, epochs.last, epochs.last_epoch, epochs.at(0), epochs.get(1), epochs.after(0))
        self.assertEqual(found, (None, None, NO_EPOCH, None, None, None))
        self.assertEqual([epochs.truncate_suffix(0), epochs.truncate_prefix(9)], [False, False])
        self.assertFalse(cache((1, 0)).adopt(epochs, 10))

    def test_begin(self) -> None:
        """At the end of the log; the very first at its beginning; entries beyond the end are of bytes that are lost."""
        epochs = cache()
        epochs.begin(3, 64, 128)
        self.assertEqual(pairs(epochs), [(3, 64)])
        lost = cache((1, 0), (2, 100))
        lost.begin(5, 0, 90)
        self.assertEqual(pairs(lost), [(1, 0), (5, 90)])

    def test_begin_refuses_an_epoch_that_is_not_newer(self) -> None:
        """Of which there may be other bytes."""
        epochs = cache((1, 0), (5, 10))
        for epoch in (4, 5):
            self.assertIn("knows epoch 5", str(self.assertRaises(RemoteProtocolError, epochs.begin, epoch, 0, 20)))
        self.assertEqual(pairs(epochs), [(1, 0), (5, 10)])

    def test_begin_forgets_the_oldest_at_the_limit(self) -> None:
        """Bounded, whatever the controllers do."""
        epochs = EpochCache(EpochEntry(number, number) for number in range(EPOCHS_MAX))
        epochs.begin(EPOCHS_MAX, 0, EPOCHS_MAX)
        self.assertEqual((len(epochs), epochs.first), (EPOCHS_MAX, EpochEntry(1, 1)))

    def test_resume_with_a_whole_log_changes_nothing(self) -> None:
        """What slaves confirmed in that epoch stays; also when it has no byte yet."""
        epochs = cache((1, 0), (5, 10))
        for log_end in (10, 30):
            epochs.resume(5, log_end, intact=True)
        self.assertEqual(pairs(epochs), [(1, 0), (5, 10)])

    def test_resume_after_a_loss_needs_an_election(self) -> None:
        """Slaves may have acknowledged what is missing: as master again in that epoch it would have them cut it."""
        epochs = cache((1, 0), (5, 10))
        for epoch, log_end, intact in ((5, 30, False), (5, 10, False), (5, 9, True)):
            caught = self.assertRaises(ElectionNeeded, epochs.resume, epoch, log_end, intact)
            self.assertIn(f"ends at {log_end}, may lack bytes", str(caught))
        for other in (4, 6):
            self.assertIn("newest is 5", str(self.assertRaises(ElectionNeeded, epochs.resume, other, 30, True)))
        self.assertRaises(ElectionNeeded, cache().resume, 1, 0, True)
        self.assertEqual(pairs(epochs), [(1, 0), (5, 10)])
        self.assertTrue(epochs.begin(6, 0, 30))
        self.assertEqual(consistent_point(cache((1, 0), (5, 10)), 0, 40, epochs.entries, 60, 30), 30)

    def test_announce_refuses_contradictions(self) -> None:
        """A stamp that is not the handshake's, of an older epoch nobody knows, or of bytes that were another's."""
        for stamp, text in (
            ((3, 200, 300, 10), "began at 294"),
            ((2, 200, 300, 10), "not among"),
            ((-1, 0, 300, 10), "not among"),
            ((5, 311, 300, 10), "nothing was sent yet"),
            ((5, -1, 300, 10), "nothing was sent yet"),
            ((5, 294, 300, 10), "bytes there were of (epoch 3)"),
            ((5, 200, 300, 10), "bytes there were of (epoch 3)"),
        ):
            known = cache((1, 0), (3, 294))
            self.assertIn(text, str(self.assertRaises(RemoteProtocolError, known.announce, *stamp)))
            self.assertEqual(pairs(known), [(1, 0), (3, 294)])

    def test_announce_bounds_the_list(self) -> None:
        """A master that stamps each byte anew is refused at some point."""
        known = EpochCache(EpochEntry(number, number) for number in range(EPOCHS_MAX))
        self.assertRaises(RemoteProtocolError, known.announce, EPOCHS_MAX, EPOCHS_MAX, EPOCHS_MAX, 9)
        self.assertIn(f"at most {EPOCHS_MAX}", fault([*known.entries, EpochEntry(EPOCHS_MAX, EPOCHS_MAX)]))

    def test_announce_replaces_a_void_epoch(self) -> None:
        """The master was elected again before it wrote."""
        known = cache((1, 0), (2, 50))
        self.assertTrue(known.announce(3, 50, 50, 10))
        self.assertEqual(pairs(known), [(1, 0), (3, 50)])

    def test_adopt_keeps_what_the_master_has_pruned(self) -> None:
        """Its own older epochs are of bytes that this log still has."""
        own = cache((1, 0), (2, 100), (3, 200))
        self.assertTrue(own.adopt(cache((2, 100), (4, 180), (9, 500)), 300))
        self.assertEqual(pairs(own), [(1, 0), (2, 100), (4, 180)])
        self.assertFalse(own.adopt(cache((2, 100), (4, 180), (9, 500)), 300))

    def test_bytes_from_before_there_were_epochs(self) -> None:
        """A Java master that was a classic one stamps them with its first epoch; a slave that stops there goes on."""
        masters, own = cache((1, 1000)), cache()
        self.assertEqual(masters.at(0), EpochSpan(1, 1000, OPEN_END))
        self.assertTrue(own.adopt(masters, 500))
        self.assertEqual(consistent_point(own, 0, 500, masters.entries, 1200, 0), 500)

    @given(st.lists(st.tuples(st.integers(-2, 5), st.integers(-2, 5)), max_size=4))
    def test_what_is_no_fault_ascends(self, entries: list[tuple[int, int]]) -> None:
        """From zero, epochs strictly; of those with one start the newest is meant."""
        ascends = all(a[0] < b[0] and a[1] <= b[1] for a, b in itertools.pairwise(entries))
        fine = ascends and all(min(entry) >= 0 for entry in entries)
        self.assertEqual(fault([EpochEntry(*entry) for entry in entries]) == "", fine)
        if fine:
            newest = {start: epoch for epoch, start in entries}
            self.assertEqual(pairs(cache(*entries)), [(epoch, start) for start, epoch in newest.items()])
