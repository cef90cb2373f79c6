"""RocketMQ's own sample configurations start, or say in one line which key is not supported."""

from __future__ import annotations

import pathlib
import random
import unittest
from collections.abc import Callable, Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import ConfigError
from rocketha.services.broker.service import BrokerService
from rocketha.services.config.loading import load_broker, load_controller, load_namesrv
from rocketha.services.controller.tap import make_controller
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.platform import Platform
from rocketha.store.memory_disk import MemoryDisk
from tests.services.broker_case import BrokerCase
from tests.services.config.samples import BROKERS, CONTROLLERS, LICENSE, NAMESERVERS, NOT_SUPPORTED, text_of

HOME = {"HOME": "/home/op", "ROCKETMQ_HOME": str(pathlib.Path(__file__).with_name("data"))}
"""There is RocketMQ's own plain_acl.yml."""
SMALL_FILES = {
    "mappedFileSizeCommitLog": "8388608",
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "4000",
}


def unsupported(name: str) -> str | None:
    """The key that keeps a sample from starting."""
    return next((key for begin, key in NOT_SUPPORTED.items() if name.startswith(begin)), None)


class LoadingTests(unittest.TestCase):
    """What the files say."""

    def each(self) -> Iterator[tuple[str, bytes, Callable[..., Any]]]:
        for table, load in ((BROKERS, load_broker), (NAMESERVERS, load_namesrv), (CONTROLLERS, load_controller)):
            for name, sample in table.items():
                yield name, text_of(sample), load

    def test_all(self) -> None:
        """Taken, or refused with one line that names file, line and the key that was expected."""
        refused = set()
        for name, text, load in self.each():
            key = unsupported(name)
            with self.subTest(name=name):
                try:
                    load(text, "sample.conf", {}, HOME)
                except ConfigError as problem:
                    refused.add(name)
                    self.assertRegex(str(problem), rf"^sample.conf, line \d+: {key}=.* is refused, allowed is ")
                    self.assertNotIn("\n", str(problem))
                else:
                    self.assertIsNone(key)
        self.assertEqual(len(refused), 7)

    def test_every_key_is_known(self) -> None:
        """No warning says that a key of a sample is none of RocketMQ's."""
        for name, text, load in self.each():
            if unsupported(name) is None:
                warnings = load(text, "sample.conf", {}, HOME).warnings
                self.assertEqual([each for each in warnings if "is not a key of RocketMQ" in each], [], name)

    def test_a_comment_of_another_language(self) -> None:
        """Files of 5.5.0 begin with one; Java reads keys out of it, as we do, and goes on."""
        text = LICENSE.encode() + text_of(NAMESERVERS["controller/cluster-3n-namesrv-plugin/namesrv-n0.conf"])
        loaded = load_namesrv(text, "sample.conf", {}, HOME)
        self.assertEqual((loaded.config.listen_port, loaded.config.enable_controller_in_namesrv), (9876, True))
        embedded = load_controller(text, "sample.conf", {}, HOME, embedded=True)
        self.assertEqual(embedded.config.self_address, "127.0.0.1:9878")


class StartTests(BrokerCase):
    """What runs."""

    def test_brokers(self) -> None:
        """Each opens its ports, on files of small sizes."""
        for name, sample in BROKERS.items():
            if unsupported(name) is not None:
                continue
            loaded = load_broker(text_of(sample), "sample.conf", SMALL_FILES, HOME)
            broker = BrokerService(loaded.config, self.platform(MemoryDisk(random.Random(0))))
            before = len(self.clock.tcpServers)
            broker.startService()
            self.successResultOf(broker.started)
            self.assertIsNone(broker.healthy(), name)
            opened = {port for port, *_ in self.clock.tcpServers[before:]}
            keys = loaded.config.replication
            replicas = int(keys.dledger_peers[keys.d_leger_self_id][-5:]) if keys.d_leger_peers else keys.ha_listen_port
            self.assertLessEqual({loaded.config.listen_port, replicas}, opened, name)
            stopped = broker.stopService()
            self.advance(1)
            self.assertEqual(stopped.called, True, name)


class OthersTests(SynchronousTestCase):
    """Nameservers and controllers."""

    def test_made(self) -> None:
        """Nothing more is asked for before they are started."""
        for sample in NAMESERVERS.values():
            loaded = load_namesrv(text_of(sample), "sample.conf", {}, HOME)
            self.assertFalse(NameServerService(loaded.config, Platform(disk=MemoryDisk(random.Random(0)))).running)
        for name, sample in CONTROLLERS.items():
            if unsupported(name) is None:
                loaded_too = load_controller(text_of(sample), "sample.conf", {}, HOME)
                platform = Platform(disk=MemoryDisk(random.Random(0)))
                controller = make_controller(loaded_too, platform, [])
                self.assertFalse(controller.running)
