"""What operators ask of a Raft group: hand the leadership over, change who belongs to it.

It must not know whose group it is: controllers' or brokers'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.errors import ConfigError, RequestRefused
from rocketha.observe.logging import make_logger
from rocketha.protocols.endpoints import is_loopback, parse_peers
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.raft.errors import Busy, LagsTooMuch, NotLeader, RaftRefused, Transferring
from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import Members
from rocketha.raft.node import RaftNode
from rocketha.services.raft.requests import NotDone
from rocketha.services.raft.service import RaftService
from rocketha.wire import fields, json_dialect
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command


class Operators:
    """See the module.

    :param what: the server that they must be on the machine of.
    :param from_elsewhere: whether they may be on another one: it is allowed, or others than operators are not let in.
    :param check: told of a change, and of the ids of all members after it; raises what the group has against it.
    :param not_leader: the answer where this member does not lead.
    """

    def __init__(
        self,
        raft: RaftService,
        what: str,
        from_elsewhere: Callable[[], bool],
        check: Callable[[MembersChange, Sequence[str]], None],
        not_leader: Answer,
    ) -> None:
        self._raft = raft
        self._what = what
        self._from_elsewhere = from_elsewhere
        self._check_change = check
        self._not_leader = not_leader
        self._log = make_logger()

    def is_operator(self, connection: RemotingProtocol) -> bool:
        """Whether it comes from this machine, or may come from another."""
        here = is_loopback(connection.proven_host) or connection.proven_host == connection.local_host
        return here or self._from_elsewhere()

    def check(self, connection: RemotingProtocol) -> None:
        """See that an operator asks.

        :raises RequestRefused: it is somebody else.
        """
        if not self.is_operator(connection):
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                f"this is granted on the {self._what}'s own machine only; remoteAdminEnable=true allows it from others",
            )

    def transfer(self, connection: RemotingProtocol, command: Command) -> Answer | defer.Deferred[Any]:
        """Hand the leadership to ``to``."""
        self.check(connection)
        to = fields.text(command.fields, "to", 32)
        self._log.warn("{peer} asks to hand leadership to {to}", peer=connection.peer, to=to)
        return self._answered(lambda: self._raft.transfer(to), lambda _: Answer())

    def members(self, connection: RemotingProtocol, command: Command) -> Answer | defer.Deferred[Any]:
        """Change the members: ``add`` and ``learn`` have id-host:port;..., ``remove`` and ``witness`` id;..."""
        self.check(connection)
        try:
            change = MembersChange(
                _peers(command, "add"),
                _peers(command, "learn"),
                _ids(command.fields.get("remove", "")),  # type: ignore[arg-type]
                _ids(command.fields.get("witness", "")),  # type: ignore[arg-type]
            )
        except ConfigError as problem:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, str(problem)) from None
        self._log.warn("{peer} asks to change the members: {change}", peer=connection.peer, change=str(change))
        return self._answered(lambda: self._begin(change), _changed)

    def _begin(self, change: MembersChange) -> defer.Deferred[Members]:
        ids = {*self._raft.node.members.ids(), *change.add_voters, *change.add_learners} - change.remove
        self._check_change(change, sorted(ids))
        return self._raft.change_members(change)

    def _answered(
        self, begin: Callable[[], defer.Deferred[Any]], done: Callable[[Any], Answer]
    ) -> Answer | defer.Deferred[Any]:
        try:
            return begin().addCallbacks(done, self._failed)
        except (RaftRefused, RuntimeError) as problem:
            return self._refusal(problem)

    def _failed(self, failure: Failure) -> Answer:
        failure.trap(RaftRefused, NotDone)
        return self._refusal(failure.value)

    def _refusal(self, problem: BaseException | None) -> Answer:
        if isinstance(problem, NotLeader | Transferring):
            return self._not_leader
        if isinstance(problem, Busy | LagsTooMuch):
            return Answer(int(ResponseCode.SYSTEM_BUSY), str(problem))
        return Answer(int(ResponseCode.SYSTEM_ERROR), str(problem))


def members_view(members: Members) -> Mapping[str, Any]:
    """For a status that people read."""
    return {
        "members": {name: members.addresses.get(name, "") for name in sorted(members.ids())},
        "voters": sorted(members.voters),
        "learners": sorted(members.learners | members.learners_next),
        "witnesses": sorted(members.witnesses),
        "changing": bool(members.outgoing),
    }


def group_status(node: RaftNode, **more: Any) -> Answer:
    """How a member of a group in DLedger mode sees it: JSON.

    :param more: what a broker has besides.
    """
    status = node.status()
    found = {
        "id": status.id,
        "role": status.role.value,
        "leader": status.leader_id,
        "term": status.term,
        "lastIndex": status.last_index,
        "committedIndex": status.commit,
        "matchIndex": {name: peer.match for name, peer in sorted(status.peers.items())},
        **members_view(status.members),
        **more,
    }
    return Answer(body=json_dialect.dumps(found))


def _peers(command: Command, name: str) -> Mapping[str, str]:
    text = command.fields.get(name, "")
    return parse_peers(text) if text else {}


def _ids(text: str) -> frozenset[str]:
    return frozenset(each.strip() for each in text.split(";") if each.strip())


def _changed(members: Members) -> Answer:
    peers = ";".join(f"{name}-{members.addresses.get(name, '')}" for name in sorted(members.ids()))
    return Answer(fields={"peers": peers})
