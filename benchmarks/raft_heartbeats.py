"""Heartbeats of 5,000 simulated brokers at one a second against one controller of three: what they cost, who waits.

    make bench-heartbeats
    python -m benchmarks.raft_heartbeats --brokers 1000 --seconds 5          a quick look

Three controllers with default settings but for the number of connections.  All brokers are connected to the one that
leads (raft_fleet.py), registered, a third of them elected; a client asks it 1005 and 1003 in turn, every 10 ms, before
they come and while they beat.  CPU share is that of one core.  Afterwards the sets are looked through: an epoch over 1
is a switch that nothing called for.
"""

from __future__ import annotations

import argparse
import json
import resource
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.interop.harness.ports import free_ports
from tests.interop.harness.roles import our_environment, twistd

from .machine import busy_seconds, rss_bytes
from .raft_cluster import NODES, Cluster
from .raft_fleet import APPLY_ID, REGISTER, Answers, frame

GET_METADATA, GET_REPLICA_INFO = 1005, 1004
FILES_MIN = 16_384
SETTINGS = ["--set", "connectionsMax=20000"]


class Client:
    """One connection that asks and waits."""

    def __init__(self, server: str) -> None:
        host, _, port = server.rpartition(":")
        self._sock = socket.create_connection((host, int(port)), timeout=10)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = Answers()

    def ask(self, code: int, fields: dict[str, str]) -> dict[str, Any]:
        """The header of the answer, which must be a success."""
        self._sock.sendall(frame(code, 1, fields))
        headers: list[dict[str, Any]] = []
        while not headers:
            headers = self._answers.feed(self._sock.recv(1 << 16))
        if headers[0]["code"]:
            raise RuntimeError(f"{code}: {headers[0]}")
        return headers[0]


class Controllers(Cluster):
    """Three of ours, as an operator starts them."""

    name = "controller"

    def start(self) -> None:
        """Start all three and wait until one leads."""
        self._addresses = [f"127.0.0.1:{port}" for port in free_ports(NODES)]
        peers = ";".join(f"n{i}-{address}" for i, address in enumerate(self._addresses))
        for i in range(NODES):
            flags = [
                "--peers",
                peers,
                "--id",
                f"n{i}",
                "--data",
                str(self.folder / f"n{i}"),
                "--set",
                "connectionsMax=20000",
            ]
            self.spawn(f"n{i}", twistd("rocketha-controller", *flags), our_environment())
        self.wait_until(lambda: self._leader() is not None, 40)

    def leader(self) -> str:
        """Who leads."""
        found = self._leader()
        if found is None:
            raise RuntimeError("no controller leads")
        return found

    def _leader(self) -> str | None:
        try:
            fields = Client(self._addresses[0]).ask(GET_METADATA, {}).get("extFields") or {}
        except OSError:
            return None
        return fields.get("controllerLeaderAddress") or None


def waits(client: Client, seconds: float) -> dict[int, list[float]]:
    """Milliseconds for each answer, by code."""
    register = {"clusterName": "bench", "brokerName": "asker", "brokerId": "1", "brokerAddress": "127.0.0.1:1"}
    found: dict[int, list[float]] = {GET_METADATA: [], REGISTER: []}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for code in found:
            fields = {**register, "invokeTime": str(int(time.time() * 1000))} if code == REGISTER else {}
            begin = time.perf_counter()
            client.ask(code, fields)
            found[code].append((time.perf_counter() - begin) * 1e3)
            time.sleep(0.01)
    return found


def said(found: dict[int, list[float]]) -> str:
    parts = []
    for code, times in found.items():
        times.sort()
        parts.append(
            f"{code}: p50 {statistics.median(times):.2f} p99 {times[int(len(times) * 0.99)]:.2f} max {times[-1]:.1f}"
        )
    return "ms of " + ", ".join(parts)


def window(cluster: Controllers, client: Client, seconds: float, title: str) -> None:
    """Ask for a while and say what that and everything else cost."""
    leading = cluster._addresses.index(cluster.leader())
    before, busy = cluster.cpu_seconds(), busy_seconds()
    begin = time.monotonic()
    times = waits(client, seconds)
    took = time.monotonic() - begin
    shares = [(b - a) / took for a, b in zip(before, cluster.cpu_seconds(), strict=True)]
    others = (busy_seconds() - busy) / took - sum(shares)
    rss = rss_bytes(cluster.processes[leading].pid) / 2**20
    rest = ", ".join(f"{share:.1%}" for i, share in enumerate(shares) if i != leading)
    print(
        f"{title:28} leader {shares[leading]:.1%} of a core, {rss:.0f} MiB; the others {rest}; {said(times)}; "
        f"rest of the machine {others:.2f} cores",
        flush=True,
    )


def switched(client: Client, brokers: int) -> int:
    """Sets whose master changed."""
    count = 0
    for number in range((brokers + 2) // 3):
        header = client.ask(GET_REPLICA_INFO, {"brokerName": f"broker-{number:04d}"})
        count += int((header.get("extFields") or {}).get("masterEpoch", -1)) != 1
    return count


def main(argv: list[str]) -> int:
    """Run once."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.raft_heartbeats",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--brokers", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=10, help="of a window")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args(argv)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, FILES_MIN)), hard))
    cluster = Controllers()
    try:
        cluster.start()
        client = Client(cluster.leader())
        asker = {"clusterName": "bench", "brokerName": "asker", "appliedBrokerId": "1"}
        client.ask(APPLY_ID, {**asker, "registerCheckCode": "127.0.0.1:1;1"})
        window(cluster, client, given.seconds, "no brokers")
        command = [sys.executable, str(Path(__file__).with_name("raft_fleet.py")), cluster.leader()]
        command += ["--brokers", str(given.brokers)]
        begin = time.monotonic()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as fleet:
            assert fleet.stdin is not None and fleet.stdout is not None
            if not fleet.stdout.readline():
                raise RuntimeError(f"the brokers could not register\n{cluster.said()}")
            print(f"{given.brokers} brokers registered in {time.monotonic() - begin:.1f} s", flush=True)
            time.sleep(2)
            for _ in range(given.repeat):
                window(cluster, client, given.seconds, f"{given.brokers} heartbeats a second")
            count = switched(client, given.brokers)
            fleet.stdin.close()
            sent = json.loads(fleet.stdout.readline())
        print(f"the fleet: {sent}; sets that changed their master: {count}", flush=True)
    finally:
        cluster.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
