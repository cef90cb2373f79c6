"""Arrays of texts and bytes that lie scattered in one buffer, and of the properties in them: no loop over rows."""

from __future__ import annotations

import functools
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketha.wire import properties as names

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
_MARK, _NAME_END = names.PAIR.encode(), ord(names.NAME_VALUE)
_MARKS = 2
assert {_NAME_END, *_MARK} == {1, _MARKS}  # the lowest bytes but 0
_WORD = np.dtype("<u8")


def windows(data: Bytes, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """What lies at each byte of some, so that many are fetched at once; the last ``itemsize - 1`` bytes have none."""
    shape = (len(data) - kind.itemsize + 1,)
    return np.lib.stride_tricks.as_strided(data[: kind.itemsize].view(kind), shape, (1,), writeable=False)


def gathered(data: Bytes, at: Ints, size: int) -> Bytes:
    """``size`` bytes at each place, one row a place; a place behind the end counts as the end."""
    there = windows(data, np.dtype((np.void, size)))
    return there[np.clip(at, 0, len(there) - 1)].view(np.uint8).reshape(-1, size)


def cut_out(buffer: pa.Buffer, begins: Ints, ends: Ints) -> pa.BinaryArray:
    """The bytes from each begin to its end; ascending, without overlap.

    An array is laid over the buffer whose odd entries are wanted, the even ones what is between; Arrow copies those.
    """
    offsets = np.empty(2 * len(begins) + 1, np.int32)
    offsets[0] = 0
    offsets[1::2], offsets[2::2] = begins, ends
    over = pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), buffer])
    return over.take(pa.array(np.arange(1, len(offsets) - 1, 2)))


def decoded(data: pa.BinaryArray) -> pa.StringArray:
    """UTF-8; what is none of it becomes U+FFFD, as in Java."""
    try:
        return data.cast(pa.string())
    except pa.ArrowInvalid:
        values = [None if each is None else each.decode("utf-8", "replace") for each in data.to_pylist()]
        return pa.array(values, pa.string())


@attrs.frozen(eq=False)
class Pairs:
    """The properties of some blocks of text, by the rules of ``rocketha.wire.properties``; each array in their order.

    :ivar text: the blocks, each behind a mark, and a mark behind the last.
    :ivar blocks: where blocks begin in it, at their marks; and where the last mark is.
    :ivar begins: where names begin; they end at ``middles``, where values begin behind a mark, up to ``ends``.
    """

    text: Bytes
    blocks: Ints
    begins: Ints
    middles: Ints
    ends: Ints

    @property
    def count(self) -> int:
        """Of blocks."""
        return len(self.blocks) - 1

    def of(self, name: str) -> pa.StringArray:
        """The value of a property for each block, null where there is none; of a repeated one the last counts."""
        at = self._named(name.encode())
        begins, ends = self.middles[at] + 1, self.ends[at]
        if len(at) == self.count and (begins > self.blocks[:-1]).all() and (ends <= self.blocks[1:]).all():
            return self._cut(begins, ends)
        block = np.searchsorted(self.blocks, begins, "right") - 1
        value, behind, there = self.blocks[:-1].copy(), self.blocks[:-1].copy(), np.zeros(self.count, bool)
        value[block], behind[block], there[block] = begins, ends, True
        return pc.if_else(pa.array(there), self._cut(value, behind), None)

    def maps(self) -> pa.MapArray:
        """All of them."""
        first = np.searchsorted(self.begins, self.blocks)
        block, middles, ends = np.repeat(np.arange(self.count), np.diff(first)), self.middles, self.ends
        name = self._cut(self.begins, middles)
        codes = name.dictionary_encode().indices.to_numpy().astype(np.int64)
        keys = block * (int(codes.max(initial=0)) + 1) + codes
        newest = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]
        if len(newest) < len(keys):
            kept = np.sort(newest)
            block, name, middles, ends = block[kept], name.take(pa.array(kept)), middles[kept], ends[kept]
        offsets = np.zeros(self.count + 1, np.int32)
        np.cumsum(np.bincount(block, minlength=self.count), out=offsets[1:])
        return pa.MapArray.from_arrays(pa.array(offsets), name, self._cut(middles + 1, ends))

    def _cut(self, begins: Ints, ends: Ints) -> pa.StringArray:
        return decoded(cut_out(pa.py_buffer(self.text), begins, ends))

    @functools.cached_property
    def _last_bytes(self) -> npt.NDArray[np.uint64]:
        """The bytes before each middle, as one number: of short names with the mark before them."""
        return windows(self.text, _WORD)[self.middles - _WORD.itemsize]

    def _named(self, name: bytes) -> Ints:
        """Which pairs have a name."""
        asked = (_MARK + name)[-_WORD.itemsize :]
        beside = _WORD.itemsize - len(asked)
        at: Ints = np.flatnonzero(self._last_bytes >> np.uint64(8 * beside) == int.from_bytes(asked, "little"))
        if len(name) < _WORD.itemsize:
            return at
        at = at[self.middles[at] - self.begins[at] == len(name)]
        for place, byte in enumerate(name[: -_WORD.itemsize]):
            at = at[self.text[self.begins[at] + place] == byte]
        return at


def pairs(buffer: pa.Buffer, begins: Ints, ends: Ints) -> Pairs:
    """The properties of blocks that lie in a buffer, as :func:`cut_out` takes them, each behind a byte of no block."""
    text, blocks = _marked(cut_out(buffer, begins - 1, ends))
    marks = np.flatnonzero(text - np.uint8(1) < _MARKS)
    kind = text[marks]
    opening = np.flatnonzero(kind[1:] < kind[:-1])  # a mark of pairs with a mark of a name next
    behind = opening + 2
    longer = np.flatnonzero(kind[behind] == _NAME_END)  # values with such marks in them
    if len(longer):
        between = np.flatnonzero(kind == _MARK[0])
        behind[longer] = between[np.searchsorted(between, behind[longer])]
    found = Pairs(text, blocks, marks[opening] + 1, marks[opening + 1], marks[behind])
    kept = (found.middles > found.begins) & (found.ends > found.middles + 1)
    if kept.all():
        return found
    return attrs.evolve(found, begins=found.begins[kept], middles=found.middles[kept], ends=found.ends[kept])


def _marked(data: pa.BinaryArray) -> tuple[Bytes, Ints]:
    """Blocks whose first bytes do not matter, as ``text`` and ``blocks`` of :class:`Pairs`; and with a word before."""
    blocks, values = np.zeros(1, np.int64), np.zeros(0, np.uint8)
    if len(data):
        blocks = np.frombuffer(data.buffers()[1], np.int32)[: len(data) + 1].astype(np.int64)
        values = np.frombuffer(data.buffers()[2], np.uint8)[: blocks[-1]]
    text = np.zeros(_WORD.itemsize + len(values) + 1, np.uint8)
    text[_WORD.itemsize : -1] = values
    blocks += _WORD.itemsize
    text[blocks] = _MARK[0]
    return text, blocks


def words(data: pa.StringArray) -> pa.ListArray:
    """What stands between spaces, without empty words; null where the text is."""
    split = pc.split_pattern(data, " ")
    row, piece = pc.list_parent_indices(split).to_numpy().astype(np.int64), split.flatten()
    kept = np.flatnonzero(pc.binary_length(piece).to_numpy(zero_copy_only=False) > 0)
    offsets = np.zeros(len(data) + 1, np.int32)
    np.cumsum(np.bincount(row[kept], minlength=len(data)), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), piece.take(pa.array(kept)), mask=pc.is_null(data))


_HEX = np.array([f"{value:02X}".encode() for value in range(256)], "S2").view(np.uint8).reshape(256, 2)


def hexadecimal(data: Bytes) -> pa.StringArray:
    """Rows of bytes as upper-case hex."""
    count, width = data.shape
    text = np.ascontiguousarray(_HEX[data])
    offsets = np.arange(0, (count + 1) * 2 * width, 2 * width, dtype=np.int32)[: count + 1]
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
