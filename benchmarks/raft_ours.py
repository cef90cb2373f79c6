"""Three members of ours; see raft_ours_node.py."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.interop.harness.ports import free_ports

from .raft_cluster import NODES, Cluster

ROOT = Path(__file__).resolve().parent.parent


class OurCluster(Cluster):
    """The Raft service with a register machine.

    :ivar profiles: where each member leaves what cProfile saw; "" for nowhere.
    """

    name, dialect = "ours", "remoting"
    profiles = ""

    def start(self) -> None:
        """Start all three and wait until one leads."""
        members = {f"n{i}": f"127.0.0.1:{port}" for i, port in enumerate(free_ports(NODES))}
        self._addresses = list(members.values())
        for member in members:
            folder = self.folder / member
            folder.mkdir()
            given = {"id": member, "members": members, "folder": str(folder)}
            if self.profiles:
                given["profile"] = os.path.join(self.profiles, f"{member}.prof")
            command = [sys.executable, "-m", "benchmarks.raft_ours_node", json.dumps(given)]
            self.spawn(member, command, {**os.environ, "PYTHONPATH": str(ROOT)})
        self.wait_until(lambda: self.leading() is not None, 20)

    def leader(self) -> str:
        """host:port where all of it is served."""
        leading = self.leading()
        if leading is None:
            raise RuntimeError("none of ours leads")
        return self._addresses[leading]
