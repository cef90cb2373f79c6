"""Whose secrets are taken."""

from __future__ import annotations

import os
import stat
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from twisted.python import usage

from rocketha.errors import ConfigError
from rocketha.services.namesrv import tap
from rocketha.services.process.secret_file import refuse_readable, refuse_readable_key
from rocketha.services.process.status import status_endpoint

OWN, ROOT, OTHER = 1000, 0, 4242


class SecretTests(unittest.TestCase):
    """By owner and mode."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "a key")
        self.path.write_bytes(b"secret")

    def test_owners_and_modes(self) -> None:
        """The user's own for them alone; root's may be for a group; each refusal says what to do."""
        for owner, mode, says in (
            (OWN, 0o600, ""),
            (OWN, 0o400, ""),
            (OWN, 0o700, ""),
            (OWN, 0o644, "mode 0644.*chmod 0600"),
            (OWN, 0o640, "mode 0640"),
            (OWN, 0o602, "mode 0602"),
            (ROOT, 0o600, ""),
            (ROOT, 0o640, ""),
            (ROOT, 0o644, "chmod 0640"),
            (ROOT, 0o660, "mode 0660"),
            (OTHER, 0o600, "a secret of user 4242"),
        ):
            found = os.stat_result((stat.S_IFREG | mode, 0, 0, 1, owner, 0, 17, 0, 0, 0))
            stated, user = mock.patch("os.stat", return_value=found), mock.patch("os.geteuid", return_value=OWN)
            with self.subTest(owner=owner, mode=oct(mode)), stated, user:
                if says:
                    with self.assertRaisesRegex(ConfigError, f"{self.path}: .*{says}"):
                        refuse_readable(str(self.path))
                else:
                    refuse_readable(str(self.path))
        with self.assertRaisesRegex(ConfigError, "cannot be read: No such file"):
            refuse_readable(f"{self.path}s")

    def test_keys_of_endpoints(self) -> None:
        """The private key of TLS, wherever an endpoint is given; others have none."""
        quoted = str(self.path).replace(":", r"\:")
        self.path.chmod(0o644)
        refuse_readable_key("tcp:80:interface=127.0.0.1")
        for description in (f"ssl:443:privateKey={quoted}", f"ssl:port=443:privateKey={quoted}:certKey=c"):
            self.path.chmod(0o644)
            with self.assertRaisesRegex(ConfigError, "others can read"):
                refuse_readable_key(description)
            self.path.chmod(0o600)
            refuse_readable_key(description)

    def test_where_they_are_given(self) -> None:
        """--http and --listen, with a key that is one."""
        pem = Path(__file__).parent / "no.pem"
        for module in ("rocketha.services.process.status", "rocketha.services.config.tap_options"):
            patched = mock.patch(f"{module}.serverFromString")  # which reads the key
            patched.start()
            self.addCleanup(patched.stop)
        with self.assertRaisesRegex(ConfigError, f"{pem}: cannot be read"):
            status_endpoint(f"ssl:443:privateKey={pem}")
        with self.assertRaisesRegex(usage.UsageError, f"{pem}: cannot be read"):
            tap.Options().parseOptions(["--listen", f"ssl:443:privateKey={pem}"])
