"""A group under controllers: what was acknowledged besides messages outlives a switch, which no client notices."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.internet import error

from rocketha.broker.forward_rules import EPOCH_MARK, MARK, NEWER_MARK
from rocketha.services.replication.metadata_slave import Following
from rocketha.simulation.host import Host
from rocketha.wire.codes import RequestCode
from tests.broker.support import topic_fields
from tests.services.broker_case import heartbeat, pull_fields, records
from tests.services.controlled_case import CLUSTER, NAME, ControlledCase

ONE_S, FIVE_S = "DELAY\x011\x02", "DELAY\x012\x02"
"""Of levels that wait 1 s and 5 s."""


def key(number: int) -> str:
    return f"UNIQ_KEY\x01{number:032X}\x02"


class SwitchCase(ControlledCase):
    controllers_count = 1
    keys = "allAckInSyncStateSet=true"

    def setUp(self) -> None:
        super().setUp()
        self.old = self.start_group()
        self.send(self.old)
        self.run_for(1)

    def elect(self, host: Host) -> None:
        """An operator moves mastership there."""
        leader = self.leader()
        assert leader is not None
        header = {
            "clusterName": CLUSTER,
            "brokerName": NAME,
            "brokerId": str(self.number(host)),
            "designateElect": "true",
            "invokeTime": str(int(self.world.now * 1000)),
        }
        client = self.client_host.process.service  # type: ignore[union-attr]
        asked = client.request(f"{leader.address}:9878", RequestCode.CONTROLLER_ELECT_MASTER, header, b"", 10.0)
        self.world.scheduler.flush()
        self.assertEqual(self.await_(asked).code, 0)

    def other(self) -> Host:
        return next(host for host in self.brokers if host is not self.old)

    def other_leads(self, former: Host) -> None:
        """Wait for another master."""
        self.until("another master", lambda: self.masters() and self.masters()[0] is not former)

    def connect_again(self, host: Host) -> None:
        """The client finds out that its connection is one to a process that died."""
        asked = self.asking(host, RequestCode.GET_BROKER_RUNTIME_INFO)
        asked.addErrback(lambda failure: failure.trap(error.ConnectionClosed))
        self.await_(asked)

    def bodies(self, host: Host, topic: str = "T", queue_id: int = 0) -> list[bytes]:
        """Everything of a queue."""
        found: list[bytes] = []
        while True:
            answer = self.ask(
                host, RequestCode.PULL_MESSAGE, pull_fields(topic=topic, queue_id=queue_id, offset=len(found))
            )
            if answer.code:
                return found
            found += [message.body for message in records(answer)]


class LastingTests(SwitchCase):
    def test_f2_made_and_killed(self) -> None:
        """Regression F2: the power goes in the moment of the answer, whoever is elected next."""
        for number in range(3):
            master = self.master()
            waiting = self.asking(master, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields(f"Made{number}", 3))
            while not self.answered(waiting):
                self.run_for(0.0002)  # no more than one message of the network in between
            self.assertEqual(self.await_(waiting).code, 0)
            master.power_off()
            self.other_leads(master)
            again = self.service(self.master()).broker.state.topics.get(f"Made{number}")
            assert again is not None
            self.assertEqual(again.write_queue_nums, 3)
            master.start()
            self.whole()
            self.connect_again(master)

    def test_f2_sent_and_killed(self) -> None:
        """A topic that came to be by an acknowledged message, before any replica asked for tables again."""
        for number in range(3):
            master = self.master()
            for host in self.brokers:
                following = self.service(host).broker.metadata._following  # type: ignore[union-attr]
                if following is not None:
                    following.end()
            self.assertEqual(self.send(master, b"first", topic=f"Sent{number}", queue_id="2"), 0)
            master.power_off()
            self.other_leads(master)
            self.assertEqual(self.bodies(self.master(), f"Sent{number}", 2), [b"first"])
            self.assertEqual(self.send(self.master(), topic=f"Sent{number}", queue_id="3"), 0)
            master.start()
            self.whole()
            self.connect_again(master)

    def test_a_replica_does_not_take_it(self) -> None:
        """The answer is an error that names it, and success once it has it."""
        frozen = self.other()
        frozen.freeze(whole=False)
        answer = self.ask(self.old, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("Made"))
        self.assertEqual(answer.code, 1)
        self.assertIn("did not take it", answer.remark or "")
        frozen.thaw()
        self.run_for(1)
        answer = self.ask(self.master(), RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("Made"))
        self.assertEqual(answer.code, 0)
        for host in self.brokers:
            self.assertIn("Made", self.service(host).broker.state.topics)

    def test_who_lacks_the_tables_does_not_join_the_set(self) -> None:
        """A topic that was acknowledged before it came would be gone when it is elected (seen in simulation)."""
        third = self.brokers[2]
        third.kill()
        self.until("the others go on", lambda: len(self.members()) == 2)
        with mock.patch.object(Following, "begin"):
            third.start()
            self.started(third)
            self.until("its log follows", lambda: self.level(*self.brokers))
            self.assertEqual(self.ask(self.old, 17, topic_fields("Made")).code, 0)  # not a member: not waited for
            self.run_for(3)
            self.assertEqual(len(self.members()), 2)
        following = self.service(third).broker.metadata._following  # type: ignore[union-attr]
        assert following is not None
        following.begin()
        self.until("it is a member", lambda: len(self.members()) == 3, 1.5)
        self.assertIn("Made", self.service(third).broker.state.topics)

    def test_offsets_and_groups(self) -> None:
        """A second after the commit they are everywhere; groups of a heartbeat too."""
        self.ask(self.old, RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        commit = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}
        self.assertEqual(self.ask(self.old, RequestCode.UPDATE_CONSUMER_OFFSET, commit).code, 0)
        self.run_for(1.3)
        self.old.kill()
        self.other_leads(self.old)
        service = self.service(self.master())
        self.assertEqual(service.broker.state.offsets.query("G", "T", 0), 1)
        self.assertIn("G", service.broker.state.groups)
        self.assertIn("%RETRY%G", service.broker.state.topics)

    def test_a20_delayed_messages(self) -> None:
        """Over a hundred switches, planned ones and kills in turn, each is delivered once; levels of 1 s and of 5 s,
        so that some wait over several switches.  A master is replaced just after a delivery, when nobody may know of it
        yet but the log."""
        sent, switches = [], 0
        for round_ in range(100):
            master = self.master()
            for number in range(3):
                body = b"%d.%d" % (round_, number)
                level = FIVE_S if number == 2 else ONE_S
                if self.send(master, body, topic="T", properties=key(round_ * 10 + number) + level) == 0:
                    sent.append(body)
                self.run_for(0.13)
            delivered = self.service(master).broker.store.max_offset("T", 0)
            while self.service(master).broker.store.max_offset("T", 0) == delivered:
                self.run_for(0.0005)
            self.run_for(0.0005 * (round_ % 9))
            if round_ % 2:
                master.kill()
                self.other_leads(master)
                master.start()
            else:
                self.elect(next(host for host in self.brokers if host is not master))
                self.other_leads(master)
            self.whole()
            switches += self.master() is not master
        self.run_for(8)
        found = self.bodies(self.master())
        self.assertEqual(sorted(found[1:]), sorted(sent))
        self.assertGreater(len(sent), 290)
        self.assertEqual(switches, 100)


class StaleRouteTests(SwitchCase):
    """A producer that knows the old master only, as a Java client does for up to 30 s."""

    def stream(self, host: Host, for_s: float, sent: dict[bytes, Any], oneway: bool = False) -> None:
        until = self.world.now + for_s
        while self.world.now < until:
            body = b"%06d" % len(sent)
            sent[body] = self.sending(host, body, properties=key(len(sent)))
            self.run_for(0.004)

    def test_a_planned_switch_refuses_nobody(self) -> None:
        """Sends to the old master before, during and after: all stored once, in order, and told so."""
        sent: dict[bytes, Any] = {}
        self.stream(self.old, 0.5, sent)
        self.elect(self.other())
        self.stream(self.old, 1.5, sent)
        self.other_leads(self.old)
        self.stream(self.old, 0.5, sent)
        self.run_for(3)
        codes = [self.await_(waiting).code for waiting in sent.values()]
        self.assertEqual([code for code in codes if code not in (0, 12)], [])
        self.assertLess(codes.count(12), 20)  # those whose wait for replicas was cut short by the switch: stored
        self.assertEqual(self.bodies(self.master())[1:], list(sent))
        self.assertGreater(self.service(self.old).broker.forwarding.forwarded, 100)  # type: ignore[union-attr]

    def test_back_and_forth(self) -> None:
        """Each becomes master again and again; the producer never learns of it.  A request under way to a master that
        is replaced by the one that passed it on may be overtaken; none is lost or stored twice."""
        sent: dict[bytes, Any] = {}
        for number in range(4):
            target = self.brokers[number % 2 + 1] if number % 2 else self.old
            if self.master() is not target:
                self.elect(target)
            self.stream(self.old, 0.7, sent)
            self.until("it leads", lambda target=target: self.masters() == [target])  # type: ignore[misc]
        self.run_for(3)
        codes = [self.await_(waiting).code for waiting in sent.values()]
        self.assertEqual([code for code in codes if code not in (0, 12)], [])
        self.assertEqual(sorted(self.bodies(self.master())[1:]), list(sent))

    def test_an_offset_passed_on_to_one_that_was_replaced(self) -> None:
        """Is not taken there, where it would be overwritten; who passed it on is told why, and goes to the master."""
        commit = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}
        epoch = self.service(self.old).broker.watch.epoch
        for mark in ({EPOCH_MARK: str(epoch - 1)}, {}):
            answer = self.ask(self.other(), RequestCode.UPDATE_CONSUMER_OFFSET, {**commit, **mark, MARK: "10.9.9.9:1"})
            self.assertEqual((answer.code, answer.fields.get(NEWER_MARK)), (2, str(epoch)))
        self.assertEqual(self.service(self.other()).broker.state.offsets.query("G", "T", 0), -1)

    def test_a_consumer(self) -> None:
        """Its pulls, commits and questions go on at the old address, without a pause of seconds."""
        for host in self.brokers:
            self.ask(host, RequestCode.HEART_BEAT, body=heartbeat("c", "G", "T"))
        self.elect(self.other())
        self.other_leads(self.old)
        waiting = self.asking(self.old, RequestCode.PULL_MESSAGE, pull_fields(offset=1, sysFlag="2"))
        self.run_for(0.3)
        self.assertEqual(self.send(self.master(), b"two"), 0)
        self.assertEqual([found.body for found in records(self.await_(waiting, 2))], [b"two"])
        commit = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "2"}
        self.assertEqual(self.ask(self.old, RequestCode.UPDATE_CONSUMER_OFFSET, commit).code, 0)
        self.assertEqual(self.service(self.master()).broker.state.offsets.query("G", "T", 0), 2)
