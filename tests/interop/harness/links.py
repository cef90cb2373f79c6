"""Replication links as the kernel sees them: who is connected to a port, and whether that was one connection all along.

Read from /proc/net, many times a second, so that it says the same of Java's links and of ours and asks neither.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

ESTABLISHED = "01"


def peers(port: int) -> set[int]:
    """The remote ports of the connections that are established to a local port, whatever the address."""
    found = set()
    for table in ("tcp", "tcp6"):
        path = Path("/proc/net") / table
        for line in path.read_text().splitlines()[1:] if path.exists() else []:
            _, local, remote, state, *_ = line.split()
            if state == ESTABLISHED and int(local.rsplit(":", 1)[1], 16) == port:
                found.add(int(remote.rsplit(":", 1)[1], 16))
    return found


class LinkWatch:
    """A thread that looks at one port every `every_s`; use with `with`. `seen` are all peers there ever were.

    A peer that comes back has another port, so a link that broke and was made again shows as two.
    """

    def __init__(self, port: int, every_s: float = 0.02) -> None:
        self.port = port
        self.every_s = every_s
        self.seen: set[int] = set()
        self.without = 0  # looks that found nobody
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"links-{port}", daemon=True)

    def __enter__(self) -> LinkWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(self.every_s):
            now = peers(self.port)
            self.seen |= now
            self.without += not now

    def stay(self, seconds: float) -> None:
        """Watch for so long: not a wait for an event, but the time in which none may come."""
        time.sleep(seconds)  # see above
