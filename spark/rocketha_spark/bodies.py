"""Bodies as producers had them: unpacked a piece at a time, so that no more is in memory than one batch may have."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from rocketha.errors import CorruptStore
from rocketha_spark.records import Records
from rocketha_spark.text import Ints, cut_out

COMPRESSED, CODEC_BITS = 0x1, 0x700
"""sys_flag.  MessageSysFlag.COMPRESSED_FLAG, COMPRESSION_TYPE_COMPARATOR"""
CODECS = {0x000: "zlib", 0x100: "lz4", 0x200: "zstd", 0x300: "zlib"}
BODY_BYTES_MAX = 64 << 20
"""A body is not unpacked beyond that."""
PIECE_BYTES = 1 << 20
"""Unpacked at a time."""
_FED_BYTES = 1 << 18
"""Packed bytes that zlib has at a time: it copies what it has not come to whenever a piece is full."""

Part = tuple[int, int, pa.BinaryArray | None]
"""Number of the first record, number behind the last, and their bodies; None where they are as in the log."""


def unpacked(data: memoryview, codec: str | None) -> Iterator[bytes]:
    """A body as the producer had it, in pieces of at most :data:`PIECE_BYTES`.

    :raises ValueError: it is not of that codec, or ends too early.
    """
    if codec is None:
        raise ValueError("no such codec")
    try:
        if codec == "zlib":
            yield from _inflated(data)
            return
        with pa.input_stream(pa.py_buffer(data), compression=codec) as stream:
            while piece := stream.read(PIECE_BYTES):
                yield piece
    except (zlib.error, OSError) as error:
        raise ValueError(str(error)) from None


def _inflated(data: memoryview) -> Iterator[bytes]:
    unpacker = zlib.decompressobj()
    for begin in range(0, len(data), _FED_BYTES):
        fed: bytes | memoryview = data[begin : begin + _FED_BYTES]
        full = False
        while (fed or full) and not unpacker.eof:
            piece = unpacker.decompress(fed, PIECE_BYTES)
            yield piece
            fed, full = unpacker.unconsumed_tail, len(piece) == PIECE_BYTES
    if not unpacker.eof:
        raise ValueError("it ends too early")


def parts(records: Records, path: str, bytes_max: int) -> Iterator[Part]:
    """Records so few that their bodies, unpacked, have at most so many bytes: a few MiB of log may have gigabytes.

    A body that has more by itself is a part of its own.  A part is given out as soon as the next body turns out too
    long for it, and that body goes on when the part is gone: no more than one part may have is unpacked at a time.

    :param path: of their file.
    :raises CorruptStore: a body cannot be unpacked.
    """
    packed = np.flatnonzero((records.head["sys_flag"] & COMPRESSED > 0) & records.sound)
    if not len(packed):
        yield 0, len(records), None
        return
    filling = _Filling(records, packed)
    flags = (records.head["sys_flag"][packed] & CODEC_BITS).tolist()
    begins, sizes = records.body_at[packed].tolist(), records.body_size[packed].tolist()
    at = 0
    for number, flag, begin, size in zip(packed.tolist(), flags, begins, sizes, strict=True):
        yield from filling.add_stored(at, number, bytes_max)
        pieces = unpacked(records.data.data[begin : begin + size], CODECS.get(flag))
        try:
            yield from filling.add(number, pieces, bytes_max)
        except ValueError as error:
            place = int(records.places[number])
            raise CorruptStore(path, place, f"its body cannot be unpacked: {error}") from None
        at = number + 1
    yield from filling.add_stored(at, len(records), bytes_max)
    yield filling.closed(len(records))


class _Filling:
    """A part that is being made: bodies of some records one behind the other, as Arrow has them."""

    def __init__(self, records: Records, packed: Ints) -> None:
        stored = records.sound.copy()
        stored[packed] = False
        at, size = records.body_at[stored], records.body_size[stored]
        values = cut_out(pa.py_buffer(records.data), at, at + size).buffers()[2]
        self._stored = memoryview(values or b"")
        self._sound = records.sound
        self._sizes = np.where(stored, records.body_size, 0)  # of packed ones as they become known
        self._stored_until = np.append(0, np.cumsum(self._sizes))
        self._first = 0
        self._data = bytearray()

    def add_stored(self, low: int, high: int, bytes_max: int) -> Iterator[Part]:
        """Bodies that are not packed, of the records from one to another: a few MiB at most, as the log has them."""
        begin, end = int(self._stored_until[low]), int(self._stored_until[high])
        if self._first < low < high and len(self._data) + end - begin > bytes_max:
            yield self.closed(low)
        self._data += self._stored[begin:end]

    def add(self, number: int, pieces: Iterator[bytes], bytes_max: int) -> Iterator[Part]:
        """The body of a record.

        :raises ValueError: it cannot be unpacked, or has more than :data:`BODY_BYTES_MAX`.
        """
        body = bytearray()
        for piece in pieces:
            body += piece
            if len(body) > BODY_BYTES_MAX:
                raise ValueError(f"more than {BODY_BYTES_MAX} bytes")
            if len(self._data) + len(body) > bytes_max and self._first < number:
                yield self.closed(number)
        self._sizes[number] = len(body)
        if self._data:
            self._data += body
        else:
            self._data = body

    def closed(self, behind: int) -> Part:
        """The part, which ends before a record."""
        first, self._first = self._first, behind
        sizes, sound = self._sizes[first:behind], self._sound[first:behind]
        offsets = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        valid = None if sound.all() else pa.py_buffer(np.packbits(sound, bitorder="little"))
        data, self._data = self._data, bytearray()
        buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
        return first, behind, pa.Array.from_buffers(pa.binary(), len(sizes), buffers)
