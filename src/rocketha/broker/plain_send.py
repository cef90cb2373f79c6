"""Plain sends like one that was accepted before: what was checked then is not checked again.

Pure.  Theory of operation: the header of a :class:`~rocketha.wire.known_sends.KnownSend` is that of an earlier send of
the same connection but for queue, time, properties and number.  So what follows from the rest is found once and kept
with the shape: topic, record flags, born host.  Of the properties likewise, what follows from all but the unique key:
the block around it, tags code, the other keys.  Anything out of the ordinary (delay, transaction, batch, retry topic,
a changed topic, a full store, a wrong body) is left to :class:`rocketha.broker.send.Sends`, which checks all of it.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketha.broker import names
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.send_header import parse
from rocketha.broker.state import BrokerState
from rocketha.broker.stored_properties import StoredProperties
from rocketha.broker.topics import TopicConfig
from rocketha.store.dispatch import index_keys, tags_code
from rocketha.store.messages import PutMessage
from rocketha.wire.known_sends import KnownSend
from rocketha.wire.properties import LENGTH_MAX, UNIQUE_KEY, parse_text

_NAME, _END = UNIQUE_KEY.encode(), rb"\u0002"


class Accepted(NamedTuple):
    """What follows from a header; valid while the topic's configuration is the same object.

    ``sys_flag``: of the record.
    """

    topic: str
    config: TopicConfig
    queue_limit: int
    flag: int
    sys_flag: int
    born_host: bytes
    reconsume_times: int


class Layout(NamedTuple):
    """What follows from properties other than the unique key: the stored block before and behind it, the tags code,
    the keys after it, whether the producer wants to wait.
    """

    before: bytes
    behind: bytes
    tags_code: int
    keys: tuple[str, ...]
    wait: bool


class PlainSends:
    """Makes messages of plain sends.

    :param special: names of properties that make a message other than plain.
    """

    def __init__(
        self, state: BrokerState, rules: MessageRules, stored: StoredProperties, special: frozenset[str]
    ) -> None:
        self._topics = state.topics
        self._rules = rules
        self._stored = stored
        self._special = special

    def accept(self, command: KnownSend, config: TopicConfig, sys_flag: int, born_host: bytes) -> None:
        """A single message with this header was staged: those like it may be plain.

        :param sys_flag: and ``born_host``: of its record.
        """
        header = parse(command)
        if not header.topic.startswith(names.RETRY_PREFIX) and config.attributes.get("cleanup.policy") != "COMPACTION":
            command.shape.accepted = Accepted(
                header.topic, config, config.queue_nums, header.flag, sys_flag, born_host, header.reconsume_times
            )

    def message(self, command: KnownSend) -> tuple[PutMessage, str, bool] | None:
        """The message, its unique key, and whether the producer wants to wait; None when it has to be looked at."""
        shape, body = command.shape, command.body
        accepted: Accepted | None = shape.accepted
        if accepted is None:
            return None
        topic, config, queue_limit, flag, sys_flag, born_host, reconsume_times = accepted
        unique_key = command.key
        if (
            not unique_key.isalnum()
            or config is not self._topics.table.get(topic)
            or command.queue_id >= queue_limit
            or not 0 < len(body) <= self._rules.message_bytes_max
            or not self._rules.writeable
        ):
            return None
        layout: Layout | None = shape.layouts.get(command.around) or self._learn(command)
        if layout is None:
            return None
        before, behind, code, keys, wait = layout
        block = before + unique_key + behind
        if len(block) > LENGTH_MAX:
            return None
        key = unique_key.decode()
        message = PutMessage(
            topic, command.queue_id, flag, sys_flag, command.born_ms, born_host, reconsume_times, 0, body, block, code,
            (key, *keys) if keys else (key,), 0,
        )  # fmt: skip
        return message, key, wait

    def _learn(self, command: KnownSend) -> Layout | None:
        """The layout of properties with others beside the unique key than before; None if they are not plain."""
        before, behind = command.around
        if (before and not before.endswith(_END)) or _NAME in behind:
            return None
        values = parse_text(command.fields["i"])
        if not self._special.isdisjoint(values):
            return None
        head, _, tail = self._stored.text(values).encode().partition(_NAME + b"\x01" + command.key)
        layout = Layout(
            head + _NAME + b"\x01", tail, tags_code(values), index_keys(values)[1:], values.get("WAIT") != "false"
        )
        command.shape.keep(command.around, layout)
        return layout
