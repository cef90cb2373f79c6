"""``twistd rocketha-learner`` beside real masters: its export has what they have, and nobody waits for it."""

from __future__ import annotations

import signal
import sys

from rocketha_spark import audits
from tests.spark.session import session

from .harness import FULL, PairCase, for_pairs
from .harness.clients import JavaClient
from .harness.controllers import GROUP, ReplicaGroup
from .harness.learners import OurLearner
from .harness.pairs import await_equal
from .harness.tables import TableCase

MESSAGES = 20_000 if FULL else 1_500


class ClassicLearner(PairCase, TableCase):
    """Of a master without controllers."""

    def end(self) -> int:
        """Of the master's log."""
        return await_equal([self.broker])

    def test_grows_with_the_log(self) -> None:
        """Messages before it and with it, over files of the log and a kill; a stream delivers each once."""
        self.client.send("Before", "sync", 50, prefix="b", max_size=300)
        learner = OurLearner(self.subfolder("learner"), self.namesrv.address, self.broker.name)
        self.use(learner)
        checkpoint, sink = str(self.subfolder("stream") / "checkpoint"), str(self.subfolder("stream") / "sink")
        delivered = []
        for number in range(3):
            self.client.send("Learned", "async", MESSAGES, prefix=f"l{number}", max_size=9000, timeout_s=300)
            manifest = learner.await_exported(self.end())
            stream = session().readStream.format("rocketha").schema("phys_offset bigint, uniq_key string")
            table = stream.load(str(learner.export))
            query = table.writeStream.format("parquet").option("checkpointLocation", checkpoint).option("path", sink)
            query.trigger(availableNow=True).start().awaitTermination()
            delivered.append(session().read.parquet(sink).count())
            self.assertEqual(delivered[-1], manifest.messages)
            if number == 1:
                learner.kill()
                learner.start()
        self.assertGreater(len(manifest.segments), 1)
        rows = session().read.parquet(sink)
        self.assertEqual(rows.select("phys_offset").distinct().count(), delivered[-1])
        self.assertEqual(learner.stop(), -signal.SIGTERM)  # as twistd ends in order
        self.assertEqual(self.compare(learner.export, 3 * MESSAGES + 50), delivered[-1])
        direct = self.export(self.broker.root, "master")
        left = session().read.format("rocketha").load(str(direct)).select("phys_offset", "record_digest")
        right = session().read.format("rocketha").load(str(learner.export)).select("phys_offset", "record_digest")
        self.assertEqual((left.exceptAll(right).count(), right.exceptAll(left).count()), (0, 0))
        sys.stderr.write(f"{self.pair}: {delivered} messages delivered\n")


class ElectedLearner(TableCase):
    """Of a group with controllers."""

    kind = "java"

    @classmethod
    def prepare(cls) -> None:
        cls.group = ReplicaGroup(cls.kind, cls.folder, count=2, controllers=1, kinds=(cls.kind,) * 2)
        cls._shared.append(cls.group)
        cls.group.start()
        cls.client = cls.share(JavaClient(cls.group.namesrv_addresses, folder=cls.folder / "client"))
        cls.client.producer()

    def test_follows_the_elected(self) -> None:
        """It is in no SyncStateSet, and goes on with the next master where the last one ended."""
        learner = OurLearner(self.subfolder("learner"), self.group.namesrv_addresses, GROUP, ("--controller-mode",))
        self.use(learner)
        self.client.send("Elected", "async", MESSAGES, prefix="a", max_size=3000, timeout_s=300)
        first = self.group.master()
        learner.await_exported(await_equal(self.group.brokers))
        state = self.group.await_whole()
        self.assertEqual((len(state.in_sync), len(state.ids)), (2, 2))
        first.stop()
        second = self.group.await_master(lambda state: state.master_address != first.address)
        master = next(broker for broker in self.group.brokers if broker.address == second.master_address)
        self.client.send("Elected", "async", MESSAGES, prefix="b", max_size=3000, timeout_s=300)
        manifest = learner.await_exported(await_equal([master]))
        self.assertEqual(manifest.cuts, ())
        self.assertGreaterEqual(len(manifest.epochs), 2)
        self.assertEqual(len(self.group.await_master().in_sync), 1)
        learner.stop()
        rows = self.compare(learner.export, 2 * MESSAGES)
        ours = self.export(master.root, "master")
        both = self.subfolder("both")
        for directory, name in ((learner.export, "learner"), (ours, "master")):
            (both / name).symlink_to(directory)
        table = session().read.format("rocketha").load(f"{both}/*")
        self.assertEqual([row.asDict() for row in audits.divergence(table).collect()], [])
        sys.stderr.write(f"{self.kind}: {rows} rows equal over {len(manifest.epochs)} epochs\n")


class JavaElectedLearner(ElectedLearner):
    """Java's brokers and controller."""


class OurElectedLearner(ElectedLearner):
    """Ours."""

    kind = "ours"


globals().update(for_pairs(ClassicLearner, sample=(("java", "java"),)))
del ClassicLearner, ElectedLearner, PairCase, TableCase
if not FULL:
    del OurElectedLearner
