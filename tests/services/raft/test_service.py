"""Members of a Raft group as services, on real ports and disks."""

from __future__ import annotations

import errno
import random
import shutil
import time
from collections.abc import Callable
from typing import Any

from twisted.internet import defer, reactor, task

from rocketha.errors import ConfigError
from rocketha.protocols.endpoints import Dialer
from rocketha.raft.errors import Busy, LagsTooMuch, NotLeader, RaftRefused, UnknownMember
from rocketha.raft.membership import MembersChange
from rocketha.services.process.platform import Platform
from rocketha.services.raft.machine_store import MachineStore
from rocketha.services.raft.options import RaftMember, RaftOptions
from rocketha.services.raft.service import RaftService
from rocketha.services.raft.waiting import Lost, NoMajority
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.posix_disk import PosixDisk
from tests.services.events_case import events_of
from tests.services.raft_case import Member, RaftCase, Words


def pause(seconds: float) -> defer.Deferred[None]:
    """Let time pass, where the point is that nothing happens in it, or that the load goes on."""
    return task.deferLater(reactor, seconds)  # type: ignore[arg-type]


class Load:
    """Proposes one after the other, follows the leader, never repeats what may have been applied."""

    def __init__(self, case: RaftCase, name: str) -> None:
        self.case = case
        self.name = name
        self.acknowledged: list[bytes] = []
        self.unknown: list[bytes] = []
        self.stopping = False
        self.done: defer.Deferred[Any] = self._run()

    @defer.inlineCallbacks
    def _run(self) -> Any:
        number = 0
        while not self.stopping:
            number += 1
            data = f"{self.name}-{number}".encode()
            outcome = yield self.case.propose(data)
            (self.unknown if outcome is None else self.acknowledged).append(data)

    def stop(self) -> defer.Deferred[Any]:
        self.stopping = True
        return self.done


class ThreeMembers(RaftCase):
    """Elect, propose, read, fail over, restart."""

    @defer.inlineCallbacks
    def test_elect_and_propose(self) -> Any:
        """One leads; proposals of one turn are applied in order on all, their outcomes answered."""
        yield self.start("n0", "n1", "n2")
        leader = yield self.until(self.leader)
        outcomes = yield defer.gatherResults([leader.service.propose(b"%d" % number) for number in range(100)])
        self.assertEqual([data for _, data in outcomes], [b"%d" % number for number in range(100)])
        yield self.assert_same_words()
        self.assertEqual(leader.machine.words, [b"%d" % number for number in range(100)])
        view = leader.service.status()
        self.assertEqual((view.is_leader, view.proposals_waiting, view.reads_waiting), (True, 0, 0))
        self.assertEqual(sorted(view.peers), sorted(set(self.members) - {leader.name}))
        self.assertLess(view.syncs, 20)  # group commit: a hundred proposals are not a hundred syncs

    @defer.inlineCallbacks
    def test_a_waiter_without_a_deferred(self) -> Any:
        """Is told the outcome as a Deferred is, and every refusal."""

        class Waiter:
            def __init__(self) -> None:
                self.told: list[Any] = []

            def callback(self, result: Any) -> None:
                self.told.append(result)

            def errback(self, fail: Any) -> None:
                self.told.append(type(fail))

        yield self.start("n0", "n1", "n2")
        leader = yield self.until(self.leader)
        one, large, other, late = Waiter(), Waiter(), Waiter(), Waiter()
        leader.service.propose_for(one, b"one")
        leader.service.propose_for(large, bytes(leader.service.options.proposal_bytes_max + 1))
        self.followers()[0].service.propose_for(other, b"other")
        yield self.until(lambda: one.told)
        yield leader.service.stopService()
        leader.service.propose_for(late, b"late")
        self.assertEqual(([data for _, data in one.told], large.told), ([b"one"], [Busy]))
        self.assertEqual((other.told, late.told), ([NotLeader], [NotLeader]))

    @defer.inlineCallbacks
    def test_others_refuse(self) -> Any:
        """Who does not lead says who does; what is too large is refused; both at once."""
        yield self.start("n0", "n1", "n2")
        leader = yield self.until(self.leader)
        other = self.followers()[0]
        yield self.until(lambda: other.service.leader_id)
        refusal = yield self.assertFailure(other.service.propose(b"x"), NotLeader)
        self.assertEqual(refusal.leader_id, leader.name)
        self.assertEqual(other.service.leader_address, self.addresses[leader.name])
        yield self.assertFailure(leader.service.propose(bytes(5 << 20)), Busy)
        with self.assertRaises(RaftRefused):
            other.service.transfer("n0")

    @defer.inlineCallbacks
    def test_failover(self) -> Any:
        """The leader's process ends: another takes proposals within a second, because its port refuses."""
        yield self.start("n0", "n1", "n2")
        yield self.propose(b"before")
        yield pause(1.1)  # connections that just came up are not dialed at once when they break
        leader = yield self.until(self.leader)
        began = time.monotonic()
        yield leader.kill()
        outcome = yield self.propose(b"after")
        took = time.monotonic() - began
        self.assertEqual(outcome[1], b"after")
        self.assertLess(took, 1.0)
        yield self.assert_same_words(*(member.name for member in self.members.values() if member.runs))

    @defer.inlineCallbacks
    def test_stop_hands_over(self) -> Any:
        """A leader that is stopped in order has made another one leader first."""
        yield self.start("n0", "n1", "n2")
        leader = yield self.until(self.leader)
        yield self.propose(b"before")
        term = leader.service.node.term
        told: list[tuple[str, bool]] = []
        for other in (each.service for each in self.followers()):
            other.on_role(lambda other=other: told.append((other.leader_id, leader.service.ready)))
        began = time.monotonic()
        stopping = leader.stop()
        successor = yield self.until(self.leader)
        self.assertLess(time.monotonic() - began, 0.5)
        self.assertEqual(next(each for each in told if each[0] == successor.name), (successor.name, True))
        self.assertEqual(successor.service.node.term, term + 1)
        yield stopping

    @defer.inlineCallbacks
    def test_restart_of_all(self) -> Any:
        """What was acknowledged is there again after every process ended."""
        yield self.start("n0", "n1", "n2")
        for number in range(20):
            yield self.propose(b"%d" % number)
        words = self.leader().machine.words  # type: ignore[union-attr]
        for member in self.members.values():
            yield member.kill()
        for member in self.members.values():
            yield member.start(dict(self.addresses))
        yield self.propose(b"more")
        yield self.assert_same_words()
        self.assertEqual(self.members["n0"].machine.words, [*words, b"more"])

    @defer.inlineCallbacks
    def test_reads(self) -> Any:
        """After a barrier any member has what was acknowledged before; many reads share a round."""
        yield self.start("n0", "n1", "n2")
        yield self.until(self.leader)
        for number in range(10):
            data = b"%d" % number
            yield self.propose(data)
            waiting = [member.service.barrier() for member in self.members.values() for _ in range(50)]
            yield defer.gatherResults(waiting)
            for member in self.members.values():
                self.assertIn(data, member.machine.words)

    @defer.inlineCallbacks
    def test_no_majority(self) -> Any:
        """Alone, a former leader acknowledges nothing, answers no read, and says so in time (D9)."""
        yield self.start("n0", "n1", "n2")
        leader = yield self.until(self.leader)
        yield self.propose(b"before")
        yield defer.gatherResults([member.kill() for member in self.followers()])  # within its time of office
        proposals = [leader.service.propose(b"%d" % number) for number in range(3)]
        read = leader.service.barrier()
        for proposal in proposals:
            lost = yield self.assertFailure(proposal, Lost)
            self.assertTrue(lost.maybe_applied)
        yield self.assertFailure(read, NoMajority)
        self.assertFalse(leader.service.is_leader)
        self.assertEqual(leader.machine.words, [b"before"])
        yield self.assertFailure(leader.service.propose(b"later"), NotLeader)

    @defer.inlineCallbacks
    def test_a_single_member(self) -> Any:
        """A group of one leads itself at once."""
        yield self.start("n0")
        outcome = yield self.propose(b"x")
        self.assertEqual(outcome[1], b"x")
        yield self.members["n0"].service.barrier()

    @defer.inlineCallbacks
    def test_remoting_on_the_same_port(self) -> Any:
        """Requests are served beside the group's connections."""
        from rocketha.protocols.remoting_client import RemotingClient

        yield self.start("n0", "n1", "n2")
        yield self.until(self.leader)
        client = RemotingClient(Dialer(reactor))
        self.addCleanup(client.close)
        answer = yield client.request(self.addresses["n0"], 1)
        self.assertEqual(answer.body, b"served")
        client.close()

    @defer.inlineCallbacks
    def test_a_secret(self) -> Any:
        """I3: members that know the group's secret form it; one that does not is never heard."""
        self.add("n0", "n1", "n2")
        for name, secret in (("n0", b"a secret"), ("n1", b"a secret"), ("n2", b"another")):
            yield self.members[name].start(dict(self.addresses), secret=secret)
        yield self.propose(b"x")
        yield pause(0.5)
        stranger = self.members["n2"]
        self.assertEqual((stranger.machine.words, stranger.service.leader_id), ([], ""))
        self.assertEqual(self.members["n0"].service.status().hears, ("n1",))

    def test_not_a_peer(self) -> None:
        """A member that is not in its own list does not start."""
        member, platform = RaftMember("n9", "g", {"n0": "127.0.0.1:1"}, "/x"), Platform(disk=PosixDisk())
        with self.assertRaises(ConfigError):
            RaftService(member, MachineStore(member, Words(), platform, RaftOptions()), platform)

    @defer.inlineCallbacks
    def test_roles_are_told(self) -> Any:
        """Whoever asked hears of each change; on the leader's side when it can serve, not before."""
        self.add("n0")
        seen: list[tuple[bool, str]] = []
        member = self.members["n0"]
        started = member.start(dict(self.addresses))
        member.service.on_role(lambda: seen.append((member.service.is_leader, member.service.leader_id)))
        yield started
        yield self.until(self.leader)
        self.assertEqual(seen[-2:], [(False, "n0"), (True, "n0")])
        yield member.stop()
        self.assertFalse(seen[-1][0])


class LongRuns(RaftCase):
    """Snapshots, wiped members, membership, transfer: all while proposals go on."""

    arguments = {"options": RaftOptions(snapshot_entries=50, keep_entries=10)}

    @defer.inlineCallbacks
    def test_a_wiped_member_catches_up_by_snapshot(self) -> Any:
        """Its log is gone and so is the beginning of the others': it is sent the state."""
        yield self.start("n0", "n1", "n2")
        for number in range(150):
            yield self.propose(b"%d" % number)
        wiped = self.followers()[0]
        yield wiped.kill()
        shutil.rmtree(wiped.directory)
        number = 150
        while number < 200 or self.leader().service.status().first_index <= 100:  # type: ignore[union-attr]
            yield self.propose(b"%d" % number)  # no snapshot is due while another one is written
            number += 1
        yield wiped.start(dict(self.addresses))
        yield self.propose(b"last")
        yield self.assert_same_words()
        self.assertEqual(wiped.machine.words, [*(b"%d" % each for each in range(number)), b"last"])
        self.assertGreaterEqual(wiped.service.status().snapshots_received, 1)
        # And it stands on that after a restart, with a log that begins behind the snapshot.
        yield wiped.kill()
        yield wiped.start(dict(self.addresses))
        yield self.propose(b"again")
        yield self.assert_same_words()

    @defer.inlineCallbacks
    def test_a_wiped_member_elects_nobody_before_it_has_caught_up(self) -> Any:
        """With one that lags it is a majority, and together they would forget what was committed: they must not lead.

        Not even after another restart, with a part of the log.
        """
        yield self.start("n0", "n1", "n2")
        yield self.propose(b"early")
        yield self.until(self.leader)
        lagging, wiped = self.followers()
        keeper = self.leader()
        assert keeper is not None
        yield self.assert_same_words()
        yield lagging.kill()
        yield self.propose(b"committed by two")
        yield keeper.kill()
        yield wiped.kill()
        shutil.rmtree(wiped.directory)
        yield lagging.start(dict(self.addresses))
        yield wiped.start(dict(self.addresses))
        yield pause(4.0)
        self.assertIsNone(self.leader())
        self.assertTrue(wiped.service._driver.newcomer.behind)
        yield wiped.kill()
        yield wiped.start(dict(self.addresses))
        yield pause(4.0)
        self.assertIsNone(self.leader())
        yield keeper.start(dict(self.addresses))
        yield self.propose(b"late")
        yield self.assert_same_words()
        self.assertEqual(wiped.machine.words, [b"early", b"committed by two", b"late"])
        yield self.until(lambda: not wiped.service._driver.newcomer.behind)
        # Now it is a member like others.
        leader = yield self.until(self.leader)
        if leader is not wiped:
            yield leader.service.transfer(wiped.name)
            yield self.until(lambda: self.leader() is wiped)

    @defer.inlineCallbacks
    def test_three_five_three(self) -> Any:
        """Two members join and two old ones leave, the leader among them, without a failed proposal (I2)."""
        yield self.start("n0", "n1", "n2")
        yield self.until(self.leader)
        loads = [Load(self, name) for name in ("a", "b", "c")]
        self.add("n3", "n4")
        for name in ("n3", "n4"):
            yield self.members[name].start(dict(self.addresses), joins=True)
        new = {name: self.addresses[name] for name in ("n3", "n4")}
        members = yield self.leader().service.change_members(MembersChange(add_voters=new))  # type: ignore[union-attr]
        self.assertEqual(sorted(members.voters), ["n0", "n1", "n2", "n3", "n4"])
        yield pause(0.3)
        leader = self.leader()
        assert leader is not None
        leaving = [leader.name, next(name for name in ("n0", "n1", "n2") if name != leader.name)]
        change = MembersChange(remove=frozenset(leaving))
        elsewhere = yield self.assertFailure(leader.service.change_members(change), NotLeader)
        self.assertNotIn(elsewhere.leader_id, leaving)
        yield self.until(lambda: self.leader() is self.members[elsewhere.leader_id])
        members = yield self.leader().service.change_members(change)  # type: ignore[union-attr]
        self.assertEqual(sorted(members.voters), sorted({"n0", "n1", "n2", "n3", "n4"} - set(leaving)))
        for name in leaving:
            yield self.members[name].kill()
        yield pause(0.3)
        for load in loads:
            yield load.stop()
            self.assertEqual(load.unknown, [])
            self.assertGreater(len(load.acknowledged), 20)
        rest = [name for name in self.members if name not in leaving]
        yield self.assert_same_words(*rest)
        words = self.members[rest[0]].machine.words
        wanted = [word for load in loads for word in load.acknowledged]
        self.assertEqual((len(words), set(words)), (len(wanted), set(wanted)))

    @defer.inlineCallbacks
    def test_transfer_under_load(self) -> Any:
        """Leadership goes round the group; nothing is lost, nothing applied twice, no result unknown (I2)."""
        yield self.start("n0", "n1", "n2")
        yield self.until(self.leader)
        loads = [Load(self, name) for name in ("a", "b", "c")]
        for name in ("n0", "n1", "n2", "n0", "n1", "n2"):
            leader = yield self.until(self.leader)
            if leader.name != name:
                yield leader.service.transfer(name)
                yield self.until(lambda name=name: self.leader() is self.members[name])
            yield pause(0.1)
        for load in loads:
            yield load.stop()
            self.assertEqual(load.unknown, [])
        yield self.assert_same_words()
        words = self.members["n0"].machine.words
        wanted = [word for load in loads for word in load.acknowledged]
        self.assertEqual((len(words), set(words)), (len(wanted), set(wanted)))

    @defer.inlineCallbacks
    def test_transfer_refused(self) -> Any:
        """To who is no voter, or does not live."""
        yield self.start("n0", "n1", "n2")
        leader = yield self.until(self.leader)
        with self.assertRaises(UnknownMember):
            leader.service.transfer("n7")
        gone = self.followers()[0]
        yield gone.kill()
        yield self.until(lambda: not leader.service.node.status().peers[gone.name].active)
        with self.assertRaises(LagsTooMuch):
            leader.service.transfer(gone.name)


class FailingDisks(RaftCase):
    """D10: who cannot write does not lead; who cannot sync does not live."""

    arguments = {"options": RaftOptions(healthy_again_ticks=20, slow_sync_ticks=4)}

    @defer.inlineCallbacks
    def group(self) -> Any:
        """Three members on disks in memory, and their leader."""
        self.add("n0", "n1", "n2")
        for number, member in enumerate(self.members.values()):
            member.disk = MemoryDisk(random.Random(number))
            yield member.start(dict(self.addresses))
        yield self.propose(b"before")
        leader = yield self.until(self.leader)
        return leader

    @defer.inlineCallbacks
    def test_a_leader_that_cannot_write(self) -> Any:
        """Another leads soon and takes proposals; when the disk works again the member is one as before."""
        leader = yield self.group()
        said = events_of(self)
        leader.disk.fail_at(1, errno.ENOSPC, 1 << 30, ("write", "create"))
        began = time.monotonic()
        failed = leader.service.propose(b"unsure")
        yield self.until(lambda: self.leader() not in (None, leader))
        outcome = yield self.propose(b"after")
        self.assertLess(time.monotonic() - began, 1.0)
        self.assertEqual(outcome[1], b"after")
        self.assertFalse(leader.service.is_leader)
        lost = yield self.assertFailure(failed, Lost)
        self.assertTrue(lost.maybe_applied)
        yield self.assertFailure(leader.service.propose(b"x"), NotLeader)
        leader.disk.heal()
        yield self.assert_same_words()
        of_disk = [each["event"] for each in said if each["event"].startswith("disk.")]
        self.assertEqual((leader.fatal, of_disk), ([], ["disk.failed"]))
        # The followers may have had the entry before its leader failed to write it.
        self.assertEqual([word for word in leader.machine.words if word != b"unsure"], [b"before", b"after"])

    @defer.inlineCallbacks
    def test_a_failed_sync_is_the_end(self) -> Any:
        """What reached the disk is unknown: the process ends, with a reason; the group goes on."""
        leader = yield self.group()
        said = events_of(self)
        leader.disk.fail_at(1, errno.EIO, 1, ("sync",))
        failed = leader.service.propose(b"unsure")
        yield self.assertFailure(failed, Lost)
        yield self.until(lambda: leader.fatal)
        self.assertEqual([each["event"] for each in said].count("disk.failed"), 1)
        self.assertIn("can not be synced", leader.fatal[0])
        yield leader.kill()
        outcome = yield self.propose(b"after")
        self.assertEqual(outcome[1], b"after")

    @defer.inlineCallbacks
    def test_a_sync_that_takes_long(self) -> Any:
        """A disk that crawls: the leader hands over while it waits, and may lead again when it is well."""
        leader = yield self.group()
        release: list[Callable[[], None]] = []
        run = leader.store.sync_work.run

        def held(call: Callable[[], Any]) -> defer.Deferred[Any]:
            later: defer.Deferred[Any] = defer.Deferred()
            release.append(lambda: run(call).chainDeferred(later))
            return later

        leader.store.sync_work.run = held
        slow = leader.service.propose(b"slow")
        yield self.until(lambda: not leader.service.is_leader, 2.0)
        outcome = yield self.propose(b"after")
        self.assertEqual(outcome[1], b"after")
        self.assertNotEqual(leader.service.node.status().unhealthy, "")
        leader.store.sync_work.run = run
        release[0]()
        outcome = yield slow
        self.assertEqual(outcome[1], b"slow")  # the others had it: it was committed, and its proposer is told
        yield self.until(lambda: leader.service.node.status().unhealthy == "")
        yield self.assert_same_words()

    @defer.inlineCallbacks
    def test_a_log_in_use(self) -> Any:
        """A second process on the same directory ends with a reason."""
        yield self.start("n0")
        first = self.members["n0"]
        other = Member(self, "n0", first.directory)
        self.add("n1")
        yield self.assertFailure(self.started(other, {"n0": self.addresses["n1"]}), Exception)
        self.assertIn("can not be used", other.fatal[0])
        yield other.stop()

    @staticmethod
    def started(member: Member, members: dict[str, str]) -> defer.Deferred[Any]:
        """``started`` swallows its failure; this does not."""
        done: defer.Deferred[Any] = defer.Deferred()
        member.start(members)
        member.service._opening.addCallback(lambda _: done.errback(RuntimeError("; ".join(member.fatal))))
        return done

    @defer.inlineCallbacks
    def test_a_machine_that_fails(self) -> Any:
        """A state machine that raises ends the process: replicas that go on would differ."""
        yield self.start("n0")
        member = self.members["n0"]
        yield self.until(self.leader)
        member.machine.apply = None  # type: ignore[assignment,method-assign]
        yield self.assertFailure(member.service.propose(b"x"), Lost)
        yield self.until(lambda: member.fatal)
        self.assertIn("TypeError", member.fatal[0])
