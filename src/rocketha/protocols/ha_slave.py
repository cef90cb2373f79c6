"""A slave's end of an HA link; both wires.

Theory of operation.  What one read brings is given to the :class:`Follower` in order, bytes of the log as they are;
then the follower is told that the turn ended, makes what came as durable as it promises, and says how far that is
(:meth:`SlaveHaProtocol.appended`), at once or when its disk is done.  Comparing the end of the log, cutting it and
writing down an epoch take a thread and some time: until then nothing is read, the master waits; what came with the same
read, as bytes of that epoch, is carried out afterwards.

A follower that fails ends the link: the bytes that it did not take are not reported, so the master sends them again on
the next one.

What it must not know: whom to connect to, and when again.

Java: ``DefaultHAClient``, ``AutoSwitchHAClient``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol as Interface

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IPushProducer, IReactorTime
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.errors import CorruptStore, DiskFailure, RemoteProtocolError
from rocketha.observe.logging import make_logger
from rocketha.observe.refusals import Refusals
from rocketha.protocols.eager import eager_write, tcp_of
from rocketha.protocols.ha_connection import Event, HaConnection
from rocketha.replication.autoswitch_slave import AutoswitchSlave
from rocketha.replication.classic_slave import ClassicSlave
from rocketha.replication.epochs import EpochEntry
from rocketha.replication.link import (
    Align,
    Append,
    Cause,
    Close,
    Compare,
    Compared,
    Confirm,
    Effect,
    SaveEpochs,
    Send,
)

READ_BYTES = 256 * 1024
"""Of one read of the socket at most.  Less costs more calls a byte, more costs more memory that is not in a cache."""


class Follower(Interface):
    """Whose log follows: the broker that is slave.

    What raises a DiskFailure or CorruptStore ends the link, and is told with :meth:`disk_failed`.
    """

    def open_link(self, connection: SlaveHaProtocol, now_ms: int) -> ClassicSlave | AutoswitchSlave | str:
        """The connection is there: the machine, of the log as it is now; or why there is no use for it any more."""

    def compare(self, offset: int, data: bytes | memoryview) -> Deferred[None]:
        """These bytes are in the log already, if its master's is the one that it follows.

        Fires when they were found there; fails with a RemoteProtocolError if they are not (a
        :class:`rocketha.replication.link.LinkRefused`): the link ends.
        """

    def compared(self) -> None:
        """They are, up to the end of the log."""

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """These bytes at the end of the log.  The buffer is of the caller.

        :raises RemoteProtocolError: they do not belong there; the link ends.
        """

    def save_epochs(self, epochs: Sequence[EpochEntry]) -> Deferred[None]:
        """Have these in the file; fires when they are: bytes that follow are not given before."""

    def align(self, offset: int, epochs: Sequence[EpochEntry]) -> Deferred[tuple[int, Sequence[EpochEntry]]]:
        """Cut the log there or where a record begins before it, with these epochs; the result is where it ends and the
        epochs that are left, when no crash undoes that.

        What a link asked for that is over when it is done concerns nobody.
        """

    def confirm(self, offset: int) -> None:
        """All before ``offset`` is confirmed."""

    def turn_ended(self, connection: SlaveHaProtocol) -> None:
        """All of one read was given.  Say how far the log is durable: :meth:`SlaveHaProtocol.appended`, soon."""

    def disk_failed(self, connection: SlaveHaProtocol, error: DiskFailure | CorruptStore) -> None:
        """The follower's own disk; the link ends."""

    def closed(self, connection: SlaveHaProtocol, reason: str, cause: Cause | None) -> None:
        """The link is over: the last call for each machine, also for a turn that did not end.

        :param cause: None where the transport ended, a disk failed or this end wanted it.
        """


@implementer(IPushProducer)
class SlaveHaProtocol(HaConnection[ClassicSlave | AutoswitchSlave]):
    """The connection to the master.

    :ivar bytes_received: frames and bodies.
    """

    def __init__(self, follower: Follower, clock: IReactorTime, refusals: Refusals) -> None:
        super().__init__(clock, refusals)
        self.bytes_received = 0
        self._follower = follower
        self._log = make_logger()

    def appended(self, end: int) -> None:
        """The log before ``end``, and no more than was appended, is as durable as a report promises.

        Not heard before the log is cut: then the cut says where it ends.
        """
        if self.machine.transfers:
            self.tell(lambda now_ms: self.machine.appended(end, now_ms))

    # -- life ---------------------------------------------------------------------------------------------------------

    def _open(self, now_ms: int) -> ClassicSlave | AutoswitchSlave | str:
        return self._follower.open_link(self, now_ms)

    def _begun(self) -> None:
        tcp = tcp_of(self.transport)
        if hasattr(tcp, "bufferSize"):
            tcp.bufferSize = READ_BYTES
        self.tell(self.machine.begin)

    def _closed(self, reason: str, cause: Cause | None) -> None:
        self._log.info("the link to the master {peer} ended: {reason}", peer=self.peer, reason=reason)
        self._follower.closed(self, reason, cause)

    # -- events -------------------------------------------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        """Twisted: one read."""
        self.bytes_received += len(data)
        super().dataReceived(data)
        if not self.over and not self._waiting:
            self._caught_up()

    def _caught_up(self) -> None:
        self._follower.turn_ended(self)

    def _carry_out(self, effect: Effect) -> None:
        try:
            self._follow(effect)
        except RemoteProtocolError as error:
            self._refuse(error)
        except (DiskFailure, CorruptStore) as error:
            self._disk_failed(error)

    def _follow(self, effect: Effect) -> None:
        follower = self._follower
        if isinstance(effect, Append):
            follower.append_raw(effect.offset, effect.data)
        elif isinstance(effect, Send):
            eager_write(self.transport, effect.data)
        elif isinstance(effect, Confirm):
            follower.confirm(effect.offset)
        elif isinstance(effect, SaveEpochs):
            self._wait(follower.save_epochs(effect.epochs), lambda why: self._not_done(why, "no epoch was written"))
        elif isinstance(effect, Compare):
            done = follower.compare(effect.offset, effect.data)
            self._wait(done, lambda why: self._not_done(why, "the log was not compared"))
        elif isinstance(effect, Compared):
            follower.compared()
        elif isinstance(effect, Align):
            aligned = follower.align(effect.offset, effect.epochs).addCallback(self._aligned)
            self._wait(aligned, lambda why: self._not_done(why, "the log was not cut"))
        elif isinstance(effect, Close):
            self._end(effect.reason, effect.cause)
        else:
            raise TypeError(f"a slave's link wants {effect}")

    def _aligned(self, result: tuple[int, Sequence[EpochEntry]]) -> Event:
        machine = self.machine
        assert isinstance(machine, AutoswitchSlave), "a classic link aligns nothing"
        return lambda now_ms: machine.aligned(*result, now_ms)

    def _not_done(self, failure: Failure, what: str) -> None:
        error = failure.value
        if isinstance(error, DiskFailure | CorruptStore):
            self._disk_failed(error)
        elif isinstance(error, RemoteProtocolError):
            self._refuse(error)
        else:
            if not self.over:
                self._log.failure("{what}: {log_failure.value}", failure=failure, what=what)
            self._end(f"{what}: {failure.getErrorMessage()}", None)

    def _disk_failed(self, error: DiskFailure | CorruptStore) -> None:
        if not self.over:
            self._follower.disk_failed(self, error)
            self._end(f"the log cannot be written: {error}", None)

    # -- backpressure -------------------------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """Twisted: the master does not read our reports, a buffer full of them."""
        self._end("the master does not read", Cause.UNREAD)

    def resumeProducing(self) -> None:
        """Twisted: it does; the link is over."""

    def stopProducing(self) -> None:
        """Twisted: the transport ends."""


class SlaveHaFactory(Factory):
    """Makes the connection of an attempt: ``endpoint.connect(SlaveHaFactory(...))``.

    :param clock: one that never goes back.
    :param refusals: told of links that this end gave up.
    """

    noisy = False

    def __init__(self, follower: Follower, clock: IReactorTime, refusals: Refusals | None = None) -> None:
        self._follower = follower
        self._clock = clock
        self._refusals = refusals or Refusals("slave", clock.seconds)

    def buildProtocol(self, addr: IAddress | None) -> SlaveHaProtocol:
        """Twisted: the connection is there."""
        return SlaveHaProtocol(self._follower, self._clock, self._refusals)
