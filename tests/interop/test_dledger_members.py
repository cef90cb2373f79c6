"""A group in DLedger mode, all of whose members are replaced, one after the other, while Java's clients go on."""

from __future__ import annotations

import subprocess
import sys

from .harness import JavaNamesrv, disk
from .harness.case import InteropCase
from .harness.ledger import Load
from .harness.ledgers import ELECTION_S, GROUP, LedgerGroup
from .harness.processes import wait_until
from .harness.roles import _Broker, our_environment


class Replaced(InteropCase):
    """Three of ours, then three others."""

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(JavaNamesrv("namesrv", cls.folder / "namesrv"))
        cls.group = LedgerGroup(("ours",) * 3, cls.folder, cls.namesrv)
        cls._shared += cls.group.brokers
        cls.group.start()
        cls.load = cls.share(Load(cls.namesrv.address, cls.folder / "load"))

    def command(self, *words: str) -> str:
        """``rocketha dledger``, which knows the members of the beginning only."""
        given = [sys.executable, "-m", "rocketha.admin.cli", "dledger", "-g", GROUP, "-p", self.peers, *words]
        done = subprocess.run(given, env=our_environment(), capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def join(self, name: str) -> None:
        broker, peer = self.group.newcomer(name)
        type(self)._shared.append(broker)
        broker.spawn()
        broker.await_ready()
        self.assertIn(peer, self.command("add", peer))
        self.group.brokers.append(broker)
        self.peers += f";{peer}"

    def leave(self, broker: _Broker, name: str) -> None:
        self.assertNotIn(f"{name}-", self.command("remove", name))
        broker.stop()
        self.group.brokers.remove(broker)
        self.peers = ";".join(each for each in self.peers.split(";") if not each.startswith(f"{name}-"))

    def test_all(self) -> None:
        """What was acknowledged, by whom ever, is in the log of each and is read; no send is lost, none for long."""
        self.peers = self.group.peers
        run = self.load.begin(rate=200)
        self.load.await_more(run, 300)
        for number, broker in enumerate(tuple(self.group.brokers)):
            self.join(f"n{number + 3}")
            self.load.await_more(run, 100)
            self.leave(broker, f"n{number}")
            self.load.await_more(run, 100)
        gap_ms = self.load.state(run)["longest_gap_ms"]
        acks = self.load.end(run)
        self.assertEqual(
            self.command("members").splitlines(), [f"{each}  votes" for each in sorted(self.peers.split(";"))]
        )
        sys.stderr.write(f"all members replaced: {len(acks)} acknowledged, gap {gap_ms} ms\n")
        present = self.load.read(retried=True)
        lost = [ack for ack in acks if (ack.queue, ack.offset) not in present.get(ack.key, [])]
        self.assertEqual(lost[:5], [])
        names = [f"n{number}" for number in range(3, 6)]
        wait_until("equal logs", lambda: len({tuple(self.stored(name)) for name in names}) == 1, ELECTION_S)
        stored = {(key, queue, offset) for key, queue, offset in self.stored("n5")}
        self.assertEqual([ack for ack in acks if (ack.key, ack.queue, ack.offset) not in stored][:5], [])
        self.assertLess(gap_ms, 3000)

    def stored(self, name: str) -> list[tuple[str | None, int, int]]:
        records = disk.ledger(self.folder / name / "store" / f"dledger-{name}" / "data")
        return [(record.properties.get("KEYS"), record.queue, record.queue_offset) for record in records]
