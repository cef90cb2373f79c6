"""A simulated TCP connection: two transports, and a pipe each way.

Knows links and processes, no protocol.  Theory of operation.  What a transport was given during a turn leaves at the
turn's end as one segment (or a few, cut at random points).  Bytes arrive in order and none is ever missing: a lost
segment comes late, on a blocked link they wait and are tried again after 0.2, 0.4, 0.8 ... seconds.  At most
:data:`WINDOW` bytes are under way or unread; the rest waits at the sender, whose producer is paused.  If only the way
back is blocked, about ten segments still arrive: the sender never learns that they did, and stops.

How it ends: FIN comes after the data; RST at once, and takes with it what was not read.  The kernel of a dead process
says FIN (or RST where it left data unread); a host without power says nothing, and its peer notices when it sends again
after the host came back, or when it gives up: until then the connection is half open.  A RST that meets a blocked link
is lost for good, and half-open again is what is left.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from twisted.internet import error
from twisted.internet.address import IPv4Address
from twisted.internet.interfaces import ITCPTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.simulation.link import Link, Quality
from rocketha.simulation.scheduler import Owner, Scheduler
from rocketha.simulation.trace import Trace

WINDOW = 256 * 1024
"""Bytes under way or unread at the receiver."""
UNANSWERED = 14 * 1460
"""Bytes that leave without any acknowledgement coming back."""
BUFFER = 64 * 1024
"""Bytes that wait at the sender before its producer is paused, as in Twisted."""
RETRY_FIRST_S, RETRY_MAX_S = 0.2, 12.8
READ = 64 * 1024
"""Bytes of one read, as Twisted reads."""


class Process(Protocol):
    """One end's process, by its reactor."""

    @property
    def address(self) -> str: ...
    @property
    def owner(self) -> Owner: ...
    def ephemeral_port(self) -> int: ...


class Dialer(Protocol):
    """Who connected."""

    @property
    def reactor(self) -> Process: ...
    @property
    def factory(self) -> Any: ...
    def lost(self, reason: Failure) -> None: ...


class Listener(Protocol):
    """Who accepted."""

    @property
    def reactor(self) -> Process: ...
    @property
    def factory(self) -> Any: ...
    @property
    def number(self) -> int: ...


class Kernel(Protocol):
    """A host's."""

    @property
    def up(self) -> bool: ...
    @property
    def answers(self) -> bool: ...


class Net(Protocol):
    """What lies between.

    :ivar opened: connections so far.
    :ivar streams: those of which an end lives, by number.
    """

    opened: int
    streams: dict[int, Stream]

    @property
    def scheduler(self) -> Scheduler: ...
    @property
    def random(self) -> random.Random: ...
    @property
    def trace(self) -> Trace: ...
    @property
    def quality(self) -> Quality: ...
    @property
    def stations(self) -> Mapping[str, Kernel]: ...
    def link(self, source: str, target: str) -> Link: ...


class Stream:
    """A connection.

    :ivar client: the transport of the end that connected.
    :ivar server: the other one.
    """

    def __init__(self, network: Net, connector: Dialer, port: Listener, server_address: str) -> None:
        network.opened += 1
        self.number = network.opened
        self.network = network
        near, far = connector.reactor, port.reactor
        client_host = IPv4Address("TCP", near.address, near.ephemeral_port())
        server_host = IPv4Address("TCP", server_address, port.number)
        self.client = SimulatedTransport(self, near.owner, client_host, server_host)
        self.server = SimulatedTransport(self, far.owner, server_host, client_host)
        self.client.peer, self.server.peer = self.server, self.client
        self.client.connector = connector
        self.server.factory = port.factory
        self.addresses = (near.address, server_address)
        self.owners = (near.owner, far.owner)
        network.streams[self.number] = self

    def process_died(self, owner: Owner) -> None:
        """A process of an end is gone."""
        for end in (self.client, self.server):
            if end.owner is owner:
                end.process_died()

    def reset(self) -> None:
        """Something on the way (``ss -K``, a firewall, an address that moved) resets it: both ends lose it."""
        for end in (self.client, self.server):
            end.reset_by_network()

    def ended(self) -> None:
        """An end is gone; when both are, nothing is left to know."""
        if self.client.gone and self.server.gone:
            self.network.streams.pop(self.number, None)


@implementer(ITCPTransport)
class SimulatedTransport:
    """One end.

    :ivar gone: nothing can be sent or received here any more.
    """

    disconnecting = False
    connected = 0

    def __init__(self, stream: Stream, owner: Owner, host: IPv4Address, peer: IPv4Address) -> None:
        self.stream = stream
        self.owner = owner
        self.peer: SimulatedTransport = self
        self.protocol: Any = None
        self.connector: Dialer | None = None
        self.factory: Any = None
        self.gone = False
        self.disconnected = False
        self._host, self._peer = host, peer
        network = stream.network
        self._network = network
        self._scheduler = network.scheduler
        self._out_link = network.link(host.host, peer.host)
        self._back_link = network.link(peer.host, host.host)
        # outward
        self._out: list[bytes] = []
        self._queue: list[bytes] = []  # beyond the window, or behind a blocked link
        self._queued = 0
        self._under_way = 0  # bytes sent and not read by the peer's process
        self._unanswered = 0
        self._arrival = self._line_free = 0.0
        self._retry_s = 0.0
        self._stalled_since: float | None = None
        self._fin = False  # say FIN when the queue is empty
        self._producer: Any = None
        self._producer_paused = False
        # inward
        self._paused = False
        self._unread: list[bytes] = []
        self._fin_came = False

    # -- what Twisted's protocols ask for

    def write(self, data: bytes) -> None:
        """Twisted: with this turn's other bytes."""
        if self.gone or self.disconnecting or not data or self.owner.dead:
            return
        if not self._out:
            self._scheduler.unflushed.append(self)
        self._out.append(bytes(data))

    def writeSequence(self, data: Any) -> None:
        for each in data:
            self.write(each)

    def getHost(self) -> IPv4Address:
        return self._host

    def getPeer(self) -> IPv4Address:
        return self._peer

    def getTcpNoDelay(self) -> bool:
        return True

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Segments leave at each turn's end anyway."""

    def getTcpKeepAlive(self) -> bool:
        return False

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Keep-alive probes come after hours; no run is so long."""

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Twisted: tell it when our buffer is full."""
        if self._producer is not None:
            raise RuntimeError("a producer is registered already")
        if self.gone:
            producer.stopProducing()
            return
        self._producer = producer
        if not streaming:
            producer.resumeProducing()

    def unregisterProducer(self) -> None:
        self._producer = None
        self._producer_paused = False
        if self.disconnecting:
            self._finish()

    def pauseProducing(self) -> None:
        self._paused = True

    def resumeProducing(self) -> None:
        """Twisted: read on."""
        if self._paused and not self.gone:
            self._paused = False
            self._scheduler.after(0.0, self.owner, self._read)

    def stopProducing(self) -> None:
        self.loseConnection()

    def loseConnection(self) -> None:
        """Twisted: say what was written, then FIN."""
        if not self.gone and not self.disconnecting:
            self.disconnecting = True
            if self._producer is None:
                self._finish()

    def loseWriteConnection(self) -> None:
        self.loseConnection()

    def abortConnection(self) -> None:
        """Twisted: RST."""
        if self.gone or self.disconnected:
            return
        self.disconnecting = True
        self._out.clear()
        self._send_reset()
        self._end(error.ConnectionAborted())

    # -- beginning

    def accepted(self) -> None:
        """The server's process takes the connection out of its backlog."""
        if self.gone:
            return
        protocol = self.factory.buildProtocol(self._peer)
        if protocol is None:
            self.vanish()
            return
        self._begin(protocol)

    def connected_as_client(self) -> None:
        """The client's process learns that it is connected."""
        assert self.connector is not None
        protocol = self.connector.factory.buildProtocol(self._peer)
        if protocol is None:
            self.vanish()
            return
        self._begin(protocol)

    def _begin(self, protocol: Any) -> None:
        self.protocol = protocol
        self.connected = 1
        protocol.makeConnection(self)
        if self._unread or self._fin_came:
            self._scheduler.after(0.0, self.owner, self._read)

    def vanish(self) -> None:
        """Nobody at this end wants the connection: its kernel resets it."""
        if not self.gone:
            self.gone = True
            self._send_reset()
            self.stream.ended()

    # -- outward

    def flush(self) -> None:
        """The end of a turn."""
        if self.gone or not self._out:
            self._out.clear()
            return
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        if len(data) <= READ:
            self._push(data)
        else:
            for start in range(0, len(data), READ):
                self._push(data[start : start + READ])

    def _push(self, data: bytes) -> None:
        if self._queue or not self._may_leave(len(data)):
            self._enqueue(data)
        else:
            self._transmit(data)

    def _enqueue(self, data: bytes) -> None:
        self._queue.append(data)
        self._queued += len(data)
        if self._producer is not None and not self._producer_paused and self._queued > BUFFER:
            self._producer_paused = True
            self._producer.pauseProducing()

    def _may_leave(self, size: int) -> bool:
        """Whether the network takes the next segment now; arranges for another try if not."""
        if self._out_link.blocks or not self._network.stations[self._peer.host].answers:
            self._stall()
            return False
        if not self._back_link.blocks:
            self._unanswered = 0
        elif self._unanswered + size > UNANSWERED:
            self._stall()
            return False
        else:
            self._unanswered += size
        return self._under_way == 0 or self._under_way + size <= WINDOW or self.peer.gone

    def _stall(self) -> None:
        if self._stalled_since is None:
            self._stalled_since = self._scheduler.now
            self._retry_s = RETRY_FIRST_S
            self._scheduler.after(RETRY_FIRST_S, None, self._retry)

    def _retry(self) -> None:
        """The kernel tries again."""
        since = self._stalled_since
        if since is None or (self.gone and not self._fin):
            return
        here, there = self._network.stations[self._host.host], self._network.stations[self._peer.host]
        if here.answers and there.answers and not self._out_link.blocks and not self._back_link.blocks:
            self._stalled_since = None
            self._pump()
        elif self._scheduler.now - since > self._network.quality.give_up_s:
            self._stalled_since = None
            self._scheduler.after(0.0, self.owner, self._end, error.TimeoutError())
        else:
            self._retry_s = min(self._retry_s * 2, RETRY_MAX_S)
            self._scheduler.after(self._retry_s, None, self._retry)

    def _pump(self) -> None:
        """Send what waits, as far as it may leave."""
        while self._queue:
            if not self._may_leave(len(self._queue[0])):
                return
            data = self._queue.pop(0)
            self._queued -= len(data)
            self._transmit(data)
        if self._producer_paused and self._producer is not None:
            self._producer_paused = False
            self._scheduler.after(0.0, self.owner, self._resume_producer)
        if self._fin and self._may_leave(0):
            self._fin = False
            self._send(0, self.peer.owner, self.peer.fin_came)

    def unacknowledged(self) -> None:
        """The peer's host lost its power: what was under way will be sent again, to a kernel that knows nothing."""
        if self._under_way and not self.gone:
            self._enqueue(b"")
            self._stall()

    def _resume_producer(self) -> None:
        if self._producer is not None and not self._producer_paused and not self.gone:
            self._producer.resumeProducing()

    def _send(self, size: int, owner: Owner | None, call: Callable[..., None], *args: Any) -> None:
        """A segment leaves when the process is not busy, and ``call(*args)`` is its arrival."""
        delay_s = self._out_link.delay_s(self._network.random)
        self._scheduler.when_free(self.owner, self._leave, size, delay_s, owner, call, *args)

    def _leave(self, size: int, delay_s: float, owner: Owner | None, call: Callable[..., None], *args: Any) -> None:
        leaves = max(self._scheduler.now, self._line_free)
        self._line_free = leaves = leaves + size / self._out_link.quality.bytes_per_s
        self._arrival = max(leaves + delay_s, self._arrival)
        self._scheduler.at(self._arrival, owner, call, *args)

    def _transmit(self, data: bytes) -> None:
        self._under_way += len(data)
        split = self._out_link.quality.split
        chance = self._network.random
        if split and len(data) > 1 and chance.random() < split:
            cuts = sorted(chance.randrange(1, len(data)) for _ in range(chance.randrange(1, 4)))
            pieces = [data[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        else:
            pieces = [data]
        if self._out_link.corrupt and data and chance.random() < sum(self._out_link.corrupt.values()):
            damaged = bytearray(pieces[-1] or pieces[0])
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            pieces[-1 if pieces[-1] else 0] = bytes(damaged)
        peer = self.peer
        owner = None if peer.gone else peer.owner  # of what is gone, the kernel answers
        for piece in pieces:
            if piece or peer.gone:
                self._send(len(piece), owner, peer.came, piece)

    # -- inward

    def came(self, data: bytes) -> None:
        """A segment arrived and the process looks at it."""
        if self.gone:
            self._send_reset()
            return
        if self._paused or self._unread or self.protocol is None:
            self._unread.append(data)
            return
        self._deliver(data)

    def _deliver(self, data: bytes) -> None:
        peer = self.peer
        peer._under_way -= len(data)
        network = self._network
        network.trace.mix(self._scheduler.now, data)
        if network.trace.on:
            network.trace.delivered(self._scheduler.now, self._peer, self._host, data)
        if peer._queue and not peer.gone:
            self._scheduler.after(0.0, None, peer._pump)
        try:
            self.protocol.dataReceived(data)
        except Exception:
            failure = Failure()
            self._scheduler.failed(self.owner.name, failure)
            self._send_reset()
            self._end_with(failure)

    def _read(self) -> None:
        while self._unread and not self._paused and not self.gone:
            self._deliver(self._unread.pop(0))
        if self._fin_came and not self._unread and not self._paused and not self.gone:
            self._end(error.ConnectionDone())

    def fin_came(self) -> None:
        """The peer said all it had to say."""
        if self.gone:
            return
        if self._unread or self._paused or self.protocol is None:
            self._fin_came = True
            return
        self._end(error.ConnectionDone())

    def reset_came(self) -> None:
        """The peer, or its kernel, knows nothing of this connection."""
        if not self.gone:
            self._unread.clear()
            self._end(error.ConnectionLost())

    # -- ending

    def _finish(self) -> None:
        """All was said that will be: FIN, and the protocol learns of it in the next turn."""
        self._scheduler.after(0.0, self.owner, self._finished)

    def _finished(self) -> None:
        if self.gone:
            return
        if self._queued > BUFFER and self._stalled_since is not None:
            self._scheduler.after(RETRY_FIRST_S, self.owner, self._finished)
            return
        self._fin = True
        self._end(error.ConnectionDone())
        self._pump()

    def _send_reset(self) -> None:
        """Lost for good where the way is blocked."""
        passes = not self._out_link.blocks and self._network.stations[self._peer.host].answers
        if passes and not self.peer.gone:
            delay = self._out_link.delay_s(self._network.random)
            self._scheduler.after(delay, self.peer.owner, self.peer.reset_came)

    def process_died(self) -> None:
        """The process of this end is gone: its kernel ends the connection, if the host has power."""
        if self.gone:
            return
        self.gone = True
        self._out.clear()
        if self._network.stations[self._host.host].up:
            if self._unread or self.protocol is None:
                self._send_reset()
            else:
                self._fin = True
                self._pump()
        else:
            self._queue.clear()
            self.peer.unacknowledged()
        self.stream.ended()

    def reset_by_network(self) -> None:
        """A reset arrives here from the middle."""
        if not self.gone:
            delay = self._back_link.delay_s(self._network.random)
            self._scheduler.after(delay, self.owner, self.reset_came)

    def _end(self, reason: Exception) -> None:
        self._end_with(Failure(reason))

    def _end_with(self, failure: Failure) -> None:
        if self.gone:
            return
        self.gone = self.disconnected = True
        self.connected = 0
        self._unread.clear()
        protocol, self.protocol = self.protocol, None
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
        self.stream.ended()
        if protocol is None:
            return  # nobody was told of a connection yet
        protocol.connectionLost(failure)
        if self.connector is not None:
            self.connector.lost(failure)
