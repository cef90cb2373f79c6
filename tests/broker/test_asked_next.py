"""Which broker a consumer is told to ask next (PullMessageProcessor.composeResponseHeader of 5.5.0).

In Java's words: with ``slaveReadEnable``, ``whichBrokerWhenConsumeSlowly`` of the group if
``isSuggestPullingFromSlave``, else ``brokerId`` of the group; without it 0; and 0 from a broker whose own id is not 0
unless ``isSuggestPullingFromSlave``.
"""

from __future__ import annotations

import unittest
from typing import Any

import attrs

from rocketha.broker.long_polling import HeldPulls
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.pull import Pulls
from rocketha.broker.topics import TopicConfig
from rocketha.store.messages import GetResult, GetStatus
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.remoting import Command, decode
from tests.broker.support import NOW_MS, Broker
from tests.services.broker_case import pull_fields

RECENT = 1000
FOUND = GetResult(GetStatus.FOUND, 3, 0, 9)
NOT_FOUND = GetResult(GetStatus.OFFSET_OVERFLOW_ONE, 9, 0, 9)
MOVED = GetResult(GetStatus.OFFSET_TOO_SMALL, 2, 2, 9)


@attrs.define
class Connection:
    """Takes the answer."""

    id: int = 1
    peer: str = "192.0.2.1:5000"
    version: int | None = 513
    answers: list[Command] = attrs.field(factory=list)
    socket_host = "192.0.2.1"

    def write(self, data: bytes) -> None:
        """The answer."""
        self.answers += map(decode, FrameBuffer().feed(data))


class AskedNextTests(unittest.TestCase):
    """One broker, one group, a store that says what it is told to."""

    def setUp(self) -> None:
        self.broker = Broker()
        self.rules = MessageRules(slave_read_enable=True, recent_bytes=RECENT)
        self.held = HeldPulls()
        self.result = FOUND
        self.pulls = Pulls(self.broker.state, self, self.rules, self.held)  # type: ignore[arg-type]
        self.broker.state.topics.table["T"] = TopicConfig("T")
        group = self.broker.state.find_group("G")
        assert group is not None
        self.group = group

    def get(self, *_: Any) -> GetResult:
        """As a store."""
        return self.result

    def min_offset(self, topic: str, queue_id: int) -> int:
        """As a store."""
        return 0

    def max_offset(self, *_: Any) -> int:
        """As a store."""
        return 9

    def pull(self, result: GetResult, code: int = RequestCode.PULL_MESSAGE, **more: str) -> Command | None:
        """What a pull gets, where the store has this; None while it waits."""
        self.result = result
        connection = Connection()
        self.assertIsNone(
            self.pulls.pull(connection, Command(code, "JAVA", 0, 7, 0, None, pull_fields(**more), b""), NOW_MS)
        )
        return connection.answers[0] if connection.answers else None

    def asked_next(self, result: GetResult, code: int = RequestCode.PULL_MESSAGE) -> str:
        """The broker that the answer names."""
        answer = self.pull(result, code)
        assert answer is not None
        return answer.fields["suggestWhichBrokerId"]

    def far(self, result: GetResult = FOUND, by: int = 1) -> GetResult:
        """The same, so much further behind than what counts as recent."""
        return attrs.evolve(result, behind=RECENT + by)

    def test_a_master_sends_away_who_is_far_behind(self) -> None:
        """Further than the limit, not at it: Java compares with >; 361 as 11."""
        for code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
            self.assertEqual(self.asked_next(self.far(), code), "1")
            self.assertEqual(self.asked_next(self.far(by=0), code), "0")
        self.assertEqual(self.asked_next(self.far(attrs.evolve(FOUND, status=GetStatus.NO_MATCHED_MESSAGE))), "1")

    def test_the_group_says_where_to(self) -> None:
        """whichBrokerWhenConsumeSlowly for who is far behind, brokerId for everybody else."""
        self.group = attrs.evolve(self.group, which_broker_when_consume_slowly=4, broker_id=2)
        self.broker.state.groups.table["G"] = self.group
        for result, expected in ((self.far(), "4"), (FOUND, "2"), (NOT_FOUND, "2"), (MOVED, "2")):
            self.assertEqual(self.asked_next(result), expected, result.status)

    def test_without_slave_reads_it_is_the_master(self) -> None:
        """slaveReadEnable is off unless an operator turns it on: whatever the group says."""
        self.assertFalse(MessageRules().slave_read_enable)
        self.rules.slave_read_enable = False
        self.broker.state.groups.table["G"] = attrs.evolve(self.group, broker_id=2)
        for slave in (False, True):
            self.broker.state.is_slave = slave
            for result in (self.far(), FOUND, NOT_FOUND):
                self.assertEqual(self.asked_next(result), "0")

    def test_a_slave_keeps_who_is_far_behind_and_sends_the_others_back(self) -> None:
        """To the master, also where the group's brokerId is not 0: the master alone obeys that."""
        self.broker.state.is_slave = True
        self.broker.state.groups.table["G"] = attrs.evolve(self.group, broker_id=2)
        for result, expected in ((self.far(), "1"), (self.far(by=0), "0"), (NOT_FOUND, "0"), (MOVED, "0")):
            self.assertEqual(self.asked_next(result), expected, result.status)

    def test_at_the_end_of_a_slave_a_pull_waits(self) -> None:
        """Java's answers 20 and names the master, be there one or not, and its clients ask again without a pause."""
        self.broker.state.is_slave = True
        self.assertIsNone(self.pull(NOT_FOUND, sysFlag="6"))
        self.assertEqual(self.held.count, 1)
        answer = self.pull(NOT_FOUND)
        assert answer is not None
        self.assertEqual(answer.code, ResponseCode.PULL_NOT_FOUND)

    def test_an_offset_that_was_reset_says_nothing_about_the_distance(self) -> None:
        """Java: setSuggestPullingFromSlave(false)."""
        self.broker.state.offsets.order_reset("G", "T", 0, 5)
        answer = self.pull(self.far())
        assert answer is not None
        self.assertEqual((answer.remark, answer.fields["suggestWhichBrokerId"]), ("OFFSET_RESET", "0"))
