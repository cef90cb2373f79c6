"""One listening port for remoting and Raft, as Java's controllers have it.

Theory of operation.  A remoting frame begins with a length word, whose first byte is 0 or 1 within any limit that
makes sense; a Raft connection begins with ``R``.  So the first byte decides.  Until it comes the connection is one of
the remoting port's, counted by its limits and ended by its deadlines, but its service hears nothing of it.  A Raft
connection then is the Raft port's, but leaves those counts only when it has greeted: an ``R`` is no way around them.

What it must not know: anything that is said on either.
"""

from __future__ import annotations

from typing import Protocol as Interface

from twisted.internet.interfaces import IAddress, IReactorTime, ITransport
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from rocketha.protocols.limits import Limits
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol, RequestService, ServerParts
from rocketha.wire.remoting import Answer, Command
from rocketha.wire.spec.raft import MAGIC

_FIRST = MAGIC[:1]


class Greeted(Interface):
    """The protocol of a Raft connection."""

    @property
    def ready(self) -> bool:
        """Whether the other end has said, and shown, who it is."""

    def makeConnection(self, transport: ITransport) -> None:
        """Twisted's."""

    def dataReceived(self, data: bytes) -> None:
        """Twisted's."""

    def connectionLost(self, reason: Failure) -> None:
        """Twisted's."""


class ProtocolSource(Interface):
    """Makes the protocol of a Raft connection."""

    def buildProtocol(self, addr: IAddress | None) -> Greeted | None:
        """Twisted's."""


class _Silence:
    """Stands in for the service until it is clear that the connection is one for it."""

    def connected(self, connection: RemotingProtocol) -> None:
        """Not yet."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """It never was."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """Cannot be: the first byte comes before."""
        return None

    def turn_ended(self) -> None:
        """Nothing was staged."""


_SILENCE = _Silence()


class SharedProtocol(RemotingProtocol):
    """A connection of which the first byte decides what it is."""

    factory: SharedPort

    def __init__(self, factory: SharedPort, number: int) -> None:
        super().__init__(factory, number)
        self._service = _SILENCE
        self._decided = False
        self._raft: Greeted | None = None
        self._counted = True  # by the remoting port's limits

    def _enter(self) -> None:
        """The service hears of it when it is clear that the connection is one for it."""

    def dataReceived(self, data: bytes) -> None:
        """Twisted: one read."""
        if self._raft is not None:
            self._say_raft(self._raft, data)
            return
        if not self._decided and not self._closed:
            self._decided = True
            if data[:1] == _FIRST:
                self._hand_over(data)
                return
            self._service = self.factory.service
            super()._enter()
        super().dataReceived(data)

    def _hand_over(self, data: bytes) -> None:
        self._closed = True  # for what remoting might still want to say
        self.transport.unregisterProducer()
        raft = self.factory.raft.buildProtocol(self.transport.getPeer())
        if raft is None:
            self.transport.abortConnection()
            return
        self._raft = raft
        raft.makeConnection(self.transport)
        self._say_raft(raft, data)

    def _say_raft(self, raft: Greeted, data: bytes) -> None:
        raft.dataReceived(data)
        if self._counted and raft.ready:
            self._counted = False
            self.factory.forget(self)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Twisted: the connection ended."""
        if self._raft is not None:
            self.factory.forget(self)
            self._raft.connectionLost(reason)
        else:
            super().connectionLost(reason)


class SharedPort(RemotingFactory):
    """The factory of a port that serves both.

    :param raft: makes the protocols of Raft connections.

    The others as of :class:`RemotingFactory`.
    """

    def __init__(
        self,
        service: RequestService,
        clock: IReactorTime,
        raft: ProtocolSource,
        limits: Limits | None = None,
        parts: ServerParts | None = None,
    ) -> None:
        super().__init__(service, clock, limits, parts=parts)
        self.raft = raft

    def buildProtocol(self, addr: IAddress | None) -> SharedProtocol:  # type: ignore[override]
        """Twisted: a peer connects."""
        return SharedProtocol(self, next(self.numbers))
