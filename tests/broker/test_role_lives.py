"""Three lives under one controller, whose answers come late or never: what may never happen, and what must in the
end.
"""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketha.broker import role_effects as wanted
from rocketha.broker.controller_identity import Application, Identity
from rocketha.broker.role import Role
from rocketha.broker.role_effects import Ask, Effect, Leaving, RoleTiming, Setback
from rocketha.broker.role_life import RoleLife
from rocketha.broker.role_questions import Place
from rocketha.controller.requests import Caller
from rocketha.replication.sync_state import SetChange
from rocketha.wire.controller_calls import MasterInfo, SyncSet
from rocketha.wire.remoting import Answer, Command, request
from tests.controller.support import CLUSTER, NAME, Controller, gone, knows

BROKERS = 3


@attrs.define
class Broker:
    """A life, what of it survives a crash, and what is under way."""

    number: int  # in the test; its id may be another
    life: RoleLife
    identity: Identity = Identity()  # noqa: RUF009
    last_epoch: int = 0
    asked: list[Ask] = attrs.field(factory=list)
    order: wanted.Lead | wanted.Follow | wanted.Retire | None = None
    promoted: int = 0  # epoch in which it is master, 0 in none
    confirmed: int = 0  # epoch in which it may acknowledge
    changes: int = 0


class World:
    """See the module.  Every step is one event of one broker."""

    def __init__(self, case: unittest.TestCase, seed: int) -> None:
        self.case = case
        self.now = 1_000
        self.random = random.Random(seed)
        self.controller = Controller()
        self.elected: dict[int, int] = {}  # epoch -> id, as the controller decided
        self.led: dict[int, int] = {}  # epoch -> number of the broker that was promoted in it
        self.brokers: list[Broker] = []
        for number in range(BROKERS):
            broker = Broker(number, None)  # type: ignore[arg-type]
            self.brokers.append(broker)
            self.start(broker)

    @property
    def group(self) -> object:
        return self.controller.state.group(CLUSTER, NAME)

    def note_master(self) -> None:
        group = self.controller.state.group(CLUSTER, NAME)
        if group is not None and group.master:
            self.case.assertEqual(self.elected.setdefault(group.master_epoch, group.master), group.master)

    def start(self, broker: Broker) -> None:
        """A process on its disk."""
        place = Place(CLUSTER, NAME, f"10.0.0.{broker.number}:1")
        broker.life = RoleLife(place, broker.identity, broker.last_epoch, RoleTiming(), self.random, lambda: self.now)
        broker.asked, broker.order, broker.promoted, broker.confirmed = [], None, 0, 0
        self.told(broker, broker.life.begin(self.now))

    # -- what a broker wants done

    def told(self, broker: Broker, effects: list[Effect]) -> None:
        """Carry it out, and see that it may be."""
        case, life = self.case, broker.life
        over = life.departure.stage is Leaving.LEFT
        for effect in effects:
            match effect:
                case Ask():
                    case.assertFalse(over, effect)
                    case.assertNotIn(
                        effect.question, [each.question for each in broker.asked if self.waits(broker, each)]
                    )
                    broker.asked.append(effect)
                case wanted.Want(number, code):
                    self.save(broker, Identity(application=Application(number, code)))
                case wanted.Keep(number):
                    case.assertIsNone(broker.identity.number)
                    self.save(broker, Identity(number))
                case wanted.GiveUp():
                    self.save(broker, Identity())
                case wanted.Fence():
                    broker.order, broker.promoted, broker.confirmed = None, 0, 0
                case wanted.Retire():
                    case.assertTrue(broker.promoted)
                    broker.order = effect
                case wanted.Lead(_, epoch, members):
                    case.assertEqual(self.elected[epoch], life.number)
                    case.assertIn(life.number, members)
                    case.assertGreaterEqual(epoch, broker.last_epoch)
                    case.assertEqual(effect.again, effect.again and broker.promoted > 0)
                    broker.order, broker.confirmed = effect, 0
                    broker.promoted = broker.promoted if effect.again else 0
                case wanted.Follow(_, master_id, _, epoch):
                    case.assertEqual(self.elected[epoch], master_id)
                    case.assertNotEqual(master_id, life.number)
                    case.assertGreaterEqual(epoch, broker.last_epoch)
                    broker.order, broker.promoted, broker.confirmed = effect, 0, 0
                case wanted.LeaseConfirmed(epoch, asked_ms):
                    case.assertEqual(epoch, broker.promoted)
                    case.assertEqual(self.elected[epoch], life.number)
                    case.assertLessEqual(asked_ms, self.now)
                    broker.confirmed = epoch
                case wanted.Beat():
                    self.beat(broker)
                case wanted.HangUp():
                    self.heard(broker, -1)

    @staticmethod
    def waits(broker: Broker, ask: Ask) -> bool:
        """Whether its answer is still of interest."""
        return broker.life._questions._open.get(ask.question) == ask.number

    def save(self, broker: Broker, identity: Identity) -> None:
        broker.identity = identity
        self.told(broker, broker.life.saved(identity, self.now))

    def beat(self, broker: Broker) -> None:
        if broker.life.beating:
            self.heard(broker, 10_000)

    def heard(self, broker: Broker, timeout_ms: int) -> None:
        fields = {
            "clusterName": CLUSTER,
            "brokerName": NAME,
            "brokerId": str(broker.life.number),
            "epoch": str(broker.last_epoch),
            "maxOffset": "7",
            "heartbeatTimeoutMills": str(timeout_ms),
        }
        self.controller.heartbeats.beat(request(904, fields))

    # -- steps

    def decide(self, ask: Ask) -> Answer:
        """What the controller says."""
        command = request(ask.call.code, ask.call.fields, ask.call.body)
        found = self.controller.ask(command, Caller("10.0.0.9:1", CLUSTER))
        self.note_master()
        return found

    def deliver(self, broker: Broker) -> None:
        """The oldest question is answered."""
        if broker.asked:
            ask = broker.asked.pop(0)
            found = self.decide(ask)
            answer = Command(found.code, fields=dict(found.fields or {}), body=found.body, remark=found.remark)
            self.told(broker, broker.life.answered(ask.number, answer, self.now, self.now))

    def lose(self, broker: Broker) -> None:
        """It does not arrive, or its answer does not."""
        if broker.asked:
            ask = broker.asked.pop(0)
            if self.random.random() < 0.5:
                self.decide(ask)
            self.told(broker, broker.life.unanswered(ask.number, "lost", self.now))

    def obey(self, broker: Broker) -> None:
        """The order is carried out."""
        order, broker.order = broker.order, None
        if order is None:
            return
        if isinstance(order, wanted.Lead):
            self.case.assertEqual(self.led.setdefault(order.epoch, broker.number), broker.number)
            broker.promoted = broker.last_epoch = order.epoch
        self.told(broker, broker.life.done(order.order, self.now))

    def fail(self, broker: Broker) -> None:
        """It cannot be."""
        order, broker.order = broker.order, None
        if isinstance(order, wanted.Lead):
            why = self.random.choice([Setback.ELECTION_NEEDED, Setback.FAILED])
            self.told(broker, broker.life.failed(order.order, why, "so", self.now))

    def pass_time(self, broker: Broker) -> None:
        """Until something is due."""
        due = broker.life.next_due_ms()
        if due is not None:
            self.now = max(self.now + 1, due)
            self.beat(broker)
            self.told(broker, broker.life.tick(self.now))

    def elect(self, broker: Broker) -> None:
        """The controller takes this one for dead."""
        group = self.controller.state.group(CLUSTER, NAME)
        if group is not None and group.master == broker.life.number:
            ids = [each.life.number for each in self.brokers if each is not broker and each.life.beating]
            self.controller.apply(gone(knows(*[each for each in ids if each in group.members])))
            self.note_master()

    def notice(self, broker: Broker) -> None:
        """What the controller decided last, or a lie."""
        group = self.controller.state.group(CLUSTER, NAME)
        if group is None or not group.master:
            return
        info = MasterInfo(group.master, "10.0.0.7:1", group.master_epoch, SyncSet(group.in_sync, group.set_epoch))
        if self.random.random() < 0.3:
            info = MasterInfo(self.random.randrange(1, 5), "6.6.6.6:6", info.master_epoch + 5, SyncSet((1,), 1))
        self.told(broker, broker.life.noticed(1, info, self.now))

    def change(self, broker: Broker) -> None:
        """Somebody is to join its SyncStateSet, or to leave it."""
        assignment = broker.life.assignment
        if broker.promoted:
            broker.changes += 1
            others = {broker.life.number, self.random.randrange(1, 5)}
            if self.random.random() < 0.8:
                others = {each.life.number for each in self.brokers if each.life.beating}
            change = SetChange(broker.changes, tuple(sorted(others)), broker.promoted, assignment.in_sync.epoch)
            self.told(broker, broker.life.wants_set(change, self.now))

    def restart(self, broker: Broker) -> None:
        """Its process dies."""
        self.heard(broker, -1)
        self.start(broker)
        self.elect(broker)

    def leave(self, broker: Broker) -> None:
        """It stops."""
        self.told(broker, broker.life.leave(self.now))

    def unfit(self, broker: Broker) -> None:
        """Its health checks find something."""
        self.told(broker, broker.life.unfit("no power", self.now))

    def settle(self) -> None:
        """Nothing fails any more."""
        for broker in self.brokers:
            if broker.life.departure.stage is not Leaving.NO:
                self.restart(broker)
        for _ in range(400):
            for broker in self.brokers:
                self.beat(broker)
                while broker.asked:
                    self.deliver(broker)
                self.obey(broker)
                self.pass_time(broker)
            group = self.controller.state.group(CLUSTER, NAME)
            for broker in self.brokers:
                leads = group is not None and group.master == broker.life.number
                if leads and not broker.life.beating:
                    self.elect(broker)
            if self.settled():
                return
        self.case.fail(f"they do not come together: {[each.life.assignment.ordered for each in self.brokers]}")

    def settled(self) -> bool:
        group = self.controller.state.group(CLUSTER, NAME)
        if group is None or not group.master:
            return False
        for broker in self.brokers:
            ordered = broker.life.assignment.ordered
            role = Role.MASTER if broker.life.number == group.master else Role.SLAVE
            assigned = role, group.master_epoch, group.master
            if (ordered.role, ordered.epoch, ordered.master_id) != assigned or broker.order:
                return False
            if role is Role.MASTER and broker.confirmed != group.master_epoch:
                return False
        return True


STEPS: tuple[Callable[[World, Broker], None], ...] = (
    World.deliver,
    World.deliver,
    World.deliver,
    World.obey,
    World.obey,
    World.pass_time,
    World.lose,
    World.fail,
    World.elect,
    World.notice,
    World.change,
    World.restart,
    World.leave,
    World.unfit,
)


class LivesTests(unittest.TestCase):
    @settings(max_examples=150, deadline=None)
    @given(
        st.integers(0, 1 << 30),
        st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, BROKERS - 1)), max_size=120),
    )
    def test_whatever_happens(self, seed: int, steps: list[tuple[int, int]]) -> None:
        """One broker leads an epoch, elected in it; it is confirmed after it was promoted; ids are kept; and when
        nothing fails any more there is one master, and all others follow it.
        """
        world = World(self, seed)
        for step, broker in steps:
            STEPS[step](world, world.brokers[broker])
        world.settle()
        ids = [broker.identity.number for broker in world.brokers]
        self.assertEqual(len(set(ids)), BROKERS)
        self.assertNotIn(None, ids)

    def test_long_lives(self) -> None:
        """The same, with steps drawn in the thousands."""
        led = 0
        for seed in range(20):
            world = World(self, seed)
            chance = random.Random(seed)
            for _ in range(1500):
                step = chance.choice(STEPS[:11]) if chance.random() < 0.9 else chance.choice(STEPS)
                broker = chance.choice(world.brokers)
                step(world, broker)
                if broker.life.departure.stage is Leaving.LEFT and chance.random() < 0.2:
                    world.restart(broker)
            world.settle()
            led += len(world.led)
        self.assertGreater(led, 200)


if __name__ == "__main__":
    unittest.main()
