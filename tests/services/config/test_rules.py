"""Rules between keys: a file that sets one key of a pair starts, whatever its value, as it does with Java.

The rules: fast port and HA port beside listenPort; maxMessageSize within a frame and a file of the log; the size of an
index file; the three disk ratios; heartbeats and housekeeping of the HA link; heartbeats, timeout and lease under
controllers; replicas that must have a message and those that there are; a slave and whoever says who its master is;
Raft's heartbeats and elections; a controller and its peers.
"""

from __future__ import annotations

import unittest
from collections.abc import Iterator

from rocketha.errors import ConfigError
from rocketha.services.config.keys import BrokerConfig, NamesrvConfig, RemotingConfig, StoreSettings
from rocketha.services.config.loading import ControllerConfig, Loaded, load_broker, load_controller, load_namesrv
from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.config.rules import RECORD_OVERHEAD, RECORD_ROOM
from rocketha.services.config.settings import INT_MAX, Key, Section
from rocketha.services.config.views import limits, store_config
from rocketha.store import expiry
from rocketha.store.config import StoreConfig
from rocketha.wire.limits import SEND_HEADER_BYTES_MAX

HOME = {"HOME": "/home/op"}
MODES = (
    "",
    "brokerRole=SYNC_MASTER\n",
    "brokerRole=SLAVE\nbrokerId=1\n",
    "enableControllerMode=true\ncontrollerAddr=10.0.0.1:9878\n",
    "enableDLegerCommitLog=true\ndLegerGroup=g\ndLegerPeers=n0-10.0.0.1:40911\ndLegerSelfId=n0\n",
)
JAVA_FAILS_TOO = (
    ("listenPort", 65_535, "leaves no port above it"),
    ("haListenPort", 10_911, "it is listenPort"),
    ("haListenPort", 10_909, "it is the fast port"),
)
"""Ports that clash, with Java's defaults as well."""


def load(text: str) -> Loaded[BrokerConfig]:
    return load_broker(text.encode(), "b.conf", {}, HOME, "host-1")


def values(key: Key) -> Iterator[str]:
    """Of one key: its ends, what is beside them, and powers of two between."""
    if key.kind == "integer":
        low, high = int(key.low), int(key.high)
        inner = {low, low + 1, high - 1, high, *(1 << bits for bits in range(0, 63, 4)), *range(0, 101, 20), 88}
        yield from (str(value) for value in sorted(inner) if low <= value <= high)
    elif key.kind == "flag":
        yield from ("true", "false")
    elif key.kind == "choice":
        yield from key.choices


def numbered(*sections: type[Section]) -> Iterator[tuple[str, str]]:
    """Every key that has such values, with each."""
    for section in sections:
        for name, (_, key) in section.declared().items():
            for value in values(key):
                yield name, value


class DLedgerTests(unittest.TestCase):
    """The keys of a member of a DLedger group."""

    def refused(self, text: str) -> str:
        with self.assertRaises(ConfigError) as caught:
            load(text)
        return str(caught.exception)

    def test_members(self) -> None:
        """One that is not in its own list, an id that Java cannot read, a missing list, and both modes at once."""
        self.assertIn("dLegerSelfId=n1 is refused", self.refused(MODES[4] + "dLegerSelfId=n1"))
        self.assertIn("dLegerSelfId='a' is refused", self.refused(MODES[4] + "dLegerSelfId=a"))
        self.assertIn("dLegerPeers: b is refused", self.refused(MODES[4] + "dLegerPeers=n0-a:1;b-10.0.0.1:40911"))
        self.assertIn("without dLegerGroup, dLegerPeers", self.refused("enableDLegerCommitLog=true\ndLegerSelfId=n0"))
        self.assertIn("one or the other", self.refused(MODES[4] + MODES[3]))
        self.assertEqual(load(MODES[4]).config.replication.dledger_peers, {"n0": "10.0.0.1:40911"})


class OneKeyTests(unittest.TestCase):
    """Each key alone, over its whole range."""

    def test_broker(self) -> None:
        """In every mode; what a broker needs of the configuration can be made of it."""
        modes = {"brokerRole", "brokerId", "enableControllerMode", "enableDLegerCommitLog"}
        replication = ReplicationConfig.declared().keys() - modes
        for name, value in numbered(BrokerConfig, StoreSettings, RemotingConfig, ReplicationConfig):
            for mode in MODES if name in replication else MODES[:1]:
                try:
                    config = load(f"{mode}{name}={value}").config
                    store_config(config, 0)
                    limits(config.remoting)
                except ConfigError as problem:
                    self.assertTrue(self.excused(name, int(value) if value.isdigit() else 0, str(problem)), problem)

    def excused(self, name: str, value: int, problem: str) -> bool:
        """Where no broker could start, Java's neither."""
        sizes = {"maxHashSlotNum": 40 + 4 * value + 20 * 20_000_000, "maxIndexNum": 40 + 4 * 5_000_000 + 20 * value}
        if name in sizes:  # Java's int overflows
            return sizes[name] > INT_MAX and "index file" in problem
        if (name, value) == ("brokerRole", 0):
            return "brokerId=0" in problem  # a slave with a master's id
        if (name, value) == ("enableControllerMode", 0):
            return "without controllerAddr" in problem
        if (name, value) == ("enableDLegerCommitLog", 0):
            return "without dLegerGroup, dLegerPeers, dLegerSelfId" in problem
        return any((name, value) == (key, port) and words in problem for key, port, words in JAVA_FAILS_TOO)

    def test_controller_and_nameserver(self) -> None:
        """Likewise."""
        for name, value in numbered(ControllerConfig, RemotingConfig):
            load_controller(f"{name}={value}".encode(), "c.conf", {}, HOME)
        for name, value in numbered(NamesrvConfig, RemotingConfig):
            load_namesrv(f"{name}={value}".encode(), "n.conf", {}, HOME)

    def test_what_nobody_set_follows(self) -> None:
        """The one that was set keeps its value."""
        mode = MODES[3]
        for text, wanted in (
            (
                "haSendHeartbeatInterval=15000",
                {"ha_send_heartbeat_interval": 15_000, "ha_housekeeping_interval": 30_000},
            ),
            ("haHousekeepingInterval=5000", {"ha_send_heartbeat_interval": 2500, "ha_housekeeping_interval": 5000}),
            (
                mode + "brokerHeartbeatInterval=6000",
                {"controller_heart_beat_timeout_mills": 12_000, "master_lease": 3000},
            ),
            (
                mode + "controllerHeartBeatTimeoutMills=1500",
                {"broker_heartbeat_interval": 750, "master_lease": 1500, "controller_heart_beat_timeout_mills": 1500},
            ),
            (mode + "masterLease=20000", {"master_lease": 20_000, "controller_heart_beat_timeout_mills": 20_000}),
            (
                mode + "allAckInSyncStateSet=false\ncontrollerHeartBeatTimeoutMills=500",
                {"broker_heartbeat_interval": 250, "master_lease": 500},
            ),
        ):
            keys = load(text).config.replication
            self.assertEqual({name: getattr(keys, name) for name in wanted}, wanted, text)
        for text, beat, election in (
            ("raftHeartbeatInterval=500", 500, 1500),
            ("raftElectionTimeout=200", 66, 200),
        ):
            config = load_controller(text.encode(), "c.conf", {}, HOME).config
            self.assertEqual((config.raft_heartbeat_interval, config.raft_election_timeout), (beat, election))

    def test_the_longest_message(self) -> None:
        """It fits into a file and into a frame, whichever is set; the operator hears of it."""
        for text, longest in (
            ("mappedFileSizeCommitLog=4194304", (4 << 20) - RECORD_ROOM),
            ("mappedFileSizeCommitLog=65536", (64 << 10) - RECORD_ROOM),
            ("maxMessageSize=104857600", (16 << 20) - SEND_HEADER_BYTES_MAX),
            ("maxMessageSize=104857600\nframeMaxLength=268435456", (64 << 20) - RECORD_OVERHEAD),
            ("frameMaxLength=1048576", (1 << 20) - SEND_HEADER_BYTES_MAX),
        ):
            loaded = load(text)
            self.assertEqual(store_config(loaded.config, 0).message_bytes_max, longest)
            self.assertEqual(len([each for each in loaded.warnings if f"counts as {longest}" in each]), 1)

    def test_ports_too_low_for_two(self) -> None:
        """The port below is left out."""
        loaded = load("listenPort=2")
        self.assertFalse(loaded.config.fast_port_enable)
        self.assertIn("no fast port", loaded.warnings[0])

    def test_java_bounds(self) -> None:
        """Two keys that Java bounds without a word."""
        for text, attribute, value in (
            ("diskMaxUsedSpaceRatio=5", "disk_max_used_space_ratio", 10),
            ("diskMaxUsedSpaceRatio=100", "disk_max_used_space_ratio", 95),
        ):
            self.assertEqual(getattr(load(text).config.store, attribute), value)
        self.assertEqual(load("registerNameServerPeriod=1000").config.register_name_server_period, 10_000)
        self.assertEqual(load("registerNameServerPeriod=90000").config.register_name_server_period, 60_000)


class RatioTests(unittest.TestCase):
    """``diskMaxUsedSpaceRatio=88`` stands in most broker.conf that people copy."""

    def test_what_is_shown(self) -> None:
        """As it was set, and a line that says the effect."""
        loaded = load("diskMaxUsedSpaceRatio=88")
        self.assertIn("diskMaxUsedSpaceRatio=88 has no effect: from 85 % on", loaded.warnings[0])
        kept = load("diskMaxUsedSpaceRatio=88\ncleanFileForciblyEnable=false")
        self.assertIn("from 85 % on expired files go (", kept.warnings[0])
        store = loaded.config.store
        self.assertEqual((store.disk_max_used_space_ratio, store.disk_space_clean_forcibly_ratio), (88, 85))

    def test_effects(self) -> None:
        """What goes at which use, of one file that is expired and one that is not; and when writes are refused.  Java:
        ``CleanCommitLogService.isSpaceToDelete``."""
        hour = 3_600_000
        for text, expected in (
            ("", {74: "", 76: "expired", 86: "both", 96: "both full"}),
            ("diskMaxUsedSpaceRatio=88", {80: "", 86: "both", 89: "both", 96: "both full"}),
            ("diskMaxUsedSpaceRatio=95", {84: "", 86: "both", 96: "both full"}),
            ("diskSpaceWarningLevelRatio=80", {76: "expired", 81: "both full"}),
            ("diskSpaceWarningLevelRatio=60", {59: "", 61: "both full"}),
            ("diskSpaceCleanForciblyRatio=50", {49: "", 60: "both"}),
            ("cleanFileForciblyEnable=false", {74: "", 76: "expired", 86: "expired", 96: "expired full"}),
            ("cleanFileForciblyEnable=false\ndiskSpaceCleanForciblyRatio=50", {49: "", 60: "expired"}),
        ):
            config: StoreConfig = store_config(load(text).config, 0)
            now = 1000 * 24 * hour  # midnight, not deleteWhen
            for percent, wanted in expected.items():
                times = [now - config.file_reserved_ms - 1, now - 1]
                count = expiry.files_to_delete(times, now, percent / 100, config).files
                full = " full" if expiry.is_full(percent / 100, config) else ""
                self.assertEqual((("", "expired", "both")[count] + full).strip(), wanted, (text, percent))


if __name__ == "__main__":
    unittest.main()
