"""Digests of an export's bytes, a block at a time.

Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from rocketha.export.manifest import BLOCK_BYTES, Block


def spans(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The blocks of a part of the log: the first and the last may be short."""
    while begin < end:
        stop = min(end, begin - begin % BLOCK_BYTES + BLOCK_BYTES)
        yield begin, stop
        begin = stop


def within(blocks: Sequence[Block], end: int) -> tuple[Block, ...]:
    """Those that lie before ``end`` as a whole."""
    return tuple(block for block in blocks if block.end <= end)


def digest_of(pieces: Iterable[bytes]) -> str:
    """SHA-256 of what they make together, in hex."""
    digest = hashlib.sha256()
    for each in pieces:
        digest.update(each)
    return digest.hexdigest()


class Digests:
    """Grows with the bytes it is given, in order.

    :ivar end: log offset of the byte it wants next.
    """

    def __init__(self, begin: int, blocks: Sequence[Block] = ()) -> None:
        """
        :param begin: log offset of the export's first byte.
        :param blocks: known already; the last one must be full, so that it can be gone on behind it.
        """
        self._blocks = list(blocks)
        self._block_begin = self.end = blocks[-1].end if blocks else begin
        self._hash = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """The next bytes."""
        view = memoryview(data)
        for begin, end in spans(self.end, self.end + len(data)):
            self._hash.update(view[: end - begin])
            view = view[end - begin :]
            self.end = end
            if not end % BLOCK_BYTES:
                self._blocks.append(self._open())
                self._block_begin, self._hash = end, hashlib.sha256()

    def _open(self) -> Block:
        return Block(self._block_begin, self.end, self._hash.hexdigest())

    def blocks(self) -> tuple[Block, ...]:
        """Of all bytes so far."""
        return (*self._blocks, self._open()) if self.end > self._block_begin else tuple(self._blocks)
