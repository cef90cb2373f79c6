"""The body of a batch send. Source: MessageDecoder.encodeMessage / decodeMessages; recorded batches of the Java
client.
"""

from __future__ import annotations

import struct
import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError
from rocketha.wire import batch, codec, properties
from rocketha.wire.batch import MESSAGES_MAX, BatchMessage, join, split
from rocketha.wire.remoting import decode
from rocketha.wire.spec import remoting as spec
from tests.wire.support import java_frames

messages = st.lists(
    st.builds(BatchMessage, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=50), st.binary(max_size=50)),
    max_size=8,
)


class BatchTests(unittest.TestCase):
    """split and join."""

    @given(messages)
    def test_there_and_back(self, wanted: list[BatchMessage]) -> None:
        """What is joined splits into the same messages, and plain construct sees the same."""
        data = join(wanted)
        self.assertEqual(split(data), wanted)
        rows = codec.parse(spec.BATCH_BODY, data)["messages"]
        self.assertEqual([(row["flag"], row["body"], row["properties"]) for row in rows], wanted)

    @given(messages.filter(bool))
    def test_cut_everywhere(self, wanted: list[BatchMessage]) -> None:
        """A cut body is refused, unless it was cut between two messages."""
        data = join(wanted)
        borders = {0}
        for message in wanted:
            borders.add(max(borders) + 22 + len(message.body) + len(message.properties))
        for stop in sorted({0, 1, 4, 19, 21, 22, len(data) - 1, len(data) // 2} | borders):
            if stop in borders:
                split(data[:stop])
            elif 0 <= stop < len(data):
                with self.assertRaises(RemoteProtocolError):
                    split(data[:stop])

    def test_recorded(self) -> None:
        """A batch as Java sends it: split, and joined again to the very bytes."""
        body = next(decode(frame[4:]).body for row, frame in java_frames() if row["code"] == 320)
        parts = split(body)
        self.assertGreater(len(parts), 0)
        self.assertEqual(join(parts), body)
        self.assertTrue(all("UNIQ_KEY" in properties.parse(part.properties) for part in parts))

    def test_lengths_that_lie(self) -> None:
        """Total, body and properties lengths: negative, too long, or not adding up."""
        good = join([BatchMessage(0, b"abc", b"k\x01v\x02")])
        for at, layout, values in (
            (0, ">i", (-1, 0, 21, 28, 30, 2**31 - 1)),
            (16, ">i", (-1, -(2**31), 2, 4, 8, 9, 2**31 - 1)),
            (23, ">h", (-1, 3, 5, 32767, -32768)),
        ):
            for value in values:
                lying = bytearray(good)
                struct.pack_into(layout, lying, at, value)
                with self.subTest(at=at, value=value), self.assertRaises(RemoteProtocolError):
                    split(bytes(lying))

    def test_errors_name_the_message(self) -> None:
        """The refusal says which message of the batch is wrong."""
        data = join([BatchMessage(0, b"a", b"")] * 2)
        with self.assertRaisesRegex(RemoteProtocolError, "batch message 1: 5 bytes left"):
            split(data[: 23 + 5])

    def test_too_many(self) -> None:
        """A batch whose answer would not fit into a frame is refused while it is read, not after."""
        one = join([BatchMessage(0, b"", b"")])
        self.assertEqual(len(split(one * MESSAGES_MAX)), MESSAGES_MAX)
        with self.assertRaisesRegex(RemoteProtocolError, f"more than {MESSAGES_MAX} messages"):
            split(one * (MESSAGES_MAX + 1) + b"garbage that is never reached")

    def test_empty(self) -> None:
        """No bytes are no messages; the caller decides whether that is a batch."""
        self.assertEqual((split(b""), join([])), ([], b""))

    def test_formats(self) -> None:
        """The registered readers are the ones production uses."""
        self.assertEqual((batch.FORMATS[0].name, batch.FORMATS[0].parse), ("batch-body", split))
