"""What the commands' options have in common."""

from __future__ import annotations

from twisted.python import usage
from twisted.trial.unittest import SynchronousTestCase

from rocketha.services.broker import tap as broker_tap
from rocketha.services.cluster import tap as cluster_tap
from rocketha.services.controller import tap as controller_tap
from rocketha.services.namesrv import tap as namesrv_tap

COMMANDS = (broker_tap, cluster_tap, controller_tap, namesrv_tap)


class CommonTests(SynchronousTestCase):
    """Every command, the same words."""

    def test_set(self) -> None:
        """KEY=VALUE, spaces about the key or not; anything else is a mistake that is named."""
        for command in COMMANDS:
            options = command.Options()
            options.parseOptions(["--set", " connectionsMax =77", "-s", "frameTimeoutSeconds=9"])
            self.assertEqual((options.flags["connectionsMax"], options.flags["frameTimeoutSeconds"]), ("77", "9"))
            for bad in ("connectionsMax", "=77", " =77"):
                with self.assertRaisesRegex(usage.UsageError, "KEY=VALUE is wanted"):
                    command.Options().parseOptions(["--set", bad])
            with self.assertRaisesRegex(usage.UsageError, "connectionsMax"):
                command.Options().parseOptions(["--set", "connectionsMax=0"])

    def test_listen(self) -> None:
        """Endpoint strings are checked; the small cluster has none."""
        for command in COMMANDS:
            options = command.Options()
            if command is cluster_tap:
                self.assertRaises(usage.UsageError, options.parseOptions, ["--listen", "tcp:1"])
                continue
            options.parseOptions(["--listen", "tcp:1", "-l", "tcp:2:interface=127.0.0.1"])
            self.assertEqual(options.listen, ["tcp:1", "tcp:2:interface=127.0.0.1"])
            with self.assertRaisesRegex(usage.UsageError, "--listen nonsense"):
                command.Options().parseOptions(["--listen", "nonsense"])

    def test_file(self) -> None:
        """One that is not there is an error with its name."""
        for command in COMMANDS:
            with self.assertRaisesRegex(usage.UsageError, "/no/such.conf"):
                command.Options().parseOptions(["--config", "/no/such.conf"])
