"""One contract, every disk (style.md 3 rule 14): what the store may expect of ``Disk`` and ``File``."""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import stat
import tempfile
import unittest
from collections.abc import Callable

from rocketha.errors import DiskFailure, NotOpened
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.posix_disk import PosixDisk, ReadingDisk


class DiskContract:
    """The tests; mixed into a class that makes the disk."""

    disk: Disk
    root: str
    has_cached_reads = True
    assertEqual: Callable[..., None]
    assertTrue: Callable[..., None]
    assertFalse: Callable[..., None]

    def fails(self, number: int, function: Callable[[], object]) -> DiskFailure:
        """The function raises a DiskFailure with this errno, its path and operation filled in."""
        try:
            function()
        except DiskFailure as error:
            self.assertEqual(error.errno, number, str(error))
            self.assertTrue(error.path.startswith(self.root))
            self.assertTrue(error.operation)
            return error
        raise AssertionError("nothing was raised")

    def test_a_new_file_has_its_size_and_zeros(self) -> None:
        """Created files have their whole size at once, read as zeros, and are never overwritten by another create."""
        path = f"{self.root}/f"
        file = self.disk.create(path, 10_000)
        self.assertEqual((file.size(), self.disk.size(path)), (10_000, 10_000))
        self.assertEqual(file.read(0, 20_000), bytes(10_000))
        self.fails(errno.EEXIST, lambda: self.disk.create(path, 5))
        self.assertEqual(self.disk.size(path), 10_000)
        file.close()

    def test_preallocated_files_look_the_same(self) -> None:
        """Reserved blocks read as zeros too."""
        file = self.disk.create(f"{self.root}/f", 8192, preallocate=True)
        self.assertEqual(file.read(0, 8192), bytes(8192))
        file.close()

    def test_writes_land_at_their_offset_and_are_seen_at_once(self) -> None:
        """All buffers one after the other, more than one pwritev takes; by other descriptors too."""
        path = f"{self.root}/f"
        file = self.disk.create(path, 0)
        parts = [bytes((number % 256,)) * 3 for number in range(3000)]
        file.write(5, [*parts[:1500], bytearray(b"ab"), memoryview(b"cd"), *parts[1500:]])
        expected = bytes(5) + b"".join(parts[:1500]) + b"abcd" + b"".join(parts[1500:])
        other = self.disk.open(path)
        self.assertEqual(other.read(0, 1 << 20), expected)
        self.assertEqual(other.read(7, 3), expected[7:10])
        self.assertEqual(other.read(len(expected) - 2, 10), expected[-2:])
        self.assertEqual(other.read(len(expected) + 5, 10), b"")
        self.assertEqual(self.disk.read_all(path, 1 << 20), expected)
        file.write(0, [b"xyz"])
        self.assertEqual(other.read(0, 4), b"xyz\0")
        other.close()
        file.close()

    def test_what_is_in_memory_is_read_without_the_disk(self) -> None:
        """All of it, or nothing is said; what was just written is there, and what is behind the end is not."""
        file = self.disk.create(f"{self.root}/f", 0)
        file.write(0, [bytes(range(256)) * 400])
        view = memoryview(bytearray(70_000))
        if self.has_cached_reads:
            self.assertTrue(file.read_cached(1000, view))
            self.assertEqual(view, file.read(1000, 70_000))
        self.assertFalse(file.read_cached(256 * 400 - 10, view))
        self.assertFalse(file.read_cached(256 * 400, view[:1]))
        file.close()
        self.fails(errno.EBADF, lambda: file.read_cached(0, view))

    def test_truncate_cuts_and_extends_by_zeros(self) -> None:
        """What was cut does not come back when the file grows again."""
        file = self.disk.create(f"{self.root}/f", 0)
        file.write(0, [b"x" * 9000])
        file.truncate(5000)
        file.truncate(9000)
        self.assertEqual(file.read(0, 9000), b"x" * 5000 + bytes(4000))
        file.sync()
        file.close()

    def test_next_data_never_skips_data(self) -> None:
        """The answer is not behind the first byte that is not zero, and None only where none follows."""
        file = self.disk.create(f"{self.root}/f", 1 << 20)
        self.assertTrue(file.next_data(0) in (None, 0))
        file.write(300_000, [b"data"])
        found = file.next_data(0)
        assert found is not None
        self.assertTrue(found <= 300_000)
        self.assertEqual(file.read(found, 300_000 - found).count(0), 300_000 - found)
        self.assertTrue((file.next_data(300_001) or 0) >= 300_001)
        self.assertEqual(file.next_data(1 << 20), None)
        file.close()

    def test_names(self) -> None:
        """Listing is sorted; renaming replaces; removing removes; a tree goes whole."""
        disk, root = self.disk, self.root
        disk.make_dirs(f"{root}/a/b")
        disk.make_dirs(f"{root}/a/b")
        for name in ("z", "m", "k"):
            file = disk.create(f"{root}/a/{name}", 0)
            file.write(0, [name.encode()])
            file.close()
        self.assertEqual(disk.list(f"{root}/a"), ["b", "k", "m", "z"])
        disk.rename(f"{root}/a/z", f"{root}/a/m")
        self.assertEqual(disk.list(f"{root}/a"), ["b", "k", "m"])
        self.assertEqual(disk.read_all(f"{root}/a/m", 10), b"z")
        disk.remove(f"{root}/a/k")
        self.assertEqual((disk.exists(f"{root}/a/k"), disk.exists(f"{root}/a/m")), (False, True))
        self.assertEqual(
            (disk.is_dir(f"{root}/a"), disk.is_dir(f"{root}/a/m"), disk.is_dir(f"{root}/x")), (True, False, False)
        )
        disk.create(f"{root}/a/b/deep", 3).close()
        disk.rename(f"{root}/a/b", f"{root}/a/c")
        self.assertEqual((disk.list(f"{root}/a"), disk.list(f"{root}/a/c")), (["c", "m"], ["deep"]))
        disk.remove_tree(f"{root}/a")
        disk.remove_tree(f"{root}/a")
        self.assertFalse(disk.exists(f"{root}/a"))
        disk.sync_dir(root)

    def test_failures_name_their_errno(self) -> None:
        """The errors a caller tells apart."""
        disk, root = self.disk, self.root
        disk.make_dirs(f"{root}/d")
        disk.create(f"{root}/f", 100).close()
        self.fails(errno.ENOENT, lambda: disk.open(f"{root}/x"))
        self.fails(errno.ENOENT, lambda: disk.create(f"{root}/x/y", 1))
        self.fails(errno.ENOENT, lambda: disk.remove(f"{root}/x"))
        self.fails(errno.ENOENT, lambda: disk.rename(f"{root}/x", f"{root}/y"))
        self.fails(errno.ENOENT, lambda: disk.size(f"{root}/x"))
        self.fails(errno.ENOENT, lambda: disk.list(f"{root}/x"))
        self.fails(errno.ENOTDIR, lambda: disk.list(f"{root}/f"))
        self.fails(errno.EISDIR, lambda: disk.open(f"{root}/d"))
        self.fails(errno.EFBIG, lambda: disk.read_all(f"{root}/f", 99))
        self.fails(errno.ENOENT, lambda: disk.sync_dir(f"{root}/x"))
        self.assertEqual(disk.read_all(f"{root}/f", 100), bytes(100))

    def test_many_are_synced(self) -> None:
        """All but those that have gone; one that cannot be is told, whichever it is."""
        files = [f"{self.root}/f{number}" for number in range(40)]
        for path in files:
            self.disk.create(path, 1).close()
        gone = [f"{self.root}/gone", f"{self.root}/gone/too"]
        self.disk.sync_all([*files, *gone], [self.root, *gone])
        self.disk.sync_all(files[:1], [])
        for at in (0, 20, 40):
            with self.subTest(at=at):
                self.fails(errno.EISDIR, lambda at=at: self.disk.sync_all([*files[:at], self.root, *files[at:]], ()))

    def test_a_closed_file_refuses(self) -> None:
        """EBADF, and closing twice is harmless."""
        file = self.disk.create(f"{self.root}/f", 10)
        file.close()
        file.close()
        self.fails(errno.EBADF, lambda: file.read(0, 1))
        self.fails(errno.EBADF, lambda: file.write(0, [b"x"]))
        self.fails(errno.EBADF, file.sync)

    def test_a_lock_is_held_once(self) -> None:
        """Also against this very process; it is free again after release, and holds Java's four bytes."""
        path = f"{self.root}/lock"
        lock = self.disk.lock(path)
        self.fails(errno.EAGAIN, lambda: self.disk.lock(path))
        self.fails(errno.EAGAIN, lambda: self.disk.lock(path))
        self.assertEqual(self.disk.read_all(path, 10), b"lock")
        lock.release()
        lock.release()
        self.disk.lock(path).release()

    def test_a_directory_is_locked_likewise(self) -> None:
        """By whatever name, and without a file in it."""
        path = f"{self.root}/locked"
        self.disk.make_dirs(path)
        lock = self.disk.lock(path)
        self.fails(errno.EAGAIN, lambda: self.disk.lock(path))
        self.assertEqual(self.disk.list(path), [])
        lock.release()
        self.disk.lock(path).release()

    def test_space(self) -> None:
        """What is available is free, what is free is there, and the used part of it is between empty and full."""
        space = self.disk.space(self.root)
        self.assertTrue(0 <= space.available <= space.free <= space.total)
        self.assertGreater(space.total, 0)
        self.assertTrue(0.0 <= space.used_ratio <= 1.0)


class MemoryDiskContractTests(DiskContract, unittest.TestCase):
    """The memory disk."""

    def setUp(self) -> None:
        """An empty disk."""
        self.disk = MemoryDisk(random.Random(1))
        self.root = "/r"
        self.disk.make_dirs(self.root)


def _reads_without_waiting(root: str) -> bool:
    """Whether this system and this file system know RWF_NOWAIT."""
    with tempfile.TemporaryFile(dir=root) as file:
        file.write(b"x")
        file.flush()
        try:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except (AttributeError, OSError):
            return False


class PosixDiskContractTests(DiskContract, unittest.TestCase):
    """The real disk."""

    def setUp(self) -> None:
        """A temporary folder."""
        self.disk = PosixDisk()
        self.root = tempfile.mkdtemp(prefix="rocketha-disk-")
        self.has_cached_reads = _reads_without_waiting(self.root)
        self.addCleanup(shutil.rmtree, self.root)

    def test_a_path_with_nul_is_refused(self) -> None:
        """Python raises ValueError for it; callers see a DiskFailure like any other."""
        self.fails(errno.EINVAL, lambda: self.disk.open(f"{self.root}/a\0b"))

    def test_without_descriptors_nothing_is_opened(self) -> None:
        """That is told apart from a disk that fails: what is open goes on."""
        file = self.disk.create(f"{self.root}/f", 1)
        self.addCleanup(file.close)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
        try:
            for opening in (
                lambda: self.disk.open(file.path),
                lambda: ReadingDisk().open(file.path),
                lambda: self.disk.create(f"{self.root}/g", 1),
                lambda: self.disk.sync_dir(self.root),
            ):
                with self.assertRaises(NotOpened) as caught:
                    opening()
                self.assertEqual(caught.exception.errno, errno.EMFILE)
            file.sync()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        self.disk.create(f"{self.root}/g", 1).close()

    def test_remove_tree_does_not_follow_links(self) -> None:
        """A link inside the tree goes, what it points to stays."""
        import os

        self.disk.make_dirs(f"{self.root}/a/b")
        self.disk.make_dirs(f"{self.root}/outside")
        self.disk.create(f"{self.root}/outside/kept", 1).close()
        os.symlink(f"{self.root}/outside", f"{self.root}/a/b/link")
        self.disk.remove_tree(f"{self.root}/a")
        self.assertTrue(self.disk.exists(f"{self.root}/outside/kept"))

    def test_another_process_sees_the_lock(self) -> None:
        """The byte lock is Java's: a POSIX lock on byte 0, seen by a process that knows nothing of flock."""
        import subprocess
        import sys

        lock = self.disk.lock(f"{self.root}/lock")
        program = (
            "import fcntl, os, sys\n"
            "fd = os.open(sys.argv[1], os.O_RDWR)\n"
            "try:\n    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)\nexcept OSError:\n    print('held')\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, f"{self.root}/lock"], capture_output=True, text=True, check=True
        )
        self.assertEqual(done.stdout.strip(), "held")
        lock.release()

    def test_another_process_holds_a_directory(self) -> None:
        """Through a link, too."""
        import subprocess
        import sys

        self.disk.make_dirs(f"{self.root}/log")
        os.symlink(f"{self.root}/log", f"{self.root}/alias")
        program = (
            "import fcntl, os, sys\nfd = os.open(sys.argv[1], os.O_RDONLY)\nfcntl.flock(fd, fcntl.LOCK_EX)\n"
            "print('held', flush=True)\nsys.stdin.read()\n"
        )
        arguments = [sys.executable, "-c", program, f"{self.root}/alias"]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            self.assertEqual(other.stdout.readline(), b"held\n")
            self.fails(errno.EAGAIN, lambda: self.disk.lock(f"{self.root}/log"))
            other.communicate()
        lock = self.disk.lock(f"{self.root}/log")
        self.fails(errno.EAGAIN, lambda: self.disk.lock(f"{self.root}/alias"))
        lock.release()


class PosixModesTests(unittest.TestCase):
    """What is made is its owner's alone; what is there is as it was: Java may take the directory back."""

    def setUp(self) -> None:
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.addCleanup(os.umask, os.umask(0))
        self.disk = PosixDisk()

    def mode(self, path: str) -> int:
        return stat.S_IMODE(os.stat(f"{self.root}/{path}").st_mode)

    def test_what_is_made(self) -> None:
        self.disk.make_dirs(f"{self.root}/a/b/c")
        self.disk.create(f"{self.root}/a/file", 10).close()
        self.disk.lock(f"{self.root}/a/lock").release()
        atomic_file.save(self.disk, f"{self.root}/a/table", b"1")
        atomic_file.save(self.disk, f"{self.root}/a/table", b"2")
        self.assertEqual({self.mode(each) for each in ("a", "a/b", "a/b/c")}, {0o700})
        names = ("a/file", "a/lock", "a/table", "a/table.bak")
        self.assertEqual({self.mode(each) for each in names}, {0o600})

    def test_what_is_there(self) -> None:
        os.mkdir(f"{self.root}/a", 0o755)
        with open(f"{self.root}/a/lock", "wb"):
            pass
        os.chmod(f"{self.root}/a/lock", 0o644)
        self.disk.make_dirs(f"{self.root}/a")
        self.disk.make_dirs(f"{self.root}/a/b")
        self.disk.lock(f"{self.root}/a/lock").release()
        self.disk.open(f"{self.root}/a/lock").close()
        self.assertEqual([self.mode(each) for each in ("a", "a/b", "a/lock")], [0o755, 0o700, 0o644])

    def test_links(self) -> None:
        """Told from what they point at, and resolved, also where nothing is there yet."""
        os.symlink(self.root, f"{self.root}/here")
        os.symlink("nothing", f"{self.root}/nowhere")
        for name, wanted in (("here", True), ("nowhere", True), ("here/here", True), ("", False), ("none", False)):
            self.assertEqual(self.disk.is_link(f"{self.root}/{name}".rstrip("/")), wanted, name)
        self.assertEqual(self.disk.real_path(f"{self.root}/here/x"), os.path.realpath(self.root) + "/x")


class MemoryDiskFaultTests(unittest.TestCase):
    """What only the memory disk does: the tests above it rely on these."""

    def disk(self, seed: int = 1, tear_bytes: int = 512) -> MemoryDisk:
        """A disk with one durable directory."""
        disk = MemoryDisk(random.Random(seed), tear_bytes)
        disk.make_dirs("/d")
        disk.sync_dir("/")
        return disk

    def test_the_nth_operation_fails(self) -> None:
        """Exactly that one, with the errno asked for."""
        disk = self.disk()
        file = disk.create("/d/f", 10)
        disk.fail_at(2, errno.ENOSPC)
        file.write(0, [b"a"])
        with self.assertRaises(DiskFailure) as caught:
            file.write(1, [b"b"])
        self.assertEqual((caught.exception.errno, caught.exception.operation), (errno.ENOSPC, "write"))
        file.write(2, [b"c"])
        self.assertEqual(disk.operations, 3)

    def test_a_failed_write_leaves_any_part(self) -> None:
        """Over many seeds: nothing, all, and parts in between."""
        lengths = set()
        for seed in range(60):
            disk = self.disk(seed)
            file = disk.create("/d/f", 100)
            disk.fail_at(1, only=["write"])
            with self.assertRaises(DiskFailure):
                file.write(0, [b"x" * 10])
            lengths.add(file.read(0, 100).count(b"x"))
        self.assertEqual(lengths, set(range(11)))

    def test_a_crash_keeps_what_was_synced(self) -> None:
        """File and name synced: there in every run.  Not synced: there in some, gone in some, torn in some."""
        outcomes = set()
        for seed in range(80):
            disk = self.disk(seed)
            file = disk.create("/d/f", 4096)
            file.write(0, [b"a" * 4096])
            file.sync()
            disk.sync_dir("/d")
            file.write(0, [b"b" * 4096])
            disk.create("/d/g", 0)
            disk.crash()
            with self.assertRaises(DiskFailure):
                file.read(0, 1)
            data = disk.read_all("/d/f", 4096)
            self.assertEqual(set(data) - set(b"ab"), set())
            self.assertTrue(all(len(set(data[at : at + 512])) == 1 for at in range(0, 4096, 512)), "a sector is whole")
            outcomes.add((data.count(b"b") in (0, 4096), disk.exists("/d/g")))
        self.assertEqual(len(outcomes), 4)

    def test_a_crash_may_tear_bytes(self) -> None:
        """With a unit of one byte the tear goes through a sector."""
        torn = 0
        for seed in range(40):
            disk = self.disk(seed, tear_bytes=1)
            file = disk.create("/d/f", 512)
            disk.sync_dir("/d")
            file.write(0, [b"b" * 512])
            disk.crash()
            torn += 0 < disk.read_all("/d/f", 512).count(b"b") < 512
        self.assertGreater(torn, 5)

    def test_a_rename_may_be_lost_but_not_halved(self) -> None:
        """After a crash exactly one of the names leads to the file."""
        seen = set()
        for seed in range(40):
            disk = self.disk(seed)
            disk.create("/d/old", 0)
            disk.sync_dir("/d")
            disk.rename("/d/old", "/d/new")
            disk.crash()
            seen.add((disk.exists("/d/old"), disk.exists("/d/new")))
        self.assertEqual(seen, {(True, False), (False, True)})

    def test_a_failed_sync_forgets(self) -> None:
        """The next sync succeeds and the bytes are not durable all the same."""
        disk = self.disk(3)
        file = disk.create("/d/f", 10)
        disk.sync_dir("/d")
        file.write(0, [b"lost"])
        disk.fail_at(1, only=["sync"])
        with self.assertRaises(DiskFailure):
            file.sync()
        file.sync()
        self.assertEqual(file.read(0, 4), b"lost")
        disk.crash()
        self.assertEqual(disk.read_all("/d/f", 10), bytes(10))

    def test_a_kill_keeps_all_writes(self) -> None:
        """The death of a process: descriptors and locks are gone, bytes are not."""
        disk = self.disk()
        disk.lock("/d/lock")
        file = disk.create("/d/f", 0)
        file.write(0, [b"kept"])
        disk.kill()
        self.assertEqual(disk.read_all("/d/f", 10), b"kept")
        disk.lock("/d/lock").release()
        with self.assertRaises(DiskFailure):
            file.sync()

    def test_capacity(self) -> None:
        """ENOSPC where a new page does not fit; pages that exist can be written."""
        disk = self.disk()
        file = disk.create("/d/f", 1 << 20)
        disk.capacity_bytes = 8192
        file.write(0, [b"x" * 8192])
        with self.assertRaises(DiskFailure) as caught:
            file.write(8192, [b"x"])
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        file.write(100, [b"y"])
        self.assertEqual(disk.space("/d").used_ratio, 1.0)
