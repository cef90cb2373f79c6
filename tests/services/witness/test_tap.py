"""``twistd rocketha-witness``: options, errors, what is built."""

from __future__ import annotations

import os
import random
import tempfile

from twisted.application import service
from twisted.python import usage
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import ConfigError
from rocketha.observe.metrics import Registry
from rocketha.services.config.loading import load_broker
from rocketha.services.process.platform import Platform
from rocketha.services.process.status import StatusService
from rocketha.services.witness import tap
from rocketha.services.witness.service import Witness
from rocketha.store.memory_disk import MemoryDisk

PEERS = "n0-10.0.0.1:40911;n1-10.0.0.2:40911;n2-10.0.0.3:40911"
GOOD = ("--group", "g", "--peers", PEERS, "--id", "n2", "--data", "/srv/store")
FILE = f"""
brokerName=broker-a
enableDLegerCommitLog=true
dLegerGroup=g
dLegerPeers={PEERS}
dLegerSelfId=n0
storePathRootDir=/srv/store
"""


class WitnessTapTests(SynchronousTestCase):
    """What is wrong is said before anything is opened."""

    def parse(self, *arguments: str) -> tap.Options:
        options = tap.Options()
        options.parseOptions(list(arguments))
        return options

    def file(self, text: str) -> str:
        handle, path = tempfile.mkstemp(suffix=".conf")
        self.addCleanup(os.remove, path)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        return path

    def test_flags(self) -> None:
        options = self.parse(*GOOD, "--bind", "10.0.0.3", "--set", "insecureNetwork=true")
        assert options.loaded is not None
        keys = options.loaded.config.replication
        self.assertEqual((keys.d_leger_self_id, keys.d_leger_group), ("n2", "g"))
        self.assertEqual(keys.dledger_directory, "/srv/store/dledger-n2")

    def test_the_file_of_a_broker(self) -> None:
        """Any broker's of the group will do; no broker starts as the witness."""
        path = self.file(f"{FILE}dLegerWitness=n2\n")
        options = self.parse("-c", path)
        assert options.loaded is not None
        self.assertEqual(options.loaded.config.replication.d_leger_self_id, "n2")
        load_broker(f"{FILE}dLegerWitness=n2\n".encode())
        with self.assertRaisesRegex(ConfigError, "it is dLegerWitness: start twistd rocketha-witness"):
            load_broker(f"{FILE}dLegerWitness=n0\n".encode())

    def test_errors(self) -> None:
        for more, said in (
            (GOOD[2:], "refused without dLegerGroup"),
            ((*GOOD[:2], *GOOD[4:]), "refused without dLegerPeers"),
            ((*GOOD[:4], *GOOD[6:]), "a witness needs dLegerWitness"),
            ((*GOOD, "--id", "n7"), "dLegerWitness=n7 is refused, allowed is an id of dLegerPeers"),
            ((*GOOD, "--id", "witness"), "a letter and a number"),
            ((*GOOD, "--set", "dLegerWire=java"), "Java's know no witness"),
            ((*GOOD, "--peers", "n2-10.0.0.3:40911"), "nobody of dLegerPeers would keep messages"),
            ((*GOOD, "--set", "enableControllerMode=true"), "one or the other"),
            ((*GOOD, "--listen", "nonsense"), "--listen nonsense"),
        ):
            with self.assertRaises(usage.UsageError, msg=said) as caught:
                self.parse(*more)
            self.assertIn(said, str(caught.exception))

    def test_a_witness_that_should_lead(self) -> None:
        loaded = load_broker(f"{FILE}dLegerWitness=n2\npreferredLeaderId=n2;n9\n".encode())
        self.assertIn("preferredLeaderId names n2, a witness, which can not lead", loaded.warnings)
        self.assertIn("preferredLeaderId names n9, which is not in dLegerPeers", loaded.warnings)

    def test_what_is_built(self) -> None:
        whole = tap.makeService(self.parse(*GOOD, "--http", "9100"))
        assert isinstance(whole, service.MultiService)
        kinds = [type(each) for each in whole.services]
        self.assertIn(Witness, kinds)
        self.assertIn(StatusService, kinds)
        self.assertRaises(usage.UsageError, tap.makeService, tap.Options())

    def test_metrics(self) -> None:
        options = self.parse(*GOOD)
        assert options.loaded is not None
        witness = Witness(options.loaded.config, Platform(disk=MemoryDisk(random.Random(1))))
        metrics = Registry()
        witness.install(metrics)
        self.assertIn("rocketha_witness_ready 0", metrics.exposition())
        self.assertEqual(witness.ready(), "the log is being read")
