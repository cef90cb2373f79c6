"""A connection between two members of a Raft group, either end.

Theory of operation.  Each member dials each other one and sends its messages on the connection it dialed; what comes
back on it is only WELCOME, PONG or ERROR.  A connection begins with four magic bytes and a HELLO that says who speaks
to whom; the accepting end judges it and answers WELCOME, or an ERROR that names the operator's mistake, and closes.
Every frame carries a CRC.  The dialer pings once a second: a peer whose connection is open and which is silent
for five is given up.  One read gives its messages to the listener together; what is said in one turn of the driver
leaves in one write.

What a slow or dead peer can cost is bounded: beyond ``queued_bytes`` messages are dropped, which Raft repairs by
itself.  Bytes that break the protocol end the connection; before the HELLO is accepted, four kilobytes are the most
that is held.

What it must not know: rules of Raft.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any
from typing import Protocol as Interface

import attrs
from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.errors import RemoteProtocolError
from rocketha.observe.refusals import Ended
from rocketha.protocols.eager import eager_write, queued_bytes
from rocketha.protocols.raft_secret import ACCEPT, DIAL, proof, proves
from rocketha.wire import raft_frames as frames
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.raft_frames import Hello, MessageWriter, Ping, Proof, Refusal, RefusalCode, UnknownVersion
from rocketha.wire.raft_values import MEMBERS_BYTES_MAX, Message
from rocketha.wire.spec import raft as spec

ENDED: Mapping[int, Ended] = {
    RefusalCode.VERSION: Ended.VERSION,
    RefusalCode.GROUP: Ended.OTHER_GROUP,
    RefusalCode.RECEIVER: Ended.OTHER_MEMBER,
    RefusalCode.UNKNOWN_MEMBER: Ended.UNKNOWN_MEMBER,
    RefusalCode.OWN_ID: Ended.OWN_ID,
    RefusalCode.SHARED_ID: Ended.SHARED_ID,
    RefusalCode.ADDRESS: Ended.WRONG_ADDRESS,
    RefusalCode.BAD_FRAME: Ended.BAD_FRAME,
    RefusalCode.SECRET: Ended.WRONG_SECRET,
    RefusalCode.IDENTITY: Ended.WRONG_IDENTITY,
}
"""What the metric calls our refusals."""

_CONTROL = spec.HELLO  # the first kind that is no message of the algorithm


Vouches = Callable[[Any, str, str], bool]


def anybody(transport: Any, host: str, member: str) -> bool:
    """What vouches where identities are not demanded."""
    return True


@attrs.frozen
class Identity:
    """Who we are.

    :ivar address: ``host:port`` of this member in its own list.
    :ivar incarnation: drawn when the process began, 64 bits.
    :ivar secret: what all members know and nobody else; empty: whoever reaches the port may say it is a member.
    :ivar vouches: whether the other end of a connection, given its transport and IP address, may be a member.
    """

    group: str
    id: str
    address: str
    incarnation: int
    secret: bytes = attrs.field(default=b"", repr=False)
    vouches: Vouches = anybody


@attrs.frozen
class RaftLimits:
    """What connections of a group may bring, and cost; bytes and seconds (sweeps, one a second while we run).

    :ivar first_frame_s: until both ends have greeted.
    :ivar strangers: accepted connections that have not said who they are yet; for one more the port ends another.
    :ivar silence_s: without a word from the other end; its pings and pongs come once a second.
    :ivar queued_bytes: for one peer that does not read; more is dropped.
    :ivar runs: an entry may stand for many: the group's log is one of messages.
    """

    frame_bytes: int = frames.FRAME_LIMIT
    first_frame_s: int = 3
    whole_frame_s: int = 30
    silence_s: int = 5
    strangers: int = 64
    queued_bytes: int = 8 * 1024 * 1024
    runs: bool = False


class End(Interface):
    """The end of a connection that is ours, in either protocol."""

    @property
    def identity(self) -> Identity:
        """Who we are."""

    @property
    def limits(self) -> RaftLimits:
        """What a connection may cost."""

    @property
    def tick(self) -> int:
        """Sweeps since the start."""

    def opened(self, connection: Any) -> str | None:
        """The transport is there; why not to use it, if so."""

    def ended(self, connection: Any, reason: str) -> None:
        """The connection is down."""


class Side(End, Interface):
    """The port that accepted a connection, or who dialed it."""

    def greeted(self, connection: RaftProtocol, hello: Hello) -> Refusal | None:
        """HELLO or WELCOME came; why it is refused, if so."""

    def members(self) -> bytes:
        """The group's members as we know them, encoded: for a WELCOME."""

    def last_index(self) -> int:
        """The newest entry of our log: for greetings."""

    def refused(self, connection: RaftProtocol, refusal: Refusal, by_peer: bool) -> None:
        """The connection ends because one end broke a rule."""

    def received(self, messages: list[Message]) -> None:
        """The messages of one read."""


@implementer(IPushProducer)
class RaftProtocol(Protocol):
    """One connection.

    :param wanted: id of the member we dialed; "" at the accepting end.
    :ivar peer: id of the other end once it was greeted, "" before.
    :ivar opened_tick: when it began.
    :ivar dropped: messages not sent because too much waited.
    :ivar round_trip_ticks: of the last ping that was answered, in sweeps; 0 is less than one.
    """

    transport: Any

    def __init__(self, side: Side, wanted: str = "") -> None:
        self.side = side
        self.wanted = wanted
        self.peer = ""
        self.host = ""
        self.address = ""
        self.dropped = 0
        self.round_trip_ticks = 0
        self.opened_tick = self._heard_tick = side.tick
        self._frame_tick: int | None = None
        self._magic = b"" if wanted else spec.MAGIC  # what is still missing of it
        # The dialer knows whom it called: a WELCOME may be as long as a list of members.
        self._buffer = FrameBuffer(frames.HELLO_LIMIT + (MEMBERS_BYTES_MAX if wanted else 0))
        self._hello: Hello | None = None  # the dialer's, until it is welcomed or refused
        self._nonce = bytes(frames.NONCE_BYTES)  # ours, at the accepting end
        self._proved = not side.identity.secret  # that the other end knows the secret
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._paused = False
        self._closed = False

    # --- life

    def connectionMade(self) -> None:
        """Twisted: the transport is there."""
        peer = self.transport.getPeer()
        self.host = str(getattr(peer, "host", "unknown"))
        self.address = f"{self.host}:{getattr(peer, 'port', 0)}"
        problem = self.side.opened(self)
        if problem is not None:
            self.abort()
            return
        for option in ("setTcpNoDelay", "setTcpKeepAlive"):
            if hasattr(self.transport, option):
                getattr(self.transport, option)(True)
        self.transport.registerProducer(self, True)
        if self.wanted:
            me = self.side.identity
            nonce = os.urandom(frames.NONCE_BYTES) if me.secret else self._nonce
            self._hello = Hello(
                me.group, me.id, self.wanted, me.address, me.incarnation, last_index=self.side.last_index(), nonce=nonce
            )
            eager_write(self.transport, spec.MAGIC + frames.seal(frames.encode_hello(self._hello)))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Twisted: the connection ended."""
        self._closed = True
        self._out.clear()
        self.side.ended(self, reason.getErrorMessage())

    def abort(self) -> None:
        """End it now."""
        self._closed = True
        self.transport.abortConnection()

    def close(self) -> None:
        """Say what is written, then end it."""
        if not self._closed:
            self.flush()
            self._closed = True
            self.transport.unregisterProducer()
            self.transport.loseConnection()

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._closed

    @property
    def ready(self) -> bool:
        """Whether messages may be sent or taken."""
        return bool(self.peer) and not self._closed

    # --- reading

    def dataReceived(self, data: bytes) -> None:
        """Twisted: one read."""
        if self._closed:
            return
        self._heard_tick = self.side.tick
        messages: list[Message] = []
        try:
            if self._magic:
                data = self._without_magic(data)
            self._read(data, messages)
        except UnknownVersion as problem:
            self._refuse(Refusal(RefusalCode.VERSION, str(problem)))
        except RemoteProtocolError as problem:
            self._refuse(Refusal(RefusalCode.BAD_FRAME, str(problem)))
        if not self._buffer.held:
            self._frame_tick = None
        elif self._frame_tick is None:
            self._frame_tick = self.side.tick
        if messages:
            self.side.received(messages)

    def _without_magic(self, data: bytes) -> bytes:
        known = self._magic[: len(data)]
        if not data.startswith(known):
            raise RemoteProtocolError(f"{data[:4]!r} does not begin a raft connection")
        self._magic = self._magic[len(known) :]
        return data[len(known) :]

    def _read(self, data: bytes, messages: list[Message]) -> None:
        for frame in self._buffer.feed(data):
            message = frames.opened(frame)
            if message[0] >= _CONTROL:
                self._control(message)
                if self._closed:
                    return
            elif self.wanted or not self.peer:
                raise RemoteProtocolError(f"a message of kind {message[0]} where none may come")
            else:
                messages.append(frames.decode(message, self.peer, self.side.identity.id, self.side.limits.runs))

    def _control(self, message: bytes) -> None:
        kind = message[0]
        if kind == spec.ERROR and self.wanted:
            refusal = frames.decode_refusal(message)
            self._closed = True
            self.side.refused(self, refusal, by_peer=True)
            self.transport.unregisterProducer()
            self.transport.loseConnection()
        elif kind in (spec.PING, spec.PONG) and self.peer and (kind == spec.PONG) == bool(self.wanted):
            ping = frames.decode_ping(message)
            if self.wanted:
                self.round_trip_ticks = max(0, self.side.tick - ping.number)
            else:
                eager_write(self.transport, frames.seal(frames.encode_ping(Ping(ping.number, True))))
        elif kind == (spec.CHALLENGE if self.wanted else spec.PROOF) and not self.peer and self._hello is not None:
            self._judge_proof(frames.decode_proof(message), self._hello)
        elif kind == spec.WELCOME and self.wanted and not self.peer:
            self._greet(frames.decode_hello(message))
        elif kind == spec.HELLO and not self.wanted and self._hello is None:
            self._hello = frames.decode_hello(message)
            if self._proved:
                self._greet(self._hello)
            else:
                self._challenge(self._hello)
        else:
            raise RemoteProtocolError(f"a frame of kind {kind} where none may come")

    def _challenge(self, hello: Hello) -> None:
        self._nonce = os.urandom(frames.NONCE_BYTES)
        ours = proof(self.side.identity.secret, ACCEPT, hello, self._nonce)
        eager_write(self.transport, frames.seal(frames.encode_proof(Proof(ours, self._nonce, True))))

    def _judge_proof(self, given: Proof, hello: Hello) -> None:
        secret = self.side.identity.secret
        nonce = given.nonce if self.wanted else self._nonce
        if not secret:
            self._refuse(Refusal(RefusalCode.SECRET, "it asks for the group's secret, and none is configured here"))
        elif not proves(secret, ACCEPT if self.wanted else DIAL, hello, nonce, given.proof):
            self._refuse(Refusal(RefusalCode.SECRET, "the secrets of the two members differ"))
        else:
            self._proved = True
            if self.wanted:
                ours = proof(secret, DIAL, hello, nonce)
                eager_write(self.transport, frames.seal(frames.encode_proof(Proof(ours))))
            else:
                self._greet(hello)

    def _greet(self, hello: Hello) -> None:
        if not self._proved:
            self._refuse(Refusal(RefusalCode.SECRET, "it does not prove that it knows the group's secret"))
            return
        if self._buffer.held:
            raise RemoteProtocolError("bytes behind a greeting that was not answered yet")
        if not self.side.identity.vouches(self.transport, self.host, hello.sender):
            self._refuse(Refusal(RefusalCode.IDENTITY, f"its certificate does not say that it is {hello.sender!r}"))
            return
        refusal = self.side.greeted(self, hello)
        if refusal is not None:
            self._refuse(refusal)
            return
        self.peer = hello.sender
        self._buffer = FrameBuffer(self.side.limits.frame_bytes)
        if self.wanted:
            self.flush()
            return
        me = self.side.identity
        # The dialer may have been away while the group changed: it is told who belongs to it.
        answer = Hello(
            me.group, me.id, self.peer, me.address, me.incarnation, True, self.side.members(), self.side.last_index()
        )
        eager_write(self.transport, frames.seal(frames.encode_hello(answer)))

    def _refuse(self, refusal: Refusal) -> None:
        if self._closed:
            return
        self.side.refused(self, refusal, by_peer=False)
        if not self.wanted and not self._magic:
            eager_write(self.transport, frames.seal(frames.encode_refusal(refusal)))
        self._closed = True
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    # --- writing

    def say(self, message: Message, writer: MessageWriter) -> bool:
        """Queue a message for :meth:`flush`; False when it was dropped because too much waits already."""
        frame = writer.frame(message)
        if self._closed or self._out_bytes + len(frame) > self.side.limits.queued_bytes:
            self.dropped += 1
            return False
        self._out.append(frame)
        self._out_bytes += len(frame)
        return True

    def flush(self) -> None:
        """Say in one write what was queued, unless the peer has yet to greet or to read what it got."""
        out = self._out
        if not out or self._paused or self._closed or not self.peer:
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        self._out_bytes = 0
        eager_write(self.transport, data)

    @property
    def queued(self) -> int:
        """Bytes that wait for the peer to read."""
        return self._out_bytes + queued_bytes(self.transport)

    # --- time

    def overdue(self) -> tuple[Ended, str] | None:
        """The deadline that was missed, if any."""
        tick, limits = self.side.tick, self.side.limits
        if not self.peer and tick - self.opened_tick > limits.first_frame_s:
            return Ended.NO_REQUEST, f"no greeting within {limits.first_frame_s} s"
        if self._frame_tick is not None and tick - self._frame_tick > limits.whole_frame_s:
            return Ended.SLOW_FRAME, f"a frame not whole within {limits.whole_frame_s} s"
        if self.peer and tick - self._heard_tick > limits.silence_s:
            return Ended.IDLE, f"silent for {limits.silence_s} s"
        return None

    def ping(self) -> None:
        """Once a second at the dialing end."""
        if self.peer and not self._closed and not self._paused:
            eager_write(self.transport, frames.seal(frames.encode_ping(Ping(self.side.tick))))

    # --- backpressure

    def pauseProducing(self) -> None:
        """Twisted: what we wrote waits in the transport."""
        self._paused = True

    def resumeProducing(self) -> None:
        """Twisted: it has drained."""
        self._paused = False
        self.flush()

    def stopProducing(self) -> None:
        """Twisted: the transport ends."""
