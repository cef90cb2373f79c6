"""Arrays of texts and bytes that lie scattered in one buffer, and of the properties in them: no loop over rows."""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rocketha.wire import properties as names

Ints = npt.NDArray[np.int64]
_NAME_VALUE, _PAIR = names.NAME_VALUE, names.PAIR


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
    """The properties of some records.

    :ivar row: whose it is.
    :ivar name: its name, and ``value`` its value.
    :ivar count: of records.
    """

    row: Ints
    name: pa.StringArray
    value: pa.StringArray
    count: int

    def of(self, name: str) -> pa.StringArray:
        """The value of a property for each record, null where there is none; of a repeated one the last counts."""
        at = np.flatnonzero(pc.equal(self.name, name).to_numpy(zero_copy_only=False))
        last = np.full(self.count, -1, np.int64)
        last[self.row[at]] = at
        return self.value.take(pa.array(last, mask=last < 0))

    def maps(self) -> pa.MapArray:
        """All of them."""
        row, name, value = self.row, self.name, self.value
        codes = name.dictionary_encode().indices.to_numpy().astype(np.int64)
        keys = row * (int(codes.max(initial=0)) + 1) + codes
        newest = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]
        if len(newest) < len(keys):
            kept = np.sort(newest)
            row, name, value = row[kept], name.take(pa.array(kept)), value.take(pa.array(kept))
        offsets = np.zeros(self.count + 1, np.int32)
        np.cumsum(np.bincount(row, minlength=self.count), out=offsets[1:])
        return pa.MapArray.from_arrays(pa.array(offsets), name, value)


def _pieces(data: pa.StringArray, mark: str) -> tuple[Ints, pa.StringArray]:
    """What stands between marks, and of which entry each piece is."""
    split = pc.split_pattern(data, mark)
    row = pc.list_parent_indices(split).to_numpy().astype(np.int64)
    return row, split.flatten()


def pairs(data: pa.StringArray) -> Pairs:
    """The properties of blocks of text, by the rules of ``rocketha.wire.properties``."""
    row, piece = _pieces(data, _PAIR)
    middle = pc.find_substring(piece, _NAME_VALUE).to_numpy(zero_copy_only=False).astype(np.int64)
    size = pc.binary_length(piece).to_numpy(zero_copy_only=False).astype(np.int64)
    kept = np.flatnonzero((middle > 0) & (middle < size - 1))
    row, piece, middle = row[kept], piece.take(pa.array(kept)), middle[kept]
    buffers = piece.buffers()
    offsets = np.frombuffer(buffers[1], np.int32)[piece.offset : piece.offset + len(piece) + 1].astype(np.int64)
    text = buffers[2] if buffers[2] is not None else pa.py_buffer(b"")
    begins, ends = offsets[:-1], offsets[1:]
    return Pairs(
        row,
        cut_out(text, begins, begins + middle).cast(pa.string()),
        cut_out(text, begins + middle + 1, ends).cast(pa.string()),
        len(data),
    )


def words(data: pa.StringArray) -> pa.ListArray:
    """What stands between spaces, without empty words; null where the text is."""
    row, piece = _pieces(data, " ")
    kept = np.flatnonzero(pc.binary_length(piece).to_numpy(zero_copy_only=False) > 0)
    offsets = np.zeros(len(data) + 1, np.int32)
    np.cumsum(np.bincount(row[kept], minlength=len(data)), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), piece.take(pa.array(kept)), mask=pc.is_null(data))


_HEX = np.array([f"{value:02X}".encode() for value in range(256)], "S2").view(np.uint8).reshape(256, 2)


def hexadecimal(data: npt.NDArray[np.uint8]) -> pa.StringArray:
    """Rows of bytes as upper-case hex."""
    count, width = data.shape
    text = np.ascontiguousarray(_HEX[data])
    offsets = np.arange(0, (count + 1) * 2 * width, 2 * width, dtype=np.int32)[: count + 1]
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(text)])
