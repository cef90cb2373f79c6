"""The heartbeat table (facts: Java's DefaultBrokerHeartbeatManager) and attended time."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller.liveness import Heartbeat, Liveness, ReplicaKey

ONE = ReplicaKey("C", "broker-a", 1)
TWO = ReplicaKey("C", "broker-a", 2)


def beat(epoch: int = 1, max_offset: int = 100, timeout_ms: int = 10_000, confirm: int = 0) -> Heartbeat:
    """What a broker says."""
    return Heartbeat("10.0.0.1:10911", epoch, max_offset, confirm, timeout_ms)


class LivenessTests(SynchronousTestCase):
    """Alive, dead, and how old the news is."""

    def setUp(self) -> None:
        self.table = Liveness()

    def test_never_heard(self) -> None:
        """Not alive, nothing known, and its first heartbeat is waited for as long as a default one holds."""
        found = (
            self.table.alive(ONE, 0),
            self.table.last(ONE),
            self.table.age_ms(ONE, 0),
            self.table.connected(ONE),
            self.table.holds_ms(ONE),
        )
        self.assertEqual(found, (False, None, None, False, 10_000))

    def test_holds_as_long_as_it_announced(self) -> None:
        """Up to and including the last millisecond, as Java's."""
        self.table.heard(ONE, beat(timeout_ms=3000), 7, 1000)
        self.assertEqual([self.table.alive(ONE, now) for now in (1000, 4000, 4001)], [True, True, False])
        self.assertEqual(self.table.age_ms(ONE, 1500), 500)

    def test_own_lease_may_be_shorter_but_not_longer(self) -> None:
        """The controller's lease caps what the broker announces."""
        table = Liveness(lease_ms=5000)
        table.heard(ONE, beat(timeout_ms=10_000), 7, 0)
        table.heard(TWO, beat(timeout_ms=2000), 8, 0)
        self.assertEqual([table.holds_ms(ONE), table.holds_ms(TWO)], [5000, 2000])
        self.assertEqual([table.alive(ONE, 5001), table.alive(TWO, 2001)], [False, False])

    def test_same_name_in_two_clusters(self) -> None:
        """Regression B5."""
        self.table.heard(ONE, beat(), 7, 0)
        self.assertFalse(self.table.alive(ONE._replace(cluster="D"), 0))

    def test_offsets_move_forward_on_one_connection(self) -> None:
        """An older heartbeat renews the lease but takes nothing back."""
        self.table.heard(ONE, beat(2, 500, confirm=400), 7, 0)
        self.table.heard(ONE, beat(1, 900, 3000), 7, 10)
        self.assertEqual(self.table.last(ONE), beat(2, 500, 3000, 400))
        self.table.heard(ONE, beat(2, 499), 7, 20)
        self.assertEqual(self.table.last(ONE), beat(2, 500, confirm=400))
        self.table.heard(ONE, beat(3, 10), 7, 30)
        self.assertEqual(self.table.last(ONE), beat(3, 10))

    def test_new_connection_is_believed(self) -> None:
        """The broker came back with an empty disk: it must not be elected for what it no longer has."""
        self.table.heard(ONE, beat(5, 900), 7, 0)
        self.table.heard(ONE, beat(-1, 0), 8, 10)
        self.assertEqual(self.table.last(ONE), beat(-1, 0))

    def test_connection_lost(self) -> None:
        """Names those that were last heard by it; nobody dies of it (regression A24)."""
        self.table.heard(TWO, beat(), 7, 0)
        self.table.heard(ONE, beat(), 7, 0)
        self.assertEqual(self.table.connection_lost(7), (ONE, TWO))
        self.assertEqual((self.table.alive(ONE, 1), self.table.connected(ONE)), (True, False))
        self.assertEqual(self.table.connection_lost(7), ())

    def test_old_connection_closing_means_nothing(self) -> None:
        """The broker reconnected before the old connection was seen to close (Java keeps the first: a quirk)."""
        self.table.heard(ONE, beat(), 7, 0)
        self.table.heard(ONE, beat(), 8, 10)
        self.assertEqual(self.table.connection_lost(7), ())
        self.assertTrue(self.table.connected(ONE))
        self.assertEqual(self.table.connection_lost(8), (ONE,))

    def test_proven_dead_until_heard(self) -> None:
        """Whatever its heartbeat announced."""
        self.table.heard(ONE, beat(), 7, 0)
        self.table.died(ONE)
        self.assertFalse(self.table.alive(ONE, 1))
        self.table.heard(ONE, beat(), 7, 2)
        self.assertTrue(self.table.alive(ONE, 2))

    def test_port_that_answers_keeps_it_alive(self) -> None:
        """But is no heartbeat: its age goes on."""
        self.table.heard(ONE, beat(timeout_ms=1000), 7, 0)
        self.table.proved(ONE, 900)
        self.assertEqual((self.table.alive(ONE, 1800), self.table.age_ms(ONE, 1800)), (True, 1800))

    def test_port_that_answers_of_one_never_heard(self) -> None:
        """Alive for the default time, with nothing known of its log."""
        self.table.proved(ONE, 100)
        self.assertEqual(
            (self.table.alive(ONE, 10_100), self.table.alive(ONE, 10_101), self.table.last(ONE)), (True, False, None)
        )
        self.assertEqual((self.table.age_ms(ONE, 200), self.table.silent(0, 200)), (None, []))

    def test_silent_ones_oldest_first(self) -> None:
        """By their last heartbeat, not by their first."""
        self.table.heard(ONE, beat(), 7, 0)
        self.table.heard(TWO, beat(), 8, 10)
        self.table.heard(ONE, beat(), 7, 20)
        self.assertEqual(self.table.silent(100, 110), [])
        self.assertEqual(self.table.silent(100, 111), [TWO])
        self.assertEqual(self.table.silent(100, 121), [TWO, ONE])

    def late(self, *gaps_ms: int, least_ms: int = 1200, connection: int = 7) -> int:
        """How old the last heartbeat may be after these gaps between heartbeats."""
        now_ms = 0
        self.table = Liveness()
        self.table.heard(ONE, beat(), 7, now_ms)
        for gap_ms in gaps_ms:
            now_ms += gap_ms
            self.table.heard(ONE, beat(), connection, now_ms)
        return next(age - 1 for age in range(20_000) if self.table.silent(least_ms, now_ms + age))

    def test_punctual_broker_is_given_the_least(self) -> None:
        """One whose heartbeats were never heard to be late, too."""
        self.assertEqual([self.late(), self.late(1000), self.late(*[1000] * 50), self.late(*[200] * 50)], [1200] * 4)

    def test_late_broker_is_given_twice_its_lateness_more(self) -> None:
        """On top of what its usual gap allows; twice the least at most."""
        self.assertEqual(self.late(*[1000] * 5, 1200), 1025 + 205 + 400)
        self.assertEqual(self.late(*[1000] * 5, 3000), 2400)

    def test_lateness_is_forgotten(self) -> None:
        """Slowly: one that was 0.5 s late is trusted again after half a minute."""
        lates = [self.late(*[1000] * 5, 1500, *[1000] * count) for count in (0, 1, 5, 10, 30)]
        self.assertEqual((lates, lates[-1]), (sorted(lates, reverse=True), 1226))

    def test_heartbeats_out_of_turn_say_nothing(self) -> None:
        """As at a change of role: the next one comes at its own time."""
        self.assertEqual(self.late(*[1000] * 5, 100, 1000), 1200)

    def test_first_heartbeats_say_little(self) -> None:
        """A registration's, then the first one in turn: none of the later ones was late."""
        self.assertEqual(self.late(20, 500, 1000, 1000), 1200)

    def test_long_spell_is_forgotten(self) -> None:
        """A controller that follows hears a frozen broker thaw without having thought it dead."""
        self.assertEqual(self.late(*[1000] * 10, 12_000), 2400)
        self.assertLess(self.late(*[1000] * 10, 12_000, *[1000] * 40), 1250)
        self.assertLess(self.late(*[1000] * 10, *[3000] * 7, *[1000] * 60), 1250)

    def test_lease_that_is_shorter_than_the_patience(self) -> None:
        """It is named before it is set aside."""
        self.table = Liveness(lease_ms=1000)
        for now_ms in (0, 1000, 2000, 3000, 4900):
            self.table.heard(ONE, beat(), 7, now_ms)
        self.assertEqual(self.table.silent(1200, 4900 + 2000), [])
        self.assertEqual(self.table.silent(1200, 4900 + 2001), [ONE])

    def test_slow_rhythm(self) -> None:
        """``brokerHeartbeatInterval=2000``: not suspected before each heartbeat."""
        self.assertEqual(self.late(*[2000] * 5), 2400)

    def test_each_connection_has_its_own_rhythm(self) -> None:
        """A broker that was started anew was not late, it was away."""
        self.assertEqual(self.late(1000, 9000, connection=8), 2400)
        self.table.heard(ONE, beat(), 9, 20_000)
        self.assertEqual(self.table.silent(1200, 21_201), [ONE])

    def test_return_of_the_dead_is_not_late(self) -> None:
        """A frozen broker that was replaced and thaws: its heartbeats had stopped."""
        self.table.heard(ONE, beat(), 7, 0)
        self.table.heard(ONE, beat(), 7, 1000)
        self.table.died(ONE)
        self.table.heard(ONE, beat(), 7, 9000)
        self.assertEqual(self.table.silent(1200, 10_201), [ONE])

    def test_long_gone_ones_are_named_once_and_remembered(self) -> None:
        """A thousand dead brokers do not cost every tick; their age is still known, and they may come back."""
        self.table.heard(ONE, beat(timeout_ms=1000), 7, 0)
        self.assertEqual(self.table.silent(100, 2001), [ONE])
        self.assertEqual((self.table.silent(100, 2002), len(self.table)), ([], 0))
        self.assertEqual((self.table.age_ms(ONE, 3000), self.table.last(ONE)), (3000, beat(timeout_ms=1000)))
        self.table.heard(ONE, beat(), 7, 4000)
        self.assertEqual((self.table.alive(ONE, 4000), list(self.table)), (True, [ONE]))

    def test_table_is_bounded(self) -> None:
        """The one heard longest ago gives way."""
        table = Liveness(replicas_max=2)
        for number in range(5):
            table.heard(ReplicaKey("C", "b", number), beat(), number, number)
        self.assertEqual([key.broker_id for key in table], [3, 4])
        self.assertEqual(table.connection_lost(0), ())

    def test_who_lives_at_an_address(self) -> None:
        """Whoever was heard last to; nobody where that one has moved on, is forgotten or heard no more."""
        here, there = beat(), beat()._replace(address="10.0.0.2:10911")

        def found(now_ms: int) -> tuple[ReplicaKey | None, ReplicaKey | None, bool]:
            """Who lives here, who there, and whether ONE's place here is taken."""
            at = [self.table.at(each.address, now_ms) for each in (here, there)]
            return at[0], at[1], self.table.taken(here.address, ONE, now_ms)

        self.assertEqual(found(0), (None, None, False))
        self.table.heard(ONE, here, 7, 0)
        self.assertEqual(found(0), (ONE, None, False))
        self.table.connection_lost(7)
        self.table.heard(TWO, here, 8, 10)
        self.assertEqual(found(10), (TWO, None, True))
        self.assertEqual(found(10_011), (None, None, False))
        self.table.heard(ONE, there, 9, 20)
        self.table.heard(TWO, here, 8, 30)
        self.assertEqual(found(30), (TWO, ONE, True))
        self.table.heard(TWO, there, 8, 40)
        self.assertEqual(found(40), (None, TWO, False))
        self.table.forget(ONE)
        self.assertEqual(found(40), (None, TWO, False))
        self.table.forget(TWO)
        self.assertEqual((found(40), self.table._by_address), ((None, None, False), {}))
        self.assertFalse(self.table.taken(None, ONE, 40))

    def test_forget(self) -> None:
        """Metadata was cleaned."""
        self.table.heard(ONE, beat(), 7, 0)
        self.table.forget(ONE)
        self.assertEqual((self.table.alive(ONE, 0), self.table.connection_lost(7)), (False, ()))


class HeldTests(SynchronousTestCase):
    """Heartbeats in the name of one whose connection is open."""

    def test_a_silent_one(self) -> None:
        """Only once its port has answered, its connection has closed, or its lease is over; dead or not."""
        for dead in (False, True):
            table, key = Liveness(held_ms=1200), ReplicaKey("c", "b", 1)
            table.heard(key, Heartbeat("h:1"), 7, 0)
            if dead:
                table.died(key)
            self.assertTrue(table.held(key, 8, 5000))
            self.assertFalse(table.held(key, 7, 5000))
            self.assertFalse(table.held(key, 8, 10_001))
            table.proved(key, 4000)
            self.assertFalse(table.held(key, 8, 5000))
        table.heard(key, Heartbeat("h:1"), 7, 6000)
        table.connection_lost(7)
        self.assertFalse(table.held(key, 8, 6001))

    def test_from_the_same_host(self) -> None:
        """A broker that comes back after a partition, while what it was heard by before is still open here."""
        table, key = Liveness(held_ms=1200), ReplicaKey("c", "b", 1)
        table.heard(key, Heartbeat("h:1"), 7, 0)
        table.came_from(key, "10.0.0.1")
        self.assertTrue(table.held(key, 8, 1000, "10.0.0.1"))
        self.assertFalse(table.held(key, 8, 5000, "10.0.0.1"))
        self.assertTrue(table.held(key, 8, 5000, "10.0.0.2"))

    def test_one_that_moved(self) -> None:
        """What was open there holds nothing for it any more."""
        table, key = Liveness(held_ms=1200), ReplicaKey("c", "b", 1)
        table.heard(key, Heartbeat("h:1"), 7, 0)
        self.assertTrue(table.held(key, 8, 5000))
        table.moved(key)
        self.assertFalse(table.held(key, 8, 5000))
        self.assertEqual(table.by_connection(7), ())
