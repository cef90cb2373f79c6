"""All audits of one export, each engine in a process of its own: CPU seconds, seconds and MiB of memory.

``python -m benchmarks.spark_audits --mib 10,1024``: with DuckDB in the process, and with Spark and all its processes.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import spark_data

_SET_CHILD_SUBREAPER = 36  # prctl(2)


def adopt_orphans() -> None:
    """The JVM that PySpark starts outlives PySpark: it becomes a child of ours, whose CPU we are told."""
    if ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError("prctl")


def measured(command: list[str]) -> tuple[float, float, int]:
    """CPU seconds, seconds and the MiB of the largest process.

    :raises subprocess.CalledProcessError: an audit found something.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = time.perf_counter() - began
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, took, after.ru_maxrss >> 10


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", default="10", help="of log, one or more; 10,1024 (default %(default)s)")
    parser.add_argument("--body", type=int, default=1024, help="bytes of each (default %(default)s)")
    parser.add_argument("--engines", default="duckdb,spark", help="default %(default)s")
    given = parser.parse_args(arguments)
    adopt_orphans()
    for mib in map(int, given.mib.split(",")):
        with tempfile.TemporaryDirectory(prefix="rocketha-audits-") as folder:
            store, out = Path(folder, "store"), Path(folder, "export")
            count = spark_data.write_log(store, mib, given.body, min(mib, 1024) << 20)
            spark_data.export(store, out)
            cpus = {}
            for engine in given.engines.split(","):
                command = [sys.executable, "-m", "rocketha_spark", "all", str(out), "--engine", engine]
                cpus[engine], took, memory = measured(command)
                print(
                    f"{mib} MiB, {count} messages, {engine}: {cpus[engine]:.1f} CPU s, {took:.1f} s, {memory} MiB",
                    flush=True,
                )
            if len(cpus) > 1:
                first, second = cpus.values()
                print(f"{mib} MiB: {first / second:.3f} of the CPU", flush=True)


if __name__ == "__main__":
    main()
