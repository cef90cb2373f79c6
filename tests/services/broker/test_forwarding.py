"""Requests of clients with a stale route reach the present master, in order, once, and in time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any
from unittest import mock

from twisted.internet import defer, error

from rocketha.broker import forward_rules
from rocketha.broker.forward_rules import MARK
from rocketha.broker.master_watch import MasterWatch
from rocketha.broker.role import BUSY
from rocketha.broker.routes import ROUTES
from rocketha.errors import RequestRefused
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.broker.forwarding import IN_DOUBT, UNSENT_MAX, Forwarding
from rocketha.simulation.host import Process
from rocketha.simulation.world import World
from rocketha.wire.framing import FRAME_LIMIT
from rocketha.wire.remoting import HEADER_LIMIT, Answer, Command, encode
from tests.services.world_case import WorldCase

PORT = 10911
SEND, PULL, OFFSET, HEARTBEAT = 310, 11, 15, 34


class Node:
    """A broker that stores bodies while it is master, and else asks Forwarding.

    :ivar stored: the bodies, in order.
    :ivar until_s: when the time of each is over, as far as that is said.
    :ivar seen: code and forwarder of every request that came.
    """

    def __init__(self, process: Process, enabled: bool = True) -> None:
        self.reactor = process.reactor
        self.address = f"{process.host.address}:{PORT}"
        self.watch = MasterWatch()
        self.stored: list[bytes] = []
        self.until_s: list[float] = []
        self.seen: list[tuple[int, str | None]] = []
        self.turns = 0
        self.silent = False
        self.may_serve = True
        self.forwarding = Forwarding(
            Dialer(process.reactor), self.watch, self.address, self.serve, self.as_turn, enabled, lambda: self.may_serve
        )
        self.factory = RemotingFactory(self, process.reactor)
        process.reactor.listenTCP(PORT, self.factory)

    def as_turn(self, work: Callable[[], None]) -> None:
        self.turns += 1
        work()

    def serve(self, connection: Any, command: Command, until_s: float = 0.0) -> Answer | None:
        if command.body == b"refuse me":
            raise RequestRefused(17, "no such topic")
        if command.body == b"break":
            raise ValueError("a bug")
        if self.silent:
            return None
        self.stored.append(command.body)
        self.until_s.append(until_s)
        return Answer(fields={"msgId": str(len(self.stored))}, body=b"stored here")

    def connected(self, connection: RemotingProtocol) -> None:
        """Nothing to do."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        self.forwarding.disconnected(connection)

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        self.seen.append((command.code, command.fields.get(MARK)))
        forwarded = command.code not in ROUTES or ROUTES[command.code].forwarded  # a plug-in's is not in our rows
        if (self.watch.leads and self.may_serve) or not forwarded:
            if self.forwarding.waiting:
                self.forwarding.go_on()
            return self.serve(connection, command)
        return self.forwarding.take(connection, command, BUSY)

    def turn_ended(self) -> None:
        """Nothing is staged."""


class Producer:
    """A client that knows one address.

    :ivar answers: what came for each body, when.
    :ivar failed: bodies whose connection ended, or was not made.
    :ivar unanswered: bodies for which nothing came.
    """

    def __init__(self, process: Process) -> None:
        self.reactor = process.reactor
        self.client = RemotingClient(Dialer(process.reactor))
        self.answers: dict[bytes, tuple[int, float]] = {}
        self.failed: list[bytes] = []
        self.unanswered: list[bytes] = []

    def send(self, node: Node, *bodies: bytes, code: int = SEND, oneway: bool = False, **fields: str) -> None:
        """All in one write."""
        self.reactor.callLater(0, self._send, node.address, bodies, code, oneway, fields)

    def _send(self, address: str, bodies: tuple[bytes, ...], code: int, oneway: bool, fields: dict[str, str]) -> None:
        for body in bodies:
            if oneway:
                self.client.oneway(address, code, fields, body).addErrback(self._failed, body)
                continue
            asked: defer.Deferred[Any] = self.client.request(address, code, fields, body, 30.0)
            asked.addCallbacks(self._answered, self._failed, (body, self.reactor.seconds()), errbackArgs=(body,))

    def _answered(self, answer: Command, body: bytes, asked_s: float) -> None:
        self.answers[body] = (answer.code, self.reactor.seconds() - asked_s)

    def _failed(self, failure: Any, body: bytes) -> None:
        (self.unanswered if failure.check(error.TimeoutError) else self.failed).append(body)


class ForwardingCase(WorldCase):
    enabled = True

    def setUp(self) -> None:
        self.world = World(3)
        for name in ("a", "b", "c"):
            self.world.add_host(name, lambda process: Node(process, self.enabled))
        self.producer = self.add_producer("producer")
        self.a, self.b, self.c = (self.node(name) for name in ("a", "b", "c"))
        self.stopped_s = 0.0

    def node(self, name: str) -> Node:
        found: Node = self.running(name)
        return found

    def add_producer(self, name: str) -> Producer:
        """One more client."""
        self.world.add_host(name, Producer)
        self.world.run(0.01)
        found: Producer = self.running(name)
        return found

    def say(self, node: Node, what: Callable[..., Any], *args: Any) -> None:
        """Say something to a node's watch, in its own time."""
        node.reactor.callLater(0, what, *args)

    def master_is(self, node: Node, *others: Node, epoch: int = 1) -> None:
        self.say(node, node.watch.own, epoch)
        for other in others:
            self.say(other, other.watch.other, node.address, epoch)
        self.world.run(0.01)

    def codes(self) -> dict[bytes, int]:
        return {body: code for body, (code, _) in sorted(self.producer.answers.items())}

    def nothing_left(self, *nodes: Node) -> None:
        """What was counted in was counted out."""
        for node in nodes or (self.a, self.b, self.c):
            self.assertEqual(self.taken(node), (0, 0))
            budgets = node.forwarding.budgets.values()
            self.assertEqual((sum(each.bytes for each in budgets), node.forwarding.kept), (0, 0))
            self.assertEqual(node.forwarding._pulling, {})

    def taken(self, node: Node) -> tuple[int, int]:
        """Requests taken: sends and others, pulls."""
        budgets = node.forwarding.budgets
        return budgets[False].count, budgets[True].count


class PassingOnTests(ForwardingCase):
    def test_the_masters_answer_comes_back(self) -> None:
        """Code, fields and body, under the client's own number."""
        self.master_is(self.b, self.a)
        heard: list[Command] = []

        def ask() -> None:
            self.producer.client.request(self.a.address, SEND, {"b": "T"}, b"one").addCallback(heard.append)

        self.producer.reactor.callLater(0, ask)
        self.world.run(0.1)
        (answer,) = heard
        self.assertEqual((answer.code, answer.fields, answer.body), (0, {"msgId": "1"}, b"stored here"))
        self.assertEqual(self.b.stored, [b"one"])
        self.assertEqual(self.b.seen, [(SEND, self.a.address)])
        self.nothing_left()

    def test_a_refusal_of_the_masters_comes_back(self) -> None:
        """It is the master who knows the topic."""
        self.master_is(self.b, self.a)
        self.producer.send(self.a, b"refuse me")
        self.world.run(0.1)
        self.assertEqual(self.codes(), {b"refuse me": 17})

    def test_order_of_a_connection(self) -> None:
        """Many in one read, and the same over many reads."""
        self.master_is(self.b, self.a)
        bodies = [b"%03d" % number for number in range(300)]
        for chunk in itertools.batched(bodies, 7) if hasattr(itertools, "batched") else [bodies[:100], bodies[100:]]:
            self.producer.send(self.a, *chunk)
            self.world.run(0.0007)
        self.world.run(0.2)
        self.assertEqual(self.b.stored, bodies)
        self.assertEqual(set(self.codes().values()), {0})

    def test_oneway(self) -> None:
        """Goes the same way, and nobody answers."""
        self.master_is(self.b, self.a)
        self.producer.send(self.a, b"one", b"two", oneway=True)
        self.world.run(0.1)
        self.assertEqual(self.b.stored, [b"one", b"two"])
        self.nothing_left()

    def test_what_consumers_need_of_the_master(self) -> None:
        """Pulls, offsets and locks too; heartbeats are everybody's."""
        self.master_is(self.b, self.a)
        for code in (PULL, OFFSET, HEARTBEAT):
            self.producer.send(self.a, b"%d" % code, code=code)
        self.world.run(0.1)
        self.assertEqual(sorted(self.b.stored), [b"11", b"15"])
        self.assertEqual(self.a.stored, [b"34"])

    def test_a_pull_that_the_master_holds(self) -> None:
        """Its client waits for longer than that of a send."""
        self.master_is(self.b, self.a)
        self.b.silent = True
        self.producer.send(self.a, b"pull", code=PULL, suspendTimeoutMillis="15000")
        self.producer.send(self.a, b"send")
        self.world.run(2.9)
        self.assertEqual(self.codes(), {b"send": IN_DOUBT.code})
        self.world.run(15)
        self.assertEqual(self.codes(), {b"send": IN_DOUBT.code})
        self.world.run(11)
        self.assertEqual(self.codes(), {b"pull": BUSY.code, b"send": IN_DOUBT.code})
        self.nothing_left()

    def test_a_plugins_request_that_is_not_answered(self) -> None:
        """Nobody knows what it did: it is in doubt, as a send is; an offset may be asked again."""
        self.master_is(self.b, self.a)
        self.b.silent = True
        self.producer.send(self.a, b"plugin", code=20_001)
        self.producer.send(self.a, b"offset", code=OFFSET)
        self.world.run(2.9)
        self.assertEqual(self.codes(), {b"plugin": IN_DOUBT.code, b"offset": BUSY.code})
        self.nothing_left()

    def test_never_a_chain(self) -> None:
        """Three brokers that each take another for the master: the request makes one step."""
        self.say(self.a, self.a.watch.other, self.b.address)
        self.say(self.b, self.b.watch.other, self.c.address)
        self.say(self.c, self.c.watch.other, self.a.address)
        self.producer.send(self.a, b"one")
        self.world.run(0.2)
        self.assertEqual(self.codes(), {b"one": BUSY.code})
        self.assertEqual((len(self.a.seen), len(self.b.seen), len(self.c.seen)), (1, 1, 0))
        self.nothing_left()

    def test_two_that_take_each_other_for_the_master(self) -> None:
        """One keeps it, as it may be the next master; not for ever."""
        self.say(self.a, self.a.watch.other, self.b.address)
        self.say(self.b, self.b.watch.other, self.a.address)
        self.producer.send(self.a, b"one")
        self.world.run(0.5)
        self.assertEqual(self.codes(), {})
        self.world.run(2.3)
        self.assertEqual(self.codes(), {b"one": BUSY.code})
        self.assertEqual((len(self.a.seen), len(self.b.seen)), (1, 1))
        self.nothing_left()


class SwitchTests(ForwardingCase):
    """A planned switch fails no send of a client that does not know of it."""

    def test_a_switch(self) -> None:
        """Every send from before, during and after it is stored once and in order."""
        chance = random.Random(5)
        self.master_is(self.a, self.b)
        numbers = itertools.count()
        sent: list[bytes] = []

        def stream(for_s: float) -> None:
            until = self.world.now + for_s
            while self.world.now < until:
                bodies = [b"%05d" % next(numbers) for _ in range(chance.randrange(1, 5))]
                sent.extend(bodies)
                self.producer.send(self.a, *bodies)
                self.world.run(chance.random() * 0.01)

        stream(0.3)
        self.say(self.a, self.a.watch.unknown)
        stream(0.9)
        self.say(self.a, self.a.watch.other, self.b.address, 2)
        stream(0.1)  # b does not know yet that it is master
        self.say(self.b, self.b.watch.own, 2)
        stream(0.5)
        self.world.run(3)
        self.assertEqual(self.a.stored + self.b.stored, sent)
        self.assertEqual(set(self.codes().values()), {0})
        self.assertEqual(len(self.producer.answers), len(sent))
        self.assertLess(max(seconds for _, seconds in self.producer.answers.values()), 1.5)
        self.assertGreater(len(self.a.stored), 20)
        self.nothing_left()

    def test_the_same_master_again(self) -> None:
        """What it kept it serves itself, before anything newer, as one turn."""
        self.master_is(self.a, self.b)
        self.say(self.a, self.a.watch.unknown)
        self.producer.send(self.a, b"one", b"refuse me", b"break", b"two")
        self.producer.send(self.a, b"three", oneway=True)
        self.world.run(0.5)
        self.assertEqual(self.a.forwarding.kept, 5)
        self.say(self.a, self.a.watch.own, 2)
        self.producer.send(self.a, b"four")
        self.world.run(0.1)
        self.assertEqual(self.a.stored, [b"one", b"two", b"three", b"four"])
        self.assertEqual(self.codes(), {b"break": 1, b"four": 0, b"one": 0, b"refuse me": 17, b"two": 0})
        self.assertEqual(self.a.turns, 1)
        self.nothing_left()

    def test_a_master_that_may_not_serve_for_a_moment(self) -> None:
        """Its lease ran out: what comes is kept until it is confirmed, or another one is master."""
        self.master_is(self.a, self.b)
        self.a.may_serve = False
        self.producer.send(self.a, b"one", b"two")
        self.world.run(0.5)
        self.a.may_serve = True
        self.producer.send(self.a, b"does not overtake them")
        self.world.run(0.15)
        self.assertEqual(self.a.stored, [b"one", b"two", b"does not overtake them"])
        self.a.may_serve = False
        self.producer.send(self.a, b"three")
        self.world.run(0.5)
        self.say(self.b, self.b.watch.own, 2)
        self.say(self.a, self.a.watch.other, self.b.address, 2)
        self.world.run(0.1)
        self.assertEqual(self.b.stored, [b"three"])
        self.assertEqual(set(self.codes().values()), {0})
        self.nothing_left()

    def test_a_master_that_may_not_serve_for_long(self) -> None:
        """Refuses in time."""
        self.master_is(self.a, self.b)
        self.a.may_serve = False
        self.producer.send(self.a, b"one")
        self.world.run(1)
        self.say(self.a, self.a.watch.members_are, frozenset({1}))
        self.world.run(1.2)
        self.assertEqual(self.codes(), {b"one": BUSY.code})
        self.nothing_left()

    def test_nobody_becomes_master(self) -> None:
        """After two seconds each is refused, in time for the client to hear it; pulls wait longer."""
        self.producer.send(self.a, b"one", b"two")
        self.producer.send(self.a, b"pull", code=PULL, suspendTimeoutMillis="15000")
        self.world.run(1.5)
        self.producer.send(self.a, b"late")
        self.world.run(1)
        self.assertEqual(self.codes(), {b"one": BUSY.code, b"two": BUSY.code})
        self.world.run(10)
        self.assertEqual(set(self.codes().values()), {BUSY.code})
        for body in (b"one", b"two", b"late"):
            self.assertAlmostEqual(self.producer.answers[body][1], forward_rules.HOLD_MS / 1000, delta=0.1)
        self.assertAlmostEqual(self.producer.answers[b"pull"][1], forward_rules.PULL_HOLD_MS / 1000, delta=0.1)
        self.nothing_left()

    def test_the_next_master_learns_it_last(self) -> None:
        """What was passed on to it is kept there until it does."""
        self.master_is(self.c, self.a, self.b)
        self.say(self.a, self.a.watch.other, self.b.address, 2)
        self.say(self.b, self.b.watch.unknown)
        self.producer.send(self.a, b"one")
        self.world.run(0.5)
        self.say(self.b, self.b.watch.own, 2)
        self.world.run(0.1)
        self.assertEqual(self.codes(), {b"one": 0})
        self.assertEqual(self.b.stored, [b"one"])

    def test_passed_on_to_one_that_is_replaced_by_us(self) -> None:
        """It refuses at once, as it hears who is master now; we serve it."""
        self.master_is(self.b, self.a, epoch=2)
        self.say(self.b, self.b.watch.unknown)  # it retires
        self.producer.send(self.a, b"one")
        self.world.run(0.3)
        self.assertEqual((self.a.forwarding.kept, self.b.forwarding.kept), (0, 1))
        self.say(self.a, self.a.watch.own, 3)
        self.say(self.b, self.b.watch.other, self.a.address, 3)
        self.world.run(0.1)
        self.assertEqual(self.a.stored, [b"one"])
        self.assertEqual(self.codes(), {b"one": 0})
        self.nothing_left()

    def test_passed_on_to_one_that_is_replaced_by_a_third(self) -> None:
        """The same, to the third."""
        self.master_is(self.b, self.a, epoch=2)
        self.say(self.b, self.b.watch.unknown)
        self.producer.send(self.a, b"one")
        self.world.run(0.3)
        self.say(self.c, self.c.watch.own, 3)
        for node in (self.a, self.b):
            self.say(node, node.watch.other, self.c.address, 3)
        self.world.run(0.1)
        self.assertEqual(self.c.stored, [b"one"])
        self.assertEqual(self.codes(), {b"one": 0})
        self.nothing_left()


class FailureTests(ForwardingCase):
    def test_a_master_that_is_down(self) -> None:
        """Nothing was handed over: it is tried again, in order, until the next one is known."""
        self.master_is(self.b, self.a)
        self.host("b").kill()
        bodies = [b"%d" % number for number in range(9)]
        for body in bodies:
            self.producer.send(self.a, body)
            self.world.run(0.07)
        self.assertEqual(self.codes(), {})
        self.say(self.c, self.c.watch.own, 2)
        self.say(self.a, self.a.watch.other, self.c.address, 2)
        self.world.run(0.2)
        self.assertEqual(self.c.stored, bodies)
        self.assertEqual(set(self.codes().values()), {0})
        self.nothing_left(self.a, self.c)

    def test_a_master_that_comes_back(self) -> None:
        """Is found within a moment."""
        self.master_is(self.b, self.a)
        self.host("b").kill()
        self.producer.send(self.a, b"one", b"two")
        self.world.run(0.5)
        self.host("b").start()
        self.world.run(0.01)
        again = self.node("b")
        self.say(again, again.watch.own, 1)
        self.world.run(0.4)
        self.assertEqual(again.stored, [b"one", b"two"])

    def unreachable(self) -> None:
        """The broker b is master, and a cannot connect to it: nothing refuses, nothing answers."""
        self.master_is(self.b, self.a)
        self.world.partition("cut", [self.host("a")], [self.host("b")])
        self.producer.send(self.a, b"one", b"two")
        self.producer.send(self.a, b"three", oneway=True)
        self.producer.send(self.a, b"pull", code=PULL, suspendTimeoutMillis="15000")
        self.world.run(0.5)
        self.assertEqual((self.codes(), self.taken(self.a)), ({}, (3, 1)))

    def test_what_waits_for_a_connection_moves_to_the_next_master(self) -> None:
        """At once, in order, once; the master of before never sees it."""
        self.unreachable()
        self.master_is(self.c, self.a, epoch=2)
        self.producer.send(self.a, b"four")
        self.world.run(0.1)
        self.assertEqual([each for each in self.c.stored if each != b"pull"], [b"one", b"two", b"three", b"four"])
        self.assertEqual(self.codes(), dict.fromkeys((b"one", b"two", b"four", b"pull"), 0))
        self.assertEqual({forwarder for _, forwarder in self.c.seen}, {self.a.address})
        self.world.heal("cut")
        self.world.run(5)
        self.assertEqual((self.b.seen, len(self.c.stored), self.a.forwarding.forwarded), ([], 5, 5))
        self.nothing_left()

    def test_what_waits_for_a_connection_while_nobody_is_known(self) -> None:
        """Nor does the master of before get it when it can be reached again."""
        self.unreachable()
        self.say(self.a, self.a.watch.unknown)
        self.world.run(0.1)
        self.world.heal("cut")
        self.world.run(1)
        self.assertEqual((self.b.seen, self.codes()), ([], {}))
        self.master_is(self.c, self.a, epoch=2)
        self.world.run(0.1)
        self.assertEqual(sorted(self.c.stored), [b"one", b"pull", b"three", b"two"])
        self.nothing_left()

    def test_what_waits_for_a_connection_is_served_here(self) -> None:
        """By the next master itself, not with the next attempt to connect; and no later than it would be refused."""
        self.unreachable()
        self.world.run(1)
        self.master_is(self.a, epoch=2)
        left_s = [round(until_s - self.a.reactor.seconds(), 1) for until_s in self.a.until_s]
        self.assertEqual(len(left_s), 4)
        self.assertLess(sorted(left_s)[2], 1.1)  # of the sends, who have waited for a second
        self.assertEqual(sorted(self.a.stored), [b"one", b"pull", b"three", b"two"])
        self.world.heal("cut")
        self.world.run(5)
        self.assertEqual(self.b.seen, [])
        self.nothing_left()

    def test_what_waits_for_a_connection_is_refused_in_time(self) -> None:
        """An attempt that hangs holds up nobody's answer."""
        self.unreachable()
        self.world.run(1)
        self.producer.send(self.a, b"late")
        self.world.run(2.5)
        self.assertEqual(self.codes(), dict.fromkeys((b"one", b"two", b"late"), BUSY.code))
        self.assertLess(max(seconds for _, seconds in self.producer.answers.values()), 2.1)
        self.world.run(10)
        self.nothing_left()

    def test_what_may_have_been_written_does_not_move(self) -> None:
        """A master that stands still with a send, and is replaced: nobody knows, so nobody else gets it."""
        self.master_is(self.b, self.a)
        self.producer.send(self.a, b"before")
        self.world.run(0.1)
        self.host("b").freeze(whole=False)
        self.producer.send(self.a, b"written")
        self.world.run(0.5)
        self.master_is(self.c, self.a, epoch=2)
        self.producer.send(self.a, b"after")
        self.world.run(3)
        self.assertEqual(self.c.stored, [b"after"])
        self.assertEqual(self.codes(), {b"before": 0, b"written": IN_DOUBT.code, b"after": 0})
        self.nothing_left(self.a)

    def test_nothing_overtakes_what_is_kept(self) -> None:
        """The master is back before the next attempt, and what comes then waits for its turn."""
        self.master_is(self.b, self.a)
        self.host("b").kill()
        self.producer.send(self.a, b"one")
        self.world.run(0.02)
        self.assertEqual(self.a.forwarding.kept, 1)
        self.host("b").start()
        self.world.run(0.01)
        again = self.node("b")
        self.say(again, again.watch.own, 1)
        for body in (b"two", b"three"):
            self.producer.send(self.a, body)
            self.world.run(0.01)
        self.world.run(0.3)
        self.assertEqual(again.stored, [b"one", b"two", b"three"])

    def test_a_master_that_dies_with_the_request(self) -> None:
        """It may have stored it: only the client knows whether it may be sent again."""
        self.master_is(self.b, self.a)
        self.b.silent = True
        self.producer.send(self.a, b"one")
        self.world.run(0.2)
        self.host("b").kill()
        self.world.run(0.2)
        self.assertEqual(self.codes(), {b"one": IN_DOUBT.code})
        self.nothing_left(self.a)

    def test_a_master_that_stands_still(self) -> None:
        """Is waited for as long as the client waits, and no longer."""
        self.master_is(self.b, self.a)
        self.producer.send(self.a, b"before")
        self.world.run(0.1)
        self.host("b").freeze(whole=True)
        self.producer.send(self.a, b"one")
        self.world.run(4)
        self.assertEqual(self.codes(), {b"before": 0, b"one": IN_DOUBT.code})
        self.assertLess(self.producer.answers[b"one"][1], 3)
        self.nothing_left(self.a)

    def test_a_client_that_goes(self) -> None:
        """Nobody waits for its answers; what wanted none is passed on all the same."""
        self.producer.send(self.a, b"one")
        self.producer.send(self.a, b"nobody waits", oneway=True)
        self.world.run(0.2)
        self.host("producer").kill()
        self.world.run(0.2)
        self.assertEqual(self.a.forwarding.kept, 1)
        self.master_is(self.b, self.a)
        self.world.run(0.2)
        self.assertEqual(self.b.stored, [b"nobody waits"])
        self.nothing_left()

    def test_another_client_stays(self) -> None:
        """What it asked is still kept when somebody else goes."""
        other = self.add_producer("other")
        self.producer.send(self.a, b"one")
        other.send(self.a, b"two")
        self.world.run(0.2)
        self.host("producer").kill()
        self.world.run(0.1)
        self.master_is(self.b, self.a)
        self.world.run(0.1)
        self.assertEqual((self.b.stored, other.answers[b"two"][0]), ([b"two"], 0))
        self.nothing_left()

    def test_stop_with_sends_on_their_way(self) -> None:
        """They may be stored: a refusal would say that they are not."""
        self.master_is(self.b, self.a)
        self.b.silent = True
        self.producer.send(self.a, b"send", oneway=False)
        self.producer.send(self.a, b"pull", code=PULL)
        self.world.run(0.1)
        self.say(self.a, self.a.forwarding.end)
        self.world.run(0.1)
        self.assertEqual(self.codes(), {b"pull": BUSY.code, b"send": IN_DOUBT.code})
        self.assertEqual(self.a.forwarding.doubtful, 1)
        self.nothing_left()

    def test_stop(self) -> None:
        """What is kept is refused, and what comes."""
        self.producer.send(self.a, b"kept")
        self.world.run(0.1)
        self.say(self.a, self.a.forwarding.end)
        self.producer.send(self.a, b"after")
        self.world.run(0.1)
        self.assertEqual(self.codes(), {b"after": BUSY.code, b"kept": BUSY.code})
        self.nothing_left()


class BoundTests(ForwardingCase):
    def setUp(self) -> None:
        super().setUp()
        self.other = self.add_producer("other")

    def test_requests(self) -> None:
        """What one client has beyond its part is refused at once; there is a part for another one."""
        self.a.forwarding.budgets[False].count_max = 6
        self.producer.send(self.a, *[b"%d" % number for number in range(5)])
        self.world.run(0.1)
        self.assertEqual(self.codes(), {b"3": BUSY.code, b"4": BUSY.code})
        self.other.send(self.a, b"other")
        self.world.run(0.1)
        self.master_is(self.b, self.a)
        self.producer.send(self.a, b"5")
        self.world.run(0.1)
        self.assertEqual(self.b.stored, [b"0", b"1", b"2", b"other", b"5"])
        self.nothing_left()

    def test_bytes(self) -> None:
        """The same by their size."""
        self.a.forwarding.budgets[False].bytes_max = 16_000
        self.producer.send(self.a, b"1" * 5000, b"2" * 5000, b"3" * 100)
        self.world.run(0.1)
        self.assertEqual(self.codes(), {b"2" * 5000: BUSY.code})

    def test_bytes_of_fields(self) -> None:
        """Are memory like those of bodies."""
        self.a.forwarding.budgets[True].bytes_max = 1_000_000
        for number in range(20):
            self.producer.send(self.a, b"%d" % number, code=PULL, suspendTimeoutMillis="60000", junk="x" * 60_000)
        self.world.run(0.1)
        self.assertEqual((self.taken(self.a), len(self.codes())), ((0, 8), 12))

    def test_pulls_take_nothing_from_sends(self) -> None:
        """However many wait at the master for a message."""
        for budget in self.a.forwarding.budgets.values():
            budget.count_max = 4
        self.master_is(self.b, self.a)
        self.b.silent = True
        self.producer.send(self.a, b"1", b"2", b"3", code=PULL, suspendTimeoutMillis="60000")
        self.world.run(0.1)
        self.b.silent = False
        self.producer.send(self.a, b"send")
        self.world.run(0.1)
        self.assertEqual(self.codes(), {b"3": BUSY.code, b"send": 0})
        self.assertEqual(self.taken(self.a), (0, 2))

    def test_pulls_of_a_client_that_is_gone(self) -> None:
        """Their places are free, and the master's answers are for nobody."""
        self.master_is(self.b, self.a)
        self.b.silent = True
        for client, body in ((self.producer, b"gone"), (self.other, b"stays")):
            client.send(self.a, body, code=PULL, suspendTimeoutMillis="15000")
        self.producer.send(self.a, b"send")
        self.world.run(0.1)
        self.assertEqual(self.taken(self.a), (1, 2))
        self.host("producer").kill()
        self.world.run(0.1)
        self.assertEqual(self.taken(self.a), (1, 1))
        self.world.run(40)
        self.assertEqual(self.other.answers[b"stays"][0], BUSY.code)
        self.nothing_left()

    def test_a_client_that_goes_while_its_pull_waits_for_a_connection(self) -> None:
        """It does not wait for it any more."""
        self.master_is(self.b, self.a)
        self.world.partition("cut", [self.host("a")], [self.host("b")])
        self.producer.send(self.a, b"pull", code=PULL, suspendTimeoutMillis="15000")
        self.world.run(0.2)
        self.assertEqual((self.taken(self.a), self.a.forwarding.kept), ((0, 1), 1))
        self.host("producer").kill()
        self.world.run(0.1)
        self.nothing_left(self.a)
        self.world.heal("cut")
        self.world.run(5)
        self.assertEqual(self.b.seen, [])
        self.nothing_left(self.a)

    def test_a_header_that_the_master_would_not_take(self) -> None:
        """Is refused here: over the same connection go the requests of all others."""
        self.master_is(self.b, self.a)
        self.b.silent = True
        self.other.send(self.a, b"other", code=PULL, suspendTimeoutMillis="15000")
        self.world.run(0.1)
        room = HEADER_LIMIT - 400
        self.producer.send(self.a, b"long", junk="x" * (room + 270))
        self.producer.send(self.a, b"fits", junk="x" * room)
        packed = encode(Command(SEND, fields={"junk": "\x01" * (HEADER_LIMIT // 6)}), binary=True)  # longer in JSON
        self.producer.reactor.callLater(
            0, lambda: self.producer.client.connect(self.a.address).addCallback(lambda found: found.write(packed))
        )
        self.world.run(0.1)
        self.assertEqual((self.codes(), self.producer.failed), ({b"long": BUSY.code}, []))
        self.assertEqual((self.other.answers, self.b.seen[1:]), ({}, [(SEND, self.a.address)]))
        self.assertEqual((self.taken(self.a), self.a.forwarding.refused), ((1, 1), 2))

    def test_the_longest_header_that_the_master_takes(self) -> None:
        """Every length about the limit is either refused here or reaches the master, over one connection."""
        self.master_is(self.b, self.a)
        lengths = range(HEADER_LIMIT - 260, HEADER_LIMIT - 125)
        for length in lengths:
            self.producer.send(self.a, b"%d" % length, junk="x" * length)
            self.world.run(0.01)
        self.world.run(0.5)
        refused = [int(body) for body, code in self.codes().items() if code == BUSY.code]
        self.assertEqual(refused, list(lengths[-len(refused) :]))
        self.assertTrue(0 < len(refused) < len(lengths), len(refused))
        self.assertEqual((len(self.codes()), self.producer.failed), (len(lengths), []))
        self.assertEqual(len(self.b.stored), len(lengths) - len(refused))

    def test_a_frame_that_the_master_would_not_take(self) -> None:
        """The same of the whole frame."""
        self.master_is(self.b, self.a)
        self.producer.send(self.a, bytes(FRAME_LIMIT - 150))
        self.producer.send(self.a, b"small")
        self.world.run(3)
        self.assertEqual(sorted(self.codes().values()), [0, BUSY.code])
        self.assertEqual(self.producer.failed, [])

    def test_a_master_that_does_not_read(self) -> None:
        """Our buffer for it is bounded below what would end the connection of all; what does not fit is refused in
        time, and nothing overtakes it."""
        self.master_is(self.b, self.a)
        self.producer.send(self.a, b"before")
        self.world.run(0.1)
        with mock.patch.object(RemotingClient, "unsent", lambda client, address: UNSENT_MAX - 1000):
            self.producer.send(self.a, b"fits")
            self.world.run(0.1)
            self.producer.send(self.a, b"x" * 1000)
            self.world.run(0.5)
            self.producer.send(self.a, b"small")
            self.producer.send(self.a, b"oneway", oneway=True)
            self.world.run(1.4)
            self.assertEqual((self.b.stored, self.taken(self.a)), ([b"before", b"fits"], (3, 0)))
            self.world.run(0.3)
        self.assertEqual(self.b.stored, [b"before", b"fits", b"small", b"oneway"])
        self.assertEqual(self.codes(), {b"before": 0, b"fits": 0, b"small": 0, b"x" * 1000: BUSY.code})
        self.nothing_left()

    def test_a_master_that_reads_on(self) -> None:
        """What did not fit into our buffer for it waits until it has read, and follows in order; an election under
        load keeps more than the buffer may have."""
        self.master_is(self.b, self.a)
        self.producer.send(self.a, b"before")
        self.world.run(0.1)
        with mock.patch.object(RemotingClient, "unsent", lambda client, address: UNSENT_MAX):
            self.producer.send(self.a, b"one", b"two")
            self.producer.send(self.a, b"three", oneway=True)
            self.world.run(0.25)
            self.assertEqual(self.a.forwarding.kept, 3)
        self.producer.send(self.a, b"four")
        self.world.run(0.15)
        self.assertEqual(self.b.stored, [b"before", b"one", b"two", b"three", b"four"])
        self.assertEqual(set(self.codes().values()), {0})
        self.nothing_left()


class SwitchedOffTests(ForwardingCase):
    enabled = False

    def test_as_java(self) -> None:
        """forwardSends=false: every request is refused at once."""
        self.master_is(self.b, self.a)
        self.producer.send(self.a, b"one")
        self.world.run(0.1)
        self.assertEqual(self.codes(), {b"one": BUSY.code})
        self.assertEqual(self.b.seen, [])
