"""What Java members, clients of DLedger and operators ask of a member of a Raft group, on its Raft port.

What it must not know: what members' requests lead to (:mod:`rocketha.dledger`).

Theory of operation.  As in Java's server the answer's frame says 200, whatever came of it, and its body says what did.
What a person would want to know of is counted and logged as any refusal is.

Java: ``DLedgerRpcNettyService``, the checks at the begin of each of ``DLedgerServer``'s methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.access.claims import REPLICA
from rocketha.access.routes import Asker, Route, table
from rocketha.dledger.here import Here, Reply
from rocketha.errors import RequestRefused
from rocketha.observe.logging import make_logger
from rocketha.observe.refusals import Ended, Refusals
from rocketha.protocols.raft_port import may_be_from
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.raft.config import Role
from rocketha.raft.errors import LagsTooMuch, RaftRefused, Transferring, UnknownMember
from rocketha.raft.storage import Compacted, Unavailable
from rocketha.services.raft.service import RaftService
from rocketha.wire import dledger_json
from rocketha.wire import dledger_values as values
from rocketha.wire.codes import PrivateCode, ResponseCode
from rocketha.wire.dledger_values import CODES, EXCHANGES, NUMBER_MAX, VoteResult
from rocketha.wire.dledger_values import DLedgerResponseCode as Code
from rocketha.wire.remoting import Answer, Command, encode_answer

ROUTES = table(
    (
        *(Route(code, Asker.PEER, claims=REPLICA) for code in EXCHANGES),
        Route(PrivateCode.STATUS, Asker.OPERATOR, claims=REPLICA),
        Route(PrivateCode.MEMBERS, Asker.OPERATOR),
    )
)
"""What this port answers."""

WITNESS_ROUTES = table(
    (*ROUTES.values(), Route(PrivateCode.CLIENTS, Asker.OPERATOR), Route(PrivateCode.LOG_LEVEL, Asker.OPERATOR))
)
"""The same of a witness, which has no other port; a broker answers these two on its main port."""

FRAME_CODE = 200
"""Of every answer's frame."""

TOLD: frozenset[int] = frozenset(
    (
        Code.UNSUPPORTED,
        Code.UNKNOWN_GROUP,
        Code.UNKNOWN_MEMBER,
        Code.UNEXPECTED_MEMBER,
        Code.INCONSISTENT_LEADER,
        Code.UNEXPECTED_ARGUMENT,
        Code.DISK_ERROR,
        Code.FALL_BEHIND_TOO_MUCH,
    )
)
"""What an operator should know of; the others belong to how members find out where they stand."""


Operator = Callable[[RemotingProtocol, Command], "Answer | defer.Deferred[Any]"]


class JavaPort:
    """A :class:`~rocketha.protocols.remoting.RequestService`.

    :param operators: request code -> what answers an operator, in rocketha's words.
    :param check_addresses: whether a member must speak from its own IP address, where that is known.
    """

    def __init__(
        self,
        raft: RaftService,
        refusals: Refusals,
        operators: Mapping[int, Operator],
        check_addresses: bool = True,
    ) -> None:
        self._raft = raft
        self._refusals = refusals
        self._operators = operators
        self._check_addresses = check_addresses
        self._log = make_logger()
        for code in EXCHANGES:
            refusals.name_request(code, f"DLEDGER_{values.DLedgerRequestCode(code).name}")

    def connected(self, connection: RemotingProtocol) -> None:
        """Nothing to do before it asks."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """What it waits for is answered to nobody."""

    def turn_ended(self) -> None:
        """Nothing is staged here."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """One request; always answered later, or never."""
        exchange = EXCHANGES.get(command.code)
        if exchange is None and command.code in self._operators:
            return self._operate(connection, command)
        if exchange is None:
            return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")
        if not self._raft.ready or self._raft.others is None:
            connection.end(Ended.NOT_SERVED, "this member is not started", at_once=True)
            return None
        request = dledger_json.decode_request(command.code, command.body)
        here = self._raft.others.here
        reply = partial(self._reply, connection, command)
        refuse = partial(self._refuse, here, request, exchange.answer, reply)
        if request.remote_id != here.id:
            refuse(Code.UNKNOWN_MEMBER)
        elif _highest(request) > NUMBER_MAX:
            refuse(Code.UNEXPECTED_ARGUMENT)
        elif request.group != here.group:
            refuse(Code.UNKNOWN_GROUP)
        elif isinstance(request, values.MetadataRequest):
            # Java's answer does not say the term: so others know whom they can speak to in our protocol.
            leader, term = here.node.leader_id, -1 if self._raft.others.all else here.java_term
            reply(values.MetadataAnswer(group=here.group, leader_id=leader, term=term, peers=here.peers))
        elif isinstance(request, values.GetRequest):
            self._get(here, request, reply, refuse)
        elif isinstance(request, values.AppendRequest):
            # What is in this log are messages, with places in queues: they come by the broker's main port.
            refuse(Code.UNSUPPORTED if here.node.role is Role.LEADER else Code.NOT_LEADER)
        elif isinstance(request, values.TransferRequest) and request.transfer_id == here.id:
            self._transfer(here, request, reply, refuse)
        elif isinstance(request, values.TransferRequest) and request.transferee_id != here.id:
            refuse(Code.UNEXPECTED_ARGUMENT)
        else:
            self._of_member(connection, request, reply)
        return None

    def _operate(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        if not self._raft.ready:
            return Answer(ResponseCode.SYSTEM_BUSY, "this member is not started")
        try:
            answer = self._operators[command.code](connection, command)
        except RequestRefused as refusal:
            return Answer(refusal.code, refusal.remark)
        if isinstance(answer, Answer):
            return answer
        answer.addErrback(self._not_answered)
        answer.addCallback(lambda done: connection.write(encode_answer(command.opaque, done)))
        return None

    def _not_answered(self, failure: Failure) -> Answer:
        self._log.error("an operator's request failed: {trace}", trace=failure.getTraceback())
        return Answer(ResponseCode.SYSTEM_ERROR, failure.getErrorMessage())

    def _reply(self, connection: RemotingProtocol, command: Command, answer: values.Message) -> None:
        code = answer.code
        if isinstance(answer, values.VoteAnswer) and answer.vote_result == VoteResult.REJECT_UNKNOWN_LEADER:
            code = Code.UNKNOWN_MEMBER
        if code in TOLD:
            remark = f"{Code(code).name} for {command.body[:200].decode('utf-8', 'replace')}"
            self._refusals.answered(connection, command, Answer(code, remark))
        connection.write(encode_answer(command.opaque, Answer(FRAME_CODE, body=dledger_json.encode(answer))))

    def _refuse(
        self, here: Here, request: values.Message, kind: type[values.Message], reply: Reply, code: Code
    ) -> None:
        """Java's answer to what fails a check has the request's own term."""
        reply(here.answer(kind, request, code, term=request.term))

    # --- members

    def _of_member(self, connection: RemotingProtocol, request: values.Message, reply: Reply) -> None:
        others, raft = self._raft.others, self._raft
        assert others is not None
        here, sender = others.here, request.leader_id
        vote = isinstance(request, values.VoteRequest)

        def refuse(code: Code) -> None:
            reply(here.answer(EXCHANGES[CODES[type(request)]].answer, request, code))

        address = here.peers.get(sender)
        if sender == here.id:
            if vote:
                reply(here.answer(values.VoteAnswer, request, vote_result=VoteResult.REJECT_UNEXPECTED_LEADER))
            else:
                refuse(Code.UNEXPECTED_MEMBER)
        elif (
            address is None
            or not others.admitted
            or (self._check_addresses and not may_be_from(connection.proven_host, address))
        ):
            if vote:
                reply(here.answer(values.VoteAnswer, request, vote_result=VoteResult.REJECT_UNKNOWN_LEADER))
            else:
                refuse(Code.UNKNOWN_MEMBER)
        elif sender in raft.port.connected:  # a member of ours
            refuse(Code.UNEXPECTED_MEMBER)
        else:
            if isinstance(request, values.VoteRequest):
                raft.peer_history(request.ledger_end_index + 1)
            elif isinstance(request, values.PushRequest):
                raft.peer_history(request.commit_index + 1)
            raft.java_spoke(sender)
            others.member(sender).request(request, reply)

    # --- clients

    def _get(self, here: Here, request: values.GetRequest, reply: Reply, refuse: Callable[[Code], None]) -> None:
        if here.node.role is not Role.LEADER:
            refuse(Code.NOT_LEADER)
            return
        if request.begin_index is None:
            refuse(Code.UNEXPECTED_ARGUMENT)
            return
        index, log = request.begin_index + 1, here.log
        if index < log.first_index and index >= 1:
            refuse(Code.INDEX_LESS_THAN_LOCAL_BEGIN)
        elif not 1 <= index <= log.last_index:
            refuse(Code.INDEX_OUT_OF_RANGE)
        else:
            try:
                entry = values.entries_of(here.storage.raw(log.entries(index, index + 1, 1)[0]))
            except (Compacted, Unavailable):
                refuse(Code.INDEX_LESS_THAN_LOCAL_BEGIN)
            else:
                reply(values.GetAnswer(group=here.group, entries=entry))

    def _transfer(
        self, here: Here, request: values.TransferRequest, reply: Reply, refuse: Callable[[Code], None]
    ) -> None:
        """An operator's command."""
        node, to = here.node, request.transferee_id
        if to not in here.peers:
            refuse(Code.UNKNOWN_MEMBER)
        elif request.term != here.java_term:
            refuse(Code.INCONSISTENT_TERM)
        elif node.role is not Role.LEADER:
            refuse(Code.NOT_LEADER)
        elif to == here.id:
            refuse(Code.UNEXPECTED_ARGUMENT)
        else:
            transferring: defer.Deferred[Any] = defer.maybeDeferred(self._raft.transfer, to)

            def done(_: Any) -> None:
                reply(here.answer(values.TransferAnswer, request))

            def failed(failure: Failure) -> None:
                if failure.check(LagsTooMuch):
                    refuse(Code.FALL_BEHIND_TOO_MUCH)
                elif failure.check(Transferring):
                    refuse(Code.LEADER_TRANSFERRING)
                elif failure.check(UnknownMember):
                    refuse(Code.UNKNOWN_MEMBER)
                elif failure.check(RaftRefused, defer.TimeoutError):
                    refuse(Code.TAKE_LEADERSHIP_FAILED)
                else:
                    self._log.error("a transfer of the leadership failed: {trace}", trace=failure.getTraceback())
                    refuse(Code.INTERNAL_ERROR)

            transferring.addCallbacks(done, failed)


def _highest(request: values.Message) -> int:
    """The highest of the numbers that the core would be told."""
    numbers = [request.term]
    if isinstance(request, values.VoteRequest):
        numbers += (request.ledger_end_index, request.ledger_end_term)
    elif isinstance(request, values.PushRequest):
        numbers += (request.commit_index, request.last_index, *(entry.term for entry in request.entries[-1:]))
    return max(numbers)
