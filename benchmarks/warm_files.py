"""What it gains on a file system that a commit log file is made ahead, and written with zeros ahead.

Run: ``python -m benchmarks.warm_files DIRECTORY...``, each on the file system that is asked about.  A file of 256 MiB
is made as the store makes one: sparse, with its blocks allocated (as by default), and written with zeros beforehand
(``warmMapedFileEnable``).  Then 4 KiB are written and synced so often, one after the other, as under SYNC_FLUSH.
Printed are microseconds of write and fdatasync together: median, p99, the longest; and the seconds that making took.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

from rocketha.store.commitlog import _warm
from rocketha.store.posix_disk import PosixDisk

BYTES, BLOCK, ROUNDS = 256 << 20, b"x" * 4096, 5000
KINDS = {"sparse": (False, False), "allocated": (True, False), "zeros": (True, True)}


def measure(directory: Path, allocates: bool, warms: bool) -> tuple[float, list[float]]:
    """Seconds of making, and microseconds of each sync."""
    path = str(directory / "warm-files")
    disk = PosixDisk()
    began = time.perf_counter()
    file = disk.create(path, BYTES, allocates)
    try:
        if warms:
            _warm(file, BYTES)
        file.sync()
        made_s = time.perf_counter() - began
        taken = []
        for number in range(ROUNDS):
            began = time.perf_counter()
            file.write(number * len(BLOCK), [BLOCK])
            file.sync()
            taken.append((time.perf_counter() - began) * 1e6)
        return made_s, taken
    finally:
        file.close()
        os.unlink(path)


def main() -> None:
    """Print the table."""
    for name in sys.argv[1:] or ["."]:
        for kind, (allocates, warms) in KINDS.items():
            made_s, taken = measure(Path(name), allocates, warms)
            taken.sort()
            p99, middle = taken[int(len(taken) * 0.99)], statistics.median(taken)
            found = f"p50 {middle:6.0f}  p99 {p99:6.0f}  longest {taken[-1]:7.0f} us"
            print(f"{name:12} {kind:10} made {made_s:5.2f} s  {found}")


if __name__ == "__main__":
    main()
