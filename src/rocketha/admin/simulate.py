"""``rocketha simulate SCENARIO``: a whole cluster in one process and simulated time, from a seed, with everything going
wrong that can.

One seed is one run, the same to the last byte on every machine: its configuration is printed, then what came of it, and
with ``--trace`` what happened on the way.  A range of seeds prints the seeds that failed, each with its configuration
and the command that plays it again, and a summary.

Exit status: 0 nothing was violated, 1 something was, 2 wrong usage.
"""

from __future__ import annotations

import concurrent.futures
import functools
import gc
import multiprocessing
import secrets
import sys
import time
from collections.abc import Iterator, Sequence

import click
from twisted.logger import globalLogBeginner

from rocketha.admin.commands import Given, only_one
from rocketha.admin.commands import command as declared
from rocketha.errors import ConfigError
from rocketha.simulation import faults
from rocketha.simulation.run import Outcome
from rocketha.simulation.scenarios import SCENARIOS, outcome

SECONDS = 60.0
TRACE_LINES = 20_000
FAILURES_SHOWN = 5
PROGRESS_S = 10.0

FINE, VIOLATED = 0, 1


@declared("simulate")
@click.argument("scenario", type=click.Choice(sorted(SCENARIOS)), metavar="SCENARIO")
@click.option("--seed", type=int, metavar="N", help="One seed, in detail (default: a fresh one, printed).")
@click.option("--seeds", metavar="N..M", help="All seeds from N to M.")
@click.option(
    "--seconds", type=float, default=SECONDS, metavar="S", help=f"Simulated seconds of one run (default {SECONDS:g})."
)
@click.option(
    "--faults",
    metavar="LIST",
    help=f"Kinds of fault to draw from, separated by commas, or none (default all: {', '.join(faults.ALL_KINDS)}).",
)
@click.option("--trace", is_flag=True, help="Print what happened (with --seed).")
@click.option(
    "--trace-lines", type=int, default=TRACE_LINES, metavar="N", help=f"Newest lines kept (default {TRACE_LINES})."
)
@click.option("--jobs", type=int, default=1, metavar="N", help="Processes that share the seeds (default 1).")
@click.option("--keep-going", is_flag=True, help="With --seeds: show every failure, not the first 5.")
def command(args: Given) -> int:
    """Simulate a cluster with faults from a seed, and check what must hold.

    SCENARIO is what runs: raft, controller, cluster or dledger.  Exit code 1 says that something was violated.
    """
    only_one(args, ("--seed", "--seeds"))
    kinds = faults.ALL_KINDS if args.faults is None else tuple(filter(None, args.faults.split(",")))
    kinds = () if kinds == ("none",) else kinds
    unknown = sorted(set(kinds) - set(faults.ALL_KINDS))
    if unknown:
        raise ConfigError(f"no such fault: {', '.join(unknown)} (there are {', '.join(faults.ALL_KINDS)})")
    if args.jobs < 1 or args.seconds <= 0:
        raise ConfigError("--jobs and --seconds want a positive number")
    if args.seeds is None:
        seed = secrets.randbelow(1 << 32) if args.seed is None else args.seed
        return _one(args, seed, kinds)
    first, _, last = args.seeds.partition("..")
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise ConfigError("--seeds wants two numbers, as 1..1000")
    return _many(args, range(int(first), int(last) + 1), kinds)


def _replay(args: Given, seed: int) -> str:
    chosen = f" --faults {args.faults}" if args.faults is not None else ""
    seconds = "" if args.seconds == SECONDS else f" --seconds {args.seconds:g}"
    return f"rocketha simulate {args.scenario} --seed {seed}{seconds}{chosen} --trace"


def _show(came: Outcome, configuration: bool = True) -> None:
    if configuration:
        for line in came.setup.lines():
            print(line)
    for line in came.trace:
        print(line)
    for line in came.lines():
        print(line)


@functools.cache
def _prepare() -> None:
    """Once a process.  Nothing is printed but what we print: errors that are logged are findings."""
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    gc.collect()
    gc.freeze()  # each run ends with a collection: it need not look through every module again


def _one(args: Given, seed: int, kinds: Sequence[str]) -> int:
    print(f"{args.scenario}: seed {seed}, {args.seconds:g} simulated seconds", flush=True)
    _prepare()
    came = outcome(args.scenario, seed, args.seconds, tuple(kinds), args.trace_lines if args.trace else 0)
    _show(came)
    print("VIOLATED" if came.violations else "nothing violated")
    return VIOLATED if came.violations else FINE


def _outcomes(args: Given, seeds: Sequence[int], kinds: Sequence[str]) -> Iterator[Outcome]:
    play = functools.partial(_play, args.scenario, args.seconds, tuple(kinds))
    if args.jobs == 1:
        yield from map(play, seeds)
        return
    with concurrent.futures.ProcessPoolExecutor(args.jobs, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(play, seeds, chunksize=4)


def _play(scenario: str, seconds: float, kinds: tuple[str, ...], seed: int) -> Outcome:
    _prepare()
    return outcome(scenario, seed, seconds, kinds)


def _many(args: Given, seeds: Sequence[int], kinds: Sequence[str]) -> int:
    began = said = time.monotonic()
    failed: list[int] = []
    counts: dict[str, int] = {}
    cpu_s, recoveries, done = 0.0, [], 0
    for came in _outcomes(args, seeds, kinds):
        done += 1
        cpu_s += came.cpu_s
        for what, count in came.counts.items():
            counts[what] = counts.get(what, 0) + count
        if came.recovered_s is not None:
            recoveries.append(came.recovered_s)
        if came.violations:
            failed.append(came.setup.seed)
            shown = len(failed) <= FAILURES_SHOWN or args.keep_going
            print(f"seed {came.setup.seed} VIOLATED; again: {_replay(args, came.setup.seed)}", flush=True)
            if shown:
                _show(came)
        if time.monotonic() - said > PROGRESS_S:
            said = time.monotonic()
            print(f"{done} of {len(seeds)} seeds, {len(failed)} violated", file=sys.stderr, flush=True)
    elapsed = time.monotonic() - began
    recoveries.sort()
    slowest = f"{recoveries[-1]:.2f} s" if recoveries else "-"
    median = f"{recoveries[len(recoveries) // 2]:.2f} s" if recoveries else "-"
    print(f"{args.scenario}: {done} seeds of {args.seconds:g} s, {len(failed)} violated: {failed[:50]}")
    print(f"  {', '.join(f'{count} {what}' for what, count in sorted(counts.items()))}")
    print(f"  whole again after the last fault: median {median}, slowest {slowest}")
    simulated = done * args.seconds
    print(
        f"  {simulated / 3600:.1f} simulated hours in {elapsed:.0f} s, {cpu_s:.0f} s of CPU: "
        f"{simulated / max(cpu_s, 1e-9):.0f} times real time on one core"
    )
    return VIOLATED if failed else FINE
