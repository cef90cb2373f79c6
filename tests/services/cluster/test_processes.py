"""A group as a person runs it: processes that are killed, started again, stopped; nothing is lost or stays behind."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

from rocketha.export import manifest as manifests
from tests.interop.harness import ports

PATIENCE_S = 90
LAST_WORD = "Ctrl-C stops it\n"
BIN = pathlib.Path(sys.executable).parent


def alive(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        if os.path.isdir("/proc/self"):
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return state != "Z"


class Group:
    """One ``twistd rocketha-cluster``; it and what it started end with the test."""

    def __init__(self, test: unittest.TestCase, data: pathlib.Path, brokers: int, controllers: int, *more: str) -> None:
        self.data = data
        self.test = test
        first = ports.block(3 + brokers)
        self.namesrv, self.controller, self.broker = first, first + 10, first + 20
        self.out, self.errors = data.parent / f"out-{first}", data.parent / f"errors-{first}"
        self.log = data / "log" / "cluster"
        command = [str(BIN / "twistd"), "--nodaemon", "--pidfile="]
        command += ["--logger", "rocketha.observe.logging.console_observer"]
        command += ["rocketha-cluster", "--data", str(data), "--brokers", str(brokers), "--controllers"]
        command += [str(controllers), "--namesrv-port", str(self.namesrv), "--broker-port", str(self.broker)]
        command += ["--controller-port", str(self.controller), *more]
        command += ["--set", "mappedFileSizeCommitLog=8388608", "--set", "maxMessageSize=1048576"]
        with open(self.out, "wb") as out, open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(command, cwd=data.parent, stdout=out, stderr=errors)
        test.addCleanup(self.end)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first place in what it printed."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = re.search(pattern, self.out.read_text(encoding="utf-8"), re.MULTILINE)
            if found is not None:
                return found
            over = time.monotonic() > deadline or self.process.poll() is not None
            self.test.assertFalse(over, f"{pattern}\n{self.out.read_text()}\n{self.errors.read_text()}")
            time.sleep(0.02)  # a line in a file sends no event

    def words(self) -> str:
        """All up to the last line of its words."""
        self.wait_for(re.escape(LAST_WORD))
        return self.out.read_text(encoding="utf-8")

    def pids(self) -> list[int]:
        """Of all processes that it ever started."""
        if not self.log.exists():
            return []
        return [int(pid) for pid in re.findall(r"is process (\d+)", self.log.read_text(encoding="utf-8"))]

    def wait_until_gone(self) -> None:
        """Every process of it."""
        deadline = time.monotonic() + PATIENCE_S
        while any(map(alive, self.pids())):
            self.test.assertLess(time.monotonic(), deadline, f"{[pid for pid in self.pids() if alive(pid)]} are there")
            time.sleep(0.05)  # these are not our children: their end sends us no event

    def rocketha(self, *arguments: str) -> str:
        """What our command prints."""
        command = [str(BIN / "rocketha"), arguments[0], "--namesrv", f"127.0.0.1:{self.namesrv}", *arguments[1:]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.test.assertEqual(done.returncode, 0, f"{done.stderr}\n{self.out.read_text()}")
        return done.stdout

    def received(self, count: int) -> list[str]:
        """The bodies of so many messages, sorted."""
        text = self.rocketha("receive", "T", "--from", "first", "--count", str(count), "--format", "body")
        return sorted(text.split())

    def stop(self, number: int) -> int:
        """Send a signal to the parent; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        """Whatever happened, all are gone."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pid in filter(alive, self.pids()):
            os.kill(pid, signal.SIGKILL)


FOREIGN = (".DS_Store", ".nfs000000000001", "lost+found", ".snapshot", "._00000000000000000000")
FOLDERS = ("lost+found", ".snapshot")


def learn(group: Group, place: pathlib.Path, messages: int) -> None:
    """A learner until its export has so many messages."""
    command = [
        str(BIN / "twistd"),
        "--nodaemon",
        "--pidfile=",
        "rocketha-learner",
        "--controller-mode",
        "--every",
        "0.2",
    ]
    command += [
        "--namesrv",
        f"127.0.0.1:{group.namesrv}",
        "--name",
        "broker-a",
        "--set",
        "mappedFileSizeCommitLog=8388608",
    ]
    command += ["--data", str(place / "store"), "--export", str(place / "export")]
    with open(place.parent / "learner-output", "ab+") as output:
        learner = subprocess.Popen(command, cwd=place.parent, stdout=output, stderr=output)
        group.test.addCleanup(learner.kill)
        deadline = time.monotonic() + PATIENCE_S
        manifest = place / "export" / manifests.NAME
        while not manifest.exists() or manifests.decode(manifest.read_bytes(), "manifest").messages < messages:
            output.seek(0)
            over = time.monotonic() > deadline or learner.poll() is not None
            group.test.assertFalse(over, output.read().decode())
            time.sleep(0.05)  # a file sends no event
        learner.terminate()
        group.test.assertIn(learner.wait(PATIENCE_S), (0, -signal.SIGTERM))


class GroupTests(unittest.TestCase):
    """Each test its own directory."""

    def setUp(self) -> None:
        """The directory; trial's and pytest's temporary places both will do."""
        base = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"rocketha-group-{os.getpid()}"
        self.work = base / self.id().rsplit(".", maxsplit=1)[-1]
        self.work.mkdir(parents=True)
        self.addCleanup(subprocess.run, ["rm", "-rf", str(base)], check=False)
        self.data = self.work / "data"

    def test_a_killed_master_is_replaced(self) -> None:
        """Three and three: what was acknowledged before and after kill -9 is there; SIGTERM leaves nothing behind."""
        group = Group(self, self.data, 3, 3)
        words = group.words()
        self.assertEqual(len(re.findall(r"^  (?:broker|controller)-\d +127\.0\.0\.1:\d+  pid \d+", words, re.M)), 6)
        group.wait_for("in sync: broker-1, broker-2, broker-3\n")
        self.assertEqual(group.rocketha("send", "T", "a", "b", "c").count("SEND_OK"), 3)
        killed = re.search(r"(broker-\d) +\S+  pid (\d+)  master\n", words)
        assert killed is not None
        self.assertIn(f"kill -9 {killed[2]} ", words)
        os.kill(int(killed[2]), signal.SIGKILL)
        group.wait_for(rf"^\d\d:\d\d:\d\d  {killed[1]} ended: killed by SIGKILL$")
        told = group.wait_for(
            rf"(broker-\d) \(id \d, pid \d+\) is master of epoch \d+ instead of {killed[1]}; "
            r"no master for (\d+\.\d\d) s \(PORT_REFUSED"
        )
        self.assertNotEqual(told[1], killed[1])
        self.assertLess(float(told[2]), 30)
        self.assertEqual(group.rocketha("send", "T", "d", "e", "f").count("SEND_OK"), 3)
        self.assertEqual(group.received(6), ["a", "b", "c", "d", "e", "f"])
        again = group.wait_for(rf"{killed[1]} \(id \d, pid (\d+)\) is started again")
        self.assertNotEqual(again[1], killed[2])
        group.wait_for(r"is started again\n(.*\n)*.*in sync: broker-1, broker-2, broker-3\n")
        self.assertEqual(len(group.pids()), 7)
        self.assertIn(group.stop(signal.SIGTERM), (0, -signal.SIGTERM))
        self.assertEqual([pid for pid in group.pids() if alive(pid)], [])
        self.assertEqual(sorted(self.data.glob("*/abort")), [])
        self.assertEqual((group.out.read_text().count("{"), group.errors.read_text()), (0, ""), "a person reads these")
        logs = sorted(path.name for path in (self.data / "log").iterdir())
        members = [f"{kind}-{number}" for kind in ("broker", "controller") for number in (1, 2, 3)]
        self.assertEqual(logs, sorted(["cluster", *members]))
        for path in (self.data / "log").iterdir():
            for line in path.read_text().splitlines():
                json.loads(line)

    def test_nothing_outlives_a_killed_parent(self) -> None:
        """kill -9 of the parent: all stop by themselves, cleanly."""
        group = Group(self, self.data, 2, 1)
        group.words()
        self.assertEqual(len(list(filter(alive, group.pids()))), 3)
        group.stop(signal.SIGKILL)
        group.wait_until_gone()
        self.assertEqual(sorted(self.data.glob("*/abort")), [])

    def test_what_a_broker_alone_kept(self) -> None:
        """It is the first replica's; all get it; a broker alone is refused the directory from then on."""
        alone = Group(self, self.data, 1, 0)
        alone.words()
        alone.rocketha("send", "T", "a", "b")
        alone.stop(signal.SIGTERM)
        group = Group(self, self.data, 2, 1)
        self.assertRegex(group.words(), r"broker-1 \(id 1, pid \d+\) is master of epoch 1\n(.*\n)*.* kept from before")
        self.assertFalse((self.data / "store").exists())
        group.wait_for("in sync: broker-1, broker-2\n")
        self.assertEqual(group.received(2), ["a", "b"])
        group.stop(signal.SIGTERM)
        refused = Group(self, self.data, 1, 0)
        self.assertEqual(refused.process.wait(PATIENCE_S), 1)
        self.assertIn("--brokers 2 --controllers 1", refused.out.read_text() + refused.errors.read_text())

    def test_foreign_names_in_every_directory(self) -> None:
        """Of every role, a learner with its export too: all start again, and both sides keep what is theirs."""
        group = Group(self, self.data, 2, 1)
        group.wait_for("in sync: broker-1, broker-2\n")
        group.rocketha("send", "T", "a", "b", "c")
        learner = self.work / "learner"
        learn(group, learner, 3)
        group.stop(signal.SIGTERM)
        places = [path for root in (self.data, learner) for path in (root, *root.rglob("*")) if path.is_dir()]
        self.assertLessEqual(
            {"commitlog", "consumequeue", "index", "config", "raft-n1", "export"}, {path.name for path in places}
        )
        foreign = [place / name for place in places for name in FOREIGN]
        for path in foreign:
            if path.name in FOLDERS:
                path.mkdir()
                (path / "theirs").write_bytes(b"not ours")
            else:
                path.write_bytes(b"not ours")
        again = Group(self, self.data, 2, 1)
        again.wait_for("in sync: broker-1, broker-2\n")
        self.assertEqual(again.rocketha("send", "T", "d").count("SEND_OK"), 1)
        self.assertEqual(again.received(4), ["a", "b", "c", "d"])
        learn(again, learner, 4)
        again.stop(signal.SIGTERM)
        theirs = [path / "theirs" if path.name in FOLDERS else path for path in foreign]
        self.assertEqual([path for path in theirs if path.read_bytes() != b"not ours"], [])

    def test_a_taken_port_ends_all(self) -> None:
        """Exit code 1 and a line that says whose; the other processes are stopped."""
        group = Group(self, self.data, 2, 1)
        group.words()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            second = Group(self, self.work / "other", 2, 1, "--controller-port", str(port))
            self.assertEqual(second.process.wait(PATIENCE_S), 1)
        self.assertRegex(second.errors.read_text(), rf"critical: ending: controller-1 ended: exit code 1: .*{port}")
        second.wait_until_gone()
        self.assertEqual(group.rocketha("send", "T", "a").count("SEND_OK"), 1)
