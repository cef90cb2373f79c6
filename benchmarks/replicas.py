"""What replicas cost a sender: of a classic pair, waited for or not, and of a group under controllers, all waited for.

Run: ``python -m benchmarks.replicas [--rounds 5] [--kinds ...] [--rows ...] [--size 1024] [--sides ours,java]``.
One set of brokers at a time, on loopback, with RocketMQ's defaults (ASYNC_FLUSH):

alone        an ASYNC_MASTER whose slave is never started
async, sync  with one slave; a SYNC_MASTER's sends wait for two copies
set2, set3   so many replicas under three controllers of the same side, allAckInSyncStateSet: a send waits for all of
             them, as a smaller SyncStateSet takes none (minInSyncReplicas)
open         a broker alone, for the next one
secured      a broker alone under TLS, which takes signed requests of users who may do what they ask (ACL 2)
ledger3      three in DLedger mode: a send waits for a majority; with ledger3b Java's leader pushes batches

Each round begins new brokers on empty disks and drives each row with the Java load client: ``sync64`` are 64 threads of
it with one send under way each.  Java's brokers are compiled in full, which takes half a minute under load, and have
``make bench``'s heap.  Printed are medians of messages/s and of latencies in ms, CPU microseconds a message of the
master, the slaves and the controllers, and ratios: ``sync / async`` is what issue 9 expects to be 0.9 (requirement
S1.6), ``async / alone`` 1 (S1.9).  All brokers, the client and whatever else runs share the cores: "others" says how
much of one everybody else took, and a run with much of it is no anchor.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.choices import several
from tests.interop.harness import jars
from tests.interop.harness.controllers import ReplicaGroup
from tests.interop.harness.ledgers import LedgerGroup
from tests.interop.harness.pairs import ClassicPair
from tests.interop.harness.processes import NotReady, end_all
from tests.interop.harness.roles import BROKERS, JavaBroker, OurNamesrv, Role, _Broker

from benchmarks import rows, secured
from benchmarks.ha_catch_up_brokers import SETTINGS

SIDES = ("ours", "java")
START_S = 240
JAVA_HEAP_MB = 1024
WARMUP_S, JAVA_WARMUP_S = 5, 30


class Brokers(NamedTuple):
    """Ready for a load."""

    master: _Broker
    slaves: Sequence[_Broker]
    controllers: Sequence[Role]
    namesrv: str


def as_measured(brokers: Iterable[Role]) -> None:
    """The test bed compiles Java's replicas by the quick compiler only; they are not to be measured by that."""
    for broker in brokers:
        if isinstance(broker, JavaBroker):
            broker.quick, broker.heap_mb = False, JAVA_HEAP_MB


def classic(side: str, folder: Path, *, sync: bool = False, slave: bool = True) -> Brokers:
    """A pair, or its master."""
    pair = ClassicPair((side, side), folder, sync=sync, extra=SETTINGS, namesrv="ours")
    as_measured(pair.brokers)
    if slave:
        pair.start()
    else:
        pair.namesrv.start()
        pair.master.start()
    return Brokers(pair.master, [pair.slave] if slave else [], [], pair.namesrv.address)


def under_controllers(side: str, folder: Path, *, count: int) -> Brokers:
    """A group whose SyncStateSet holds all."""
    copies = dict.fromkeys(("totalReplicas", "inSyncReplicas", "minInSyncReplicas"), count)
    group = ReplicaGroup(side, folder, kinds=(side,) * count, namesrv="ours", extra={**SETTINGS, **copies})
    as_measured(group.brokers)
    group.start(START_S)
    return Brokers(group.master(), group.slaves(), group.controllers.nodes, group.namesrv_addresses)


def in_ledger_mode(side: str, folder: Path, *, batched: bool = False) -> Brokers:
    """A group that elects its master."""
    namesrv = OurNamesrv("namesrv", folder / "namesrv")
    namesrv.start()
    group = LedgerGroup((side,) * 3, folder, namesrv, {**SETTINGS, "enableBatchPush": batched})
    as_measured(group.brokers)
    group.start()
    return Brokers(group.await_master(), group.followers(), [], namesrv.address)


def single(side: str, folder: Path, *, secure: bool = False) -> Brokers:
    """A broker that nobody copies."""
    namesrv = OurNamesrv("namesrv", folder / "namesrv")
    broker = BROKERS[side](folder / "broker", namesrv, SETTINGS)
    as_measured((broker,))
    if secure:
        secured.apply(side, folder, namesrv, broker)
    namesrv.start()
    broker.start()
    if secure:
        secured.make_user(broker.address)
    return Brokers(broker, [], [], namesrv.address)


KINDS: dict[str, Callable[[str, Path], Brokers]] = {
    "open": single,
    "secured": partial(single, secure=True),
    "alone": partial(classic, slave=False),
    "async": classic,
    "sync": partial(classic, sync=True),
    "set2": partial(under_controllers, count=2),
    "set3": partial(under_controllers, count=3),
    "ledger3": in_ledger_mode,
    "ledger3b": partial(in_ledger_mode, batched=True),
}
RATIOS = (("secured", "open"), ("sync", "async"), ("async", "alone"), ("set3", "set2"), ("ledger3", "async"))
AGAINST = {"ledger3": ("ledger3", "ledger3b")}
"""Java's kinds that ours is compared with; its own by default."""


class Found(NamedTuple):
    """Of one row; CPU microseconds a message, shares in cores."""

    messages_per_s: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    master_cpu: float
    slaves_cpu: float
    controllers_cpu: float
    client: float
    others: float


def measure(side: str, kind: str, folder: Path, given: argparse.Namespace) -> dict[str, Found]:
    """New brokers, and every row on them.

    :raises LoadFailed: the load client measured nothing, or was told of a message that it is not safe.
    :raises NotReady: they did not come up.
    """
    folder.mkdir()
    home = folder / "client"
    home.mkdir()
    try:
        brokers = KINDS[kind](side, folder)
        return {row: one(f"{side} {kind}", row, brokers, home, given) for row in given.rows}
    finally:
        end_all()
        secured.forget()
        shutil.rmtree(folder, ignore_errors=True)


def one(name: str, row: str, brokers: Brokers, home: Path, given: argparse.Namespace) -> Found:
    """One row on running brokers."""
    slaves = len(brokers.slaves)
    beside = [*brokers.slaves, *brokers.controllers]
    got = rows.produce(
        name, brokers.master, brokers.namesrv, row, given.size, given.seconds, given.warmup, home, beside
    )
    if got.errors:
        raise rows.LoadFailed(f"{name} {row}: {got.errors} sends were not answered with SEND_OK")
    assert got.p50_ms is not None and got.p99_ms is not None and got.p999_ms is not None and got.max_ms is not None
    used = got.beside_cpu_s_per_million
    return Found(
        got.messages_per_s,
        got.p50_ms,
        got.p99_ms,
        got.p999_ms,
        got.max_ms,
        got.broker_cpu_s_per_million,
        sum(used[:slaves]),
        sum(used[slaves:]),
        got.client_cpu_share,
        got.others_cpu_share,
    )


def middle(found: Iterable[Found]) -> Found:
    """The median of each column."""
    return Found(*(statistics.median(column) for column in zip(*found, strict=True)))


def table(found: dict[tuple[str, str, str], list[Found]], given: argparse.Namespace) -> str:
    """Medians, the ratios of each row, and ours beside Java's."""
    medians = {key: middle(values) for key, values in found.items()}
    lines = [
        f"{'':25}{'messages/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'p99.9':>9}{'max':>9}"
        f"{'us: master':>12}{'slaves':>8}{'control':>8}{'client':>8}{'others':>8}"
    ]
    for side in given.sides:
        for row in given.rows:
            rates = {}
            for kind in KINDS:
                if (side, kind, row) in medians:
                    m = medians[side, kind, row]
                    rates[kind] = m.messages_per_s
                    lines.append(
                        f"{side:6}{row:10}{kind:9}{m.messages_per_s:12,.0f}{m.p50_ms:9.3f}{m.p99_ms:9.3f}{m.p999_ms:9.3f}"
                        f"{m.max_ms:9.1f}"
                        f"{m.master_cpu:12.1f}{m.slaves_cpu:8.1f}{m.controllers_cpu:8.1f}{m.client:8.0%}{m.others:8.0%}"
                    )
            ratios = [f"{a} / {b} {rates[a] / rates[b]:.2f}" for a, b in RATIOS if a in rates and b in rates]
            if ratios:
                lines.append(f"{side:6}{row:10}{', '.join(ratios)}")
    for (side, kind, row), ours in medians.items():
        for other in AGAINST.get(kind, (kind,)) if side == "ours" else ():
            java = medians.get(("java", other, row))
            if java is None:
                continue
            cpu = [m.master_cpu + m.slaves_cpu for m in (ours, java)]
            lines.append(
                f"{'':6}{row:10}{other:9}ours/java: messages/s {ours.messages_per_s / java.messages_per_s:.2f}, "
                f"p50 {ours.p50_ms / java.p50_ms:.2f}, p99 {ours.p99_ms / java.p99_ms:.2f}, "
                f"p99.9 {ours.p999_ms / java.p999_ms:.2f}, CPU of all a message {cpu[0] / cpu[1]:.2f}"
            )
    return "\n".join(lines)


def options() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", type=several(KINDS), default="alone,async,sync", help=f"of {','.join(KINDS)}")
    loads = ",".join(rows.LOADS)
    parser.add_argument("--rows", type=several(rows.LOADS), default="sync1,sync16,async256", help=f"of {loads}")
    parser.add_argument("--size", type=int, default=1024, help="body bytes")
    parser.add_argument("--seconds", type=float, default=10, help="measured part of a row")
    parser.add_argument(
        "--warmup",
        type=float,
        help="seconds each load client sends before it measures; 5, or 30 where Java's are measured, for its compilers",
    )
    parser.add_argument("--sides", type=several(SIDES), default="ours", help=f"of {','.join(SIDES)}")
    parser.add_argument("--directory")
    parser.add_argument("--out", type=Path, help="JSON result file (default: build/replicas-TIME.json)")
    given = parser.parse_args()
    if given.warmup is None:
        given.warmup = JAVA_WARMUP_S if "java" in given.sides else WARMUP_S
    return given


def main() -> int:
    """Measure some rounds and print medians; 1 if one failed."""
    given = options()
    jars.classes(rows.JAVA)
    directory = Path(tempfile.mkdtemp(prefix="rocketha-bench-", dir=given.directory))
    found: dict[tuple[str, str, str], list[Found]] = {}
    failures: list[str] = []
    try:
        for _ in range(given.rounds):
            for kind in given.kinds:
                for side in given.sides:
                    began = time.monotonic()
                    try:
                        got = measure(side, kind, directory / "brokers", given)
                    except (NotReady, rows.LoadFailed) as why:
                        failures.append(f"{side} {kind}: {why}")
                        print(f"failed: {failures[-1]}", flush=True)
                        continue
                    for row, values in got.items():
                        found.setdefault((side, kind, row), []).append(values)
                        rate, others = values.messages_per_s, values.others
                        print(f"{side} {row} {kind}: {rate:,.0f}/s, others {others:.0%}", flush=True)
                    print(f"{side} {kind} took {time.monotonic() - began:.0f} s", flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(table(found, given))
    out = given.out or Path("build") / time.strftime("replicas-%Y%m%d-%H%M%S.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    runs: dict[str, Any] = {" ".join(key): [each._asdict() for each in values] for key, values in found.items()}
    facts = {"python": platform.python_version(), "size": given.size, "runs": runs, "failures": failures}
    out.write_text(json.dumps(facts, indent=1) + "\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
