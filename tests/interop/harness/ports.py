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
