"""``rocketha controller force-new-cluster`` before it touches anything."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from rocketha.admin import cli


class ForceNewClusterTests(SynchronousTestCase):
    """Of a controller that runs as a user of its own."""

    def test_as_another_user(self) -> None:
        """The controller could not read what root makes, so nothing is made."""
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        directory = Path(work.name) / "raft-n0"
        directory.mkdir()
        (directory / "state").touch()
        config = Path(work.name) / "controller.conf"
        config.write_text(
            f"controllerDLegerPeers=n0-127.0.0.1:9878\ncontrollerDLegerSelfId=n0\ncontrollerStorePath={work.name}\n"
        )
        with (
            contextlib.redirect_stderr(io.StringIO()) as said,
            mock.patch.object(os, "geteuid", lambda: directory.stat().st_uid + 1),
        ):
            code = cli.main(["controller", "force-new-cluster", "-c", str(config), "--dry-run"])
        self.assertEqual(code, 2)
        self.assertIn("run it as the controller's", said.getvalue())
        self.assertEqual([path.name for path in directory.iterdir()], ["state"])
