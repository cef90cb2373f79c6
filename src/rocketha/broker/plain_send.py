"""Plain sends like one that was accepted before: what was checked then is not checked again.

Pure.  Theory of operation: the header of a :class:`~rocketha.wire.known_sends.KnownSend` is that of an earlier send of
the same connection but for queue, time, properties and number.  So what follows from the rest is found once and kept
with the shape: topic, record flags, born host.  Of the properties likewise, what follows from their names: the block
that is stored, with room for the values, and which of these are keys and tag.  Anything out of the ordinary (delay,
transaction, retry topic, a changed topic, a full store, a wrong body) is left to
:class:`rocketha.broker.send.Sends`, which checks all of it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from rocketha import compiled
from rocketha.broker import names
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.send_header import parse
from rocketha.broker.state import BrokerState
from rocketha.broker.stored_properties import StoredProperties
from rocketha.broker.topics import TopicConfig
from rocketha.store.dispatch import key_words
from rocketha.store.messages import Keys, PutBatch, PutMessage
from rocketha.wire.java_text import string_hash
from rocketha.wire.known_sends import KnownSend
from rocketha.wire.properties import KEYS, LENGTH_MAX, NAME_VALUE, PAIR, TAGS, UNIQUE_KEY, WAIT

_TAGS_REMEMBERED = 4096
_tags_code = lru_cache(maxsize=_TAGS_REMEMBERED)(string_hash)


class Accepted(NamedTuple):
    """What follows from a single message's header; valid while the topic's configuration is the same object.

    ``sys_flag``: of the record.
    """

    topic: str
    config: TopicConfig
    queue_limit: int
    flag: int
    sys_flag: int
    born_host: bytes
    reconsume_times: int


class AcceptedBatch(NamedTuple):
    """The same of a batch."""

    topic: str
    config: TopicConfig
    queue_limit: int
    sys_flag: int
    born_host: bytes
    reconsume_times: int


class Layout(NamedTuple):
    """What follows from the names of properties.

    ``template``: the stored block, to be filled in with the values of these numbers (a property's first is 1).
    ``unique_key`` and the others: numbers, 0 without.
    """

    template: bytes
    numbers: tuple[int, ...]
    unique_key: int
    keys: int
    tags: int
    wait: int


class BatchLayout(NamedTuple):
    """The same of a batch's own properties, none of which is stored."""

    wait: int


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
        accepted = shape.accepted
        if type(accepted) is not Accepted:
            return None
        topic, config, queue_limit, flag, sys_flag, born_host, reconsume_times = accepted
        if (
            config is not self._topics.table.get(topic)
            or command.queue_id >= queue_limit
            or not 0 < len(body) <= self._rules.message_bytes_max
            or not self._rules.writeable
        ):
            return None
        layout: Layout | None = command.kept
        if layout is None:
            self._learn(command)
            return None
        template, numbers, unique_at, keys_at, tags_at, wait_at = layout
        value: Any = command.values
        block = template % (value.group(*numbers) if len(numbers) > 1 else value[1])
        if len(block) > LENGTH_MAX:
            return None
        unique_key = value[unique_at].decode()
        tags = value[tags_at].decode() if tags_at else ""
        keys: Keys = block  # they are found there when the senders have their answers
        if not compiled.AVAILABLE:  # cheaper here
            words = key_words(value[keys_at].decode()) if keys_at else ()
            keys = (unique_key, *words, "T#" + tags) if tags else (unique_key, *words)
        code = _tags_code(tags) if tags else 0
        message = PutMessage(
            topic,
            command.queue_id,
            flag,
            sys_flag,
            command.born_ms,
            born_host,
            reconsume_times,
            0,
            body,
            block,
            code,
            keys,
            0,
        )
        return message, unique_key, not wait_at or value[wait_at] != b"false"

    def accept_batch(self, command: KnownSend, config: TopicConfig, messages: PutBatch) -> None:
        """A batch with this header was staged: those like it only have other members."""
        command.shape.accepted = AcceptedBatch(
            messages.topic, config, config.queue_nums, messages.sys_flag, messages.born_host, messages.reconsume_times
        )

    def batch(self, command: KnownSend) -> tuple[AcceptedBatch, bool] | None:
        """What is known of a batch but for its members, and whether the producer wants to wait; None when all of it
        has to be looked at."""
        accepted = command.shape.accepted
        if (
            type(accepted) is not AcceptedBatch
            or accepted.config is not self._topics.table.get(accepted.topic)
            or command.queue_id >= accepted.queue_limit
            or not self._rules.writeable
        ):
            return None
        layout: BatchLayout | None = command.kept
        if layout is None:
            at = self._plain_names(command)
            if at is not None:
                command.shape.keep(tuple(at), BatchLayout(at.get(WAIT, 0)))
            return None
        value: Any = command.values
        return accepted, not layout.wait or value[layout.wait] != b"false"

    def _learn(self, command: KnownSend) -> None:
        """Remember the names of the properties, if they are plain and a unique key is among them."""
        at = self._plain_names(command)
        if at is None or UNIQUE_KEY not in at:
            return
        template, free = self._stored.template(tuple(at))
        numbers = tuple(at[name] for name in free)
        command.shape.keep(
            tuple(at),
            Layout(template.encode(), numbers, at[UNIQUE_KEY], at.get(KEYS, 0), at.get(TAGS, 0), at.get(WAIT, 0)),
        )

    def _plain_names(self, command: KnownSend) -> dict[str, int] | None:
        """The numbers of the properties by their names; None unless each is there once, with a value, and none is
        special."""
        text = command.fields["i"].removesuffix(PAIR)
        pairs = [piece.partition(NAME_VALUE) for piece in text.split(PAIR)] if text else []
        at = {name: number for number, (name, _, _) in enumerate(pairs, 1)}
        plain = all(name and value and NAME_VALUE not in value for name, _, value in pairs)
        return at if plain and len(at) == len(pairs) and self._special.isdisjoint(at) else None
