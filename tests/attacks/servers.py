"""The processes that are attacked, on free ports, and what can be read of them from outside."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator

from tests.attacks.attack import wait
from tests.attacks.wire import CLUSTERS, CONTROLLERS, HA_STATUS, HOST, REPLICAS, Answer, ask

BIN = pathlib.Path(sys.executable).parent
STARTED_S = 40
ENDED_S = 30


def free_block(count: int) -> int:
    """The first of so many ports that nobody listens on now."""
    for _ in range(200):
        first = random.randrange(20_000, 31_000)
        with contextlib.ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(contextlib.closing(socket.socket())).bind((HOST, port))
            except OSError:
                continue
            return first
    raise AssertionError(f"no {count} free ports in a row")


def until(true: Callable[[], object], seconds: float, pause: float = 0.1) -> bool:
    """Look again and again; an error of the network counts as not yet."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if true():
                return True
        wait(pause)
    return False


class Server:
    """One process of twistd and all that it starts."""

    def __init__(self, directory: pathlib.Path, plugin: str, *flags: str, files: int | None = None) -> None:
        """Start it; ``files`` limits what it may open."""
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        observer = "rocketha.observe.logging.json_observer"
        command = [str(BIN / "twistd"), "--nodaemon", "--pidfile=", "--logger", observer, plugin, *flags]
        limit = None if files is None else lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        with open(directory / "output", "wb") as output:
            self.process = subprocess.Popen(
                command, cwd=directory, stdout=output, stderr=output, preexec_fn=limit, start_new_session=True
            )

    def stop(self) -> None:
        """End it, and what it started, by their process ids."""
        children = descendants(self.process.pid)
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(ENDED_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for child in children:
            if alive(child):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)

    def rss_mib(self) -> float:
        """Resident memory now."""
        return rss_mib(self.process.pid)

    def log(self) -> str:
        """What it wrote so far."""
        return (self.directory / "output").read_text(errors="replace")


def alive(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    """All processes below one, whichever of its threads started them: Spark's JVM starts Python workers from many."""
    children = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += [int(each) for each in path.read_text().split()]
    return children + [each for child in children for each in descendants(child)]


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    found = re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def cpu_s(pid: int) -> float:
    """CPU that a process has used."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def get(port: int, path: str, timeout: float = 5.0) -> str:
    """A page of a status port."""
    with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=timeout) as response:
        return response.read().decode()


def metric(port: int, begin: str) -> dict[str, float]:
    """The samples whose lines begin so."""
    lines = [line.rpartition(" ") for line in get(port, "/metrics").splitlines() if line.startswith(begin)]
    return {name: float(value) for name, _, value in lines}


class Alone(Server):
    """A broker without nameserver."""

    def __init__(self, directory: pathlib.Path, *flags: str, files: int | None = None) -> None:
        """Start it and wait until it answers."""
        first = free_block(4)
        self.port, self.ha_port, self.status_port = first + 2, first + 3, first + 1
        where = ("--data", str(directory / "store"), "--port", str(self.port), "--name", "alone")
        super().__init__(directory, "rocketha-broker", *where, "--http", str(self.status_port), *flags, files=files)
        assert until(lambda: ask(self.port, HA_STATUS).code == 0, STARTED_S), self.log()[-2000:]


class NameServer(Server):
    """A nameserver alone."""

    def __init__(self, directory: pathlib.Path, *flags: str, files: int | None = None) -> None:
        """Start it and wait until it answers."""
        self.port = free_block(2)
        self.status_port = self.port + 1
        where = ("--data", str(directory / "namesrv"), "--port", str(self.port), "--http", str(self.status_port))
        super().__init__(directory, "rocketha-namesrv", *where, *flags, files=files)
        assert until(lambda: ask(self.port, CLUSTERS).code == 0, STARTED_S), self.log()[-2000:]

    def addresses(self, name: str) -> dict[str, str]:
        """Broker id to address, of one name."""
        table = ask(self.port, CLUSTERS).json()["brokerAddrTable"]
        return {} if name not in table else table[name]["brokerAddrs"]


class Group(Server):
    """Three replicas and three controllers, as ``make run`` starts them."""

    name, cluster = "broker-a", "DefaultCluster"

    def __init__(self, directory: pathlib.Path, *flags: str, files: int | None = None) -> None:
        """Start it and wait until all three are in sync."""
        first = free_block(40)
        self.broker_ports = [first + 2, first + 12, first + 22]
        self.controller_ports = [first + 30, first + 31, first + 32]
        self.port = first + 35
        self.status_port = first + 36
        ports = (
            "--broker-port",
            str(first + 2),
            "--controller-port",
            str(first + 30),
            "--namesrv-port",
            str(self.port),
        )
        size = ("--brokers", "3", "--controllers", "3", "--http", str(self.status_port))
        self.data = directory / "data"
        super().__init__(directory, "rocketha-cluster", "--data", str(self.data), *ports, *size, *flags, files=files)
        if not until(lambda: len(self.in_sync()) == 3 and self.master_port() and len(self.route()) == 3, STARTED_S):
            self.stop()
            raise AssertionError(self.log()[-2000:])

    def leader(self) -> int:
        """The port of the leading controller."""
        for port in self.controller_ports:
            with contextlib.suppress(OSError):
                answer = ask(port, CONTROLLERS)
                if answer.fields.get("isLeader") == "true":
                    return port
        raise OSError("no controller leads")

    def control(
        self, code: int, fields: dict[str, object] | None = None, body: bytes = b"", source: str = HOST
    ) -> Answer:
        """Ask the leading controller."""
        return ask(self.leader(), code, fields, body, source)

    def replicas(self) -> Answer:
        """What the controllers say of the set."""
        return self.control(REPLICAS, {"brokerName": self.name, "clusterName": self.cluster})

    def in_sync(self) -> list[int]:
        """The SyncStateSet."""
        return sorted(self.replicas().json()["syncStateSet"])

    def epochs(self) -> tuple[int, int]:
        """Master epoch and SyncStateSet epoch."""
        answer = self.replicas()
        return int(answer.fields["masterEpoch"]), int(answer.json()["syncStateSetEpoch"])

    def master_id(self) -> int:
        """The controllers' id of the master."""
        return int(self.replicas().fields["masterBrokerId"])

    def master_port(self) -> int:
        """The port of the master, as the controllers say."""
        return int(self.replicas().fields["masterAddress"].rpartition(":")[2])

    def slave_port(self) -> int:
        """The port of one that is not the master."""
        return next(port for port in self.broker_ports if port != self.master_port())

    def route(self) -> dict[str, str]:
        """Broker id to address, as the nameserver says."""
        return ask(self.port, CLUSTERS).json()["brokerAddrTable"][self.name]["brokerAddrs"]

    def masters(self) -> list[int]:
        """The ports of the brokers that take themselves for the master."""
        found = []
        for port in self.broker_ports:
            with contextlib.suppress(OSError):
                if ask(port, HA_STATUS).json()["master"]:
                    found.append(port)
        return found

    def pid(self, port: int) -> int:
        """The process that listens on a port."""
        wanted = f"{port:04X}"
        inodes = set()
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[1].endswith(f":{wanted}"):
                inodes.add(f"socket:[{words[9]}]")
        for pid in (self.process.pid, *descendants(self.process.pid)):
            for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(link) in inodes:
                        return pid
        raise OSError(f"nobody listens on {port}")


@contextlib.contextmanager
def group(directory: pathlib.Path, *flags: str, files: int | None = None) -> Iterator[Group]:
    """A group, ended behind the block."""
    server = Group(directory, *flags, files=files)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def alone(directory: pathlib.Path, *flags: str, files: int | None = None) -> Iterator[Alone]:
    """A broker, ended behind the block."""
    server = Alone(directory, *flags, files=files)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def nameserver(directory: pathlib.Path, *flags: str, files: int | None = None) -> Iterator[NameServer]:
    """A nameserver, ended behind the block."""
    server = NameServer(directory, *flags, files=files)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def paused(*pids: int) -> Iterator[None]:
    """Processes frozen for the block."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
