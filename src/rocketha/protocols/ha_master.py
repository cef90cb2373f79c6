"""A master's end of HA links, and the port that slaves connect to; both wires.

Theory of operation.  One block of the log is under way for each slave (:mod:`rocketha.replication.master_link`).  It is
read when it may leave; where the disk has to be waited for that is done elsewhere, and nothing else leaves on this link
before the block is there.  It is written at once as far as the socket takes it, and the rest waits in the transport,
which says when it is through: then the machine is told that the block *drained* and names the next one.  Where the
socket takes blocks as fast as they come, other work gets its turn after :data:`TURN_BYTES`.  So a slave that does not
read costs one block and the transport's mark (64 KiB), however far it is behind.

Blocks are read and written, not sent with ``sendfile``: what that saves is at the end that has less to do (see
benchmarks/ha_catch_up.py), and pages that wait in a socket would change under it when a deposed master cuts its log.

A slave's place is its own only when it said where its log ends and is a replica of this broker; of the others the
oldest makes room (:mod:`rocketha.protocols.admission`).

What it must not know: which replicas have to acknowledge, what may be acknowledged to producers.

Java: ``DefaultHAService``, ``AutoSwitchHAService`` and their connections.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple, cast
from typing import Protocol as Interface

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IDelayedCall, IPushProducer, IReactorTime
from twisted.internet.protocol import ServerFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.errors import CorruptStore, DiskFailure, RemoteProtocolError, ensure
from rocketha.observe.logging import make_logger
from rocketha.observe.refusals import Ended, Refusals
from rocketha.protocols.admission import Admission
from rocketha.protocols.eager import eager_read, eager_write, eager_write_block
from rocketha.protocols.ha_connection import HaConnection
from rocketha.protocols.limits import Limits
from rocketha.replication.autoswitch_master import AutoswitchMaster
from rocketha.replication.classic_master import ClassicMaster
from rocketha.replication.link import BATCH_BYTES, Ack, Cause, Close, Effect, Introduced, Send, SendLog
from rocketha.replication.master_link import NOWHERE
from rocketha.wire.ha_frames import SlaveHello

HA_LIMITS = Limits(connections=64, connections_per_address=16)
"""Of a port that was not told how many replicas there are."""

TURN_BYTES = BATCH_BYTES
"""Of the log to one slave before other work has its turn."""

UNREAD_BYTES_MAX = 64 * 1024
"""Of heartbeats and the like to a slave that has not even read what was sent before them."""

NOTES_MAX = 20
"""Lines a second that a port logs about slaves."""


class BlockReader(Interface):
    """Reads the log for one link."""

    def read(self, offset: int, size: int) -> bytes | memoryview | Deferred[bytes]:
        """Exactly these bytes, which lie in one file; DiskFailure or CorruptStore if they cannot be had.

        A view is good until control is given back.  No other read is asked for before a Deferred fired.
        """

    def close(self) -> None:
        """Give the descriptor back, now or when a read is over that is out."""


class OpenLink(NamedTuple):
    """What a connection is served with; the reader is closed with the link."""

    machine: ClassicMaster | AutoswitchMaster
    reader: BlockReader


class NoLink(NamedTuple):
    """Why a connection is not served; the text is for a person."""

    cause: Ended
    why: str


class LinkOwner(Interface):
    """Whose links they are: the broker that is master."""

    def open_link(self, connection: MasterHaProtocol, now_ms: int) -> OpenLink | NoLink:
        """Somebody connected: what he is served with, or why he is not; then he is told nothing and not heard of again.

        It is not yet known who it is.
        """

    def may_follow(self, connection: MasterHaProtocol) -> bool:
        """Whether somebody who is about to speak can be a replica; what he says counts for nothing before."""

    def introduced(self, connection: MasterHaProtocol, hello: SlaveHello, epoch: int) -> None:
        """A slave of controller mode will be served; see :class:`rocketha.replication.link.Introduced`.

        :raises RemoteProtocolError: it will not; the link ends.
        """

    def is_replica(self, connection: MasterHaProtocol) -> bool:
        """Whether a slave that said where its log ends is one of this broker's, as far as can be known."""

    def acked(self, connection: MasterHaProtocol, offset: int) -> None:
        """The slave has everything before ``offset``.

        :raises RemoteProtocolError: that cannot be; the link ends.
        """

    def disk_failed(self, connection: MasterHaProtocol, error: DiskFailure | CorruptStore) -> None:
        """A block could not be read; the link ends, other blocks may be readable."""

    def closed(self, connection: MasterHaProtocol, reason: str, cause: Cause | None) -> None:
        """The link is over: the last call for each :class:`OpenLink`.

        :param cause: None where the transport ended or this end wanted it.
        """


@implementer(IPushProducer)
class MasterHaProtocol(HaConnection[ClassicMaster | AutoswitchMaster]):
    """One slave's connection.

    :ivar id: unique on this port.
    :ivar greeted: whether the slave said where its log ends, and is a replica.
    :ivar bytes_sent: frames and bodies given to the transport.
    """

    factory: MasterHaFactory

    def __init__(self, factory: MasterHaFactory, number: int) -> None:
        super().__init__(factory.clock, factory.refusals)
        self.id = number
        self.greeted = self.stirred = self._let_in = False
        self.bytes_sent = 0
        self.factory = factory
        self._reader: BlockReader | None = None
        self._reading = False  # a block is being read that the disk has to be waited for
        self._paused = False  # the transport waits for the slave to read
        self._unread = 0  # bytes of frames without a body since then
        self._turn_left = 0
        self._later: IDelayedCall | None = None  # goes on with the next block after other work

    # -- life ---------------------------------------------------------------------------------------------------------

    def _open(self, now_ms: int) -> ClassicMaster | AutoswitchMaster | str:
        factory = self.factory
        cause, refusal = Ended.NO_PLACE, factory.admission.admit(self)
        if refusal is None:
            opened = factory.owner.open_link(self, now_ms)
            if isinstance(opened, OpenLink):
                self._reader = opened.reader
                factory.connections[self.id] = self
                return opened.machine
            cause, refusal = opened
        self._ended(cause, refusal)
        return refusal

    def _closed(self, reason: str, cause: Cause | None) -> None:
        factory = self.factory
        factory.connections.pop(self.id, None)
        if self._later is not None:
            self._later.cancel()
            self._later = None
        reader, self._reader = self._reader, None
        try:
            if reader is not None:
                reader.close()
        except DiskFailure as error:
            factory.log.warn("closing the log after {peer}: {error}", peer=self.peer, error=str(error))
        factory.note("the link of the slave {peer} ended: {reason}", peer=self.peer, reason=reason)
        factory.owner.closed(self, reason, cause)

    @property
    def rest_s(self) -> int | None:
        """A slave has its place for good."""
        return None

    def hear(self) -> None:
        eager_read(self.transport)

    def lose_place(self, cause: Ended, why: str) -> None:
        self._ended(cause, why)
        self.abort(why)

    def _gone(self) -> None:
        self.factory.admission.leave(self)

    # -- events -------------------------------------------------------------------------------------------------------

    def tell(self, event: Callable[[int], list[Effect]]) -> None:
        if not self._telling:
            self._turn_left = TURN_BYTES
        super().tell(event)

    def dataReceived(self, data: bytes) -> None:
        """Twisted: one read."""
        if not self.over and not self._let_in:
            self._let_in = self.factory.owner.may_follow(self)
            if not self._let_in:
                self._end("it shows no identity of a replica", Cause.OTHER_IDENTITY)
                self.transport.abortConnection()
                return
        super().dataReceived(data)
        if not self.greeted and not self.over and self.machine.position != NOWHERE:
            self.greeted = self.factory.owner.is_replica(self)
            if self.greeted:
                self.factory.admission.spoke(self)

    def _carry_out(self, effect: Effect) -> None:
        try:
            self._serve(effect)
        except RemoteProtocolError as error:
            self._refuse(error)

    def _serve(self, effect: Effect) -> None:
        owner = self.factory.owner
        if isinstance(effect, SendLog):
            self._send_log(effect)
        elif isinstance(effect, Ack):
            owner.acked(self, effect.offset)
        elif isinstance(effect, Send):
            self._say(effect.data)
        elif isinstance(effect, Introduced):
            owner.introduced(self, effect.hello, effect.epoch)
        elif isinstance(effect, Close):
            self._end(effect.reason, effect.cause)
        else:
            raise TypeError(f"a master's link wants {effect}")

    def _send_log(self, block: SendLog) -> None:
        assert self._reader is not None, "a link that is open has a reader"
        try:
            body = self._reader.read(block.offset, block.size)
        except (DiskFailure, CorruptStore) as error:
            self._unreadable(error)
            return
        if isinstance(body, Deferred):
            self._reading = True
            body.addCallbacks(self._read, self._not_read, callbackArgs=(block,))
            body.addErrback(self._broken)
        else:
            self._send_block(block, body)

    def _read(self, body: bytes, block: SendLog) -> None:
        self._reading = False
        if not self.over:
            self._send_block(block, body)

    def _not_read(self, failure: Failure) -> None:
        self._reading = False
        failure.trap(DiskFailure, CorruptStore)
        if not self.over:
            self._unreadable(cast(DiskFailure | CorruptStore, failure.value))

    def _broken(self, failure: Failure) -> None:
        self.factory.log.failure("a block was not sent: {log_failure.value}", failure=failure)
        self.abort("a block of the log could not be sent")  # the machine is no longer in step

    def _unreadable(self, error: DiskFailure | CorruptStore) -> None:
        self.factory.owner.disk_failed(self, error)
        self._end(f"the log cannot be read: {error}", None)

    def _send_block(self, block: SendLog, body: bytes | memoryview) -> None:
        size = len(block.head) + block.size
        self.bytes_sent += size
        self._turn_left -= size
        eager_write_block(self.transport, block.head, body)
        if self._paused:
            return
        if self._turn_left > 0:
            self.tell(self.machine.drained)
        else:
            self._later = self._clock.callLater(0, self._go_on)

    def _go_on(self) -> None:
        self._later = None
        if not self._paused:
            self.tell(self.machine.drained)

    def _say(self, data: bytes) -> None:
        ensure(not self._reading, "a machine says nothing while its block is under way")
        self.bytes_sent += len(data)
        if self._paused:
            self._unread += len(data)
            if self._unread > UNREAD_BYTES_MAX:
                self._end("the slave does not read", Cause.UNREAD)
                return
        eager_write(self.transport, data)

    # -- backpressure -------------------------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """Twisted: what was written waits in the transport."""
        self._paused = True

    def resumeProducing(self) -> None:
        """Twisted: it is through."""
        self._paused = False
        self._unread = 0
        if not self._reading:  # the block comes yet
            self.tell(self.machine.drained)

    def stopProducing(self) -> None:
        """Twisted: the transport ends."""


class MasterHaFactory(ServerFactory):
    """The port: makes the connections of slaves and tells them all what is new.

    :param owner: see there.
    :param clock: one that never goes back.
    :param limits: ``connections`` and ``connections_per_address`` of it.
    :param refusals: told of connections that get no link, and of links that this end gave up.
    :ivar connections: those that have a link, by id, oldest first.
    """

    noisy = False

    def __init__(
        self, owner: LinkOwner, clock: IReactorTime, limits: Limits = HA_LIMITS, refusals: Refusals | None = None
    ) -> None:
        self.owner = owner
        self.clock = clock
        self.log = make_logger()
        self.refusals = refusals or Refusals("master", clock.seconds)
        self.connections: dict[int, MasterHaProtocol] = {}
        self.admission = Admission(limits)
        self._numbers = itertools.count(1)
        self._notes = 0  # of the second below
        self._notes_s = 0

    def buildProtocol(self, addr: IAddress | None) -> MasterHaProtocol:  # type: ignore[override]
        """Twisted: a slave connects."""
        return MasterHaProtocol(self, next(self._numbers))

    def log_grew(self) -> None:
        """There is more log than before: it leaves now."""
        for connection in list(self.connections.values()):
            connection.tell(connection.machine.log_grew)

    def confirm_moved(self) -> None:
        """The confirm offset rose."""
        for connection in list(self.connections.values()):
            if isinstance(connection.machine, AutoswitchMaster):
                connection.tell(connection.machine.confirm_moved)

    def close_all(self, reason: str) -> None:
        """End all links; what was written is said."""
        for connection in list(self.connections.values()):
            connection.close(reason)

    def abort_all(self, reason: str) -> None:
        """End all links and connections now; no file of the log is open for them when this returns."""
        for connection in list(self.connections.values()):
            connection.abort(reason)

    def note(self, text: str, **values: Any) -> None:
        """Log what became of a slave; at most so often a second, so that nobody fills the disk with our log."""
        second = int(self.clock.seconds())
        if second != self._notes_s:
            self._notes_s, self._notes = second, 0
        self._notes += 1
        if self._notes <= NOTES_MAX:
            self.log.info(text, **values)
