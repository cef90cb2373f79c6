"""A consumer hands a message back: it goes to the group's retry topic after a delay, or to its DLQ.

Pure.  The copy keeps body, flags, born data and properties; RETRY_TOPIC names where it came from.  The consumer counts
the message as consumed when it has the answer, so that waits for the copy as a sender would; Java's does not.

Java: ``AbstractSendMessageProcessor.consumerSendMsgBack``.
"""

from __future__ import annotations

import functools
import random
from typing import Any

from rocketha.broker import names
from rocketha.broker.acknowledgements import Acknowledgements
from rocketha.broker.delay_levels import DelayLevels
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.send import DLQ_QUEUE_NUMS, V3_4_9, Sends
from rocketha.broker.state import BrokerState, maker_of
from rocketha.errors import RequestRefused, RockethaError
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import PutResult
from rocketha.wire import fields as read
from rocketha.wire import record
from rocketha.wire.codes import ResponseCode
from rocketha.wire.properties import parse
from rocketha.wire.remoting import Answer, Command, encode_answer

RECONSUME_TIMES_MAX = 0x7FFFFFFE


class SendBacks:
    """36 CONSUMER_SEND_MSG_BACK."""

    def __init__(
        self,
        state: BrokerState,
        store: MessageStore,
        rules: MessageRules,
        delays: DelayLevels,
        sends: Sends,
        waiting: Acknowledgements,
        chance: random.Random,
    ) -> None:
        self._state = state
        self._store = store
        self._rules = rules
        self._delays = delays
        self._sends = sends
        self._waiting = waiting
        self._chance = chance

    def send_back(self, connection: Any, command: Command, now_ms: int) -> Answer | None:
        """Stage the copy; the answer follows once it is stored.

        :raises NotSavedYet: the topic it goes to is new.
        """
        fields, state = command.fields, self._state
        group_name = read.text(fields, "group", names.RETRY_TOPIC_LENGTH_MAX - len(names.RETRY_PREFIX))
        offset = read.long(fields, "offset")
        delay_level = read.integer(fields, "delayLevel")
        group = state.find_group(group_name, maker_of(connection.socket_host, now_ms))
        if group is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group_name}"
            )
        if not self._rules.writeable:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the broker[{self._rules.broker_ip}] sending message is forbidden"
            )
        if group.retry_queue_nums <= 0:
            return Answer()
        topic = names.retry_topic(group_name)
        sys_flag = 2 if read.flag(fields, "unitMode") else 0
        config = state.topic_for_group(topic, group.retry_queue_nums, sys_flag=sys_flag)
        if not config.writeable:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"the topic[{topic}] sending message is forbidden")
        if not self._store.writable(now_ms):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "SERVICE_NOT_AVAILABLE")
        origin, values = self._origin(offset)
        if state.rules.names_count and origin.topic not in (names.retry_topic(group_name), fields.get("originTopic")):
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"the message at {offset} is none of originTopic")
        values.setdefault("RETRY_TOPIC", origin.topic)
        values["WAIT"] = "false"
        times_max = group.retry_max_times
        if command.version >= V3_4_9:
            given = read.optional_integer(fields, "maxReconsumeTimes")
            times_max = times_max if given is None else given
        queue_id = self._chance.randrange(group.retry_queue_nums)
        if origin.reconsume_times >= times_max or delay_level < 0:
            topic, queue_id, level = names.dlq_topic(group_name), self._chance.randrange(DLQ_QUEUE_NUMS), 0
            state.topic_for_group(topic, DLQ_QUEUE_NUMS)
        else:
            level = delay_level or 3 + origin.reconsume_times
        state.need_saved(topic)
        values["DELAY"] = str(level)
        values.setdefault("ORIGIN_MESSAGE_ID", record.make_message_id(origin.store_host, origin.physical_offset))
        times = min(origin.reconsume_times, RECONSUME_TIMES_MAX) + 1
        source = values["RETRY_TOPIC"]
        message = self._sends.restaged(origin, topic, queue_id, values, times, level)

        def done(placed: PutResult | None) -> None:
            if placed is None:
                connection.answer(command, Answer(ResponseCode.SYSTEM_ERROR, "the broker's disk failed"))
                return
            counters = state.stats.group(group_name, source)
            counters.sent_back += 1
            counters.dead_letters += topic == names.dlq_topic(group_name)
            if not command.is_oneway:
                end = placed.physical_offset + placed.size
                frame = functools.partial(_answer, command.opaque)
                self._waiting.stored(end, now_ms, connection, frame, command.arrived_s)

        self._sends.stage(message, done)
        return None

    def _origin(self, offset: int) -> tuple[record.Record, dict[str, str]]:
        stored = self._state.store.message_at(offset) if offset >= 0 else None
        if stored is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")
        try:
            origin = record.decode(stored)
            return origin, parse(origin.properties)
        except RockethaError as problem:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}: {problem}"
            ) from None


def _answer(opaque: int, code: int) -> bytes:
    """To a copy that was stored: a consumer that is told an error sends the message again."""
    if code in (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT):
        remark = "the message is stored, and not known to be where it has to be"
        return encode_answer(opaque, Answer(ResponseCode.SYSTEM_ERROR, remark))
    return encode_answer(opaque, Answer())
