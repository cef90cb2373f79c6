"""The wheel, in and out of a fresh environment. Each trap here was met by somebody's release.

Builds and installs for real, so it needs the package index (or pip's cache) as `make test` itself does.
"""

from __future__ import annotations

import email
import io
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

from tests.tidy.source import ROOT

COMMANDS = (
    "rocketha-namesrv",
    "rocketha-broker",
    "rocketha-cluster",
    "rocketha-controller",
    "rocketha-learner",
    "rocketha-witness",
)
PLUGIN = "twisted/plugins/rocketha_plugins.py"


def run(*command: str | pathlib.Path, cwd: pathlib.Path) -> str:
    """Run to the end; the output, or a failure that shows it."""
    arguments = [str(each) for each in command]
    done = subprocess.run(arguments, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class PackagingTests(unittest.TestCase):
    """One wheel and one sdist, built once from a copy of the tree."""

    @classmethod
    def setUpClass(cls) -> None:
        """Build from a copy, so that the tree being tested stays as it is."""
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="rocketha-packaging-"))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        tree = cls.work / "tree"
        ignored = shutil.ignore_patterns(
            ".venv", ".git", "*.so", "build", "dist", "data", "*.egg-info", "__pycache__", ".*_cache", "_trial_temp*"
        )
        shutil.copytree(ROOT, tree, symlinks=True, ignore=ignored)
        build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", cls.work / "dist")
        # The wheel is built from the sdist, so it proves the sdist whole.
        run(*build, cwd=tree)
        (cls.wheel,) = (cls.work / "dist").glob("*.whl")
        (cls.sdist,) = (cls.work / "dist").glob("*.tar.gz")

    def test_wheel_holds_the_plugin_and_no_init(self) -> None:
        """Exactly one file under twisted/, never an __init__.py; typed; licensed; no tests."""
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
        self.assertEqual([name for name in names if name.startswith("twisted/")], [PLUGIN])
        self.assertIn("rocketha/py.typed", names)
        self.assertTrue(any(name.endswith("LICENSE") for name in names))
        tops = {name.split("/")[0] for name in names if ".dist-info/" not in name}
        self.assertEqual(tops, {"pyspark_rocketha", "rocketha", "rocketha_spark", "twisted"})

    def test_wheel_holds_every_module(self) -> None:
        """What is in src/rocketha is in the wheel: find_namespace missed nothing."""
        with zipfile.ZipFile(self.wheel) as wheel:
            packed = {name for name in wheel.namelist() if name.startswith("rocketha/") and name.endswith(".py")}
        tree = self.work / "tree" / "src"
        self.assertEqual(packed, {path.relative_to(tree).as_posix() for path in tree.glob("rocketha/**/*.py")})

    def test_an_index_shows_it(self) -> None:
        """The description is taken, and no link in it leads to a file that is not there."""
        with zipfile.ZipFile(self.wheel) as wheel:
            (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
            metadata = email.message_from_bytes(wheel.read(name))
        text = metadata.get_payload()
        self.assertEqual(metadata["Description-Content-Type"], "text/x-rst")
        self.assertEqual(re.findall(r"<(?![a-z]+:)[^>]+>`_", text), [])
        for file in re.findall(r"\(``([\w/]+\.(?:rst|md))``\)", text):
            self.assertTrue((ROOT / file).exists(), file)
        try:
            from readme_renderer import rst
        except ImportError:
            raise unittest.SkipTest("readme-renderer is not here: `make test` installs it") from None
        said = io.StringIO()
        self.assertIsNotNone(rst.render(text, stream=said), said.getvalue())
        self.assertEqual(said.getvalue(), "")

    def test_sdist_can_be_worked_with(self) -> None:
        """The sdist has the tests, the docs and the Makefile, and no compiled files."""
        with tarfile.open(self.sdist) as sdist:
            names = [name.split("/", maxsplit=1)[1] for name in sdist.getnames() if "/" in name]
        for wanted in (
            "Makefile",
            ".ci/suite",
            "tests/tidy/source.py",
            "docs/divergence.md",
            "deploy/conf/broker.conf",
            PLUGIN,
        ):
            self.assertIn(wanted, names)
        self.assertEqual([name for name in names if name.endswith((".pyc", ".so", "dropin.cache"))], [])
        self.assertEqual([name for name in names if "twisted/" in name and name.endswith("__init__.py")], [])

    def test_without_a_compiler(self) -> None:
        """It is built all the same, and does without the compiled part."""
        built, tree = self.work / "without", self.work / "tree"
        run("env", "CC=false", sys.executable, "setup.py", "--quiet", "build", "--build-lib", built, cwd=tree)
        asked = "from rocketha import compiled; print(compiled.__file__, compiled.AVAILABLE)"
        self.assertEqual(
            run("env", f"PYTHONPATH={built}", sys.executable, "-c", asked, cwd=self.work).split(),
            [str(built / "rocketha" / "compiled.py"), "False"],
        )

    def test_installs_and_uninstalls_cleanly(self) -> None:
        """In a fresh venv twistd lists our commands and `rocketha` runs; after uninstalling, twistd still works."""
        venv = self.work / "venv"
        run(sys.executable, "-m", "venv", venv, cwd=self.work)
        python, twistd = venv / "bin" / "python", venv / "bin" / "twistd"
        pip = (python, "-m", "pip", "--disable-pip-version-check")
        run(*pip, "install", "--quiet", self.wheel, cwd=self.work)
        listing = run(twistd, "--help", cwd=self.work)
        for command in COMMANDS:
            self.assertIn(command, listing)
            self.assertIn("Usage", run(twistd, command, "--help", cwd=self.work))
        self.assertIn("send", run(venv / "bin" / "rocketha", "--help", cwd=self.work))
        run(*pip, "uninstall", "--quiet", "--yes", "rocketha", cwd=self.work)
        listing = run(twistd, "--help", cwd=self.work)
        self.assertNotIn("rocketha", listing)
        self.assertIn("portforward", listing)
