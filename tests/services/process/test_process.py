"""``twistd`` as a person or systemd runs it: real processes, exit codes, signals, what is printed where."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest
import urllib.request
from typing import IO

from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import encode, request
from tests.interop.harness import ports

PATIENCE_S = 120
LAST_WORD = "Ctrl-C stops it\n"


class ClusterProcess:
    """One ``twistd rocketha-cluster``; ended with the test."""

    def __init__(self, test: unittest.TestCase, data: pathlib.Path, *more: str) -> None:
        self.namesrv = ports.block()
        self.broker = ports.block()
        self.log = data.parent / f"log-{self.namesrv}"
        command = [str(pathlib.Path(sys.executable).parent / "twistd"), "--nodaemon", "--pidfile="]
        command += ["--logger", "rocketha.observe.logging.observer", "rocketha-cluster", "--data", str(data)]
        command += ["--namesrv-port", str(self.namesrv), "--broker-port", str(self.broker)]
        command += ["--set", "mappedFileSizeCommitLog=8388608", "--set", "maxMessageSize=1048576", *more]
        with open(self.log, "wb") as log:
            # A shell lets what it starts with "&" ignore SIGINT, and so all its children: not this one.
            former = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                self.process = subprocess.Popen(command, cwd=data.parent, stdout=subprocess.PIPE, stderr=log, text=True)
            finally:
                signal.signal(signal.SIGINT, former)
        test.addCleanup(self.end)

    def words(self) -> str:
        """What it prints, up to the last line of its words, or to its end."""
        assert self.process.stdout is not None
        found = ""
        for line in self.process.stdout:
            found += line
            if line == LAST_WORD:
                break
        return found

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        """Whatever happened, it is gone."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        stream: IO[str] | None = self.process.stdout
        if stream is not None:
            stream.close()

    def logged(self) -> list[dict[str, object]]:
        """The log's lines, each of which must be JSON."""
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]


class ProcessTests(unittest.TestCase):
    """Each test its own directory."""

    def setUp(self) -> None:
        """The directory; trial's and pytest's temporary places both will do."""
        base = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"rocketha-process-{os.getpid()}"
        self.work = base / self.id().rsplit(".", maxsplit=1)[-1]
        self.work.mkdir(parents=True)
        self.addCleanup(subprocess.run, ["rm", "-rf", str(base)], check=False)
        self.data = self.work / "data"

    def test_a_signal_stops_it_cleanly(self) -> None:
        """SIGINT and SIGTERM: the store is closed (no abort file), and every line of the log is JSON."""
        for number in (signal.SIGINT, signal.SIGTERM):
            cluster = ClusterProcess(self, self.data)
            self.assertTrue(cluster.words().endswith(LAST_WORD), cluster.log.read_text())
            self.assertTrue((self.data / "store" / "abort").exists())
            # twistd ends by the signal it was sent, so that a shell's loop stops too.
            self.assertIn(cluster.stop(number), (0, -number))
            self.assertFalse((self.data / "store" / "abort").exists())
            logged = cluster.logged()
            self.assertIn("broker.stopped", [line.get("event") for line in logged])
            # The nameserver was still there when the broker signed off.
            self.assertTrue(any("unregistered" in str(line["message"]) for line in logged))

    def test_kill_9_is_told_at_the_next_start(self) -> None:
        """After kill -9 the messages are there again and the words say how they were recovered."""
        cluster = ClusterProcess(self, self.data)
        cluster.words()
        rocketha = str(pathlib.Path(sys.executable).parent / "rocketha")
        sent = subprocess.run(
            [rocketha, "send", "-n", f"127.0.0.1:{cluster.namesrv}", "T", "a", "b", "c"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        self.assertEqual((sent.returncode, sent.stdout.count("SEND_OK")), (0, 3), sent.stderr)
        cluster.stop(signal.SIGKILL)
        again = ClusterProcess(self, self.data)
        self.assertIn("3 messages in 1 topics, recovered after a crash", again.words())
        got = subprocess.run(
            [
                rocketha,
                "receive",
                "-n",
                f"127.0.0.1:{again.namesrv}",
                "T",
                "--from",
                "first",
                "--count",
                "3",
                "--format",
                "body",
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        self.assertEqual((got.returncode, sorted(got.stdout.split())), (0, ["a", "b", "c"]), got.stderr)

    def test_a_taken_port_ends_it(self) -> None:
        """Exit code 1 and one line that names the port, for each of the ports."""
        first = ClusterProcess(self, self.data)
        first.words()
        for flag, port in (("--namesrv-port", first.namesrv), ("--broker-port", first.broker)):
            second = ClusterProcess(self, self.work / f"other{flag}", flag, str(port))
            self.assertEqual(second.process.wait(PATIENCE_S), 1)
            (line,) = [line for line in second.logged() if line["level"] == "critical"]
            self.assertIn(str(port), str(line["message"]))

    def test_one_directory_one_process(self) -> None:
        """A second process on the same data refuses to start, and does not harm the first."""
        first = ClusterProcess(self, self.data)
        first.words()
        second = ClusterProcess(self, self.data)
        self.assertEqual(second.process.wait(PATIENCE_S), 1)
        self.assertIn("lock", second.log.read_text())
        self.assertIsNone(first.process.poll())
        self.assertTrue((self.data / "store" / "abort").exists())

    def test_wrong_flags_are_one_line(self) -> None:
        """No traceback: the usage and the mistake, exit code 1 as all of twistd's commands."""
        cluster = ClusterProcess(self, self.data, "--set", "noSuchKey=1")
        self.assertEqual(cluster.process.wait(PATIENCE_S), 1)
        assert cluster.process.stdout is not None
        said = cluster.process.stdout.read() + cluster.log.read_text()
        self.assertIn("noSuchKey", said)
        self.assertNotIn("Traceback", said)
        self.assertFalse(self.data.exists())

    def test_the_status_port(self) -> None:
        """--http serves metrics of the broker, ready once the words are printed."""
        port = ports.block()
        cluster = ClusterProcess(self, self.data, "--http", str(port))
        cluster.words()
        for path, wanted in (("readyz", b"ok\n"), ("healthz", b"ok\n")):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE_S) as answer:
                self.assertEqual(answer.read(), wanted)
        for server in (cluster.broker, cluster.namesrv):
            with socket.create_connection(("127.0.0.1", server), timeout=PATIENCE_S) as connection:
                connection.sendall(encode(request(RequestCode.UPDATE_AND_CREATE_TOPIC)))
                self.assertTrue(connection.recv(4096))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        for role, reason in (("broker", "INVALID_PARAMETER"), ("namesrv", "REQUEST_CODE_NOT_SUPPORTED")):
            labels = f'reason="{reason}",request="UPDATE_AND_CREATE_TOPIC",role="{role}"'
            self.assertIn(f"\nrocketha_requests_refused_total{{{labels}}} 1.0\n", text)
        self.assertIn("\nrocketha_messages_in_total 0.0\n", text)
        self.assertIn("\nrocketha_namesrv_brokers 1.0\n", text)
        self.assertIn("\nprocess_resident_memory_bytes ", text)

    def test_it_starts_quickly(self) -> None:
        """Serving within seconds even on a busy machine; benchmarks/ has the real figure (1.5 s is the goal)."""
        began = time.monotonic()
        ClusterProcess(self, self.data).words()
        self.assertLess(time.monotonic() - began, 15)
