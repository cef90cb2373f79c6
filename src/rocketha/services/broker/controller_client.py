"""How a broker talks with its controllers: who leads them, questions to that one, heartbeats to all.

What it must not know: what is asked.

Theory of operation.  One connection to each controller, made when needed and shared by questions and heartbeats: our
controllers take the cluster of a question that names none from the connection's heartbeats.

*Who leads* is asked of all at once (1005).  While nobody is known to lead, the first that names a leader is believed,
but not one that just failed us, unless it says so itself.  From time to time all are asked again, and whom most of them
name is believed: a leader of Java's that was deposed and does not know it answers as if nothing had happened.

One that says that it leads, and names itself otherwise than we do, is asked at the address that we know: by the
connection that carries our heartbeats, or it would take the master's changes of its set for a stranger's.

*A question* goes to whoever leads.  One that was not sent (no connection, or the answer is that another one leads) is
sent to the next leader while its time lasts; one that was sent and not answered is not, since it may have been carried
out: that is the asker's affair.  Then its connection is closed, so that it cannot arrive after a later one.

Java: ``BrokerOuterAPI``, the polling half of ``ReplicasManager``.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.errors import RemoteProtocolError, RequestRefused, RockethaError
from rocketha.observe.logging import make_logger
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.limits import Limits
from rocketha.protocols.peer_connections import PeerConnections
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.services.replication.ha_address import UNREACHED
from rocketha.wire.codes import ResponseCode
from rocketha.wire.controller_calls import Call, get_metadata, metadata
from rocketha.wire.remoting import Command

CONNECT_S = 1.0
LOOK_S = 1.0
"""How long a controller may take to say who leads."""

PAUSE_S = (0.05, 0.4)
"""Between looks for a leader: the first, and the longest."""

DISTRUST_S = 1.0
IDLE_S = 3600

AGAIN_S = 0.2
"""A connection that ends sooner after the one before it is not told: some peers take every one and close it."""


class Reply(NamedTuple):
    """An answer, and when the question was sent, in ms of the reactor's clock."""

    command: Command
    asked_ms: int


class NoLeader(RockethaError):
    """No controller that leads could be asked in time."""


class ControllerClient:
    """See the module.

    :param addresses: ``host:port`` of each controller.
    :param poll_s: how often it is asked who leads although somebody does.
    :param lost: called when a connection to a controller ended, not by us; but not for each, see :data:`AGAIN_S`.
    :ivar leader: who is believed to lead; empty while nobody is.
    """

    def __init__(
        self, dialer: Dialer, addresses: Sequence[str], chance: random.Random, poll_s: float, lost: Callable[[], None]
    ) -> None:
        self.leader = ""
        self._reactor = dialer.reactor
        self._addresses = tuple(addresses)
        self._chance = chance
        self._poll_s = poll_s
        self._lost = lost
        self._connections = PeerConnections(dialer, self._ended, Limits(idle_s=IDLE_S))
        self._distrusted: dict[str, float] = {}  # address -> until when
        self._known_as: dict[str, str] = {}  # what a controller that leads calls itself -> the address that we know
        self._ended_s: dict[str, float] = {}  # address -> when its connection did last
        self._questions: list[_Question] = []
        self._waiting: list[_Question] = []  # for a leader
        self._look: _Look | None = None
        self._next_look: Any = None
        self._pause_s = PAUSE_S[0]
        self._closed = False
        self._log = make_logger()

    # --- what a broker does

    def ask(self, call: Call, timeout_s: float) -> defer.Deferred[Reply]:
        """Ask whoever leads.

        :returns: fails with :class:`NoLeader`, or as the connection did: then it may have been carried out.
        """
        question = _Question(self, call, self._reactor.seconds() + timeout_s)
        question.timer = self._reactor.callLater(timeout_s, question.expired)
        self._questions.append(question)
        self._send(question)
        return question.answer

    def beat(self, call: Call) -> None:
        """Tell all of them, and whoever leads; nobody answers."""
        for address in self._all():
            self._connections.connect(address, CONNECT_S).addCallbacks(
                lambda connection: connection.notify(call.code, call.fields, call.body), _forgotten
            )

    def hang_up(self) -> None:
        """End all connections; what is asked later makes new ones, and arrives behind nothing that was asked before."""
        for address in self._all():
            self._connections.drop(address, unsaid=True)
        self._forget(self.leader)

    def close(self) -> None:
        """End everything, for good."""
        self._closed = True
        if self._next_look is not None and self._next_look.active():
            self._next_look.cancel()
        for question in list(self._questions):
            question.fail(NoLeader("this broker stops"))
        self._connections.close()

    def start(self) -> None:
        """Begin to look who leads."""
        self._begin_look()

    # --- questions

    def _send(self, question: _Question) -> None:
        if not self.leader:
            self._waiting.append(question)
            self._begin_look()
            return
        question.to = self.leader
        self._connections.connect(self.leader, CONNECT_S).addCallbacks(question.connected, question.not_sent)

    def _again(self, question: _Question) -> None:
        """It was not sent, or to one that does not lead."""
        self._forget(question.to, distrust=True)
        if self._closed:
            question.fail(NoLeader("this broker stops"))
        else:
            question.retry = self._reactor.callLater(PAUSE_S[0], self._send, question)

    def _forget(self, leader: str, distrust: bool = False) -> None:
        if leader and leader == self.leader:
            self._log.info("controller {address} is not asked any more", address=leader)
            self.leader = ""
        if leader and distrust:
            self._distrusted[leader] = self._reactor.seconds() + DISTRUST_S

    def _ended(self, address: str) -> None:
        if self._closed:
            return
        now_s = self._reactor.seconds()
        before_s, self._ended_s[address] = self._ended_s.get(address), now_s
        if before_s is None or now_s - before_s >= AGAIN_S:
            self._lost()

    # --- who leads

    def _all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._addresses, *filter(None, [self.leader]))))

    def _begin_look(self) -> None:
        if self._look is not None or self._closed:
            return
        if self._next_look is not None and self._next_look.active():
            if self._next_look.getTime() - self._reactor.seconds() <= PAUSE_S[1]:
                return
            self._next_look.cancel()
        look = self._look = _Look(len(self._all()))
        for address in self._all():
            asked = self._connections.connect(address, CONNECT_S).addCallback(_who_leads)
            asked.addCallback(self._told, look, address)
            asked.addErrback(_forgotten)
            asked.addBoth(self._looked, look)

    def _told(self, answer: Command, look: _Look, address: str) -> None:
        info = metadata(answer)
        if not info.leader_address or self._closed:
            return
        if info.is_leader:
            self._known_as[info.leader_address] = address
        leader = self._known_as.get(info.leader_address, info.leader_address)
        itself = info.is_leader
        if not itself and self._distrusted.get(leader, 0.0) > self._reactor.seconds():
            return
        look.named[leader] += 1
        if not self.leader:
            self._follow(leader)

    def _looked(self, _: Any, look: _Look) -> None:
        look.missing -= 1
        if look.missing or self._closed:
            return
        self._look = None
        if look.named:
            named: Counter[str] = Counter()
            for address, count in look.named.items():
                named[self._known_as.get(address, address)] += count
            most = max(named.values())
            best = [address for address, count in named.items() if count == most]
            if self.leader not in best:
                self._follow(best[0])
        wait_s = self._poll_s
        if not self.leader:
            wait_s = self._pause_s * (1 + self._chance.random())
            self._pause_s = min(2 * self._pause_s, PAUSE_S[1])
        self._next_look = self._reactor.callLater(wait_s, self._begin_look)

    def _follow(self, leader: str) -> None:
        self._log.info("controller {address} leads", address=leader)
        self.leader = leader
        self._pause_s = PAUSE_S[0]
        self._distrusted.pop(leader, None)
        waiting, self._waiting = self._waiting, []
        for question in waiting:
            self._send(question)


def _who_leads(connection: RemotingProtocol) -> defer.Deferred[Command]:
    code, fields, body = get_metadata()
    return connection.request(code, fields, body, timeout_s=LOOK_S)


class _Look:
    """All controllers are asked who leads."""

    def __init__(self, missing: int) -> None:
        self.missing = missing
        self.named: Counter[str] = Counter()


class _Question:
    """One question until it is answered."""

    def __init__(self, client: ControllerClient, call: Call, until_s: float) -> None:
        self.answer: defer.Deferred[Reply] = defer.Deferred()
        self.to = ""
        self.timer: Any = None
        self.retry: Any = None
        self._client = client
        self._call = call
        self._until_s = until_s
        self._asked_ms = 0
        self._connection: RemotingProtocol | None = None
        self._over = False

    def connected(self, connection: RemotingProtocol) -> None:
        """Send it."""
        if self._over:
            return
        now_s = self._client._reactor.seconds()
        self._connection, self._asked_ms = connection, int(now_s * 1000)
        code, fields, body = self._call
        asked = connection.request(code, fields, body, timeout_s=max(0.0, self._until_s - now_s) + 1.0)
        asked.addCallbacks(self._answered, self._broken)

    def not_sent(self, failure: Failure) -> None:
        """There is no connection to whoever is believed to lead."""
        if not self._over:
            self._client._again(self)

    def _answered(self, command: Command) -> None:
        if self._over:
            return
        self._connection = None
        if command.code == ResponseCode.CONTROLLER_NOT_LEADER:
            self._client._again(self)
            return
        self._end()
        self.answer.callback(Reply(command, self._asked_ms))

    def _broken(self, failure: Failure) -> None:
        if not self._over:
            self._client._forget(self.to, distrust=True)
            self.fail(failure.value or NoLeader(failure.getErrorMessage()))

    def expired(self) -> None:
        """Its time is over."""
        if self._over:
            return
        if self._connection is None:
            why = "cannot be reached" if self.to else "leads"
            self.fail(NoLeader(f"no controller {why} ({', '.join(self._client._addresses)})"))
            return
        connection = self._connection
        self._client._forget(self.to, distrust=True)
        self.fail(error.TimeoutError(f"{self.to} does not answer"))
        connection.abort()  # what was asked must not arrive behind what is asked next

    def fail(self, why: BaseException) -> None:
        """It is given up."""
        if not self._over:
            self._end()
            self.answer.errback(Failure(why))

    def _end(self) -> None:
        self._over = True
        client = self._client
        client._questions.remove(self)
        if self in client._waiting:
            client._waiting.remove(self)
        for timer in (self.timer, self.retry):
            if timer is not None and timer.active():
                timer.cancel()


def _forgotten(failure: Failure) -> None:
    """A controller does not answer, or not as one: the others are asked too."""
    failure.trap(*UNREACHED, RemoteProtocolError, RequestRefused)
