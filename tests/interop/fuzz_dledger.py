"""``rocketha fuzz`` against the DLedger port of who leads a real group of three, ours or Java's.

    python -m tests.interop.fuzz_dledger [--cases 200000] [--seed 1] ours|java|both

Frames, and the body of each request, in turn.  Whoever is gone or hangs is started anew on its store, and the cases go
on with the next seed at who leads then.  Exit status: 0 when all cases were tried, whatever they did to the members;
what they found is the result.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time

from tests.interop.fuzz_java import RUNS_MAX, end_of, fuzz, say
from tests.interop.harness import scratch
from tests.interop.harness.ledgers import LedgerGroup
from tests.interop.harness.processes import end_all
from tests.interop.harness.roles import OurNamesrv

FORMATS = (
    "remoting",
    "dledger-message",
    "dledger-vote",
    "dledger-push",
    "dledger-get",
    "dledger-append",
    "dledger-transfer",
)


def attack(group: LedgerGroup, what: str, seed: int, cases: int, lanes: int) -> tuple[int, str, list[str]]:
    """One run: the cases tried, how it ended for the member, and what was found."""
    leader = group.await_master()
    number = group.brokers.index(leader)
    address = dict(each.split("-", 1) for each in group.peers.split(";"))[f"n{number}"]
    summary = fuzz(leader, seed, cases, lanes, what, address)
    end = end_of(leader)
    if end != "alive" or summary["found"]:
        leader.kill()
        leader.start()
    return summary["sent"], end, summary["found"]


def main() -> int:
    """Print a line a run, and one a kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=("ours", "java", "both"))
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=100, help="connections at a time")
    given = parser.parse_args()
    for side in ("ours", "java") if given.side == "both" else (given.side,):
        folder, seed, began = scratch("fuzz-dledger"), given.seed, time.monotonic()
        namesrv = OurNamesrv("namesrv", folder / "namesrv")
        group = LedgerGroup((side,) * 3, folder, namesrv)
        namesrv.start()
        group.start()
        ends: collections.Counter[str] = collections.Counter()
        for what in FORMATS:
            left = -(-given.cases // len(FORMATS))
            for _ in range(RUNS_MAX):
                tried, end, found = attack(group, what, seed, left, given.lanes)
                left -= tried
                seed += 1
                ends[f"{end.split(',')[0]}, found" if found else end.split(",")[0]] += 1
                say(f"{side} {what} seed {seed - 1}: {tried} cases, {end}; found {found[:3]}")
                if left <= 0:
                    break
            else:
                say(f"{side} {what}: {left} cases are left after {RUNS_MAX} runs")
                return 1
        group.await_master()
        running = sum(broker.running() for broker in group.brokers)
        took_s = round(time.monotonic() - began)
        say(f"{side}: {given.cases} cases, {took_s} s: {dict(ends)}; {running} of 3 run, one leads")
        end_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
