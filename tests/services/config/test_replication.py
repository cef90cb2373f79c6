"""Keys of replication: what is filled in, what contradicts itself, what has no effect."""

from __future__ import annotations

import unittest

from rocketha.errors import ConfigError
from rocketha.services.config.loading import BrokerConfig, Loaded, all_texts, describe, load_broker

HOME = {"HOME": "/home/op"}
MODE = "enableControllerMode=true\ncontrollerAddr=10.0.0.1:9878; 10.0.0.2:9878;10.0.0.1:9878;\n"
SLAVE = "brokerRole=SLAVE\nbrokerId=2\nnamesrvAddr=127.0.0.1:9876\n"


def load(text: str) -> Loaded[BrokerConfig]:
    return load_broker(text.encode(), "b.conf", {}, HOME, "host-1")


class CompletedTests(unittest.TestCase):
    """What follows from other keys."""

    def test_a_master_alone(self) -> None:
        """No warning, nobody to wait for."""
        loaded = load("")
        keys = loaded.config.replication
        self.assertEqual(loaded.warnings, ())
        self.assertEqual((keys.broker_role, keys.in_sync_replicas, keys.controllers), ("ASYNC_MASTER", 1, ()))
        self.assertEqual(keys.store_path_epoch_file, "/home/op/store/epochFileCheckpoint")
        self.assertEqual(keys.store_path_broker_identity, "/home/op/store/brokerIdentity")
        self.assertTrue(keys.all_ack_in_sync_state_set)

    def test_the_port_is_one_above(self) -> None:
        """Or as it is set."""
        self.assertEqual(load("listenPort=20911").config.replication.ha_listen_port, 20912)
        self.assertEqual(load("listenPort=20911\nhaListenPort=7").config.replication.ha_listen_port, 7)

    def test_a_sync_master_waits_for_a_slave(self) -> None:
        """Unless told otherwise: Java's waits for nobody then."""
        self.assertEqual(load("brokerRole=SYNC_MASTER").config.replication.in_sync_replicas, 2)
        self.assertEqual(load("brokerRole=SYNC_MASTER\ninSyncReplicas=3").config.replication.in_sync_replicas, 3)
        alone = load("brokerRole=SYNC_MASTER\ninSyncReplicas=1")
        self.assertEqual(alone.config.replication.in_sync_replicas, 1)
        self.assertIn("waits for nobody but itself", alone.warnings[0])

    def test_controllers(self) -> None:
        """In order, each once; the file's id and role count for nothing."""
        self.assertEqual(load(MODE + "brokerId=-1").warnings, ())
        loaded = load(MODE + "brokerId=7\nbrokerRole=SLAVE\nhaMasterAddress=h:1\n")
        self.assertEqual(loaded.config.replication.controllers, ("10.0.0.1:9878", "10.0.0.2:9878"))
        self.assertEqual(loaded.config.broker_id, 0)
        self.assertEqual(
            [each.partition(" ")[0] for each in loaded.warnings], ["brokerId=7", "brokerRole", "haMasterAddress"]
        )

    def test_without_all_acknowledgements_the_lease_is_short(self) -> None:
        """Another master may be there before a long one is over; and the operator hears of it."""
        loaded = load(MODE + "allAckInSyncStateSet=false")
        self.assertEqual(loaded.config.replication.master_lease, 750)
        self.assertIn("are lost when a master is replaced", loaded.warnings[0])
        self.assertNotIn("another one leads", str(loaded.warnings))
        for key, lease in (("masterLease=2000", 2000), ("brokerHeartbeatInterval=1500", 750)):
            chosen = load(MODE + f"allAckInSyncStateSet=false\n{key}")
            self.assertEqual(chosen.config.replication.master_lease, lease)
            self.assertIn("another one leads", chosen.warnings[1])

    def test_who_may_replicate(self) -> None:
        """Networks of both kinds; an IPv4 address that came by an IPv6 port is one."""
        keys = load("haAllowedAddresses=10.0.0.0/8;192.0.2.7;2001:db8::/32").config.replication
        for host, allowed in (
            ("10.9.8.7", True),
            ("192.0.2.7", True),
            ("192.0.2.8", False),
            ("2001:db8::5", True),
            ("::1", False),
            ("::ffff:10.0.0.1", True),
            ("2001:db8::5%eth0", True),
            ("somebody", False),
        ):
            self.assertIs(keys.may_replicate(host), allowed, host)
        self.assertTrue(load("").config.replication.may_replicate("203.0.113.5"))

    def test_an_open_port_is_said(self) -> None:
        """It knows no password."""
        warning = "whoever reaches the HA port 10912"
        for text, open_ in (
            (MODE + "bindAddress=10.0.0.1", True),
            (SLAVE + "bindAddress=10.0.0.1", True),
            ("bindAddress=10.0.0.1", False),
            (MODE, False),
            (MODE + "bindAddress=10.0.0.1\nhaAllowedAddresses=10.0.0.0/24", False),
        ):
            self.assertIs(any(warning in each for each in load(text).warnings), open_, text)

    def test_described_configuration_loads_again(self) -> None:
        """In each mode, with the same warnings or fewer."""
        for text in ("brokerRole=SYNC_MASTER", SLAVE, MODE, MODE + "allAckInSyncStateSet=false"):
            loaded = load(text)
            again = load(describe(loaded.config).decode())
            self.assertEqual(all_texts(again.config), all_texts(loaded.config))
            self.assertLessEqual(set(again.warnings), set(loaded.warnings))


class ContradictionTests(unittest.TestCase):
    """What stops the start, and what only has no effect."""

    def refused(self, text: str, *parts: str) -> None:
        with self.assertRaises(ConfigError) as caught:
            load(text)
        for part in ("b.conf", *parts):
            self.assertIn(part, str(caught.exception))

    def test_a_slave_needs_an_id_and_a_master(self) -> None:
        """As in Java; in controller mode it needs neither."""
        self.refused("brokerRole=SLAVE\nnamesrvAddr=h:1", "brokerRole=SLAVE is refused with brokerId=0")
        self.refused(SLAVE + "brokerId=-1", "brokerRole=SLAVE is refused with brokerId=-1")
        (warning,) = load("brokerRole=SLAVE\nbrokerId=1").warnings  # RocketMQ's own samples of slaves
        self.assertIn("neither namesrvAddr nor haMasterAddress", warning)
        self.assertEqual(load(SLAVE).config.broker_id, 2)
        self.assertEqual(load("brokerRole=SLAVE\nbrokerId=1\nhaMasterAddress=h:10912").warnings, ())
        load(MODE + "brokerRole=SLAVE")

    def test_java_says_minus_one(self) -> None:
        """RocketMQ's own files for controller mode: nothing to warn of, and no id before the controllers give one."""
        as_shipped = load(MODE + "brokerRole=SLAVE\nbrokerId=-1")
        self.assertEqual(as_shipped.config.broker_id, 0)
        self.assertEqual(as_shipped.warnings, load(MODE + "brokerRole=SLAVE").warnings)

    def test_ports(self) -> None:
        """Three of them, all different."""
        self.refused("listenPort=65535", "leaves no port above it for haListenPort")
        self.refused("haListenPort=10911", "it is listenPort")
        self.refused("haListenPort=10909", "it is the fast port")
        self.assertEqual(load("haListenPort=10909\nfastPortEnable=false").config.replication.ha_listen_port, 10909)

    def test_times(self) -> None:
        """A broker that is dead between two heartbeats; a lease beyond the controllers' patience: both were set."""
        beats = "controllerHeartBeatTimeoutMills=1500\nbrokerHeartbeatInterval=1000"
        self.refused(MODE + beats, "brokerHeartbeatInterval=1000", "dead between")
        lease = "controllerHeartBeatTimeoutMills=10000\nmasterLease=10001"
        self.refused(MODE + lease, "controllerHeartBeatTimeoutMills=10000", "another master")

    def test_more_replicas_than_there_are(self) -> None:
        """Only where somebody said how many there are: Java's default is 1."""
        self.refused("totalReplicas=2\nminInSyncReplicas=3", "minInSyncReplicas=3", "totalReplicas=2")
        self.refused("totalReplicas=2\ninSyncReplicas=3", "inSyncReplicas=3")
        load("inSyncReplicas=3\nbrokerRole=SYNC_MASTER")

    def test_controller_mode_needs_controllers(self) -> None:
        """And well-formed ones."""
        self.refused("enableControllerMode=true", "refused without controllerAddr")
        self.refused("controllerAddr=nonsense", "line 1: controllerAddr='nonsense' is refused, allowed is host:port")
        self.refused("controllerAddr=" + ";".join(f"h:{n}" for n in range(1, 34)), "up to 32 of host:port")

    def test_texts(self) -> None:
        """A network, an address."""
        self.refused("haAllowedAddresses=10.0.0.1/8", "addresses or networks such as 10.0.0.0/8")
        self.refused("haAllowedAddresses=" + ";".join(["::1"] * 257), "up to 256")
        self.refused("haMasterAddress=a:1;b:2", "host:port of the master's HA port")
        self.refused("brokerRole=BOSS", "allowed is ASYNC_MASTER or SYNC_MASTER or SLAVE")

    def test_no_effect(self) -> None:
        """Said, not silently dropped."""
        for text, key in (
            ("brokerId=3", "brokerId=3"),
            ("haMasterAddress=h:1", "haMasterAddress"),
            ("inSyncReplicas=2", "inSyncReplicas=2"),
            ("minInSyncReplicas=2", "minInSyncReplicas"),
            ("controllerAddr=h:1", "controllerAddr"),
            ("allAckInSyncStateSet=false", "allAckInSyncStateSet"),
            ("checkSyncStateSetPeriod=1000", "b.conf, line 1: checkSyncStateSetPeriod"),
        ):
            warnings = load(text).warnings
            self.assertEqual(len(warnings), 1, warnings)
            self.assertTrue(warnings[0].startswith(f"{key} has no effect"), warnings)


if __name__ == "__main__":
    unittest.main()
