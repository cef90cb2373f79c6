"""An operator who changes the members of a group in DLedger mode: takes some away, has them learn, lets them vote.

Speaks through the same remoting client as everybody.  In the end all are members that vote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet import defer, error
from twisted.python.failure import Failure

from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.simulation.findings import Findings
from rocketha.simulation.host import Process
from rocketha.simulation.message_clients import NO_ANSWER
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, ResponseCode

MEAN_S = 4.0
LATE_MEAN_S = 0.5
"""When all are to be members again soon."""
VOTERS_MIN = 2


class _NoLeader(Exception):
    """As far as one knows."""


class MembersOperator:
    """See the module.

    :param members: id to ``host:port`` of all members.
    :param witness: one of them; "": none is one.
    :param until_s: true time; then nobody is taken away any more.
    """

    def __init__(
        self, process: Process, members: Mapping[str, str], witness: str, until_s: float, findings: Findings
    ) -> None:
        self._reactor = process.reactor
        self._client = RemotingClient(Dialer(process.reactor))
        self._chance = process.host.random
        self._members = members
        self._witness = witness
        self._until_s = until_s
        self._findings = findings
        self._wait()

    def _wait(self, _: object = None) -> None:
        mean_s = MEAN_S if self._reactor.scheduler.now < self._until_s else LATE_MEAN_S
        self._reactor.callLater(mean_s * (0.2 + 1.6 * self._chance.random()), self._act)

    def _act(self) -> None:
        acting = defer.ensureDeferred(self._change())
        acting.addErrback(self._not_asked).addErrback(self._failed).addCallback(self._wait)

    @staticmethod
    def _not_asked(failure: Failure) -> None:
        """Nobody answers, or no leader is known."""
        failure.trap(error.ConnectError, *NO_ANSWER, _NoLeader)

    def _failed(self, failure: Failure) -> None:
        self._findings.violated("an operator's requests are answered", failure.getTraceback())

    async def _change(self) -> None:
        asked = self._chance.choice(sorted(self._members.values()))
        leader = self._members.get((await self._status(asked))["leader"])
        if leader is None:
            raise _NoLeader
        found = await self._status(leader)
        fields = self._wanted(found)
        if fields:
            answer = await self._client.request(leader, PrivateCode.MEMBERS, fields, b"", 25.0)
            done = answer.code == ResponseCode.SUCCESS
            self._findings.count(f"members: {next(iter(fields))}" if done else "members: refused")

    async def _status(self, address: str) -> Mapping[str, Any]:
        answer = await self._client.request(address, PrivateCode.STATUS, {}, b"", 3.0)
        if answer.code != ResponseCode.SUCCESS:  # it is not started yet
            raise _NoLeader
        found: Mapping[str, Any] = json_dialect.loads(answer.body)
        return found

    def _wanted(self, found: Mapping[str, Any]) -> Mapping[str, str]:
        voters, learners = found["voters"], found["learners"]
        outside = [name for name in self._members if name not in (*voters, *learners)]
        wants: list[Mapping[str, str]] = []
        if outside:
            name = self._chance.choice(outside)
            wants.append({"learn": self._peer(name), **({"witness": name} if name == self._witness else {})})
        if learners:
            wants.append({"add": self._peer(self._chance.choice(learners))})
        if self._reactor.scheduler.now < self._until_s and len(voters) > VOTERS_MIN:
            name = self._chance.choice(voters)
            wants.append(self._chance.choice(({"remove": name}, {"learn": self._peer(name)})))
        return self._chance.choice(wants) if wants else {}

    def _peer(self, name: str) -> str:
        return f"{name}-{self._members[name]}"
