"""One of three processes that do what a replicated write cannot do without, and nothing else: no Raft, no Twisted.

    python benchmarks/raft_floor_node.py FOLDER PORT inline|thread [FOLLOWER_PORT ...]

Standard library alone, one epoll set.  The one with followers takes frames of the client's ``remoting`` dialect: it
sends each to the followers, appends it to a file, syncs that, and answers when one follower has done the same.  All
that came with one read has one sync and one message a follower.  ``thread`` syncs in a thread, as a server must that
wants to notice a disk that stands still; ``inline`` in the loop.

No program in this Python can replicate a write for less, so its figures bound ours.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

HEADER = struct.Struct(">hBhiiii")
FILE_BYTES = 1 << 30
READ_BYTES = 1 << 18
LENGTH = struct.Struct(">i")


class Log:
    """A file that is appended to and synced."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / "log", os.O_RDWR | os.O_CREAT)
        os.posix_fallocate(self._fd, 0, FILE_BYTES)
        os.fsync(self._fd)
        self._end = 0

    def append(self, data: bytes) -> None:
        """Write it, unsynced."""
        if self._end + len(data) > FILE_BYTES:
            self._end = 0
        os.pwrite(self._fd, data, self._end)
        self._end += len(data)

    def sync(self) -> None:
        """Return when all that was appended is on the disk."""
        os.fdatasync(self._fd)


class Syncer:
    """Syncs in the loop, or in a thread that wakes it; ``done`` is called in the loop, once for each sync, in order."""

    def __init__(self, log: Log, done: Callable[[], None], threaded: bool) -> None:
        self._log = log
        self._done = done
        self.wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._asked: SimpleQueue[None] | None = None
        if threaded:
            self._asked = SimpleQueue()
            threading.Thread(target=self._run, args=(self._asked,), daemon=True).start()

    def ask(self) -> None:
        """Sync what was appended."""
        if self._asked is None:
            self._log.sync()
            self._done()
        else:
            self._asked.put(None)

    def _run(self, asked: SimpleQueue[None]) -> None:
        while True:
            asked.get()
            self._log.sync()
            os.eventfd_write(self.wake, 1)

    def woken(self) -> None:
        """The thread has synced so often."""
        for _ in range(os.eventfd_read(self.wake)):
            self._done()


def frames(rest: bytes) -> tuple[list[bytes], bytes]:
    """The whole frames at the beginning of what came, and what is behind them."""
    found, start = [], 0
    while len(rest) - start >= LENGTH.size:
        end = start + LENGTH.size + LENGTH.unpack_from(rest, start)[0]
        if end > len(rest):
            break
        found.append(rest[start:end])
        start = end
    return found, rest[start:]


class Node:
    """The loop, and what is said on its connections."""

    def __init__(self, folder: Path, port: int, threaded: bool, followers: list[int]) -> None:
        self._log = Log(folder)
        self._syncer = Syncer(self._log, self._synced, threaded)
        self._epoll = select.epoll()
        self._read: dict[int, Callable[[], None]] = {self._syncer.wake: self._syncer.woken}
        self._epoll.register(self._syncer.wake, select.EPOLLIN)
        self._rest: dict[socket.socket, bytes] = {}
        self._own, self._theirs = 0, 0  # batches synced here, and by the followers
        self._answered = 0
        self._batches: deque[list[tuple[socket.socket, bytes]]] = deque()
        self._followers = [socket.create_connection(("127.0.0.1", each)) for each in followers]
        self._acked = dict.fromkeys(self._followers, 0)
        self._applied = 0
        for each in self._followers:
            self._watch(each, self._acknowledged)
        listener = socket.create_server(("127.0.0.1", port))
        self._read[listener.fileno()] = lambda: self._watch(listener.accept()[0], self._came)
        self._epoll.register(listener.fileno(), select.EPOLLIN)

    def _watch(self, connection: socket.socket, came: Callable[[socket.socket, bytes], None]) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        number = connection.fileno()

        def read() -> None:
            try:
                data = connection.recv(READ_BYTES)
            except ConnectionError:
                data = b""
            if data:
                came(connection, data)
            else:
                self._epoll.unregister(number)
                del self._read[number]
                connection.close()

        self._rest[connection] = b""
        self._read[number] = read
        self._epoll.register(number, select.EPOLLIN)

    def run(self) -> None:
        """For ever."""
        while True:
            for number, _ in self._epoll.poll():
                self._read[number]()

    def _came(self, connection: socket.socket, data: bytes) -> None:
        """Frames: of clients here, or of the one that leads."""
        found, self._rest[connection] = frames(self._rest[connection] + data)
        if not found:
            return
        whole = b"".join(found)
        for follower in self._followers:
            follower.sendall(LENGTH.pack(len(whole)) + whole)
        self._log.append(whole)
        self._batches.append([(connection, each) for each in found])
        self._syncer.ask()

    def _synced(self) -> None:
        self._own += 1
        if self._followers:
            self._commit()
        else:  # a message of the one that leads is one frame, whatever is in it
            batch = self._batches.popleft()
            batch[0][0].sendall(b"+" * len(batch))

    def _acknowledged(self, connection: socket.socket, data: bytes) -> None:
        self._acked[connection] += len(data)
        self._theirs = max(self._acked.values())
        self._commit()

    def _commit(self) -> None:
        while self._answered < min(self._own, self._theirs):
            self._answered += 1
            for connection, frame in self._batches.popleft():
                self._applied += 1
                opaque = HEADER.unpack_from(frame, 8)[3]
                header = b'{"code":0,"opaque":%d,"flag":1}' % opaque
                body = struct.pack(">Q", self._applied)
                with suppress(OSError):  # a client that has ended
                    connection.sendall(struct.pack(">iI", 4 + len(header) + 8, len(header)) + header + body)


if __name__ == "__main__":
    place, port, how, *others = sys.argv[1:]
    Node(Path(place), int(port), how == "thread", [int(each) for each in others]).run()
