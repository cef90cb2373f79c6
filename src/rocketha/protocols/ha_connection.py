"""One end of an HA link on a transport: what master and slave do alike.

Theory of operation.  A link machine (:mod:`rocketha.replication.link`) decides, this carries out: bytes, times and news
become events of the machine, its effects are carried out in order, and only then it is told of the next event.  An
effect's callback may itself have news for the same link (an acknowledgement lets the log grow, an append is durable at
once): these are queued, not nested.  An effect that takes a disk some time is waited for (:meth:`HaConnection._wait`):
the effects behind it, and all events, keep their order and come after it.  One timer stands at the machine's next time
or before it; one that fires early finds that out and is set anew, so that a read moves no timer.

A link is *over* at the moment its machine, its owner or its transport ends it.  From then on nothing reaches the
machine or the owner; the transport has up to :data:`CLOSE_S` seconds to say what was written, since the last frame may
tell the peer why.

What it must not know: frames, files, roles.

Java: ``HAConnection``, ``HAClient``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python import log
from twisted.python.failure import Failure

from rocketha.errors import RemoteProtocolError
from rocketha.observe.refusals import Ended, Other, Refusals
from rocketha.replication.link import Cause, Effect, Link, LinkRefused

CLOSE_S = 5
"""Seconds that a peer has to take what was written before the connection ended."""

ENDED: Mapping[Cause, Ended] = {
    Cause.BREACH: Ended.BAD_FRAME,
    Cause.SILENT: Ended.IDLE,
    Cause.UNREAD: Ended.UNREAD_ANSWERS,
    Cause.OLD_EPOCH: Ended.OLD_EPOCH,
    Cause.OTHER_IDENTITY: Ended.WRONG_IDENTITY,
}
"""What the metric calls them; all others say that two logs do not go together."""

Machine = TypeVar("Machine", bound=Link)
Event = Callable[[int], list[Effect]]
"""Told to a machine with the present time in ms; what it wants done."""


def cause_of(error: RemoteProtocolError) -> Cause:
    """Why a link ends that somebody refused to go on with."""
    return error.cause if isinstance(error, LinkRefused) else Cause.BREACH


class HaConnection(Protocol, Generic[Machine]):
    """See the module.

    :param clock: one that never goes back (:mod:`rocketha.services.process.server`).
    :param refusals: told where this end gave the link up for what the peer did, or has.
    :ivar peer: ``host:port`` of the other end; no proxy stands before an HA port.
    :ivar over: why the link has ended; empty: it has not.
    :ivar opened_ms: when it began.
    """

    transport: Any

    def __init__(self, clock: IReactorTime, refusals: Refusals) -> None:
        self.peer = self.peer_host = self.socket_host = ""
        self.over = ""
        self.opened_ms = 0
        self._clock = clock
        self._refusals = refusals
        self._machine: Machine | None = None
        self._events: deque[Event] = deque()
        self._effects: deque[Effect] = deque()  # of the event that is being told, not yet carried out
        self._telling = self._waiting = False
        self._lost = False  # the transport
        self._timer: IDelayedCall | None = None  # of the machine; when the link is over, of the transport
        self._timer_ms = 0

    @property
    def machine(self) -> Machine:
        """The link; there is one from the moment that the owner is told of the connection."""
        if self._machine is None:
            raise AttributeError(f"the connection of {self.peer or 'nobody'} has no link")
        return self._machine

    # -- of each end --------------------------------------------------------------------------------------------------

    def _open(self, now_ms: int) -> Machine | str:
        """The machine of a connection that is there, or why it is not wanted."""
        raise NotImplementedError

    def _begun(self) -> None:
        """The link is open."""

    def _carry_out(self, effect: Effect) -> None:
        raise NotImplementedError

    def _closed(self, reason: str, cause: Cause | None) -> None:
        """The link is over; called once if it was open."""
        raise NotImplementedError

    def _gone(self) -> None:
        """The transport ended, whether or not there was a link."""

    # -- life ---------------------------------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        """Twisted: the transport is there."""
        peer = self.transport.getPeer()
        self.peer_host = self.socket_host = str(getattr(peer, "host", "unknown"))
        self.peer = f"{self.peer_host}:{getattr(peer, 'port', 0)}"
        self.opened_ms = self._now_ms()
        opened = self._open(self.opened_ms)
        if isinstance(opened, str):
            self.over = opened
            self.transport.abortConnection()
            return
        self._machine = opened
        for option in ("setTcpNoDelay", "setTcpKeepAlive"):
            if hasattr(self.transport, option):
                getattr(self.transport, option)(True)
        self.transport.registerProducer(self, True)
        self._begun()
        self._arm()

    def dataReceived(self, data: bytes) -> None:
        """Twisted: one read."""
        if not self.over:
            self.tell(lambda now_ms: self.machine.received(data, now_ms))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Twisted: the connection ended."""
        self._lost = True
        self._end(reason.getErrorMessage(), None)
        self._stop_timer()
        self._gone()

    def close(self, reason: str) -> None:
        """End the link; what was written is said."""
        self._end(reason, None)

    def abort(self, reason: str) -> None:
        """End the link and the connection now; what waits in our buffers is not said."""
        self._end(reason, None)
        self.transport.abortConnection()

    def _end(self, reason: str, cause: Cause | None) -> None:
        if self.over:
            return
        self.over = reason or "closed"
        self._events.clear()
        self._effects.clear()
        self._stop_timer()
        if not self._lost:
            self.transport.unregisterProducer()
            self.transport.loseConnection()
            self._timer = self._clock.callLater(CLOSE_S, self._cut)
        if cause is not None:
            self._ended(ENDED.get(cause, Ended.LOGS_DIFFER), self.over)
        self._closed(self.over, cause)

    def _ended(self, cause: Ended, why: str) -> None:
        self._refusals.ended_by_us(Other(self.peer, self.peer_host), cause, why)

    def _cut(self) -> None:
        """The peer does not take our last words."""
        self._timer = None
        self.transport.abortConnection()

    # -- events -------------------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Tell the machine, after what it is being told already, and carry out what it wants."""
        if not self.over:
            self._events.append(event)
        self._carry_on()

    def _carry_on(self) -> None:
        if self._telling:
            return
        self._telling = True
        try:
            while not self._waiting and (self._effects or self._events):  # none when the link is over
                if self._effects:
                    self._carry_out(self._effects.popleft())
                else:
                    self._effects.extend(self._events.popleft()(self._now_ms()))
        except BaseException:
            self.abort("effects of the link could not be carried out")  # the machine is no longer in step
            raise
        finally:
            self._telling = False
        self._arm()

    def _wait(self, done: Deferred[None] | Deferred[Event], failed: Callable[[Failure], None]) -> None:
        """The effect that is being carried out is not, before this fires: until then nothing is read, and the machine
        is told of nothing.

        :param done: what the machine is told then, before all that came meanwhile.
        :param failed: is given what went wrong; it ends the link.
        """
        self._waiting = True
        done.addCallbacks(self._waited, failed)
        done.addErrback(lambda failure: log.err(failure, "a link could not go on"))
        if self._waiting and not self.over:
            self.transport.pauseProducing()

    def _waited(self, news: Event | None) -> None:
        self._waiting = False
        if news is not None and not self.over:
            self._events.appendleft(news)
        if self._telling:  # it fired at once
            return
        self._carry_on()
        if not self.over and not self._waiting:
            self._caught_up()
            if not self.over:
                self.transport.resumeProducing()

    def _caught_up(self) -> None:
        """All effects that were held up are carried out."""

    def _refuse(self, error: RemoteProtocolError) -> None:
        """An effect was not accepted."""
        self._end(str(error), cause_of(error))

    # -- time ---------------------------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return int(self._clock.seconds() * 1000)

    def _arm(self) -> None:
        due_ms = None if self.over or self._waiting else self.machine.next_due_ms()
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        self._stop_timer()
        self._timer_ms = due_ms
        self._timer = self._clock.callLater(max(1, due_ms - self._now_ms()) / 1000, self._due)

    def _due(self) -> None:
        self._timer = None
        self.tell(self.machine.tick)

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
