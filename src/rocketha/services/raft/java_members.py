"""Members of this node's group that are Java's: who speaks for each, on the line that is dialed to it and by this port.

A member is taken for Java's from when it answers, or asks, in Java's words until it says HELLO.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import Protocol as Interface

from rocketha.dledger.here import Answered, Here, Storage
from rocketha.dledger.member import JavaMember
from rocketha.observe.logging import make_logger
from rocketha.protocols.dledger_line import DLedgerLine, JavaSide
from rocketha.protocols.raft import Identity
from rocketha.raft.messages import Message
from rocketha.raft.node import RaftNode
from rocketha.wire import dledger_values as values


class Group(Interface):
    """Who drives the core."""

    def received(self, messages: list[Message]) -> None:
        """Messages for the core."""


class JavaMembers:
    """See the module; :class:`~rocketha.protocols.raft_peers.Others` of the dialing side.

    :param admitted: whether a member may be Java's at the moment.
    :ivar here: this member, in Java's eyes.
    :ivar all: all members are spoken to as Java's.
    """

    def __init__(
        self,
        identity: Identity,
        node: RaftNode,
        storage: Storage,
        reactor: Any,
        group: Group,
        everyone: bool = False,
        admitted: Callable[[], bool] = lambda: True,
    ) -> None:
        self.all = everyone
        self._reactor = reactor
        self._group = group
        self._admitted = admitted
        self._members: dict[str, JavaMember] = {}
        self._lines: dict[str, DLedgerLine] = {}
        self._told: list[Message] = []
        self._log = make_logger()
        self.here = Here(
            identity.group,
            identity.id,
            node,
            storage,
            self._tell,
            reactor.seconds,
            lambda seconds, call: reactor.callLater(seconds, call),
        )

    @property
    def admitted(self) -> bool:
        """Whether a member may be Java's at the moment."""
        return self._admitted()

    # --- of the dialing side

    def line(self, side: JavaSide, member: str) -> DLedgerLine:
        """A connection to a member that may be Java's."""
        node = self.here.node
        line = DLedgerLine(side, member, self._reactor, self.member(member), lambda: node.leader_id == member)
        self._lines[member] = line
        return line

    def answer(self, message: Message) -> bool:
        """The core's answer to a Java member; False where it is none."""
        member = self._members.get(message.to)
        return member is not None and member.answer(message)

    def speaks(self, name: str) -> bool:
        """Whether a member is reached in Java's words."""
        line = self._lines.get(name)
        return line is not None and line.ready

    def spoke(self, name: str) -> bool:
        """Whether a member has ever said something in Java's words, and was none of ours since."""
        member = self._members.get(name)
        return member is not None and member.spoke

    @property
    def any_spoke(self) -> bool:
        """Whether one has."""
        return any(map(self.spoke, self._members))

    def is_ours(self, name: str) -> None:
        """A member speaks our protocol."""
        if self._members.pop(name, None) is not None:
            self._log.info("raft member {member} is a member of ours now", member=name)
        line = self._lines.pop(name, None)
        if line is not None:
            line.abort()

    # --- of the port

    def member(self, name: str) -> JavaMember:
        """Who speaks for a member."""
        member = self._members.get(name)
        if member is None:
            member = JavaMember(self.here, name, lambda request, answered: self._ask(name, request, answered))
            self._members[name] = member
        return member

    def _ask(self, name: str, request: values.Message, answered: Answered) -> None:
        line = self._lines.get(name)
        if line is None:
            answered(None)
        else:
            line.ask(request, answered)

    # --- for the core

    def _tell(self, messages: list[Message]) -> None:
        """Not at once: the core may be the one that made us speak."""
        if not self._told:
            self._reactor.callLater(0, self._deliver)
        self._told += messages

    def _deliver(self) -> None:
        told, self._told = self._told, []
        self._group.received(told)


Dialect = Callable[[RaftNode, Group], JavaMembers]
"""Makes them, when the core is there."""
