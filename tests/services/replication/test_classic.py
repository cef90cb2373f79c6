"""Master and slave of a classic pair: what is copied, what waits for it, and every way in which one of them fails."""

from __future__ import annotations

import copy
from typing import Any
from unittest import mock

from twisted.logger import LogLevel, capturedLogs

from rocketha.broker.role import Role
from rocketha.errors import DiskFailure
from rocketha.services.broker.registration import Registration
from rocketha.simulation.host import Host
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import pull_fields
from tests.services.replication_case import NAMESERVER_PORT, SEGMENT, ReplicationCase

SYNC = "brokerRole=SYNC_MASTER"


class PairCase(ReplicationCase):
    """A master at one host, and slaves that were told where it is."""

    master_settings = ""
    slave_settings = ""

    def setUp(self) -> None:
        super().setUp()
        self.master = self.broker("master", self.master_settings)

    def slave(self, name: str = "slave", start: bool = True, settings: str = "") -> Host:
        number = 1 + sum(host.name.startswith("slave") for host in self.world.hosts.values())
        return self.broker(
            name,
            f"brokerRole=SLAVE\nbrokerId={number}\nhaMasterAddress={self.master.address}:10912\n"
            f"{self.slave_settings}\n{settings}",
            start,
        )

    def cut(self, host: Host, end: int) -> None:
        """Let a broker's log end there."""
        log = self.log(host)
        self.await_(self.service(host).broker.core.changes.run(lambda: log.truncate(end)))

    def connected(self, slave: Host) -> bool:
        return not self.service(slave).broker.replication.following.problem


class CopyTests(PairCase):
    """An ASYNC_MASTER and its slave."""

    def test_live(self) -> None:
        """What is sent is at the slave a moment later, byte by byte, with its queues."""
        slave = self.slave()
        self.until("a link", lambda: self.connected(slave))
        self.assertEqual(set(self.send_many(self.master, 50)), {0})
        self.until("the slave has it", lambda: self.level(self.master, slave), 0.5)
        self.same_logs(self.master, slave)
        self.assertGreater(self.log(slave).end, 50 * 500)

    def test_runtime_info(self) -> None:
        """Asks its own disk, not this machine's, and does not wait for it: what a look at it found before is told."""
        disk = self.master.disk
        disk.ratio = 0.25
        self.run_for(20.0)
        looks: list[str] = []
        self.patch(disk, "space", looks.append)
        answer = self.ask(self.master, RequestCode.GET_BROKER_RUNTIME_INFO)
        self.assertEqual((answer.code, looks), (0, []))
        table = json_dialect.loads(answer.body)["table"]
        self.assertEqual(table["commitLogDirCapacity"], "Total : 931.3 GiB, Free : 698.5 GiB.")
        self.assertEqual(table["commitLogDiskRatio"], "0.25")
        self.assertEqual(table["commitLogDiskRatio_/store/commitlog"], "0.25")

    def test_catch_up_over_files(self) -> None:
        """A slave that comes late gets the master's last file (as Java's), and goes on from there."""
        self.send_many(self.master, 600)
        self.assertGreater(self.log(self.master).end, 3 * SEGMENT)
        slave = self.slave()
        self.until("level", lambda: self.level(self.master, slave))
        self.assertEqual(self.log(slave).begin, self.log(self.master).end // SEGMENT * SEGMENT)
        self.send_many(self.master, 400)
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)

    def test_restarts_of_the_slave(self) -> None:
        """Stopped in order or killed: it goes on where its log ends, without a byte twice."""
        slave = self.slave()
        for round_ in range(6):
            self.until("a link", lambda: self.connected(slave))
            self.send_many(self.master, 40)
            if round_ % 2:
                self.run_for(0.0007 * round_)
                slave.kill()
            else:
                self.until("level", lambda: self.level(self.master, slave))
                self.stop(slave)
            self.send_many(self.master, 40)
            self.restart(slave)
        self.until("level", lambda: self.level(self.master, slave))
        self.assertEqual(self.log(slave).begin, 0)
        self.same_logs(self.master, slave)

    def test_power_cuts_of_the_slave(self) -> None:
        """What it had not synced is gone or torn; it is copied again."""
        slave = self.slave()
        for round_ in range(8):
            self.until("a link", lambda: self.connected(slave))
            self.send_many(self.master, 60, size=100 + 300 * round_)
            self.run_for(0.0011 * round_)
            slave.power_off()
            self.restart(slave)
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)

    def test_restarts_of_the_master(self) -> None:
        """The slave waits for it and goes on within a second and a half."""
        slave = self.slave()
        for round_ in range(4):
            self.send_many(self.master, 40)
            self.until("level", lambda: self.level(self.master, slave))
            if round_ % 2:
                self.master.kill()
            else:
                self.stop(self.master)
            self.run_for(3.0)
            self.restart(self.master)
            self.assertLess(self.until("a link", lambda: self.connected(slave)), 1.5)
        self.send_many(self.master, 40)
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)

    def test_a_cut_network(self) -> None:
        """Both ends find out by their silence, and go on when it is over."""
        slave = self.slave()
        self.until("a link", lambda: self.connected(slave))
        self.world.partition("cut", [self.master], [slave])
        self.send_many(self.master, 10)
        self.run_for(50.0)
        self.assertNotEqual(self.service(slave).broker.replication.following.problem, "")
        self.assertEqual(len(self.service(self.master).broker.replication.links.factory.connections), 0)
        self.world.heal("cut")
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)

    def test_two_slaves(self) -> None:
        """Each has its own link."""
        one, two = self.slave("slave1"), self.slave("slave2")
        self.send_many(self.master, 100)
        self.until("level", lambda: self.level(self.master, one, two))
        self.same_logs(self.master, one, two)

    def test_a_slave_with_other_bytes_ahead_is_refused(self) -> None:
        """Its log ends behind the master's: it says so and does not count (regression A12)."""
        slave = self.slave()
        self.send_many(self.master, 100)
        self.until("level", lambda: self.level(self.master, slave))
        self.stop(self.master)
        self.master.disk.__init__(self.master.random)  # type: ignore[misc]
        self.restart(self.master, SYNC)
        self.run_for(3.0)
        self.assertIn("ends", self.service(slave).broker.replication.ready() or "")
        self.assertEqual(self.send(self.master), ResponseCode.SLAVE_NOT_AVAILABLE)

    def test_idle_for_a_day(self) -> None:
        """An idle link is not dropped (regression H4)."""
        slave = self.slave()
        self.until("a link", lambda: self.connected(slave))
        connection = self.service(slave).broker.replication.following.connection
        self.run_for(4 * 3600.0)
        self.assertIs(self.service(slave).broker.replication.following.connection, connection)


class OtherLogTests(PairCase):
    """A master whose log is not the one that its slave copied, and which has the place where the slave's ends."""

    def both(self, count: int = 20) -> Host:
        slave = self.slave()
        self.send_many(self.master, count)
        self.until("level", lambda: self.level(self.master, slave))
        return slave

    def refused(self, slave: Host, end: int) -> None:
        """It appends nothing, says why, and counts for nobody."""
        before = self.bytes_of(self.log(slave), self.log(slave).begin)
        self.run_for(5.0)
        with capturedLogs() as events:  # it tries again, and again says nothing new
            self.run_for(40.0)
        told = [event["log_format"] for event in events if "replication.slave" in event["log_namespace"]]
        self.assertEqual(told, [])
        self.assertEqual(self.log(slave).end, end)
        self.assertEqual(self.bytes_of(self.log(slave), self.log(slave).begin), before)
        self.assertIn("is another log", self.service(slave).ready() or "")
        self.assertFalse(self.service(slave).broker.replication.following.transfers)

    def test_a12_a_master_that_lost_its_disk(self) -> None:
        """It has as many messages again, of the same sizes, and more: records begin where the slave's did."""
        slave = self.both()
        end = self.log(slave).end
        self.stop(slave)
        self.stop(self.master)
        self.master.disk.__init__(self.master.random)  # type: ignore[misc]
        self.restart(self.master, SYNC)
        self.send_many(self.master, 30)
        self.assertGreater(self.log(self.master).end, end)
        self.restart(slave)
        self.refused(slave, end)
        self.assertEqual(self.send(self.master), ResponseCode.SLAVE_NOT_AVAILABLE)

    def test_a12_a_master_that_lost_its_last_second(self) -> None:
        """Its power failed before it had synced what the slave has; the link is tried all the time it grows again."""
        slave = self.both(200)
        self.run_for(3.0)
        self.send_many(self.master, 20)
        self.until("level", lambda: self.level(self.master, slave), 0.4)
        self.master.power_off()
        self.restart(self.master)
        end = self.log(slave).end
        self.assertLess(self.log(self.master).end, end, "nothing was lost: this shows nothing")
        self.await_(self.sending(self.master).addErrback(lambda _: None))  # the old connection
        for _ in range(40):
            self.send(self.master, bytes(500), queue_id="1")
            self.run_for(0.05)
        self.assertGreater(self.log(self.master).end, end)
        self.run_for(40.0)
        self.refused(slave, end)

    def test_h3_a_slave_that_compares_on_a_slow_disk(self) -> None:
        """The end of its own log, half a second a read: it answers whoever asks, and follows nobody until it knows."""
        slave = self.both(200)
        self.master.kill()
        slave.disk.cached, slave.disk.read_s = False, 0.5
        self.restart(self.master)
        following = self.service(slave).broker.replication.following
        self.until("a link", lambda: following.connection)
        began, compared = self.world.now, 0
        while not following.transfers:
            asked = self.world.now
            self.assertEqual(self.ask(slave, RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"}).code, 0)
            self.assertLess(self.world.now - asked, 0.1)
            self.assertLess(asked - began, 60.0)
            compared += following.connection is not None and following.connection.machine.transfers
        self.assertGreater(self.world.now - began, 0.4, "nothing was read slowly: this shows nothing")
        self.assertGreater(compared, 0, "all has come, and is being looked at")
        slave.disk.cached = True
        self.send_many(self.master, 10)
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)

    def test_the_right_master_comes_back(self) -> None:
        """The slave goes on by itself."""
        slave = self.both()
        disk = copy.deepcopy(self.master.disk._names), copy.deepcopy(self.master.disk._durable_names)
        self.stop(self.master)
        self.master.disk.__init__(self.master.random)  # type: ignore[misc]
        self.restart(self.master)
        self.send_many(self.master, 30)
        self.run_for(3.0)
        self.refused(slave, self.log(slave).end)
        self.stop(self.master)
        self.master.disk._names, self.master.disk._durable_names = disk
        self.restart(self.master)
        self.send_many(self.master, 5)
        self.until("level", lambda: self.level(self.master, slave), 60.0)
        self.same_logs(self.master, slave)
        self.assertIsNone(self.service(slave).ready())

    def test_a_log_of_one_record(self) -> None:
        """A report of 0 would ask for the last file: it begins behind that."""
        slave = self.both(1)
        self.stop(slave)
        self.send_many(self.master, 300)
        self.assertGreater(self.log(self.master).end, SEGMENT)
        self.restart(slave)
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)


class ExpiryTests(PairCase):
    """Files that are old enough go, at both ends by their own clock."""

    master_settings = slave_settings = f"fileReservedTime=1\ndeleteWhen={';'.join(f'{hour:02}' for hour in range(24))}"

    def test_at_both_ends(self) -> None:
        """The link goes on; what both still have is equal."""
        slave = self.slave()
        self.send_many(self.master, 600)
        self.until("level", lambda: self.level(self.master, slave))
        connection = self.service(slave).broker.replication.following.connection
        self.run_for(2 * 3600.0)
        self.assertGreater(self.log(self.master).begin, 0)
        self.assertGreater(self.log(slave).begin, 0)
        self.send_many(self.master, 300)
        self.until("level", lambda: self.level(self.master, slave))
        self.assertIs(self.service(slave).broker.replication.following.connection, connection)
        self.same_logs(self.master, slave)

    def test_a_slave_that_was_away_too_long(self) -> None:
        """What it lacks is gone: it says so, and neither cuts nor skips anything by itself."""
        slave = self.slave()
        self.send_many(self.master, 20)
        self.until("level", lambda: self.level(self.master, slave))
        self.stop(slave)
        self.send_many(self.master, 600)
        self.run_for(2 * 3600.0)
        self.restart(slave)
        end = self.log(slave).end
        self.assertLess(end, self.log(self.master).begin)
        self.run_for(10.0)
        self.assertIn("the master is at", self.service(slave).ready() or "")
        self.assertEqual(self.log(slave).end, end)


class DamageTests(PairCase):
    """Bytes of a slave's log that are no record."""

    def test_it_is_copied_again(self) -> None:
        """The log is cut there and goes on; the same place a second time is left, and said."""
        slave = self.slave()
        self.send_many(self.master, 20)
        self.until("level", lambda: self.level(self.master, slave))
        whole = self.log(slave).end
        following = self.service(slave).broker.replication.following
        original, spoilt = following.append_raw, []

        def append_raw(offset: int, data: bytes | memoryview) -> None:
            if len(spoilt) < self.spoil_times and offset <= whole + 100 < offset + len(data):
                data = bytearray(data)
                data[whole + 100 - offset] ^= 0xFF
                spoilt.append(offset)
            original(offset, bytes(data))

        following.append_raw = append_raw  # type: ignore[method-assign]
        self.spoil_times = 1
        self.send_many(self.master, 20)
        self.until("level", lambda: self.level(self.master, slave))
        self.assertEqual(len(spoilt), 1)
        self.same_logs(self.master, slave)

    def test_bad_twice(self) -> None:
        """A master that sends the same bytes again has no better ones."""
        slave = self.slave()
        self.send_many(self.master, 20)
        self.until("level", lambda: self.level(self.master, slave))
        whole = self.log(self.master).end
        self.send(self.master, bytes(1000))
        file = self.master.disk.open("/store/commitlog/00000000000000000000")
        self.until("level", lambda: self.level(self.master, slave))
        self.stop(slave)
        file.write(whole + 200, [b"bad"])
        self.restart(slave)
        self.await_(self.service(slave).broker.core.changes.run(lambda: self.log(slave).truncate(whole)))
        self.service(slave).broker.replication.following._drop("the log was cut")
        self.service(slave).broker.replication.following._later()
        self.run_for(5.0)
        self.send_many(self.master, 5)
        self.run_for(1.0)
        self.assertIn(f"the log is bad at {whole}", self.service(slave).ready() or "")
        self.assertEqual(self.log(slave).end, self.log(self.master).end)
        self.assertEqual(self.log(slave).dispatched_offset, whole)


class RoleTests(PairCase):
    """What a slave serves, and a directory that changes its role."""

    def test_a_slave_refuses_as_java(self) -> None:
        """Sends and pulls: 2, with Java's words; offsets are told."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        for answer in (self.await_(self.sending(slave)), self.pull(slave)):
            self.assertEqual(
                (answer.code, answer.remark),
                (ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]system busy, start flow control for a while"),
            )
        answer = self.ask(slave, RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})
        self.assertEqual(answer.fields["offset"], "1")

    def test_a_slave_that_is_read(self) -> None:
        """slaveReadEnable: messages, and a pull that waits is woken when its message has been copied."""
        self.send(self.master)
        slave = self.slave(settings="slaveReadEnable=true\nautoCreateSubscriptionGroup=true")
        self.until("level", lambda: self.level(self.master, slave))
        self.service(slave).broker.state.topics.table["T"] = self.service(self.master).broker.state.topics.table["T"]
        self.assertEqual(self.pull(slave).code, 0)
        waiting = self.asking(
            slave, RequestCode.PULL_MESSAGE, pull_fields(offset=1, sysFlag="6", suspendTimeoutMillis="15000")
        )
        self.run_for(0.5)
        self.assertFalse(self.answered(waiting))
        self.send(self.master)
        self.assertEqual(self.await_(waiting, 0.5).code, 0)
        self.assertEqual(self.pull(slave, offset=7).code, ResponseCode.PULL_RETRY_IMMEDIATELY)
        self.service(slave).broker.core.config.replication.slave_read_enable = False  # it is a live key
        self.assertEqual(self.pull(slave).code, ResponseCode.SYSTEM_BUSY)

    def test_a_slave_becomes_a_master(self) -> None:
        """By its configuration, at a restart: it takes messages behind what it copied, in every queue."""
        slave = self.slave()
        self.send_many(self.master, 40)
        self.until("level", lambda: self.level(self.master, slave))
        for how in ("stop", "kill"):
            if how == "stop":
                self.stop(slave)
            else:
                slave.kill()
            self.service(self.master)  # still there, and of no use to it
            self.restart(slave, "brokerRole=ASYNC_MASTER")
            before = self.service(slave).broker.store.max_offset("T", 1)
            self.assertGreaterEqual(before, 10)
            self.assertEqual(self.send(slave, queue_id="1"), 0)
            self.assertEqual(self.service(slave).broker.store.max_offset("T", 1), before + 1)

    def test_a_slave_killed_within_a_record_becomes_a_master(self) -> None:
        """Half a record is not served: its properties would read as zeros."""
        slave = self.slave()
        self.send_many(self.master, 5)
        self.until("level", lambda: self.level(self.master, slave))
        whole = self.log(slave).end
        self.send(self.master, b"x" * 3000)
        data = self.bytes_of(self.log(self.master), whole)
        self.run_for(0.2)
        slave.kill()
        self.restart(slave)
        self.until("level", lambda: self.level(self.master, slave))
        for lost in (1, 20, 150, 1000, 3100):
            self.stop(self.master)
            self.cut(slave, whole)
            self.log(slave).append_raw(whole, data[:-lost])
            slave.kill()
            self.restart(slave, "brokerRole=ASYNC_MASTER")
            self.assertEqual(self.log(slave).end, whole, lost)
            slave.kill()
            self.restart(slave, f"brokerRole=SLAVE\nbrokerId=1\nhaMasterAddress={self.master.address}:10912\n")
            self.restart(self.master)
            self.until("level", lambda: self.level(self.master, slave))

    def test_a_slave_stopped_within_a_record(self) -> None:
        """It ends its log behind a whole record, so that whatever starts on it finds no half one."""
        slave = self.slave()
        self.send_many(self.master, 5)
        self.until("level", lambda: self.level(self.master, slave))
        end = self.log(slave).end
        self.send(self.master, b"x" * 3000)
        data = self.bytes_of(self.log(self.master), end)
        self.master.kill()
        self.run_for(0.2)
        self.cut(slave, end)
        self.log(slave).append_raw(end, data[:-30])
        self.stop(slave)
        self.restart(slave, "brokerRole=ASYNC_MASTER")
        self.assertEqual(self.log(slave).end, end)

    def test_a_lone_broker_becomes_a_slave(self) -> None:
        """Of a master that has the same beginning."""
        self.send_many(self.master, 30)
        self.stop(self.master)
        slave = self.slave(start=False)
        slave.disk._names = copy.deepcopy(self.master.disk._names)
        slave.disk._durable_names = copy.deepcopy(self.master.disk._durable_names)
        self.restart(self.master)
        self.restart(slave)
        self.send_many(self.master, 30)
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)

    def test_roles(self) -> None:
        """As the status says."""
        slave = self.slave()
        self.assertIs(self.service(slave).broker.replication.role, Role.SLAVE)
        self.assertIs(self.service(self.master).broker.replication.role, Role.MASTER)


class NameserverTests(ReplicationCase):
    """A slave that is not told where its master is."""

    def test_learned_from_the_nameserver(self) -> None:
        """By the answer to its registration, also when the master comes later, and as another host."""
        nameserver = f"namesrvAddr={self.nameserver().address}:{NAMESERVER_PORT}\nregisterNameServerPeriod=10000"
        slave = self.broker("slave", f"brokerRole=SLAVE\nbrokerId=1\n{nameserver}")
        self.run_for(1.0)
        self.assertIn("not known", self.service(slave).broker.replication.ready() or "")
        master = self.broker("master", nameserver)
        self.until("a link", lambda: not self.service(slave).broker.replication.following.problem, 35.0)
        self.send_many(master, 30)
        self.until("level", lambda: self.level(master, slave))
        self.same_logs(master, slave)
        self.assertEqual(self.service(slave).broker.replication.master_address, f"{master.address}:10911")

    def test_the_slave_was_faster(self) -> None:
        """Both have just started: it does not wait for the next period, and asks less and less often."""
        nameserver = self.nameserver()
        keys = f"namesrvAddr={nameserver.address}:{NAMESERVER_PORT}"
        slave = self.broker("slave", f"brokerRole=SLAVE\nbrokerId=1\n{keys}")
        self.run_for(2.5)
        master = self.broker("master", f"brokerRole=SYNC_MASTER\n{keys}")
        self.until("a link", lambda: not self.service(slave).broker.replication.following.problem, 2.0)
        master.kill()
        register = Registration._register
        with mock.patch.object(Registration, "_register", autospec=True, side_effect=register) as asked:
            self.run_for(300.0)
        self.assertLess(asked.call_count, 20)

    def test_a_nameserver_that_was_cut_off(self) -> None:
        """For long: TCP tries again as late as that had lasted, a new connection is there at once."""
        nameserver = self.nameserver()
        keys = "registerNameServerPeriod=10000\nregisterBrokerTimeoutMills=3000"
        master = self.broker("master", f"namesrvAddr={nameserver.address}:{NAMESERVER_PORT}\n{keys}")
        registration = self.service(master).broker.registration
        self.run_for(1.0)
        self.assertTrue(registration.registered)
        self.world.partition("cut", [nameserver], [master])
        self.run_for(63.0)
        self.assertFalse(registration.registered)
        self.world.heal("cut")
        self.until("registered again", lambda: registration.registered, 5.0)

    def test_own_address(self) -> None:
        """A slave never connects to itself."""
        slave = self.broker("slave", "brokerRole=SLAVE\nbrokerId=1\nnamesrvAddr=10.0.0.9:9876")
        service = self.service(slave)
        service.broker.role_source.learned(
            service.broker.state.identity.address, service.broker.state.identity.ha_address
        )
        self.run_for(2.0)
        self.assertEqual(service.broker.replication.following.address, "")
        self.assertEqual(service.broker.watch.address, None)


class SyncTests(PairCase):
    """A SYNC_MASTER: who has a message when its sender is answered."""

    master_settings = SYNC

    def test_no_slave(self) -> None:
        """SLAVE_NOT_AVAILABLE at once, and the message is stored."""
        waiting = self.sending(self.master)
        self.assertEqual(self.await_(waiting, 0.1).code, ResponseCode.SLAVE_NOT_AVAILABLE)
        self.assertEqual(self.pull(self.master).code, 0)

    def test_with_a_slave(self) -> None:
        """Success, and the slave has it by then."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        for number in range(20):
            self.assertEqual(self.send(self.master, b"x" * 1000 * number + b"x"), 0)
            self.assertEqual(self.log(slave).end, self.log(self.master).end)

    def test_a_learner(self) -> None:
        """It has the message, but is no second copy: it never says that it has."""
        learner = self.slave()
        self.service(learner).broker.replication.following._counts = False
        self.until("a link", lambda: self.connected(learner))
        for _ in range(3):
            code = self.await_(self.sending(self.master), 5.0).code
            self.assertIn(code, (ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT))
            self.until("level", lambda: self.level(self.master, learner))
        self.run_for(60.0)  # heartbeats say nothing more either
        self.assertIn(self.await_(self.sending(self.master), 5.0).code, (11, 12))

    def test_a_frozen_slave(self) -> None:
        """FLUSH_SLAVE_TIMEOUT after slaveTimeout by the clock, whatever is sent meanwhile (G1); those that do not wait
        are answered at once."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        self.assertEqual(self.send(self.master), 0)
        slave.freeze(whole=True)
        began = self.world.now
        waiting = self.sending(self.master)
        while not self.answered(waiting):
            self.assertEqual(self.send(self.master, properties="WAIT\x01false\x02"), 0)
            self.run_for(0.05)
        self.assertEqual(self.await_(waiting).code, ResponseCode.FLUSH_SLAVE_TIMEOUT)
        self.assertLess(abs(self.world.now - began - 3.0), 0.2)
        slave.thaw()
        self.until("level", lambda: self.level(self.master, slave))
        self.assertEqual(self.send(self.master), 0)

    def late_told(self, events: list[Any]) -> list[tuple[int, Any]]:
        """How many sends each line of the log tells of, and how loud it is."""
        found = [event for event in events if "FLUSH_SLAVE_TIMEOUT" in (event.get("log_format") or "")]
        return [(event["count"], event["log_level"]) for event in found]

    def test_s1_28_the_log_tells_of_late_ones(self) -> None:
        """How many, in a line a second at most, however many there are."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        slave.freeze(whole=True)
        with capturedLogs() as events:
            waiting = [self.sending(self.master) for _ in range(40)]
            self.run_for(3.5)
            waiting += [self.sending(self.master) for _ in range(2)]
            self.run_for(8.0)
        self.assertEqual({self.await_(each).code for each in waiting}, {ResponseCode.FLUSH_SLAVE_TIMEOUT})
        self.assertEqual(self.late_told(events), [(40, LogLevel.error), (2, LogLevel.error)])
        self.assertIn("rocketha_sends_late_total 42.0\n", self.service(self.master).metrics.exposition())

    def test_s1_28_at_a_stop(self) -> None:
        """Those that nobody can speak for any more when it stops are told of, too."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        slave.freeze(whole=True)
        waiting = [self.sending(self.master) for _ in range(5)]
        self.run_for(0.1)
        with capturedLogs() as events:
            self.stop(self.master)
        self.assertEqual({self.await_(each).code for each in waiting}, {ResponseCode.FLUSH_SLAVE_TIMEOUT})
        self.assertEqual(self.late_told(events), [(5, LogLevel.error)])

    def test_a_stop_under_load(self) -> None:
        """Of a master that stops no message is acknowledged that its slave does not have."""
        self.restart_master(f"namesrvAddr={self.nameserver().address}:{NAMESERVER_PORT}")  # signing off takes a moment
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        waiting = []
        for round_ in range(40):
            waiting += [self.sending(self.master, bytes(100)).addErrback(lambda _: None) for _ in range(3)]
            self.run_for(0.0005)
            if round_ == 20:
                stopped = self.service(self.master).stopService()
        self.await_(stopped)
        self.master.exited("stopped")
        self.until("all are through", lambda: all(map(self.answered, waiting)))
        acknowledged = sum(each.result is not None and each.result.code == 0 for each in waiting)
        self.assertGreater(acknowledged, 10)
        self.run_for(0.5)
        self.assertLessEqual(1 + acknowledged, self.service(slave).broker.store.max_offset("T", 0))

    def test_in_order(self) -> None:
        """Answers leave in the order of the log."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        answered: list[int] = []
        for number in range(30):
            self.sending(self.master, bytes(1 + 1900 * (number % 7))).addCallback(
                lambda answer, number=number: answered.append(number)
            )
        self.until("all are answered", lambda: len(answered) == 30)
        self.assertEqual(answered, sorted(answered))

    def test_three_of_three(self) -> None:
        """inSyncReplicas=3: two slaves are needed, and one stalled one holds all up (and a third helps)."""
        self.restart_master("inSyncReplicas=3")
        one, two = self.slave("slave1"), self.slave("slave2")
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, one, two))
        self.assertEqual(self.send(self.master), 0)
        two.freeze(whole=True)
        waiting = self.sending(self.master)
        self.run_for(1.0)
        self.assertFalse(self.answered(waiting))
        three = self.slave("slave3")
        self.assertEqual(self.await_(waiting).code, 0)
        self.assertEqual(self.log(three).end, self.log(self.master).end)

    def restart_master(self, settings: str) -> None:
        self.stop(self.master)
        self.restart(self.master, f"{SYNC}\n{settings}")

    def test_one_in_sync_replica_does_not_wait(self) -> None:
        """inSyncReplicas=1 is what its operator wrote."""
        self.restart_master("inSyncReplicas=1")
        self.assertEqual(self.send(self.master), 0)

    def test_a_slave_too_far_behind(self) -> None:
        """haMaxGapNotInSync: one that has much to copy is not waited for."""
        self.restart_master("haMaxGapNotInSync=20000")
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        slave.freeze(whole=True)
        waiting = [self.sending(self.master, bytes(500)) for _ in range(60)]
        self.run_for(1.0)
        self.assertFalse(self.answered(waiting[0]))
        self.assertEqual(self.await_(self.sending(self.master), 0.1).code, ResponseCode.SLAVE_NOT_AVAILABLE)


class SyncFlushTests(PairCase):
    """SYNC_MASTER and SYNC_FLUSH on both sides."""

    master_settings = f"{SYNC}\nflushDiskType=SYNC_FLUSH"
    slave_settings = "flushDiskType=SYNC_FLUSH"

    def test_on_both_disks(self) -> None:
        """When a sender is answered both machines may lose their power."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        for number in range(10):
            self.assertEqual(self.send(self.master, b"x" * 700 * (number + 1)), 0)
            for host in (self.master, slave):
                self.assertEqual(self.log(host).store.flushed_offset, self.log(host).end, host.name)
        self.assertEqual(set(self.send_many(self.master, 100)), {0})
        ends = self.log(self.master).end
        self.master.power_off()
        slave.power_off()
        self.restart(slave)
        self.restart(self.master)
        self.assertEqual(self.log(self.master).end, ends)
        self.assertEqual(self.log(slave).end, ends)

    def test_a_slow_disk_at_the_slave(self) -> None:
        """The master's own disk is fast, and nobody is answered before the slave's is through."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        slave.disk.slow = 400.0
        waiting = self.sending(self.master)
        self.run_for(0.1)
        self.assertEqual(self.log(slave).end, self.log(self.master).end)
        self.assertFalse(self.answered(waiting))
        self.assertEqual(self.await_(waiting).code, 0)
        self.assertEqual(self.log(slave).store.flushed_offset, self.log(slave).end)

    def test_no_slave(self) -> None:
        """On the own disk, then SLAVE_NOT_AVAILABLE."""
        self.assertEqual(self.send(self.master), ResponseCode.SLAVE_NOT_AVAILABLE)
        self.assertEqual(self.log(self.master).store.flushed_offset, self.log(self.master).end)


class FailedSyncTests(PairCase):
    """A slave under SYNC_FLUSH whose sync failed."""

    master_settings = SYNC
    slave_settings = "flushDiskType=SYNC_FLUSH"

    def test_it_acknowledges_no_more(self) -> None:
        """What is on its disk is unknown; it says so, and copies it again after a restart."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        slave.disk.fail_at(1, times=1000, only=["sync"])
        waiting = self.sending(self.master)
        self.assertEqual(self.await_(waiting).code, ResponseCode.FLUSH_SLAVE_TIMEOUT)
        self.assertIn("disk is full or failed", self.service(slave).ready() or "")
        slave.disk.heal()
        slave.kill()
        self.restart(slave)
        self.until("a link", lambda: self.connected(slave))
        self.until("success", lambda: self.send(self.master) == 0)
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)


class FailedMasterSyncTests(PairCase):
    """A master whose sync failed: the kernel may have dropped what was to be synced, and read what was there before."""

    master_settings = SYNC

    def failed(self, slave: Host) -> tuple[int, int]:
        """The slave is away, messages are synced, more are not, and then the sync fails; how far it had come, and how
        many messages that were."""
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        slave.kill()
        self.run_for(0.1)
        self.send_many(self.master, 8)
        self.until("synced", lambda: self.log(self.master).store.flushed_offset == self.log(self.master).end)
        synced = self.log(self.master).end
        self.master.disk.fail_at(1, times=1000, only=["sync"])
        self.send_many(self.master, 8)
        self.until("the sync failed", lambda: self.log(self.master).store.log.broken)
        self.assertGreater(self.log(self.master).end, synced)
        return synced, 1 + 2

    def test_who_waits_for_a_slave_is_told(self) -> None:
        """FLUSH_DISK_TIMEOUT at once: success would say that this broker has it, which nobody knows."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        self.assertEqual(self.send(self.master), 0)
        slave.freeze(whole=True)
        self.master.disk.fail_at(1, times=1000, only=["sync"])
        waiting = self.sending(self.master)
        self.assertEqual(self.await_(waiting, 1.5).code, ResponseCode.FLUSH_DISK_TIMEOUT)
        self.assertEqual(self.send(self.master), ResponseCode.SERVICE_NOT_AVAILABLE)
        self.assertIn("failed", self.service(self.master).ready() or "")

    def test_nothing_of_it_is_copied(self) -> None:
        """A slave is sent what is on the disk, and no more; a restart looks at the rest and sends it."""
        slave = self.slave()
        synced, _ = self.failed(slave)
        self.restart(slave)
        self.until("the rest of it", lambda: self.log(slave).end == synced)
        self.run_for(7.0)
        self.assertEqual((self.log(slave).end, self.service(slave).ready()), (synced, None))
        self.master.disk.heal()
        self.master.kill()
        self.restart(self.master)
        self.assertGreater(self.log(self.master).end, synced)
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)

    def test_who_has_read_it_is_not_sent_back(self) -> None:
        """The end that consumers see stays where it was, and what reads whole is theirs."""
        slave = self.slave()
        _, there = self.failed(slave)
        self.assertEqual(self.service(self.master).broker.store.max_offset("T", 0), there + 2)
        self.assertEqual(self.pull(self.master, offset=there + 1).code, 0)

    def test_its_power_fails_too(self) -> None:
        """What was not on its disk is nowhere: both logs are one."""
        slave = self.slave()
        synced, there = self.failed(slave)
        self.restart(slave)
        self.until("the rest of it", lambda: self.log(slave).end == synced)
        self.master.disk.heal()
        self.master.power_off()
        self.restart(self.master)
        self.assertLess(self.service(self.master).broker.store.max_offset("T", 0), there + 2)
        self.await_(self.sending(self.master).addErrback(lambda _: None))  # the old connection
        self.send_many(self.master, 8)
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)


class DiskFailureTests(PairCase):
    """The slave's disk fails, the master's does not notice but in its acknowledgements."""

    master_settings = SYNC

    def test_a_sync_fails(self) -> None:
        """Of what it did not sync the slave does not know whether it has it: it acknowledges no more, and is no slave
        that somebody waits for, before it was started again."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        slave.disk.fail_at(1, times=1000, only=["sync"])
        self.send(self.master)
        self.until("the sync failed", lambda: self.log(slave).store.log.broken)
        self.run_for(0.5)
        for _ in range(50):
            self.assertEqual(self.service(self.master).broker.replication.links.factory.connections, {})
            self.run_for(0.1)
        self.assertEqual(self.send(self.master), ResponseCode.SLAVE_NOT_AVAILABLE)
        self.assertIn("a sync failed", self.service(slave).broker.replication.ready() or "")
        slave.disk.heal()
        slave.kill()
        self.restart(slave)
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)
        self.assertEqual(self.send(self.master), 0)

    def test_writes_fail_for_a_while(self) -> None:
        """The slave reports less, tries again and catches up."""
        slave = self.slave()
        self.send(self.master)
        self.until("level", lambda: self.level(self.master, slave))
        original = slave.disk.step

        def step(path: str, operation: str, opens: bool = False) -> None:
            if operation == "write" and "commitlog" in path:
                raise DiskFailure(path, operation, 5, "Input/output error")
            original(path, operation, opens)

        slave.disk.step = step  # type: ignore[method-assign]
        self.assertIn(self.send(self.master), (ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE))
        self.assertIn("the log cannot be written", self.service(slave).ready() or "")
        del slave.disk.step  # type: ignore[method-assign]
        self.until("level", lambda: self.level(self.master, slave))
        self.same_logs(self.master, slave)
        self.assertEqual(self.send(self.master), 0)
