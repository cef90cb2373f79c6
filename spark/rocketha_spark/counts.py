"""How many messages exports have, from their manifests: no task, no record read, but for the file in which what is
confirmed ends.
"""

from __future__ import annotations

from collections import Counter

import attrs

from rocketha.export.manifest import Segment
from rocketha_spark.batches import batches
from rocketha_spark.bounds import EVERYTHING, HIGHEST, LOWEST, Bounds
from rocketha_spark.exports import Export
from rocketha_spark.options import Options, parse
from rocketha_spark.plan import bounds_of, chosen, limit, pieces


def queues(path: str, **options: str) -> dict[tuple[str, str, int], int]:
    """Records of each replica, topic and queue; the options are the table's.

    Prepared and rolled back ones count, as in the table; a damaged record counts where its topic says.

    :raises ConfigError: of options and exports.
    :raises CorruptStore: of a damaged record or file that had to be read.
    """
    given = parse({"path": path, **options})
    found: Counter[tuple[str, str, int]] = Counter()
    for export in chosen(given):
        bounds = bounds_of(export, given)
        for segment in export.manifest.segments:
            for (topic, queue_id), count in _of_segment(export, segment, bounds, given).items():
                found[export.manifest.replica, topic, queue_id] += count
    return dict(found)


def count(path: str, **options: str) -> int:
    """All records: what the table's ``count()`` says."""
    return sum(queues(path, **options).values())


def _of_segment(export: Export, segment: Segment, bounds: Bounds, options: Options) -> Counter[tuple[str, int]]:
    found: Counter[tuple[str, int]] = Counter()
    end = limit(export, options)
    if segment.records_end <= end and not segment.corrupt and _whole(segment, bounds):
        for queue in segment.queues:
            if options.wants(queue.topic):
                found[queue.topic, queue.queue_id] += queue.messages
        return found
    for piece in pieces(export, 0, segment.begin, min(end, segment.records_end), options, bounds):
        if piece.segment.base == segment.base:
            for batch in batches(export, piece, ("topic", "queue_id"), options, bounds):
                found.update(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
    return found


def _whole(segment: Segment, bounds: Bounds) -> bool:
    """All records of a segment lie within the bounds, as its manifest shows."""
    placed = bounds.phys_low <= segment.begin and segment.records_end <= bounds.phys_high
    timed = bounds.stored_low <= segment.first_stored_ms and segment.last_stored_ms <= bounds.stored_high
    rest = attrs.evolve(bounds, phys_low=LOWEST, phys_high=HIGHEST, stored_low=LOWEST, stored_high=HIGHEST)
    return placed and timed and rest == EVERYTHING
