"""A small format, its sound reader, and readers that are broken on purpose: what the fuzzer must notice."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from construct import Bytes, Int16sb, Int32sb, Rebuild, Struct, Terminated, len_, this

from rocketha.errors import InvariantBroken, RemoteProtocolError
from rocketha.wire.spec.format import Format

SPEC = "note" / Struct(
    "kind" / Int16sb,
    "length" / Rebuild(Int32sb, len_(this.text)),
    "text" / Bytes(this.length),
    Terminated,
)
HEAD = struct.Struct(">hi")
ROOM_BYTES_MAX = 32 << 20
"""Four times what a small case may hold."""

Note = tuple[int, bytes]


def build(note: Note) -> bytes:
    """The bytes of a note."""
    return HEAD.pack(note[0], len(note[1])) + note[1]


def sound(data: bytes) -> dict[str, Any]:
    """A reader that keeps the contract."""
    if len(data) < HEAD.size:
        raise RemoteProtocolError("no head")
    kind, length = HEAD.unpack_from(data)
    if length != len(data) - HEAD.size:
        raise RemoteProtocolError(f"length {length}")
    return {"kind": kind, "text": data[HEAD.size :]}


def build_dict(note: dict[str, Any]) -> bytes:
    """The bytes of what :func:`sound` returns."""
    return build((note["kind"], note["text"]))


def leaks_struct_error(data: bytes) -> dict[str, Any]:
    """Forgets that there may be no whole head."""
    HEAD.unpack_from(data)
    return sound(data)


def loops_on_negative(data: bytes) -> dict[str, Any]:
    """Counts a length down to zero; a negative one never gets there."""
    if len(data) >= HEAD.size:
        left = HEAD.unpack_from(data)[1]
        if left < 0:
            while left:
                left -= 1
    return sound(data)


def believes_length(data: bytes) -> dict[str, Any]:
    """Makes room for as many bytes as the sender says."""
    if len(data) >= HEAD.size:
        bytearray(max(HEAD.unpack_from(data)[1], 0))
    return sound(data)


def believes_length_in_part(data: bytes) -> dict[str, Any]:
    """Makes room for as many bytes as the sender says, up to some."""
    if len(data) >= HEAD.size:
        bytearray(min(max(HEAD.unpack_from(data)[1], 0), ROOM_BYTES_MAX))
    return sound(data)


def breaks_its_own_rule(data: bytes) -> dict[str, Any]:
    """Blames itself for a peer's bytes."""
    if len(data) < HEAD.size:
        raise InvariantBroken("head is whole")
    return sound(data)


def misreads(data: bytes) -> dict[str, Any]:
    """Reads a signed field as unsigned."""
    note = sound(data)
    return {**note, "kind": note["kind"] & 0xFFFF}


def forgets(note: dict[str, Any]) -> bytes:
    """A writer that drops what follows a NUL."""
    return build((note["kind"], note["text"].split(b"\x00")[0]))


def refuses(note: dict[str, Any]) -> bytes:
    """A writer that refuses what the reader took."""
    if note["kind"] < 0:
        raise RemoteProtocolError("negative kind")
    return build_dict(note)


def crashes(note: dict[str, Any]) -> bytes:
    """A writer that packs too narrow."""
    return struct.pack(">b", note["kind"]) + build_dict(note)


def garbles(note: dict[str, Any]) -> bytes:
    """A writer that leaves its last byte out."""
    return build_dict(note)[:-1]


def note_format(
    parse: Callable[[bytes], Any] = sound, writer: Callable[[Any], bytes] | None = build_dict, name: str = "note"
) -> Format:
    """The format with some reader and writer."""
    return Format(name, SPEC, parse, writer, 70_000, "A note.")
