"""Reads the PROXY header before a connection that a proxy passes on: from whom it is.

Pure.  Knows layouts; not who may send one.  What a header announces beyond the source (destination, TLVs) is looked at
as far as it must be sound, and dropped.

Why not :mod:`twisted.protocols.haproxy` (26.10): it believes everybody who sends one; closes a connection whose first
read is shorter than the signature; takes any text for an address in version 1, and lets errors of int() and bytes
escape; raises KeyError for a family that nobody defined; and it stays between transport and protocol for good.

Source: HAProxy's "The PROXY protocol", versions 1 and 2.  Java: Netty's ``HAProxyMessageDecoder``.
"""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from rocketha.addresses import plain
from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec
from rocketha.wire.spec import proxy as spec
from rocketha.wire.spec.format import Format

_HEAD = codec.flat(spec.HEAD)
_ENDS_4 = codec.flat(spec.ENDS_4)
_ENDS_6 = codec.flat(spec.ENDS_6)
_ENDS = {spec.TCP4: _ENDS_4, spec.TCP6: _ENDS_6}
_ENDS_BYTES = {spec.UNKNOWN: 0, spec.TCP4: _ENDS_4.size, spec.TCP6: _ENDS_6.size, spec.UNIX: spec.UNIX_BYTES}
_VERSIONS = {"TCP4": ipaddress.IPv4Address, "TCP6": ipaddress.IPv6Address}

HEADER_BYTES_MAX = _HEAD.size + 0xFFFF


class Source(NamedTuple):
    """Who connected to the proxy: the IP address in its one form."""

    host: str
    port: int


class ProxyHeader(NamedTuple):
    """A whole header.

    :ivar source: None: the proxy does not say, or connected by itself.
    :ivar size: bytes of it.
    """

    source: Source | None
    size: int


def read(data: bytes | bytearray) -> ProxyHeader | None:
    """The header that stream begins with; None: it is not whole yet.

    :param data: what has come so far; one byte at least.
    :raises RemoteProtocolError: it begins with none, or with a broken one.
    """
    if spec.SIGNATURE.startswith(data[: len(spec.SIGNATURE)]):
        return _read_binary(data)
    if spec.LINE_BEGIN.startswith(data[: len(spec.LINE_BEGIN)]):
        return _read_line(data)
    raise RemoteProtocolError("no PROXY header")


def _read_line(data: bytes | bytearray) -> ProxyHeader | None:
    end = data.find(spec.LINE_END, 0, spec.LINE_BYTES_MAX)
    if end < 0:
        if len(data) >= spec.LINE_BYTES_MAX:
            raise RemoteProtocolError(f"a PROXY line of more than {spec.LINE_BYTES_MAX} bytes")
        return None
    try:
        source = _source(data[len(spec.LINE_BEGIN) : end].decode("ascii").split(" "))
    except ValueError as problem:
        raise RemoteProtocolError(f"a broken PROXY line: {problem}") from None
    return ProxyHeader(source, end + len(spec.LINE_END))


def _source(words: list[str]) -> Source | None:
    """Of the words after PROXY.

    :raises ValueError: they are none of a header.
    """
    if words[0] == "UNKNOWN":  # whatever follows is not to be looked at
        return None
    kind = _VERSIONS.get(words[0])
    if kind is None or len(words) != 5:
        raise ValueError("TCP4 or TCP6, two addresses and two ports are wanted, or UNKNOWN")
    _, *hosts, source_port, destination_port = words
    if any("%" in host for host in hosts):
        raise ValueError("an address has a zone")
    source, _ = map(kind, hosts)
    port, _ = map(_port, (source_port, destination_port))
    return Source(plain(str(source)), port)


def _port(text: str) -> int:
    if not (text.isdecimal() and len(text) <= 5 and int(text) < 1 << 16):
        raise ValueError("a port is no number below 65536")
    return int(text)


def _read_binary(data: bytes | bytearray) -> ProxyHeader | None:
    if len(data) < _HEAD.size:
        return None
    _, command, family, size = _HEAD.unpack(data)
    if command not in (spec.LOCAL, spec.PROXY):
        raise RemoteProtocolError(f"a PROXY header of version {command >> 4} with command {command & 15}")
    if command == spec.PROXY:
        needed = _ENDS_BYTES.get(family)
        if needed is None:
            raise RemoteProtocolError(f"a PROXY header with family {family:#04x}")
        if size < needed:
            raise RemoteProtocolError(f"a PROXY header has {size} bytes where its addresses are {needed}")
    if len(data) < _HEAD.size + size:
        return None
    ends = _ENDS.get(family) if command == spec.PROXY else None
    source = None
    if ends is not None:
        address, _, port, _ = ends.unpack(data, _HEAD.size)
        source = Source(plain(str(ipaddress.ip_address(address))), port)
    return ProxyHeader(source, _HEAD.size + size)


def _read_whole(data: bytes) -> ProxyHeader:
    header = read(data)
    if header is None or header.size != len(data):
        raise RemoteProtocolError("not one whole PROXY header")
    return header


FORMATS = (
    Format(
        name="proxy-line",
        spec=spec.LINE,
        parse=_read_whole,
        build=None,
        bound=spec.LINE_BYTES_MAX,
        doc="How a connection begins that a proxy passes on, PROXY protocol version 1 (HAProxyMessageDecoder).",
    ),
    Format(
        name="proxy-header",
        spec=spec.HEADER,
        parse=_read_whole,
        build=None,
        bound=HEADER_BYTES_MAX,
        doc="The same, PROXY protocol version 2 (HAProxyMessageDecoder).",
    ),
)
