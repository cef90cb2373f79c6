"""The rules of registration and removal (facts: RouteInfoManager; regressions B1, B2, B5)."""

from __future__ import annotations

import contextlib
import unittest

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketha.errors import RequestRefused
from rocketha.namesrv.answers import cluster_info, topic_route
from rocketha.namesrv.data_version import DataVersion
from rocketha.namesrv.effects import (
    Address,
    BrokerAppeared,
    BrokerRejected,
    BrokerRemoved,
    NameShared,
    NotifyMinBrokerId,
)
from rocketha.namesrv.register_body import RegisterBody, Topic
from rocketha.namesrv.route_table import BrokerKey, QueueData, RouteTable
from rocketha.services.config.loading import NamesrvConfig
from tests.namesrv.helpers import body, registration

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
KEY = BrokerKey("C", "broker-a")


def table(**keys: object) -> RouteTable:
    return RouteTable(NamesrvConfig(**keys))  # type: ignore[arg-type]


class RegistrationTests(unittest.TestCase):
    """One method a rule of RouteInfoManager.registerBroker."""

    def test_first(self) -> None:
        """A master brings its topics and is told nothing."""
        routes = table()
        found = routes.register(registration(), 1000)
        self.assertEqual(found, (None, None, [BrokerAppeared(Address("C", A), "broker-a", 0)]))
        self.assertEqual(routes.brokers[KEY].addresses, {0: A})
        self.assertEqual(routes.topics, {"T1": {KEY: QueueData(4, 4, 6)}, "T2": {KEY: QueueData(4, 4, 6)}})
        live = routes.live[Address("C", A)]
        self.assertEqual((live.heard_ms, live.timeout_ms, live.ha_address), (1000, 120_000, "ha-" + A))

    def test_first_with_one_topic_is_refused(self) -> None:
        """A body of one topic is an update of a registration that must be there; nothing changes (Java keeps an empty
        broker behind)."""
        routes = table()
        with self.assertRaises(RequestRefused) as caught:
            routes.register(registration(content=body(["T1"])), 0)
        self.assertEqual((caught.exception.code, caught.exception.remark), (1, "register broker failed"))
        self.assertEqual((routes.brokers, routes.live), ({}, {}))
        routes.register(registration(content=body([])), 0)
        routes.register(registration(content=body(["T1"])), 0)
        self.assertEqual(list(routes.topics), ["T1"])
        with self.assertRaises(RequestRefused):
            routes.register(registration(broker_id=1, address=B, content=body(["T1"])), 0)

    def test_one_topic_updates_and_keeps_the_others(self) -> None:
        """After a topic's creation a broker registers that topic alone."""
        routes = table(delete_topic_with_broker_registration=True)
        routes.register(registration(), 0)
        routes.register(registration(content=body(["T3"], counter=2)), 0)
        self.assertEqual(sorted(routes.topics), ["T1", "T2", "T3"])

    def test_slave_is_told_its_master_and_brings_no_topics(self) -> None:
        """Java slaves synchronise their metadata from masterAddr of this answer."""
        routes = table()
        routes.register(registration(), 0)
        found = routes.register(registration(address=B, broker_id=1, content=body(["T8", "T9"])), 0)
        self.assertEqual((found.master_address, found.ha_address), (A, "ha-" + A))
        self.assertEqual(sorted(routes.topics), ["T1", "T2"])
        self.assertEqual(routes.brokers[KEY].addresses, {0: A, 1: B})

    def test_slave_without_master(self) -> None:
        """No address is made up."""
        self.assertEqual(table().register(registration(broker_id=1), 0)[:2], (None, None))

    def test_prime_slave_brings_topics(self) -> None:
        """The lowest id of a new-style broker, while there is no master; with acting master they are read-only."""
        for acting, wanted in ((None, None), (False, 6), (True, 4)):
            with self.subTest(acting=acting):
                routes = table()
                routes.register(registration(broker_id=2, enable_acting_master=acting), 0)
                queues = routes.topics.get("T1", {}).get(KEY)
                self.assertEqual(queues.perm if queues is not None else None, wanted)

    def test_one_address_has_one_id(self) -> None:
        """A slave that became master leaves its old id (seen live in every election)."""
        routes = table()
        routes.register(registration(broker_id=2, address=B, content=body(state_version=1)), 0)
        routes.register(registration(broker_id=0, address=B, content=body(state_version=2)), 0)
        self.assertEqual(routes.brokers[KEY].addresses, {0: B})

    def test_b1_larger_epoch_wins_whatever_the_order(self) -> None:
        """Regression B1 (#6316): of two masters the one with the larger state version is kept."""
        old = registration(address=A, content=body(["OLD", "OLD2"], state_version=4), connection=1)
        new = registration(address=B, content=body(["NEW", "NEW2"], state_version=5), connection=2)
        for order in ((old, new), (new, old), (old, new, old), (new, old, old)):
            with self.subTest(order=[request.address for request in order]):
                routes = table()
                for request in order:
                    found = routes.register(request, 0)
                self.assertEqual(routes.brokers[KEY].addresses, {0: B})
                if order[-1] is old:
                    rejected = BrokerRejected(Address("C", A), "broker-a", 0, B, 4, 5)
                    self.assertEqual(found.effects[0], rejected)
                    self.assertNotIn(Address("C", A), routes.live)
                    self.assertEqual(found[:2], (None, None))

    def test_equal_epochs_the_last_wins(self) -> None:
        """Without a controller all state versions are 0: an address change is taken."""
        routes = table()
        routes.register(registration(address=A), 0)
        routes.register(registration(address=B), 0)
        self.assertEqual(routes.brokers[KEY].addresses, {0: B})

    def test_stale_master_leaves_the_id_it_had(self) -> None:
        """An address that claims a newer master's id is not its slave any more."""
        routes = table()
        routes.register(registration(address=B, content=body(state_version=5)), 0)
        routes.register(registration(address=A, broker_id=2, content=body(state_version=4)), 0)
        routes.register(registration(address=A, broker_id=0, content=body(state_version=4)), 0)
        self.assertEqual(routes.brokers[KEY].addresses, {0: B})

    def test_renamed_broker_leaves_its_old_name(self) -> None:
        """One address under two names would keep the old routes for ever."""
        routes = table()
        routes.register(registration(), 0)
        effects = routes.register(registration(name="broker-b"), 0).effects
        self.assertIn(BrokerRemoved(Address("C", A), "broker-a", 0, "it registered as broker-b"), effects)
        self.assertEqual(list(routes.brokers), [BrokerKey("C", "broker-b")])
        self.assertEqual(list(routes.topics["T1"]), [BrokerKey("C", "broker-b")])

    def test_same_version_changes_nothing_but_fills_holes(self) -> None:
        """wipeWritePerm survives the periodic registration; a deleted topic comes back."""
        routes = table()
        routes.register(registration(), 0)
        self.assertEqual(routes.wipe_write_perm("broker-a"), 2)
        routes.delete_topic("T2")
        routes.register(registration(), 0)
        self.assertEqual([routes.topics[name][KEY].perm for name in ("T1", "T2")], [4, 6])
        routes.register(registration(content=body(counter=2)), 0)
        self.assertEqual(routes.topics["T1"][KEY].perm, 6)

    def test_vanished_topics(self) -> None:
        """Kept by default; deleted with deleteTopicWithBrokerRegistration, unless there are static topics."""
        mapping = {"S": {"topic": "S", "bname": "broker-a"}}
        for delete, mappings, wanted in (
            (False, {}, ["T1", "T2", "T3", "broker-a"]),
            (True, {}, ["T2", "T3", "broker-a"]),
            (True, mapping, ["T1", "T2", "T3", "broker-a"]),
        ):
            with self.subTest(delete=delete, mappings=mappings):
                routes = table(delete_topic_with_broker_registration=delete)
                routes.register(registration(), 0)
                content = RegisterBody(DataVersion(0, 5, 2), (Topic("broker-a"), Topic("T2"), Topic("T3")), mappings)
                routes.register(registration(content=content), 0)
                self.assertEqual(sorted(routes.topics), wanted)

    def test_vanished_topics_of_a_broker_that_registers_in_parts(self) -> None:
        """What is in another part is not gone; what is in none of two rounds is; wherever the broker's own topic is."""
        for own in range(3):
            with self.subTest(own=own):
                routes = table(delete_topic_with_broker_registration=True)
                parts = [[Topic(f"T{part}{number}") for number in range(3)] for part in range(3)]
                parts[own].append(Topic("broker-a"))

                def register(version: int, parts: list[list[Topic]] = parts, routes: RouteTable = routes) -> None:
                    for part in parts:
                        content = RegisterBody(DataVersion(0, 5, version), tuple(part))
                        routes.register(registration(content=content), 0)

                register(1)
                everything = sorted(topic.name for part in parts for topic in part)
                for _ in range(4):
                    register(1)
                    self.assertEqual(sorted(routes.topics), everything)
                first, last = parts[0].pop(0).name, parts[2].pop(1).name
                routes.register(registration(content=RegisterBody(DataVersion(0, 5, 2), (Topic("T99"),))), 0)
                parts[1].append(Topic("T99"))
                for _ in range(4):
                    register(2)
                self.assertEqual(sorted(routes.topics), sorted({*everything, "T99"} - {first, last}))

    def test_parts_of_one_version(self) -> None:
        """Java 5.5.0 gives all parts one version: what changed in a later one is taken in all the same."""
        routes = table()
        for queues in (4, 8):
            for part in ("broker-a", "T1"), ("T2", "T3"):
                topics = tuple(Topic(name, queues, queues) for name in part)
                routes.register(registration(content=RegisterBody(DataVersion(0, 5, queues), topics)), 0)
        self.assertEqual({routes.topics[name][KEY].read_queues for name in ("T1", "T2", "T3")}, {8})
        routes.wipe_write_perm("broker-a")  # an operator's word stands until the broker says something new
        routes.register(registration(content=RegisterBody(DataVersion(0, 5, 8), (Topic("T2", 8, 8), Topic("x")))), 0)
        self.assertEqual(routes.topics["T2"][KEY].perm, 4)

    def test_static_topic_mappings(self) -> None:
        """Kept by topic and broker name; gone with the topic."""
        mapping = {"topic": "T1", "bname": "broker-a", "totalQueues": 8}
        routes = table()
        routes.register(registration(content=RegisterBody(DataVersion(), (), {"T1": mapping})), 0)
        self.assertEqual(routes.mappings, {"T1": {"broker-a": mapping}})
        routes.delete_topic("T1")
        self.assertEqual(routes.mappings, {})

    def test_filter_servers(self) -> None:
        """A list replaces, an empty list clears, an old broker that says nothing leaves them."""
        routes = table()
        here = Address("C", A)
        for servers, wanted in ((("f:1",), ("f:1",)), (None, ("f:1",)), ((), None)):
            content = attrs.evolve(body(), filter_servers=servers)
            routes.register(registration(content=content), 0)
            self.assertEqual(routes.filter_servers.get(here), wanted)

    def test_limits(self) -> None:
        """brokersMax and topicsMax refuse what is new; what is known may always renew."""
        routes = table(brokers_max=1, topics_max=3)
        routes.register(registration(), 0)
        for request in (
            registration(name="broker-b", address=B),
            registration(content=body(["T3", "T4"], counter=2)),
        ):
            with self.assertRaises(RequestRefused) as caught:
                routes.register(request, 0)
            self.assertIn("Max=", caught.exception.remark)
        routes.register(registration(content=body(["T1", "T2"], counter=3)), 0)
        routes.register(registration(content=body(["T3"], counter=4)), 0)
        self.assertEqual(len(routes.topics), 3)
        with self.assertRaises(RequestRefused):
            routes.register_topic("T9", {"broker-a": QueueData(1, 1, 6)})

    def test_new_minimum_is_told_to_the_others(self) -> None:
        """905 goes to all but the newcomer, only with notifyMinBrokerIdChanged."""
        for enabled in (False, True):
            routes = table(notify_min_broker_id_changed=enabled)
            routes.register(registration(broker_id=2, address=B), 0)
            effects = routes.register(registration(broker_id=0, address=A), 0).effects
            told = [effect for effect in effects if isinstance(effect, NotifyMinBrokerId)]
            self.assertEqual(routes.register(registration(broker_id=0, address=A), 0).effects, [])
            self.assertEqual(told, [NotifyMinBrokerId((B,), 0, A, ha_address="ha-" + A)] if enabled else [])
        self.assertEqual(told[0].fields(), {"minBrokerId": "0", "minBrokerAddr": A, "haBrokerAddr": "ha-" + A})

    def test_promoted_slave_alone_is_told_itself(self) -> None:
        """A single member that lowers the minimum is the only one there is to tell."""
        routes = table(notify_min_broker_id_changed=True)
        routes.register(registration(broker_id=2, address=B), 0)
        effects = routes.register(registration(broker_id=0, address=B), 0).effects
        self.assertEqual(effects, [NotifyMinBrokerId((B,), 0, B, ha_address="ha-" + B)])


class RemovalTests(unittest.TestCase):
    """Unregistration and what remains."""

    def test_last_address_takes_name_topics_and_cluster(self) -> None:
        """Nothing of a broker is left behind."""
        routes = table()
        routes.register(registration(), 0)
        effects = routes.unregister(Address("C", A), 1)
        self.assertEqual(effects, [BrokerRemoved(Address("C", A), "broker-a", 0, "it unregistered")])
        self.assertEqual((routes.brokers, routes.topics, routes.live, routes.clusters()), ({}, {}, {}, {}))

    def test_slave_remains(self) -> None:
        """Topics and the slave's own id stay: consumers go on."""
        routes = table()
        routes.register(registration(), 0)
        routes.register(registration(broker_id=1, address=B), 0)
        routes.unregister(Address("C", A), 1)
        self.assertEqual(routes.brokers[KEY].addresses, {1: B})
        self.assertEqual(routes.topics["T1"][KEY].perm, 6)

    def test_acting_master_remains_read_only(self) -> None:
        """With enableActingMaster the write bit goes with the master, and the others are told."""
        routes = table(notify_min_broker_id_changed=True)
        routes.register(registration(enable_acting_master=True), 0)
        for broker_id, address in ((1, B), (2, "10.0.0.3:10911"), (3, "10.0.0.4:10911")):
            routes.register(registration(broker_id=broker_id, address=address, enable_acting_master=True), 0)
        self.assertEqual(len(routes.unregister(Address("C", "10.0.0.4:10911"), 1)), 1)
        self.assertEqual(routes.topics["T1"][KEY].perm, 6)
        effects = routes.unregister(Address("C", A), 1)
        told = NotifyMinBrokerId((B, "10.0.0.3:10911"), 1, B, offline_address=A)
        self.assertEqual(effects[1:], [told])
        self.assertEqual(told.fields(), {"minBrokerId": "1", "minBrokerAddr": B, "offlineBrokerAddr": A})
        self.assertEqual(routes.topics["T1"][KEY].perm, 4)
        self.assertEqual(routes.unregister(Address("C", "10.0.0.3:10911"), 1)[1:], [])

    def test_by_address_whatever_the_name(self) -> None:
        """As in Java the address counts; an unknown one is nothing."""
        routes = table()
        routes.register(registration(), 0)
        self.assertEqual(routes.unregister(Address("C", B), 9), [])
        self.assertEqual(routes.unregister(Address("D", A), 9), [])
        self.assertEqual(len(routes.brokers), 1)

    def test_b2_stale_unregister_is_void(self) -> None:
        """Regression B2 (#5374, #11043): the broker registered anew by a younger connection before its old process's
        unregistration was read.  No younger connection of a stranger's counts either."""
        routes = table()
        routes.register(registration(connection=1), 0)
        routes.register(registration(connection=5), 0)
        for connection in (1, 6):
            with self.assertRaisesRegex(RequestRefused, "registered by another connection"):
                routes.unregister(Address("C", A), connection)
        self.assertEqual(routes.brokers[KEY].addresses, {0: A})
        routes.unregister(Address("C", A), 5)
        self.assertEqual(routes.brokers, {})

    def test_replaced_master_goes_quietly(self) -> None:
        """The live record of an address whose id another one took over says nothing about the broker."""
        routes = table()
        routes.register(registration(address=A), 0)
        routes.register(registration(address=B, connection=2), 0)
        effects = routes.remove([Address("C", A)], "why")
        self.assertEqual(effects, [BrokerRemoved(Address("C", A), "broker-a", None, "why")])
        self.assertEqual(routes.brokers[KEY].addresses, {0: B})

    def test_only_replaced_master_is_left(self) -> None:
        """A live record whose broker is gone entirely is removed without a word too much."""
        routes = table()
        routes.register(registration(address=A), 0)
        routes.register(registration(address=B, connection=2), 0)
        routes.remove([Address("C", B)], "why")
        self.assertEqual(routes.brokers, {})
        self.assertEqual(routes.remove([Address("C", A)], "why")[0].reason, "why")  # type: ignore[union-attr]
        self.assertEqual(routes.live, {})


class TwoClustersTests(unittest.TestCase):
    """Regression B5 (#3991, #1450): equal broker names in two clusters."""

    def setUp(self) -> None:
        self.routes = table()
        self.routes.register(registration(cluster="C1", address=A, content=body(["ONE", "BOTH"])), 0)
        self.found = self.routes.register(registration(cluster="C2", address=B, content=body(["TWO", "BOTH"])), 0)

    def test_b5_state_is_independent(self) -> None:
        """Both masters stay, whatever their epochs; each has its own topics; removal of one leaves the other."""
        self.assertIn(NameShared("broker-a", ("C1", "C2")), self.found.effects)
        self.assertEqual([b.addresses for b in self.routes.brokers.values()], [{0: A}, {0: B}])
        self.assertEqual(self.routes.topics_of_cluster("C2"), ["BOTH", "TWO"])
        self.assertEqual(self.routes.clusters(), {"C1": ["broker-a"], "C2": ["broker-a"]})
        self.routes.unregister(Address("C1", A), 1)
        self.assertEqual(sorted(self.routes.topics), ["BOTH", "TWO"])

    def test_answers_show_one_broker_a_name(self) -> None:
        """A Java client knows brokers by name only: it is given the same cluster's on every name server."""
        shown = [broker.key.cluster for broker in self.routes.visible(self.routes.topics["BOTH"])]
        self.assertEqual(shown, ["C1"])
        self.assertEqual([b.key.cluster for b in self.routes.visible(self.routes.topics["TWO"])], ["C2"])

    def test_requests_by_name_reach_both(self) -> None:
        """wipeWritePerm and registerTopic carry no cluster."""
        self.assertEqual(self.routes.wipe_write_perm("broker-a"), 4)
        self.assertEqual(self.routes.add_write_perm("broker-a"), 4)
        self.assertTrue(self.routes.register_topic("NEW", {"broker-a": QueueData(1, 1, 6)}))
        self.assertEqual(len(self.routes.topics["NEW"]), 2)

    def test_delete_topic_of_one_cluster(self) -> None:
        """DELETE_TOPIC_IN_NAMESRV with a cluster leaves the other cluster's queues."""
        self.routes.delete_topic("BOTH", "C1")
        self.assertEqual([key.cluster for key in self.routes.topics["BOTH"]], ["C2"])
        self.routes.delete_topic("BOTH", "C2")
        self.assertNotIn("BOTH", self.routes.topics)


class InvariantTests(unittest.TestCase):
    """Whatever happens in whatever order, the table stays consistent."""

    @settings(max_examples=150)
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["register", "unregister", "remove", "delete"]),
                st.sampled_from(["C1", "C2"]),
                st.sampled_from(["a", "b"]),
                st.integers(0, 3),
                st.integers(1, 4),
                st.integers(0, 3),
                st.booleans(),
            ),
            max_size=30,
        )
    )
    def test_invariants(self, steps: list[tuple[str, str, str, int, int, int, bool]]) -> None:
        """No broker without an address, no address twice, no queue data of a broker that is gone, and every address
        that clients are given has a live record (so that it can expire).
        """
        routes = table(notify_min_broker_id_changed=True, delete_topic_with_broker_registration=True)
        for connection, (verb, cluster, name, broker_id, host, epoch, acting) in enumerate(steps):
            address = f"h{host}:1"
            if verb == "register":
                content = body([f"T{epoch}", f"T{broker_id}x"], state_version=epoch, counter=connection)
                routes.register(
                    registration(
                        name,
                        address,
                        broker_id,
                        cluster=cluster,
                        content=content,
                        connection=connection,
                        enable_acting_master=acting,
                    ),
                    connection,
                )
            elif verb == "unregister":
                with contextlib.suppress(RequestRefused):
                    routes.unregister(Address(cluster, address), connection - epoch, acting)
            elif verb == "remove":
                routes.remove([Address(cluster, address)], "test")
            else:
                routes.delete_topic(f"T{epoch}", cluster if acting else None)
            for key, broker in routes.brokers.items():
                self.assertTrue(broker.addresses)
                self.assertEqual(len(set(broker.addresses.values())), len(broker.addresses))
                for held in broker.addresses.values():
                    self.assertEqual(routes.live[Address(key.cluster, held)].key, key)
            for queues in routes.topics.values():
                self.assertTrue(queues)
                self.assertLessEqual(set(queues), set(routes.brokers))


class AgreementTests(unittest.TestCase):
    """Regressions B6 (#9429, #2090) and B7: name servers hold no state of their own, so one round of registrations, in
    whatever order it comes, gives each of them the same answers."""

    @settings(max_examples=60)
    @given(
        st.permutations([(c, n, i) for c in ("C1", "C2") for n in ("a", "b") for i in (0, 1, 2)]), st.integers(0, 11)
    )
    def test_b6_b7_one_round_of_registrations(self, order: list[tuple[str, str, int]], dead: int) -> None:
        """A name server that lost a broker's connections, one that was just started, and one that saw another order."""
        tables = [table(), table(), table()]
        rounds = (sorted(order), order, order[::-1])
        for routes, first in zip(tables, rounds, strict=True):
            for step, (cluster, name, broker_id) in enumerate(first + order):
                address = f"{cluster}-{name}-{broker_id}:1"
                content = body([f"{name}1", f"{name}2", "both"], state_version=3)
                routes.register(registration(name, address, broker_id, cluster=cluster, content=content), step)
                if step == dead:
                    routes.remove([Address(cluster, address)], "its connection broke")
        answers_of = [
            [cluster_info(routes), *(topic_route(routes, topic, quoted=True) for topic in ("a1", "b2", "both"))]
            for routes in tables
        ]
        self.assertIn(b"C1-b-2:1", answers_of[0][0] or b"")
        self.assertEqual(answers_of[0], answers_of[1])
        self.assertEqual(answers_of[0], answers_of[2])
