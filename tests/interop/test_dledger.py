"""Groups of three brokers whose commit log is a Raft log, ours and Java's, under Java's nameserver and Java's clients:
nothing that was acknowledged is lost, whoever dies, and all members keep the same bytes; also where the stores were
Java's.

ROCKETHA_INTEROP_FULL=1: thirty failures instead of eight or four, and the stores of Java.
"""

from __future__ import annotations

import random
import shutil
import signal
import sys
import time
import unittest
from collections.abc import Callable
from pathlib import Path

from .harness import JavaNamesrv
from .harness.case import InteropCase
from .harness.ledger import Ack, Load
from .harness.ledgers import ELECTION_S, LedgerGroup
from .harness.processes import wait_until
from .harness.roles import _Broker
from .harness.switching import FULL

LINGER_MS = 3000


class GroupCase(InteropCase):
    """A group of three."""

    kinds = ("ours",) * 3

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(JavaNamesrv("namesrv", cls.folder / "namesrv"))
        cls.group = cls.start_group(cls.kinds)
        cls.load = cls.share(Load(cls.namesrv.address, cls.folder / "load"))

    @classmethod
    def start_group(cls, kinds: tuple[str, ...], peers: str | None = None) -> LedgerGroup:
        group = LedgerGroup(kinds, cls.folder, cls.namesrv, {"handoverLinger": LINGER_MS}, peers)
        cls._shared += group.brokers
        group.start()
        return group

    def lost(self, acks: list[Ack]) -> list[Ack]:
        """What was acknowledged and is not where that was said, or not at all."""
        present = self.load.read(retried=True)
        return [ack for ack in acks if (ack.queue, ack.offset) not in present.get(ack.key, [])]


@unittest.skipUnless(FULL, "with ROCKETHA_INTEROP_FULL=1: a minute for Java's brokers to come and go")
class Adopted(GroupCase):
    """A group of Java's, whose members all stop; ours start on their stores."""

    kinds = ("java",) * 3

    def test_adopted(self) -> None:
        """Nothing is lost, and more is taken."""
        run = self.load.begin(rate=200)
        self.load.await_more(run, 500)
        acks = self.load.end(run)
        for broker in self.group.brokers:
            broker.stop()
        self.start_group(("ours",) * 3, self.group.peers)
        self.assertEqual(self.lost(acks)[:5], [])
        run = self.load.begin(rate=200)
        self.load.await_more(run, 200)
        acks += self.load.end(run)
        self.assertEqual(self.lost(acks)[:5], [])


class DLedgerGroup(GroupCase):
    """Three of ours."""

    failures = 30 if FULL else 8

    # --- failures

    def kill_master(self) -> None:
        master = self.group.await_master()
        master.kill()
        self.successor(master)
        master.start()

    def freeze_master(self) -> None:
        master = self.group.await_master()
        master.signal(signal.SIGSTOP)
        self.successor(master)
        master.signal(signal.SIGCONT)

    def stop_master(self) -> None:
        master = self.group.await_master()
        began = time.monotonic()
        master.signal(signal.SIGTERM)
        self.successor(master, began)
        master.stop()
        master.start()

    def kill_follower(self) -> None:
        follower = self.follower()
        follower.kill()
        follower.start()

    def wipe_follower(self) -> None:
        follower = self.follower()
        follower.kill()
        shutil.rmtree(follower.root)
        follower.start()

    def kill_all(self) -> None:
        for broker in self.group.brokers:
            broker.kill()
        self.group.start()

    def follower(self) -> _Broker:
        return self.chance.choice(self.group.followers())

    def successor(self, before: _Broker, began: float | None = None) -> None:
        """Wait for another master; how long that took is told."""
        took_s = self.group.await_successor(before, began)
        self.times.append(f"{before.name} {took_s:.2f}")

    def test_failures(self) -> None:
        seed = random.randrange(1 << 32)
        self.chance = random.Random(seed)
        self.times: list[str] = []
        failures: list[Callable[[], None]] = [
            self.kill_master,
            self.freeze_master,
            self.stop_master,
            self.kill_follower,
            self.wipe_follower,
            self.kill_all,
        ]
        run = self.load.begin()
        for number in range(self.failures):
            failure = failures[number] if number < len(failures) else self.chance.choice(failures)
            with self.subTest(number=number, failure=failure.__name__, seed=seed):
                self.load.await_more(run, 100)
                failure()
                self.load.await_more(run, 50)
        gap_ms = self.load.state(run)["longest_gap_ms"]
        acks = self.load.end(run)
        lost = self.lost(acks)
        sys.stderr.write(
            f"DLedger {self.group.kinds}: {len(acks)} acknowledged, seed {seed}, gap {gap_ms} ms, "
            f"successors of {', '.join(self.times)} s\n"
        )
        self.assertEqual(lost[:5], [])
        self.same_logs()

    def same_logs(self) -> None:
        """All members have the same files: data and index while they run and nobody sends, queues when they ended."""

        def equal(*places: str) -> bool:
            found = [
                {
                    str(file.relative_to(broker.root / place)): _bytes(file)
                    for place in (each.format(number) for each in places)
                    for file in (broker.root / place).rglob("*")
                    if file.is_file()
                }
                for number, broker in enumerate(self.group.brokers)
            ]
            return bool(found[0]) and all(each == found[0] for each in found)

        wait_until("equal logs", lambda: equal("dledger-n{}/data", "dledger-n{}/index"), ELECTION_S)
        for broker in self.group.brokers:  # with each a new term begins, which has no entry in any queue
            broker.stop()
        self.assertTrue(equal("consumequeue"))


class TwoOfOurs(DLedgerGroup):
    """And one Java."""

    kinds = ("ours", "ours", "java")
    failures = 30 if FULL else 4


class OneOfOurs(DLedgerGroup):
    """And two Java."""

    kinds = ("ours", "java", "java")
    failures = 30 if FULL else 4


def _bytes(file: Path) -> bytes:
    """Without the zeros behind the last byte."""
    return file.read_bytes().rstrip(b"\0")
