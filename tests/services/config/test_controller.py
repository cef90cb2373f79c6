"""controller.conf: peers as operators write them, what fits together, and both key sets in one file."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from rocketha.controller.watched import Times
from rocketha.errors import ConfigError
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.config.loading import describe, load_broker, load_controller, load_namesrv
from rocketha.services.config.peers import peers_of

HOME = {"HOME": "/home/op"}
THREE = "n0-10.0.0.1:9878;n1-10.0.0.2:9878;n2-10.0.0.3:9878"


def controller(text: str = "", **flags: str) -> ControllerConfig:
    return load_controller(text.encode(), "c.conf", flags, HOME).config


def warnings(text: str) -> list[str]:
    return list(load_controller(text.encode(), "c.conf", {}, HOME).warnings)


class PeersTests(unittest.TestCase):
    """``controllerDLegerPeers``."""

    def test_good(self) -> None:
        """Host names with dashes, IPv6, blanks, a trailing semicolon, lists of different lengths."""
        for text, wanted in (
            ("n0-127.0.0.1:9878", {"n0": "127.0.0.1:9878"}),
            ("n0-rmq-ctl-0.rmq-ctl.prod:9878;n1-b:1;", {"n0": "rmq-ctl-0.rmq-ctl.prod:9878", "n1": "b:1"}),
            (" n0-[fd00::1]:9878 ; n1-[fd00::2]:9878", {"n0": "[fd00::1]:9878", "n1": "[fd00::2]:9878"}),
            (THREE, {"n0": "10.0.0.1:9878", "n1": "10.0.0.2:9878", "n2": "10.0.0.3:9878"}),
        ):
            self.assertEqual(peers_of(text), wanted)

    def test_bad(self) -> None:
        """Each error names what is allowed or what stands twice."""
        for text, words in (
            ("", "no peers"),
            ("n0", "id-host:port"),
            ("10.0.0.1:9878", "id-host:port"),
            ("n0-10.0.0.1", "id-host:port"),
            ("n0-10.0.0.1:0", "id-host:port"),
            ("n0-fd00::1:9878", "id-host:port"),
            ("n 0-h:1", "id-host:port"),
            ("n0-h:1;n0-h:2", "two peers have the id 'n0'"),
            ("n0-h:1;n1-h:1", "two peers have the address h:1"),
            (";".join(f"n{i}-h{i}:1" for i in range(10)), "up to 9"),
        ):
            with self.assertRaises(ConfigError) as caught:
                controller(f"controllerDLegerPeers={text}")
            self.assertIn("c.conf, line 1: controllerDLegerPeers", str(caught.exception))
            self.assertIn(words, str(caught.exception))


class ControllerConfigTests(unittest.TestCase):
    """The rest of the file."""

    def test_a_frozen_master_is_dead_after_two_seconds(self) -> None:
        """What the keys say is what the rules were tested with."""
        found, times = controller(f"controllerDLegerPeers={THREE}"), Times()
        self.assertEqual((found.broker_silence, found.broker_probe_timeout), (1200, 600))
        self.assertEqual(
            (times.silence, times.round, times.pause),
            (found.broker_silence, found.broker_probe_timeout, found.broker_probe_pause),
        )

    def test_java_sample(self) -> None:
        """The distribution's controller.conf, as it stands."""
        loaded = load_controller(
            b"controllerDLegerGroup = group1\ncontrollerDLegerPeers = n0-127.0.0.1:9878;n1-127.0.0.1:9868;"
            b"n2-127.0.0.1:9858\ncontrollerDLegerSelfId = n1\ncontrollerStorePath = /srv/DledgerController\n",
            "c.conf",
            {},
            HOME,
        )
        config = loaded.config
        self.assertEqual(
            (config.self_address, config.listen_port, config.bind_address, config.controller_store_path),
            ("127.0.0.1:9868", 9868, "127.0.0.1", "/srv/DledgerController"),
        )
        self.assertEqual(loaded.warnings, ())

    def test_without_a_file(self) -> None:
        """One controller on loopback."""
        config = controller()
        self.assertEqual(
            (config.peers, config.bind_address, config.controller_store_path),
            ({"n0": "127.0.0.1:9878"}, "127.0.0.1", "/home/op/DLedgerController"),
        )

    def test_listens_on_its_own_address(self) -> None:
        """Not on all of them, as Java's; on all with a warning where its own is a name; or as the file says."""
        for peers, bind in (
            ("n0-10.1.1.1:1", "10.1.1.1"),
            ("n0-[fd00::1]:1", "fd00::1"),
            ("n0-localhost:1", "127.0.0.1"),
        ):
            self.assertEqual(controller(f"controllerDLegerPeers={peers}").bind_address, bind)
        named = load_controller(b"controllerDLegerPeers=n0-ctl-0:1", "c", {}, HOME)
        self.assertEqual(named.config.bind_address, "0.0.0.0")
        self.assertIn("bindAddress", named.warnings[0])
        self.assertEqual(controller("controllerDLegerPeers=n0-ctl-0:1\nbindAddress=10.0.0.9").bind_address, "10.0.0.9")

    def test_own_id_must_be_a_peer(self) -> None:
        """Named with what is allowed."""
        with self.assertRaisesRegex(ConfigError, "controllerDLegerSelfId=n7 is refused, allowed .* n0, n1, n2"):
            controller(f"controllerDLegerPeers={THREE}\ncontrollerDLegerSelfId=n7")

    def test_e3_loopback_among_others(self) -> None:
        """Regression E3: brokers elsewhere would be led to themselves."""
        (warning,) = warnings("controllerDLegerPeers=n0-127.0.0.1:9878;n1-10.0.0.2:9878;n2-10.0.0.3:9878")
        self.assertIn("n0-127.0.0.1:9878 is loopback while others are not", warning)
        self.assertEqual(warnings(f"controllerDLegerPeers={THREE}"), [])
        (warning,) = warnings("controllerDLegerPeers=n0-0.0.0.0:9878")
        self.assertIn("no address that anybody can connect to", warning)

    def test_even_number(self) -> None:
        """Not wrong, but no gain."""
        (warning,) = warnings("controllerDLegerPeers=n0-10.0.0.1:1;n1-10.0.0.2:1")
        self.assertIn("2 controllers survive the loss of 0, as 1 would", warning)

    def test_rules_between_keys(self) -> None:
        """Timing and names that cannot work."""
        for text, words in (
            ("raftElectionTimeout=200\nraftHeartbeatInterval=100", "raftHeartbeatInterval=100"),
            ("controllerType=jRaft", "controllerType='jRaft' is refused, allowed is DLedger"),
        ):
            with self.assertRaises(ConfigError) as caught:
                controller(text)
            self.assertIn(words, str(caught.exception))
        (warning,) = warnings("raftPreferredLeaders=n5")
        self.assertEqual(warning, "raftPreferredLeaders names n5, which is not in controllerDLegerPeers")

    def test_a_single_peer_is_this_one(self) -> None:
        """Of one controller nobody has to say which of them it is."""
        self.assertEqual(controller("controllerDLegerPeers=c7-10.0.0.7:9878").self_address, "10.0.0.7:9878")

    def test_secret(self) -> None:
        """From a file of its own; shown nowhere."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "secret")
            path.write_bytes(b"0123456789abcdef\n")
            path.chmod(0o600)
            config = controller(f"raftSecretFile={path}")
            self.assertEqual(config.raft_secret, b"0123456789abcdef")
            self.assertNotIn(b"0123456789abcdef", describe(config))
            self.assertNotIn("0123456789abcdef", repr(config))
            path.write_bytes(b"short")
            with self.assertRaisesRegex(ConfigError, "holds 5 bytes, allowed is 16"):
                controller(f"raftSecretFile={path}")
        with self.assertRaisesRegex(ConfigError, "cannot be read"):
            controller(f"raftSecretFile={path}")

    def test_a_secret_that_others_can_read(self) -> None:
        """It is refused before it is used."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "secret")
            path.write_bytes(b"0123456789abcdef\n")
            path.chmod(0o604)
            with self.assertRaisesRegex(ConfigError, f"{path}: others can read or write .*mode 0604.*chmod 0600"):
                controller(f"raftSecretFile={path}")

    def test_keys_without_effect_say_so(self) -> None:
        """Java's that we do not need, and other services'."""
        found = warnings(
            "controllerThreadPoolNums=8\nscanNotActiveBrokerInterval=9\nisProcessReadEvent=true\nmappedFileSize=1\n"
            "jRaftGroupId=x\nlistenPort=4\nbrokerName=b\nelectMasterMaxRetryCount=9"
        )
        self.assertEqual(len(found), 8)
        for warning in found:
            self.assertIn("has no effect", warning)

    def test_described_configuration_loads_again(self) -> None:
        """GET_CONTROLLER_CONFIG's body: Java's keys among ours, sorted."""
        lines = describe(controller()).decode().splitlines()
        self.assertEqual(lines, sorted(lines, key=lambda line: line.partition("=")[0]))
        for line in ("controllerDLegerPeers=n0-127.0.0.1:9878", "enableElectUncleanMaster=false", "listenPort=9878"):
            self.assertIn(line, lines)


class SharedFileTests(unittest.TestCase):
    """Java's NamesrvStartup -c with both key sets."""

    FILE = (
        b"listenPort=9876\nenableControllerInNamesrv=true\ncontrollerDLegerGroup=g\ncontrollerDLegerSelfId=n0\n"
        b"controllerDLegerPeers=n0-127.0.0.1:9878\ncontrollerStorePath=/srv/c\nscanNotActiveBrokerInterval=7000\n"
        b"controllerThreadPoolNums=16\nelectMasterMaxRetryCount=4\nnoSuchKey=1\n"
    )

    def test_each_takes_its_own(self) -> None:
        """And every warning is given once."""
        namesrv = load_namesrv(self.FILE, "n.conf", {}, HOME)
        self.assertTrue(namesrv.config.enable_controller_in_namesrv)
        self.assertEqual((namesrv.config.listen_port, namesrv.config.scan_not_active_broker_interval), (9876, 7000))
        found = load_controller(self.FILE, "n.conf", {}, HOME, embedded=True)
        self.assertEqual((found.config.listen_port, found.config.controller_store_path), (9878, "/srv/c"))
        self.assertEqual(
            [warning.partition(":")[0] for warning in (*namesrv.warnings, *found.warnings)],
            ["n.conf, line 8", "n.conf, line 10", "n.conf, line 9"],
        )

    def test_without_the_switch(self) -> None:
        """The controller's keys do nothing in a name server, and it says so."""
        found = load_namesrv(b"controllerDLegerGroup=g", "n.conf", {}, HOME).warnings
        self.assertIn("key of another service", found[0])
        self.assertIn("key of another service", load_broker(b"brokerSilence=5000", "b", {}, HOME, "h").warnings[0])
