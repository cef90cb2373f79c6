"""A Java leader of this follower."""

from __future__ import annotations

from unittest import mock

from rocketha.dledger import following
from rocketha.dledger.following import EARLY_PUSHES_MAX, JavaLeader
from rocketha.raft.messages import COMMIT_ONLY, Kind, Message
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_terms import parse_log_begin
from rocketha.wire.dledger_values import DLedgerResponseCode as Code
from rocketha.wire.dledger_values import PushAnswer, PushRequest, PushType
from tests.dledger.case import FILE_BYTES, JavaCase, java_entry, java_log, position


class FollowingTests(JavaCase):
    """See the module."""

    def follow(self, *terms: int, commit: int = 0, term: int = 0) -> None:
        """With a log, whose last term is the leader's."""
        self.make(java_log(*terms), term=term, commit=commit)
        self.leader = JavaLeader(self.here, "j")
        self.term = max(self.node.term, 1) - 1
        self.answers: list[PushAnswer] = []

    def push(self, kind: PushType, *entries: values.Entry, commit: int = -1, batch: bool = False) -> list[Message]:
        """What the core hears of a push."""
        request = PushRequest(
            group="g",
            remote_id="n",
            local_id="j",
            leader_id="j",
            term=self.term,
            kind=kind,
            commit_index=commit,
            entry=entries[0] if entries and not batch else None,
            batch=entries if batch else (),
        )
        self.leader.push(request, self.answers.append)  # type: ignore[arg-type]
        return self.take_told()

    def core(self, index: int, reject: bool = False) -> None:
        """The core answers."""
        self.leader.answered(Message(Kind.APPEND_ANSWER, "n", "j", self.term + 1, index, reject=reject))

    def codes(self) -> list[int]:
        """Of the answers since the last look."""
        codes = [answer.code for answer in self.answers]
        self.answers.clear()
        return codes

    def compared(self) -> None:
        """At the end of the log."""
        last = self.node.log.last_index - 1
        self.push(PushType.COMPARE, java_entry(last, self.node.log.last_term - 1))
        self.core(last + 1)
        self.assertEqual(self.codes(), [Code.SUCCESS])

    # -- comparing

    def test_an_equal_entry(self) -> None:
        """Is acknowledged when the core has: to the leader it counts."""
        self.follow(0, 0, 1)
        told = self.push(PushType.COMPARE, java_entry(2, 1))
        self.assertEqual(
            [(each.kind, each.index, each.log_term, each.commit) for each in told], [(Kind.APPEND, 3, 2, 0)]
        )
        self.assertEqual(self.answers, [])
        self.core(2)
        self.assertEqual(self.answers, [])
        self.core(3)
        answer = self.answers[0]
        self.assertEqual((answer.code, answer.entry_index, answer.count), (Code.SUCCESS, 2, 1))
        self.assertEqual((answer.begin_index, answer.end_index, answer.term), (0, 2, 1))

    def test_another_entry(self) -> None:
        """Of another term, another body, or behind the end; the leader hears how far the log goes."""
        self.follow(0, 0, 1)
        for entry in (java_entry(2, 0), java_entry(2, 1, b"other"), java_entry(3, 1)):
            told = self.push(PushType.COMPARE, entry)
            self.assertEqual([each.kind for each in told], [Kind.HEART_BEAT])
            self.assertEqual(self.answers[-1].end_index, 2)
            self.assertEqual(self.codes(), [Code.INCONSISTENT_STATE])

    def test_an_old_term(self) -> None:
        """The leader hears of the newer one."""
        self.follow(0, 0, term=5)
        self.term = 2
        self.assertEqual(self.push(PushType.COMPARE, java_entry(1, 0)), [])
        self.assertEqual((self.answers[0].code, self.answers[0].term), (Code.EXPIRED_TERM, 4))

    def test_nothing_was_compared(self) -> None:
        """A push does not say what it follows: it is not taken."""
        self.follow(0, 0)
        self.assertEqual(self.push(PushType.APPEND, java_entry(2, 0)), [])
        self.assertEqual(self.codes(), [Code.INCONSISTENT_STATE])
        self.compared()
        self.term += 1
        self.assertEqual(self.push(PushType.APPEND, java_entry(2, 1)), [])
        self.assertEqual(self.codes(), [Code.INCONSISTENT_STATE])

    # -- appending

    def test_entries(self) -> None:
        """With the one before them; answered as the core has them."""
        self.follow(0, 0)
        self.compared()
        told = self.push(PushType.APPEND, java_entry(2, 0), commit=1)
        told += self.push(PushType.APPEND, java_entry(3, 0), java_entry(4, 0), commit=2, batch=True)
        found = [(each.index, each.log_term, each.commit, [run[:2] + run[4:] for run in each.entries]) for each in told]
        self.assertEqual(found, [(2, 1, 2, [(3, 1, 1)]), (3, 1, 3, [(4, 1, 2)])])
        self.assertEqual(told[1].entries[0].data, values.raw_entries([java_entry(3, 0), java_entry(4, 0)]))
        for index in (3, 4):
            self.core(index)
            self.assertEqual([(each.entry_index, each.count) for each in self.answers], [(2, 1)])
        self.core(5)
        self.assertEqual([(each.entry_index, each.count) for each in self.answers], [(2, 1), (3, 2)])

    def test_runs(self) -> None:
        """Entries of another term, or of another file, are another run."""
        self.follow(*[0] * 8)
        self.term = 1
        self.push(PushType.COMPARE, java_entry(7, 0))
        entries = [java_entry(8, 0), java_entry(9, 1), java_entry(10, 1), java_entry(11, 1)]
        told = self.push(PushType.APPEND, *entries, batch=True)
        self.assertEqual(
            [(run.index, run.term, run.count) for run in told[0].entries], [(9, 1, 1), (10, 2, 1), (11, 2, 2)]
        )

    def test_places_that_can_not_be(self) -> None:
        """They never reach the disk: in another place, too long for the file, or of a term that is no leader's."""
        entry = java_entry(2, 0)
        long = entry._replace(size=FILE_ROOM, body=bytes(FILE_ROOM - 48))
        for bad in (
            entry._replace(position=201),
            entry._replace(position=2048),
            entry._replace(term=1),
            long,
        ):
            with self.subTest(bad=bad._replace(body=b"")):
                self.follow(0, 0)
                self.compared()
                self.assertEqual(self.push(PushType.APPEND, bad), [])
                self.assertEqual(self.codes(), [Code.INCONSISTENT_STATE])

    def test_the_core_says_no(self) -> None:
        """All that waits is inconsistent, and what comes before the logs were compared again."""
        self.follow(0, 0)
        self.compared()
        self.push(PushType.APPEND, java_entry(2, 0))
        self.push(PushType.APPEND, java_entry(3, 0))
        self.core(2, reject=True)
        self.push(PushType.APPEND, java_entry(4, 0))
        self.assertEqual(self.codes(), [Code.INCONSISTENT_STATE] * 3)

    def test_pushed_again(self) -> None:
        """An answer was lost: the core is asked how far it is."""
        self.follow(0, 0, 0)
        self.compared()
        told = self.push(PushType.APPEND, java_entry(1, 0))
        self.assertEqual([(each.kind, each.index) for each in told], [(Kind.APPEND, 2)])
        self.core(3)
        self.assertEqual(self.codes(), [Code.SUCCESS])
        self.assertEqual(self.push(PushType.APPEND, java_entry(1, 0, b"other")._replace(term=9)), [])
        self.assertEqual(self.codes(), [Code.INCONSISTENT_STATE])

    def test_entries_in_whose_place_others_are_committed(self) -> None:
        """Java's leader lost what a majority had acknowledged: nobody here acknowledges what it has instead."""
        self.follow(0, 0, 0, 0, commit=4)
        self.term = 1
        self.push(PushType.COMPARE, java_entry(1, 0))
        self.core(2)
        self.answers.clear()
        for entries in ((java_entry(2, 1),), (java_entry(2, 0), java_entry(3, 1), java_entry(4, 1))):
            self.assertEqual(self.push(PushType.APPEND, *entries, batch=True), [])
            self.assertEqual(self.codes(), [Code.DISK_ERROR])
            self.push(PushType.COMPARE, java_entry(1, 0))
            self.core(2)
            self.answers.clear()
        told = self.push(PushType.APPEND, java_entry(2, 0), java_entry(3, 0), java_entry(4, 1), batch=True)
        self.assertEqual(len(told), 1)

    def test_a_disk_that_stands_still(self) -> None:
        """Takes so much and no more."""
        self.follow(0, 0)
        self.compared()
        with mock.patch.object(following, "OWED_BYTES_MAX", 250):
            for number in range(2, 6):
                self.push(PushType.APPEND, java_entry(number, 0))
        self.assertEqual(self.codes(), [Code.INCONSISTENT_STATE])
        self.core(5)
        self.assertEqual(self.codes(), [Code.SUCCESS] * 3)

    # -- order

    def test_early(self) -> None:
        """A push waits for those before it, and is taken then."""
        self.follow(0, 0)
        self.compared()
        for number in (4, 3):
            self.assertEqual(self.push(PushType.APPEND, java_entry(number, 0)), [])
        self.push(PushType.APPEND, java_entry(3, 0))
        self.assertEqual(self.codes(), [Code.REPEATED_PUSH])
        told = self.push(PushType.APPEND, java_entry(2, 0))
        self.assertEqual([each.index for each in told], [2, 3, 4])
        self.pass_time()
        self.core(5)
        self.assertEqual(self.codes(), [Code.SUCCESS] * 3)

    def test_a_gap(self) -> None:
        """What does not come is told after a tenth of a second, not after one."""
        self.follow(0, 0)
        self.compared()
        self.push(PushType.APPEND, java_entry(3, 0))
        self.assertEqual((self.answers, [seconds for seconds, _ in self.later]), ([], [0.1]))
        self.pass_time()
        self.assertEqual(self.codes(), [Code.INCONSISTENT_STATE])
        self.assertEqual(self.later, [])

    def test_no_gap(self) -> None:
        """As long as pushes come that are in order, those behind them wait."""
        self.follow(0, 0)
        self.compared()
        self.push(PushType.APPEND, java_entry(4, 0))
        self.push(PushType.APPEND, java_entry(2, 0))
        self.pass_time()
        self.assertEqual((self.codes(), len(self.later)), ([], 1))

    def test_early_ones_are_bounded(self) -> None:
        """More than a leader has under way are refused."""
        self.follow(0, 0)
        self.compared()
        for number in range(EARLY_PUSHES_MAX + 1):
            self.push(PushType.APPEND, java_entry(number + 3, 0))
        self.assertEqual(self.codes(), [Code.INCONSISTENT_STATE])
        self.assertEqual(len(self.push(PushType.APPEND, java_entry(2, 0))), EARLY_PUSHES_MAX + 1)

    # -- commits

    def test_a_commit(self) -> None:
        """The core takes no more for committed than it knows to be the leader's."""
        self.follow(0, 0)
        told = self.push(PushType.COMMIT, commit=1)
        self.assertEqual([(each.commit, each.context) for each in told], [(2, COMMIT_ONLY)])
        self.assertEqual(self.answers[0].entry_index, None)
        self.assertEqual(self.codes(), [Code.SUCCESS])

    # -- cuts

    def test_a_truncate_of_what_is_equal(self) -> None:
        """Cuts nothing by itself: a late one would cut what was acknowledged since."""
        self.follow(0, 0, 0, 0)
        told = self.push(PushType.TRUNCATE, java_entry(1, 0))
        self.assertEqual([(each.kind, each.index, each.entries) for each in told], [(Kind.APPEND, 2, ())])
        told = self.push(PushType.APPEND, java_entry(2, 0, b"other"))
        self.assertEqual([(each.index, len(each.entries)) for each in told], [(2, 1)])

    def test_begins_anew(self) -> None:
        """Nothing is in common with a leader whose log begins later."""
        self.follow(0, 0, commit=1)
        self.term = 3
        told = self.push(PushType.TRUNCATE, java_entry(20, 2))
        self.assertEqual([each.kind for each in told], [Kind.SNAPSHOT, Kind.APPEND])
        snapshot = told[0].snapshot
        assert snapshot is not None
        self.assertEqual((snapshot.index, snapshot.term), (20, 3))
        self.assertEqual(parse_log_begin(told[0].data), position(20))
        self.assertEqual((told[1].index, told[1].log_term, told[1].entries[0].index), (20, 3, 21))

    def test_begins_with_the_first(self) -> None:
        """An empty log, or one of which nothing is committed."""
        for terms in ((), (0, 0)):
            self.follow(*terms)
            self.term = 3
            told = self.push(PushType.TRUNCATE, java_entry(0, 2))
            self.assertEqual([(each.index, each.log_term, len(each.entries)) for each in told], [(0, 0, 1)])

    def test_begins_where_an_ordinary_brokers_log_ended(self) -> None:
        """The leader's first entry stands at the begin of a later file."""
        self.follow()
        self.term = 3
        first = java_entry(0, 2)._replace(position=5 * FILE_BYTES)
        told = self.push(PushType.TRUNCATE, first)
        self.assertEqual([(each.index, each.entries[0].data) for each in told], [(0, values.raw_entries([first]))])
        told = self.push(PushType.APPEND, java_entry(1, 2)._replace(position=first.position + first.size))
        self.assertEqual([(each.index, len(each.entries)) for each in told], [(1, 1)])

    def test_another_first_entry_of_the_same_term(self) -> None:
        """One that this member made by itself: the core would take it for the leader's, so nothing is taken at all."""
        self.follow(0)
        told = self.push(PushType.TRUNCATE, java_entry(0, 0, b"the leader's"))
        self.assertEqual((told, self.codes()), ([], [Code.DISK_ERROR]))

    def test_goes_on_where_it_ends(self) -> None:
        """All of it is committed, and the leader's log begins right behind it."""
        self.follow(*[0] * 10, commit=10)
        self.term = 1
        told = self.push(PushType.TRUNCATE, java_entry(10, 1))
        self.assertEqual([(each.kind, each.index, each.log_term) for each in told], [(Kind.APPEND, 10, 1)])

    def test_what_is_committed_is_not_cut(self) -> None:
        """Whatever a leader says; nor does a log begin in the middle of a file."""
        self.follow(0, 0, 0, commit=2)
        self.term = 3
        for entry in (java_entry(0, 2), java_entry(1, 2), java_entry(13, 2)):
            self.assertEqual(self.push(PushType.TRUNCATE, entry), [])
            self.assertEqual(self.codes(), [Code.DISK_ERROR])

    def test_no_entry(self) -> None:
        """Java's follower fails on it."""
        self.follow(0, 0)
        for kind in (PushType.APPEND, PushType.COMPARE, PushType.TRUNCATE):
            self.assertEqual(self.push(kind), [])
            self.assertEqual(self.codes(), [Code.UNEXPECTED_ARGUMENT])


FILE_ROOM = 1024 - 200 - 7
"""One byte more than an entry at 200 may have."""
