"""What a process says of itself, and who may change the level of its log."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

import rocketha
from rocketha.errors import RequestRefused
from rocketha.observe.logging import current_level, set_level
from rocketha.services.process import own_process
from rocketha.services.process.own_process import OwnProcess
from rocketha.services.process.platform import Platform
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire.codes import PrivateCode, ResponseCode
from rocketha.wire.remoting import Command


class Peer:
    """A connection from somewhere."""

    def __init__(self, host: str) -> None:
        self.proven_host = host
        self.local_host = "10.0.0.1"
        self.peer = f"{host}:1"


class OwnProcessTests(SynchronousTestCase):
    """Of a process at 10.0.0.1."""

    def setUp(self) -> None:
        before = current_level()
        self.addCleanup(set_level, before)
        set_level("info")
        self.now_s = 1000.0
        self.platform = Platform(
            disk=MemoryDisk(random.Random(0)), reactor=None, wall=lambda: self.now_s, pid=lambda: 7
        )

    def ask(self, host: str, judged: bool = False, **fields: str) -> Any:
        own: Any = OwnProcess(self.platform, judged)
        return own.log_level(Peer(host), Command(int(PrivateCode.LOG_LEVEL), fields=fields)).fields["level"]

    def test_facts(self) -> None:
        """Its clock goes on, its start does not."""
        own = OwnProcess(self.platform, False)
        self.now_s += 5
        self.assertEqual(
            own.facts(),
            {
                "version": rocketha.__version__,
                "pid": 7,
                "nowMillis": 1_005_000,
                "startedMillis": 1_000_000,
                "logLevel": "info",
            },
        )

    def test_reading(self) -> None:
        """Whoever may ask at all."""
        self.assertEqual(self.ask("10.0.0.9"), "info")

    def test_changing(self) -> None:
        """From the own machine; from another where who asks has shown who he is."""
        self.assertEqual(self.ask("127.0.0.1", level="debug"), "debug")
        self.assertEqual(self.ask("10.0.0.1", level="warn"), "warn")
        self.assertEqual(self.ask("10.0.0.9", judged=True, level="info"), "info")
        self.assertEqual(current_level(), "info")
        with self.assertRaises(RequestRefused) as refused:
            self.ask("10.0.0.9", level="debug")
        self.assertEqual(refused.exception.code, ResponseCode.NO_PERMISSION)
        self.assertEqual(current_level(), "info")

    def test_no_such_level(self) -> None:
        """It is named, with those that there are."""
        with self.assertRaises(RequestRefused) as refused:
            self.ask("127.0.0.1", level="loud")
        self.assertEqual(refused.exception.code, ResponseCode.INVALID_PARAMETER)
        self.assertIn("critical, error, warn, info, debug, trace", refused.exception.remark)

    def test_the_change_is_in_the_log(self) -> None:
        """Said at the more talkative of both levels, so that a log does not become silent without a word."""
        told: list[tuple[str, str, str]] = []
        with mock.patch.object(
            own_process, "emit", lambda log, event: told.append((current_level(), event.before, event.now))
        ):
            self.ask("127.0.0.1", level="error")
            self.ask("127.0.0.1", level="debug")
            self.ask("127.0.0.1", level="debug")
        self.assertEqual(told, [("info", "info", "error"), ("debug", "error", "debug")])
