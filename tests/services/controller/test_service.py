"""The controller's service: real sockets, scripted brokers, one node and three."""

from __future__ import annotations

import types
from typing import Any

from twisted.internet import defer, reactor

from rocketha.controller.failure_detector import FailureDetector
from rocketha.controller.liveness import ReplicaKey
from rocketha.raft.elections import Elections
from rocketha.wire import json_dialect
from rocketha.wire.codes import PrivateCode, ResponseCode
from rocketha.wire.codes import RequestCode as Code
from tests.interop.harness.ports import free_ports
from tests.services.controller_case import CLUSTER, NAME, ControllerCase, FakeBroker, pause, until


def now() -> float:
    return float(reactor.seconds())  # type: ignore[attr-defined]


class RegistrationTests(ControllerCase):
    """One controller: ids, registration, the first master, the set."""

    @defer.inlineCallbacks
    def test_first_registration(self) -> Any:
        """Ids in order, the first who asks is the master, the set grows, and everybody is told what is so."""
        one, two, three = yield self.start_brokers(3)
        self.assertEqual([one.id, two.id, three.id], [1, 2, 3])
        self.assertEqual([one.master, two.master, three.master], [(1, 1)] * 3)
        self.assertEqual((self.master(), self.group.in_sync), ((1, 1), (1, 2, 3)))

    @defer.inlineCallbacks
    def test_restart_keeps_everything(self) -> Any:
        """Ids, epochs and set survive the controller."""
        yield self.start_brokers(2)
        yield self.nodes["n0"].stopService()
        self.start_node("n0")
        yield self.await_leader()
        self.assertEqual((self.master(), self.group.in_sync), ((1, 1), (1, 2)))
        answer = yield self.brokers[0].ask(Code.CONTROLLER_GET_NEXT_BROKER_ID, clusterName=CLUSTER, brokerName=NAME)
        self.assertEqual(answer.fields["nextBrokerId"], "3")

    @defer.inlineCallbacks
    def test_whose_group_is_meant(self) -> Any:
        """1001 and 1004 name a broker only: of a connection that has not said which cluster it is of, nobody knows
        whose.  A Java broker of another cluster, whose group is not known here, would follow this one's master.
        """
        one, _ = yield self.start_brokers(2)
        connection = yield one._out.dial(self.leader().config.self_address, 5.0)

        def ask(**more: str) -> Any:
            return connection.request(Code.CONTROLLER_GET_REPLICA_INFO, {"brokerName": NAME, **more}, timeout_s=5.0)

        def alter() -> Any:
            fields = {"brokerName": NAME, "masterBrokerId": "1", "masterEpoch": "1"}
            body = json_dialect.dumps({"syncStateSet": [1], "syncStateSetEpoch": self.group.set_epoch})
            return connection.request(Code.CONTROLLER_ALTER_SYNC_STATE_SET, fields, body, timeout_s=5.0)

        others = (ask(clusterName="D"), 2008), (ask(clusterName=CLUSTER), 0)
        for asked, code in ((ask(), 2005), (alter(), 2013), *others):
            answer = yield asked
            self.assertEqual(answer.code, code)
        self.assertEqual(self.group.in_sync, (1, 2))
        beat = {"clusterName": CLUSTER, "brokerName": NAME, "brokerAddr": "h:1", "brokerId": "9"}
        connection.notify(Code.BROKER_HEARTBEAT, beat)
        for asked in (ask(), alter()):
            answer = yield asked
            self.assertEqual(answer.code, 0)
        connection.abort()

    @defer.inlineCallbacks
    def test_refusals_change_nothing_and_cost_no_entry(self) -> Any:
        """A broker that asks for what is so already gets its answer after a barrier."""
        yield self.start_brokers(2)
        before = self.leader().state.index
        answers = []
        for number in (0, 1):
            found = yield self.brokers[number].elect()
            answers.append((found.code, found.fields.get("masterBrokerId")))
        again = yield self.brokers[0].alter(1, 2)
        self.assertEqual((answers, again.code), ([(2011, "1"), (2011, "1")], 2013))
        self.assertEqual(self.leader().state.index, before)
        names = ("CONTROLLER_ALTER_SYNC_STATE_SET", "CONTROLLER_ALTER_SYNC_STATE_SET_FAILED")
        self.assertEqual(self.leader().refusals.requests, {names: 1})

    @defer.inlineCallbacks
    def test_cluster_of_a_connection(self) -> Any:
        """1001 and 1004 name none: that of the heartbeats on the same connection counts (regression B5)."""
        (one,) = yield self.start_brokers(1)
        yield one.ask(
            Code.CONTROLLER_APPLY_BROKER_ID,
            clusterName="other",
            brokerName=NAME,
            appliedBrokerId="1",
            registerCheckCode="127.0.0.1:9;1",
        )
        one.beat()
        found = yield one.ask(Code.CONTROLLER_GET_REPLICA_INFO, brokerName=NAME)
        self.assertEqual(found.fields["masterBrokerId"], "1")

    @defer.inlineCallbacks
    def test_heartbeat_without_id(self) -> Any:
        """As Java: 2005, and good ones 0 with its words."""
        (one,) = yield self.start_brokers(1)
        bad = yield one.ask(Code.BROKER_HEARTBEAT, clusterName=CLUSTER, brokerName=NAME, brokerAddr="h:1")
        good = yield one.ask(
            Code.BROKER_HEARTBEAT, clusterName=CLUSTER, brokerName=NAME, brokerAddr="h:1", brokerId="9"
        )
        self.assertEqual(
            (bad.code, bad.remark, good.code, good.remark),
            (2005, "Heart beat with empty brokerId", 0, "Heart beat success"),
        )

    @defer.inlineCallbacks
    def test_unregistered(self) -> Any:
        """2010, 2008 and 2013 for who is unknown, and 3 for what is."""
        stranger = FakeBroker(self, 1)
        self.brokers.append(stranger)
        stranger.id = 5
        codes = []
        unknown = stranger.ask(Code.CONTROLLER_GET_REPLICA_INFO, brokerName="x")
        for asked in (stranger.register(), stranger.elect(), unknown, stranger.ask(4711)):
            answer = yield asked
            codes.append(answer.code)
        self.assertEqual(codes, [2010, 2010, 2008, 3])

    @defer.inlineCallbacks
    def test_adoption(self) -> Any:
        """Taking over from Java's controllers: brokers come with ids that this controller never gave."""
        stranger = FakeBroker(self, free_ports(1)[0])
        self.brokers.append(stranger)
        stranger.id = 3
        self.nodes["n0"].config.adopt_unknown_brokers = True
        stranger.listen()
        yield stranger.join()
        self.assertIsNone(self.group.master_id, "an operator must say who has everything")
        yield until("it is heard", lambda: self.alive(3))
        answer = yield stranger.ask(
            Code.CONTROLLER_ELECT_MASTER, clusterName=CLUSTER, brokerName=NAME, brokerId="3", designateElect="true"
        )
        self.assertEqual((answer.code, answer.remark), (0, None))
        yield until("it is told", lambda: stranger.master[0] == 3)
        self.assertEqual(self.group.master_id, 3)
        # A Java broker registers anew only when 1004 says 2008; by now its set is known.
        other = FakeBroker(self, free_ports(1)[0])
        self.brokers.append(other)
        other.id = 2
        other.listen()
        other.start_beats()
        yield until("it is heard", lambda: self.alive(2))
        answer = yield other.ask(Code.CONTROLLER_GET_REPLICA_INFO, brokerName=NAME)
        self.assertEqual(answer.code, 2008)
        answer = yield other.register()
        self.assertEqual((answer.code, answer.fields["masterBrokerId"]), (0, "3"))
        answer = yield other.ask(Code.CONTROLLER_GET_REPLICA_INFO, brokerName=NAME)
        self.assertEqual(answer.code, 0)


class ElectionTests(ControllerCase):
    """One controller, three brokers, and what befalls the master."""

    @defer.inlineCallbacks
    def setUp(self) -> Any:
        yield super().setUp()
        self.one, self.two, self.three = yield self.start_brokers(3)
        # The link to the master's port is what makes a refusal mean something.
        yield until("the link", lambda: self.leader()._watch.detector._reachable.get(self.one.address))

    def heard_offset(self, number: int) -> int:
        """End of log in a broker's last heartbeat."""
        return int(self.leader()._watch.evidence(ReplicaKey(CLUSTER, NAME, number)).max_offset)

    @defer.inlineCallbacks
    def test_killed(self) -> Any:
        """Its connection closes and its port refuses: elected by that, not by silence or by a lease, and told."""
        self.three.max_offset = 200
        yield until("it is heard of", lambda: self.heard_offset(3) == 200)
        yield self.one.kill()
        yield self.await_master(3)
        yield until("both are told", lambda: self.two.master == self.three.master == (3, 2))
        last = yield self.last_decision()
        self.assertEqual((last["why"], self.group.in_sync), ("PORT_REFUSED", (3,)))

    @defer.inlineCallbacks
    def test_a24_resets(self) -> Any:
        """Every connection reset, ten times: no switch, and nobody is told anything."""
        for _ in range(10):
            self.one.reset()
            yield pause(0.12)
        yield until("all is quiet", lambda: not self.leader()._watch.detector.states())
        self.assertEqual((self.master(), self.one.told, self.two.told), ((1, 1), [], []))
        self.assertGreater(self.leader()._watch.suspected, 5)

    @defer.inlineCallbacks
    def test_d2_frozen(self) -> Any:
        """Its kernel accepts, it does not answer: another is elected, not at once and long before its lease is over."""
        self.one.freeze()
        begun = now()
        yield self.await_master(2, 3)
        self.assertGreater(now() - begun, 0.35)
        last = yield self.last_decision()
        self.assertEqual(last["why"], "NOBODY_HEARS_IT")
        yield until("the others are told", lambda: self.two.master[1] == self.three.master[1] == 2)

    @defer.inlineCallbacks
    def test_a21_frozen_master_finds_its_demotion_when_it_thaws(self) -> Any:
        """In its socket, on a connection that it accepted before."""
        self.one.freeze()
        yield self.await_master(2, 3)
        yield until("the others are told and one is not", lambda: self.leader()._notices.pending == 1)
        self.assertEqual((self.one.told, self.two.master[1], self.three.master[1]), ([], 2, 2))
        self.one.thaw()
        yield until("it is told", lambda: self.one.told)
        self.assertEqual((self.one.master, self.one.told), (self.master(), [self.master()]))
        yield until("it answered", lambda: not self.leader()._notices.pending)

    @defer.inlineCallbacks
    def test_silent_but_answering(self) -> Any:
        """Its heartbeats do not come and its port answers: no election, and it may still change its set."""
        self.one._beats.stop()
        yield pause(1.2)
        answer = yield self.one.alter(1, 2)
        self.assertEqual((self.master(), answer.code, self.group.in_sync), ((1, 1), 0, (1, 2)))

    @defer.inlineCallbacks
    def test_a_replica_that_hears_the_master_vouches_for_it(self) -> Any:
        """Cut from the controller, frozen to it, but the link moves."""
        self.one.freeze()
        end = now() + 1.2
        while now() < end:
            self.two.read_ms += 10
            yield pause(0.01)
        self.assertEqual(self.master(), (1, 1))

    @defer.inlineCallbacks
    def test_b4_slave_dies(self) -> Any:
        """No election; it is no longer alive."""
        yield self.two.kill()
        yield until("it is known dead", lambda: not self.alive(2))
        yield pause(0.3)
        self.assertEqual((self.master(), self.one.told), ((1, 1), []))

    @defer.inlineCallbacks
    def test_a23_master_and_slave_die_together(self) -> Any:
        """The dead slave is not elected."""
        self.two.max_offset = 1000
        yield until("it is heard of", lambda: self.heard_offset(2) == 1000)
        yield defer.DeferredList([self.two.kill(), self.one.kill()])
        yield self.await_master(3)
        self.assertEqual(self.master(), (3, 2))

    @defer.inlineCallbacks
    def test_all_die_and_one_returns(self) -> Any:
        """The set has no master, once; the last of the set is elected when it is back, in a new epoch."""
        yield self.two.kill()
        yield self.three.kill()
        yield until("both are known dead", lambda: not self.alive(2) and not self.alive(3))
        yield self.one.kill()
        yield until("no master", lambda: self.group.master_id is None)
        yield pause(0.5)
        self.assertEqual(self.group.master_epoch, 2)
        self.three.listen()
        yield self.three.join()
        self.assertEqual((self.master(), self.three.master), ((3, 3), (3, 3)))

    @defer.inlineCallbacks
    def test_designated(self) -> Any:
        """An operator moves the mastership: the old master is told first."""
        order: list[int] = []
        for broker in self.brokers:
            broker.told = _Told(order, broker.id)  # type: ignore[assignment]
        found = yield self.two.ask(
            Code.CONTROLLER_ELECT_MASTER, clusterName=CLUSTER, brokerName=NAME, brokerId="3", designateElect="true"
        )
        self.assertEqual((found.code, found.fields["masterBrokerId"]), (0, "3"))
        yield until("all are told", lambda: len(order) == 3)
        self.assertEqual((order[0], self.one.master, self.three.master), (1, (3, 2), (3, 2)))

    @defer.inlineCallbacks
    def test_restarted_faster_than_missed(self) -> Any:
        """The new process is not told that it still is the master in its old epoch."""
        yield self.one.kill()
        self.one.master = (None, 0)
        self.one.listen()
        yield self.one.join()
        self.assertEqual(self.group.master_epoch, 2)
        self.assertIn(self.group.master_id, (2, 3))
        yield until("all know it", lambda: self.one.master == self.master())

    @defer.inlineCallbacks
    def test_registers_as_a_new_process(self) -> Any:
        """Nobody missed the old one; the answer waits until it is known that it led and leads no more.  That the new
        one is heard meanwhile does not tell.
        """
        self.one.master = (None, 0)
        asked = self.one.register()
        self.one.beat()
        answer = yield asked
        self.assertIn(answer.fields["masterBrokerId"], ("2", "3"))
        self.assertEqual((answer.fields["masterEpoch"], self.master()[1]), ("2", 2))

    @defer.inlineCallbacks
    def test_registers_somewhere_else(self) -> Any:
        """Its machine is gone without a word, and what takes its place has another address: nobody there can say that
        it leads nothing, and nobody else is left to elect.  That it beats before it is registered is no sign of life of
        the old one.
        """
        for broker in (self.two, self.three):
            yield broker.kill()
        yield until("they have left", lambda: not self.alive(2) and not self.alive(3))
        self.one.freeze()
        yield pause(0.5)
        new = FakeBroker(self, free_ports(1)[0])
        self.brokers.append(new)
        new.id = 1
        new.beat()
        answer = yield new.register()
        self.assertNotIn("masterBrokerId", answer.fields)
        self.assertEqual(self.group.address(1), new.address)
        new.start_beats()
        answer = yield new.elect()
        self.assertEqual((answer.code, answer.fields["masterBrokerId"], self.master()), (0, "1", (1, 3)))

    @defer.inlineCallbacks
    def test_registers_somewhere_else_while_it_leads(self) -> Any:
        """A second process with its id, as of a copied disk: told that it leads, it would be a second master of that
        epoch.  It waits until the first is gone.
        """
        new = FakeBroker(self, free_ports(1)[0])
        self.brokers.append(new)
        new.id = 1
        answer = yield new.register()
        self.assertEqual(answer.code, ResponseCode.CONTROLLER_INVALID_REQUEST)
        self.assertEqual(self.group.address(1), self.one.address)
        self.assertNotIn("masterBrokerId", answer.fields)
        self.assertIn(self.one.address, answer.remark)
        self.assertEqual(self.master(), (1, 1))
        yield self.one.kill()
        answer = yield new.register()
        self.assertEqual((answer.code, self.group.address(1)), (0, new.address))
        self.assertNotEqual(answer.fields.get("masterBrokerId"), "1")

    @defer.inlineCallbacks
    def test_registers_somewhere_else_in_a_crowd(self) -> Any:
        """Too many rounds of questions have just begun: nobody knows yet that the one before it is gone."""
        for broker in (self.two, self.three):
            yield broker.kill()
        yield until("they have left", lambda: not self.alive(2) and not self.alive(3))
        self.one.freeze()
        yield pause(0.5)
        detector, begin = self.leader()._watch.detector, FailureDetector._begin

        def queued(machine: FailureDetector, suspicion: Any, now_ms: int) -> Any:
            """A round for which there is no room."""
            machine._rounds = 0
            return begin(machine, suspicion, now_ms)

        detector._open.clear()
        self.patch(FailureDetector, "_begin", queued)
        new = FakeBroker(self, free_ports(1)[0])
        self.brokers.append(new)
        new.id = 1
        answer = yield new.register()
        self.assertNotIn("masterBrokerId", answer.fields)

    @defer.inlineCallbacks
    def test_registers_and_still_leads(self) -> Any:
        """As Java brokers do after a 2008: nothing happens."""
        answer = yield self.one.register()
        self.assertEqual((answer.fields["masterBrokerId"], answer.fields["masterEpoch"]), ("1", "1"))

    @defer.inlineCallbacks
    def test_slave_asks_a_controller_that_never_heard_the_master(self) -> Any:
        """The master is asked before the slave is answered: it lives (regression B3, from the other side)."""
        self.one._beats.stop()
        yield self.nodes["n0"].stopService()
        self.start_node("n0")
        yield self.await_leader()
        yield until("the slave is heard", lambda: self.alive(2))
        answer = yield self.two.elect()
        self.assertEqual((answer.code, answer.fields["masterBrokerId"], self.master()), (2011, "1", (1, 1)))

    @defer.inlineCallbacks
    def test_the_log_says_why(self) -> Any:
        """11003: what was seen, and which rule fired."""
        yield self.one.kill()
        yield self.await_master(2, 3)
        last = yield self.last_decision()
        self.assertEqual((last["did"], last["why"], last["request"]["expectedMaster"]), ("ELECTED", "PORT_REFUSED", 1))
        self.assertIn("its port refuses connections", last["reason"])
        self.assertIn({"brokerId": 1, "saw": "PORT_REFUSED", "text": last["reason"]}, last["seen"])
        # Broker 3 too, if it was as quick: what it says cannot change who wins.
        self.assertIn([each["brokerId"] for each in last["alive"]], ([2], [2, 3]))

    @defer.inlineCallbacks
    def test_unreachable_address_does_not_kill(self) -> Any:
        """The master's port refuses although its heartbeats come: a reset is no death."""
        detector = self.leader()._watch.detector
        yield self.one._listening.stopListening()
        self.one._listening = None
        detector.reachable(self.one.address, False)
        self.one.reset()
        yield pause(0.3)
        self.assertEqual(self.master(), (1, 1))


class _Told(list[Any]):
    """Notes who was told, in the order in which they were."""

    def __init__(self, order: list[int], broker_id: int) -> None:
        super().__init__()
        self._order = order
        self._id = broker_id

    def append(self, item: Any) -> None:
        self._order.append(self._id)
        super().append(item)


class ThreeControllersTests(ControllerCase):
    """Followers, failover, and what a leader asks the others."""

    count = 3

    def followers(self) -> list[Any]:
        return [node for node in self.nodes.values() if not node.leading]

    @defer.inlineCallbacks
    def test_followers_answer_as_java(self) -> Any:
        """2007 to what only the leader may answer, and where the leader is."""
        (one,) = yield self.start_brokers(1)
        follower = self.followers()[0]
        connection = yield one._out.connect(follower.config.self_address, 1.0)
        asked = {"clusterName": CLUSTER, "brokerName": NAME, "brokerId": "1"}
        refused = yield connection.request(Code.CONTROLLER_GET_REPLICA_INFO, asked)
        self.assertEqual((refused.code, refused.remark), (2007, "The controller is not in leader state"))
        found = yield connection.request(Code.CONTROLLER_GET_METADATA_INFO)
        leader = self.leader().config
        self.assertEqual(
            (found.fields["controllerLeaderId"], found.fields["controllerLeaderAddress"], found.fields["isLeader"]),
            (leader.controller_dleger_self_id, leader.self_address, "false"),
        )
        self.assertEqual(found.fields["peers"], self.peers.replace("-", ":") + ";")
        heard = yield connection.request(PrivateCode.DO_YOU_HEAR, asked)
        self.assertEqual(heard.fields["connected"], "true")
        self.assertLess(int(heard.fields["heardMillisAgo"]), 3000)

    @defer.inlineCallbacks
    def test_leader_and_master_die_together(self) -> Any:
        """The next leader has heard the brokers all along, finds the master's port closed, and elects."""
        one, two, three = yield self.start_brokers(3)
        yield defer.DeferredList([self.leader().stopService(), one.kill()])
        yield self.await_leader()
        yield self.await_master(2, 3)
        last = yield self.last_decision()
        self.assertEqual(last["why"], "PORT_REFUSED")
        yield until("they are told", lambda: two.master[1] == three.master[1] == 2)

    @defer.inlineCallbacks
    def test_leader_and_master_die_together_and_the_next_leader_has_just_begun(self) -> Any:
        """It has heard nobody yet.  Another controller has heard the master and lost its connection, its port refuses,
        and a member of the set answers at its own: that is enough, long before its lease of 10 s.  Nor does it wait for
        heartbeats to tell the others.
        """
        one, two, three = yield self.start_brokers(3)
        leader, fresh, witness = self.leader(), *self.followers()
        campaign = Elections.campaign

        def campaign_of_another(elections: Elections, forced: bool) -> None:
            if elections is not witness.raft.node._elections:
                campaign(elections, forced)

        self.patch(Elections, "campaign", campaign_of_another)
        yield fresh.stopService()
        self.patch(FakeBroker, "_beat_to", lambda broker, node: None)  # as Java's, which look for controllers each 3 s
        yield defer.DeferredList([leader.stopService(), one.kill()])
        began = now()
        fresh = self.start_node(fresh.config.controller_dleger_self_id)
        yield self.await_leader()
        self.assertIs(self.leader(), fresh)
        yield self.await_master(2, 3)
        self.assertLess(now() - began, 2.0)
        last = yield self.last_decision()
        self.assertEqual(last["why"], "PORT_REFUSED")
        yield until("they are told", lambda: two.master[1] == three.master[1] == 2)
        self.assertLess(now() - began, 3.0)
        self.assertEqual(len(fresh._watch.liveness), 0)

    @defer.inlineCallbacks
    def test_d3_failover_kills_nobody(self) -> Any:
        """A new leader switches nothing."""
        yield self.start_brokers(3)
        yield self.leader().stopService()
        yield self.await_leader()
        yield pause(1.0)
        self.assertEqual((self.master(), self.leader().counts().deaths), ((1, 1), 0))

    @defer.inlineCallbacks
    def test_b3_master_cut_from_the_leader_only(self) -> Any:
        """The other controllers hear it: no election however long that lasts."""
        one, _two, _three = yield self.start_brokers(3)
        leader = self.leader()
        one._beats.stop()
        one.frozen = True
        for connection in one._factory.connections.values():
            connection.transport.pauseProducing()
            one._held.append(connection)
        end = now() + 4.0  # its lease is 3 s
        while now() < end:
            for node in self.followers():
                one._beat_to(node)
            yield pause(0.1)
        self.assertEqual((self.leader(), self.master()), (leader, (1, 1)))

    @defer.inlineCallbacks
    def test_new_leader_tells_what_its_predecessor_could_not(self) -> Any:
        """The election is in the log of all; whoever leads next tells the brokers."""
        one, two, three = yield self.start_brokers(3)
        old = self.leader()
        old._notices.send = lambda notices, old_is_alive, prompt: None
        yield one.kill()
        yield self.await_master(2, 3)
        self.assertEqual((two.told, three.told), ([], []))
        yield old.stopService()
        yield self.await_leader()
        yield until("they are told", lambda: two.told and three.told)
        self.assertEqual(two.told[0], self.master())

    @defer.inlineCallbacks
    def test_transfer(self) -> Any:
        """By request, from this machine."""
        (one,) = yield self.start_brokers(1)
        to = self.followers()[0]
        answer = yield one.ask(PrivateCode.TRANSFER, to=to.config.controller_dleger_self_id)
        self.assertEqual((answer.code, answer.remark), (0, None))
        yield self.await_leader()
        self.assertEqual(self.leader(), to)
        self.assertEqual(self.master(), (1, 1))

    @defer.inlineCallbacks
    def test_members(self) -> Any:
        """One more, which waits to be added; then one less."""
        (one,) = yield self.start_brokers(1)
        port = free_ports(1)[0]
        self.peers += f";n3-127.0.0.1:{port}"
        self.start_node("n3", raft_join_existing=True)
        answer = yield one.ask(PrivateCode.MEMBERS, add=f"n3-127.0.0.1:{port}")
        self.assertEqual((answer.code, answer.remark), (0, None))
        yield until("it has the state", lambda: self.nodes["n3"].state.group(CLUSTER, NAME) is not None)
        self.assertEqual(sorted(self.leader().other_voters()).__len__(), 3)
        gone = next(node for node in self.nodes if not self.nodes[node].leading and node != "n3")
        answer = yield one.ask(PrivateCode.MEMBERS, remove=gone)
        self.assertEqual((answer.code, gone in self.leader().raft.node.members.ids()), (0, False))

    @defer.inlineCallbacks
    def test_operators_only_from_here(self) -> Any:
        """Transfer and membership change are not for other machines, unless the configuration says so."""
        yield self.start_brokers(1)
        leader = self.leader()
        connection = types.SimpleNamespace(proven_host="10.9.9.9", peer="10.9.9.9:1", local_host="10.9.9.1")
        for code in (PrivateCode.TRANSFER, PrivateCode.MEMBERS):
            with self.assertRaisesRegex(Exception, "remoteAdminEnable"):
                leader._own.methods[code](connection, _command(code, to="n0"))
        leader.config.remote_admin_enable = True
        answer = leader._own.methods[PrivateCode.TRANSFER](connection, _command(PrivateCode.TRANSFER, to="nobody"))
        self.assertEqual((answer.code, answer.remark), (1, "nobody is not a voter"))

    @defer.inlineCallbacks
    def test_status(self) -> Any:
        """11001, for people and for ``rocketha controller status``."""
        (one,) = yield self.start_brokers(1)
        answer = yield one.ask(PrivateCode.STATUS)
        found = json_dialect.loads(answer.body)
        self.assertEqual(
            (found["isLeader"], found["role"], found["brokerSets"], found["brokersHeard"]), (True, "leader", 1, 1)
        )
        self.assertEqual(found["voters"], ["n0", "n1", "n2"])

    @defer.inlineCallbacks
    def test_no_majority(self) -> Any:
        """Two of three gone: not ready, 2007, and nothing is decided."""
        (one,) = yield self.start_brokers(1)
        for node in list(self.nodes.values()):
            if not node.leading:
                yield node.stopService()
        last = next(node for node in self.nodes.values() if node.running)
        yield until("it steps down", lambda: not last.leading)
        connection = yield one._out.connect(last.config.self_address, 1.0)
        answer = yield connection.request(Code.CONTROLLER_GET_REPLICA_INFO, {"brokerName": NAME})
        self.assertEqual((answer.code, last.ready()), (2007, "no controller leads: is a majority running?"))


class ConfigurationTests(ControllerCase):
    """1009 and 1010."""

    @defer.inlineCallbacks
    def ask(self, code: int, body: bytes = b"") -> Any:
        if not self.brokers:
            self.brokers.append(FakeBroker(self, 1))
        answer = yield self.brokers[0].ask(code, body)
        return answer

    @defer.inlineCallbacks
    def test_shown(self) -> Any:
        """Sorted lines, Java's names."""
        answer = yield self.ask(Code.GET_CONTROLLER_CONFIG)
        lines = answer.body.decode().splitlines()
        self.assertEqual(lines, sorted(lines, key=lambda line: line.partition("=")[0]))
        self.assertIn(f"controllerDLegerPeers={self.peers}", lines)

    @defer.inlineCallbacks
    def test_changed(self) -> Any:
        """Off by default; then only keys that may change, and they take effect."""
        body = b"enableElectUncleanMaster=true"
        off = yield self.ask(Code.UPDATE_CONTROLLER_CONFIG, body)
        node = self.leader()
        node.config.config_update_enable = True
        codes = [off.code]
        for text in (b"controllerStorePath=/x", b"configStorePath=/x", b"noSuchKey=1", body):
            answer = yield self.ask(Code.UPDATE_CONTROLLER_CONFIG, text)
            codes.append(answer.code)
        self.assertEqual(codes, [16, 16, 16, 16, 0])
        yield until("it takes effect", lambda: node._watch.detector.unclean)


def _command(code: int, **fields: str) -> Any:
    from rocketha.wire.remoting import request

    return request(code, fields)
