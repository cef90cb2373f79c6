"""A group of brokers and controllers on one machine: options, layout, directories, and what is told of a switch."""

from __future__ import annotations

import datetime
import errno
import itertools
import os
import pathlib
import signal
import types
from typing import Any

from twisted.internet import error, task
from twisted.internet.testing import MemoryReactorClock
from twisted.python import usage
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.admin.pki import members
from rocketha.errors import ConfigError, DiskFailure
from rocketha.namesrv.route_table import Broker, BrokerKey
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.network import InTheClear
from rocketha.services.broker import tap as broker_tap
from rocketha.services.cluster import tap as cluster_tap
from rocketha.services.cluster.group import GroupService
from rocketha.services.cluster.layout import Layout, Plan, adopt, begin_first, check_directory, check_ledgers
from rocketha.services.cluster.member import Member
from rocketha.services.cluster.service import tls_lines
from rocketha.services.cluster.switches import Switches, why
from rocketha.services.controller import tap as controller_tap
from rocketha.services.process.platform import Platform
from rocketha.services.tls.authority import Authority
from rocketha.store.posix_disk import PosixDisk


def parsed(*arguments: str) -> cluster_tap.Options:
    """Options of a command line."""
    options = cluster_tap.Options()
    options.parseOptions(arguments)
    return options


def flags_of(arguments: tuple[str, ...]) -> dict[str, str]:
    """The keys that a process is given."""
    pairs = [value for flag, value in itertools.pairwise(arguments) if flag == "--set"]
    return dict(pair.split("=", 1) for pair in pairs)


class OptionTests(SynchronousTestCase):
    """What is understood, and what is refused before anything starts."""

    def setUp(self) -> None:
        self.data = self.mktemp()

    def layout(self, *arguments: str) -> Layout:
        """The layout of these options."""
        layout = parsed("--data", self.data, *arguments).layout
        assert layout is not None
        return layout

    def refused(self, wanted: str, *arguments: str) -> None:
        """These options are refused, for this reason."""
        with self.assertRaises(usage.UsageError) as problem:
            parsed("--data", self.data, *arguments)
        self.assertIn(wanted, str(problem.exception))
        self.assertFalse(pathlib.Path(self.data).exists())

    def test_one_broker_is_as_ever(self) -> None:
        """Without the new options there is one process, whose store is where it was."""
        options = parsed("--data", self.data)
        self.assertIsNone(options.layout)
        assert options.broker is not None
        self.assertEqual(options.flags["storePathRootDir"], str(pathlib.Path(self.data, "store").absolute()))
        self.assertFalse(options.broker.config.replication.enable_controller_mode)

    def test_several_brokers_have_a_controller(self) -> None:
        """One, unless another number is given; one broker may have controllers too."""
        self.assertEqual(self.layout("--brokers", "2").controllers, 1)
        self.assertEqual(self.layout("--brokers", "2", "--controllers", "5").controllers, 5)
        self.assertEqual(self.layout("--controllers", "3").brokers, 1)

    def test_brokers_that_elect_their_master(self) -> None:
        """No controllers; each is told of all, with a port of its own for them."""
        layout = self.layout("--brokers", "3", "--mode", "dledger")
        self.assertEqual(layout.controller_plans(), [])
        told = [flags_of(plan.arguments) for plan in layout.broker_plans()]
        peers = "n1-127.0.0.1:10912;n2-127.0.0.1:10922;n3-127.0.0.1:10932"
        self.assertEqual({each["dLegerPeers"] for each in told}, {peers})
        self.assertEqual([each["dLegerSelfId"] for each in told], ["n1", "n2", "n3"])
        self.assertEqual({each.get("enableControllerMode") for each in told}, {None})
        self.refused("with --mode dledger there are none", "--brokers", "3", "--mode", "dledger", "--controllers", "1")
        self.refused("controller or dledger is wanted", "--mode", "jraft")

    def test_directories_of_the_two_modes(self) -> None:
        """Neither takes the other's: the messages would not be found."""
        data = pathlib.Path(self.data)
        (data / "controller-1").mkdir(parents=True)
        with self.assertRaisesRegex(ConfigError, "do not become DLedger's"):
            check_ledgers(self.data, 3)
        (data / "controller-1").rmdir()
        (data / "broker-1" / "dledger-n1").mkdir(parents=True)
        with self.assertRaisesRegex(ConfigError, "start it with --mode dledger"):
            check_directory(self.data, 3, 1)
        with self.assertRaisesRegex(ConfigError, r"start as many \(--brokers 1\)"):
            check_ledgers(self.data, 3)
        check_ledgers(self.data, 1)

    def test_nonsense_is_refused(self) -> None:
        """Numbers that are none, replicas whom nobody elects, ports that clash or do not exist, shared directories."""
        for option, value in (("--brokers", "0"), ("--brokers", "10"), ("--brokers", "x"), ("--controllers", "-1")):
            self.refused(f"{option} {value}: a number", option, value)
        self.refused("needs controllers", "--brokers", "3", "--controllers", "0")
        self.refused(
            "nameserver and controller-2 would both have port 9876", "--controllers", "2", "--controller-port", "9875"
        )
        self.refused("controller-1 and broker-2's fast port would both", "--brokers", "2", "--controller-port", "10919")
        self.refused("broker-2 would have port 65540", "--brokers", "2", "--broker-port", "65530")
        self.refused("each broker of a group has its own", "--brokers", "2", "--set", "storePathCommitLog=/tmp/shared")
        self.refused("noSuchKey", "--brokers", "2", "--set", "noSuchKey=1")

    def test_what_the_processes_are_told(self) -> None:
        """Ports ten apart, a directory each, the same controllers, and the keys of the command line."""
        layout = self.layout("--brokers", "3", "--controllers", "3", "--set", "flushDiskType=SYNC_FLUSH")
        layout.check_ports()
        brokers, controllers = layout.broker_plans(), layout.controller_plans()
        self.assertEqual([plan.port for plan in brokers], [10911, 10921, 10931])
        self.assertEqual([plan.port for plan in controllers], [9878, 9879, 9880])
        plans = [*brokers, *controllers]
        self.assertEqual(len({plan.directory for plan in plans}), 6)
        keys = flags_of(brokers[1].arguments)
        self.assertEqual((keys["listenPort"], keys["haListenPort"]), ("10921", "10922"))
        self.assertEqual(keys["controllerAddr"], "127.0.0.1:9878;127.0.0.1:9879;127.0.0.1:9880")
        self.assertEqual((keys["flushDiskType"], keys["brokerName"]), ("SYNC_FLUSH", "broker-a"))
        self.assertEqual(keys["storePathRootDir"], brokers[1].directory)
        self.assertEqual(flags_of(controllers[2].arguments)["controllerDLegerSelfId"], "n3")

    def test_keys_of_one_broker(self) -> None:
        """The others do not have them; what the group decides stays decided, and each broker's keys are checked."""
        layout = self.layout("--brokers", "2", "--set", "broker-2.brokerPermission=4", "--set", "brokerPermission=6")
        keys = [flags_of(plan.arguments) for plan in layout.broker_plans()]
        self.assertEqual([each["brokerPermission"] for each in keys], ["6", "4"])
        self.assertFalse([key for each in keys for key in each if key.startswith("broker-")])
        alone = parsed("--data", self.data, "--set", "broker-1.brokerPermission=4")
        assert alone.broker is not None
        self.assertEqual(alone.broker.config.broker_permission, 4)
        self.refused("there is no broker-3 with --brokers 2", "--brokers", "2", "--set", "broker-3.brokerPermission=4")
        for key in ("listenPort", "namesrvAddr", "brokerClusterName"):
            self.refused(f"cannot have its own {key}", "--brokers", "2", "--set", f"broker-2.{key}=4000")
        self.refused("brokerPermission", "--brokers", "2", "--set", "broker-2.brokerPermission=x")
        self.refused("noSuchKey", "--brokers", "2", "--set", "broker-2.noSuchKey=4")
        self.refused(
            "each broker of a group has its own", "--brokers", "2", "--set", "broker-2.storePathCommitLog=/tmp/x"
        )

    def test_every_process_understands_its_flags(self) -> None:
        """The commands of a group parse what it calls them with."""

        layout = self.layout("--brokers", "2", "--controllers", "3", "--log-level", "debug")
        for plan in layout.broker_plans():
            options: Any = broker_tap.Options()
            options.parseOptions(plan.arguments[1:])
            self.assertTrue(options.loaded.config.replication.enable_controller_mode)
            self.assertEqual(options.loaded.config.listen_port, plan.port)
        for plan in layout.controller_plans():
            options = controller_tap.Options()
            options.parseOptions(plan.arguments[1:])
            self.assertEqual(options["log-level"], "debug")


class DirectoryTests(SynchronousTestCase):
    """What was there before is neither lost nor mixed."""

    def setUp(self) -> None:
        self.data = pathlib.Path(self.mktemp()).absolute()

    def make(self, *names: str) -> None:
        """Directories."""
        for name in names:
            (self.data / name).mkdir(parents=True)

    def check(self, brokers: int, controllers: int) -> str:
        """Why it is refused; "" if it is not."""
        try:
            check_directory(str(self.data), brokers, controllers)
        except ConfigError as problem:
            return str(problem)
        return ""

    def test_an_unused_one_will_do(self) -> None:
        """For either kind."""
        self.assertEqual((self.check(1, 0), self.check(3, 3)), ("", ""))

    def test_a_group_stays_a_group(self) -> None:
        """A broker alone, fewer brokers, and another number of controllers are refused; more brokers are not."""
        self.make("broker-1", "broker-2", "controller-1", "controller-2", "controller-3")
        self.assertEqual((self.check(2, 3), self.check(3, 3)), ("", ""))
        self.assertIn("--brokers 2 --controllers 3", self.check(1, 0))
        self.assertIn("--brokers 2", self.check(1, 3))
        self.assertIn("--controllers 3", self.check(2, 1))

    def test_two_stores_are_not_chosen_from(self) -> None:
        """Nothing says which of the two has the messages."""
        self.make("store", "broker-1")
        for brokers, controllers in ((1, 0), (1, 1), (3, 3)):
            self.assertIn("store and broker-1", self.check(brokers, controllers))

    def test_a_broker_alone_becomes_the_first_replica(self) -> None:
        """Its store is moved, once; only it is started until it is the master."""
        self.make("store/commitlog")
        self.assertEqual((self.check(1, 0), self.check(3, 3)), ("", ""))
        self.assertTrue(adopt(str(self.data)))
        self.assertTrue((self.data / "broker-1" / "commitlog").is_dir())
        self.assertFalse(adopt(str(self.data)))
        options = parsed("--data", str(self.data), "--brokers", "3")
        assert options.layout is not None
        plans = options.layout.broker_plans()
        self.assertEqual(begin_first(str(self.data), plans), plans[:1])
        self.make("broker-2", "broker-3")
        self.assertEqual(begin_first(str(self.data), plans), plans)

    def test_a_new_group_starts_all_at_once(self) -> None:
        """Nobody has anything that another one lacks."""
        options = parsed("--data", str(self.data), "--brokers", "3")
        assert options.layout is not None
        plans = options.layout.broker_plans()
        self.assertEqual(begin_first(str(self.data), plans), plans)

    def test_a_store_in_use_stays(self) -> None:
        """A broker that runs keeps its directory."""
        self.make("store")
        lock = PosixDisk().lock(str(self.data / "store" / "lock"))
        try:
            with self.assertRaises(DiskFailure):
                adopt(str(self.data))
        finally:
            lock.release()
        self.assertTrue((self.data / "store").is_dir())


class Table:
    """A nameserver, as far as it is looked at."""

    def __init__(self) -> None:
        self.brokers: dict[BrokerKey, Broker] = {}
        self.server = self
        self.table = self

    def addresses(self, **ports: int) -> None:
        """``_0=10911``: who is registered."""
        found = {int(number[1:]): f"127.0.0.1:{port}" for number, port in ports.items()}
        key = BrokerKey("C", "broker-a")
        self.brokers = {key: Broker(key, found)} if found else {}


class SwitchTests(SynchronousTestCase):
    """A person is told of a new master once it serves, and how long nobody did."""

    def setUp(self) -> None:
        self.clock = task.Clock()
        self.table = Table()
        self.told: list[str] = []
        namesrv: Any = self.table
        self.switches = Switches(
            Dialer(self.clock),
            namesrv,
            "broker-a",
            {},
            {10911: "broker-1", 10921: "broker-2"},
            self.told.append,
            "<{}>".format,
        )
        self.switches.start()
        self.addCleanup(self.switches.stop)

    def advance(self, seconds: float) -> None:
        """Time goes by in steps of 10 ms."""
        self.clock.pump([0.01] * round(seconds * 100))

    def hear(self, master: int, epoch: int, in_sync: tuple[int, ...], controller: str = "controller-1") -> None:
        """What the leading controller answers."""
        decisions = [{"masterEpoch": epoch, "masterBrokerId": master, "why": "PORT_REFUSED", "reason": "it is gone"}]
        group = {
            "masterBrokerId": master,
            "masterEpoch": epoch,
            "syncStateSet": list(in_sync),
            "decisions": decisions,
            "brokerAddrs": {"1": "127.0.0.1:10911", "2": "127.0.0.1:10921"},
        }
        self.switches._heard(group, controller)

    def lead(self) -> None:
        """Broker 1 is the first master."""
        self.table.addresses(_0=10911, _2=10921)
        self.advance(0.1)
        self.hear(1, 1, (1, 2))
        self.assertEqual(self.told, ["<broker-1> is master of epoch 1", "in sync: broker-1, broker-2"])
        self.told.clear()

    def test_without_controllers(self) -> None:
        """What the nameserver says is all there is."""
        self.switches._controlled = False
        self.table.addresses(_0=10911, _2=10921)
        self.advance(0.1)
        self.switches.ended("broker-1")
        self.advance(0.1)
        self.table.addresses(_0=10921)
        self.advance(0.1)
        self.assertEqual(self.told[0], "<broker-1> is master")
        self.assertRegex(self.told[1], r"^<broker-2> is master instead of broker-1; no master for 0\.\d\d s$")

    def test_a_killed_master(self) -> None:
        """From the end of its process, whatever the nameserver still says, until the next one is registered."""
        self.lead()
        self.switches.ended("broker-1")
        self.advance(0.2)
        self.hear(2, 2, (2,))
        self.assertEqual(self.told, ["in sync: broker-2"])
        self.told.clear()
        self.table.addresses(_0=10921)
        self.advance(0.1)
        self.hear(2, 2, (2,))
        (line,) = self.told
        self.assertRegex(line, r"^<broker-2> is master of epoch 2 instead of broker-1; no master for 0\.2[0-2] s ")
        self.assertIn("(PORT_REFUSED: it is gone)", line)
        self.assertEqual(self.switches.master, "broker-2")

    def test_a_master_that_comes_back(self) -> None:
        """It is elected again, though the nameserver never forgot it."""
        self.lead()
        self.switches.ended("broker-1")
        self.advance(1)
        self.switches.started("broker-1")
        self.advance(0.1)
        self.hear(1, 2, (1, 2))
        self.assertRegex(self.told[0], r"<broker-1> is master of epoch 2 again; no master for 1\.0[0-2] s")

    def test_a_frozen_master(self) -> None:
        """It was registered until the next one was: no time is told, also when an earlier switch had one."""
        self.lead()
        self.switches.ended("broker-1")
        self.table.addresses(_0=10921, _1=10911)
        self.advance(0.1)
        self.hear(2, 2, (2,))
        self.switches.started("broker-1")
        self.told.clear()
        self.table.addresses(_0=10911, _2=10921)
        self.advance(0.1)
        self.hear(1, 3, (1,))
        self.assertEqual(self.told[0], "<broker-1> is master of epoch 3 instead of broker-2 (PORT_REFUSED: it is gone)")

    def test_nothing_new_is_not_told(self) -> None:
        """The same answer twice; a master that clients do not find yet."""
        self.lead()
        self.hear(1, 1, (1, 2))
        self.hear(2, 2, (1, 2))
        self.assertEqual(self.told, [])

    def test_another_controller_leads(self) -> None:
        """Is told, but not the first one."""
        self.lead()
        self.hear(1, 1, (1, 2), "controller-3")
        self.assertEqual(self.told, ["controller-3 leads the controllers instead of controller-1"])

    def test_the_reason_is_that_of_the_election(self) -> None:
        """The first decision of the epoch made the master; later ones changed the set."""
        rows: list[dict[str, Any]] = [
            {"masterEpoch": 1, "masterBrokerId": 1, "why": "BROKER_ASKED", "reason": ""},
            {"masterEpoch": 2, "masterBrokerId": 2, "why": "PORT_REFUSED", "reason": "gone"},
            {"masterEpoch": 2, "masterBrokerId": 2, "why": "REQUESTED", "reason": "joined"},
        ]
        self.assertEqual([why(rows, epoch) for epoch in (1, 2, 3)], ["BROKER_ASKED", "PORT_REFUSED: gone", ""])


class Processes(MemoryReactorClock):
    """A reactor that starts processes, as far as a group asks for it.

    :ivar refusals: so many next starts fail.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refusals = 0
        self.lives: list[Any] = []
        self.tried_s: list[float] = []
        self.signals: list[int] = []

    def spawnProcess(self, life: Any, *arguments: Any, **more: Any) -> Any:
        """A process that never ends by itself."""
        self.tried_s.append(self.seconds())
        if self.refusals:
            self.refusals -= 1
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        self.lives.append(life)
        return types.SimpleNamespace(pid=100 + len(self.lives), signalProcess=self.signals.append)

    def end(self, exit_code: int | None) -> None:
        """The one that was started last is gone."""
        self.lives[-1].processExited(Failure(error.ProcessTerminated(exitCode=exit_code)))


class MemberTests(SynchronousTestCase):
    """A process is started until it runs, whatever the machine lacks, and a person hears of it."""

    def setUp(self) -> None:
        self.reactor = Processes()
        self.told: list[str] = []
        directory = pathlib.Path(self.mktemp())
        self.log = directory / "log" / "broker-1"
        self.member = Member(
            Plan("broker-1", 10911, "127.0.0.1:10911", str(directory / "broker-1"), ("x",)),
            str(self.log),
            self.reactor,
            lambda member, what: self.told.append(what),
            lambda member: self.told.append("started"),
        )

    def advance(self, seconds: int) -> None:
        """In steps, as timers set others."""
        self.reactor.pump([1.0] * seconds)

    def test_a_restart_that_fails(self) -> None:
        """It is tried again after 1, 2, 4, 8 seconds."""
        self.member.start()
        self.reactor.end(1)
        self.reactor.refusals = 3
        self.advance(20)
        refused = "can not be started: [Errno 11] Resource temporarily unavailable"
        self.assertEqual(self.told, ["started", "ended: exit code 1", *[refused] * 3, "started"])
        self.assertEqual(self.reactor.tried_s, [0, 1, 3, 7, 15])
        self.assertEqual((self.member.pid, self.member.starts, self.member.tries), (102, 2, 5))
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_one_that_ran_for_a_while(self) -> None:
        """It is back at once, and after 1 and 2 seconds when it ends again."""
        self.member.start()
        self.advance(10)
        for _ in range(3):
            self.reactor.end(1)
            self.reactor.advance(0)
            self.advance(3)
        self.assertEqual(self.reactor.tried_s, [0, 10, 14, 18])

    def test_a_first_start_that_fails(self) -> None:
        """Whoever starts it does not hear of it otherwise than by ``ended``."""
        self.log.mkdir(parents=True)  # which can not be opened as a file
        self.member.start()
        self.assertIn("can not be started: [Errno 21]", self.told[0])
        self.log.rmdir()
        self.advance(1)
        self.assertEqual((self.told[1:], self.member.pid), (["started"], 101))

    def test_stopped_while_it_waits(self) -> None:
        """It is not started any more."""
        self.reactor.refusals = 1
        self.member.start()
        self.successResultOf(self.member.stop(1.0))
        self.advance(60)
        self.assertEqual((len(self.reactor.tried_s), self.member.pid), (1, None))

    def test_one_that_does_not_stop(self) -> None:
        """It is told twice and killed, and a line says why."""
        self.member.start()
        stopped = self.member.stop(15.0)
        self.advance(14)
        self.assertEqual(self.reactor.signals, [signal.SIGTERM, signal.SIGCONT] * 2)
        self.assertEqual(self.told, ["started"])
        self.advance(1)
        self.assertEqual(self.reactor.signals[4:], [signal.SIGKILL])
        self.assertEqual(self.told[1:], ["has not stopped after 15 s and is killed: its next start recovers"])
        self.reactor.end(None)
        self.successResultOf(stopped)

    def test_a_group_goes_on(self) -> None:
        """The others are started, what failed is tried again; the person hears of both."""
        options = parsed("--data", self.mktemp(), "--brokers", "2", "--controllers", "1")
        assert options.layout is not None and options.namesrv is not None
        namesrv: Any = cluster_tap.NameServerService(options.namesrv.config, Platform(disk=PosixDisk()))
        group = GroupService(namesrv, options.layout, InTheClear(), reactor=self.reactor, tell=self.told.append)
        group._namesrv = table = Table()  # type: ignore[assignment]
        table.addresses(_0=10911)
        group.running = 1
        self.reactor.refusals = 1
        group._start_members()
        self.addCleanup(group._switches.stop)  # type: ignore[union-attr]
        self.addCleanup(group._waiting.stop)  # type: ignore[union-attr]
        self.reactor.advance(1)
        self.assertEqual([group.members[name].starts for name in ("controller-1", "broker-1")], [1, 1])
        self.assertEqual(len(self.told), 3)
        self.assertRegex(self.told[0], r"  3 processes start; their logs are in \S+/log$")
        self.assertRegex(self.told[1], r"  controller-1 can not be started: \[Errno 11\] Resource temporarily unavail")
        self.assertRegex(self.told[2], r"  controller-1 \(pid \d+\) is started$")


class TlsTests(SynchronousTestCase):
    """A group under TLS: every process has the same files, and the person is told which."""

    def setUp(self) -> None:
        self.pki = os.path.join(self.mktemp(), "pki")
        authority = Authority.make(self.pki, "ca", datetime.datetime.now(datetime.UTC), 10)
        authority.issue("all", ["127.0.0.1"], (), datetime.datetime.now(datetime.UTC), 5)
        self.file = os.path.join(self.pki, "all.properties")

    def test_every_process_has_it(self) -> None:
        options = parsed(
            "--data", self.mktemp(), "--brokers", "2", "--controllers", "1", "--set", f"tls.config.file={self.file}"
        )
        assert options.layout is not None and options.network is not None
        self.assertEqual(sorted(options.network.credentials), ["client", "server"])
        for plan in options.layout.broker_plans():
            broker: Any = broker_tap.Options()
            broker.parseOptions(list(plan.arguments[1:]))
            self.assertEqual(broker.loaded.config.remoting.tls, options.broker.config.remoting.tls)
        for plan in options.layout.controller_plans():
            controller = controller_tap.Options()
            controller.parseOptions(list(plan.arguments[1:]))
            assert controller.loaded is not None
            self.assertEqual(controller.loaded.config.remoting.tls, options.broker.config.remoting.tls)

    def test_each_its_own_identity(self) -> None:
        """Of ``rocketha pki cluster``: with another's files a process does not start, and people are operators."""
        now, folder = datetime.datetime.now(datetime.UTC), os.path.join(self.mktemp(), "pki")
        authority = Authority.make(folder, "ca", now, 10)
        for name, who in members("DefaultCluster", "broker-a", 2, 1).items():
            authority.issue(name, ["127.0.0.1"], who, now, 5)
        options = parsed("--data", self.mktemp(), "--brokers", "2", "--controllers", "1", "--tls", folder)
        assert options.layout is not None and options.network is not None
        self.assertTrue(options.network.askers.known)
        for plans, tap in (
            (options.layout.broker_plans(), broker_tap),
            (options.layout.controller_plans(), controller_tap),
        ):
            for plan in plans:
                child: Any = tap.Options()
                child.parseOptions(list(plan.arguments[1:]))
                self.assertEqual(
                    child.loaded.config.remoting.tls.config_file, f"{os.path.abspath(folder)}/{plan.name}.properties"
                )
                mine = plan.arguments.index(f"tls.config.file={os.path.abspath(folder)}/{plan.name}.properties")
                others = [*plan.arguments[1:]]
                others[mine - 1] = f"tls.config.file={folder}/operator.properties"
                with self.assertRaisesRegex(usage.UsageError, "the certificate says operator/operator"):
                    tap.Options().parseOptions(others)
        (line,) = tls_lines(options.layout.broker.remoting.tls)
        self.assertIn("operator.properties", line)

    def test_no_password_among_arguments(self) -> None:
        """Anybody on the machine reads those: passwords are taken from files alone."""
        flag = ["--set", "tls.client.keyPassword=opensesame"]
        for options in (cluster_tap.Options(), broker_tap.Options()):
            with self.assertRaisesRegex(usage.UsageError, "in a file") as raised:
                options.parseOptions(flag)
            self.assertNotIn("opensesame", str(raised.exception))


class StartTests(SynchronousTestCase):
    """A group that can not start."""

    def test_it_is_not_ready_before_there_is_a_master(self) -> None:
        """For /readyz."""
        options = parsed("--data", self.mktemp(), "--brokers", "2")
        assert options.layout is not None and options.namesrv is not None
        namesrv: Any = cluster_tap.NameServerService(options.namesrv.config, Platform(disk=PosixDisk()))
        self.assertEqual(GroupService(namesrv, options.layout, InTheClear()).ready(), "no master yet")
