"""The rows of the comparison, and one measurement of one row: a load client against a running broker.

The load client is Java's of today, or the one that the row's name ends with: ``sync16@go``.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
import unittest
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
from tests.interop.harness import foreign, jars
from tests.interop.harness.roles import Role

from .machine import Sampler

HERE = Path(__file__).parent
JAVA = HERE / "java"
# threads, requests in flight and batch sizes; sync64 is no row of issue 3's table
LOADS: dict[str, list[str]] = {
    "sync1": ["--mode", "sync", "--threads", "1"],
    "sync16": ["--mode", "sync", "--threads", "16"],
    "sync64": ["--mode", "sync", "--threads", "64"],
    "async256": ["--mode", "async", "--threads", "1", "--inflight", "256"],
    "batch32": ["--mode", "batch", "--threads", "1", "--batch", "32"],
    "batch100": ["--mode", "batch", "--threads", "1", "--batch", "100"],
}
KEYED = "+keys"
"""Behind the name of a row: each message has two KEYS and three properties, as those of applications."""
COMMON = ("sync16", "async256", "batch32")
LOADS |= {f"{name}{KEYED}": [*LOADS[name], "--keyed"] for name in (*COMMON, "batch100")}
BY = "@"
"""Between a row and the client that sends it."""


def _java(main: str, home: Path) -> list[str]:
    return jars.java_command(main, heap_mb=512, home=home, sources=JAVA)


def _java_4(main: str, home: Path) -> list[str]:
    return jars.java_command(main, heap_mb=512, home=home, sources=JAVA, lib=foreign.Java4.install() / "lib")


def _go(main: str, home: Path) -> list[str]:
    assert main == "LoadProducer"  # it only sends
    go = foreign.tool("go")
    files = [HERE / "go" / "load.go", *(jars.HERE / "go" / name for name in ("go.mod", "go.sum"))]
    return [
        str(foreign.installed("go-load", [go, "mod", "download"], [go, "build", "-o", "load", "."], files) / "load")
    ]


CLIENTS: dict[str, Callable[[str, Path], list[str]]] = {"": _java, "4.9.8": _java_4, "go": _go}
"""The command line that runs a load program of a client; SkipTest where there is none. Java's of today has no name."""
EVERY = ("push", *(load + (client and BY + client) for client in CLIENTS for load in LOADS))
ROWS = (
    *(load for load in LOADS if load != "sync64"),
    *(f"{load}{more}{BY}{client}" for client in CLIENTS if client for load in COMMON for more in ("", KEYED)),
    "push",
)
"""Those of EVERY that are measured unless others are asked for."""


def possible(wanted: Iterable[str], home: Path) -> list[str]:
    """Those whose client this machine has or can fetch; of the others it is said why they are left out.

    :param home: where a client may leave what it unpacks.
    """
    absent: dict[str, str] = {}
    found = []
    for row in wanted:
        client = row.partition(BY)[2]
        if client not in absent:
            try:
                CLIENTS[client]("LoadProducer", home)
                absent[client] = ""
            except unittest.SkipTest as why:
                absent[client] = str(why)
        if absent[client]:
            print(f"{row} is left out: {absent[client]}", flush=True)
        else:
            found.append(row)
    return found


def groups(wanted: Iterable[str]) -> list[list[str]]:
    """Rows that are measured in the same rounds: a row and the same with keys, which are compared with each other.

    A machine may be a third slower a few minutes later; within a round it is not.
    """
    found: dict[str, list[str]] = {}
    for row in wanted:
        found.setdefault(row.replace(KEYED, ""), []).append(row)
    return list(found.values())


@attrs.frozen
class Result:
    """One measurement. Latencies are of requests, in ms (a batch is one request); None where the row has none."""

    side: str
    row: str
    body_bytes: int
    messages: int
    messages_per_s: float
    p50_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    errors: int
    broker_cpu_s_per_million: float
    broker_cpu_share: float
    client_cpu_share: float
    others_cpu_share: float
    rss_bytes: int
    beside_cpu_s_per_million: tuple[float, ...] = ()
    """Of each process that works beside the broker, such as its slave."""
    max_ms: float | None = None
    """Of the slowest request."""


class LoadFailed(RuntimeError):
    """The load client printed no result, or measured nothing."""


def _run(
    side: str,
    broker: Role,
    client: str,
    arguments: list[str],
    home: Path,
    timeout_s: float,
    beside: Sequence[Role] = (),
) -> tuple[dict[str, Any], Sampler, float, float]:
    command = CLIENTS[client](arguments[0], home)
    began = time.time()
    complaints = home / "client.log"
    with (
        open(complaints, "wb") as log,
        subprocess.Popen([*command, *arguments[1:]], stdout=subprocess.PIPE, stderr=log, text=True, cwd=home) as load,
    ):
        sampler = Sampler(broker.pid, load.pid, [role.pid for role in beside])
        try:
            out, _ = load.communicate(timeout=timeout_s)
        finally:
            if load.poll() is None:
                load.kill()
            sampler.stop()
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if not lines:
        raise LoadFailed(f"{side}: {' '.join(arguments)}: {(out + complaints.read_text())[-1500:]}")
    return json.loads(lines[-1]), sampler, began, time.time()


def _errors(got: dict[str, Any]) -> int:
    return int(got["errors"] + sum(got["not_ok"].values()))


class Load:
    """A load client that sends in windows, one at a time, and stands still (SIGSTOP) behind each.

    Java's client compiles itself while it sends, so one process measures all windows of a row.

    :param home: its working directory.
    :param beside: whose CPU is measured, too.
    """

    def __init__(
        self, side: str, broker: Role, namesrv: str, row: str, size: int, home: Path, beside: Sequence[Role] = ()
    ) -> None:
        load, _, client = row.partition(BY)
        arguments = ["--namesrv", namesrv, "--topic", f"Load{size}", "--size", str(size), *LOADS[load], "--windows"]
        self._side, self._row, self._size = side, row, size
        self._broker, self._beside = broker, beside
        self._warm_errors = 0
        self._complaints = home / "client.log"
        with open(self._complaints, "wb") as log:
            self._process = subprocess.Popen(
                [*CLIENTS[client]("LoadProducer", home), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=home,
            )

    def __enter__(self) -> Load:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def warm(self, seconds: float) -> None:
        """Send for so long: the client's own compiler needs some.  The next window tells of the errors, too."""
        self._warm_errors += _errors(self._send(seconds, 0.0))

    def window(self, settle_s: float, seconds: float) -> Result:
        """Send for so long, and measure the second part."""
        sampler = Sampler(self._broker.pid, self._process.pid, [role.pid for role in self._beside])
        try:
            got = self._send(settle_s, seconds)
        finally:
            sampler.stop()
        begin = got["start_ms"] / 1000
        cost = sampler.cost(begin, begin + got["seconds"])
        if not got["msgs"]:
            raise LoadFailed(f"{self._side} {self._row}: nothing was acknowledged: {got}")
        latency, warm_errors, self._warm_errors = got["lat_ms"], self._warm_errors, 0
        millions = got["msgs_s"] * cost.seconds / 1e6
        return Result(
            self._side,
            self._row,
            self._size,
            got["msgs"],
            got["msgs_s"],
            latency["p50"],
            latency["p99"],
            latency["p99_9"],
            _errors(got) + warm_errors,
            cost.broker / millions,
            cost.broker / cost.seconds,
            cost.client / cost.seconds,
            cost.others / cost.seconds,
            cost.rss,
            tuple(used / millions for used in cost.beside),
            latency["max"],
        )

    def _send(self, settle_s: float, seconds: float) -> dict[str, Any]:
        late = threading.Timer(settle_s + seconds + 60, self._process.kill)
        late.start()
        self._process.send_signal(signal.SIGCONT)
        try:
            return self._ask(f"{settle_s} {seconds}\n")
        finally:
            late.cancel()
            self._process.send_signal(signal.SIGSTOP)

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        said = ""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line)
            self._process.stdin.flush()
            for said in self._process.stdout:
                if said.startswith("{"):
                    found: dict[str, Any] = json.loads(said)
                    return found
        why = said + self._complaints.read_text() or f"no result, exit status {self._process.wait()}"
        raise LoadFailed(f"{self._side} {self._row}: {why[-1500:]}")


def produce(
    side: str,
    broker: Role,
    namesrv: str,
    row: str,
    size: int,
    seconds: float,
    warmup: float,
    home: Path,
    beside: Sequence[Role] = (),
) -> Result:
    """One window of a client of its own."""
    with Load(side, broker, namesrv, row, size, home, beside) as load:
        return load.window(warmup, seconds)


def fill(side: str, broker: Role, namesrv: str, size: int, count: int, home: Path) -> None:
    """Give the push row something to read: `count` messages in a topic of their own."""
    arguments = ["LoadProducer", "--namesrv", namesrv, "--topic", f"Read{size}", "--size", str(size), "--prime", "0"]
    arguments += [*LOADS["batch32"], "--warmup", "0", "--duration", "600", "--count", str(count)]
    got, *_ = _run(side, broker, "", arguments, home, 700)
    if got["acked_all"] < count:
        raise LoadFailed(f"{side}: only {got['acked_all']} of {count} were stored: {got['errors_by']}")


STILL_MAX = 3
"""Tries of a consumer that receives nothing."""


def push(side: str, broker: Role, namesrv: str, size: int, count: int, home: Path) -> Result:
    """Read them all with a new group from the start; the rate runs from the first message to the last."""
    arguments = [
        "LoadConsumer",
        "--namesrv",
        namesrv,
        "--topic",
        f"Read{size}",
        "--mode",
        "push",
        "--expect",
        str(count),
        "--idle",
        "20",
    ]
    for _ in range(STILL_MAX):
        got, sampler, began, ended = _run(side, broker, "", arguments, home, 400)
        if got["distinct"]:
            break
        # Java's client skips a heartbeat while another is under way, and Java's broker then refuses its pulls for 30 s.
        print(f"push {size} {side}: the consumer stood still, tried again", flush=True)
    if got["distinct"] < count:
        raise LoadFailed(f"{side}: push received {got['distinct']} of {count}")
    cost = sampler.cost(began, ended)
    return Result(
        side,
        "push",
        size,
        got["distinct"],
        got["msgs_s"],
        None,
        None,
        None,
        got["duplicates"],
        cost.broker * 1e6 / got["distinct"],
        cost.broker / cost.seconds,
        cost.client / cost.seconds,
        cost.others / cost.seconds,
        cost.rss,
    )
