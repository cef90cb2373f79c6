"""Who leads the controllers, and what becomes of a question when that one dies, is deposed, or stands still."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable
from typing import Any

from twisted.application import strports
from twisted.internet import error
from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.services.broker import controller_client
from rocketha.services.broker.controller_client import ControllerClient, NoLeader, Reply
from rocketha.simulation.host import Process
from rocketha.simulation.world import World
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.controller_calls import Call, get_replica_info
from rocketha.wire.remoting import Answer, Command

PORT = 9878
QUESTION = get_replica_info("c", "g")
HEARTBEAT = Call(RequestCode.BROKER_HEARTBEAT, {"brokerId": "1"})


class FakeController:
    """Says who leads, and answers as one that does or does not.

    :ivar says: whom it names; empty: nobody.
    :ivar asked: questions that came; ``beats``: heartbeats.
    """

    def __init__(self, process: Process) -> None:
        self.address = f"{process.host.address}:{PORT}"
        self.says = ""
        self.leads = False
        self.asked = self.beats = 0
        self.mute = False
        self.factory = RemotingFactory(self, process.reactor)
        strports.service(f"tcp:{PORT}", self.factory, process.reactor).startService()

    def connected(self, connection: RemotingProtocol) -> None:
        pass

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        pass

    def turn_ended(self) -> None:
        pass

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        if command.code == RequestCode.BROKER_HEARTBEAT:
            self.beats += 1
            return None
        if command.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            fields = {"isLeader": "true" if self.leads else "false", "peers": ""}
            if self.says:
                fields["controllerLeaderAddress"] = self.says
            return Answer(fields=fields)
        self.asked += 1
        if self.mute:
            return None
        return Answer(remark=self.address) if self.leads else Answer(ResponseCode.CONTROLLER_NOT_LEADER)


class ControllerClientTests(SynchronousTestCase):
    """Three controllers and one who asks, on simulated hosts."""

    def setUp(self) -> None:
        self.world = World(7)
        self.hosts = [self.world.add_host(f"n{number}", FakeController) for number in range(3)]
        self.lost = 0
        self.world.run(0.01)
        self.addresses = [self.controller(number).address for number in range(3)]

        def program(process: Process) -> ControllerClient:
            return ControllerClient(
                Dialer(process.reactor), self.addresses, random.Random(1), 10.0, lambda: self.on_lost()
            )

        self.broker = self.world.add_host("broker", program)
        self.world.run(0.01)

    def on_lost(self) -> None:
        self.lost += 1

    def controller(self, number: int) -> FakeController:
        process = self.hosts[number].process
        assert process is not None
        found: FakeController = process.service
        return found

    @property
    def client(self) -> ControllerClient:
        assert self.broker.process is not None
        found: ControllerClient = self.broker.process.service
        return found

    def lead(self, number: int, *believers: int) -> None:
        """This one leads; who believes it says so."""
        for each, host in enumerate(self.hosts):
            if host.process is not None:
                self.controller(each).leads = each == number
                if not believers or each in believers:
                    self.controller(each).says = self.addresses[number]

    def ask(self, seconds: float = 2.0, call: Call = QUESTION) -> list[Any]:
        """A question that is under way: its reply or failure, when it is there."""
        found: list[Any] = []

        def ask() -> None:
            self.client.ask(call, seconds).addBoth(lambda result: found.append(getattr(result, "value", result)))

        self.later(ask)
        return found

    def later(self, call: Callable[[], None]) -> None:
        """At the broker's next turn: what is written outside of a turn would leave with the next one."""
        assert self.broker.process is not None
        self.broker.process.reactor.callLater(0, call)

    def beat(self) -> None:
        self.later(lambda: self.client.beat(HEARTBEAT))

    def answered(self, found: list[Any]) -> str:
        """By whom."""
        self.assertEqual(len(found), 1, "not answered")
        self.assertIsInstance(found[0], Reply)
        return str(found[0].command.remark)

    def test_the_leader_answers(self) -> None:
        """Whoever names it; and the time is that of the asking."""
        self.lead(1)
        before = int(self.broker.process.reactor.seconds() * 1000)  # type: ignore[union-attr]
        found = self.ask()
        self.world.run(0.5)
        self.assertEqual(self.answered(found), self.addresses[1])
        self.assertLess(found[0].asked_ms - before, 100)
        self.assertEqual([self.controller(number).asked for number in range(3)], [0, 1, 0])

    def test_one_that_calls_itself_otherwise(self) -> None:
        """Heartbeats and questions go by one connection, to the address that we know."""
        self.lead(1)
        for number in range(3):
            self.controller(number).says = "controller-1.example:9878"
        found = self.settled(self.ask())
        self.assertEqual((self.answered(found), self.client.leader), (self.addresses[1], self.addresses[1]))
        self.world.run(25.0)  # some looks more, in which the others name it by their name
        self.beat()
        self.world.run(0.1)
        self.assertEqual((self.client.leader, self.client._all()), (self.addresses[1], tuple(self.addresses)))
        self.assertEqual([self.controller(number).beats for number in range(3)], [1, 1, 1])
        self.assertEqual(len(self.controller(1).factory.connections), 1)

    def test_the_others_name_it_first(self) -> None:
        """When all have answered it is known who that is."""
        for number in range(3):
            others = [each for each in range(3) if each != number]
            self.client._known_as.clear()
            self.client.leader = ""
            answers = {each: {"controllerLeaderAddress": "x:1", "isLeader": "false"} for each in others}
            answers[number] = {"controllerLeaderAddress": "x:1", "isLeader": "true"}
            look = controller_client._Look(3)
            for each in (*others, number):
                self.client._told(Command(0, fields=answers[each]), look, self.addresses[each])
                self.client._looked(None, look)
            self.assertEqual(self.client.leader, self.addresses[number])

    def test_nobody_leads(self) -> None:
        """Yet: asked again until somebody does; or the time is over."""
        found = self.ask()
        self.world.run(1.0)
        self.assertEqual(found, [])
        self.lead(2)
        self.world.run(0.9)
        self.assertEqual(self.answered(found), self.addresses[2])
        self.client.hang_up()
        for number in range(3):
            self.controller(number).says = ""
            self.controller(number).leads = False
        found = self.ask(1.0)
        self.world.run(1.1)
        self.assertIsInstance(found[0], NoLeader)

    def test_another_one_leads(self) -> None:
        """2007: the question was not taken, and goes to the one that leads."""
        self.lead(0)
        self.assertEqual(len(self.settled(self.ask())), 1)
        self.lead(1)
        found = self.settled(self.ask())
        self.assertEqual(self.answered(found), self.addresses[1])

    def settled(self, found: list[Any]) -> list[Any]:
        self.world.run(2.1)
        return found

    def test_the_leader_is_gone(self) -> None:
        """Nobody listens there: the question was not sent; others may still name the dead one for a while."""
        self.lead(0)
        self.settled(self.ask())
        self.hosts[0].kill()
        self.world.run(0.1)
        self.assertEqual(self.lost, 1)
        found = self.ask()
        self.world.run(0.2)
        for _ in range(30):
            self.assertEqual(self.client.leader, "", "those who name the dead one are believed")
            self.world.run(0.01)
        self.assertEqual(found, [])
        self.lead(2)
        self.world.run(0.8)
        self.assertEqual(self.answered(found), self.addresses[2])

    def test_it_dies_with_a_question(self) -> None:
        """That may have been carried out: it is not asked again."""
        self.lead(0)
        self.controller(0).mute = True
        found = self.ask()
        self.world.run(0.5)
        self.assertEqual(self.controller(0).asked, 1)
        self.hosts[0].kill()
        self.lead(1)
        self.world.run(1.0)
        self.assertIsInstance(found[0], error.ConnectionClosed)
        self.assertEqual([self.controller(number).asked for number in (1, 2)], [0, 0])
        self.assertEqual(self.answered(self.settled(self.ask())), self.addresses[1])

    def test_it_stands_still(self) -> None:
        """Its time is over, its connection is closed, and for the next one somebody else is asked."""
        self.lead(0)
        self.settled(self.ask())
        self.hosts[0].freeze(whole=False)
        found = self.ask(1.0)
        self.world.run(1.05)
        self.assertIsInstance(found[0], error.TimeoutError)
        self.assertNotEqual(self.client.leader, self.addresses[0])
        self.lead(1, 1, 2)
        self.assertEqual(self.answered(self.settled(self.ask())), self.addresses[1])
        self.assertEqual(self.controller(1).asked, 1)

    def test_a_leader_that_was_deposed_and_does_not_know(self) -> None:
        """As Java's may: most of them name another one, within ten seconds."""
        self.lead(0)
        self.settled(self.ask())
        self.lead(1, 1, 2)
        self.controller(0).leads = True
        self.world.run(11.0)
        self.assertEqual(self.answered(self.settled(self.ask())), self.addresses[1])

    def test_heartbeats_go_to_all(self) -> None:
        """Whoever leads, also one that the configuration does not name (regression D12)."""
        self.lead(0)
        self.client._addresses = tuple(self.addresses[1:])
        self.settled(self.ask())
        for _ in range(3):
            self.beat()
            self.world.run(0.5)
        self.assertEqual([self.controller(number).beats for number in range(3)], [3, 3, 3])

    def test_whoever_takes_a_connection_and_closes_it(self) -> None:
        """Like a proxy without a backend: what is sent at once when one is lost brings about no other at once."""
        self.on_lost = lambda: self.client.beat(HEARTBEAT)  # type: ignore[method-assign]
        closing = self.controller(0)
        taken: list[float] = []

        def close(connection: RemotingProtocol) -> None:
            taken.append(self.world.now)
            connection.close()

        closing.connected = close  # type: ignore[method-assign]
        self.lead(1)
        self.settled(self.ask())
        for _ in range(10):
            self.beat()
            self.world.run(1.0)
        self.assertGreaterEqual(len(taken), 10, "it is not tried again")
        self.assertLess(len(taken), 40, taken[:5])
        self.assertEqual(self.controller(2).beats, self.controller(1).beats)
        self.assertGreaterEqual(self.controller(1).beats, 10)

    def test_hanging_up(self) -> None:
        """All connections end, and nobody is told: it was us."""
        self.lead(0)
        self.settled(self.ask())
        self.beat()
        self.world.run(0.5)
        self.client.hang_up()
        self.world.run(0.5)
        self.assertEqual([len(self.controller(number).factory.connections) for number in range(3)], [0, 0, 0])
        self.assertEqual(self.lost, 0)
        self.assertEqual(self.answered(self.settled(self.ask())), self.addresses[0])

    def test_hanging_up_on_a_question(self) -> None:
        """It is not carried out later: who hangs up may lead the same epoch again, and knows nothing of a change of the
        SyncStateSet that it had asked for.
        """
        self.lead(0)
        self.settled(self.ask())
        self.world.block("cut", self.broker, self.hosts[0])
        found = self.ask(5.0)
        self.world.run(0.01)
        self.later(self.client.hang_up)
        self.world.run(0.1)
        self.assertEqual(len(found), 1)
        self.assertNotIsInstance(found[0], Reply)
        self.world.heal("cut")
        self.settled([])
        self.assertEqual(self.controller(0).asked, 1)
        self.assertEqual(self.answered(self.settled(self.ask())), self.addresses[0])

    def test_closing(self) -> None:
        """With connections and questions under way: they fail, and nothing is left to happen."""
        self.lead(0)
        found = self.ask()
        self.beat()
        self.later(self.client.close)
        self.world.run(0.001)
        self.assertIsInstance(found[0], NoLeader)
        self.world.run(15.0)
        self.assertEqual([self.controller(number).asked for number in range(3)], [0, 0, 0])
        self.assertEqual(self.flushLoggedErrors(), [])


if __name__ == "__main__":
    unittest.main()
