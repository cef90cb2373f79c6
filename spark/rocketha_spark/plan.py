"""Which parts of which exports a query reads, and which task reads what.

A piece is some records of one segment, by their numbers there, so it begins and ends with whole units of the log:
records, or DLedger's entries.  Pieces end
where a block of the log or an epoch does, so that each chain of digests lies within one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
import numpy as np

from rocketha.errors import CorruptStore
from rocketha.export.layouts import LAYOUTS
from rocketha.export.manifest import BLOCK_BYTES, DLEDGER, Segment
from rocketha_spark.exports import Export
from rocketha_spark.filters import Bounds
from rocketha_spark.options import Options


@attrs.frozen
class Piece:
    """What one task reads.

    :ivar segment: without its queues.
    :ivar first: number of its first record in the segment.
    :ivar count: how many records.
    :ivar begin: log offset of the first record's unit.
    :ivar end: log offset behind the last.
    """

    export: int
    segment: Segment
    first: int
    count: int
    begin: int
    end: int


def limit(export: Export, options: Options) -> int:
    """The log offset at which reading ends."""
    manifest = export.manifest
    return min(manifest.end, manifest.confirmed) if options.only_confirmed else manifest.end


def pieces(
    export: Export, number: int, begin: int, end: int, options: Options, bounds: Bounds | None = None
) -> Iterator[Piece]:
    """What is to be read of an export's bytes from ``begin`` to ``end``.

    :raises CorruptStore: the offsets of a segment do not ascend.
    """
    for segment in export.manifest.segments:
        low, high = max(begin, segment.begin), min(end, segment.records_end)
        if low >= high or not _may_have(segment, options, bounds):
            continue
        if bounds is not None:
            # chains of digests begin with blocks
            first = max(0, bounds.phys_low - LAYOUTS[export.manifest.layout].record_at)
            low = max(low, first - first % BLOCK_BYTES)
            high = min(high, bounds.phys_high)
        yield from _split(export, number, segment, low, high, options.partition_bytes)


def packed(planned: Iterable[Piece], size: int) -> Iterator[tuple[Piece, ...]]:
    """Pieces that one task reads one after the other: about ``size`` bytes; a task has a cost of its own."""
    some: list[Piece] = []
    total = 0
    for piece in planned:
        length = piece.end - piece.begin
        if some and (total + length > size or piece.export != some[0].export):
            yield tuple(some)
            some, total = [], 0
        some.append(piece)
        total += length
    if some:
        yield tuple(some)


def _may_have(segment: Segment, options: Options, bounds: Bounds | None) -> bool:
    if not segment.messages:
        return False
    queues = segment.queues
    if not options.all_topics:
        queues = tuple(queue for queue in queues if options.wants(queue.topic))
    if bounds is not None:
        if segment.first_stored_ms > bounds.stored_high or segment.last_stored_ms < bounds.stored_low:
            return False
        queues = tuple(queue for queue in queues if bounds.may_have(queue.topic, queue.queue_id))
    # records whose CRC is wrong may name any topic
    return bool(queues or segment.corrupt)


def _split(export: Export, number: int, segment: Segment, low: int, high: int, size: int) -> Iterator[Piece]:
    """Records that begin within ``low`` and ``high``, in pieces of about ``size`` bytes."""
    starts = export.starts(segment, 0, segment.messages)
    sound = starts[0] == segment.begin or (export.manifest.layout == DLEDGER and starts[0] > segment.begin)
    if (np.diff(starts) <= 0).any() or not sound or starts[-1] >= segment.records_end:
        raise CorruptStore(f"{export.directory}/offsets/{segment.base:020d}", 0, "not the begins of its records")
    if low >= high:
        return
    size = max(BLOCK_BYTES, size - size % BLOCK_BYTES)
    edges = {low, high, *range(low - low % size + size, high, size)}
    edges.update(each.start for each in export.manifest.epochs if low < each.start < high)
    numbers = np.searchsorted(starts, np.array(sorted(edges)))
    places = [int(starts[at]) if at < len(starts) else segment.records_end for at in numbers]
    slim = attrs.evolve(segment, queues=())
    for at in range(len(numbers) - 1):
        first, behind = int(numbers[at]), int(numbers[at + 1])
        if behind > first:
            yield Piece(number, slim, first, behind - first, places[at], places[at + 1])
