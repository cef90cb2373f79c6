"""The receive buffer: however the bytes arrive, the same frames; and never more of them than the limit.

Source: NettyDecoder (LengthFieldBasedFrameDecoder); security.md, frame length 0, negative, 2^31-1, 16 MiB + 1.
"""

from __future__ import annotations

import struct
import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError
from rocketha.wire import remoting
from rocketha.wire.framing import FRAME_LIMIT, FrameBuffer
from tests.wire.support import java_frames


def framed(*payloads: bytes) -> bytes:
    """Payloads with their length words."""
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


class WholeAndPartsTests(unittest.TestCase):
    """The same bytes in any pieces."""

    def test_byte_by_byte(self) -> None:
        """Java's recorded frames, one byte at a time, are the frames at once; what is held says how far it is."""
        wanted = [frame[4:] for _, frame in java_frames()]
        stream = b"".join(frame for _, frame in java_frames())
        self.assertEqual(FrameBuffer().feed(stream), wanted)
        buffer, got = FrameBuffer(), []
        for at in range(len(stream)):
            got += buffer.feed(stream[at : at + 1])
        self.assertEqual(got, wanted)
        self.assertEqual((buffer.held, buffer.started_frame), (0, False))

    @given(st.lists(st.binary(min_size=4, max_size=60), max_size=12), st.data())
    def test_any_pieces(self, payloads: list[bytes], data: st.DataObject) -> None:
        """Cut anywhere, also within length words: the frames are those of the whole, in order."""
        stream = framed(*payloads)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
        buffer, got, before = FrameBuffer(), [], 0
        for cut in [*cuts, len(stream)]:
            got += buffer.feed(stream[before:cut])
            before = cut
        self.assertEqual(got, payloads)
        self.assertFalse(buffer.started_frame)

    def test_held(self) -> None:
        """A begun frame is seen as begun, from its first byte on."""
        buffer = FrameBuffer()
        self.assertFalse(buffer.started_frame)
        self.assertEqual(buffer.feed(b"\x00"), [])
        self.assertEqual((buffer.held, buffer.started_frame), (1, True))
        self.assertEqual(buffer.feed(b"\x00\x00\x05abc"), [])
        self.assertEqual(buffer.held, 7)
        self.assertEqual(buffer.feed(b"de\x00\x00"), [b"abcde"])
        self.assertEqual((buffer.held, buffer.started_frame), (2, True))

    def test_nothing(self) -> None:
        """An empty read is no frame."""
        self.assertEqual(FrameBuffer().feed(b""), [])

    def test_large_frame(self) -> None:
        """A frame of exactly the limit, in 64 KiB reads, arrives; nothing of it is held afterwards."""
        payload = bytes(FRAME_LIMIT)
        stream = framed(payload)
        buffer, got = FrameBuffer(), []
        for at in range(0, len(stream), 65536):
            got += buffer.feed(stream[at : at + 65536])
        self.assertEqual(got, [payload])
        self.assertEqual(buffer.held, 0)


class LimitTests(unittest.TestCase):
    """A length is judged before a byte of its frame is waited for."""

    def test_bad_lengths(self) -> None:
        """0, negative, shorter than a header word, 2^31 - 1, one over the limit: refused at the fourth byte."""
        for length in (0, 1, 3, -1, -(2**31), 2**31 - 1, FRAME_LIMIT + 1):
            with self.subTest(length):
                buffer = FrameBuffer()
                word = struct.pack(">i", length)
                self.assertEqual(buffer.feed(word[:3]), [])
                with self.assertRaisesRegex(RemoteProtocolError, f"frame length {length} is outside 4..16777216"):
                    buffer.feed(word[3:])

    def test_own_limit(self) -> None:
        """A smaller limit is kept to the byte."""
        self.assertEqual(FrameBuffer(8).feed(framed(b"12345678")), [b"12345678"])
        with self.assertRaises(RemoteProtocolError):
            FrameBuffer(8).feed(framed(b"123456789"))

    def test_smallest_frame(self) -> None:
        """Four bytes: a header word without a header."""
        self.assertEqual(FrameBuffer().feed(framed(b"\x00\x00\x00\x00")), [b"\x00\x00\x00\x00"])

    def test_other_protocols(self) -> None:
        """HTTP and TLS on the port are lengths over the limit."""
        for opening in (b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00\x01"):
            with self.assertRaises(RemoteProtocolError):
                FrameBuffer().feed(opening)

    def test_the_limit_holds_for_what_we_write(self) -> None:
        """encode refuses what the buffer of a peer would refuse, and writes what it takes."""
        room = FRAME_LIMIT - 4 - len(remoting.encode(remoting.Command(1))) + 8
        whole = remoting.encode(remoting.Command(1, body=bytes(room)))
        self.assertEqual(len(whole), FRAME_LIMIT + 4)
        self.assertEqual(len(FrameBuffer().feed(whole)), 1)
        with self.assertRaisesRegex(RemoteProtocolError, "a frame of 16777217 bytes"):
            remoting.encode(remoting.Command(1, body=bytes(room + 1)))
