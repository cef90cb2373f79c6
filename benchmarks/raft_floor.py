"""What a replicated write costs in this Python without Raft and without Twisted; see raft_floor_node.py."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from tests.interop.harness.ports import free_ports

from .raft_cluster import NODES, Cluster


def _open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class FloorCluster(Cluster):
    """Syncs in the loop.

    :ivar how: ``inline`` or ``thread``.
    """

    name, dialect = "floor", "remoting"
    how = "inline"

    def start(self) -> None:
        """Start the two that follow, then the one that leads."""
        self._ports = free_ports(NODES)
        first, *others = self._ports
        for port in (*others, first):
            folder = self.folder / str(port)
            folder.mkdir()
            command = [sys.executable, str(Path(__file__).with_name("raft_floor_node.py")), str(folder), str(port)]
            command += [self.how, *map(str, others if port == first else ())]
            self.spawn(str(port), command)
            self.wait_until(lambda port=port: _open(port), 20)  # type: ignore[misc]

    def leader(self) -> str:
        """host:port of the one with followers."""
        return f"127.0.0.1:{self._ports[0]}"


class ThreadedFloorCluster(FloorCluster):
    """Syncs in a thread."""

    name, how = "floor-thread", "thread"
