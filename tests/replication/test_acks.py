"""Who has how much of the log, and who waits for it (facts/ha-classic.md 3.1, 5.3)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import InvariantBroken, RemoteProtocolError
from rocketha.replication.ack_waits import ALL, AckWaits
from rocketha.replication.acks import NO_ACK, ReplicaAcks


class ReplicaAcksTests(SynchronousTestCase):
    """One replica is one acknowledgement, and a true one."""

    def setUp(self) -> None:
        self.acks = ReplicaAcks()
        self.acks.connected(1, 2)

    def test_nothing_before_the_first_report(self) -> None:
        """A connection alone acknowledges nothing (A4)."""
        self.assertEqual((self.acks.offset(2), self.acks.reached(2, 100), self.acks.present(2)), (NO_ACK, NO_ACK, True))
        self.assertEqual(self.acks.offset(3), NO_ACK)

    def test_rises(self) -> None:
        """A repeated one is none of news, and fine."""
        self.assertEqual([self.acks.acked(1, offset, 100) for offset in (0, 40, 40, 100)], [True, True, False, True])
        self.assertEqual(self.acks.offset(2), 100)

    def test_a11_an_acknowledgement_beyond_the_log_counts_nothing(self) -> None:
        """The connection is closed; what it said before does not count any more either."""
        self.acks.acked(1, 40, 100)
        caught = self.assertRaises(RemoteProtocolError, self.acks.acked, 1, 101, 100)
        self.assertIn("acknowledges 101: beyond the log's end 100", str(caught))
        self.assertEqual((self.acks.offset(2), self.acks.present(2)), (NO_ACK, False))
        self.assertRaises(RemoteProtocolError, self.acks.acked, 1, 50, 100)

    def test_a12_a_slave_ahead_is_never_counted(self) -> None:
        """Java answers SEND_OK by it."""
        self.assertRaises(RemoteProtocolError, self.acks.acked, 1, 5000, 4000)
        self.assertEqual(self.acks.reached(2, 6000), NO_ACK)

    def test_negative_and_falling_ones(self) -> None:
        """A signed number of the wire, and a stream that goes back."""
        self.assertIn("negative", str(self.assertRaises(RemoteProtocolError, self.acks.acked, 1, -1, 100)))
        self.acks.connected(2, 2)
        self.acks.acked(2, 40, 100)
        caught = self.assertRaises(RemoteProtocolError, self.acks.acked, 2, 39, 100)
        self.assertIn("below 40", str(caught))

    def test_a13_same_replica_twice_is_one_acknowledgement(self) -> None:
        """The newer connection is the replica; the older is named for closing and says nothing any more."""
        self.acks.acked(1, 90, 100)
        self.assertEqual(self.acks.connected(7, 2), 1)
        self.assertEqual((self.acks.offset(2), self.acks.reached(2, 100)), (NO_ACK, NO_ACK))
        self.acks.acked(7, 50, 100)
        self.assertEqual((self.acks.reached(2, 100), self.acks.reached(3, 100)), (50, NO_ACK))
        self.assertRaises(RemoteProtocolError, self.acks.acked, 1, 95, 100)
        self.assertIsNone(self.acks.disconnected(1))
        self.assertEqual((self.acks.offset(2), self.acks.replica(7), self.acks.replica(1)), (50, 2, None))
        self.assertEqual(self.acks.disconnected(7), 2)
        self.assertEqual((self.acks.offset(2), self.acks.present(2)), (NO_ACK, False))

    def test_a13_unregistered_readers_do_not_count(self) -> None:
        """Only those among the members do, however far another reader is."""
        self.acks.connected(2, 99)
        self.acks.acked(1, 10, 100)
        self.acks.acked(2, 100, 100)
        self.assertEqual([self.acks.reached(2, 100, among={1, 2}), self.acks.reached(2, 100)], [10, 100])

    def test_of_another_epoch(self) -> None:
        """It counts in the epoch of its handshake only, or in one that the same master goes on with."""
        self.acks.acked(1, 10, 100)
        self.assertEqual((self.acks.offset(2, 1), self.acks.reached(2, 100, 1)), (NO_ACK, NO_ACK))
        self.acks.connected(2, 3, epoch=-1)
        self.acks.acked(2, 50, 100)
        self.acks.carry_over(0, 1)
        self.assertEqual((self.acks.offset(2, 1), self.acks.reached(2, 100, 1)), (10, 10))
        self.assertEqual((self.acks.offset(3, 1), self.acks.reached(3, 100, 1)), (NO_ACK, NO_ACK))

    def test_reached_by_number(self) -> None:
        """The master is one of them; never beyond its own end."""
        for connection, offset in ((2, 30), (3, 60)):
            self.acks.connected(connection, f"10.0.0.{connection}:40000")
            self.acks.acked(connection, offset, 100)
        self.acks.acked(1, 90, 100)
        self.assertEqual([self.acks.reached(need, 100) for need in (0, 1, 2, 3, 4, 5)], [100, 100, 90, 60, 30, NO_ACK])
        self.assertEqual(self.acks.reached(2, 80), 80)

    def test_one_connection_introduces_itself_once(self) -> None:
        """Its link says so; a second time is our mistake."""
        self.assertRaises(InvariantBroken, self.acks.connected, 1, 3)

    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(-1, 12)), max_size=60))
    def test_counts_replicas_not_connections(self, steps: list[tuple[int, int, int]]) -> None:
        """Never more acknowledgements than replicas, never one that the newest connection of a replica did not send."""
        acks, newest, said, numbers = ReplicaAcks(), {}, {}, iter(range(1000))
        for replica, what, offset in steps:
            if what < 5:
                newest[replica] = next(numbers)
                said.pop(replica, None)
                acks.connected(newest[replica], replica)
            elif what < 7 and replica in newest:
                acks.disconnected(newest.pop(replica))
                said.pop(replica, None)
            elif replica in newest:
                try:
                    acks.acked(newest[replica], offset, 10)
                    said[replica] = offset
                except RemoteProtocolError:
                    self.assertFalse(said.get(replica, 0) <= offset <= 10)
                    del newest[replica]
                    said.pop(replica, None)
            self.assertEqual({each: acks.offset(each) for each in range(4)}, {n: said.get(n, NO_ACK) for n in range(4)})
            found = [acks.reached(need, 10) for need in (2, 3, 4, 5)]
            self.assertEqual(found, (sorted(said.values(), reverse=True) + [NO_ACK] * 4)[:4])


class AckWaitsTests(SynchronousTestCase):
    """Each wait ends once: by its offset, or by its deadline."""

    def setUp(self) -> None:
        self.waits = AckWaits()

    def test_g1_the_deadline_is_of_the_clock(self) -> None:
        """However large the message, and however often its replicas report less than all of it."""
        self.waits.add(1, 64 << 20, 2, 3000)
        for now_ms in range(2999):
            self.assertEqual(self.waits.reached(2, now_ms * 1024), [])
            self.assertEqual(self.waits.expired(now_ms), [])
        self.assertEqual(self.waits.next_due_ms, 3000)
        self.assertEqual(self.waits.reached(2, 64 << 20), [1])
        self.assertEqual((self.waits.expired(3000), self.waits.next_due_ms, len(self.waits)), ([], None, 0))

    def test_g2_a_hopeless_wait_delays_nobody(self) -> None:
        """One that needs three replicas stays; those behind it that need two, or less of the log, go."""
        self.waits.add(1, 100, 3, 3000)
        self.waits.add(2, 200, 2, 3001)
        self.waits.add(3, 150, 2, 3002)
        self.waits.add(4, 250, 2, 3003)
        self.assertEqual(self.waits.reached(2, 200), [3, 2])
        self.assertEqual(self.waits.needs, [2, 3])
        self.assertEqual(self.waits.expired(3000), [1])
        self.assertEqual(self.waits.expired(3003), [4])
        self.assertEqual(self.waits.reached(3, 1000), [])

    def test_what_is_replicated_succeeds_after_its_deadline_too(self) -> None:
        """Java fails a request that was late in its queue without looking."""
        self.waits.add(1, 100, ALL, 3000)
        self.assertEqual(self.waits.reached(ALL, 100), [1])
        self.assertEqual(self.waits.expired(9000), [])

    def test_bounded(self) -> None:
        """One more than there is room for is told so."""
        waits = AckWaits(waits_max=1)
        self.assertEqual([waits.add(1, 10, 2, 100), waits.add(2, 10, 2, 100)], [True, False])
        self.assertEqual(waits.expired(100), [1])
        self.assertTrue(waits.add(2, 10, 2, 100))

    def test_abandon(self) -> None:
        """The role is lost: everybody is told, once."""
        for wait in (3, 1, 2):
            self.waits.add(wait, wait, ALL, 100)
        self.assertEqual((self.waits.abandon(), self.waits.abandon()), ([1, 2, 3], []))
        self.assertEqual((self.waits.reached(ALL, 100), self.waits.expired(1000), self.waits.needs), ([], [], []))

    def test_g7_what_ended_leaves_nothing_behind(self) -> None:
        """Waits that end by their offset do not stay with their deadlines behind one that lasts, nor the reverse."""
        self.waits.add(0, 10, 2, 10**9)
        self.waits.add(1, 10**9, 3, 10**6)
        for wait in range(2, 10_000):
            self.waits.add(wait, 1000, 2, 2000)
            self.waits.expired(2000)
            self.waits.add(wait + 10_000, 5, 2, 10**9)
            self.waits.reached(2, 5)
        held = len(self.waits._deadlines) + sum(map(len, self.waits._by_need.values()))
        self.assertEqual((len(self.waits), held < 300), (2, True))
        self.assertEqual((self.waits.reached(2, 10), self.waits.reached(3, 10**9)), ([0], [1]))

    @settings(max_examples=300)
    @given(
        st.lists(
            st.tuples(st.sampled_from("adt"), st.integers(0, 30), st.sampled_from([ALL, 2, 3]), st.integers(0, 30)),
            max_size=60,
        )
    )
    def test_as_a_plain_list(self, steps: list[tuple[str, int, int, int]]) -> None:
        """The same waits end at the same time as if all were looked at."""
        waits, plain, number = AckWaits(), dict[int, tuple[int, int, int]](), 0
        for what, one, need, two in steps:
            if what == "a":
                number += 1
                waits.add(number, one, need, two)
                plain[number] = (one, need, two)
                continue
            if what == "d":
                found = waits.reached(need, one)
                expected = [wait for wait, each in plain.items() if each[1] == need and each[0] <= one]
                self.assertEqual([plain[wait][0] for wait in found], sorted(plain[wait][0] for wait in expected))
            else:
                found = waits.expired(two)
                expected = [wait for wait, each in plain.items() if each[2] <= two]
            self.assertEqual(sorted(found), expected)
            for wait in found:
                del plain[wait]
            self.assertEqual(waits.next_due_ms, min((each[2] for each in plain.values()), default=None))
            self.assertEqual(len(waits), len(plain))
