"""Loopback ports that no other test run on this machine is using.

A broker takes four neighbours (listen-2 is Java's "fast" port, listen+1 replication), so ports are handed out in
blocks of ten below the kernel's ephemeral range. A block belongs to whoever holds the lock on its file; locks end
with the process.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

FIRST, LAST, BLOCK = 20000, 31990, 10
_held: dict[int, int] = {}


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def block() -> int:
    """The middle port `p` of a block where p-4 .. p+5 are free and reserved until this process ends."""
    folder = Path(tempfile.gettempdir()) / f"rocketha-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    bases = list(range(FIRST, LAST, BLOCK))
    random.shuffle(bases)
    for base in bases:
        if base in _held:
            continue
        handle = os.open(folder / str(base), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            continue
        if all(_free(port) for port in range(base, base + BLOCK)):
            _held[base] = handle
            return base + 4
        os.close(handle)
    raise AssertionError("no free block of ports on loopback")
