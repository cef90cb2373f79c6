"""The same requests in the same order to a running Java broker 5.5.0 and to our tables.

``data/java_dialogue.json`` holds what four clients and an administrator asked the Java broker, its answers, and what
it pushed to whom.  Times, ports and the order of sets are left out of the comparison; every other difference is in
EXPECTED_DIFFERENCES with its reason.
"""

from __future__ import annotations

import json
import unittest
from typing import Any

from rocketha.broker.effects import NotifyClient
from rocketha.wire import json_dialect
from rocketha.wire.json_dialect import ObjectKeyed
from rocketha.wire.remoting import Answer
from tests.broker.support import DATA, Broker, Client, plain

SEND, PULL = 310, 11
HA_STATUS = 907
"""Replication answers it: tests/services/replication/test_orders.py."""
CONNECTIONS = {name: Client(number, f"192.0.2.{number}:1000") for number, name in enumerate("MABCV", 1)}

EXPECTED_DIFFERENCES: dict[tuple[int, str], str] = {
    (17, "fields missing"): "Java names its own class in code 1; we name the field in code 29",
    (200, "no body"): "Java ignores a request without a body; we refuse it",
    (38, "group missing"): "Java answers a NullPointerException; we name the field in code 29",
    (41, "bad lock"): "Java locks nothing for nobody; we refuse a request without group and client",
    (215, "no topic"): "the same code with the field's name in the remark",
    (15, "no offset"): "the same code with the field's name in the remark",
    (25, "black list"): "Java has a list of forbidden keys, we have a list of allowed ones: the same code",
}

# Codes whose remark in Java is an exception's text with a line of Java source.
EXCEPTION_TEXT = ("Exception: ", "JSONException")


def comparable(key: str, value: Any) -> Any:
    """A value without what differs from run to run."""
    if key.lower().endswith(("timestamp", "delaytime")):
        return "time"
    if key in ("clientAddr", "remoteIP", "brokerAddr"):
        return "address"
    if key in ("topicPutTps", "masterCommitLogMaxOffset"):
        return "chance"  # when counters were sampled, how long a record is
    if key == "dataVersion":
        return value["counter"]
    if isinstance(value, dict):
        return {name: comparable(name, item) for name, item in value.items() if not name.endswith("TimeStampStr")}
    if isinstance(value, list):
        return [comparable("", item) for item in value]
    if isinstance(value, ObjectKeyed):
        return ObjectKeyed(tuple((mq, comparable("", item)) for mq, item in value.entries))
    return value


class JavaDialogueTests(unittest.TestCase):
    """Our answers are Java's."""

    maxDiff = None

    def setUp(self) -> None:
        self.broker = Broker()
        self.steps: list[dict[str, Any]] = json.loads((DATA / "java_dialogue.json").read_text())

    def ask(self, step: dict[str, Any]) -> Answer | None:
        fields, body = step["fields"] or {}, step.get("body", "").encode()
        return self.broker.ask(step["code"], fields, body, client=CONNECTIONS[step["conn"]])

    def send(self, fields: dict[str, str]) -> None:
        """What a stored message changes in the tables."""
        self.broker.store.put(fields["b"], int(fields["e"]), self.broker.now_ms)
        stats = self.broker.state.stats
        stats.put_messages += 1
        stats.topic(fields["b"]).put_messages += 1
        stats.topic(fields["b"]).put_times += 1

    def pull(self, fields: dict[str, str], java: dict[str, str]) -> None:
        """What a pull changes in the tables; it ends where Java's did."""
        group, topic, queue_id = fields["consumerGroup"], fields["topic"], int(fields["queueId"])
        offsets, next_offset = self.broker.state.offsets, int(java["nextBeginOffset"])
        ordered = offsets.moved_to(group, topic, queue_id, 1, int(fields["queueOffset"]))
        if ordered is not None:
            self.assertEqual(ordered, next_offset)
            self.assertIsNone(offsets.moved_to(group, topic, queue_id, 1, ordered))  # Java's is over with that
        offsets.note_pull(group, topic, queue_id, next_offset)
        self.broker.state.stats.group(group, topic).get_messages += 0

    def test_answers_and_notifications(self) -> None:
        """Codes, remarks, header fields, bodies and who is notified, one request after the other."""
        compared = 0
        for number, step in enumerate(self.steps):
            with self.subTest(number=number, code=step["code"], note=step.get("note")):
                if step.get("note") == "after disconnect":
                    self.broker.state.clients.disconnected(CONNECTIONS["A"].id)
                if step["code"] == SEND:
                    self.send(step["fields"])
                elif step["code"] == PULL:
                    self.pull(step["fields"], step["answer"]["extFields"])
                elif step["code"] != HA_STATUS:
                    self.compare(step, self.ask(step))
                    compared += 1
        self.assertGreater(compared, 100)

    def compare(self, step: dict[str, Any], answer: Answer | None) -> None:
        java = step["answer"]
        if java is None:
            return  # oneway
        assert answer is not None
        if (step["code"], step.get("note", "")) in EXPECTED_DIFFERENCES:
            self.assertNotEqual((answer.code, answer.remark), (java["code"], java.get("remark")))
            self.assertNotEqual(answer.code, 0)
            return
        self.assertEqual(answer.code, java["code"], answer.remark)
        self.compare_remark(answer.remark, java.get("remark"))
        self.compare_pushes(step)
        if step["code"] in (26, 28):
            self.assertEqual(self.keys_missing(step, answer), set())
            return
        if java["code"] == 0:
            self.assertEqual(dict(answer.fields or {}), java.get("extFields") or {})
        ours, theirs = (json_dialect.loads(body) if body else None for body in (answer.body, java.get("body")))
        self.assertEqual(self.body(step, ours), self.body(step, theirs))

    def keys_missing(self, step: dict[str, Any], answer: Answer) -> set[str]:
        """Keys of Java's runtime information that ours lacks, apart from those the service adds."""
        if step["code"] == 26:
            return set() if answer.fields and "version" in answer.fields else {"version"}
        java = json_dialect.loads(step["answer"]["body"])["table"]
        service = {"commitLogDirCapacity", "commitLogDiskRatio", "consumeQueueDiskRatio"}
        return set(java) - set(json_dialect.loads(answer.body)["table"]) - service

    def compare_remark(self, ours: str | None, java: str | None) -> None:
        if java is None or java in ("", "not set any response code") or any(text in java for text in EXCEPTION_TEXT):
            return
        self.assertEqual(ours, java)

    def compare_pushes(self, step: dict[str, Any]) -> None:
        names = {client.id: name for name, client in CONNECTIONS.items()}
        ours = [
            (names[effect.connection_id], int(effect.code), dict(effect.fields))
            for effect in self.broker.effects
            if isinstance(effect, NotifyClient)
        ]
        java = [(conn, code, fields) for conn, code, fields, _, _ in step.get("pushes", [])]
        self.assertEqual(sorted(ours, key=repr), sorted(java, key=repr))

    def body(self, step: dict[str, Any], value: Any) -> Any:
        if value is None:
            return None
        value = plain(comparable("", value))
        if step["code"] == 315:
            return sorted(value)  # when counters were sampled is chance
        if step["code"] == 317:
            value["totalInflightDiff"] = "Java leaves pullOffset out here"
            value["consumeStatsList"] = sorted(
                (str(row) for row in value["consumeStatsList"] if list(row.values()) != [[]]), key=repr
            )
            value["consumeStatsList"] = len(value["consumeStatsList"])
        return value


class DialogueFileTests(unittest.TestCase):
    """The recording is worth comparing with."""

    def test_every_code_of_the_tables_is_in_it(self) -> None:
        """A code without a recorded Java answer is named here, with the reason."""
        not_recorded = {
            18: "UPDATE_AND_CREATE_TOPIC_LIST: a list of 17",
            225: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: a list of 200",
            309: "CONSUME_MESSAGE_DIRECTLY: needs a consumer that answers",
            60: "timer wheel",
            61: "timer wheel",
            306: "CLEAN_EXPIRED_CONSUMEQUEUE: no body; mqadmin is asked in tests/interop",
            308: "QUERY_CORRECTION_OFFSET: no tool asks it",
            316: "CLEAN_UNUSED_TOPIC: as 306",
            321: "QUERY_CONSUME_QUEUE: as 306",
            329: "DELETE_EXPIRED_COMMITLOG: as 306",
            905: "acting masters",
            908: "RESET_MASTER_FLUSH_OFFSET: no body",
        }
        steps = json.loads((DATA / "java_dialogue.json").read_text())
        recorded = {step["code"] for step in steps}
        self.assertEqual({int(code) for code in Broker().table} - recorded, set(not_recorded))
