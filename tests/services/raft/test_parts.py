"""The parts of the Raft service by themselves, and the service on time by hand."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from twisted.internet import defer
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from rocketha.raft.config import Role
from rocketha.raft.errors import Busy, NotLeader
from rocketha.raft.messages import Entry, HardState, Kind, Members, Message, ReadState
from rocketha.services.process.platform import Platform
from rocketha.services.raft.addresses import AddressBook
from rocketha.services.raft.machine_store import MachineStore
from rocketha.services.raft.newcomer import Newcomer
from rocketha.services.raft.options import RaftMember, RaftOptions
from rocketha.services.raft.requests import Changes, NotDone
from rocketha.services.raft.service import RaftService
from rocketha.services.raft.waiting import Barriers, NoMajority, NotApplied, Proposals, ResultUnknown
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.raft_log import RaftLog
from tests.services.events_case import events_of
from tests.services.raft_case import Words

NORMAL = 1


class ProposalTests(SynchronousTestCase):
    """Who waits for which entry."""

    def setUp(self) -> None:
        self.proposals = Proposals(3, 100, 60, patience_ticks=1000)

    def add(self, data: bytes, tick: int) -> defer.Deferred[Any]:
        """One more, and who waits for it."""
        waiter: defer.Deferred[Any] = defer.Deferred()
        self.proposals.add(data, tick, waiter)
        return waiter

    def test_outcomes_by_index(self) -> None:
        """Each proposal gets the outcome of its own entry."""
        one, two = self.add(b"1", 0), self.add(b"2", 0)
        self.assertEqual(self.proposals.queue(), [b"1", b"2"])
        self.proposals.proposed(range(7, 9), 3)
        self.proposals.applied([Entry(6, 3, NORMAL, b"x")], ["not ours"])
        self.assertNoResult(one)
        self.proposals.applied([Entry(7, 3, NORMAL, b"1"), Entry(8, 3, NORMAL, b"2")], ["first", "second"])
        self.assertEqual((self.successResultOf(one), self.successResultOf(two)), ("first", "second"))
        self.assertEqual(self.proposals.waiting, 0)

    def test_bounds(self) -> None:
        """More proposals, or more bytes, than may wait are refused at once."""
        for _ in range(3):
            self.add(b"x", 0).addErrback(lambda _: None)
        with self.assertRaises(Busy):
            self.add(b"x", 0)
        other = Proposals(100, 10, 11, 1000)
        with self.assertRaises(Busy):
            other.add(bytes(11), 0, defer.Deferred())
        with self.assertRaisesRegex(Busy, "a proposal of 12 bytes: 11 are allowed"):
            other.add(bytes(12), 0, defer.Deferred())

    def test_surely_not_applied(self) -> None:
        """Another term's entry, or one of another kind, at the index: it had no effect."""
        one, two = self.add(b"1", 0), self.add(b"2", 0)
        self.proposals.proposed(range(7, 9), 3)
        self.proposals.office_lost("n2", 100)
        self.proposals.applied([Entry(7, 4, NORMAL, b"other")], ["other's"])
        self.assertFalse(self.failureResultOf(one, NotApplied).value.maybe_applied)
        self.proposals.superseded(8)
        self.failureResultOf(two, NotApplied)

    def test_settled_by_the_next_leader(self) -> None:
        """A leader that lost its leadership still learns that its entry was committed, and says so."""
        one = self.add(b"1", 0)
        self.proposals.proposed(range(7, 8), 3)
        queued = self.add(b"2", 0)
        self.proposals.office_lost("n2", 100)
        self.assertEqual(self.failureResultOf(queued, NotLeader).value.leader_id, "n2")
        self.proposals.expire(99)
        self.assertNoResult(one)
        self.proposals.applied([Entry(7, 3, NORMAL, b"1")], ["done"])
        self.assertEqual(self.successResultOf(one), "done")

    def test_unknown(self) -> None:
        """Nobody settles it in time, a snapshot hides it, or the service ends: it may have been applied."""
        one, two, three = (self.add(b"x", 0) for _ in range(3))
        self.proposals.proposed(range(7, 10), 3)
        self.proposals.skipped_to(7)
        self.assertTrue(self.failureResultOf(one, ResultUnknown).value.maybe_applied)
        self.assertNoResult(two)
        self.proposals.office_lost("", 100)
        self.proposals.expire(100)
        self.failureResultOf(two, ResultUnknown)
        self.failureResultOf(three, ResultUnknown)
        last = self.add(b"x", 0)
        self.proposals.end()
        self.failureResultOf(last, NotLeader)

    def test_patience_has_an_end(self) -> None:
        """A leader that keeps its office and commits nothing: the outcome is unknown; what never reached the log had
        no effect."""
        early = self.add(b"1", 0)
        self.proposals.proposed(range(7, 8), 3)
        late = self.add(b"2", 10)
        self.proposals.proposed(range(8, 9), 3)
        queued = self.add(b"three", 11)
        self.proposals.expire(999)
        self.assertNoResult(early)
        self.proposals.expire(1000)
        self.assertTrue(self.failureResultOf(early, ResultUnknown).value.maybe_applied)
        self.assertNoResult(late)
        self.proposals.applied([Entry(7, 3, NORMAL, b"1"), Entry(8, 3, NORMAL, b"2")], ["first", "second"])
        self.assertEqual(self.successResultOf(late), "second")
        self.proposals.expire(1010)
        self.assertNoResult(queued)
        self.proposals.expire(1011)
        self.failureResultOf(queued, Busy)
        self.assertEqual((self.proposals.queued, self.proposals.waiting), (0, 0))
        for _ in range(3):  # nor is its room taken any more
            self.add(bytes(33), 1011).addErrback(lambda _: None)

    def test_patience_ends_for_the_deposed_too(self) -> None:
        """Losing the office prolongs nothing."""
        one = self.add(b"1", 0)
        self.proposals.proposed(range(7, 8), 3)
        self.proposals.office_lost("n2", 1020)
        self.proposals.expire(1000)
        self.failureResultOf(one, ResultUnknown)

    def test_an_index_that_is_taken_twice(self) -> None:
        """Lost, won and lost again while the first one waits still: each is told, once."""
        one = self.add(b"1", 0)
        self.proposals.proposed(range(7, 8), 3)
        self.proposals.office_lost("n2", 100)
        two = self.add(b"2", 5)
        self.proposals.proposed(range(7, 8), 5)
        self.failureResultOf(one, ResultUnknown)
        self.proposals.office_lost("n2", 110)
        self.proposals.expire(109)
        self.assertNoResult(two)
        self.proposals.expire(110)
        self.failureResultOf(two, ResultUnknown)

    def test_who_hears_of_it_proposes_again(self) -> None:
        """At once, from the callback: that is the next queue, and disturbs nothing of this one."""
        again: list[defer.Deferred[object]] = []
        one = self.add(b"1", 0)
        self.proposals.proposed(range(7, 8), 3)
        self.proposals.office_lost("n2", 100)
        one.addErrback(lambda _: again.append(self.add(b"again", 5)))
        two = self.add(b"2", 5)
        self.proposals.proposed(range(7, 8), 5)
        self.assertEqual((self.proposals.queue(), self.proposals.waiting), ([b"again"], 1))
        self.proposals.proposed(range(8, 9), 5)
        self.proposals.applied([Entry(7, 5, NORMAL, b"2"), Entry(8, 5, NORMAL, b"again")], ["two", "again"])
        self.assertEqual((self.successResultOf(two), self.successResultOf(again[0])), ("two", "again"))


class BarrierTests(SynchronousTestCase):
    """Reads share rounds."""

    def setUp(self) -> None:
        self.barriers = Barriers(100, patience_ticks=60, again_ticks=4)

    def test_one_round_for_all(self) -> None:
        """Reads that come while a round is under way share the next; each fires when its index is applied."""
        first = [self.barriers.add(0) for _ in range(3)]
        self.assertEqual(self.barriers.begin(0), 101)
        late = self.barriers.add(1)
        self.assertIsNone(self.barriers.begin(1))
        self.barriers.confirmed([ReadState(99, 3), ReadState(101, 5)])
        self.barriers.applied(4)
        self.assertNoResult(first[0])
        self.barriers.applied(5)
        for each in first:
            self.successResultOf(each)
        self.assertNoResult(late)
        self.assertEqual(self.barriers.begin(1), 102)
        self.assertEqual(self.barriers.waiting, 1)
        self.barriers.confirmed([ReadState(102, 5)])
        self.barriers.applied(5)
        self.successResultOf(late)

    def test_an_old_round_confirms_nothing(self) -> None:
        """A round that was begun before a read came proves nothing for it."""
        self.barriers.add(0)
        self.barriers.begin(0)
        late = self.barriers.add(4)
        self.assertEqual(self.barriers.begin(4), 102)  # the first was lost: both take part
        self.barriers.confirmed([ReadState(101, 1)])
        self.barriers.applied(10)
        self.assertNoResult(late)
        self.barriers.confirmed([ReadState(102, 1)])
        self.barriers.applied(10)
        self.successResultOf(late)

    def test_a_slow_answer_is_one(self) -> None:
        """Where every answer comes after the next round was begun, reads end all the same; a later answer does, too."""
        first = self.barriers.add(0)
        self.assertEqual(self.barriers.begin(0), 101)
        second = self.barriers.add(2)
        self.assertEqual(self.barriers.begin(4), 102)
        self.barriers.confirmed([ReadState(101, 1)])
        self.barriers.applied(1)
        self.successResultOf(first)
        self.assertNoResult(second)
        third = self.barriers.add(6)
        self.assertEqual([self.barriers.begin(tick) for tick in (6, 8, 12)], [None, 103, 104])
        self.barriers.confirmed([ReadState(103, 1)])
        self.barriers.applied(1)
        self.successResultOf(second)
        self.successResultOf(third)
        self.assertEqual((self.barriers.waiting, self.barriers.begin(16)), (0, None))
        self.assertEqual(self.barriers.over(), [102, 104])
        self.assertEqual(self.barriers.over(), [])

    def test_rounds_without_an_answer_are_few(self) -> None:
        """Reads come all the time and nobody answers: what is remembered of rounds does not grow."""
        over: list[int] = []
        for tick in range(600):
            self.barriers.add(tick).addErrback(lambda _: None)
            self.barriers.begin(tick)
            self.barriers.expire(tick, NoMajority("late"))
            over += self.barriers.over()
            self.assertLessEqual(len(self.barriers._rounds), 60 // 4 + 1)
        self.assertEqual(over, list(range(101, 101 + len(over))))
        self.assertGreater(len(over), 130)

    def test_lost_and_late(self) -> None:
        """A lost round is begun again at once; patience has an end, wherever the read waits."""
        reads = [self.barriers.add(0)]
        self.barriers.begin(0)
        self.barriers.lost([101])
        self.assertEqual(self.barriers.begin(0), 102)
        reads.append(self.barriers.add(1))
        self.barriers.expire(59, NoMajority("late"))
        self.assertNoResult(reads[0])
        self.barriers.expire(60, NoMajority("late"))
        self.failureResultOf(reads[0], NoMajority)
        self.assertNoResult(reads[1])
        self.assertEqual(self.barriers.begin(60), 103)
        self.barriers.confirmed([ReadState(103, 9)])
        self.barriers.expire(61, NoMajority("late"))
        self.failureResultOf(reads[1], NoMajority)
        self.assertEqual(self.barriers.waiting, 0)
        self.assertIsNone(self.barriers.begin(62))


class ChangeTests(SynchronousTestCase):
    """Operators who wait."""

    def test_leads_and_members(self) -> None:
        """A change is complete with its first entry that is not joint."""
        changes = Changes()
        leads, change = changes.leads("n1", 10), changes.members(5, 10)
        changes.leader("n0")
        changes.applied(5, Members(voters=frozenset({"n0"}), outgoing=frozenset({"n1"})))
        self.assertNoResult(leads)
        self.assertNoResult(change)
        changes.leader("n1")
        changes.applied(4, Members(voters=frozenset({"n9"})))
        self.assertNoResult(change)
        changes.applied(6, Members(voters=frozenset({"n0"})))
        self.successResultOf(leads)
        self.assertEqual(self.successResultOf(change).voters, frozenset({"n0"}))

    def test_not_in_time(self) -> None:
        """Both end by their deadline."""
        changes = Changes()
        leads, change = changes.leads("n1", 10), changes.members(5, 11)
        changes.expire(10)
        self.failureResultOf(leads, NotDone)
        self.assertNoResult(change)
        changes.end()
        self.failureResultOf(change, NotDone)


class AddressTests(SynchronousTestCase):
    """Whom to speak with."""

    def test_the_removed_linger(self) -> None:
        """A removed member is spoken to for a while, then only known as far as it is configured."""
        book = AddressBook({"n0": "a:1", "n1": "b:1"}, linger_ticks=200)
        book.changed(Members(addresses={"n0": "a:1", "n1": "b:1", "n2": "c:1"}), 0)
        book.changed(Members(addresses={"n0": "a:1"}), 10)
        self.assertEqual(book.wanted(), {"n0": "a:1", "n1": "b:1", "n2": "c:1"})
        self.assertFalse(book.expire(209, 0))
        self.assertTrue(book.expire(210, 0))
        self.assertEqual((book.wanted(), book.get("n2"), book.get("n1")), ({"n0": "a:1"}, None, "b:1"))

    def test_the_unheard_of(self) -> None:
        """A member that was away learns of new ones from those it knows, and forgets that when the log says more."""
        book = AddressBook({"n0": "a:1"}, 200)
        self.assertTrue(book.told(Members(addresses={"n0": "other:9", "n5": "e:1"}), 9, own=3, tick=0))
        self.assertEqual((book.get("n0"), book.get("n5")), ("a:1", "e:1"))
        self.assertFalse(book.told(Members(addresses={"n5": "e:1"}), 9, own=3, tick=0))
        self.assertFalse(book.spoke("n5", 9, tick=0))
        book.changed(Members(addresses={"n0": "a:1", "n5": "new:1"}), 0)
        self.assertEqual(book.wanted(), {"n0": "a:1", "n5": "new:1"})

    def test_the_configured(self) -> None:
        """Who is configured and speaks is answered, although the log does not know it."""
        book = AddressBook({"n0": "a:1", "n4": "d:1"}, 200)
        book.changed(Members(addresses={"n0": "a:1"}), 0)
        book.expire(1000, 5)
        self.assertNotIn("n4", book.wanted())
        self.assertTrue(book.spoke("n4", 0, tick=1000))
        self.assertEqual(book.wanted()["n4"], "d:1")
        self.assertTrue(book.expire(1200, 5))
        self.assertNotIn("n4", book.wanted())

    def test_a_member_that_was_removed(self) -> None:
        """Who lags may still name it: that is no news to who has the newer log.  Heard of from a longer log, it is
        kept until ours is as long and does not name it, and for a while since it was last heard of."""
        book = AddressBook({"n0": "a:1"}, 200)
        gone = Members(addresses={"n5": "e:1"})
        self.assertFalse(book.told(gone, 40, own=40, tick=0))
        self.assertIsNone(book.get("n5"))
        self.assertTrue(book.told(gone, 60, own=40, tick=0))
        self.assertFalse(book.expire(10_000, 59))
        self.assertEqual(book.get("n5"), "e:1")
        self.assertFalse(book.told(gone, 70, own=60, tick=10_000))
        self.assertFalse(book.expire(10_199, 70))
        self.assertTrue(book.expire(10_200, 70))
        self.assertEqual((book.get("n5"), book.wanted()), (None, {"n0": "a:1"}))


class _Node:
    """What a newcomer looks at."""

    def __init__(self, term: int, commit: int, role: Role = Role.FOLLOWER) -> None:
        self.role = role
        self.term = term
        self.commit = commit


class NewcomerTests(SynchronousTestCase):
    """A log that is empty in a group that has a history."""

    def setUp(self) -> None:
        self.disk = MemoryDisk(random.Random(1))
        self.log = self.opened()

    def opened(self) -> RaftLog:
        members = Members(voters=frozenset({"n0"}), addresses={"n0": "a:1"})
        return RaftLog.open(self.disk, "/raft", "group", "n0", members, 1 << 20)

    def newcomer(self) -> Newcomer:
        return Newcomer(self.disk, "/raft", self.log)

    def fill(self, last: int, term: int) -> None:
        first = self.log.last_index() + 1
        entries = [Entry(index, term, NORMAL, b"x") for index in range(first, last + 1)]
        self.log.save(HardState(term, "", 0), entries)
        self.log.sync()

    def test_the_first_start_of_a_group(self) -> None:
        """Nobody has entries: its votes are sure."""
        newcomer = self.newcomer()
        newcomer.history(0)
        self.assertFalse(newcomer.behind)

    def test_there_from_the_beginning(self) -> None:
        """It has its own part of the history when others greet again: nothing was lost."""
        newcomer = self.newcomer()
        self.fill(1, 1)
        newcomer.history(1)
        self.assertFalse(newcomer.behind)

    def test_lost(self) -> None:
        """Unsure until the commit of the leader's own term is here; a restart does not forget it."""
        newcomer = self.newcomer()
        newcomer.history(50)
        newcomer.heard(Message(Kind.APPEND, "n1", "n0", 7, commit=50))
        self.fill(50, 6)
        # Of an older term: the leader may know that more is committed when it has one of its own.
        self.assertFalse(newcomer.look(_Node(7, 50)))  # type: ignore[arg-type]
        newcomer = self.newcomer()
        self.assertTrue(newcomer.behind)  # the process ended meanwhile
        newcomer.heard(Message(Kind.APPEND, "n1", "n0", 7, commit=52))
        self.fill(52, 7)
        self.assertFalse(newcomer.look(_Node(7, 51)))  # type: ignore[arg-type]
        self.assertTrue(newcomer.behind)
        self.assertTrue(newcomer.look(_Node(7, 52)))  # type: ignore[arg-type]
        self.assertFalse(newcomer.behind)
        self.assertFalse(self.newcomer().behind)

    def test_elected_by_all(self) -> None:
        """Where every member voted nobody else has anything: the leader lacks nothing."""
        newcomer = self.newcomer()
        newcomer.history(50)
        self.assertTrue(newcomer.look(_Node(9, 0, Role.LEADER)))  # type: ignore[arg-type]

    def test_told_not_to_be_cautious(self) -> None:
        """A group that lost its majority is revived: what was noted is forgotten."""
        self.newcomer().history(50)
        self.assertTrue(self.newcomer().behind)
        self.assertFalse(Newcomer(self.disk, "/raft", self.log, cautious=False).behind)
        self.assertFalse(self.newcomer().behind)


class Now:
    """Blocking work done at once."""

    def __init__(self, reactor: Any, name: str) -> None:
        self.calls = 0

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""

    def run(self, call: Callable[[], Any]) -> defer.Deferred[Any]:
        self.calls += 1
        return defer.maybeDeferred(call)


class ByHandCase(SynchronousTestCase):
    """A service on a reactor in memory."""

    def service(self, members: dict[str, str], **arguments: Any) -> RaftService:
        self.reactor = MemoryReactorClock()
        self.fatal: list[str] = []
        self.disk = MemoryDisk(random.Random(1))
        self.machine = Words()
        member = RaftMember("n0", "group", members, "/raft")
        platform = Platform(
            disk=self.disk,
            reactor=self.reactor,
            chance=random.Random(2),
            work=Now,
            sync_work=Now,
            on_fatal=self.fatal.append,
        )
        self.store = MachineStore(member, self.machine, platform, arguments.get("options") or RaftOptions())
        service = RaftService(
            member,
            self.store,
            platform,
            **arguments,
        )
        service.startService()
        self.successResultOf(service.started)
        return service

    def advance(self, seconds: float, step: float = 0.05) -> None:
        for _ in range(round(seconds / step)):
            self.reactor.advance(step)
            self.reactor.advance(0)


class TimeTests(ByHandCase):
    """What time does to a member."""

    def test_a_process_that_stood_still(self) -> None:
        """Ten seconds without a tick are no ten seconds without a leader: it waits a whole timeout again."""
        service = self.service({"n0": "192.0.2.1:1", "n1": "192.0.2.2:1", "n2": "192.0.2.3:1"})
        self.addCleanup(service._leave, "over")
        self.advance(0.95)
        self.assertIs(service.node.role, Role.FOLLOWER)
        self.reactor.advance(10)
        self.advance(0.9)
        self.assertIs(service.node.role, Role.FOLLOWER)
        self.advance(1.3)
        self.assertIs(service.node.role, Role.PRE_CANDIDATE)

    def test_group_commit(self) -> None:
        """All proposals of a turn are one sync; those that come while it runs are the next."""
        service = self.service({"n0": "a:1"})
        self.addCleanup(service._leave, "over")
        self.advance(3)
        self.assertTrue(service.is_leader)
        syncs, release, last = service.status().syncs, [], service.last_index()
        run = self.store.sync_work.run

        def held(call: Callable[[], Any]) -> defer.Deferred[Any]:
            later: defer.Deferred[Any] = defer.Deferred()
            release.append(lambda: run(call).chainDeferred(later))
            return later

        self.store.sync_work.run = held  # type: ignore[method-assign]
        first = [service.propose(b"a%d" % number) for number in range(50)]
        self.reactor.advance(0)
        second = []
        for number in range(50):
            second.append(service.propose(b"b%d" % number))
            self.reactor.advance(0)
        self.assertEqual(len(release), 1)
        for each in first:
            self.assertNoResult(each)
        self.assertEqual(service.last_index(), last + 50)  # nor are they proposed one by one meanwhile
        release.pop()()
        self.reactor.advance(0)
        for each in first:
            self.successResultOf(each)
        for each in second:
            self.assertNoResult(each)
        self.assertEqual(len(release), 1)
        release.pop()()
        self.reactor.advance(0)
        for each in second:
            self.successResultOf(each)
        self.assertEqual(service.status().syncs - syncs, 2)

    def test_snapshots_by_default(self) -> None:
        """After so many entries the state is saved and the log begins later; a machine that freezes is not asked to
        save in the reactor's thread."""
        self.assertEqual(RaftOptions().snapshot_entries, 10_000)
        frozen: list[int] = []
        service = self.service({"n0": "a:1"}, options=RaftOptions(snapshot_entries=20, keep_entries=5))
        self.addCleanup(service._leave, "over")
        self.advance(3)
        for number in range(45):
            service.propose(b"%d" % number)
            self.reactor.advance(0)
            self.reactor.advance(0)
        view = service.status()
        self.assertEqual((view.snapshots_made, view.snapshot_index, view.first_index), (2, 40, 36))

        def freeze() -> Callable[[], bytes]:
            words = list(self.machine.words)
            frozen.append(len(words))
            return lambda: b"\0".join(words)

        self.machine.freeze = freeze  # type: ignore[attr-defined]
        self.machine.save = None  # type: ignore[assignment,method-assign]
        for number in range(45, 65):
            service.propose(b"%d" % number)
            self.reactor.advance(0)
            self.reactor.advance(0)
        self.assertEqual((service.status().snapshots_made, frozen), (3, [59]))
        self.assertEqual(self.store.log.read_snapshot(0, 1 << 20).split(b"\0")[-1], b"58")

    def test_answers_of_a_commit_leave_in_one_turn(self) -> None:
        """Connections that are answered by outcomes speak once, when all outcomes of the commit are there."""
        from rocketha.protocols.turn import Turn

        turn, events = Turn(), []
        service = self.service({"n0": "a:1"}, turn=turn)
        self.addCleanup(service._leave, "over")
        self.advance(3)
        turn.afterwards.append(lambda: events.append("end"))
        for number in range(3):
            service.propose(b"x").addCallback(lambda _, number=number: events.append((number, turn.active)))
        self.reactor.advance(0)
        self.reactor.advance(0)
        self.assertEqual(events, [(0, True), (1, True), (2, True), "end"])

    def test_a_disk_without_room_for_a_snapshot(self) -> None:
        """It goes on without; the next attempt comes later."""
        service = self.service({"n0": "a:1"}, options=RaftOptions(snapshot_entries=20))
        self.addCleanup(service._leave, "over")
        self.advance(3)
        said = events_of(self)
        write, failed = self.store.log.write_snapshot, []

        def full(meta: Any, data: bytes) -> None:
            failed.append(meta.index)
            self.disk.fail_at(1, 28, 1, ("create",))
            write(meta, data)

        self.store.log.write_snapshot = full  # type: ignore[method-assign]
        for number in range(24):
            service.propose(b"%d" % number)
            self.reactor.advance(0)
            self.reactor.advance(0)
        self.assertEqual((failed, service.status().snapshots_made, self.fatal), ([20], 0, []))
        self.assertEqual([each["event"] for each in said], ["disk.failed"])
        self.store.log.write_snapshot = write  # type: ignore[method-assign]
        for number in range(24, 30):
            service.propose(b"%d" % number)
            self.reactor.advance(0)
            self.reactor.advance(0)
        self.assertEqual(service.status().snapshots_made, 1)
