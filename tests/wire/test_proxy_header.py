"""The PROXY header: every shape of both versions, at any cut, and every breach refused.

Source: HAProxy's "The PROXY protocol", versions 1 and 2.
"""

from __future__ import annotations

import ipaddress
import struct
import unittest
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError
from rocketha.wire.proxy_header import HEADER_BYTES_MAX, ProxyHeader, Source, read
from rocketha.wire.spec import proxy as spec

SOURCE_4 = Source("192.0.2.1", 56324)
SOURCE_6 = Source("2001:db8::1", 56324)
LINES = {
    b"PROXY TCP4 192.0.2.1 192.0.2.2 56324 443\r\n": SOURCE_4,
    b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n": Source("255.255.255.255", 65535),
    b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 443\r\n": SOURCE_6,
    b"PROXY TCP6 2001:0DB8:0:0::1 ::1 56324 0\r\n": SOURCE_6,
    b"PROXY TCP6 ::ffff:192.0.2.1 ::ffff:192.0.2.2 56324 443\r\n": SOURCE_4,
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN ffff:f...f ffff:f...f 65535 65535\r\n": None,
}
ENDS_4 = ipaddress.ip_address("192.0.2.1").packed + ipaddress.ip_address("192.0.2.2").packed + b"\xdc\x04\x01\xbb"
ENDS_6 = ipaddress.ip_address("2001:db8::1").packed + bytes(16) + b"\xdc\x04\x01\xbb"
TLVS = b"\x02\x00\x07example" + b"\xea\x00\x05\x01vpce" + b"\x04\x00\x00"


def header(command: int, family: int, content: bytes, size: int | None = None) -> bytes:
    """Of version 2."""
    head = struct.pack(">12sBBH", spec.SIGNATURE, command, family, len(content) if size is None else size)
    return head + content


HEADERS = {
    header(0x21, 0x11, ENDS_4): SOURCE_4,
    header(0x21, 0x11, ENDS_4 + TLVS): SOURCE_4,
    header(0x21, 0x11, ENDS_4 + bytes(0xFFFF - 12)): SOURCE_4,
    header(0x21, 0x21, ENDS_6): SOURCE_6,
    header(0x21, 0x21, ENDS_6 + TLVS): SOURCE_6,
    header(0x21, 0x31, bytes(216) + TLVS): None,
    header(0x21, 0x00, b""): None,
    header(0x21, 0x00, TLVS): None,
    header(0x20, 0x00, b""): None,
    header(0x20, 0x11, ENDS_4): None,
    header(0x20, 0x11, b""): None,
    header(0x20, 0xFF, TLVS): None,
}
SHAPES = {**LINES, **HEADERS}


class ShapesTests(unittest.TestCase):
    """What is one."""

    def test_whole(self) -> None:
        for data, source in SHAPES.items():
            self.assertEqual(read(data), ProxyHeader(source, len(data)), data[:60])

    def test_what_follows_is_left(self) -> None:
        for data, source in SHAPES.items():
            for more in (b"\x16", b"\x00\x00\x01", b"\r\n", data):
                self.assertEqual(read(data + more), ProxyHeader(source, len(data)), data[:60])

    def test_byte_by_byte(self) -> None:
        for data, source in SHAPES.items():
            cuts = range(1, len(data)) if len(data) < 1000 else (*range(1, 40), 4000, len(data) - 1)
            for cut in cuts:
                self.assertIsNone(read(bytearray(data[:cut])), (data[:60], cut))
            self.assertEqual(read(bytearray(data)), ProxyHeader(source, len(data)))

    def test_as_the_spec_builds_them(self) -> None:
        text = LINES.keys()
        for data in text:
            built = spec.LINE.build({"text": data[len(spec.LINE_BEGIN) : -2]})
            self.assertEqual(built, data)
        for data in HEADERS:
            built = spec.HEADER.build({"command": data[12], "family": data[13], "content": data[16:]})
            self.assertEqual(built, data)
        self.assertEqual((spec.ENDS_4.sizeof(), spec.ENDS_6.sizeof(), spec.HEAD.sizeof()), (12, 36, 16))

    @given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 65535), st.integers(0, 65535), st.binary(max_size=300))
    def test_any_ends(self, source: Any, other: Any, port: int, other_port: int, tlvs: bytes) -> None:
        kind = 4 if source.version == 4 else 6
        destination = other if other.version == source.version else type(source)(1)
        mapped = getattr(source, "ipv4_mapped", None)
        wanted = Source(str(mapped or source), port)
        line = f"PROXY TCP{kind} {source} {destination} {port} {other_port}\r\n".encode()
        ends = source.packed + destination.packed + port.to_bytes(2) + other_port.to_bytes(2)
        for data in (line, header(0x21, 0x11 if kind == 4 else 0x21, ends + tlvs)):
            self.assertEqual(read(data), ProxyHeader(wanted, len(data)))


class RefusedTests(unittest.TestCase):
    """What is none."""

    def refused(self, data: bytes) -> str:
        with self.assertRaises(RemoteProtocolError, msg=data[:60]) as refusal:
            read(data)
        return str(refusal.exception)

    def test_other_protocols(self) -> None:
        for data in (b"\x00\x00\x01\x00", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n", b"PROXY\r\n", b"PROXX", b"proxy "):
            self.assertEqual(self.refused(data), "no PROXY header")
        for data in (b"\r\n\r\n\x00\r\nQUIT\r", b"\r\n\r\n\x01", b"\n", b"\r\r"):
            self.assertEqual(self.refused(data), "no PROXY header")

    def test_lines(self) -> None:
        for words in (
            "", "TCP4", "TCP4 192.0.2.1 192.0.2.2 1", "TCP4 192.0.2.1 192.0.2.2 1 2 3", "TCP4  192.0.2.1 192.0.2.2 1 2",
            "TCP4 192.0.2.1 192.0.2.2 1 65536", "TCP4 192.0.2.1 192.0.2.2 -1 2", "TCP4 192.0.2.1 192.0.2.2 +1 2",
            "TCP4 192.0.2.1 192.0.2.2 1_0 2", "TCP4 192.0.2.1 192.0.2.2 1 ", "TCP4 192.0.2.1 192.0.2.2 0x1 2",
            "TCP4 192.0.2.1 192.0.2.2 000000001 2", "TCP4 192.0.2.256 192.0.2.2 1 2", "TCP4 ::1 ::1 1 2",
            "TCP4 localhost 192.0.2.2 1 2", "TCP4 192.0.2.1 host 1 2", "TCP4 192.0.2.01 192.0.2.2 1 2",
            "TCP6 192.0.2.1 192.0.2.2 1 2", "TCP6 fe80::1%eth0 ::1 1 2", "TCP6 ::1 fe80::1%1 1 2", "TCP6 [::1] ::1 1 2",
            "UDP4 192.0.2.1 192.0.2.2 1 2", "tcp4 192.0.2.1 192.0.2.2 1 2", "UNKNOWNX", "unknown",
            "TCP4 192.0.2.1\n 192.0.2.2 1 2", "TCP4 192.0.2.1 192.0.2.2 1 2\n", "TCP4 192.0.2.1 192.0.2.2 1 2\x00",
            "TCP4 192.0.2.1 192.0.2.2 \u0663 2", "TCP4 192.0.2.1 192.0.2.2 \u00b2 2", "TCP4 \u0661.0.0.1 192.0.2.2 1 2",
        ):  # fmt: skip
            self.assertIn("a broken PROXY line", self.refused(f"PROXY {words}\r\n".encode()))

    def test_a_line_that_does_not_end(self) -> None:
        longest = b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n"
        self.assertEqual((len(longest), read(longest)), (107, ProxyHeader(None, 107)))
        self.assertIsNone(read(longest[:106]))
        for data in (longest[:-2] + b"x\r\n", longest[:-2] + b"xx", b"PROXY " + b" " * 101, longest[:-2] + bytes(5000)):
            self.assertEqual(self.refused(data), "a PROXY line of more than 107 bytes")

    def test_versions_and_commands(self) -> None:
        """As soon as the head is there, however much it announces."""
        for command in set(range(256)) - {0x20, 0x21}:
            said = self.refused(header(command, 0x11, b"", 0xFFFF))
            self.assertIn(f"version {command >> 4} with command {command & 15}", said)

    def test_families(self) -> None:
        for family in set(range(256)) - {0x00, 0x11, 0x21, 0x31}:
            self.assertIn(f"family {family:#04x}", self.refused(header(0x21, family, b"", 0xFFFF)))

    def test_too_few_bytes_for_the_addresses(self) -> None:
        for family, needed in ((0x11, 12), (0x21, 36), (0x31, 216)):
            for size in (0, needed - 1):
                self.assertIn(f"its addresses are {needed}", self.refused(header(0x21, family, b"", size)))

    @given(st.binary(min_size=1, max_size=400))
    def test_any_bytes(self, data: bytes) -> None:
        """A header, not whole yet, or refused; never more than can be."""
        for begin in (b"", b"PROXY ", b"PROXY TCP4 ", b"PROXY UNKNOWN", spec.SIGNATURE, spec.SIGNATURE + b"\x21"):
            try:
                found = read(begin + data)
            except RemoteProtocolError:
                continue
            self.assertTrue(found is None or 15 <= found.size <= min(len(begin + data), HEADER_BYTES_MAX))
