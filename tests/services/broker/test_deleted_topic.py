"""A topic that was deleted, and acknowledged as deleted, through the whole broker (rocketmq#1852)."""

from __future__ import annotations

import errno

from rocketha.store import atomic_file
from rocketha.store.deleted_topics import NAME
from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.broker.support import topic_fields
from tests.services.broker_case import BrokerCase, pull_fields, records

PATH = f"/store/config/{NAME}"
KEY = "B" * 32


class DeletedTopicTests(BrokerCase):
    """Deleted, and used again under the name."""

    def filled(self) -> Command:
        """Three messages, then the deletion: its answer."""
        client = self.connect()
        for body in (b"1", b"2", b"3"):
            self.send(client, body, properties=f"UNIQ_KEY\x01{KEY}\x02")
        return client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})

    def made_again(self) -> list[bytes]:
        """What a consumer of a new topic of that name gets after one message."""
        client = self.connect()
        client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic_fields("T"))
        self.send(client, b"new")
        return [record.body for record in records(client.ask(RequestCode.PULL_MESSAGE, pull_fields()))]

    def found(self) -> int:
        """Whether a query finds the old ones."""
        fields = {"topic": "T", "key": KEY, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(1 << 60)}
        return self.connect().ask(RequestCode.QUERY_MESSAGE, fields).code

    def test_after_any_stop(self) -> None:
        """A clean one, the death of the process, a power cut right behind the answer."""
        for how in ("stop", "kill", "crash"):
            with self.subTest(how=how):
                self.setUp()
                self.assertEqual(self.filled().code, 0)
                self.assertEqual(self.found(), ResponseCode.QUERY_NOT_FOUND)
                if how == "stop":
                    self.stop()
                elif how == "kill":
                    self.disk.kill()
                else:
                    self.disk.crash()
                self.service = self.start()
                self.assertNotIn("T", self.broker.store.queue_table())
                self.assertEqual(self.made_again(), [b"new"])
                self.assertEqual(self.found(), ResponseCode.QUERY_NOT_FOUND)

    def test_a_java_broker_had_the_store(self) -> None:
        """Its table of topics may lack what the log has: how far ours was complete says nothing of it."""
        for change, kept in ((None, True), ("dataVersion", False), ("gone", False)):
            with self.subTest(change):
                self.setUp()
                self.send(self.connect(), b"1")
                self.broker.store.topics_complete(self.broker.state.topics.data_version.numbers)
                self.stop()
                path = "/store/config/topics.json"
                table = json_dialect.loads(self.disk.read_all(path, 1 << 20))
                if change == "dataVersion":  # as Java leaves it after a change
                    del table["topicConfigTable"]["T"]
                    table["dataVersion"]["counter"] += 1
                    atomic_file.save(self.disk, path, json_dialect.dumps(table))
                elif change == "gone":
                    self.disk.remove(path)
                self.service = self.start()
                self.assertEqual(self.broker.store.deleted_topics.complete is not None, kept)

    def test_the_log_is_on_the_disk_first(self) -> None:
        """The file is about the log as it is: a power cut in between must not leave it alone."""
        self.disk.trace = []
        self.filled()
        synced = max(at for at, step in enumerate(self.disk.trace) if step == ("sync", f"/store/commitlog/{0:020d}"))
        written = self.disk.trace.index(("create", PATH + ".tmp"))
        self.assertLess(synced, written)

    def test_a_log_that_can_not_be_synced(self) -> None:
        """Then nobody is told that the topic is gone for good."""
        self.send(self.connect())
        self.disk.fail_at(1, errno.EIO, 1000, ["sync"])
        answer = self.filled()
        self.assertEqual((answer.code, "could not be saved" in answer.remark), (ResponseCode.SYSTEM_ERROR, True))

    def test_a_repeated_deletion(self) -> None:
        """The first one may have failed half way: also the second says only what is on the disk, and replicas hear of
        it."""
        self.filled()
        self.disk.remove(PATH)
        before = self.broker.state.topics.data_version.counter
        client = self.connect()
        self.assertEqual(client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"}).code, 0)
        self.assertIn(b'"T"', self.disk.read_all(PATH, 1 << 20))
        self.assertGreater(self.broker.state.topics.data_version.counter, before)

    def test_only_who_asks_is_told(self) -> None:
        """Java's slaves get Java's table."""
        self.filled()
        client = self.connect()
        bare = json_dialect.loads(client.ask(RequestCode.GET_ALL_TOPIC_CONFIG).body)
        self.assertNotIn("deletedTopics", bare)
        asked = client.ask(RequestCode.GET_ALL_TOPIC_CONFIG, {"rocketha.deletedTopics": "true"})
        value = json_dialect.loads(asked.body)
        self.assertEqual(value["deletedTopics"]["T"]["below"], self.broker.store.max_physical_offset)
        self.assertEqual(value["logBegin"], 0)
