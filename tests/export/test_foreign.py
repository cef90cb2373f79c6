"""Exports into what is not theirs: refused in one line, and everything is as it was."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import stat
import tempfile
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

from rocketha.errors import ConfigError
from rocketha.export.manifest import NAME
from rocketha.export.target import local_path
from tests.admin.test_cli import run
from tests.export.stores import LedgerStore, Store, made

IDENTITY = ("--cluster", "c", "--broker-name", "b", "--broker-id", "1", "--replica", "r")


def tree(path: Path) -> dict[str, tuple[int, object]]:
    """Everything under a path, with modes, bytes, and where links point."""
    found: dict[str, tuple[int, object]] = {}
    for each in (path, *sorted(path.rglob("*"))):
        mode = each.lstat().st_mode
        content: object = None
        if stat.S_ISLNK(mode):
            content = os.readlink(each)
        elif stat.S_ISREG(mode):
            content = each.read_bytes()
        found[str(each.relative_to(path))] = mode, content
    return found


class Case(unittest.TestCase):
    """A store of several files, in a folder where targets are made."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="rocketha-export-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.chance = random.Random(7)
        self.store = self.made(self.folder / "data" / "store", 150)
        (self.store.root / "consumequeue" / "T" / "0").mkdir(parents=True)
        (self.store.root / "lock").write_bytes(b"lock")
        self.target = self.folder / "target"

    def made(self, root: Path, count: int, kind: type[Store] = Store, file_size: int = 1 << 16) -> Store:
        store = kind(root, file_size)
        store.append([made(self.chance) for _ in range(count)])
        return store


class KindsTests(Case):
    """One target of each kind."""

    def directory(self, **files: bytes) -> Path:
        self.target.mkdir()
        for name, data in files.items():
            (self.target / name.replace("__", ".")).write_bytes(data)
        return self.target

    def with_folder(self, name: str) -> Path:
        (self.directory() / name).mkdir()
        return self.target

    def link(self, to: Path) -> Path:
        self.target.symlink_to(to)
        return self.target

    def special(self, make: Callable[[Path], object]) -> Path:
        make(self.target)
        return self.target

    def exported(self, store: Store | None = None, *more: object) -> Path:
        done = run("export", (store or self.store).root, self.target, *IDENTITY, *more)
        self.assertEqual(done[0], 0, done[2])
        return self.target

    def without(self, name: str) -> Path:
        (self.exported() / name).unlink()
        return self.target

    def changed(self, change: Callable[[bytes], bytes], name: str = NAME) -> Path:
        path = self.exported() / name
        path.write_bytes(change(path.read_bytes()))
        return self.target

    def member(self, **members: object) -> Path:
        return self.changed(lambda data: json.dumps({**json.loads(data), **members}).encode())

    def outside(self, name: str) -> Path:
        """Of an export, something stands elsewhere, and a link leads there."""
        path, there = self.exported() / name, self.folder / "elsewhere"
        path.rename(there)
        path.symlink_to(there)
        return self.target

    def listening(self) -> Path:
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(str(self.target))
        return self.target

    def empty(self, name: str) -> Path:
        path = self.folder / name
        path.mkdir()
        return path

    def first(self, folder: str) -> str:
        return f"{folder}/{0:020d}"

    def kinds(self) -> Iterator[tuple[str, Callable[[], Path]]]:
        store, folder = self.store.root, self.folder
        yield "an empty file", lambda: self.special(Path.touch)
        yield "a file", lambda: self.special(lambda path: path.write_bytes(b"mine"))
        yield "a FIFO", lambda: self.special(os.mkfifo)
        yield "a socket", self.listening
        yield "a link to a file", lambda: self.link(store / "lock")
        yield "a link to nothing", lambda: self.link(folder / "nothing")
        yield "a link to itself", lambda: self.link(self.target)
        yield "a link to an empty directory", lambda: self.link(self.empty("else"))
        yield "a link to the store", lambda: self.link(store)
        yield "a link to /", lambda: self.link(Path("/"))
        yield "a text", lambda: self.directory(notes__txt=b"mine")
        yield "an empty file in it", lambda: self.directory(empty=b"")
        yield "a hidden file", lambda: self.directory(__profile=b"mine")
        yield "a lock among others", lambda: self.directory(lock=b"lock", abort=b"17")
        yield "an unfinished manifest among others", lambda: self.directory(manifest__json__tmp=b"{", a=b"")
        for name in ("commitlog", "offsets", "cuts", "config", "dledger", ".lost+found", ".git", "s3:"):
            yield f"an empty {name}", lambda name=name: self.with_folder(name)  # type: ignore[misc]
        yield "another broker's store", lambda: self.made(self.target, 40).root
        yield "another store of DLedger", lambda: self.made(self.target, 40, LedgerStore).root
        yield "a copy of the store", lambda: Path(shutil.copytree(store, self.target))
        yield "the store", lambda: store
        yield "its commitlog", lambda: store / "commitlog"
        yield "its queues", lambda: store / "consumequeue"
        yield "new in its commitlog", lambda: store / "commitlog" / "out"
        yield "new in the store", lambda: store / "a" / "b"
        yield "in the store, by ..", lambda: folder / "data" / ".." / "data" / "store" / "out"
        yield "its parent", lambda: store.parent
        yield "its parent's parent", lambda: folder
        yield "an export without its manifest", lambda: self.without(NAME)
        yield "an export without a segment", lambda: self.without(self.first("commitlog"))
        yield "an export without an index", lambda: self.without(self.first("offsets"))
        yield "a shorter segment", lambda: self.changed(lambda data: data[:-1], self.first("commitlog"))
        yield "a shorter index", lambda: self.changed(lambda data: data[:-1], self.first("offsets"))
        yield "an empty manifest", lambda: self.changed(lambda data: b"")
        yield "half a manifest", lambda: self.changed(lambda data: data[: len(data) // 2])
        yield "a manifest of a later version", lambda: self.member(version=2)
        yield "a manifest with another end", lambda: self.member(confirmed=17)
        yield "another program's manifest", lambda: self.changed(lambda data: b'{"name": "app", "version": 1}')
        yield "another program's directory", lambda: self.directory(manifest__json=b'{"version": 1}', app__js=b"run()")
        yield "another cluster's export", lambda: self.exported(None, "--cluster", "other")
        yield "another broker's export", lambda: self.exported(None, "--broker-name", "other")
        yield "another replica's export", lambda: self.exported(None, "--broker-id", 2)
        yield "an export of another name", lambda: self.exported(None, "--replica", "other")
        for what, count in (("a shorter log", 20), ("another log", 150), ("a longer log", 400)):
            yield (
                f"an export of {what} of those names",
                lambda count=count: self.exported(  # type: ignore[misc]
                    self.made(folder / "other", count)
                ),
            )
        yield "an export of other files", lambda: self.exported(self.made(folder / "other", 9, file_size=1 << 17))
        yield "an export of DLedger", lambda: self.exported(self.made(folder / "other", 9, LedgerStore))
        yield "a link to an export", lambda: self.link(self.exported().rename(folder / "moved"))
        for name in (NAME, "lock", "commitlog", "offsets", "config", self.first("commitlog"), self.first("offsets")):
            yield f"an export whose {name} is a link", lambda name=name: self.outside(name)  # type: ignore[misc]

    def test_kinds(self) -> None:
        """An exit code, a line that names the target, and not a byte or a mode is another one."""
        names = [name for name, _ in self.kinds()]
        self.assertGreaterEqual(len(set(names)), 50)
        for number, name in enumerate(names):
            with self.subTest(name):
                if number:
                    self.tearDown()
                    self.doCleanups()
                    self.setUp()
                make = dict(self.kinds())[name]
                target = make()
                if target == self.target and (target / NAME).exists():
                    self.store.append([made(self.chance)])  # there would be something to do
                before = tree(self.folder)
                code, out, err = run("export", self.store.root, target, *IDENTITY)
                self.assertEqual(tree(self.folder), before)
                self.assertNotEqual(code, 0, out)
                self.assertEqual((out, err.count("\n")), ("", 1), err)
                self.assertIn(str(target.name), err)

    def test_what_is_right(self) -> None:
        """Nothing there, an empty directory, a new file system, what a run left that had no manifest yet."""
        for number, leave in enumerate((None, (), ("lock", f"{NAME}.tmp"), ("lost+found",))):
            target = self.folder / f"out-{number}"
            if leave is not None:
                target.mkdir()
                for name in leave:
                    (target / name).write_bytes(b"{")
            for _ in range(2):
                code, out, err = run("export", self.store.root, target, *IDENTITY)
                self.assertEqual((code, err), (0, ""), err)
                self.assertIn("150 messages", out)
                self.assertEqual(sorted(each.name for each in target.rglob("*.tmp")), [])


class InTheWayTests(Case):
    """Files in an export of ours that no manifest of it names."""

    def export(self) -> tuple[int, str, str]:
        return run("export", self.store.root, self.target, *IDENTITY)

    def test_strange_names_stay(self) -> None:
        self.assertEqual(self.export()[0], 0)
        names = ("notes.txt", "commitlog/.nfs01", "offsets/lost+found", "commitlog/00000000000099999999", "cuts.old")
        for name in names:
            (self.target / name).write_bytes(b"mine")
        self.store.append([made(self.chance) for _ in range(200)])
        self.assertEqual(self.export()[0], 0)
        self.assertEqual({(self.target / name).read_bytes() for name in names}, {b"mine"})

    def test_where_the_next_file_goes(self) -> None:
        """It is refused, and what stands there stays; once it is moved away, the export goes on."""
        self.assertEqual(self.export()[0], 0)
        for folder in ("commitlog", "offsets"):
            base = self.store.end - self.store.end % self.store.file_size + self.store.file_size
            strange = self.target / folder / f"{base:020d}"
            strange.write_bytes(b"mine")
            self.store.append([made(self.chance) for _ in range(200)])
            for _ in range(2):
                code, _, err = self.export()
                self.assertEqual(code, 2)
                self.assertIn(f"{strange} is in the way", err)
                self.assertEqual(strange.read_bytes(), b"mine")
            strange.unlink()
            code, out, _ = self.export()
            self.assertEqual(code, 0)
            self.assertIn(f"to {self.store.end},", out)

    def test_a_manifest_of_yesterday(self) -> None:
        """It was restored, the broker has deleted what came since: that stays, and the run says that it is there."""
        self.assertEqual(self.export()[0], 0)
        old = (self.target / NAME).read_bytes()
        self.store.append([made(self.chance) for _ in range(400)])
        self.assertEqual(self.export()[0], 0)
        for path in sorted((self.store.root / "commitlog").iterdir())[:-1]:
            path.unlink()
        (self.target / NAME).write_bytes(old)
        before = tree(self.target)
        code, _, err = self.export()
        self.assertEqual(code, 1)
        self.assertIn("what was between is deleted", err)
        self.assertEqual(tree(self.target), before)


class LinkedStoreTests(Case):
    """Files of the store that are links to what others keep, or no files."""

    NAMES = (
        "config/topics.json",
        "config/consumerOffset.json.bak",
        "brokerIdentity",
        "epochFileCheckpoint",
        "checkpoint",
        f"commitlog/{0:020d}",
    )

    def put(self, name: str, link_to: Path | None) -> None:
        """In place of a file a link, or a FIFO."""
        path = self.store.root / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        if link_to is None:
            os.mkfifo(path)
        else:
            path.symlink_to(link_to)

    def test_links_and_no_files(self) -> None:
        """Each is named, nothing of what a link leads to is exported, and nobody waits for a FIFO."""
        segment = (self.store.root / "commitlog" / f"{0:020d}").read_bytes()
        for name in self.NAMES:
            for kind in ("link", "FIFO"):
                with self.subTest(name, kind=kind):
                    self.tearDown()
                    self.doCleanups()
                    self.setUp()
                    self.store.new_master(1)  # so that the checkpoint is looked at
                    elsewhere = self.folder / "elsewhere"
                    elsewhere.write_bytes(segment if "commitlog" in name else b'{"secret":"s3cr3t"}')
                    self.put(name, elsewhere if kind == "link" else None)
                    code, out, err = run("export", self.store.root, self.target, *IDENTITY)
                    self.assertNotEqual(code, 0, out)
                    self.assertIn(str((self.store.root / name).parent), err)  # an empty one is no log
                    if kind == "link":
                        self.assertIn("symbolic link", err)
                    for path in self.target.rglob("*"):
                        if path.is_file():
                            self.assertNotIn(path.read_bytes(), (elsewhere.read_bytes(),), path)

    def test_linked_directories(self) -> None:
        """Operators move a log to another disk so."""
        for name in ("commitlog", "config"):
            (self.store.root / name).mkdir(exist_ok=True)
            moved = (self.store.root / name).rename(self.folder / name)
            (self.store.root / name).symlink_to(moved)
        code, out, err = run("export", self.store.root, self.target, *IDENTITY)
        self.assertEqual((code, err), (0, ""))
        self.assertIn("150 messages", out)


class SchemeTests(Case):
    """Paths of other kinds of storage."""

    def test_schemes(self) -> None:
        for text in ("s3://bucket/x", "s3a:/x", "GS://b", "hdfs://host/x", "file://host/x", "http://h/x", "dbfs:/x"):
            with self.subTest(text), self.assertRaisesRegex(ConfigError, "is not supported|takes no host"):
                local_path(text)
        for text, path in (
            ("/a/b", "/a/b"),
            ("a/b", "a/b"),
            ("file:///a", "/a"),
            ("file:/a/b", "/a/b"),
            ("./s3:/x", "./s3:/x"),
            ("a:b", "a:b"),
            ("/s3://x", "/s3://x"),
        ):
            self.assertEqual(local_path(text), path)

    def test_the_command(self) -> None:
        """No folder of that name is made where the command runs."""
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(self.folder)
        before = tree(self.folder)
        for arguments in (
            (self.store.root, "s3://bucket/exports"),
            ("hdfs://host/store", self.target),
            (self.store.root, self.target, "--commitlog", "gs://bucket"),
        ):
            code, out, err = run("export", *arguments)
            self.assertEqual((code, out), (2, ""))
            self.assertIn("is not supported", err)
        self.assertEqual(tree(self.folder), before)
        self.assertEqual(run("export", self.store.root, f"file://{self.target}")[0], 0)
        self.assertTrue((self.target / NAME).exists())


class ModeTests(Case):
    """Who may read an export."""

    def test_private(self) -> None:
        """Directories 0700, files 0600, under any umask; what was there keeps its mode."""
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        target = self.folder / "a" / "b"
        self.assertEqual(run("export", self.store.root, target, *IDENTITY)[0], 0)
        for path in (target.parent, target, *target.rglob("*")):
            wanted = 0o700 if path.is_dir() else 0o600
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), wanted, path)
        target.chmod(0o750)
        (target / "commitlog").chmod(0o755)
        self.store.append([made(self.chance)])
        self.assertEqual(run("export", self.store.root, target, *IDENTITY)[0], 0)
        self.assertEqual([stat.S_IMODE(each.stat().st_mode) for each in (target, target / "commitlog")], [0o750, 0o755])


if __name__ == "__main__":
    unittest.main()
