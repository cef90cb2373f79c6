"""What operators write alerts on: the names that the log has for a switch."""

from __future__ import annotations

from rocketha.observe.overview import Overview
from rocketha.simulation.host import Host
from rocketha.wire.codes import RequestCode
from tests.services.controlled_case import NAME, ControlledCase
from tests.services.dledger_case import DLedgerCase
from tests.services.events_case import events_of


class SwitchTests(ControlledCase):
    """A group of three, whose master goes."""

    def setUp(self) -> None:
        super().setUp()
        self.first = self.start_group()
        self.others = [host for host in self.brokers if host is not self.first]
        self.said = events_of(self)

    def until_another_leads(self) -> None:
        self.until("another master", lambda: any(map(self.acknowledges, self.others)))

    def test_killed(self) -> None:
        """The election, at each of the three controllers, and the new master's roles."""
        self.first.kill()
        self.until_another_leads()
        elected = [each for each in self.said if each["event"] == "group.elected" and each["did"] == "elected"]
        self.assertEqual({(each["group"], each["epoch"]) for each in elected}, {("DefaultCluster/g", 2)})
        (leads,) = [each for each in self.said if each["event"] == "master.leads"]
        self.assertEqual((leads["broker_id"], leads["epoch"]), (elected[0]["master"], 2))
        roles = [(each["before"], each["role"]) for each in self.said if each["event"] == "role.changed"]
        self.assertIn(("FENCED", "MASTER"), roles)
        self.assertNotIn("master.retires", {each["event"] for each in self.said})

    def test_stopped(self) -> None:
        """It hands over: it takes no more messages before the other one leads."""
        stopping = self.service(self.first).stopService()
        self.until_another_leads()
        self.await_(stopping)
        names = [each["event"] for each in self.said]
        order = ["broker.stopping", "master.retires", "group.elected", "master.leads", "broker.stopped"]
        self.assertEqual(sorted(order, key=names.index), order)
        elected = next(each for each in self.said if each["event"] == "group.elected")
        self.assertEqual(elected["cause"], "HANDED_OVER")
        before, after = (
            f"broker {self.number(each)} ({self.service(each).broker.state.identity.address})"
            for each in (self.first, self.master())
        )
        self.assertEqual(elected["reason"], f"{before} was stopping and handed over to {after}")
        self.first.exited("stopped")

    def test_the_set(self) -> None:
        """Who leaves the SyncStateSet, and comes back, is an event of the master and of each controller."""
        gone = self.number(self.others[0])
        self.others[0].kill()
        self.until("it is out", lambda: len(self.members()) == 2)
        self.others[0].start()
        self.whole()
        mine = [each["in_sync"] for each in self.said if each["event"] == "set.changed"]
        everybody = [1, 2, 3]
        self.assertEqual(mine, [[each for each in everybody if each != gone], everybody])
        theirs = [each["in_sync"] for each in self.said if each["event"] == "group.set_changed"]
        self.assertEqual(sorted(theirs), sorted(mine * 3))
        self.assertIn("broker.identified", {each["event"] for each in self.said})

    def test_a_controller_that_starts_again(self) -> None:
        """What it reads in its log happened before, and is no event; it is on its page, with the time that it had."""
        host = next(each for each in self.controllers if each is not self.leader())
        self.run_for(1.0)  # a follower is told last what was decided
        self.said.clear()
        before = page_of(host).moments
        self.assertEqual(len(before), 3)
        host.kill()
        host.start()
        self.run_for(0.01)
        self.until("it has the log", lambda: page_of(host).moments == before)
        names = {each["event"] for each in self.said}
        self.assertIn("controller.started", names)
        self.assertFalse({"group.elected", "group.set_changed"} & names)


def page_of(host: Host) -> Overview:
    """What the status page of the service on a host would show."""
    assert host.process is not None
    found = host.process.service.overview()
    assert isinstance(found, Overview)
    return found


class PageTests(ControlledCase):
    """What each process of a group knows: that, and no more."""

    def setUp(self) -> None:
        super().setUp()
        self.first = self.start_group()
        self.send_many(self.first, 20)
        self.until("all have it", lambda: self.level(*self.brokers))
        self.run_for(2.0)  # the next heartbeats say so

    def test_controllers(self) -> None:
        """Each knows the whole group and every decision; only the one that leads knows who else is there."""
        leader = self.leader()
        assert leader is not None
        for host in self.controllers:
            found = page_of(host)
            (group,) = found.groups
            end = self.log(self.first).end
            self.assertEqual((group.name, group.epoch, group.set_epoch), (NAME, 1, 3))
            rows = [(each.broker_id, each.role, each.in_sync, each.end, each.lag_bytes) for each in group.replicas]
            others = [(number, "slave", True, end, 0) for number in (2, 3)]
            self.assertEqual(rows, [(1, "master", True, end, 0), *others])
            decided = [each.event for each in found.moments]
            self.assertEqual(decided, ["group.elected", "group.set_changed", "group.set_changed"])
            self.assertEqual({each.kind for each in found.processes}, {"controller", "broker"})
            self.assertEqual([each.well for each in found.processes if each.kind == "broker"], [True] * 3)
            states = {each.name: (each.state, each.well) for each in found.processes if each.kind == "controller"}
            self.assertEqual(states[leader.name], ("leads", True))
            self.assertEqual(states[host.name][1], True)
            unknown = [name for name, (_, well) in states.items() if well is None]
            self.assertEqual(len(unknown), 0 if host is leader else 1)
            self.assertEqual((found.topics, found.consumers), ((), ()))

    def test_a_replica_that_died(self) -> None:
        """It is there, is not heard, and has no lag that anybody could know."""
        other = self.brokers[1]
        number = self.number(other)
        other.kill()
        self.until("it is out", lambda: len(self.members()) == 2)
        leader = self.leader()
        assert leader is not None
        (group,) = page_of(leader).groups
        gone = next(each for each in group.replicas if each.broker_id == number)
        self.assertEqual((gone.role, gone.in_sync, gone.end, gone.lag_bytes), ("", False, None, None))
        process = next(each for each in page_of(leader).processes if each.name.endswith(f"{NAME}:{number}"))
        self.assertFalse(process.well)

    def test_a_master(self) -> None:
        """Its replicas as its links know them, by their ids; its topics and who reads them."""
        fields = {"consumerGroup": "readers", "topic": "T", "queueId": "0", "commitOffset": "3"}
        self.service(self.first).broker.state.find_group("readers")  # a heartbeat would make it
        self.assertEqual(self.ask(self.first, RequestCode.UPDATE_CONSUMER_OFFSET, fields).code, 0)
        found = page_of(self.first)
        (group,) = found.groups
        rows = [(each.broker_id, each.role, each.in_sync, each.lag_bytes) for each in group.replicas]
        self.assertEqual(sorted(rows), [(1, "master", True, 0), (2, "slave", True, 0), (3, "slave", True, 0)])
        self.assertEqual((group.epoch, group.set_epoch), (1, 3))
        (topic,) = found.topics
        self.assertEqual((topic.name, topic.messages), ("T", 20))
        (row,) = found.consumers
        queue = self.service(self.first).broker.store.queues.queues["T"][0]
        self.assertEqual((row.group, row.topic, row.lag, row.members), ("readers", "T", queue.next_offset - 3, 0))

    def test_a_slave(self) -> None:
        """Itself and its master; of the other replicas nothing, and where that is."""
        slave = next(host for host in self.brokers if host is not self.first)
        found = page_of(slave)
        (group,) = found.groups
        self.assertEqual([(each.role, each.in_sync) for each in group.replicas], [("slave", None)])
        master = next(each for each in found.processes if each.state == "master")
        self.assertEqual(master.address, self.service(self.first).broker.state.identity.address)
        self.assertTrue(any("master's page" in each for each in found.notes))


class DLedgerTests(DLedgerCase):
    """In DLedger mode nobody but the members knows why."""

    def test_stopped(self) -> None:
        """The leader that stops says to whom it handed over; each of the others whom it follows."""
        first = self.start_group()
        said = events_of(self)
        self.stop(first)
        second = self.master()
        handed = next(each for each in said if each["event"] == "raft.handed_over")
        self.assertEqual((handed["member"], handed["reason"]), (first.name, "this broker stops"))
        self.assertEqual(handed["leader"], second.name)
        leaders = {each["member"]: each["leader"] for each in said if each["event"] == "raft.leader_changed"}
        self.assertEqual({leaders[host.name] for host in self.brokers if host is not first}, {second.name})
        followed = [each for each in said if each["event"] == "master.followed"]
        self.assertEqual({each["address"] for each in followed}, {self.service(second).broker.state.identity.address})

    def test_page(self) -> None:
        """The leader's page has its members' lag by their ids; there is no SyncStateSet with an epoch."""
        first = self.start_group()
        self.send_many(first, 5)
        self.run_for(2.0)
        (group,) = page_of(first).groups
        rows = sorted((each.broker_id, each.role, each.lag_bytes) for each in group.replicas)
        own = self.replication(first).own_id
        self.assertEqual(rows, [(each, "master" if each == own else "slave", 0) for each in (1, 2, 3)])
        self.assertIsNone(group.set_epoch)
