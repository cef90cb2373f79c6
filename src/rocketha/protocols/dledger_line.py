"""The connection that we dial to a member of a Raft group that is Java's: requests of DLedger, and their answers.

Theory of operation.  In a group that may have Java members each member is dialed in one of two protocols, ours or
Java's; one that closes the connection before it has said anything is dialed in the other the next time
(:mod:`rocketha.protocols.raft_peers`).  METADATA asks who answers: a member that knows our protocol answers it as well,
but with its term, which Java's answer does not have, and is dialed in our protocol then.

METADATA also shows whether the member lives.  A Java leader beats each two seconds, and members of ours wait for a word
of their leader for one; while it leads it is asked more often, and what it answers counts as such a word.

What it must not know: what is said with requests (:mod:`rocketha.dledger`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import Protocol as Interface

from twisted.python.failure import Failure

from rocketha.dledger.here import Answered
from rocketha.errors import RemoteProtocolError
from rocketha.observe.refusals import Ended
from rocketha.protocols.raft import End
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.protocols.remoting_client import CLIENT_LIMITS, NoService
from rocketha.raft.messages import Message
from rocketha.wire import dledger_json, dledger_values
from rocketha.wire.dledger_values import (
    CODES,
    EXCHANGES,
    NUMBER_MAX,
    DLedgerResponseCode,
    MetadataAnswer,
    MetadataRequest,
)
from rocketha.wire.raft_frames import MessageWriter
from rocketha.wire.remoting import Command

ANSWER_S = 3.0
"""As long as Java's members wait for each other."""
LIFE_S = 0.4
"""Between two looks whether a leader lives."""


class JavaSide(End, Interface):
    """Who dialed."""

    def is_java(self) -> None:
        """It is Java's, and of our group: it takes messages from now on."""

    def knows_ours(self) -> bool:
        """It knows our protocol; whether it is to be dialed in that."""

    def broken(self, failure: Failure) -> None:
        """What an answer led to failed."""

    def stranger(self, why: str) -> None:
        """Whoever answers there is not the member that we want."""


class Correspondent(Interface):
    """What is said on the line, and what comes of it."""

    def say(self, message: Message) -> None:
        """A message of the core's to that member."""

    def alive(self, leads: bool) -> None:
        """It answered, and says that it leads, or not."""

    def lost(self) -> None:
        """It can not be reached any more."""


class DLedgerLine(NoService):
    """One connection. Members ask on connections that they dialed: here none is answered.

    :param wanted: id of the member we dialed.
    :param correspondent: speaks on it.
    :param watched: whether that member leads: it is looked after more closely then.
    :ivar peer: that id once it was greeted, "" before.
    """

    def __init__(
        self,
        side: JavaSide,
        wanted: str,
        reactor: Any,
        correspondent: Correspondent,
        watched: Callable[[], bool],
    ) -> None:
        self.side = side
        self.wanted = wanted
        self.peer = ""
        self.host = self.address = ""
        self.dropped = 0
        self.opened_tick = self._heard_tick = side.tick
        self._correspondent = correspondent
        self._watched = watched
        self._reactor = reactor
        self._factory = RemotingFactory(self, reactor, CLIENT_LIMITS, server=False)
        self.protocol = self._factory.buildProtocol(None)
        self._queue: list[Message] = []
        self._life: Any = None
        self._open = self._closed = False

    # --- the connection

    def connected(self, connection: RemotingProtocol) -> None:
        """The transport is there: who answers?"""
        self.host, self.address, self._open = connection.peer_host, connection.peer, True
        if self.side.opened(self) is not None:
            self.abort()
            return
        self.ping()

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """It is down."""
        self._closed = True
        self._queue.clear()
        if self._life is not None:
            self._life.cancel()
            self._life = None
        self._correspondent.lost()
        self.side.ended(self, reason)

    # --- who answers, and does it live?

    def ping(self) -> None:
        """Ask who it is."""
        me = self.side.identity
        self.ask(MetadataRequest(group=me.group, remote_id=self.wanted, local_id=me.id), self._is)

    def _is(self, answer: dledger_values.Message | None) -> None:
        if self._closed or not isinstance(answer, MetadataAnswer):
            return
        self._heard_tick = self.side.tick
        if answer.code != DLedgerResponseCode.SUCCESS or answer.group != self.side.identity.group:
            self.side.stranger(f"{self.wanted} of {self.side.identity.group} does not answer there, code {answer.code}")
            self.abort()
            return
        if answer.term >= 0 and self.side.knows_ours():
            self.abort()
            return
        self._correspondent.alive(answer.leader_id == self.wanted)
        if not self.peer:
            self.peer = self.wanted
            self.side.is_java()
        if self._life is None:
            self._life = self._reactor.callLater(LIFE_S, self._look)

    def _look(self) -> None:
        self._life = None
        if self._watched():
            self.ping()
        elif not self._closed:
            self._life = self._reactor.callLater(LIFE_S, self._look)

    def overdue(self) -> tuple[Ended, str] | None:
        """The deadline that was missed, if any."""
        silent_s = self.side.tick - self._heard_tick
        if silent_s > self.side.limits.silence_s:
            return Ended.IDLE, f"no answer for {silent_s} s"
        return None

    # --- asking

    def ask(self, request: dledger_values.Message, answered: Answered) -> None:
        """A request; ``answered`` is told None where the connection breaks, too much waits, or no answer comes."""
        protocol = self.protocol
        if self._closed or not self._open or protocol.unsent > self.side.limits.queued_bytes:
            self.dropped += self._open and not self._closed
            answered(None)
            return
        code = CODES[type(request)]

        def came(command: Command) -> None:
            try:
                answer = dledger_json.decode(EXCHANGES[code].answer, command.body)
                if answer.term > NUMBER_MAX:
                    raise RemoteProtocolError(f"term {answer.term}")
            except RemoteProtocolError as problem:
                self.side.stranger(f"its answer to {code.name}: {problem}")
                answered(None)
                return
            answered(answer)

        def failed(failure: Failure) -> None:
            answered(None)

        protocol.request(code, None, dledger_json.encode(request), ANSWER_S).addCallbacks(came, failed).addErrback(
            self.side.broken
        )

    # --- what the peers ask of any connection

    def say(self, message: Message, writer: MessageWriter) -> bool:
        """Queue a message of the core's for :meth:`flush`."""
        self._queue.append(message)
        return True

    def flush(self) -> None:
        """Say what was queued, in one write."""
        queue, self._queue = self._queue, []
        turn = self._factory.turn
        turn.active = True
        try:
            for message in queue:
                self._correspondent.say(message)
        finally:
            turn.end()

    @property
    def closed(self) -> bool:
        """Whether nothing can be written any more."""
        return self._closed

    @property
    def ready(self) -> bool:
        """Whether messages may be sent."""
        return bool(self.peer) and not self._closed

    @property
    def queued(self) -> int:
        """Bytes that wait for the member to read."""
        return self.protocol.unsent

    def close(self) -> None:
        """End it."""
        self.abort()

    def abort(self) -> None:
        """End it now."""
        if self._open and not self._closed:
            self.protocol.abort()
