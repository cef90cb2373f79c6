"""The fuzzer at every port of a RocketMQ of ours with identities and users on.

    python -m tests.fuzz.access [--cases 200000] [--seed N] [DOOR ...]
    python -m tests.fuzz.access --seed 7 --case 4711 broker:client

Starts one (:mod:`tests.interop.harness.secured`) and tries so many cases at each port in the clear, and as many under
TLS: seven of twenty by a stranger, as many by who has a client's certificate, four by a broker of another name, the
rest damaged TLS.  Exit status: 0 when nothing was found.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from unittest import mock

from rocketha.admin import fuzz_port
from rocketha.admin.fuzz_probe import alone
from rocketha.admin.fuzz_report import DIFFERENCES
from tests.fuzz.doors import PLAIN, SHARES, Assault, Door, doors, named
from tests.interop.harness.processes import scratch
from tests.interop.harness.secured import Secured

SLICE = 50_000
"""Cases between two looks at the state."""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def one(assault: Assault, door: Door, index: int) -> int:
    """A case again, in detail."""
    (case,) = assault.cases(door, index, 1)
    say(f"{case}\n  {case.data[:400]!r}")
    report = assault.run(door, index, 1)
    for line in report.lines():
        say(line)
    if door.way == PLAIN and not door.stream:
        host, port = door.address.rsplit(":", 1)
        say(f"alone: {alone((host, int(port)), case)}")
    return bool(report.found)


def attack(assault: Assault, door: Door, cases: int, seed: int) -> tuple[int, list[str]]:
    """All cases of one door: how many were sent, and what was found."""
    found: list[str] = []
    sent, began, refused = 0, time.monotonic(), 0
    while sent < cases:
        report = assault.run(door, sent, min(SLICE, cases - sent))
        refused += report.refused
        found += report.found
        found += [f"{name}: {text}" for name in DIFFERENCES for text in report.examples.get(name, ())]
        if not report.sent or any(each.startswith(("crash", "hang")) for each in report.found):
            break
        sent += report.sent
    seconds = time.monotonic() - began
    say(
        f"{door} seed {seed}: {sent} cases in {seconds:.0f} s ({sent / seconds:.0f} a second), {refused} refused; "
        f"found {len(found)}"
    )
    for each in found[:20]:
        say(f"  FOUND {each}")
    return sent, found


def main() -> int:
    """Print a line a door."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("doors", nargs="*", metavar="DOOR", help="PORT or PORT:WAY; default: all")
    parser.add_argument("--cases", type=int, default=200_000, help="at each port in the clear, and under TLS")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--case", type=int, help="this one alone, in detail")
    given = parser.parse_args()
    try:
        chosen = named(given.doors)
    except argparse.ArgumentTypeError as problem:
        parser.error(str(problem))
    say(f"seed {given.seed}")
    secured = Secured(Path(scratch("fuzz-access")))
    total, found, began = 0, 0, time.monotonic()
    try:
        secured.start()
        assault = Assault(secured, given.seed)
        wanted = [each for each in doors(secured) if str(each) in chosen]
        # a busy machine is no finding
        with mock.patch.multiple(fuzz_port, LATE_SECONDS=20.0, PATIENCE_SECONDS=40.0):
            for door in wanted:
                if given.case is not None:
                    found += one(assault, door, given.case)
                    continue
                sent, problems = attack(assault, door, int(given.cases * SHARES[door.way]), given.seed)
                total += sent
                found += len(problems)
    finally:
        secured.stop()
    say(f"{total} cases at {len(wanted)} doors in {time.monotonic() - began:.0f} s; {found} found")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
