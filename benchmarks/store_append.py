"""CPU time of the store's hot paths on a real disk: append in groups of 32 and singly, get of 32 interleaved messages.

Run: ``python benchmarks/store_append.py [directory]``.  Queue and index writing are counted in: the jobs that write
them run inside the measured time.  Limits of the first release (issue 1): 5 us a message in groups, 12 us singly, 40
us a get.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import sys
import tempfile
import time

from rocketha.store.config import StoreConfig
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import PutMessage
from rocketha.store.posix_disk import PosixDisk

HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")
ROUNDS = 5
NOW_MS = 1_700_000_000_000


def messages(first: int, count: int) -> list[PutMessage]:
    """What a Java producer's messages look like in the store: 128 bytes, a unique key, a tag."""
    made = []
    for number in range(first, first + count):
        unique = f"7F0000010A2B18B4AAC2{number >> 8:08X}{number & 0xFFFF:04X}"
        properties = f"MSG_REGION\x01DefaultRegion\x02UNIQ_KEY\x01{unique}\x02CLUSTER\x01Default\x02TAGS\x01TagA\x02"
        made.append(
            PutMessage(
                "BenchTopic",
                number % 8,
                0,
                0,
                NOW_MS,
                HOST,
                0,
                0,
                b"x" * 128,
                properties.encode(),
                2598919,
                (unique, "T#TagA"),
            )
        )
    return made


def append_us(store: MessageStore, groups: list[list[list[PutMessage]]], count: int) -> float:
    """Microseconds of CPU a message."""
    begin = time.process_time()
    now_ms = NOW_MS
    for turn in groups:
        store.append(turn, now_ms)
        if store.queues.pending_bytes >= 1 << 17:  # about once a second at 6,000 messages a second
            now_ms += 1000
            for job in store.maintenance(now_ms, now_ms):
                job.run()
                store.finished(job, None)
    return (time.process_time() - begin) / count * 1e6


def get_us(store: MessageStore) -> float:
    """Microseconds of CPU a get of 32 messages of one of eight interleaved queues."""
    reads = 3000
    begin = time.process_time()
    for number in range(reads):
        result = store.get("BenchTopic", number % 8, number % 1000, 32, 1 << 18)
        assert result.count == 32
    return (time.process_time() - begin) / reads * 1e6


def main() -> None:
    """Print medians and best of some rounds."""
    directory = tempfile.mkdtemp(prefix="rocketha-bench-", dir=sys.argv[1] if len(sys.argv) > 1 else None)
    try:
        store = MessageStore(PosixDisk(), directory, StoreConfig(), HOST)
        store.load(NOW_MS)
        results: dict[str, list[float]] = {"append, groups of 32": [], "append, single": [], "get of 32": []}
        number = 0
        for _ in range(ROUNDS):
            made = messages(number, 32 * 600)
            number += len(made)
            gc.freeze()  # the messages made ahead are the benchmark's, a broker has none
            turns = [[made[at : at + 32]] for at in range(0, len(made), 32)]
            results["append, groups of 32"].append(append_us(store, turns, len(made)))
            made = messages(number, 8000)
            number += len(made)
            results["append, single"].append(append_us(store, [[[one]] for one in made], len(made)))
            results["get of 32"].append(get_us(store))
        for name, values in results.items():
            print(f"{name:24} median {statistics.median(values):6.2f} us   best {min(values):6.2f} us")
        store.close(NOW_MS)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
