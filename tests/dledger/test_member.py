"""Votes, heartbeats and transfers of leadership with a Java member."""

from __future__ import annotations

from rocketha.dledger.member import JavaMember
from rocketha.raft.messages import FORCED, UNSURE, Kind, Message
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_values import DLedgerResponseCode as Code
from rocketha.wire.dledger_values import (
    HeartBeatAnswer,
    HeartBeatRequest,
    TransferAnswer,
    TransferRequest,
    VoteAnswer,
    VoteRequest,
    VoteResult,
)
from tests.dledger.case import JavaCase, java_log


class MemberTests(JavaCase):
    """See the module."""

    def meet(self, *terms: int, term: int = 0) -> None:
        self.make(java_log(*terms), term=term)
        self.member = JavaMember(self.here, "j", self.ask)
        self.answers: list[values.Message] = []

    def say(self, kind: Kind, **more: object) -> None:
        """The core does."""
        self.member.say(Message(kind, "n", "j", **({"term": self.node.term} | more)))  # type: ignore[arg-type]

    def request(self, kind: type[values.Message], term: int, **more: object) -> None:
        """The member asks."""
        ids = {"group": "g", "remote_id": "n", "local_id": "j", "leader_id": "j"}
        self.member.request(kind(term=term, **(ids | more)), self.answers.append)  # type: ignore[arg-type]

    def step(self) -> None:
        """The core takes what it was told."""
        for message in self.take_told():
            self.node.step(message)
        ready = self.node.take_ready()
        if ready is not None:
            for message in (*ready.messages_now, *ready.messages_after_sync):
                if message.to == "j":
                    self.member.answer(message)

    # -- this node's candidacy

    def candidate(self) -> VoteRequest:
        self.meet(0, 0, term=4)
        self.member.alive(leads=False)
        self.node.campaign()
        self.assertEqual(self.node.term, 4)
        self.say(Kind.PRE_VOTE, term=5)
        self.assertEqual(
            [(each.kind, each.term, each.reject) for each in self.told], [(Kind.PRE_VOTE_ANSWER, 5, False)]
        )
        self.step()
        self.assertEqual(self.node.term, 5)
        self.say(Kind.VOTE, term=5, index=2, log_term=1)
        request = self.asked[-1][0]
        assert isinstance(request, VoteRequest)
        return request

    def test_its_vote(self) -> None:
        """Asked for with the end of the log, as Java counts; a yes counts."""
        request = self.candidate()
        self.assertEqual((request.term, request.ledger_end_index, request.ledger_end_term), (4, 1, 0))
        self.assertEqual((request.leader_id, request.remote_id), ("n", "j"))
        self.asked.pop()[1](VoteAnswer(vote_result=VoteResult.ACCEPT, term=4))
        self.assertEqual([(each.kind, each.term, each.reject) for each in self.told], [(Kind.VOTE_ANSWER, 5, False)])

    def test_it_raises_its_term_first(self) -> None:
        """And is asked again, as long as this node stands."""
        self.candidate()
        self.asked.pop()[1](VoteAnswer(vote_result=VoteResult.REJECT_TERM_NOT_READY, term=3))
        self.assertEqual((self.told, [seconds for seconds, _ in self.later]), ([], [0.02]))
        self.pass_time()
        self.asked.pop()[1](VoteAnswer(vote_result=VoteResult.REJECT_TERM_NOT_READY, term=3))
        self.node.step(Message(Kind.HEART_BEAT, "k", "n", 6))
        self.pass_time()
        self.assertEqual(self.asked, [])

    def pre_vote(self, index: int = 2, log_term: int = 1) -> bool:
        """Whether it is taken to say yes."""
        self.take_told()
        self.say(Kind.PRE_VOTE, term=self.node.term + 1, index=index, log_term=log_term)
        (answer,) = self.take_told()
        self.assertEqual(answer.term, self.node.term + (not answer.reject))
        return not answer.reject

    def test_its_log_is_longer(self) -> None:
        """Who has less does not raise the term: that member would find this node's vote gone in each of its own."""
        for result in (VoteResult.REJECT_SMALL_LEDGER_END_INDEX, VoteResult.REJECT_EXPIRED_LEDGER_TERM):
            self.candidate()
            self.assertTrue(self.pre_vote())
            self.asked.pop()[1](VoteAnswer(vote_result=result, term=3))
            self.assertFalse(self.pre_vote())
            self.assertTrue(self.pre_vote(index=3))
            self.member.lost()
            self.assertFalse(self.pre_vote())
            self.member.alive(leads=False)
            self.assertTrue(self.pre_vote())
            self.now_s += 1.7
            self.assertFalse(self.pre_vote())  # it stands still, for all we know
        self.vote(5, end_index=2, end_term=0)
        self.assertFalse(self.pre_vote())
        self.vote(5, end_index=-1, end_term=-1)
        self.assertTrue(self.pre_vote())

    def test_its_no(self) -> None:
        """With a term that is newer, where it says one; what it does not say at all is none."""
        for result, term, told in (
            (VoteResult.REJECT_ALREADY_VOTED, 9, [5]),
            (VoteResult.REJECT_ALREADY_HAS_LEADER, 4, [5]),
            (VoteResult.REJECT_EXPIRED_VOTE_TERM, 9, [10]),
            (VoteResult.REJECT_TERM_SMALL_THAN_LEDGER, 9, [10]),
            (VoteResult.UNKNOWN, 9, []),
        ):
            self.candidate()
            self.asked.pop()[1](VoteAnswer(vote_result=result, term=term))
            self.assertEqual([each.term for each in self.told if each.reject], told)
        self.candidate()
        self.asked.pop()[1](None)
        self.assertEqual(self.told, [])

    # -- its candidacy

    def vote(self, term: int, end_index: int = 1, end_term: int = 0) -> None:
        self.request(VoteRequest, term, ledger_end_index=end_index, ledger_end_term=end_term)

    def results(self) -> list[VoteResult]:
        return [answer.vote_result for answer in self.answers if isinstance(answer, VoteAnswer)]

    def test_this_nodes_vote(self) -> None:
        """Also in a term that is new here, at once."""
        self.meet(0, 0, term=4)
        self.vote(6)
        self.step()
        self.assertEqual((self.results(), self.node.vote, self.node.term), ([VoteResult.ACCEPT], "j", 7))
        self.assertEqual((self.answers[0].term, self.answers[0].remote_id), (6, "j"))

    def test_this_nodes_no(self) -> None:
        """With the reason that Java's member would have."""
        for end, term, result in (
            ((1, -1), 6, VoteResult.REJECT_EXPIRED_LEDGER_TERM),
            ((0, 0), 6, VoteResult.REJECT_SMALL_LEDGER_END_INDEX),
            ((1, 0), 2, VoteResult.REJECT_EXPIRED_VOTE_TERM),
        ):
            self.meet(0, 0, term=4)
            self.vote(term, *end)
            self.step()
            self.assertEqual(self.results(), [result])
        self.meet(0, 0, term=4)
        self.node.step(Message(Kind.VOTE, "k", "n", 7, 2, 1))
        self.vote(6)
        self.step()
        self.assertEqual(self.results(), [VoteResult.REJECT_ALREADY_VOTED])

    def test_who_has_a_leader(self) -> None:
        """Does not answer a candidate; Java's has to hear that there is one, and waits for longer then."""
        self.meet(0, 0, term=4)
        self.node.step(Message(Kind.HEART_BEAT, "k", "n", 4))
        self.vote(6)
        self.step()
        self.assertEqual(self.answers, [])
        self.pass_time()
        self.assertEqual((self.results(), self.node.term), ([VoteResult.REJECT_ALREADY_HAS_LEADER], 4))

    def test_a_vote_that_may_have_forgotten(self) -> None:
        """Java has no word for it."""
        self.meet(0, 0, term=4)
        self.vote(6)
        self.take_told()
        self.member.answer(Message(Kind.VOTE_ANSWER, "n", "j", 7, context=UNSURE))
        self.assertEqual(self.results(), [VoteResult.REJECT_ALREADY_VOTED])

    # -- heartbeats

    def test_its_heartbeat(self) -> None:
        """Is answered when the core has: its term may have to be on the disk first."""
        self.meet(0, 0, term=4)
        self.request(HeartBeatRequest, 5)
        self.assertEqual(self.answers, [])
        self.step()
        self.assertEqual([each.code for each in self.answers], [Code.SUCCESS])
        self.assertEqual((self.node.leader_id, self.node.term), ("j", 6))

    def test_a_heartbeat_that_is_refused(self) -> None:
        """Of an older term, or of a second leader."""
        self.meet(0, 0, term=4)
        self.node.step(Message(Kind.HEART_BEAT, "k", "n", 4))
        self.request(HeartBeatRequest, 2)
        self.request(HeartBeatRequest, 3)
        self.assertEqual([each.code for each in self.answers], [Code.EXPIRED_TERM, Code.INCONSISTENT_LEADER])
        self.assertEqual((self.answers[0].term, self.told), (3, []))

    def test_a_sign_of_life(self) -> None:
        """Of a leader, and of nobody else."""
        self.meet(0, 0, term=4)
        self.member.alive(leads=True)
        self.assertEqual(self.told, [])
        self.node.step(Message(Kind.HEART_BEAT, "j", "n", 4))
        self.member.alive(leads=False)
        self.assertEqual(self.told, [])
        self.member.alive(leads=True)
        self.assertEqual([(each.kind, each.term, each.sender) for each in self.told], [(Kind.HEART_BEAT, 4, "j")])

    # -- who is to lead

    def order(self, term: int = 3, index: int = 1, by: str = "j") -> None:
        self.request(TransferRequest, term, transfer_id=by, transferee_id="n", take_leadership_ledger_index=index)

    def led_by_it(self) -> None:
        self.meet(0, 0, term=4)
        self.node.step(Message(Kind.HEART_BEAT, "j", "n", 4))
        self.node.take_ready()

    def test_its_order_to_lead(self) -> None:
        """This node campaigns, and answers when it leads."""
        self.led_by_it()
        self.order()
        self.step()
        self.assertEqual((self.node.term, self.answers), (5, []))
        self.node.step(Message(Kind.VOTE_ANSWER, "k", "n", 5))
        self.pass_time()
        self.assertEqual([each.code for each in self.answers], [Code.SUCCESS])
        self.assertEqual(self.later, [])

    def test_an_order_that_comes_to_nothing(self) -> None:
        """Another one leads, a newer term came, the log stays behind, or no majority votes."""
        for message, code in (
            (Message(Kind.HEART_BEAT, "k", "n", 5), Code.TAKE_LEADERSHIP_FAILED),
            (Message(Kind.HEART_BEAT, "k", "n", 6), Code.EXPIRED_TERM),
            (None, Code.TAKE_LEADERSHIP_FAILED),
        ):
            self.led_by_it()
            self.order()
            self.step()
            if message is not None:
                self.node.step(message)
            while self.later:
                self.pass_time()
            self.assertEqual([each.code for each in self.answers], [code])
        self.led_by_it()
        self.order(index=2)
        while self.later:
            self.pass_time()
        self.assertEqual(([each.code for each in self.answers], self.told), ([Code.TAKE_LEADERSHIP_FAILED], []))

    def test_an_order_to_a_full_disk(self) -> None:
        """Somebody else should lead: it would be handed on again and again."""
        self.led_by_it()
        self.node.reluctant("the disk is full")
        self.order()
        self.assertEqual(([each.code for each in self.answers], self.told), ([Code.TAKE_LEADERSHIP_FAILED], []))

    def test_an_order_that_is_refused(self) -> None:
        """Of who does not lead here, or of another term."""
        self.led_by_it()
        self.order(by="k")
        self.order(term=2)
        self.assertEqual([each.code for each in self.answers], [Code.INCONSISTENT_LEADER, Code.INCONSISTENT_TERM])
        self.assertEqual(self.told, [])

    def test_it_is_ordered_to_lead(self) -> None:
        """Once; its vote is then asked for by order, which nobody's stickiness refuses."""
        self.meet(0, 0, term=4)
        self.say(Kind.TAKE_LEADERSHIP)
        self.say(Kind.TAKE_LEADERSHIP)
        self.assertEqual(len(self.asked), 1)
        request, answered = self.asked.pop()
        assert isinstance(request, TransferRequest)
        self.assertEqual(
            (request.transfer_id, request.transferee_id, request.take_leadership_ledger_index, request.term),
            ("n", "j", 1, 3),
        )
        self.vote(4)
        self.assertEqual([each.context for each in self.take_told()], [FORCED])
        self.vote(5)
        self.assertEqual([each.context for each in self.take_told()], [0])
        answered(TransferAnswer(code=Code.TAKE_LEADERSHIP_FAILED))
        self.say(Kind.TAKE_LEADERSHIP)
        self.assertEqual(len(self.asked), 1)

    # -- what it has no word for

    def test_reads(self) -> None:
        """Are lost, so that who asked asks again."""
        self.meet(0, 0, term=4)
        self.say(Kind.READ_INDEX, context=77)
        self.assertEqual(
            [(each.kind, each.reject, each.context) for each in self.told], [(Kind.READ_INDEX_ANSWER, True, 77)]
        )

    def test_beats_that_are_not_answered(self) -> None:
        """Are forgotten, the oldest first."""
        self.meet(0, 0, term=4)
        for _ in range(200):
            self.request(HeartBeatRequest, 3)
        for message in self.take_told():
            self.member.answer(Message(Kind.HEART_BEAT_ANSWER, "n", "j", 4, context=message.context))
        self.assertEqual(len([each for each in self.answers if isinstance(each, HeartBeatAnswer)]), 100)
