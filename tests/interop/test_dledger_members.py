"""A group in DLedger mode, all of whose members are replaced, one after the other, and one by a witness, while Java's
clients go on.
"""

from __future__ import annotations

import signal
import subprocess
import sys

from .harness import JavaNamesrv, disk, ports
from .harness.case import InteropCase
from .harness.learners import OurWitness
from .harness.ledger import Load
from .harness.ledgers import ELECTION_S, GROUP, LedgerGroup
from .harness.processes import wait_until
from .harness.roles import LOOPBACK, _Broker, our_environment


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

    def join_witness(self, name: str) -> OurWitness:
        peer = f"{name}-{LOOPBACK.ip}:{ports.free_ports(1)[0]}"
        witness = OurWitness(self.folder / name, GROUP, f"{self.peers};{peer}", name)
        type(self)._shared.append(witness)
        witness.spawn()
        self.assertIn(peer, self.command("add", peer, "--witness"))
        witness.await_ready()
        self.peers += f";{peer}"
        return witness

    def leave(self, broker: _Broker, name: str) -> None:
        self.assertNotIn(f"{name}-", self.command("remove", name, "--yes"))
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
        witness = self.join_witness("w6")
        self.leave(self.group.brokers[0], "n3")
        self.load.await_more(run, 100)
        gap_ms = self.load.state(run)["longest_gap_ms"]
        killed = self.group.await_master()
        killed.kill()
        self.load.await_more(run, 100)  # with one broker of two, and the witness
        killed.start()
        self.load.await_more(run, 100)
        acks = self.load.end(run)
        members = [f"{each}  votes" for each in sorted(self.peers.split(";"))]
        self.assertEqual(self.command("members").splitlines(), [*members[:-1], f"{members[-1]}, keeps no messages"])
        kept = {path.name for path in (witness.root / "dledger-w6").iterdir()}
        self.assertEqual(kept - {"lock"}, {"state", "witness"})
        sys.stderr.write(f"all members replaced: {len(acks)} acknowledged, gap {gap_ms} ms\n")
        present = self.load.read(retried=True)
        lost = [ack for ack in acks if (ack.queue, ack.offset) not in present.get(ack.key, [])]
        self.assertEqual(lost[:5], [])
        names = ["n4", "n5"]
        wait_until("equal logs", lambda: len({tuple(self.stored(name)) for name in names}) == 1, ELECTION_S)
        stored = {(key, queue, offset) for key, queue, offset in self.stored("n5")}
        self.assertEqual([ack for ack in acks if (ack.key, ack.queue, ack.offset) not in stored][:5], [])
        self.assertLess(gap_ms, 3000)
        self.assertEqual(witness.stop(), -signal.SIGTERM)

    def stored(self, name: str) -> list[tuple[str | None, int, int]]:
        records = disk.ledger(self.folder / name / "store" / f"dledger-{name}" / "data")
        return [(record.properties.get("KEYS"), record.queue, record.queue_offset) for record in records]
