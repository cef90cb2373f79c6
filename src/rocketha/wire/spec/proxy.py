"""The header that a proxy puts before a connection that it passes on: construct declarations only.

HAProxy's PROXY protocol: a line of text (version 1), or a binary header (version 2).  Both ends of the connection that
was made to the proxy; all integers are big-endian.  Java: Netty's ``HAProxyMessageDecoder``.
"""

from __future__ import annotations

from construct import Bytes, Const, GreedyBytes, Int8ub, Int16ub, NullTerminated, Prefixed, Struct, Terminated

LINE_BEGIN = b"PROXY "
LINE_END = b"\r\n"
LINE_BYTES_MAX = 107
"""Both included."""
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
"""The first bytes of version 2.  Neither it nor :data:`LINE_BEGIN` can begin a remoting frame or TLS."""

LOCAL, PROXY = 0x20, 0x21
"""``command``, with the version in the upper half: a connection of the proxy's own, one that it passes on."""

UNKNOWN, TCP4, TCP6, UNIX = 0x00, 0x11, 0x21, 0x31
"""``family``: address family and, in the lower half, stream."""

LINE = "proxy-line" / Struct(
    "begin" / Const(LINE_BEGIN),
    "text" / NullTerminated(GreedyBytes, term=b"\r"),  # TCP4 or TCP6, source, destination, their ports; or UNKNOWN
    "end" / Const(b"\n"),
    Terminated,
)

HEAD = "proxy-head" / Struct(
    "signature" / Bytes(12),  # SIGNATURE
    "command" / Int8ub,  # LOCAL or PROXY
    "family" / Int8ub,  # UNKNOWN, TCP4, TCP6 or UNIX
    "size" / Int16ub,  # bytes that follow
)

HEADER = "proxy-header" / Struct(
    "signature" / Const(SIGNATURE),
    "command" / Int8ub,  # LOCAL or PROXY
    "family" / Int8ub,  # UNKNOWN, TCP4, TCP6 or UNIX
    "content" / Prefixed(Int16ub, GreedyBytes),  # the ends, as family says; then type-length-values, which nobody reads
    Terminated,
)

ENDS_4 = "proxy-ends-4" / Struct(
    "source" / Bytes(4),  # IPv4 address of who connected to the proxy
    "destination" / Bytes(4),  # that he connected to
    "source_port" / Int16ub,
    "destination_port" / Int16ub,
)

ENDS_6 = "proxy-ends-6" / Struct(
    "source" / Bytes(16),  # IPv6 address of who connected to the proxy
    "destination" / Bytes(16),  # that he connected to
    "source_port" / Int16ub,
    "destination_port" / Int16ub,
)

UNIX_BYTES = 216
"""Two names of sockets."""
