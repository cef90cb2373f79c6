"""Exports of stores on a disk in memory: what they hold, when they are gone on with, what happens meanwhile."""

from __future__ import annotations

import itertools
import json
import random
import struct
import unittest
from collections.abc import Iterator

import attrs

from rocketha.errors import ConfigError, CorruptStore, DiskFailure, RockethaError
from rocketha.export.exporter import Exporter, ExportGap, Progress
from rocketha.export.manifest import FILE_BYTES_MAX, NAME, Cut, Manifest, decode, encode
from rocketha.export.source import Identity, Source
from rocketha.export.verifying import Verifier
from rocketha.store import atomic_file
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire.record import Record, scan
from tests.store.support import HOST_V6, NOW_MS, ROOT, SMALL, memory_disk, message, open_store

OUT = "/out"


class Case(unittest.TestCase):
    """A store, and an export on another disk."""

    CONFIG = SMALL

    def setUp(self) -> None:
        self.disk, self.target = memory_disk(1), memory_disk(2)
        self.store = open_store(self.disk, self.CONFIG)
        self.sent = 0

    def send(self, count: int, topic: str = "T") -> None:
        """Messages of three queues and many lengths, some from IPv6 hosts."""
        for _ in range(count):
            self.sent += 1
            host = HOST_V6 if self.sent % 5 == 0 else message(0).born_host
            put = message(self.sent, topic, self.sent % 3, b"x" * (self.sent * 37 % 300), host)
            self.store.append([[put]], NOW_MS + self.sent)

    def exporter(self, target: MemoryDisk | None = None, corrupt_too: bool = False) -> Exporter:
        source = Source(self.disk, ROOT, (f"{ROOT}/commitlog",))
        return Exporter(source, target or self.target, OUT, lambda: NOW_MS, corrupt_too)

    def export(self, **more: bool) -> Manifest:
        for _ in self.exporter(**more).run(Identity("c", "b", 1)):
            pass
        return self.manifest()

    def manifest(self) -> Manifest:
        path = f"{OUT}/{NAME}"
        return decode(self.target.read_all(path, FILE_BYTES_MAX), path)

    def log_of(self, disk: MemoryDisk, directory: str) -> dict[int, Record]:
        """Its records by offset."""
        found = {}
        for name in disk.list(directory):
            data = disk.read_all(f"{directory}/{name}", 1 << 30)
            found.update({int(name) + at: record for at, record in scan(data)})
        return found

    def assertExported(self, manifest: Manifest) -> None:
        """All of the store, and each figure of the manifest counted anew."""
        theirs, ours = self.log_of(self.disk, f"{ROOT}/commitlog"), self.log_of(self.target, f"{OUT}/commitlog")
        self.assertEqual(ours, {at: record for at, record in theirs.items() if at < manifest.end})
        self.assertEqual(manifest.messages, len(ours))
        for segment in manifest.segments:
            here = {at: record for at, record in ours.items() if segment.begin <= at < segment.end}
            offsets = self.target.read_all(f"{OUT}/offsets/{segment.base:020d}", 1 << 20)
            self.assertEqual(
                [at - segment.base for at in here], [each for (each,) in struct.iter_unpack(">I", offsets)]
            )
            self.assertEqual(segment.messages, len(here))
            stored = [record.store_timestamp_ms for record in here.values()]
            self.assertEqual((segment.first_stored_ms, segment.last_stored_ms), (min(stored), max(stored)))
            queues: dict[tuple[str, int], list[int]] = {}
            for record in here.values():
                queues.setdefault((record.topic, record.queue_id), []).append(record.queue_offset)
            self.assertEqual(
                {(q.topic, q.queue_id): (q.messages, q.first, q.last) for q in segment.queues},
                {key: (len(found), min(found), max(found)) for key, found in queues.items()},
            )


class RunTests(Case):
    """Runs that go well."""

    def test_all_of_it(self) -> None:
        self.send(60)
        self.send(3, "Other")
        manifest = self.export()
        self.assertGreater(len(manifest.segments), 2)
        self.assertEqual([each.full for each in manifest.segments[:-1]], [True] * (len(manifest.segments) - 1))
        self.assertEqual((manifest.messages, manifest.end), (63, self.store.log.end))
        self.assertExported(manifest)

    def test_growing(self) -> None:
        """Each run takes what came since; the outcome is that of one run at the end."""
        for count in (0, 1, 7, 0, 30, 2):
            self.send(count or 1)
            manifest = self.export()
            self.assertExported(manifest)
        once = memory_disk(3)
        for _ in self.exporter(once).run(Identity("c", "b", 1)):
            pass
        for name in self.target.list(f"{OUT}/commitlog"):
            path = f"{OUT}/commitlog/{name}"
            self.assertEqual(self.target.read_all(path, 1 << 20), once.read_all(path, 1 << 20))
        again = decode(once.read_all(f"{OUT}/{NAME}", FILE_BYTES_MAX), "")
        self.assertEqual(manifest, again)

    def test_another_broker(self) -> None:
        self.send(1)
        self.export()
        with self.assertRaisesRegex(ConfigError, "holds the export of c#b#1"):
            list(self.exporter().run(Identity("c", "b", 2)))

    def test_expired_meanwhile(self) -> None:
        """What was exported stays; what was not is missed aloud."""
        self.send(60)
        first = self.export()
        for segment in first.segments[:2]:
            self.disk.remove(f"{ROOT}/commitlog/{segment.base:020d}")
        self.send(20)
        manifest = self.export()
        self.assertEqual(manifest.segments[:2], first.segments[:2])
        self.assertGreater(manifest.messages, first.messages)
        self.send(60)
        for name in self.disk.list(f"{ROOT}/commitlog")[:-1]:
            self.disk.remove(f"{ROOT}/commitlog/{name}")
        with self.assertRaisesRegex(ExportGap, "what was between is deleted"):
            list(self.exporter().run(Identity("c", "b", 1)))


class BreakOffTests(Case):
    """Runs that take minutes, and end before they are done."""

    CONFIG = attrs.evolve(SMALL, segment_size=64 << 20, message_bytes_max=1 << 20)
    PIECE_MS = 700

    def setUp(self) -> None:
        super().setUp()
        for number in range(60):
            self.store.append([[message(number, "T", 0, random.Random(number).randbytes(1_000_000))]], NOW_MS)
        self.now_ms = NOW_MS
        source = Source(self.disk, ROOT, (f"{ROOT}/commitlog",))
        self.running = Exporter(source, self.target, OUT, lambda: self.now_ms)

    def pieces(self) -> Iterator[Progress]:
        """Of the export, each of which takes some time."""
        for progress in self.running.run(Identity("c", "b", 1)):
            self.now_ms += self.PIECE_MS
            yield progress

    def test_killed_at_any_time(self) -> None:
        """What was copied more than five seconds ago is in the manifest, whatever comes."""
        copied: list[tuple[int, int]] = []  # when, and up to where
        for progress in self.pieces():
            copied.append((self.now_ms, progress.position))
            old = [position for ms, position in copied if ms <= self.now_ms - 5000]
            self.assertGreaterEqual(self.manifest().end, max(old, default=0))
        self.assertGreater(len(copied), 2 * 5000 // self.PIECE_MS)
        self.assertEqual(self.manifest().end, self.store.log.end)

    def test_stopped(self) -> None:
        """All that was copied is in the manifest; the next run goes on there, and comes to the same."""
        copied = []
        for progress in self.pieces():
            copied.append(progress.position)
            if len(copied) == 4:
                self.running.stop()
        self.assertEqual((self.manifest().end, len(copied)), (copied[-1], 4))
        again = self.export()
        self.assertExported(again)
        self.assertEqual(again.messages, 60)


class DamageTests(Case):
    """Logs that are not what they should be."""

    def flip(self, offset: int) -> None:
        base = offset - offset % SMALL.segment_size
        file = self.disk.open(f"{ROOT}/commitlog/{base:020d}")
        file.write(offset - base, [bytes([file.read(offset - base, 1)[0] ^ 1])])
        file.close()

    def test_a_bit(self) -> None:
        """In an old file and in the newest, the record's place is named; what is before it is exported."""
        self.send(60)
        records = self.log_of(self.disk, f"{ROOT}/commitlog")
        places = sorted(records)
        for at in (places[3], places[-3]):
            with self.subTest(at):
                size = SMALL.segment_size
                self.target = memory_disk(4)
                self.flip(at + 88 + (24 if records[at].sys_flag else 0))
                with self.assertRaises(CorruptStore) as caught:
                    list(self.exporter().run(Identity("c", "b", 1)))
                self.assertEqual((caught.exception.offset, "CRC" in str(caught.exception)), (at % size, True))
                self.assertTrue(caught.exception.path.startswith(ROOT))
                self.assertEqual(self.manifest().end, at)
                manifest = self.export(corrupt_too=True)
                self.assertEqual((manifest.messages, sum(each.corrupt for each in manifest.segments)), (60, 1))
                self.flip(at + 88 + (24 if records[at].sys_flag else 0))

    def test_a_record_that_is_being_written(self) -> None:
        """The end of the newest file is no damage: its records so far are exported, and it later."""
        self.send(20)
        end = self.store.log.end
        base = end - end % SMALL.segment_size
        self.send(1)
        file = self.disk.open(f"{ROOT}/commitlog/{base:020d}")
        whole = file.read(end - base, self.store.log.end - end)
        file.write(end - base + 60, [bytes(len(whole) - 60)])
        self.assertEqual(self.export().end, end)
        file.write(end - base, [whole])
        file.close()
        self.assertEqual(self.export().end, self.store.log.end)

    def test_any_bit_of_a_length(self) -> None:
        """In the newest file, with records behind it: damage, not the end, wherever it points."""
        self.send(30)
        place = sorted(self.log_of(self.disk, f"{ROOT}/commitlog"))[-2]
        base = place - place % SMALL.segment_size
        for bit in range(32):
            with self.subTest(bit):
                self.target = memory_disk(4)
                file = self.disk.open(f"{ROOT}/commitlog/{base:020d}")
                before = file.read(place - base, 4)
                total = int.from_bytes(before, "big") ^ 1 << bit
                file.write(place - base, [total.to_bytes(4, "big")])
                with self.assertRaises(CorruptStore) as caught:
                    list(self.exporter().run(Identity("c", "b", 1)))
                self.assertEqual(caught.exception.offset, place - base)
                self.assertEqual(self.manifest().end, place)
                file.write(place - base, [before])
                file.close()

    def test_a_full_file_and_nothing_behind_it(self) -> None:
        """The next file was made, and has no record yet: the run ends."""
        self.send(60)
        end = self.store.log.end
        base = end - end % SMALL.segment_size
        file = self.disk.open(f"{ROOT}/commitlog/{base:020d}")
        file.write(0, [bytes(SMALL.segment_size)])
        file.close()
        for _ in range(2):
            steps = list(itertools.islice(self.exporter().run(Identity("c", "b", 1)), 1000))
            self.assertLess(len(steps), 1000)
            manifest = self.manifest()
            self.assertEqual((manifest.end, manifest.segments[-1].full), (base, True))

    def test_a_file_made_ahead(self) -> None:
        """Java's brokers make the next file before they need it: the log ends in the one before."""
        self.send(20)
        self.disk.create(f"{ROOT}/commitlog/{self.store.log.segments.end:020d}", SMALL.segment_size).close()
        manifest = self.export()
        self.assertEqual((manifest.messages, manifest.end), (20, self.store.log.end))
        self.assertExported(manifest)

    def test_what_is_seen_half_written(self) -> None:
        """Bytes that are no record, and records behind them: a broker writes faster than it is read, so again."""
        self.send(20)
        records = sorted(self.log_of(self.disk, f"{ROOT}/commitlog"))
        at = records[-4]
        base = at - at % SMALL.segment_size
        file = self.disk.open(f"{ROOT}/commitlog/{base:020d}")
        whole = file.read(at - base, 40)
        file.write(at - base + 4, [bytes(4)])
        pauses = []
        for progress in self.exporter().run(Identity("c", "b", 1)):
            if progress.pause_ms:
                pauses.append(progress.position)
                file.write(at - base, [whole])
        file.close()
        self.assertEqual(pauses, [at])
        self.assertEqual(self.manifest().messages, 20)
        self.assertExported(self.manifest())

    def test_a_cut_log(self) -> None:
        """The broker was a replica whose tail was taken back: the export follows, and keeps what it had."""
        for back in (1, 5, 20, 40):
            with self.subTest(back):
                self.send(40)
                before, records = self.export(), self.log_of(self.disk, f"{ROOT}/commitlog")
                at = sorted(records)[-back]
                self.store.truncate(at)
                self.send(back // 2)
                manifest = self.export()
                self.assertExported(manifest)
                cut = manifest.cuts[-1]
                self.assertEqual((cut.begin, cut.end), (at, before.end))
                kept = self.target.read_all(f"{OUT}/{cut.path}", 1 << 20)
                self.assertEqual(next(scan(kept))[1], records[at])
                gone = sorted(each for each in records if each >= at)
                self.assertEqual(list(self.begins(cut)), gone)
                self.assertEqual(sum(each.messages for each in cut.segments), back)

    def begins(self, cut: Cut) -> Iterator[int]:
        """Where the records of a cut begin, by its index and segments."""
        index = self.target.read_all(f"{OUT}/{cut.path}.offsets", 1 << 20)
        words = iter(struct.unpack(f">{len(index) // 4}I", index))
        for segment in cut.segments:
            for _ in range(segment.messages):
                yield segment.base + next(words)

    def test_cut_at_one_place_again(self) -> None:
        """The same bytes of the log are taken back twice: both contents are kept."""
        self.send(20)
        self.export()
        at, contents = max(self.log_of(self.disk, f"{ROOT}/commitlog")), []
        for body in (b"one", b"two", b"and"):
            contents.append(self.log_of(self.disk, f"{ROOT}/commitlog")[at])
            self.store.truncate(at)
            self.store.append([[message(20, "T", 2, body, HOST_V6)]], NOW_MS)
            self.export()
        cuts = self.manifest().cuts
        self.assertEqual([each.begin for each in cuts], [at] * 3)
        self.assertEqual(cuts[1].end, cuts[2].end)
        kept = [next(scan(self.target.read_all(f"{OUT}/{each.path}", 1 << 20)))[1] for each in cuts]
        self.assertEqual(kept, contents)

    def test_cut_while_it_is_exported(self) -> None:
        """The end of a run sees it, and goes on with what is there then."""
        self.send(60)
        run = self.exporter().run(Identity("c", "b", 1))
        for _ in range(4):
            next(run)
        first = min(at for at in self.log_of(self.disk, f"{ROOT}/commitlog") if at > SMALL.segment_size)
        self.store.truncate(first)
        self.send(50)
        for _ in run:
            pass
        manifest = self.manifest()
        self.assertExported(manifest)
        self.assertEqual((manifest.end, len(manifest.cuts)), (self.store.log.end, 1))


class FailureTests(Case):
    """The export's own disk fails, at each operation in turn."""

    def write_tables(self, version: int) -> None:
        """What the broker keeps besides its log."""
        atomic_file.make_dirs(self.disk, f"{ROOT}/config")
        for name in ("topics", "consumerOffset"):
            atomic_file.save(self.disk, f"{ROOT}/config/{name}.json", b'{"version":%d}' % version)

    def assertSound(self) -> None:
        """What there is is what was written, wherever the run ended."""
        if self.target.exists(f"{OUT}/{NAME}"):
            verifier = Verifier(self.target, OUT)
            for _ in verifier.run():
                pass
            self.assertEqual(verifier.faults, [])

    def made_whole(self, number: int, power: bool) -> Manifest | None:
        """What the run says that follows one whose disk failed at an operation; None where it had no so many.

        :param power: the power was cut, too.
        """
        self.target.fail_at(number)
        try:
            self.export()
        except DiskFailure:
            self.target.heal()
            if power:
                self.target.crash()
            self.assertSound()
            manifest = self.export()
            self.assertExported(manifest)
            self.assertEqual(manifest.end, self.store.log.end)
            return manifest
        return None

    def test_each_operation(self) -> None:
        """The next run is whole again, after an error and after a power cut."""
        for power in (False, True):
            number = 0
            while True:
                number += 1
                self.disk, self.sent = memory_disk(1), 0
                self.store, self.target = open_store(self.disk), memory_disk(number)
                self.send(25)
                self.write_tables(1)
                self.export()
                self.write_tables(2)
                self.store.truncate(sorted(self.log_of(self.disk, f"{ROOT}/commitlog"))[-3])
                self.send(25)
                manifest = self.made_whole(number, power)
                if manifest is None:
                    break
                self.assertEqual(len(manifest.cuts), 1)
            self.assertGreater(number, 30)

    def test_each_operation_of_the_first_run(self) -> None:
        """Wherever it ended, what it left is an export, or nothing, and the next run makes it whole."""
        for power in (False, True):
            for number in range(1, 1000):
                self.target = memory_disk(number)
                self.sent = 0
                self.disk = memory_disk(1)
                self.store = open_store(self.disk)
                self.send(25)
                self.write_tables(1)
                manifest = self.made_whole(number, power)
                if manifest is None:
                    break
                self.assertEqual(manifest.cuts, ())
            self.assertGreater(number, 30)


class ManifestTests(Case):
    """Manifests of others."""

    def test_hostile(self) -> None:
        """Numbers and names that no exporter writes, in segments, epochs and cuts."""
        self.send(40)
        self.export()
        self.store.truncate(sorted(self.log_of(self.disk, f"{ROOT}/commitlog"))[-5])
        self.send(1)
        good = encode(self.export())
        for change, says in (
            (lambda m: m["segments"][0].update(messages=10**30), "segment 0"),
            (lambda m: m["segments"][0]["queues"][0].update(messages=-5), "queues"),
            (lambda m: m["segments"][0].update(corrupt=99), "damaged"),
            (lambda m: m["epochs"].append({"epoch": 1 << 40, "start": 0, "end": 1}), "epoch"),
            (lambda m: m["cuts"][0].update(path="cuts/../../secret"), "cuts"),
            (lambda m: m["cuts"][0].update(path="cuts/\0"), "cuts"),
            (lambda m: m["cuts"].append(m["cuts"][0]), "cuts"),
            (lambda m: m["cuts"][0]["segments"][0].update(messages=10**9), "segment"),
            (lambda m: m["cuts"][0].update(begin=1 << 80), "the cut at"),
        ):
            said = json.loads(good)
            del said["sha256"]  # as an earlier version wrote it
            change(said)
            with self.subTest(says), self.assertRaisesRegex(CorruptStore, says):
                decode(json.dumps(said).encode(), NAME)
            changed = json.loads(good)
            change(changed)
            with self.subTest(says, digest=True), self.assertRaisesRegex(CorruptStore, "its own digest"):
                decode(json.dumps(changed).encode(), NAME)
        self.assertEqual(encode(decode(good, NAME)), good)

    def test_damaged(self) -> None:
        """Every cut, and every bit: an error that names it, or the same manifest."""
        self.send(12)
        self.export()
        path = f"{OUT}/{NAME}"
        data = self.target.read_all(path, FILE_BYTES_MAX)
        for at in range(0, len(data), 13):
            with self.subTest(at), self.assertRaises(CorruptStore):
                decode(data[:at], path)
        chance = random.Random(5)
        for _ in range(2000):
            bad = bytearray(data)
            bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
            try:
                decode(bytes(bad), path)
            except RockethaError as error:
                self.assertIsInstance(error, CorruptStore)
