"""``rocketha export``: a broker's store, copied and checked, for other programs.

What it must not know: what a log holds, or how a run goes on.  That is ``rocketha.export``; here are flags, the two
disks, time and what a person sees.  It runs beside a broker as well as without one, and only reads its files.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import click

from rocketha.admin import options, output
from rocketha.admin.commands import DONE, FAILED, INTERRUPTED, Given, actions
from rocketha.errors import ConfigError
from rocketha.export.exporter import Exporter
from rocketha.export.manifest import Manifest
from rocketha.export.repairing import ExportOrigin, Origin, Repairer, StoreOrigin
from rocketha.export.source import Identity, Source, found
from rocketha.export.target import is_export, local_path
from rocketha.export.verifying import Fault, Verifier
from rocketha.replication.throttle import Throttle
from rocketha.services.config import loading
from rocketha.store.posix_disk import PosixDisk, ReadingDisk

BAR_CHARACTERS = 30
BAR_EVERY_S, LINE_EVERY_S = 0.2, 60.0
BURST_BYTES = 8 << 20
LOOK_EVERY_MS = 100
"""Whether a signal came, while it waits."""


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise click.BadParameter(f"{text!r} is not a number of at most nine digits")
    return int(text)


@actions("export", default="copy")
@options.JSON
def command() -> None:
    """Copy a broker's store, checked, for other programs; look whether a copy is what was written, and mend it.

    Without an action it is ``copy``.
    """


_LOGS = click.option(
    "--commitlog",
    metavar="DIR",
    multiple=True,
    help="storePathCommitLog, where it is not STORE/commitlog; may be repeated.",
)
_SELF_ID = click.option(
    "--self-id",
    default="",
    metavar="ID",
    help="dLegerSelfId: the member of DLedger whose data is meant, where STORE has that of several.",
)
_QUIET = click.option("--quiet", is_flag=True, help="No progress.")


@command.command("copy")
@click.argument("places", nargs=-1, metavar="[STORE] DIRECTORY")
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    help="The broker's configuration: where its store is, and who it is. Without STORE.",
)
@_LOGS
@_SELF_ID
@click.option("--cluster", default="", metavar="NAME", help="Where STORE/brokerIdentity does not say it.")
@click.option("--broker-name", default="", metavar="NAME", help="The same.")
@click.option("--broker-id", type=_number, default="0", metavar="N", help="The same.")
@click.option("--replica", default="", metavar="NAME", help="What this copy is called in tables (default: NAME-ID).")
@click.option(
    "--rate", type=_number, default="0", metavar="MB", help="Read at most so many MB a second (default: no limit)."
)
@click.option("--corrupt-too", is_flag=True, help="Export records that do not match their CRC, too, instead of ending.")
@_QUIET
def copy(args: Given) -> int:
    """Copy a broker's store, checked, for other programs; again for what came since.

    STORE is storePathRootDir of a broker, running or not, ours or Java's; DIRECTORY is where the export is, or is to
    be. After a signal the exit code is 130, with what there is by then.
    """
    args = _placed(args)
    source = _source(args, args.store)
    exporter = Exporter(source, PosixDisk(), args.directory, lambda: int(time.time() * 1000), args.corrupt_too)
    identity = Identity(args.cluster, args.broker_name, args.broker_id)
    throttle, began_s = Throttle(args.rate * 1_000_000, BURST_BYTES), time.monotonic()
    shown = Shown(args.quiet)
    try:
        with stopped_by_signals(exporter.stop) as stopped:
            for progress in exporter.run(identity, args.replica):
                shown.show(progress.position, progress.end)
                throttle.took(progress.read, _now_ms())
                wait_ms = max(progress.pause_ms, throttle.wait_ms(_now_ms()))
                while wait_ms and not stopped():
                    time.sleep(min(wait_ms, LOOK_EVERY_MS) / 1000)
                    wait_ms -= min(wait_ms, LOOK_EVERY_MS)
    finally:
        shown.end()
    if stopped():
        print("stopped; the next run goes on here", file=sys.stderr)
        return INTERRUPTED
    assert exporter.manifest is not None
    made, took_s = exporter.manifest, time.monotonic() - began_s
    output.say(args, _said(made, took_s), **_counts(made), seconds=round(took_s, 1))
    return DONE


@command.command("verify")
@click.argument("directory")
@_QUIET
def verify(args: Given) -> int:
    """Look whether an export is what was written: every byte of the log, and each file that the manifest names.

    Names what is missing or changed by file and offset; exit code 1 where something is.
    """
    directory = _path(args.directory)
    verifier, began_s = Verifier(ReadingDisk(), directory), time.monotonic()
    _run_through(args, verifier.run(), verifier)
    manifest, faults = verifier.manifest, verifier.faults
    if args.json:
        counts = {} if manifest is None else _counts(manifest)
        output.say_json({"directory": directory, "faults": _told(faults), **counts})
    else:
        for each in faults:
            print(output.clean(each))
        if not faults and manifest is not None:
            print(output.clean(f"{_said(manifest, time.monotonic() - began_s)}; all as it was written"))
    return FAILED if faults else DONE


@command.command("repair")
@click.argument("directory")
@click.option(
    "--from",
    "places",
    metavar="PLACE",
    multiple=True,
    required=True,
    help="Where the bytes may still be: the broker's STORE, another replica's, or another export; may be repeated.",
)
@_LOGS
@_SELF_ID
@_QUIET
def repair(args: Given) -> int:
    """Make an export again what it was when it was written.

    What PLACE has counts where it matches the digest in the manifest. Exit code 1 where something could not be mended.
    """
    directory = _path(args.directory)
    repairer = Repairer(PosixDisk(), directory, [_origin(args, each) for each in args.places])
    _run_through(args, repairer.run(), repairer)
    mended = [each for each in repairer.found if each not in repairer.left]
    if args.json:
        told = {"repaired": _told(mended), "left": _told(repairer.left), "unreadable": repairer.unreadable}
        output.say_json({"directory": directory, **told})
    else:
        for each in mended:
            print(output.clean(f"repaired: {each}"))
        for each in repairer.left:
            print(output.clean(f"NOT repaired: {each}"))
        if not repairer.found:
            print("nothing to repair")
        for said in repairer.unreadable:
            print(output.clean(f"passed over: {said}"), file=sys.stderr)
    return FAILED if repairer.left else DONE


def _placed(args: Given) -> Given:
    """The same with ``store`` and ``directory``, and with what a configuration says where no flag does.

    :raises click.UsageError: one is missing, or too many are there.
    :raises ConfigError: the configuration is wrong.
    """
    wanted = 2 if args.config is None else 1
    if len(args.places) != wanted:
        places = "STORE and DIRECTORY" if args.config is None else "DIRECTORY alone, since --config names the store"
        raise click.UsageError(f"Give {places}.", click.get_current_context(silent=True))
    if args.config is None:
        return Given(**{**vars(args), "store": args.places[0], "directory": _path(args.places[1])})
    config = loading.load_broker(loading.read_file(args.config), args.config).config
    replication = config.replication
    said = {
        "cluster": config.broker_cluster_name,
        "broker_name": config.broker_name,
        "broker_id": config.broker_id,
        "commitlog": (config.store.store_path_commit_log,),
        "self_id": replication.d_leger_self_id if replication.enable_dleger_commit_log else "",
    }
    given = vars(args)
    configured = {name: given[name] or value for name, value in said.items()}
    placed = {"store": config.store.store_path_root_dir, "directory": _path(args.places[0])}
    return Given(**{**given, **configured, **placed})


def _run_through(args: Given, steps: Iterable[int], of: Verifier | Repairer) -> None:
    shown = Shown(args.quiet)
    try:
        for done in steps:
            manifest = of.manifest
            shown.show(done, 0 if manifest is None else manifest.end - manifest.begin)
    finally:
        shown.end()


def _told(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    return [{"file": each.path, "offset": each.offset, "what": each.what} for each in faults]


def _origin(args: Given, text: str) -> Origin:
    place = _path(text)
    if is_export(ReadingDisk(), place):
        return ExportOrigin(ReadingDisk(), place)
    return StoreOrigin(_source(args, text))


def _source(args: Given, text: str) -> Source:
    """A store.

    :raises ConfigError: it is none.
    """
    root = _path(text)
    if not os.path.isdir(root):
        raise ConfigError(f"no directory {root}")
    source = found(ReadingDisk(), root, tuple(map(_path, args.commitlog)), args.self_id)
    for place in source.logs:
        if not os.path.isdir(place):
            raise ConfigError(f"no directory {place}")
    return source


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


class Shown:
    """How far it is: on one line of a terminal, and of a file a line a minute.

    :param quiet: nothing is shown.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._terminal = quiet, sys.stderr.isatty()
        self._every_s = BAR_EVERY_S if self._terminal else LINE_EVERY_S
        self._began_s = self._shown_s = time.monotonic()
        self._begin: int | None = None
        self._drawn = False

    def show(self, position: int, end: int) -> None:
        """Now and then.

        :param position: bytes that are done, from wherever the first ones were; ``end``: of so many, or less.
        """
        now_s = time.monotonic()
        if self._begin is None:
            self._begin = position
        if self._quiet or now_s - self._shown_s < self._every_s:
            return
        self._shown_s = now_s
        rate = (position - self._begin) / max(0.001, now_s - self._began_s)
        left_s = (end - position) / rate if rate > 0 else 0
        said = f"{position / 1e6:,.0f} of {end / 1e6:,.0f} MB, {rate / 1e6:,.0f} MB/s, {_time(left_s)} left"
        if self._terminal:
            done = (position - self._begin) / max(1, end - self._begin)
            said = f"\r[{'#' * int(done * BAR_CHARACTERS):<{BAR_CHARACTERS}}] {said} \x1b[K"
        sys.stderr.write(said if self._terminal else f"{said}\n")
        sys.stderr.flush()
        self._drawn = self._terminal

    def end(self) -> None:
        """A terminal's line is gone."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
