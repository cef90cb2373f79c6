"""What consume queues and the index hold of the messages of a batch: tags codes and keys, from their properties.

Pure.  Theory of operation: the members of a batch usually have properties of the same names, and three of them count.
So the blocks are joined, and each of the three is cut out of all of them at once; where a member lacks one that others
have, or has it twice, each block is parsed.  The senders wait for the tags codes only, so the keys are found later.

Java: ``CommitLog.checkMessageAndReturnSize`` (tags code), ``IndexService.buildIndex`` (5.5.0: the tag is a key too).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, repeat
from operator import contains

from rocketha.compiled import compiled
from rocketha.errors import RemoteProtocolError
from rocketha.store.dispatch import index_keys, key_words, tags_code
from rocketha.store.messages import BatchKeys
from rocketha.wire.batch import Members
from rocketha.wire.java_text import string_hash
from rocketha.wire.properties import KEYS, NAME_VALUE, PAIR, TAGS, UNIQUE_KEY, parse_text

_BORDER = "\0"
_BETWEEN = f"{PAIR}{_BORDER}{PAIR}".encode()


def batch_keys(members: Members) -> tuple[Sequence[int], Callable[[], BatchKeys]]:
    """Tags code of each member of a batch, from its properties, and what finds their index keys.

    :raises RemoteProtocolError: a block is not UTF-8.
    """
    codes = ascii_tags_codes(members)
    return _joined(members.properties) if codes is None else (codes, lambda: _joined(members.properties)[1]())


@compiled
def ascii_tags_codes(members: Members) -> list[int] | None:
    """Tags code of each, where all properties are ASCII; None: :func:`_joined` finds them together with the keys."""
    return None


def _joined(blocks: Sequence[bytes]) -> tuple[Sequence[int], Callable[[], BatchKeys]]:
    try:
        text = PAIR + _BETWEEN.join(blocks).decode("utf-8") + PAIR
    except UnicodeDecodeError:
        raise RemoteProtocolError("properties are not UTF-8") from None
    count = len(blocks)
    tags = _values(text, TAGS, count) if text.count(_BORDER) == count - 1 else None
    if tags is None:
        return [tags_code(parse_text(block.decode())) for block in blocks], partial(_keys_one_by_one, blocks)
    if not tags:
        return [0] * count, partial(_keys, text, blocks, tags)
    hashes = {tag: string_hash(tag) for tag in dict.fromkeys(tags)}
    return [hashes[tag] for tag in tags], partial(_keys, text, blocks, tags)


def _keys(text: str, blocks: Sequence[bytes], tags: list[str]) -> BatchKeys:
    """Of blocks of which each has TAGS, or none has."""
    count = len(blocks)
    uniques, keys = _values(text, UNIQUE_KEY, count), _values(text, KEYS, count)
    if uniques is None or keys is None:
        return _keys_one_by_one(blocks)
    words = [key_words(value) for value in keys]
    tag_keys = {tag: "T#" + tag for tag in dict.fromkeys(tags)}
    tags = [tag_keys[tag] for tag in tags]
    if len(set(map(len, words))) <= 1:
        columns: list[Sequence[str]] = [uniques, *zip(*words, strict=True), tags]
        return BatchKeys([column for column in columns if column], range(count))
    rows = zip(uniques or repeat(None), words, tags or repeat(None), strict=False)
    return _row_by_row([[key for key in (unique, *some, tag) if key is not None] for unique, some, tag in rows])


def _keys_one_by_one(blocks: Sequence[bytes]) -> BatchKeys:
    return _row_by_row([index_keys(parse_text(block.decode())) for block in blocks])


def _row_by_row(keys: Sequence[Sequence[str]]) -> BatchKeys:
    """Of messages of which some have more than others."""
    numbers = chain.from_iterable(map(repeat, range(len(keys)), map(len, keys)))
    return BatchKeys([list(chain.from_iterable(keys))], list(numbers))


def _values(text: str, name: str, count: int) -> list[str] | None:
    """The value in each block, in order; none where no block has it; None where some have not, or have it twice."""
    before, *behind = text.split(f"{PAIR}{name}{NAME_VALUE}")
    if not behind:
        return []
    # As many borders as there can be: one between any two values means no more than one.
    if len(behind) != count or _BORDER in before or not all(map(contains, behind[:-1], repeat(_BORDER))):
        return None
    values = [part.partition(PAIR)[0] for part in behind]
    return values if all(values) else None
