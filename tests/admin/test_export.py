"""``rocketha export``: what a person sees, which exit code a script sees, what is on the disk."""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from rocketha.export.manifest import NAME, decode
from tests.admin.test_cli import run
from tests.export.stores import Store, made
from tests.interop.harness.processes import wait_until


class Case(unittest.TestCase):
    """A store of two files."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / "out"
        self.chance = random.Random(1)
        self.store = Store(self.folder / "store")
        self.send(100)

    def send(self, count: int) -> None:
        self.store.append([made(self.chance) for _ in range(count)])

    def export(self, *more: object) -> tuple[int, str, str]:
        return run("export", self.store.root, self.out, "--broker-name", "b", "--cluster", "c", *more)


class ExportTests(Case):
    """Runs in this process."""

    def test_what_it_says(self) -> None:
        code, out, err = self.export("--replica", "mine")
        self.assertEqual((code, err), (0, ""))
        files = 1 + self.store.end // self.store.file_size
        self.assertRegex(out, f"^mine: 100 messages in {files} files, log 0 to {self.store.end}, confirmed to")
        self.send(5)
        code, out, _ = self.export()
        self.assertEqual((code, out[:18]), (0, "mine: 105 messages"))

    def test_wrong_usage(self) -> None:
        """Code 2, named, and nothing is written."""
        for arguments, said in (
            ((self.folder / "none", self.out), "no directory"),
            ((self.store.root, self.store.root / "out"), "is within the store"),
            ((self.store.root, self.out, "--rate", "fast"), "'fast' is not a number"),
            ((self.store.root,), "Give STORE and DIRECTORY."),
            ((self.folder, self.folder.parent / "out"), "no directory"),
        ):
            code, out, err = run("export", *arguments)
            self.assertEqual((code, out), (2, ""), arguments)
            self.assertIn(said, err)
        self.assertFalse((self.out / "manifest.json").exists())

    def test_another_broker(self) -> None:
        self.export()
        code, _, err = run("export", self.store.root, self.out, "--broker-name", "other")
        self.assertEqual(code, 2)
        self.assertIn("holds the export of c#b#0", err)

    def test_damage(self) -> None:
        """Code 1 with file and offset; the records before it are there, and ``--corrupt-too`` goes on."""
        record = next(each for each in list(self.store.records.values())[60:] if each.body)
        path = self.store.root / "commitlog" / f"{0:020d}"
        self.assertLess(record.physical_offset, self.store.file_size)
        with open(path, "r+b") as file:
            file.seek(record.physical_offset + 88)
            file.write(bytes((record.body[0] ^ 1,)))
        code, _, err = self.export()
        self.assertEqual(code, 1)
        self.assertIn(f"{path} at byte {record.physical_offset}: ", err)
        code, out, _ = self.export("--corrupt-too")
        self.assertEqual(code, 0)
        self.assertRegex(out, "^b-0: 100 messages in . files, .*, 1 of them damaged; ")

    def test_a_directory_that_is_a_file(self) -> None:
        """Code 2, named."""
        self.out.write_bytes(b"")
        code, _, err = self.export()
        self.assertEqual(code, 2)
        self.assertIn(str(self.out), err)


class DamagedTests(Case):
    """``verify`` and ``repair``."""

    def setUp(self) -> None:
        super().setUp()
        self.assertEqual(self.export()[0], 0)
        self.log = self.out / "commitlog" / "0".zfill(20)

    def flip(self) -> None:
        data = bytearray(self.log.read_bytes())
        data[100] ^= 1
        self.log.write_bytes(data)

    def test_sound(self) -> None:
        code, out, _ = run("export", "verify", self.out)
        self.assertEqual(code, 0)
        self.assertIn("100 messages", out)
        self.assertIn("all as it was written", out)
        code, out, _ = run("export", "repair", self.out, "--from", self.store.root)
        self.assertEqual((code, out), (0, "nothing to repair\n"))

    def test_damaged(self) -> None:
        self.flip()
        code, out, _ = run("export", "verify", self.out)
        self.assertEqual(code, 1)
        self.assertIn("commitlog/00000000000000000000 at byte", out)
        code, out, _ = run("export", "--json", "verify", self.out)
        self.assertEqual((code, [each["file"] for each in json.loads(out)["faults"]]), (1, ["commitlog/" + "0" * 20]))
        code, out, _ = run("export", "repair", self.out, "--from", self.store.root)
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("repaired: commitlog/"), out)
        self.assertEqual(run("export", "verify", self.out)[0], 0)

    def test_not_to_be_had(self) -> None:
        """The store has deleted it."""
        self.flip()
        (self.store.root / "commitlog" / "0".zfill(20)).unlink()
        code, out, _ = run("export", "repair", self.out, "--from", self.store.root)
        self.assertEqual(code, 1)
        self.assertTrue(out.startswith("NOT repaired: commitlog/"), out)
        code, _, err = run("export", "repair", self.out, "--from", self.folder / "nowhere")
        self.assertEqual(code, 2)
        self.assertIn("nowhere", err)

    def test_a_configuration(self) -> None:
        """It says where the store is, and who the broker is; flags go before it."""
        log = self.folder / "elsewhere"
        (self.store.root / "commitlog").rename(log)
        config = self.folder / "broker.conf"
        config.write_text(
            f"brokerClusterName=c\nbrokerName=b\nstorePathRootDir={self.store.root}\nstorePathCommitLog={log}\n"
        )
        code, out, err = run("export", "--json", "--config", config, self.out)
        self.assertEqual((code, json.loads(out or "{}").get("messages")), (0, 100), err)
        code, out, _ = run("export", "--json", "-c", config, self.folder / "other", "--broker-name", "x")
        self.assertEqual((code, json.loads(out or "{}").get("replica")), (0, "x-0"))
        for words in (("--config", config, self.store.root, self.out), (self.out,), ("--config", self.out, self.out)):
            self.assertEqual(run("export", *words)[0], 2)

    def test_an_action_or_a_store(self) -> None:
        """A store that has the name of an action is meant by its path."""
        self.store.root.rename(self.folder / "verify")
        with contextlib.chdir(self.folder):
            for words in (("./verify",), ("copy", "verify")):
                code, out, err = run("export", "--json", *words, self.out, "--broker-name", "b", "--cluster", "c")
                self.assertEqual((code, json.loads(out or "{}").get("messages")), (0, 100), err)
            code, _, err = run("export", "verfy", self.out)
            self.assertEqual((code, "Did you mean verify?" in err), (2, True), err)
            (self.folder / "verify").rename("verfy")
            code, _, err = run("export", "verfy", self.out, "--broker-name", "b", "--cluster", "c")
            self.assertEqual(code, 0, err)


class ProcessTests(Case):
    """Runs of their own."""

    def begin(self, *more: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rocketha.admin.cli", "export", self.store.root, self.out, *more]
        process = subprocess.Popen([str(each) for each in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.stdout.close)  # type: ignore[union-attr]
        self.addCleanup(process.stderr.close)  # type: ignore[union-attr]
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_a_signal(self) -> None:
        """130, also while it waits for ``--rate``; the next run goes on, a second one at a time is refused."""
        big = Store(self.folder / "big", 16 << 20)
        self.store = big
        body = self.chance.randbytes(1 << 20)
        big.append([made(self.chance)._replace(body=body, sys_flag=0) for _ in range(40)])
        process = self.begin("--rate", "1")
        wait_until("a segment", lambda: list(self.out.glob("commitlog/*")), 60, lambda: process.poll() is None)
        code, _, err = run("export", big.root, self.out)
        self.assertEqual(code, 1, err)
        self.assertIn("lock", err)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (130, b""))
        self.assertEqual(err, b"stopped; the next run goes on here\n")
        stopped = decode((self.out / NAME).read_bytes(), NAME)
        self.assertEqual(
            stopped.end, max(int(each.name) + each.stat().st_size for each in self.out.glob("commitlog/*"))
        )
        self.assertGreater(stopped.messages, 0)
        code, said, _ = run("export", big.root, self.out)
        self.assertEqual(code, 0)
        self.assertIn("40 messages", said)
