"""A member that holds a Ready: a snapshot is being installed, or the disk takes nothing."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from twisted.internet import defer

from rocketha.raft.config import RaftConfig, Role
from rocketha.raft.errors import Busy
from rocketha.raft.messages import Entry, Kind, Members, Message, SnapshotMeta
from rocketha.services.raft.options import RaftOptions
from rocketha.services.raft.service import RaftService
from rocketha.services.raft.waiting import NoMajority, ResultUnknown
from tests.services.events_case import events_of
from tests.services.raft.test_parts import ByHandCase

NORMAL = 1
ADDRESSES = {"n0": "127.0.0.1:1", "n1": "127.0.0.1:2", "n2": "127.0.0.1:3"}
MEMBERS = Members(voters=frozenset(ADDRESSES), addresses=ADDRESSES)


class HeldCase(ByHandCase):
    """n0 follows n1."""

    def following(self, **arguments: Any) -> RaftService:
        service = self.service(ADDRESSES, **arguments)
        self.addCleanup(service._leave, "over")
        self.said: list[Message] = []
        service._driver._peers.send = lambda message: bool(self.said.append(message)) or True  # type: ignore[method-assign]
        return service

    def hear(self, service: RaftService, kind: Kind, **fields: Any) -> None:
        service.received([Message(kind, "n1", "n0", **{"term": 1, **fields})])
        self.reactor.advance(0)

    def append(self, service: RaftService, low: int, high: int, commit: int, term: int = 1) -> None:
        entries = tuple(Entry(index, term, NORMAL, b"%d" % index) for index in range(low, high + 1))
        log_term = 0 if low == 1 else 1
        self.hear(service, Kind.APPEND, term=term, index=low - 1, log_term=log_term, commit=commit, entries=entries)


class InstallingTests(HeldCase):
    """A snapshot came while entries before it are still being applied."""

    def test_no_snapshot_of_our_own_meanwhile(self) -> None:
        """What the received one covers is not applied any more, so none of our own comes due; the member goes on."""
        service = self.following(options=RaftOptions(snapshot_entries=5, apply_s=-1.0, apply_entries=1))
        self.append(service, 1, 20, 0)
        service.received([Message(Kind.HEART_BEAT, "n1", "n0", 1, commit=20)])
        service._driver.advance()  # one turn, and nothing more: a reactor in memory would make all of them
        self.assertTrue(0 < service.node.applied < 5)
        run, release = self.store.file_work.run, []

        def held(call: Callable[[], Any]) -> defer.Deferred[Any]:
            later: defer.Deferred[Any] = defer.Deferred()
            release.append(lambda: run(call).chainDeferred(later))
            return later

        self.store.file_work.run = held  # type: ignore[method-assign]
        meta = SnapshotMeta(50, 1, MEMBERS)
        service.received([Message(Kind.SNAPSHOT, "n1", "n0", 1, snapshot=meta, data=b"a\0b", done=True)])
        service._driver.advance()
        self.assertIsNotNone(service._driver.held)
        self.advance(3)
        self.assertEqual((self.fatal, len(release)), ([], 1))
        release.pop()()
        self.reactor.advance(0)
        self.assertEqual((self.machine.words, service.node.applied, self.fatal), ([b"a", b"b"], 50, []))
        self.append(service, 51, 52, 52)
        self.advance(1)
        self.assertEqual((self.machine.words[-1], service.node.applied), (b"52", 52))


class FullDiskTests(HeldCase):
    """Nothing can be written for a long time."""

    def full(self, service: RaftService, times: int = 1_000_000) -> None:
        self.disk.fail_at(1, 28, times, ("write", "create"))

    def test_a_slow_disk_that_fails(self) -> None:
        """Fails once, for who reads the log, however often it is tried; and once more after it has worked."""
        service, said = self.following(), events_of(self)
        self.append(service, 1, 1, 0)
        service._driver.unhealthy("a sync takes long")
        for index in (2, 3):
            self.full(service)
            self.append(service, index, index, 0)
            self.advance(5)
            self.disk.heal()
            self.advance(60)
            self.assertIsNone(service._driver._unhealthy_until)
        of_disk = [each["event"] for each in said if each["event"].startswith("disk.")]
        self.assertEqual(of_disk, ["disk.failed", "disk.restored"] * 2)

    def test_heartbeats_are_answered(self) -> None:
        """The answers leave, do not pile up, and say that the disk fails; nothing is acknowledged."""
        service = self.following()
        self.append(service, 1, 1, 0)
        self.full(service)
        self.said.clear()
        self.append(service, 2, 3, 0)
        self.assertIsNotNone(service._driver.held)
        for number in range(500):
            self.hear(service, Kind.HEART_BEAT, commit=0, context=number)
        answers = [each for each in self.said if each.kind == Kind.HEART_BEAT_ANSWER]
        self.assertEqual([each.context for each in answers], list(range(500)))
        self.assertTrue(all(each.reject for each in answers))
        self.assertEqual(len(service.node._core.now), 0)
        acknowledged = [each.index for each in self.said if each.kind == Kind.APPEND_ANSWER and not each.reject]
        self.assertLessEqual(max(acknowledged, default=0), 1)
        self.disk.heal()
        self.advance(2)
        self.assertIsNone(service._driver.held)
        self.assertIn(3, [each.index for each in self.said if each.kind == Kind.APPEND_ANSWER])

    def test_nothing_is_said_in_a_term_that_is_not_saved(self) -> None:
        """Votes and answers of a newer term promise what a restart would forget: they are dropped, not kept."""
        service = self.following()
        self.append(service, 1, 1, 0)
        self.full(service)
        self.append(service, 2, 3, 0)
        self.said.clear()
        for term in range(2, 200):
            self.hear(service, Kind.VOTE, term=term, index=9, log_term=1, context=1)
            self.hear(service, Kind.HEART_BEAT, term=term)
        core = service.node._core
        self.assertEqual((self.said, len(core.now), len(core.after_sync)), ([], 0, 0))
        self.disk.heal()
        self.advance(2)
        self.assertEqual({each.term for each in self.said if each.term < 199}, {1} & {each.term for each in self.said})
        self.hear(service, Kind.HEART_BEAT, term=199)
        self.assertEqual(self.said[-1].term, 199)


class NotSavedTests(HeldCase):
    """A snapshot came in a term that the disk does not take yet, while entries before it are still being applied."""

    def test_what_it_holds_is_not_applied(self) -> None:
        """No snapshot of our own comes due meanwhile, which could not be made; the member goes on with the disk."""
        service = self.following(options=RaftOptions(snapshot_entries=5, apply_s=-1.0, apply_entries=1))
        self.append(service, 1, 20, 0)
        service.received([Message(Kind.HEART_BEAT, "n1", "n0", 1, commit=20)])
        service._driver.advance()
        self.assertTrue(0 < service.node.applied < 5)
        self.disk.fail_at(1, errno.ENOSPC, 1_000_000, ("create", "write"))
        meta = SnapshotMeta(50, 1, MEMBERS)
        service.received([Message(Kind.SNAPSHOT, "n1", "n0", 2, snapshot=meta, data=b"a\0b", done=True)])
        self.advance(2)
        self.assertIsNotNone(service._driver.held)
        self.disk.heal()
        self.advance(2)
        self.assertEqual((self.fatal, service.node.applied), ([], 50))


class StopTests(HeldCase):
    """The end of a service whose disk fails."""

    def test_a_last_sync_that_fails(self) -> None:
        """Its threads end all the same, it is said why, and the process is told to exit with an error."""
        service = self.following()
        stopped: list[str] = []
        self.store.sync_work.stop = lambda: stopped.append("sync")  # type: ignore[method-assign]
        self.store.file_work.stop = lambda: stopped.append("files")  # type: ignore[method-assign]
        self.append(service, 1, 1, 0)
        service._driver.journal.over = True
        self.append(service, 2, 2, 0)
        self.disk.fail_at(1, 5, 1_000_000, ("sync",))
        done = service.stopService()
        self.advance(2)
        self.successResultOf(done)
        self.assertEqual(stopped, ["sync", "files"])
        self.assertEqual(len(self.fatal), 1)
        self.assertIn("the raft log of n0 could not be closed", self.fatal[0])


class NewcomerTests(HeldCase):
    """A member that lost its disk."""

    def test_its_own_vote_is_unsure_too(self) -> None:
        """Whatever it concluded from its leader's last message: it is not filled, so its candidacy says so."""
        service = self.following()
        service.peer_history(50)
        self.append(service, 1, 3, 3)  # to the core that is all there is
        self.assertTrue(service._driver.newcomer.behind)
        service.peer_refused("n1")
        self.reactor.advance(0.06)
        self.assertEqual(service.node._elections._unsure, {"n0"})


class LeadingCase(HeldCase):
    """n0 leads."""

    def leading(self, **arguments: Any) -> RaftService:
        service = self.following(**arguments)
        service.node._core.promised_ticks = 0  # it started long ago
        service.node.campaign()
        service._driver.advance()
        self.hear(service, Kind.PRE_VOTE_ANSWER)
        self.hear(service, Kind.VOTE_ANSWER)
        self.hear(service, Kind.APPEND_ANSWER, index=1)
        self.assertTrue(service.is_leader)
        return service


class HangingTests(LeadingCase):
    """Followers that answer heartbeats and store nothing."""

    def test_proposals_end(self) -> None:
        """The leader keeps its office; who proposed is told that the outcome is unknown, in time."""
        service = self.leading(options=RaftOptions(propose_ticks=30))
        waiting = service.propose(b"x")
        for _ in range(29):
            self.advance(0.05)
            self.hear(service, Kind.HEART_BEAT_ANSWER, index=1, hint_index=1)
        self.assertNoResult(waiting)
        self.advance(0.1)
        self.assertTrue(self.failureResultOf(waiting, ResultUnknown).value.maybe_applied)
        self.assertTrue(service.is_leader)


class LostReadTests(HeldCase):
    """A leader that is heard and answers no read."""

    def test_rounds_that_are_lost_do_not_pile_up(self) -> None:
        """Each is begun again under another number; the core keeps those that somebody waits for, and so never becomes
        Busy.
        """
        service = self.following(options=RaftOptions(read_ticks=12))
        self.append(service, 1, 1, 1)
        failed = 0
        for _ in range(200):
            read = service.barrier()
            self.advance(0.3)
            self.assertEqual(len(service.node._core.forwarded), 2)
            self.advance(0.35)
            self.hear(service, Kind.HEART_BEAT, commit=1)
            self.failureResultOf(read, NoMajority)
            failed += 1
        asked = {each.context for each in self.said if each.kind == Kind.READ_INDEX}
        self.assertGreater(len(asked), 2 * failed)
        self.assertEqual(len(service.node._core.forwarded), 0)
        read = service.barrier()
        self.reactor.advance(0)
        self.hear(service, Kind.READ_INDEX_ANSWER, context=self.said[-1].context, index=1)
        self.successResultOf(read)


class LeaseTests(LeadingCase):
    """Reads without a round, if configured."""

    def leased(self) -> RaftService:
        config = RaftConfig("n0", lease_reads=True)
        service = self.leading(config=config)
        self.pass_time(0.1)
        self.promise(service)
        return service

    def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            self.advance(0.05)

    def promise(self, service: RaftService) -> None:
        asked = next(each for each in reversed(self.said) if each.kind == Kind.HEART_BEAT)
        self.hear(service, Kind.HEART_BEAT_ANSWER, index=1, hint_index=1, log_term=20, context=asked.context)

    def test_a_read_asks_nobody(self) -> None:
        """While the lease lasts; afterwards it asks, and is answered by the answer."""
        service = self.leased()
        self.said.clear()
        read = service.barrier()
        self.reactor.advance(0)
        self.successResultOf(read)
        self.assertEqual(self.said, [])
        self.pass_time(0.75)
        read = service.barrier()
        self.reactor.advance(0)
        self.successResultOf(read)
        self.pass_time(0.1)
        read = service.barrier()
        self.reactor.advance(0)
        self.assertNoResult(read)
        self.promise(service)
        self.successResultOf(read)

    def test_a_process_that_is_late(self) -> None:
        """Its ticks say that the lease lasts, the clock says that it does not; so do those who ask through another."""
        service = self.leased()
        self.reactor.rightNow += 0.9  # and no tick
        self.said.clear()
        read = service.barrier()
        self.hear(service, Kind.READ_INDEX, context=77)
        self.assertNoResult(read)
        self.assertEqual([each for each in self.said if each.kind == Kind.READ_INDEX_ANSWER], [])
        self.promise(service)
        self.successResultOf(read)
        self.assertEqual([each.context for each in self.said if each.kind == Kind.READ_INDEX_ANSWER], [77])

    def test_a_follower_promises(self) -> None:
        """In its answers, if it is set so, and then no refused connection ends the stickiness."""
        for leases in (False, True):
            service = self.following(config=RaftConfig("n0", lease_reads=leases))
            self.append(service, 1, 1, 1)
            self.hear(service, Kind.HEART_BEAT, commit=1)
            self.assertEqual(self.said[-1].log_term, 20 if leases else 0)
            service.peer_refused("n1")
            self.advance(0.1)
            self.assertIs(service.node.role, Role.FOLLOWER if leases else Role.PRE_CANDIDATE)


class StalledSyncTests(ByHandCase):
    """Nothing is committed for longer than anybody waits."""

    def test_given_up_proposals_still_take_room(self) -> None:
        """They are in the log until they are committed, and it is the log that is bounded."""
        service = self.service(
            {"n0": "a:1"},
            config=RaftConfig("n0", max_uncommitted_entries=2),
            options=RaftOptions(propose_ticks=10, slow_sync_ticks=10_000),
        )
        self.addCleanup(service._leave, "over")
        self.advance(3)
        run, release = self.store.sync_work.run, []

        def held(call: Callable[[], Any]) -> defer.Deferred[Any]:
            later: defer.Deferred[Any] = defer.Deferred()
            release.append(lambda: run(call).chainDeferred(later))
            return later

        self.store.sync_work.run = held  # type: ignore[method-assign]
        first = [service.propose(b"%d" % number) for number in range(2)]
        self.advance(1)
        for each in first:
            self.failureResultOf(each, ResultUnknown)
        refused = service.propose(b"2")
        self.advance(0.2)
        self.failureResultOf(refused, Busy)
        self.assertEqual(service.node.last_index - service.node.commit, 2)
        release.pop()()
        self.advance(0.2)
        self.assertEqual(self.machine.words, [b"0", b"1"])
        taken = service.propose(b"3")
        self.advance(0.2)
        release.pop()()
        self.advance(0.2)
        self.assertEqual(self.successResultOf(taken)[1], b"3")
