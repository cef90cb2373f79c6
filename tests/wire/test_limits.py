"""Every limit on an encoded form holds the largest legal content in its longest legal encoding."""

from __future__ import annotations

import json
import random
import unittest

from rocketha.broker import attributes, heartbeat, progress_requests, queries, subscription
from rocketha.broker.groups import GROUPS_MAX, SubscriptionGroupConfig
from rocketha.broker.heartbeat import parse_heartbeat
from rocketha.broker.names import RETRY_TOPIC_LENGTH_MAX, TOPIC_LENGTH_MAX
from rocketha.broker.topics import TOPICS_MAX, TopicConfig, TopicTable
from rocketha.controller import requests as controller_requests
from rocketha.errors import DiskFailure
from rocketha.namesrv import kv_config, register_body
from rocketha.protocols.limits import Limits
from rocketha.protocols.remoting_client import CLIENT_LIMITS
from rocketha.store import atomic_file
from rocketha.store.memory_disk import MemoryDisk
from rocketha.wire import batch, controller_log, json_dialect, limits, raft_frames
from rocketha.wire.codes import RequestCode
from rocketha.wire.properties import build
from rocketha.wire.remoting import Answer, Command, decode, encode, encode_answer


def longest(characters: int) -> str:
    """A text that grows as no other in JSON, where the writer keeps to ASCII: two escapes of six a character."""
    return "\U0001f680" * characters


def ascii_frame(code: int, fields: dict[str, str]) -> bytes:
    """A request by a writer that escapes whatever is not ASCII, without its length word."""
    header = json.dumps({"code": code, "extFields": fields, "flag": 0, "opaque": 1, "version": 513}).encode()
    return len(header).to_bytes(4, "big") + header


class HeaderTests(unittest.TestCase):
    """Headers of requests, read with the limits of a port."""

    def read(self, code: int, fields: dict[str, str]) -> None:
        self.assertEqual(decode(ascii_frame(code, fields), Limits().header_bytes).fields, fields)

    def test_properties(self) -> None:
        """32,767 bytes of properties are legal; each may be a control character."""
        self.read(RequestCode.SEND_MESSAGE_V2, {"a": longest(255), "b": "t" * 255, "i": "\x01" * 32_767})
        self.read(RequestCode.SEND_MESSAGE_V2, {"i": build({f"p{number}": "v" for number in range(4000)}).decode()})

    def test_the_longest_texts(self) -> None:
        """Each field that may be long, all in the worst encoding, beside names."""
        names = {"consumerGroup": longest(1024), "topic": longest(1024)}
        self.read(RequestCode.PULL_MESSAGE, {**names, "subscription": longest(subscription.EXPRESSION_LENGTH_MAX)})
        self.read(RequestCode.QUERY_MESSAGE, {**names, "key": longest(queries.KEY_LENGTH_MAX)})
        self.read(RequestCode.PUT_KV_CONFIG, {**names, "value": longest(kv_config.VALUE_CHARACTERS_MAX)})

    def test_all_topics_that_may_be_named(self) -> None:
        """208 for as many topics as it takes, each as long as a topic may be; their names do not grow."""
        text = ";".join(f"{number:0{TOPIC_LENGTH_MAX}d}" for number in range(progress_requests.TOPIC_LIST_MAX))
        self.assertLessEqual(len(text), progress_requests._TOPIC_LIST_LENGTH_MAX)
        self.read(RequestCode.GET_CONSUME_STATS, {"topicList": text})

    def test_the_binary_form_is_no_longer(self) -> None:
        """What is read of a binary header is read again where a broker passes it on as JSON."""
        fields = {"i": "\x01" * 32_767, "b": "t" * 255}
        frame = encode(Command(RequestCode.SEND_MESSAGE_V2, fields=fields), binary=True)[4:]
        passed_on = encode(decode(frame))[4:]
        self.assertEqual(decode(passed_on, Limits().header_bytes).fields, fields)

    def test_the_ids_of_a_batch(self) -> None:
        """The answer to the largest batch fits into a frame and is read by a client."""
        ids = ",".join(["0" * limits.MESSAGE_ID_BYTES] * batch.MESSAGES_MAX)
        frame = encode_answer(1, Answer(0, None, {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "msgId": ids}))
        self.assertLessEqual(len(frame) - 4, limits.FRAME_BYTES_MAX)
        self.assertEqual(decode(frame[4:], CLIENT_LIMITS.header_bytes).fields["msgId"], ids)
        self.assertLessEqual(4 * 1024 * 1024 // 22, batch.MESSAGES_MAX)  # maxMessageSize of the smallest messages


class BodyTests(unittest.TestCase):
    """Bodies in frames."""

    def test_topics(self) -> None:
        """As many topics as are registered whole fit into one frame, whatever they are called."""
        name = "t" * RETRY_TOPIC_LENGTH_MAX
        values = {
            "queue.type": "SimpleCQ",
            "cleanup.policy": "COMPACTION",
            "message.type": "TRANSACTION",
            "reserve.time": str(2**63 - 1),
        }
        config = TopicConfig(name, 65_536, 65_536, 15, "SINGLE_TAG", 2**31 - 1, False, values)
        self.assertEqual(set(values), set(attributes.TOPIC_ATTRIBUTES))
        size = len(json_dialect.dumps({name: config.as_json()}))
        self.assertLessEqual(size, limits.TOPIC_JSON_BYTES_MAX)
        self.assertLessEqual(limits.WHOLE_TOPICS_MAX * limits.TOPIC_JSON_BYTES_MAX, limits.FRAME_BYTES_MAX)

    def test_heartbeats(self) -> None:
        """A client of 10,000 topics is heard; with long names the frame's limit is met about as soon as the count's."""
        rows = [
            {"topic": f"tenant_{number}_orders", "subString": "*", "subVersion": number} for number in range(10_000)
        ]
        body = json_dialect.dumps(
            {"clientID": "c", "consumerDataSet": [{"groupName": "g", "subscriptionDataSet": rows}]}
        )
        self.assertEqual(len(parse_heartbeat(body).consumers[0].subscriptions), 10_000)
        row = {
            "classFilterMode": False,
            "codeSet": [],
            "expressionType": "TAG",
            "subString": "*",
            "subVersion": 1,
            "tagsSet": [],
            "topic": "t" * TOPIC_LENGTH_MAX,
        }
        self.assertGreater(heartbeat.SUBSCRIPTIONS_MAX * len(json_dialect.dumps(row)), limits.FRAME_BYTES_MAX * 0.9)

    def test_a_static_topic(self) -> None:
        """The mapping of a topic with as many queues as there may be, in the compressed register body."""
        queues = {str(number): number for number in range(register_body.QUEUES_MAX)}
        self.assertLessEqual(len(json_dialect.dumps({"currIdMap": queues})), register_body.TEXT_BYTES_MAX)

    def test_a_frame_in_javas_dialect(self) -> None:
        """Static topics have integer keys, which Java does not quote: one registration may have a frame of them."""
        queues = b"{" + b",".join(b"%d:%d" % (number, number) for number in range(40_000)) + b"}"
        mapping = b'{"bname":"broker-a","currIdMap":%b,"topic":"S%d"}'
        infos = b",".join(b'"S%d":' % number + mapping % (queues, number) for number in range(12))
        body = b'{"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":{%b}}}' % infos
        self.assertGreater(len(body), json_dialect.TOLERANT_BYTES_MAX)
        self.assertEqual(len(register_body.parse(body, False, 513).mappings), 12)

    def test_entries_of_the_controllers(self) -> None:
        """An entry of their log fits into a frame of Raft's, and a list of members into a request."""
        self.assertLess(controller_log.ENTRY_BYTES_MAX, raft_frames.FRAME_LIMIT)
        self.assertLess(controller_requests.NAMES_MAX * 255 * limits.JSON_BYTES_A_CHARACTER, limits.FRAME_BYTES_MAX)


class FileTests(unittest.TestCase):
    """Files of tables."""

    def test_a_full_table(self) -> None:
        """Every table at its limit is a file that the next start reads."""
        one = TopicTable()
        empty = len(one.dump())
        one.table["t"] = TopicConfig("t" * RETRY_TOPIC_LENGTH_MAX, 65_536, 65_536)
        topic = len(one.dump()) - empty + RETRY_TOPIC_LENGTH_MAX
        self.assertLess(topic * TOPICS_MAX, atomic_file.SIZE_MAX)
        group = len(json_dialect.dumps_pretty(SubscriptionGroupConfig("g" * 255).as_json())) + 4 * 255
        self.assertLess(group * GROUPS_MAX, atomic_file.SIZE_MAX)
        self.assertEqual(json_dialect.FILE_BYTES_MAX, atomic_file.SIZE_MAX)

    def test_what_would_not_be_read_is_not_written(self) -> None:
        """A file over the limit is refused while the former one is still there, not at the next start."""
        disk = MemoryDisk(random.Random(1))
        disk.make_dirs("/config")
        atomic_file.save(disk, "/config/topics.json", b"former")

        class Endless(bytes):
            def __len__(self) -> int:
                return atomic_file.SIZE_MAX + 1

        with self.assertRaises(DiskFailure):
            atomic_file.save(disk, "/config/topics.json", Endless())
        self.assertEqual(atomic_file.load(disk, "/config/topics.json"), b"former")
