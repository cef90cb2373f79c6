"""The example plug-ins as a third party uses them: wheels in a fresh environment, under twistd, with Java's client.

Each example of docs/examples is built and installed beside a wheel of rocketha; nothing of this tree is on the path.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, ClassVar

from .harness import InteropCase, JavaClient, JavaNamesrv, ports, remoting, wait_until
from .harness.controllers import ReplicaGroup
from .harness.roles import ROOT, OurBroker, our_environment

EXAMPLES = ROOT / "docs" / "examples"
BROKER_PLUGINS = "ticker, line-protocol, property-filter, flag-file, topic-meter, address-guard"
TICKER_COUNT, TOPIC_METER = 20_001, 20_002
LEFT_OUT = shutil.ignore_patterns(
    ".venv", ".git", "*.so", "build", "dist", "data", "*.egg-info", "__pycache__", ".*_cache", "_trial_temp*"
)


def run(*command: str | Path, cwd: Path, fails: bool = False) -> str:
    """Run to the end; what it printed."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd,
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )
    if (done.returncode != 0) is not fails:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class InstalledBroker(OurBroker):
    """A broker of the fresh environment, and of nothing else."""

    bin: Path

    def command(self) -> list[str]:
        return [str(self.bin / "twistd"), "-n", "--pidfile=", "rocketha-broker", "--config", str(self.config_file())]

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in our_environment().items() if name != "PYTHONPATH"}


class Lines:
    """A telnet client."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._file = self._socket.makefile("rwb")

    def say(self, text: str) -> None:
        self._file.write(text.encode() + b"\r\n")
        self._file.flush()

    def hear(self) -> str:
        return self._file.readline().decode().strip()

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class ExamplePlugins(InteropCase):
    """One environment for all tests; they run in the order of their names."""

    namesrv: JavaNamesrv
    client: JavaClient
    bin: ClassVar[Path]

    @classmethod
    def prepare(cls) -> None:
        work = cls.folder / "packages"
        tree = work / "tree"
        shutil.copytree(ROOT, tree, symlinks=True, ignore=LEFT_OUT)
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
        sources = [tree, *sorted(path.parent for path in (tree / "docs" / "examples").glob("*/pyproject.toml"))]
        run(*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", work / "dist", *sources, cwd=work)
        run(sys.executable, "-m", "venv", work / "venv", cwd=work)
        cls.bin = InstalledBroker.bin = work / "venv" / "bin"
        wheels = sorted((work / "dist").glob("*.whl"))
        assert len(wheels) == len(sources), wheels
        cls.pip("install", "--quiet", *wheels)
        cls.namesrv = cls.share(JavaNamesrv("namesrv", cls.folder / "namesrv"))
        cls.client = cls.share(JavaClient(cls.namesrv.address, folder=cls.folder / "client"))
        cls.client.producer()

    @classmethod
    def pip(cls, *arguments: str | Path) -> None:
        run(cls.bin / "python", "-m", "pip", "--disable-pip-version-check", *arguments, cwd=cls.folder)

    def configuration(self, lines_port: int) -> dict[str, object]:
        self.flag = self.folder / "unhealthy"
        return {
            "plugins": BROKER_PLUGINS,
            "ticker.every_s": "0.2",
            "line-protocol.listen": f"tcp:{lines_port}:interface=127.0.0.1",
            "flag-file.path": self.flag,
        }

    def test_1_they_work(self) -> None:
        lines_port = ports.free_ports(1)[0]
        extra = self.configuration(lines_port)
        broker = self.use(InstalledBroker(self.subfolder("broker"), self.namesrv, extra))
        self.check_command(broker)
        client = self.client
        # a filter: SQL92 by Java's own selector
        sent = client.send("Plugged", "sync", 20, prefix="eu", tags=["eu"])
        client.send("Plugged", "sync", 20, prefix="us", tags=["us"])
        client.consume("sql", {"Plugged": "TAGS = 'eu' AND KEYS <> 'none'"}, sql=True)
        got = client.await_received("sql", 20)
        self.assertEqual({each["key"] for each in got}, {each["key"] for each in sent})
        with self.assertRaisesRegex(AssertionError, "AND is wanted|NAME = 'TEXT'"):
            client.consume("wrong", {"Plugged": "region ~ 3"}, sql=True)
        # a protocol: what telnet puts Java's consumer gets, and the other way round
        lines = Lines(lines_port)
        self.addCleanup(lines.close)
        lines.say("put Lines hello from telnet")
        self.assertRegex(lines.hear(), r"stored \d+ 0")
        client.consume("lines", "Lines")
        client.await_received("lines", 1)
        lines.say("follow Plugged")
        self.assertEqual(lines.hear(), "following Plugged")
        client.send("Plugged", "sync", 1, prefix="late")
        self.assertRegex(lines.hear(), r"message \d+ \d+ ")
        lines.say("nonsense")
        self.assertIn("error", lines.hear())
        # a timer, a topic, a request code
        client.consume("ticks", "TICKS")
        client.await_received("ticks", 3)
        self.assertGreaterEqual(self.ticks(broker), 3)

        # an observer
        def counted() -> Any:
            counts = json.loads(remoting.call(broker.address, TOPIC_METER).body)
            return counts.get("Plugged") == 41 and counts.get("Lines") == 1

        wait_until("the meter to have counted", counted, 20, broker.running)
        # a file outlives the process
        before = self.ticks(broker)
        self.assertIn(broker.stop(), (0, -signal.SIGTERM))
        broker.start()
        self.assertGreaterEqual(self.ticks(broker), before)

    def ticks(self, broker: OurBroker) -> int:
        reply = remoting.call(broker.address, TICKER_COUNT)
        self.assertEqual(reply.code, 0, reply.remark)
        return int(reply.fields["count"])

    def check_command(self, broker: OurBroker) -> None:
        """``rocketha check`` and the tools know them, too."""
        command = self.bin / "rocketha"
        text = run(command, "check", "-c", broker.config_file(), cwd=self.folder)
        self.assertIn("on      ticker 1.0, broker feature", text)
        self.assertIn("rocketha-ticker 1.0", text)
        self.assertIn("off     beacon-format 1.0, wire format", text)
        found = json.loads(run(command, "check", "-c", broker.config_file(), "--json", cwd=self.folder))
        self.assertEqual(found["order"], [each.strip() for each in BROKER_PLUGINS.split(",")])
        self.assertIn({"code": TICKER_COUNT, "name": "TICKER_COUNT", "owner": "ticker"}, found["requests"])
        formats = run(command, "formats", "beacon-format", "--plugins", "beacon-format", cwd=self.folder)
        self.assertIn("Counts up from 0", formats)
        fuzz = (command, "fuzz", "beacon-format", "--plugins", "beacon-format", "--cases", "300")
        self.assertIn("0 found", run(*fuzz, cwd=self.folder))

    def test_2_addresses_that_are_not_allowed(self) -> None:
        extra = {"plugins": "address-guard", "address-guard.allowed": "10.0.0.0/8"}
        broker = InstalledBroker(self.subfolder("broker"), None, extra)
        self.use(broker, start=False)
        broker.spawn()
        wait_until("a refusal", lambda: self.code(broker) == 16, 30, broker.running)
        self.assertIn("127.0.0.1 is not among the addresses", remoting.call(broker.address, 28).remark or "")

    def code(self, broker: OurBroker) -> int | None:
        try:
            return remoting.call(broker.address, 28, timeout_s=2).code
        except (OSError, ValueError):
            return None

    def test_3_named_and_broken_or_gone(self) -> None:
        """No start, exit 1, and one line that says which and why; not named: it starts."""
        module = next(self.bin.parent.glob("lib/*/site-packages/rocketha/plugins/ticker.py"))
        good = module.read_text()
        module.write_text("import nowhere_to_be_found\n")
        reason = self.end(self.broken({"plugins": "ticker"}))
        self.assertIn("plug-in ticker cannot be used", reason)
        self.assertIn("ModuleNotFoundError: No module named 'nowhere_to_be_found'", reason)
        module.write_text(good.replace("def build(self, context: Any)", "def build(self)"))
        self.assertIn("doesn't allow enough arguments", self.end(self.broken({"plugins": "ticker"})))
        module.write_text(good)
        self.assertIn("every_s is no number: 'x'", self.end(self.broken({"plugins": "ticker", "ticker.every_s": "x"})))
        self.assertIn("ticker.size is no key", self.end(self.broken({"plugins": "ticker", "ticker.size": "1"})))
        self.pip("uninstall", "--quiet", "--yes", "rocketha-ticker")
        self.assertIn("plug-in ticker is named and not installed", self.end(self.broken({"plugins": "ticker"})))
        self.use(InstalledBroker(self.subfolder("without"), self.namesrv, {"plugins": "topic-meter"}, name="broker-b"))

    def broken(self, extra: dict[str, object]) -> InstalledBroker:
        return InstalledBroker(self.subfolder("broken"), self.namesrv, extra)

    def end(self, broker: InstalledBroker) -> str:
        """What it says when it ends, and that it ends with 1."""
        broker.log_path.unlink(missing_ok=True)
        self.use(broker, start=False)
        broker.spawn()
        assert broker.child is not None
        self.assertEqual(broker.child.wait(30), 1)
        text = broker.log_path.read_text()
        self.assertNotIn("Traceback", text)
        return text


class HandOver(InteropCase):
    """A health check makes a master hand over."""

    def test_an_unhealthy_master_is_replaced(self) -> None:
        group = ReplicaGroup("ours", self.folder, count=2, controllers=1, kinds=("ours", "ours"), namesrv="ours")
        path = f"{EXAMPLES / 'flag-file'}"
        for process in group.processes:
            self.use(process, start=False)
        for number, broker in enumerate(group.brokers):
            flag = self.folder / f"unhealthy-{number}"
            broker.extra |= {"plugins": "flag-file", "flag-file.path": flag}
            broker.environment = lambda: {**our_environment(), "PYTHONPATH": f"{ROOT / 'src'}:{path}"}  # type: ignore[method-assign]
        group.start(first=True)
        client = self.use(JavaClient(group.namesrv_addresses, folder=self.folder / "client"))
        client.producer()
        client.send("Kept", "sync", 50, prefix="before")
        (self.folder / "unhealthy-0").touch()
        second = group.brokers[1]
        wait_until("the healthy broker to be master", lambda: self.master(group) == second.address, 30, second.running)
        client.send("Kept", "sync", 50, prefix="after")
        client.consume("all", "Kept")
        client.await_received("all", 100)
        # it stays so, and the other comes back as a slave when it is healthy
        (self.folder / "unhealthy-0").unlink()
        group.await_whole()
        self.assertEqual(self.master(group), second.address)

    def master(self, group: ReplicaGroup) -> str:
        state = group.state()
        return state.master_address if state is not None else ""
