"""Loopback ports that no other test run on this machine is using.

A broker takes four neighbours (listen-2 is Java's "fast" port, listen+1 replication), so ports are handed out in
blocks of ten below the kernel's ephemeral range. A block belongs to whoever holds the lock on its file; locks end
with the process.
"""

from __future__ import annotations

import fcntl
import functools
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST, LAST, BLOCK = 20000, 31990, 10
_held: dict[int, int] = {}
_singles: list[int] = []  # of blocks that are ours, not given out yet


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@functools.cache
def ipv6() -> bool:
    """Whether this machine has the loopback address of IPv6."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def block(blocks: int = 1) -> int:
    """The middle port `p` of a block where p-4 .. p+5 are free and reserved until this process ends.

    Of several neighbouring `blocks` it is that of the first.
    """
    folder = Path(tempfile.gettempdir()) / f"rocketha-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    bases = list(range(FIRST, LAST, BLOCK))
    random.shuffle(bases)
    for base in bases:
        wanted = range(base, base + blocks * BLOCK, BLOCK)
        if wanted[-1] > LAST or any(each in _held for each in wanted):
            continue
        handles = {}
        for each in wanted:
            handles[each] = os.open(folder / str(each), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            for handle in handles.values():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if all(_free(port) for port in range(base, wanted[-1] + BLOCK)):
                _held.update(handles)
                return base + 4
        except OSError:
            pass  # another run has one of them
        for handle in handles.values():
            os.close(handle)
    raise AssertionError("no free block of ports on loopback")


def free_ports(count: int) -> list[int]:
    """Ports without neighbours, each given out once in a run.

    A port of the ephemeral range, found by listening on 0, may be some connection's own by the time it is used.
    """
    while len(_singles) < count:
        middle = block()
        _singles.extend(range(middle - 4, middle + 6))
    return [_singles.pop() for _ in range(count)]
