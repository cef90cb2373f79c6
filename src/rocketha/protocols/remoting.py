"""The remoting protocol on a Twisted transport: many requests in flight, answers in any order, both ways on one socket.

Theory of operation.  All work of one read is one *turn*: every frame is parsed and given to the service, the service
is told that the turn ended (there it appends what it staged as one write), and then each connection that has
something to say says it in one write.  Answers for other connections (a long poll woken by a send) join the same
turn.  The write goes to the socket at once when nothing is queued (:func:`eager_write`): Twisted's own ``write``
would wait for the next turn of the reactor and change the epoll set twice.

What it must not know: any request code.

Limits (security.md): frame and header sizes, the first frame within 10 s, a whole frame within 30 s, 120 s of
silence, connections in all and per address (:mod:`rocketha.protocols.admission`), bytes held in unfinished frames over
all connections, bytes queued for a peer that does not read.  One sweep a second keeps them, not a timer for each.

Java: ``NettyRemotingAbstract``, ``NettyRemotingServer``, ``NettyRemotingClient``.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from typing import Protocol as Interface

import attrs
from twisted.internet import defer, error, task
from twisted.internet.interfaces import IAddress, IPushProducer, IReactorTime
from twisted.internet.protocol import Protocol, ServerFactory, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.access.signer import Signer
from rocketha.errors import Ignored, RemoteProtocolError, RequestRefused
from rocketha.latencies import NAMELESS
from rocketha.observe.logging import lasting, make_logger
from rocketha.observe.refusals import Ended, Refusals, Refused
from rocketha.protocols.admission import Admission
from rocketha.protocols.eager import eager_read, eager_write, queued_bytes
from rocketha.protocols.limits import Limits
from rocketha.protocols.turn import Turn
from rocketha.wire.codes import ResponseCode
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.known_sends import HeaderMemory
from rocketha.wire.proxy_header import Source
from rocketha.wire.remoting import Answer, Command, HeaderTooLong, encode, encode_answer
from rocketha.wire.remoting import request as make_request

OPAQUE_MAX = (1 << 31) - 1

TURN_BYTES_MAX = 1024 * 1024
"""Bytes of answers to one connection in one turn, about: what one read of requests may cost in memory."""

CROWDED_BYTES_MAX = 64 * 1024
"""Likewise while a sixteenth of ``queued_bytes_all`` waits for peers that do not read, or requests that turns left."""


TURN_S = 0.02
"""After so long a turn leaves the requests of its read that it has not come to: first others are read."""


class RequestService(Interface):
    """What answers requests: the nameserver's, the broker's or a client's side of a connection."""

    def connected(self, connection: RemotingProtocol) -> None:
        """A connection is up."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """It is down; nothing can be sent on it any more."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """One request; None when it is answered later with ``connection.answer``, or never."""

    def turn_ended(self) -> None:
        """All frames of one read have been given to :meth:`request`."""


@attrs.define
class _Pending:
    """A request of ours that waits for its answer."""

    deferred: defer.Deferred[Command]
    timeout: Any


@implementer(IPushProducer)
class RemotingProtocol(Protocol):
    """One connection, either end.

    :ivar id: unique in this process; what pure code knows a connection by.
    :ivar peer: ``host:port`` of the other end, or of who is behind it where a listed proxy says so: for logs, lists,
        messages and policies.
    :ivar peer_host: the IP address in it; ``peer_port`` likewise.
    :ivar socket_host: IP address of the other end, be it a proxy's: limits go by it.
    :ivar proven_host: the same, where that shows who it is; of what a proxy passes on a text that is no address, and
        nobody else's.  What somebody may do because of where he is goes by it.
    :ivar greeted: whether a valid frame has come.
    :ivar language: of the peer's first frame, None before it or where it is none of RocketMQ's.
    :ivar version: ``MQVersion`` ordinal of the peer's last request, None before the first.
    :ivar refused: what was refused here, None for nothing.
    :ivar stirred: something was read since :mod:`~rocketha.protocols.admission` asked.
    """

    factory: RemotingFactory
    transport: Any

    def __init__(self, factory: RemotingFactory, number: int) -> None:
        self.factory = factory
        self.id = number
        self.version: int | None = None
        self.language: str | None = None
        self.refused: Refused | None = None
        self.peer = self.peer_host = self.socket_host = self.proven_host = self.local_host = ""
        self.peer_port = self.local_port = 0
        self._service = factory.service
        self._turn = factory.turn
        self._buffer = FrameBuffer(factory.limits.frame_bytes)
        self._headers = HeaderMemory()
        self._out: list[bytes] = []
        self._pending: dict[int, _Pending] = {}
        self._opaque = 0
        self._closed = self.greeted = self.stirred = False
        self._held = self._unsent = self._out_bytes = 0
        self._paused = False  # our outbound buffer is over its mark
        self._backlog: list[bytes] = []  # frames of a read that wait for the answers before them to be taken
        self._opened_tick = self.active_tick = factory.tick  # of the factory's sweep, one a second
        self._frame_tick: int | None = None

    # --- life

    def connectionMade(self) -> None:
        """Twisted: the transport is there."""
        peer, host = self.transport.getPeer(), self.transport.getHost()
        self.peer_host, self.peer_port = str(getattr(peer, "host", "unknown")), int(getattr(peer, "port", 0))
        self.local_host, self.local_port = str(getattr(host, "host", "unknown")), int(getattr(host, "port", 0))
        self.socket_host = self.proven_host = self.peer_host
        self.peer = f"{self.peer_host}:{self.peer_port}"
        refusal = self.factory.admit(self)
        if refusal:
            self.end(Ended.NO_PLACE, refusal, at_once=True)
            return
        if hasattr(self.transport, "setTcpNoDelay"):
            self.transport.setTcpNoDelay(True)
        self.transport.registerProducer(self, True)
        self._enter()

    def _enter(self) -> None:
        self._service.connected(self)

    def announced(self, source: Source | None) -> None:
        """The other end is a proxy, which said from whom the connection is, before anything else was said on it.

        :param source: None: it does not say.
        """
        proxy = self.peer
        if source is not None:
            self.peer_host, self.peer_port = source
            self.peer = f"{source.host}:{source.port}"
        self.proven_host = f"behind {proxy}: {self.peer}"

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Twisted: the connection ended; every request of ours on it fails now."""
        known = self.factory.forget(self)
        self._closed = True
        self._out.clear()
        self._backlog.clear()
        self._hold(0)
        self._count_unsent(0)
        self._end_requests(reason)
        if known:
            self._service.disconnected(self, reason.getErrorMessage())

    def _end_requests(self, reason: Failure) -> None:
        for opaque in list(self._pending):
            if entry := self._pending.pop(opaque, None):  # else cancelled by who heard of the others
                entry.timeout.cancel()
                entry.deferred.errback(reason)

    # --- reading

    def dataReceived(self, data: bytes) -> None:
        """Twisted: one read.  See the module's theory of operation."""
        if self._closed:
            return
        factory = self.factory
        self.active_tick, self.stirred = factory.tick, True
        factory.bytes_in += len(data)
        try:
            frames = self._buffer.feed(data)
        except RemoteProtocolError as problem:
            self.end(Ended.BAD_FRAME, str(problem))
            return
        if (held := self._buffer.held) or self._held:
            self._hold(held)
        if not frames:
            return
        factory.frames_in += len(frames)
        if self._backlog:  # a transport that delivers although it was paused
            self._backlog += frames
        else:
            self._take(frames)

    def _take(self, frames: list[bytes]) -> None:
        turn = self._turn
        if turn.active:  # a service that reads from inside a request; never with a real reactor
            self._frames(frames)
            return
        turn.active = True
        try:
            self._frames(frames)
            self._service.turn_ended()
        finally:
            turn.end()
        if self._backlog and not self._closed:
            self.transport.pauseProducing()
            self.factory.take_up_later(self)

    def take_up(self) -> None:
        """Go on with the requests that a turn left, unless the answers before them have not been taken."""
        if self._backlog and not self._paused and not self._closed:
            frames, self._backlog = self._backlog, []
            self._take(frames)
            if not self._backlog and not self._paused and not self._closed:
                self.transport.resumeProducing()

    def _frames(self, frames: list[bytes]) -> None:
        factory, service, decode = self.factory, self._service, self._headers.decode
        header_limit, turn_bytes_max = factory.limits.header_bytes, factory.turn_bytes_max
        seconds, began_s = factory.clock.seconds, factory.clock.seconds()
        for number, frame in enumerate(frames, 1):
            if self._out_bytes > turn_bytes_max or seconds() - began_s > TURN_S:
                # A read full of requests for large answers, or for much work: the rest waits, for the answers to be
                # taken and for others to be read.
                self._backlog = frames[number - 1 :]
                return
            try:
                command = decode(frame, header_limit)
            except HeaderTooLong as problem:
                if problem.command.is_response:  # of a server that we chose: nothing else that it says can be trusted
                    self.end(Ended.BAD_FRAME, str(problem))
                    return
                self._decline(problem)
                continue
            except RemoteProtocolError as problem:
                self.end(Ended.BAD_FRAME, str(problem))
                return
            if not self.greeted:
                self._greeted(command)
            if command.flag & 1:
                self._settle(command)
                continue
            self.version = command.version
            command.arrived_s = began_s
            code = command.code
            self._asked(code)
            try:
                answer = service.request(self, command)
            except RequestRefused as refusal:
                answer = Answer(refusal.code, refusal.remark)
            except RemoteProtocolError as problem:
                answer = Answer(ResponseCode.SYSTEM_ERROR, str(problem))
            except Exception as problem:
                trace = traceback.format_exc()
                factory.refusals.failed[factory.refusals.request_name(code)] += 1
                self.factory.log.error(
                    "request {code} of {peer} failed: {trace}", code=code, peer=self.peer, trace=trace
                )
                answer = Answer(ResponseCode.SYSTEM_ERROR, f"{type(problem).__name__}: {problem}"[:1000])
            if answer is not None:
                self.answer(command, answer)
            if self._closed:
                return

    def _asked(self, code: int) -> None:
        asked = self.factory.refusals.asked
        asked[code if code in asked else NAMELESS] += 1

    def _decline(self, problem: HeaderTooLong) -> None:
        """Its frame was whole, so the connection stays; only whoever waits for this one hears of it."""
        command = problem.command
        self._asked(command.code)
        if not self.greeted:
            self._greeted(command)
        self.answer(command, Answer(problem.answer_code, str(problem)))

    def _greeted(self, command: Command) -> None:
        """The first valid frame."""
        self.greeted, self.language = True, command.language
        shows = self.factory.shows
        self.factory.admission.spoke(self, shows is not None and shows(command))

    def _hold(self, held: int) -> None:
        factory = self.factory
        factory.unfinished += held - self._held
        self._held = held
        if not held:
            self._frame_tick = None
        elif self._frame_tick is None:
            self._frame_tick = factory.tick
        elif factory.unfinished > factory.limits.unfinished_bytes and not self._closed:
            self.end(Ended.UNFINISHED_FRAMES, f"{factory.unfinished} bytes in unfinished frames on this port")

    # --- writing

    def write(self, data: bytes) -> None:
        """Whole frames to the peer: with the present turn's other answers, or now when no turn is under way."""
        if self._closed:
            return
        out = self._out
        if not out:
            self._turn.speakers.append(self)
        out.append(data)
        self._out_bytes += len(data)
        if not self._turn.active:
            self._turn.end()

    def flush(self) -> None:
        """Say what was written during the turn."""
        out = self._out
        if not out or self._closed:
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        self._out_bytes = 0
        self.active_tick = self.factory.tick
        self.factory.bytes_out += len(data)
        if not eager_write(self.transport, data):
            self._count_unsent(queued_bytes(self.transport))
        elif self._unsent:
            self._count_unsent(0)  # too little waited for the transport to tell of its end

    def _count_unsent(self, waiting: int) -> None:
        """What waits for a peer that reads slowly is bounded, for each and for all of them."""
        factory = self.factory
        factory.unsent += waiting - self._unsent
        self._unsent = waiting
        limits = factory.limits
        factory.crowded = factory.unsent > limits.queued_bytes_all // 16
        factory.bound_turns()
        if waiting > limits.queued_bytes or (waiting > 65536 and factory.unsent > limits.queued_bytes_all):
            why = f"it does not read its answers: {waiting} bytes wait, {factory.unsent} on this port"
            self.end(Ended.UNREAD_ANSWERS, why, at_once=True)

    @property
    def unsent(self) -> int:
        """Bytes written that the socket has not taken yet."""
        return self._out_bytes + queued_bytes(self.transport)

    def has_room(self, unsent_max: int) -> bool:
        """Whether one more answer may be made for it; while much waits on the whole port it may have less unsent."""
        if self.factory.crowded:
            unsent_max = min(unsent_max, CROWDED_BYTES_MAX)
        return self.unsent <= unsent_max

    def answer(self, command: Command, answer: Answer) -> None:
        """The answer to a request, at once or to one that :meth:`RequestService.request` left open.

        Who asked for none gets none.  All answers leave here, but those to sends that are stored and to pulls that
        found something, which are written as bytes.
        """
        if answer.code:
            self.factory.refusals.answered(self, command, answer)
        if self.factory.answered is not None:
            self.factory.answered(command, answer.code)
        if not command.flag & 2:
            self.write(encode_answer(command.opaque, answer))

    def ignored(self, command: Command, reason: Ignored, what: str) -> None:
        """For a service: a part of this request is left out, and the rest of it served.

        :param what: what was left out, and what is wrong with it, for a person.
        """
        self.factory.refusals.ignored(self, command, reason, what)

    def notify(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        """A oneway request to the peer."""
        command = make_request(code, self._signed(code, fields, body), body, oneway=True)
        command.opaque = self._next_opaque()
        self.write(encode(command))

    def request(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", timeout_s: float = 3.0
    ) -> defer.Deferred[Command]:
        """A request to the peer.

        :return: fires with the response whatever its code; fails with ``TimeoutError`` after ``timeout_s`` seconds or
            with the connection's end, and at once with ``RemoteProtocolError`` where no frame holds the request;
            cancelled, it is forgotten, and an answer dropped.
        """
        if self._closed:
            return defer.fail(error.ConnectionDone(f"the connection to {self.peer} is closed"))
        command = make_request(code, self._signed(code, fields, body), body)
        opaque = command.opaque = self._next_opaque()
        try:
            frame = encode(command)  # before anything waits for its answer
        except RemoteProtocolError:
            return defer.fail()
        result: defer.Deferred[Command] = defer.Deferred(lambda _: self._pending.pop(opaque).timeout.cancel())
        timeout = self.factory.clock.callLater(timeout_s, self._expire, opaque, timeout_s)
        self._pending[opaque] = _Pending(result, timeout)
        self.write(frame)
        return result

    def _signed(self, code: int, fields: Mapping[str, str] | None, body: bytes) -> Mapping[str, str] | None:
        signer = self.factory.signer
        return fields if signer is None else signer.sign(code, fields, body)

    def _next_opaque(self) -> int:
        self._opaque = 0 if self._opaque >= OPAQUE_MAX else self._opaque + 1
        return self._opaque

    def _settle(self, command: Command) -> None:
        if entry := self._pending.pop(command.opaque, None):  # an answer to nothing is dropped, as in Java
            entry.timeout.cancel()
            entry.deferred.callback(command)

    def _expire(self, opaque: int, timeout_s: float) -> None:
        if entry := self._pending.pop(opaque, None):
            entry.deferred.errback(Failure(error.TimeoutError(f"{self.peer} did not answer within {timeout_s} s")))

    # --- ending

    def end(self, cause: Ended, why: str, at_once: bool = False) -> None:
        """End the connection because of what its peer did, or did not: counted and logged.

        :param why: for a person.
        :param at_once: what is written need not go out.
        """
        if not self._closed:
            self.factory.refusals.ended_by_us(self, cause, why)
        if at_once:
            self.abort()
        else:
            self.close()

    def close(self) -> None:
        """Say what is written, then end the connection; no answer is read any more."""
        if not self._closed:
            self.flush()
            self._closed = True
            self.transport.unregisterProducer()
            self.transport.loseConnection()
            self.factory.closing(self)
            if self._pending:  # they do not wait for the peer to read, which it may never do
                ended = Failure(error.ConnectionDone(f"the connection to {self.peer} is closed"))
                self.factory.clock.callLater(0, self._end_requests, ended)  # not while its caller closes others

    def abort(self) -> None:
        """End the connection now."""
        self._closed = True
        self.transport.abortConnection()

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._closed

    @property
    def at_rest(self) -> bool:
        """Whether nothing is under way either way, as far as the protocol knows."""
        return self.greeted and not (self._closed or self._pending or self._held or self._backlog or self.unsent)

    @property
    def rest_s(self) -> int | None:
        """For how long nothing was said, if nothing is under way."""
        return self.factory.tick - self.active_tick if self.at_rest else None

    def hear(self) -> None:
        if not (self._paused or self._backlog):  # else it is not read now, or what it sends would not be bounded
            eager_read(self.transport)

    def lose_place(self, cause: Ended, why: str) -> None:
        self.factory.refusals.ended_by_us(self, cause, why)
        self.abort()

    @property
    def age_s(self) -> int:
        """How long it has been open."""
        return self.factory.tick - self._opened_tick

    def overdue(self, tick: int) -> tuple[Ended, str] | None:
        """The deadline this connection missed by ``tick`` (one a second), if any."""
        limits, admission = self.factory.limits, self.factory.admission
        silent_s = 0 if self.greeted or not self.factory.server else tick - self._opened_tick
        if silent_s and silent_s > admission.patience_s(self.socket_host):
            return Ended.NO_REQUEST, f"no request within {silent_s - 1} s"
        if self._frame_tick is not None and tick - self._frame_tick > limits.whole_frame_s:
            return Ended.SLOW_FRAME, f"a frame not whole within {limits.whole_frame_s} s"
        if tick - self.active_tick > limits.idle_s:
            return Ended.IDLE, f"nothing said for {limits.idle_s} s"
        return None

    # --- backpressure: a peer that does not read its answers is not read from

    def pauseProducing(self) -> None:
        """Twisted: our outbound buffer is over its mark.  A client reads on: the server may wait for that to read."""
        self._paused = self.factory.server
        if self._paused:
            self.transport.pauseProducing()

    def resumeProducing(self) -> None:
        """Twisted: it has drained."""
        self._paused = False
        self._count_unsent(0)
        if self._backlog:
            self.factory.take_up_later(self)
        elif not self._closed:
            self.transport.resumeProducing()

    def stopProducing(self) -> None:
        """Twisted: the transport ends."""


@attrs.frozen(kw_only=True)
class ServerParts:
    """What the ports of one server share.

    :ivar numbers: gives connections their ids.
    :ivar turn: one turn's answers leave together, whatever port they leave by.
    :ivar refusals: told of every answer with a code, and of every connection that is ended.
    :ivar admission: who gets a place; each port admits by its own limits where not given.
    :ivar shows: whether who makes this request first is one of those whom the reserve of ``admission`` is for.
    :ivar answered: told of every request that is answered here, with the code; None: nobody wants to know.
    """

    numbers: Iterator[int] = attrs.field(factory=lambda: itertools.count(1))
    turn: Turn = attrs.field(factory=Turn)
    refusals: Refusals | None = None
    admission: Admission | None = None
    shows: Callable[[Command], bool] | None = None
    answered: Callable[[Command, int], None] | None = None


class RemotingFactory(ServerFactory):
    """Makes the connections of one port (or of one client) and keeps their limits.

    :param service: answers the requests.
    :param clock: for the sweep and request timeouts.
    :param server: whether peers connect to us (then the connection and first-frame limits apply).
    :param parts: what it shares with the other ports of its server.
    :param signer: signs our requests; None: they are not signed.
    """

    noisy = False

    def __init__(
        self,
        service: RequestService,
        clock: IReactorTime,
        limits: Limits | None = None,
        server: bool = True,
        parts: ServerParts | None = None,
        signer: Signer | None = None,
    ) -> None:
        parts = parts or ServerParts()
        self.service, self.clock = service, clock
        self.limits = limits or Limits()
        self.server = server
        self.signer = signer
        self.turn = parts.turn
        self.refusals = parts.refusals or Refusals("server" if server else "client", clock.seconds)
        self.log = make_logger()
        self.connections: dict[int, RemotingProtocol] = {}
        self.tick = 0
        # Counters for observe: frames and bytes since start.
        self.frames_in = self.bytes_in = self.bytes_out = 0
        # Invariants: the sums over all connections of the bytes held in their unfinished frames, and of those that wait
        # to be sent as of each one's last write.
        self.unfinished = self.unsent = 0
        self.crowded = False  # much is unsent
        self.turn_bytes_max = TURN_BYTES_MAX  # of answers to one connection in one turn
        self.admission = parts.admission or Admission(self.limits)
        self.shows = parts.shows
        self.answered = parts.answered
        self._closing: dict[int, tuple[RemotingProtocol, int]] = {}
        self._backlogs: dict[RemotingProtocol, None] = {}  # with requests that a turn left, who waits longest first
        self._going_on = False  # with those, in the next turn of the reactor
        self.numbers = parts.numbers
        self._sweeper: task.LoopingCall | None = None

    def doStart(self) -> None:
        """Twisted: the port listens."""
        super().doStart()
        self._watch()

    def _watch(self) -> None:
        if self._sweeper is None:
            self._sweeper = task.LoopingCall(lasting(self.sweep, "a sweep"))
            self._sweeper.clock = cast(Any, self.clock)
            self._sweeper.start(1.0, now=False)

    def doStop(self) -> None:
        """Twisted: the port is closed."""
        super().doStop()
        self._rest()

    def _rest(self) -> None:
        """No more sweeps, unless the port is open, or somebody has yet to take his last bytes and may never do so."""
        if self._sweeper is not None and self.numPorts == 0 and not self._closing:
            self._sweeper.stop()
            self._sweeper = None
            self.refusals.close()

    def buildProtocol(self, addr: IAddress | None) -> RemotingProtocol:  # type: ignore[override]
        """Twisted: a peer connects."""
        return RemotingProtocol(self, next(self.numbers))

    def admit(self, connection: RemotingProtocol) -> str | None:
        """Count a connection in, or say why not."""
        if self.server and (refusal := self.admission.admit(connection)):
            return refusal
        self.connections[connection.id] = connection
        return None

    def forget(self, connection: RemotingProtocol) -> bool:
        """Count a connection out; False when it never was admitted."""
        if self._closing.pop(connection.id, None) is not None:
            self._rest()
        self.admission.leave(connection)
        return self.connections.pop(connection.id, None) is not None

    def closing(self, connection: RemotingProtocol) -> None:
        """A connection waits for its last bytes to go out: the sweep cuts it when the peer never takes them."""
        if connection.id in self.connections:
            self._closing[connection.id] = (connection, self.tick)
            self._watch()

    def sweep(self) -> None:
        """Once a second: end what missed a deadline."""
        tick = self.tick = self.tick + 1
        self.refusals.settle()
        self.admission.settle()
        for connection in list(self.connections.values()):
            if not connection.closed and (missed := connection.overdue(tick)):
                connection.end(*missed)
        for connection, since in list(self._closing.values()):
            if tick - since > 5:
                connection.abort()

    def take_up_later(self, connection: RemotingProtocol) -> None:
        """It has requests that a turn left: they have theirs with those of others, and not before who asks little."""
        self._backlogs[connection] = None
        self._go_on_soon()

    def bound_turns(self) -> None:
        """While turns leave requests one large answer is the most that who comes to be read gets at once."""
        self.turn_bytes_max = CROWDED_BYTES_MAX if self.crowded or self._going_on else TURN_BYTES_MAX

    def _go_on_soon(self) -> None:
        if self._backlogs and not self._going_on:
            self._going_on = True
            self.bound_turns()
            self.clock.callLater(0, self._go_on)

    def _go_on(self) -> None:
        """Answer what turns left, as much as one connection may be answered in a turn; then others have theirs."""
        self._going_on = False
        self.bound_turns()
        until, began_s = self.bytes_out + self.turn_bytes_max, self.clock.seconds()
        try:
            for connection in list(self._backlogs):
                del self._backlogs[connection]
                connection.take_up()
                if self.bytes_out > until or self.clock.seconds() - began_s > TURN_S:
                    break
        finally:
            self._go_on_soon()

    def close_all(self) -> None:
        """End every connection (the service stops)."""
        for connection in list(self.connections.values()):
            connection.close()
