"""What goes wrong while requests are passed on: nobody's request is lost, stored twice, late, or in another's way."""

from __future__ import annotations

import unittest
from typing import Any
from unittest import mock

from twisted.internet import defer, error

from rocketha.broker import forward_rules
from rocketha.broker.forward_rules import EPOCH_MARK, MARK
from rocketha.broker.role import BUSY
from rocketha.protocols.limits import Limits
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.broker.forwarding import IN_DOUBT, RETRY_S, UNSENT_MAX
from rocketha.simulation import stream
from rocketha.wire.remoting import Answer, Command
from tests.services.broker.test_forwarding import OFFSET, PULL, ForwardingCase

HOLD_S = forward_rules.HOLD_MS / 1000


class ConnectionTests(ForwardingCase):
    def test_an_attempt_to_connect_that_fails_at_once(self) -> None:
        """Is repeated like any other."""
        self.master_is(self.b, self.a)
        connect, failed = RemotingClient.connect, []

        def connecting(client: RemotingClient, address: str, *timeout_s: float) -> defer.Deferred[Any]:
            if address == self.b.address and len(failed) < 2:
                failed.append(address)
                return defer.fail(error.ConnectError())
            return connect(client, address, *timeout_s)

        self.patched(mock.patch.object(RemotingClient, "connect", connecting))
        self.producer.send(self.a, b"one")
        self.producer.send(self.a, b"two")
        self.world.run(2 * RETRY_S + 0.05)
        self.assertEqual((len(failed), self.b.stored, self.codes()), (2, [b"one", b"two"], {b"one": 0, b"two": 0}))
        self.nothing_left()

    def test_a_connection_that_ends_while_what_is_kept_is_written(self) -> None:
        """What was written is in doubt; what was not stays, goes over the next connection, in order."""
        self.master_is(self.b, self.a)
        self.world.partition("cut", [self.host("a")], [self.host("b")])
        bodies = [b"%d" % number for number in range(6)]
        self.producer.send(self.a, *bodies[:5])
        self.producer.send(self.a, b"oneway", oneway=True)
        self.producer.send(self.a, *bodies[5:])
        self.producer.send(self.a, b"pull", code=PULL, suspendTimeoutMillis="15000")
        self.world.run(0.2)
        writes: list[int] = []

        def waiting(transport: stream.SimulatedTransport) -> int:
            """More than a connection may have, at the third write to b."""
            if transport.getPeer().host != self.host("b").address:
                return 0
            writes.append(1)
            return Limits().queued_bytes + 1 if len(writes) == 3 else 0

        self.patched(mock.patch("rocketha.protocols.remoting.queued_bytes", waiting))
        self.world.heal("cut")
        self.world.run(1.5)
        self.assertEqual([each for each in self.b.stored if each != b"pull"], [b"3", b"4", b"oneway", b"5"])
        self.assertEqual(
            self.codes(),
            {**dict.fromkeys(bodies[:3], IN_DOUBT.code), **dict.fromkeys([*bodies[3:], b"pull"], 0)},
        )
        self.nothing_left()

    def master_is_cut_off(self) -> None:
        """b is the master, a has a connection to it, and nothing gets through any more."""
        self.master_is(self.b, self.a)
        self.producer.send(self.a, b"before")
        self.world.run(0.1)
        self.world.partition("cut", [self.host("a")], [self.host("b")])

    def test_a_connection_that_is_dead(self) -> None:
        """It is given up: what waits in it would be stored when all its clients have sent it again."""
        self.master_is_cut_off()
        for number in range(20):
            self.producer.send(self.a, b"%d" % number)
            self.world.run(0.5)
        self.world.run(3)
        codes = [self.producer.answers[b"%d" % number][0] for number in range(20)]
        self.assertEqual(codes, [IN_DOUBT.code] * 11 + [BUSY.code] * 9)
        self.world.heal("cut")
        self.world.run(20)
        self.producer.send(self.a, b"after")
        self.world.run(0.1)
        self.assertEqual(self.b.stored, [b"before", b"after"])
        self.nothing_left()

    def test_stop_while_the_master_does_not_read(self) -> None:
        """Nobody waits for it to read: clients hear at once that it is in doubt, and no timer is left."""
        self.master_is_cut_off()
        self.producer.send(self.a, *(b"%d" % number + bytes(stream.BUFFER) for number in range(4)))
        self.producer.send(self.a, b"pull", code=PULL, suspendTimeoutMillis="15000")
        self.world.run(0.2)
        self.say(self.a, self.a.forwarding.end)
        self.world.run(0.1)
        self.assertEqual(sorted(self.codes().values()), [0, *[IN_DOUBT.code] * 4, BUSY.code])
        self.nothing_left()

    def test_a_connection_over_which_only_pulls_go(self) -> None:
        """The same; they are answered late, so it takes longer."""
        self.master_is_cut_off()
        for number in range(3):
            self.producer.send(self.a, b"%d" % number, code=PULL, suspendTimeoutMillis="1000")
            self.world.run(4)
        self.world.run(5)
        self.assertEqual(self.codes(), {b"before": 0, **dict.fromkeys((b"0", b"1", b"2"), BUSY.code)})
        self.world.heal("cut")
        self.producer.send(self.a, b"after", code=PULL, suspendTimeoutMillis="1000")
        self.world.run(0.1)
        self.assertEqual(self.b.stored, [b"before", b"after"])
        self.nothing_left()

    def test_a_connection_that_dies_with_an_answer_due(self) -> None:
        """It is silent since the last answer, though nothing was asked for a while then."""
        self.master_is(self.b, self.a)
        serve = self.b.serve
        self.b.serve = lambda connection, command: (  # type: ignore[method-assign]
            None if command.body == b"due" else serve(connection, command)
        )
        self.producer.send(self.a, b"due", b"answered")
        self.producer.send(self.a, b"pull", code=PULL)
        self.world.run(0.1)
        self.world.partition("cut", [self.host("a")], [self.host("b")])
        self.world.run(2.3)
        self.producer.send(self.a, b"silent")
        self.world.run(2.8)
        self.producer.send(self.a, b"after")
        self.world.run(3)
        doubtful = dict.fromkeys((b"due", b"silent"), IN_DOUBT.code)
        self.assertEqual(self.codes(), {**doubtful, b"answered": 0, b"pull": 0, b"after": BUSY.code})
        self.nothing_left()

    def test_a_master_that_leaves_some_unanswered(self) -> None:
        """But not all: its connection is everybody's, and stays."""
        self.master_is(self.b, self.a)
        serve = self.b.serve
        self.b.serve = lambda connection, command: (  # type: ignore[method-assign]
            None if command.code == PULL or command.body == b"left" else serve(connection, command)
        )
        self.producer.send(self.a, b"before")
        self.world.run(0.1)
        opened = self.world.network.opened
        for number in range(15):
            self.producer.send(self.a, b"pull", code=PULL, suspendTimeoutMillis="1000")
            self.producer.send(self.a, b"left", b"%d" % number)
            self.world.run(1)
        self.world.run(10)
        self.assertEqual(self.b.stored, [b"before", *(b"%d" % number for number in range(15))])
        self.assertEqual(self.world.network.opened, opened)
        self.nothing_left()

    def test_much_both_ways(self) -> None:
        """Sends that the master has not read yet do not keep us from reading its answers, which it waits for."""
        self.master_is(self.b, self.a)
        serve = self.b.serve

        def served(connection: Any, command: Command) -> Answer | None:
            return Answer(body=bytes(stream.BUFFER)) if command.code == PULL else serve(connection, command)

        self.b.serve = served  # type: ignore[method-assign]
        pulls, sends = [b"p%d" % number for number in range(40)], [b"%d" % number for number in range(40)]
        self.producer.send(self.a, *pulls, code=PULL, suspendTimeoutMillis="15000")
        self.producer.send(self.a, *(body.ljust(stream.BUFFER, b".") for body in sends))
        self.world.run(2)
        self.assertEqual([body.rstrip(b".") for body in self.b.stored], sends)
        self.assertEqual((len(self.codes()), set(self.codes().values())), (80, {0}))
        self.nothing_left()

    def patched(self, patch: Any) -> None:
        patch.start()
        self.addCleanup(patch.stop)


class LineTests(ForwardingCase):
    """What is kept, and who stands behind whom."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.add_producer("other")

    def test_what_is_kept_for_a_forwarder_is_in_nobodys_way(self) -> None:
        """It says that we will be master; for all we know another one is, and our clients' requests go there."""
        self.master_is(self.c, self.a, self.b)
        self.other.send(self.a, b"for us", **{MARK: self.c.address, EPOCH_MARK: "9"})
        self.world.run(0.1)
        self.assertEqual(self.a.forwarding.kept, 1)
        self.producer.send(self.a, b"one", b"two")
        self.producer.send(self.a, b"offset", code=OFFSET)
        self.world.run(0.1)
        self.assertEqual(self.c.stored, [b"one", b"two", b"offset"])
        self.world.run(HOLD_S)
        self.assertEqual(self.other.answers[b"for us"][0], BUSY.code)
        self.nothing_left()

    def test_what_comes_back_is_answered_in_time(self) -> None:
        """Refused by one that was the master no more, it is kept again, by its own deadline."""
        self.master_is(self.b, self.a, epoch=2)
        self.say(self.b, self.b.watch.unknown)
        self.producer.send(self.a, b"first")
        self.world.run(HOLD_S - 0.5)
        self.say(self.a, self.a.watch.unknown)
        self.producer.send(self.a, b"later")
        self.world.run(0.1)
        self.say(self.b, self.b.watch.other, self.c.address, 3)
        self.world.run(0.1)
        self.assertEqual((self.a.forwarding.kept, self.codes()), (2, {}))
        self.world.run(HOLD_S)
        for body in (b"first", b"later"):
            self.assertAlmostEqual(self.producer.answers[body][1], HOLD_S, delta=0.1)
        self.nothing_left()

    def test_what_comes_back_overdue_is_refused(self) -> None:
        """Nowhere is it tried again, neither by another master nor here."""
        self.master_is(self.b, self.a)

        def serve(connection: Any, command: Command) -> None:
            self.b.reactor.callLater(HOLD_S + 0.3, connection.answer, command, BUSY)

        self.b.serve = serve  # type: ignore[assignment, method-assign]
        for epoch, next_one in enumerate((self.c, self.a), 2):
            self.producer.send(self.a, b"send")
            self.producer.send(self.a, b"pull", code=PULL, suspendTimeoutMillis="1000")
            self.world.run(HOLD_S)
            self.master_is(next_one, *({self.a} - {next_one}), epoch=epoch)
            self.world.run(0.4)
            self.assertEqual(self.codes(), dict.fromkeys((b"send", b"pull"), BUSY.code))
            for _, seconds in self.producer.answers.values():
                self.assertAlmostEqual(seconds, HOLD_S + 0.3, delta=0.02)
            self.assertEqual((next_one.stored, self.a.forwarding.forwarded), ([], 2))
            self.producer.answers.clear()
            self.a.forwarding.forwarded = 0
            self.master_is(self.b, self.a, epoch=epoch)
        self.nothing_left()

    def test_what_is_overdue_is_not_stored(self) -> None:
        """After a freeze news come before the timer: the client gave up, and sent it elsewhere."""
        self.master_is(self.a, self.b)
        self.a.may_serve = False

        def news() -> None:
            self.a.may_serve = True
            self.a.watch.members_are(frozenset({1}))

        self.a.reactor.callLater(1.0, news)
        self.producer.send(self.a, b"overdue")
        self.world.run(0.5)
        self.host("a").freeze(whole=False)
        self.world.run(HOLD_S + 1)
        self.host("a").thaw()
        self.world.run(0.1)
        self.assertEqual((self.a.stored, self.codes()), ([], {b"overdue": BUSY.code}))
        self.nothing_left()


class NewerMasterTests(ForwardingCase):
    """The broker b was master of epoch 2 and knows that c is of 3; a does not know yet."""

    def setUp(self) -> None:
        super().setUp()
        self.master_is(self.b, self.a, epoch=2)
        self.master_is(self.c, self.b, epoch=3)
        self.doubts = 0
        self.a.forwarding.when_doubted(self.doubted)

    def doubted(self) -> None:
        self.doubts += 1

    def test_what_it_refuses_waits_for_the_news(self) -> None:
        """And what comes after it, so that both arrive in order; who may know more is asked."""
        self.producer.send(self.a, b"one", b"two")
        self.world.run(0.05)
        self.producer.send(self.a, b"three", oneway=True)
        self.producer.send(self.a, b"four")
        self.world.run(1)
        self.assertEqual((self.codes(), self.a.forwarding.kept, self.doubts > 0), ({}, 4, True))
        self.say(self.a, self.a.watch.other, self.c.address, 3)
        self.world.run(0.1)
        self.assertEqual(self.c.stored, [b"one", b"two", b"three", b"four"])
        self.assertEqual(self.codes(), dict.fromkeys((b"one", b"two", b"four"), 0))
        self.nothing_left()

    def test_the_news_do_not_come(self) -> None:
        """Each is refused in time, and the master of before is not asked without end."""
        self.producer.send(self.a, b"one")
        for number in range(10):
            self.world.run(0.2)
            self.producer.send(self.a, b"%d" % number)
        self.world.run(HOLD_S + 0.1)
        self.assertEqual(set(self.codes().values()), {BUSY.code})
        self.assertEqual(len(self.codes()), 11)
        self.assertLess(max(seconds for _, seconds in self.producer.answers.values()), HOLD_S + 0.1)
        self.assertEqual(len(self.b.seen), 11)
        self.nothing_left()

    def test_the_news_do_not_come_and_many_wait_for_them(self) -> None:
        """The end of one costs about what one costs, if the next waits for the same."""
        bodies = [b"%03d" % number for number in range(300)]
        with mock.patch.object(forward_rules, "course", wraps=forward_rules.course) as course:
            for body in bodies:
                self.producer.send(self.a, body)
                self.world.run(0.003)
            self.world.run(HOLD_S + 0.1)
        self.assertEqual(self.codes(), dict.fromkeys(bodies, BUSY.code))
        self.assertLess(course.call_count, 10 * len(bodies))
        self.nothing_left()

    def test_it_says_so_and_serves(self) -> None:
        """Whoever errs in this does not hold up what comes after it for ever."""
        answers = [Answer(BUSY.code, "", {forward_rules.NEWER_MARK: "9"})]
        self.say(self.b, self.b.watch.own, 4)
        self.world.run(0.1)
        serve = self.b.serve
        self.b.serve = lambda *what: answers.pop() if answers else serve(*what)  # type: ignore[method-assign]
        self.producer.send(self.a, b"one")
        self.world.run(0.1)
        self.producer.send(self.a, b"two", b"three")
        self.world.run(HOLD_S)
        self.assertEqual(self.b.stored, [b"two", b"three"])
        self.assertEqual(self.codes(), {b"one": BUSY.code, b"three": 0, b"two": 0})
        self.nothing_left()

    def test_we_are_the_newer_one(self) -> None:
        """And learn it last."""
        self.say(self.b, self.b.watch.other, self.a.address, 4)
        self.world.run(0.1)
        self.producer.send(self.a, b"one")
        self.world.run(0.1)
        self.assertEqual((self.codes(), self.a.forwarding.kept), ({}, 1))
        self.say(self.a, self.a.watch.own, 4)
        self.world.run(0.1)
        self.assertEqual((self.a.stored, self.codes()), ([b"one"], {b"one": 0}))
        self.nothing_left()

    def test_it_learns_last_that_it_is_the_newer_one(self) -> None:
        """For all that b knows, c is; what we pass on to it waits there for the news."""
        self.say(self.a, self.a.watch.other, self.b.address, 4)
        self.producer.send(self.a, b"one")
        self.producer.send(self.a, b"offset", code=OFFSET)
        self.world.run(0.1)
        self.assertEqual((self.codes(), self.b.forwarding.kept), ({}, 2))
        self.say(self.b, self.b.watch.own, 4)
        self.world.run(0.1)
        self.assertEqual((self.b.stored, self.codes()), ([b"one", b"offset"], {b"offset": 0, b"one": 0}))
        self.nothing_left()

    def test_its_client_is_gone(self) -> None:
        """And sent it elsewhere, perhaps: it is stored no more."""
        self.say(self.b, self.b.watch.unknown)
        self.producer.send(self.a, b"one")
        self.world.run(0.1)
        self.host("producer").kill()
        self.world.run(0.1)
        self.say(self.b, self.b.watch.other, self.c.address, 4)
        self.say(self.a, self.a.watch.other, self.c.address, 4)
        self.world.run(0.1)
        self.assertEqual(self.c.stored, [])
        self.nothing_left()

    def test_the_client_whose_request_holds_others_up_goes(self) -> None:
        """They are passed on then, if nothing else is in their way; whoever erred in this is a master that serves."""
        answers = [Answer(BUSY.code, "", {forward_rules.NEWER_MARK: "9"})]
        self.say(self.b, self.b.watch.own, 4)
        other = self.add_producer("other")
        serve = self.b.serve
        self.b.serve = lambda *what: answers.pop() if answers else serve(*what)  # type: ignore[method-assign]
        self.producer.send(self.a, b"one")
        self.world.run(0.1)
        other.send(self.a, b"two", b"three")
        self.world.run(0.1)
        self.assertEqual((self.a.forwarding.kept, self.b.stored), (3, []))
        self.host("producer").kill()
        self.world.run(0.1)
        self.assertEqual(self.b.stored, [b"two", b"three"])
        self.assertEqual({body: code for body, (code, _) in other.answers.items()}, {b"two": 0, b"three": 0})
        self.nothing_left()

    def many_kept(self) -> list[bytes]:
        """What b has got from a and keeps, as it knows of no master."""
        self.say(self.b, self.b.watch.unknown)
        bodies = [b"%03d" % number for number in range(300)]
        self.producer.send(self.a, *bodies)
        self.world.run(0.3)
        self.assertEqual(self.b.forwarding.kept, len(bodies))
        return bodies

    def test_it_refuses_many_and_the_newer_one_cannot_be_reached(self) -> None:
        """Each waits for the connection, and costs about what one costs: nobody goes through all of them for each."""
        bodies = self.many_kept()
        self.world.partition("cut", [self.host("a")], [self.host("c")])
        self.say(self.a, self.a.watch.other, self.c.address, 4)
        self.say(self.b, self.b.watch.other, self.c.address, 4)
        with mock.patch.object(forward_rules, "course", wraps=forward_rules.course) as course:
            self.world.run(0.3)
        self.assertEqual((self.a.forwarding.kept, self.codes()), (len(bodies), {}))
        self.assertLess(course.call_count, 5 * len(bodies))
        self.world.heal("cut")
        self.master_is(self.c, epoch=4)
        self.world.run(1.2)  # with the second attempt of its kernel
        self.assertEqual((self.c.stored, self.codes()), (bodies, dict.fromkeys(bodies, 0)))
        self.nothing_left()

    def test_it_refuses_many_and_the_newer_one_does_not_read(self) -> None:
        """The same: what does not fit into our buffer for it waits for the next attempt."""
        bodies = self.many_kept()
        self.master_is(self.c, self.a, epoch=4)
        self.producer.send(self.a, b"before")
        self.world.run(0.1)
        self.say(self.b, self.b.watch.other, self.c.address, 4)
        with mock.patch.object(RemotingClient, "unsent", lambda client, address: UNSENT_MAX):
            with mock.patch.object(forward_rules, "course", wraps=forward_rules.course) as course:
                self.world.run(RETRY_S)
            self.assertEqual(self.a.forwarding.kept, len(bodies))
        self.assertLess(course.call_count, 5 * len(bodies))
        self.world.run(2 * RETRY_S)
        self.assertEqual(self.c.stored, [b"before", *bodies])
        self.assertEqual(self.codes(), dict.fromkeys(self.c.stored, 0))
        self.nothing_left()

    def test_we_take_no_more(self) -> None:
        """What it refuses then is refused, not kept: there is no time left to hear of another master."""
        self.say(self.b, self.b.watch.unknown)
        self.producer.send(self.a, b"one")
        self.world.run(0.1)
        self.say(self.a, self.a.forwarding.take_no_more)
        self.say(self.b, self.b.watch.other, self.c.address, 4)
        self.world.run(0.1)
        self.assertEqual((self.codes(), self.a.forwarding.kept), ({b"one": BUSY.code}, 0))
        self.nothing_left()

    def test_a_master_that_is_busy(self) -> None:
        """Its refusal is the answer, at once: the client knows best."""
        self.say(self.b, self.b.watch.own, 4)
        self.world.run(0.1)
        self.b.serve = lambda *what: BUSY  # type: ignore[method-assign]
        self.producer.send(self.a, b"one")
        self.world.run(0.1)
        self.assertEqual((self.codes(), self.doubts), ({b"one": BUSY.code}, 0))
        self.nothing_left()


if __name__ == "__main__":
    unittest.main()
