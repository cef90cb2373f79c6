"""How the commands connect, and as whom."""

from __future__ import annotations

import os
import pathlib
import tempfile
import time
from unittest import mock

from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from rocketha.access.signer import Credentials
from rocketha.access.stamp import NONCE_BYTES
from rocketha.admin import options
from rocketha.admin.commands import Given, command
from rocketha.admin.secure import dialer_of
from rocketha.errors import ConfigError
from rocketha.protocols.endpoints import client_endpoint
from tests.admin.parsing import parsed
from tests.admin.test_cli import run


class CredentialsTests(SynchronousTestCase):
    """``--credentials``."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "tools.yml"
        self.path.write_text("accessKey: ann\nsecretKey: annsecret\n")
        self.path.chmod(0o600)

    def parsed(self, *words: str) -> Given:
        return parsed(command("it")(options.connection(lambda given: 0)), *words)[1]

    def test_without(self) -> None:
        dialer = dialer_of(MemoryReactorClock(), self.parsed())
        self.assertIsNone(dialer.signer)
        self.assertIs(dialer.connects, client_endpoint)

    def test_of_a_file(self) -> None:
        signer = dialer_of(MemoryReactorClock(), self.parsed("--credentials", str(self.path))).signer
        assert signer is not None
        self.assertEqual(signer.credentials, Credentials("ann", "annsecret"))
        self.assertLess(abs(signer.now_ms() - time.time() * 1000), 60_000)
        self.assertEqual({len(signer.nonce()) for _ in range(10)}, {NONCE_BYTES})

    def test_of_the_environment(self) -> None:
        with mock.patch.dict(os.environ, {"ROCKETHA_CREDENTIALS": str(self.path)}):
            given = self.parsed()
        self.assertIsNotNone(dialer_of(MemoryReactorClock(), given).signer)

    def test_refused(self) -> None:
        self.path.chmod(0o644)
        with self.assertRaisesRegex(ConfigError, "others can read"):
            dialer_of(MemoryReactorClock(), self.parsed("--credentials", str(self.path)))

    def test_every_command_that_connects(self) -> None:
        for name in ("send", "receive", "clients", "controller", "dledger"):
            code, said, _ = run(name, "--help")
            self.assertEqual(code, 0)
            self.assertIn("--credentials FILE", said)
