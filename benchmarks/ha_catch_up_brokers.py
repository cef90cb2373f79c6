"""How fast an empty slave broker catches up with its master, ours and Java's, as classic pairs on loopback.

Run: ``python -m benchmarks.ha_catch_up_brokers [--mb 512] [--rounds 3] [--sides ours,java]``.  A third side is
``secured``: ours, where all speak TLS alone and show identities (Java's HA knows no TLS).  The master of a side
begins with a log of that many bytes, of messages of 1 KiB, in one file; then its slave is started and asked every 50 ms
how far it is.  Printed are MB/s from the first bytes to the end of the log, seconds from then until queues and index
are made of all of it, and the CPU seconds of both brokers for a GB (from the start of the slave, JVM and all).  Both
sides run with RocketMQ's defaults but ``mappedFileSize...``, which are the defaults too, and no flow control.  The
log must fit in one file of 1 GiB (``--mb 1000``), for an empty slave begins with its master's last.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import ssl
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.choices import several
from tests.interop.harness import remoting
from tests.interop.harness.controllers import CLUSTER, GROUP
from tests.interop.harness.pairs import ClassicPair, log_state
from tests.interop.harness.processes import end_all
from tests.interop.harness.roles import _Broker

from benchmarks.ha_catch_up import make_log
from rocketha.access.identity import Identity, Part
from rocketha.services.tls.authority import Authority

SETTINGS: dict[str, object] = {
    "mappedFileSizeCommitLog": 1 << 30,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}
SECURED = "secured"
POLL_S = 0.05
PATIENCE_S = 100


class Found(NamedTuple):
    """Of one catch-up; CPU seconds a GB."""

    rate_mb_s: float
    queues_s: float
    master_cpu: float
    slave_cpu: float


def catch_up(side: str, made: Path, folder: Path) -> Found:
    """Start a pair, the master with a copy of the log, and watch the slave."""
    folder.mkdir()
    kind = "java" if side == "java" else "ours"
    pair = ClassicPair((kind, kind), folder, extra=SETTINGS, namesrv="ours")
    if side == SECURED:
        secure(pair, folder / "pki")
    shutil.copytree(made, pair.master.root, dirs_exist_ok=True)
    os.sync()  # else the disk would be busy with the copy, and with the former pair's
    try:
        pair.namesrv.start()
        pair.master.start()
        state = log_state(pair.master)
        assert state is not None
        end, master_cpu = state.end, pair.master.cpu_seconds()
        pair.slave.spawn()
        rate, queues_s = watch(pair.slave, end)
        gigabytes = end / 1e9
        used = (pair.master.cpu_seconds() - master_cpu) / gigabytes, pair.slave.cpu_seconds() / gigabytes
        return Found(rate, queues_s, *used)
    finally:
        end_all()
        remoting.tls = None
        shutil.rmtree(folder)


def secure(pair: ClassicPair, folder: Path) -> None:
    """Let all of them, and us, show who they are, and speak nothing but TLS."""
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.make(str(folder), "bench", now, 2)
    who = {
        pair.namesrv: Identity(CLUSTER, Part.NAMESERVER, "ns"),
        pair.master: Identity(CLUSTER, Part.BROKER, GROUP, 0),
        pair.slave: Identity(CLUSTER, Part.BROKER, GROUP, 1),
    }
    for role, identity in who.items():
        authority.issue(role.name, ["127.0.0.1"], [identity], now, 1)
        role.extra["tls.config.file"] = folder / f"{role.name}.properties"
    authority.issue("operator", [], [Identity(CLUSTER, Part.OPERATOR, "bench")], now, 1)
    remoting.tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    remoting.tls.load_cert_chain(folder / "operator.crt", folder / "operator.key")


def watch(slave: _Broker, end: int, patience_s: float = PATIENCE_S) -> tuple[float, float]:
    """MB/s of the log of a broker that is to get it up to there; seconds until the queues are made."""
    began, first = time.monotonic(), (0.0, 0)
    copied_s = 0.0
    while time.monotonic() - began < patience_s:
        state, now = log_state(slave), time.monotonic()
        if state is not None and state.end > 0:
            if not first[0]:
                first = (now, state.end)
            if state.end >= end and not copied_s:
                copied_s = now
            if copied_s and state.behind <= 0:
                return (end - first[1]) / max(copied_s - first[0], POLL_S) / 1e6, now - first[0]
        time.sleep(POLL_S)
    raise AssertionError(f"the slave is not there after {patience_s:g} s: {log_state(slave)}\n{slave.tail()}")


def main() -> None:
    """Print medians and best of some rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mb", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    sides = ("ours", SECURED, "java")
    parser.add_argument("--sides", type=several(sides), default="ours,java", help=f"of {','.join(sides)}")
    parser.add_argument("--directory")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="rocketha-bench-", dir=options.directory))
    try:
        make_log(str(directory), options.mb << 20)
        found: dict[str, list[Found]] = {side: [] for side in options.sides}
        for _ in range(options.rounds):
            for side, values in found.items():
                values.append(catch_up(side, directory / "master", directory / "pair"))
                print(side, *(f"{value:.2f}" for value in values[-1]), flush=True)
        print(f"{options.mb} MB   median MB/s   best MB/s   s to queues   CPU s/GB of master, of slave")
        for side, values in found.items():
            middle = [statistics.median(column) for column in zip(*values, strict=True)]
            best = max(value.rate_mb_s for value in values)
            print(f"{side:8} {middle[0]:10.0f} {best:11.0f} {middle[1]:12.2f} {middle[2]:12.2f} {middle[3]:8.2f}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
