"""What a slave costs a sender: masters without a slave, with one nobody waits for, and with one that is waited for.

Run: ``python -m benchmarks.replicas [--rounds 5] [--rows sync1,sync16,async256] [--size 1024] [--sides ours,java]``.
One classic pair at a time, on loopback, with RocketMQ's defaults (ASYNC_FLUSH): ``alone`` is an ASYNC_MASTER whose
slave is never started, ``async`` has one, ``sync`` is a SYNC_MASTER whose sends wait for two copies.  Each round
begins new brokers on empty disks and drives each row with the Java load client.  Printed are medians of messages/s and
of latencies in ms, CPU seconds of master and slave for a million messages, and ratios: ``sync / async`` is what issue 9
expects to be 0.9 (requirement S1.6), ``async / alone`` 1 (S1.9).  Both brokers, the client and whatever else runs share
the cores: "others" says how much of one everybody else took, and a run with much of it is no anchor.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.interop.harness import jars
from tests.interop.harness.pairs import ClassicPair
from tests.interop.harness.processes import end_all

from benchmarks import rows
from benchmarks.ha_catch_up_brokers import SETTINGS
from benchmarks.machine import cpu_seconds

KINDS = ("alone", "async", "sync")


class Found(NamedTuple):
    """Of one row; CPU seconds for a million messages, shares in cores."""

    messages_per_s: float
    p50_ms: float
    p99_ms: float
    master_cpu: float
    slave_cpu: float
    others: float


def measure(side: str, kind: str, folder: Path, given: argparse.Namespace) -> dict[str, Found]:
    """New brokers, and every row on them.

    :raises LoadFailed: the load client measured nothing, or was told of a message that it is not safe.
    """
    folder.mkdir()
    home = folder / "client"
    home.mkdir()
    pair = ClassicPair((side, side), folder, sync=kind == "sync", extra=SETTINGS, namesrv="ours")
    try:
        if kind == "alone":
            pair.namesrv.start()
            pair.master.start()
        else:
            pair.start()
        return {row: one(side, kind, row, pair, home, given) for row in given.rows}
    finally:
        end_all()
        shutil.rmtree(folder, ignore_errors=True)


def one(side: str, kind: str, row: str, pair: ClassicPair, home: Path, given: argparse.Namespace) -> Found:
    """One row on running brokers."""
    slave = None if kind == "alone" else pair.slave.pid
    before = cpu_seconds(slave) if slave is not None else 0.0
    began = time.monotonic()
    got = rows.produce(side, pair.master, pair.namesrv.address, row, given.size, given.seconds, given.warmup, home)
    if got.errors:
        raise rows.LoadFailed(f"{side} {kind} {row}: {got.errors} sends were not answered with SEND_OK")
    lasted = time.monotonic() - began
    share = (cpu_seconds(slave) - before) / lasted if slave is not None else 0.0  # of the warm-up too
    assert got.p50_ms is not None and got.p99_ms is not None
    return Found(
        got.messages_per_s, got.p50_ms, got.p99_ms, got.broker_cpu_s_per_million, share / got.messages_per_s * 1e6,
        max(0.0, got.others_cpu_share - share),
    )  # fmt: skip


def table(found: dict[tuple[str, str, str], list[Found]], given: argparse.Namespace) -> str:
    """Medians, and the two ratios of each row."""
    lines = [f"{'':22}{'messages/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'CPU master':>12}{'slave':>8}{'others':>8}"]
    for side in given.sides:
        for row in given.rows:
            rates = {}
            for kind in KINDS:
                middle = Found(*(statistics.median(column) for column in zip(*found[side, kind, row], strict=True)))
                rates[kind] = middle.messages_per_s
                lines.append(
                    f"{side:6}{row:10}{kind:6}{middle.messages_per_s:12,.0f}{middle.p50_ms:9.3f}{middle.p99_ms:9.3f}"
                    f"{middle.master_cpu:12.1f}{middle.slave_cpu:8.1f}{middle.others:8.0%}"
                )
            waiting, copying = rates["sync"] / rates["async"], rates["async"] / rates["alone"]
            lines.append(f"{side:6}{row:10}sync / async {waiting:.2f}, async / alone {copying:.2f}")
    return "\n".join(lines)


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", default="sync1,sync16,async256", help=f"of {','.join(rows.LOADS)}")
    parser.add_argument("--size", type=int, default=1024, help="body bytes")
    parser.add_argument("--seconds", type=float, default=10, help="measured part of a row")
    parser.add_argument("--warmup", type=float, default=5, help="seconds each load client sends before it measures")
    parser.add_argument("--sides", default="ours")
    parser.add_argument("--directory")
    parser.add_argument("--out", type=Path, help="JSON result file (default: build/replicas-TIME.json)")
    given = parser.parse_args()
    given.rows, given.sides = given.rows.split(","), given.sides.split(",")
    return given


def main() -> None:
    """Measure some rounds and print medians."""
    given = options()
    jars.classes(rows.JAVA)
    directory = Path(tempfile.mkdtemp(prefix="rocketha-bench-", dir=given.directory))
    found: dict[tuple[str, str, str], list[Found]] = {}
    try:
        for _ in range(given.rounds):
            for side in given.sides:
                for kind in KINDS:
                    for row, values in measure(side, kind, directory / "pair", given).items():
                        found.setdefault((side, kind, row), []).append(values)
                        print(
                            f"{side} {row} {kind}: {values.messages_per_s:,.0f}/s, others {values.others:.0%}",
                            flush=True,
                        )
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(table(found, given))
    out = given.out or Path("build") / time.strftime("replicas-%Y%m%d-%H%M%S.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    runs: dict[str, Any] = {" ".join(key): [each._asdict() for each in values] for key, values in found.items()}
    out.write_text(json.dumps({"python": platform.python_version(), "size": given.size, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
