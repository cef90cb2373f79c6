"""Store directories of a real Java 5.5.0 broker (``data/``, made by ``record_java_store.py``): read, continued, and
written alike.

Source: the recorded files; facts/store.md 1-8 and 12.  What needs a running Java is in tests/interop/test_drop_in.py.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import unittest
from pathlib import Path

from rocketha.store import checkpoint
from rocketha.store.config import StoreConfig
from rocketha.store.dispatch import delay_level, index_keys, of_record, tags_code
from rocketha.store.foreign_names import ForeignNames
from rocketha.store.log_walk import LogWalk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import PutMessage
from rocketha.store.posix_disk import PosixDisk
from rocketha.store.verify import verify
from rocketha.wire import properties as properties_wire
from rocketha.wire import record as record_wire
from tests.store.support import message, read_all

DATA = Path(__file__).resolve().parent / "data"
CONFIG = StoreConfig(
    segment_size=32768,
    queue_file_size=20 * 50,
    index_slots=100,
    index_units=200,
    message_bytes_max=8192,
    record_overhead_max=4096,
)
LATER_MS = 1_900_000_000_000


class JavaFilesTests(unittest.TestCase):
    """One recorded directory a test, unpacked anew."""

    def setUp(self) -> None:
        """A folder of its own."""
        self.folder = Path(tempfile.mkdtemp(prefix="rocketha-java-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def unpack(self, name: str) -> Path:
        """A recorded directory."""
        root = self.folder / name
        with tarfile.open(DATA / f"java-5.5.0-{name}.tar.gz") as archive:
            archive.extractall(root, filter="data")
        return root

    def store(self, root: Path, store_host: bytes = bytes((127, 0, 0, 1, 0, 0, 1, 0))) -> MessageStore:
        """A store of ours on it, not loaded."""
        store = MessageStore(PosixDisk(), str(root), CONFIG, store_host)
        self.addCleanup(self.release, store)
        return store

    def release(self, store: MessageStore) -> None:
        """Give the lock back whatever the test did."""
        store._release()

    def files(self, root: Path, folder: str) -> dict[str, bytes]:
        """Files of a folder, by their path in it."""
        return {
            str(path.relative_to(root / folder)): path.read_bytes()
            for path in sorted((root / folder).rglob("*"))
            if path.is_file()
        }

    def test_a_cleanly_stopped_java_store_is_ours(self) -> None:
        """Nothing is rewritten, queues and index equal a rebuild from the log, every message is served."""
        root = self.unpack("stopped")
        before = {name: self.files(root, name) for name in ("commitlog", "consumequeue", "index")}
        store = self.store(root)
        report = store.load(LATER_MS)
        self.assertEqual((report.clean, report.dispatched, report.truncated_bytes, report.notes), (True, 0, 0, ()))
        self.assertEqual(verify(store), [])
        served = read_all(store)
        self.assertEqual(sum(len(records) for (topic, _), records in served.items() if topic == "Alpha"), 180)
        self.assertEqual(sum(len(records) for (topic, _), records in served.items() if topic == "Beta"), 30)
        self.assertEqual(len(served["SCHEDULE_TOPIC_XXXX", 2]), 5)
        one = served["Alpha", 0][0]
        unique = properties_wire.parse(one.properties)["UNIQ_KEY"]
        found = store.query("Alpha", unique, 10, 0, LATER_MS)
        self.assertEqual([record_wire.decode(data) for data in found], [one])
        self.assertEqual(len(store.query("Alpha", "T#Bé", 64, 0, LATER_MS)), 40)
        store.close(LATER_MS)
        after = {name: self.files(root, name) for name in before}
        # Java leaves the next log file ready, we make it when it is needed.
        after["commitlog"] = {**{name: bytes(32768) for name in before["commitlog"]}, **after["commitlog"]}
        self.assertEqual(after, before)

    def test_a_killed_java_store_is_ours(self) -> None:
        """Abnormal recovery: nothing the kernel had is lost, and the store goes on where Java stopped."""
        root = self.unpack("killed")
        walked = MessageStore(PosixDisk(), str(root), CONFIG, bytes(8))
        walked.log.segments.load(ForeignNames())
        expected = [(record.topic, record.queue_id, record.queue_offset) for record in LogWalk(walked.log.segments, 0)]
        walked._release()
        store = self.store(root)
        report = store.load(LATER_MS)
        self.assertFalse(report.clean)
        self.assertEqual(verify(store), [])
        served = {(topic, queue_id): len(records) for (topic, queue_id), records in read_all(store).items()}
        self.assertEqual(sum(served.values()), len(expected))
        self.assertGreaterEqual(sum(count for (topic, _), count in served.items() if topic == "Alpha"), 360)
        place = store.append([[message(1, topic="Alpha", queue_id=0)]], LATER_MS)[0][0]
        self.assertEqual(place.queue_offset, served["Alpha", 0])
        self.assertEqual(verify(store), [])
        store.close(LATER_MS)
        store = self.store(root)
        self.assertTrue(store.load(LATER_MS).clean)
        self.assertEqual(verify(store), [])

    def test_the_same_messages_make_the_same_files(self) -> None:
        """Java's records, put through our append with Java's times and hosts: log, queues and index equal byte for
        byte."""
        for name in ("stopped", "killed"):
            with self.subTest(name=name):
                self.compare(self.unpack(name), self.folder / f"{name}-ours")

    def compare(self, theirs: Path, ours: Path) -> None:
        """Replay Java's log into an empty store and compare the directories."""
        reader = MessageStore(PosixDisk(), str(theirs), CONFIG, bytes(8))
        reader.log.segments.load(ForeignNames())
        records = list(LogWalk(reader.log.segments, 0))
        reader._release()
        store = self.store(ours, records[0].store_host)
        store.load(records[0].store_timestamp_ms)
        at = 0
        while at < len(records):
            group = [records[at]]
            fields = properties_wire.parse(group[0].properties)
            if "-b-" in fields.get("KEYS", ""):  # sent in batches of twenty, which stay together
                group = records[at : at + 20]
            store.append([[put(record) for record in group]], group[0].store_timestamp_ms)
            at += len(group)
        store.close(LATER_MS)
        self.assertEqual(checkpoint.load(PosixDisk(), f"{ours}/checkpoint").logics_offset, records[-1].physical_offset)
        mine, java = self.files(ours, "commitlog"), self.files(theirs, "commitlog")
        self.assertEqual({**{base: bytes(32768) for base in java}, **mine}, java)
        self.assertEqual(self.files(ours, "consumequeue"), self.files(theirs, "consumequeue"))
        self.assertEqual(list(self.files(ours, "index").values()), list(self.files(theirs, "index").values()))


def put(record: record_wire.Record) -> PutMessage:
    """The message of a record, as the broker would hand it to the store."""
    fields = properties_wire.parse(record.properties)
    dispatch = of_record(record, CONFIG.delay_levels_ms)
    assert dispatch.keys == index_keys(fields)
    return PutMessage(
        record.topic,
        record.queue_id,
        record.flag,
        record.sys_flag,
        record.born_timestamp_ms,
        record.born_host,
        record.reconsume_times,
        record.prepared_offset,
        record.body,
        record.properties,
        tags_code(fields),
        index_keys(fields),
        delay_level(fields),
    )
