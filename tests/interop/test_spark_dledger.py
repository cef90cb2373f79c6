"""A group of three Java brokers on DLedger, whose logs become tables: each column as Java's decoders have it, the same
on all members, over an election.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from rocketha.export.manifest import FILE_BYTES_MAX, NAME, Manifest, decode
from rocketha_spark import audits
from tests.spark.session import session

from .harness import FULL, ports, remoting
from .harness.clients import JavaClient
from .harness.pairs import await_equal
from .harness.processes import wait_until
from .harness.roles import GET_BROKER_CLUSTER_INFO, JavaBroker, JavaNamesrv
from .harness.tables import TableCase

MESSAGES = 25_000 if FULL else 700
ELECTION_S = 60
ROUNDS_MAX = 10


class DLedgerColumns(TableCase):
    """Members n0, n1, n2."""

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(JavaNamesrv("namesrv", cls.folder / "namesrv"))
        peers = ";".join(f"n{number}-127.0.0.1:{port}" for number, port in enumerate(ports.free_ports(3)))
        cls.brokers = [
            JavaBroker(
                cls.folder / f"n{number}",
                cls.namesrv,
                {
                    "enableDLegerCommitLog": True,
                    "dLegerGroup": "broker-a",
                    "dLegerPeers": peers,
                    "dLegerSelfId": f"n{number}",
                },
            )
            for number in range(3)
        ]
        for broker in cls.brokers:
            cls._shared.append(broker)
            broker.spawn()  # one alone answers nobody
        for broker in cls.brokers:
            broker.await_ready()
        cls.client = cls.share(JavaClient(cls.namesrv.address, folder=cls.folder / "client"))
        cls.client.producer()

    def leader(self) -> JavaBroker:
        """Whom the nameserver calls master."""

        def found() -> JavaBroker | None:
            reply = remoting.call(self.namesrv.address, GET_BROKER_CLUSTER_INFO)
            group = remoting.loads(reply.body)["brokerAddrTable"].get("broker-a", {"brokerAddrs": {}})
            address = {str(number): each for number, each in group["brokerAddrs"].items()}.get("0")
            return next((each for each in self.brokers if each.running() and each.address == address), None)

        leader = wait_until("a leader", found, ELECTION_S)
        assert isinstance(leader, JavaBroker)
        return leader

    def send(self, prefix: str) -> None:
        for number, (mode, more) in enumerate(
            (
                ("async", {"tags": ["A", "B"], "props": {"colour": "grün"}, "max_size": 300}),
                ("async", {"max_size": 5000, "text": True, "flag": 7}),
            )
        ):
            self.send_all(f"Ledger{number}", mode, f"{prefix}{number}", **more)
        self.send_all("Ledger0", "batch", f"{prefix}b", batch=9, max_size=100)

    def send_all(self, topic: str, mode: str, prefix: str, **options: Any) -> None:
        """Send until MESSAGES are acknowledged: Java's leader refuses what its members do not confirm within 2.5 s
        ("in-sync replicas not enough"), and three JVMs that have just started may take longer. Refused messages may
        be in the log or not: both are rows to compare.
        """
        missing, name = MESSAGES, ""
        for number in range(ROUNDS_MAX):
            name = f"{prefix}r{number}"
            sent = self.client.send(topic, mode, missing, prefix=name, timeout_s=300, allow_errors=True, **options)
            missing -= len(sent)
            if missing <= 0:
                return
        self.fail(f"{missing} of {MESSAGES} are missing after {ROUNDS_MAX} rounds: {self.client.send_errors(name)[:3]}")

    def manifest_of(self, directory: object) -> Manifest:
        with open(f"{directory}/{NAME}", "rb") as file:
            return decode(file.read(FILE_BYTES_MAX), NAME)

    def test_members(self) -> None:
        """The leader is exported while it runs; it ends, another one is elected, and all have the same in the end."""
        first = self.leader()
        self.send("a")
        running = self.manifest_of(self.export(first.root, "running"))
        self.assertEqual((running.layout, len(running.epochs)), ("dledger", 1))
        self.assertGreaterEqual(running.messages, 3 * MESSAGES)
        first.stop()
        second = self.leader()
        self.assertIsNot(second, first)
        self.send("b")
        first.restart()
        await_equal([second, first])
        for broker in self.brokers:  # each takes ten seconds for it
            broker.signal(signal.SIGTERM)
        for broker in self.brokers:
            broker.stop()
        exports = {broker: self.export(broker.root, f"n{number}") for number, broker in enumerate(self.brokers)}
        rows = self.compare(exports[second], 6 * MESSAGES, "dledger")
        manifest = self.manifest_of(exports[second])
        self.assertGreaterEqual(len(manifest.epochs), 2)
        self.assertEqual(manifest.confirmed, manifest.end)
        path = str(next(iter(exports.values())).parent / f"{self._testMethodName}-export-n*")
        table = session().read.format("rocketha").load(path)
        counts = {row["replica"]: row["count"] for row in table.groupBy("replica").count().collect()}
        self.assertEqual(counts, dict.fromkeys(("n0", "n1", "n2"), rows))
        self.assertEqual([row.asDict() for row in audits.divergence(table).collect()], [])
        self.assertEqual([row.asDict() for row in audits.epochs(table).collect()], [])
        sys.stderr.write(f"DLedger: {rows} rows equal on three members, terms {manifest.epochs}\n")


del TableCase
