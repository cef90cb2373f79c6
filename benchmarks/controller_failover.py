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

import itertools
import os
import signal
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tests.interop.harness import remoting
from tests.interop.harness.controllers import CLUSTER, Controllers, Replica, ReplicaGroup
from tests.interop.harness.processes import end_all, scratch
from tests.interop.harness.roles import _Controller

from . import failover
from .failover import Figure, Race, say
from .machine import cpu_seconds

APPLY_BROKER_ID = 1013
ROWS = ("start", "leader", "kill", "freeze", "rss")
FIGURES = (
    Figure("start"),
    Figure("leader", target=1.0),
    Figure("kill"),
    Figure("freeze", target=3.0),
    Figure("rss", "MiB", 80.0),
)
_numbers = itertools.count(1)


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


class Side(failover.Side):
    """Java brokers under controllers of one kind."""

    group: ReplicaGroup
    switching = {"kill": 1, "freeze": 1}

    def __init__(self, kind: str, folder: Path) -> None:
        super().__init__(kind, ReplicaGroup(kind, folder / "group"))
        self.samples = {row: [] for row in ROWS}
        self.folder = folder
        self.starts = 0

    def measure(self, row: str) -> Mapping[str, float]:
        each = {"kill": self.kill, "freeze": self.freeze, "leader": self.leader, "start": self.start}
        return {row: each[row]()}

    def _switched(self, began: float, old: Replica) -> float:
        seconds = self.switched(began, old).routed_s
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
        race = Race(began)
        for node in nodes:
            race.enter(partial(write_once, node), node)
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


def main(argv: list[str]) -> int:
    given = failover.arguments(
        argv, "benchmarks.controller_failover", __doc__, ROWS, rounds=10, sides="java,ours", prefix="failover"
    )
    folder = scratch("failover")
    sides = [Side(kind, folder / kind) for kind in given.sides]
    groups = any(row != "start" for row in given.rows)
    try:
        idle: dict[str, float] = {}
        if groups:
            failover.begin(sides)
            idle = {side.kind: side.idle_cpu_percent(10) for side in sides if not side.given_up}
            say(f"CPU of one core, a controller, three brokers heartbeating: {idle}")
        for row in given.rows:
            if row != "rss":
                failover.take_turns(sides, row, given.rounds, whole=row != "start")
        if "rss" in given.rows:
            for side in sides:
                if not side.given_up:
                    side.rss()
        say("\n" + failover.table(sides, FIGURES))
        failover.keep(given.out, "failover", failover.document(sides, idle_cpu_percent=idle))
        return 0
    finally:
        end_all()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
