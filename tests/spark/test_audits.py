"""Audits of logs with faults that were put in: each found, at its place, and nothing else."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import shutil
import tempfile
import unittest
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow as pa

from rocketha.store import epoch_file
from rocketha.store.posix_disk import PosixDisk
from rocketha.wire import properties
from rocketha.wire.ha_values import EpochEntry
from rocketha.wire.properties import parse
from rocketha.wire.record import Record
from rocketha_spark import __main__ as command
from rocketha_spark import audits
from rocketha_spark.engines import made as made_table
from rocketha_spark.read import read
from tests.export.stores import Store, made
from tests.seeds import SeededCase
from tests.spark.engines import OnDuck, OnSpark


def queued(store: Store) -> dict[tuple[str, int], list[Record]]:
    """What stands in each queue, in the order of the log."""
    found: dict[tuple[str, int], list[Record]] = defaultdict(list)
    for _, record in sorted(store.records.items()):
        if record.sys_flag & 0xC not in (4, 0xC):
            found[record.topic, record.queue_id].append(record)
    return found


class AuditTests(OnSpark, SeededCase):
    """Stores of some hundred messages, with transactions and batches that take several queue offsets."""

    maxDiff = None

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-audits-")
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.session = self.started()

    def store(self, count: int = 300) -> Store:
        store = Store(self.root / "store")
        for epoch in (1, 2, 4):
            store.new_master(epoch)
            for _ in range(count // 3):
                self.append(store, made(self.chance))
        return store

    def append(self, store: Store, record: Record) -> Record:
        """A message; some are prepared ones, some take several places in their queue."""
        kind = self.chance.choice((0, 0, 0, 4, 8, 0xC, "inner"))
        before = dict(store.queues)
        key = record.topic, record.queue_id
        if kind in (4, 0xC):
            place = store.queues.get(key, 0)
            store.queues[key] = 0
            (record,) = store.append([record._replace(sys_flag=record.sys_flag | int(kind))])
            store.queues = {**before, key: place} if place else before
        elif kind == "inner":
            count = self.chance.randrange(2, 9)
            (record,) = store.append([record._replace(properties=record.properties + b"INNER_NUM\x01%d\x02" % count)])
            store.queues[key] += count - 1
        else:
            (record,) = store.append([record._replace(sys_flag=record.sys_flag | int(kind))])
        return record

    def export(self, store: Store, name: str = "a", number: int = 1) -> Path:
        store.confirm(store.end)
        store.export(self.root / name, name, number)
        return self.root / name

    def findings(self, name: str, path: str = "a") -> list[dict[str, object]]:
        rows = audits.audit(self.session, name, str(self.root / path)).collect()
        return [row.asDict() for row in rows]

    def flip(self, path: Path, at: int, size: int) -> None:
        (file,) = [each for each in (path / "commitlog").iterdir() if int(each.name) <= at < int(each.name) + size]
        data = bytearray(file.read_bytes())
        data[at % size] ^= 1
        file.write_bytes(data)

    def test_sound(self) -> None:
        """Two equal replicas, of which one goes further; transactions and batches: nothing to say."""
        store = self.store()
        self.export(store)
        for _ in range(20):
            self.append(store, made(self.chance))
        self.export(store, "b", 2)
        for name in audits.AUDITS:
            self.assertEqual(self.findings(name, "[ab]"), [], name)

    def test_loss(self) -> None:
        """Holes of one and of several, against each queue walked alone."""
        store = self.store(60)
        for _ in range(200):
            if self.chance.random() < 0.1 and store.queues:
                store.queues[self.chance.choice(sorted(store.queues))] += self.chance.randrange(1, 5)
            self.append(store, made(self.chance))
        self.export(store)
        wanted = []
        for (topic, queue), records in queued(store).items():
            following = records[0].queue_offset
            for each in records:
                if each.queue_offset > following:
                    wanted.append((topic, queue, following, each.queue_offset - 1, each.physical_offset))
                following = each.queue_offset + int(parse(each.properties).get("INNER_NUM", "1"))
        found = [
            (row["topic"], row["queue_id"], row["first"], row["last"], row["phys_offset"])
            for row in self.findings("loss")
        ]
        self.assertEqual(sorted(found), sorted(wanted))
        self.assertTrue(wanted)

    def test_duplicates(self) -> None:
        """A message that was stored twice, with an offset of its own or with the same."""
        store = self.store(90)
        chosen = [record for records in queued(store).values() for record in records[:1]]
        self.assertGreater(len(chosen), 2)
        for record in chosen[1:]:
            store.append([record])
        first = chosen[0]
        store.queues[first.topic, first.queue_id] = first.queue_offset
        fresh = made(self.chance, first.topic, first.queue_id)
        (other,) = store.append([fresh])
        store.append([chosen[1]._replace(reconsume_times=3)])  # delivered again: none
        self.export(store)
        offsets: dict[object, list[int]] = defaultdict(list)
        keys: dict[object, list[int]] = defaultdict(list)
        for (topic, queue), records in queued(store).items():
            for each in records:
                offsets[topic, queue, each.queue_offset].append(each.physical_offset)
                keys[topic, parse(each.properties)["UNIQ_KEY"], each.reconsume_times].append(each.physical_offset)
        wanted = sorted(sorted(places) for found in (offsets, keys) for places in found.values() if len(places) > 1)
        found = self.findings("duplicates")
        self.assertEqual(sorted(row["phys_offsets"] for row in found), wanted)
        self.assertIn([first.physical_offset, other.physical_offset], wanted)
        kinds = Counter(row["kind"] for row in found)
        self.assertEqual((kinds["uniq_key"], kinds["queue_offset"] >= 1), (len(chosen) - 1, True))

    def waiting(self) -> list[Record]:
        """Lives of messages of topic A: delayed, given back by two groups, timed, in a transaction."""

        def record(topic: str, key: str, **more: str) -> Record:
            named = properties.build({"UNIQ_KEY": key, **more})
            return made(self.chance, topic, 0)._replace(properties=named, sys_flag=0)

        back = [record("SCHEDULE_TOPIC_XXXX", "k1", REAL_TOPIC=f"%RETRY%{name}", RETRY_TOPIC="A") for name in "gh"]
        half = record("RMQ_SYS_TRANS_HALF_TOPIC", "k4", REAL_TOPIC="A", TRAN_MSG="true")
        return [
            record("SCHEDULE_TOPIC_XXXX", "k1", REAL_TOPIC="A", DELAY="3"),
            record("A", "k1", REAL_TOPIC="A"),
            *(each._replace(reconsume_times=1) for each in back),
            record("rmq_sys_wheel_timer", "k2", REAL_TOPIC="A"),
            record("rmq_sys_wheel_timer", "k2", REAL_TOPIC="A", TIMER_ROLL_TIMES="1"),
            record("rmq_sys_wheel_timer", "k3", REAL_TOPIC="A"),
            half,
            record("RMQ_SYS_TRANS_HALF_TOPIC", "k4", REAL_TOPIC="A", TRANSACTION_CHECK_TIMES="1"),
            record("RMQ_SYS_TRANS_HALF_TOPIC", "k5", REAL_TOPIC="A"),
            record("RMQ_SYS_TRANS_OP_HALF_TOPIC", "k4", TAGS="d"),
            record("A", "k4", TRAN_MSG="true")._replace(sys_flag=8),
        ]

    def test_what_waits(self) -> None:
        """It is no duplicate, and not lost; what a producer sent twice is one there, too."""
        store = self.store(30)
        lives = self.waiting()
        store.append(lives)
        self.export(store)
        self.assertEqual((self.findings("duplicates"), self.findings("loss")), ([], []))
        keys = pa.schema([("topic", pa.string()), ("uniq_key", pa.string())])
        ledger = made_table(self.session, [("A", f"k{number}") for number in range(1, 7)], keys)
        table = read(self.session, str(self.root / "a"), audits.COLUMNS["unkept"])
        self.assertEqual([row["uniq_key"] for row in audits.unkept(table, ledger).collect()], ["k6"])
        again = [store.append([each])[0] for each in (lives[7], lives[4], lives[1])]
        self.export(store)
        found = self.findings("duplicates")
        self.assertEqual({row["phys_offsets"][-1] for row in found}, {each.physical_offset for each in again})
        self.assertEqual({row["topic"] for row in found}, {lives[7].topic, lives[4].topic, "A"})

    def test_order(self) -> None:
        """A clock that was set back, within a file and from one to the next; a queue whose offsets went back."""
        store = self.store(30)
        wanted = set()
        for number in range(400):
            if number % 97 == 50:
                store.now_ms -= 1000
            self.append(store, made(self.chance))
        records = [each for _, each in sorted(store.records.items())]
        for before, each in itertools.pairwise(records):
            if each.store_timestamp_ms < before.store_timestamp_ms:
                wanted.add(("store_ts", each.physical_offset))
        self.assertGreater(len(wanted), 2)
        key, some = next((key, each) for key, each in queued(store).items() if each[-1].queue_offset > 4)
        store.queues[key] = some[-1].queue_offset - 2
        back = store.append([made(self.chance, *key)])[0]
        self.export(store)
        for found in queued(store).values():
            ordered = sorted(found, key=lambda each: (each.queue_offset, each.physical_offset))
            for before, each in itertools.pairwise(ordered):
                if each.physical_offset < before.physical_offset:
                    wanted.add(("queue_offset", each.physical_offset))
        self.assertTrue(any(kind == "queue_offset" for kind, _ in wanted), back)
        self.assertEqual({(row["kind"], row["phys_offset"]) for row in self.findings("order")}, wanted)

    def test_order_from_file_to_file(self) -> None:
        """Only the first message of a file is earlier."""
        store = Store(self.root / "store")
        while True:
            end = store.end
            (record,) = store.append([made(self.chance)])
            if record.physical_offset != end and end:
                break
        store.cut(record.physical_offset)
        store.now_ms -= 500
        store.append([made(self.chance)])
        self.export(store)
        self.assertEqual(
            [(row["kind"], row["phys_offset"]) for row in self.findings("order")],
            [("store_ts", record.physical_offset)],
        )

    def test_single_bit(self) -> None:
        """One bit of one replica: its damage, and where it parts from the other."""
        store = self.store()
        self.export(store)
        shutil.copytree(self.root / "a", self.root / "copy")
        path = self.export(store, "b", 2)
        record = self.chance.choice([each for each in store.records.values() if len(each.body) > 90])
        self.flip(path, record.physical_offset + 100, store.file_size)
        found = self.findings("corrupt", "[ab]")
        self.assertEqual([(row["replica"], row["phys_offset"]) for row in found], [("b", record.physical_offset)])
        epoch = max(each.epoch for each in store.epochs if each.start_offset <= record.physical_offset)
        parted = self.findings("divergence", "[ab]")
        self.assertEqual(
            parted, [{"epoch": epoch, "phys_offset": record.physical_offset, "replicas": 2, "contents": 2}]
        )

    def test_another_tail(self) -> None:
        """A replica that went on alone in an epoch: the first record that the other has not, in each epoch."""
        store = self.store()
        self.export(store)
        keep = sorted(store.records)[-40]
        store.cut(keep)
        store.new_master(9)
        for _ in range(60):
            self.append(store, made(self.chance))
        self.export(store, "b", 2)
        found = sorted(self.findings("divergence", "[ab]"), key=lambda row: str(row["phys_offset"]))
        self.assertEqual(min(int(str(row["phys_offset"])) for row in found), keep)
        # places at which only the longer epoch of one of them has a record
        self.assertEqual({row["epoch"] for row in found}, {4, 9})
        self.assertEqual(self.findings("epochs", "[ab]"), [])

    def test_single_epoch(self) -> None:
        """The same log, but one epoch begins a record later in one replica."""
        store = self.store()
        self.export(store)
        start = store.epochs[2].start_offset
        later = min(at for at in store.records if at > start)
        store.epochs[2] = EpochEntry(4, later)
        epoch_file.save(PosixDisk(), f"{store.root}/epochFileCheckpoint", store.epochs)
        self.export(store, "b", 2)
        found = self.findings("epochs", "[ab]")
        self.assertEqual(
            [(row["kind"], row["replica"], row["epoch"], row["phys_offset"]) for row in found],
            [("start", "b", 4, later)],
        )
        self.assertEqual([row["phys_offset"] for row in self.findings("divergence", "[ab]")], [start])

    def test_command(self) -> None:
        """What it prints, and its exit status."""
        self.released()
        engine = ("--engine", self.engine)
        store = self.store(60)
        path = self.export(store)
        for arguments, status, says in (
            (["loss", str(path)], 0, "loss: nothing found\n"),
            (["loss", str(self.root / "none")], 2, ""),
            (["corrupt", str(path), "--option", "onCorrupt=maybe"], 2, ""),
        ):
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as errors:
                self.assertEqual(command.main([*arguments, *engine]), status)
            self.assertEqual(out.getvalue(), says)
            self.assertEqual(bool(errors.getvalue()), status == 2)
            if status:
                self.assertRegex(errors.getvalue(), "^(no export at .*/none: a directory|onCorrupt is one of)")
        self.flip(path, next(at for at, each in store.records.items() if len(each.body) > 90) + 100, store.file_size)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(command.main(["corrupt", str(path), *engine]), 1)
        self.assertIn('"phys_offset":', out.getvalue())
        self.assertTrue(out.getvalue().endswith("corrupt: 1 findings\n"))
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.assertEqual(command.main(["all", str(path), *engine]), 1)
        lines = out.getvalue().splitlines()
        said = [line for line in lines if not line.startswith("{")]
        self.assertEqual([line.partition(":")[0] for line in said], list(audits.AUDITS))
        self.assertIn("corrupt: 1 findings", said)
        self.assertEqual([json.loads(line)["audit"] for line in lines if line.startswith("{")], ["corrupt"])


class DuckAuditTests(OnDuck, AuditTests):
    """Without Spark."""


if __name__ == "__main__":
    unittest.main()
