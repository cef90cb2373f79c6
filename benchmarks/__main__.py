"""Java's broker and ours with equal settings, each under a Java nameserver, driven in turn by the same load
clients: Java's of today, that of its 4.x line (rows@4.9.8) and the one in Go (rows@go).

    make bench                                              everything, about an hour
    python -m benchmarks --rows sync16 --sizes 128 --repeat 2 --warm 3        a quick look
    python -m benchmarks --profile sync16                   where our broker spends its time

Both brokers live through the whole run, so that both JVM and caches are warm; a row is measured in turns
a b, b a; a row and the same with keys share these rounds. The load client shares the cores with the broker, so
the CPU a message says more than the rate.
The side that is not measured stands still meanwhile (SIGSTOP): an idle Java broker takes a tenth of a core, which only
the other side's rows would pay.
"others" is what everybody else on the machine used meanwhile, in cores: a run with much of it is no anchor.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import json
import os
import platform
import pstats
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from tests.interop.harness import JavaBroker, JavaNamesrv, OurBroker, jars, scratch
from tests.interop.harness.processes import disk_percent, end_all
from tests.interop.harness.roles import twistd

from . import report, rows
from .machine import cpu_seconds, rss_bytes

# RocketMQ's defaults where the test harness has others
SETTINGS: dict[str, object] = {
    "flushDiskType": "ASYNC_FLUSH",
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
    "waitTimeMillsInSendQueue": 200,
    "waitTimeMillsInPullQueue": 5000,
    "osPageCacheBusyTimeOutMills": 1000,
    "brokerFastFailureEnable": True,
}


DISK_PERCENT_MAX = 75
"""diskMaxUsedSpaceRatio: on a fuller disk Java deletes its oldest files while it is measured, and from 90 on refuses
messages; we from 95 on."""


SETTLE_S = 0.2
"""From the moment that a side goes on until it is measured."""


class BenchJava(JavaBroker):
    heap_mb = 1024


class Older(OurBroker):
    """Ours as another checkout has it, with the Python of its environment."""

    def __init__(self, checkout: Path, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._checkout = checkout.absolute()

    def command(self) -> list[str]:
        return [str(self._checkout / ".venv/bin/python"), *super().command()[1:]]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "PYTHONPATH": str(self._checkout / "src")}


class Profiled(OurBroker):
    """Our broker under cProfile; what it counted is written when it stops."""

    @property
    def stats(self) -> Path:
        return self.folder / "profile.stats"

    def command(self) -> list[str]:
        whole = twistd("--profile", str(self.stats), "--savestats", "--profiler", "cprofile")
        return [*whole, "rocketha-broker", "--config", str(self.config_file())]


def say(text: str) -> None:
    print(text, flush=True)


def options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default=",".join(rows.ROWS), help=f"of {','.join(rows.EVERY)}")
    parser.add_argument("--sizes", default="128,1024", help="body bytes")
    parser.add_argument("--sides", help="default: java,ours; with --before before,ours")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="CHECKOUT",
        help="checkout of an older state, with its own .venv; it is measured as the side before",
    )
    parser.add_argument("--repeat", type=int, default=10, help="windows per row and side (push: measurements)")
    parser.add_argument("--seconds", type=float, help="length of a window, for rows that send (2; --profile: 10)")
    parser.add_argument(
        "--client-warmup", type=float, default=5, help="seconds each load client sends before it measures"
    )
    parser.add_argument(
        "--warm", type=float, default=30, help="seconds of load on each broker before anything is measured"
    )
    parser.add_argument(
        "--read",
        type=int,
        default=1_000_000,
        help="messages that the push row reads; of fewer, most are read while the client's JVM compiles itself",
    )
    parser.add_argument("--starts", type=int, default=3, help="starts on an empty store for the start-to-ready time")
    parser.add_argument(
        "--idle", type=float, default=10, help="seconds of idling for idle CPU and RSS; 0 leaves both out"
    )
    parser.add_argument("--dir", type=Path, help="where the stores go (default: a temporary folder; needs about 15 GB)")
    parser.add_argument(
        "--page-cache",
        type=int,
        default=0,
        metavar="MB",
        help="before each round, read a sparse file of this size, so that no memory is unused: on a virtual machine "
        "the first touch of a page costs about 10 us",
    )
    parser.add_argument("--out", type=Path, help="JSON result file (default: build/bench-TIME.json)")
    parser.add_argument(
        "--profile", metavar="ROW", help="measure nothing: run one row against our broker under cProfile"
    )
    given = parser.parse_args(argv)
    given.rows = [given.profile] if given.profile else given.rows.split(",")
    given.sizes = [int(x) for x in given.sizes.split(",")]
    given.sides = (given.sides or ("before,ours" if given.before else "java,ours")).split(",")
    given.seconds = given.seconds or (10 if given.profile else 2)
    if given.before and not (given.before / ".venv/bin/python").exists():
        parser.error(f"--before {given.before}: there is no .venv/bin/python")
    known = {"java", "ours", *(["before"] if given.before else [])}
    if unknown := set(given.rows) - set(rows.EVERY) or set(given.sides) - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    return given


Kind = Callable[[Path, JavaNamesrv, dict[str, object]], JavaBroker | OurBroker]


class Side:
    """One broker with a Java nameserver of its own."""

    def __init__(self, name: str, folder: Path, kind: Kind) -> None:
        self.name = name
        self.home = folder / "client"
        self.home.mkdir(parents=True)
        self.namesrv = JavaNamesrv("namesrv", folder / "namesrv")
        self.folder = folder
        self.kind = kind
        self.broker: JavaBroker | OurBroker
        self.loads: dict[str, rows.Load] = {}
        self.filled: set[int] = set()
        self.read_again: set[str] = set()  # files of the log

    def new_broker(self, life: int) -> JavaBroker | OurBroker:
        return self.kind(self.folder / f"broker{life}", self.namesrv, SETTINGS)

    def start(self, starts: int, idle_s: float) -> dict[str, Any]:
        """Start on an empty store several times, keep the last; start and idle figures."""
        self.namesrv.start()
        ready = []
        for life in range(max(1, starts)):
            if life:
                self.broker.kill()
            self.broker = self.new_broker(life).start()
            ready.append(self.broker.ready_s)
        figures: dict[str, Any] = {"ready_s": ready, "idle_rss_bytes": 0, "idle_cpu_percent": 0.0}
        if idle_s:
            time.sleep(2)  # what starting leaves to do is not idling
            before, began = cpu_seconds(self.broker.pid), time.monotonic()
            time.sleep(idle_s)
            figures["idle_cpu_percent"] = (cpu_seconds(self.broker.pid) - before) / (time.monotonic() - began) * 100
            figures["idle_rss_bytes"] = rss_bytes(self.broker.pid)
        return figures

    def make_room(self) -> None:
        """Give the disk back what producing rows have written, but for the two newest files of the log.

        The files keep their names and sizes, so the broker goes on; what is read from them is zero.
        """
        for file in sorted((self.broker.root / "commitlog").iterdir())[:-2]:
            if file.name not in self.read_again and file.stat().st_blocks:
                length = str(file.stat().st_size)
                subprocess.run(["fallocate", "--punch-hole", "--offset", "0", "--length", length, file], check=False)

    @contextlib.contextmanager
    def sending(self, wanted: Iterable[str], size: int, warmup_s: float) -> Iterator[None]:
        """Warm load clients are there while this lasts, one a row; none for the row that reads."""
        with contextlib.ExitStack() as running:
            running.callback(self.loads.clear)
            for row in wanted:
                if row != "push":
                    load = rows.Load(self.name, self.broker, self.namesrv.address, row, size, self.home)
                    self.loads[row] = running.enter_context(load)
                    load.warm(warmup_s)
            yield

    def measure(self, row: str, size: int, given: argparse.Namespace) -> rows.Result:
        if load := self.loads.get(row):
            return load.window(SETTLE_S, given.seconds)
        where = (self.name, self.broker, self.namesrv.address)
        if size not in self.filled:
            rows.fill(*where, size, given.read, self.home)
            self.filled.add(size)
            self.read_again |= {file.name for file in (self.broker.root / "commitlog").iterdir()}
        return rows.push(*where, size, given.read, self.home)

    def warm(self, seconds: float) -> None:
        """Sync and async load by turns, so that everything measured later has run."""
        if seconds > 0:
            for row in ("sync16", "async256", "batch32"):
                rows.produce(self.name, self.broker, self.namesrv.address, row, 256, seconds / 3, 0, self.home)

    def signal(self, number: signal.Signals) -> None:
        for process in (self.broker, self.namesrv):
            process.signal(number)

    def stop(self) -> None:
        for process in (self.broker, self.namesrv):
            process.kill()


@contextlib.contextmanager
def alone(side: Side, sides: Iterable[Side]) -> Iterator[None]:
    """The processes of the other sides are stopped while this lasts."""
    stopped = [other for other in sides if other is not side]
    for other in stopped:
        other.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for other in stopped:
            other.signal(signal.SIGCONT)


def profile(given: argparse.Namespace, folder: Path) -> int:
    side = Side("ours", folder / "ours", Profiled)
    side.start(1, 0)
    with side.sending([given.profile], given.sizes[0], given.client_warmup):
        result = side.measure(given.profile, given.sizes[0], given)
    side.broker.stop()
    side.namesrv.kill()
    say(f"{given.profile}, {given.sizes[0]} bytes, under cProfile: {result.messages_per_s:,.0f} messages/s")
    assert isinstance(side.broker, Profiled)
    pstats.Stats(str(side.broker.stats)).sort_stats("tottime").print_stats(40)
    return 0


def compare(given: argparse.Namespace, folder: Path) -> int:
    kinds: dict[str, Kind] = {"java": BenchJava, "ours": OurBroker, "before": functools.partial(Older, given.before)}
    sides = [Side(name, folder / name, kinds[name]) for name in given.sides]
    started = {}
    for side in sides:
        started[side.name] = side.start(given.starts, given.idle)
        say(f"{side.name}: ready after {started[side.name]['ready_s'][-1]:.2f} s")
    for side in sides:
        side.warm(given.warm)
    results: list[rows.Result] = []
    try:
        measure(sides, given, folder, results)
    finally:  # what was measured before something failed is kept
        for side in sides:
            side.stop()
        if results:
            publish(given, started, results)
    return 0


def measure(sides: Sequence[Side], given: argparse.Namespace, folder: Path, results: list[rows.Result]) -> None:
    """All rows, one group after the other."""
    for size in given.sizes:
        for group in rows.groups(given.rows):
            with contextlib.ExitStack() as loads:
                for side in sides:
                    with alone(side, sides):
                        loads.enter_context(side.sending(group, size, given.client_warmup))
                for number in range(given.repeat):
                    refuse_a_full_disk(folder)
                    fill_page_cache(folder / "page-cache", given.page_cache)
                    # turns a b, b a: who comes first finds another page cache than who comes second
                    for row, side in itertools.product(group, sides[:: -1 if number % 2 else 1]):
                        with alone(side, sides):
                            result = side.measure(row, size, given)
                        results.append(result)
                        say(
                            f"{row} {size} {side.name}: {result.messages_per_s:,.0f}/s, "
                            f"{result.broker_cpu_s_per_million:.1f} CPU s/million, others {result.others_cpu_share:.0%}"
                        )
            if shutil.which("fallocate"):
                for side in sides:
                    side.make_room()


def publish(given: argparse.Namespace, started: dict[str, Any], results: list[rows.Result]) -> None:
    """Write the figures down and show their table."""
    entries = report.summary(results)
    out = given.out or Path("build") / time.strftime("bench-%Y%m%d-%H%M%S.json")
    out.parent.mkdir(parents=True, exist_ok=True)
    facts = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg(),
        "arguments": sys.argv[1:],
        "settings": SETTINGS,
    }
    document = {"facts": facts, "start": started, "rows": entries, "runs": [attrs.asdict(r) for r in results]}
    out.write_text(json.dumps(document, indent=1, default=str) + "\n")
    say("\n" + report.table(entries) + "\n\n" + report.idle_table(started) + f"\n\nall figures: {out}")


def fill_page_cache(file: Path, megabytes: int) -> None:
    """Have so much memory in use, by pages that the kernel drops when somebody needs them."""
    if not megabytes:
        return
    with open(file, "a+b", buffering=0) as hole:
        hole.truncate(megabytes << 20)
        hole.seek(0)
        taken = memoryview(bytearray(8 << 20))
        while hole.readinto(taken):
            pass


def refuse_a_full_disk(folder: Path) -> None:
    """Nothing is measured where a broker would be busy with making room.

    :raises SystemExit: with what to do about it.
    """
    percent = disk_percent(folder)
    if percent > DISK_PERCENT_MAX:
        raise SystemExit(
            f"The disk of {folder} is {percent} % full. Over {DISK_PERCENT_MAX} % brokers may be busy with making "
            "room, or refuse messages, while they are measured. Make room, or name a folder on another disk with --dir."
        )


def main(argv: list[str]) -> int:
    given = options(argv)
    refuse_a_full_disk(given.dir or Path(tempfile.gettempdir()))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended as well
    folder = scratch("bench") if given.dir is None else given.dir / time.strftime("bench-%H%M%S")
    try:
        jars.classes(rows.JAVA)
        given.rows = rows.possible(given.rows, folder / "client")
        if not given.rows:
            raise SystemExit("No row is left.")
        return profile(given, folder) if given.profile else compare(given, folder)
    except unittest.SkipTest as why:
        raise SystemExit(str(why)) from None
    finally:
        end_all()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
