"""A master's SyncStateSet: who counts, who leaves, who joins (S0.9 to S0.12, S0.48, S0.57 to S0.61)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import InvariantBroken, RemoteProtocolError
from rocketha.replication.acks import ALL, NO_ACK
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.lease import Lease
from rocketha.replication.sync_state import SAMPLE_MS, SetChange, SyncState, SyncTiming
from rocketha.wire.codes import ResponseCode

FOREVER_MS = 10**9
NOT_LEADER = ResponseCode.CONTROLLER_NOT_LEADER
NOT_ALIVE = ResponseCode.CONTROLLER_BROKER_NOT_ALIVE
FENCED = ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH


def master(
    members: Iterable[int] = (1, 2, 3), log_end: int = 100, confirm: int = 100, timing: SyncTiming | None = None
) -> SyncState:
    """Broker 1 is master of epoch 4 since time 0, by set epoch 10, with a lease."""
    lease = Lease(FOREVER_MS)
    lease.begin(4)
    lease.confirmed(4, 0)
    state = SyncState(1, 4, 0, members, 10, log_end, ConfirmOffset(confirm, log_end), lease, 0, timing)
    state.registered((1, 2, 3, 4), 0)
    return state


def attach(state: SyncState, replica: int, offset: int, now_ms: int = 0, connection: int | None = None) -> None:
    """A slave connects and reports."""
    connection = replica if connection is None else connection
    state.connected(connection, replica, now_ms)
    state.acked(connection, offset, now_ms)


class ConfirmTests(SynchronousTestCase):
    """S0.48: the smallest among the members."""

    def test_s0_48_smallest_of_the_set(self) -> None:
        """And never above the own end."""
        state = master()
        attach(state, 2, 100)
        attach(state, 3, 100)
        state.log_grew(300, 10)
        state.acked(2, 250, 10)
        state.acked(3, 200, 10)
        self.assertEqual((state.advance(10), state.confirm_offset, state.advance(10)), (True, 200, False))
        self.assertEqual((state.reached(ALL, 10), state.reached(2, 10), state.reached(3, 10)), (200, 250, 200))

    def test_a3_cut_from_the_controllers_nothing_moves(self) -> None:
        """The slave still acknowledges, but the lease ran out."""
        state = master((1, 2))
        state.lease.lease_ms = 3000
        attach(state, 2, 100)
        state.log_grew(200, 2000)
        state.acked(2, 200, 3000)
        self.assertEqual((state.advance(3000), state.confirm_offset, state.reached(ALL, 3000)), (False, 100, NO_ACK))
        self.assertEqual(state.reached(1, 3000), NO_ACK)
        state.lease.confirmed(4, 2500)
        self.assertEqual((state.advance(3001), state.reached(ALL, 3001)), (True, 200))

    def test_a4_a_member_that_reconnects_without_an_acknowledgement(self) -> None:
        """Holds the confirm offset; one of 0 is one too (Java skips both)."""
        state = master()
        attach(state, 2, 100)
        attach(state, 3, 100)
        state.log_grew(200, 10)
        state.acked(2, 200, 10)
        state.disconnected(3, 10)
        self.assertFalse(state.advance(10))
        state.connected(33, 3, 20)
        self.assertEqual((state.advance(20), state.confirm_offset), (False, 100))
        state.acked(33, 0, 20)
        self.assertEqual((state.advance(20), state.confirm_offset), (False, 100))
        state.acked(33, 150, 20)
        self.assertEqual((state.advance(20), state.confirm_offset), (True, 150))

    def test_a7_confirm_does_not_follow_the_log_where_acknowledgements_need_few(self) -> None:
        """With inSyncReplicas acknowledgements instead of all (allAck off) consumers see what all members have."""
        state = master()
        attach(state, 2, 100)
        state.log_grew(200, 10)
        state.acked(2, 200, 10)
        state.advance(10)
        self.assertEqual((state.reached(2, 10), state.confirm_offset), (200, 100))

    def test_a7_the_master_is_a_replica_itself(self) -> None:
        """What its slaves have on their disks and it does not have on its own may be gone after a power cut."""
        state = master((1, 2))
        attach(state, 2, 100)
        state.log_grew(200, 10)
        state.kept(120)
        state.acked(2, 200, 10)
        self.assertEqual((state.advance(10), state.confirm_offset, state.reached(ALL, 10)), (True, 120, 120))
        state.kept(200)
        self.assertEqual((state.advance(10), state.confirm_offset), (True, 200))
        state.kept(999)
        self.assertEqual(state.own_offset, 200)

    def test_a10_elected_again_keeps_what_is_confirmed(self) -> None:
        """And its connections, with what they acknowledged; the lease it needs anew."""
        state = master()
        attach(state, 2, 100)
        for epoch in range(5, 10):
            state.lease.begin(epoch)
            state.reelected(epoch, 100, (1,), epoch + 20, 10)
            self.assertEqual((state.advance(10), state.reached(ALL, 10)), (False, NO_ACK))
            state.lease.confirmed(epoch, epoch)
            self.assertEqual((state.reached(ALL, 10), state.acks.offset(2, epoch)), (100, 100))
        state.acked(2, 100, 20)
        change = state.request(20)
        self.assertEqual(change, SetChange(1, (1, 2), 9, 29))
        self.assertRaises(RemoteProtocolError, state.reelected, 9, 100, (1,), 40, 30)
        self.assertRaises(RemoteProtocolError, state.reelected, 10, 100, (1,), 29, 30)
        self.assertRaises(RemoteProtocolError, state.reelected, 11, 100, (1,), 40, 30)

    def test_a13_an_unregistered_reader_never_counts(self) -> None:
        """It makes acknowledgements neither easier nor harder, and is not asked for."""
        state = master((1, 2))
        attach(state, 2, 100)
        attach(state, 99, 100)
        attach(state, 98, 100)
        state.log_grew(200, 10)
        state.acked(99, 200, 10)
        self.assertFalse(state.advance(10))
        self.assertEqual((state.confirm_offset, state.reached(2, 10)), (100, 100))
        state.acked(2, 200, 20)
        self.assertEqual((state.advance(20), state.confirm_offset, state.request(20)), (True, 200, None))

    def test_registered_later(self) -> None:
        """It joins at once, and one that is no longer registered is not waited for."""
        state = master((1,))
        attach(state, 9, 100)
        attach(state, 2, 100)
        self.assertEqual(state.needed, {2})
        state.registered((1, 9), 10)
        self.assertEqual((state.needed, state.request(10)), ({9}, SetChange(1, (1, 9), 4, 10)))

    def test_only_members_are_known_at_first(self) -> None:
        """And who became one."""
        state = SyncState(1, 4, 0, (1, 2), 10, 100, ConfirmOffset(), master().lease, 0)
        attach(state, 2, 100)
        attach(state, 3, 100)
        self.assertEqual(state.needed, {2})
        state.take_set((1, 3), 11, 10)
        state.take_set((1,), 12, 20)
        state.acked(2, 100, 20)
        state.acked(3, 100, 20)
        self.assertEqual(state.needed, {2, 3})

    def test_a13_same_id_twice(self) -> None:
        """The newer connection counts; the older one's end changes nothing."""
        state = master((1, 2))
        attach(state, 2, 100)
        self.assertEqual(state.connected(22, 2, 10), 2)
        state.log_grew(200, 10)
        self.assertRaises(RemoteProtocolError, state.acked, 2, 200, 10)
        self.assertFalse(state.advance(10))
        state.acked(22, 200, 10)
        state.disconnected(2, 10)
        self.assertTrue(state.advance(10))
        self.assertIsNone(state.request(10_000))

    def test_a11_a_lie_is_a_lost_connection(self) -> None:
        """Beyond the log: no credit, and the member is away."""
        state = master((1, 2))
        attach(state, 2, 100)
        self.assertRaises(RemoteProtocolError, state.acked, 2, 101, 50)
        state.log_grew(200, 60)
        self.assertFalse(state.advance(60))
        self.assertEqual(state.next_due_ms(60), 250)

    def test_epochs_of_acknowledgements(self) -> None:
        """One given by a handshake of another epoch is none (invariant 9)."""
        state = master((1, 2))
        state.connected(2, 2, 0, epoch=3)
        state.log_grew(200, 10)
        self.assertFalse(state.acked(2, 200, 10))
        self.assertFalse(state.advance(10))
        self.assertEqual(state.acks.offset(2, 4), NO_ACK)

    def test_acknowledgements_of_another_epoch_stay_worthless(self) -> None:
        """Its handshake was answered with an older list; being elected again makes it no better."""
        state = master((1, 2, 3))
        attach(state, 2, 100)
        state.connected(3, 3, 0, epoch=3)
        state.acked(3, 100, 0)
        state.lease.begin(5)
        state.lease.confirmed(5, 10)
        state.reelected(5, 100, (1, 2, 3), 11, 10)
        state.log_grew(200, 20)
        state.acked(2, 200, 20)
        state.acked(3, 200, 20)
        self.assertEqual((state.advance(20), state.reached(3, 20), state.reached(2, 20)), (False, NO_ACK, 200))

    def test_a_handshake_before_and_a_report_after_it_was_elected_again(self) -> None:
        """The slave was still aligning its log: it counts like one that had reported before, and joins."""
        state = master((1,))
        state.lease.begin(5)
        state.lease.confirmed(5, 10)
        state.reelected(5, 100, (1,), 11, 10)
        state.connected(2, 2, 20, epoch=4)
        state.acked(2, 100, 20)
        self.assertEqual(state.request(30), SetChange(1, (1, 2), 5, 11))
        state.connected(3, 3, 30, epoch=3)
        state.acked(3, 100, 30)
        self.assertEqual([state.acks.offset(each, 5) for each in (2, 3)], [100, NO_ACK])

    def test_confirmed_beyond_the_log_is_never_acknowledged(self) -> None:
        """A cut that the confirm offset was not told of; or somebody else moved it."""
        confirm = ConfirmOffset(5000, 5000)
        lease = master().lease
        self.assertRaises(InvariantBroken, SyncState, 1, 4, 0, (1, 2), 10, 4500, confirm, lease, 0)
        self.assertTrue(confirm.truncated(4500))
        state = SyncState(1, 4, 0, (1, 2), 10, 4500, confirm, lease, 0)
        state.log_grew(4500, 10)
        self.assertRaises(InvariantBroken, state.log_grew, 4499, 20)
        confirm.advance(6000, 6000)
        self.assertEqual((state.confirm_offset, state.reached(ALL, 30)), (4500, 4500))

    def test_min_in_sync(self) -> None:
        """With fewer members than minInSyncReplicas nothing is acknowledged, although it is confirmed."""
        state = master((1,), timing=SyncTiming(min_in_sync=2))
        state.log_grew(200, 10)
        state.advance(10)
        self.assertEqual((state.confirm_offset, state.reached(ALL, 10), state.reached(1, 10)), (200, NO_ACK, NO_ACK))

    def test_impossible_ids(self) -> None:
        """A slave that calls itself the master, or nothing; a set without its master."""
        state = master()
        self.assertRaises(RemoteProtocolError, state.connected, 5, 1, 0)
        self.assertRaises(RemoteProtocolError, state.connected, 5, -1, 0)
        self.assertRaises(RemoteProtocolError, state.take_set, (2, 3), 11, 0)
        self.assertRaises(InvariantBroken, master, (2, 3))


class LeavingTests(SynchronousTestCase):
    """S0.57 to S0.60."""

    def test_g3_two_that_drop_together_leave_in_one_step(self) -> None:
        """Also when the second drops a little later: one change, not two."""
        state = master()
        attach(state, 2, 100)
        attach(state, 3, 100)
        state.disconnected(2, 1000)
        self.assertIsNone(state.request(1000))
        state.disconnected(3, 1150)
        self.assertEqual(state.next_due_ms(1150), 1200)
        self.assertIsNone(state.request(1199))
        self.assertEqual(state.request(1200), SetChange(1, (1,), 4, 10))

    def test_a21_a_smaller_set_counts_only_when_confirmed(self) -> None:
        """Asked for, it changes nothing; answered, it does."""
        state = master((1, 2))
        attach(state, 2, 100)
        state.log_grew(200, 10)
        state.disconnected(2, 10)
        change = state.request(1000)
        assert change is not None
        self.assertEqual((change.members, state.advance(1000), state.reached(ALL, 1000)), ((1,), False, 100))
        self.assertTrue(state.take_set((1,), 11, 1010))
        self.assertEqual((state.advance(1010), state.reached(ALL, 1010)), (True, 200))

    def test_a_short_break_is_none(self) -> None:
        """Back within the grace: nothing to report."""
        state = master((1, 2))
        attach(state, 2, 100)
        state.disconnected(2, 1000)
        attach(state, 2, 100, 1150, connection=22)
        self.assertIsNone(state.request(1300))

    def test_s0_59_behind_for_too_long(self) -> None:
        """The last time at which it had all that there was is what counts, not when it last said something."""
        state = master((1, 2))
        attach(state, 2, 100)
        for now_ms in range(100, 15_200, 100):
            state.log_grew(100 + now_ms, now_ms)
            state.acked(2, 150, now_ms)
            asked = state.request(now_ms)
            if now_ms < 15_100:
                self.assertIsNone(asked, now_ms)
        self.assertEqual(asked, SetChange(1, (1,), 4, 10))

    def test_keeping_up_under_load_is_enough(self) -> None:
        """A member that is always 100 ms behind stays for ever."""
        state = master((1, 2))
        attach(state, 2, 100)
        for now_ms in range(10, 60_000, 10):
            state.log_grew(100 + now_ms, now_ms)
            if now_ms > 100:
                state.acked(2, now_ms, now_ms)
            self.assertIsNone(state.request(now_ms))

    def test_a_slave_that_hangs_on_an_idle_master_leaves(self) -> None:
        """Java counts "nothing to send" as caught up and keeps it."""
        state = master((1, 2))
        attach(state, 2, 100, 1000)
        self.assertEqual(state.next_due_ms(1000), 16_000)
        state.registered((1, 2), 10_000)
        self.assertIsNone(state.request(15_999))
        self.assertEqual(state.request(16_000), SetChange(1, (1,), 4, 10))

    def test_members_have_time_to_arrive(self) -> None:
        """At an epoch's beginning, and no longer."""
        state = master((1, 2))
        self.assertEqual(state.next_due_ms(0), 3000)
        self.assertIsNone(state.request(2999))
        self.assertEqual(state.request(3000), SetChange(1, (1,), 4, 10))

    def test_a_member_without_confirmed_bytes_leaves_at_once(self) -> None:
        """Its disk was replaced, or lost its tail: it must not be elected."""
        state = master()
        attach(state, 2, 100)
        attach(state, 3, 99, 10)
        self.assertEqual(state.request(10), SetChange(1, (1, 2), 4, 10))

    def test_a_learner_is_no_member(self) -> None:
        """S0.42: neither does it join, nor stay if it was one."""
        state = master((1, 2))
        attach(state, 2, 100)
        state.connected(3, 3, 0, learner=True)
        state.acked(3, 100, 0)
        self.assertIsNone(state.request(0))
        state.connected(22, 2, 10, learner=True)
        state.acked(22, 100, 10)
        self.assertEqual(state.request(10), SetChange(1, (1,), 4, 10))


class JoiningTests(SynchronousTestCase):
    """S0.61."""

    def test_s0_61_caught_up_is_reported_at_once(self) -> None:
        """It counts from before it is asked for."""
        state = master((1,))
        attach(state, 2, 100)
        self.assertEqual(state.needed, {2})
        self.assertEqual(state.request(0), SetChange(1, (1, 2), 4, 10))
        self.assertTrue(state.take_set((1, 2), 11, 5))
        self.assertEqual((state.members, state.request(5)), ({1, 2}, None))

    def test_not_below_the_epochs_beginning(self) -> None:
        """It may have other bytes there; the confirm offset, without a lease yet, does not say so."""
        state = master((1,), 50, 50)
        attach(state, 3, 50)
        state.disconnected(3, 1)
        state.log_grew(90, 100)
        state.lease.begin(5)
        state.reelected(5, 90, (1,), 20, 100)
        attach(state, 2, 60, 110)
        self.assertEqual((state.needed, state.confirm_offset, state.request(110)), ({2}, 50, None))
        state.acked(2, 90, 120)
        self.assertEqual(state.request(120), SetChange(1, (1, 2), 5, 20))

    def test_not_before_it_has_what_is_confirmed(self) -> None:
        """Near is enough to be waited for, not to be a member, who may be elected."""
        state = master((1,), 50, 50)
        state.log_grew(90, 100)
        state.advance(100)
        attach(state, 2, 89, 110)
        self.assertEqual((state.needed, state.confirm_offset, state.request(110)), ({2}, 90, None))
        state.log_grew(120, 120)
        state.acked(2, 90, 120)
        self.assertFalse(state.advance(120))
        self.assertEqual(state.request(120), SetChange(1, (1, 2), 4, 10))

    def test_joins_under_load(self) -> None:
        """Acknowledgements are always late under load: the confirm offset waits for who is near, so it gets there."""
        state = master((1,), 0, 0)
        state.connected(2, 2, 0)
        asked = None
        for now_ms in range(1, 500):
            state.log_grew(1000 * now_ms, now_ms)
            state.acked(2, 1000 * max(0, now_ms - 30), now_ms)
            state.advance(now_ms)
            asked = asked or state.request(now_ms)
        self.assertEqual(asked, SetChange(1, (1, 2), 4, 10))
        self.assertEqual(state.confirm_offset, 1000 * (499 - 30))

    def test_not_while_it_is_far_behind(self) -> None:
        """Sends do not wait for a catch-up."""
        state = master((1,), 0, 0)
        for now_ms in range(10, 3000, 10):
            state.log_grew(1000 * now_ms, now_ms)
            if now_ms == 1000:
                state.connected(2, 2, now_ms)
            if now_ms >= 1000:
                state.acked(2, 1000 * (now_ms - 400), now_ms)
            state.advance(now_ms)
            self.assertIsNone(state.request(now_ms))
            self.assertEqual((state.needed, state.confirm_offset), (set(), 1000 * now_ms))

    def test_one_that_stalls_is_dropped_for_a_while(self) -> None:
        """Sends waited for it a second; then not again for five."""
        state = master((1,), 100, 100)
        attach(state, 2, 100)
        change = state.request(0)
        assert change is not None
        state.refused(change.number, NOT_LEADER, 1)
        state.log_grew(200, 10)
        self.assertEqual((state.advance(10), state.next_due_ms(10)), (False, 501))
        again = state.request(501)
        assert again is not None
        state.refused(again.number, NOT_LEADER, 510)
        self.assertEqual(state.next_due_ms(510), 1000)
        self.assertIsNone(state.request(1000))
        self.assertTrue(state.advance(1000))
        state.acked(2, 200, 5999)
        self.assertEqual(state.needed, frozenset())
        state.acked(2, 200, 6000)
        self.assertEqual(state.needed, {2})

    def test_one_that_leaves_joins_no_more(self) -> None:
        """Before it was asked for; afterwards it is in doubt."""
        state = master((1,))
        attach(state, 2, 100)
        state.disconnected(2, 1)
        self.assertEqual((state.needed, state.request(1)), (frozenset(), None))
        attach(state, 2, 100, 2, connection=22)
        state.request(2)
        state.disconnected(22, 3)
        self.assertEqual(state.needed, {2})

    def test_one_that_is_refused_keeps_nobody_out(self) -> None:
        """Cleaned out of the controller while it runs; the others join one by one, it is tried every five seconds."""
        state = master((1,), timing=SyncTiming(min_in_sync=2))
        for replica in (2, 3, 4):
            attach(state, replica, 100)
        asked = []
        for now_ms in range(0, 20_000, 100):
            for replica in (2, 3, 4):
                state.acked(replica, 100, now_ms)
            change = state.request(now_ms)
            if change is not None:
                asked.append((now_ms, change.members))
                if 2 in change.members:
                    state.refused(change.number, ResponseCode.CONTROLLER_INVALID_REPLICAS, now_ms)
                else:
                    state.take_set(change.members, change.set_epoch + 1, now_ms)
        joined = [(0, (1, 2, 3, 4)), (500, (1, 2)), (1000, (1, 3)), (1100, (1, 3, 4))]
        self.assertEqual(asked, joined + [(now_ms, (1, 2, 3, 4)) for now_ms in (5500, 10_500, 15_500)])

    def test_one_that_is_paused_holds_nothing_back(self) -> None:
        """Nor is anybody paused for a refusal that is not about it."""
        for code, needed in ((NOT_LEADER, {2}), (NOT_ALIVE, set())):
            state = master((1,))
            attach(state, 2, 100)
            change = state.request(0)
            assert change is not None
            state.refused(change.number, code, 0)
            self.assertEqual(state.needed, needed)

    def test_who_was_refused_and_joined_is_no_suspect(self) -> None:
        """When it joins again it is asked for with the others, and not after them."""
        state = master((1,))
        attach(state, 2, 100)
        change = state.request(0)
        assert change is not None
        state.refused(change.number, NOT_ALIVE, 0)
        state.take_set((1, 2), 11, 10)
        state.take_set((1,), 12, 20)
        attach(state, 3, 100, 6000)
        state.acked(2, 100, 6000)
        self.assertEqual(state.request(6000), SetChange(2, (1, 2, 3), 4, 12))


class AskingTests(SynchronousTestCase):
    """One compare-and-set at a time."""

    def test_a2_an_answer_that_is_lost(self) -> None:
        """The controller may have the larger set: both are needed until its set has a newer epoch."""
        state = master((1,))
        attach(state, 2, 100)
        change = state.request(0)
        assert change is not None
        state.disconnected(2, 5)
        state.unanswered(change.number, 10)
        state.log_grew(200, 20)
        self.assertFalse(state.advance(20))
        self.assertFalse(state.take_set((1,), 10, 30), "the set that is known is no news")
        self.assertFalse(state.advance(30))
        self.assertTrue(state.take_set((1, 2), 11, 40))
        self.assertFalse(state.advance(40))
        self.assertEqual(state.request(300), SetChange(2, (1,), 4, 11))

    def test_a2_a_newer_set_settles_what_was_asked_before_it(self) -> None:
        """It was the compare-and-set that lost."""
        state = master((1,))
        attach(state, 2, 100)
        state.request(0)
        state.disconnected(2, 5)
        state.log_grew(200, 20)
        self.assertTrue(state.take_set((1,), 11, 30))
        self.assertEqual((state.needed, state.advance(30)), (frozenset(), True))

    def test_refused_is_over(self) -> None:
        """It did not happen; asked again after a while."""
        state = master((1, 2))
        attach(state, 2, 100)
        state.disconnected(2, 0)
        change = state.request(200)
        assert change is not None
        self.assertIsNone(state.request(201))
        self.assertIsNone(state.next_due_ms(201))
        state.refused(change.number, NOT_LEADER, 300)
        self.assertEqual(state.next_due_ms(300), 800)
        self.assertIsNone(state.request(799))
        self.assertEqual(state.request(800), SetChange(2, (1,), 4, 10))

    def in_doubt(self) -> SyncState:
        """Set {1, 2}; 3 was asked for, the answer was lost, and 3 died."""
        state = master((1, 2))
        attach(state, 2, 100)
        attach(state, 3, 100)
        change = state.request(0)
        assert change is not None
        state.unanswered(change.number, 10)
        state.disconnected(3, 10)
        state.log_grew(200, 20)
        state.acked(2, 200, 20)
        self.assertFalse(state.advance(20))
        return state

    def test_a_lost_answer_and_a_replica_that_died_is_asked_again(self) -> None:
        """Granted, it is a member that left."""
        state = self.in_doubt()
        self.assertEqual((state.next_due_ms(20), state.request(509)), (510, None))
        self.assertEqual(state.request(510), SetChange(2, (1, 2, 3), 4, 10))
        self.assertTrue(state.take_set((1, 2, 3), 11, 520))
        self.assertEqual(state.request(520), SetChange(3, (1, 2), 4, 11))
        self.assertTrue(state.take_set((1, 2), 12, 530))
        self.assertEqual((state.advance(530), state.confirm_offset, state.request(530)), (True, 200, None))

    def test_refused_for_an_unfit_replica_settles_what_was_asked_before(self) -> None:
        """By a controller that judges in order; nobody else's refusal does, nor another refusal."""
        for code, in_order, settled in ((NOT_ALIVE, True, True), (NOT_ALIVE, False, False), (NOT_LEADER, True, False)):
            state = self.in_doubt()
            change = state.request(510)
            assert change is not None
            state.refused(change.number, code, 520, in_order)
            self.assertEqual((state.advance(520), state.needed == {2}), (settled, settled), (code, in_order))
            self.assertEqual(state.request(1020) is None, settled)

    def test_refused_late_settles_no_newer_change(self) -> None:
        """A set that came to be known was faster than the refusal."""
        state = master((1, 2))
        attach(state, 2, 100)
        attach(state, 3, 100)
        first = state.request(0)
        assert first is not None
        state.take_set((1, 2), 11, 10)
        self.assertEqual(state.request(10), SetChange(2, (1, 2, 3), 4, 11))
        state.refused(first.number, NOT_ALIVE, 20, in_order=True)
        state.disconnected(3, 30)
        self.assertEqual(state.needed, {2, 3})

    def test_one_in_doubt_without_confirmed_bytes_is_not_asked_for(self) -> None:
        """It came back with less; it is needed, and gets there or goes."""
        state = self.in_doubt()
        attach(state, 3, 50, 100, connection=33)
        self.assertIsNone(state.request(510))
        state.disconnected(33, 600)
        self.assertEqual(state.request(600), SetChange(2, (1, 2, 3), 4, 10))

    def test_doubts_do_not_pile_up(self) -> None:
        """An hour without controllers: the same change is in doubt once."""
        state = self.in_doubt()
        for now_ms in range(510, 3_600_000, 1000):
            state.acked(2, 200, now_ms)
            change = state.request(now_ms)
            assert change is not None
            state.unanswered(change.number, now_ms)
        self.assertEqual((len(state._doubtful), state.needed), (1, {2, 3}))

    def test_a2_which_errors_are_refusals(self) -> None:
        """Of an error that does not say that the change cannot happen, nothing is known (SYSTEM_ERROR: it may)."""
        settled = set()
        for code in ResponseCode:
            state = master((1,))
            attach(state, 2, 100)
            change = state.request(0)
            assert change is not None
            state.disconnected(2, 5)
            state.refused(change.number, code, 10)
            state.log_grew(200, 20)
            if state.advance(20):
                settled.add(int(code))
            else:
                self.assertEqual(state.needed, {2}, code)
            attach(state, 2, 200, 100, connection=22)
            self.assertIsNone(state.request(509), code)
            self.assertIsNotNone(state.request(510), code)
        self.assertEqual(settled, {2000, 2002, 2003, 2006, 2007, 2008})

    def test_refused_does_not_settle_another(self) -> None:
        """Of two for one member, one unanswered: still in doubt."""
        state = master((1,))
        attach(state, 2, 100)
        first = state.request(0)
        assert first is not None
        state.unanswered(first.number, 10)
        second = state.request(510)
        assert second is not None
        state.refused(second.number, NOT_LEADER, 520)
        state.disconnected(2, 530)
        self.assertEqual(state.needed, {2})

    def test_an_older_set_is_no_news(self) -> None:
        """Answers overtake each other."""
        state = master((1, 2))
        self.assertFalse(state.take_set((1,), 9, 0))
        self.assertFalse(state.take_set((1,), 10, 0))
        self.assertEqual(state.members, {1, 2})


@attrs.define
class World:
    """A master, its slaves' true logs, and a controller that loses, delays and refuses."""

    state: SyncState
    controllers: frozenset[int]
    set_epoch: int
    lengths: dict[int, int] = attrs.Factory(lambda: {2: 0, 3: 0, 4: 0})
    connections: dict[int, int] = attrs.Factory(dict)
    numbers: int = 0
    now_ms: int = 0
    late: list[SetChange] = attrs.Factory(list)
    open: SetChange | None = None

    def alter(self, change: SetChange) -> bool:
        """The controller's side of 1001."""
        if change.set_epoch != self.set_epoch:
            return False
        self.controllers, self.set_epoch = frozenset(change.members), self.set_epoch + 1
        return True

    def step(self, what: str, replica: int, number: int) -> None:
        """One thing happens."""
        state = self.state
        if what == "write":
            state.log_grew(state.log_end + number, self.now_ms)
        elif what == "wait":
            self.now_ms += number * 40
        elif what == "connect":
            self.numbers += 1
            self.connections[replica] = self.numbers
            state.connected(self.numbers, replica, self.now_ms)
        elif what == "break" and replica in self.connections:
            state.disconnected(self.connections.pop(replica), self.now_ms)
        elif what == "copy" and replica in self.connections:
            self.lengths[replica] = min(state.log_end, self.lengths[replica] + number)
            state.acked(self.connections[replica], self.lengths[replica], self.now_ms)
        elif what == "lease":
            state.lease.confirmed(4, self.now_ms)
        elif what == "poll":
            state.take_set(sorted(self.controllers), self.set_epoch, self.now_ms)
        elif what == "late" and self.late:
            self.alter(self.late.pop())
        elif what == "ask" and self.open is None:
            self.open = state.request(self.now_ms)
        elif what == "answer" and self.open is not None:
            change, self.open = self.open, None
            if number % 4 == 0:
                self.late.append(change)
                state.unanswered(change.number, self.now_ms)
            elif number % 4 == 1:
                self.alter(change)
                state.unanswered(change.number, self.now_ms)
            elif number % 4 == 2 and self.alter(change):
                state.take_set(change.members, self.set_epoch, self.now_ms)
            else:
                unfit = change.set_epoch == self.set_epoch and number % 8 == 3
                if unfit:
                    self.late.clear()
                code = NOT_ALIVE if unfit else NOT_LEADER if change.set_epoch == self.set_epoch else FENCED
                state.refused(change.number, code, self.now_ms, in_order=True)


STEPS = st.lists(
    st.tuples(
        st.sampled_from("write wait connect break copy copy lease poll late ask answer".split()),
        st.integers(2, 4),
        st.integers(0, 60),
    ),
    min_size=10,
    max_size=80,
)


class SafetyTests(SynchronousTestCase):
    """Whatever is lost and delayed: who may be elected has what was confirmed."""

    @settings(max_examples=600, deadline=None)
    @given(st.sampled_from([(1,), (1, 2), (1, 2, 3)]), STEPS)
    def test_every_member_the_controller_may_have_has_what_is_confirmed(
        self, members: tuple[int, ...], steps: list[tuple[str, int, int]]
    ) -> None:
        """Invariants 6, 7 and 15: of the controller's set at any moment; confirm moves forward only, under a lease."""
        lease = Lease(2000)
        lease.begin(4)
        lease.confirmed(4, 0)
        state = SyncState(1, 4, 0, members, 10, 0, ConfirmOffset(), lease, 0)
        state.registered((1, 2, 3, 4), 0)
        world = World(state, frozenset(members), 10)
        for what, replica, number in steps:
            before: Any = state.confirm_offset
            world.step(what, replica, number)
            moved = state.advance(world.now_ms)
            self.assertEqual(moved, state.confirm_offset > before)
            self.assertTrue(before <= state.confirm_offset <= state.log_end)
            if moved:
                self.assertTrue(lease.holds(world.now_ms))
            for member in sorted(world.controllers - {1}):
                self.assertGreaterEqual(world.lengths[member], state.confirm_offset, f"member {member}")
            if what == "ask" and world.open is None:
                due_ms = state.next_due_ms(world.now_ms)
                self.assertTrue(due_ms is None or due_ms > world.now_ms, "asked, nothing to say, and due at once")

    @settings(max_examples=200, deadline=None)
    @given(STEPS)
    def test_the_set_is_full_again_when_all_is_well(self, steps: list[tuple[str, int, int]]) -> None:
        """After any of that, three connected slaves under load are members within a few seconds."""
        lease = Lease(2000)
        lease.begin(4)
        lease.confirmed(4, 0)
        state = SyncState(1, 4, 0, (1, 2), 10, 0, ConfirmOffset(), lease, 0)
        state.registered((1, 2, 3, 4), 0)
        world = World(state, frozenset((1, 2)), 10)
        for what, replica, number in steps:
            world.step(what, replica, number)
            state.advance(world.now_ms)
        for replica in (2, 3, 4):
            world.step("connect", replica, 0)
        for _ in range(200):
            world.step("wait", 0, 1)
            world.step("lease", 0, 0)
            world.step("write", 0, 7)
            for replica in (2, 3, 4):
                world.step("copy", replica, 10_000)
            state.advance(world.now_ms)
            world.step("poll", 0, 0)
            world.step("ask", 0, 0)
            world.step("answer", 0, 2)
        self.assertEqual((state.members, world.controllers), ({1, 2, 3, 4}, {1, 2, 3, 4}))
        self.assertEqual(state.confirm_offset, state.log_end)

    def test_memory_is_bounded(self) -> None:
        """G7: ten thousand reconnects and an hour of growth leave nothing behind."""
        state = master((1, 2), 0, 0)
        for number in range(10_000):
            now_ms = number * 360
            state.log_grew(number, now_ms)
            state.connected(number, 2 + number % 2, now_ms)
            if number % 3:
                state.disconnected(number, now_ms + 1)
            state.connected(20_000 + number, 1000 + number, now_ms)
            state.disconnected(20_000 + number, now_ms)
        held = (len(state.acks._links), len(state._seen), len(state._growth._samples))
        for has, most in zip(held, (2, 2, 15_000 // SAMPLE_MS + 2), strict=True):
            self.assertLessEqual(has, most, held)
