"""Sends: from a request to a staged message, and from the stored message to the answer.

Pure.  Theory of operation.  During a turn every send is checked and staged; :meth:`Sends.commit` at the end of the
turn appends all of them as one write and answers them.  A refusal is answered at once.  Nothing is visible or
answered before the write succeeded. The order of the checks and every code is Java's (facts: broker-requests 2),
because clients retry by code.

The answer of a message that waits for the disk or for replicas is handed to :class:`Acknowledgements`, as a function of
the code that their fate decides.

Java: ``SendMessageProcessor``, ``AbstractSendMessageProcessor``, ``HookUtils``, ``SendMessageResponseHeader``.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, cast

import orjson

from rocketha.addresses import address_of
from rocketha.broker import names
from rocketha.broker.acknowledgements import Acknowledgements, Replicas, Writer
from rocketha.broker.delay_levels import DelayLevels, StoreTimes
from rocketha.broker.message_keys import batch_keys
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.plain_send import PlainSends
from rocketha.broker.send_header import SendHeader, parse
from rocketha.broker.state import BrokerState, Maker, maker_of
from rocketha.broker.stored_properties import StoredProperties, in_java_order
from rocketha.broker.topics import TopicConfig
from rocketha.compiled import compiled
from rocketha.errors import DiskFailure, RemoteProtocolError, RequestRefused, WriteInDoubt
from rocketha.store.append import Group
from rocketha.store.dispatch import index_keys, tags_code
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import BatchKeys, PlacedBatch, PutBatch, PutMessage, PutResult
from rocketha.wire import batch
from rocketha.wire import properties as names_of
from rocketha.wire.codes import ResponseCode
from rocketha.wire.java_text import utf16_length
from rocketha.wire.known_sends import KnownSend
from rocketha.wire.properties import parse_text
from rocketha.wire.record import Record
from rocketha.wire.remoting import VERSION, Answer, Command

MAYBE_STORED = "it may have stored the message, or not"
"""How a remark ends, under code 1, where nobody knows.  Java's broker says as much with a bare UNKNOWN_ERROR; its
producer sends the message again, to another broker if there is one, as after a refusal."""

_NOT_ENOUGH = f"in-sync replicas not enough: {MAYBE_STORED}".encode()
_PREFIX = struct.Struct(">iI")


class SendAnswers:
    """Answers stored sends.

    :param store_host: the broker's address as in records: the first part of message ids.
    :param region_fields: MSG_REGION and TRACE_ON; Java clients read them without a check.
    """

    def __init__(
        self,
        acknowledgements: Acknowledgements,
        store_host: bytes,
        region_fields: Mapping[str, str],
    ) -> None:
        self._acknowledgements = acknowledgements
        self._ends = acknowledgements.latencies.sends.note
        self._id_prefix = store_host.hex().upper().encode()
        region = orjson.dumps(region_fields)[1:-1]
        self._head = b'"extFields":{' + region + b',"msgId":"'
        self._tail = b',"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION

    def stored(
        self,
        connection: Writer,
        opaque: int,
        queue_id: int,
        unique_key: str,
        wait: bool,
        queue_offset: int,
        physical_offsets: Sequence[int],
        end: int,
        now_ms: int,
        arrived_s: float,
    ) -> None:
        """Answer a send whose messages lie at ``physical_offsets`` in the log, the last up to ``end``.

        :param queue_id: the queue that was asked for; a delayed message lies elsewhere.
        :param unique_key: the transactionId; empty for a batch.
        :param queue_offset: of the first message.
        :param wait: whether the producer wants to wait for disk and replicas.
        :param arrived_s: when the send came.
        """
        prefix = self._id_prefix
        if len(physical_offsets) == 1:
            ids = b"%b%016X" % (prefix, physical_offsets[0])
        else:
            ids = message_ids(prefix, physical_offsets)
        safe = unique_key.encode() if unique_key.isalnum() and unique_key.isascii() else _escaped(unique_key)
        rest = b'%b%b","queueId":"%d","queueOffset":"%d"%b},"flag":1,"language":"PYTHON","opaque":%d%b' % (
            self._head,
            ids,
            queue_id,
            queue_offset,
            b',"transactionId":"%b"' % safe if safe else b"",
            opaque,
            self._tail,
        )
        waiting = self._acknowledgements
        if (wait or waiting.asks_all) and (waiting.sync_flush or waiting.replicas is not Replicas.NOT_ASKED):
            waiting.stored(end, now_ms, connection, lambda code: _frame(code, rest), arrived_s)
        else:
            connection.write(_frame(0, rest))
            self._ends(arrived_s)


@compiled
def message_ids(prefix: bytes, offsets: Sequence[int]) -> bytes:
    """The ids of messages at some offsets in the log, with commas between."""
    return ((prefix + b"%016X,") * len(offsets) % tuple(offsets))[:-1]


def _escaped(text: str) -> bytes:
    return orjson.dumps(text)[1:-1]


def _frame(code: int, rest: bytes) -> bytes:
    header = b'{"code":%d,%b' % (code, rest)
    if code == ResponseCode.SYSTEM_ERROR:
        header = b'{"code":%d,"remark":"%b",%b' % (code, _NOT_ENOUGH, rest)
    return _PREFIX.pack(4 + len(header), len(header)) + header


COMPRESSED, MULTI_TAGS, TRANSACTION_BITS, BORN_V6, STORE_V6, NEED_UNWRAP, INNER_BATCH = (
    0x1,
    0x2,
    0xC,
    0x10,
    0x20,
    0x40,
    0x80,
)
DLQ_QUEUE_NUMS = 1
V3_4_9 = 121

_SPECIAL = frozenset(
    {"POP_CK", "TRAN_MSG", "INNER_NUM", "DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"}
)
"""Properties that make a message other than plain."""

_RECORD_GROWTH = 94
"""Bytes by which a record with IPv6 hosts is longer than a packed message of a batch, the topic apart."""


class Connection(Protocol):
    """What a send needs of the connection it came on."""

    id: int
    peer: str
    peer_host: str
    peer_port: int
    socket_host: str
    closed: bool

    def write(self, data: bytes) -> None:
        """Whole frames to the peer."""

    def answer(self, command: Command, answer: Answer) -> None:
        """The answer to a request, if it wants one."""


class _Target(NamedTuple):
    """A topic that was checked once; valid while its configuration is the same object."""

    config: TopicConfig
    queue_limit: int
    retry_group: str | None


class _Members(NamedTuple):
    """What :class:`PutBatch` has of a batch's body."""

    members: batch.Members
    tags_codes: Sequence[int]
    keys: Callable[[], BatchKeys]


class _Staged(NamedTuple):
    """A send that waits for the end of the turn."""

    connection: Connection
    command: Command | None  # None: the broker's own
    messages: Group
    queue_id: int
    unique_key: str
    wait: bool
    done: Callable[[PutResult | None], None] | None  # for the broker's own messages


class Sends:
    """The send side of a broker.

    :param state: topics, groups, offsets, locks, effects, configuration and store.
    :param store_host: the broker's address as in records, 8 or 20 bytes.
    :param unique_id: makes a UNIQ_KEY for a message that has none, from the time of day in ms.
    :param chance: picks a queue where the producer leaves it to the broker.
    :ivar times: when what it stored was stored.
    """

    def __init__(
        self,
        state: BrokerState,
        store: MessageStore,
        rules: MessageRules,
        delays: DelayLevels,
        acknowledgements: Acknowledgements,
        store_host: bytes,
        unique_id: Callable[[int], str],
        chance: random.Random,
    ) -> None:
        self._state = state
        self._store = store
        self._rules = rules
        self._delays = delays
        self._unique_id = unique_id
        self.times = StoreTimes()
        self._chance = chance
        self._store_host = store_host
        self._store_flag = STORE_V6 if len(store_host) == 20 else 0
        self._region_fields = {"MSG_REGION": rules.region_id, "TRACE_ON": "true" if rules.trace_on else "false"}
        self._layout = StoredProperties({**self._region_fields, "CLUSTER": rules.cluster_name})
        self._answers = SendAnswers(acknowledgements, store_host, self._region_fields)
        self._plain = PlainSends(state, rules, self._layout, _SPECIAL)
        self._targets: dict[str, _Target] = {}
        self._born_hosts: dict[int, tuple[bytes, int]] = {}
        self._staged: list[_Staged] = []

    # --- requests

    def send(self, connection: Connection, command: Command, now_ms: int) -> Answer | None:
        """10 SEND_MESSAGE, 310 SEND_MESSAGE_V2, 320 SEND_BATCH_MESSAGE: staged (None), refused, or NotSavedYet."""
        try:
            if type(command) is KnownSend and (self._staged or self._store.writable(now_ms)):
                plain = self._plain.message(command)
                if plain is not None:
                    message, key, wait = plain
                    self._staged.append(_Staged(connection, command, (message,), message.queue_id, key, wait, None))
                    return None
                plain_batch = self._plain.batch(command)
                if plain_batch is not None:
                    known, wait = plain_batch
                    members = self._members(command.body, known.topic)
                    messages = PutBatch(
                        known.topic,
                        command.queue_id,
                        known.sys_flag,
                        command.born_ms,
                        known.born_host,
                        known.reconsume_times,
                        *members,
                    )
                    self._staged.append(_Staged(connection, command, messages, command.queue_id, "", wait, None))
                    return None
            return self._send(connection, command, parse(command), now_ms)
        except RequestRefused as refusal:
            return Answer(refusal.code, refusal.remark, self._region_fields)

    def _send(self, connection: Connection, command: Command, header: SendHeader, now_ms: int) -> Answer | None:
        target = self._targets.get(header.topic)
        if (
            target is None
            or target.config is not self._state.topics.table.get(header.topic)
            or not self._rules.writeable  # which ordered topics heed
        ):
            target = self._check_topic(header, maker_of(connection.socket_host, now_ms))
        if header.queue_id >= target.queue_limit:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"request queueId[{header.queue_id}] is illegal, {header.topic} has {target.queue_limit} queues"
                f" Producer: {connection.peer}",
            )
        if not self._staged and not self._store.writable(now_ms):  # once a turn
            raise RequestRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                "service not available now: the broker's disk is full or failed, or the broker is shutting down",
            )
        queue_id = header.queue_id
        if queue_id < 0:
            if target.config.write_queue_nums < 1:
                raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"{header.topic} has no write queue")
            queue_id = self._chance.randrange(target.config.write_queue_nums)
        if header.sys_flag & TRANSACTION_BITS:
            raise _not_supported("transaction messages are")
        messages: Group
        if header.batch:
            messages, unique_key, wait = self._batch(connection, command, header, target, queue_id)
            if type(command) is KnownSend:
                self._plain.accept_batch(command, target.config, messages)
        else:
            message, unique_key, wait = self._single(connection, command, header, target, queue_id, now_ms)
            messages = (message,)
            if type(command) is KnownSend:
                self._plain.accept(command, target.config, message.sys_flag, message.born_host)
        self._staged.append(_Staged(connection, command, messages, queue_id, unique_key, wait, None))
        return None

    def _check_topic(self, header: SendHeader, maker: Maker | None) -> _Target:
        state, topic = self._state, header.topic
        names.check_topic(topic)
        if topic in names.NO_SEND_TOPICS:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
        if not self._rules.writeable and state.topics.is_order(topic):
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"the broker[{self._rules.broker_ip}] sending message is forbidden"
            )
        sys_flag = (2 if topic.startswith(names.RETRY_PREFIX) else 1) if header.unit_mode else 0
        config = state.topic_for_send(topic, header.default_topic, header.default_queue_nums, sys_flag, maker)
        if config is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please!")
        state.need_saved(topic)
        retry_group = topic.removeprefix(names.RETRY_PREFIX) if topic.startswith(names.RETRY_PREFIX) else None
        if len(self._targets) > 100_000:
            self._targets.clear()
        target = self._targets[topic] = _Target(config, config.queue_nums, retry_group)
        return target

    def _single(
        self, connection: Connection, command: Command, header: SendHeader, target: _Target, queue_id: int, now_ms: int
    ) -> tuple[PutMessage, str, bool]:
        text = header.properties
        if len(text) > names_of.LENGTH_MAX and utf16_length(text) > names_of.LENGTH_MAX:
            raise self._illegal()
        values = parse_text(text)
        topic, config = header.topic, target.config
        if target.retry_group is not None:
            topic, queue_id = self._retry(command, header, target, values, queue_id, now_ms)
        unique_key = values.get("UNIQ_KEY")
        if unique_key is None:
            unique_key = values["UNIQ_KEY"] = self._unique_id(self._state.wall_ms())
        level = 0
        if header.sys_flag & (INNER_BATCH | NEED_UNWRAP) or not _SPECIAL.isdisjoint(values):
            values.pop("POP_CK", None)
            self._refuse_unsupported(values, header.sys_flag)
            level = self._delay_level(values)
            if level > 0:
                topic, queue_id = self._delayed(values, topic, queue_id, level)
        if config.attributes and config.attributes.get("cleanup.policy") == "COMPACTION" and "KEYS" not in values:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing")
        block = self._layout.text(values).encode("utf-8")
        body = command.body
        if len(block) > names_of.LENGTH_MAX or len(body) > self._rules.message_bytes_max:
            raise self._illegal()
        if not body:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the message has no body")
        born_host, born_flag = self._born_hosts.get(connection.id) or self._born(connection)
        sys_flag = (header.sys_flag & ~(BORN_V6 | STORE_V6)) | born_flag | self._store_flag
        if config.topic_filter_type == "MULTI_TAG":
            sys_flag |= MULTI_TAGS
        message = PutMessage(
            topic,
            queue_id,
            header.flag,
            sys_flag,
            header.born_timestamp_ms,
            born_host,
            header.reconsume_times,
            0,
            body,
            block,
            tags_code(values),
            index_keys(values),
            level,
        )
        return message, unique_key, values.get("WAIT") != "false"

    def _batch(
        self, connection: Connection, command: Command, header: SendHeader, target: _Target, queue_id: int
    ) -> tuple[PutBatch, str, bool]:
        if target.retry_group is not None:
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {header.topic}"
            )
        members = self._members(command.body, header.topic)
        if target.config.attributes.get("queue.type") == "BatchCQ":
            raise _not_supported("topics of queue type BatchCQ are")
        outer = parse_text(header.properties)
        self._refuse_unsupported(outer, header.sys_flag)
        if self._delay_level(outer) > 0:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "a batch can not be delayed")
        born_host, born_flag = self._born(connection)
        sys_flag = (header.sys_flag & ~(BORN_V6 | STORE_V6)) | born_flag | self._store_flag
        if target.config.topic_filter_type == "MULTI_TAG":
            sys_flag |= MULTI_TAGS
        messages = PutBatch(
            header.topic, queue_id, sys_flag, header.born_timestamp_ms, born_host, header.reconsume_times, *members
        )
        return messages, "", outer.get("WAIT") != "false"

    def _members(self, body: bytes, topic: str) -> _Members:
        """What a batch's body holds.

        :raises RequestRefused: it cannot be read, or is too large.
        """
        if len(body) > self._rules.message_bytes_max:
            raise self._illegal()
        try:
            members = batch.members(body)
            tags_codes, keys = batch_keys(members)
        except RemoteProtocolError as problem:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, str(problem)) from None
        if not members.count:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the batch has no message")
        if len(body) + members.count * (_RECORD_GROWTH + len(topic)) > self._rules.batch_bytes_max:
            raise self._illegal()  # its records must lie in one file
        return _Members(members, tags_codes, keys)

    def _retry(
        self, command: Command, header: SendHeader, target: _Target, values: dict[str, str], queue_id: int, now_ms: int
    ) -> tuple[str, int]:
        """A consumer sends a message to its own retry topic (the fallback of send-back)."""
        state, group = self._state, target.retry_group or ""
        config = state.groups.table.get(group)
        if config is None:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {group}")
        times_max = config.retry_max_times
        if command.version >= V3_4_9 and header.max_reconsume_times is not None:
            times_max = header.max_reconsume_times
        # A group that holds queue locks consumes in order: what it gives up is not tried again.
        if header.reconsume_times <= times_max and not state.locks.any_held(group, now_ms):
            return header.topic, queue_id
        values["DELAY"] = "-1"
        state.stats.group(group, header.topic).dead_letters += 1
        topic = names.dlq_topic(group)
        state.topic_for_group(topic, DLQ_QUEUE_NUMS)
        state.need_saved(topic)
        return topic, self._chance.randrange(DLQ_QUEUE_NUMS)

    def _refuse_unsupported(self, values: dict[str, str], sys_flag: int) -> None:
        if values.get("TRAN_MSG", "").lower() == "true":
            raise _not_supported("transaction messages are")
        if sys_flag & (INNER_BATCH | NEED_UNWRAP) or "INNER_NUM" in values:
            raise self._illegal()

    def _delay_level(self, values: dict[str, str]) -> int:
        """The delay level, at most the highest; timer properties without one are refused, beside one dropped (as in
        Java).
        """
        text = values.get("DELAY")
        level = 0
        if text is not None:
            try:
                level = int(text)
            except ValueError:
                raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"DELAY is not a number: {text[:40]!r}") from None
        if "TIMER_DELIVER_MS" in values or "TIMER_DELAY_SEC" in values or "TIMER_DELAY_MS" in values:
            if level <= 0:
                raise RequestRefused(
                    ResponseCode.SYSTEM_ERROR, "accurate timer message is not enabled, timerWheelEnable is false"
                )
            for name in ("TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"):
                values.pop(name, None)
        return min(level, self._delays.highest)

    def _delayed(self, values: dict[str, str], topic: str, queue_id: int, level: int) -> tuple[str, int]:
        """Turn a message into one of the schedule topic: its topic and queue id there."""
        values["REAL_TOPIC"], values["REAL_QID"] = topic, str(queue_id)
        return names.SCHEDULE_TOPIC, level - 1

    def _born(self, connection: Connection) -> tuple[bytes, int]:
        found = self._born_hosts.get(connection.id)
        if found is None:
            address = host_bytes(connection.peer_host)
            found = address + connection.peer_port.to_bytes(4), BORN_V6 if len(address) == 16 else 0
            if not connection.closed:  # nobody would forget it: a request may be served after its client is gone
                self._born_hosts[connection.id] = found
        return found

    def disconnected(self, connection_id: int) -> None:
        """Forget what is kept of a connection."""
        self._born_hosts.pop(connection_id, None)

    def _illegal(self) -> RequestRefused:
        return RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            "the message is illegal, maybe msg body or properties length not matched. msg body length limit"
            f" {self._rules.message_bytes_max}B, msg properties length limit 32KB.",
        )

    # --- messages of the broker's own making (send-back, due delayed messages)

    def stage(self, message: PutMessage, done: Callable[[PutResult | None], None]) -> None:
        """Append a message with this turn; ``done`` gets its place, or None when the write failed."""
        self._staged.append(_Staged(_NOBODY, None, (message,), message.queue_id, "", False, done))

    def restaged(
        self,
        origin: Record,
        topic: str,
        queue_id: int,
        values: dict[str, str],
        reconsume_times: int,
        delay_level: int,
    ) -> PutMessage:
        """A stored message as one of another topic, after ``delay_level`` (0: at once); properties in Java's order.

        :raises RequestRefused: 13, the properties have become too long.
        """
        level = min(delay_level, self._delays.highest)
        if level > 0:
            topic, queue_id = self._delayed(values, topic, queue_id, level)
        block = in_java_order(values).encode("utf-8")
        if len(block) > names_of.LENGTH_MAX:
            raise self._illegal()
        return PutMessage(
            topic,
            queue_id,
            origin.flag,
            origin.sys_flag & ~STORE_V6 | self._store_flag,
            origin.born_timestamp_ms,
            origin.born_host,
            reconsume_times,
            0,
            origin.body,
            block,
            tags_code(values),
            index_keys(values),
            max(0, level),
        )

    # --- the end of the turn

    @property
    def staged(self) -> int:
        """Sends that wait for :meth:`commit`."""
        return len(self._staged)

    def commit(self, now_ms: int) -> list[PutMessage | PutBatch] | None:
        """Append what was staged as one write and answer it.

        :return: the messages now readable, for whoever waits for them; None: the disk did not let them in.
        """
        staged, self._staged = self._staged, []
        if not self._rules.nul:
            staged = self._without_nul(staged)
        if not staged:
            return []
        try:
            wall_ms = self._state.wall_ms()
            self.times.stores_at(self._store.max_physical_offset, now_ms, wall_ms)
            results = self._store.append([entry.messages for entry in staged], wall_ms)
        except DiskFailure as failure:
            self._fail(staged, failure)
            return None
        arrived: list[PutMessage | PutBatch] = []
        traffic = self._state.stats.traffic
        for entry, placed in zip(staged, results, strict=True):
            messages = entry.messages
            offsets: Sequence[int]
            if isinstance(placed, PlacedBatch):
                offset, offsets, end = placed
                arrived.append(cast(PutBatch, messages))
                topic = cast(PutBatch, messages).topic
            else:
                (result,), (message,) = placed, cast(tuple[PutMessage], messages)
                offset, physical_offset, size = result
                offsets, end, topic = (physical_offset,), physical_offset + size, message.topic
                arrived.append(message)
            self._count(topic, len(offsets), end - offsets[0])
            if traffic is not None:
                traffic.count(arrived[-1], len(offsets), end - offsets[0], entry.command is None)
            connection, command, _, queue_id, unique_key, wait, done = entry
            if done is not None:
                done(result)
            elif command is not None and not command.flag & 2:
                opaque, came_s = command.opaque, command.arrived_s
                self._answers.stored(
                    connection, opaque, queue_id, unique_key, wait, offset, offsets, end, now_ms, came_s
                )
        return arrived

    def _without_nul(self, staged: list[_Staged]) -> list[_Staged]:
        """Refuse those with a NUL in their properties."""

        def has(messages: Sequence[PutMessage] | PutBatch) -> bool:
            if isinstance(messages, PutBatch):
                return any(b"\0" in properties for properties in messages.members.properties)
            return any(b"\0" in message.properties for message in messages)

        wrong = [entry for entry in staged if has(entry.messages)]
        if not wrong:
            return staged
        right = [entry for entry in staged if not has(entry.messages)]
        text = "the message is illegal: a property has a NUL, which a log of enableDLegerCommitLog does not take"
        self._refuse(wrong, Answer(ResponseCode.MESSAGE_ILLEGAL, text, self._region_fields))
        return right

    def _count(self, topic: str, messages: int, size: int) -> None:
        stats = self._state.stats
        stats.put_messages += messages
        stats.put_bytes += size
        counters = stats.topic(topic)
        counters.put_messages += messages
        counters.put_bytes += size
        counters.put_times += 1

    def refuse(self, answer: Answer) -> None:
        """Refuse what was staged: this broker takes no messages any more."""
        staged, self._staged = self._staged, []
        self._refuse(staged, answer._replace(fields=self._region_fields))

    def _fail(self, staged: list[_Staged], failure: DiskFailure) -> None:
        self._state.stats.put_failed += len(staged)
        self._refuse(staged, self.disk_failed(failure))

    def disk_failed(self, failure: Exception) -> Answer:
        """To a send that the disk did not let in, or perhaps half."""
        remark = f"the broker's disk failed: {failure}"
        if isinstance(failure, WriteInDoubt):
            return Answer(ResponseCode.SYSTEM_ERROR, f"{remark}: {MAYBE_STORED}", self._region_fields)
        return Answer(ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {remark}", self._region_fields)

    @staticmethod
    def _refuse(staged: list[_Staged], answer: Answer) -> None:
        for entry in staged:
            if entry.command is not None:
                entry.connection.answer(entry.command, answer)
            elif entry.done is not None:
                entry.done(None)


def _not_supported(what: str) -> RequestRefused:
    return RequestRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f"{what} not supported by this broker")


def host_bytes(host: str) -> bytes:
    """An address as in records: 4 bytes, or 16 for IPv6; 0.0.0.0 for what is no address."""
    try:
        return address_of(host).packed
    except ValueError:
        return bytes(4)


class _Nobody:
    """Stands for the sender of the broker's own messages."""

    id = 0
    peer = peer_host = socket_host = ""
    peer_port = 0
    closed = False

    def write(self, data: bytes) -> None:
        """Nobody reads it."""

    def answer(self, command: Command, answer: Answer) -> None:
        """Nobody asked."""


_NOBODY = _Nobody()
