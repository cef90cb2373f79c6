"""Arrow columns of records.  Each is made only if it is wanted, and what several need is made once."""

from __future__ import annotations

import functools
import hashlib
import ipaddress
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketha.export.manifest import BLOCK_BYTES, EpochRange
from rocketha.wire import properties as names
from rocketha_spark import kinds, text
from rocketha_spark.bodies import CODEC_BITS, CODECS, COMPRESSED
from rocketha_spark.exports import Export
from rocketha_spark.records import Records
from rocketha_spark.schema import ARROW_TYPES
from rocketha_spark.text import Bytes, Ints

_MS_MIN, _MS_MAX = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999: what Spark and Python have in common."""
_DAY_MS, _HOUR_MS = 86_400_000, 3_600_000


class Columns:
    """Of sound records of one export.

    :param path: of their file.
    """

    def __init__(self, export: Export, path: str, records: Records) -> None:
        self._export = export
        self._path = path
        self._records = records

    def make(self, name: str) -> pa.Array:
        """A column."""
        maker: Callable[[], pa.Array] | None = getattr(self, f"_make_{name}", None)
        if maker is not None:
            return maker()
        kind = ARROW_TYPES[name]
        if name in ("cluster", "broker_name", "broker_id", "replica"):
            return pa.repeat(pa.scalar(getattr(self._export.manifest, name), kind), len(self._records))
        return pa.array(self._records.head[name].astype(kind.to_pandas_dtype()), kind)

    # --- the place

    def _make_phys_offset(self) -> pa.Array:
        return pa.array(self._records.places)

    def _make_size(self) -> pa.Array:
        return pa.array((self._records.ends - self._records.starts).astype(np.int32))

    def _make_epoch(self) -> pa.Array:
        return epochs_of(self._records.places, self._export.manifest.epochs)

    def _make_term(self) -> pa.Array:
        return self._of_entry("term")

    def _make_ledger_index(self) -> pa.Array:
        return self._of_entry("index")

    def _of_entry(self, name: str) -> pa.Array:
        entries = self._records.entries
        if entries is None:
            return pa.nulls(len(self._records), pa.int64())
        return pa.array(entries[name].astype(np.int64))

    def _make_confirmed(self) -> pa.Array:
        return pa.array(self._records.ends + self._records.base <= self._export.manifest.confirmed)

    def _make_source_file(self) -> pa.Array:
        return pa.repeat(pa.scalar(self._path), len(self._records))

    # --- the message

    def _make_topic(self) -> pa.Array:
        return self.topics

    @functools.cached_property
    def _kinds(self) -> pa.StringArray:
        return kinds.kinds(self.topics)

    def _make_kind(self) -> pa.Array:
        return self._kinds

    def _make_real_topic(self) -> pa.Array:
        return kinds.real_topics(self._kinds, self.topics, self._pairs)

    def _make_stored_again(self) -> pa.Array:
        return kinds.stored_again(self._kinds, self._pairs, self.make("sys_flag"))

    @functools.cached_property
    def topics(self) -> pa.StringArray:
        """Names, which are UTF-8."""
        records = self._records
        return text.decoded(text.cut_out(self._buffer, records.topic_at, records.topic_at + records.topic_size))

    @functools.cached_property
    def _buffer(self) -> pa.Buffer:
        return pa.py_buffer(self._records.data)

    def _make_msg_id(self) -> pa.Array:
        records = self._records
        places = records.places.astype(">i8").view(np.uint8).reshape(-1, 8)
        return self._by_width(
            records.store_host_at,
            records.store_host_size,
            lambda hosts, at: text.hexadecimal(np.concatenate((hosts, places[at]), axis=1)),
        )

    def _by_width(self, begins: Ints, sizes: Ints, make: Callable[[Bytes, Ints], pa.Array]) -> pa.Array:
        """Strings made of hosts, of 8 bytes and of 20, in the order of the records."""
        order, parts = [np.empty(0, np.int64)], [pa.array([], pa.string())]
        for width in (8, 20):
            at = np.flatnonzero(sizes == width)
            if len(at):
                order.append(at)
                parts.append(make(text.gathered(self._records.data, begins[at], width), at))
        return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(order), kind="stable")))

    def _make_born_host(self) -> pa.Array:
        return self._by_width(self._records.born_host_at, self._records.born_host_size, _hosts)

    def _make_store_host(self) -> pa.Array:
        return self._by_width(self._records.store_host_at, self._records.store_host_size, _hosts)

    def _make_born_ts(self) -> pa.Array:
        return times(self._records.head["born_ms"].astype(np.int64))

    def _make_store_ts(self) -> pa.Array:
        return times(self._store_ms)

    @functools.cached_property
    def _store_ms(self) -> Ints:
        return self._records.store_ms()

    def _make_dt(self) -> pa.Array:
        days = self._store_ms // _DAY_MS
        return pa.array(np.clip(days, -(1 << 31), (1 << 31) - 1).astype(np.int32), mask=self._no_time).cast(pa.date32())

    def _make_hour(self) -> pa.Array:
        return pa.array((self._store_ms % _DAY_MS // _HOUR_MS).astype(np.int32), mask=self._no_time)

    @property
    def _no_time(self) -> npt.NDArray[np.bool_]:
        return (self._store_ms < _MS_MIN) | (self._store_ms > _MS_MAX)

    def _make_reconsume_times(self) -> pa.Array:
        return pa.array(self._records.tail["reconsume"].astype(np.int32))

    def _make_prepared_offset(self) -> pa.Array:
        return pa.array(self._records.tail["prepared"].astype(np.int64))

    # --- properties

    @functools.cached_property
    def _pairs(self) -> text.Pairs:
        records = self._records
        return text.pairs(self._buffer, records.properties_at, records.ends)

    def _make_properties(self) -> pa.Array:
        return self._pairs.maps()

    def _make_uniq_key(self) -> pa.Array:
        return self._pairs.of(names.UNIQUE_KEY)

    def _make_tags(self) -> pa.Array:
        return self._pairs.of(names.TAGS)

    def _make_keys(self) -> pa.Array:
        return text.words(self._pairs.of(names.KEYS))

    def _make_delay_level(self) -> pa.Array:
        """0 without one; null of what is no Java int."""
        said = self._pairs.of(names.DELAY)
        number = pc.match_substring_regex(said, r"^[+-]?0*[0-9]{1,10}$")
        value = pc.cast(pc.replace_substring(pc.if_else(number, said, None), "+", ""), pa.int64())
        fits = pc.and_(pc.greater_equal(value, -(1 << 31)), pc.less_equal(value, (1 << 31) - 1))
        level = pc.cast(pc.if_else(fits, value, None), pa.int32())
        return pc.if_else(pc.is_null(said), pa.scalar(0, pa.int32()), level)

    # --- the body

    def _make_body_length(self) -> pa.Array:
        return pa.array(self._records.body_size.astype(np.int32))

    def _make_body_codec(self) -> pa.Array:
        flags = self._records.head["sys_flag"]
        codecs = np.array([*(CODECS.get(bits << 8) for bits in range(8)), None], object)
        return pa.array(codecs[np.where(flags & COMPRESSED, (flags & CODEC_BITS) >> 8, 8)], pa.string())

    def _make_body(self) -> pa.Array:
        records = self._records
        return text.cut_out(self._buffer, records.body_at, records.body_at + records.body_size)

    def _make_crc_ok(self) -> pa.Array:
        return pa.array(self._records.crc_right())


def digests(records: Records) -> list[bytes]:
    """SHA-256 of each record's bytes."""
    view, sha256 = records.data.data, hashlib.sha256
    places = zip(records.starts.tolist(), records.ends.tolist(), strict=True)
    return [sha256(view[begin:end]).digest() for begin, end in places]


class Chain:
    """Digests, each of the one before and a record's: equal where all before it in its block and epoch is equal."""

    def __init__(self) -> None:
        self._link: tuple[int, int] | None = None
        self._digest = b""

    def add(self, offsets: Ints, records: Sequence[bytes], epochs: Sequence[EpochRange]) -> list[bytes]:
        """Those of the next records, of whose digests they are made."""
        starts = np.array([each.start for each in epochs], np.int64)
        links = zip((offsets // BLOCK_BYTES).tolist(), np.searchsorted(starts, offsets, "right").tolist(), strict=True)
        made = []
        for link, record in zip(links, records, strict=True):
            before = self._digest if link == self._link else b""
            self._link, self._digest = link, hashlib.sha256(before + record).digest()
            made.append(self._digest)
        return made


def epochs_of(offsets: Ints, epochs: Sequence[EpochRange]) -> pa.Array:
    """The epoch of each log offset; null where none is known."""
    if not epochs:
        return pa.nulls(len(offsets), pa.int32())
    at = np.searchsorted(np.array([each.start for each in epochs]), offsets, "right") - 1
    numbers = np.array([each.epoch for each in epochs], np.int32)[at]
    return pa.array(numbers, mask=at < 0)


def times(ms: Ints) -> pa.Array:
    """Times; null of those that Spark has not."""
    out = (ms < _MS_MIN) | (ms > _MS_MAX)
    micros = np.where(out, 0, ms) * 1000
    return pa.array(micros, mask=out).cast(ARROW_TYPES["store_ts"])


def _hosts(data: Bytes, _at: Ints) -> pa.Array:
    width = data.shape[1]
    fixed = pa.Array.from_buffers(pa.binary(width), len(data), [None, pa.py_buffer(np.ascontiguousarray(data))])
    encoded = fixed.dictionary_encode()
    names = [host_text(each) for each in encoded.dictionary.to_pylist()]
    return pa.array(names, pa.string()).take(encoded.indices)


def host_text(host: bytes) -> str:
    """Address and port as Java writes the address (``InetAddress.getHostAddress``), in brackets if it is IPv6."""
    port = int.from_bytes(host[-4:], "big", signed=True)
    address = ipaddress.ip_address(host[:-4])
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            groups = ":".join(f"{int.from_bytes(host[at : at + 2], 'big'):x}" for at in range(0, 16, 2))
            return f"[{groups}]:{port}"
        address = address.ipv4_mapped
    return f"{address}:{port}"
