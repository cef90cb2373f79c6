"""What consume queues and the index hold of a message: its tags code and its keys, from its properties.

Pure.  Theory of operation: the members of a batch usually have properties of the same names, and three of them count.
So the blocks are joined, and each of the three is cut out of all of them at once; where a member lacks one that others
have, or has it twice, each block is parsed.

Java: ``CommitLog.checkMessageAndReturnSize`` (tags code), ``IndexService.buildIndex`` (5.5.0: the tag is a key too).
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketha.errors import RemoteProtocolError
from rocketha.store.dispatch import index_keys, key_words, tags_code
from rocketha.wire.java_text import string_hash
from rocketha.wire.properties import KEYS, NAME_VALUE, PAIR, TAGS, UNIQUE_KEY, parse_text

_BORDER = "\0"
_BETWEEN = f"{PAIR}{_BORDER}{PAIR}".encode()

Keys = tuple[Sequence[int], Sequence[tuple[str, ...]]]
"""Tags code and index keys of each message."""


def batch_keys(blocks: Sequence[bytes]) -> Keys:
    """Tags code and index keys of each member of a batch, from its properties block.

    :raises RemoteProtocolError: a block is not UTF-8.
    """
    try:
        found = _alike(blocks) if len(blocks) > 1 else None
        if found is not None:
            return found
        parsed = [parse_text(block.decode("utf-8")) for block in blocks]
    except UnicodeDecodeError:
        raise RemoteProtocolError("properties are not UTF-8") from None
    return list(map(tags_code, parsed)), list(map(index_keys, parsed))


def _alike(blocks: Sequence[bytes]) -> Keys | None:
    """The same for blocks of which each has the three properties that one of them has; else None."""
    text = PAIR + _BETWEEN.join(blocks).decode("utf-8") + PAIR
    count = len(blocks)
    if text.count(_BORDER) != count - 1:
        return None
    uniques, keys, tags = (_values(text, name, count) for name in (UNIQUE_KEY, KEYS, TAGS))
    if uniques is None or keys is None or tags is None:
        return None
    hashes = {tag: string_hash(tag) for tag in dict.fromkeys(tags)}
    rows: list[tuple[str, ...]] = [(unique,) for unique in uniques] or [()] * count
    if keys:
        rows = [(*row, *key_words(value)) for row, value in zip(rows, keys, strict=True)]
    if tags:
        rows = [(*row, "T#" + tag) for row, tag in zip(rows, tags, strict=True)]
    return [hashes[tag] for tag in tags] or [0] * count, rows


def _values(text: str, name: str, count: int) -> list[str] | None:
    """The value in each block, in order; none where no block has it; None where some have not, or have it twice."""
    before, *behind = text.split(f"{PAIR}{name}{NAME_VALUE}")
    if not behind:
        return []
    if len(behind) != count or _BORDER in before:
        return None
    rows = [part.partition(PAIR) for part in behind]
    # As many borders as there can be: one between any two values means no more than one.
    if not all(_BORDER in rest for _, _, rest in rows[:-1]):
        return None
    values = [value for value, _, _ in rows]
    return values if all(values) else None
