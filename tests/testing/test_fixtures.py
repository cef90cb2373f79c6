"""The plug-in of pytest, and the examples of docs/testing.rst: run as they stand there."""

from __future__ import annotations

import configparser
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

from tests.tidy.source import ROOT

PAGE = ROOT / "docs" / "testing.rst"
PLUGIN = "rocketha.testing.fixtures"
BIN = pathlib.Path(sys.executable).parent


def run(*command: str, cwd: pathlib.Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command with this tree first, and no plug-ins that happen to be installed."""
    path = os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "PYTHONPATH": path, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", **more}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def examples() -> list[str]:
    """The blocks of Python of the page."""
    blocks = re.findall(r"\.\. code-block:: python\n\n((?:   .*\n|\n)+)", PAGE.read_text(encoding="utf-8"))
    return [textwrap.dedent(each) for each in blocks]


class FixtureTests(unittest.TestCase):
    """Each test runs another pytest."""

    def setUp(self) -> None:
        self.place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def pytest(self, **files: str) -> str:
        """What pytest prints of these files; all of them must pass."""
        for name, text in files.items():
            (self.place / f"{name}.py").write_text(text, encoding="utf-8")
        command = (sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider", "-W", "error")
        done = run(*command, cwd=self.place)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_the_examples(self) -> None:
        """Of the page: pytest, plain sockets, unittest; trial has the last one."""
        *ordinary, twisted = examples()
        said = self.pytest(**{f"test_{number}": text for number, text in enumerate(ordinary)})
        self.assertIn("4 passed", said)
        (self.place / "test_twisted.py").write_text(twisted, encoding="utf-8")
        done = run(sys.executable, "-m", "twisted.trial", "test_twisted", cwd=self.place)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_one_session_has_one(self) -> None:
        """``rocketmq_session`` is the same for all tests, ``rocketmq`` is not, and ``start_rocketmq`` gives several."""
        text = """
            from rocketha.testing import RocketMQ
            seen = set()
            def test_a(rocketmq_session, rocketmq):
                seen.update((rocketmq_session.namesrv, rocketmq.namesrv))
            def test_b(rocketmq_session, rocketmq):
                seen.update((rocketmq_session.namesrv, rocketmq.namesrv))
                assert len(seen) == 3
            def test_c(start_rocketmq, tmp_path):
                a, b = start_rocketmq(), start_rocketmq(directory=tmp_path, keys={"defaultTopicQueueNums": "3"})
                assert a.namesrv != b.namesrv and list(tmp_path.iterdir())
        """
        self.assertIn("3 passed", self.pytest(test_it=textwrap.dedent(text)))

    def test_it_is_cheap(self) -> None:
        """A run that uses none of it loads no Twisted, and nothing of rocketha but this."""
        program = (
            f"import sys, {PLUGIN}\n"
            "print(*sorted(n for n in sys.modules if n.split('.')[0] in ('rocketha', 'twisted', 'attr')))"
        )
        done = run(sys.executable, "-c", program, cwd=self.place)
        wanted = ["rocketha", "rocketha.testing", PLUGIN, "rocketha.testing.servers"]
        self.assertEqual(done.stdout.split(), wanted, done.stderr)

    def test_the_entry_point(self) -> None:
        """pytest finds it under the name that ``-p no:rocketha`` turns off."""
        config = configparser.ConfigParser()
        config.read(ROOT / "setup.cfg", encoding="utf-8")
        self.assertEqual(config["options.entry_points"]["pytest11"].strip(), f"rocketha = {PLUGIN}")
        listed = PAGE.read_text(encoding="utf-8")
        fixtures = re.findall(r"^def (\w+)\(", (ROOT / "src/rocketha/testing/fixtures.py").read_text(), re.MULTILINE)
        for name in fixtures:
            self.assertIn(f"\n``{name}`` ", listed)
