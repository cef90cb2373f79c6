"""``rocketha pyfiles``: what is in the zip, when it is the same, what a person sees of a mistake."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path
from unittest import mock

from rocketha.admin import pyfiles
from rocketha.errors import ConfigError
from tests.admin.test_cli import run
from tests.tidy.source import PACKAGE, ROOT, imports, module


class Case(unittest.TestCase):
    """With a folder."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.target = self.folder / "rocketha.zip"


class ArchiveTests(Case):
    """What is written.  That it suffices is for tests/spark/test_pyfiles.py to say."""

    def test_what_it_says(self) -> None:
        code, out, err = run("pyfiles", self.target)
        self.assertEqual((code, err), (0, ""))
        with zipfile.ZipFile(self.target) as archive:
            count = len(archive.namelist())
        self.assertEqual(out, f"{self.target}: {count} files, {self.target.stat().st_size} bytes\n")

    def test_again_it_is_the_same(self) -> None:
        """Byte for byte, in the place of whatever was there, and nothing else is left beside it."""
        run("pyfiles", self.target)
        first = self.target.read_bytes()
        self.target.write_bytes(b"something else")
        (self.folder / "rocketha.zip.tmp").write_bytes(b"of a run that was killed")
        code, _, _ = run("pyfiles", self.target)
        self.assertEqual((code, self.target.read_bytes()), (0, first))
        self.assertEqual(os.listdir(self.folder), ["rocketha.zip"])
        self.assertEqual(self.target.stat().st_mode & 0o777, 0o644)  # another user may submit the job
        with zipfile.ZipFile(self.target) as archive:
            infos = archive.infolist()
        self.assertEqual([each.filename for each in infos], sorted(each.filename for each in infos))
        self.assertEqual({(each.date_time, each.external_attr >> 16) for each in infos}, {(pyfiles.TIME, 0o100644)})

    def test_what_is_in_it(self) -> None:
        """The data source, whole, as it is here; templates; no compiled files; nothing that needs Twisted."""
        files = pyfiles.gathered()
        for package in ("rocketha_spark", "pyspark_rocketha"):
            root = ROOT / "spark" / package
            wanted = {path.relative_to(root.parent).as_posix() for path in root.rglob("*.py")}
            wanted |= {path.relative_to(root.parent).as_posix() for path in root.glob("templates/*")}
            self.assertEqual({name for name in files if name.startswith(f"{package}/")}, wanted)
        self.assertIn("rocketha_spark/templates/report.html.jinja", files)
        self.assertIn("construct/core.py", files)
        self.assertIn("attrs/__init__.py", files)
        self.assertEqual([name for name in files if "__pycache__" in name], [])
        for name, data in files.items():
            if name.startswith("rocketha/"):
                source = module(name.removeprefix("rocketha/"), data.decode())
                self.assertEqual((PACKAGE / source.path).read_bytes(), data)
                foreign = {each.split(".")[0] for _, each in imports(source)} & {"twisted", "zope", "txaio"}
                self.assertEqual(foreign, set(), name)

    def test_licences(self) -> None:
        """MIT's wants to be in every copy."""
        files = pyfiles.gathered()
        for name, says in (("attrs", b"MIT"), ("construct", b"Permission is hereby granted"), ("rocketha", b"Apache")):
            self.assertIn(says, files[f"LICENCES/{name}/LICENSE"])
        none = mock.patch("importlib.metadata.distributions", return_value=[])
        with none, self.assertRaisesRegex(ConfigError, "licence of attrs .* pip install attrs"):
            pyfiles.gathered()

    def test_imports_are_followed(self) -> None:
        """Those in functions, those of packages and of names in them; a cycle ends; what nobody imports stays out."""
        root = self.folder / "rocketha"
        (root / "inner").mkdir(parents=True)
        for name, text in {
            "__init__": "",
            "a": "def f():\n    from rocketha import b\n",
            "b": "import rocketha.a, os\nfrom rocketha.inner.c import name\n",
            "inner/__init__": "from rocketha.inner import d",
            "inner/c": "name = 1",
            "inner/d": "",
            "inner/e": "",
            "unused": "",
        }.items():
            (root / f"{name}.py").write_text(text)
        found = pyfiles.imported(root, {"x/y.py": b"import rocketha.a", "x/page.html": b"from rocketha import unused"})
        wanted = ("__init__", "a", "b", "inner/__init__", "inner/c", "inner/d")
        self.assertEqual(sorted(found), [f"rocketha/{each}.py" for each in wanted])
        self.assertEqual(found["rocketha/inner/c.py"], b"name = 1")


class MistakeTests(Case):
    """Code 2, named, and nothing is written."""

    def test_wrong_targets(self) -> None:
        (self.folder / "is.zip").mkdir()
        for target, said in (
            (self.folder / "none" / "x.zip", f"no directory {self.folder / 'none'}\n"),
            (self.folder / "is.zip", "is a directory"),
            (self.folder / "x.egg-info", "only in what is named .zip"),
        ):
            code, out, err = run("pyfiles", target)
            self.assertEqual((code, out), (2, ""), target)
            self.assertIn(said, err)
        self.assertEqual(os.listdir(self.folder), ["is.zip"])

    def test_a_disk_that_refuses(self) -> None:
        """Code 1: what cannot be written is named, and what was there is still there."""
        self.target.write_bytes(b"former")
        (self.folder / "rocketha.zip.tmp").mkdir()
        code, out, err = run("pyfiles", self.target)
        self.assertEqual((code, out, self.target.read_bytes()), (1, "", b"former"))
        self.assertIn("rocketha.zip.tmp", err)

    def test_from_a_zip(self) -> None:
        """There are no files to be read then."""
        with zipfile.ZipFile(self.folder / "all.zip", "w") as archive:
            for path in PACKAGE.rglob("*.py"):
                archive.write(path, f"rocketha/{path.relative_to(PACKAGE)}")
        program = "from rocketha.admin.cli import main; raise SystemExit(main())"
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "all.zip")}
        command = [sys.executable, "-c", program, "pyfiles", str(self.target)]
        done = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("all.zip/rocketha is no directory", done.stderr)
        self.assertFalse(self.target.exists())


if __name__ == "__main__":
    unittest.main()
