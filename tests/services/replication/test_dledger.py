"""A group of brokers whose commit log is a Raft log."""

from __future__ import annotations

from unittest import mock

from rocketha.broker.role import Role
from rocketha.simulation.host import Host
from rocketha.store.entry_log import EntryLog
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import pull_fields
from tests.services.dledger_case import DLedgerCase


class GroupTests(DLedgerCase):
    """Three of ours."""

    def test_elects_and_replicates(self) -> None:
        """One is the master; what it acknowledges all have, to the byte, and consumers see it."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 100), 100)
        self.whole()
        self.same_logs(*self.brokers)
        self.assertEqual([self.role(host) for host in self.followers()], [Role.SLAVE] * 2)
        self.assertEqual(self.pull(master).code, 0)

    def test_the_master_dies(self) -> None:
        """Another one leads, has all that was acknowledged, and takes more; the former one comes back and follows."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 50), 50)
        master.kill()
        took_s = self.until("another master", lambda: self.masters() and self.masters() != [master])
        self.assertLess(took_s, 1.0)
        other = self.master()
        self.assertEqual(self.acknowledged(other, 50), 50)
        self.restart(master)
        self.whole()
        self.same_logs(*self.brokers)
        self.assertEqual(self.role(master), Role.SLAVE)

    def test_what_nobody_else_has_is_cut(self) -> None:
        """A master that is alone acknowledges nothing; what it wrote is cut when it comes back."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.whole()
        self.cut_off(master)
        end = self.log(master).end
        waiting = [self.sending(master, b"lost" * 50) for _ in range(10)]
        self.run_for(0.05)
        self.assertGreater(self.log(master).end, end)
        self.until("another master", lambda: any(host is not master for host in self.masters()))
        self.until("all are answered", lambda: all(map(self.answered, waiting)))
        self.assertEqual({answer.result.code for answer in waiting}, {1})
        self.world.network.heal_all()
        self.whole()
        self.same_logs(*self.brokers)

    def test_a_master_that_stops_hands_over(self) -> None:
        """Before it ends another one leads, at once."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        began = self.world.now
        stopping = self.service(master).stopService()
        self.until("another master", lambda: any(host is not master for host in self.masters()))
        self.assertLess(self.world.now - began, 0.3)
        self.await_(stopping, 60)
        master.exited("stopped")
        other = self.master()
        self.assertEqual(self.acknowledged(other, 20), 20)
        self.restart(master)
        self.whole()
        self.same_logs(*self.brokers)

    def test_a_full_disk(self) -> None:
        """Its master hands over and follows."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        master.disk.ratio = 0.97
        self.until("another master", lambda: self.masters() and self.masters() != [master], 3.0)
        other = self.master()
        self.assertEqual(self.acknowledged(other, 20), 20)
        self.run_for(5)
        self.assertEqual(self.masters(), [other])

    def test_a_preferred_member(self) -> None:
        """Gets the leadership whenever it has what the leader has."""
        for host in self.brokers:
            host.settings += "preferredLeaderId=n1\n"  # type: ignore[attr-defined]
        self.start_group()
        preferred = self.brokers[1]
        self.until("the preferred one", lambda: self.masters() == [preferred], 30)
        preferred.kill()
        other = self.master()
        self.assertEqual(self.acknowledged(other, 50), 50)
        self.restart(preferred)
        self.until("the preferred one", lambda: self.masters() == [preferred], 30)
        self.assertEqual(self.acknowledged(preferred, 50), 50)
        self.whole()
        self.same_logs(*self.brokers)

    def test_all_die_at_once(self) -> None:
        """What was acknowledged is there again."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 60), 60)
        for host in self.brokers:
            host.kill()
        self.restart_all()
        self.same_logs(*self.brokers)
        self.assertEqual(self.stored(self.master()), 60)

    def test_a_wiped_follower_is_refilled(self) -> None:
        """Its log and queues are those of the others."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 600), 600)  # several files
        follower = self.followers()[0]
        follower.kill()
        follower.disk.__init__(follower.random)  # type: ignore[misc]
        self.restart(follower)
        self.whole()
        self.same_logs(*self.brokers)


class OursTests(DLedgerCase):
    """What Java's protocol has no word for."""

    def test_whose_tables_they_are(self) -> None:
        """Their versions say the term: a nameserver believes the newest master."""
        self.start_group()
        stamp, term = self.stamps()
        self.assertEqual(stamp, term)

    def test_all_disks_are_full(self) -> None:
        """Somebody still leads, for those who read; whoever has room first takes over."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        for host in self.brokers:
            host.disk.ratio = 0.97
        self.run_for(5)
        self.assertEqual(self.pull(self.master()).code, 0)
        self.assertEqual(self.acknowledged(self.master(), 1), 0)
        follower = self.followers()[0]
        follower.disk.ratio = 0.1
        self.until("who has room", lambda: self.masters() == [follower])
        self.assertEqual(self.acknowledged(follower, 20), 20)


class SameLeaderTests(DLedgerCase):
    """The leader that a follower knew leads again when that comes back, in a later term."""

    def test_tables_go_on(self) -> None:
        """The follower knows where it takes requests, and takes its tables."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.whole()
        frozen, other = self.followers()
        frozen.freeze(whole=False)
        for successor, before in ((other, master), (master, other)):
            self.await_(self.replication(before).raft.transfer(successor.name))
            self.until("it leads", lambda successor=successor: self.masters() == [successor])  # type: ignore[misc]
        frozen.thaw()
        self.whole()
        self.until("its master", lambda: self.service(frozen).broker.watch.address)


class LoneTests(DLedgerCase):
    """A group of one."""

    brokers_count = 1

    def test_leads_and_goes_on(self) -> None:
        """It is its own majority, also on what it had before."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.stop(master)
        self.restart(master)
        self.assertEqual(self.acknowledged(self.master(), 20), 20)


class SyncedTests(DLedgerCase):
    """With SYNC_FLUSH an acknowledgement means disks."""

    keys = "flushDiskType=SYNC_FLUSH"

    def test_power_cut(self) -> None:
        """What was acknowledged is on the disks of a majority."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 60), 60)
        for host in self.brokers:
            host.power_off()
        self.restart_all()
        self.assertEqual(self.stored(self.master()), 60)

    def test_power_cut_of_all_and_the_end_of_one(self) -> None:
        """The other disk of that majority has it."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 60), 60)
        others = self.followers()
        for host in self.brokers:
            host.power_off()
        for host in others:
            self.restart(host)
        self.assertEqual(self.stored(self.master()), 60)


class UnsyncedTests(DLedgerCase):
    """With ASYNC_FLUSH an acknowledgement means page caches."""

    def test_a_power_cut_of_all(self) -> None:
        """It may take what was sent in the last second: files are synced each half."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 60), 60)
        self.whole()
        self.run_for(1.0)
        self.assertEqual(self.acknowledged(master, 60), 60)
        for host in self.brokers:
            host.power_off()
        self.restart_all()
        self.assertTrue(60 <= self.stored(self.master()) <= 120)
        self.same_logs(*self.brokers)


class HangingSyncTests(DLedgerCase):
    """A master's disk that does not answer."""

    keys = "flushDiskType=SYNC_FLUSH"

    def test_another_leads(self) -> None:
        """After two seconds; what waited is acknowledged by nobody, and the sick one leads no more until it is well."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.whole()
        master.disk.slow = 1e6
        waiting = self.sending(master, b"stuck")
        took_s = self.until("another master", lambda: any(host is not master for host in self.masters()))
        self.assertLess(took_s, 3.5)
        other = next(host for host in self.masters() if host is not master)
        self.assertEqual(self.acknowledged(other, 20), 20)
        self.until("an answer", lambda: self.answered(waiting))
        self.run_for(5.0)
        self.assertEqual(self.masters(), [other])
        master.disk.slow = 1.0
        self.whole()
        self.same_logs(*self.brokers)


class QuotaTests(DLedgerCase):
    """A follower that was away for long is filled with 400 KB a second, to within 300 KB or 1,000 messages."""

    keys = "peerPushQuota=400000\npeerPushThrottlePoint=300000"

    def test_a_follower_that_was_away(self) -> None:
        """It is filled slowly; senders feel nothing of it."""
        master = self.start_group()
        follower = self.followers()[0]
        follower.kill()
        self.assertEqual(self.acknowledged(master, 5000), 5000)
        self.whole()
        missing = self.log(master).end
        began = self.world.now
        self.restart(follower)
        self.assertEqual(self.acknowledged(master, 50), 50)
        self.assertLess(self.world.now - began, 1.0)
        self.whole()
        took_s = self.world.now - began
        # Not limited: the last 1,000 of 5,000, or 300 KB; two runs, and what a second allows, come at once.
        self.assertGreater(took_s, (missing * 0.8 - 400_000 - 2 * 256_000) / 400_000 - 1)
        self.assertLess(took_s, missing / 400_000 + 2)
        self.same_logs(*self.brokers)


class FrozenTests(DLedgerCase):
    """A master whose process stood still."""

    def test_it_shows_nothing_old(self) -> None:
        """It answers no pull before it knows that nobody else leads."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.whole()
        master.freeze(whole=False)
        pulled = self.asking(master, RequestCode.PULL_MESSAGE, pull_fields(offset=100, queue_id=0))
        self.until("another master", lambda: bool(self.masters()))
        self.assertEqual(self.acknowledged(self.master(), 20), 20)
        master.thaw()
        self.until("an answer", lambda: self.answered(pulled))
        if pulled.result.code == ResponseCode.PULL_OFFSET_MOVED:
            self.assertEqual(pulled.result.fields["maxOffset"], "10")
        self.whole()
        self.same_logs(*self.brokers)


class CutWhileSyncingTests(DLedgerCase):
    """With SYNC_FLUSH a cut may come while a sync is under way."""

    keys = "flushDiskType=SYNC_FLUSH"

    def test_the_wait_ends(self) -> None:
        """What is cut is never synced, and what comes in its place is: the member goes on."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        self.whole()
        self.cut_off(master)
        master.disk.slow = 6000.0
        waiting = [self.sending(master, b"lost" * 50)]
        self.run_for(0.01)
        waiting.append(self.sending(master, b"lost" * 50))  # while a sync runs: the cut comes before its own
        self.until("another master", lambda: any(host is not master for host in self.masters()))
        self.assertEqual(self.acknowledged(next(host for host in self.masters() if host is not master), 20), 20)
        self.world.network.heal_all()
        self.until("all are answered", lambda: all(map(self.answered, waiting)))
        self.run_for(1.0)
        master.disk.slow = 1.0
        self.whole()
        self.same_logs(*self.brokers)


class LostDisksTests(DLedgerCase):
    """Two members of three lose their disks."""

    def test_the_third_leads(self) -> None:
        """It was started first: the others wait for its vote, and are filled."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 50), 50)
        self.whole()
        for host in self.brokers:
            host.kill()
        others = [host for host in self.brokers if host is not master]
        self.restart(master)
        for host in others:
            host.disk.remove_tree("/store")
            host.start()
        self.assertIs(self.master(), master)
        self.whole()
        self.same_logs(*self.brokers)
        self.assertEqual([self.stored(host) for host in self.brokers], [50] * 3)


class OtherLogTests(DLedgerCase):
    """A store whose messages are in a log of the other kind."""

    brokers_count = 1

    def refused(self, host: Host, settings: str) -> str:
        """Why a broker does not start with them."""
        host.settings = settings  # type: ignore[attr-defined]
        host.start()
        self.until("it ends", lambda: self.ended)
        return self.ended.pop()

    def test_neither_takes_the_others(self) -> None:
        """It does not start, and says why; the queues stay."""
        host = self.brokers[0]
        dledger = host.settings  # type: ignore[attr-defined]
        self.assertEqual(self.acknowledged(self.start_group(), 20), 20)
        self.stop(host)
        self.assertIn("the store has a log of DLedger's: start it with enableDLegerCommitLog", self.refused(host, ""))
        self.restart(host, dledger)
        self.master()
        self.assertEqual(self.stored(host), 20)


class NulTests(DLedgerCase):
    """A NUL in a property, which a start takes for what a power cut left."""

    keys = "flushDiskType=SYNC_FLUSH"

    def test_is_refused(self) -> None:
        """Else everything behind it would be cut, acknowledged or not; the others of the turn are taken."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        waiting = [self.sending(master, b"x", properties=f"A\1{value}\2") for value in ("b", "\0" * 1400, "c")]
        self.until("answers", lambda: all(map(self.answered, waiting)))
        codes = [answer.result.code for answer in waiting]
        self.assertEqual(codes, [0, ResponseCode.MESSAGE_ILLEGAL, 0])
        self.assertEqual(self.acknowledged(master, 20), 20)
        for host in self.brokers:
            host.kill()
        self.restart_all()
        self.assertEqual(self.stored(self.master()), 42)


class FailedSyncTests(DLedgerCase):
    """A disk that can not sync."""

    def test_another_leads(self) -> None:
        """Also where nobody waits for a sync: the process ends, and the others go on."""
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 20), 20)
        master.disk.fail_at(1, times=100, only=("sync",))
        self.acknowledged(master, 1)
        self.until("another master", lambda: any(host is not master for host in self.masters()))
        self.assertIn("can not be synced", self.ended[0])
        master.disk.heal()
        self.assertEqual(self.acknowledged(self.master(), 20), 20)


class StartTests(DLedgerCase):
    """What a start costs."""

    brokers_count = 1

    def test_does_not_read_the_log(self) -> None:
        """Raft is told of the members by the configuration, and looks for no changes of them."""
        host = self.start_group()
        self.assertEqual(self.acknowledged(host, 600), 600)
        self.stop(host)
        with mock.patch.object(EntryLog, "entries", side_effect=AssertionError):
            self.restart(host)
