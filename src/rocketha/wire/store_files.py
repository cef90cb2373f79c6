"""The fixed-width files beside the message log: consume queue units, the index file's parts, the checkpoint.

Pure.  Fast paths derived from ``wire/spec``; a NamedTuple for each so that callers never count positions.
Java: ``ConsumeQueue``, ``IndexHeader``, ``IndexFile``, ``StoreCheckpoint``.
"""

from __future__ import annotations

from typing import NamedTuple

from rocketha.wire import codec
from rocketha.wire.spec import checkpoint, consume_queue, index_file
from rocketha.wire.spec.format import Format

QUEUE_UNIT = codec.flat(consume_queue.UNIT)
INDEX_HEADER = codec.flat(index_file.HEADER)
INDEX_SLOT = codec.flat(index_file.SLOT)
INDEX_UNIT = codec.flat(index_file.UNIT)
CHECKPOINT = codec.flat(checkpoint.CHECKPOINT)


class QueueUnit(NamedTuple):
    """One entry of a consume queue; see ``spec.consume_queue.UNIT``."""

    physical_offset: int
    size: int
    tags_code: int


class IndexHeader(NamedTuple):
    """The head of an index file; see ``spec.index_file.HEADER``."""

    begin_timestamp_ms: int = 0
    end_timestamp_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    slot_count: int = 0
    unit_count: int = 1


class IndexUnit(NamedTuple):
    """One key of one record; see ``spec.index_file.UNIT``."""

    key_hash: int
    physical_offset: int
    seconds: int
    previous: int


class CheckpointFields(NamedTuple):
    """How far the store is safely on disk; see ``spec.checkpoint.CHECKPOINT``."""

    physic_timestamp_ms: int = 0
    logics_timestamp_ms: int = 0
    index_timestamp_ms: int = 0
    master_flushed_offset: int = 0
    confirm_offset: int = 0
    logics_offset: int = 0


def parse_queue_unit(data: bytes) -> QueueUnit:
    """One consume queue entry from its 20 bytes."""
    return QueueUnit(*QUEUE_UNIT.unpack(data))


def parse_index_header(data: bytes) -> IndexHeader:
    """An index header from its 40 bytes."""
    return IndexHeader(*INDEX_HEADER.unpack(data))


def parse_index_slot(data: bytes) -> int:
    """A slot's unit number from its 4 bytes."""
    return int(INDEX_SLOT.unpack(data)[0])


def parse_index_unit(data: bytes) -> IndexUnit:
    """An index unit from its 20 bytes."""
    return IndexUnit(*INDEX_UNIT.unpack(data))


def parse_checkpoint(data: bytes) -> CheckpointFields:
    """The checkpoint from its first 48 bytes."""
    return CheckpointFields(*CHECKPOINT.unpack(data))


def _pack_slot(unit: int) -> bytes:
    return INDEX_SLOT.pack(unit)


FORMATS = (
    Format(
        name="consume-queue-unit",
        spec=consume_queue.UNIT,
        parse=parse_queue_unit,
        build=lambda unit: QUEUE_UNIT.pack(*unit),
        bound=QUEUE_UNIT.size,
        doc="One entry of consumequeue/<topic>/<queueId>/ (ConsumeQueue).",
    ),
    Format(
        name="index-header",
        spec=index_file.HEADER,
        parse=parse_index_header,
        build=lambda header: INDEX_HEADER.pack(*header),
        bound=INDEX_HEADER.size,
        doc="The first 40 bytes of an index file (IndexHeader).",
    ),
    Format(
        name="index-slot",
        spec=index_file.SLOT,
        parse=parse_index_slot,
        build=_pack_slot,
        bound=INDEX_SLOT.size,
        doc="A hash slot of an index file (IndexFile).",
    ),
    Format(
        name="index-unit",
        spec=index_file.UNIT,
        parse=parse_index_unit,
        build=lambda unit: INDEX_UNIT.pack(*unit),
        bound=INDEX_UNIT.size,
        doc="One key of one record in an index file (IndexFile).",
    ),
    Format(
        name="checkpoint",
        spec=checkpoint.CHECKPOINT,
        parse=parse_checkpoint,
        build=lambda fields: CHECKPOINT.pack(*fields),
        bound=checkpoint.FILE_SIZE,
        doc="The checkpoint file (StoreCheckpoint).",
    ),
)
