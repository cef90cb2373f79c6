"""A group under controllers, from outside: what clients and nameservers see over many switches stays what it was."""

from __future__ import annotations

import json

from rocketha.simulation.host import Host
from rocketha.wire import controller_calls
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.services.broker_case import records
from tests.services.controlled_case import CLUSTER, NAME, ControlledCase
from tests.services.replication_case import NAMESERVER_PORT


class PromisesTests(ControlledCase):
    """Three brokers, three controllers and a nameserver."""

    def setUp(self) -> None:
        super().setUp()
        self.names_host = self.nameserver()
        self.names = f"{self.names_host.address}:{NAMESERVER_PORT}"
        self.keys = f"namesrvAddr={self.names}"
        self.first = self.start_group()
        self.sent = 0
        self.told: list[tuple[int, bytes]] = []

    def at(self, address: str, code: int, fields: dict[str, str] | None = None) -> Command:
        """What is answered there."""
        assert self.client_host.process is not None
        answer: Command = self.await_(self.client_host.process.service.request(address, code, fields or {}, b""))
        return answer

    def elect(self, host: Host) -> None:
        """``mqadmin electMaster``, until it leads and all are in sync."""
        leader = self.leader()
        assert leader is not None
        call = controller_calls.elect_master(CLUSTER, NAME, self.number(host), 0, designate=True)
        self.assertEqual(self.at(f"{leader.address}:9878", call.code, dict(call.fields)).code, 0)
        self.until("it leads", lambda: self.masters() == [host])
        self.whole()

    def addresses(self) -> dict[str, str]:
        """The group's addresses by id, as the nameserver has them."""
        table = json.loads(self.at(self.names, RequestCode.GET_BROKER_CLUSTER_INFO).body)["brokerAddrTable"]
        return dict(table[NAME]["brokerAddrs"])

    def test_s3_7_a_master_is_0_during_its_term(self) -> None:
        """At the nameserver; its own id is what the others have, and what it has again once it follows."""
        for master in (self.first, self.brokers[1], self.brokers[2], self.first):
            if master is not self.master():
                self.elect(master)
            shown = {str(self.number(host)): f"{host.address}:10911" for host in self.brokers if host is not master}
            shown["0"] = f"{master.address}:10911"
            self.until("the nameserver knows", lambda: self.addresses() == shown, 12.0)  # noqa: B023
            self.assertEqual([self.number(host) for host in self.brokers], [1, 2, 3])

    def test_b6_a_nameserver_that_restarts_has_all_routes_again(self) -> None:
        """Within two seconds, though the brokers' period is 30 s."""
        before = self.until_all_are_there()
        for _ in range(3):
            self.names_host.kill()
            self.run_for(3.0)
            self.names_host.start()
            self.run_for(2.0)
            self.assertEqual(self.addresses(), before)

    def test_b8_resets_between_broker_and_nameserver(self) -> None:
        """Twenty, and at no time does a client get no route to the master."""
        before = self.until_all_are_there()
        self.assertEqual(self.send(self.first), 0)
        for _ in range(20):
            streams = [
                stream
                for host in self.brokers
                for stream in self.world.network.between(host.address, self.names_host.address)
            ]
            self.assertGreaterEqual(len(streams), 3)
            for stream in streams:
                stream.reset()
            for _ in range(8):
                route = self.at(self.names, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
                self.assertEqual(route.code, 0)
                self.assertEqual(json.loads(route.body)["brokerDatas"][0]["brokerAddrs"], before)
                self.run_for(0.15)

    def until_all_are_there(self) -> dict[str, str]:
        """The table once the nameserver knows all three, the master as 0."""
        self.until("the nameserver knows", lambda: set(self.addresses()) == {"0", "2", "3"}, 12.0)
        return self.addresses()

    def test_a1_master_and_leading_controller_die_together(self) -> None:
        """With messages under way: no queue offset is told to two senders, and what was told is there."""
        for round_ in range(4):
            master, leader = self.master(), self.leader()
            assert leader is not None
            self.load(master, round_)
            leader.kill()
            master.kill()
            self.next_acknowledges(master)
            leader.start()
            self.restart(master)
            self.whole(60.0)
        self.all_told_is_there()

    def test_a6_the_master_loses_its_power(self) -> None:
        """With default settings: what was acknowledged is on the new master, and on all in the end."""
        for round_ in range(4):
            master = self.master()
            self.load(master, round_)
            master.power_off()
            self.next_acknowledges(master)
            self.restart(master)
            for stream in self.world.network.between(self.client_host.address, master.address):
                stream.reset()  # of the time before; the client would send on it for a minute
            self.whole(60.0)
        self.all_told_is_there()

    def test_d10_a_replica_whose_sync_failed(self) -> None:
        """It leaves the SyncStateSet, and is back when it was started again: nobody elects what it may have lost."""
        other = next(host for host in self.brokers if host is not self.first)
        self.whole()
        other.disk.fail_at(1, times=1000, only=["sync"])
        self.assertEqual(self.send(self.first), 0)
        members = self.service(self.first).broker.replication
        self.until("it has left", lambda: self.number(other) not in members.members, 5.0)
        for _ in range(50):
            self.run_for(0.1)
            self.assertEqual(len(members.members), 2)
        self.assertEqual(self.send(self.first), 0)
        other.disk.heal()
        other.kill()
        self.restart(other)
        self.whole()

    def test_a21_twenty_freezes(self) -> None:
        """Frozen with messages in its sockets, replaced, thawed: it acknowledges none of them that is then cut."""
        for round_ in range(20):
            master = self.master()
            self.load(master, round_ % 5)
            master.freeze(whole=round_ % 2 == 0)
            for _ in range(10):
                self.note(master)
            self.next_acknowledges(master)
            master.thaw()
            self.whole(60.0)
        self.all_told_is_there()

    def note(self, host: Host) -> None:
        """Send a message; what its sender is told, if ever, is kept."""
        self.sent += 1
        body = b"%d" % self.sent

        def answered(answer: Command) -> None:
            if answer.code == ResponseCode.SUCCESS:
                self.told.append((int(answer.fields["queueOffset"]), body))

        self.sending(host, body).addCallbacks(answered, lambda failure: None)

    def load(self, master: Host, hurry: int) -> None:
        """Forty messages, of which some are under way in the end."""
        for number in range(40):
            self.note(master)
            if number % 4 == 3:
                self.run_for(0.0004 * (hurry + 1))

    def next_acknowledges(self, former: Host) -> None:
        """Another master takes messages."""
        before = len(self.told)
        self.until("another master", lambda: self.masters() and self.masters() != [former])
        for _ in range(10):
            self.note(self.master())
            self.run_for(0.02)
        self.until("it acknowledges", lambda: len(self.told) >= before + 5)  # one may find its connection dead

    def all_told_is_there(self) -> None:
        """At its queue offset, on every broker, and no offset was told twice."""
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)
        self.assertGreater(len(self.told), 60)
        self.assertEqual(len({offset for offset, _ in self.told}), len(self.told))
        stored: list[bytes] = []
        while (answer := self.pull(self.master(), offset=len(stored))).code == ResponseCode.SUCCESS:
            stored += [message.body for message in records(answer)]
        self.assertEqual([(offset, stored[offset]) for offset, _ in self.told], self.told)

    def test_f7_permissions_outlive_fifty_switches(self) -> None:
        """A topic that may only be read, and one that may only be written, on every broker and its disk."""
        for topic, perm in (("Read", 4), ("Write", 2), ("Both", 6)):
            fields = {
                "topic": topic,
                "defaultTopic": "TBW102",
                "readQueueNums": "4",
                "writeQueueNums": "4",
                "perm": str(perm),
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": "0",
                "order": "false",
            }
            self.assertEqual(self.ask(self.first, RequestCode.UPDATE_AND_CREATE_TOPIC, fields).code, 0)
        for number in range(50):
            self.elect(self.brokers[(number + 1) % 3])
            for host in self.brokers:
                table = self.service(host).broker.state.topics.table
                self.assertEqual([table[topic].perm for topic in ("Read", "Write", "Both")], [4, 2, 6], number)
        self.assertEqual(self.group().master_epoch, 51)
        for host in self.brokers:
            host.power_off()
            self.restart(host)
            table = self.service(host).broker.state.topics.table
            self.assertEqual([table[topic].perm for topic in ("Read", "Write", "Both")], [4, 2, 6], host.name)


class TimesTests(ControlledCase):
    """A key of its operator's."""

    keys = "haMaxTimeSlaveNotCatchup=700"

    def test_s0_56_a_replica_behind_for_as_long_as_the_key_says(self) -> None:
        """Leaves the set; its link, on which nothing is said for less than haHousekeepingInterval, is still there."""
        master = self.start_group()
        slave = next(host for host in self.brokers if host is not master)
        slave.freeze(whole=True)
        waiting = self.sending(master)
        self.run_for(0.4)
        self.assertEqual((len(self.members()), self.answered(waiting)), (3, False))
        self.until("it has left", lambda: len(self.members()) == 2, 1.5)
        self.assertEqual(len(self.service(master).broker.replication.links.factory.connections), 2)
        self.assertEqual(self.await_(waiting, 0.5).code, ResponseCode.SUCCESS)
