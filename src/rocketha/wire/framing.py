"""The bounded receive buffer: length word first, limit check, then a slice.

Pure.  Theory of operation: a read usually holds several whole frames, so :meth:`FrameBuffer.feed` walks the bytes
once and returns all of them; only what is left of a frame is copied and kept.  A length is judged before a single
byte of its frame is waited for, so no peer can make us hold more than ``limit`` bytes and a word.

Java: ``NettyDecoder`` (a ``LengthFieldBasedFrameDecoder``), which closes the connection in the same cases.
"""

from __future__ import annotations

import struct

from rocketha.errors import RemoteProtocolError
from rocketha.wire.limits import FRAME_BYTES_MAX

FRAME_LIMIT = FRAME_BYTES_MAX
"""Largest frame in bytes after the length word (``com.rocketmq.remoting.frameMaxLength``)."""

_LENGTH = struct.Struct(">i")


class FrameBuffer:
    """Bytes in, whole frames out.

    :ivar held: bytes kept of an incomplete frame; at most ``limit + 4`` and one read.
    :ivar started_frame: True while a frame has begun and is not complete (the slow-sender deadline looks at it).
    """

    __slots__ = ("_chunks", "_limit", "_need", "held")

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._limit = limit
        self._chunks: list[bytes] = []
        # Invariant: held == sum(len(chunk)); _need is the byte count at which a frame (or a length word) is complete.
        self.held = 0
        self._need = 4

    @property
    def started_frame(self) -> bool:
        """Whether a frame has begun and is not whole yet."""
        return self.held > 0

    def feed(self, data: bytes) -> list[bytes]:
        """Every frame completed by ``data``, without its length word.

        :raises RemoteProtocolError: for a length that is negative, shorter than a header word, or over the limit.
        """
        if self.held:
            # A large frame arrives in many reads: join once it is whole, not at each read.
            self._chunks.append(data)
            self.held += len(data)
            if self.held < self._need:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
            self.held = 0
        elif 8 <= len(data) <= self._limit + 4 and _LENGTH.unpack_from(data)[0] == len(data) - 4:
            self._need = 4
            return [data[4:]]  # one read, one frame: most are
        frames: list[bytes] = []
        position, end = 0, len(data)
        unpack_from, limit = _LENGTH.unpack_from, self._limit
        while end - position >= 4:
            length = unpack_from(data, position)[0]
            if length < 4 or length > limit:
                raise RemoteProtocolError(f"frame length {length} is outside 4..{limit}")
            stop = position + 4 + length
            if stop > end:
                self._need = 4 + length
                break
            frames.append(data[position + 4 : stop])
            position = stop
        else:
            self._need = 4
        if position < end:
            self._chunks.append(data[position:] if position else data)
            self.held = end - position
        return frames
