"""Words to systemd: each once, at its time, to sockets of both kinds, and by nobody who was not asked."""

from __future__ import annotations

import os
import socket
import tempfile
import unittest

from twisted.internet import task
from twisted.trial.unittest import SynchronousTestCase

from rocketha.services.process.notify import LOOK_S, Notify


class NotifyTests(SynchronousTestCase):
    """A fake manager listens."""

    def setUp(self) -> None:
        self.clock = task.Clock()
        self.serves = False
        self.place = self.enterContext(tempfile.TemporaryDirectory())
        self.environment: dict[str, str] = {}

    def listen(self, address: str) -> socket.socket:
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(address)
        manager.setblocking(False)
        return manager

    def heard(self, manager: socket.socket) -> list[bytes]:
        """Everything since the last look."""
        words = []
        while True:
            try:
                words.append(manager.recv(4096))
            except BlockingIOError:
                return words

    def notify(self) -> Notify:
        made = Notify(lambda: self.serves, self.clock, self.environment)
        made.startService()
        return made

    def test_a_life(self) -> None:
        """READY=1 once, when it serves, and STOPPING=1."""
        path = os.path.join(self.place, "notify")
        manager = self.listen(path)
        self.environment["NOTIFY_SOCKET"] = path
        notify = self.notify()
        self.clock.pump([LOOK_S] * 50)
        self.assertEqual(self.heard(manager), [])
        self.serves = True
        self.clock.pump([LOOK_S] * 50)
        self.assertEqual(self.heard(manager), [b"READY=1"])
        notify.stopService()
        self.clock.advance(100)
        self.assertEqual(self.heard(manager), [b"STOPPING=1"])

    def test_stopped_before_it_served(self) -> None:
        """It is never said to be ready."""
        path = os.path.join(self.place, "notify")
        manager = self.listen(path)
        self.environment["NOTIFY_SOCKET"] = path
        self.notify().stopService()
        self.serves = True
        self.clock.advance(1)
        self.assertEqual(self.heard(manager), [b"STOPPING=1"])

    def test_watchdog(self) -> None:
        """Twice within the time, from the start to the end of the process: it may take longer to stop."""
        path = os.path.join(self.place, "notify")
        manager = self.listen(path)
        self.environment |= {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}
        notify = self.notify()
        self.clock.pump([15] * 2)
        self.assertEqual(self.heard(manager), [b"WATCHDOG=1"] * 2)
        notify.stopService()
        self.clock.pump([15] * 2)
        self.assertEqual(self.heard(manager), [b"STOPPING=1", b"WATCHDOG=1", b"WATCHDOG=1"])

    def test_watchdog_of_another(self) -> None:
        """WATCHDOG_PID is not this process."""
        path = os.path.join(self.place, "notify")
        manager = self.listen(path)
        self.environment |= {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}
        self.notify()
        self.clock.pump([15] * 4)
        self.assertEqual(self.heard(manager), [])

    def test_children_do_not_speak(self) -> None:
        """Their environment lacks what is taken; all else stays."""
        self.environment |= {"NOTIFY_SOCKET": "/a", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "HOME": "/home"}
        Notify(lambda: True, self.clock, self.environment)
        self.assertEqual(self.environment, {"HOME": "/home"})

    def test_nobody_asked(self) -> None:
        """No timer, no socket."""
        self.environment["WATCHDOG_USEC"] = "1000000"
        notify = self.notify()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        notify.stopService()

    def test_nobody_hears(self) -> None:
        """A manager that is gone costs one line of the log, and nothing else."""
        self.environment |= {"NOTIFY_SOCKET": os.path.join(self.place, "gone"), "WATCHDOG_USEC": "2000000"}
        self.serves = True
        notify = self.notify()
        self.clock.pump([1] * 5)
        notify.stopService()

    @unittest.skipUnless(os.path.exists("/proc/net/unix"), "abstract sockets are Linux's alone")
    def test_abstract_socket(self) -> None:
        """systemd writes the first byte, 0, as @."""
        name = f"rocketha-notify-{os.getpid()}"
        manager = self.listen(f"\0{name}")
        self.environment["NOTIFY_SOCKET"] = f"@{name}"
        self.serves = True
        self.notify()
        self.clock.advance(LOOK_S)
        self.assertEqual(self.heard(manager), [b"READY=1"])
