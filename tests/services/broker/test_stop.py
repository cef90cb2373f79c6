"""A broker that stops on a disk that fails: its threads end, so its process does, too."""

from __future__ import annotations

from rocketha.errors import DiskFailure
from tests.services.broker_case import BrokerCase, HeldWork


class StopTests(BrokerCase):
    """No signal need have ended the process: of a group on one machine, the parent's end does."""

    def test_a_disk_that_fails(self) -> None:
        stopped: list[HeldWork] = []
        self.patch(HeldWork, "stop", lambda work: stopped.append(work))
        client = self.connect()
        self.send(client)
        self.disk.fail_at(1, times=10**9)
        self.failureResultOf(self.service.stopService()).trap(DiskFailure)
        self.assertEqual(stopped, self.works)
        self.assertEqual(len(stopped), 6)
