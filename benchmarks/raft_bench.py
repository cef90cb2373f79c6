"""Our Raft against etcd and PySyncObj: three nodes on loopback, clients over TCP, 256-byte values, in one run.

    make bench-raft                                         everything, about ten minutes
    python -m benchmarks.raft_bench --sides ours,etcd --clients 64 --repeat 1 --seconds 3     a quick look

Every acknowledgement comes after a sync on a majority, all data lie on the same disk, the same client program loads the
leader of each.  ``floor`` and ``floor-thread`` replicate without Raft, see raft_floor_node.py.

A side is started with an empty directory, loaded with each number of clients, and stopped; then the next; and all of it
again.  Medians are reported.

CPU is that of the three nodes together for an acknowledged write.  The client shares the cores: its own CPU is told
beside.  "others" is what everybody else on the machine used meanwhile, in cores; "sync" the time of a 4 KiB append with
fdatasync just before the run: a run with much of either is no anchor.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import attrs

from . import raft_etcd, raft_floor, raft_ours, raft_pysyncobj
from .machine import busy_seconds
from .raft_cluster import Cluster

ROOT = Path(__file__).resolve().parent.parent
SIDES: dict[str, type[Cluster]] = {
    cls.name: cls
    for cls in (
        raft_ours.OurCluster,
        raft_etcd.EtcdCluster,
        raft_floor.FloorCluster,
        raft_floor.ThreadedFloorCluster,
        raft_pysyncobj.PySyncObjCluster,
        raft_pysyncobj.AtOnceCluster,
        raft_pysyncobj.TunedCluster,
        raft_pysyncobj.UnsyncedCluster,
    )
}
MISSING = {"etcd": raft_etcd.missing, "pysyncobj": raft_pysyncobj.missing}
ATTEMPTS = 3
DEFAULT_SIDES = "ours,etcd,pysyncobj,pysyncobj-at-once,pysyncobj-5ms"


@attrs.frozen
class Run:
    """One window of load on one side."""

    side: str
    clients: int
    share: int
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float  # of all nodes for an acknowledged write
    leader_share: float  # of that CPU the leader's part
    client_cores: float
    others_cores: float
    sync_ms: float
    acknowledged: int


def sync_ms(directory: Path) -> float:
    """Median milliseconds of appending 4 KiB to a preallocated file and fdatasync."""
    path = directory / "sync-probe"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.posix_fallocate(fd, 0, 1 << 20)
        os.fsync(fd)
        block, taken = b"x" * 4096, []
        for number in range(50):
            begin = time.perf_counter()
            os.pwrite(fd, block, number * 4096)
            os.fdatasync(fd)
            taken.append(time.perf_counter() - begin)
        return statistics.median(taken) * 1e3
    finally:
        os.close(fd)
        path.unlink()


def measure(cluster: Cluster, clients: int, share: int, given: argparse.Namespace) -> Run:
    """Load a running cluster once."""
    probe = sync_ms(cluster.folder)
    client = Path(__file__).with_name("raft_client.py")
    command = [sys.executable, str(client), cluster.dialect, cluster.leader(), "--clients", str(clients)]
    command += ["--share", str(share), "--warm", str(given.warm), "--seconds", str(given.seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        begun = process.stdout.readline()
        before, busy = cluster.cpu_seconds(), busy_seconds()
        ended = process.stdout.readline()
        after, busy = cluster.cpu_seconds(), busy_seconds() - busy
        if not begun or not ended:
            raise RuntimeError(f"{cluster.name}, {clients} clients: {process.stderr.read().strip()[-300:]}")
    found: dict[str, Any] = json.loads(ended)
    nodes = [b - a for a, b in zip(before, after, strict=True)]
    seconds = found["seconds"]
    return Run(
        cluster.name,
        clients,
        share,
        found["per_s"],
        found["p50_ms"],
        found["p99_ms"],
        sum(nodes) / found["acknowledged"] * 1e3,
        max(nodes) / max(sum(nodes), 1e-9),
        found["client_cpu_s"] / seconds,
        max(0.0, busy - sum(nodes) - found["client_cpu_s"]) / seconds,
        probe,
        found["acknowledged"],
    )


def round_of(side: str, loads: list[tuple[int, int]], given: argparse.Namespace) -> list[Run]:
    """Start a side, load it with each number of clients, stop it.  What fails is said and left out."""
    runs = []
    cluster = SIDES[side](given.directory)
    try:
        cluster.start()
        for clients, share in loads:
            for _ in range(ATTEMPTS):
                try:
                    run = measure(cluster, clients, share, given)
                except RuntimeError as problem:  # on a busy machine a leader may lose its office
                    print(f"  failed: {problem}", flush=True)
                    time.sleep(2)
                    continue
                runs.append(run)
                print(f"  {_line(side, [run])}", flush=True)
                break
    except RuntimeError as problem:
        print(f"  failed: {problem}", flush=True)
    finally:
        cluster.stop()
    return runs


def _line(side: str, runs: list[Run]) -> str:
    def middle(name: str) -> float:
        return float(statistics.median(getattr(run, name) for run in runs))

    speeds = [run.per_s for run in runs]
    return (
        f"{side:19} {runs[0].clients:>5} x {runs[0].share:<2} {middle('per_s'):>9,.0f} "
        f"{min(speeds):>8,.0f} -{max(speeds):>7,.0f} {middle('p50_ms'):>9.2f} {middle('p99_ms'):>9.2f} "
        f"{middle('cpu_ms'):>9.3f} {middle('leader_share'):>6.0%} {middle('client_cores'):>7.2f} "
        f"{middle('others_cores'):>7.2f} {middle('sync_ms'):>6.2f}"
    )


HEAD = (
    f"{'side':19} {'clients':>10} {'writes/s':>9} {'(least - most)':>17} {'p50 ms':>9} {'p99 ms':>9} "
    f"{'CPU ms':>9} {'leader':>6} {'client':>7} {'others':>7} {'sync':>6}"
)


def table(runs: list[Run]) -> str:
    """Medians, and ours against each rival; ! marks what misses issue 2's targets."""
    lines = [HEAD]
    for clients, share in dict.fromkeys((run.clients, run.share) for run in runs):
        here = [run for run in runs if (run.clients, run.share) == (clients, share)]
        sides = {side: [run for run in here if run.side == side] for side in dict.fromkeys(run.side for run in here)}
        lines += [_line(side, mine) for side, mine in sides.items()]
        ours = sides.pop("ours", None)
        for side, theirs in sides.items() if ours else ():
            lines.append(_ratios(side, clients, ours or [], theirs))
    return "\n".join(lines)


def _ratios(side: str, clients: int, ours: list[Run], theirs: list[Run]) -> str:
    speed = statistics.median(r.per_s for r in ours) / statistics.median(r.per_s for r in theirs)
    cpu = statistics.median(r.cpu_ms for r in ours) / statistics.median(r.cpu_ms for r in theirs)
    least = 5.0 if side.startswith("pysyncobj") else 1.0 if clients > 1 else 0.0
    most = 1.0 if side == "etcd" and clients > 1 else None
    text = f"    ours/{side}: writes/s {speed:.2f}{'!' if speed < least else ''}"
    text += f" (at least {least:g})" if least else ""
    text += f", CPU a write {cpu:.2f}{'!' if most is not None and cpu > most else ''}"
    return text + (f" (at most {most:g})" if most is not None else "")


def options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.raft_bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sides", default=DEFAULT_SIDES, help=f"of {','.join(SIDES)}")
    parser.add_argument("--clients", default="1,64,1000,1000x10", help="NxK: K clients share a connection")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--warm", type=float, default=2, help="seconds of load before each window")
    parser.add_argument("--seconds", type=float, default=6, help="of a window")
    parser.add_argument("--directory", type=Path, default=None, help="where all data lie (default: the temporary one)")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench-raft.json")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Run it all and print the table."""
    given = options(argv)
    loads = [(int(n), int(k or 1)) for n, _, k in (text.partition("x") for text in given.clients.split(","))]
    sides = given.sides.split(",")
    for side in [side for side in sides if side not in SIDES]:
        raise SystemExit(f"no side {side}; there are {', '.join(SIDES)}")
    for family, missing in MISSING.items():
        if any(side.startswith(family) for side in sides):
            why = missing()
            if why is not None:
                print(f"without {family}: {why}", flush=True)
                sides = [side for side in sides if not side.startswith(family)]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, Linux {platform.release()}", flush=True)
    runs: list[Run] = []
    for number in range(given.repeat):
        print(f"round {number + 1} of {given.repeat}\n  {HEAD}", flush=True)
        for side in sides:
            runs += round_of(side, loads, given)
    if not runs:
        return 1
    given.output.parent.mkdir(exist_ok=True)
    given.output.write_text(json.dumps([attrs.asdict(run) for run in runs], indent=1))
    print(f"\nmedians of {given.repeat}; every run in {given.output}\n{table(runs)}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
