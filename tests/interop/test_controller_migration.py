"""Java's brokers and ours go from Java's controllers to ours under load, as docs/migration.rst says, and back.

With ROCKETHA_INTEROP_FULL=1 only.
"""

from __future__ import annotations

import shutil
import time
import unittest
from pathlib import Path

from .harness import ports, remoting
from .harness.case import FULL
from .harness.commands import rocketha
from .harness.controllers import GROUP, GroupState
from .harness.faults import Faults
from .harness.processes import wait_until
from .harness.roles import JavaController, OurController, _Controller
from .harness.switching import OURS, Storm, SwitchingCase

UPDATE_BROKER_CONFIG = 25
REREAD_S = 150
"""Java's brokers look at controllerAddr each 120 s."""
QUIET_S = 30


class MigrationCase(SwitchingCase):
    """One controller of Java's at first."""

    kind = "java"
    controllers = 1
    extra = {"masterLease": 10_000}  # ours: how long a master serves that hears of no controller

    def imported(self, state_file: Path) -> None:
        """``rocketha controller import`` from Java's."""
        controllers, namesrv = self.group.controllers.addresses, self.group.namesrv_addresses
        self.say(rocketha("controller", "import", str(state_file), "-a", controllers, "-n", namesrv))

    def made(self, kind: type[_Controller], folder: str, port: int) -> _Controller:
        """A controller that does not run yet, alone in its group."""
        node = kind("n0", self.folder / folder)
        node.move(port)
        node.peers = [node]
        return node

    def replace(self, node: _Controller) -> None:
        """Start it, in the place of the one that there was."""
        self._shared.append(node)
        self.group.controllers.nodes[:] = [node]
        node.start()
        self.group.controllers.await_leader()

    def to_ours(self, port: int, folder: str) -> None:
        """Import, restore, stop Java's, start ours."""
        (java,) = self.group.controllers.nodes
        state_file, ours = self.folder / f"{folder}.state", self.made(OurController, folder, port)
        self.imported(state_file)
        self.say(
            rocketha("controller", "snapshot", "restore", str(state_file), "-c", str(ours.config_file()), "--exact")
        )
        java.kill()
        self.replace(ours)

    def quiet(self, seconds: float = QUIET_S) -> None:
        """Long enough for every poll and every lease of a broker."""
        end = time.monotonic() + seconds
        wait_until("nothing to happen", lambda: time.monotonic() > end, seconds + 5)

    def assertUnnoticed(self, storm: Storm, before: GroupState, masterships: list[list[tuple[int, str]]]) -> None:
        after = self.group.await_whole()
        self.say(
            f"sends acknowledged {storm.verdict.text()}; failed {storm.errors}; longest gap {storm.longest_gap_ms} ms; "
            f"elections {storm.switches}; before {before}; after {after}"
        )
        self.assertEqual(storm.errors, {})
        self.assertEqual(after, before)
        self.assertEqual(storm.switches, [])
        self.assertEqual([broker.masterships() for broker in self.group.brokers], masterships)
        self.assertNoneLost(storm)


@unittest.skipUnless(FULL and OURS, "with ROCKETHA_INTEROP_FULL=1 only")
class Migration(MigrationCase):
    """Two brokers of Java's and one of ours.  The tests run in the order of their names, on one group."""

    kinds = ("java", "java", "ours")

    def test_1_same_address(self) -> None:
        """Ours take the address of Java's: no election, no other epoch, no failed send; then the master dies, twice."""
        before = self.group.await_whole()
        masterships = [broker.masterships() for broker in self.group.brokers]
        port = self.group.controllers.nodes[0].port

        def switch(acting: Faults) -> None:
            self.to_ours(port, "ours1")
            self.quiet()

        self.assertUnnoticed(self.storm([switch]), before, masterships)
        storm = self.storm([Faults.kill_master, Faults.kill_master])
        self.say(storm.text())
        self.assertNoneLost(storm)
        self.assertGreaterEqual(len(storm.switches), 2)

    def test_2_back_to_java(self) -> None:
        """Java's begin empty.  A master of Java's goes on; who is stopped begins anew, without id and epochs."""
        before = self.group.await_whole()
        heir = next(each for each in self.group.brokers if each.implementation == "java")
        if before.master_address != heir.address:
            addresses = self.group.controllers.addresses
            self.say(rocketha("controller", "elect", GROUP, str(heir.broker_id()), "--yes", "-a", addresses))
            before = self.group.await_whole()
        self.assertEqual(before.master_address, heir.address)
        port = self.group.controllers.nodes[0].port
        run = self.load.begin()
        self.load.await_more(run, 100)
        self.load.state(run, reset_gap=True)
        self.group.controllers.nodes[0].kill()
        self.replace(self.made(JavaController, "java2", port))
        self.quiet()
        said = self.load.state(run)
        acks = self.load.end(run)
        self.say(
            f"under empty controllers of Java's: {len(acks)} acknowledged, failed {said['errors']}, longest gap "
            f"{said['longest_gap_ms']} ms; they say {self.group.state()}"
        )
        self.assertEqual(said["errors"], {})
        self.assertIsNone(self.group.state())
        master = next(each for each in self.group.brokers if each.address == before.master_address)
        slaves = [each for each in self.group.brokers if each is not master]
        for broker in (*slaves, master):
            broker.stop()
        for broker in self.group.brokers:
            if broker.implementation == "ours":  # as a slave it follows nobody without epochs, unless it is empty
                shutil.rmtree(broker.root)
            for name in ("brokerIdentity", "epochFileCheckpoint", "epochFileCheckpoint.bak"):
                (broker.root / name).unlink(missing_ok=True)
        master.restart()
        self.group.await_master()
        for broker in slaves:
            broker.restart()
        after = self.group.await_whole()
        self.say(f"before {before}, after {after}")
        self.assertEqual((after.master_address, after.master_epoch), (master.address, 1))
        run = self.load.begin()
        self.load.await_more(run, 100)
        acks += self.load.end(run)
        present = self.load.read()
        self.assertEqual({ack.key for ack in acks} - present.keys(), set())


@unittest.skipUnless(FULL and OURS, "with ROCKETHA_INTEROP_FULL=1 only")
class LiveMigration(MigrationCase):
    """Two brokers of Java's are told another ``controllerAddr`` while they run."""

    kinds = ("java", "java")
    replicas = 2

    def test_other_addresses(self) -> None:
        """To other addresses, by updateBrokerConfig: likewise unnoticed."""
        before = self.group.await_whole()
        masterships = [broker.masterships() for broker in self.group.brokers]
        port = ports.block()

        def switch(acting: Faults) -> None:
            self.to_ours(port, "ours1")
            for broker in self.group.brokers:
                body = f"controllerAddr={self.group.controllers.addresses}".encode()
                reply = remoting.call(broker.address, UPDATE_BROKER_CONFIG, {}, body)
                self.assertEqual(reply.code, 0, reply.remark)
            began = time.monotonic()

            def alive() -> bool:
                state = self.group.state()
                return state is not None and len(state.alive) == len(self.group.brokers)

            wait_until("all brokers to come to the new controllers", alive, REREAD_S)
            self.say(f"all came after {time.monotonic() - began:.0f} s")
            self.quiet()

        self.assertUnnoticed(self.storm([switch]), before, masterships)
