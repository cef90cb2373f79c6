"""One store folder, two implementations: each serves and continues what the other wrote, byte for byte.

Source: issue 3 "Shows" 4; facts/store.md 1-12. The harness's own reader (harness/disk.py) judges the files, and the
Java client the service.
"""

from __future__ import annotations

import json
import signal
from typing import Any

from .harness import BROKERS, FULL, InteropCase, JavaClient, JavaNamesrv, disk, records, remoting, wait_until
from .harness.roles import _Broker

Event = dict[str, Any]
TOPIC, GROUP = "DropIn", "drop-in-group"


class _Stores(InteropCase):
    namesrv: JavaNamesrv
    client: JavaClient

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(JavaNamesrv("namesrv", cls.folder / "namesrv"))
        cls.client = cls.share(JavaClient(cls.namesrv.address, folder=cls.folder / "client"))

    def create_topic(self, broker: _Broker, topic: str, reads: int, writes: int) -> None:
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(reads),
            "writeQueueNums": str(writes),
            "perm": "6",
        }
        reply = remoting.call(
            broker.address, 17, {**fields, "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
        )
        self.assertEqual(reply.code, 0, reply.remark)

    def config(self, broker: _Broker, name: str) -> dict[str, Any]:
        loaded = remoting.loads((broker.root / "config" / name).read_bytes())
        assert isinstance(loaded, dict)
        return loaded


class DropIn(_Stores):
    """A writes, B serves and continues, A serves again; clean stop or kill -9 between them."""

    def life(self, number: int, broker: _Broker, kill: bool, sent: list[Event]) -> None:
        """One implementation's turn on the folder: it serves all that was written before it, and writes on."""
        broker.start()
        client, who = self.client, f"{self._testMethodName}-{number}"
        client.producer(who)
        if number == 0:
            self.create_topic(broker, TOPIC, reads=7, writes=5)
        self.assertEqual(
            sorted(client.until_true(lambda: client.question("queues", TOPIC, producer=who)["queues"], "a route")),
            list(range(5)),
        )
        seen_by_group = len(sent)
        if number:
            self.serves(broker, who, sent)
        new = client.send(
            TOPIC,
            "sync",
            150,
            prefix=f"{who}-sync",
            producer=who,
            tags=["A", "B"],
            props={"p": "v"},
            max_size=3000,
            threads=4,
        )
        new += client.send(TOPIC, "batch", 96, prefix=f"{who}-batch", producer=who, tags=["A", "B"], max_size=300)
        client.consume(who, TOPIC, group=GROUP, persist_ms=200)
        expected = len(new) + (48 if number else 0)
        got = client.await_received(who, expected)
        totals = [0] * 7
        for message in sent + new:
            totals[message["q"]] += 1
        # Committed, and on its way to the file: a kill may lose what was never saved, so wait until it is.  While the
        # consumer runs: a pull of its last moments says an older offset, and Java's broker takes it back to that.
        wait_until(
            "the group's offsets in consumerOffset.json",
            lambda: self.saved(broker)[:5] == totals[:5],
            30,
            broker.running,
        )
        client.stop_consumer(who)
        self.assertEqual(
            {m["key"] for m in client.received(who)},
            {m["key"] for m in new} | {m["key"] for m in sent[seen_by_group - 48 :] if number},
        )
        self.assertEqual(len(got), expected)
        new += client.send(TOPIC, "sync", 48, prefix=f"{who}-unread", producer=who, tags=["A"])
        sent += new
        if kill:
            broker.kill()
            self.assertTrue((broker.root / "abort").exists())
        else:
            status = broker.stop()
            self.assertIn(status, (0, 143, -signal.SIGTERM))
            self.assertFalse((broker.root / "abort").exists(), "a clean stop leaves no abort file")
            disk.check(broker.root)
        client.stop_producer(who)

    def saved(self, broker: _Broker) -> list[int]:
        try:
            table = self.config(broker, "consumerOffset.json")["offsetTable"][f"{TOPIC}@{GROUP}"]
        except (OSError, KeyError, json.JSONDecodeError):
            return []
        return [table.get(str(q), 0) for q in range(7)]

    def serves(self, broker: _Broker, who: str, sent: list[Event]) -> None:
        """Everything of earlier lives, through a consumer from the start, by id and by key."""
        client = self.client
        client.consume(f"{who}-all", TOPIC)
        client.await_received(f"{who}-all", len(sent))
        client.stop_consumer(f"{who}-all")
        wanted = {m["key"]: m for m in sent}
        got = client.received(f"{who}-all")
        self.assertEqual(sorted(m["key"] for m in got), sorted(wanted))
        for message in got:
            original = wanted[message["key"]]
            for name in ("sha", "tags", "props", "id", "q", "off"):
                self.assertEqual(message.get(name), original.get(name), (name, message["key"]))
        for old in (sent[0], sent[200], sent[-1]):
            viewed = client.question("view", TOPIC, msg_id=old["offset_id"], producer=who)["message"]
            self.assertEqual((viewed["key"], viewed["sha"]), (old["key"], old["sha"]))
            found = client.until_true(
                lambda key=old["key"]: client.question("query", TOPIC, key=key, producer=who)["messages"],
                f"the index to find {old['key']}",
            )
            self.assertEqual([m["sha"] for m in found], [old["sha"]])

    def lives(self, kinds: tuple[str, ...], kill: bool) -> None:
        folder = self.subfolder("broker")
        port, sent = None, []
        self.addCleanup(self.client.forget)
        for number, kind in enumerate(kinds):
            broker = BROKERS[kind](
                folder / f"{number}-{kind}",
                self.namesrv,
                {"flushConsumerOffsetInterval": 500},
                root=folder / "store",
                port=port,
            )
            port = broker.port
            self.use(broker, start=False)
            self.life(number, broker, kill, sent)
        java = [r for r in records(folder / "store" / "commitlog") if r.get("topic") == TOPIC]
        self.assertEqual([r for r in java if "error" in r], [])
        self.assertEqual({(r["key"], r["q"], r["off"]) for r in java}, {(m["key"], m["q"], m["off"]) for m in sent})
        self.assertEqual(len(java), len(sent))

    def test_java_ours_java_stopped(self) -> None:
        """Clean stops."""
        self.lives(("java", "ours", "java"), kill=False)

    def test_java_ours_java_killed(self) -> None:
        """kill -9 each time: abort file, recovery, and nothing lost (the kernel has all writes)."""
        self.lives(("java", "ours", "java"), kill=True)

    def test_ours_java_ours_stopped(self) -> None:
        """The other way around."""
        self.lives(("ours", "java", "ours"), kill=False)

    def test_ours_java_ours_killed(self) -> None:
        """The other way around, killed."""
        self.lives(("ours", "java", "ours"), kill=True)


class DropInOracle(DropIn):
    """The same lives with Java alone: what the tests ask, Java does."""

    def test_java_java_stopped(self) -> None:
        self.lives(("java", "java"), kill=False)

    def test_java_java_killed(self) -> None:
        self.lives(("java", "java"), kill=True)


class SameBytes(_Stores):
    """The same messages, sent to Java's broker and to ours, make the same files."""

    extra = {"mappedFileSizeCommitLog": 1 << 20, "maxMessageSize": 1 << 19, "mappedFileSizeConsumeQueue": 20 * 100}

    def write(self, kind: str, port: int | None) -> _Broker:
        broker = BROKERS[kind](self.folder / f"bytes-{kind}", self.namesrv, self.extra, port=port)
        self.use(broker)
        client, name = self.client, f"w-{kind}"
        self.addCleanup(client.forget)
        client.producer(name)
        common: dict[str, Any] = {"producer": name, "fixed_ids": True, "broker": "broker-a"}
        self.create_topic(broker, "Bytes", reads=4, writes=4)
        client.until_true(lambda: client.question("queues", "Bytes", producer=name)["queues"], "a route")
        for queue in range(3):
            client.send(
                "Bytes",
                "sync",
                220,
                prefix=f"q{queue}",
                queue=queue,
                seed=queue + 1,
                tags=["A", "Bé", "C"],
                flag=-5,
                max_size=5000,
                props={"user": "ü", "a": "1", "Z": "2", "zz": "3", "ключ": "4"},
                **common,
            )
            client.send(
                "Bytes",
                "batch",
                100,
                prefix=f"b{queue}",
                queue=queue,
                seed=queue + 11,
                tags=["A", "B"],
                batch=20,
                props={"u": "v"},
                **common,
            )
            client.send("Bytes", "sync", 20, prefix=f"n{queue}", queue=queue, seed=queue + 21, **common)
        client.send("Bytes", "sync", 2, prefix="later", queue=1, seed=31, delay_level=1, tags=["D"], **common)
        client.consume(f"c-{kind}", "Bytes", group="bytes-readers", persist_ms=200)
        client.await_received(f"c-{kind}", 3 * 340 + 2)
        for queue, offset in enumerate((340, 342, 340)):
            asked = {"consumerGroup": "bytes-readers", "topic": "Bytes", "queueId": str(queue)}
            wait_until(
                "the group's offset at the broker",
                lambda asked=asked, offset=offset: (
                    remoting.call(broker.address, 14, asked).fields.get("offset") == str(offset)
                ),
                60,
            )
        client.stop_consumer(f"c-{kind}")
        client.stop_producer(name)
        broker.stop()
        return broker

    def test_same_bytes(self) -> None:
        """Log, consume queues, index and configuration equal; fields that name time and host masked."""
        java = self.write("java", None)
        ours = self.write("java" if self.oracle else "ours", java.port)
        self.check_log(java, ours)
        self.check_queues(java, ours)
        self.assertEqual(disk.indexes(ours.root), disk.indexes(java.root))
        self.check_configuration(java, ours)

    oracle = False

    def check_log(self, java: _Broker, ours: _Broker) -> None:
        logs = [disk.check(broker.root) for broker in (java, ours)]
        for theirs, mine in zip(*logs, strict=False):
            # in words first: a differing field is easier to read than differing bytes
            self.assertEqual(
                (mine.at, mine.topic, mine.queue, mine.queue_offset, mine.properties),
                (theirs.at, theirs.topic, theirs.queue, theirs.queue_offset, theirs.properties),
            )
            self.assertEqual(disk.masked(mine), disk.masked(theirs), f"record at {mine.at} of {mine.topic}")
        self.assertEqual(len(logs[1]), len(logs[0]))
        # what lies between the last record of a file and its end: the blank record, all of it
        for theirs, mine in zip(self.blanks(java), self.blanks(ours), strict=True):
            self.assertEqual(mine, theirs)

    def blanks(self, broker: _Broker) -> list[tuple[str, int, bytes]]:
        found = []
        ends: dict[int, int] = {}
        for record in disk.log(broker.root):
            ends[record.at >> 20] = (record.at & 0xFFFFF) + len(record.data)
        files = disk.segments(broker.root / "commitlog")
        for file in files[: len(ends) - 1]:
            data = file.read_bytes()
            self.assertEqual(len(data), 1 << 20)
            found.append((file.name, ends[int(file.name) >> 20], data[ends[int(file.name) >> 20] :]))
        self.assertGreaterEqual(len(found), 1, "the test means to roll the log")
        return found

    def check_queues(self, java: _Broker, ours: _Broker) -> None:
        mine, theirs = disk.queues(ours.root), disk.queues(java.root)
        self.assertEqual(sorted(k for k, v in mine.items() if v), sorted(k for k, v in theirs.items() if v))
        for key in (k for k, v in theirs.items() if v):
            topic, queue = key
            if topic == disk.SCHEDULE:
                self.assertEqual([u[:2] for u in mine[key].values()], [u[:2] for u in theirs[key].values()])
                continue
            folders = [broker.root / "consumequeue" / topic / str(queue) for broker in (ours, java)]
            files = [
                [(f.name, f.read_bytes()) for f in disk.segments(folder) if any(f.read_bytes())] for folder in folders
            ]
            self.assertEqual(files[0], files[1], key)
        self.assertGreaterEqual(len(files[0]), 1)

    def check_configuration(self, java: _Broker, ours: _Broker) -> None:
        mine, theirs = (self.config(b, "topics.json")["topicConfigTable"] for b in (ours, java))
        for topic in (
            "Bytes",
            "%RETRY%bytes-readers",
            "TBW102",
            "SELF_TEST_TOPIC",
            "DefaultCluster",
            "broker-a",
            disk.SCHEDULE,
        ):
            self.assertEqual(mine[topic], theirs[topic])
        for name, table in (("consumerOffset.json", "offsetTable"), ("delayOffset.json", "offsetTable")):
            self.assertEqual(self.config(ours, name)[table], self.config(java, name)[table], name)
        groups = [
            self.config(b, "subscriptionGroup.json")["subscriptionGroupTable"]["bytes-readers"] for b in (ours, java)
        ]
        self.assertEqual(groups[0], groups[1])


class SameBytesOracle(SameBytes):
    """Java against Java: everything compared here is a fact of the messages, not of the run."""

    oracle = True

    def write(self, kind: str, port: int | None) -> _Broker:
        self.turn = getattr(self, "turn", 0) + 1
        base = self.folder
        type(self).folder = base / f"turn{self.turn}"
        try:
            return super().write(kind, port)
        finally:
            type(self).folder = base


for _name in [name for name in dir(DropInOracle) if name.startswith("test_") and name in vars(DropIn)]:
    setattr(DropInOracle, _name, None)
if not FULL:
    del DropInOracle, SameBytesOracle
del _Stores
