"""``rocketha dledger``: see who leads a group of brokers in DLedger mode, and hand its leadership to another member.

For groups of Java's brokers, of ours, and of both: it asks in DLedger's own words.

Java: ``LeadershipTransferCommand`` of dledger's command line; RocketMQ's ``mqadmin`` has nothing for it.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Mapping
from typing import Any
from typing import Protocol as Interface

import attrs

from rocketha.admin.client import NETWORK_ERRORS, NoRoute, RequestFailed, plain
from rocketha.admin.main_loop import Interrupted, run_coroutine
from rocketha.errors import RemoteProtocolError, RockethaError
from rocketha.protocols.endpoints import parse_peers
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.wire import dledger_json
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_values import CODES, EXCHANGES
from rocketha.wire.dledger_values import DLedgerResponseCode as Code

ANSWER_S, TRANSFER_S = 3.0, 5.0
NOBODY = "-"
"""No member has this id."""

REASONS: Mapping[int, str] = {
    Code.UNKNOWN_GROUP: "the group has another name there",
    Code.UNKNOWN_MEMBER: "it is no member",
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


class Client(Interface):
    """Who carries requests: a :class:`~rocketha.protocols.remoting_client.RemotingClient`."""

    def request(
        self, address: str, code: int, fields: Mapping[str, str] | None, body: bytes, timeout_s: float
    ) -> Awaitable[Answer]:
        """Ask ``host:port``."""


class Ledger:
    """A group."""

    def __init__(self, client: Client, group: str, peers: Mapping[str, str]) -> None:
        self.peers = peers
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
        if found.code != Code.SUCCESS:
            raise RequestFailed(found.code, reason(found.code), self.peers[member])
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

    async def _leader(self) -> tuple[str, int]:
        """Who leads, and in which term."""
        problems = []
        for member in self.peers:
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags and actions."""
    parser.add_argument("-g", "--group", required=True, metavar="NAME", help="dLegerGroup")
    parser.add_argument("-p", "--peers", required=True, metavar="ID-HOST:PORT;...", help="dLegerPeers")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("status", help="every member: whose it is, and who leads in its eyes")
    transfer = actions.add_parser("transfer", help="hand the leadership to another member")
    transfer.add_argument("to", metavar="ID")


def run(args: argparse.Namespace) -> int:
    """Do it, and say what came of it."""
    peers = parse_peers(args.peers.replace(",", ";"))

    async def main(reactor: Any, interrupted: Interrupted) -> int:
        client = RemotingClient(reactor)
        ledger = Ledger(client, args.group, peers)
        try:
            if args.action == "transfer":
                await ledger.transfer(args.to)
                print(f"{args.to} leads")
                return 0
            return await _status(ledger)
        finally:
            client.close()

    return run_coroutine(main)


async def _status(ledger: Ledger) -> int:
    """One line a member; 0 where a majority names the same leader."""
    rows, named = [("ID", "ADDRESS", "SPEAKS", "LEADER")], []
    for member, address in ledger.peers.items():
        try:
            found = await ledger.look(member)
        except (RockethaError, *NETWORK_ERRORS) as problem:
            rows.append((member, address, "-", plain(problem)))
        else:
            rows.append((member, address, "java" if found.java else "ours", found.leader or "none"))
            named.append(found.leader)
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    agreed = max((named.count(each) for each in named if each), default=0)
    return 0 if agreed > len(ledger.peers) // 2 else 1
