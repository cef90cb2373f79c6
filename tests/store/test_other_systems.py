"""What the disk does on systems that are not Linux: a macOS is not at hand, so its part of the calls is played here."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from rocketha.errors import DiskFailure
from rocketha.store import posix_disk
from rocketha.store.posix_disk import PosixDisk

F_FULLFSYNC = 51
"""Its number on macOS."""


class FullSyncTests(unittest.TestCase):
    """macOS: fsync leaves bytes in the drive's memory, F_FULLFSYNC does not."""

    def setUp(self) -> None:
        self.place = self.enterContext(tempfile.TemporaryDirectory())
        self.asked: list[int] = []
        self.answer = 0
        self.enterContext(mock.patch.object(posix_disk, "_FULL_SYNC", F_FULLFSYNC))
        self.enterContext(mock.patch.object(fcntl, "fcntl", self.full_sync))
        self.fsyncs = self.enterContext(mock.patch.object(os, "fsync", mock.Mock(wraps=os.fsync)))
        self.file = PosixDisk().create(str(pathlib.Path(self.place) / "file"), 8)
        self.addCleanup(self.file.close)

    def full_sync(self, fd: int, command: int) -> int:
        self.asked.append(command)
        if self.answer:
            raise OSError(self.answer, os.strerror(self.answer))
        return 0

    def test_files_and_directories(self) -> None:
        """New, of an unchanged size, and names: each sync is one, and no other call."""
        self.file.sync()
        self.file.write(0, [b"a"])
        self.file.sync()
        PosixDisk().sync_dir(self.place)
        self.assertEqual((self.asked, self.fsyncs.call_count), ([F_FULLFSYNC] * 3, 0))

    def test_a_file_system_without(self) -> None:
        """One of another machine: fsync is all there is."""
        for self.answer in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
            PosixDisk().sync_dir(self.place)
        self.file.sync()
        self.assertEqual((len(self.asked), self.file.size()), (4, 8))

    def test_it_fails(self) -> None:
        """What the disk refuses is told, and no fsync says that all is well."""
        self.answer = errno.EIO
        for sync in (self.file.sync, lambda: PosixDisk().sync_dir(self.place)):
            with self.assertRaises(DiskFailure) as failed:
                sync()
            self.assertEqual(failed.exception.errno, errno.EIO)
        self.fsyncs.assert_not_called()


class LockTests(unittest.TestCase):
    """The BSDs and macOS: flock and locks on bytes exclude each other, even of one process."""

    def test_one_lock(self) -> None:
        held: set[int] = set()

        def flock(fd: int, how: int) -> None:
            held.add(os.fstat(fd).st_ino)

        def lockf(fd: int, how: int, size: int, start: int, whence: int) -> None:
            if os.fstat(fd).st_ino in held:
                raise BlockingIOError(errno.EAGAIN, "held")

        with (
            tempfile.TemporaryDirectory() as place,
            mock.patch.object(posix_disk, "_LOCKS_APART", False),
            mock.patch.object(fcntl, "flock", flock),
            mock.patch.object(fcntl, "lockf", lockf),
        ):
            lock = PosixDisk().lock(f"{place}/lock")
            with self.assertRaises(DiskFailure):
                PosixDisk().lock(f"{place}/lock")
            lock.release()


class PlainCallsTests(unittest.TestCase):
    """Where pwritev, posix_fallocate and SEEK_DATA are not there."""

    def test_the_same_bytes(self) -> None:
        with (
            tempfile.TemporaryDirectory() as place,
            mock.patch.object(posix_disk, "_pwritev", posix_disk._write_joined),
            mock.patch.object(posix_disk, "_allocate", None),
            mock.patch.object(posix_disk, "_SEEK_DATA", None),
        ):
            file = PosixDisk().create(f"{place}/file", 64, preallocate=True)
            file.write(3, [b"ab", bytearray(b"c"), memoryview(b"de")])
            self.assertEqual((file.read(0, 10), file.next_data(5), file.size()), (b"\0\0\0abcde\0\0", 5, 64))
            file.close()
