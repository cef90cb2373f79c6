"""The comparisons of the replication tests find what they look for: each is shown a difference. No Java is needed."""

from __future__ import annotations

import socket
import struct
import unittest
import zlib
from collections.abc import Callable
from pathlib import Path

from .harness.controllers import Controllers, GroupState
from .harness.disk import MAGIC_BLANK, MAGIC_V1, QUEUE_UNIT, Bad, log_after_kill
from .harness.ledger import Ack, Seen, Watch
from .harness.links import LinkWatch, peers
from .harness.processes import scratch, wait_until
from .harness.replica_files import (
    EPOCHS,
    LogFiles,
    check_acknowledged,
    compare_epochs,
    compare_logs,
    compare_queues,
    compare_whole_logs,
)

FILE = 4096
TOPIC = b"T"


def record(at: int, queue_offset: int, key: bytes) -> bytes:
    """A message of queue 0 as a version 1 record."""
    body, properties = b"body of " + key, b"KEYS\x01" + key + b"\x02"
    size = 4 + 4 + 4 + 4 + 4 + 8 + 8 + 4 + 8 + 8 + 8 + 8 + 4 + 8 + 4 + len(body) + 1 + len(TOPIC) + 2 + len(properties)
    head = struct.pack(">iIIiiqqi", size, MAGIC_V1, zlib.crc32(body) & 0x7FFFFFFF, 0, 0, queue_offset, at, 0)
    hosts = struct.pack(">qqqqiq", 0, 0, 0, 0, 0, 0) + struct.pack(">i", len(body)) + body
    return head + hosts + bytes([len(TOPIC)]) + TOPIC + struct.pack(">h", len(properties)) + properties


def write_store(root: Path, messages: int) -> Path:
    """A log of two files and the queue that it makes."""
    (root / "commitlog").mkdir(parents=True)
    at, log, units = 0, b"", b""
    for number in range(messages):
        data = record(at, number, b"k%d" % number)
        if at % FILE + len(data) + 8 > FILE:
            blank = FILE - at % FILE
            log += struct.pack(">iI", blank, MAGIC_BLANK) + bytes(blank - 8)
            at += blank
            data = record(at, number, b"k%d" % number)
        units += struct.pack(">qiq", at, len(data), 0)
        log += data
        at += len(data)
    for base in range(0, len(log), FILE):
        (root / "commitlog" / f"{base:020}").write_bytes(log[base : base + FILE].ljust(FILE, b"\0"))
    queue = root / "consumequeue" / TOPIC.decode() / "0"
    queue.mkdir(parents=True)
    (queue / f"{0:020}").write_bytes(units)
    return root


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


class KillTests(unittest.TestCase):
    """What a broker that was killed within a write leaves."""

    def torn_store(self, messages: int, number: int) -> Path:
        """A log in which a record's second half was not written."""
        root = write_store(scratch("torn"), messages)
        records = log_after_kill(root)
        self.assertEqual(len(records), messages)
        at, size = records[number].at, len(records[number].data)
        file = root / "commitlog" / f"{at - at % FILE:020}"
        data = bytearray(file.read_bytes())
        data[at % FILE + size // 2 : at % FILE + size] = bytes(size - size // 2)
        file.write_bytes(data)
        return root

    def test_the_last_record_may_be_torn(self) -> None:
        for messages in (1, 10, 60):
            self.assertEqual(len(log_after_kill(self.torn_store(messages, -1))), messages - 1)

    def test_no_other(self) -> None:
        """Neither before another of its file, nor before a further file."""
        for number in (0, 8, 20):
            with self.assertRaises(Bad):
                log_after_kill(self.torn_store(60, number))


class ComparisonTests(unittest.TestCase):
    """Two stores of 40 messages that are equal; each test spoils one of them."""

    def setUp(self) -> None:
        self.folder = scratch("comparisons")
        self.roots = {name: write_store(self.folder / name, 40) for name in ("one", "other")}
        self.other = self.roots["other"]

    def assertBad(self, says: str, compare: Callable[[], object]) -> None:
        with self.assertRaisesRegex(Bad, says):
            compare()

    def test_equal(self) -> None:
        """What is equal is said to be, and how much it is."""
        end = LogFiles(self.other).end
        self.assertEqual(compare_whole_logs(self.roots), end)
        self.assertGreater(end, FILE)
        self.assertEqual(compare_queues(self.roots), 40)

    def test_one_byte(self) -> None:
        """A byte in the second file is found, and named with its record; what ends before it is equal."""
        begin = FILE + len(record(FILE, 0, b"k10"))
        patch(self.other / "commitlog" / f"{FILE:020}", begin - FILE + 50, b"\xee")
        says = f"differ at {begin + 50} of .*byte 50 of the record at {begin}"
        self.assertBad(says, lambda: compare_whole_logs(self.roots))
        self.assertBad(says, lambda: compare_logs(self.roots, begin + 51))
        self.assertEqual(compare_logs(self.roots, begin + 50), begin + 50)

    def test_shorter(self) -> None:
        """A log that lacks its last record is equal as far as it goes, and shorter."""
        shorter = write_store(self.folder / "shorter", 39)
        self.assertBad("reach from and to", lambda: compare_whole_logs({**self.roots, "shorter": shorter}))

    def test_first_file_missing(self) -> None:
        """A slave that began at its master's last file has not everything; nor is there a byte to compare before."""
        (self.other / "commitlog" / f"{0:020}").unlink()
        self.assertBad("reach from and to", lambda: compare_whole_logs(self.roots))
        self.assertBad("no byte at 0", lambda: compare_logs(self.roots, FILE, begin=0))

    def test_last_file_missing(self) -> None:
        """Nothing is taken for equal that one side does not have."""
        end = LogFiles(self.other).end
        (self.other / "commitlog" / f"{FILE:020}").unlink()
        self.assertBad(f"no byte at {FILE}", lambda: compare_logs(self.roots, end))

    def test_queues(self) -> None:
        """An entry that is missing, one that is wrong, and queues that both say what their own logs say."""
        queue = self.other / "consumequeue" / TOPIC.decode() / "0" / f"{0:020}"
        whole = queue.read_bytes()
        queue.write_bytes(whole[:-QUEUE_UNIT])
        self.assertBad("other: consume queue .* lacks", lambda: compare_queues(self.roots))
        queue.write_bytes(whole[:-1] + b"\1")
        self.assertBad("other: consume queue .* says", lambda: compare_queues(self.roots))
        shorter = write_store(self.folder / "shorter", 39)
        self.assertBad("one and shorter differ", lambda: compare_queues({"one": self.roots["one"], "shorter": shorter}))

    def test_epochs(self) -> None:
        """Different entries, no entries, a wrong checksum."""

        def write(root: Path, lines: bytes, crc: int | None = None) -> None:
            said = zlib.crc32(lines) & 0x7FFFFFFF if crc is None else crc
            (root / EPOCHS).write_bytes(b"%d\n%d\n" % (lines.count(b"\n"), said) + lines)

        self.assertBad("epoch files", lambda: compare_epochs(self.roots))
        for root in self.roots.values():
            write(root, b"1-0\n3-294\n")
        self.assertEqual(compare_epochs(self.roots), [(1, 0), (3, 294)])
        write(self.other, b"1-0\n2-294\n")
        self.assertBad("epoch files", lambda: compare_epochs(self.roots))
        write(self.other, b"1-0\n3-294\n", crc=7)
        self.assertBad("3-294", lambda: compare_epochs(self.roots))
        for part in (b"", b"2\n", b"2\n17\n1-0\n3"):
            (self.other / EPOCHS).write_bytes(part)
            self.assertBad("epoch", lambda: compare_epochs(self.roots))

    def test_acknowledged(self) -> None:
        """A message that is not there, one that is elsewhere."""
        acks = [Ack(0, "k1", 0, 1, "127.0.0.1:1", len(record(0, 0, b"k0")))]
        self.assertEqual(check_acknowledged(acks, self.other), 1)
        self.assertBad("1 are not where", lambda: check_acknowledged([acks[0]._replace(physical=0)], self.other))
        self.assertBad("1 are not where", lambda: check_acknowledged([*acks, acks[0]._replace(key="x")], self.other))


class WatchTests(unittest.TestCase):
    """What the watch over the controllers makes of what it saw."""

    def test_nobody_for_a_moment_is_no_election(self) -> None:
        watch = Watch(Controllers("ours", Path("unused"), count=1))
        masters = [(1, "h:1", 1), (2, "h:2", 2), (-1, "", 3), (3, "h:3", 4)]
        for at_ms, (number, address, epoch) in enumerate(masters):
            watch.seen.append(Seen(at_ms, GroupState(number, address, epoch, epoch, (1, 2, 3), (), (3,), ())))
        self.assertEqual(watch.masters()[2], (2, 3, ""))
        self.assertEqual(watch.elections(), [(0, 1, "h:1"), (1, 2, "h:2"), (3, 4, "h:3")])
        self.assertEqual(watch.master_at(2), "h:2", "who acknowledges until another is named")


class LinkWatchTests(unittest.TestCase):
    """Connections to a port of this process."""

    def test_a_link_that_was_made_again_shows(self) -> None:
        """One connection is one peer for as long as it lives; a second one, and the time between, are seen."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            with LinkWatch(port) as watch:
                with socket.create_connection(("127.0.0.1", port)) as link:
                    wait_until("the first link", lambda: watch.seen == {link.getsockname()[1]}, 60)
                    looks = watch.without
                    watch.stay(0.2)
                    self.assertEqual((len(watch.seen), watch.without), (1, looks))
                wait_until("the gap", lambda: watch.without > looks, 60)
                with socket.create_connection(("127.0.0.1", port)):
                    wait_until("the second link", lambda: len(watch.seen) == 2, 60)
                    self.assertEqual(len(peers(port)), 1)
