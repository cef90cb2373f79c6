"""A broker's address is given to another broker, as orchestrators do with the addresses of containers."""

from __future__ import annotations

from rocketha.simulation.broker import SimulatedBroker
from rocketha.simulation.host import Host
from tests.simulation.test_regressions import OTHER, ClusterCase


class ReusedAddressTests(ClusterCase):
    """A broker of one group dies, and that of the other group comes up where it was."""

    def move_in(self, gone: Host) -> Host:
        """The broker of the other group gets the address of one that is gone; it leads its group of one there."""
        self.cluster.injector.hold_down([gone], 1)
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
        self.start()
        slave = self.broker(next(number for number in self.state().in_sync if number != self.state().master))
        moves, begin = self.broker(1, OTHER), SimulatedBroker._begin_step
        self.patch(SimulatedBroker, "_begin_step", lambda broker: broker.process.host is moves or begin(broker))
        other = self.move_in(slave)
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
