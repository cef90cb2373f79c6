"""How fast a follower in DLedger mode that lost its store is filled again, ours and Java's, while nobody sends.

Run: ``python -m benchmarks.ledger_refill [--mb 1024] [--rounds 3] [--sides ours,java,java-batched]``.  A side is three
brokers on loopback with RocketMQ's defaults and so much of messages of 1 KiB; ``java-batched`` is Java's with
``enableBatchPush``.  A follower is ended, its store removed, and it is started and asked every 50 ms how far it is.
Printed are seconds from its start, MB/s from the first bytes to the end of the log, seconds from those first bytes to
the last queue, and the CPU seconds of the leader and of the follower for a GB (JVM and all).
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.choices import several
from tests.interop.harness.pairs import await_equal, log_state
from tests.interop.harness.processes import end_all
from tests.interop.harness.roles import _Broker

from . import rows
from .ha_catch_up_brokers import watch
from .replicas import in_ledger_mode

SIDES = ("ours", "java", "java-batched")
BODY_BYTES = 1024
RECORD_BYTES = 1250
"""About, with head, topic and properties."""
PATIENCE_S = 900
"""Java's leader pushes entry by entry."""


class Found(NamedTuple):
    """Of one refill; CPU seconds a GB."""

    whole_s: float
    rate_mb_s: float
    queues_s: float
    leader_cpu: float
    follower_cpu: float


def refill(master: _Broker, follower: _Broker) -> Found:
    """Take the follower's store away, and watch it come back."""
    state = log_state(master)
    assert state is not None
    follower.kill()
    shutil.rmtree(follower.root)
    began, master_cpu = time.monotonic(), master.cpu_seconds()
    follower.spawn()
    rate, queues_s = watch(follower, state.end, PATIENCE_S)
    gigabytes = (state.end - state.begin) / 1e9
    used = (master.cpu_seconds() - master_cpu) / gigabytes, follower.cpu_seconds() / gigabytes
    return Found(time.monotonic() - began, rate, queues_s, *used)


def measure(side: str, mb: int, rounds: int, folder: Path) -> list[Found]:
    """One group."""
    try:
        group = in_ledger_mode(side.partition("-")[0], folder, batched=side.endswith("-batched"))
        rows.fill(side, group.master, group.namesrv, BODY_BYTES, (mb << 20) // RECORD_BYTES, folder / "client")
        await_equal([group.master, *group.slaves])
        found = []
        for _ in range(rounds):
            found.append(refill(group.master, group.slaves[0]))
            print(side, *(f"{value:.2f}" for value in found[-1]), flush=True)
        return found
    finally:
        end_all()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Print medians and best of some rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", type=several(SIDES), default=",".join(SIDES))
    parser.add_argument("--directory")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="rocketha-bench-", dir=options.directory))
    try:
        found = {side: measure(side, options.mb, options.rounds, directory / side) for side in options.sides}
        print(f"{options.mb} MB      s in all   MB/s   s to queues   CPU s/GB of leader, of follower")
        for side, values in found.items():
            middle = [statistics.median(column) for column in zip(*values, strict=True)]
            print(f"{side:13} {middle[0]:8.2f} {middle[1]:7.0f} {middle[2]:10.2f} {middle[3]:12.2f} {middle[4]:8.2f}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
