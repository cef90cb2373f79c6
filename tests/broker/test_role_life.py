"""The life of a broker under controllers: golden traces of what it asks and orders, event by event."""

from __future__ import annotations

import json
import random
import unittest
from collections.abc import Callable

from rocketha.broker.controller_identity import Application, Identity
from rocketha.broker.role_effects import Ask, Effect, Leaving, Question, RoleTiming, Setback
from rocketha.broker.role_life import RoleLife
from rocketha.broker.role_questions import Place
from rocketha.replication.sync_state import SetChange
from rocketha.wire.controller_calls import MasterInfo, SyncSet
from rocketha.wire.remoting import Command

PLACE = Place("C", "g", "10.0.0.1:10911")
WALL_MS = 1_800_000_000_000


def answer(code: int = 0, body: bytes = b"", remark: str = "", **fields: object) -> Command:
    """A controller's."""
    return Command(code, fields={name: str(value) for name, value in fields.items()}, body=body, remark=remark)


def in_sync(set_epoch: int, *members: int) -> bytes:
    return json.dumps({"syncStateSet": list(members), "syncStateSetEpoch": set_epoch}).encode()


def master(number: int, epoch: int, set_epoch: int, *members: int) -> Command:
    """The answer that names a master; also the notice that does."""
    fields = {"masterBrokerId": number, "masterAddress": f"10.0.0.{number}:10911", "masterEpoch": epoch}
    return answer(body=in_sync(set_epoch, *members), **fields, syncStateSetEpoch=set_epoch)


def nobody(epoch: int = 0) -> Command:
    return answer(body=in_sync(1), masterEpoch=epoch)


def known(*ids: int) -> Command:
    """The answer to 1006."""
    rows = [{"alive": True, "brokerAddress": "h:1", "brokerId": each, "brokerName": "g"} for each in ids]
    group = {"inSyncReplicas": rows[:1], "notInSyncReplicas": rows[1:], "masterEpoch": 1, "syncStateSetEpoch": 1}
    return answer(body=json.dumps({"replicasInfoTable": {"g": group}}).encode())


class Life:
    """One life, with what it wants done as short texts."""

    def __init__(self, identity: Identity = Identity(2), last_epoch: int = 0, learner: bool = False) -> None:  # noqa: B008
        self.now = 1000
        self.open: dict[Question, int] = {}
        self.calls: list[tuple[Question, int]] = []
        self.life = RoleLife(
            PLACE, identity, last_epoch, RoleTiming(), random.Random(1), lambda: WALL_MS + self.now, learner
        )

    def _told(self, effects: list[Effect]) -> list[str]:
        texts = []
        for effect in effects:
            if isinstance(effect, Ask):
                self.open[effect.question] = effect.number
                self.calls.append((effect.question, effect.call.code))
                texts.append(f"ask {effect.question.name}")
            else:
                values = " ".join(str(value) for value in effect)
                texts.append(f"{type(effect).__name__} {values}".strip())
        return texts

    def do(self, event: str, *what: object) -> list[str]:
        method: Callable[..., list[Effect]] = getattr(self.life, event)
        return self._told(method(*what, self.now))

    def hear(self, question: Question, command: Command, after: int = 5) -> list[str]:
        """The answer to a question that is under way, asked just now."""
        asked = self.now
        self.now += after
        return self._told(self.life.answered(self.open.pop(question), command, asked, self.now))

    def silence(self, question: Question) -> list[str]:
        return self._told(self.life.unanswered(self.open.pop(question), "timed out", self.now))

    def wait(self, until: str = "") -> list[str]:
        """Let time pass to the next deadline, or to the one at which something happens that begins like that."""
        for _ in range(50):
            due = self.life.next_due_ms()
            assert due is not None, "nothing is due"
            self.now = max(self.now, due)
            texts = self.do("tick")
            if any(text.startswith(until) for text in texts):
                return texts
        raise AssertionError(f"it does not come to {until}")


def registered(told: Command | None = None, **more: int) -> Life:
    """One that has just registered, and was told a master or none."""
    life = Life(**more)  # type: ignore[arg-type]
    life.do("begin")
    life.hear(Question.REGISTER, told or nobody())
    return life


def leading(ours: bool = True) -> Life:
    """Broker 2, master of epoch 1, confirmed, with 1 and 3 in sync."""
    life = registered(master(2, 1, 1, 1, 2, 3))
    life.do("done", 1)
    life.hear(Question.REPLICAS, known(1, 2, 3))
    if not ours:
        life.hear(Question.CONFIRM, answer(3, remark="not supported"))
    life.hear(Question.CONFIRM, master(2, 1, 1, 1, 2, 3))
    return life


def following() -> Life:
    """Broker 2, a replica of 1 in epoch 1."""
    life = registered(master(1, 1, 1, 1, 2))
    life.do("done", 1)
    return life


def suspended_from(texts: list[str], before: int | None) -> int | None:
    """From when on it is suspended after these effects; None: it is not."""
    for text in texts:
        word, *values = text.split()
        before = int(values[0]) if word == "Suspend" else None if word == "Resume" else before
    return before


class JoiningTests(unittest.TestCase):
    """From an empty disk to a role."""

    def test_the_first_broker(self) -> None:
        """Id, registration, election, promotion, confirmation; and only then the lease."""
        life = Life(Identity())
        self.assertEqual(life.do("begin"), ["ask NEXT_ID"])
        code = "10.0.0.1:10911;1800000001000."
        self.assertTrue(life.hear(Question.NEXT_ID, answer(nextBrokerId=1), 0)[0].startswith(f"Want 1 {code}"))
        self.assertEqual(life.do("saved", Identity(application=Application(1, "x"))), ["ask APPLY"])
        self.assertEqual(life.hear(Question.APPLY, answer()), ["Keep 1"])
        self.assertFalse(life.life.beating)
        self.assertEqual(life.do("saved", Identity(1)), ["ask REGISTER"])
        self.assertEqual(life.hear(Question.REGISTER, nobody()), ["Beat", "ask ELECT"])
        self.assertTrue(life.life.beating)
        self.assertEqual(life.hear(Question.ELECT, master(1, 1, 1, 1)), ["Lead 1 1 (1,) 1 False"])
        self.assertEqual(life.do("done", 1), ["Beat", "ask CONFIRM", "ask REPLICAS"])
        asked = life.now
        self.assertEqual(life.hear(Question.CONFIRM, master(1, 1, 1, 1)), [f"LeaseConfirmed 1 {asked}"])
        self.assertEqual(life.hear(Question.REPLICAS, known(1)), ["Registered (1,)"])
        self.assertEqual(life.life.next_due_ms(), asked + 1000)
        self.assertEqual(life.wait(), ["ask CONFIRM"])

    def test_an_id_that_another_one_took(self) -> None:
        """Back to the beginning; an answer that is lost, and any other no, repeat the application instead."""
        life = Life(Identity(application=Application(1, "x")))
        self.assertEqual(life.do("begin"), ["ask APPLY"])
        self.assertEqual(life.silence(Question.APPLY), ["Trouble no controller answers: timed out"])
        self.assertEqual(life.wait(), ["ask APPLY"])
        self.assertIn("refused with 1: full", life.hear(Question.APPLY, answer(1, remark="full"))[0])
        self.assertEqual(life.wait(), ["ask APPLY"])
        self.assertEqual(life.hear(Question.APPLY, answer(2007)), [])
        self.assertEqual(life.wait(), ["ask APPLY"])
        self.assertEqual(life.hear(Question.APPLY, answer(2014)), ["GiveUp"])
        self.assertEqual(life.do("saved", Identity()), ["ask NEXT_ID"])

    def test_a_disk_that_does_not_save(self) -> None:
        """The same question again, a moment later."""
        life = Life(Identity())
        life.do("begin")
        life.hear(Question.NEXT_ID, answer(nextBrokerId=4))
        self.assertEqual(life.do("not_saved", "full"), ["Trouble the broker's id cannot be saved: full"])
        self.assertEqual(life.wait(), ["ask NEXT_ID"])

    def test_an_id_that_cannot_be(self) -> None:
        """Not taken over."""
        life = Life(Identity())
        life.do("begin")
        for bad in (answer(nextBrokerId=1 << 32), answer(nextBrokerId=0), answer()):
            texts = life.hear(Question.NEXT_ID, bad)
            self.assertFalse(any(text.startswith("Want") for text in texts), texts)
            life.wait("ask NEXT_ID")

    def test_unknown_to_the_controllers(self) -> None:
        """Its id is kept, and an operator hears of it (regressions D5, E4)."""
        life = Life(Identity(2))
        life.do("begin")
        text = life.hear(Question.REGISTER, answer(2010, remark="who?"))[0]
        self.assertIn("They gave id 2 to nobody, or took it back", text)
        self.assertEqual(life.wait(), ["ask REGISTER"])
        self.assertFalse(life.life.beating)
        self.assertEqual(life.hear(Question.REGISTER, master(1, 7, 1, 1))[:2], ["Trouble", "Beat"])

    def test_it_follows_who_leads(self) -> None:
        """And asks now and then."""
        life = registered()
        self.assertEqual(life.hear(Question.ELECT, master(1, 3, 4, 1)), ["Follow 1 1 10.0.0.1:10911 3"])
        self.assertEqual(life.do("done", 1), ["Beat"])
        self.assertEqual(life.wait(), ["ask INFO"])
        self.assertEqual(life.hear(Question.INFO, master(1, 3, 5, 1, 2)), [])

    def test_nobody_can_be_elected(self) -> None:
        """It goes on asking; a learner never does, the group's first election would be its."""
        life = registered()
        self.assertEqual(life.hear(Question.ELECT, answer(2012)), [])
        self.assertEqual(life.wait(), ["ask ELECT"])
        learner = Life(learner=True)
        learner.do("begin")
        self.assertEqual(learner.hear(Question.REGISTER, nobody()), ["Beat"])
        self.assertEqual(learner.wait(), ["ask INFO"])
        self.assertEqual(learner.hear(Question.INFO, nobody()), [])


class RoleTests(unittest.TestCase):
    """Changes of it, both ways; and what changes nothing."""

    def test_a_replica_is_elected(self) -> None:
        """Told by a notice, which is only a reason to ask."""
        life = following()
        self.assertEqual(life.do("noticed", 7, MasterInfo(2, "h:1", 2, SyncSet((2,), 3))), ["ask INFO"])
        self.assertEqual(life.hear(Question.INFO, master(2, 2, 3, 2)), ["Noticed 7 True", "Lead 2 2 (2,) 3 False"])
        self.assertEqual(life.do("done", 2), ["Beat", "ask CONFIRM", "ask REPLICAS"])

    def test_a_master_is_replaced(self) -> None:
        """It asks; then no sends; fenced when its replicas have all, before the notice is answered; it follows."""
        life = leading()
        texts = life.do("noticed", 7, MasterInfo(1, "h:1", 2, SyncSet((1,), 2)))
        self.assertEqual(texts, [f"Suspend {life.now}", "ask INFO"])
        self.assertEqual(life.hear(Question.INFO, master(1, 2, 2, 1)), ["Retire 2 another broker is the master True"])
        after = ["Fence another broker is the master", "Noticed 7 True", "Follow 3 1 10.0.0.1:10911 2"]
        self.assertEqual(life.do("done", 2), after)

    def test_replaced_before_it_led(self) -> None:
        """There is nobody to wait for."""
        life = registered(master(2, 1, 1, 1, 2, 3))
        life.do("noticed", 7, MasterInfo(1, "h:1", 2, SyncSet((1,), 2)))
        texts = life.hear(Question.INFO, master(1, 2, 2, 1))
        after = ["Fence another broker is the master", "Noticed 7 True", "Follow 2 1 10.0.0.1:10911 2"]
        self.assertEqual(texts, after)
        self.assertEqual(life.do("done", 1), [])

    def test_its_replicas_are_not_waited_for_long(self) -> None:
        """Two tenths of a second; what the controller says waits as well."""
        life = leading()
        life.do("noticed", 7, MasterInfo(1, "h:1", 2, SyncSet((1,), 2)))
        life.hear(Question.INFO, master(1, 2, 2, 1))
        began = life.now
        texts = life.wait("Fence")
        self.assertEqual(life.now - began, 200)
        self.assertEqual([text.split()[0] for text in texts], ["Fence", "Noticed", "Follow"])

    def test_a_notice_that_proves_wrong(self) -> None:
        """What waits goes on; an answer that is older than the notice proves nothing."""
        life = leading()
        life.do("doubted", Question.INFO)
        older = life.open[Question.INFO]
        life.do("noticed", 7, MasterInfo(1, "h:1", 9, SyncSet((1,), 9)))
        self.assertNotEqual(life.open[Question.INFO], older)
        self.assertEqual(life._told(life.life.answered(older, master(2, 1, 1, 1, 2, 3), 0, life.now)), [])
        self.assertEqual(life.hear(Question.INFO, master(2, 1, 1, 1, 2, 3)), ["Noticed 7 False", "Resume"])
        self.assertTrue(life.life.assignment.leads_in(1))

    def test_forged_notices_delay_a_request_by_one_answer(self) -> None:
        """A thousand a second: a question each 10 ms, suspended until the first answer only; a true one is heeded."""
        life = leading()
        texts: list[str] = []
        waited_ms, suspended_ms = 0, None
        for number in range(1100):
            new = life.do("noticed", number, MasterInfo(1, "h:1", 9 + number, SyncSet((1,), 9)))
            life.now += 1
            new += life.do("tick")
            if Question.INFO in life.open:
                new += life.hear(Question.INFO, master(2, 1, 1, 1, 2, 3), 0)
            suspended_ms = suspended_from(new, suspended_ms)
            waited_ms += suspended_ms is not None and life.now >= suspended_ms
            texts += new
        texts += life.wait("ask INFO")
        texts += life.hear(Question.INFO, master(2, 1, 1, 1, 2, 3), 0)
        self.assertLessEqual(texts.count("ask INFO"), 112)
        self.assertLessEqual(waited_ms, 1)
        self.assertIsNone(suspended_from(texts, None))
        answered = [int(text.split()[1]) for text in texts if text.startswith("Noticed")]
        self.assertEqual(answered, list(range(1100)))
        self.assertEqual({text.split()[0] for text in texts}, {"ask", "Noticed", "Suspend", "Resume"})
        life.do("noticed", 1100, MasterInfo(1, "h:1", 2, SyncSet((1,), 2)))
        life.do("noticed", 1101, MasterInfo(1, "h:1", 99, SyncSet((1,), 2)))
        if Question.INFO not in life.open:
            life.wait("ask INFO")
        heard = life.hear(Question.INFO, master(1, 2, 2, 1))
        self.assertEqual(heard[0], "Retire 2 another broker is the master True")

    def test_an_answer_stands_against_other_notices_for_a_moment(self) -> None:
        """Two tenths of a second from when it was asked for: then it is suspended, and fenced half a second later."""
        life = leading()
        life.do("noticed", 7, MasterInfo(1, "h:1", 9, SyncSet((1,), 9)))
        asked = life.now
        self.assertEqual(life.hear(Question.INFO, master(2, 1, 1, 1, 2, 3))[-1], "Resume")
        life.now += 20
        texts = life.do("noticed", 8, MasterInfo(1, "h:1", 10, SyncSet((1,), 9)))
        self.assertEqual(texts, [f"Suspend {asked + 200}", "ask INFO"])
        self.assertEqual([text.split()[0] for text in life.wait("Fence")], ["Fence", "Noticed"])
        self.assertEqual(life.now, asked + 200 + 500)

    def test_an_answer_stands_for_its_own_term_only(self) -> None:
        """Elected again, it is suspended by the next notice at once."""
        life = leading()
        life.do("noticed", 7, MasterInfo(1, "h:1", 9, SyncSet((1,), 9)))
        life.hear(Question.INFO, master(2, 1, 1, 1, 2, 3))
        life.do("noticed", 8, MasterInfo(1, "h:1", 10, SyncSet((1,), 9)))
        if Question.INFO not in life.open:
            life.wait("ask INFO")
        self.assertIn("Lead 2 2 (2,) 5 True", life.hear(Question.INFO, master(2, 2, 5, 2)))
        life.do("done", 2)
        texts = life.do("noticed", 9, MasterInfo(1, "h:1", 11, SyncSet((1,), 9)))
        self.assertEqual(texts[0], f"Suspend {life.now}")

    def test_a_notice_behind_a_question_about_another(self) -> None:
        """That answer may be older than it: what waits goes on for a moment, and it is asked about; not if the answer
        is old.
        """
        for late_ms, after in ((2, ["Resume", "Suspend"]), (500, ["ask"])):
            life = leading()
            life.do("noticed", 7, MasterInfo(1, "h:1", 9, SyncSet((1,), 9)))
            self.assertEqual(life.do("noticed", 8, MasterInfo(1, "h:1", 2, SyncSet((1,), 2))), [])
            asked = life.now
            heard = life.hear(Question.INFO, master(2, 1, 1, 1, 2, 3), late_ms)
            self.assertEqual((heard[0], [text.split()[0] for text in heard[1:]]), ("Noticed 7 False", after))
            self.assertEqual(suspended_from(heard, asked), asked if late_ms == 500 else asked + 200)
            if Question.INFO not in life.open:
                self.assertEqual(life.wait("ask INFO"), ["ask INFO"])
            retires = "Retire 2 another broker is the master True"
            self.assertEqual(life.hear(Question.INFO, master(1, 2, 2, 1)), [retires])

    def test_a_notice_joins_those_before_it(self) -> None:
        """It is answered with them, and changes nothing that they did not."""
        life = leading()
        claim = MasterInfo(1, "h:1", 9, SyncSet((1,), 9))
        self.assertFalse(life.life.joins(7, claim), "a question is to be asked, and requests have to wait")
        self.assertEqual(life.do("noticed", 7, claim), [f"Suspend {life.now}", "ask INFO"])
        self.assertFalse(life.life.joins(8, claim), "that question may be older")
        self.assertEqual(life.do("noticed", 8, claim), [])
        self.assertTrue(life.life.joins(9, claim))
        self.assertFalse(life.life.joins(10, MasterInfo(1, "h:1", 1, SyncSet((1,), 9))), "it says nothing new")
        self.assertEqual(life.hear(Question.INFO, master(2, 1, 1, 1, 2, 3))[0], "Noticed 7 False")
        life.wait("ask INFO")
        heard = life.hear(Question.INFO, master(2, 1, 1, 1, 2, 3))
        self.assertEqual(heard[:2], ["Noticed 8 False", "Noticed 9 False"])

    def test_a_notice_of_another_joins_none_of_this_broker(self) -> None:
        """That one suspended nobody."""
        life = leading()
        life.do("noticed", 6, MasterInfo(2, "h:1", 9, SyncSet((2,), 9)))
        life.do("noticed", 7, MasterInfo(2, "h:1", 9, SyncSet((2,), 9)))
        self.assertFalse(life.life.joins(8, MasterInfo(1, "h:1", 9, SyncSet((1,), 9))))
        self.assertEqual(life.do("noticed", 8, MasterInfo(1, "h:1", 9, SyncSet((1,), 9))), [f"Suspend {life.now}"])

    def test_nobody_answers_whether_a_notice_is_right(self) -> None:
        """Fenced after half a second, so that requests are kept for whoever leads; the answer makes it lead again."""
        life = leading()
        life.do("noticed", 7, MasterInfo(1, "h:1", 2, SyncSet((1,), 2)))
        began = life.now
        self.assertEqual([text.split()[0] for text in life.wait("Fence")], ["Fence", "Noticed"])
        self.assertEqual(life.now - began, 500)
        self.assertEqual(life.silence(Question.INFO), [])
        self.assertEqual(life.wait("ask INFO"), ["ask INFO"])
        self.assertEqual(life.hear(Question.INFO, master(2, 1, 1, 1, 2, 3)), ["Lead 2 1 (1, 2, 3) 1 False"])

    def test_controllers_that_lost_what_they_knew_resume_nothing(self) -> None:
        """Their word of an older epoch is not believed, so it says nothing about the notice."""
        life = leading()
        life.do("noticed", 7, MasterInfo(1, "h:1", 9, SyncSet((1,), 9)))
        heard = life.hear(Question.INFO, master(2, 0, 1, 2))
        self.assertEqual([text.split()[0] for text in heard], ["Trouble", "Noticed"])
        self.assertEqual(life.wait("ask INFO"), ["ask INFO"])
        self.assertEqual(life.hear(Question.INFO, master(2, 1, 1, 1, 2, 3))[-1], "Resume")

    def test_elected_again_while_suspended(self) -> None:
        """The new epoch's lease is what it then needs; a notice of yet another one suspends it again."""
        life = leading()
        life.do("noticed", 7, MasterInfo(1, "h:1", 9, SyncSet((1,), 9)))
        self.assertEqual(life.hear(Question.INFO, master(2, 2, 5, 2)), ["Noticed 7 False", "Lead 2 2 (2,) 5 True"])
        life.do("done", 2)
        texts = life.do("noticed", 8, MasterInfo(1, "h:1", 9, SyncSet((1,), 9)))
        self.assertEqual(texts[0], f"Suspend {life.now}")

    def test_stale_notices(self) -> None:
        """Of this epoch or an older one: answered, and that is all."""
        for life in (leading(), following()):
            for epoch in (0, 1):
                stale = MasterInfo(3, "h:1", epoch, SyncSet((3,), 9))
                self.assertEqual(life.do("noticed", 9, stale), ["Noticed 9 True"])

    def test_elected_again(self) -> None:
        """Its connections go on."""
        life = leading()
        life.do("noticed", 7, MasterInfo(2, "h:1", 2, SyncSet((2,), 5)))
        self.assertEqual(life.hear(Question.INFO, master(2, 2, 5, 2)), ["Noticed 7 True", "Lead 2 2 (2,) 5 True"])
        self.assertEqual(life.do("done", 2), ["Beat", "ask CONFIRM", "ask REPLICAS"])

    def test_elected_again_after_an_epoch_that_may_have_been_anothers(self) -> None:
        """Its slaves may have followed that one: it begins anew."""
        life = leading()
        life.do("doubted", Question.INFO)
        self.assertEqual(life.hear(Question.INFO, master(2, 3, 5, 2)), ["Lead 2 3 (2,) 5 False"])

    def test_elected_again_while_it_is_still_being_promoted(self) -> None:
        """There are no connections yet that could go on."""
        life = registered(master(2, 1, 1, 1, 2, 3))
        life.do("doubted", Question.INFO)
        self.assertEqual(life.hear(Question.INFO, master(2, 2, 5, 2)), ["Lead 2 2 (2,) 5 False"])

    def test_another_set_while_it_is_still_being_promoted(self) -> None:
        """It is known when there is a master that can take it; once."""
        life = registered(master(2, 1, 1, 1, 2, 3))
        life.wait("ask INFO")
        self.assertEqual(life.hear(Question.INFO, master(2, 1, 2, 1, 2)), [])
        self.assertEqual(life.do("done", 1), ["Beat", "SetKnown (1, 2) 2", "ask CONFIRM", "ask REPLICAS"])
        asked = life.now
        self.assertEqual(life.hear(Question.CONFIRM, master(2, 1, 2, 1, 2)), [f"LeaseConfirmed 1 {asked}"])

    def test_another_set_while_it_is_elected_again(self) -> None:
        """Nor is the epoch before given it: then the one to begin would not have the newer set of both."""
        life = leading()
        life.wait("ask INFO")
        self.assertEqual(life.hear(Question.INFO, master(2, 2, 2, 2, 3)), ["Lead 2 2 (2, 3) 2 True"])
        life.wait("ask INFO")
        self.assertEqual(life.hear(Question.INFO, master(2, 2, 3, 2)), [])
        self.assertEqual(life.do("done", 2)[:2], ["Beat", "SetKnown (2,) 3"])

    def test_elected_again_with_a_set_that_does_not_rise(self) -> None:
        """Of controllers that were wiped: not the same life of the set."""
        life = leading()
        life.do("doubted", Question.INFO)
        self.assertEqual(life.hear(Question.INFO, master(2, 2, 1, 2)), ["Lead 2 2 (2,) 1 False"])

    def test_the_past(self) -> None:
        """Controllers that know less than this log, or than they said: nothing changes, and it is said."""
        life = registered(master(2, 4, 1, 2), last_epoch=5)
        self.assertIn("epoch 5 is known", life.life.problem)
        self.assertIsNone(life.life.assignment.told)
        life = following()
        life.do("doubted", Question.INFO)
        for epoch in (0, 1):
            self.assertEqual(len(life.hear(Question.INFO, nobody(epoch))), 1)
            self.assertIn(f"no master in epoch {epoch}, and named one before", life.life.problem)
            self.assertEqual(life.wait(), ["ask INFO"])
        text = life.hear(Question.INFO, master(3, 1, 1, 3))[0]
        self.assertEqual(text, "Trouble the controllers name two masters in epoch 1: 1 and 3")

    def test_an_older_set(self) -> None:
        """Of the same epoch: what is known stays, also for when it leads anew."""
        assignment = leading().life.assignment
        newer = MasterInfo(2, "h:1", 1, SyncSet((2, 3), 7))
        self.assertEqual(
            (assignment.take(newer), assignment.take(MasterInfo(2, "h:1", 1, SyncSet((1, 2), 6)))), ("", "")
        )
        self.assertEqual(assignment.told, newer)

    def test_an_epoch_that_its_own_log_knows(self) -> None:
        """A restarted master may go on in it, if the log is whole; else it falls silent until there is a new one."""
        life = registered(master(2, 5, 9, 1, 2), last_epoch=5)
        texts = life.do("failed", 1, Setback.ELECTION_NEEDED, "not clean")
        why = "epoch 5 cannot be led again: not clean"
        self.assertEqual(texts, [f"Trouble {why}", f"Fence {why}", "HangUp"])
        self.assertFalse(life.life.beating)
        began = life.now
        self.assertEqual(life.wait(), ["ask REGISTER"])
        self.assertEqual(life.now - began, 1500)
        texts = life.hear(Question.REGISTER, master(2, 5, 9, 1, 2))
        self.assertEqual([text.split()[0] for text in texts], ["Trouble", "Beat", "Trouble", "Fence", "HangUp"])
        began = life.now
        self.assertEqual(life.wait(), ["ask REGISTER"])
        self.assertEqual(life.now - began, 3000)
        self.assertEqual(life.hear(Question.REGISTER, master(2, 6, 10, 2))[-1], "Lead 2 6 (2,) 10 False")

    def test_a_disk_that_fails(self) -> None:
        """It is silent, so that another one is elected (regression D10)."""
        life = registered(master(2, 5, 9, 1, 2))
        self.assertEqual(life.do("failed", 1, Setback.FAILED, "EIO")[-1], "HangUp")
        began = life.now
        life.wait("ask REGISTER")
        self.assertEqual(life.now - began, 12_000)

    def test_a_disk_that_fails_later(self) -> None:
        """The same; unless there is an order under way, which will tell."""
        life = leading()
        self.assertEqual(life.do("failed", None, Setback.FAILED, "EIO"), ["Trouble EIO", "Fence EIO", "HangUp"])
        life = registered(master(2, 5, 9, 1, 2))
        self.assertEqual(life.do("failed", None, Setback.FAILED, "EIO"), [])

    def test_an_order_that_was_replaced(self) -> None:
        """Says nothing of the one that took its place."""
        life = registered(master(2, 5, 9, 1, 2))
        life.do("doubted", Question.INFO)
        self.assertEqual(life.hear(Question.INFO, master(1, 6, 10, 1)), ["Follow 2 1 10.0.0.1:10911 6"])
        self.assertEqual(life.do("failed", 1, Setback.REPLACED, ""), [])
        self.assertEqual(life.do("failed", 1, Setback.FAILED, "late"), [])
        self.assertEqual(life.do("done", 1), [])
        self.assertEqual(life.do("done", 2), ["Beat"])

    def test_no_master_any_more(self) -> None:
        """A master is fenced; everybody asks for one."""
        life = leading()
        life.do("doubted", Question.INFO)
        texts = life.hear(Question.INFO, nobody(2))
        self.assertEqual(texts, ["Fence the controllers know no master in epoch 2", "ask ELECT"])
        life = following()
        life.do("doubted", Question.INFO)
        self.assertEqual(life.hear(Question.INFO, nobody(2)), ["ask ELECT"])

    def test_a_master_that_moved(self) -> None:
        """Another address, the same master: followed there (E1)."""
        life = following()
        life.do("doubted", Question.INFO)
        moved = master(1, 1, 1, 1, 2)
        moved.fields["masterAddress"] = "10.9.9.9:10911"
        self.assertEqual(life.hear(Question.INFO, moved), ["Follow 2 1 10.9.9.9:10911 1"])

    def test_not_in_its_own_set(self) -> None:
        """That cannot be led."""
        life = registered(master(2, 1, 1, 1, 3))
        self.assertIn("not in sync with itself", life.life.problem)
        self.assertFalse(life.life.assignment.leads)

    def test_cleaned_while_it_runs(self) -> None:
        """It registers again, and keeps its role meanwhile."""
        life = following()
        life.do("doubted", Question.INFO)
        self.assertEqual(life.hear(Question.INFO, answer(2008)), [])
        self.assertEqual(life.wait("ask REGISTER"), ["ask REGISTER"])
        self.assertEqual(life.hear(Question.REGISTER, master(1, 1, 1, 1, 2))[:1], ["Beat"])

    def test_what_is_due_meanwhile(self) -> None:
        """Waits until it is registered: nobody but the answers brings up the lease and the change again."""
        for code in (2008, 2010):
            life = leading()
            change = SetChange(4, (2, 3), 1, 1)
            life.wait("ask CONFIRM")
            life.hear(Question.CONFIRM, answer(code))
            life.now += 300
            self.assertEqual(life.do("wants_set", change), ["ask REGISTER"])
            life.now += 10_000
            self.assertEqual(life.do("tick"), [])
            self.assertIsNone(life.life.next_due_ms())
            texts = life.hear(Question.REGISTER, master(2, 1, 1, 1, 2, 3))
            self.assertEqual(texts, ["Beat", "ask INFO", "ask CONFIRM", "ask ALTER", "ask REPLICAS"])


class LeaseTests(unittest.TestCase):
    """Who is asked whether it still leads."""

    def test_java(self) -> None:
        """Its controllers do not know 11006: they are asked 1004, which says the set as well."""
        life = leading(ours=False)
        self.assertIs(life.life.ours, False)
        life.wait("ask CONFIRM")
        asked = life.now
        texts = life.hear(Question.CONFIRM, master(2, 1, 2, 1, 2))
        self.assertEqual(texts, ["SetKnown (1, 2) 2", f"LeaseConfirmed 1 {asked}"])  # it confirms by the new set
        life.wait("ask CONFIRM")
        texts = life.hear(Question.CONFIRM, master(1, 2, 3, 1))
        self.assertEqual(texts, ["Follow 2 1 10.0.0.1:10911 2"])
        life.do("done", 2)
        life.do("doubted", Question.INFO)
        life.hear(Question.INFO, nobody(3))
        self.assertEqual(life.hear(Question.ELECT, master(2, 4, 4, 2)), ["Lead 3 4 (2,) 4 False"])

    def test_ours_in_the_place_of_javas(self) -> None:
        """They know by 11006 alone that an elected master acts: else they may take its election back, and what it has
        acknowledged with it.  Controllers that lost their disks, or others than before, have it register anew.
        """
        life = leading(ours=False)
        life.wait("ask CONFIRM")
        life.hear(Question.CONFIRM, answer(2008))
        life.wait("ask REGISTER")
        self.assertIs(life.life.ours, False)
        life.hear(Question.REGISTER, master(2, 102, 9, 2))
        life.do("done", 2)
        (call,) = [each for each in life.calls if each[0] == Question.CONFIRM][-1:]
        self.assertEqual((life.life.ours, call[1]), (None, 11006))

    def test_java_says_that_it_was_elected_again(self) -> None:
        """That is no confirmation: it has yet to begin the epoch."""
        life = leading(ours=False)
        life.wait("ask CONFIRM")
        self.assertEqual(life.hear(Question.CONFIRM, master(2, 2, 2, 2)), ["Lead 2 2 (2,) 2 True"])
        texts = life.do("done", 2)
        self.assertEqual(texts, ["Beat", "ask CONFIRM", "ask REPLICAS"])
        asked = life.now
        self.assertEqual(life.hear(Question.CONFIRM, master(2, 2, 2, 2)), [f"LeaseConfirmed 2 {asked}"])

    def test_no_answer(self) -> None:
        """Asked again at once, more or less; with less time than the lease has left."""
        life = leading()
        life.wait("ask CONFIRM")
        self.assertEqual(life.silence(Question.CONFIRM), [])
        began = life.now
        self.assertEqual(life.wait(), ["ask CONFIRM"])
        self.assertLess(life.now - began, 200)
        effects = life.life.unanswered(life.open[Question.CONFIRM], "", life.now)
        self.assertEqual(effects, [])
        life.now = life.life.next_due_ms() or 0
        ask = life.life.tick(life.now)[0]
        assert isinstance(ask, Ask)
        self.assertEqual(ask.timeout_ms, 1000)

    def test_refused(self) -> None:
        """Another one leads: who?  Nothing is confirmed meanwhile."""
        for code in (2000, 2002):
            life = leading()
            life.wait("ask CONFIRM")
            self.assertEqual(life.hear(Question.CONFIRM, answer(code)), ["ask INFO"])
            self.assertEqual(life.hear(Question.INFO, master(1, 2, 2, 1)), ["Follow 2 1 10.0.0.1:10911 2"])
            self.assertEqual(life.wait(), ["ask INFO"])

    def test_an_answer_of_an_epoch_before(self) -> None:
        """Confirms nothing."""
        life = leading()
        life.wait("ask CONFIRM")
        life.do("noticed", 7, MasterInfo(2, "h:1", 2, SyncSet((2,), 2)))
        life.hear(Question.INFO, master(2, 2, 2, 2))
        number = life.open.pop(Question.CONFIRM)
        self.assertEqual(life._told(life.life.answered(number, master(2, 1, 1, 1, 2, 3), 0, life.now)), [])

    def test_garbage(self) -> None:
        """Is no answer."""
        life = leading()
        life.wait("ask CONFIRM")
        bad = master(2, 1, 1, 1, 2, 3)
        bad.fields["masterEpoch"] = "soon"
        self.assertIn("answered what cannot be", life.hear(Question.CONFIRM, bad)[0])
        self.assertEqual(life.wait(), ["ask CONFIRM"])


class SetTests(unittest.TestCase):
    """Changes of the SyncStateSet on their way."""

    def setUp(self) -> None:
        self.life = leading()
        self.change = SetChange(4, (2, 3), 1, 1)

    def test_granted(self) -> None:
        """Known at once."""
        self.assertEqual(self.life.do("wants_set", self.change), ["ask ALTER"])
        granted = answer(body=in_sync(2, 2, 3), newSyncStateSetEpoch=2)
        self.assertEqual(self.life.hear(Question.ALTER, granted), ["SetKnown (2, 3) 2"])
        self.assertEqual(self.life.do("wants_set", SetChange(5, (2,), 1, 2)), ["ask ALTER"])

    def test_granted_without_news(self) -> None:
        """The set that is known, or none that can be ours: whether anything changed is not known, and the set can be
        changed afterwards.
        """
        for epoch, members in ((1, (2,)), (1, (2, 3)), (2, (1, 3))):
            life = leading()
            life.do("wants_set", self.change)
            granted = answer(body=in_sync(epoch, *members), newSyncStateSetEpoch=epoch)
            self.assertEqual(life.hear(Question.ALTER, granted), ["SetUnanswered 4"], (epoch, members))
            self.assertEqual(life.do("wants_set", SetChange(5, (2, 3), 1, 1)), ["ask ALTER"])

    def test_refused(self) -> None:
        """With the code; where that says that something else is in force, that is asked for."""
        for code, more in (
            (2006, []),
            (2003, ["ask REPLICAS"]),
            (2000, ["ask INFO"]),
            (2001, ["ask INFO"]),
            (2002, ["ask INFO"]),
            (2013, ["ask INFO"]),
            (1, []),
        ):
            life = leading()
            life.now += 500
            life.do("wants_set", self.change)
            self.assertEqual(life.hear(Question.ALTER, answer(code)), [f"SetRefused 4 {code} True", *more], code)

    def test_refusals_of_java_are_in_no_order(self) -> None:
        """They may overtake what was asked before."""
        life = leading(ours=False)
        life.do("wants_set", self.change)
        self.assertEqual(life.hear(Question.ALTER, answer(2006)), ["SetRefused 4 2006 False"])

    def test_unanswered(self) -> None:
        """Also an answer that cannot be read, and one of a controller that does not lead."""
        for ill in (None, answer(), answer(2007)):
            self.life.do("wants_set", self.change)
            texts = self.life.silence(Question.ALTER) if ill is None else self.life.hear(Question.ALTER, ill)
            self.assertEqual(texts[-1], "SetUnanswered 4")

    def test_of_another_epoch(self) -> None:
        """Not asked; and an answer that comes after the epoch is of no interest."""
        self.assertEqual(self.life.do("wants_set", SetChange(4, (2,), 9, 1)), ["SetUnanswered 4"])
        self.assertEqual(following().do("wants_set", self.change), ["SetUnanswered 4"])
        self.life.do("wants_set", self.change)
        self.life.do("noticed", 7, MasterInfo(2, "h:1", 2, SyncSet((2,), 5)))
        self.life.hear(Question.INFO, master(2, 2, 5, 2))
        granted = answer(body=in_sync(2, 2, 3), newSyncStateSetEpoch=2)
        self.assertEqual(self.life.hear(Question.ALTER, granted), [])

    def test_an_unknown_replica(self) -> None:
        """Who is registered is asked at once, but not for each knock."""
        self.life.now += 500
        self.assertEqual(self.life.do("doubted", Question.REPLICAS), ["ask REPLICAS"])
        self.assertEqual(self.life.hear(Question.REPLICAS, known(1, 2, 3, 4)), ["Registered (1, 2, 3, 4)"])
        self.assertEqual(self.life.do("doubted", Question.REPLICAS), [])
        self.assertEqual(self.life.wait("ask REPLICAS"), ["ask REPLICAS"])


class LeavingTests(unittest.TestCase):
    """A stop."""

    def test_a_master_hands_over(self) -> None:
        """No sends, replicas up to date, one elected and followed, gone when that one serves."""
        life = leading()
        self.assertEqual(life.do("leave"), ["Retire 2 the broker stops False"])
        self.assertEqual(life.do("done", 2), ["ask HAND_OVER"])
        self.assertEqual(life.hear(Question.HAND_OVER, master(1, 2, 2, 1)), ["Follow 3 1 10.0.0.1:10911 2"])
        self.assertIs(life.life.departure.stage, Leaving.FOLLOWING)
        self.assertEqual(life.do("done", 3), ["Beat"])
        self.assertEqual(life.do("master_serves", 1), [])
        self.assertEqual(life.do("master_serves", 2), ["HangUp", "Left"])
        self.assertFalse(life.life.beating)
        self.assertIsNone(life.life.next_due_ms())
        self.assertEqual(life.do("noticed", 1, MasterInfo(3, "h:1", 9, SyncSet((3,), 9))), ["Noticed 1 True"])
        self.assertEqual(life.do("leave"), [])

    def test_the_designated_broker(self) -> None:
        """Each of the set in turn, while they are refused; the request names it."""
        life = leading()
        life.do("leave")
        effects = life.life.done(2, life.now)
        asked = [effect.call.fields for effect in effects if isinstance(effect, Ask)]
        self.assertEqual([(each["brokerId"], each["designateElect"]) for each in asked], [("1", "true")])
        self.assertEqual(asked[0]["retiringMasterId"], str(life.life.number))
        number = next(effect.number for effect in effects if isinstance(effect, Ask))
        effects = life.life.answered(number, answer(2012), 0, life.now)
        (ask,) = (effect for effect in effects if isinstance(effect, Ask))
        self.assertEqual(ask.call.fields["brokerId"], "3")
        life.open[Question.HAND_OVER] = ask.number
        texts = life.hear(Question.HAND_OVER, answer(2012))
        self.assertEqual(texts, ["Fence the broker stops", "HangUp", "Left"])

    def test_it_takes_too_long(self) -> None:
        """Replicas that are behind: half of the time.  No answer: all of it."""
        life = leading()
        life.do("leave")
        began = life.now
        life.wait("ask HAND_OVER")
        self.assertEqual(life.now - began, 1500)
        texts = life.wait("Fence")
        self.assertEqual(life.now - began, 3000)
        self.assertEqual(texts, ["Fence the broker stops", "HangUp", "Left"])

    def test_the_lease_is_kept_meanwhile(self) -> None:
        """What waits for replicas is still acknowledged."""
        life = leading()
        life.do("leave")
        self.assertEqual(life.wait(), ["ask CONFIRM"])
        self.assertTrue(life.hear(Question.CONFIRM, master(2, 1, 1, 1, 2, 3))[0].startswith("LeaseConfirmed"))

    def test_others_just_go(self) -> None:
        """A replica, a master alone, one that has no role, one that is being promoted."""
        alone = registered(master(2, 1, 1, 2))
        alone.do("done", 1)
        for life, fence in (
            (following(), False),
            (alone, True),
            (registered(), False),
            (registered(master(2, 1, 1, 1, 2)), True),
        ):
            texts = life.do("leave")
            self.assertEqual(texts, [*["Fence the broker stops"] * fence, "HangUp", "Left"])
        fresh = Life(Identity())
        self.assertEqual(fresh.do("leave"), ["HangUp", "Left"])

    def test_an_unfit_master_hands_over_and_stays(self) -> None:
        """As its successor's slave; asked again it does nothing."""
        life = leading()
        self.assertEqual(life.do("unfit", "no power"), ["Retire 2 no power False", "Trouble no power"])
        self.assertEqual(life.do("unfit", "no power"), [])
        self.assertEqual(life.do("done", 2), ["ask HAND_OVER"])
        self.assertEqual(life.hear(Question.HAND_OVER, master(1, 2, 2, 1)), ["Follow 3 1 10.0.0.1:10911 2"])
        self.assertEqual(life.do("done", 3), ["Trouble", "Beat"])
        self.assertEqual(life.do("master_serves", 2), [])
        self.assertIs(life.life.departure.stage, Leaving.NO)
        self.assertTrue(life.life.beating)
        self.assertEqual(life.do("unfit", "no power"), [])
        self.assertEqual(life.do("leave"), ["HangUp", "Left"])

    def test_nobody_takes_an_unfit_masters_role(self) -> None:
        """It begins anew: better an unfit master than none."""
        life = leading()
        life.do("unfit", "no power")
        texts = life.wait("Fence")
        self.assertEqual(texts, ["Fence no power", "HangUp"])
        self.assertIs(life.life.departure.stage, Leaving.NO)
        life.wait("ask REGISTER")
        alone = registered(master(2, 1, 1, 2))
        alone.do("done", 1)
        self.assertEqual(alone.do("unfit", "no power"), [])

    def test_an_unfit_master_that_is_told_to_stop(self) -> None:
        """Goes on with what it has begun, and is gone then."""
        life = leading()
        life.do("unfit", "no power")
        self.assertEqual(life.do("leave"), [])
        life.do("done", 2)
        life.hear(Question.HAND_OVER, master(1, 2, 2, 1))
        life.do("done", 3)
        self.assertEqual(life.do("master_serves", 2), ["HangUp", "Left"])


if __name__ == "__main__":
    unittest.main()
