"""What a broker may make a controller remember and write down, and what a controller remembers of elections."""

from __future__ import annotations

import random
import socket
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.controller.events import Alive, AlterSyncStateSet, ElectMaster, Evidence
from rocketha.controller.group import GroupKey
from rocketha.controller.liveness import ReplicaKey
from rocketha.controller.requests import Caller
from rocketha.errors import DiskFailure, RemoteProtocolError, RequestRefused
from rocketha.raft.messages import Kind, Message
from rocketha.services.controller.sequencer import Undecided
from rocketha.services.controller.service import ControllerService
from rocketha.services.raft.waiting import NoMajority, ResultUnknown
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire.codes import PrivateCode, ResponseCode
from rocketha.wire.codes import RequestCode as Code
from rocketha.wire.remoting import Answer, Command, request
from tests.interop.harness.ports import free_ports
from tests.services.controller_case import CLUSTER, FAST, NAME, ControllerCase, FakeBroker, until

LONG = 60_000


class BoundsTests(ControllerCase):
    """One controller."""

    @defer.inlineCallbacks
    def silent_master(self) -> Any:
        """A master that nobody heard yet: its port is closed and no heartbeat ever came."""
        broker = FakeBroker(self, free_ports(1)[0])
        self.brokers.append(broker)
        broker.id = 1
        yield broker.ask(
            Code.CONTROLLER_APPLY_BROKER_ID,
            clusterName=CLUSTER,
            brokerName=NAME,
            appliedBrokerId="1",
            registerCheckCode=f"{broker.address};1",
        )
        yield broker.register()
        yield broker.elect()
        self.assertEqual(self.master(), (1, 1))
        return broker

    @defer.inlineCallbacks
    def test_who_asks_does_not_fill_the_log(self) -> Any:
        """What made a master a suspect goes into the entry of its election, twice, and into every snapshot."""
        broker = yield self.silent_master()
        detector = self.leader()._watch.detector
        asked = broker.ask(
            Code.CONTROLLER_ELECT_MASTER,
            clusterName=CLUSTER,
            brokerName=NAME,
            brokerId="9" * LONG,
            designateElect="false",
        )
        yield until("it is suspected", detector.states)
        said = detector._open[ReplicaKey(CLUSTER, NAME, 1)].why
        self.assertIn("broker 99999999999999999999 asks for an election", said)
        self.assertLess(len(said), 200)
        answer = yield asked
        self.assertNotEqual(answer.code, 0)

    @defer.inlineCallbacks
    def test_what_cannot_be_written_is_not_under_way(self) -> Any:
        """Else every later request about the set would cost an entry."""
        yield self.start_brokers(1)
        leader = self.leader()
        evidence = Evidence(reason="x" * (LONG + 10_000))
        failing = leader._sequencer.propose(ElectMaster(CLUSTER, NAME, evidence=evidence))
        self.assertIsInstance(self.failureResultOf(failing, RemoteProtocolError), Failure)
        self.assertFalse(leader._sequencer._undecided.has(NAME, leader.raft.node.applied))
        before = leader.state.index
        answer = yield self.brokers[0].elect()
        self.assertEqual((answer.code, leader.state.index), (2011, before))

    @defer.inlineCallbacks
    def test_who_was_told_is_whom_the_answer_was_about(self) -> Any:
        """1004 is answered about the cluster of its connection, whatever cluster it names."""
        (one,) = yield self.start_brokers(1)
        other = GroupKey("other", NAME)
        yield one.ask(
            Code.CONTROLLER_APPLY_BROKER_ID,
            clusterName="other",
            brokerName=NAME,
            appliedBrokerId="1",
            registerCheckCode="127.0.0.1:9;1",
        )
        one.beat()
        yield until("the connection is of its cluster again", lambda: self.leader()._clusters == {1: CLUSTER})
        quiet = self.leader()._elections._quiet
        quiet.update({GroupKey(CLUSTER, NAME): 3, other: 4})
        found = yield one.ask(Code.CONTROLLER_GET_REPLICA_INFO, brokerName=NAME, clusterName="other")
        self.assertEqual(found.fields["masterBrokerId"], "1")
        self.assertEqual(quiet, {other: 4})

    @defer.inlineCallbacks
    def test_who_was_told_of_an_older_epoch_has_yet_to_be_told(self) -> Any:
        """A registration and an election behind it, applied together: the notice of the election is still due."""
        yield self.start_brokers(1)
        leader, told = self.leader(), []
        self.patch(leader._elections, "answered", lambda group, ids: told.append(list(ids)))
        (number,) = leader._clusters
        command = request(Code.CONTROLLER_REGISTER_BROKER, {"clusterName": CLUSTER, "brokerName": NAME})
        for epoch in (None, "0", "1"):
            answer = Answer(fields={"masterEpoch": epoch} if epoch else None)
            leader._telling(Asker(number), command, Caller("", CLUSTER), answer)  # type: ignore[arg-type]
        self.assertEqual(told, [[], [], [1]])

    @defer.inlineCallbacks
    def test_elections_of_the_past_are_not_counted_or_told_again(self) -> Any:
        """What was in the log when it was opened: an alert looks at the count, brokers know long since."""
        one, two = yield self.start_brokers(2)
        self.assertEqual(self.leader().counts().elections, 1)
        yield self.nodes["n0"].stopService()
        self.start_node("n0")
        yield self.await_leader()
        elections = self.leader()._elections
        self.assertEqual((self.leader().counts().elections, list(elections._to_tell)), (0, []))
        yield until("both are heard", lambda: self.alive(1) and self.alive(2))
        moved = yield one.ask(
            Code.CONTROLLER_ELECT_MASTER, clusterName=CLUSTER, brokerName=NAME, brokerId="2", designateElect="true"
        )
        self.assertEqual((moved.code, self.leader().counts().elections), (0, 1))
        yield until("it is told", lambda: two.master == (2, 2))
        self.assertEqual([epoch for _, epoch in two.told], [2])


class Asker:
    """A connection that was taken, and what was answered on it."""

    peer, local_host = "10.0.0.9:1", "10.0.0.1"
    socket_host = proven_host = "10.0.0.9"

    def __init__(self, number: int) -> None:
        self.id = number
        self.codes: list[int] = []

    def answer(self, command: Command, answer: Answer) -> None:
        self.codes.append(answer.code)


class WaitingTests(ControllerCase):
    """Reads while it cannot be found out whether this controller leads."""

    def asked(self, asker: Asker, count: int, size: int) -> int:
        """How many of its requests were let in; the others are answered at once."""
        before = len(asker.codes)
        for _ in range(count):
            fields = {"clusterName": CLUSTER, "brokerName": NAME}
            command = request(Code.CONTROLLER_GET_REPLICA_INFO, fields, b"x" * size)
            answer = self.leader().request(asker, command)  # type: ignore[arg-type]
            if answer is not None:
                asker.answer(command, answer)
        return count - (len(asker.codes) - before)

    @defer.inlineCallbacks
    def test_memory_and_places_are_shared(self) -> Any:
        """Whoever asks much is told to come back; others are not; all places are given back."""
        yield self.start_brokers(1)
        held: list[defer.Deferred[None]] = []
        leader = self.leader()

        def barrier() -> defer.Deferred[None]:
            held.append(defer.Deferred())
            return held[-1]

        self.patch(leader.raft, "barrier", barrier)
        large, many, small = Asker(-1), Asker(-2), Asker(-3)
        let_in = self.asked(large, 80, 1 << 20)
        self.assertTrue(30 < let_in <= 32, let_in)
        self.assertEqual(set(large.codes), {ResponseCode.SYSTEM_BUSY})
        self.assertEqual(self.asked(many, 12_000, 0), (20_000 - let_in) // 2)
        self.assertEqual(self.asked(small, 100, 10_000), 100)
        for each in held[:-1]:
            each.callback(None)
        held[-1].errback(NoMajority("late"))
        self.assertEqual(set(small.codes), {0, ResponseCode.CONTROLLER_NOT_LEADER})
        self.assertEqual((leader._waiting.count, leader._waiting.bytes), (0, 0))
        self.assertEqual(self.asked(large, 1, 1 << 20), 1)
        held[-1].callback(None)

    def test_refusals_and_failures_take_no_place(self) -> None:
        """Whatever becomes of a request."""
        leader, asker = self.leader(), Asker(-1)
        self.assertRaises(RequestRefused, leader.request, asker, request(77, {}))
        for code, fields in ((Code.CONTROLLER_REGISTER_BROKER, {}), (PrivateCode.TRANSFER, {"to": "x" * 99})):
            answer = leader.request(asker, request(int(code), fields))  # type: ignore[arg-type]
            self.assertNotEqual(getattr(answer, "code", 0), 0)
        self.patch(leader._requests, "decode", lambda *_: 1 / 0)
        command = request(Code.CONTROLLER_GET_REPLICA_INFO, {"brokerName": NAME})
        self.assertRaises(ZeroDivisionError, leader.request, asker, command)
        self.assertEqual((leader._waiting.count, leader._waiting.bytes), (0, 0))


class FloodTests(ControllerCase):
    """Three controllers with few places, and somebody who takes them all and says nothing."""

    count = 3
    keys = FAST + "connectionsMax=16\n"

    @defer.inlineCallbacks
    def test_nobody_is_kept_out(self) -> Any:
        """Not the controller that comes back, and not a broker."""
        flood = []
        for node in self.nodes.values():
            for _ in range(40):
                flood.append(socket.create_connection(("127.0.0.1", node.config.listen_port)))
                self.addCleanup(flood[-1].close)
            yield until("they are in", lambda node=node: sum(node.refusals.ended.values()) >= 20)
        gone = next(name for name, node in self.nodes.items() if not node.leading)
        yield self.nodes[gone].stopService()
        back = self.start_node(gone)
        yield self.start_brokers(2)
        yield until("it follows", lambda: back.state.group(CLUSTER, NAME) is not None)
        self.assertEqual(self.master(), (1, 1))


class NoLogTests(ControllerCase):
    """A controller alone whose log cannot be opened."""

    count = 0

    def setUp(self) -> Any:
        self.brokers, self.nodes, self.fatal = [], {}, []

    @defer.inlineCallbacks
    def start_on(self, disk: Any) -> Any:
        (port,) = free_ports(1)
        self.peers, self.disks = f"n0-127.0.0.1:{port}", {"n0": disk}
        node = self.start_node("n0")
        yield until("it is told", lambda: self.fatal or node.leading)
        return node

    @defer.inlineCallbacks
    def test_it_is_said_once(self) -> Any:
        """To who ends the process; there is no failure besides, with a traceback in the log."""
        node = yield self.start_on(_NoDisk())
        self.assertEqual(len(self.fatal), 1)
        self.assertIn("no disk is there", self.fatal.pop())
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assertFalse(node.leading)

    @defer.inlineCallbacks
    def test_our_own_mistakes_are_said(self) -> Any:
        """What fails after the log was opened is logged."""
        self.patch(ControllerService, "_recovered", lambda node: 1 / 0)
        yield self.start_on(MemoryDisk(random.Random(1)))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class _NoDisk:
    """Fails whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        def fail(*args: Any, **values: Any) -> Any:
            raise DiskFailure("/store", "open", 5, "no disk is there")

        return fail


class _HeldBarriers(ControllerCase):
    """Changes of the SyncStateSet of brokers 1 and 2, and barriers that fire when the test says so."""

    def hold_barriers(self) -> list[defer.Deferred[None]]:
        """Those that the leader is asked for from now on."""
        barriers: list[defer.Deferred[None]] = []

        def barrier() -> defer.Deferred[None]:
            barriers.append(defer.Deferred())
            return barriers[-1]

        self.patch(self.leader().raft, "barrier", barrier)
        return barriers

    def change(self, set_epoch: int, *members: int) -> AlterSyncStateSet:
        evidence = Evidence(alive=tuple(Alive(each) for each in (1, 2)))
        return AlterSyncStateSet(CLUSTER, NAME, 1, self.group.master_epoch, set_epoch, members, evidence)


class BehindABarrierTests(_HeldBarriers):
    """One controller, of which it is not yet known that it has applied what was decided before."""

    @defer.inlineCallbacks
    def test_a_refusal_does_not_overtake_what_became_a_change(self) -> Any:
        """When they came, neither request would have changed anything; the first would now.  Were the second refused
        from the state before that, its master would take the first for undone, which is done after it.
        """
        yield self.start_brokers(2)
        decide, propose, alter = self.leader()._sequencer.decide, self.leader()._sequencer.propose, self.change
        self.assertEqual(sorted(self.group.in_sync), [1, 2])
        epoch, barriers = self.group.set_epoch, self.hold_barriers()
        codes: list[int] = []
        first = decide(alter(epoch + 1, 1, 2)).addCallback(lambda answer: codes.append(answer.code))
        between = yield propose(alter(epoch, 1))
        self.assertEqual((between.code, self.group.set_epoch), (0, epoch + 1))
        second = decide(alter(epoch + 1, 1, 2, 9)).addCallback(lambda answer: codes.append(answer.code))
        self.assertEqual(len(barriers), 2)
        for each in barriers:
            each.callback(None)
        yield defer.DeferredList([first, second])
        self.assertEqual(codes, [0, ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH])

    @defer.inlineCallbacks
    def test_no_change_overtakes_one_that_waits(self) -> Any:
        """The first change waits, and would be granted behind its barrier.  The second has to follow the log at once,
        as something of its set is on its way, and names a broker that nobody knows.  Were it refused for that before
        the first is made, the master would take the first for undone, and acknowledge without broker 2.
        """
        yield self.start_brokers(2)
        sequencer, barriers = self.leader()._sequencer, self.hold_barriers()
        epoch, codes = self.group.set_epoch, dict[str, int]()

        def ask(name: str, change: AlterSyncStateSet) -> defer.Deferred[Any]:
            return sequencer.decide(change).addCallback(lambda answer: codes.update({name: answer.code}))

        first = ask("first", self.change(epoch + 1, 1, 2))
        between = yield sequencer.propose(self.change(epoch, 1))
        self.assertEqual((between.code, self.group.set_epoch), (0, epoch + 1))
        on_its_way = sequencer.propose(self.change(epoch, 1, 2))
        second = ask("second", self.change(epoch + 1, 1, 9))
        yield on_its_way
        for each in barriers:
            each.callback(None)
        yield defer.DeferredList([first, second])
        self.assertEqual(codes, {"first": 0, "second": ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH})
        self.assertEqual(self.group.in_sync, (1, 2))
        third = yield sequencer.decide(self.change(epoch + 2, 1))
        self.assertEqual((third.code, len(barriers)), (0, 2), "nothing waits any more: no barrier is needed")

    @defer.inlineCallbacks
    def test_one_whose_barrier_fails_holds_nobody_up(self) -> Any:
        yield self.start_brokers(2)
        sequencer, barriers = self.leader()._sequencer, self.hold_barriers()
        first = sequencer.decide(self.change(self.group.set_epoch, 1, 9))
        barriers[0].errback(NoMajority("in time"))
        yield self.assertFailure(first, NoMajority)
        second = yield sequencer.decide(self.change(self.group.set_epoch, 1))
        self.assertEqual((second.code, len(barriers)), (0, 1))


class AnotherTermTests(_HeldBarriers):
    """Three controllers, of which one leads, then another, then the first again."""

    count = 3

    @defer.inlineCallbacks
    def hand_over(self, to: str) -> Any:
        yield self.leader().raft.transfer(to)
        yield until(f"{to} to lead", lambda: self.leading() == [self.nodes[to]])

    @defer.inlineCallbacks
    def test_a_change_of_another_term_is_void(self) -> Any:
        """The leader between may have judged a later one of the same master."""
        yield self.start_brokers(2)
        leader, barriers = self.leader(), self.hold_barriers()
        own = leader.config.controller_dleger_self_id
        other = next(name for name in self.nodes if name != own)
        epoch = self.group.set_epoch
        waiting = leader._sequencer.decide(self.change(epoch + 1, 1, 2))
        yield self.hand_over(other)
        between = yield self.leader()._sequencer.propose(self.change(epoch, 1))
        self.assertEqual(between.code, 0)
        yield self.hand_over(own)
        yield until("it has applied that", lambda: self.group.set_epoch == epoch + 1)
        barriers[0].callback(None)
        answer = yield waiting
        self.assertEqual((answer.code, self.group.in_sync), (ResponseCode.CONTROLLER_NOT_LEADER, (1,)))


class UndecidedTests(ControllerCase):
    """Three controllers, of which two answer heartbeats and store nothing."""

    count = 3

    def test_what_is_forgotten(self) -> None:
        """What is applied is not on its way any more, and takes no room; others' names are theirs."""
        undecided = Undecided()
        undecided.begun("a")
        undecided.begun("a")
        undecided.ended("a")
        self.assertEqual((undecided.has("a", 9), undecided.has("b", 9)), (True, False))
        undecided.ended("a")
        self.assertFalse(undecided.has("a", 9))
        undecided.given_up("a", 12, 9)
        self.assertEqual((undecided.has("a", 11), undecided.has("b", 11), undecided.has("a", 12)), (True, False, False))
        undecided.given_up("b", 15, 12)
        self.assertEqual(list(undecided._given_up), ["b"])

    @defer.inlineCallbacks
    def test_given_up_is_not_decided(self) -> Any:
        """The master adds 2 to its set, hears that nobody knows, and takes it back: if "nothing to change" were the
        answer, 2 would be added after it.
        """
        one, _two = yield self.start_brokers(2)
        answer = yield one.alter(1)
        self.assertEqual(answer.code, 0)
        leader, group = self.leader(), self.group
        driver = leader.raft._driver

        def step(messages: list[Message]) -> None:
            take([each for each in messages if each.kind != Kind.APPEND_ANSWER])

        take, patience = driver.step, leader.raft._waiters.proposals._patience_ticks
        self.patch(driver, "step", step)
        leader.raft._waiters.proposals._patience_ticks = 4
        alive = tuple(leader._watch.evidence(ReplicaKey(CLUSTER, NAME, number)) for number in (1, 2))

        def change(*ids: int) -> defer.Deferred[Any]:
            evidence = Evidence(alive=alive)
            return leader._sequencer.decide(
                AlterSyncStateSet(CLUSTER, NAME, 1, group.master_epoch, group.set_epoch, ids, evidence)
            )

        yield self.assertFailure(change(1, 2), ResultUnknown)
        leader.raft._waiters.proposals._patience_ticks = patience
        answers: list[Any] = []
        taken_back = change(1).addBoth(answers.append)
        yield leader.raft.barrier()
        self.assertEqual(answers, [])
        self.patch(driver, "step", take)
        yield taken_back
        yield until("the entries applied", lambda: group.in_sync == (1, 2))
        self.assertEqual(answers[0].code, ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH)
