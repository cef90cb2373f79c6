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
            listen = ["tcp:1", "tcp:2:interface=127.0.0.1"]
            options.parseOptions(["--listen", listen[0], "-l", listen[1], "--set", "insecureNetwork=true"])
            self.assertEqual(options.listen, listen)
            with self.assertRaisesRegex(usage.UsageError, "--listen tcp:1: other machines reach this port"):
                command.Options().parseOptions(["--listen", "tcp:1"])
            with self.assertRaisesRegex(usage.UsageError, "--listen nonsense"):
                command.Options().parseOptions(["--listen", "nonsense"])

    def test_bind(self) -> None:
        """No port is open to other machines without identities, or the word that the network keeps strangers away."""
        for command in (broker_tap, namesrv_tap, cluster_tap):
            flag = "--host" if command is cluster_tap else "--bind"
            with self.assertRaisesRegex(usage.UsageError, "bindAddress=10.0.0.9: other machines reach this port"):
                command.Options().parseOptions([flag, "10.0.0.9"])
            command.Options().parseOptions([flag, "10.0.0.9", "--set", "insecureNetwork=true"])

    def test_file(self) -> None:
        """One that is not there is an error with its name."""
        for command in COMMANDS:
            with self.assertRaisesRegex(usage.UsageError, "/no/such.conf"):
                command.Options().parseOptions(["--config", "/no/such.conf"])
