"""HA links over real sockets on loopback, with stores on a real disk."""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, inlineCallbacks, succeed
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from rocketha.protocols.eager import queued_bytes
from rocketha.protocols.ha_connection import HaConnection
from rocketha.protocols.ha_master import MasterHaFactory, MasterHaProtocol, OpenLink
from rocketha.protocols.ha_slave import SlaveHaFactory, SlaveHaProtocol
from rocketha.replication.autoswitch_master import AutoswitchMaster
from rocketha.replication.autoswitch_slave import AutoswitchSlave
from rocketha.replication.classic_master import ClassicMaster
from rocketha.replication.classic_slave import ClassicSlave
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.epochs import EpochCache, EpochEntry
from rocketha.store.config import StoreConfig
from rocketha.store.posix_disk import PosixDisk
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.ha_frames import (
    SlaveHello,
    encode_classic_head,
    encode_classic_report,
    encode_report,
    encode_slave_hello,
)
from tests.protocols.ha_case import MARK, Owner, Replica
from tests.replication.links import Log, entries
from tests.store.replica_support import open_replica, raw

FILE = 1 << 20
CONFIG = StoreConfig(segment_size=FILE)
BIG = 1 << 30
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes close() send RST."""


class StoreOwner(Owner):
    """A master of a store."""

    def __init__(self, store: ReplicaLog, classic: bool) -> None:
        super().__init__(Log(), () if classic else store.epochs)
        self.store = store
        self.classic = classic
        self.confirm = ConfirmOffset(store.end, store.end)

    def open_link(self, connection: MasterHaProtocol, now_ms: int) -> OpenLink:
        machine: ClassicMaster | AutoswitchMaster
        if self.classic:
            machine = ClassicMaster(self.store, now_ms, self.timing, self.batch)
        else:
            cache = EpochCache(self.store.epochs)
            machine = AutoswitchMaster(self.store, cache, self.confirm, now_ms, self.timing, self.batch)
        return OpenLink(machine, self.store.reader())


class StoreReplica(Replica):
    """A replica's store."""

    def __init__(self, store: ReplicaLog, classic: bool, at_end: Callable[[int], None]) -> None:
        super().__init__(Log(), None if classic else store.epochs)
        self.store = store
        self.at_end = at_end

    def open_link(self, connection: SlaveHaProtocol, now_ms: int) -> ClassicSlave | AutoswitchSlave:
        store = self.store
        if self.epochs is None:
            return ClassicSlave(store.end, store.file_size, now_ms)
        return AutoswitchSlave(self.hello, store, store.epochs, 1, store.store.confirm_offset, now_ms)

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        self.store.append_raw(offset, data)

    def save_epochs(self, epochs: Sequence[EpochEntry]) -> Deferred[None]:
        self.store.save_epochs(epochs)
        return succeed(None)

    def align(self, offset: int, epochs: Sequence[EpochEntry]) -> Deferred[tuple[int, Sequence[EpochEntry]]]:
        end = self.store.truncate(offset, epochs)
        self.store.save_epochs([entry for entry in epochs if entry.start_offset <= end])
        return succeed((end, self.store.epochs))

    def confirm(self, offset: int) -> None:
        self.store.confirm(offset)

    def turn_ended(self, connection: SlaveHaProtocol) -> None:
        connection.appended(self.store.end)
        self.at_end(self.store.end)


class TcpCase(TestCase):
    """A port on loopback."""

    timeout = 300

    def setUp(self) -> None:
        from twisted.internet import reactor as installed

        self.reactor: Any = installed
        self.open: set[HaConnection[Any]] = set()
        self._awaited: list[Deferred[None]] = []
        made, lost = HaConnection.connectionMade, HaConnection.connectionLost

        def connection_made(connection: HaConnection[Any]) -> None:
            self.open.add(connection)
            made(connection)

        def connection_lost(connection: HaConnection[Any], reason: Failure) -> None:
            lost(connection, reason)
            self.open.discard(connection)
            if not self.open:
                awaited, self._awaited = self._awaited, []
                for each in awaited:
                    each.callback(None)

        self.patch(HaConnection, "connectionMade", connection_made)
        self.patch(HaConnection, "connectionLost", connection_lost)

    def listen(self, owner: Owner) -> int:
        self.owner = owner
        self.port = MasterHaFactory(owner, self.reactor)
        listening = self.reactor.listenTCP(0, self.port, interface="127.0.0.1")

        def stop() -> Any:
            self.port.abort_all("the test ends")
            return listening.stopListening()

        self.addCleanup(self.all_closed)
        self.addCleanup(stop)
        return int(listening.getHost().port)

    def all_closed(self) -> Deferred[None]:
        """When no connection is left, of either end: Twisted says so when it has closed the socket.  Neither the link's
        end nor that the reactor reads it no more is that: an aborted connection is closed in a later turn."""
        if not self.open:
            return succeed(None)
        self._awaited.append(Deferred())
        return self._awaited[-1]

    def until(self, condition: Callable[[], bool]) -> Deferred[None]:
        """When it holds."""
        if condition():
            return succeed(None)
        return deferLater(self.reactor, 0.002, self.until, condition)

    def store(self, size: int = 0) -> ReplicaLog:
        """A store; with that many bytes of no meaning, if any."""
        log = open_replica(PosixDisk(), CONFIG, root=str(Path(self.mktemp()).absolute()))
        self.addCleanup(log.store.close, 0)
        chance = random.Random(size)
        while log.end < size:
            log.append_raw(log.end, chance.randbytes(min(FILE - log.end % FILE, size - log.end)))
        return log


class CatchUpTests(TcpCase):
    """Logs of several files get over whole."""

    @inlineCallbacks
    def follow(self, classic: bool) -> Generator[Deferred[Any], Any, None]:
        master, replica = self.store(3 * FILE + 12345), self.store()
        if not classic:
            master.save_epochs(entries((1, 0), (2, 1_500_000)))
        port = self.listen(StoreOwner(master, classic))
        follower = StoreReplica(replica, classic, lambda end: None)
        endpoint = TCP4ClientEndpoint(self.reactor, "127.0.0.1", port)
        connection = yield endpoint.connect(SlaveHaFactory(follower, self.reactor))
        yield self.until(lambda: self.owner.of("acked")[-1:] == [("acked", master.end)])
        begin = 3 * FILE if classic else 0
        self.assertEqual((replica.begin, replica.end), (begin, master.end))
        self.assertTrue(raw(replica, begin) == raw(master, begin))
        if not classic:
            self.assertEqual((replica.epochs, replica.store.confirm_offset), (master.epochs, master.end))
        connection.close("the test ends")
        yield self.until(lambda: bool(self.owner.of("closed")))

    def test_classic(self) -> Deferred[None]:
        """A new classic replica begins with the last file."""
        return self.follow(classic=True)

    def test_controller_mode(self) -> Deferred[None]:
        """All files, epochs and the confirm offset."""
        return self.follow(classic=False)

    @inlineCallbacks
    def test_slave_that_does_not_read(self) -> Generator[Deferred[Any], Any, None]:
        """One block waits in our memory, however large the log; when the slave reads, all of it comes."""
        size = 32 << 20
        port = self.listen(Owner(Log(random.Random(1).randbytes(size), file_size=BIG)))
        peer = socket.create_connection(("127.0.0.1", port))
        self.addCleanup(peer.close)
        peer.sendall(encode_classic_report(1))
        yield self.until(lambda: bool(self.owner.of("acked")))
        (connection,) = self.port.connections.values()
        sent = -1
        while sent != connection.bytes_sent:
            sent = connection.bytes_sent
            yield deferLater(self.reactor, 0.1, lambda: None)
        waits = queued_bytes(connection.transport)
        self.assertTrue(0 < waits <= MARK + self.owner.batch + 100, waits)
        self.assertLess(sent, size)
        peer.setblocking(False)
        stream = bytearray()

        def read() -> bool:
            try:
                while data := peer.recv(1 << 20):
                    stream.extend(data)
            except BlockingIOError:
                pass
            return connection.machine.position == size and len(stream) == connection.bytes_sent

        yield self.until(read)
        log, at = bytearray(), 0
        while at < len(stream):
            offset, length = struct.unpack_from(">qi", stream, at)
            self.assertEqual(offset, 1 + len(log))
            log += stream[at + 12 : at + 12 + length]
            at += 12 + length
        self.assertTrue(log == self.owner.log.data[1:])


class ReconnectTests(TcpCase):
    """Connections that come and go in every way leave nothing."""

    @inlineCallbacks
    def test_a_thousand_slaves(self) -> Generator[Deferred[Any], Any, None]:
        """Who says nothing, half a word, nonsense; who leaves in the middle of a block, by FIN or RST."""
        port = self.listen(Owner(Log(bytes(8 << 20), file_size=BIG), entries((1, 0))))
        hello = encode_slave_hello(SlaveHello(2))
        words = (b"", hello[:7], hello, hello + encode_report(1), b"\xff" * 40, hello + encode_report(1 << 40))
        before = 0
        for number in range(1000):
            peer = socket.create_connection(("127.0.0.1", port))
            if number % 2:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            said = words[number % len(words)]
            if said:
                peer.sendall(said)
            if number % 5:
                yield self.until(lambda number=number: self.owner.opened > number)
            peer.close()
            yield self.until(lambda number=number: self.owner.opened > number)
            yield self.all_closed()
            if number == 50:
                before = len(os.listdir("/proc/self/fd"))
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
        self.assertEqual((len(self.owner.of("closed")), self.owner.open_readers, self.port.connections), (1000, 0, {}))
        self.assertGreater(len(self.owner.of("acked")), 100)

    @inlineCallbacks
    def test_hundreds_of_masters(self) -> Generator[Deferred[Any], Any, None]:
        """A slave whose master accepts and ends it, a hundred ways."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listening.close)
        words = (b"", b"\0" * 5, encode_classic_head(0, 1000) + bytes(500), encode_classic_head(77, 0), b"\xff" * 40)
        before = 0
        for number in range(300):
            replica = Replica(Log(file_size=BIG))
            endpoint = TCP4ClientEndpoint(self.reactor, *listening.getsockname())
            yield endpoint.connect(SlaveHaFactory(replica, self.reactor))
            peer, _ = listening.accept()
            if number % 2:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            peer.sendall(words[number % len(words)])
            peer.close()
            yield self.all_closed()
            self.assertEqual(len(replica.of("closed")), 1)
            if number == 20:
                before = len(os.listdir("/proc/self/fd"))
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)
