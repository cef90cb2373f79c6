"""Both ends of HA links on connections in memory: what the tests of ``protocols/ha_*`` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet import error, task
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import CorruptStore, DiskFailure, RemoteProtocolError
from rocketha.observe.refusals import Refusals
from rocketha.protocols.ha_master import HA_LIMITS, MasterHaFactory, MasterHaProtocol, NoLink, OpenLink
from rocketha.protocols.ha_slave import SlaveHaFactory, SlaveHaProtocol
from rocketha.protocols.limits import Limits
from rocketha.replication.autoswitch_master import AutoswitchMaster
from rocketha.replication.autoswitch_slave import AutoswitchSlave
from rocketha.replication.classic_master import ClassicMaster
from rocketha.replication.classic_slave import ClassicSlave
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.epochs import NO_EPOCH, EpochCache, EpochEntry
from rocketha.replication.link import Cause, LinkRefused, LinkTiming
from rocketha.wire.ha_frames import SlaveHello
from tests.replication.links import Cut, Log, whole

MARK = 64 * 1024
"""Bytes that may wait in a transport before its producer is paused, as Twisted's."""


class Transport:
    """One end of a connection in memory, with Twisted's rules for producers.

    :ivar waiting: what was written and the other end has not read.
    :ivar most: the most that ever waited.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 40000) -> None:
        self.protocol: Any = None
        self.waiting = b""
        self.writes: list[int] = []
        self.most = 0
        self.producer: Any = None
        self.producer_paused = False
        self.reading = True
        self.disconnecting = self.aborted = self.gone = False
        self._peer = IPv4Address("TCP", host, port)

    def getPeer(self) -> IPv4Address:
        return self._peer

    def write(self, data: bytes) -> None:
        assert isinstance(data, bytes)
        if self.gone or self.disconnecting:
            return
        self.waiting += data
        self.writes.append(len(data))
        self.most = max(self.most, len(self.waiting))
        if self.producer is not None and len(self.waiting) > MARK:
            self.producer_paused = True
            self.producer.pauseProducing()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        assert self.producer is None and streaming
        self.producer = producer

    def unregisterProducer(self) -> None:
        self.producer = None

    def pauseProducing(self) -> None:
        self.reading = False

    def resumeProducing(self) -> None:
        assert not self.gone and not self.disconnecting
        self.reading = True

    def loseConnection(self) -> None:
        assert self.producer is None, "Twisted would wait for the producer"
        self.disconnecting = True

    def abortConnection(self) -> None:
        if not self.gone:
            self.aborted = self.disconnecting = True
            self.waiting = b""

    def took(self, size: int) -> bytes:
        """The other end reads."""
        data, self.waiting = self.waiting[:size], self.waiting[size:]
        if not self.waiting and self.producer_paused:
            self.producer_paused = False
            if self.producer is not None:
                self.producer.resumeProducing()
        return data

    def lose(self, reason: Exception | None = None) -> None:
        """The connection ends here."""
        if not self.gone:
            self.gone = True
            self.protocol.connectionLost(Failure(reason or error.ConnectionDone()))


class Wire:
    """A connection.

    :ivar master: the transport of the end that accepted.
    :ivar slave: of the end that connected.
    :ivar stuck: the slave's process reads nothing.
    """

    def __init__(self, master: Transport, slave: Transport, cut: Cut = whole) -> None:
        self.master, self.slave, self.cut = master, slave, cut
        self.stuck = False

    def step(self) -> bool:
        """One read at each end; whether anything happened."""
        moved = False
        for source, target in ((self.master, self.slave), (self.slave, self.master)):
            if source.waiting and target.reading and not target.gone and not (self.stuck and target is self.slave):
                data = source.took(self.cut(source.waiting))
                if not target.disconnecting:
                    target.protocol.dataReceived(data)
                moved = True
            if source.disconnecting and not source.waiting and not source.gone:
                reset = error.ConnectionAborted() if source.aborted else error.ConnectionDone()
                source.lose(reset)
                moved = True
            if source.gone and not source.waiting and target.reading and not target.gone:
                target.lose(error.ConnectionLost() if source.aborted else error.ConnectionDone())
                moved = True
        return moved

    def reset(self) -> None:
        """The network resets it: what is under way is lost."""
        for end in (self.master, self.slave):
            end.waiting = b""
            end.lose(error.ConnectionLost())


class Reader:
    """Reads blocks of a log in memory.

    :cvar fails: what the next read raises.
    """

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        owner.open_readers += 1
        owner.opened += 1

    def read(self, offset: int, size: int) -> bytes:
        if self.owner.read_fails is not None:
            raise self.owner.read_fails
        return self.owner.log.read(offset, size)

    def close(self) -> None:
        self.owner.open_readers -= 1


class Owner:
    """A master, of a log in memory.  What it is told, it notes; ``epochs`` None: classic."""

    def __init__(self, log: Log, epochs: Sequence[EpochEntry] | None = None) -> None:
        self.log = log
        self.epochs = None if epochs is None else EpochCache(epochs)
        self.confirm = ConfirmOffset(0, log.end)
        self.timing = LinkTiming()
        self.batch = 1 << 20
        self.refusal: NoLink | None = None
        self.known = True
        self.read_fails: DiskFailure | CorruptStore | None = None
        self.refuses_hello = self.refuses_ack = ""
        self.open_readers = 0
        self.opened = 0
        self.events: list[Any] = []
        self.on_ack: Callable[[], None] = lambda: None

    def open_link(self, connection: MasterHaProtocol, now_ms: int) -> OpenLink | NoLink:
        if self.refusal is not None:
            return self.refusal
        machine: ClassicMaster | AutoswitchMaster
        if self.epochs is None:
            machine = ClassicMaster(self.log, now_ms, self.timing, self.batch)
        else:
            machine = AutoswitchMaster(self.log, self.epochs, self.confirm, now_ms, self.timing, self.batch)
        return OpenLink(machine, Reader(self))

    def introduced(self, connection: MasterHaProtocol, hello: SlaveHello, epoch: int) -> None:
        self.events.append(("introduced", connection.id, hello.broker_id, epoch))
        if self.refuses_hello:
            raise RemoteProtocolError(self.refuses_hello)

    def may_follow(self, connection: MasterHaProtocol) -> bool:
        return True

    def is_replica(self, connection: MasterHaProtocol) -> bool:
        return self.known

    def acked(self, connection: MasterHaProtocol, offset: int) -> None:
        self.events.append(("acked", offset))
        if self.refuses_ack:
            raise RemoteProtocolError(self.refuses_ack)
        self.on_ack()

    def disk_failed(self, connection: MasterHaProtocol, error: DiskFailure | CorruptStore) -> None:
        self.events.append(("disk failed", error))

    def closed(self, connection: MasterHaProtocol, reason: str, cause: Cause | None) -> None:
        self.events.append(("closed", connection.id, reason, cause))

    def of(self, kind: str) -> list[Any]:
        """What it was told of one kind."""
        return [event for event in self.events if event[0] == kind]


class Replica:
    """A slave, of a log in memory; appends are durable at the turn's end unless ``flushes`` is False."""

    def __init__(self, log: Log, epochs: Sequence[EpochEntry] | None = None) -> None:
        self.log = log
        self.epochs = None if epochs is None else tuple(epochs)
        self.hello = SlaveHello(2)
        self.min_epoch = NO_EPOCH
        self.compare_from: int | None = None
        self.timing = LinkTiming()
        self.flushes = True
        self.refusal = ""
        self.fails: DiskFailure | CorruptStore | RemoteProtocolError | None = None
        self.compare_later: Deferred[None] | None = None
        self.cut_later: Deferred[None] | None = None
        self.save_later: Deferred[None] | None = None
        self.events: list[Any] = []

    def open_link(self, connection: SlaveHaProtocol, now_ms: int) -> ClassicSlave | AutoswitchSlave | str:
        if self.refusal:
            return self.refusal
        if self.epochs is None:
            return ClassicSlave(self.log.end, self.log.file_size, now_ms, self.timing, self.compare_from)
        return AutoswitchSlave(self.hello, self.log, self.epochs, self.min_epoch, 0, now_ms, self.timing)

    def compare(self, offset: int, data: bytes | memoryview) -> Deferred[None]:
        def look(_: None) -> None:
            if self.fails is not None:
                raise self.fails
            if self.log.read(offset, len(data)) != data:
                raise LinkRefused(Cause.OTHER_LOG, f"other bytes at {offset}")

        return (self.compare_later or succeed(None)).addCallback(look)

    def compared(self) -> None:
        self.events.append(("compared",))

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        if self.fails is not None:
            raise self.fails
        self.log.append(offset, bytes(data))
        self.events.append(("append", offset, len(data)))

    def save_epochs(self, epochs: Sequence[EpochEntry]) -> Deferred[None]:
        def save(_: None) -> None:
            if self.fails is not None:
                raise self.fails
            self.epochs = tuple(epochs)
            self.events.append(("epochs", self.log.end, self.epochs[-1].epoch))

        return (self.save_later or succeed(None)).addCallback(save)

    def align(self, offset: int, epochs: Sequence[EpochEntry]) -> Deferred[tuple[int, Sequence[EpochEntry]]]:
        self.events.append(("align", offset))

        def cut(_: None) -> tuple[int, Sequence[EpochEntry]]:
            if self.fails is not None:
                raise self.fails
            self.log.cut(offset)
            self.epochs = tuple(epochs)
            return offset, epochs

        return (self.cut_later or succeed(None)).addCallback(cut)

    def confirm(self, offset: int) -> None:
        self.events.append(("confirm", offset))

    def turn_ended(self, connection: SlaveHaProtocol) -> None:
        self.events.append(("turn ended", self.log.end))
        if self.flushes:
            connection.appended(self.log.end)

    def disk_failed(self, connection: SlaveHaProtocol, error: DiskFailure | CorruptStore) -> None:
        self.events.append(("disk failed", error))

    def closed(self, connection: SlaveHaProtocol, reason: str, cause: Cause | None) -> None:
        self.events.append(("closed", reason, cause))

    def of(self, kind: str) -> list[Any]:
        """What it was told of one kind."""
        return [event for event in self.events if event[0] == kind]


class HaCase(SynchronousTestCase):
    """A port, its clock, and ways to connect."""

    limits: Limits = HA_LIMITS

    def setUp(self) -> None:
        self.clock = task.Clock()
        self.wires: list[Wire] = []
        self.dialed = Refusals("slave", self.clock.seconds)

    def listen(self, owner: Owner) -> MasterHaFactory:
        """The port of a master."""
        self.owner = owner
        self.port = MasterHaFactory(owner, self.clock, self.limits)
        return self.port

    def accept(self, host: str = "127.0.0.1") -> tuple[MasterHaProtocol, Transport]:
        """Somebody connects; the test is his end."""
        protocol = self.port.buildProtocol(None)
        transport = Transport(host)
        transport.protocol = protocol
        protocol.makeConnection(transport)  # type: ignore[arg-type]
        return protocol, transport

    def dial(self, replica: Replica) -> tuple[SlaveHaProtocol, Transport]:
        """A slave connects to a master that is the test."""
        protocol = SlaveHaFactory(replica, self.clock, self.dialed).buildProtocol(None)
        transport = Transport()
        transport.protocol = protocol
        protocol.makeConnection(transport)  # type: ignore[arg-type]
        return protocol, transport

    def join(self, replica: Replica, cut: Cut = whole) -> Wire:
        """A slave connects to the port."""
        _, master = self.accept()
        _, slave = self.dial(replica)
        wire = Wire(master, slave, cut)
        self.wires.append(wire)
        return wire

    def pump(self) -> None:
        """All that happens at this time."""
        steps = 0
        while sum(wire.step() for wire in self.wires) or self.turn():
            steps += 1
            self.assertLess(steps, 100_000, "steps without end")

    def turn(self) -> bool:
        """What was put off to the next turn of the reactor; whether there was any."""
        now = self.clock.seconds()
        due = [call for call in self.clock.getDelayedCalls() if call.getTime() <= now]
        self.clock.advance(0)
        return bool(due)

    def wait(self, seconds: float) -> None:
        """Time passes."""
        until = self.clock.seconds() + seconds
        while True:
            self.pump()
            due = min((call.getTime() for call in self.clock.getDelayedCalls()), default=until)
            if due >= until:
                break
            self.clock.advance(due - self.clock.seconds())
        self.clock.advance(until - self.clock.seconds())
        self.pump()
