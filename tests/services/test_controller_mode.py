"""Brokers that get ids and roles from controllers: S0 and S3 of the seeds, with real services on simulated hosts."""

from __future__ import annotations

import unittest

from rocketha.broker.role import Role
from tests.services.controlled_case import ControlledCase


class FirstStartTests(ControlledCase):
    """From empty disks."""

    def test_a_group_comes_together(self) -> None:
        """Ids from 1 on, one master, a set of three, messages on all three, nobody else takes any."""
        master = self.start_group()
        self.assertEqual([self.number(host) for host in self.brokers], [1, 2, 3])
        self.assertEqual(self.members(), (1, 2, 3))
        self.assertEqual(self.acknowledged(master, 100), 100)
        self.until("all have all", lambda: self.level(*self.brokers))
        self.same_logs(*self.brokers)
        self.assertEqual([self.role(host) for host in self.brokers].count(Role.SLAVE), 2)


class SwitchTests(ControlledCase):
    """The master goes, in every way it can go."""

    def setUp(self) -> None:
        super().setUp()
        self.first = self.start_group()
        self.others = [host for host in self.brokers if host is not self.first]
        self.assertEqual(self.acknowledged(self.first, 50), 50)

    def lost(self) -> None:
        """Nothing that was acknowledged, and all logs are equal."""
        self.whole()
        self.until("all have all", lambda: self.level(*[host for host in self.brokers if host.alive]))
        self.same_logs(*[host for host in self.brokers if host.alive])

    def test_killed(self) -> None:
        """Its port refuses: another one in a fraction of a second, with all that was acknowledged."""
        end = self.log(self.first).end
        self.first.kill()
        took = self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        self.assertLess(took, 1.0)
        second = self.master()
        self.assertGreaterEqual(self.log(second).end, end)
        self.until("the dead one has left the set", lambda: len(self.members()) == 2)
        self.assertEqual(self.acknowledged(second, 50), 50)
        self.restart(self.first)
        self.lost()
        self.assertEqual([self.number(host) for host in self.brokers], [1, 2, 3])
        self.assertIs(self.master(), second)

    def test_frozen(self) -> None:
        """It is replaced; when it thaws it acknowledges nothing, and follows (regressions A21, A22)."""
        self.first.freeze(whole=False)
        answers: list[int] = []
        self.sending(self.first).addCallbacks(
            lambda answer: answers.append(answer.code), lambda failure: answers.append(-1)
        )
        took = self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        self.assertLess(took, 4.0)
        self.first.thaw()
        self.whole()
        self.until("an answer", lambda: answers)
        self.assertIs(self.role(self.first), Role.SLAVE)
        self.assertEqual(self.acknowledged(self.master(), 50), 50)
        self.lost()

    def test_stopped(self) -> None:
        """It hands its role over first: no moment in which nobody would, and the new one has everything."""
        epoch = self.group().master_epoch
        stopping = self.service(self.first).stopService()
        took = self.until("another master", lambda: any(map(self.acknowledges, self.others)))
        self.assertLess(took, 0.5)
        self.assertFalse(stopping.called, "it was still there to pass requests on")
        self.await_(stopping)
        self.first.exited("stopped")
        self.assertEqual(self.group().master_epoch, epoch + 1)
        self.assertEqual(self.acknowledged(self.master(), 50), 50)
        self.restart(self.first)
        self.lost()

    def test_everything_restarts(self) -> None:
        """All processes die at once; ids, messages and the set come back."""
        end = self.log(self.first).end
        for host in (*self.brokers, *self.controllers):
            host.kill()
        for host in (*self.controllers, *self.brokers):
            host.start()
        self.whole(60.0)
        self.assertEqual([self.number(host) for host in self.brokers], [1, 2, 3])
        self.assertGreaterEqual(self.log(self.master()).end, end)
        self.lost()

    def test_the_leading_controller_dies(self) -> None:
        """Nothing changes for the brokers: the lease outlives an election of the controllers."""
        leader = self.leader()
        assert leader is not None
        leader.kill()
        for _ in range(30):
            self.assertTrue(self.acknowledges(self.first))
            self.run_for(0.1)
        leader.start()
        self.run_for(3.0)
        self.assertTrue(self.acknowledges(self.first))
        self.assertEqual(self.acknowledged(self.first, 10), 10)

    def test_all_controllers_die(self) -> None:
        """The lease runs out and nothing is acknowledged; they come back and the same one goes on, in its epoch."""
        epoch = self.service(self.first).replication.epoch
        for host in self.controllers:
            host.kill()
        self.until("it stops", lambda: not self.acknowledges(self.first), 4.0)
        self.assertNotEqual(self.send(self.first), 0)
        self.run_for(5.0)
        for host in self.controllers:
            host.start()
        self.assertIs(self.master(), self.first)
        self.assertEqual(self.service(self.first).replication.epoch, epoch)
        self.assertEqual(self.acknowledged(self.first, 10), 10)
        self.lost()


if __name__ == "__main__":
    unittest.main()
