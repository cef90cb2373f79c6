"""Three processes that are one cluster, whoever made them: start, who leads, what they cost, stop."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

NODES = 3


def process_seconds(pid: int) -> float:
    """CPU time of a process so far, all its threads, to the nanosecond where the kernel's clocks allow it."""
    return time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of another process


class Cluster:
    """What the runner needs of one side.  A side's class says its name, the client's dialect, how to start it and who
    leads.
    """

    name = ""
    dialect = ""

    def __init__(self, directory: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"rocketha-bench-{self.name}-", dir=directory))
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all nodes; returns when one leads."""
        raise NotImplementedError

    def leader(self) -> str:
        """host:port where clients reach the one that leads."""
        raise NotImplementedError

    def spawn(self, name: str, command: list[str], env: Mapping[str, str] | None = None) -> None:
        """Start one node; what it says goes to a file."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env)
            )

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Ask every 50 ms; a node that ended ends the waiting too."""
        deadline = time.monotonic() + seconds
        while not ready():
            ended = [p for p in self.processes if p.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} did not start ({len(ended)} nodes ended)\n{self.said()}")
            time.sleep(0.05)

    def said(self) -> str:
        """The end of each node's log."""
        return "\n".join(log.read_text(errors="replace")[-2000:] for log in sorted(self.folder.glob("*.log")))

    def leading(self) -> int | None:
        """The one node whose ``role`` file (nodes of ours write it) says that it leads."""
        files = [self.folder / f"n{i}" / "role" for i in range(NODES)]
        leads = [i for i, file in enumerate(files) if file.exists() and file.read_text() == "leader"]
        return leads[0] if len(leads) == 1 else None

    def cpu_seconds(self) -> list[float]:
        """Of each node so far."""
        return [process_seconds(process.pid) for process in self.processes]

    def stop(self) -> None:
        """End the nodes and remove their data."""
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()
        if not os.environ.get("KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)
