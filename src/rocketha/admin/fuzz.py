"""``rocketha fuzz FORMAT``: every reader of ours, or a live port, against cases made from a format's specification.

Without ``--connect`` and ``--file``, each case goes through the format's own reader in this process and is judged by
:mod:`rocketha.wire.fuzz.contract`.  With ``--connect HOST:PORT`` (loopback only) cases go to a live port, ours or
Java's: frames of remoting, or bodies of what DLedger's members and clients ask, in frames.  ``--file PATH`` is for file
formats: with ``--case N`` it writes that case to PATH, so that it can be put in the place of a store's file; without,
PATH is read as one case, and the report says how the format's reader takes it.

Exit status: 0 clean, 1 something was found, 2 wrong usage.
"""

from __future__ import annotations

import collections
import contextlib
import ipaddress
import json
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs
import click

from rocketha.admin.commands import Given, only_one
from rocketha.admin.commands import command as declared
from rocketha.admin.fuzz_meter import Meter
from rocketha.admin.fuzz_port import CLOSE_SECONDS, LANES, PortRun
from rocketha.admin.fuzz_probe import alone
from rocketha.admin.fuzz_report import GROWTH_MIB, PortReport
from rocketha.errors import ConfigError, RemoteProtocolError
from rocketha.services.features.finding import formats_with
from rocketha.wire import remoting
from rocketha.wire.dledger_values import DLedgerRequestCode as Ledger
from rocketha.wire.fuzz.case import KINDS, Case
from rocketha.wire.fuzz.contract import Judgment
from rocketha.wire.fuzz.generator import REMOTING, Generator
from rocketha.wire.registry import FORMATS
from rocketha.wire.spec.format import Format

CASES = 10_000
PROBLEMS_SHOWN = 10
PROGRESS_SECONDS = 5.0
ATTRIBUTED = 100
"""Unexpected closes whose suspects are sent again."""
ALL = "all"

BODIES: Mapping[str, tuple[int, ...]] = {
    "dledger-append": (Ledger.APPEND,),
    "dledger-get": (Ledger.GET,),
    "dledger-message": (Ledger.METADATA, Ledger.HEART_BEAT),
    "dledger-push": (Ledger.PUSH,),
    "dledger-transfer": (Ledger.LEADERSHIP_TRANSFER,),
    "dledger-vote": (Ledger.VOTE,),
}
"""Formats that are bodies of requests, and the codes of those."""

CLEAN, FOUND = 0, 1


@declared("fuzz")
@click.argument("format")
@click.option("--plugins", metavar="NAME,NAME", default="", help="With the formats of these plug-ins.")
@click.option("--seed", type=int, metavar="N", help="The run's seed (default: a fresh one, printed).")
@click.option("--cases", type=int, default=CASES, metavar="N", help=f"How many cases (default {CASES}).")
@click.option("--case", type=int, metavar="N", help="Only case N, in detail.")
@click.option(
    "--kinds",
    default=",".join(KINDS),
    metavar="KIND,KIND",
    help=f"Kinds of cases, separated by commas (default all: {','.join(KINDS)}).",
)
@click.option("--connect", metavar="HOST:PORT", help="Send the cases to a live remoting port on loopback.")
@click.option("--file", metavar="PATH", help="With --case: write that case to PATH; without: read PATH as a case.")
@click.option("--pid", type=int, metavar="PID", help="With --connect: the server's process, to see it die or grow.")
@click.option(
    "--lanes",
    type=int,
    default=LANES,
    metavar="N",
    help=f"With --connect: connections at a time (default {LANES}).",
)
@click.option(
    "--growth-mib",
    type=float,
    default=GROWTH_MIB,
    metavar="MIB",
    help=f"With --pid: growth that counts (default {GROWTH_MIB}).",
)
@click.option("--strict", is_flag=True, help="With --connect: what our reader would take another way counts as found.")
@click.option(
    "--attribute",
    is_flag=True,
    help="With --connect: send the suspects of each unexpected close again, one by one, to name the case.",
)
@click.option(
    "--close-seconds",
    type=float,
    default=CLOSE_SECONDS,
    metavar="S",
    help=f"With --connect: how long the port may take to close on an unreadable frame (default {CLOSE_SECONDS}).",
)
@click.option("--progress", is_flag=True, help="Say now and then how far it is, on standard error.")
@click.option("--json", is_flag=True, help="End with one line of JSON; errors are a JSON object, too.")
def command(args: Given) -> int:
    """Try a format's reader, or a live port, with valid, cut, mutated and hostile values of the format.

    FORMAT is one of those that rocketha formats prints, or all (without --connect).  Exit code 1 says that something
    was found.
    """
    only_one(args, ("--connect", "--file"))
    kinds = tuple(args.kinds.split(","))
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise ConfigError(f"no such kind: {', '.join(unknown)} (there are {', '.join(KINDS)})")
    formats = formats_with(args.plugins)
    if args.format not in formats and args.format != ALL:
        raise ConfigError(f"no such format: {args.format} (there are {', '.join(sorted(formats))}, {ALL})")
    if args.format == ALL and (args.connect or args.file or args.case is not None):
        raise ConfigError(f"--connect, --file and --case want one format, not {ALL}")
    if args.cases < 1 or args.lanes < 1 or (args.case is not None and args.case < 0):
        raise ConfigError("--cases and --lanes want a positive number, --case one from 0")
    if args.file and args.case is None:
        return _read_file(args, formats[args.format])
    seed = secrets.randbelow(1 << 32) if args.seed is None else args.seed
    if args.connect:
        return _connect(args, seed, kinds)
    if args.case is not None:
        return _one_case(args, Generator(formats[args.format], seed, kinds))
    status = CLEAN
    for name in sorted(formats) if args.format == ALL else [args.format]:
        status = max(status, _offline(args, Generator(formats[name], seed, kinds)))
    return status


def _replay(args: Given, case: Case) -> str:
    """The command that makes a case again."""
    kinds = "" if args.kinds == ",".join(KINDS) else f" --kinds {args.kinds}"
    kinds += f" --plugins {args.plugins}" if args.plugins else ""
    target = f" --connect {args.connect}" if args.connect else ""
    return f"rocketha fuzz {case.format} --seed {case.seed} --case {case.index}{kinds}{target}"


# ---- in this process


def _offline(args: Given, generator: Generator) -> int:
    target, started = generator.format, time.monotonic()
    print(f"{target.name}: seed {generator.seed}, {args.cases} cases", flush=True)
    counts: collections.Counter[tuple[str, bool]] = collections.Counter()
    problems: list[str] = []
    compared, said = 0, started
    with Meter() as meter:
        for index in range(args.cases):
            case = generator.case(index)
            judgment = meter.judge(target, case)
            counts[case.kind, judgment.accepted] += 1
            compared += judgment.compared > 0
            if judgment.problem is not None:
                problems.append(f"{case}: {judgment.problem}")
                if len(problems) <= PROBLEMS_SHOWN:
                    print(f"  FOUND {problems[-1]}\n    again: {_replay(args, case)}", flush=True)
            if args.progress and time.monotonic() - said > PROGRESS_SECONDS:
                said = time.monotonic()
                print(f"{index + 1} cases, {len(problems)} found", file=sys.stderr, flush=True)
    seconds = time.monotonic() - started
    for kind in generator.kinds:
        print(f"  {kind}: {counts[kind, True]} accepted, {counts[kind, False]} refused")
    print(f"  {compared} compared with plain construct; {len(problems)} found; {seconds:.1f} s")
    if args.json:
        accepted = {kind: counts[kind, True] for kind in generator.kinds}
        refused = {kind: counts[kind, False] for kind in generator.kinds}
        summary = {
            "format": target.name,
            "seed": generator.seed,
            "cases": args.cases,
            "accepted": accepted,
            "refused": refused,
            "compared": compared,
            "seconds": round(seconds, 3),
            "found": problems[:PROBLEMS_SHOWN],
            "found_count": len(problems),
        }
        print(json.dumps(summary))
    return FOUND if problems else CLEAN


def _one_case(args: Given, generator: Generator) -> int:
    case = generator.case(args.case)
    print(case)
    if args.file:
        try:
            with open(args.file, "wb") as out:
                out.write(case.data)
        except OSError as problem:
            raise ConfigError(f"cannot write {args.file}: {problem.strerror}") from None
        print(f"  written to {args.file}")
    return _tell(args, generator.format, case)


def _read_file(args: Given, target: Format) -> int:
    try:
        with open(args.file, "rb") as source:
            data = source.read(target.bound + 1)
    except OSError as problem:
        raise ConfigError(f"cannot read {args.file}: {problem.strerror}") from None
    # Bytes from elsewhere are no spec-built value: kind "mutated" asks for no comparison with plain construct.
    return _tell(args, target, Case(target.name, 0, 0, "mutated", f"read from {args.file}", data))


def _tell(args: Given, target: Format, case: Case) -> int:
    with Meter() as meter:
        judgment: Judgment = meter.judge(target, case)
    print(f"  {len(case.data)} bytes, beginning {case.data[:64].hex()}")
    print(f"  {'accepted' if judgment.accepted else 'refused'}: {judgment.detail}")
    if judgment.problem is not None:
        print(f"  FOUND {judgment.problem}")
    if args.json:
        found = [judgment.problem] if judgment.problem else []
        print(
            json.dumps(
                {"format": target.name, "accepted": judgment.accepted, "detail": judgment.detail, "found": found}
            )
        )
    return FOUND if judgment.problem else CLEAN


# ---- against a port


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    try:
        loopback = ipaddress.ip_address(host).is_loopback
        number = int(port)
    except ValueError:
        raise ConfigError(f"--connect wants an address and a port, as 127.0.0.1:10911, not {text}") from None
    if not loopback:
        raise ConfigError(f"{host} is not on loopback: fuzz only what runs on this machine")
    if not 0 < number < 65536:
        raise ConfigError(f"no such port: {number}")
    return host, number


def _connect(args: Given, seed: int, kinds: tuple[str, ...]) -> int:
    if args.format != REMOTING and args.format not in BODIES:
        raise ConfigError(f"--connect speaks {REMOTING} and {', '.join(BODIES)}; {args.format} has no port of its own")
    address = _address(args.connect)
    generator = Generator(FORMATS[args.format], seed, kinds)
    indexes = range(args.cases) if args.case is None else range(args.case, args.case + 1)
    print(f"{args.format} against {args.connect}: seed {seed}, {len(indexes)} cases", flush=True)
    cases: Iterator[Case] = (generator.case(index) for index in indexes)
    if args.case is not None:
        cases = _shown(cases)
    if args.format in BODIES:
        cases = framed(cases, BODIES[args.format])
    progress = _progress() if args.progress else None
    report = PortReport()
    with contextlib.suppress(KeyboardInterrupt):
        PortRun(address, cases, report, args.pid, args.lanes, args.close_seconds, progress).run()
        if args.attribute and not any(text.startswith("crash") for text in report.found):
            _attribute(address, generator, report)
    report.conclude(args.growth_mib, args.strict)
    for line in report.lines():
        print(line)
    if args.json:
        print(json.dumps({"format": args.format, "connect": args.connect, "seed": seed, **report.summary()}))
    return FOUND if report.found else CLEAN


def framed(cases: Iterator[Case], codes: Sequence[int]) -> Iterator[Case]:
    """Bodies, each in a frame of a request that has such a body."""
    for case in cases:
        command = remoting.request(codes[case.index % len(codes)], None, case.data)
        command.opaque = case.index & 0x7FFFFFFF
        try:
            frame = remoting.encode(command)
        except RemoteProtocolError:  # longer than any frame
            continue
        yield attrs.evolve(case, data=frame)


def _attribute(address: tuple[str, int], generator: Generator, report: PortReport) -> None:
    for suspects in report.suspects[:ATTRIBUTED]:
        for index in suspects:
            case = generator.case(index)
            if (got := alone(address, case)).startswith("closed"):
                report.note("closes when sent alone", case, got)


def _shown(cases: Iterator[Case]) -> Iterator[Case]:
    for case in cases:
        print(case)
        print(f"  beginning {case.data[:64].hex()}")
        print(f"            {case.data[:400]!r}")
        yield case


def _progress() -> Callable[[PortReport], None]:
    said = time.monotonic()

    def say(report: PortReport) -> None:
        nonlocal said
        if time.monotonic() - said > PROGRESS_SECONDS:
            said = time.monotonic()
            found = f", {len(report.found)} found" if report.found else ""
            memory = f", {report.memory[-1] / (1 << 20):.1f} MiB" if report.memory else ""
            print(f"{report.sent} cases{memory}{found}", file=sys.stderr, flush=True)

    return say
