"""What a replica's store costs on a real disk: raw appends and their dispatch, beside a master's own.

Run: ``python benchmarks/replica_append.py [directory]``.  A master's log of many small messages (128 bytes of body,
unique key and tag: about 330 bytes a record) is made first; then its bytes are appended to a replica in blocks of
several sizes, nothing synced, and dispatched; writing of queues and index is counted in, as in ``store_append.py``.
Limits (issue 3): more than 300 MB/s of raw appends, and a dispatch that costs no more than the master's append in
groups of 32, both a message.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import sys
import tempfile
import time

from benchmarks.store_append import HOST, NOW_MS, append_us, messages
from rocketha.store.config import StoreConfig
from rocketha.store.message_store import MessageStore
from rocketha.store.posix_disk import PosixDisk
from rocketha.store.raw_reader import RawReader
from rocketha.store.replica_log import ReplicaLog

ROUNDS = 5
COUNT = 32 * 1500
BLOCKS = (32 << 10, 256 << 10, 1 << 20)


def blocks(log: ReplicaLog, reader: RawReader, size: int) -> list[tuple[int, bytes]]:
    """The whole log, cut as a master cuts it."""
    found = []
    offset = log.begin
    while step := min(size, log.readable(offset)):
        found.append((offset, reader.read(offset, step)))
        offset += step
    return found


def open_replica(directory: str, name: str) -> ReplicaLog:
    """A store and its epochs."""
    disk, root = PosixDisk(), f"{directory}/{name}"
    store = MessageStore(disk, root, StoreConfig(), HOST)
    path = f"{root}/epochFileCheckpoint"
    store.load(NOW_MS, epoch_path=path)
    log = ReplicaLog(store, disk, path)
    log.load()
    return log


def copy(log: ReplicaLog, made: list[tuple[int, bytes]], count: int) -> tuple[float, float]:
    """Append and dispatch: seconds of CPU of the appends, microseconds of CPU a message of the dispatch."""
    begin = time.process_time()
    for offset, data in made:
        log.append_raw(offset, data)
    appended_s = time.process_time() - begin
    log.confirm(log.end)
    begin = time.process_time()
    now_ms = NOW_MS
    while log.dispatch():
        if log.store.queues.pending_bytes >= 1 << 17:
            now_ms += 1000
            for job in log.store.maintenance(now_ms, now_ms):
                job.run()
                log.store.finished(job, None)
    dispatch_us = (time.process_time() - begin) / count * 1e6
    assert log.dispatched_offset == log.end
    return appended_s, dispatch_us


def main() -> None:
    """Print medians and best of some rounds."""
    directory = tempfile.mkdtemp(prefix="rocketha-bench-", dir=sys.argv[1] if len(sys.argv) > 1 else None)
    try:
        append: list[float] = []
        raw: dict[int, list[float]] = {size: [] for size in BLOCKS}
        dispatch: list[float] = []
        for number in range(ROUNDS):
            master = open_replica(directory, f"master-{number}")
            master.promote()
            made = messages(number * COUNT, COUNT)
            gc.freeze()  # the messages made ahead are the benchmark's, a broker has none
            turns = [[made[at : at + 32]] for at in range(0, len(made), 32)]
            append.append(append_us(master.store, turns, len(made)))
            for size in BLOCKS:
                replica = open_replica(directory, f"replica-{number}-{size}")
                seconds, dispatch_us = copy(replica, blocks(master, master.reader(), size), COUNT)
                raw[size].append(master.end / seconds / 1e6)
                dispatch.append(dispatch_us)
                replica.store.close(NOW_MS)
            master.store.close(NOW_MS)
            shutil.rmtree(directory)
        for size, values in raw.items():
            name = f"raw append, {size >> 10} KiB"
            print(f"{name:28} median {statistics.median(values):7.0f} MB/s  best {max(values):7.0f} MB/s")
        for name, values in {"master's append in groups": append, "dispatch": dispatch}.items():
            print(f"{name:28} median {statistics.median(values):7.2f} us    best {min(values):7.2f} us a message")
        print(f"dispatch / master's append   {statistics.median(dispatch) / statistics.median(append):.2f}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
