"""One PySyncObj node with a port for clients; runs in a virtual environment of its own, with the standard library.

    python raft_pysyncobj_node.py '{"self": "127.0.0.1:7001", "others": [...], "port": 8001, "folder": "...", ...}'

As fast as the library lets it be: one thread, no automatic ticking; the clients' sockets are in PySyncObj's own poller,
and a write is a replicated method whose callback writes the answer.

What it syncs.  PySyncObj 0.3 keeps its journal in a memory map that it flushes only when it ends: an acknowledgement
says that the entry is in the page caches of a majority, so it survives the process, not the machine.  With ``"sync"``
this node flushes the journal (msync) once for all entries it took in before it acknowledges them to the leader, and
before the leader counts itself: the same promise as etcd's and ours, at the price of one sync a batch.
"""

import functools
import json
import os
import socket
import struct
import sys

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated
from pysyncobj import journal as journals

READ, ERROR = 1, 4
HEADER = b'{"code":%d,"flag":1,"language":"PYTHON","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":513}'


class SyncedJournal(journals.FileJournal):
    """Knows whether anything was added since the last flush."""

    dirty = False

    def add(self, command, idx, term):
        super().add(command, idx, term)
        self.dirty = True

    def sync(self):
        if self.dirty:
            self.dirty = False
            self.flush()


class Registers(SyncObj):
    """key -> value; answers with the number of writes so far."""

    def __init__(self, address, others, conf):
        super().__init__(address, others, conf)
        self.values = {}
        self.writes = 0

    @replicated
    def put(self, key, value):
        self.values[key] = value
        self.writes += 1
        return self.writes


class ClientPort:
    """Remoting frames in, answers out, in PySyncObj's poller."""

    def __init__(self, node, port):
        self.node = node
        self.poller = node._poller
        self.listening = socket.create_server(("127.0.0.1", port), backlog=2048)
        self.listening.setblocking(False)
        self.poller.subscribe(self.listening.fileno(), self.accept, READ)
        self.connections = {}
        self.talkative = {}

    def accept(self, fd, event):
        while True:
            try:
                connection, _ = self.listening.accept()
            except BlockingIOError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            self.connections[connection.fileno()] = (connection, bytearray())
            self.poller.subscribe(connection.fileno(), self.read, READ | ERROR)

    def read(self, fd, event):
        connection, rest = self.connections[fd]
        try:
            data = connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.poller.unsubscribe(fd)
            del self.connections[fd]
            connection.close()
            return
        rest += data
        while len(rest) >= 8:
            length, word = struct.unpack_from(">iI", rest)
            if len(rest) < 4 + length:
                return
            opaque = struct.unpack_from(">i", rest, 13)[0]
            body = bytes(rest[8 + (word & 0xFFFFFF) : 4 + length])
            del rest[: 4 + length]
            self.node.put(body[:8], body[8:], callback=functools.partial(self.answer, fd, opaque))

    def answer(self, fd, opaque, writes, failure):
        """All answers of one commit leave together."""
        header = HEADER % (0 if failure == FAIL_REASON.SUCCESS else 1, opaque)
        body = (writes or 0).to_bytes(8, "big")
        frame = struct.pack(">iI", 4 + len(header) + 8, len(header)) + header + body
        self.talkative[fd] = self.talkative.get(fd, b"") + frame

    def flush(self):
        talkative, self.talkative = self.talkative, {}
        for fd, data in talkative.items():
            if fd in self.connections:
                self.connections[fd][0].send(data)


def main(given):
    role = os.path.join(given["folder"], "role")

    def changed(old, new):
        with open(role, "w") as file:
            file.write("leader" if new == 2 else "follower")

    if given["sync"]:
        journals.FileJournal = SyncedJournal
    conf = SyncObjConf(
        autoTick=False,
        journalFile=os.path.join(given["folder"], "journal"),
        fullDumpFile=os.path.join(given["folder"], "dump"),
        onStateChanged=changed,
        **given["settings"],
    )
    node = Registers(given["self"], given["others"], conf)
    port = ClientPort(node, given["port"])
    journal = node._SyncObj__raftLog
    if given["sync"]:
        transport = node._SyncObj__transport
        send = transport.send

        def send_synced(to, message):
            if message["type"] == "next_node_idx":
                journal.sync()
            return send(to, message)

        transport.send = send_synced
    while True:
        if given["sync"]:
            journal.sync()
        node.doTick(0.05)
        if port.talkative:
            port.flush()


main(json.loads(sys.argv[1]))
