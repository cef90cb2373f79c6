"""Membership of groups (Java: ConsumerManager, ConsumerGroupInfo, ProducerManager)."""

from __future__ import annotations

import unittest

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketha.broker.clients import EXPIRY_MS, Clients, GroupChange, Member
from rocketha.broker.heartbeat import BROADCASTING, CLUSTERING, ConsumerData
from rocketha.broker.subscription import SubscriptionData
from tests.broker.support import NOW_MS


def member(connection_id: int, client_id: str = "", now_ms: int = NOW_MS) -> Member:
    return Member(connection_id, f"192.0.2.1:{connection_id}", client_id or f"c{connection_id}", "JAVA", 513, now_ms)


def consumer(group: str = "G", *topics: str, model: str = CLUSTERING, version: int = 1) -> ConsumerData:
    subscriptions = tuple(SubscriptionData(topic, sub_version=version) for topic in topics)
    return ConsumerData(group, message_model=model, subscriptions=subscriptions)


class ConsumerTests(unittest.TestCase):
    """Who joins, who leaves, who is told."""

    def setUp(self) -> None:
        self.clients = Clients()

    def join(self, connection_id: int, data: ConsumerData, now_ms: int = NOW_MS) -> bool:
        return self.clients.register_consumer(member(connection_id, now_ms=now_ms), data, 0, True)

    def test_joining_is_a_change_once(self) -> None:
        """The same heartbeat again changes nothing."""
        self.assertTrue(self.join(1, consumer("G", "T")))
        self.assertFalse(self.join(1, consumer("G", "T")))
        self.assertTrue(self.join(2, consumer("G", "T")))
        group = self.clients.consumers["G"]
        self.assertEqual(self.clients.change(group), GroupChange("G", (1, 2)))

    def test_the_set_of_topics_is_a_change_a_new_expression_is_not(self) -> None:
        """Seen on Java: a newer subVersion replaces the expression without a notification."""
        self.join(1, consumer("G", "T"))
        self.assertTrue(self.join(1, consumer("G", "T", "U")))
        self.assertTrue(self.join(1, consumer("G", "T")))
        newer = ConsumerData("G", subscriptions=(SubscriptionData("T", "a", ("a",), frozenset({97}), 2),))
        self.assertFalse(self.join(1, newer))
        self.assertEqual(self.clients.subscription("G", "T"), newer.subscriptions[0])
        self.assertFalse(self.join(1, consumer("G", "T", version=1)))
        self.assertEqual(self.clients.subscription("G", "T"), newer.subscriptions[0])

    def test_broadcasters_are_not_told(self) -> None:
        """Every member gets everything anyway."""
        self.join(1, consumer("G", "T", model=BROADCASTING))
        self.join(2, consumer("G", "T", model=BROADCASTING))
        self.assertEqual(self.clients.disconnected(1), [])

    def test_a_lost_connection_leaves_all_its_groups(self) -> None:
        """The others are told; a group without members is gone, with what it subscribed to."""
        self.join(1, consumer("G", "T"))
        self.join(2, consumer("G", "T"))
        self.join(1, consumer("H", "T"))
        self.clients.register_producer("P", member(1))
        self.assertEqual(self.clients.groups_of_topic("T"), ["G", "H"])
        self.assertEqual(self.clients.disconnected(1), [GroupChange("G", (2,))])
        self.assertEqual(self.clients.groups_of_topic("T"), ["G"])
        self.assertNotIn("H", self.clients.consumers)
        self.assertNotIn("P", self.clients.producers)
        self.assertEqual(self.clients.disconnected(1), [])

    def test_unregistering(self) -> None:
        """A group by name; another group of the connection stays."""
        self.join(1, consumer("G", "T"))
        self.join(1, consumer("H", "T"))
        self.join(2, consumer("G", "T"))
        self.assertEqual(self.clients.unregister_consumer("G", 1), GroupChange("G", (2,)))
        self.assertIn(1, self.clients.consumers["H"].members)
        self.assertIsNone(self.clients.unregister_consumer("none", 1))
        self.assertIsNone(self.clients.unregister_consumer("G", 2))
        self.assertNotIn("G", self.clients.consumers)

    def test_two_minutes_of_silence(self) -> None:
        """channelExpiredTimeout: 120 s is still there, one ms more is not."""
        self.join(1, consumer("G", "T"))
        self.join(2, consumer("G", "T"), NOW_MS + 1)
        self.assertEqual(self.clients.expire(NOW_MS + EXPIRY_MS), ([], []))
        self.assertEqual(self.clients.expire(NOW_MS + EXPIRY_MS + 1), ([1], [GroupChange("G", (2,))]))
        self.assertEqual(set(self.clients.consumers["G"].members), {2})

    def test_a_heartbeat_keeps_a_member(self) -> None:
        """Also one of the second version, without subscriptions."""
        self.join(1, consumer("G", "T"))
        later = NOW_MS + EXPIRY_MS
        self.clients.register_consumer(member(1, now_ms=later), consumer("G"), 5, False)
        self.assertEqual(self.clients.expire(later + 1), ([], []))
        self.assertEqual(list(self.clients.consumers["G"].subscriptions), ["T"])

    def test_when_somebody_asked_for_messages(self) -> None:
        """Of members only: nothing is kept of other connections, or of those that are gone."""
        self.join(1, consumer("G", "T"))
        self.assertIsNone(self.clients.purpose(1, NOW_MS)["pulledSecondsAgo"])
        for number in (1, 2):
            self.clients.pulled(number, NOW_MS)
        self.assertEqual(self.clients.purpose(1, NOW_MS + 1500)["pulledSecondsAgo"], 1.5)
        self.assertIsNone(self.clients.purpose(2, NOW_MS + 1500)["pulledSecondsAgo"])
        self.clients.disconnected(1)
        self.assertIsNone(self.clients.purpose(1, NOW_MS + 1500)["pulledSecondsAgo"])

    def test_silent_producers_go_too(self) -> None:
        """A producer without consumers."""
        self.clients.register_producer("P", member(7))
        self.assertEqual(self.clients.expire(NOW_MS + EXPIRY_MS + 1), ([7], []))
        self.assertEqual(self.clients.producers, {})

    def test_another_client_id_on_the_same_connection(self) -> None:
        """As in Java it replaces the member and counts as no change."""
        self.join(1, consumer("G", "T"))
        again = self.clients.register_consumer(member(1, "other"), consumer("G", "T"), 0, True)
        self.assertFalse(again)
        self.assertIsNotNone(self.clients.find_consumer("G", "other"))
        self.assertIsNone(self.clients.find_consumer("G", "c1"))


class Unsorted(str):
    """The name of a group that may not be compared with others: of many that would take long."""

    def __lt__(self, other: str) -> bool:
        raise AssertionError("names of groups are sorted")


class ManyGroupsTests(unittest.TestCase):
    """What is asked of a client for every request of its that is refused, and every row of one."""

    def test_the_client_of_a_connection(self) -> None:
        """Is known without a look at all its groups."""
        clients = Clients()
        for number in range(3):
            clients.register_consumer(member(1), consumer(Unsorted(f"G{number}")), 0, True)
        self.assertEqual(clients.client_id(1), "c1")
        clients.unregister_consumer("G0", 1)
        self.assertEqual(clients.client_id(1), "c1")
        for number in (1, 2):
            clients.unregister_consumer(f"G{number}", 1)
        self.assertIsNone(clients.client_id(1))
        clients.register_producer("P", member(1))
        self.assertEqual(clients.client_id(1), "c1")


class MembershipMachine(RuleBasedStateMachine):
    """Any order of joins, leaves and losses leaves the indexes true to the groups."""

    def __init__(self) -> None:
        super().__init__()
        self.clients = Clients()
        self.now_ms = NOW_MS

    connections = st.integers(1, 4)
    groups = st.sampled_from("GHI")
    topics = st.sets(st.sampled_from("TUV"))

    @rule(connection=connections, group=groups, topics=topics, with_sub=st.booleans())
    def join(self, connection: int, group: str, topics: set[str], with_sub: bool) -> None:
        data = consumer(group, *sorted(topics))
        self.clients.register_consumer(member(connection, now_ms=self.now_ms), data, 1, with_sub)

    @rule(connection=connections, group=groups)
    def produce(self, connection: int, group: str) -> None:
        self.clients.register_producer(group, member(connection, now_ms=self.now_ms))

    @rule(connection=connections, group=groups)
    def leave(self, connection: int, group: str) -> None:
        self.clients.unregister_consumer(group, connection)

    @rule(connection=connections, group=groups)
    def stop_producing(self, connection: int, group: str) -> None:
        self.clients.unregister_producer(group, connection)

    @rule(connection=connections)
    def lose(self, connection: int) -> None:
        self.clients.disconnected(connection)

    @rule(step=st.sampled_from([1000, EXPIRY_MS + 1]))
    def wait(self, step: int) -> None:
        self.now_ms += step
        self.clients.expire(self.now_ms)

    @invariant()
    def indexes_agree(self) -> None:
        consumers, producers = self.clients.consumers, self.clients.producers
        assert all(group.members for group in consumers.values())
        assert all(producers.values())
        for topic in "TUV":
            holders = sorted(name for name, group in consumers.items() if topic in group.subscriptions)
            assert self.clients.groups_of_topic(topic) == holders
        present = {key for group in consumers.values() for key in group.members}
        present |= {key for members in producers.values() for key in members}
        assert set(self.clients._memberships) == present


MembershipTests = MembershipMachine.TestCase
MembershipTests.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
