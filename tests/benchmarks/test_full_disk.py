"""``python -m benchmarks`` does not begin on a disk on which Java's broker would be deleting files."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from benchmarks import __main__ as program


def statvfs(used: int, available: int, reserved: int = 5) -> mock.Mock:
    """A disk of so many blocks."""
    return mock.Mock(f_blocks=used + available + reserved, f_bfree=available + reserved, f_bavail=available)


class FullDiskTests(unittest.TestCase):
    """Disks of all kinds, and the one there is."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def main(self, *arguments: str, **disk: int) -> tuple[list[str], str]:
        """What was begun, and what was said instead."""
        begun: list[str] = []
        with (
            mock.patch.object(os, "statvfs", lambda _: statvfs(**disk)),
            mock.patch.object(program.jars, "classes", lambda _: begun.append("classes")),
            mock.patch.object(program.rows, "possible", lambda wanted, _: wanted),
            mock.patch.object(program.signal, "signal", lambda *_: None),
            mock.patch.object(program, "scratch", lambda _: self.folder),
            mock.patch.object(program, "compare", lambda *_: begun.append("compare")),
            mock.patch.object(program, "profile", lambda *_: begun.append("profile")),
            mock.patch.object(program, "end_all", lambda: None),
        ):
            try:
                program.main(list(arguments))
            except SystemExit as end:
                return begun, str(end.code)
        return begun, ""

    def test_a_disk_that_is_too_full(self) -> None:
        """Nothing is begun, not even the compiling of the clients; it says which disk, how full, and what helps."""
        where = str(self.folder / "not" / "there" / "yet")
        for more in ((), ("--profile", "sync16")):
            begun, said = self.main("--dir", where, *more, used=7501, available=2499)
            self.assertEqual(begun, [])
            for words in (where, "76 % full", "75 %", "--dir"):
                self.assertIn(words, said)
        self.assertFalse((self.folder / "not").exists())
        self.assertIn(tempfile.gettempdir(), self.main(used=99, available=1)[1])

    def test_one_that_is_not(self) -> None:
        """At 75 % Java does not delete yet."""
        self.assertEqual(self.main("--dir", str(self.folder), used=75, available=25), (["classes", "compare"], ""))
        self.assertEqual(self.main("--profile", "sync16", used=1, available=99), (["classes", "profile"], ""))

    def test_as_df_says(self) -> None:
        """Use%, which leaves out what is kept for root; also of a folder that is still to be made."""
        shown = subprocess.run(["df", "--output=pcent", self.folder], capture_output=True, text=True, check=True).stdout
        expected = int(shown.split()[-1].rstrip("%"))
        for folder in (self.folder, self.folder / "new" / "er"):
            self.assertAlmostEqual(program.disk_percent(folder), expected, delta=1)  # somebody may be writing meanwhile
