"""Pulls: what a consumer may read, what it gets, and when it waits.

Pure.  Checks, codes and offsets are Java's (facts: broker-requests 4); remarks name the store's status as Java does.
An answer with messages is laid out by hand: header, then the records as they lie in the log.

Each answer says which broker of the group to ask next, 0 being the master.  Where slaves are read, a consumer so far
behind that the memory of a master would not hold what it asks for is sent to a slave, and a slave sends it back when it
is no further behind than that.  A consumer crosses that distance once, so it does not go to and fro.

Java: ``PullMessageProcessor``, ``DefaultPullMessageResultHandler``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rocketha.broker.groups import SubscriptionGroupConfig
from rocketha.broker.long_polling import HeldPull, HeldPulls
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.state import BrokerState, maker_of
from rocketha.broker.subscription import TAG, Matches, matching, parse_tags
from rocketha.broker.topics import TopicConfig
from rocketha.errors import Ignored, RequestRefused
from rocketha.latencies import Latencies, RequestKey
from rocketha.store.in_memory import Wait
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import GetStatus
from rocketha.wire import fields as read
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import VERSION, Answer, Command

COMMIT_OFFSET, SUSPEND, SUBSCRIPTION, CLASS_FILTER = 0x1, 0x2, 0x4, 0x8

BROKER_FORBIDDEN, GROUP_FORBIDDEN, TOPIC_FORBIDDEN, BROADCASTING_FORBIDDEN, SUBSCRIPTION_FORBIDDEN = 1, 2, 3, 4, 5
"""``ForbiddenType``: why a pull is not permitted (header field forbiddenType)."""

OFFSET_RESET = "OFFSET_RESET"
"""The remark of an answer that a reset sends elsewhere; what its consumer has consumed does not count any more."""
MASTER_ID = 0
SUSPEND_MAX_MS = 120_000
READ_BIT = 0

_PREFIX = struct.Struct(">iI")

_CODES = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


class _Pull(NamedTuple):
    """A pull's header."""

    group: str
    topic: str
    queue_id: int
    offset: int
    count_max: int
    sys_flag: int


class _Found(NamedTuple):
    """Where a pull stands: code, remark and the offsets its answer carries."""

    code: int
    remark: str
    next_offset: int
    min_offset: int
    max_offset: int
    buffers: Sequence[Any] = ()
    size: int = 0
    messages: int = 0
    behind: int = 0


class _Wanted(NamedTuple):
    """Which messages of a queue a consumer wants; all of them unless something is said.

    :ivar accepts: by the tags code of a queue's entry.
    :ivar matches: by the message's properties.
    """

    accepts: Callable[[int], bool] | None = None
    matches: Matches | None = None


def _forbidden(kind: int, remark: str) -> Answer:
    return Answer(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": str(kind)})


class Pulls:
    """The pull side of a broker.

    :param latencies: told how long pulls took.
    """

    def __init__(
        self,
        state: BrokerState,
        store: MessageStore,
        rules: MessageRules,
        held: HeldPulls,
        latencies: Latencies | None = None,
    ) -> None:
        latencies = self._latencies = Latencies() if latencies is None else latencies
        self._ended, self._ended_held = latencies.pulls, latencies.held_pulls
        self._state = state
        self._store = store
        self._rules = rules
        self._held = held

    def pull(
        self, connection: Any, command: Command, now_ms: int, first: bool = True, wait: Wait = Wait.ANYTHING
    ) -> Answer | None:
        """11 PULL_MESSAGE, 361 LITE_PULL_MESSAGE.

        :param first: False when a held pull runs again: then it does not wait, and its offset is not committed again.
        :return: None when the answer was written or the pull waits.
        :raises NotInMemory: reading would take more than ``wait``; nothing was done.
        """
        fields = command.fields
        try:
            pull = _Pull(
                fields["consumerGroup"],
                fields["topic"],
                int(fields["queueId"]),
                int(fields["queueOffset"]),
                int(fields["maxMsgNums"]),
                int(fields["sysFlag"]),
            )
        except (KeyError, ValueError):
            pull = _careful(command)
        state, rules = self._state, self._rules
        if first:
            state.clients.pulled(connection.id, now_ms)
        if not rules.readable:
            return _forbidden(BROKER_FORBIDDEN, f"the broker[{rules.broker_ip}] pulling message is forbidden")
        group = state.groups.table.get(pull.group) or state.find_group(
            pull.group, maker_of(connection.socket_host, now_ms)
        )
        if group is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{pull.group[:255]}] does not exist"
            )
        if not group.consume_enable:
            return _forbidden(GROUP_FORBIDDEN, f"subscription group no permission, {pull.group}")
        topic = state.topics.table.get(pull.topic)
        if topic is None:
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{pull.topic[:255]}] not exist, apply first please!"
            )
        if not topic.readable:
            return _forbidden(TOPIC_FORBIDDEN, f"the topic[{pull.topic}] pulling message is forbidden")
        if not 0 <= pull.queue_id < topic.read_queue_nums:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{pull.queue_id}] is illegal, topic:[{pull.topic}]"
                f" topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{connection.peer}]",
            )
        wanted = self._wanted(command, pull, group)
        if isinstance(wanted, Answer):
            return wanted
        found = (state.offsets.resets and self._moved(connection, pull, wait)) or self._find(pull, wanted, wait)
        if found.code == ResponseCode.PULL_OFFSET_MOVED and state.is_slave and not self._rules.offset_check_in_slave:
            # a slave may be behind its master, and its offsets are no reason to send a consumer back
            found = found._replace(code=ResponseCode.PULL_RETRY_IMMEDIATELY, next_offset=pull.offset)
        if first and pull.sys_flag & COMMIT_OFFSET and found.remark != OFFSET_RESET:
            self._commit(connection, command, pull, found.next_offset)
        state.offsets.note_pull(pull.group, pull.topic, pull.queue_id, found.next_offset)
        if found.code == ResponseCode.PULL_NOT_FOUND:
            state.stats.get_missed += 1
            if first and pull.sys_flag & SUSPEND and self._suspend(connection, command, pull, wanted.accepts, now_ms):
                return None
        elif found.code == ResponseCode.SUCCESS:
            self._count(pull, found)
        self._write(connection, command.opaque, topic, group, found, self._asked_next(group, found))
        if found.code == ResponseCode.SUCCESS:
            (self._ended if first else self._ended_held).note(command.arrived_s)
        else:
            self._latencies.told(RequestKey(command.code, found.code, not first), command.arrived_s)
        return None

    def _wanted(self, command: Command, pull: _Pull, group: SubscriptionGroupConfig) -> _Wanted | Answer:
        """What the consumer wants, or the answer that says why it gets nothing.

        :raises RequestRefused: its expression is of no type that this broker has, or is wrong.
        """
        fields = command.fields
        if pull.sys_flag & SUBSCRIPTION:
            kind = fields.get("expressionType")
            if kind and kind != TAG:
                return _Wanted(matches=self._state.filters.compiled(kind, fields.get("subscription") or ""))
            return _Wanted(parse_tags(pull.topic, fields.get("subscription")).accepts())
        members = self._state.clients.consumers.get(pull.group)
        if members is None:
            return Answer(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        if members.broadcasting and not group.consume_broadcast_enable:
            return _forbidden(
                BROADCASTING_FORBIDDEN, f"the consumer group[{pull.group}] can not consume by broadcast way"
            )
        if self._state.groups.forbidden.get(pull.group, {}).get(pull.topic, 0) & (1 << READ_BIT):
            return _forbidden(
                SUBSCRIPTION_FORBIDDEN, f"the consumer group[{pull.group}] is forbidden for topic[{pull.topic}]"
            )
        subscription = members.subscriptions.get(pull.topic)
        if subscription is None:
            return Answer(ResponseCode.SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        if subscription.sub_version < (read.optional_long(fields, "subVersion") or 0):
            # Java refuses (25) until the next heartbeat, up to 30 s: a client that rebalances while its first heartbeat
            # is under way skips the one that would tell us.  We know older tags only, so everything is given: the
            # client compares tags itself, and more than it wants loses nothing.
            if subscription.is_tag:
                return _Wanted()
            return Answer(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        if not subscription.is_tag:
            kind, expression = subscription.expression_type, subscription.sub_string
            return _Wanted(matches=self._state.filters.compiled(kind, expression))
        return _Wanted(subscription.accepts())

    def _moved(self, connection: Any, pull: _Pull, wait: Wait) -> _Found | None:
        """What a pull is told that has to go where the group was reset to."""
        offsets, store, queue = self._state.offsets, self._store, pull[:3]
        offset = offsets.moved_to(*queue, connection.id, pull.offset)
        if offset is None:
            return None
        low, high = store.min_offset(pull.topic, pull.queue_id), store.max_offset(pull.topic, pull.queue_id, wait)
        offsets.told(*queue, connection.id)  # not before that: it may not be in memory, and be asked again
        return _Found(ResponseCode.PULL_OFFSET_MOVED, OFFSET_RESET, offset, low, high)

    def _find(self, pull: _Pull, wanted: _Wanted, wait: Wait) -> _Found:
        store, rules = self._store, self._rules
        count = min(pull.count_max, rules.transfer_count_max)
        result = store.get(
            pull.topic, pull.queue_id, pull.offset, count, rules.transfer_bytes_max, wanted.accepts, wait
        )
        if wanted.matches is not None and result.count:
            result = result.only(*matching(result.buffers, wanted.matches))
        code = _CODES.get(result.status)
        if code is None:  # NO_MESSAGE_IN_QUEUE, NO_MATCHED_LOGIC_QUEUE: an empty queue
            code = ResponseCode.PULL_NOT_FOUND if pull.offset == 0 else ResponseCode.PULL_OFFSET_MOVED
        return _Found(
            code,
            result.status.name,
            result.next_offset,
            result.min_offset,
            result.max_offset,
            result.buffers,
            result.size,
            result.count,
            result.behind,
        )

    def _asked_next(self, group: SubscriptionGroupConfig, found: _Found) -> int:
        """The id of the broker that the consumer should ask next (suggestWhichBrokerId)."""
        if not self._rules.slave_read_enable:
            return MASTER_ID
        if found.behind > self._rules.recent_bytes:
            return group.which_broker_when_consume_slowly
        return MASTER_ID if self._state.is_slave else group.broker_id

    def _commit(self, connection: Any, command: Command, pull: _Pull, given: int) -> None:
        """Store what the client says it has consumed, if it can have: a pull is no worse for what it says beside.  One
        that has consumed nothing yet says -1.

        :param given: the end of what this pull gives; a message behind it was given to nobody by this.
        """
        offset = read.optional_long(command.fields, "commitOffset")
        if offset is not None and 0 <= offset <= given:
            self._state.offsets.commit(pull.group, pull.topic, pull.queue_id, offset, self._state.wall_ms)
        elif offset != -1:
            shown = command.fields.get("commitOffset", "")[:40]
            connection.ignored(command, Ignored.BAD_VALUE, f"commitOffset is {shown!r}")

    def _count(self, pull: _Pull, found: _Found) -> None:
        stats, count = self._state.stats, found.messages
        stats.get_found += 1
        stats.get_messages += count
        counters = stats.group(pull.group, pull.topic)
        counters.get_messages += count
        counters.get_times += 1
        counters.get_bytes += found.size

    def _suspend(
        self, connection: Any, command: Command, pull: _Pull, accepts: Callable[[int], bool] | None, now_ms: int
    ) -> bool:
        if self._rules.long_polling:
            wait_ms = max(0, read.optional_long(command.fields, "suspendTimeoutMillis") or 0)
        else:
            wait_ms = self._rules.short_polling_ms
        deadline = now_ms + min(wait_ms, SUSPEND_MAX_MS)
        held = HeldPull(connection, command, pull.topic, pull.queue_id, pull.offset, accepts, deadline)
        return self._held.hold(held)

    @staticmethod
    def _write(
        connection: Any, opaque: int, topic: TopicConfig, group: SubscriptionGroupConfig, found: _Found, ask_next: int
    ) -> None:
        header = (
            b'{"code":%d,"extFields":{"groupSysFlag":"%d","maxOffset":"%d","minOffset":"%d","nextBeginOffset":"%d",'
            b'"suggestWhichBrokerId":"%d","topicSysFlag":"%d"},"flag":1,"language":"PYTHON","opaque":%d,"remark":"%b",'
            b'"serializeTypeCurrentRPC":"JSON","version":%d}'
        ) % (
            found.code,
            group.group_sys_flag,
            found.max_offset,
            found.min_offset,
            found.next_offset,
            ask_next,
            topic.topic_sys_flag,
            opaque,
            found.remark.encode(),
            VERSION,
        )
        prefix = _PREFIX.pack(4 + len(header) + found.size, len(header))
        connection.write(b"".join((prefix, header, *found.buffers)))


def _careful(command: Command) -> _Pull:
    """The header field by field, with the error that names the field."""
    fields = command.fields
    return _Pull(
        read.text(fields, "consumerGroup"),
        read.text(fields, "topic"),
        read.integer(fields, "queueId"),
        read.long(fields, "queueOffset"),
        read.integer(fields, "maxMsgNums"),
        read.integer(fields, "sysFlag"),
    )
