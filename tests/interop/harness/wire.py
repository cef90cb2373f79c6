"""A network of our own between real processes: one namespace a host, and this process is the cable between them.

Each host has a tun device; its other end is read here, and every packet is passed on, held back or thrown away. So a
link between two hosts can be cut in one direction, lose packets or be slow, with the kernel's real TCP on both ends,
and without netem or nftables, which many kernels do not bring.

Run as ``python -m tests.interop.harness.wire`` with JSON commands on stdin (see `Network` in network.py, which starts
it). It must be root. Namespaces live as long as their holder processes, devices as long as this process.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import shutil
import struct
import subprocess
import sys
import time
from typing import Any

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
PACKETS_A_TURN = 64
HELD_MAX = 50_000


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")


class Cable:
    """All hosts' tun devices. A rule is keyed by (from, to); no rule: pass at once."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.handles: list[int] = []
        self.by_ip: dict[bytes, int] = {}
        self.holders: list[subprocess.Popen[bytes]] = []
        self.cut: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.delay_s = 0.0
        self.quiet: set[int] = set()  # hosts that loss and delay leave alone: the test's own
        self.held: list[tuple[float, int, int, bytes]] = []
        self.chance = random.Random(1)
        self.counts = {"passed": 0, "cut": 0, "lost": 0}
        self._number = 0

    def add(self, name: str, ip: str, *, here: bool = False) -> int:
        """A host. `here`: in this process's own namespace. The pid that holds its namespace (0 for here)."""
        handle = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        device = f"rk{os.getpid() % 100000}h{len(self.names)}"
        fcntl.ioctl(handle, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
        prefix: tuple[str, ...] = ()
        pid = 0
        if not here:
            # the kernel ends the holder, and with it the namespace, when this process ends
            holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "-n", "sleep", "infinity"])
            self.holders.append(holder)
            pid = holder.pid
            self._await_namespace(pid)
            run("ip", "link", "set", device, "netns", str(pid))
            prefix = ("nsenter", "-t", str(pid), "-n")
            run(*prefix, "ip", "link", "set", "lo", "up")
        run(*prefix, "ip", "addr", "add", f"{ip}/24", "dev", device)
        run(*prefix, "ip", "link", "set", device, "mtu", "1500", "up")
        self.by_ip[bytes(int(part) for part in ip.split("."))] = len(self.names)
        if here:
            self.quiet.add(len(self.names))
        self.names.append(name)
        self.handles.append(handle)
        return pid

    @staticmethod
    def _await_namespace(pid: int) -> None:
        mine = os.readlink("/proc/self/ns/net")
        end = time.monotonic() + 60
        while os.readlink(f"/proc/{pid}/ns/net") == mine:
            if time.monotonic() > end:
                raise OSError("unshare -n made no network namespace")
            time.sleep(0.002)  # a new namespace sends no event

    def command(self, q: dict[str, Any]) -> dict[str, Any]:
        op = q["op"]
        if op == "add":
            return {"pid": self.add(q["name"], q["ip"], here=q.get("here", False))}
        if op == "rules":
            # [["a", "b"], ...]: what a sends to b does not arrive
            self.cut = {(self.names.index(a), self.names.index(b)) for a, b in q["cut"]}
            self.loss, self.delay_s = q["loss"], q["delay_ms"] / 1000
            return dict(self.counts)
        raise ValueError(f"no such command: {op}")

    def packet(self, source: int, data: bytes) -> None:
        to = self.by_ip.get(data[16:20])
        if to is None or data[0] >> 4 != 4:
            return
        if (source, to) in self.cut:
            self.counts["cut"] += 1
            return
        if source in self.quiet or to in self.quiet:
            self.send(to, data)
            return
        if self.loss and self.chance.random() < self.loss:
            self.counts["lost"] += 1
            return
        if self.delay_s and len(self.held) < HELD_MAX:
            self._number += 1
            heapq.heappush(self.held, (time.monotonic() + self.delay_s, self._number, to, data))
            return
        self.send(to, data)

    def send(self, to: int, data: bytes) -> None:
        try:
            os.write(self.handles[to], data)
            self.counts["passed"] += 1
        except OSError:
            self.counts["lost"] += 1  # its queue is full: a network may lose packets

    def pump(self, source: int) -> None:
        handle = self.handles[source]
        for _ in range(PACKETS_A_TURN):
            try:
                data = os.read(handle, 65536)
            except BlockingIOError:
                return
            self.packet(source, data)

    def release(self) -> float:
        """Pass on what was held long enough; seconds until the next (-1: none)."""
        now = time.monotonic()
        while self.held and self.held[0][0] <= now:
            _due, _number, to, data = heapq.heappop(self.held)
            self.send(to, data)
        return self.held[0][0] - now if self.held else -1


def say(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    cable = Cable()
    poll = select.epoll()
    stdin = sys.stdin.fileno()
    poll.register(stdin, select.EPOLLIN)
    owners: dict[int, int] = {}
    pending = b""
    say({"ev": "ready"})
    while True:
        for handle, _events in poll.poll(cable.release()):
            if handle != stdin:
                cable.pump(owners[handle])
                continue
            data = os.read(stdin, 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                q = json.loads(line)
                try:
                    answer = cable.command(q)
                    for number, known in enumerate(cable.handles):
                        if known not in owners:
                            owners[known] = number
                            poll.register(known, select.EPOLLIN)
                except (OSError, ValueError) as why:
                    answer = {"error": str(why)}
                say({**answer, "re": q["id"]})


def needs() -> str:
    """Empty where this can run; else what is missing."""
    if os.geteuid() != 0:
        return "needs root"
    missing = [tool for tool in ("ip", "nsenter", "unshare", "setpriv") if shutil.which(tool) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    if not os.path.exists("/dev/net/tun"):
        return "needs /dev/net/tun"
    libc = ctypes.CDLL(None, use_errno=True)
    child = os.fork()
    if child == 0:
        os._exit(0 if libc.unshare(0x40000000) == 0 else 1)  # CLONE_NEWNET
    _, status = os.waitpid(child, 0)
    return "" if status == 0 else "may not make network namespaces"


if __name__ == "__main__":
    main()
