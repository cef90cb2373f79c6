"""What `rocketha fuzz remoting` found in the broker, each finding as the few requests that show it."""

from __future__ import annotations

from rocketha.wire import json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import BrokerCase, Client, heartbeat, send_fields

LONG_MAX = 2**63 - 1


class FuzzedTests(BrokerCase):
    """Findings."""

    def topic(self, client: Client, name: str, write_queues: int) -> None:
        """Create a topic as mqadmin does."""
        header = {
            "topic": name,
            "defaultTopic": "TBW102",
            "readQueueNums": "4",
            "writeQueueNums": str(write_queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        self.assertEqual(client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header).code, ResponseCode.SUCCESS)

    def test_no_write_queue_to_choose(self) -> None:
        """A send that leaves the choice of a queue to a topic without write queues: refused, not a ValueError."""
        client = self.connect()
        self.topic(client, "Closed", 0)
        answer = client.ask(RequestCode.SEND_MESSAGE_V2, send_fields("Closed", -1), b"body")
        self.assertEqual(answer.code, ResponseCode.INVALID_PARAMETER)
        self.assertIn("no write queue", answer.remark or "")

    def test_offsets_that_add_up_beyond_64_bits(self) -> None:
        """Committed offsets are the clients' own numbers; their sum wraps as Java's long does, and is answered."""
        client = self.connect()
        self.topic(client, "T", 4)
        client.ask(RequestCode.HEART_BEAT, body=heartbeat("c@1", "G", "T"))
        for queue_id in range(4):
            header = {"consumerGroup": "G", "topic": "T", "queueId": str(queue_id), "commitOffset": str(LONG_MAX)}
            self.assertEqual(client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header).code, ResponseCode.SUCCESS)
        answer = client.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
        self.assertEqual(answer.code, ResponseCode.SUCCESS)
        # -4 * (2**63 - 1) in 64 bits
        self.assertEqual(json_dialect.loads(answer.body)["totalDiff"], 4)
