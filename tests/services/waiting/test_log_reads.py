"""Blocks for slaves: from memory at once, from the disk by a worker (H3: no disk holds up who does not need it)."""

from __future__ import annotations

import errno
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.replication.link import BATCH_BYTES
from rocketha.services.waiting.log_reads import LinkReader, LogReads
from rocketha.store import commitlog
from tests.services.broker_case import HeldWork
from tests.store.replica_support import fill, memory, open_master, raw
from tests.store.support import NOW_MS, SMALL


class LinkReaderCase(SynchronousTestCase):
    """One link's reader on a disk that has the log in memory, or has not."""

    recent_bytes = 0

    def setUp(self) -> None:
        self.patch(commitlog, "RECENT_BYTES", self.recent_bytes)
        self.disk = memory()
        self.log = open_master(self.disk)
        fill(self.log, 0, 60)
        self.data = raw(self.log)
        self.work = HeldWork(None, "reads")
        self.work.held = True
        self.reads = LogReads(self.work)
        self.raw = self.log.reader()
        self.reader = LinkReader(self.raw, self.reads)

    def wait_for(self, offset: int, size: int) -> bytes:
        found = self.reader.read(offset, size)
        assert isinstance(found, Deferred)
        self.work.let_go()
        result: bytes = self.successResultOf(found)
        return result


class LinkReaderTests(LinkReaderCase):
    """What is far from the end of the log."""

    def test_a_file_is_opened_in_the_thread(self) -> None:
        """Also that may wait for the disk; what follows is had at once."""
        self.assertEqual(self.wait_for(10, 100), self.data[10:110])
        found = self.reader.read(110, 300)
        assert isinstance(found, memoryview)
        self.assertEqual((found, self.work.waiting), (self.data[110:410], []))

    def test_every_block(self) -> None:
        """Whatever is in memory and what is not: the bytes of the log."""
        place, number = 0, 0
        while place < len(self.data):
            self.disk.cached = number % 3 > 0
            size = min(self.log.readable(place), 700)
            found = self.reader.read(place, size)
            if isinstance(found, Deferred):
                self.work.let_go()
                found = self.successResultOf(found)
            self.assertEqual(found, self.data[place : place + size])
            place, number = place + size, number + 1
        self.assertGreater(number, 10)

    def test_one_buffer(self) -> None:
        """All links read into it; it grows for a block that is larger than blocks are."""
        self.wait_for(0, 10)
        other = LinkReader(self.log.reader(), self.reads)
        one = self.reader.read(0, 10)
        assert isinstance(one, memoryview)
        found: Any = other.read(0, 20)
        self.work.let_go()
        self.successResultOf(found)
        two = other.read(20, 10)
        assert isinstance(two, memoryview)
        self.assertIs(one.obj, two.obj)
        self.assertEqual(len(self.reads.view(BATCH_BYTES + 1)), BATCH_BYTES + 1)

    def test_what_is_not_in_the_log(self) -> None:
        """Is refused before anybody waits for it."""
        for offset, size in ((self.log.end - 5, 6), (SMALL.segment_size - 5, 6), (0, 0)):
            with self.assertRaises(CorruptStore):
                self.reader.read(offset, size)
        self.assertEqual(self.work.waiting, [])

    def test_a_disk_that_fails(self) -> None:
        """In the thread, and where the log is in memory."""
        self.disk.fail_at(1, errno.EIO, times=100, only=["read"])
        found: Any = self.reader.read(0, 10)
        self.work.let_go()
        self.failureResultOf(found, DiskFailure)
        with self.assertRaises(DiskFailure):
            self.reader.read(0, 10)

    def test_a_link_that_ended(self) -> None:
        """Its file stays open for the read that is out, and no longer; a read that has not begun is not made."""
        self.wait_for(0, 10)
        file = self.raw._file
        assert file is not None
        self.disk.cached = False
        found: Any = self.reader.read(10, 10)
        self.reader.close()
        self.assertIs(self.raw._file, file)
        before = self.disk.operations
        self.work.let_go()
        self.assertEqual((self.successResultOf(found), self.disk.operations), (b"", before))
        self.assertIsNone(self.raw._file)
        with self.assertRaises(DiskFailure):
            file.read(0, 1)

    def test_an_idle_link_that_ends(self) -> None:
        """At once."""
        self.wait_for(0, 10)
        self.reader.close()
        self.assertIsNone(self.raw._file)


class RecentTests(LinkReaderCase):
    """A replica that keeps up needs the last bytes only: it waits for no read that is made for another one."""

    recent_bytes = 400

    def test_a_file_that_was_just_begun(self) -> None:
        """The log rolls: its newest file is opened at once, though the worker is busy; an older one is not."""
        busy: Any = self.reader.read(0, 10)
        end = self.log.end
        self.assertGreater(end - end % SMALL.segment_size, 0)
        self.reader = LinkReader(self.log.reader(), self.reads)
        found = self.reader.read(end - 300, 300)
        assert isinstance(found, memoryview)
        self.assertEqual(found, self.data[end - 300 :])
        self.assertNoResult(busy)
        found = self.reader.read(end - 500, 100)
        assert isinstance(found, memoryview), "of the same file, and in memory"
        self.assertEqual(found, self.data[end - 500 : end - 400])

    def test_a_file_system_that_does_not_say(self) -> None:
        """What is in memory: there the last bytes are read at once, and all others in the thread."""
        self.disk.cached = None
        end = self.log.end
        found: Any = self.reader.read(end - 400, 400)
        assert isinstance(found, memoryview)
        self.assertEqual((found, self.work.waiting), (self.data[end - 400 :], []))
        self.assertEqual(self.wait_for(end - 401, 401), self.data[end - 401 :])

    def test_what_is_known_to_be_on_the_disk(self) -> None:
        """Is waited for in the thread, wherever it stands."""
        self.disk.cached = False
        end = self.log.end
        self.assertEqual(self.wait_for(end - 300, 300), self.data[end - 300 :])

    def test_what_another_process_wrote(self) -> None:
        """Before this one was started: perhaps before the machine was; nobody says that it is in memory."""
        self.log.store.close(NOW_MS)
        self.log = open_master(self.disk, epoch=2)
        self.raw, end = self.log.reader(), self.log.end
        self.reader = LinkReader(self.raw, self.reads)
        self.assertEqual(self.wait_for(end - 300, 300), self.data[end - 300 : end])
        fill(self.log, 60, 1)
        found = LinkReader(self.log.reader(), self.reads).read(end, 50)
        assert isinstance(found, memoryview)
        self.assertEqual(found, raw(self.log, end)[:50])
