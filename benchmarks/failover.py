"""What a failover benchmark is made of: sides measured in turn on a quiet machine, polls every 10 ms, and the report.

It knows groups of replicas, and rows by their names. What is done in a row is said by the benchmark:
a `Side` of its own with a method for each, which returns what it measured by name.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from typing import Protocol as Interface

from tests.choices import several
from tests.interop.harness import remoting
from tests.interop.harness.controllers import GROUP, TOPIC
from tests.interop.harness.processes import NotReady, wait_until
from tests.interop.harness.roles import Role, _Broker, _Namesrv

from .machine import busy_seconds

POLL_S = 0.01
LOOK_S = 0.5
QUIET_CORES = 0.5
"""Three brokers and three controllers of Java's, idle, take 0.12 to 0.32 of a core; one that starts, a whole one."""
RACE_LIMIT_S = 180
WHOLE_S, ANEW_S = 60, 240
FAILURES = (AssertionError, OSError, ValueError)
"""What a round ends with that cannot go on: nothing came in time, a process is gone, an answer is none."""
GET_ROUTE, SEND_MESSAGE = 105, 10


def say(text: str) -> None:
    print(text, flush=True)


def send_fields(queue: int = 0) -> dict[str, str]:
    """The fields of request 10 as any producer sends them."""
    return {
        "producerGroup": "failover",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": str(queue),
        "sysFlag": "0",
        "bornTimestamp": str(int(time.time() * 1000)),
        "flag": "0",
        "properties": "",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }


def send_once(address: str) -> bool:
    """One message straight to a broker; whether it was acknowledged."""
    try:
        return remoting.call(address, SEND_MESSAGE, send_fields(), b"x" * 64, timeout_s=1).code == 0
    except (OSError, ValueError):
        return False


def master_in_route(namesrv: str) -> str:
    """The broker to which the nameserver sends producers of the topic; empty when it names none or does not answer."""
    try:
        reply = remoting.call(namesrv, GET_ROUTE, {"topic": TOPIC}, timeout_s=1)
    except (OSError, ValueError):
        return ""
    if reply.code != 0:
        return ""
    datas = remoting.loads(reply.body)["brokerDatas"]
    return next((str(data["brokerAddrs"]["0"]) for data in datas if "0" in data["brokerAddrs"]), "")


class Race:
    """One thread a check, each asked every 10 ms; the first to become true ends the race."""

    def __init__(self, began: float, limit_s: float = RACE_LIMIT_S) -> None:
        self.began = began
        self.limit_s = limit_s
        self._done = threading.Event()
        self._won: list[tuple[float, Any]] = []
        self._threads: list[threading.Thread] = []

    def enter(self, check: Callable[[], object], prize: Any) -> None:
        def run() -> None:
            due = time.monotonic()
            while not self._done.is_set() and time.monotonic() - self.began < self.limit_s:
                if check():
                    self._won.append((time.monotonic() - self.began, prize))
                    self._done.set()
                    return
                due = max(due + POLL_S, time.monotonic())
                self._done.wait(max(0.0, due - time.monotonic()))

        self._threads.append(threading.Thread(target=run, daemon=True))

    def run(self) -> tuple[float, Any]:
        """Seconds since it began, and the prize of the first.

        :raises AssertionError: none came in time.
        """
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        if not self._won:
            raise AssertionError(f"nothing within {self.limit_s:g} s")
        return min(self._won, key=lambda won: won[0])


def await_quiet(limit_s: float = 60) -> None:
    """Until nobody needs the machine.

    A JVM whose broker counts again compiles for seconds more, and would take the processor from whoever is next.
    """
    due = time.monotonic() + limit_s
    while time.monotonic() < due:
        busy = busy_seconds(niced=False)
        time.sleep(LOOK_S)
        if busy_seconds(niced=False) - busy < QUIET_CORES * LOOK_S:
            return
    say(f"the machine did not become quiet within {limit_s:g} s")


class Switches:
    """Counts elections that no round made. A master's epoch grows by one with each election."""

    def __init__(self) -> None:
        self.needless: Counter[str] = Counter()
        """By the row that was measured last when they were seen."""
        self._row = ""
        self._expected = 0

    def seen(self, epoch: int) -> None:
        """The epoch of a group that is whole, before a round or after the last one."""
        if self._expected and epoch != self._expected:
            self.needless[self._row] += epoch - self._expected
        self._expected = epoch

    def made(self, row: str, count: int) -> None:
        """A round of this row begins, which makes so many."""
        self._row = row
        self._expected += count

    def lost_track(self) -> None:
        """A round failed, nobody knows after how many."""
        self._expected = 0


class Switched(NamedTuple):
    """Another broker is master; seconds since the old one was taken away."""

    master: _Broker
    accepted_s: float
    routed_s: float  # accepts messages, and the nameserver sends producers to it


class Whole(Interface):
    """A group with all its replicas."""

    @property
    def master_epoch(self) -> int:
        """Grows by one with each election; 0 where nobody counts them."""


class Group(Interface):
    """The processes of a side."""

    @property
    def processes(self) -> Sequence[Role]: ...

    @property
    def brokers(self) -> Sequence[_Broker]: ...

    @property
    def namesrv(self) -> _Namesrv | None: ...

    def start(self, timeout_s: float) -> object: ...

    def kill(self) -> None: ...

    def master(self) -> _Broker | None: ...

    def await_whole(self, timeout_s: float) -> Whole:
        """Until all replicas have all messages and may become master."""

    def outsiders(self) -> Sequence[_Broker]:
        """Who keeps it from being whole."""


class Side:
    """One side's group, and what was measured of it."""

    switching: Mapping[str, int] = {}
    """How many switches a round of a row makes, where it makes any."""

    def __init__(self, kind: str, group: Group) -> None:
        self.kind = kind
        self.group = group
        self.samples: dict[str, list[float]] = {}
        self.switches = Switches()
        self.stuck = 0
        self.failures: list[str] = []
        self.given_up = False
        """Its group did not come up, or not back; it was ended, and nothing more is measured of it."""

    def begin(self) -> None:
        self.group.start(ANEW_S)
        wait_until("the first message", self._first, 60)

    def _first(self) -> bool:
        master = self.group.master()
        return master is not None and send_once(master.address)

    def measure(self, row: str) -> Mapping[str, float]:
        """One round of a row: what it measured, by name."""
        raise NotImplementedError

    def round(self, row: str, *, whole: bool = True) -> Mapping[str, float]:
        """One round, and its samples kept. `whole`: the row is about the group, which has to be whole before."""
        if whole:
            self.switches.seen(self.whole().master_epoch)
            self.switches.made(row, self.switching.get(row, 0))
        found = self.measure(row)
        for name, value in found.items():
            self.samples.setdefault(name, []).append(value)
        return found

    def attempt(self, what: str, call: Callable[[], object]) -> bool:
        """Whether it succeeded; a failure is kept for the report instead of ending the run."""
        try:
            call()
        except FAILURES as why:
            self.failures.append(f"{what}: {type(why).__name__}: {why}".splitlines()[0])
            say(f"{self.kind} failed {what}: {type(why).__name__}: {why}")
            return False
        return True

    def require(self, what: str, call: Callable[[], object]) -> None:
        """A side that cannot is given up."""
        if not self.attempt(what, call):
            self.given_up = True
            self.group.kill()

    def recover(self) -> None:
        """After a round that failed: let everyone run again who was killed or frozen, and wait for the group."""
        self.switches.lost_track()
        for process in self.group.processes:
            if process.running():
                process.signal(signal.SIGCONT)
            else:
                process.kill()  # reaps it
                process.spawn()
        self.whole()

    def send(self, address: str) -> bool:
        """A message straight to a broker; whether it was acknowledged."""
        return send_once(address)

    def switched(self, began: float, old: _Broker) -> Switched:
        """Wait for the new master: the others are asked to take a message, each by a thread of its own."""
        race = Race(began)
        namesrv = self.group.namesrv
        assert namesrv is not None
        accepted: dict[str, float] = {}
        for broker in self.group.brokers:
            if broker is not old:

                def ready(address: str = broker.address) -> bool:
                    if address not in accepted and self.send(address):
                        accepted[address] = time.monotonic() - began
                    return address in accepted and master_in_route(namesrv.address) == address

                race.enter(ready, broker)
        routed_s, master = race.run()
        return Switched(master, accepted[master.address], routed_s)

    def whole(self) -> Whole:
        """The group with all its replicas; one that does not come back within a minute is started anew."""
        try:
            return self.group.await_whole(WHOLE_S)
        except NotReady:
            self.stuck += 1
            for broker in self.group.outsiders():
                broker.kill()
                broker.restart()
            return self.group.await_whole(ANEW_S)


def begin(sides: Iterable[Side]) -> None:
    """Start all groups."""
    for side in sides:
        side.require("to begin", side.begin)
        if not side.given_up:
            say(f"{side.kind}: group whole")


def take_turns(sides: Sequence[Side], row: str, rounds: int, *, whole: bool = True) -> None:
    """So many rounds of a row on each side in turn, each on a quiet machine with all groups whole.

    A round that fails is counted, and its group made whole again; a side whose group does not become whole is left out.
    """
    for number in range(1, rounds + 1):
        for side in sides:
            began = time.monotonic()
            for each in sides if whole else ():
                if not each.given_up:
                    each.require(f"to be whole before {row} {number}", each.whole)
            if side.given_up:
                continue
            if whole:
                await_quiet()
            if not side.attempt(f"{row} {number}", partial(take_turn, side, row, number, began, whole=whole)) and whole:
                side.require(f"to come back after {row} {number}", side.recover)


def take_turn(side: Side, row: str, number: int, began: float, *, whole: bool) -> None:
    """One round, and a line that says what it gave; `began`: when its waiting for whole groups and quiet did."""
    busy, at = busy_seconds(), time.monotonic()
    found = side.round(row, whole=whole)
    took = time.monotonic() - at
    load = (busy_seconds() - busy) / took
    told = ", ".join(f"{'' if name == row else name + ' '}{value:.3f} s" for name, value in found.items())
    times = f"took {took:.0f} s after {at - began:.0f} s of waiting"
    say(f"{row} {number} {side.kind}: {told} (machine busy {load:.2f} cores; {times})")


# ---- the report


class Figure(NamedTuple):
    """How a measured value is shown; `target`: what the worst of ours is wanted to be at most."""

    name: str
    unit: str = "s"
    target: float | None = None


def table(sides: Iterable[Side], figures: Iterable[Figure]) -> str:
    """Medians, least and worst of each figure and side, and the ratio of the medians."""
    figures = list(figures)
    width = max([8, *(len(figure.name) for figure in figures)])
    lines = [f"{'row':{width}} {'unit':5} {'side':5} {'median':>8} {'least':>8} {'worst':>8} {'rounds':>6}  ours/java"]
    for figure in figures:
        by = {side.kind: side.samples[figure.name] for side in sides if side.samples.get(figure.name)}
        for kind, values in by.items():
            ratio = ""
            if kind == "ours":
                if "java" in by:
                    ratio = f"{median(values) / median(by['java']):.2f}"
                if figure.target is not None:
                    missed = " MISSED" if max(values) > figure.target else ""
                    ratio += f"  wanted <= {figure.target:g}{missed}"
            lines.append(
                f"{figure.name:{width}} {figure.unit:5} {kind:5} {median(values):8.3f} {min(values):8.3f} "
                f"{max(values):8.3f} {len(values):6}  {ratio}"
            )
    for side in sides:
        needless = f"{side.switches.needless.total()} needless switches; " if side.switching else ""
        lines.append(f"{side.kind}: {needless}{side.stuck} times a replica had to be started anew")
        lines += [f"{side.kind} failed {what}" for what in side.failures]
    return "\n".join(lines)


def document(sides: Iterable[Side], **more: Any) -> dict[str, Any]:
    """Every sample, for a file."""
    sides = list(sides)
    return {
        "cores": os.cpu_count(),
        "group": GROUP,
        **more,
        "samples": {side.kind: side.samples for side in sides},
        "needless": {side.kind: side.switches.needless.total() for side in sides},
        "failures": {side.kind: side.failures for side in sides},
    }


def keep(out: Path | None, prefix: str, content: Mapping[str, Any]) -> None:
    """Write a result file, by default into build/ and named after the time."""
    out = out or Path("build") / time.strftime(f"{prefix}-%Y%m%d-%H%M%S.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(content, indent=1) + "\n")
    say(f"all figures: {out}")


def arguments(
    argv: list[str], module: str, words: str | None, rows: Sequence[str], *, rounds: int, sides: str, prefix: str
) -> argparse.Namespace:
    """What the command line says; `rows` in the order in which they are measured. SIGTERM ends the run as Ctrl-C."""
    parser = argparse.ArgumentParser(
        f"python -m {module}", description=words, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--rows", type=several(rows), default=",".join(rows), help=f"of {','.join(rows)}")
    parser.add_argument("--sides", type=several(sides.split(",")), default=sides, help=f"of {sides}")
    parser.add_argument("--out", type=Path, help=f"JSON result file (default: build/{prefix}-TIME.json)")
    given = parser.parse_args(argv)
    given.rows = [row for row in rows if row in given.rows]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return given
