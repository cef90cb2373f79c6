"""``rocketha fuzz remoting`` against a real Java nameserver or broker, which may end many times on the way.

    python -m tests.interop.fuzz_java [--cases 1000000] [--seed 1] namesrv|broker|both

A server that is gone, hangs, or takes no more connections is started anew on an empty disk, and the cases go on with
the next seed, until there were as many as wanted.  Each run says how it ended.  Exit status: 0 when all cases were
tried, whatever they did to the server; what they found is the result.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.interop.harness import JavaBroker, JavaNamesrv, Role, scratch
from tests.interop.harness.processes import end_all
from tests.interop.harness.roles import our_environment

RUNS_MAX = 200
RUN_S_MAX = 3600.0


def start(side: str, folder: Path) -> list[Role]:
    """The server to try, last, and what it needs."""
    namesrv = JavaNamesrv("namesrv", folder / "namesrv")
    if side == "namesrv":
        return [namesrv.start()]
    broker = JavaBroker(folder / "broker", namesrv.start())
    return [namesrv, broker.start()]


def fuzz(
    server: Role, seed: int, cases: int, lanes: int, what: str = "remoting", address: str | None = None
) -> dict[str, Any]:
    """One run of the command: its summary."""
    assert server.child is not None
    command = [sys.executable, "-m", "rocketha.admin.cli", "fuzz", what, "--json"]
    command += ["--connect", address or server.address]
    command += ["--seed", str(seed), "--cases", str(cases), "--lanes", str(lanes), "--pid", str(server.child.pid)]
    command += ["--growth-mib", "100000"]  # of a JVM's heap nobody can tell
    ended = subprocess.run(command, env=our_environment(), stdout=subprocess.PIPE, timeout=RUN_S_MAX)
    lines = ended.stdout.decode().splitlines()
    if ended.returncode not in (0, 1) or not lines:
        raise SystemExit(f"rocketha fuzz: exit {ended.returncode}")
    summary: dict[str, Any] = json.loads(lines[-1])
    return summary


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def end_of(server: Role) -> str:
    """How a run ended for the server."""
    assert server.child is not None
    try:
        status = server.child.wait(5)
    except subprocess.TimeoutExpired:
        return "alive"
    crashes = sorted(server.folder.rglob("hs_err_pid*.log"))
    report = crashes[-1].read_text(errors="replace").splitlines()[:20] if crashes else []
    where = [line[2:].strip() for line in report if "SIG" in line or line[2:4] in ("J ", "j ", "V ", "C ")]
    return f"gone, status {status} {'; '.join(where)}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=("namesrv", "broker", "both"))
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=300, help="connections at a time")
    given = parser.parse_args()
    for side in ("namesrv", "broker") if given.side == "both" else (given.side,):
        tried, seed, began = 0, given.seed, time.monotonic()
        ends: collections.Counter[str] = collections.Counter()
        for _ in range(RUNS_MAX):
            servers = start(side, scratch("fuzz-java"))
            summary = fuzz(servers[-1], seed, given.cases - tried, given.lanes)
            end = end_of(servers[-1])
            end_all()
            tried += summary["sent"]
            ends[end.split(",")[0] if not summary["found"] else f"{end.split(',')[0]}, found"] += 1
            say(
                f"{side} seed {seed}: {summary['sent']} cases in {summary['seconds']} s, {end}; slowest plain request "
                f"{summary['probe_seconds_max']} s; found {summary['found']}"
            )
            seed += 1
            if tried >= given.cases:
                break
        else:
            say(f"{side}: {tried} cases only, in {RUNS_MAX} runs")
            return 1
        seconds = time.monotonic() - began
        say(f"Java {side}: {tried} cases, {sum(ends.values())} runs, {seconds:.0f} s: {dict(ends)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
