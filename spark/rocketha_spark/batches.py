"""The rows of a piece of log as Arrow batches: what is damaged dealt with, what is not asked for left out."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa

from rocketha.errors import CorruptStore
from rocketha.export.manifest import DLEDGER
from rocketha_spark.arrays import Chain, Columns, digests
from rocketha_spark.bodies import Part, parts
from rocketha_spark.bounds import EVERYTHING, HIGHEST, LOWEST, Bounds
from rocketha_spark.exports import Export
from rocketha_spark.options import Options
from rocketha_spark.plan import Piece
from rocketha_spark.records import PADDING_BYTES, Flags, Records, found
from rocketha_spark.schema import arrow_schema
from rocketha_spark.text import Bytes, Ints

BATCH_ROWS = 20_000
BATCH_BYTES = 4 << 20
"""Of log: what a worker holds at a time, a few times over.  A longer record is a batch of its own."""
UNPACKED_BYTES = 32 << 20
"""Of unpacked bodies in one batch; a longer body is a batch of its own."""

PLACE = ("cluster", "broker_name", "broker_id", "replica", "phys_offset", "size", "epoch", "confirmed", "source_file")
"""What is known of a record that is none."""


def batches(
    export: Export, piece: Piece, names: Sequence[str], options: Options, bounds: Bounds = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """The rows of a piece.

    :param names: the columns.
    :raises CorruptStore: a damaged record, with ``onCorrupt`` fail; files that are not what the manifest says.
    """
    starts = export.starts(piece.segment, piece.first, piece.count)
    if len(starts) and (starts[0] != piece.begin or (np.diff(np.append(starts, piece.end)) <= 0).any()):
        raise CorruptStore(export.directory, piece.begin, "not the begins of its records")
    rows = _Rows(export, piece, tuple(names), options, bounds)
    first = 0
    while first < len(starts):
        behind = int(np.searchsorted(starts, starts[first] + BATCH_BYTES, "right")) - 1
        behind = max(first + 1, min(behind if behind + 1 < len(starts) else len(starts), first + BATCH_ROWS))
        end = int(starts[behind]) if behind < len(starts) else piece.end
        yield from rows.batches(starts[first:behind], end)
        first = behind


@attrs.define
class _Rows:
    export: Export
    piece: Piece
    names: tuple[str, ...]
    options: Options
    bounds: Bounds
    _chain: Chain = attrs.field(factory=Chain)
    _buffer: Bytes = attrs.field(factory=lambda: np.zeros(0, np.uint8))  # columns are copies

    def batches(self, starts: Ints, end: int) -> Iterator[pa.RecordBatch]:
        """Of records that lie one behind the other: one, or more where their bodies are much when unpacked."""
        begin = int(starts[0])
        size = end - begin
        if len(self._buffer) < size + PADDING_BYTES:
            self._buffer = np.zeros(max(size, BATCH_BYTES) + PADDING_BYTES, np.uint8)
        self.export.read_into(self._buffer.data[:size], self.piece.segment, begin)
        ledger = self.export.manifest.layout_of(self.piece.segment.base) == DLEDGER
        records = found(begin, self._buffer, size, starts, ledger)
        path = self.export.log_path(self.piece.segment)
        given = self._digests(records)
        good = records.sound
        if self._look_at_crc():
            good = good & records.crc_right()
        kept = self._in_bounds(records)
        good = good | ~kept  # what is not asked for may be as it likes
        if not good.all():
            if self.options.on_corrupt == "fail":
                raise _damage(records, int(np.argmin(good)), path)
            if self.options.on_corrupt == "skip":
                kept &= good
        asked = kept & records.sound
        kept[asked] = self._of_topics(records.only(asked), path)
        given = {name: values.filter(pa.array(kept)) for name, values in given.items()}
        left = records.only(kept)
        if not len(left):
            return
        unpacks = self.options.decompress and "body" in self.names
        some = parts(left, path, UNPACKED_BYTES) if unpacks else iter([(0, len(left), None)])
        yield from map(functools.partial(self._batch, left, path, given), some)  # which keeps none, as a loop would

    def _batch(self, records: Records, path: str, given: Mapping[str, pa.Array], part: Part) -> pa.RecordBatch:
        """Of some of these records.

        :param given: columns of all of them that were made before.
        """
        low, high, bodies = part
        some = np.zeros(len(records), bool)
        some[low:high] = True
        columns = {name: values.slice(low, high - low) for name, values in given.items()}
        if bodies is not None:
            columns["body"] = bodies
        columns |= self._columns(records.only(some), path, [name for name in self.names if name not in columns])
        return pa.RecordBatch.from_arrays([columns[name] for name in self.names], schema=arrow_schema(self.names))

    def _look_at_crc(self) -> bool:
        """Exporting has looked; so only if it is asked for again, or some were known to be wrong."""
        if self.options.on_corrupt == "row":
            return False
        return self.piece.segment.corrupt > 0 or self.options.on_corrupt == "skip" or "crc_ok" in self.names

    def _digests(self, records: Records) -> dict[str, pa.Array]:
        made = {}
        if "record_digest" in self.names or "chain_digest" in self.names:
            each = digests(records)
            made["record_digest"] = pa.array(each, pa.binary())
            if "chain_digest" in self.names:
                chain = self._chain.add(records.units, each, self.export.manifest.epochs)
                made["chain_digest"] = pa.array(chain, pa.binary())
        return {name: values for name, values in made.items() if name in self.names}

    def _in_bounds(self, records: Records) -> Flags:
        """By place and time, entry and queue id; of what is no record only its place is known."""
        bounds, sound = self.bounds, np.ones(len(records), bool)
        if bounds == EVERYTHING:
            return sound
        offsets = records.places
        kept = (offsets >= bounds.phys_low) & (offsets < bounds.phys_high)
        if (bounds.stored_low, bounds.stored_high) != (LOWEST, HIGHEST):
            stored = records.store_ms()
            sound &= (stored >= bounds.stored_low) & (stored <= bounds.stored_high)
        if bounds.queue_ids is not None:
            sound &= np.isin(records.head["queue_id"], sorted(bounds.queue_ids))
        if records.entries is not None:
            index = records.entries["index"]
            sound &= (index >= bounds.index_low) & (index < bounds.index_high)
        return np.asarray(kept & (sound | ~records.sound))

    def _of_topics(self, records: Records, path: str) -> Flags:
        """And by queue offset."""
        bounds, kept = self.bounds, np.ones(len(records), bool)
        if not len(records) or (self.options.all_topics and bounds.topics is None and not bounds.queues):
            return kept
        topics = Columns(self.export, path, records).topics.dictionary_encode()
        names, codes = topics.dictionary.to_pylist(), topics.indices.to_numpy()
        wanted = [self.options.wants(topic) and (bounds.topics is None or topic in bounds.topics) for topic in names]
        kept &= np.array(wanted, bool)[codes]
        for (topic, queue_id), (low, high) in bounds.queues.items():
            if topic in names:
                of_queue = (codes == names.index(topic)) & (records.head["queue_id"] == queue_id)
                offsets = records.head["queue_offset"]
                kept &= ~of_queue | ((offsets >= low) & (offsets < high))
        return kept

    def _columns(self, records: Records, path: str, names: Sequence[str]) -> dict[str, pa.Array]:
        """Of a record that is none only its place."""
        whole = Columns(self.export, path, records)
        if records.sound.all():
            return {name: whole.make(name) for name in names}
        sound = Columns(self.export, path, records.only(records.sound))
        at = np.cumsum(records.sound) - 1
        take = pa.array(at, mask=~records.sound)
        made = {name: whole.make(name) if name in PLACE else sound.make(name).take(take) for name in names}
        if "crc_ok" in made:
            made["crc_ok"] = made["crc_ok"].fill_null(False)
        return made


def _damage(records: Records, at: int, path: str) -> CorruptStore:
    what = "its body does not match its CRC" if records.sound[at] else "no record, or one of another place"
    place = int(records.places[at])
    return CorruptStore(path, place, f"{what} (log offset {place})")
