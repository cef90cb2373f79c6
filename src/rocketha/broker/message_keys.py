"""What consume queues and the index hold of a message: its tags code and its keys, from its properties.

Pure.  Theory of operation: the members of a batch usually have the same properties but for UNIQ_KEY.  So the first
member is parsed, and the others are only compared with it around that value; where they differ each is parsed.

Java: ``CommitLog.checkMessageAndReturnSize`` (tags code), ``IndexService.buildIndex`` (5.5.0: the tag is a key too).
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketha.errors import RemoteProtocolError
from rocketha.store.dispatch import index_keys, tags_code
from rocketha.wire.properties import parse_text

_UNIQUE = b"UNIQ_KEY\x01"
_NOTHING: tuple[list[int], list[tuple[str, ...]]] = ([], [])


def batch_keys(blocks: Sequence[bytes]) -> tuple[Sequence[int], Sequence[tuple[str, ...]]]:
    """Tags code and index keys of each member of a batch, from its properties block.

    :raises RemoteProtocolError: a block is not UTF-8.
    """
    if not blocks:
        return _NOTHING
    first = _parse(blocks[0])
    unique_key = first.get("UNIQ_KEY")
    if unique_key is not None and len(blocks) > 1:
        values = _alike(blocks, unique_key.encode())
        if values is not None:
            code, rest = tags_code(first), index_keys(first)[1:]  # its own UNIQ_KEY comes first
            return [code] * len(blocks), [(value, *rest) for value in values]
    codes: list[int] = []
    keys: list[tuple[str, ...]] = []
    for block in blocks:
        found = _parse(block)
        codes.append(tags_code(found))
        keys.append(index_keys(found))
    return codes, keys


def _alike(blocks: Sequence[bytes], unique_key: bytes) -> list[str] | None:
    """The UNIQ_KEY of each block where the blocks are equal but for it, else None."""
    first = blocks[0]
    at = 0 if first.startswith(_UNIQUE) else first.find(b"\x02" + _UNIQUE) + 1
    begin = at + len(_UNIQUE)
    end = begin + len(unique_key)
    if first[at:end] != _UNIQUE + unique_key or first.count(_UNIQUE) != 1:
        return None
    if {block[:begin] for block in blocks} != {first[:begin]} or {block[end:] for block in blocks} != {first[end:]}:
        return None
    values = [block[begin:end] for block in blocks]
    if not b"".join(values).isalnum():  # a separator in a value would make another property of it
        return None
    return [value.decode("ascii") for value in values]


def _parse(block: bytes) -> dict[str, str]:
    try:
        return parse_text(block.decode("utf-8"))
    except UnicodeDecodeError:
        raise RemoteProtocolError("properties are not UTF-8") from None
