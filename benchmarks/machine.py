"""What processes cost and what the machine did meanwhile, read from /proc ten times a second; how full a disk is."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK


def rss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:")), 0)


def busy_seconds(*, niced: bool = True) -> float:
    """CPU time that the whole machine has spent on anything but idling and waiting for disks.

    Not `niced`: nor on programs that were started to give way.
    """
    user, nice, system, _idle, _iowait, *rest = (
        int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + system + sum(rest) + (nice if niced else 0)) / TICK


class Sample(NamedTuple):
    at_s: float  # of time.time()
    broker: float
    client: float
    beside: tuple[float, ...]
    busy: float
    rss: int


class Cost(NamedTuple):
    """Over a window: CPU seconds of broker, client, whom else we know, and all others (kernel included); the broker's
    largest RSS."""

    seconds: float
    broker: float
    client: float
    beside: tuple[float, ...]
    others: float
    rss: int


class Sampler:
    """Samples two processes, and those that work beside the broker, until stopped."""

    def __init__(self, broker: int, client: int, beside: Sequence[int] = ()) -> None:
        self._pids = (broker, client, *beside)
        self._samples: list[Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            broker, client, *beside = map(cpu_seconds, self._pids)
            self._samples.append(
                Sample(time.time(), broker, client, tuple(beside), busy_seconds(), rss_bytes(self._pids[0]))
            )
            if self._stop.wait(0.1):
                return

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def cost(self, begin_s: float, end_s: float) -> Cost:
        """What was used between two times of time.time()."""
        window = [s for s in self._samples if begin_s <= s.at_s <= end_s] or self._samples
        first, last = window[0], window[-1]
        broker, client = last.broker - first.broker, last.client - first.client
        beside = tuple(after - before for before, after in zip(first.beside, last.beside, strict=True))
        others = max(0.0, last.busy - first.busy - broker - client - sum(beside))
        return Cost(last.at_s - first.at_s, broker, max(0.0, client), beside, others, max(s.rss for s in window))
