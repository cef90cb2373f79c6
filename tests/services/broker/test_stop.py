"""How a broker stops: on a disk that fails, and after a start that failed."""

from __future__ import annotations

import errno
from typing import Any

from twisted.internet.error import CannotListenError

from rocketha.errors import DiskFailure
from rocketha.services.broker.service import BrokerService
from rocketha.services.config.loading import load_broker
from tests.services.broker_case import CONFIG, BrokerCase, HeldWork


class StopTests(BrokerCase):
    """No signal need have ended the process: of a group on one machine, the parent's end does."""

    def test_a_disk_that_fails(self) -> None:
        """Its threads end, so its process does, too."""
        stopped: list[HeldWork] = []
        self.patch(HeldWork, "stop", lambda work: stopped.append(work))
        client = self.connect()
        self.send(client)
        self.disk.fail_at(1, times=10**9)
        self.failureResultOf(self.service.stopService()).trap(DiskFailure)
        self.assertEqual(stopped, self.works)
        self.assertEqual(len(stopped), 6)


class FailedStartTests(BrokerCase):
    """The store was recovered, and then a port was taken."""

    def fail_to_start(self) -> None:
        def refuse(*_: Any, **__: Any) -> None:
            raise CannotListenError("127.0.0.1", 10911, OSError(errno.EADDRINUSE, "in use"))

        listen = self.clock.listenTCP
        self.clock.listenTCP = refuse  # type: ignore[method-assign]
        service = BrokerService(load_broker(CONFIG.encode(), environment={"HOME": "/home"}).config, self.platform())
        service.startService()
        self.assertIn("in use", service.healthy() or "")
        self.successResultOf(service.stopService())
        self.clock.listenTCP = listen  # type: ignore[method-assign]

    def test_a_clean_store_stays_clean(self) -> None:
        """With what it had; its tables are not written by whoever never served."""
        self.send(self.connect())
        self.stop()
        self.fail_to_start()
        self.service = self.start()
        self.assertTrue(self.broker.recovery.clean)
        self.assertEqual(self.broker.store.max_offset("T", 0), 1)

    def test_what_a_crash_may_have_cost_is_not_forgotten(self) -> None:
        """A master after a crash may have lost the end of its log: so says the start after the next one, too."""
        self.send(self.connect())
        self.disk.kill()
        self.fail_to_start()
        self.disk.kill()  # with its process its lock goes
        self.service = self.start()
        self.assertFalse(self.broker.recovery.clean)
        self.assertEqual(self.broker.store.max_offset("T", 0), 1)
