"""``rocketha export``: a broker's store, copied and checked, for other programs.

What it must not know: what a log holds, or how a run goes on.  That is ``rocketha.export``; here are flags, the two
disks, time and what a person sees.  It runs beside a broker as well as without one, and only reads its files.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

import click

from rocketha.admin import options, output
from rocketha.admin.commands import DONE, INTERRUPTED, Given
from rocketha.admin.commands import command as declared
from rocketha.errors import ConfigError
from rocketha.export.exporter import Exporter, Progress
from rocketha.export.manifest import Manifest
from rocketha.export.source import Identity, found
from rocketha.export.target import local_path
from rocketha.replication.throttle import Throttle
from rocketha.store.posix_disk import PosixDisk, ReadingDisk

BAR_CHARACTERS = 30
BAR_EVERY_S = 0.2
BURST_BYTES = 8 << 20
LOOK_EVERY_MS = 100
"""Whether a signal came, while it waits."""


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise click.BadParameter(f"{text!r} is not a number of at most nine digits")
    return int(text)


@declared("export")
@click.argument("store")
@click.argument("directory")
@click.option(
    "--commitlog",
    metavar="DIR",
    multiple=True,
    help="storePathCommitLog, where it is not STORE/commitlog; may be repeated.",
)
@click.option(
    "--self-id",
    default="",
    metavar="ID",
    help="dLegerSelfId: the member of DLedger whose data is exported, where STORE has that of several.",
)
@click.option("--cluster", default="", metavar="NAME", help="Where STORE/brokerIdentity does not say it.")
@click.option("--broker-name", default="", metavar="NAME", help="The same.")
@click.option("--broker-id", type=_number, default="0", metavar="N", help="The same.")
@click.option("--replica", default="", metavar="NAME", help="What this copy is called in tables (default: NAME-ID).")
@click.option(
    "--rate", type=_number, default="0", metavar="MB", help="Read at most so many MB a second (default: no limit)."
)
@click.option("--corrupt-too", is_flag=True, help="Export records that do not match their CRC, too, instead of ending.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
@options.JSON
def command(args: Given) -> int:
    """Copy a broker's store, checked, for other programs; again for what came since.

    STORE is storePathRootDir of a broker, running or not, ours or Java's; DIRECTORY is where the export is, or is to
    be. After a signal the exit code is 130, with what there is by then.
    """
    root, directory, *logs = map(_path, (args.store, args.directory, *args.commitlog))
    if not os.path.isdir(root):
        raise ConfigError(f"no directory {root}")
    source = found(ReadingDisk(), root, tuple(logs), args.self_id)
    for place in (root, *source.logs):
        if not os.path.isdir(place):
            raise ConfigError(f"no directory {place}")
    exporter = Exporter(source, PosixDisk(), directory, lambda: int(time.time() * 1000), args.corrupt_too)
    identity = Identity(args.cluster, args.broker_name, args.broker_id)
    bar = Bar(None if args.quiet or not sys.stderr.isatty() else sys.stderr)
    throttle, began_s = Throttle(args.rate * 1_000_000, BURST_BYTES), time.monotonic()
    try:
        with stopped_by_signals(exporter.stop) as stopped:
            for progress in exporter.run(identity, args.replica):
                bar.show(progress)
                throttle.took(progress.read, _now_ms())
                wait_ms = max(progress.pause_ms, throttle.wait_ms(_now_ms()))
                while wait_ms and not stopped():
                    time.sleep(min(wait_ms, LOOK_EVERY_MS) / 1000)
                    wait_ms -= min(wait_ms, LOOK_EVERY_MS)
    finally:
        bar.end()
    if stopped():
        print("stopped; the next run goes on here", file=sys.stderr)
        return INTERRUPTED
    assert exporter.manifest is not None
    made, took_s = exporter.manifest, time.monotonic() - began_s
    output.say(args, _said(made, took_s), **_counts(made), seconds=round(took_s, 1))
    return DONE


def _path(text: str) -> str:
    return os.path.abspath(local_path(text))


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


def _counts(manifest: Manifest) -> dict[str, Any]:
    return {
        "replica": manifest.replica,
        "messages": manifest.messages,
        "files": len(manifest.segments),
        "begin": manifest.begin,
        "end": manifest.end,
        "confirmed": manifest.confirmed,
        "corrupt": sum(segment.corrupt for segment in manifest.segments),
    }


def _said(manifest: Manifest, seconds: float) -> str:
    corrupt = _counts(manifest)["corrupt"]
    return (
        f"{manifest.replica}: {manifest.messages} messages in {len(manifest.segments)} files, log {manifest.begin} to"
        f" {manifest.end}, confirmed to {manifest.confirmed}"
        + (f", {corrupt} of them damaged" if corrupt else "")
        + f"; {seconds:.1f} s"
    )


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """SIGINT and SIGTERM let a run end in order; a second one ends the process at once.  Gives whether one came."""
    came = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            raise KeyboardInterrupt
        came = True
        stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Bar:
    """How far it is, on one line of a terminal; nothing elsewhere."""

    def __init__(self, out: TextIO | None) -> None:
        self._out = out
        self._shown_s = 0.0
        self._begin: int | None = None
        self._began_s = time.monotonic()

    def show(self, progress: Progress) -> None:
        """At most every fifth of a second."""
        if self._out is None:
            return
        now_s = time.monotonic()
        if self._begin is None:
            self._begin = progress.position - progress.read
        if now_s - self._shown_s < BAR_EVERY_S:
            return
        self._shown_s = now_s
        done = (progress.position - self._begin) / max(1, progress.end - self._begin)
        rate = (progress.position - self._begin) / max(0.001, now_s - self._began_s) / 1e6
        filled = "#" * int(done * BAR_CHARACTERS)
        self._out.write(f"\r[{filled:<{BAR_CHARACTERS}}] {progress.position / 1e6:,.0f} MB, {rate:,.0f} MB/s ")
        self._out.flush()

    def end(self) -> None:
        """The line is gone."""
        if self._out is not None and self._shown_s:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._shown_s = 0.0
