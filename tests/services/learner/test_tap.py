"""``twistd rocketha-learner``: options, errors, what is built."""

from __future__ import annotations

import os
import random
import tempfile

from twisted.application import service
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python import usage
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.observe.metrics import Registry
from rocketha.services.learner import tap
from rocketha.services.learner.finder import _master_of
from rocketha.services.learner.service import Learner
from rocketha.services.process.platform import Platform
from rocketha.services.process.status import StatusService
from rocketha.store.memory_disk import MemoryDisk
from tests.services.broker_case import HeldWork

GOOD = ("--namesrv", "10.0.0.1:9876", "--name", "broker-a", "--data", "/srv/store", "--export", "/srv/export")


class LearnerTapTests(SynchronousTestCase):
    """What is wrong is said before anything is opened."""

    def parse(self, *arguments: str) -> tap.Options:
        options = tap.Options()
        options.parseOptions(list(arguments))
        return options

    def test_flags(self) -> None:
        """Whose log, where to; never a member of a SyncStateSet."""
        options = self.parse(*GOOD, "--every", "2.5", "--controller-mode")
        assert options.loaded is not None and options.settings is not None
        keys, settings = options.loaded.config.replication, options.settings
        self.assertEqual((keys.enable_controller_mode, keys.async_learner), (True, True))
        self.assertEqual((settings.directory, settings.every_s, settings.master), ("/srv/export", 2.5, ""))
        self.assertEqual(settings.replica, "broker-a-learner")
        self.assertGreaterEqual(settings.learner_id, tap.ID_FIRST)

    def test_the_file_of_a_master(self) -> None:
        """Any broker's of the group will do."""
        handle, path = tempfile.mkstemp(suffix=".conf")
        self.addCleanup(os.remove, path)
        with os.fdopen(handle, "w") as file:
            file.write("brokerName=b\nbrokerId=0\nbrokerRole=SYNC_MASTER\nnamesrvAddr=10.0.0.1:9876\n")
            file.write("mappedFileSizeCommitLog=16777216\nstorePathRootDir=/srv/learner\n")
        options = self.parse("-c", path, "--export", "/srv/export", "--replica", "spare")
        assert options.loaded is not None and options.settings is not None
        self.assertEqual(options.loaded.config.store.mapped_file_size_commit_log, 1 << 24)
        self.assertFalse(options.loaded.config.replication.enable_controller_mode)
        self.assertEqual(options.settings.replica, "spare")

    def test_a_master_without_nameservers(self) -> None:
        options = self.parse(*GOOD[2:], "--master", "10.0.0.9:10911")
        assert options.settings is not None
        self.assertEqual(options.settings.master, "10.0.0.9:10911")

    def test_errors(self) -> None:
        for more, said in (
            (GOOD[:6], "--export DIRECTORY is needed"),
            ((*GOOD[2:],), "--namesrv or --master is needed"),
            ((*GOOD, "--export", "/srv/store/export"), "is within the store"),
            ((*GOOD, "--export", "/srv"), "has the store /srv/store in it"),
            ((*GOOD, "--export", "s3://bucket/export"), "s3: is not supported"),
            ((*GOOD, "--export", os.path.dirname(__file__)), "is not empty, and no export"),
            ((*GOOD, "--every", "0"), "0.1 to 86400 seconds"),
            ((*GOOD, "--every", "nan"), "0.1 to 86400 seconds"),
            ((*GOOD, "--master", "nowhere"), "host:port is wanted"),
            ((*GOOD[:4], *GOOD[6:]), "--data DIRECTORY is needed"),
            ((*GOOD, "--set", "mappedFileSizeCommitLog=x"), "mappedFileSizeCommitLog"),
        ):
            with self.assertRaises(usage.UsageError, msg=said) as caught:
                self.parse(*more)
            self.assertIn(said, str(caught.exception))

    def test_service(self) -> None:
        """Opens nothing yet."""
        made = tap.makeService(self.parse(*GOOD, "--http", "18080"))
        kinds = [type(each) for each in made if isinstance(made, service.MultiService)]
        self.assertIn(Learner, kinds)
        self.assertIn(StatusService, kinds)


class RefusalTests(SynchronousTestCase):
    """What a learner gives up shows in its metrics."""

    def test_a_master_that_breaks_the_rules(self) -> None:
        options = tap.Options()
        options.parseOptions([*GOOD, "--set", "mappedFileSizeCommitLog=65536"])
        assert options.loaded is not None and options.settings is not None
        clock = MemoryReactorClock()
        learner = Learner(
            options.loaded.config,
            options.settings,
            Platform(disk=MemoryDisk(random.Random(0)), reactor=clock, work=HeldWork),
        )
        learner.startService()
        assert learner.following is not None
        connection = learner.following._factory.buildProtocol(IPv4Address("TCP", "10.0.0.7", 10912))
        connection.makeConnection(StringTransport(peerAddress=IPv4Address("TCP", "10.0.0.7", 10912)))
        connection.dataReceived(b"\xff" * 64)
        metrics = Registry()
        learner.install(metrics)
        ended = 'rocketha_connections_ended_total{reason="bad_frame",role="learner"} 1.0'
        self.assertIn(ended, metrics.exposition().splitlines())
        page = learner.overview()
        self.assertEqual([(each.kind, each.state, each.well) for each in page.processes], [("learner", "waits", False)])
        self.assertEqual([(each.what, each.reason) for each in page.refused], [("connection", "bad_frame")])
        connection.connectionLost(Failure(ConnectionDone()))


class AnswerTests(SynchronousTestCase):
    """What nameservers say."""

    def test_master(self) -> None:
        for body, found in (
            (b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"10.0.0.2:10911",1:"10.0.0.3:10911"}}}}', "10.0.0.2:10911"),
            (b'{"brokerAddrTable":{"b":{"brokerAddrs":{1:"10.0.0.3:10911"}}}}', ""),
            (b'{"brokerAddrTable":{"c":{}}}', ""),
            (b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:7}}}}', ""),
            (b'{"brokerAddrTable":[]}', ""),
            (b"[]", ""),
            (b"not JSON", ""),
            (b"", ""),
        ):
            self.assertEqual(_master_of(body, "b"), found, body)
