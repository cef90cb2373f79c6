"""Three PySyncObj nodes (PyPI), in a virtual environment under ``build/``; see raft_pysyncobj_node.py."""

from __future__ import annotations

import json
import subprocess
import venv
from collections.abc import Mapping
from pathlib import Path

from tests.interop.harness.ports import free_ports

from .raft_cluster import NODES, Cluster

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / "build" / "venv-pysyncobj"
REQUIREMENT = "pysyncobj>=0.3.17,<0.4"


def missing() -> str | None:
    """Install it when it is not there; why that failed, or None."""
    python = VENV / "bin" / "python"
    if not python.exists():
        venv.create(VENV, with_pip=True)
    there = subprocess.run([python, "-c", "import pysyncobj"], capture_output=True)
    if there.returncode:
        print(f"installing {REQUIREMENT} from PyPI into {VENV.relative_to(ROOT)}", flush=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", REQUIREMENT]
        done = subprocess.run(pip, capture_output=True, text=True)
        if done.returncode:
            return f"PySyncObj cannot be installed: {done.stderr.strip()[-200:]}"
    return None


class PySyncObjCluster(Cluster):
    """Its default settings, but with the journal synced before an entry is acknowledged: what the others promise too.

    By default it sends new entries every 100 ms, whatever waits.
    """

    name, dialect = "pysyncobj", "remoting"
    sync = True
    settings: Mapping[str, object] = {}

    def start(self) -> None:
        """Start all three and wait until one leads."""
        peers = [f"127.0.0.1:{port}" for port in free_ports(NODES)]
        self._ports = free_ports(NODES)
        for i, peer in enumerate(peers):
            folder = self.folder / f"n{i}"
            folder.mkdir()
            given = {
                "self": peer,
                "others": [other for other in peers if other != peer],
                "port": self._ports[i],
                "folder": str(folder),
                "sync": self.sync,
                "settings": self.settings,
            }
            node = Path(__file__).with_name("raft_pysyncobj_node.py")
            self.spawn(f"n{i}", [str(VENV / "bin" / "python"), str(node), json.dumps(given)])
        self.wait_until(lambda: self.leading() is not None, 20)

    def leader(self) -> str:
        """host:port of its client port."""
        leading = self.leading()
        if leading is None:
            raise RuntimeError("PySyncObj has no leader")
        return f"127.0.0.1:{self._ports[leading]}"


class AtOnceCluster(PySyncObjCluster):
    """Its documented setting for short answer times: each entry leaves at once, alone."""

    name = "pysyncobj-at-once"
    settings = {"appendEntriesUseBatch": False}


class TunedCluster(PySyncObjCluster):
    """As good as we could make it at many clients: new entries leave every 5 ms (heartbeats too: they are the same)."""

    name = "pysyncobj-5ms"
    settings = {"appendEntriesPeriod": 0.005}


class UnsyncedCluster(PySyncObjCluster):
    """As it is shipped: acknowledged when the page caches of a majority hold it."""

    name = "pysyncobj-unsynced"
    sync = False
