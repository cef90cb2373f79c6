"""The places of every field of some records, found for all of them at once.

Theory of operation: the begins of the records are known, from the export's index.  Fields that stand at the same
place behind them are gathered by numpy in one step; hosts of 8 or 20 bytes move what follows, so their widths are
added to the places as arrays.  In DLedger's log each record stands behind the head of its entry.

Nothing is believed: a record whose lengths do not add up to its place and size, or that says another offset of itself,
is not sound.  Java: ``MessageDecoder.decode``; ``rocketha.wire.record``, which the tests compare.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from rocketha.wire import dledger
from rocketha.wire import record as wire
from rocketha.wire.spec.commitlog import BORN_HOST_V6, MAGIC_V1, MAGIC_V2, STORE_HOST_V6
from rocketha.wire.spec.dledger import MAGIC as MAGIC_ENTRY
from rocketha_spark.text import Bytes, Ints, gathered

Flags = npt.NDArray[np.bool_]

_HEAD = wire.HEAD_LAYOUTS[0]
_TAIL = struct.Struct(">iqi")  # reconsume_times, prepared_offset, body_length
_BORN_HOST_AT = 48
PADDING_BYTES = _HEAD.size + 64
"""Behind the data, so that gathering a field of a torn record reads something."""

_PREFIX = np.dtype(
    [
        ("total", ">i4"),
        ("magic", ">i4"),
        ("body_crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("phys_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_ms", ">i8"),
    ]
)
assert _PREFIX.itemsize == _BORN_HOST_AT
_ENTRY = np.dtype(
    [
        ("magic", ">i4"),
        ("size", ">i4"),
        ("index", ">i8"),
        ("term", ">i8"),
        ("position", ">i8"),
        ("unused", "V12"),
        ("body", ">i4"),
    ]
)
assert _ENTRY.itemsize == dledger.HEAD_BYTES


@attrs.frozen(eq=False)
class Records:
    """Of one piece of log, which begins at log offset ``base``; each array has one entry a record.

    :ivar data: the bytes, with some more behind them.
    :ivar starts: where records begin within ``data``; ``ends`` lies behind them.
    :ivar sound: the lengths of a record agree with each other and with its place.
    :ivar entries: the heads before them; None in a log without entries.
    """

    base: int
    data: Bytes
    starts: Ints
    ends: Ints
    head: Any
    tail: Any
    born_host_size: Ints
    store_host_size: Ints
    body_at: Ints
    body_size: Ints
    topic_at: Ints
    topic_size: Ints
    properties_at: Ints
    sound: Flags
    entries: Any = None

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def places(self) -> Ints:
        """Where they begin in the log: PHYSICALOFFSET."""
        return self.starts + self.base

    @property
    def units(self) -> Ints:
        """Where in the log their entries begin, or they themselves where there are none."""
        return self.places - (0 if self.entries is None else dledger.HEAD_BYTES)

    @property
    def born_host_at(self) -> Ints:
        """Where the born host begins."""
        return self.starts + _BORN_HOST_AT

    @property
    def store_host_at(self) -> Ints:
        """Where the store host begins."""
        return self.born_host_at + self.born_host_size + 8

    def store_ms(self) -> Ints:
        """Store times."""
        return gathered(self.data, self.born_host_at + self.born_host_size, 8).view(">i8").reshape(-1).astype(np.int64)

    def only(self, mask: Flags) -> Records:
        """Those of a mask."""
        if mask.all():
            return self
        fields = (
            "starts",
            "ends",
            "head",
            "tail",
            "born_host_size",
            "store_host_size",
            "body_at",
            "body_size",
            "topic_at",
            "topic_size",
            "properties_at",
            "sound",
        )
        given = {name: getattr(self, name)[mask] for name in fields}
        return attrs.evolve(self, **given, entries=None if self.entries is None else self.entries[mask])

    def crc_right(self) -> Flags:
        """Which bodies match their CRC; empty ones do, as in Java.  Only sound records are looked at."""
        view, crc32 = self.data.data, zlib.crc32
        places = zip(self.body_at.tolist(), (self.body_at + self.body_size).tolist(), self.sound.tolist(), strict=True)
        found = [crc32(view[begin:end]) & 0x7FFFFFFF if sound else 0 for begin, end, sound in places]
        right = np.array(found, np.int64) == self.head["body_crc"]
        return np.asarray(self.sound & (right | (self.body_size == 0)))


def found(base: int, data: Bytes, length: int, starts: Ints, in_entries: bool = False) -> Records:
    """The fields of records that fill a piece of log.

    :param base: log offset of its first byte.
    :param data: the piece, which has ``length`` bytes, and :data:`PADDING_BYTES` of anything behind it.
    :param starts: log offsets at which records begin, ascending, the first at ``base``; each ends at the next.
    :param in_entries: they are those of entries with a record in each; entries without one may stand between them.
    """
    whole = data[: length + PADDING_BYTES]
    starts = starts - base
    ends = np.append(starts[1:], length)
    entries, sound = None, np.ones(len(starts), bool)
    if in_entries:
        entries = gathered(whole, starts, _ENTRY.itemsize).view(_ENTRY).reshape(-1)
        body = entries["body"].astype(np.int64)
        sound = (entries["magic"] == MAGIC_ENTRY) & (entries["size"] == body + _ENTRY.itemsize)
        sound &= (entries["position"] == starts + base) & (body > 0)
        starts = starts + _ENTRY.itemsize
        sound &= starts + body <= ends
        ends = np.where(sound, starts + body, np.maximum(starts, ends))
    head = gathered(whole, starts, _PREFIX.itemsize).view(_PREFIX).reshape(-1)
    sys_flag = head["sys_flag"]
    born = np.where(sys_flag & BORN_HOST_V6, 20, 8).astype(np.int64)
    store = np.where(sys_flag & STORE_HOST_V6, 20, 8).astype(np.int64)
    tail_at = starts + _BORN_HOST_AT + born + 8 + store
    tail = gathered(whole, tail_at, _TAIL.size).view([("reconsume", ">i4"), ("prepared", ">i8"), ("body", ">i4")])
    tail = tail.reshape(-1)
    body_at = tail_at + _TAIL.size
    body_size = tail["body"].astype(np.int64)
    sound &= (head["total"] == ends - starts) & (head["phys_offset"] == starts + base)
    v2 = head["magic"] == MAGIC_V2
    sound &= v2 | (head["magic"] == MAGIC_V1)
    field = np.where(v2, 2, 1)
    sound &= (body_size >= 0) & (body_at + body_size + field + 2 <= ends)
    topic_at = body_at + np.where(sound, body_size, 0) + field
    said = gathered(whole, topic_at - field, 2)
    topic_size = np.where(v2, said.view(">i2").reshape(-1), said[:, 0].view(np.int8)).astype(np.int64)
    sound &= (topic_size >= 0) & (topic_at + topic_size + 2 <= ends)
    properties_at = topic_at + np.where(sound, topic_size, 0) + 2
    properties_size = gathered(whole, properties_at - 2, 2).view(">i2").reshape(-1)
    sound &= properties_at + properties_size == ends
    return Records(
        base,
        whole,
        starts,
        ends,
        head,
        tail,
        born,
        store,
        body_at,
        body_size,
        topic_at,
        topic_size,
        properties_at,
        sound,
        entries,
    )
