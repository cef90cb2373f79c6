"""``rocketha doctor``, ``cluster status`` and ``log-level`` as commands, against a real process."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from twisted.internet.task import Clock

from rocketha.admin import cli, main_loop
from tests.interop.harness.roles import our_environment
from tests.services.process.test_process import ClusterProcess


def rocketha(*words: str) -> tuple[int, str]:
    """Exit code and output."""
    environment = {key: value for key, value in our_environment().items() if key != "ROCKETHA_CONTROLLERS"}
    done = subprocess.run(
        [sys.executable, "-m", "rocketha.admin.cli", *words],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def ran(main: Callable[[Any, Any], Any]) -> int:
    """A coroutine to its first wait, without a reactor: wrong usage is found before it."""
    try:
        main(Clock(), main_loop.Interrupted()).send(None)
    except StopIteration as end:
        return int(end.value)
    raise AssertionError("it went on")


class CommandTests(unittest.TestCase):
    """A nameserver and a broker in one process."""

    def setUp(self) -> None:
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.cluster = ClusterProcess(self, Path(work.name) / "data")
        self.cluster.words()
        self.namesrv, self.broker = f"127.0.0.1:{self.cluster.namesrv}", f"127.0.0.1:{self.cluster.broker}"

    def test_the_commands(self) -> None:
        """A healthy cluster, its log's level, and then one that is gone."""
        status, out = rocketha("doctor", "-n", self.namesrv)
        self.assertEqual(status, 0, out)
        self.assertTrue(out.startswith("0 findings\n"), out)
        status, out = rocketha("cluster", "status", "-n", self.namesrv, "--json")
        self.assertEqual(status, 0, out)
        found = json.loads(out)
        self.assertEqual([each["process"]["address"] for each in found["brokers"]], [self.broker])
        self.assertEqual(found["brokers"][0]["role"], "MASTER")
        for address in (self.broker, self.namesrv):
            self.assertEqual(rocketha("log-level", address), (0, f"{address} logs info and what is worse\n"))
        self.assertEqual(rocketha("log-level", self.broker, "warn")[0], 0)
        self.assertEqual(rocketha("log-level", self.namesrv)[1], f"{self.namesrv} logs warn and what is worse\n")
        (told,) = (each for each in self.cluster.logged() if each.get("event") == "log.level_changed")
        self.assertEqual((told["before"], told["now"]), ("info", "warn"))
        self.cluster.end()
        status, out = rocketha("doctor", "-n", self.namesrv, "-b", self.broker, "--json")
        self.assertEqual(status, 1, out)
        kinds = {each["kind"] for each in json.loads(out)["findings"]}
        self.assertEqual(kinds, {"nameserver.unreachable", "broker.unreachable"})
        for words in (("log-level", self.broker), ("clients", "-b", self.broker)):
            status, out = rocketha(*words)
            self.assertEqual((status, "a learner has no port for requests" in out), (1, True), out)


class UsageTests(unittest.TestCase):
    """Nothing is started."""

    def test_wrong_usage(self) -> None:
        """Exit code 2, and what is wrong."""
        for words, said in (
            (("doctor", "-n", ""), "at least one HOST:PORT"),
            (("doctor", "--pause", "x"), "--pause"),
            (("log-level", "127.0.0.1:1", "loud"), "critical"),
            (("config", "check"), "FILE"),
            (("bundle", "-o", __file__), "exists already"),
        ):
            with contextlib.redirect_stderr(io.StringIO()) as out, mock.patch.object(main_loop, "run_coroutine", ran):
                self.assertEqual(cli.main(words), 2, out.getvalue())
            self.assertIn(said, out.getvalue())
