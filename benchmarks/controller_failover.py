"""How long a group of Java brokers stands still: under three Java controllers, and under three of ours, in one run.

    python -m benchmarks.controller_failover                         ten rounds a row, about half an hour
    python -m benchmarks.controller_failover --rounds 3 --rows kill  a quick look

Both sides have a Java nameserver and three Java brokers of one group with equal settings; they live side by side
through the whole run and are measured in turn, each time when both are whole again and the machine is quiet.
Everything is polled every 10 ms:

kill     kill -9 of the master, to a new master that accepts a message and stands in the nameserver's route
freeze   SIGSTOP of the master, to the same
leader   kill -9 of the lead controller, to the next accepted write request (an id applied for)
start    start of three controllers on empty disks, to the first accepted write request
rss      resident memory of each controller at the end
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.interop.harness import remoting, scratch
from tests.interop.harness.controllers import (
    CLUSTER,
    GROUP,
    TOPIC,
    Controllers,
    GroupState,
    ReplicaBroker,
    ReplicaGroup,
)
from tests.interop.harness.processes import NotReady, end_all, wait_until
from tests.interop.harness.roles import _Controller

from .machine import busy_seconds, cpu_seconds

POLL_S = 0.01
LOOK_S = 0.5
QUIET_CORES = 0.2
APPLY_BROKER_ID, GET_ROUTE, SEND_MESSAGE = 1013, 105, 10
ROWS = ("start", "leader", "kill", "freeze", "rss")
UNITS = {"rss": "MiB"}
TARGETS = {"freeze": 3.0, "leader": 1.0, "rss": 80.0}
_numbers = itertools.count(1)


def say(text: str) -> None:
    print(text, flush=True)


def send_once(address: str) -> bool:
    """One message straight to a broker; whether it was acknowledged."""
    fields = {
        "producerGroup": "failover",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": str(int(time.time() * 1000)),
        "flag": "0",
        "properties": "",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
    try:
        return remoting.call(address, SEND_MESSAGE, fields, b"x" * 64, timeout_s=1).code == 0
    except (OSError, ValueError):
        return False


def routed_to(namesrv: str, address: str) -> bool:
    """Whether the nameserver sends producers of the topic to this broker."""
    try:
        reply = remoting.call(namesrv, GET_ROUTE, {"topic": TOPIC}, timeout_s=1)
    except (OSError, ValueError):
        return False
    if reply.code != 0:
        return False
    datas = remoting.loads(reply.body)["brokerDatas"]
    return any(data["brokerAddrs"].get("0") == address for data in datas)


def write_once(node: _Controller) -> bool:
    """Apply for id 1 of a group that nobody has; whether this controller accepted it."""
    name = f"probe-{os.getpid()}-{next(_numbers)}"
    fields = {
        "clusterName": CLUSTER,
        "brokerName": name,
        "appliedBrokerId": "1",
        "registerCheckCode": f"127.0.0.1:1;{int(time.time() * 1000)}",
    }
    try:
        return remoting.call(node.address, APPLY_BROKER_ID, fields, timeout_s=1).code == 0
    except (OSError, ValueError):
        return False


class Race:
    """One thread a check, each asked every 10 ms; the first to become true ends the race."""

    def __init__(self, began: float, limit_s: float) -> None:
        self.began = began
        self.limit_s = limit_s
        self._done = threading.Event()
        self._won: list[tuple[float, Any]] = []
        self._threads: list[threading.Thread] = []

    def enter(self, check: Any, prize: Any) -> None:
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
        busy = busy_seconds()
        time.sleep(LOOK_S)
        if busy_seconds() - busy < QUIET_CORES * LOOK_S:
            return
    say(f"the machine did not become quiet within {limit_s:g} s")


class Side:
    """One side's controllers, nameserver and brokers."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.group = ReplicaGroup(kind, folder / "group")
        self.samples: dict[str, list[float]] = {row: [] for row in ROWS}
        self.needless = 0
        self.stuck = 0
        self.starts = 0
        self.epoch = 0

    def begin(self) -> None:
        self.group.start(240)
        wait_until("the first message", lambda: send_once(self.group.master().address), 60)

    def round(self, row: str) -> float:
        measure = {"kill": self.kill, "freeze": self.freeze, "leader": self.leader, "start": self.start}[row]
        if row != "start":
            epoch = self.whole().master_epoch
            if self.epoch:
                self.needless += epoch - self.epoch
            self.epoch = epoch + (row in ("kill", "freeze"))
        seconds = measure()
        self.samples[row].append(seconds)
        return seconds

    def whole(self) -> GroupState:
        """The group with all its replicas; one that does not come back within a minute is started anew."""
        try:
            return self.group.await_whole(60)
        except NotReady:
            self.stuck += 1
            in_sync = self.group.await_master().in_sync
            for broker in self.group.brokers:
                if broker.broker_id() not in in_sync or not broker.running():
                    broker.kill()
                    broker.restart()
            return self.group.await_whole(240)

    def _switched(self, began: float, old: ReplicaBroker) -> float:
        race = Race(began, 180)
        namesrv = self.group.namesrv
        assert namesrv is not None
        accepted: set[str] = set()
        for broker in self.group.brokers:
            if broker is not old:

                def ready(address: str = broker.address) -> bool:
                    if address not in accepted and send_once(address):
                        accepted.add(address)
                    return address in accepted and routed_to(namesrv.address, address)

                race.enter(ready, broker)
        seconds, _ = race.run()
        old.kill()
        old.spawn()  # it comes back while the other side is measured
        return seconds

    def kill(self) -> float:
        master = self.group.master()
        began = time.monotonic()
        master.kill()
        return self._switched(began, master)

    def freeze(self) -> float:
        """The frozen one is killed afterwards: what it does when it thaws is another test's."""
        master = self.group.master()
        began = time.monotonic()
        master.signal(signal.SIGSTOP)
        return self._switched(began, master)

    def leader(self) -> float:
        leader = self.group.controllers.await_leader()
        for node in self.group.controllers.nodes:
            node.await_ready()
        began = time.monotonic()
        leader.kill()
        seconds = self._accepted(began, [n for n in self.group.controllers.nodes if n is not leader])
        leader.spawn()
        return seconds

    @staticmethod
    def _accepted(began: float, nodes: list[_Controller]) -> float:
        race = Race(began, 180)
        for node in nodes:
            race.enter(lambda node=node: write_once(node), node)
        return race.run()[0]

    def start(self) -> float:
        self.starts += 1
        fresh = Controllers(self.kind, self.folder / f"start{self.starts}")
        try:
            began = time.monotonic()
            fresh.spawn()
            return self._accepted(began, fresh.nodes)
        finally:
            fresh.kill()

    def idle_cpu_percent(self, seconds: float) -> float:
        """Of one core, a controller, brokers heartbeating."""
        nodes = self.group.controllers.nodes
        before = sum(cpu_seconds(node.pid) for node in nodes)
        time.sleep(seconds)
        return (sum(cpu_seconds(node.pid) for node in nodes) - before) / seconds / len(nodes) * 100

    def rss(self) -> None:
        self.samples["rss"] = [node.rss_bytes() / 2**20 for node in self.group.controllers.nodes]


def table(sides: list[Side], rows: list[str]) -> str:
    lines = [f"{'row':8} {'unit':5} {'side':5} {'median':>8} {'least':>8} {'worst':>8} {'rounds':>6}  ours/java"]
    for row in rows:
        by = {side.kind: side.samples[row] for side in sides if side.samples[row]}
        for kind, values in by.items():
            ratio = ""
            if kind == "ours":
                if "java" in by:
                    ratio = f"{median(values) / median(by['java']):.2f}"
                if row in TARGETS:
                    worst = max(values)
                    ratio += f"  wanted <= {TARGETS[row]:g}" + (" MISSED" if worst > TARGETS[row] else "")
            lines.append(
                f"{row:8} {UNITS.get(row, 's'):5} {kind:5} {median(values):8.3f} {min(values):8.3f} "
                f"{max(values):8.3f} {len(values):6}  {ratio}"
            )
    for side in sides:
        lines.append(
            f"{side.kind}: {side.needless} needless switches; {side.stuck} times a replica had to be started anew"
        )
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.controller_failover",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rows", default=",".join(ROWS), help=f"of {','.join(ROWS)}")
    parser.add_argument("--sides", default="java,ours")
    parser.add_argument("--out", type=Path, help="JSON result file (default: build/failover-TIME.json)")
    given = parser.parse_args(argv)
    rows = [row for row in ROWS if row in given.rows.split(",")]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = scratch("failover")
    sides = [Side(kind, folder / kind) for kind in given.sides.split(",")]
    groups = any(row != "start" for row in rows)
    try:
        idle: dict[str, float] = {}
        for side in sides if groups else []:
            side.begin()
            say(f"{side.kind}: group whole")
        if groups:
            idle = {side.kind: side.idle_cpu_percent(10) for side in sides}
            say(f"CPU of one core, a controller, three brokers heartbeating: {idle}")
        for row in rows:
            for number in range(given.rounds if row != "rss" else 0):
                for side in sides:
                    if row != "start":
                        for each in sides:
                            each.whole()
                        await_quiet()
                    busy, at = busy_seconds(), time.monotonic()
                    seconds = side.round(row)
                    load = (busy_seconds() - busy) / (time.monotonic() - at)
                    say(f"{row} {number + 1} {side.kind}: {seconds:.3f} s (machine busy {load:.2f} cores)")
        if "rss" in rows:
            for side in sides:
                side.rss()
        say("\n" + table(sides, rows))
        out = given.out or Path("build") / time.strftime("failover-%Y%m%d-%H%M%S.json")
        out.parent.mkdir(parents=True, exist_ok=True)
        document = {
            "cores": os.cpu_count(),
            "group": GROUP,
            "idle_cpu_percent": idle,
            "samples": {side.kind: side.samples for side in sides},
            "needless": {side.kind: side.needless for side in sides},
        }
        out.write_text(json.dumps(document, indent=1) + "\n")
        say(f"all figures: {out}")
        return 0
    finally:
        end_all()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
