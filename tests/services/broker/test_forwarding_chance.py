"""Brokers that pass requests on, under switches, cuts, freezes and deaths drawn from a seed.

Whatever happens, a send is stored once at most; what was acknowledged is stored, what was refused is not; whoever asked
is answered if the connection holds; and nothing is left behind.  News of the master come to each broker when they come.
"""

from __future__ import annotations

import collections
import random
import unittest
from collections.abc import Callable
from typing import Any

from rocketha.protocols.remoting import RemotingProtocol
from rocketha.simulation.host import Process
from rocketha.simulation.world import World
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command
from tests.services.broker.test_forwarding import OFFSET, PORT, PULL, SEND, Node, Producer

SECONDS = 12.0
BROKERS, PRODUCERS = ("a", "b", "c"), ("p", "q")


class Fate:
    """One run.

    :ivar sent: the bodies of sends that want an answer, with who sent them.
    :ivar stored: how often each body was stored, whoever lives.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = World(seed)
        self.sent: dict[bytes, Producer] = {}
        self.stored: collections.Counter[bytes] = collections.Counter()
        self.requests = self.epoch = 0
        self.master = "a"
        for name in BROKERS:
            self.world.add_host(name, self.broker)
        for name in PRODUCERS:
            self.world.add_host(name, Producer)
        self.world.run(0.01)
        self.elect()

    def broker(self, process: Process) -> Node:
        """One that stores what outlives it, and leaves some pulls unanswered."""
        node = Node(process)

        def serve(connection: RemotingProtocol, command: Command, until_s: float = 0.0) -> Answer | None:
            if command.code == SEND:
                self.stored[command.body] += 1
                return Answer(fields={})
            unanswered = command.code == PULL and self.chance.random() < 0.5
            return None if unanswered else Answer(body=bytes(self.chance.choice((10, 100_000))))

        node.serve = node.forwarding._serve = serve  # type: ignore[method-assign]
        return node

    def service(self, name: str) -> Any:
        """What runs on a host; None where nothing does."""
        process = self.world.hosts[name].process
        return None if process is None else process.service

    # -- what happens

    def hears(self, name: str, news: Callable[[Any], None], after_s: float) -> None:
        """A broker is told, in its own time, if it lives then."""

        def then() -> None:
            node = self.service(name)
            if node is not None:
                node.reactor.callLater(0.0, news, node)

        self.world.scheduler.after(after_s, None, then)

    def elect(self) -> None:
        """Another epoch, perhaps of the same master; the one before is told first, the others at any time."""
        chance = self.chance
        former, self.master = self.master, chance.choice(BROKERS)
        self.epoch += 1
        epoch, address = self.epoch, f"{self.world.hosts[self.master].address}:{PORT}"

        def deposed(node: Any) -> None:
            if node.watch.epoch < epoch:
                node.watch.unknown()

        def follows(node: Any) -> None:
            if node.watch.epoch < epoch:
                node.watch.other(address, epoch)

        def leads(node: Any) -> None:
            if node.watch.epoch < epoch:
                node.watch.own(epoch)

        self.hears(former, deposed, 0.0)
        pause_s = chance.choice((0.0, 0.05, 0.3, 1.0))
        for name in BROKERS:
            late_s = chance.choice((0.0, 0.01, 0.1, 0.6, 2.5)) * chance.random()
            self.hears(name, leads if name == self.master else follows, pause_s + late_s)

    def ask(self) -> None:
        """A client asks a broker, whoever is master."""
        chance = self.chance
        producer, node = self.service(chance.choice(PRODUCERS)), self.service(chance.choice(BROKERS))
        if node is None or producer is None:
            return
        self.requests += 1
        body, draw = b"%06d" % self.requests, chance.random()
        if draw < 0.05:
            producer.send(node, body.ljust(100_000, b"."), oneway=True)
        elif draw < 0.75:
            body = body.ljust(chance.choice((10, 10, 10, 100_000)), b".")
            self.sent[body] = producer
            producer.send(node, body)
        else:
            producer.send(node, body, code=PULL if draw < 0.9 else OFFSET, suspendTimeoutMillis="1000")

    def harm(self) -> None:
        """Something, now and then."""
        chance, world, draw = self.chance, self.world, self.chance.random()
        host = world.hosts[chance.choice(BROKERS)]
        if draw < 0.02:
            self.elect()
        elif draw < 0.03 and host.process is not None:
            host.process.service.may_serve = not host.process.service.may_serve
        elif draw < 0.036:
            host.kill()
            world.scheduler.after(chance.random(), None, host.start)
        elif draw < 0.042:
            host.freeze(whole=chance.random() < 0.5)
            world.scheduler.after(4 * chance.random(), None, host.thaw)
        elif draw < 0.05:
            name, pair = f"cut {world.now}", [world.hosts[each] for each in chance.sample(BROKERS, 2)]
            world.partition(name, pair[:1], pair[1:])
            world.scheduler.after(8 * chance.random(), None, world.heal, name)
        elif draw < 0.053:
            for stream in world.network.between(host.address, world.hosts[chance.choice(BROKERS)].address):
                stream.reset()
        elif draw < 0.057:
            client = world.hosts[chance.choice(PRODUCERS)]
            client.kill()
            world.scheduler.after(chance.random(), None, client.start)

    def play(self) -> None:
        """All of it, and time for what follows."""
        while self.world.now < SECONDS:
            for _ in range(self.chance.randrange(1, 4)):
                self.ask()
            self.world.run(0.03 * self.chance.random())
            self.harm()
        self.world.network.heal_all()
        self.world.run(30.0)


class ChanceTests(unittest.TestCase):
    def test_seeds(self) -> None:
        """Each is a run of its own; most sends succeed in all of them together."""
        codes: collections.Counter[int] = collections.Counter()
        for seed in range(30):
            with self.subTest(seed=seed):
                fate = Fate(seed)
                fate.play()
                self.assertEqual([body[:6] for body, count in fate.stored.items() if count > 1], [], "twice")
                living = [fate.service(name) for name in PRODUCERS]
                never = [body[:6] for each in living for body in each.unanswered if body in fate.sent]
                self.assertEqual(never, [], "never answered")
                for body, producer in fate.sent.items():
                    if body not in producer.answers:
                        self.assertTrue(body in producer.failed or producer not in living, body[:6])
                        continue
                    code = producer.answers[body][0]
                    codes[code] += 1
                    if code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY):
                        self.assertEqual(fate.stored[body], code == ResponseCode.SUCCESS, body[:6])
                self.nothing_left(fate)
        self.assertEqual(set(codes), {ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR})
        self.assertGreater(codes[ResponseCode.SUCCESS], sum(codes.values()) // 2)

    def nothing_left(self, fate: Fate) -> None:
        """In the brokers that live."""
        for name in BROKERS:
            forwarding = fate.service(name).forwarding
            counts = [budget.count for budget in forwarding.budgets.values()]
            self.assertEqual((counts, forwarding.kept, forwarding._pulling), ([0, 0], 0, {}), name)


if __name__ == "__main__":
    unittest.main()
