"""A registering Java broker is killed at each step, and its files put into each state that a crash can leave.

Never two ids for one broker that kept its file, never one id for two brokers. The kill is exact: the broker speaks to
the controllers through a go-between that stops it before a request is handed on, or before the answer arrives.
Source: issue 8 "Shows" 5; facts of seed S3, steps 1 to 5.
"""

from __future__ import annotations

import time
from pathlib import Path

from .harness import InteropCase
from .harness.case import FULL
from .harness.controllers import CLUSTER, Controllers, ReplicaBroker
from .harness.front import Front
from .harness.processes import wait_until
from .harness.roles import READY_S
from .harness.switching import OURS

NEXT_ID, APPLY_ID, REGISTER, ELECT = 1012, 1013, 1003, 1002
BLOWS = [(code, moment) for code in (NEXT_ID, APPLY_ID, REGISTER, ELECT) for moment in ("before", "after")]
SAMPLE = [(APPLY_ID, "before")]  # after it is among the files below


class Identity(InteropCase):
    """Controllers without a nameserver: a broker registers with them first."""

    kind = "ours"

    @classmethod
    def prepare(cls) -> None:
        cls.controllers = Controllers(cls.kind, cls.folder, 3)
        cls._shared.extend(cls.controllers.nodes)
        cls.controllers.start()
        cls.front = Front(lambda: cls.controllers.await_leader().address)
        cls.addClassCleanup(cls.front.close)

    def broker(self, group: str, number: int) -> ReplicaBroker:
        """A replica of `group` with a folder of its own, not started; no nameserver listens where it looks."""
        folder = self.folder / group / str(number)
        broker = ReplicaBroker(number, folder, "127.0.0.1:9", self.front.address)
        broker.group = group
        self.addCleanup(broker.kill)
        return broker

    def await_id(self, broker: ReplicaBroker) -> int:
        """Start it and wait until its identity file stands; it then goes on to register."""
        broker.spawn()
        wait_until(f"{broker.name} to have an id", lambda: broker.broker_id() > 0, READY_S, broker.running)
        return broker.broker_id()

    def next_id(self, group: str) -> int:
        reply = self.controllers.call(NEXT_ID, {"clusterName": CLUSTER, "brokerName": group})
        return int(reply.fields["nextBrokerId"])

    def test_killed_at_each_request(self) -> None:
        """Killed before and after 1012, 1013, 1003 and 1002, then started again: one id, and the next is the next."""
        for code, moment in BLOWS if FULL else SAMPLE:
            with self.subTest(f"{moment} {code}"):
                group = f"killed-{code}-{moment}"
                broker = self.broker(group, 1)
                self.front.arm(code, moment, broker.kill)
                broker.spawn()
                self.assertTrue(self.front.struck.wait(READY_S), "the broker never sent it")
                left = self.files(broker)
                self.assertEqual(self.await_id(broker), 1, f"after a crash that left {left}")
                self.assertEqual(self.await_id(self.broker(group, 2)), 2, "the second broker's")
                self.assertEqual(self.next_id(group), 3)
                self.end_all(broker)

    def files(self, broker: ReplicaBroker) -> dict[str, str]:
        return {p.name: p.read_text() for p in sorted(broker.root.glob("brokerIdentity*"))}

    def end_all(self, *brokers: ReplicaBroker) -> None:
        for broker in brokers:
            broker.kill()

    def test_files_that_a_crash_leaves(self) -> None:
        """The temporary file alone, both files, the temporary one of an id that another took meanwhile: each ends
        in one id for each broker."""
        group = "files"
        first, second = self.broker(group, 1), self.broker(group, 2)
        self.front.arm(APPLY_ID, "after", first.kill)
        first.spawn()
        self.assertTrue(self.front.struck.wait(READY_S))
        temporary = self.files(first)
        self.assertEqual(sorted(temporary), ["brokerIdentity-temp"])
        self.assertEqual(self.await_id(first), 1)
        first.kill()
        final = self.files(first)
        # killed between writing the one and deleting the other
        (first.root / "brokerIdentity-temp").write_text(temporary["brokerIdentity-temp"])
        self.assertEqual(self.await_id(first), 1)
        first.kill()
        # killed before the final one was written: the check code proves whose id it is
        (first.root / "brokerIdentity").unlink()
        (first.root / "brokerIdentity-temp").write_text(temporary["brokerIdentity-temp"])
        self.assertEqual(self.await_id(first), 1)
        self.assertEqual(self.files(first)["brokerIdentity"], final["brokerIdentity"])
        # another's temporary file names the same id under a check code of its own: refused, it gets the next
        stolen = f"{CLUSTER}#{group}#1#{second.address};{int(time.time() * 1000)}"
        Path(second.root).mkdir(parents=True, exist_ok=True)
        (second.root / "brokerIdentity-temp").write_text(stolen)
        self.assertEqual(self.await_id(second), 2)
        self.assertEqual((first.broker_id(), self.next_id(group)), (1, 3))

    def test_two_that_ask_at_once(self) -> None:
        """Three brokers start at the same moment on empty disks: three ids."""
        if not FULL:
            self.skipTest("with ROCKETHA_INTEROP_FULL=1 only: test_controller.py starts three at once as well")
        brokers = [self.broker("at-once", number) for number in (1, 2, 3)]
        for broker in brokers:
            broker.spawn()
        for broker in brokers:
            wait_until(f"{broker.name} to have an id", lambda b=broker: b.broker_id() > 0, READY_S, broker.running)
        self.assertEqual(sorted(broker.broker_id() for broker in brokers), [1, 2, 3])
        self.assertEqual(self.next_id("at-once"), 4)


class IdentityUnderJava(Identity):
    """The same under Java's controllers, which proves the test."""

    kind = "java"


if not FULL:
    del IdentityUnderJava
if not OURS:
    del Identity
