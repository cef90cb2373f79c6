"""Who has how much of the log, and who waits for it (facts/ha-classic.md 3.1, 5.3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import InvariantBroken, RemoteProtocolError
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
