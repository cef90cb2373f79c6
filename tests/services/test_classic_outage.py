"""A classic pair one of whose brokers is down or stands still: what the other does, and what it leaves alone."""

from __future__ import annotations

from rocketha.broker.role import Role
from rocketha.wire.codes import ResponseCode
from tests.services.broker_case import records
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
        self.service(self.slave).state.topics.table["T"] = self.service(self.master).state.topics.table["T"]

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
            self.assertIs(self.service(self.slave).replication.role, Role.SLAVE)
            self.assertEqual(self.send(self.slave), ResponseCode.SYSTEM_BUSY)
        self.assertEqual(self.service(self.slave).store.max_offset("T", 0), 3)

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
        self.assertIsNone(self.service(self.master).replication.following.connection)
        self.assertEqual(self.service(self.master).replication.master_ha_address, "")
        self.assertIsNotNone(self.service(self.slave).replication.following.connection)
