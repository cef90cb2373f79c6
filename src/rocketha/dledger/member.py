"""One Java member of this node's group: all that is said to it and by it.

Pure.  Java's members ask and answer; the core's messages go one way.  What the core says to this one becomes a request,
or the answer to one that is open; what it says becomes a message to the core.

What it must not know: connections, JSON.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketha.dledger.following import JavaLeader
from rocketha.dledger.here import Answered, Here, Reply
from rocketha.dledger.leading import JavaFollower
from rocketha.dledger.voting import Votes
from rocketha.raft.config import Role
from rocketha.raft.messages import Kind, Message
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_values import DLedgerResponseCode as Code
from rocketha.wire.dledger_values import HeartBeatAnswer, HeartBeatRequest, TransferAnswer, TransferRequest

TRANSFER_LOOK_S = 0.01
TRANSFER_LAG_S = 1.0
"""How long the log of a successor may take to reach the leader's; Java's leadershipTransferWaitTimeout."""
TRANSFER_S = 2.5
"""Until a successor leads: its leader waits for three seconds."""

BEATS_MAX = 100
"""Heartbeats that wait for the core's answer, which may never come; Java's leader has one or two under way."""


class JavaMember:
    """See the module.

    :param ask: sends it a request; the answer is None where the connection breaks, or none comes in time.
    :ivar spoke: it has said something.
    """

    def __init__(self, here: Here, name: str, ask: Callable[[values.Message, Answered], None]) -> None:
        self.name = name
        self.spoke = False
        self._here = here
        self._ask = ask
        self._follower = JavaFollower(here, name, ask)
        self._leader = JavaLeader(here, name)
        self._votes = Votes(here, name, ask)
        self._beats: dict[int, tuple[HeartBeatRequest, Reply]] = {}  # by the number that the core gives back
        self._beat = 0

    # --- what the core says

    def say(self, message: Message) -> None:
        """A message of the core to this member, which can be reached."""
        kind = message.kind
        if kind in (Kind.HEART_BEAT, Kind.APPEND, Kind.SNAPSHOT):
            self._follower.say(message)
        elif kind in (Kind.VOTE, Kind.PRE_VOTE):
            self._votes.say(message)
        elif kind == Kind.TAKE_LEADERSHIP:
            self._order(message)
        elif kind == Kind.READ_INDEX:  # it has no such thing
            here = self._here
            refusal = Message(
                Kind.READ_INDEX_ANSWER, self.name, here.id, message.term, reject=True, context=message.context
            )
            here.tell([refusal])

    def answer(self, message: Message) -> bool:
        """The core's answer to this member; False where it is none."""
        kind = message.kind
        if kind == Kind.APPEND_ANSWER:
            self._leader.answered(message)
        elif kind == Kind.HEART_BEAT_ANSWER:
            beat = self._beats.pop(message.context, None)
            if beat is not None:
                request, reply = beat
                reply(self._here.answer(HeartBeatAnswer, request))
        elif kind == Kind.VOTE_ANSWER:
            self._votes.answered(message)
        else:
            return kind in (Kind.SNAPSHOT_ANSWER, Kind.PRE_VOTE_ANSWER, Kind.READ_INDEX_ANSWER)
        return True

    def lost(self) -> None:
        """It can not be reached any more."""
        self._follower.lost()
        self._votes.lost()

    def _order(self, message: Message) -> None:
        """It is to succeed this node; the core says so again and again until it does."""
        here, term = self._here, message.term
        if self._votes.ordered == term:
            return
        self._votes.ordered = term

        def answered(answer: values.Message | None) -> None:
            if (answer is None or answer.code != Code.SUCCESS) and self._votes.ordered == term:
                self._votes.ordered = 0

        request = TransferRequest(
            group=here.group,
            remote_id=self.name,
            local_id=here.id,
            leader_id=here.id,
            term=term - 1,
            transfer_id=here.id,
            transferee_id=self.name,
            take_leadership_ledger_index=here.java_end,
        )
        self._ask(request, answered)

    # --- what it says

    def alive(self, leads: bool) -> None:
        """It answered, and says that it leads: a sign of life between its heartbeats, which come each two seconds."""
        here = self._here
        self._hear()
        if leads and here.node.leader_id == self.name:
            here.tell([Message(Kind.HEART_BEAT, self.name, here.id, here.node.term)])

    def _hear(self) -> None:
        self.spoke = True
        self._votes.heard()

    def request(self, request: values.Message, reply: Reply) -> None:
        """A request of this member's, which is for this node and its group."""
        self._hear()
        if isinstance(request, values.PushRequest):
            self._leader.push(request, reply)
        elif isinstance(request, HeartBeatRequest):
            self._heart_beat(request, reply)
        elif isinstance(request, values.VoteRequest):
            self._votes.asked(request, reply)
        elif isinstance(request, TransferRequest):
            self._take_leadership(request, reply)

    def _heart_beat(self, request: HeartBeatRequest, reply: Reply) -> None:
        here, node, term = self._here, self._here.node, request.term + 1
        if term < node.term:
            reply(here.answer(HeartBeatAnswer, request, Code.EXPIRED_TERM))
        elif term == node.term and node.leader_id not in ("", self.name):
            reply(here.answer(HeartBeatAnswer, request, Code.INCONSISTENT_LEADER))
        else:
            if len(self._beats) >= BEATS_MAX:
                del self._beats[next(iter(self._beats))]
            self._beat += 1
            self._beats[self._beat] = (request, reply)
            here.tell([Message(Kind.HEART_BEAT, self.name, here.id, term, context=self._beat)])

    def _take_leadership(self, request: TransferRequest, reply: Reply) -> None:
        """Its order to succeed it: first have what it has, then campaign, and say what came of it."""
        here, node = self._here, self._here.node
        began_s, term = here.seconds(), request.term + 1
        told = False

        def answer(code: Code) -> None:
            reply(here.answer(TransferAnswer, request, code))

        def look() -> None:
            nonlocal told
            waited_s = here.seconds() - began_s
            if node.term > term + 1:
                answer(Code.EXPIRED_TERM)
            elif node.term == term + 1 and node.role is Role.LEADER:
                answer(Code.SUCCESS)
            elif waited_s > (TRANSFER_S if told else TRANSFER_LAG_S) or (node.term == term + 1 and node.leader_id):
                answer(Code.TAKE_LEADERSHIP_FAILED)
            else:
                if not told and here.java_end >= request.take_leadership_ledger_index:
                    told = True
                    here.tell([Message(Kind.TAKE_LEADERSHIP, self.name, here.id, term)])
                here.later(TRANSFER_LOOK_S, look)

        if request.transfer_id != node.leader_id:
            answer(Code.INCONSISTENT_LEADER)
        elif term != node.term:
            answer(Code.INCONSISTENT_TERM)
        elif not node.wants_to_lead:
            answer(Code.TAKE_LEADERSHIP_FAILED)
        else:
            look()
