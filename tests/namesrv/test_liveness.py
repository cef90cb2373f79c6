"""When a broker counts as dead (regression B8; RouteInfoManager.scanNotActiveBroker)."""

from __future__ import annotations

import unittest

from rocketha.namesrv.effects import Address, BrokerRemoved, CloseConnection, Effect, ProbePort
from rocketha.namesrv.liveness import Liveness
from rocketha.namesrv.route_table import RouteTable
from rocketha.services.config.loading import NamesrvConfig
from tests.namesrv.helpers import registration

A, B = "10.0.0.1:10911", "10.0.0.2:10911"
HERE = Address("C", A)


class LivenessTests(unittest.TestCase):
    """One broker on connection 1, registered at 0 ms."""

    def setUp(self) -> None:
        self.make()

    def make(self, **keys: object) -> None:
        config = NamesrvConfig(**keys)  # type: ignore[arg-type]
        self.table = RouteTable(config)
        self.liveness = Liveness(self.table, config)
        self.table.register(registration(address=A, connection=1), 0)

    def lost(self) -> ProbePort:
        (probe,) = self.liveness.connection_lost(1, "10.0.0.1", 10_000)
        assert isinstance(probe, ProbePort)
        return probe

    def assert_gone(self, effects: list[Effect], reason: str) -> None:
        self.assertEqual([type(effect) for effect in effects], [BrokerRemoved])
        self.assertIn(reason, effects[0].reason)  # type: ignore[union-attr]
        self.assertEqual((self.table.brokers, self.liveness.suspects), ({}, 0))

    def test_b8_broken_connection_keeps_the_routes(self) -> None:
        """A suspicion, not a death: the port is asked, nothing else happens."""
        self.assertEqual(self.lost().broker, HERE)
        self.assertIn("T1", self.table.topics)
        self.assertEqual(self.liveness.tick(12_999), [])
        self.assertIn("T1", self.table.topics)

    def test_b8_refused_probe_is_death(self) -> None:
        """A killed broker's routes go as soon as its port refuses."""
        self.assert_gone(self.liveness.probed(self.lost(), False), "refuses")

    def test_b8_silent_port_dies_with_the_grace(self) -> None:
        """No answer (a dead host): kept for 3 s."""
        self.assertEqual(self.liveness.probed(self.lost(), None), [])
        self.assertEqual(self.liveness.tick(12_999), [])
        self.assert_gone(self.liveness.tick(13_000), "silent")

    def test_b8_unanswered_probe_dies_with_the_grace(self) -> None:
        """A probe whose result never comes holds nothing up."""
        self.lost()
        self.assert_gone(self.liveness.tick(13_000), "silent")

    def test_b8_answering_port_keeps_the_routes(self) -> None:
        """A Java broker registers again only with its next period (30 s, 60 s at most); it is not asked again."""
        probe = self.lost()
        self.assertEqual(self.liveness.probed(probe, True), [])
        self.assertEqual(self.liveness.tick(72_999), [])
        self.table.register(registration(address=A, connection=2), 72_999)
        self.assertEqual(self.liveness.tick(73_000), [])
        self.assertEqual(self.liveness.suspects, 0)

    def test_answered_and_never_heard_again(self) -> None:
        """It died later, with no connection that could have said so."""
        self.liveness.probed(self.lost(), True)
        self.assert_gone(self.liveness.tick(73_000), "not registered anew")

    def test_answer_to_an_older_probe_is_void(self) -> None:
        """The refusal of the first round must not kill what registered anew and was lost again."""
        first = self.lost()
        self.table.register(registration(address=A, connection=2), 11_000)
        (second,) = self.liveness.connection_lost(2, "10.0.0.1", 12_000)
        assert isinstance(second, ProbePort)
        self.assertEqual(self.liveness.probed(first, False), [])
        self.assertIn("T1", self.table.topics)
        self.assert_gone(self.liveness.probed(second, False), "refuses")
        self.assertEqual(self.liveness.probed(second, False), [])

    def test_registered_anew_by_another_connection(self) -> None:
        """The late end of the old connection, or of its probe, changes nothing (regression B2)."""
        probe = self.lost()
        self.table.register(registration(address=A, connection=2), 11_000)
        self.assertEqual(self.liveness.probed(probe, False), [])
        self.assertEqual(self.liveness.tick(20_000), [])
        self.assertEqual(self.liveness.connection_lost(1, "10.0.0.1", 21_000), [])
        self.assertIn("T1", self.table.topics)

    def test_registered_anew_before_the_tick(self) -> None:
        """The same, seen by the tick first."""
        self.lost()
        self.table.register(registration(address=A, connection=2), 11_000)
        self.assertEqual(self.liveness.tick(13_000), [])
        self.assertEqual(self.liveness.suspects, 0)

    def test_all_brokers_of_a_connection(self) -> None:
        """A proxy may register several addresses by one connection."""
        self.table.register(registration(name="broker-b", address=B, connection=1), 0)
        effects = self.liveness.connection_lost(1, "10.0.0.1", 0)
        self.assertEqual([effect.broker for effect in effects if isinstance(effect, ProbePort)], [HERE])
        self.assertEqual(self.liveness.suspects, 2)

    def lose(self, connection: int, port: int, now_ms: int) -> int:
        """Register a port by a connection that ends at once; how many probes that makes."""
        address = f"10.0.0.1:{port}"
        self.table.register(registration(name=f"b-{port}", address=address, connection=connection), now_ms)
        effects = self.liveness.connection_lost(connection, "10.0.0.1", now_ms)
        return sum(isinstance(effect, ProbePort) for effect in effects)

    def test_ports_of_one_host(self) -> None:
        """Who registers 100 ports of his host has a few asked; others are dead after their grace.  Later some more."""
        self.assertEqual([self.lose(100 + port, port, 0) for port in range(1, 101)], [1] * 8 + [0] * 92)
        self.assertEqual(len(self.liveness.tick(3000)), 100)
        self.assertEqual([self.lose(300 + port, port, 10_000) for port in range(201, 204)], [1, 0, 0])
        self.table.register(registration(name="broker-b", address=B, connection=2), 0)
        self.assertEqual(len(self.liveness.connection_lost(2, "10.0.0.2", 0)), 1)

    def test_one_port_again_and_again(self) -> None:
        """Under whatever name; a broker that is lost three times in a row is still asked at once."""
        found = []
        for number in range(20):
            self.table.register(registration(name=f"b-{number}", connection=100 + number), 0)
            found.append(len(self.liveness.connection_lost(100 + number, "10.0.0.1", 0)))
        self.assertEqual(found, [1] * 3 + [0] * 17)

    def test_many_brokers_of_one_host(self) -> None:
        """A minute after they came, all of them are asked when the network breaks."""
        for port in range(1, 51):
            address = f"10.0.0.1:{port}"
            self.table.register(registration(name=f"b-{port}", address=address, connection=100 + port), 0)
        lost = [self.liveness.connection_lost(100 + port, "10.0.0.1", 60_000) for port in range(1, 51)]
        self.assertEqual([len(each) for each in lost], [1] * 50)

    def test_no_grace(self) -> None:
        """brokenConnectionGrace=0 is Java's behaviour."""
        self.make(broken_connection_grace=0)
        self.assert_gone(self.liveness.connection_lost(1, "10.0.0.1", 0), "connection broke")

    def test_suspects_are_bounded(self) -> None:
        """Beyond unRegisterBrokerQueueCapacity a broken connection is a death."""
        self.make(un_register_broker_queue_capacity=1)
        self.table.register(registration(name="broker-b", address=B, connection=2), 0)
        self.lost()
        effects = self.liveness.connection_lost(2, "10.0.0.2", 10_000)
        self.assertEqual([type(effect) for effect in effects], [BrokerRemoved])
        self.assertEqual(self.liveness.suspects, 1)

    def test_expiry(self) -> None:
        """After 120 s without a word the record goes and the connection is closed."""
        self.assertEqual(self.liveness.scan(120_000), [])
        closing, removed = self.liveness.scan(120_001)
        self.assertEqual(closing, CloseConnection(1, f"broker {A}: nothing heard for 120000 ms"))
        self.assertIsInstance(removed, BrokerRemoved)
        self.assertEqual(self.table.brokers, {})

    def test_expiry_as_the_broker_asked(self) -> None:
        """heartbeatTimeoutMillis of the registration; 322 and 904 refresh it."""
        self.table.register(registration(address=A, timeout_ms=10_000), 0)
        self.table.heard("C", A, 5000)
        self.table.heard("C", "unknown:1", 5000)
        self.assertEqual(self.liveness.scan(15_000), [])
        self.assertEqual(len(self.liveness.scan(15_001)), 2)

    def test_suspect_expires(self) -> None:
        """A port that answers for ever does not keep a registration for ever."""
        probe = self.lost()
        self.liveness.probed(probe, True)
        self.assertEqual(len(self.liveness.scan(120_001)), 2)
        self.assertEqual((self.liveness.suspects, self.liveness.tick(120_001)), (0, []))

    def test_unregistered_suspect(self) -> None:
        """Nothing is left to find."""
        probe = self.lost()
        self.table.unregister(Address("C", A), 1)
        self.assertEqual(self.liveness.probed(probe, False), [])
        self.assertEqual(self.liveness.suspects, 0)

    def test_own_pause_is_not_the_brokers(self) -> None:
        """A name server that stood still for 10 minutes must not throw all brokers out when it wakes."""
        self.table.register(registration(name="broker-b", address=B, connection=2), 0)
        self.lost()
        self.liveness.paused(600_000)
        self.assertEqual(self.liveness.scan(610_000), [])
        self.assertEqual(self.liveness.tick(612_999), [])
        self.assertEqual(len(self.liveness.tick(613_000)), 1)
