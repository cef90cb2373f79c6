"""CRC-32 by the processor is the one of zlib."""

from __future__ import annotations

import subprocess
import sys
import unittest
import zlib

from hypothesis import given
from hypothesis import strategies as st

from rocketha.wire.crc import crc32, crc32_31

WITHOUT_ISAL = """
import sys
sys.modules["isal"] = None
from rocketha.wire.crc import crc32, crc32_31
assert crc32.__module__ == "zlib", crc32.__module__
print(crc32(b"123456789"), crc32_31(b"123456789"))
"""


class CrcTests(unittest.TestCase):
    @given(st.binary(max_size=5000), st.integers(0, 0xFFFFFFFF), st.integers(0, 70))
    def test_is_that_of_zlib(self, data: bytes, before: int, skipped: int) -> None:
        """Of bytes and of views that begin anywhere, alone and going on from other data."""
        view = memoryview(data)[skipped:]
        self.assertEqual(crc32(data), zlib.crc32(data))
        self.assertEqual(crc32(view), zlib.crc32(view))
        self.assertEqual(crc32(bytearray(data), before), zlib.crc32(data, before))

    @given(st.binary(max_size=200))
    def test_sign_bit(self, data: bytes) -> None:
        self.assertEqual(crc32_31(data), zlib.crc32(data) & 0x7FFFFFFF)
        self.assertEqual(crc32_31(memoryview(data)), crc32_31(data))

    def test_known(self) -> None:
        """The check value of CRC-32, of 123456789."""
        self.assertEqual(crc32(b"123456789"), 0xCBF43926)
        self.assertEqual(crc32_31(b"123456789"), 0x4BF43926)

    def test_without_a_build_of_isal(self) -> None:
        """On a machine for which there is none zlib computes it."""
        done = subprocess.run([sys.executable, "-c", WITHOUT_ISAL], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split(), [str(0xCBF43926), str(0x4BF43926)])
