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
from rocketha_spark.bounds import EVERYTHING, Bounds
from rocketha_spark.exports import Export, cuts_of, opened
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


def chosen(options: Options) -> tuple[Export, ...]:
    """The exports that are read, or what was taken back of them.

    :raises ConfigError: a replica that is named is not there.
    """
    exports = opened(options.path, options.replica)
    options.span.known(each.manifest.replica for each in exports)
    return tuple(cut for each in exports for cut in cuts_of(each)) if options.cuts else exports


def limit(export: Export, options: Options) -> int:
    """The log offset at which reading ends."""
    manifest = export.manifest
    return min(manifest.end, manifest.confirmed) if options.only_confirmed and not options.cuts else manifest.end


def bounds_of(export: Export, options: Options, strict: bool | None = None) -> Bounds:
    """What the options leave of an export's records.

    :param strict: offsets that the export has not are refused; None is as ``failOnDataLoss`` says.
    :raises ConfigError: they are.
    """
    refuse = options.fail_on_data_loss and not options.cuts if strict is None else strict
    return options.span.bounds(export.manifest, limit(export, options), refuse)


def pieces(
    export: Export, number: int, begin: int, end: int, options: Options, bounds: Bounds = EVERYTHING
) -> Iterator[Piece]:
    """What is to be read of an export's bytes from ``begin`` to ``end``.

    :raises CorruptStore: the offsets of a segment do not ascend.
    """
    record_at = LAYOUTS[export.manifest.layout].files.head_bytes
    first = max(0, bounds.phys_low - record_at)
    begin = max(begin, first - first % BLOCK_BYTES)  # chains of digests begin with blocks
    end = min(end, bounds.phys_high)
    before = -1
    for segment in export.manifest.segments:
        low, high = max(begin, segment.begin), min(end, segment.records_end)
        passed = before >= bounds.index_high - 1 or segment.last_index < bounds.index_low
        before = segment.last_index
        if max(low, first) < high and not passed and _may_have(segment, options, bounds):
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


def _may_have(segment: Segment, options: Options, bounds: Bounds) -> bool:
    if not segment.messages:
        return False
    queues = segment.queues
    if not options.all_topics:
        queues = tuple(queue for queue in queues if options.wants(queue.topic))
    if segment.first_stored_ms > bounds.stored_high or segment.last_stored_ms < bounds.stored_low:
        return False
    # records whose CRC is wrong may name any topic
    return segment.corrupt > 0 or any(bounds.may_have(queue) for queue in queues)


def _split(export: Export, number: int, segment: Segment, low: int, high: int, size: int) -> Iterator[Piece]:
    """Records that begin within ``low`` and ``high``, in pieces of about ``size`` bytes."""
    starts = export.starts(segment, 0, segment.messages)
    sound = starts[0] == segment.begin or (
        export.manifest.layout_of(segment.base) == DLEDGER and starts[0] > segment.begin
    )
    if (np.diff(starts) <= 0).any() or not sound or starts[-1] >= segment.records_end:
        raise CorruptStore(export.offsets_path(segment), 0, "not the begins of its records")
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
