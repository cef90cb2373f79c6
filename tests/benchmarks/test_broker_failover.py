"""What the benchmark of brokers makes of what its senders were told; its producer does as Java's default one."""

from __future__ import annotations

import signal
import time
import unittest
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from benchmarks import broker_failover, loaded, producer
from tests.interop.harness.remoting import Reply

Answer = Reply | OSError


def stored(queue: int = 1, offset: int = 2) -> Reply:
    """SEND_OK."""
    return Reply(0, None, {"queueId": str(queue), "queueOffset": str(offset)}, b"")


def refused(code: int) -> Reply:
    """Any other answer."""
    return Reply(code, "no", {}, b"")


class Broker:
    """Gives its answers in turn to whoever asks, under any address."""

    def __init__(self, *answers: Answer, takes_s: float = 0.0) -> None:
        self.answers = iter(answers)
        self.asked: list[tuple[str, str]] = []
        self.takes_s = takes_s
        self.now = 0.0

    def ask(self, address: str, code: int, fields: dict[str, str], body: bytes, due: float) -> Reply:
        """As _Sender.ask."""
        self.asked.append((address, fields["queueId"]))
        self.now += self.takes_s
        answer = next(self.answers)
        if isinstance(answer, OSError):
            raise answer
        return answer


class ProducerTests(unittest.TestCase):
    """``DefaultMQProducerImpl.sendDefaultImpl`` of Java 5.5.0."""

    def send(self, *answers: Answer, route: str = "a:1", takes_s: float = 0.0) -> tuple[bool, Broker]:
        """Whether a send succeeded, and what was asked meanwhile."""
        broker = Broker(*answers, takes_s=takes_s)
        one = producer.Producer("n:1")
        one.master = "" if route == "asked for" else route
        with (
            mock.patch.object(producer, "master_in_route", lambda _: "a:2" if route == "asked for" else ""),
            mock.patch.object(producer.time, "monotonic", lambda: broker.now),
        ):
            return one.send(broker, "key", 3) is not None, broker  # type: ignore[arg-type]

    def test_three_tries(self) -> None:
        """At the same address, each at the next queue; the route is not asked for."""
        gone = ConnectionRefusedError()
        ok, broker = self.send(gone, refused(14), stored())
        self.assertTrue(ok)
        self.assertEqual(broker.asked, [("a:1", "3"), ("a:1", "0"), ("a:1", "1")])
        self.assertFalse(self.send(gone, gone, gone)[0])

    def test_what_is_not_tried_again(self) -> None:
        """A copy that was not acknowledged, a message that is wrong: the caller's."""
        for code in (10, 11, 12, 13):
            ok, broker = self.send(refused(code))
            self.assertEqual((ok, len(broker.asked)), (False, 1), code)

    def test_three_seconds_in_all(self) -> None:
        """A broker that does not answer takes all of it."""
        ok, broker = self.send(TimeoutError(), takes_s=3.0)
        self.assertEqual((ok, len(broker.asked)), (False, 1))

    def test_go_away(self) -> None:
        """The same try, over another connection."""
        ok, broker = self.send(refused(1), refused(1), refused(1500), stored())
        self.assertEqual((ok, len(broker.asked)), (True, 4))

    def test_a_route_without_master(self) -> None:
        """Only then it is asked for by a send."""
        ok, broker = self.send(stored(), route="asked for")
        self.assertEqual((ok, broker.asked), (True, [("a:2", "3")]))
        self.assertEqual(self.send(route="")[1].asked, [])


class CountingTests(unittest.TestCase):
    """Gaps and losses."""

    def test_longest_gap(self) -> None:
        """Of those that end after the fault, one that began before it too; order does not matter."""
        times = [1.0, 3.0, 3.1, 3.4, 3.2]
        self.assertAlmostEqual(producer.longest_gap(times, 0.0), 2.0)
        self.assertAlmostEqual(producer.longest_gap(times, 2.9), 2.0)
        self.assertAlmostEqual(producer.longest_gap(times, 3.05), 0.2)

    def test_lost(self) -> None:
        """One that is not there, and one where another message is."""
        acks = [producer.Ack(0.0, "a:1", key, 0, offset) for offset, key in enumerate("abc")]
        self.assertEqual(producer.count_lost(acks, {(0, 0): b"a", (0, 1): b"b", (0, 2): b"c"}), 0)
        self.assertEqual(producer.count_lost(acks, {(0, 0): b"a", (0, 1): b"c", (1, 2): b"c"}), 2)

    def test_what_another_answered(self) -> None:
        """By its time, and not what the old master said before it died or afterwards."""
        one = producer.Producer("n:1")
        one.acks = [producer.Ack(at, address, "", 0, 0) for at, address in ((3, "b"), (2, "a"), (2, "b"), (1, "b"))]
        self.assertEqual([ack.at for ack in one.answered_by_another("a", 1.5)], [2, 3])


class SideTests(unittest.TestCase):
    """Rounds of brokers that are none."""

    def side(self, rounds: int) -> tuple[broker_failover.Side, list[float]]:
        """One whose rows take no time; the moments at which its producers had asked for the route."""
        polled: list[float] = []

        class Load(producer.Producer):
            """It was told of 50 messages and of a failure before the fault."""

            def start(self) -> producer.Producer:
                polled.append(self.polled_ago_s)
                self.acks = [producer.Ack(time.monotonic(), "a:1", "k", 0, 0)] * broker_failover.LOADED_BY
                self.failed = 1
                return self

            def join(self) -> None:
                self.halt()

        with mock.patch.object(broker_failover, "ReplicaGroup", mock.Mock()):
            side = broker_failover.Side("ours", Path(), rounds)
        self.enterContext(mock.patch.object(loaded, "Producer", Load))
        self.enterContext(mock.patch.object(side, "whole", lambda: mock.Mock(master_epoch=1)))
        for row in broker_failover.ROWS:
            instead: Callable[..., dict[str, float]] = lambda *_, row=row: {row: 0.5}  # noqa: E731
            self.enterContext(mock.patch.object(side, row, instead))
        return side, polled

    def test_producers_of_all_ages(self) -> None:
        """The rounds of a row spread what is left of the 30 s evenly, whatever other rows did."""
        side, polled = self.side(4)
        for row in ("kill", "kill", "client", "client", "client", "client"):
            side.round(row)
        self.assertEqual(polled, [3.75, 11.25, 3.75, 11.25, 18.75, 26.25])

    def test_what_is_kept(self) -> None:
        """Of the load and of sends straight to a broker, by row; the second table shows it."""
        side, _ = self.side(2)
        side.round("client")
        side.round("kill")
        acks = [producer.Ack(0.0, "b:1", "k", 0, 0), None]
        with mock.patch.object(loaded, "send_straight", lambda _: acks.pop(0)):
            self.assertEqual([side.send("b:1"), side.send("b:1")], [True, False])
        unknown = loaded.counts([side], ["kill"]).splitlines()[1].split()
        self.assertEqual(unknown, ["kill", "ours", "0", "51", "?", "1"])
        side.lost = Counter(kill=3)
        side.switches.needless["client"] = 2
        shown = loaded.counts([side], list(broker_failover.ROWS)).splitlines()
        self.assertEqual(
            [line.split() for line in shown[1:]],
            [
                ["kill", "ours", "0", "51", "3", "1"],
                ["client", "ours", "2", "50", "0", "1"],
            ],
        )
        self.assertEqual(side.samples, {"client": [0.5], "kill": [0.5]})

    def test_the_dead_of_a_round_that_fails(self) -> None:
        """They are reaped, so that they are not taken for living ones afterwards; `recover` starts them."""
        for row in ("kill", "both"):
            with mock.patch.object(broker_failover, "ReplicaGroup", mock.Mock()):
                side = broker_failover.Side("ours", Path(), 1)
            master, load = mock.Mock(), mock.Mock()
            with mock.patch.object(side, "switched", side_effect=AssertionError), self.assertRaises(AssertionError):
                getattr(side, row)(master, load)
            leader = side.group.controllers.await_leader()
            for process in (master, leader) if row == "both" else (master,):
                self.assertEqual(process.mock_calls, [mock.call.signal(signal.SIGKILL), mock.call.kill()], row)

    def test_every_row_has_a_figure(self) -> None:
        """And is said to make a switch, as all of them do; the names of figures are those that were always shown."""
        shown = {figure.name for figures in broker_failover.FIGURES.values() for figure in figures}
        wanted = {"kill", "kill-route", "client", "again", "freeze", "thaw", "elect", "stop", "back", "both"}
        self.assertEqual(shown, wanted)
        self.assertLessEqual(set(broker_failover.ROWS), shown)
        self.assertEqual(set(broker_failover.Side.switching), set(broker_failover.ROWS))
