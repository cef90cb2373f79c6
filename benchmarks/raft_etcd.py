"""Three etcd nodes on loopback, as Debian ships them, with default durability.

The nodes' data lies beside ours on the same disk.  Only what makes three processes one cluster is set, and
``--log-level error``, which keeps its log out of the measurement.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request

from tests.interop.harness.ports import free_ports

from .raft_cluster import NODES, Cluster

PACKAGE = "etcd-server"


def missing() -> str | None:
    """Install it where that can be done and it is not there, saying so; why there is none, or None."""
    if shutil.which("etcd") is not None:
        return None
    command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", PACKAGE]
    if shutil.which("apt-get") is None or os.geteuid():
        return f"etcd is not installed; as root on Debian: {' '.join(command)}"
    print(f"installing {PACKAGE} by apt-get", flush=True)
    subprocess.run(["apt-get", "update", "--quiet"], capture_output=True)
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    )
    return None if not done.returncode else f"{PACKAGE} cannot be installed: {done.stderr.strip()[-200:]}"


class EtcdCluster(Cluster):
    """Three processes; :meth:`leader` is the client address of the one that leads."""

    name, dialect = "etcd", "etcd"

    def start(self) -> None:
        """Start all three and wait until one leads and all agree."""
        peers, clients = free_ports(NODES), free_ports(NODES)
        whole = ",".join(f"n{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
        self._clients = [f"127.0.0.1:{port}" for port in clients]
        for i, port in enumerate(peers):
            folder = self.folder / f"n{i}"
            command = [
                "etcd",
                "--name",
                f"n{i}",
                "--data-dir",
                str(folder),
                "--initial-cluster-state",
                "new",
                "--initial-cluster",
                whole,
                "--initial-cluster-token",
                self.folder.name,
                "--listen-peer-urls",
                f"http://127.0.0.1:{port}",
                "--initial-advertise-peer-urls",
                f"http://127.0.0.1:{port}",
                "--listen-client-urls",
                f"http://{self._clients[i]}",
                "--advertise-client-urls",
                f"http://{self._clients[i]}",
                "--logger",
                "zap",
                "--log-level",
                "error",
                "--log-outputs",
                "stderr",
            ]
            self.spawn(f"n{i}", command)
        self.wait_until(self._agreed, 20)

    def leader(self) -> str:
        """host:port of its client port."""
        found = self._leader()
        if found is None:
            raise RuntimeError("etcd has no leader")
        return found

    def _status(self, address: str) -> dict[str, object]:
        request = urllib.request.Request(f"http://{address}/v3/maintenance/status", b"{}")
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                status: dict[str, object] = json.load(answer)
                return status
        except (urllib.error.URLError, OSError):
            return {}

    def _leader(self) -> str | None:
        for address in self._clients:
            status = self._status(address)
            head = status.get("header")
            if isinstance(head, dict) and status.get("leader") == head.get("member_id"):
                return address
        return None

    def _agreed(self) -> bool:
        leaders = {self._status(address).get("leader") for address in self._clients}
        return len(leaders) == 1 and None not in leaders and "0" not in leaders and self._leader() is not None
