"""Elections together with a Java member.

Pure.  What Java's dialect lacks:

* *Pre-votes.*  A Java member that was heard a moment ago is taken to say yes, unless its log is known to be longer: it
  said so with a vote that it gave or wanted.  To raise the term then would only take this node's own vote from that
  member, again and again.
* *A vote in a term that is new to it.*  Java answers that it has to raise its own first, and is asked again until it
  has.
* *No answer.*  The core is silent where it sticks to its leader; a Java candidate is told that there is one, which has
  it wait for longer.

Java: ``DLedgerLeaderElector.handleVote``, ``maintainAsCandidate``.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketha.dledger.here import Answered, Here, Reply
from rocketha.raft.messages import FORCED, UNSURE, Kind, Message
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_values import VoteAnswer, VoteRequest, VoteResult

ASK_AGAIN_S = 0.02
"""While it raises its term: Java looks each 10 ms."""
ASKED_MAX = 100
ALIVE_S = 1.6
"""How long a word of it counts: it is asked each second whether it lives."""
SILENCE_S = 0.1
"""After which a candidate is told that the core does not answer."""


class Votes:
    """See the module; those of one Java member, and for it.

    :param ask: sends it a request.
    """

    def __init__(self, here: Here, member: str, ask: Callable[[values.Message, Answered], None]) -> None:
        self._here = here
        self._member = member
        self._ask = ask
        self._its_end = (0, 0)  # term and index of the last entry of its log, at least
        self._heard_s: float | None = None
        self._asked: tuple[VoteRequest, Reply] | None = None  # by that member, and not answered
        self.ordered = 0  # this node's term, where it has ordered that member to succeed it

    def heard(self) -> None:
        """It said something."""
        self._heard_s = self._here.seconds()

    def lost(self) -> None:
        """It can not be reached: it may come back with another log."""
        self._its_end, self._heard_s = (0, 0), None

    # --- this node is the candidate

    def say(self, message: Message) -> None:
        """VOTE or PRE_VOTE."""
        if message.kind == Kind.PRE_VOTE:
            lives = self._heard_s is not None and self._here.seconds() - self._heard_s < ALIVE_S
            granted = lives and (message.log_term, message.index) >= self._its_end
            self._tell(Kind.PRE_VOTE_ANSWER, message.term if granted else self._here.node.term, granted)
        else:
            self._request(message, 1)

    def _request(self, message: Message, times: int) -> None:
        here = self._here
        request = VoteRequest(
            group=here.group,
            remote_id=self._member,
            local_id=here.id,
            leader_id=here.id,
            term=message.term - 1,
            ledger_end_index=message.index - 1,
            ledger_end_term=message.log_term - 1,
        )
        self._ask(request, lambda answer: self._voted(message, times, answer))

    def _voted(self, message: Message, times: int, answer: values.Message | None) -> None:
        if not isinstance(answer, VoteAnswer):
            return
        result, term = answer.vote_result, message.term
        if result is VoteResult.REJECT_TERM_NOT_READY:
            if times < ASKED_MAX:
                self._here.later(ASK_AGAIN_S, lambda: self._request_again(message, times + 1))
        elif result is VoteResult.ACCEPT:
            self._tell(Kind.VOTE_ANSWER, term, granted=True)
        elif result is not VoteResult.UNKNOWN:
            if result in (VoteResult.REJECT_EXPIRED_LEDGER_TERM, VoteResult.REJECT_SMALL_LEDGER_END_INDEX):
                self._its_end = max(self._its_end, (message.log_term, message.index + 1))
            expired = result in (VoteResult.REJECT_EXPIRED_VOTE_TERM, VoteResult.REJECT_TERM_SMALL_THAN_LEDGER)
            self._tell(Kind.VOTE_ANSWER, max(term, answer.term + 1) if expired else term, granted=False)

    def _request_again(self, message: Message, times: int) -> None:
        node = self._here.node
        if node.term == message.term and node.vote == node.id and not node.leader_id:
            self._request(message, times)

    def _tell(self, kind: Kind, term: int, granted: bool) -> None:
        self._here.tell([Message(kind, self._member, self._here.id, term, reject=not granted)])

    # --- that member is

    def asked(self, request: VoteRequest, reply: Reply) -> None:
        """It wants this node's vote."""
        here, node = self._here, self._here.node
        term = request.term + 1
        self._its_end = (request.ledger_end_term + 1, request.ledger_end_index + 1)
        if term < node.term:
            reply(here.answer(VoteAnswer, request, vote_result=self._why_not(request)))
            return
        self._asked = (request, reply)
        ordered = self.ordered and term == self.ordered + 1
        message = Message(
            Kind.VOTE,
            self._member,
            here.id,
            term,
            index=request.ledger_end_index + 1,
            log_term=request.ledger_end_term + 1,
            context=FORCED if ordered else 0,
        )
        here.tell([message])
        here.later(SILENCE_S, lambda: self._silent(request))

    def answered(self, message: Message) -> None:
        """The core's VOTE_ANSWER to that member."""
        if self._asked is None or self._asked[0].term + 1 > message.term:
            return
        (request, reply), self._asked = self._asked, None
        # An empty disk may have forgotten what the candidate lacks, and Java has no word for that.
        granted = message.term == request.term + 1 and not message.reject and message.context != UNSURE
        result = VoteResult.ACCEPT if granted else self._why_not(request)
        reply(self._here.answer(VoteAnswer, request, vote_result=result))

    def _silent(self, request: VoteRequest) -> None:
        if self._asked is None or self._asked[0] is not request:
            return
        node = self._here.node
        if node.term == request.term + 1 and node.vote == self._member:  # given, and not safe yet
            self._here.later(SILENCE_S, lambda: self._silent(request))
        else:
            reply, self._asked = self._asked[1], None
            reply(self._here.answer(VoteAnswer, request, vote_result=self._why_not(request)))

    def _why_not(self, request: VoteRequest) -> VoteResult:
        """What Java's member would say in place of this one."""
        node, log, term = self._here.node, self._here.log, request.term + 1
        if request.ledger_end_term + 1 < log.last_term:
            return VoteResult.REJECT_EXPIRED_LEDGER_TERM
        if request.ledger_end_term + 1 == log.last_term and request.ledger_end_index + 1 < log.last_index:
            return VoteResult.REJECT_SMALL_LEDGER_END_INDEX
        if term < node.term:
            return VoteResult.REJECT_EXPIRED_VOTE_TERM
        return VoteResult.REJECT_ALREADY_HAS_LEADER if node.leader_id else VoteResult.REJECT_ALREADY_VOTED
