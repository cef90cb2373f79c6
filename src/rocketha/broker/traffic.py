"""What is stored by topic and kind of message, for who wants it as Java tells it (``BrokerMetricsManager``).

Pure.  Java counts a delayed message when it is stored for later, and once more when it is delivered; what consumers
send back, and retry and dead letter topics, it does not count.
"""

from __future__ import annotations

from enum import Enum

from rocketha.broker import names
from rocketha.latencies import Histogram
from rocketha.store.messages import PutBatch, PutMessage

KINDS_MAX = 1000
"""Topics and kinds that are counted apart; what comes after counts as topic :data:`OTHER`."""
OTHER = "(other)"
SIZE_BOUNDS = (1024, 4096, 512 * 1024, 1 << 20, 2 << 20, 4 << 20)
_ORDERED = b"__SHARDINGKEY\x01"


class MessageKind(Enum):
    """Java's ``TopicMessageType``, as its metrics have it."""

    NORMAL = "normal"
    FIFO = "fifo"
    DELAY = "delay"


class Stored:
    """Of one topic and kind.

    :ivar octets: of all records.
    :ivar sizes: of records; of a batch the mean, as one.
    """

    __slots__ = ("messages", "octets", "sizes")

    def __init__(self) -> None:
        self.messages = self.octets = 0
        self.sizes = Histogram(SIZE_BOUNDS)


class Traffic:
    """Of one broker.

    :ivar stored: by topic and kind.
    :ivar delivered: delayed messages whose time came, and their bytes.
    """

    def __init__(self) -> None:
        self.stored: dict[tuple[str, MessageKind], Stored] = {}
        self.delivered = self.delivered_bytes = 0

    def count(self, put: PutMessage | PutBatch, messages: int, size: int, own: bool) -> None:
        """Messages were stored.

        :param size: of their records, bytes.
        :param own: the broker itself stored them: it delivered what was delayed, or took back what a consumer gave.
        """
        topic, kind = put.topic, MessageKind.NORMAL
        delayed = isinstance(put, PutMessage) and put.delay_level > 0
        if own:
            if delayed or topic.startswith(names.DLQ_PREFIX):
                return
            kind = MessageKind.DELAY
            self.delivered += messages
            self.delivered_bytes += size
        elif delayed:
            kind = MessageKind.DELAY
        elif isinstance(put, PutMessage) and _ORDERED in put.properties:
            kind = MessageKind.FIFO
        if topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX)) and not own:
            return
        key = topic, kind
        stored = self.stored.get(key)
        if stored is None:
            if len(self.stored) >= KINDS_MAX:
                key = OTHER, kind
            stored = self.stored.setdefault(key, Stored())
        stored.messages += messages
        stored.octets += size
        stored.sizes.observe(size // messages)
