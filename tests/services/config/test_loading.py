"""Typed configuration: RocketMQ's keys and defaults, every refusal named, live updates by allow-list."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import rocketha
from rocketha.errors import ConfigError, RequestRefused
from rocketha.services.config import settings, unsupported
from rocketha.services.config.loading import (
    AccessConfig,
    BrokerConfig,
    ControllerConfig,
    NamesrvConfig,
    RemotingConfig,
    ReplicationConfig,
    StoreSettings,
    TlsConfig,
    all_texts,
    describe,
    load_broker,
    load_namesrv,
    read_file,
    update,
)
from rocketha.services.config.views import endpoint, limits, store_config

SECTIONS: tuple[type[settings.Section], ...] = (
    BrokerConfig,
    StoreSettings,
    RemotingConfig,
    ReplicationConfig,
    NamesrvConfig,
    ControllerConfig,
)
HOME = {"HOME": "/home/op"}


def broker(text: str = "", **flags: str) -> BrokerConfig:
    return load_broker(text.encode(), "b.conf", flags, HOME, "host-1").config


class BrokerConfigTests(unittest.TestCase):
    """broker.conf."""

    def refused(self, text: str, *parts: str) -> None:
        with self.assertRaises(ConfigError) as caught:
            broker(text)
        for part in parts:
            self.assertIn(part, str(caught.exception))

    def test_defaults(self) -> None:
        """Java's, where they are safe."""
        config = broker()
        self.assertEqual(
            (config.broker_cluster_name, config.broker_name, config.broker_id), ("DefaultCluster", "host-1", 0)
        )
        self.assertEqual(
            (config.listen_port, config.bind_address, config.broker_ip1), (10911, "127.0.0.1", "127.0.0.1")
        )
        self.assertEqual((config.default_topic_queue_nums, config.broker_permission), (8, 6))
        store = config.store
        self.assertEqual(store.store_path_root_dir, "/home/op/store")
        self.assertEqual(store.store_path_commit_log, "/home/op/store/commitlog")
        self.assertEqual(
            (store.mapped_file_size_commit_log, store.mapped_file_size_consume_queue), (1 << 30, 6_000_000)
        )
        self.assertEqual(
            (store.flush_disk_type, store.delete_when, store.file_reserved_time), ("ASYNC_FLUSH", "04", 72)
        )
        self.assertFalse(config.config_update_enable)

    def test_a_distribution_file(self) -> None:
        """conf/broker.conf of RocketMQ's distribution, with its usual additions, starts without a warning."""
        text = """
            # Licensed to the Apache Software Foundation
            brokerClusterName = DefaultCluster
            brokerName = broker-a
            brokerId = 0
            deleteWhen = 04
            fileReservedTime = 48
            brokerRole = ASYNC_MASTER
            flushDiskType = ASYNC_FLUSH
            namesrvAddr=127.0.0.1:9876;ns-2.example.org:9876
            brokerIP1=10.1.2.3
            listenPort=10921
            autoCreateTopicEnable=FALSE
            messageDelayLevel=1s 5s 2h 1d
            maxMessageSize=65536
        """
        loaded = load_broker(text.encode(), "broker.conf", {}, HOME, "h")
        self.assertEqual(loaded.warnings, ())
        config = loaded.config
        self.assertEqual((config.broker_name, config.listen_port, config.broker_ip1), ("broker-a", 10921, "10.1.2.3"))
        self.assertEqual((config.broker_ip2, config.auto_create_topic_enable), ("10.1.2.3", False))
        self.assertEqual((config.store.file_reserved_time, config.store.max_message_size), (48, 65536))

    def test_ipv6_in_brackets(self) -> None:
        """As Java's broker writes the addresses of its own host."""
        for said in ("[::1]", "::1"):
            text = f"brokerIP1={said}\nbrokerIP2={said}\n"
            config = load_broker(text.encode(), "broker.conf", {}, HOME, "h").config
            self.assertEqual((config.broker_ip1, config.broker_ip2), ("::1", "::1"))

    def test_precedence(self) -> None:
        """Flag, file, environment, default."""
        environment = {**HOME, "NAMESRV_ADDR": "e:1", "ROCKETMQ_HOME": "/opt/rocketmq"}
        for text, flags, wanted in (
            (b"", {}, "e:1"),
            (b"namesrvAddr=f:2", {}, "f:2"),
            (b"namesrvAddr=f:2", {"namesrvAddr": "g:3"}, "g:3"),
        ):
            config = load_broker(text, "b.conf", flags, environment, "h").config
            self.assertEqual((config.namesrv_addr, config.rocketmq_home), (wanted, "/opt/rocketmq"))
        self.assertEqual(load_namesrv(b"", "n", {}, environment).config.rocketmq_home, "/opt/rocketmq")

    def test_bad_values_name_file_line_key_and_what_is_allowed(self) -> None:
        """Java silently keeps its default for each of these."""
        for line, allowed in (
            ("listenPort=abc", "a whole number from 1 to 65535"),
            ("listenPort=", "a whole number"),
            ("listenPort=0", "1 to 65535"),
            ("listenPort=1e3", "a whole number"),
            ("listenPort=99999999999999999999", "a whole"),
            ("listenPort=\u0661", "a whole"),
            ("useServerSideResetOffset=yes", "true or false"),
            ("flushDiskType=sync", "ASYNC_FLUSH or SYNC_FLUSH"),
            ("brokerName=a/b", "1 to 127 of the characters"),
            ("brokerName=..", "1 to 127"),
            ("brokerClusterName=", "1 to 127"),
            ("brokerIP1=a b", "an IPv4 or IPv6 address, or a host name"),
            ("brokerIP1=[127.0.0.1]", "an IPv4 or IPv6 address"),
            ("bindAddress=[::1]", "an IPv4 or IPv6 address"),
            ("namesrvAddr=host", "host:port"),
            ("namesrvAddr=h:70000", "host:port"),
            ("namesrvAddr=-h:1", "host:port"),
            ("deleteWhen=24", "hours of the day"),
            ("deleteWhen=", "hours of the day"),
            ("messageDelayLevel=", "1 to 64 delays"),
            ("messageDelayLevel=5x", "1 to 64 delays"),
            ("storePathCommitLog=/a,/b", "one directory"),
            ("msgTraceTopicName=a\\nb", "characters"),
            ("configBlackList=a\\tb", "without control characters"),
            ("rocketmqHome=" + "x" * 5000, "at most 4096"),
        ):
            with self.subTest(line=line[:40]):
                text = f"# one\n\n{line}\n".encode().decode("latin-1")
                with self.assertRaises(ConfigError) as caught:
                    load_broker(text.encode("latin-1"), "b.conf", {}, HOME, "h")
                message = str(caught.exception)
                self.assertIn("b.conf, line 3: " + line.partition("=")[0], message)
                self.assertIn(allowed, message)
                self.assertLess(len(message), 400)

    def test_bad_flag(self) -> None:
        """A flag is named as a flag; an unknown one is an error, not a warning."""
        with self.assertRaises(ConfigError) as caught:
            broker(listenPort="x")
        self.assertIn("flag listenPort: listenPort='x' is refused", str(caught.exception))
        with self.assertRaises(ConfigError) as caught:
            broker(listenPrt="1")
        self.assertIn("did you mean listenPort?", str(caught.exception))

    def test_refused_expectations(self) -> None:
        """What would be less safe than the operator thinks is no warning."""
        for line in (
            "enableSlaveActingMaster=true",
            "storeType=defaultRocksDB",
            "messageStorePlugIn=com.example.X",
        ):
            self.refused(line, "line 1", line.partition("=")[0], "is refused")
        loaded = load_broker(b"brokerConfigPaths=\nstoreType=default", "b.conf", {}, HOME, "h")
        self.assertEqual(len(loaded.warnings), 2)

    def test_warnings(self) -> None:
        """Unknown keys, keys without effect and why, keys of the other service, repeated keys, a slave's id."""
        text = b"flushDisktype=X\nsendMessageThreadPoolNums=4\nkvConfigPath=/x\n"
        text += b"listenPort=1000\nlistenPort=2000\nbrokerId=3\n"
        loaded = load_broker(text, "b.conf", {}, HOME, "h")
        self.assertEqual(loaded.config.listen_port, 2000)
        self.assertEqual(loaded.config.broker_id, 0)
        for part in (
            "b.conf, line 1: flushDisktype is not a key of RocketMQ or rocketha; did you mean flushDiskType?",
            "b.conf, line 1: flushDisktype is not a key of RocketMQ or rocketha; did you mean flushDiskType?",
            "line 2: sendMessageThreadPoolNums has no effect: requests are served on one reactor thread",
            "line 3: kvConfigPath has no effect: it is a key of another service",
            "line 5: listenPort stands in line 4 too; this line counts",
            "brokerId=3 has no effect",
            "brokerId=3 has no effect",
        ):
            self.assertTrue(any(part in warning for warning in loaded.warnings), (part, loaded.warnings))
        self.assertEqual(len(loaded.warnings), 5)

    def test_rules_between_keys(self) -> None:
        """Combinations that no broker could run with; see ``test_rules`` for the others."""
        self.refused("listenPort=2\nfastPortEnable=true", "fast port")
        self.refused(
            "maxHashSlotNum=100000000\nmaxIndexNum=100000000",
            "b.conf: maxHashSlotNum=100000000",
            "make an index file of",
        )
        self.assertEqual(broker("listenPort=2\nfastPortEnable=false").listen_port, 2)

    def test_derived(self) -> None:
        """Paths are absolute, a consume queue file is a multiple of 20 bytes, a bad host name is replaced."""
        config = broker("storePathRootDir=/d\nmappedFileSizeConsumeQueue=1001")
        self.assertEqual(config.store.store_path_commit_log, "/d/commitlog")
        self.assertEqual(config.store.mapped_file_size_consume_queue, 1020)
        self.assertEqual(load_broker(b"", "b", {}, HOME, "bad host").config.broker_name, "DEFAULT_BROKER")
        self.assertTrue(Path(broker("storePathRootDir=rel").store.store_path_root_dir).is_absolute())

    def test_wildcard_needs_an_address_to_tell(self) -> None:
        """Clients cannot connect to 0.0.0.0 (regression E3)."""
        for wildcard in ("0.0.0.0", "::"):
            loaded = load_broker(f"bindAddress={wildcard}".encode(), "b", {}, HOME, "h")
            self.assertNotIn(loaded.config.broker_ip1, ("0.0.0.0", "::", ""))
            self.assertIn("brokerIP1 is not set", loaded.warnings[0])
        self.assertEqual(broker("bindAddress=10.0.0.9").broker_ip1, "10.0.0.9")

    @given(st.sampled_from([k for s in SECTIONS[:4] for k in s.declared()]), st.text(max_size=20))
    def test_any_value(self, key: str, value: str) -> None:
        """Any text for any key: a configuration, or a ConfigError that names the key."""
        try:
            load_broker(b"", "b", {key: value}, HOME, "h")
        except ConfigError as problem:
            self.assertIn(key, str(problem))


class NamesrvConfigTests(unittest.TestCase):
    """namesrv.conf."""

    def test_defaults(self) -> None:
        """Java's, but loopback, no changes by request, and a grace for broken connections."""
        config = load_namesrv(b"", "n.conf", {}, HOME).config
        self.assertEqual((config.listen_port, config.bind_address), (9876, "127.0.0.1"))
        self.assertEqual(config.kv_config_path, "/home/op/namesrv/kvConfig.json")
        self.assertEqual(config.broken_connection_grace, 3000)
        self.assertFalse(config.config_update_enable or config.need_wait_for_service or config.order_message_enable)

    def test_file(self) -> None:
        """Keys, limits of the port, and a broker's key."""
        loaded = load_namesrv(b"listenPort=1\nfrontNo=1\nconnectionsMax=5\nbrokerName=x", "n.conf", {}, HOME)
        self.assertEqual((loaded.config.listen_port, loaded.config.remoting.connections_max), (1, 5))
        self.assertEqual(len(loaded.warnings), 2)
        with self.assertRaises(ConfigError):
            load_namesrv(b"scanNotActiveBrokerInterval=0", "n.conf", {}, HOME)


class UpdateTests(unittest.TestCase):
    """UPDATE_BROKER_CONFIG (25), UPDATE_NAMESRV_CONFIG (318): CVE-2023-33246 and CVE-2023-37582 were here."""

    def setUp(self) -> None:
        self.config = broker("configUpdateEnable=true")

    def refused(self, body: bytes, code: int, part: str) -> None:
        before = all_texts(self.config)
        with self.assertRaises(RequestRefused) as caught:
            update(self.config, body)
        self.assertEqual(caught.exception.code, code)
        self.assertIn(part, caught.exception.remark)
        self.assertEqual(all_texts(self.config), before)

    def test_live_keys(self) -> None:
        """Of all sections, all or none, only real changes reported."""
        changed = update(self.config, b"autoCreateTopicEnable=false\nsyncFlushTimeout=1024\nlongPollingEnable=true")
        self.assertEqual(changed, {"autoCreateTopicEnable": ("true", "false"), "syncFlushTimeout": ("5000", "1024")})
        self.assertEqual((self.config.auto_create_topic_enable, self.config.store.sync_flush_timeout), (False, 1024))

    def test_refusals(self) -> None:
        """Paths, switches, unknown keys, bad values, rubbish: nothing of the request is applied."""
        for body, code, part in (
            (b"longPollingEnable=false\nlistenPort=1", 16, "listenPort can not be changed"),
            (b"longPollingEnable=false\nrocketmqHome=/tmp", 16, "black list"),
            (b"longPollingEnable=false\nbrokerConfigPath=/tmp", 16, "black list"),
            (b"configBlackList=", 16, "black list"),
            (b"configUpdateEnable=true", 16, "can not be changed"),
            (b"filterServerNums=1", 16, "can not be changed"),
            (
                b"longPollingEnable=false\nsyncFlushTimeout=-1",
                1,
                "syncFlushTimeout='-1' is refused, allowed is a whole number",
            ),
            (rb"longPollingEnable=\u00", 1, "hexadecimal"),
        ):
            self.refused(body, code, part)

    def test_own_black_list(self) -> None:
        """An operator may forbid live keys too."""
        self.config = broker("configUpdateEnable=true\nconfigBlackList=longPollingEnable;maxMessageSize")
        self.refused(b"longPollingEnable=false", 16, "black list")

    def test_keys_under_rules_are_not_live(self) -> None:
        """An update must not make what the start would refuse: the keys of such rules change with a restart only."""
        for key in (
            "maxMessageSize",
            "mappedFileSizeCommitLog",
            "frameMaxLength",
            "diskMaxUsedSpaceRatio",
            "maxIndexNum",
        ):
            self.refused(f"{key}=70000".encode(), 16, "can not be changed")

    def test_every_key(self) -> None:
        """Regression X1.  Each of all kinds of servers: one that may change in a running process is a number, a switch
        or one of a few words; a text, which could be a path, a command, an address or a secret, is refused."""
        servers: tuple[tuple[BrokerConfig | NamesrvConfig | ControllerConfig, tuple[type[settings.Section], ...]], ...]
        servers = (
            (self.config, (BrokerConfig, StoreSettings, RemotingConfig, ReplicationConfig, TlsConfig, AccessConfig)),
            (NamesrvConfig(config_update_enable=True), (NamesrvConfig, RemotingConfig, TlsConfig)),
            (ControllerConfig(config_update_enable=True), (ControllerConfig, RemotingConfig, TlsConfig)),
        )
        for config, sections in servers:
            for section in sections:
                for name, (_, key) in section.declared().items():
                    with self.subTest(key=name):
                        if key.live:
                            self.assertIn(key.kind, ("integer", "decimal", "flag", "choice"))
                        else:
                            value = settings.show(key.default) or "/tmp/x; touch /tmp/y"
                            with self.assertRaises(RequestRefused) as caught:
                                update(config, f"{name}={value}".encode())
                            self.assertEqual(caught.exception.code, 16)

    def test_off_by_default(self) -> None:
        """Whatever is asked."""
        self.config = broker()
        self.refused(b"longPollingEnable=false", 16, "configUpdateEnable=true")


class TableTests(unittest.TestCase):
    """The declarations themselves."""

    def test_defaults_are_allowed(self) -> None:
        """Each default passes its own check, and shows and parses to itself."""
        for section in SECTIONS:
            for name, (attribute, key) in section.declared().items():
                with self.subTest(key=name):
                    if key.default != "":
                        self.assertEqual(key.parse(settings.show(key.default)), key.default)
                    self.assertTrue(hasattr(section(), attribute))
                    self.assertTrue(key.doc.endswith("."))

    def test_keys_stand_once(self) -> None:
        """A key is honoured, ignored or refused."""
        broker_keys = [set(section.declared()) for section in SECTIONS[:4]]
        self.assertEqual(sum(map(len, broker_keys)), len(set().union(*broker_keys)))
        honoured = set().union(*(section.declared() for section in SECTIONS))
        groups = (honoured, set(unsupported.IGNORED), set(unsupported.REFUSED))
        for i, one in enumerate(groups):
            for other in groups[i + 1 :]:
                self.assertEqual(one & other, set())

    def test_attribute_is_the_key_in_snake_case(self) -> None:
        """So that nobody has to look it up."""
        for section in SECTIONS:
            for name, (attribute, _) in section.declared().items():
                if name != "checkCRCOnRecover":
                    self.assertEqual(settings.snake_case(name), attribute)

    def test_keys_are_read(self) -> None:
        """A key without a word to the contrary has an effect: some module other than the tables reads it."""
        tables = Path(rocketha.__file__).parent / "services" / "config"
        own = {tables / f"{each}.py" for each in ("keys", "controller", "replication", "unsupported")}
        # all but the first: peers, controllers, dledger_peers
        elsewhere = {"controllerType", "controllerDLegerPeers", "controllerAddr", "dLegerPeers", "preferredLeaderId"}
        source = "".join(p.read_text() for p in Path(rocketha.__file__).parent.rglob("*.py") if p not in own)
        for section in SECTIONS:
            for name, (attribute, key) in section.declared().items():
                if not key.no_effect and "tools only" not in key.doc and name not in elsewhere:
                    self.assertIn(f".{attribute}", source, f"{name} is not read: honour it or give its no_effect")

    def test_keys_without_effect(self) -> None:
        """Warned about, unless set to what holds anyway."""
        for text, count in ((b"brokerFastFailureEnable=false", 1), (b"brokerFastFailureEnable=true", 0)):
            loaded = load_broker(text, "b.conf", {}, HOME, "h")
            self.assertEqual(len(loaded.warnings), count)
            self.assertTrue(all("none waits in a queue" in warning for warning in loaded.warnings))

    def test_describe(self) -> None:
        """GET_BROKER_CONFIG's body: every key of the file, sorted."""
        lines = describe(broker("brokerName=x")).decode().splitlines()
        self.assertEqual(lines, sorted(lines, key=lambda line: line.partition("=")[0]))
        for line in (
            "brokerName=x",
            "flushDiskType=ASYNC_FLUSH",
            "useServerSideResetOffset=true",
            "brokerIP1=127.0.0.1",
        ):
            self.assertIn(line, lines)

    def test_described_configuration_loads_again(self) -> None:
        """What is shown may be saved and started with."""
        config = broker("brokerName=x\nlistenPort=5")
        again = load_broker(describe(config), "again", {}, HOME, "h")
        self.assertEqual((all_texts(again.config), again.warnings), (all_texts(config), ()))

    def test_decimal_keys(self) -> None:
        """No key needs one yet; the machinery is for the replicated broker."""
        key = settings.Key("decimal", 0.5, "A share.", low=0, high=1)
        self.assertEqual(key.parse(" 0.25 "), 0.25)
        for bad in ("nan", "1e9", "2", "", "0x1"):
            with self.assertRaises(ValueError) as caught:
                key.parse(bad)
            self.assertEqual(str(caught.exception), "a number from 0 to 1")


class ViewTests(unittest.TestCase):
    """A configuration in the units of those who act on it."""

    def test_store(self) -> None:
        """Hours, percents and delay words."""
        view = store_config(
            broker("fileReservedTime=2\ndeleteWhen=04;16\nmessageDelayLevel=1s 2m\nwarmMapedFileEnable=true"), 0
        )
        self.assertEqual((view.file_reserved_ms, view.delete_hours), (7_200_000, frozenset({4, 16})))
        self.assertEqual((view.delay_levels_ms, view.warm), ((1000, 120_000), True))
        self.assertEqual((view.disk_expire_ratio, view.disk_force_ratio, view.disk_full_ratio), (0.75, 0.85, 0.95))

    def test_limits_and_endpoint(self) -> None:
        """Of a port."""
        found = limits(load_namesrv(b"connectionsMax=7\nfrontNo=1", "n", {}, HOME).config.remoting)
        self.assertEqual((found.connections, found.idle_s, found.first_frame_s), (7, 120, 10))
        self.assertEqual(endpoint("127.0.0.1", 9876, 5), "tcp:9876:interface=127.0.0.1:backlog=5")
        self.assertEqual(endpoint("::1", 9876, 5), r"tcp6:9876:interface=\:\:1:backlog=5")

    def test_read_file(self) -> None:
        """A file that is not there is a ConfigError with its name."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "b.conf"
            with self.assertRaises(ConfigError) as caught:
                read_file(str(path))
            self.assertIn(f"{path}: cannot be read", str(caught.exception))
            path.write_bytes(b"listenPort=5")
            self.assertEqual(read_file(str(path)), b"listenPort=5")
