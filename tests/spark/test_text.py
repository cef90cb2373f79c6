"""Properties found in bytes, for many blocks at once, against the parser of one."""

from __future__ import annotations

import random
import secrets
import time
import unittest

import numpy as np
import pyarrow as pa

from rocketha.wire.properties import parse_text
from rocketha_spark import text

NAMES = ("TAGS", "UNIQ_KEY", "KEYS", "A", "SEVENTH", "EIGHTHS_", "NINTH_NAM", "a.name.longer.than.sixteen.bytes", "Ä")
"""Of lengths around a word's; and names that end as others do are made of them."""
PARTS = (b"\x01", b"\x02", b"\x01\x02", b"\x02\x01", b"\x00", b"v", b"value", "ü".encode(), b"\xff", b"\xc3", b"\x03")


def any_block(chance: random.Random) -> bytes:
    """Names, marks and values in any order, now and then as they should be."""
    if chance.random() < 0.3:
        return b"\x02".join(name.encode() + b"\x01" + chance.choice(PARTS[5:8]) for name in chance.sample(NAMES, 3))
    names = [each.encode() for each in NAMES] + [b"X" + each.encode() for each in NAMES]
    return b"".join(chance.choice((*PARTS, b"\x02", *names)) for _ in range(chance.randrange(14)))


def laid_out(blocks: list[bytes], chance: random.Random) -> text.Pairs:
    """In one buffer with something between."""
    data, begins, ends = b"", [], []
    for block in blocks:
        data += chance.choice((b"?", b"\x01", b"\x02", b"TAGS\x01wrong\x02", b"UNIQ_KEY\x01", b"\xff"))
        begins.append(len(data))
        data += block
        ends.append(len(data))
    return text.pairs(pa.py_buffer(data + b"\x01more"), np.array(begins, np.int64), np.array(ends, np.int64))


class Properties(unittest.TestCase):
    def assert_right(self, blocks: list[bytes], chance: random.Random, note: object = None) -> None:
        texts = [each.decode("utf-8", "replace") for each in blocks]
        wanted = [parse_text(each) for each in texts]
        found = laid_out(blocks, chance)
        self.assertEqual(found.maps().to_pylist(), [in_order(each) for each in texts], note)
        for name in (*NAMES, *("X" + name for name in NAMES), "none"):
            values = found.of(name)
            values.validate(full=True)
            self.assertEqual(values.to_pylist(), [each.get(name) for each in wanted], (name, note))

    def test_any(self) -> None:
        seed, until = secrets.randbits(32), time.monotonic() + 3
        chance = random.Random(seed)
        while time.monotonic() < until:
            blocks = [any_block(chance) for _ in range(chance.choice((0, 1, 2, 7, 40)))]
            self.assert_right(blocks, chance, (seed, blocks))

    def test_all_have_it(self) -> None:
        """Values are then taken as they lie, with whatever else there is."""
        chance = random.Random(5)
        blocks = [
            b"KEYS\x01%d\x02UNIQ_KEY\x01%032d\x02TAGS\x01t%d" % (each * 99, each, each % 7) for each in range(300)
        ]
        self.assert_right(blocks, chance)
        for at, other in (
            (0, b"KEYS\x01k"),
            (299, b""),
            (150, blocks[1] + b"\x02TAGS\x01again"),
            (7, b"TAGS\x01a\x01b"),
        ):
            self.assert_right([*blocks[:at], other, *blocks[at + 1 :]], chance)

    def test_a_missing_one_and_a_repeated_one_in_one_batch(self) -> None:
        """As many as there are blocks, but not one each."""
        self.assert_right([b"TAGS\x01a\x02TAGS\x01b", b"KEYS\x01k", b"TAGS\x01c\x02"], random.Random(6))
        self.assert_right([b"KEYS\x01k", b"TAGS\x01a\x02TAGS\x01b"], random.Random(6))


def in_order(block: str) -> list[tuple[str, str]]:
    """The pairs that count, each where it stands."""
    pieces = block.split("\x02")
    return [
        pair
        for at, piece in enumerate(pieces)
        for pair in parse_text(piece).items()
        if pair[0] not in parse_text("\x02".join(pieces[at + 1 :]))
    ]
