"""How fast a replica that is far behind catches up over loopback, beside a plain copy of the same file.

Run: ``python -m benchmarks.ha_catch_up [--mb 512] [--rounds 5] [--directory DIR] [--rows "link;link under TLS"]``.  A
master's log of messages of 1 KiB is made first and stays in the page cache.  Then in turn: ``pread``, ``sendall``,
``recv``, ``pwrite`` in two bare processes (and with ``sendfile``); a link between two processes, in the clear and under
TLS; the same in the clear with queues and index made as the bytes are confirmed; a link within one process.  Each row
has MB/s and the CPU seconds that each end took for a GB, which other work on the machine changes less.  Files are not
synced (ASYNC_FLUSH), as in Java, which copied 70 to 150 MB/s on the machines where this was first measured; the limit
is three times that with two cores free.
"""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import os
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.choices import several
from twisted.internet.defer import Deferred

from benchmarks.replica_append import open_replica
from benchmarks.store_append import HOST, NOW_MS
from rocketha.errors import CorruptStore, DiskFailure
from rocketha.observe.refusals import Refusals
from rocketha.protocols.endpoints import client_endpoint
from rocketha.protocols.first_byte import FirstBytePort, TlsMode
from rocketha.protocols.ha_master import MasterHaFactory, MasterHaProtocol, OpenLink
from rocketha.protocols.ha_slave import SlaveHaFactory, SlaveHaProtocol
from rocketha.replication.classic_master import ClassicMaster
from rocketha.replication.classic_slave import ClassicSlave
from rocketha.replication.epochs import EpochEntry
from rocketha.replication.link import BATCH_BYTES, Cause
from rocketha.services.config.tls import TlsConfig
from rocketha.services.tls.authority import Authority
from rocketha.services.tls.network import ClientTls, ServerTls
from rocketha.services.waiting.blocking import Worker
from rocketha.services.waiting.log_reads import LinkReader, LogReads
from rocketha.store.messages import PutMessage
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.ha_frames import SlaveHello

READ_BYTES = 1 << 20


class Master:
    """Serves its log to whoever comes; reads as a broker does."""

    def __init__(self, log: ReplicaLog, reactor: Any) -> None:
        self.log = log
        self.work = Worker(reactor, "reads")
        self.work.start()
        self.reads = LogReads(self.work)

    def open_link(self, connection: MasterHaProtocol, now_ms: int) -> OpenLink:
        machine = ClassicMaster(self.log, now_ms, batch_bytes=BATCH_BYTES)
        return OpenLink(machine, LinkReader(self.log.reader(), self.reads))

    def stop(self) -> None:
        """No more links."""
        self.work.stop()
        self.log.store.close(NOW_MS)

    def introduced(self, connection: MasterHaProtocol, hello: SlaveHello, epoch: int) -> None:
        """Nobody is, on a classic link."""

    def may_follow(self, connection: MasterHaProtocol) -> bool:
        return True

    def is_replica(self, connection: MasterHaProtocol) -> bool:
        return True

    def acked(self, connection: MasterHaProtocol, offset: int) -> None:
        """Nobody waits."""

    def disk_failed(self, connection: MasterHaProtocol, error: DiskFailure | CorruptStore) -> None:
        raise error

    def closed(self, connection: MasterHaProtocol, reason: str, cause: Cause | None) -> None:
        """The copy is complete."""


class Replica:
    """Appends, and makes queues, in slices between reads, as a broker does.

    :param slice_bytes: of the log in one slice; 0: no queues.
    :param done: called when the log has ``end`` bytes.
    """

    def __init__(self, log: ReplicaLog, end: int, slice_bytes: int, reactor: Any, done: Callable[[], None]) -> None:
        self.log, self.end, self.slice_bytes, self.done = log, end, slice_bytes, done
        self.reactor = reactor
        self.due = False
        self.now_ms = NOW_MS

    def open_link(self, connection: SlaveHaProtocol, now_ms: int) -> ClassicSlave:
        return ClassicSlave(self.log.end, self.log.file_size, now_ms)

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        self.log.append_raw(offset, data)

    def compare(self, offset: int, data: bytes | memoryview) -> Deferred[None]:
        raise NotImplementedError("the log is empty: there is nothing to compare")

    def compared(self) -> None:
        raise NotImplementedError("nothing was compared")

    def save_epochs(self, epochs: Sequence[EpochEntry]) -> Deferred[None]:
        raise NotImplementedError("a classic link has no epochs")

    def align(self, offset: int, epochs: Sequence[EpochEntry]) -> Deferred[tuple[int, Sequence[EpochEntry]]]:
        raise NotImplementedError("a classic link aligns nothing")

    def confirm(self, offset: int) -> None:
        """Nothing is, on a classic link."""

    def turn_ended(self, connection: SlaveHaProtocol) -> None:
        connection.appended(self.log.end)
        if self.log.end == self.end:
            self.done()
        elif self.slice_bytes and not self.due:
            self.dispatch()

    def dispatch(self) -> None:
        """A slice, and the next one later; files of queues are written about as often as a broker does."""
        log = self.log
        log.confirm(log.end)
        self.due = log.dispatch(self.slice_bytes)
        if self.due:
            self.reactor.callLater(0, self.dispatch)
        if log.store.queues.pending_bytes >= 1 << 17:
            self.now_ms += 1000
            for job in log.store.maintenance(self.now_ms, self.now_ms):
                job.run()
                log.store.finished(job, None)

    def disk_failed(self, connection: SlaveHaProtocol, error: DiskFailure | CorruptStore) -> None:
        raise error

    def closed(self, connection: SlaveHaProtocol, reason: str, cause: Cause | None) -> None:
        """The copy is complete."""


def make_log(directory: str, size: int) -> None:
    """A master's log of that many bytes, of messages of 1 KiB."""
    log = open_replica(directory, "master")
    log.promote()
    number = 0
    while log.end < size:
        turn = []
        for each in range(number, number + 32):
            key = f"7F0000010A2B18B4AAC2{each >> 8:08X}{each & 0xFFFF:04X}"
            properties = f"UNIQ_KEY\x01{key}\x02TAGS\x01TagA\x02".encode()
            body = b"x" * 1024
            turn.append(PutMessage("Bench", each % 8, 0, 0, NOW_MS, HOST, 0, 0, body, properties, 2598919, (key,)))
        log.store.append([turn], NOW_MS)
        number += 32
    log.store.settle()
    log.store.close(NOW_MS)


def tls_between(directory: str) -> TlsConfig:
    """Of both ends of a link."""
    folder = f"{directory}/pki"
    certificate, key, trust = f"{folder}/link.crt", f"{folder}/link.key", f"{folder}/ca.crt"
    if not os.path.exists(trust):
        now = datetime.datetime.now(datetime.UTC)
        Authority.make(folder, "bench", now, 2).issue("link", ["127.0.0.1"], (), now, 1)
    return TlsConfig(
        server_mode="enforcing",
        server_cert_path=certificate,
        server_key_path=key,
        enable=True,
        client_auth_server=True,
        client_trust_cert_path=trust,
    )


def master_process(directory: str, tls: bool, pipe: Connection) -> None:
    """Serve the log until told to stop; says the port, then the CPU seconds."""
    from twisted.internet import reactor as installed

    reactor: Any = installed
    master = Master(open_replica(directory, "master"), reactor)
    factory: Any = MasterHaFactory(master, reactor)
    if tls:
        server = ServerTls(tls_between(directory))
        factory = FirstBytePort(factory, TlsMode.ENFORCING, server, Refusals("bench", reactor.seconds))
    port = reactor.listenTCP(0, factory, interface="127.0.0.1")
    began = time.process_time()
    pipe.send(port.getHost().port)
    reactor.addReader(_Readable(pipe, reactor.stop))
    reactor.run(installSignalHandlers=False)
    pipe.send(time.process_time() - began)
    master.stop()


class _Readable:
    """Calls when the pipe has something to read."""

    def __init__(self, pipe: Connection, call: Callable[[], None]) -> None:
        self._pipe, self.doRead = pipe, call

    def fileno(self) -> int:
        return self._pipe.fileno()

    def connectionLost(self, reason: object) -> None:
        """The reactor ends."""

    def logPrefix(self) -> str:
        return "pipe"


def slave_process(directory: str, tls: bool, port: int, slice_bytes: int, end: int, pipe: Connection) -> None:
    """Catch up; says seconds and CPU seconds.  Port 0: the master is in this process too."""
    from twisted.internet import reactor as installed

    reactor: Any = installed
    master = None
    if not port:
        master = Master(open_replica(directory, "master"), reactor)
        here = MasterHaFactory(master, reactor)
        port = reactor.listenTCP(0, here, interface="127.0.0.1").getHost().port
    replica = open_replica(directory, "replica")
    began, cpu = time.perf_counter(), time.process_time()
    found: list[float] = []

    def done() -> None:
        found.extend((time.perf_counter() - began, time.process_time() - cpu))
        reactor.stop()

    factory = SlaveHaFactory(Replica(replica, end, slice_bytes, reactor, done), reactor)
    connect = ClientTls(tls_between(directory)).endpoint if tls else client_endpoint
    connect(reactor, f"127.0.0.1:{port}", 5).connect(factory)
    reactor.run(installSignalHandlers=False)
    pipe.send(found)
    if master is not None:
        master.stop()
    replica.store.close(NOW_MS)


def sender_process(path: str, end: int, sendfile: bool, pipe: Connection) -> None:
    """Send the file to whoever comes; says the port, then the CPU seconds."""
    listening = socket.create_server(("127.0.0.1", 0))
    pipe.send(listening.getsockname()[1])
    connection, _ = listening.accept()
    began, file, offset = time.process_time(), os.open(path, os.O_RDONLY), 0
    while offset < end:
        size = min(BATCH_BYTES, end - offset)
        if sendfile:
            offset += os.sendfile(connection.fileno(), file, offset, size)
        else:
            connection.sendall(os.pread(file, size, offset))
            offset += size
    connection.close()
    pipe.send(time.process_time() - began)


def receiver_process(path: str, end: int, port: int, pipe: Connection) -> None:
    """Write what comes; says seconds and CPU seconds."""
    began, cpu = time.perf_counter(), time.process_time()
    connection = socket.create_connection(("127.0.0.1", port))
    file, offset = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), 0
    while data := connection.recv(READ_BYTES):
        offset += os.pwrite(file, data, offset)
    assert offset == end, (offset, end)
    pipe.send([time.perf_counter() - began, time.process_time() - cpu])


class Bench:
    """The directory, and processes to run in it."""

    def __init__(self, directory: str, end: int) -> None:
        self.directory, self.end = directory, end
        self.context = multiprocessing.get_context("spawn")

    def start(self, target: Callable[..., None], *arguments: object) -> tuple[Any, Connection]:
        """A process with a pipe as its last argument."""
        ours, theirs = self.context.Pipe()
        process = self.context.Process(target=target, args=(*arguments, theirs), daemon=True)
        process.start()
        return process, ours

    def plain(self, sendfile: bool) -> tuple[float, float, float]:
        """MB/s; CPU seconds a GB of sender and receiver."""
        path = f"{self.directory}/master/commitlog/{0:020d}"
        sender, sent = self.start(sender_process, path, self.end, sendfile)
        receiver, received = self.start(receiver_process, f"{self.directory}/plain", self.end, sent.recv())
        seconds, cpu = received.recv()
        sender_cpu = sent.recv()
        sender.join()
        receiver.join()
        Path(self.directory, "plain").unlink()
        return self.row(seconds, sender_cpu, cpu)

    def link(self, together: bool, slice_bytes: int = 0, tls: bool = False) -> tuple[float, float, float]:
        """MB/s; CPU seconds a GB of master and slave (of both, where they are one process)."""
        port, master, said = 0, None, None
        if not together:
            master, said = self.start(master_process, self.directory, tls)
            port = said.recv()
        slave, heard = self.start(slave_process, self.directory, tls, port, slice_bytes, self.end)
        seconds, cpu = heard.recv()
        slave.join()
        master_cpu = 0.0
        if master is not None and said is not None:
            said.send("stop")
            master_cpu = said.recv()
            master.join()
        self.check()
        shutil.rmtree(f"{self.directory}/replica")
        return self.row(seconds, master_cpu, cpu)

    def check(self) -> None:
        """Both logs are equal."""
        ours, theirs = (
            os.open(f"{self.directory}/{name}/commitlog/{0:020d}", os.O_RDONLY) for name in ("master", "replica")
        )
        for offset in range(0, self.end, 1 << 24):
            size = min(1 << 24, self.end - offset)
            assert os.pread(ours, size, offset) == os.pread(theirs, size, offset), "the logs differ"
        os.close(ours)
        os.close(theirs)

    def row(self, seconds: float, near: float, far: float) -> tuple[float, float, float]:
        """Of one copy."""
        gigabytes = self.end / 1e9
        return self.end / seconds / 1e6, near / gigabytes, far / gigabytes


ROWS: dict[str, Callable[[Bench], tuple[float, float, float]]] = {
    "plain copy": lambda bench: bench.plain(False),
    "plain copy, sendfile": lambda bench: bench.plain(True),
    "link": lambda bench: bench.link(False),
    "link under TLS": lambda bench: bench.link(False, tls=True),
    "link, slices 256 KiB": lambda bench: bench.link(False, 256 << 10),
    "link, slices 64 KiB": lambda bench: bench.link(False, 64 << 10),
    "link in one process": lambda bench: bench.link(True),
}


def main() -> None:
    """Print medians and best of some rounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mb", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--directory")
    every = ";".join(ROWS)
    parser.add_argument("--rows", type=several(ROWS, ";"), default=every, help=f"of {every} (default: all)")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="rocketha-bench-", dir=options.directory)
    try:
        make_log(directory, options.mb << 20)
        log = open_replica(directory, "master")
        bench = Bench(directory, log.end)
        log.store.close(NOW_MS)
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in options.rows}
        for _ in range(options.rounds):
            for name, values in found.items():
                values.append(ROWS[name](bench))
        print(f"{bench.end / 1e6:.0f} MB      median MB/s   best MB/s   CPU s/GB of sender, of receiver")
        for name, values in found.items():
            rates, near, far = zip(*values, strict=True)
            middle = statistics.median(rates)
            print(
                f"{name:22} {middle:8.0f} {max(rates):10.0f} {statistics.median(near):12.2f}"
                f" {statistics.median(far):8.2f}"
            )
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
