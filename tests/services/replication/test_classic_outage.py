"""A classic pair one of whose brokers is down or stands still: what the other does, and what it leaves alone."""

from __future__ import annotations

from rocketha.broker.role import Role
from rocketha.simulation.host import Host
from rocketha.store import commitlog
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import pull_fields, records
from tests.services.replication_case import ReplicationCase


class OutageTests(ReplicationCase):
    """An ASYNC_MASTER and a slave that consumers may read."""

    def setUp(self) -> None:
        super().setUp()
        self.master = self.broker("master", "")
        where = f"brokerRole=SLAVE\nbrokerId=1\nhaMasterAddress={self.master.address}:10912\n"
        self.slave = self.broker("slave", f"{where}slaveReadEnable=true\nautoCreateSubscriptionGroup=true")
        for number in range(3):
            self.assertEqual(self.send(self.master, b"%d" % number), 0)
        self.until("level", lambda: self.level(self.master, self.slave))
        # No nameserver: the slave is not told where its master's tables are.
        self.service(self.slave).broker.state.topics.table["T"] = self.service(self.master).broker.state.topics.table[
            "T"
        ]

    def test_s1_4_consumers_go_on_at_the_slave(self) -> None:
        """Whether the process died or the machine did, with no word from anybody."""
        for end in (self.master.kill, self.master.power_off):
            end()
            answer = self.pull(self.slave)
            self.assertEqual([message.body for message in records(answer)], [b"0", b"1", b"2"])
            self.assertEqual(self.pull(self.slave, offset=3).code, ResponseCode.PULL_NOT_FOUND)
            self.restart(self.master)

    def test_s1_7_the_slave_stays_a_slave(self) -> None:
        """Two minutes without a master: it takes no message, and has the role of its configuration."""
        self.master.kill()
        for _ in range(4):
            self.run_for(30.0)
            self.assertIs(self.service(self.slave).broker.replication.role, Role.SLAVE)
            self.assertEqual(self.send(self.slave), ResponseCode.SYSTEM_BUSY)
        self.assertEqual(self.service(self.slave).broker.store.max_offset("T", 0), 3)

    def test_s1_8_a_sender_is_answered_before_the_copy(self) -> None:
        """The slave stands still and nobody waits for it; it gets what it missed."""
        self.slave.freeze(whole=True)
        for _ in range(5):
            self.assertEqual(self.await_(self.sending(self.master), 0.1).code, ResponseCode.SUCCESS)
        self.assertGreater(self.log(self.master).end, self.log(self.slave).end)
        self.slave.thaw()
        self.until("level", lambda: self.level(self.master, self.slave))
        self.same_logs(self.master, self.slave)

    def test_s1_23_a_master_follows_nobody(self) -> None:
        """Its port is open and it has no link of its own; a slave has one."""
        self.assertIsNone(self.service(self.master).broker.replication.following.connection)
        self.assertEqual(self.service(self.master).broker.replication.following.address, "")
        self.assertIsNotNone(self.service(self.slave).broker.replication.following.connection)


class ThroughputTests(ReplicationCase):
    """What an asynchronous slave costs a sender, and what its master's disk costs when it is lost (S1.9)."""

    def started_pair(self) -> tuple[Host, Host]:
        """An ASYNC_MASTER and a slave that follows it."""
        master = self.broker("master", "")
        slave = self.broker("slave", f"brokerRole=SLAVE\nbrokerId=1\nhaMasterAddress={master.address}:10912\n")
        self.send(master)
        self.until("level", lambda: self.level(master, slave))
        return master, slave

    def seconds_of(self, host: Host, count: int = 100) -> float:
        """How long so many messages take, one after the other."""
        began = self.world.now
        for number in range(count):
            waiting = self.sending(host, b"%d" % number)
            while not self.answered(waiting):
                self.run_for(0.0001)
            self.assertEqual(self.await_(waiting).code, 0)
        return self.world.now - began

    def test_s1_9_no_slower_than_without_a_slave(self) -> None:
        """Be the slave well, behind a slow disk, behind a slow line, frozen or gone."""
        alone = self.seconds_of(self.broker("alone", "brokerName=alone"))
        master, slave = self.started_pair()
        took = {"well": self.seconds_of(master)}
        self.assertGreater(self.log(slave).end, 0.9 * self.log(master).end)
        slave.disk.slow = 400.0
        took["slow disk"] = self.seconds_of(master)
        slave.disk.slow = 1.0
        for one, other in ((master, slave), (slave, master)):
            self.world.network.link(one.address, other.address).slow["far"] = 0.5
        took["slow line"] = self.seconds_of(master)
        self.world.heal("far")
        slave.freeze(whole=True)
        took["frozen"] = self.seconds_of(master)
        slave.kill()
        took["gone"] = self.seconds_of(master)
        for how, seconds in took.items():
            self.assertLess(seconds, 1.1 * alone, f"{how}: {took}, alone {alone}")

    def test_h3_a_disk_that_reads_slowly(self) -> None:
        """A slave that was away needs what is no longer in memory, half a second a block: no sender waits for that."""
        master, slave = self.started_pair()
        slave.kill()
        self.send_many(master, 600)
        quick = self.seconds_of(master, 10)
        master.disk.cached, master.disk.read_s = False, 0.5
        self.restart(slave)
        began, behind = self.world.now, self.log(master).end
        while self.log(slave).end < behind:
            self.assertLess(self.seconds_of(master, 10), 2 * quick)
            self.assertLess(self.world.now - began, 60.0)
        self.assertGreater(self.world.now - began, 0.4, "nothing was read slowly: this shows nothing")
        master.disk.cached = True
        self.until("level", lambda: self.level(master, slave))
        self.same_logs(master, slave)

    def test_h3_consumers_of_what_is_on_a_slow_disk(self) -> None:
        """Old messages, half a second a read: they are answered, and no sender waits for that."""
        self.patch(commitlog, "RECENT_BYTES", 0)
        master = self.broker("master", "autoCreateSubscriptionGroup=true")
        self.send_many(master, 2000)
        self.run_for(3.0)
        quick = self.seconds_of(master, 10)
        master.disk.cached, master.disk.read_s = False, 0.5
        began = self.world.now
        pulls = [
            self.asking(master, RequestCode.PULL_MESSAGE, pull_fields(offset=offset)) for offset in range(0, 500, 50)
        ]
        while not all(map(self.answered, pulls)):
            self.assertLess(self.seconds_of(master, 10), 2 * quick)
            self.assertLess(self.world.now - began, 60.0)
        self.assertGreater(self.world.now - began, 0.4, "nothing was read slowly: this shows nothing")
        for offset, pull in zip(range(0, 500, 50), pulls, strict=True):
            answer = self.await_(pull)
            self.assertEqual((answer.code, records(answer)[0].queue_offset), (ResponseCode.SUCCESS, offset))

    def test_s1_9_a_lost_disk_takes_what_was_on_its_way(self) -> None:
        """A master's machine is lost for good, in the middle of a load: the slave, 20 ms away, has all that was
        acknowledged more than 25 ms before."""
        for seed in range(8):
            self.seed = seed
            super().setUp()
            master, slave = self.started_pair()
            self.world.network.link(master.address, slave.address).slow["far"] = 0.02
            acknowledged: list[float] = []
            for number in range(200):
                sent = self.sending(master, b"%d" % number)
                sent.addCallback(lambda _, told=acknowledged: told.append(self.world.now))
                sent.addErrback(lambda _: None)  # of those that the end of the master cuts short
                self.run_for(0.0007)
            there = self.service(slave).broker.store.max_offset("T", 0) - 1  # but the first, of started_pair
            lost = len(acknowledged) - there  # even what is on the line
            self.assertGreaterEqual(there, sum(each < self.world.now - 0.025 for each in acknowledged), seed)
            self.assertGreater(lost, 0, "nothing was on its way: this shows nothing")
            master.power_off()
            self.run_for(3.0)
            self.assertIs(self.service(slave).broker.replication.role, Role.SLAVE)
            self.assertGreaterEqual(self.service(slave).broker.store.max_offset("T", 0) - 1, there)
