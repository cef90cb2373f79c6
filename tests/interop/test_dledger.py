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

from rocketha.wire.codes import RequestCode

from .harness import JavaBroker, JavaNamesrv, OurBroker, ports, remoting
from .harness.case import InteropCase
from .harness.ledger import Ack, Load
from .harness.processes import wait_until
from .harness.switching import FULL

ELECTION_S = 30

Kinds = tuple[type[JavaBroker] | type[OurBroker], ...]


class GroupCase(InteropCase):
    """Members n0, n1, n2."""

    kinds: Kinds = (OurBroker,) * 3

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(JavaNamesrv("namesrv", cls.folder / "namesrv"))
        cls.peers = ";".join(f"n{number}-127.0.0.1:{port}" for number, port in enumerate(ports.free_ports(3)))
        cls.start_group(cls.kinds)
        cls.load = cls.share(Load(cls.namesrv.address, cls.folder / "load"))

    @classmethod
    def start_group(cls, kinds: Kinds) -> None:
        cls.brokers = [
            kind(
                cls.folder / f"n{number}",
                cls.namesrv,
                {
                    "enableDLegerCommitLog": True,
                    "dLegerGroup": "broker-a",
                    "dLegerPeers": cls.peers,
                    "dLegerSelfId": f"n{number}",
                    "handoverLinger": 3000,
                },
            )
            for number, kind in enumerate(kinds)
        ]
        for broker in cls.brokers:
            cls._shared.append(broker)
            broker.spawn()  # one alone answers nobody
        for broker in cls.brokers:
            broker.await_ready()

    def master(self) -> JavaBroker | OurBroker | None:
        """Whom the nameserver calls master, if that one runs."""
        reply = remoting.call(self.namesrv.address, RequestCode.GET_BROKER_CLUSTER_INFO)
        group = remoting.loads(reply.body)["brokerAddrTable"].get("broker-a", {"brokerAddrs": {}})
        address = {str(number): each for number, each in group["brokerAddrs"].items()}.get("0")
        return next((each for each in self.brokers if each.running() and each.address == address), None)

    def await_master(self) -> JavaBroker | OurBroker:
        found = wait_until("a master", self.master, ELECTION_S)
        assert isinstance(found, JavaBroker | OurBroker)
        return found

    def lost(self, acks: list[Ack]) -> list[Ack]:
        """What was acknowledged and is not where that was said, or not at all."""
        present = self.load.read(retried=True)
        return [ack for ack in acks if (ack.queue, ack.offset) not in present.get(ack.key, [])]


@unittest.skipUnless(FULL, "with ROCKETHA_INTEROP_FULL=1: a minute for Java's brokers to come and go")
class Adopted(GroupCase):
    """A group of Java's, whose members all stop; ours start on their stores."""

    kinds = (JavaBroker,) * 3

    def test_adopted(self) -> None:
        """Nothing is lost, and more is taken."""
        self.await_master()
        run = self.load.begin(rate=200)
        self.load.await_more(run, 500)
        acks = self.load.end(run)
        for broker in self.brokers:
            broker.stop()
        self.start_group((OurBroker,) * 3)
        self.await_master()
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
        master = self.await_master()
        master.kill()
        self.successor(master)
        master.start()

    def freeze_master(self) -> None:
        master = self.await_master()
        master.signal(signal.SIGSTOP)
        self.successor(master)
        master.signal(signal.SIGCONT)

    def stop_master(self) -> None:
        master = self.await_master()
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
        for broker in self.brokers:
            broker.kill()
        for broker in self.brokers:
            broker.spawn()
        for broker in self.brokers:
            broker.await_ready()

    def follower(self) -> JavaBroker | OurBroker:
        master = self.await_master()
        return self.chance.choice([broker for broker in self.brokers if broker is not master])

    def successor(self, before: JavaBroker | OurBroker, began: float | None = None) -> None:
        """Wait for another master; how long that took is told."""
        began = began or time.monotonic()

        def other() -> bool:
            master = self.master()
            return master is not None and master is not before

        wait_until("another master", other, ELECTION_S)
        self.times.append(time.monotonic() - began)

    def test_failures(self) -> None:
        seed = random.randrange(1 << 32)
        self.chance = random.Random(seed)
        self.times: list[float] = []
        failures: list[Callable[[], None]] = [
            self.kill_master,
            self.freeze_master,
            self.stop_master,
            self.kill_follower,
            self.wipe_follower,
            self.kill_all,
        ]
        wait_until("a master", self.master, ELECTION_S)
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
        times = ", ".join(f"{each:.2f}" for each in self.times)
        group = "".join("J" if isinstance(broker, JavaBroker) else "o" for broker in self.brokers)
        sys.stderr.write(
            f"DLedger {group}: {len(acks)} acknowledged, seed {seed}, successors after {times} s, gap {gap_ms} ms\n"
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
                for number, broker in enumerate(self.brokers)
            ]
            return bool(found[0]) and all(each == found[0] for each in found)

        wait_until("equal logs", lambda: equal("dledger-n{}/data", "dledger-n{}/index"), ELECTION_S)
        for broker in self.brokers:  # with each a new term begins, which has no entry in any queue
            broker.stop()
        self.assertTrue(equal("consumequeue"))


class TwoOfOurs(DLedgerGroup):
    """And one Java."""

    kinds = (OurBroker, OurBroker, JavaBroker)
    failures = 30 if FULL else 4


class OneOfOurs(DLedgerGroup):
    """And two Java."""

    kinds = (OurBroker, JavaBroker, JavaBroker)
    failures = 30 if FULL else 4


def _bytes(file: Path) -> bytes:
    """Without the zeros behind the last byte."""
    return file.read_bytes().rstrip(b"\0")
