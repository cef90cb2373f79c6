"""A Java follower of this leader."""

from __future__ import annotations

from unittest import mock

from rocketha.dledger.leading import PUSH_BYTES, JavaFollower, bundles
from rocketha.raft.messages import COMMIT_ONLY, Entry, EntryKind, Kind, Message, SnapshotMeta
from rocketha.raft.storage import Unavailable
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_values import DLedgerResponseCode as Code
from rocketha.wire.dledger_values import HeartBeatAnswer, PushAnswer, PushRequest, PushType
from tests.dledger.case import JavaCase, core_entry, java_entry, java_log
from tests.seeds import SeededCase


class Follower:
    """Java's, as ``DLedgerEntryPusher.EntryHandler`` does it.

    :ivar cut: entries that it lost.
    """

    def __init__(self, log: list[values.Entry]) -> None:
        self.log = log
        self.cut: list[values.Entry] = []
        self.committed = -1
        self.compared = 0

    def push(self, request: PushRequest) -> PushAnswer:
        good = getattr(self, f"_{request.kind.name.lower()}")(request)
        if good and request.kind is not PushType.COMPARE:
            self.committed = max(self.committed, min(request.commit_index, self._end))
        return PushAnswer(
            code=Code.SUCCESS if good else Code.INCONSISTENT_STATE,
            term=request.term,
            entry_index=request.first_index,
            count=request.count,
            begin_index=self.log[0].entry_index if self.log else -1,
            end_index=self._end,
        )

    @property
    def _end(self) -> int:
        return self.log[-1].entry_index if self.log else -1

    def _has(self, entry: values.Entry) -> bool:
        return entry in self.log

    def _compare(self, request: PushRequest) -> bool:
        self.compared += 1
        assert request.entry is not None
        return self._has(request.entry)

    def _truncate(self, request: PushRequest) -> bool:
        entry = request.entry
        assert entry is not None
        self.cut += [each for each in self.log if each.entry_index > entry.entry_index]
        kept = [each for each in self.log if each.entry_index < entry.entry_index]
        if kept and kept[-1].entry_index != entry.entry_index - 1:
            kept = []
        self.log = [*kept, entry]
        return True

    def _append(self, request: PushRequest) -> bool:
        if request.first_index != self._end + 1:
            return False
        self.log += request.entries
        return True

    def _commit(self, request: PushRequest) -> bool:
        return True


class LeadingTests(SeededCase, JavaCase):
    """See the module."""

    def lead(self, log: list[values.Entry], follower: list[values.Entry], first: int = 0) -> None:
        """A follower that has answered a heartbeat, and an APPEND of the core's as it makes it first."""
        self.make(log, first=first)
        self.java = Follower(follower)
        self.speaker = JavaFollower(self.here, "j", self.ask)
        self.beat()
        self.say(Kind.APPEND, self.node.log.last_index, self.node.log.last_term)
        self.serve()

    def say(self, kind: Kind, index: int = 0, log_term: int = 0, **more: object) -> None:
        term = max(self.node.term, 1)
        self.speaker.say(Message(kind, "n", "j", term, index, log_term, **more))  # type: ignore[arg-type]

    def beat(self, code: int = Code.SUCCESS, term: int = -1) -> None:
        self.say(Kind.HEART_BEAT, context=1)
        for request, answered in self.take_asked():
            if isinstance(request, values.HeartBeatRequest):
                answered(HeartBeatAnswer(code=code, term=term))
            else:
                self.asked.append((request, answered))

    def take_asked(self) -> list[tuple[values.Message, object]]:
        asked, self.asked = self.asked, []
        return asked  # type: ignore[return-value]

    def serve(self) -> None:
        """The follower answers until nothing is asked."""
        while self.asked:
            request, answered = self.asked.pop(0)
            assert isinstance(request, PushRequest)
            answered(self.java.push(request))

    def acked(self) -> int:
        """What the core was told last."""
        answers = [each for each in self.take_told() if each.kind == Kind.APPEND_ANSWER and not each.reject]
        return answers[-1].index if answers else -1

    # -- comparing

    def test_equal_logs(self) -> None:
        """One question."""
        self.lead(java_log(0, 0, 1), java_log(0, 0, 1))
        self.assertEqual((self.acked(), self.java.compared, self.java.cut), (3, 1, []))

    def test_an_empty_follower(self) -> None:
        """Its log begins with the first entry of ours."""
        self.lead(java_log(0, 0, 1), [])
        self.assertEqual(self.acked(), 1)
        self.assertEqual(self.java.log, java_log(0))

    def test_what_only_the_follower_has_is_cut(self) -> None:
        """Behind the end of ours, or another entry there; nothing else."""
        self.lead(java_log(0, 0, 2), java_log(0, 0, 1, 1, 1))
        self.assertEqual(self.acked(), 2)
        self.assertEqual(self.java.log, java_log(0, 0))
        self.assertEqual([entry.entry_index for entry in self.java.cut], [2, 3, 4])
        self.lead(java_log(0, 0), java_log(0, 0, 0, 0))
        self.assertEqual((self.acked(), len(self.java.cut)), (2, 2))

    def test_any_two_logs(self) -> None:
        """Equal entries are never cut, and the questions are few."""
        chance = self.chance
        for _ in range(200):
            common = sorted(chance.choices(range(3), k=chance.randrange(40)))
            ours = common + sorted(chance.choices((3, 5), k=chance.randrange(1, 20)))
            its = common + sorted(chance.choices((4, 6), k=chance.choice((0, chance.randrange(20)))))
            first = chance.randrange(len(ours)) if chance.random() < 0.3 else 0
            with self.subTest(seed=self.seed, ours=ours, its=its, first=first):
                self.lead(java_log(*ours), java_log(*its), first)
                log = java_log(*ours)
                equal = max(len(common), first + 1) if len(common) <= first else len(common)
                self.assertEqual(self.acked(), equal)
                self.assertEqual([entry for entry in self.java.cut if entry in log[first:]], [])
                self.assertEqual(self.java.log[-1], log[equal - 1])
                self.assertLess(self.java.compared, 9)

    def test_a_follower_that_has_deleted_more(self) -> None:
        """What is not there any more is answered as what is different; it says nothing about the rest."""
        ours = [0] * 90 + [2] * 10
        its = java_log(*[0] * 90, 1, 1, 1)[60:]
        self.lead(java_log(*ours), its)
        self.assertEqual(self.acked(), 90)
        self.assertEqual([entry.entry_index for entry in self.java.cut], [90, 91, 92])
        self.assertEqual(len(self.java.log), 30)

    def test_it_is_asked_when_it_follows(self) -> None:
        """A candidate of Java's would let the question wait for its role, and the connection with it."""
        self.make(java_log(0, 0))
        self.java = Follower([])
        self.speaker = JavaFollower(self.here, "j", self.ask)
        self.say(Kind.APPEND, 2, 1)
        self.assertEqual(self.asked, [])
        self.beat(Code.TERM_NOT_READY)
        self.assertEqual((self.asked, self.told), ([], []))
        self.beat()
        self.assertEqual(len(self.asked), 1)

    def test_a_newer_term(self) -> None:
        """Of a heartbeat's answer: the core hears of it."""
        self.make(java_log(0, 0))
        self.speaker = JavaFollower(self.here, "j", self.ask)
        self.beat(Code.EXPIRED_TERM, 7)
        self.assertEqual([(each.term, each.reject) for each in self.told], [(8, True)])

    def test_no_answer_to_a_question(self) -> None:
        """The next heartbeat's answer, and word of the core's, has it asked again."""
        self.lead(java_log(0, 0), java_log(0, 0))
        self.speaker.lost()
        self.take_told()
        self.say(Kind.APPEND, 2, 1)
        self.beat()
        self.asked.pop()[1](None)
        self.assertEqual(self.acked(), -1)
        self.say(Kind.APPEND, 2, 1)
        self.serve()
        self.assertEqual(self.acked(), 2)

    # -- pushing

    def push(self, *terms: int) -> None:
        """The core has more entries."""
        begin = self.node.log.last_index
        entries = [core_entry(java_entry(begin + number, term)) for number, term in enumerate(terms)]
        self.say(Kind.APPEND, begin, self.node.log.last_term, commit=begin, entries=tuple(entries))
        self.node.log.append(entries)

    def test_entries_follow(self) -> None:
        """Without waiting for answers; what is acknowledged the core hears."""
        self.lead(java_log(0, 0), java_log(0, 0))
        self.push(0, 0)
        self.push(0)
        self.assertEqual([request.count for request, _ in self.asked], [2, 1])  # type: ignore[attr-defined]
        self.serve()
        self.assertEqual((self.acked(), len(self.java.log), self.java.committed), (5, 5, 3))

    def test_many_runs_leave_in_few_pushes(self) -> None:
        """As many in each as fit, in order."""
        self.lead(java_log(0, 0), java_log(0, 0))
        each = len(core_entry(java_entry(2, 0)).data)
        self.push(*[0] * (2 * (PUSH_BYTES // each) + 1))
        counts = [request.count for request, _ in self.asked]  # type: ignore[attr-defined]
        self.assertEqual(counts, [PUSH_BYTES // each] * 2 + [1])
        self.serve()
        entries = len(self.java.log)
        self.assertEqual((self.acked(), entries), (entries, sum(counts) + 2))

    def test_an_entry_that_the_disk_has_yet_to_take(self) -> None:
        """What is before it is pushed; the core is told what is missing when it goes on."""
        self.lead(java_log(0, 0), java_log(0, 0))
        storage = self.here.storage
        with mock.patch.object(storage, "raw", side_effect=[storage.raw(core_entry(java_entry(2, 0))), Unavailable()]):
            self.push(0, 0)
        self.serve()
        self.assertEqual((self.acked(), len(self.java.log)), (3, 3))
        self.say(Kind.APPEND, 4, 1)
        refusal = self.take_told()[-1]
        self.assertEqual((refusal.reject, refusal.index, refusal.hint_index), (True, 4, 3))

    def test_bundles(self) -> None:
        """A run that is larger than a push leaves alone; what fits exactly is one."""
        large, half = bytes(PUSH_BYTES + 1), bytes(PUSH_BYTES // 2)
        sizes = [b"a", large, b"a", half, half, half, half, b"a", b"a"]
        runs = [(Entry(1 + number, 1, EntryKind.NORMAL, data), data) for number, data in enumerate(sizes)]
        bundled = list(bundles(runs))
        self.assertEqual([run for bundle in bundled for run in bundle], runs)
        self.assertEqual([len(bundle) for bundle in bundled], [1, 1, 2, 2, 3])
        self.assertEqual(list(bundles([])), [])

    def test_word_of_a_commit(self) -> None:
        """Once; never of more than the follower is known to have; also by a heartbeat."""
        self.lead(java_log(0, 0), java_log(0, 0))
        self.say(Kind.APPEND, 2, commit=5, context=COMMIT_ONLY)
        self.say(Kind.APPEND, 2, commit=2, context=COMMIT_ONLY)
        self.assertEqual(len(self.asked), 1)
        self.serve()
        self.assertEqual(self.java.committed, 1)
        self.push(0)
        self.serve()
        self.say(Kind.HEART_BEAT, commit=3, context=2)
        self.assertEqual([request.commit_index for request, _ in self.asked[1:]], [2])  # type: ignore[attr-defined]

    def test_an_inconsistent_follower(self) -> None:
        """The core hears of a loss, and the logs are compared again."""
        self.lead(java_log(0, 0), java_log(0, 0))
        del self.java.log[1]
        self.push(0)
        self.serve()
        refusal = self.take_told()[-1]
        self.assertEqual((refusal.kind, refusal.reject, refusal.index), (Kind.APPEND_ANSWER, True, 3))
        self.say(Kind.APPEND, 2, 1)
        self.serve()
        self.assertEqual(self.acked(), 1)
        self.say(Kind.APPEND, 2, 1)
        refusal = self.take_told()[-1]
        self.assertEqual((refusal.reject, refusal.hint_index, refusal.hint_term), (True, 1, 1))

    def test_pushed_again(self) -> None:
        """What is not answered for a second."""
        self.lead(java_log(0, 0), java_log(0, 0))
        self.push(0)
        self.push(0)
        pushes = [request for request, _ in self.asked]
        self.asked.clear()
        self.say(Kind.APPEND, 4, 1)
        self.assertEqual(self.asked, [])
        self.now_s = 1.5
        self.say(Kind.APPEND, 4, 1)
        self.say(Kind.APPEND, 4, 1)
        self.assertEqual([request for request, _ in self.asked], pushes[:1])

    def test_an_answer_to_another_life(self) -> None:
        """Does not matter."""
        self.lead(java_log(0, 0), java_log(0, 0))
        self.push(0)
        _, answered = self.asked.pop()
        self.speaker.lost()
        self.take_told()
        answered(PushAnswer(code=Code.SUCCESS, entry_index=2, count=1))
        self.assertEqual(self.told, [])

    def test_an_answer_to_the_same_push_before(self) -> None:
        """It was given before the follower lost the entry; only the answer to the new push counts."""
        self.lead(java_log(0, 0), java_log(0, 0))
        self.push(0)
        (old,) = self.asked
        self.asked.clear()
        self.speaker.lost()
        self.beat()
        self.say(Kind.APPEND, 2, 1)
        self.serve()
        entries = (core_entry(java_entry(2, 0)),)
        self.say(Kind.APPEND, 2, 1, entries=entries)
        self.take_told()
        old[1](PushAnswer(code=Code.SUCCESS, entry_index=2, count=1))
        self.assertEqual(self.acked(), -1)
        self.serve()
        self.assertEqual(self.acked(), 3)

    def test_another_term(self) -> None:
        """What was acknowledged in the one before says nothing: the follower's log may have been another leader's."""
        self.lead(java_log(0, 0), java_log(0, 0))
        self.take_told()
        term = self.node.term + 1
        self.speaker.say(Message(Kind.HEART_BEAT, "n", "j", term, context=7))
        self.asked.pop()[1](HeartBeatAnswer())
        self.assertEqual([(each.term, each.index, each.hint_index) for each in self.told], [(term, 0, 0)])

    def test_a_follower_behind_the_log(self) -> None:
        """Where the core would send a snapshot its log begins anew, with the first entry of ours."""
        self.lead(java_log(0, 0, 0, 1, 1, 1), java_log(0), first=3)
        self.take_told()
        self.java = Follower(java_log(0))
        meta = SnapshotMeta(3, 1, self.node.members)
        self.beat()
        self.say(Kind.SNAPSHOT, snapshot=meta, data=b"begin", done=True)
        self.serve()
        answers = [(each.kind, each.index) for each in self.take_told() if each.kind != Kind.HEART_BEAT_ANSWER]
        self.assertEqual(answers, [(Kind.SNAPSHOT_ANSWER, 3), (Kind.APPEND_ANSWER, 4)])
        self.assertEqual(self.java.log, java_log(0, 0, 0, 1)[3:])
