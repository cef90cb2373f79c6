"""``rocketha dledger``: see who leads a group of brokers in DLedger mode, hand its leadership to another member, and
change its members.

Status and transfer are for groups of Java's brokers, of ours, and of both: they ask in DLedger's own words. Members are
changed in groups of ours.

Java: ``LeadershipTransferCommand`` of dledger's command line; RocketMQ's ``mqadmin`` has nothing for it.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from typing import Protocol as Interface

import attrs
import click
from twisted.internet.task import deferLater

from rocketha.admin import options, output
from rocketha.admin.client import NETWORK_ERRORS, NoRoute, RequestFailed, plain
from rocketha.admin.commands import DONE, FAILED, Given, actions, confirm, only_one
from rocketha.admin.main_loop import run_with
from rocketha.admin.secure import dialer_of
from rocketha.errors import RemoteProtocolError, RockethaError
from rocketha.protocols.endpoints import parse_peers
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.raft.config import TRANSFER_LAG_MAX
from rocketha.wire import dledger_json, json_dialect
from rocketha.wire import dledger_values as values
from rocketha.wire.codes import PrivateCode, ResponseCode
from rocketha.wire.dledger_values import CODES, EXCHANGES
from rocketha.wire.dledger_values import DLedgerResponseCode as Code

ANSWER_S, TRANSFER_S, CHANGE_S = 3.0, 5.0, 25.0
LOOK_S = 0.5
"""Between two looks at how far a new member is."""
PATIENCE_S = 60.0
"""For one that does not come nearer."""
BUSY_S = 10.0
"""For a leader that is not ready for a change yet."""
AGAIN = (ResponseCode.SYSTEM_BUSY, ResponseCode.CONTROLLER_NOT_LEADER)
NOBODY = "-"
"""No member has this id."""

REASONS: Mapping[int, str] = {
    Code.UNKNOWN_GROUP: "the group has another name there",
    Code.UNKNOWN_MEMBER: "it is no member, or a witness",
    Code.NOT_LEADER: "who led a moment ago does not lead any more",
    Code.INCONSISTENT_TERM: "there was an election meanwhile",
    Code.FALL_BEHIND_TOO_MUCH: "its log is more than 1,000 entries behind, or it does not answer",
    Code.TAKE_LEADERSHIP_FAILED: "it did not come to lead in time",
    Code.LEADER_TRANSFERRING: "another transfer is under way",
    Code.UNEXPECTED_ARGUMENT: "it leads already",
}


@attrs.frozen
class Found:
    """What a member says.

    :ivar java: whether it speaks with the others as Java's do.
    :ivar leader: who leads, "" for nobody.
    :ivar term: Java's members do not say it: -1.
    """

    java: bool
    leader: str
    term: int


class Answer(Interface):
    """What was answered."""

    @property
    def code(self) -> int: ...

    @property
    def remark(self) -> str | None: ...

    @property
    def body(self) -> bytes: ...

    @property
    def fields(self) -> Mapping[str, str] | None: ...


class NoProgress(RockethaError):
    """What was begun does not go on."""


class Client(Interface):
    """Who carries requests: a :class:`~rocketha.protocols.remoting_client.RemotingClient`."""

    def request(
        self, address: str, code: int, fields: Mapping[str, str] | None, body: bytes, timeout_s: float
    ) -> Awaitable[Answer]:
        """Ask ``host:port``."""


class Ledger:
    """A group.

    :ivar peers: id to ``host:port``, as configured.
    """

    def __init__(self, client: Client, group: str, peers: Mapping[str, str]) -> None:
        self.peers = dict(peers)
        self._group = group
        self._client = client

    async def _ask(self, member: str, request: values.Message, timeout_s: float) -> values.Message:
        address, code = self.peers[member], CODES[type(request)]
        answer = await self._client.request(address, code, None, dledger_json.encode(request), timeout_s)
        if not answer.body:
            raise RequestFailed(answer.code, answer.remark, address)
        return dledger_json.decode(EXCHANGES[code].answer, answer.body)

    async def look(self, member: str) -> Found:
        """What a member says.

        :raises RequestFailed: it is not that member, or of another group.
        """
        found = await self._ask(member, values.MetadataRequest(group=self._group, remote_id=member), ANSWER_S)
        assert isinstance(found, values.MetadataAnswer)
        if found.code != Code.SUCCESS:
            raise RequestFailed(found.code, reason(found.code), self.peers[member])
        self.peers.update(found.peers)  # members may have come, or moved, since those that we were given
        return Found(found.term < 0, found.leader_id, found.term)

    async def transfer(self, to: str) -> None:
        """Hand the leadership to a member; returns when it leads.

        :raises NoRoute: no leader is known.
        :raises RequestFailed: the leader refuses, or it came to nothing.
        """
        leader, term = await self._leader()
        request = values.TransferRequest(
            group=self._group, remote_id=leader, term=term, transfer_id=leader, transferee_id=to
        )
        answer = await self._ask(leader, request, TRANSFER_S)
        if answer.code != Code.SUCCESS:
            raise RequestFailed(answer.code, reason(answer.code), self.peers[leader])

    async def members(self) -> Mapping[str, Any]:
        """What the leader says of its group: see ``DLedgerReplication``.

        :raises NoRoute: no leader is known.
        :raises RequestFailed: it is one of Java's.
        """
        answer = await self._operate(PrivateCode.STATUS, {}, ANSWER_S)
        return json_dialect.loads(answer.body)  # type: ignore[no-any-return]

    async def change(self, **fields: str) -> str:
        """Change the members; returns them when that is done.

        :param fields: ``learn`` and ``add``: id-host:port, ``remove`` and ``witness``: an id.
        :raises NoRoute: no leader is known.
        :raises RequestFailed: the leader refuses, or it came to nothing.
        """
        answer = await self._operate(PrivateCode.MEMBERS, fields, CHANGE_S)
        return (answer.fields or {}).get("peers", "")

    async def _operate(self, code: int, fields: Mapping[str, str], timeout_s: float) -> Answer:
        """Ask the leader."""
        leader, _ = await self._leader()
        answer = await self._client.request(self.peers[leader], code, fields, b"", timeout_s)
        if answer.code != ResponseCode.SUCCESS:
            raise RequestFailed(answer.code, answer.remark, self.peers[leader])
        return answer

    async def lacks(self, member: str) -> int | None:
        """Committed entries that a member lacks; None while it has not answered."""
        found = await self.members()
        match = int(found["matchIndex"].get(member, 0))
        return max(int(found["committedIndex"]) - match, 0) if match else None

    async def _leader(self) -> tuple[str, int]:
        """Who leads, and in which term."""
        problems = []
        for member in tuple(self.peers):
            try:
                found = await self.look(member)
                if found.leader in self.peers:
                    leads = await self.look(found.leader)
                    if leads.leader == found.leader:
                        return found.leader, leads.term if leads.term >= 0 else await self._term(found.leader)
                problems.append(f"{member} names {found.leader or 'no leader'}")
            except (RequestFailed, RemoteProtocolError, *NETWORK_ERRORS) as problem:
                problems.append(f"{member}: {plain(problem)}")
        raise NoRoute("nobody leads: " + "; ".join(problems))

    async def _term(self, leader: str) -> int:
        """The term of a Java leader, which it tells whoever beats and is no member."""
        beat = values.HeartBeatRequest(group=self._group, remote_id=leader, local_id=NOBODY, leader_id=NOBODY)
        answer = await self._ask(leader, beat, ANSWER_S)
        return answer.term


def reason(code: int) -> str:
    """For a person."""
    return REASONS.get(code, Code(code).name)


@attrs.frozen
class Group:
    """What the actions work with."""

    ledger: Ledger
    clock: Any


@actions("dledger")
@click.option("-g", "--group", required=True, metavar="NAME", help="dLegerGroup.")
@click.option("-p", "--peers", required=True, metavar="ID-HOST:PORT;...", help="dLegerPeers.")
@options.JSON
@options.connection
def command() -> None:
    """See who leads a group in DLedger mode, hand its leadership over, and change its members."""


@contextmanager
def _opened(reactor: Any, args: Given) -> Iterator[Group]:
    peers = parse_peers(args.peers.replace(",", ";"))
    client = RemotingClient(dialer_of(reactor, args))
    try:
        yield Group(Ledger(client, args.group, peers), reactor)
    finally:
        client.close()


@command.command("status")
@run_with(_opened)
async def status(group: Group, args: Given) -> int:
    """Every member: whose it is, and who leads in its eyes.

    Done where a majority names the same leader.
    """
    ledger = group.ledger
    rows, named = [], []
    members = list(ledger.peers)
    for member in members:
        try:
            seen = await ledger.look(member)
        except (RockethaError, *NETWORK_ERRORS) as problem:
            rows.append((member, ledger.peers[member], "-", plain(problem)))
        else:
            rows.append((member, ledger.peers[member], "java" if seen.java else "ours", seen.leader or "none"))
            named.append(seen.leader)
            members += [each for each in ledger.peers if each not in members]
    head = ("ID", "ADDRESS", "SPEAKS", "LEADER")
    found = {row[0]: {"address": row[1], "speaks": row[2], "leader": row[3]} for row in rows}
    output.show(args, found, head, rows)
    agreed = max((named.count(each) for each in named if each), default=0)
    return DONE if agreed > len(ledger.peers) // 2 else FAILED


@command.command("transfer")
@click.argument("to", metavar="ID")
@run_with(_opened)
async def transfer(group: Group, args: Given) -> int:
    """Hand the leadership to another member."""
    await group.ledger.transfer(args.to)
    output.say(args, f"{args.to} leads", leader=args.to)
    return DONE


@command.command("members")
@run_with(_opened)
async def members(group: Group, args: Given) -> int:
    """Who belongs to a group of ours, and who votes."""
    found = await group.ledger.members()
    if args.json:
        output.say_json(found)
        return DONE
    for name, address in found["members"].items():
        witness = ", keeps no messages" if name in found.get("witnesses", ()) else ""
        print(f"{name}-{address}  {'votes' if name in found['voters'] else 'learns'}{witness}")
    return DONE


@command.command("add")
@click.argument("peer", metavar="ID-HOST:PORT")
@click.option("--learner", is_flag=True, help="It gets the log and does not vote.")
@click.option("--witness", is_flag=True, help="It votes and keeps no messages (twistd rocketha-witness).")
@run_with(_opened)
async def add(group: Group, args: Given) -> int:
    """Add a member that was started with raftJoinExisting=true, or move one."""
    only_one(args, ("--learner", "--witness"))
    await _add(group.ledger, group.clock, args.peer, args.learner, args.witness)
    return DONE


@command.command("remove")
@click.argument("id", metavar="ID")
@options.YES
@run_with(_opened)
async def remove(group: Group, args: Given) -> int:
    """Remove a member."""
    confirm(args, f"Remove member {args.id} of {args.group}")
    peers = await _change(group.ledger, group.clock, remove=args.id)
    output.say(args, peers, peers=peers)
    return DONE


async def _change(ledger: Ledger, clock: Any, **fields: str) -> str:
    """Change the members as soon as a leader can: one that is to leave hands over, and a new one commits an entry."""
    until_s = clock.seconds() + BUSY_S
    while True:
        try:
            return await ledger.change(**fields)
        except NoRoute:
            if clock.seconds() > until_s:
                raise
        except RequestFailed as failed:
            if failed.code not in AGAIN or clock.seconds() > until_s:
                raise
        await deferLater(clock, LOOK_S, int)


async def _add(ledger: Ledger, clock: Any, peer: str, learns: bool, witness: bool) -> None:
    """Add a member as a learner, and, when it has the log, let it vote; move one that votes; do what is left of it."""
    ((member, address),) = parse_peers(peer).items()
    found = await ledger.members()
    same, votes = found["members"].get(member) == address, member in found["voters"]
    if witness and member in found["members"] and member not in found["witnesses"]:
        raise NoProgress(f"{member} is a member that keeps messages: remove it first")
    if same and member in found["voters" if not learns else "learners"]:
        print(f"{member} {'learns' if learns else 'votes'} already")
        return
    if learns or not (votes or same):
        print(await _change(ledger, clock, learn=peer, **({"witness": member} if witness else {})))
    if learns:
        return
    if not votes:
        await _caught_up(ledger, clock, member)
    print(await _change(ledger, clock, add=peer))


async def _caught_up(ledger: Ledger, clock: Any, member: str) -> None:
    """Wait until a member has almost all of the log.

    :raises NoProgress: it does not come nearer.
    """
    least, since_s = math.inf, clock.seconds()
    while True:
        lacks = await ledger.lacks(member)
        if lacks is not None and lacks <= TRANSFER_LAG_MAX:
            return
        print(f"{member} lacks {lacks} messages" if lacks is not None else f"{member} does not answer yet")
        if lacks is not None and lacks < least:
            least, since_s = lacks, clock.seconds()
        elif clock.seconds() - since_s > PATIENCE_S:
            raise NoProgress(f"{member} is a learner, and does not come nearer for {PATIENCE_S:.0f} s: does it run?")
        await deferLater(clock, LOOK_S, int)
