"""Our nameserver and broker, as processes, under a few thousand cases each; the million-case runs use the command.

Source: issue 1, "`rocketha fuzz remoting` against our ports"; security.md: refused with a clear error, the connection
closed where it must be, the process alive, its memory bounded. Beyond that: no traceback in the log, a clean stop, and
files only where they belong, whatever names the cases held (CVE-2019-17572).
"""

from __future__ import annotations

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from rocketha.admin import fuzz_port
from rocketha.admin.fuzz_port import PortRun
from rocketha.admin.fuzz_report import PortReport
from rocketha.wire.fuzz.generator import REMOTING, Generator
from rocketha.wire.registry import FORMATS
from tests.interop.harness import ports

SEED = 20251103
CASES = int(os.environ.get("ROCKETHA_FUZZ_PORT_CASES", "3000"))
READY_SECONDS = 120.0
STOP_SECONDS = 120.0
ALARMING = re.compile(r"Traceback|Unhandled|#critical|#error")


class OwnPortsTests(unittest.TestCase):
    """One cluster process for both ports."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="rocketha-fuzz-")
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.log = self.root / "log"
        self.namesrv, self.broker = ports.block(), ports.block()
        self.start()

    def start(self) -> None:
        """The cluster, on what is in its directory."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="),
                    *("rocketha-cluster", "--data", str(self.root / "data"), "--host", "127.0.0.1"),
                    *("--namesrv-port", str(self.namesrv), "--broker-port", str(self.broker)),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.root,
            )
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        for port in (self.namesrv, self.broker):
            self.await_port(port)

    def stop(self) -> None:
        """By SIGTERM, and cleanly."""
        self.process.send_signal(signal.SIGTERM)
        # twistd ends itself by the signal it got, once everything is stopped.
        self.assertIn(self.process.wait(STOP_SECONDS), (0, -signal.SIGTERM), self.text()[-4000:])

    def await_port(self, port: int) -> None:
        """Until it takes connections."""
        end = time.monotonic() + READY_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    self.fail(f"port {port} is not served:\n{self.text()[-4000:]}")
                time.sleep(0.05)  # a port that opens sends no event

    def text(self) -> str:
        """The process's output so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def attack(self, port: int) -> PortReport:
        """A strict run."""
        generator = Generator(FORMATS[REMOTING], SEED)
        cases = (generator.case(index) for index in range(CASES))
        with mock.patch.multiple(fuzz_port, LATE_SECONDS=20.0, PATIENCE_SECONDS=40.0):  # a busy machine is no finding
            report = PortRun(("127.0.0.1", port), cases, PortReport(), self.process.pid, close_seconds=40.0).run()
        report.conclude(growth_mib_max=64, strict=True)
        return report

    def test_nothing_is_found(self) -> None:
        """Every case accounted for on both ports, nothing found, nothing in the log that a person must look at;
        and the store that the cases left is one that starts again.
        """
        for port in (self.namesrv, self.broker):
            with self.subTest(port=port):
                report = self.attack(port)
                self.assertEqual(report.found, [], "\n".join(report.lines()))
                self.assertEqual(report.sent, CASES)
                # More than "not supported": the cases reach what serves them.
                self.assertGreater(len({code for _, code in report.answers}), 4)
        self.stop()
        self.assertEqual(sorted(path.name for path in self.root.iterdir()), ["data", "log"])
        self.assertEqual(self.strange_names(), [])
        self.assertFalse(pathlib.Path("/tmp/rocketha-fuzz").exists())
        # What was stored of hostile values is read again.
        self.start()
        self.stop()
        self.assertEqual(self.text().count("its store is clean up to offset"), 2)
        self.assertEqual([line for line in self.text().splitlines() if ALARMING.search(line)], [])

    def strange_names(self) -> list[str]:
        """Files and directories whose names no valid topic, group or file of ours has."""
        names = [path.relative_to(self.root).as_posix() for path in (self.root / "data").rglob("*")]
        return [name for name in names if not re.fullmatch(r"[A-Za-z0-9_%|./-]{1,300}", name)]
