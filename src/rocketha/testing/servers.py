"""Servers for tests: a broker with its nameserver, or replicas with controllers, on loopback, gone when the test ends.

For tests of clients in any language, in any test framework::

    with RocketMQ() as rocketmq:
        client.connect(rocketmq.namesrv)

    with RocketMQ(brokers=3, controllers=3) as rocketmq:
        rocketmq.kill(rocketmq.master())

Theory of operation.  It is ``twistd rocketha-cluster`` in a process of its own, so it needs no reactor in the test's
process, and can be killed.  It says through ``NOTIFY_SOCKET``, as to systemd, when it serves.  It holds the reading end
of a pipe of ours: when the test's process ends, however it ends, the servers stop.

What it must not import: Twisted.  Every run of pytest imports it where rocketha is installed.
"""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["NotStarted", "RocketMQ"]

START_S, STOP_S = 60.0, 60.0
LOOK_S = 0.02
"""Between two looks at what sends no event: that a process has ended, what a server says when it is asked."""

PORTS = range(20_000, 32_000)
"""Below those that systems give to connections."""
PORTS_A_BROKER = 10
START_TRIES = 5
"""With other ports, where one was taken between our look and the server's start."""
_TAKEN = os.strerror(errno.EADDRINUSE)

BROKER_NAME = "broker-a"
SMALL_FILES = {"mappedFileSizeCommitLog": "33554432"}
"""A gigabyte otherwise, which is made at once."""
OF_A_GROUP = {"handoverLinger": "0"}
"""Ours know the next master; nobody is waited for when the servers stop."""

T = TypeVar("T")


class NotStarted(Exception):
    """The servers do not serve.  The message says why, with the end of their log."""


class RocketMQ:
    """A context manager; or call :meth:`start`, and :meth:`stop` whatever happens.

    Both block, ``start`` until clients are served: half a second for one broker, two seconds for a group.

    :param brokers: one broker with a nameserver in one process, or so many replicas of one broker.
    :param controllers: that elect the master; one or three for several brokers, none for one.
    :param directory: where all files are kept, and stay.  None: one broker keeps all in memory, a group in a temporary
        directory.
    :param keys: of ``broker.conf``, for all brokers.
    :param arguments: more of ``twistd rocketha-cluster``.
    :ivar namesrv: ``127.0.0.1:PORT`` of the nameserver.
    :ivar brokers: name -> address; one broker is ``broker-1``, too.
    :ivar controllers: name -> address.
    """

    def __init__(
        self,
        brokers: int = 1,
        controllers: int | None = None,
        directory: str | os.PathLike[str] | None = None,
        keys: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.namesrv = ""
        self.brokers: dict[str, str] = {}
        self.controllers: dict[str, str] = {}
        self._counts = brokers, (0 if brokers == 1 else 1) if controllers is None else controllers
        self._alone = self._counts == (1, 0)
        self._directory = None if directory is None else Path(directory).absolute()
        self._keys = {**SMALL_FILES, **({} if self._alone else OF_A_GROUP), **(keys or {})}
        self._arguments = tuple(arguments)
        self._work: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._first_port = 0

    def __enter__(self) -> RocketMQ:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    # -- life

    def start(self) -> None:
        """Start the servers; after :meth:`stop` or :meth:`kill` on the same ports, and on the files that they had.

        :raises NotStarted: they end, or do not serve in time; nothing is left of them then.
        """
        self._end()
        try:
            if self._first_port:
                self._start()
            else:
                self._start_somewhere()
        except BaseException:
            self.stop()
            raise

    def _start_somewhere(self) -> None:
        for left in reversed(range(START_TRIES)):
            self._choose_ports()
            try:
                return self._start()
            except NotStarted as problem:
                if not left or _TAKEN not in str(problem):
                    raise
                self._end()

    def stop(self) -> None:
        """Stop the servers, and remove what is theirs; nothing where they do not run."""
        self._end()
        if self._work is not None:
            self._work.cleanup()
            self._work = None

    def _choose_ports(self) -> None:
        brokers, controllers = self._counts
        self._first_port = first = _free_ports(PORTS_A_BROKER * (1 + brokers))
        self.namesrv = _local(first)
        self.controllers = {f"controller-{number}": _local(first + number) for number in range(1, controllers + 1)}
        self.brokers = {
            f"broker-{number}": _local(first + PORTS_A_BROKER * number + 2) for number in range(1, brokers + 1)
        }

    def _start(self) -> None:
        if self._work is None:
            self._work = tempfile.TemporaryDirectory(prefix="rocketha-", ignore_cleanup_errors=True)
        work = Path(self._work.name)
        address = work / "notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told, open(work / "output", "ab") as output:
            told.bind(str(address))
            try:
                environment = {**os.environ, "NOTIFY_SOCKET": str(address)}
                self._process = subprocess.Popen(
                    self._command(work), stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment
                )
                self._await_word(told, time.monotonic() + START_S)
            finally:
                address.unlink()
        if not self._alone and self.controllers:
            self._await(lambda: len(self.in_sync()) == len(self.brokers), "all replicas are in sync")

    def _command(self, work: Path) -> list[str]:
        brokers, controllers = self._counts
        command = [sys.executable, "-m", "rocketha.services.cluster.child", "--nodaemon", "--pidfile="]
        command += ["--logger", "rocketha.observe.logging.no_observer", "rocketha-cluster"]
        command += ["--namesrv-port", str(self._first_port), "--controller-port", str(self._first_port + 1)]
        command += ["--broker-port", str(self._first_port + PORTS_A_BROKER + 2)]
        command += ["--brokers", str(brokers), "--controllers", str(controllers)]
        if self._directory is None and self._alone:
            command += ["--memory", "--log-file", str(work / "log")]
        else:
            command += ["--data", str(self._directory or work / "data")]
        for key, value in self._keys.items():
            command += ["--set", f"{key}={value}"]
        return [*command, *self._arguments]

    def _await_word(self, told: socket.socket, deadline_s: float) -> None:
        told.settimeout(LOOK_S)
        while True:
            try:
                if b"READY=1" in told.recv(4096).splitlines():
                    return
            except TimeoutError:
                self._check(deadline_s, "the servers serve")

    def _await(self, asked: Callable[[], T | None], what: str) -> T:
        deadline_s = time.monotonic() + START_S
        while not (found := asked()):
            self._check(deadline_s, what)
            time.sleep(LOOK_S)
        return found

    def _check(self, deadline_s: float, what: str) -> None:
        """See that what is awaited may still come."""
        process = self._process
        if process is None or process.poll() is not None:
            raise NotStarted(f"the servers have ended, before {what}\n{self.log()}")
        if time.monotonic() > deadline_s:
            raise NotStarted(f"not within {START_S:g} s: {what}\n{self.log()}")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()

    # -- what happens to them

    def pids(self) -> dict[str, int]:
        """The processes that run: ``broker-1``, ``controller-1`` ... of a group; ``broker-1`` of one broker."""
        process = self._process
        if process is None or process.poll() is not None:
            return {}
        if self._alone:
            return {"broker-1": process.pid}
        found = {}
        for line in _lines(self._data() / "log" / "cluster"):
            if line.get("event") == "process.started":
                found[str(line["process"])] = int(line["pid"])
        return found

    def kill(self, name: str = "broker-1") -> None:
        """``kill -9``.  A process of a group is started again; one broker with its nameserver by :meth:`start`.

        :param name: see :meth:`pids`.
        :raises KeyError: no such process runs.
        """
        os.kill(self.pids()[name], signal.SIGKILL)
        if self._alone and self._process is not None:
            self._process.wait()

    def freeze(self, name: str) -> None:
        """SIGSTOP: it stands still, and its connections stay open.

        :raises KeyError: no such process runs.
        """
        os.kill(self.pids()[name], signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT: it goes on.

        :raises KeyError: no such process runs.
        """
        os.kill(self.pids()[name], signal.SIGCONT)

    # -- what is asked

    def master(self, after: str = "") -> str:
        """The name of the broker that the nameserver sends producers to, once there is one.

        :param after: not this one: wait until another has followed it.
        :raises NotStarted: there is none for a minute.
        """
        return self._await(lambda: self._master(after), "there is a master")

    def _master(self, after: str) -> str | None:
        from rocketha.wire.cluster_info import cluster_info
        from rocketha.wire.codes import RequestCode

        names = {address: name for name, address in self.brokers.items()}
        body = _ask(self.namesrv, RequestCode.GET_BROKER_CLUSTER_INFO, {})
        for each in cluster_info(body).sets if body is not None else ():
            name = names.get(each.master, after)
            if name != after:
                return name
        return None

    def in_sync(self) -> set[str]:
        """The names of the brokers of a group that have every acknowledged message; empty while no controller says."""
        from rocketha.wire import json_dialect
        from rocketha.wire.codes import PrivateCode

        names = {address: name for name, address in self.brokers.items()}
        for address in self.controllers.values():
            body = _ask(address, PrivateCode.WHY, {"brokerName": BROKER_NAME})
            if body is not None:
                found = json_dialect.loads(body)
                addresses = found["brokerAddrs"]
                return {names[addresses[str(number)]] for number in found["syncStateSet"]}
        return set()

    def log(self) -> str:
        """The end of what the servers wrote, for the message of a test that fails."""
        places = [Path(self._work.name)] if self._work is not None else []
        places += [self._data() / "log"] if not self._alone or self._directory is not None else []
        files = [path for place in places if place.is_dir() for path in sorted(place.iterdir()) if path.is_file()]
        return "\n".join(f"--- {path.name}\n{path.read_bytes()[-4000:].decode(errors='replace')}" for path in files)

    def _data(self) -> Path:
        return self._directory or Path(self._work.name if self._work is not None else "") / "data"


def _local(port: int) -> str:
    return f"127.0.0.1:{port}"


def _free_ports(count: int) -> int:
    """The first of so many neighbours that nobody listens on."""
    chance = random.SystemRandom()
    while True:
        first = chance.randrange(PORTS.start, PORTS.stop - count)
        if all(_is_free(port) for port in range(first, first + count)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers have it
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _lines(path: Path) -> list[dict[str, Any]]:
    """A log of JSON lines; without the last one while it is being written."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return []
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def _ask(address: str, code: int, fields: Mapping[str, str]) -> bytes | None:
    """The body of a server's answer; None where it refuses, or does not answer."""
    from rocketha.wire import remoting

    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1.0) as connection, connection.makefile("rb") as read:
            connection.sendall(remoting.encode(remoting.request(code, fields)))
            size = int.from_bytes(read.read(4), "big")
            answer = remoting.decode(read.read(size), size)
    except OSError:
        return None
    return bytes(answer.body) if answer.code == 0 else None
