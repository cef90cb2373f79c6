"""A blocking remoting call of the test bed's own, so that no test judges our wire code by our wire code.

JSON headers only. Used for readiness and for requests that no Java client would send.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import re
import socket
import ssl
import struct
from typing import Any, NamedTuple

_opaque = itertools.count(1)

tls: ssl.SSLContext | None = None
"""How :func:`call` speaks, while a test's servers take nothing else; None: in the clear."""


user: tuple[str, str] | None = None
"""Name and password that :func:`call` signs with; None: it does not."""


def _signed(fields: dict[str, str], body: bytes) -> dict[str, str]:
    """As a client's hook does; names are ASCII here."""
    if user is None:
        return fields
    given = {**fields, "AccessKey": user[0]}
    message = "".join(given[name] for name in sorted(given)).encode() + body
    made = hmac.new(user[1].encode(), message, hashlib.sha1).digest()
    return {**given, "Signature": base64.b64encode(made).decode()}


class Reply(NamedTuple):
    code: int
    remark: str | None
    fields: dict[str, str]
    body: bytes


def frame(
    code: int, fields: dict[str, str] | None = None, body: bytes = b"", *, flag: int = 0, opaque: int | None = None
) -> bytes:
    """A whole request frame."""
    header = {
        "code": code,
        "extFields": fields or {},
        "flag": flag,
        "language": "JAVA",
        "opaque": next(_opaque) if opaque is None else opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 513,
    }
    data = json.dumps(header).encode()
    return struct.pack(">ii", 4 + len(data) + len(body), len(data)) + data + body


def read_reply(sock: socket.socket) -> Reply:
    """The next frame that comes; ConnectionError when the peer closed instead."""

    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = sock.recv(min(size - len(data), 1 << 16))
            if not piece:
                raise ConnectionError("closed by the peer")
            data += piece
        return data

    (total,) = struct.unpack(">i", exactly(4))
    data = exactly(total)
    size = struct.unpack(">i", data[:4])[0] & 0xFFFFFF
    header = json.loads(data[4 : 4 + size])
    return Reply(header.get("code", 0), header.get("remark"), header.get("extFields") or {}, data[4 + size :])


def call(
    host_port: str, code: int, fields: dict[str, str] | None = None, body: bytes = b"", timeout_s: float = 5
) -> Reply:
    """One request on a fresh connection. OSError when nobody listens or no answer comes in time."""
    host, port = host_port.rsplit(":", 1)
    with socket.create_connection((host.strip("[]"), int(port)), timeout_s) as plain:
        plain.settimeout(timeout_s)
        sock = plain if tls is None else tls.wrap_socket(plain, server_hostname=host.strip("[]"))
        sock.sendall(frame(code, _signed(fields or {}, body), body))
        return read_reply(sock)


def loads(body: bytes) -> Any:
    """JSON as fastjson writes it: integer keys may stand without quotes."""
    return json.loads(re.sub(rb"([{,]\s*)(-?\d+)\s*:", rb'\1"\2":', body))
