"""The accepting side: who may speak to this member of a Raft group.

Theory of operation.  A HELLO is accepted when its group and receiver are ours and its sender is a member we know,
speaking from where that member lives (as far as its address is an IP address: behind a name anything may be).  The
newest connection of a member replaces the one before.  Two processes that run under one id take turns in doing so:
when an incarnation comes back after another one spoke, both are refused for a while and it is said who they are.
Refusals are answered, and counted and logged as all of this server's are (:mod:`rocketha.observe.refusals`).

Who has not greeted is a stranger and may take little: some seconds, and one of so many places.  When all are taken the
next one still comes in, because it may be a member, and the host that holds most of the places loses its oldest; where
members spoke from before a few are spared as long as there are others.  Members that greeted are never touched.

What it must not know: rules of Raft.  Network addresses are no proof of identity: see docs/operations on networks.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol as Interface

from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import ServerFactory

from rocketha.addresses import address_of
from rocketha.observe.refusals import Ended, Other, Refusals
from rocketha.protocols.endpoints import literal_host
from rocketha.protocols.raft import ENDED, Identity, RaftLimits, RaftProtocol
from rocketha.wire.raft_frames import Hello, Refusal, RefusalCode
from rocketha.wire.raft_values import Message

SHARED_S = 10
"""How long an id is refused that two processes use."""

MEMBER_STRANGERS = 8
"""Ungreeted connections of a host from which a member spoke that are ended after those of all other hosts."""


class Group(Interface):
    """What the port asks of the driver."""

    def received(self, messages: list[Message]) -> None:
        """The messages of one read."""

    def address_of(self, member: str) -> str | None:
        """``host:port`` of a member, "" where it is not known; None for who is no member."""

    def encoded_members(self) -> bytes:
        """The group's members as we know them."""

    def peer_up(self, member: str, last_index: int) -> None:
        """A member spoke to us: it lives, and has a log up to there."""

    def last_index(self) -> int:
        """The newest entry of our log."""

    @property
    def ready(self) -> bool:
        """Whether our log is recovered, so that all this can be said."""


class RaftPort(ServerFactory):
    """Accepts the connections of the other members.

    :param check_addresses: whether a member must speak from its own IP address, where that is known.
    :param refusals: told of connections that are ended for what the other end did or is.
    :ivar refused_count: connections refused since the start.
    """

    noisy = False

    def __init__(
        self,
        identity: Identity,
        group: Group,
        limits: RaftLimits | None = None,
        check_addresses: bool = True,
        refusals: Refusals | None = None,
    ) -> None:
        self.identity = identity
        self.limits = limits or RaftLimits()
        self.tick = 0
        self.refused_count = 0
        self._group = group
        self._check_addresses = check_addresses
        self.refusals = refusals or Refusals("raft", lambda: float(self.tick))
        self._open: dict[RaftProtocol, None] = {}  # all, greeted or not, ending or not
        self._strangers: dict[RaftProtocol, None] = {}  # those that have not greeted, oldest first
        self._hosts: dict[str, str] = {}  # member -> where it last spoke from
        self._peers: dict[str, RaftProtocol] = {}
        self._incarnations: dict[str, tuple[int, int]] = {}  # member -> (present, the one before)
        self._shared_until: dict[str, int] = {}
        self._closing: dict[RaftProtocol, int] = {}

    def buildProtocol(self, addr: IAddress | None) -> RaftProtocol:
        """Twisted: somebody connects."""
        return RaftProtocol(self)

    # --- Side

    def opened(self, connection: RaftProtocol) -> str | None:
        if not self._group.ready:
            why = "this member is not started"
            self._ended(connection, Ended.NOT_SERVED, why)
            return why
        if len(self._strangers) >= self.limits.strangers:
            self._evict()
        self._open[connection] = None
        self._strangers[connection] = None
        return None

    def greeted(self, connection: RaftProtocol, hello: Hello) -> Refusal | None:
        """Judge a HELLO; accepted, it replaces the member's connection before."""
        refusal = self._judge(connection, hello)
        if refusal is not None:
            return refusal
        self._strangers.pop(connection, None)
        self._hosts[hello.sender] = connection.host
        before = self._peers.get(hello.sender)
        self._peers[hello.sender] = connection
        if before is not None:
            before.abort()
        self._group.peer_up(hello.sender, hello.last_index)
        return None

    def members(self) -> bytes:
        return self._group.encoded_members()

    def last_index(self) -> int:
        return self._group.last_index()

    def refused(self, connection: RaftProtocol, refusal: Refusal, by_peer: bool) -> None:
        """Count it and say it."""
        self.refused_count += 1
        self._closing[connection] = self.tick
        self._ended(connection, ENDED[refusal.code], refusal.text)

    def received(self, messages: list[Message]) -> None:
        self._group.received(messages)

    def ended(self, connection: RaftProtocol, reason: str) -> None:
        self._closing.pop(connection, None)
        if connection not in self._open:
            return
        del self._open[connection]
        self._strangers.pop(connection, None)
        if self._peers.get(connection.peer) is connection:
            del self._peers[connection.peer]

    # --- strangers

    @property
    def strangers(self) -> int:
        """Connections that have not said who they are."""
        return len(self._strangers)

    def _evict(self) -> None:
        """End the stranger that is to make room."""
        held = Counter(each.host for each in self._strangers)
        hosts = set(self._hosts.values())

        def burden(each: RaftProtocol) -> tuple[bool, int]:
            count = held[each.host]
            return (each.host not in hosts or count > MEMBER_STRANGERS, count)

        chosen = max(self._strangers, key=burden)  # the oldest of those that weigh most
        del self._strangers[chosen]
        self.refused_count += 1
        self._ended(chosen, Ended.LOST_PLACE, "too many raft connections do not say who they are")
        chosen.abort()

    # --- judgment

    def _judge(self, connection: RaftProtocol, hello: Hello) -> Refusal | None:
        me = self.identity
        if hello.group != me.group:
            return Refusal(RefusalCode.GROUP, f"this is group {me.group!r}, not {hello.group!r}")
        if hello.receiver != me.id:
            text = f"this is {me.id!r}, not {hello.receiver!r}: an address in the list of peers is wrong"
            return Refusal(RefusalCode.RECEIVER, text)
        if hello.sender == me.id:
            return Refusal(RefusalCode.OWN_ID, f"{hello.sender!r} is the id of this member: one of the two is wrong")
        address = self._group.address_of(hello.sender)
        if address is None:
            return Refusal(RefusalCode.UNKNOWN_MEMBER, f"{hello.sender!r} is no member of {me.group!r} known here")
        if self._check_addresses and not may_be_from(connection.host, address):
            text = f"{hello.sender!r} lives at {address}, this connection comes from {connection.host}"
            return Refusal(RefusalCode.ADDRESS, text)
        return self._judge_incarnation(connection, hello)

    def _judge_incarnation(self, connection: RaftProtocol, hello: Hello) -> Refusal | None:
        present, before = self._incarnations.get(hello.sender, (hello.incarnation, hello.incarnation))
        other = self._peers.get(hello.sender)
        if hello.incarnation != present:
            if hello.incarnation == before:
                self._shared_until[hello.sender] = self.tick + SHARED_S
            self._incarnations[hello.sender] = (hello.incarnation, present)
        else:
            self._incarnations[hello.sender] = (present, before)
        if self._shared_until.get(hello.sender, -1) < self.tick:
            return None
        if other is not None:
            other.abort()
        text = f"two processes call themselves {hello.sender!r}; one of them is at {connection.address}"
        if other is not None:
            text += f", one at {other.address}"
        return Refusal(RefusalCode.SHARED_ID, text)

    def _ended(self, connection: RaftProtocol, cause: Ended, why: str) -> None:
        self.refusals.ended_by_us(Other(connection.address, connection.host), cause, why)

    # --- time

    def sweep(self) -> None:
        """Once a second: end what missed a deadline, and what does not go."""
        self.tick += 1
        for connection in list(self._open):
            if connection.closed:
                continue
            missed = connection.overdue()
            if missed is not None:
                self._ended(connection, *missed)
                connection.abort()
        for connection, since in list(self._closing.items()):
            if self.tick - since > self.limits.silence_s:
                connection.abort()

    def close_all(self) -> None:
        """End every connection (the service stops)."""
        for connection in list(self._open):
            connection.abort()

    @property
    def connected(self) -> list[str]:
        """Ids of the members that are connected to us, sorted."""
        return sorted(self._peers)


def may_be_from(host: str, address: str) -> bool:
    """Whether a connection from ``host`` can be of who lives at ``address``; a name tells nothing."""
    expected = literal_host(address)
    if expected is None:
        return True
    try:
        seen, lives = address_of(host), address_of(expected)
    except ValueError:
        return False
    # A member of this machine may speak from any of its addresses.
    return seen == lives or (seen.is_loopback and lives.is_loopback) or lives.is_unspecified
