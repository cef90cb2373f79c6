"""The log in a file: bounded, private, and in one piece with what the process itself writes to standard error."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
from typing import Any
from unittest import mock

from twisted.internet.task import Clock
from twisted.logger import Logger, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from rocketha.services.process import log_file
from rocketha.services.process.log_file import LOGS_KEPT_MAX, LogFileService, RotatedLog

WRITER = """
import os, subprocess, sys
from rocketha.services.process.log_file import RotatedLog
log = RotatedLog(sys.argv[1], 1000)
for number in range(30):
    log.write(f"line {number} {'x' * 80}\\n")
    os.write(2, f"error {number}\\n".encode())
    subprocess.run(["echo", f"child {number}"], check=True)
"""


class RotatedLogTests(SynchronousTestCase):
    """A file that grows."""

    def setUp(self) -> None:
        self.path = pathlib.Path(self.mktemp()).absolute() / "log" / "broker-1"

    def mode(self, path: pathlib.Path) -> int:
        """Of a file or directory."""
        return stat.S_IMODE(path.stat().st_mode)

    def test_it_is_bounded(self) -> None:
        """The newest lines are kept, in files of one size; the oldest file goes."""
        log = RotatedLog(str(self.path), 1000)
        for number in range(200):
            log.write(f"{number:099}\n")
        log.close()
        files = sorted(self.path.parent.iterdir())
        self.assertEqual(len(files), 1 + LOGS_KEPT_MAX)
        self.assertLessEqual(max(path.stat().st_size for path in files), 1000)
        kept = sorted(int(line) for path in files for line in path.read_text().split())
        self.assertEqual(kept, list(range(200 - len(kept), 200)))
        self.assertEqual({self.mode(path) for path in files}, {0o600})
        self.assertEqual(self.mode(self.path.parent), 0o700)

    def test_a_rotation_that_fails(self) -> None:
        """The line is in the old file, and the next ones as well."""
        log = RotatedLog(str(self.path), 10)
        log.write("first line\n")
        with mock.patch.object(os, "rename", side_effect=OSError(28, "No space left on device")):
            self.assertRaises(OSError, log.write, "lost\n")
        log.write("second line\n")
        log.close()
        lines = [path.read_text() for path in sorted(self.path.parent.iterdir(), reverse=True)]
        self.assertEqual(lines, ["first line\n", "second line\n"])

    def test_standard_error_follows(self) -> None:
        """What the process, its interpreter and its children write is between the lines, none over another."""
        self.path.parent.mkdir(parents=True)
        with open(self.path, "ab") as log:
            log.write(b"what was there before\n")
            log.flush()
            command = [sys.executable, "-c", WRITER, str(self.path)]
            subprocess.run(command, stdout=log, stderr=log, check=True, timeout=60)
        files = sorted(self.path.parent.iterdir(), key=lambda path: -int(path.suffix[1:] or 0))
        self.assertGreater(len(files), 2)
        text = "".join(path.read_text() for path in files)
        words = [f"{kind} {number}" for number in range(30) for kind in ("line", "error", "child")]
        self.assertEqual(text.replace(f" {'x' * 80}", "").splitlines(), ["what was there before", *words])


class LogFileServiceTests(SynchronousTestCase):
    """The service of ``--log-file``."""

    def test_events_are_in_the_file(self) -> None:
        """As JSON lines, whatever standard error shows."""
        path = pathlib.Path(self.mktemp())
        observers: list[Any] = []
        self.patch(globalLogPublisher, "addObserver", observers.append)
        LogFileService(str(path)).privilegedStartService()
        Logger(namespace="rocketha.test", observer=observers[0]).info("a {word}", word="line")
        self.assertRegex(path.read_text(), r'^\{"time":.*"message":"a line","word":"line"\}\n$')

    def test_a_path_that_can_not_be_written(self) -> None:
        """The process does not start without its log, and says why."""
        path = pathlib.Path(self.mktemp())
        path.mkdir()
        said: list[str] = []
        self.patch(log_file, "end_process", lambda reactor, why: said.append(why))
        LogFileService(str(path), Clock()).privilegedStartService()
        self.assertEqual(said, [f"--log-file {path} can not be written: Is a directory"])
