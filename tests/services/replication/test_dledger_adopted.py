"""Brokers that were ordinary ones, with messages, and are members of a group now."""

from __future__ import annotations

from rocketha.broker.role import Role
from rocketha.services.replication import dledger
from rocketha.simulation.host import Host
from tests.services.dledger_case import DLedgerCase

STORE = "/store"


class AdoptedCase(DLedgerCase):
    """Three brokers; what they had is made by one, and copied."""

    def ordinary(self, host: Host, count: int = 60) -> None:
        """A broker that takes as many messages, and stops."""
        settings = host.settings  # type: ignore[attr-defined]
        self.restart(host, "")
        self.assertEqual(self.acknowledged(host, count), count)
        self.stop(host)
        host.settings = settings  # type: ignore[attr-defined]

    def copy(self, one: Host, other: Host) -> None:
        """One's store to another's disk."""
        other.disk.remove_tree(STORE)
        self._copy(one, other, STORE)

    def _copy(self, one: Host, other: Host, path: str) -> None:
        if one.disk.is_dir(path):
            other.disk.make_dirs(path)
            for name in one.disk.list(path):
                self._copy(one, other, f"{path}/{name}")
        else:
            data = one.disk.read_all(path, 1 << 30)
            file = other.disk.create(path, len(data))
            file.write(0, [data])
            file.sync()
            file.close()


class AdoptedTests(AdoptedCase):
    """Members with equal logs."""

    def setUp(self) -> None:
        super().setUp()
        first, *others = self.brokers
        self.ordinary(first)
        for other in others:
            self.copy(first, other)

    def test_they_go_on(self) -> None:
        """What was there is there at any master, and what comes follows; all have the same log."""
        master = self.start_group()
        self.assertEqual(self.stored(master), 60)
        self.assertEqual(self.acknowledged(master, 100), 100)
        self.whole()
        self.same_logs(*self.brokers)
        self.assertEqual([self.stored(host) for host in self.brokers], [160] * 3)
        divide = self.log(master).store.log.segments.divide
        self.assertGreater(divide, 0)
        master.kill()
        other = self.master()
        self.assertEqual(self.acknowledged(other, 10), 10)
        self.assertEqual(self.stored(other), 170)
        self.restart(master)
        self.whole()
        for host in self.brokers:
            host.kill()
        self.restart_all()
        self.assertEqual(self.stored(self.master()), 170)
        self.same_logs(*self.brokers)

    def test_an_empty_member(self) -> None:
        """It does not lead before the others have sent it something, and gets what comes."""
        last = self.brokers[2]
        last.disk.remove_tree(STORE)
        master = self.start_group()
        self.assertIsNot(master, last)
        self.assertEqual(self.acknowledged(master, 100), 100)
        self.whole()
        self.assertEqual(self.log(last).begin, self.log(master).store.log.segments.divide)
        self.assertEqual(self.ended, [])

    def test_two_empty_members(self) -> None:
        """The one that has messages, and starts first, leads."""
        for host in self.brokers[:2]:
            host.disk.remove_tree(STORE)
        self.brokers[2].start()
        self.started(self.brokers[2])
        for host in self.brokers[:2]:
            host.start()
        self.assertIs(self.master(), self.brokers[2])
        self.assertEqual(self.acknowledged(self.brokers[2], 10), 10)
        self.whole()

    def test_one_that_comes_late(self) -> None:
        """Two with nothing have begun another log: it keeps what it has, and says so."""
        for host in self.brokers[:2]:
            host.disk.remove_tree(STORE)
            host.start()
        for host in self.brokers[:2]:
            self.started(host)
        self.assertEqual(self.acknowledged(self.master(), 10), 10)
        disk = self.brokers[2].disk
        self.brokers[2].start()
        self.until("it ends", lambda: self.ended)
        self.assertIn("messages of the time before DLedger mode", self.ended[0])
        disk.remove_tree(f"{STORE}/dledger-n2")
        self.restart(self.brokers[2], "")
        self.assertEqual(self.stored(self.brokers[2]), 60)


class LostEntriesTests(AdoptedCase):
    """A member that has its old log, and has lost what came behind."""

    def test_its_vote_is_unsure(self) -> None:
        """With one that lags it does not elect it, though its log is not empty; filled again it votes as before."""
        first, *others = self.brokers
        self.ordinary(first)
        for other in others:
            self.copy(first, other)
        master = self.start_group()
        lags, lost = self.followers()
        self.whole()
        lags.kill()
        self.assertEqual(self.acknowledged(master, 50), 50)
        for host in (master, lost):
            host.kill()
        lost.disk.remove_tree(f"{STORE}/dledger-{lost.name}")
        self.restart(lags)
        self.restart(lost)
        self.run_for(20.0)
        self.assertEqual(self.masters(), [])
        self.restart(master)
        self.assertIs(self.master(), master)
        self.whole()
        self.assertEqual([self.stored(host) for host in self.brokers], [110] * 3)


class ExpiredTests(AdoptedCase):
    """Files that expire."""

    keys = f"fileReservedTime=1\ndeleteWhen={';'.join(f'{hour:02}' for hour in range(24))}"

    def test_one_that_was_away_for_long(self) -> None:
        """It begins anew where the leader's log begins by now; its own old files would have expired, too."""
        self.patch(dledger, "CACHED_BYTES", 1000)
        first, *others = self.brokers
        self.ordinary(first)
        for other in others:
            self.copy(first, other)
        master = self.start_group()
        self.assertEqual(self.acknowledged(master, 10), 10)
        self.whole()
        away = self.followers()[0]
        away.kill()
        for _ in range(44):
            self.run_for(100.0)
            self.assertEqual(self.acknowledged(self.master(), 40), 40)
        begin = self.log(self.master()).begin
        self.assertGreater(begin, self.log(self.master()).store.log.segments.divide)
        self.restart(away)
        self.whole()
        self.assertEqual(self.ended, [])
        self.assertGreaterEqual(self.log(away).begin, begin)
        self.same_logs(*self.brokers)
        self.stop(away)
        self.restart(away)
        self.whole()
        self.same_logs(*self.brokers)


class OtherTailTests(AdoptedCase):
    """Members whose logs differ in their last messages."""

    def test_the_last_ones(self) -> None:
        """The follower says so, and does not lead."""
        first, second, third = self.brokers
        self.ordinary(first, 20)
        self.copy(first, second)
        self.copy(first, third)
        settings = third.settings  # type: ignore[attr-defined]
        self.restart(third, "")
        self.assertEqual(self.acknowledged(third, 1), 1)
        self.stop(third)
        third.settings = settings  # type: ignore[attr-defined]
        for host in (first, second):
            host.start()
        for host in (first, second):
            self.started(host)
        master = self.master()
        self.assertEqual(self.acknowledged(master, 10), 10)
        third.start()
        self.started(third)
        self.until("it says so", lambda: "not those of the leader" in (self.replication(third).ready() or ""))
        self.run_for(15.0)  # what makes a member unwell for once lasts ten
        master.kill()
        self.assertIsNot(self.master(), third)
        self.assertIs(self.role(third), Role.SLAVE)
        self.run_for(15.0)
        self.assertIs(self.role(third), Role.SLAVE)
