"""The epoch file's text: Java's bytes, and every way in which it can be broken.

Source: CheckpointFile and EpochFileCache of RocketMQ 5.5.0; the file of a running broker (facts of autoswitch, 5.1).
"""

from __future__ import annotations

import unittest
import zlib

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.wire import epoch_file
from rocketha.wire.ha_frames import EPOCHS_MAX, EpochEntry

JAVA = b"1\n1725254278\n1-0\n"
"""Of a broker of RocketMQ 5.5.0 after its first election."""
JAVA_TEST = b"2\n773307083\n7-7000\n8-8000\n"
"""The example in CheckpointFile's own documentation."""


class EpochFileTests(unittest.TestCase):
    """Text to entries and back."""

    def test_java(self) -> None:
        """What Java wrote is read, and written byte for byte."""
        for text, entries in (
            (JAVA, (EpochEntry(1, 0),)),
            (JAVA_TEST, (EpochEntry(7, 7000), EpochEntry(8, 8000))),
        ):
            self.assertEqual(epoch_file.decode(text), entries)
            self.assertEqual(epoch_file.encode(entries), text)

    def test_empty_list(self) -> None:
        """Unlike Java we write that there are none."""
        self.assertEqual(epoch_file.encode(()), b"0\n0\n")
        self.assertEqual(epoch_file.decode(b"0\n0\n"), ())

    def test_what_java_also_reads(self) -> None:
        """A last line without its end; a CRC that is not to be checked."""
        self.assertEqual(epoch_file.decode(JAVA[:-1]), (EpochEntry(1, 0),))
        self.assertEqual(epoch_file.decode(b"2\n0\n1-0\n2-5\n"), (EpochEntry(1, 0), EpochEntry(2, 5)))

    def test_every_cut_is_noticed(self) -> None:
        """A file that was not written to its end is not taken for a shorter list (but for its last line feed)."""
        for cut in range(len(JAVA_TEST) - 1):
            with self.subTest(cut), self.assertRaises(CorruptStore):
                epoch_file.decode(JAVA_TEST[:cut])

    def test_every_changed_byte_is_noticed(self) -> None:
        """Each bit of each byte that carries something."""
        for at in range(len(JAVA_TEST)):
            for bit in range(8):
                changed = JAVA_TEST[:at] + bytes((JAVA_TEST[at] ^ 1 << bit,)) + JAVA_TEST[at + 1 :]
                with self.subTest(changed=changed), self.assertRaises(CorruptStore):
                    epoch_file.decode(changed)

    def test_refused(self) -> None:
        """By name, with the path and the place."""

        def sealed(count: object, lines: bytes) -> bytes:
            return b"%s\n%d\n%s" % (str(count).encode(), zlib.crc32(lines) & 0x7FFFFFFF, lines)

        for data, text in (
            (b"", "no number of entries"),
            (b"1", "no number of entries"),
            (b"1\n", "no number of entries"),
            (b"x\n1\n1-0\n", "no number of entries"),
            (b"-1\n1\n", "no number of entries"),
            (b"1\n-5\n1-0\n", "no number of entries"),
            (b"99999999999\n0\n", "no number of entries"),
            (sealed(2, b"1-0\n"), "2 entries announced, 1 there"),
            (sealed(0, b"1-0\n"), "0 entries announced, 1 there"),
            (b"1\n5\n1-0\n", "the CRC"),
            (sealed(1, b"1-0-0\n"), "no epoch: b'1-0-0'"),
            (sealed(1, b"-1-0\n"), "no epoch: b'-1-0'"),
            (sealed(1, b"1--1\n"), "no epoch: b'1--1'"),
            (sealed(1, b"\n"), "no epoch: b''"),
            (sealed(1, b"1-0\r\n"), "no epoch: b'1-0"),
            (sealed(1, "\u0661-0\n".encode()), "no epoch"),
            (sealed(1, b"2147483648-0\n"), "epoch 2147483648 from 0"),
            (sealed(1, b"1-9223372036854775808\n"), "epoch 1 from 9223372036854775808"),
            (sealed(2, b"2-0\n1-5\n"), "epoch 1 from 5 after epoch 2 from 0"),
            (sealed(2, b"1-0\n1-5\n"), "epoch 1 from 5 after epoch 1 from 0"),
            (sealed(2, b"1-5\n2-0\n"), "epoch 2 from 0 after epoch 1 from 5"),
            (b"1\n" * epoch_file.FILE_BYTES_MAX, "bytes of epochs"),
        ):
            with self.subTest(data[:30]), self.assertRaisesRegex(CorruptStore, text) as caught:
                epoch_file.decode(data, "/store/epochs")
            self.assertEqual(caught.exception.path, "/store/epochs")
        with self.assertRaisesRegex(CorruptStore, "/e at byte 10: no epoch: b'x'"):
            epoch_file.decode(b"2\n123\n1-0\nx\n", "/e")

    def test_not_written(self) -> None:
        """What would not be read."""
        for entries in ((EpochEntry(-1, 0),), (EpochEntry(2, 0), EpochEntry(1, 5)), (EpochEntry(1 << 31, 0),)):
            with self.subTest(entries), self.assertRaises(RemoteProtocolError):
                epoch_file.encode(entries)

    def test_the_longest(self) -> None:
        """As many of the longest lines as are allowed fit into the largest file that is read."""
        first = (1 << 31) - EPOCHS_MAX
        entries = tuple(EpochEntry(first + number, (1 << 63) - EPOCHS_MAX + number) for number in range(EPOCHS_MAX))
        text = epoch_file.encode(entries)
        self.assertLessEqual(len(text), epoch_file.FILE_BYTES_MAX)
        self.assertEqual(epoch_file.decode(text), entries)

    @given(st.sets(st.integers(0, 2**31 - 1), max_size=20), st.lists(st.integers(0, 2**63 - 1), min_size=20))
    def test_round_trip(self, epochs: set[int], starts: list[int]) -> None:
        """Any list that ascends."""
        entries = tuple(map(EpochEntry, sorted(epochs), sorted(starts)))
        self.assertEqual(epoch_file.decode(epoch_file.encode(entries)), entries)
