"""``twistd rocketha-controller`` and the controller inside ``rocketha-namesrv``: options, errors, what is built."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from twisted.application import service
from twisted.python import usage
from twisted.trial.unittest import SynchronousTestCase

from rocketha.services.controller import tap as controller_tap
from rocketha.services.controller.service import ControllerService
from rocketha.services.namesrv import tap as namesrv_tap
from rocketha.services.namesrv.service import NameServerService
from rocketha.services.process.server import SteadyClock
from rocketha.services.process.status import StatusService

PEERS = "n0-10.0.0.1:9878;n1-10.0.0.2:9878;n2-10.0.0.3:9878"


def children(made: service.IService, kind: type[Any]) -> list[Any]:
    """The services of one kind, however deep."""
    found = [made] if isinstance(made, kind) else []
    for child in made if isinstance(made, service.MultiService) else []:
        found += children(child, kind)
    return found


def file_with(case: SynchronousTestCase, text: str) -> str:
    """A configuration file."""
    handle, path = tempfile.mkstemp(suffix=".conf")
    case.addCleanup(os.remove, path)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    return path


def on_a_network(case: SynchronousTestCase) -> str:
    """The keys of a controller that others than this machine reach."""
    secret = file_with(case, "0123456789abcdef")
    return f"insecureNetwork=true\nraftSecretFile={secret}\n"


class ControllerTapTests(SynchronousTestCase):
    """Flags override the file; what is wrong is said before anything is opened."""

    def parse(self, *arguments: str) -> controller_tap.Options:
        options = controller_tap.Options()
        options.parseOptions(list(arguments))
        return options

    def test_flags(self) -> None:
        """The five that matter, and --set for the rest."""
        keys = f"controllerDLegerPeers={PEERS}\ncontrollerDLegerSelfId=n0\nbrokerSilence=2000\n"
        path = file_with(self, keys + on_a_network(self))
        options = self.parse("-c", path, "--id", "n2", "--data", "/srv/x", "--group", "g", "--set", "brokerSilence=900")
        assert options.loaded is not None
        config = options.loaded.config
        self.assertEqual(
            (config.self_address, config.controller_store_path, config.controller_dleger_group, config.broker_silence),
            ("10.0.0.3:9878", "/srv/x", "g", 900),
        )

    def test_leases_run_out_while_the_machine_sleeps(self) -> None:
        """Of reads: the others elect meanwhile.  So their clock is one that also runs then."""
        options = self.parse()
        assert options.loaded is not None
        first, *_ = controller_tap.makeService(options)  # type: ignore[misc]
        self.assertIsInstance(first, SteadyClock)

    def test_errors_name_their_place(self) -> None:
        """As usage errors."""
        path = file_with(self, "controllerDLegerGroup=g\ncontrollerDLegerPeers=n0:9878\n")
        for arguments, words in (
            (("-c", path), "line 2: controllerDLegerPeers"),
            (("--peers", PEERS, "--id", "n9"), "controllerDLegerSelfId=n9 is refused"),
            (("-c", "/nonexistent/file"), "cannot be read"),
            (("--listen", "nonsense"), "--listen nonsense"),
            (("--set", "novalue"), "KEY=VALUE"),
            (("--set", "brokerName=x"), "key of another service"),
            (("--http", "x:y:z"), "--http"),
        ):
            with self.assertRaisesRegex(usage.UsageError, words):
                self.parse(*arguments)

    def test_not_open_to_strangers(self) -> None:
        """A port that other machines reach: not without identities or the word that the network is safe; and a member
        of the group always shows that it is one."""
        peers = ("--peers", PEERS, "--id", "n1")
        secret = file_with(self, "0123456789abcdef")
        for arguments, words in (
            (peers, "nothing shows which of them are controllers: set raftSecretFile"),
            ((*peers, "--set", "insecureNetwork=true"), "nothing shows which of them are controllers"),
            ((*peers, "--set", f"raftSecretFile={secret}"), "bindAddress=10.0.0.2: other machines reach this port"),
            (("--bind", "0.0.0.0"), "bindAddress=0.0.0.0: other machines reach this port"),
            (("--listen", "tcp:9878"), "--listen tcp:9878: other machines reach this port"),
        ):
            with self.assertRaisesRegex(usage.UsageError, words):
                self.parse(*arguments)
        options = self.parse(*peers, "--set", "insecureNetwork=true", "--set", f"raftSecretFile={secret}")
        assert options.network is not None
        self.assertIn("insecureNetwork=true", options.network.notice)
        self.parse("--listen", "tcp:9878:interface=127.0.0.1")

    def test_made(self) -> None:
        """With a status port if there is to be one; nothing runs yet."""
        made = controller_tap.makeService(self.parse("--http", "9870"))
        (controller,) = children(made, ControllerService)
        self.assertEqual((len(children(made, StatusService)), controller.running), (1, 0))
        self.assertEqual((controller.ready(), controller.leading, controller.raft_view()), ("stopped", False, None))
        self.assertEqual(children(controller_tap.makeService(self.parse()), StatusService), [])
        self.assertRaises(usage.UsageError, controller_tap.makeService, controller_tap.Options())


class EmbeddedTests(SynchronousTestCase):
    """enableControllerInNamesrv=true: both in one process, each on its own port."""

    def parse(self, *arguments: str) -> namesrv_tap.Options:
        options = namesrv_tap.Options()
        options.parseOptions(list(arguments))
        return options

    def test_both(self) -> None:
        """From one file of Java's, with flags for either."""
        path = file_with(
            self,
            "listenPort=19876\nenableControllerInNamesrv=true\ncontrollerDLegerGroup=g\ncontrollerDLegerSelfId=n1\n"
            f"controllerDLegerPeers={PEERS}\n" + on_a_network(self),
        )
        made = namesrv_tap.makeService(
            self.parse("-c", path, "-d", "/srv/ns", "--set", "controllerStorePath=/srv/c", "--set", "topicsMax=9")
        )
        ((namesrv,), (controller,)) = children(made, NameServerService), children(made, ControllerService)
        self.assertEqual((namesrv.config.listen_port, namesrv.config.topics_max), (19876, 9))
        self.assertEqual(
            (controller.config.self_address, controller.config.bind_address, controller.config.controller_store_path),
            ("10.0.0.2:9878", "10.0.0.2", "/srv/c"),
        )

    def test_bind_is_the_name_servers(self) -> None:
        """The controller listens where the others look for it, however clients reach the name server."""
        for peer, place in (("10.0.0.1", "10.0.0.1"), ("[2001:db8::1]", "2001:db8::1"), ("c0.example", "10.9.9.9")):
            keys = f"enableControllerInNamesrv=true\ncontrollerDLegerPeers=n0-{peer}:9878\ninsecureNetwork=true\n"
            flag = self.parse("-c", file_with(self, keys), "--bind", "10.9.9.9")
            key = self.parse("-c", file_with(self, f"{keys}bindAddress=10.9.9.9\n"))
            for options in (flag, key):
                assert options.loaded is not None and options.controller is not None
                found = options.loaded.config.bind_address, options.controller.config.bind_address
                self.assertEqual(found, ("10.9.9.9", place))

    def test_without(self) -> None:
        """A name server alone, and its flags are its own."""
        self.assertEqual(children(namesrv_tap.makeService(self.parse()), ControllerService), [])
        with self.assertRaisesRegex(usage.UsageError, "controllerStorePath"):
            self.parse("--set", "controllerStorePath=/srv/c")

    def test_bad_controller_keys(self) -> None:
        """Stop the name server too: half of what was asked for is not it."""
        with self.assertRaisesRegex(usage.UsageError, "controllerDLegerSelfId=n7 is refused"):
            self.parse("--set", "enableControllerInNamesrv=true", "--set", "controllerDLegerSelfId=n7")
