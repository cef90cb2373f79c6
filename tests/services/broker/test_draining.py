"""A planned stop of a master whose clients do not know it yet: what they still send to it is passed on."""

from __future__ import annotations

import unittest
from typing import Any

from twisted.internet import defer

from rocketha.broker.role import Role
from rocketha.services.broker.controller_client import ControllerClient
from rocketha.services.broker.draining import ASK_S, DOUBT_ASK_S, DOUBT_S, INNER_PRODUCER
from rocketha.simulation.host import Host
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.services.broker_case import pull_fields, records
from tests.services.controlled_case import CONTROLLER_PORT, ControlledCase
from tests.services.replication_case import NAMESERVER_PORT

POLL_S = 30.0
"""A Java client asks for routes so often."""


class LingeringTests(ControlledCase):
    """Of three brokers, the master."""

    controllers_count = 1
    linger = ""

    def setUp(self) -> None:
        super().setUp()
        self.names = self.nameserver()
        self.keys = f"namesrvAddr={self.names.address}:{NAMESERVER_PORT}\n{self.linger}"
        self.first = self.start_group()
        self.others = [host for host in self.brokers if host is not self.first]
        self.assertEqual(self.send(self.first), 0)  # the topic is there
        self.sent = 0
        self.answers: dict[int, Any] = {}

    # -- what clients do

    def heartbeat(self, host: Host, *groups: str) -> None:
        """As a Java producer's."""
        rows = [{"groupName": group} for group in (*groups, INNER_PRODUCER)]
        body = {"clientID": "c", "consumerDataSet": [], "heartbeatFingerprint": 0, "producerDataSet": rows}
        self.assertEqual(self.ask(host, RequestCode.HEART_BEAT, {}, json_dialect.dumps(body)).code, 0)

    def send_one(self, host: Host) -> None:
        """And do not wait."""
        number, self.sent = self.sent, self.sent + 1

        def answered(answer: Any) -> None:
            self.answers[number] = answer.code if isinstance(answer, Command) else answer.getErrorMessage()

        self.sending(host, b"%d" % number).addBoth(answered)

    def keep_sending(self, host: Host, seconds: float) -> None:
        """A message every 10 ms."""
        until = self.world.now + seconds
        while self.world.now < until:
            self.send_one(host)
            self.run_for(0.01)

    def stop_first(self) -> defer.Deferred[Any]:
        """SIGTERM."""
        return defer.maybeDeferred(self.service(self.first).stopService)

    def failed(self) -> dict[int, Any]:
        """Sends that were not acknowledged."""
        self.until("all answers", lambda: len(self.answers) == self.sent)
        return {number: answer for number, answer in self.answers.items() if answer != 0}

    def stored(self) -> list[int]:
        """Numbers of the messages, as the present master has them."""
        master, found, offset = self.master(), [], 1
        while batch := records(self.pull(master, offset)):
            found += [int(each.body) for each in batch]
            offset += len(batch)
        return found

    def brokers_named(self) -> int:
        """How many the nameserver names for the topic."""
        answer = self.ask_nameserver(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        return len(json_dialect.loads(answer.body)["brokerDatas"][0]["brokerAddrs"])

    def ask_nameserver(self, code: int, fields: dict[str, str]) -> Command:
        assert self.client_host.process is not None
        client = self.client_host.process.service
        found: Command = self.await_(client.request(f"{self.names.address}:{NAMESERVER_PORT}", code, fields, b"", 3.0))
        return found


class DefaultTests(LingeringTests):
    """The keys as they are."""

    def test_a_producer_with_a_stale_route(self) -> None:
        """Sends to the former master until its next poll: nothing fails, all is stored once and in order."""
        self.heartbeat(self.first, "PG")
        self.keep_sending(self.first, 0.5)
        stopping = self.stop_first()
        self.keep_sending(self.first, 1.0)
        self.assertEqual(self.brokers_named(), 2)
        self.assertEqual(len(self.members()), 2, "a broker that lingers is no replica")
        self.assertFalse(self.first.disk.exists("/store/abort"), "its store is closed")
        self.keep_sending(self.first, POLL_S - 1.0)
        self.assertFalse(stopping.called)
        moved = self.world.now
        self.keep_sending(self.master(), 1.0)
        self.await_(stopping)
        self.assertApproximates(self.world.now - moved, 2.0, 0.1)
        self.assertEqual(self.failed(), {})
        self.assertEqual(self.stored(), list(range(self.sent)))

    def test_a_producer_that_never_moves(self) -> None:
        """Is not waited for any longer than was said."""
        self.heartbeat(self.first, "PG")
        began, stopping = self.world.now, self.stop_first()
        while not stopping.called:
            self.keep_sending(self.first, 0.1)
            self.assertLess(self.world.now - began, 40.0)
        self.assertApproximates(self.world.now - began, 35.0, 0.5)

    def test_a_producer_that_is_silent(self) -> None:
        """May send: it is waited for as long as it is for one that has moved."""
        self.heartbeat(self.first, "PG")
        began = self.world.now
        self.await_(self.stop_first())
        self.assertApproximates(self.world.now - began, 2.0, 0.3)

    def test_no_producer(self) -> None:
        """Nobody is waited for; a consumer's own producer group is none."""
        self.heartbeat(self.first)
        began = self.world.now
        self.await_(self.stop_first())
        self.assertLess(self.world.now - began, 0.5)
        self.assertIn(self.master(), self.others)

    def test_a_consumer_with_a_stale_route(self) -> None:
        """Gets what the new master has."""
        self.heartbeat(self.first, "PG")
        stopping = self.stop_first()
        self.until("it lingers", lambda: not self.first.disk.exists("/store/abort"))
        self.send_one(self.first)
        self.assertEqual(self.failed(), {})
        found = self.ask(self.first, RequestCode.PULL_MESSAGE, pull_fields(offset=1))
        self.assertEqual([each.body for each in records(found)], [b"0"])
        self.await_(stopping)

    def test_the_master_changes_again(self) -> None:
        """While it lingers: what comes then goes to the next one, also what the second refuses as it is replaced."""
        self.heartbeat(self.first, "PG")
        stopping = self.stop_first()
        self.keep_sending(self.first, 1.0)
        second = self.master()
        ended = defer.maybeDeferred(self.service(second).stopService)
        self.keep_sending(self.first, 4.0)
        self.assertTrue(ended.called)
        self.assertFalse(stopping.called)
        self.assertNotIn(self.master(), (self.first, second))
        self.assertEqual(self.service(self.first).broker.watch.address, f"{self.master().address}:10911")
        self.assertEqual(self.failed(), {})
        self.assertEqual(sorted(self.stored()), list(range(self.sent)))
        draining = self.service(self.first).broker.draining
        assert draining is not None
        self.await_(stopping)
        self.assertIsNone(draining._controllers)
        self.assertIsNone(draining._next_question)

    def test_it_is_told_that_there_is_a_newer_master(self) -> None:
        """It asks at once and often: what was refused waits for the answer.  After a while as before."""
        self.heartbeat(self.first, "PG")
        stopping = self.stop_first()
        self.keep_sending(self.first, 1.0)
        broker = self.service(self.first)
        draining, ask, questions = broker.broker.draining, ControllerClient.ask, []
        assert draining is not None

        def asking(client: ControllerClient, *what: Any) -> Any:
            if client is draining._controllers:
                questions.append(self.world.now)
            return ask(client, *what)

        self.patch(ControllerClient, "ask", asking)
        self.until("it asks", lambda: bool(questions))
        self.run_for(0.05)
        broker.broker.core.platform.reactor.callLater(0.0, draining._doubted)
        del questions[:]
        self.keep_sending(self.first, DOUBT_ASK_S)
        self.assertEqual(len(questions), 1)
        self.keep_sending(self.first, DOUBT_S - DOUBT_ASK_S)
        self.assertGreater(len(questions), 0.8 * DOUBT_S / DOUBT_ASK_S)
        del questions[:]
        self.keep_sending(self.first, DOUBT_S)
        self.assertLess(len(questions), 2 + DOUBT_S / ASK_S)
        self.assertEqual(self.failed(), {})
        self.await_(stopping)

    def test_another_cluster_has_a_group_of_that_name(self) -> None:
        """The controllers are asked about this one, though no heartbeat on that connection says which it is."""
        address = f"{self.controllers[0].address}:{CONTROLLER_PORT}"
        self.broker("other", f"enableControllerMode=true\ncontrollerAddr={address}\nbrokerClusterName=other\n")
        self.heartbeat(self.first, "PG")
        stopping = self.stop_first()
        self.keep_sending(self.first, 1.0)
        self.master().kill()
        self.keep_sending(self.first, 8.0)
        self.assertFalse(stopping.called)
        self.assertEqual(self.service(self.first).broker.watch.address, f"{self.master().address}:10911")
        self.await_(stopping)

    def test_requests_of_other_kinds(self) -> None:
        """Are refused: there is no store any more."""
        self.heartbeat(self.first, "PG")
        stopping = self.stop_first()
        self.until("it lingers", lambda: not self.first.disk.exists("/store/abort"))
        for code in (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.HEART_BEAT, RequestCode.GET_MAX_OFFSET):
            self.assertNotEqual(self.ask(self.first, code, {"topic": "T", "queueId": "0"}).code, 0, code)
        self.await_(stopping)

    def test_killed_meanwhile(self) -> None:
        """Nothing is to be recovered."""
        self.heartbeat(self.first, "PG")
        stopping = self.stop_first()
        self.keep_sending(self.first, 5.0)
        self.assertFalse(stopping.called)
        self.first.kill()
        self.restart(self.first)
        recovery = self.service(self.first).broker.recovery
        assert recovery is not None
        self.assertTrue(recovery.clean)
        self.whole()
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)

    def test_a_second_signal(self) -> None:
        """Ends it, at any moment."""
        for seconds in (0.0, 1.0):
            first = self.first = self.master()
            self.heartbeat(first, "PG")
            broker, stopping = self.service(first), self.stop_first()
            self.keep_sending(first, seconds)
            broker.hurry()
            self.assertLess(self.until("it ends", lambda: self.answered(stopping)), 0.5)  # noqa: B023
            first.exited("stopped")
            self.restart(first)
            self.whole()

    def test_slaves(self) -> None:
        """One that nobody sends to ends at once; one that passes sends on after an election does not."""
        began, slave = self.world.now, self.others[0]
        self.heartbeat(slave, "PG")
        self.stop(slave)
        self.assertLess(self.world.now - began, 0.5)
        slave = self.others[1]
        self.assertIs(self.role(slave), Role.SLAVE)
        self.send_one(slave)
        self.run_for(1.0)
        began = self.world.now
        self.stop(slave)
        self.assertApproximates(self.world.now - began, 2.0, 0.3)
        self.assertEqual(self.failed(), {})

    def test_nobody_takes_it_over(self) -> None:
        """There is nobody to pass anything on to."""
        for slave in self.others:
            self.stop(slave)
        self.until("the set is small", lambda: len(self.members()) == 1)
        self.heartbeat(self.first, "PG")
        began = self.world.now
        self.stop(self.first)
        self.assertLess(self.world.now - began, 0.5)


class SyncFlushTests(LingeringTests):
    """With a store that is in use at the end of each turn."""

    linger = "flushDiskType=SYNC_FLUSH\n"

    def test_a_closed_store_is_left_alone(self) -> None:
        """By what is passed on, and by connections that come and go."""
        self.heartbeat(self.first, "PG")
        self.keep_sending(self.first, 0.2)
        stopping = self.stop_first()
        self.until("it lingers", lambda: not self.first.disk.exists("/store/abort"))
        touched: list[str] = []
        store = self.service(self.first).broker.store
        for name in ("flush_job", "settle", "append"):  # what turns and connections do otherwise
            self.patch(store, name, lambda *_, name=name: touched.append(name))
        self.keep_sending(self.first, 1.0)
        self.world.network.between(self.client_host.address, self.first.address)[0].reset()
        self.run_for(0.1)
        self.keep_sending(self.first, 1.0)
        self.assertEqual(touched, [])
        self.await_(stopping)
        self.assertLess(len(self.failed()), 3, "those that were on the connection that broke")


class ElectedTests(LingeringTests):
    """Where a broker outside the SyncStateSet may be elected."""

    controller_keys = "enableElectUncleanMaster=true"

    def test_it_is_elected_itself(self) -> None:
        """All others die, and its port still answers: it ends, so that it can be started, and leads."""
        self.heartbeat(self.first, "PG")
        number, stopping = self.number(self.first), self.stop_first()
        self.keep_sending(self.first, 1.0)
        for each in self.others:
            each.kill()
        while self.group().master != number:
            self.assertFalse(stopping.called)
            self.keep_sending(self.first, 0.1)
        self.keep_sending(self.first, 1.0)
        self.assertTrue(stopping.called, "it goes on, and nobody can lead")
        self.first.exited("stopped")
        self.restart(self.first)
        self.assertIs(self.master(), self.first)
        self.assertEqual(self.send(self.first), 0)

    def test_whoever_sends_then_is_refused_at_once(self) -> None:
        """What waited for a master, and what comes: nobody will take it here, perhaps another group does."""
        self.heartbeat(self.first, "PG")
        stopping = self.stop_first()
        self.keep_sending(self.first, 1.0)
        for each in self.others:
            each.kill()
        heard: list[float] = []
        self.service(self.first).broker.watch.watch(lambda: heard.append(self.world.now))
        while not stopping.called:
            self.keep_sending(self.first, 0.01)
            self.assertLess(self.world.now, 600.0)
        self.assertLess(self.world.now - heard[-1], 0.02)
        refused = [number for number, code in self.failed().items() if code == ResponseCode.SERVICE_NOT_AVAILABLE]
        self.assertGreater(len(refused), 0)


class BriefTests(LingeringTests):
    """For those who never move, two seconds."""

    linger = "handoverLinger=2000"

    def test_nobody_is_left_in_doubt_at_its_end(self) -> None:
        """What was passed on is answered; what comes then is refused, so that its client goes elsewhere."""
        self.heartbeat(self.first, "PG")
        stopping = self.stop_first()
        forwarding = self.service(self.first).broker.forwarding
        self.keep_sending(self.first, 1.5)
        while not stopping.called:
            self.send_one(self.first)
            self.run_for(0.001)
        failed = self.failed()
        self.assertEqual((forwarding.doubtful, forwarding.awaited), (0, 0))
        stored = [number for number in range(self.sent) if number not in failed]
        self.assertEqual(self.stored(), stored, "a send that failed is stored")
        self.assertIn(ResponseCode.SERVICE_NOT_AVAILABLE, failed.values())


class NoLingeringTests(LingeringTests):
    """handoverLinger=0."""

    linger = "handoverLinger=0\n"

    def test_it_ends_at_once(self) -> None:
        """Whoever sends."""
        self.heartbeat(self.first, "PG")
        stopping = self.stop_first()
        began = self.world.now
        while not stopping.called:
            self.keep_sending(self.first, 0.05)
            self.assertLess(self.world.now - began, 0.5)
        self.keep_sending(self.first, 0.05)
        self.assertNotEqual(self.failed(), {}, "its port refuses")


if __name__ == "__main__":
    unittest.main()
