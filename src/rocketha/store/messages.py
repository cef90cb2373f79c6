"""The values that cross the store's seam: what goes in, what comes out.

Pure.  Java: ``MessageExtBrokerInner``, ``PutMessageResult``, ``GetMessageResult``, ``GetMessageStatus``,
``DispatchRequest``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

import attrs

from rocketha.wire.batch import Members
from rocketha.wire.record import Buffer

Keys = tuple[str, ...] | bytes


@attrs.define
class PutMessage:
    """One message to store.  The store adds the offsets, its own host and the store time.

    :ivar born_host: IP (4 or 16 bytes) and port as a big-endian int; its length decides the IPv6 bit of ``sys_flag``.
    :ivar properties: the packed block.
    :ivar tags_code: see :func:`rocketha.store.dispatch.tags_code`; ignored for the schedule topic.
    :ivar keys: index keys without ``topic#``, see :func:`rocketha.store.dispatch.index_keys`; or the properties that
        they stand in.
    :ivar delay_level: for the schedule topic: its DELAY property, from which the store derives the time of delivery.
    """

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes
    properties: bytes
    tags_code: int = 0
    keys: Keys = ()
    delay_level: int = 0


class BatchKeys(NamedTuple):
    """Index keys of the messages of a batch: columns, and the message whose keys stand in a row, by its number.

    Where all have equally many keys, a message is a row; else there is one column, and a message has several rows.
    """

    columns: Sequence[Sequence[str]]
    messages: Sequence[int]


@attrs.define
class PutBatch:
    """The messages of a client's batch: one queue, consecutive offsets, one file.

    :ivar keys: finds the keys, when the senders have their answers.
    """

    topic: str
    queue_id: int
    sys_flag: int
    born_timestamp_ms: int
    born_host: bytes
    reconsume_times: int
    members: Members
    tags_codes: Sequence[int]
    keys: Callable[[], BatchKeys]


class PlacedBatch(NamedTuple):
    """Where a batch went: the first message's index in the queue, each one's place in the log, the end of the last."""

    queue_offset: int
    physical_offsets: list[int]
    end: int


class PutResult(NamedTuple):
    """Where a message went: its index in the queue, its place in the log in bytes, its record's size in bytes."""

    queue_offset: int
    physical_offset: int
    size: int


class GetStatus(enum.IntEnum):
    """Java's ``GetMessageStatus``, same names and numbers."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8


@attrs.frozen
class GetResult:
    """What a read found.

    :ivar next_offset: queue offset to ask for next.
    :ivar buffers: whole records, to be sent one after the other.
    :ivar count: messages in ``buffers``.
    :ivar size: bytes in ``buffers``.
    :ivar damaged: records that were skipped because their bytes on disk are not what was written.
    :ivar behind: bytes of the log from the last message that was looked at, be it given or filtered, to the log's end;
        0 where none was.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    buffers: tuple[Buffer, ...] = ()
    count: int = 0
    size: int = 0
    damaged: int = 0
    behind: int = 0

    def only(self, buffers: Sequence[Buffer], count: int) -> GetResult:
        """The same read when only these of its records are given."""
        status = GetStatus.FOUND if count else GetStatus.NO_MATCHED_MESSAGE
        size = sum(map(len, buffers))
        return attrs.evolve(self, status=status, buffers=tuple(buffers), count=count, size=size)


@attrs.frozen
class RecoveryReport:
    """What starting found and did.

    :ivar clean: the last process stopped cleanly.
    :ivar scanned_from: log offset where checking began.
    :ivar end: end of the log, bytes.
    :ivar records: records checked.
    :ivar dispatched: queue entries written anew.
    :ivar truncated_bytes: bytes behind the end that were not zeros and are now.
    :ivar notes: what an operator should know, in sentences.
    """

    clean: bool
    scanned_from: int
    end: int
    records: int
    dispatched: int
    truncated_bytes: int
    notes: tuple[str, ...] = ()
