"""Records ``tests/store/data/java-5.5.0-*.tar.gz``: store directories written by a real Java 5.5.0 broker.

Run from the repository: ``python -m tests.store.record_java_store``.  Needs a JDK and the harness's jars.  Small
files, so that every kind rolls: log files of 32 KiB, queue files of 50 entries, index files of 100 slots and 200
units.  Two directories: after a clean stop, and after kill -9 of the broker that went on with the same directory.
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

from tests.interop.harness import JavaBroker, JavaClient, JavaNamesrv
from tests.interop.harness.processes import scratch

DATA = Path(__file__).resolve().parent / "data"
EXTRA = {
    "mappedFileSizeCommitLog": 32768,
    "maxMessageSize": 8192,
    "mappedFileSizeConsumeQueue": 20 * 50,
    "maxHashSlotNum": 100,
    "maxIndexNum": 200,
    "flushIntervalCommitLog": 200,
    "timerWheelEnable": False,
    "enableScheduleMessageStats": False,
}
KEPT = ("commitlog", "consumequeue", "index", "checkpoint", "abort", "lock")


def pack(root: Path, name: str) -> None:
    """The parts of a store that are ours to understand, without names, owners and times of this machine."""
    with tarfile.open(DATA / f"java-5.5.0-{name}.tar.gz", "w:gz", compresslevel=9) as archive:
        for kept in KEPT:
            for path in sorted([root / kept, *(root / kept).rglob("*")]):
                if path.is_file():
                    data = path.read_bytes()
                    entry = tarfile.TarInfo(str(path.relative_to(root)))
                    entry.size = len(data)
                    archive.addfile(entry, io.BytesIO(data))


def send(client: JavaClient, who: str) -> None:
    """Plain, batched, delayed, tagged, keyed, empty and larger messages in two topics."""
    client.producer(who)
    common = {"producer": who, "text": True}
    client.send(
        "Alpha", "sync", 120, prefix=f"{who}-a", tags=["A", "Bé", "C"], props={"user": "ü"}, max_size=300, **common
    )
    client.send("Alpha", "batch", 60, prefix=f"{who}-b", tags=["A"], max_size=100, batch=20, **common)
    client.send("Beta", "sync", 30, prefix=f"{who}-c", flag=-5, max_size=3000, **common)
    client.send("Beta", "sync", 5, prefix=f"{who}-d", delay_level=3, tags=["D"], **common)
    client.stop_producer(who)


def main() -> int:
    """Record both."""
    folder = scratch("java-store")
    namesrv = JavaNamesrv("namesrv", folder / "namesrv")
    namesrv.start()
    client = JavaClient(namesrv.address, folder=folder / "client")
    client.start()
    broker = JavaBroker(folder / "broker", namesrv, EXTRA)
    try:
        broker.start()
        send(client, "one")
        broker.stop()
        pack(broker.root, "stopped")
        broker.start()
        send(client, "two")
        broker.kill()
        pack(broker.root, "killed")
    finally:
        client.stop()
        broker.kill()
        namesrv.kill()
    for path in sorted(DATA.glob("*.tar.gz")):
        sys.stdout.write(f"{path.name} {path.stat().st_size}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
