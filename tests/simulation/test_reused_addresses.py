"""A broker's address is given to another broker, as orchestrators do with the addresses of containers."""

from __future__ import annotations

import random
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from rocketha.simulation import setup
from rocketha.simulation.broker import SimulatedBroker
from rocketha.simulation.controller_scenario import ControllerScenario
from rocketha.simulation.faults import Fault
from rocketha.simulation.host import Host
from rocketha.simulation.run import run
from rocketha.simulation.setup import Setup
from rocketha.simulation.world import World
from tests.simulation.test_regressions import OTHER, ClusterCase


class ReusedAddressTests(ClusterCase):
    """A broker of one group dies, and that of the other group comes up where it was."""

    def move_in(self, gone: Host, power: bool = False) -> Host:
        """The broker of the other group gets the address of one that is gone; it leads its group of one there.

        :param power: its machine lost its power: no connection of it is closed.
        """
        self.cluster.injector.hold_down([gone], 1)
        if power:
            gone.power_off()
        else:
            gone.kill()
        other = self.broker(1, OTHER)
        other.kill()
        gone.station, other.station = other.station, gone.station
        other.start()
        return other

    def leads(self, host: Host) -> bool:
        """Whether this broker acts as the master of its group."""
        service = host.process.service if host.process is not None else None
        return service is not None and service.master is not None

    def test_notices_are_not_for_whoever_lives_there_now(self) -> None:
        """1008 names no group: a broker that obeys one of another group leads no more, or two lead."""
        self.start()
        for _ in range(3):
            self.switch()
        slave = next(number for number in self.state().in_sync if number != self.state().master)
        other = self.move_in(self.broker(slave))
        self.until(lambda: self.leads(other), 30)
        self.run_for(5)
        epoch, before = self.state().epoch, self.state(OTHER)
        self.assertGreater(epoch, before.epoch)
        self.broker(self.state().master).kill()
        self.until(lambda: self.state().epoch > epoch and self.state().master, 10)
        self.run_for(20)
        self.assertTrue(self.leads(other))
        self.assertEqual(self.state(OTHER).epoch, before.epoch)

    def test_notices_are_not_for_one_that_has_just_begun_there(self) -> None:
        """No controller has heard it yet, and it knows of no epoch: it would obey any."""
        self.has_just_begun(power=False)

    def test_nor_after_a_loss_of_power(self) -> None:
        """No connection has ended: who was there may be frozen, for all that the controllers know."""
        self.has_just_begun(power=True)

    def has_just_begun(self, power: bool) -> None:
        """A notice for a slave that is gone goes where another group's broker begins."""
        self.start()
        slave = self.broker(next(number for number in self.state().in_sync if number != self.state().master))
        moves, begin = self.broker(1, OTHER), SimulatedBroker._begin_step
        self.patch(SimulatedBroker, "_begin_step", lambda broker: broker.process.host is moves or begin(broker))
        other = self.move_in(slave, power)
        self.run_for(1)
        epoch = self.state().epoch
        self.broker(self.state().master).kill()
        self.until(lambda: self.state().epoch > epoch and self.state().master, 10)
        self.run_for(10)
        assert other.process is not None
        self.assertEqual((other.process.service.epoch, other.process.service.registered), (0, False))

    def switch(self) -> None:
        """The other group's epochs are behind this one's: only a newer one is obeyed."""
        epoch = self.state().epoch
        self.broker(self.state().master).kill()
        self.until(lambda: self.state().epoch > epoch and self.whole(), 40)

    def test_a_dead_master_is_replaced_whoever_lives_there_now(self) -> None:
        """Its port answers, and as that of a master; but it is another's."""
        self.start()
        epoch, master = self.state().epoch, self.state().master
        slave, last = [self.broker(number) for number in self.state().in_sync if number != master]
        for each in (slave, last):
            self.cluster.injector.hold_down([each], 1)
            each.kill()
        other = self.move_in(self.broker(master))
        self.assertEqual(self.state().in_sync, (1, 2, 3))
        self.until(lambda: self.leads(other), 15)
        self.run_for(12)
        self.lead().kill()  # the next one does not know that it is dead
        self.run_for(5)
        self.cluster.injector.hold_down([slave], -1)
        slave.start()
        self.until(lambda: self.state().epoch > epoch and self.leads(slave), 20)


class Relocating(ControllerScenario):
    """Brokers that start may get the address of one that is down, which then has theirs."""

    def __init__(self, made: Setup, world: World) -> None:
        super().__init__(made, world)
        self._moves = world.chance("swaps")
        for host, _ in self.brokers:
            host.start = self._relocated(host, host.start)  # type: ignore[method-assign]

    def _relocated(self, host: Host, start: Any) -> Any:
        def starting() -> None:
            if host.process is None and self.world.now < self.setup.heal_s:
                down = [each for each, _ in self.brokers if each is not host and each.process is None and each.starts]
                if down and self._moves.random() < 0.6:
                    other = self._moves.choice(down)
                    host.station, other.station = other.station, host.station
                    self.findings.count("relocated")
            start()

        return starting


class SeedTests(SynchronousTestCase):
    """Seeds of which each was violated once: what was acknowledged was lost, two led, or nobody did."""

    kinds = ("kill", "power", "die-at-write", "freeze", "halves", "single", "loss", "reset")

    def expand(self, seed: int, kind: str = "kill") -> Setup:
        """Any faults, and two brokers at a time that die, or lose their power."""
        made = setup.expand(seed, 60.0, self.kinds, sizes=(1, 3, 3), clients=4)
        chance, deaths, at_s = random.Random(f"{seed}/r"), [], 13.0
        while at_s < made.heal_s - 6:
            two = tuple(chance.sample(made.clients, 2))
            deaths.append(Fault(kind, at_s, at_s + 1.0 + 4 * chance.random(), two, 1.0))
            at_s += 6 + 6 * chance.random()
        return attrs.evolve(made, faults=(*made.faults, *deaths))

    def test_seeds(self) -> None:
        """None is now."""
        self.relocate("kill", 84, 148, 173, 212, 243, 262, 305)

    def test_seeds_of_losses_of_power(self) -> None:
        """No connection of theirs ends: their heartbeats' are open while others begin at their addresses."""
        self.relocate("power", 519, 436)

    def relocate(self, kind: str, *seeds: int) -> None:
        relocated = 0
        for seed in seeds:
            outcome = run(Relocating, self.expand(seed, kind))
            self.assertEqual(outcome.violations, (), seed)
            relocated += outcome.counts.get("relocated", 0)
        self.assertGreater(relocated, len(seeds))
