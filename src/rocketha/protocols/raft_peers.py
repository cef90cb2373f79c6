"""The dialing side: one connection to each other member, kept up, and what is said on it.

Theory of operation.  A connection that breaks is dialed again at once: if its process died, its port refuses within
the millisecond, and a refusal is the proof that the core needs to hold an election without waiting for a timeout.
After that attempts come 50 ms, 100 ms ... 1 s apart, each 20 % more or less by chance.  A member that speaks to us
lives: it is dialed at once.  What is sent to a member that is not connected is dropped (Raft repeats what matters);
the core is told that messages were lost when a connection ends or drops some, and when there is one again.

What it must not know: rules of Raft.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any
from typing import Protocol as Interface

import attrs
from twisted.internet import error
from twisted.python.failure import Failure

from rocketha.errors import ConfigError, RemoteProtocolError
from rocketha.observe.logging import make_logger
from rocketha.observe.refusals import Ended, Other, Refusals
from rocketha.protocols.dledger_line import DLedgerLine, JavaSide
from rocketha.protocols.endpoints import Dialer, connect_protocol
from rocketha.protocols.raft import ENDED, Identity, RaftLimits, RaftProtocol
from rocketha.wire.raft_frames import Hello, MessageWriter, Refusal, RefusalCode
from rocketha.wire.raft_values import Members, Message

CONNECT_TIMEOUT_S = 3.0
FIRST_RETRY_S = 0.05
RETRY_MAX_S = 1.0
REFUSED_BY_RULE_S = 5.0
"""Before another attempt after the other end said ERROR: somebody has to mend a configuration first."""

JITTER = 0.2
COMPLAIN_AGAIN_S = 60


class Group(Interface):
    """What the peers tell the driver."""

    def peer_refused(self, member: str) -> None:
        """Its port refuses connections: no process listens there."""

    def peer_lost(self, member: str) -> None:
        """Messages to it were lost."""

    def learned(self, members: Members, last_index: int) -> None:
        """A member we know, whose log ends there, told us who belongs to the group."""

    def peer_reached(self, member: str, last_index: int) -> None:
        """It takes messages from now on, and has a log up to there."""

    def last_index(self) -> int:
        """The newest entry of our log."""

    def broken(self, failure: Failure) -> None:
        """This node can not go on."""


@attrs.frozen
class PeerView:
    """One peer for metrics.

    :ivar queued_bytes: that wait for it to read.
    :ivar dropped: messages not sent since the start.
    """

    address: str
    connected: bool
    queued_bytes: int
    dropped: int


class Others(Interface):
    """Members that speak another protocol.

    :ivar all: nobody is spoken to in ours.
    """

    all: bool

    @property
    def admitted(self) -> bool:
        """Whether there may be such members at the moment."""

    def line(self, side: JavaSide, member: str) -> DLedgerLine:
        """A connection to one, to be dialed."""

    def answer(self, message: Message) -> bool:
        """The core's answer to what such a member asked; False where it is none."""

    def is_ours(self, member: str) -> None:
        """It speaks ours."""


class _Peer:
    """One member and our way to it; is the side of its connection.

    :ivar java: it is dialed in Java's protocol.
    """

    def __init__(self, owner: RaftPeers, member: str, address: str) -> None:
        self.owner = owner
        self.id = member
        self.address = address
        self.identity = owner.identity
        self.limits = owner.limits
        self.connection: RaftProtocol | DLedgerLine | None = None
        self.dropped = 0
        self.java = owner.others is not None and owner.others.all
        self._heard = False  # who answers has said what it is
        self._attempt: Any = None
        self._retry: Any = None
        self._delay_s = FIRST_RETRY_S
        self._stopped = False

    @property
    def tick(self) -> int:
        """Sweeps since the start."""
        return self.owner.tick

    # --- dialing

    def dial(self) -> None:
        """Connect now, unless connected or at it."""
        if self._stopped or self._attempt is not None or self.connection is not None:
            return
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        try:
            endpoint = self.owner.dialer.endpoint(self.address, CONNECT_TIMEOUT_S)
        except ConfigError as problem:
            self.owner.complain(self.id, str(problem))
            self._again(RETRY_MAX_S)
            return
        self._heard = False
        others = self.owner.others
        java = others is not None and self.java and others.admitted
        protocol = others.line(self, self.id).protocol if others and java else RaftProtocol(self, self.id)
        attempt = connect_protocol(endpoint, protocol)
        self._attempt = attempt
        attempt.addBoth(self._dialed)

    def _dialed(self, result: Any) -> None:
        self._attempt = None
        if isinstance(result, Failure):
            self._not_connected(result)
        elif self._stopped:
            result.abort()

    def _not_connected(self, failure: Failure) -> None:
        if self._stopped:
            return
        if failure.check(error.ConnectionRefusedError):
            self.owner.group.peer_refused(self.id)
        self._again(self._delay_s)
        self._delay_s = min(self._delay_s * 2, RETRY_MAX_S)

    def _again(self, delay_s: float) -> None:
        if self._stopped or self._retry is not None:
            return
        chance = self.owner.chance.uniform(1 - JITTER, 1 + JITTER)
        self._retry = self.owner.reactor.callLater(delay_s * chance, self._retry_now)

    def _retry_now(self) -> None:
        self._retry = None
        self.dial()

    def hurry(self) -> None:
        """It lives: do not wait out a pause."""
        if self._retry is not None:
            self._delay_s = FIRST_RETRY_S
            self.dial()

    def stop(self) -> None:
        """Leave it."""
        self._stopped = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._attempt is not None:
            self._attempt.cancel()
        if self.connection is not None:
            self.connection.close()

    # --- Side

    def opened(self, connection: RaftProtocol | DLedgerLine) -> str | None:
        if self._stopped:
            return "left"
        self.connection = connection
        return None

    def greeted(self, connection: RaftProtocol, hello: Hello) -> Refusal | None:
        """A WELCOME: is it from the one we called?"""
        me = self.identity
        if hello.group != me.group or hello.sender != self.id:
            text = f"{hello.sender!r} of {hello.group!r} answers at {self.address}, where {self.id!r} should"
            return Refusal(RefusalCode.RECEIVER, text)
        self._delay_s = FIRST_RETRY_S
        if self.owner.others is not None:
            self.owner.others.is_ours(self.id)
        self.owner.group.peer_reached(self.id, hello.last_index)
        self.owner.welcomed(self.id, hello.members, hello.last_index)
        return None

    def members(self) -> bytes:
        """Never asked of a dialer."""
        return b""

    def last_index(self) -> int:
        return self.owner.group.last_index()

    def refused(self, connection: RaftProtocol, refusal: Refusal, by_peer: bool) -> None:
        """Somebody has to look at this, unless the other end only lags behind a membership change."""
        self._heard = True
        if by_peer:
            self.owner.complain(self.id, f"{self.id} refuses us: {refusal.text}")
        else:
            self.owner.ended(connection, ENDED[refusal.code], refusal.text)
        self._delay_s = RETRY_MAX_S if refusal.code == RefusalCode.UNKNOWN_MEMBER else REFUSED_BY_RULE_S

    def received(self, messages: list[Any]) -> None:
        """Never: a connection that we dialed brings no messages."""

    # --- JavaSide

    def is_java(self) -> None:
        self._heard = True
        self._delay_s = FIRST_RETRY_S
        self.owner.log.info("raft member {member} is Java's", member=self.id)
        self.owner.group.peer_reached(self.id, 0)

    def knows_ours(self) -> bool:
        others = self.owner.others
        if others is not None and others.all:
            return False
        self.java, self._heard = False, True
        return True

    def broken(self, failure: Failure) -> None:
        self.owner.group.broken(failure)

    def stranger(self, why: str) -> None:
        self._heard = True
        self.owner.complain(self.id, why)
        self._delay_s = REFUSED_BY_RULE_S

    def ended(self, connection: RaftProtocol | DLedgerLine, reason: str) -> None:
        """It broke: ask at once whether its process still lives."""
        self.dropped += connection.dropped
        if self.connection is not connection:
            return
        self.connection = None
        if self._stopped:
            return
        if connection.peer:
            self.owner.group.peer_lost(self.id)
            if self._delay_s <= FIRST_RETRY_S and connection.opened_tick < self.tick:
                self._again(0.0)
                return
        elif not self._heard and self.owner.others is not None:
            self.java = not self.java or self.owner.others.all  # whoever listens there does not know what we speak
        self._again(self._delay_s)
        self._delay_s = min(max(self._delay_s * 2, FIRST_RETRY_S), max(self._delay_s, RETRY_MAX_S))


class RaftPeers:
    """The connections to all other members.

    :param chance: jitters the attempts.
    :param refusals: told of connections that we end for what the other end did or is.
    :param others: speak for members that do not know our protocol; None where all do.
    """

    def __init__(
        self,
        dialer: Dialer,
        identity: Identity,
        group: Group,
        chance: random.Random,
        limits: RaftLimits | None = None,
        refusals: Refusals | None = None,
        others: Others | None = None,
    ) -> None:
        self.dialer = dialer
        self.reactor = dialer.reactor
        self.identity = identity
        self.group = group
        self.chance = chance
        self.limits = limits or RaftLimits()
        self.others = others
        self.tick = 0
        self._refusals = refusals or Refusals("raft", lambda: float(self.tick))
        self._writer = MessageWriter()
        self._peers: dict[str, _Peer] = {}
        self._speakers: list[RaftProtocol | DLedgerLine] = []
        self._complained: dict[str, tuple[str, int]] = {}
        self.log = make_logger()

    def set_addresses(self, addresses: Mapping[str, str]) -> None:
        """These are the members (ourselves may be among them): dial who is new, leave who is gone."""
        wanted = {name: at for name, at in addresses.items() if name != self.identity.id and at}
        for name in sorted(self._peers):
            if wanted.get(name) != self._peers[name].address:
                self._peers.pop(name).stop()
        for name in sorted(wanted):
            if name not in self._peers:
                self._peers[name] = _Peer(self, name, wanted[name])
                self._peers[name].dial()

    def send(self, message: Message) -> bool:
        """Queue a message for :meth:`flush`; False when it is lost."""
        if self.others is not None and self.others.answer(message):
            return True
        peer = self._peers.get(message.to)
        if peer is None or peer.connection is None or not peer.connection.ready:
            return False
        if not peer.connection.say(message, self._writer):
            self.group.peer_lost(message.to)
            return False
        self._speakers.append(peer.connection)
        return True

    def flush(self) -> None:
        """Say what was queued: one write for each peer."""
        speakers = self._speakers
        if speakers:
            for connection in speakers:
                connection.flush()
            speakers.clear()

    def hurry(self, member: str) -> None:
        """A member spoke to us: dial it now if it is not connected."""
        peer = self._peers.get(member)
        if peer is not None:
            peer.java = False
            peer.hurry()

    def java_spoke(self, member: str) -> None:
        """A member spoke Java's protocol to us: dial it so if it is not connected."""
        peer = self._peers.get(member)
        if peer is not None and peer.connection is None and not peer.java:
            peer.java = True
            peer.hurry()

    def welcomed(self, member: str, encoded: bytes, last_index: int) -> None:
        """A member with a log up to there took our connection, and says who the members are."""
        if not encoded:
            return
        try:
            members = Members.decode(encoded)
        except RemoteProtocolError as problem:
            self.complain(member, str(problem))
            return
        self.group.learned(members, last_index)

    def complain(self, member: str, text: str) -> None:
        """Log what is wrong with a peer; the same thing once a minute."""
        known = self._complained.get(member)
        if known is None or known[0] != text or self.tick - known[1] >= COMPLAIN_AGAIN_S:
            self._complained[member] = (text, self.tick)
            self.log.warn("raft peer {peer}: {text}", peer=member, text=text)

    def ended(self, connection: RaftProtocol | DLedgerLine, cause: Ended, why: str) -> None:
        """A connection that we dialed is ended for what the other end did."""
        self._refusals.ended_by_us(Other(connection.address, connection.host), cause, f"{connection.wanted}: {why}")

    def sweep(self) -> None:
        """Once a second: ping, and end what is silent."""
        self.tick += 1
        for name in sorted(self._peers):
            connection = self._peers[name].connection
            if connection is None or connection.closed:
                continue
            missed = connection.overdue()
            if missed is not None:
                self.ended(connection, *missed)
                connection.abort()
            else:
                connection.ping()

    def stop(self) -> None:
        """End every connection and dial no more."""
        for name in sorted(self._peers):
            self._peers[name].stop()
        self._peers.clear()

    @property
    def connected(self) -> list[str]:
        """Ids of the members that take our messages, sorted."""
        return sorted(name for name, peer in self._peers.items() if peer.connection and peer.connection.ready)

    def views(self) -> dict[str, PeerView]:
        """Every peer, for metrics."""
        found = {}
        for name in sorted(self._peers):
            peer = self._peers[name]
            connection = peer.connection
            queued, dropped = (connection.queued, connection.dropped) if connection is not None else (0, 0)
            found[name] = PeerView(peer.address, name in self.connected, queued, peer.dropped + dropped)
        return found
