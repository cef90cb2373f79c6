"""A store of an ordinary broker, Java's or ours, becomes a DLedger member's in place, in the hands of both by turns:
consumers get everything, in the same queues, and an export has each record as Java's decoders have it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rocketha.export.manifest import FILE_BYTES_MAX, NAME, decode

from .harness import disk, ports, remoting
from .harness.clients import JavaClient
from .harness.ledger import Load
from .harness.ledgers import LedgerGroup
from .harness.pairs import PAIR_BROKERS, kind_of
from .harness.processes import wait_until
from .harness.roles import GET_BROKER_CLUSTER_INFO, READY_S, JavaBroker, JavaNamesrv, _Broker
from .harness.tables import TableCase
from .test_dledger import GroupCase

MESSAGES = 600
SIZE = 4000
TOPIC = "Adopted"


class AdoptedStores(TableCase):
    """One broker after the other on one store and one port."""

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(JavaNamesrv("namesrv", cls.folder / "namesrv"))
        cls.client = cls.share(JavaClient(cls.namesrv.address, folder=cls.folder / "client"))
        cls.client.producer()

    def start(self, kind: str, store: Path, **keys: object) -> _Broker:
        number = len(list(store.parent.iterdir()))
        extra = {"mappedFileSizeCommitLog": 1 << 20, **keys}
        broker = PAIR_BROKERS[kind](
            store.parent / f"{number}-{kind}", self.namesrv, extra, name=store.parent.name, root=store, port=self.port
        )
        self.use(broker, start=False).spawn()

        def master() -> bool:
            """As the nameserver has it: Java's broker does not answer what its state is (28) while it has more than
            one old file."""
            table = remoting.loads(remoting.call(self.namesrv.address, GET_BROKER_CLUSTER_INFO).body)["brokerAddrTable"]
            return bool(table.get(broker.name, {"brokerAddrs": {}})["brokerAddrs"].get("0") == broker.address)

        wait_until(f"{broker.name}, {kind}'s, to be the master", master, READY_S, broker.running)
        return broker

    def turn(self, broker: _Broker, kind: str) -> None:
        """More messages, and a consumer that gets all there are."""
        name = f"{self.topic}{len(self.sent)}{kind}"
        for mode in ("async", "batch"):
            sent = self.client.send(
                self.topic, mode, MESSAGES, prefix=f"{name}{mode}", max_size=SIZE, batch=10, tags=["A"], timeout_s=60
            )
            self.sent += [(event["q"], event["off"], event["key"]) for event in sent]
        self.client.consume(name, self.topic)
        got = self.client.await_received(name, len(self.sent))
        self.client.stop_consumer(name)
        self.assertEqual(
            sorted((event["q"], event["off"], event["key"]) for event in got), sorted(self.sent), f"read from {kind}"
        )
        broker.stop()

    def adopted(self, maker: str, *members: str) -> None:
        """A broker's store, and who has it then."""
        store = self.subfolder(maker) / "store"
        self.topic = f"{TOPIC}{maker}"
        self.sent: list[tuple[int, int, str]] = []
        self.port, raft = ports.block(), ports.free_ports(1)[0]
        self.turn(self.start(maker, store), maker)
        before = {file.name: file.read_bytes() for file in (store / "commitlog").iterdir()}
        for kind in members:
            broker = self.start(
                kind,
                store,
                enableDLegerCommitLog=True,
                dLegerGroup="g",
                dLegerPeers=f"n0-127.0.0.1:{raft}",
                dLegerSelfId="n0",
            )
            self.turn(broker, kind)
        after = {file.name: file.read_bytes() for file in (store / "commitlog").iterdir()}
        last = max(name for name, data in before.items() if any(data))
        for name, data in before.items():
            if name < last:
                self.assertEqual(after[name], data, name)
        divided = int(last) + (1 << 20)
        records = [*disk.log(store), *disk.ledger(store / "dledger-n0" / "data")]
        stored = {(record.queue, record.queue_offset) for record in records if record.topic == self.topic}
        self.assertEqual(stored, {(queue, offset) for queue, offset, _ in self.sent})
        directory = self.export(store, maker)
        manifest = decode((directory / NAME).read_bytes()[:FILE_BYTES_MAX], NAME)
        self.assertEqual((manifest.layout, manifest.divided), ("dledger", divided))
        rows = self.compare(directory, len(self.sent), "commitlog", "dledger")
        sys.stderr.write(f"{maker}'s store: {rows} rows, divided at {divided} of {manifest.end}\n")

    def test_java(self) -> None:
        self.adopted("java", "ours", "java", "ours")

    def test_ours(self) -> None:
        self.adopted("ours", "java", "ours")


class AdoptedGroup(GroupCase):
    """Three members with the store of one Java broker, two of ours and one of Java's."""

    kinds = ("ours", "ours", "java")

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(JavaNamesrv("namesrv", cls.folder / "namesrv"))
        cls.ordinary = cls.share(JavaBroker(cls.folder / "ordinary", cls.namesrv, {"mappedFileSizeCommitLog": 1 << 20}))
        cls.load = cls.share(Load(cls.namesrv.address, cls.folder / "load"))

    def test_they_go_on(self) -> None:
        """One of ours leads; what the ordinary broker acknowledged is read from each master, and so is what follows."""
        run = self.load.begin(rate=400)
        self.load.await_more(run, 1000)
        acks = self.load.end(run)
        self.ordinary.stop()
        group = type(self).group = LedgerGroup(
            self.kinds, self.folder, self.namesrv, {"mappedFileSizeCommitLog": 1 << 20}
        )
        self._shared.extend(group.brokers)
        for broker in group.brokers:
            shutil.copytree(self.ordinary.root, broker.root)
        for broker in group.brokers[:2]:  # a Java leader would not tell its log from another one
            broker.spawn()
        for broker in group.brokers[:2]:
            broker.await_ready()
        group.await_master()
        group.brokers[2].start()
        self.assertEqual(self.lost(acks)[:5], [])
        for _ in range(3):
            run = self.load.begin(rate=400)
            self.load.await_more(run, 300)
            master = group.await_master()
            if kind_of(master) == "java":  # killed, its queues would lack messages: Java's own fault
                master.stop()
            else:
                master.kill()
            group.await_successor(master)
            self.load.await_more(run, 300)
            acks += self.load.end(run)
            master.start()
        self.assertEqual(self.lost(acks)[:5], [])
        self.same_logs()


del GroupCase, TableCase
