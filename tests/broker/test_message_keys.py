"""Tags codes and index keys: the shortcut for members of a batch that are alike equals parsing each of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.broker import message_keys
from rocketha.broker.message_keys import batch_keys
from rocketha.errors import RemoteProtocolError
from rocketha.store.dispatch import index_keys
from rocketha.wire import properties
from rocketha.wire.batch import BatchMessage, Columns, Members, join, members
from rocketha.wire.java_text import string_hash

_TEXT = st.text(alphabet="ab\x01\x02 é#\0", max_size=6)
_PIECE = st.one_of(
    st.builds("{}\x01{}\x02".format, st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "a"]), st.text("ab é", max_size=3)),
    _TEXT,
)


def one_by_one(blocks: list[bytes]) -> tuple[list[int], list[tuple[str, ...]]]:
    """The plain way."""
    codes, keys = [], []
    for block in blocks:
        values = properties.parse(block)
        tags = values.get("TAGS")
        codes.append(string_hash(tags) if tags else 0)
        keys.append(index_keys(values))
    return codes, keys


def in_columns(blocks: list[bytes]) -> Columns:
    """A batch with these properties."""
    return Columns([0] * len(blocks), [b""] * len(blocks), blocks)


class BatchKeysTests(SynchronousTestCase):
    """The shortcut is only a shortcut."""

    def check(self, blocks: list[bytes]) -> None:
        """As columns, and as they come from a producer."""
        self.check_keys_of(in_columns(blocks), blocks)
        self.check_keys_of(members(join(BatchMessage(0, b"", block) for block in blocks)), blocks)

    def check_keys_of(self, found: Members, blocks: list[bytes]) -> None:
        codes, find = batch_keys(found)
        columns, messages = find()
        keys: list[tuple[str, ...]] = [()] * len(blocks)
        for number, row in zip(messages, zip(*columns, strict=True), strict=False):  # no column: no keys
            keys[number] += row
        self.assertEqual((list(codes), keys), one_by_one(blocks))

    def test_alike(self) -> None:
        """What a Java producer sends: equal but for UNIQ_KEY, wherever it stands."""
        for text in (
            "UNIQ_KEY\x01{}\x02WAIT\x01true\x02",
            "TAGS\x01a\x02UNIQ_KEY\x01{}\x02KEYS\x01x y",
            "a\x01b\x02UNIQ_KEY\x01{}",
        ):
            self.check([text.format(f"{i:032X}").encode() for i in range(5)])

    def test_not_alike_after_all(self) -> None:
        """Separators in a value, the name twice, the name inside another name or value, different lengths."""
        self.check([b"UNIQ_KEY\x01AAAA\x02", b"UNIQ_KEY\x01A\x02KE\x02"])
        self.check([b"UNIQ_KEY\x01AAAA\x02", b"UNIQ_KEY\x01A\x01KE\x02"])
        self.check([b"UNIQ_KEY\x01A\x02UNIQ_KEY\x01B\x02", b"UNIQ_KEY\x01C\x02UNIQ_KEY\x01D\x02"])
        self.check([b"xUNIQ_KEY\x01A\x02UNIQ_KEY\x01B\x02", b"xUNIQ_KEY\x01A\x02UNIQ_KEY\x01C\x02"])
        self.check([b"k\x01UNIQ_KEY\x01A\x02UNIQ_KEY\x01A\x02", b"k\x01UNIQ_KEY\x01B\x02UNIQ_KEY\x01B\x02"])
        self.check([b"UNIQ_KEY\x01A\x02TAGS\x01a\x02", b"UNIQ_KEY\x01B\x02TAGS\x01b\x02"])
        self.check([b"UNIQ_KEY\x01AA\x02", b"UNIQ_KEY\x01B\x02"])
        self.check([b"UNIQ_KEY\x01AA\x02", b""])
        self.check([])

    @given(st.lists(st.tuples(_TEXT, _TEXT, _TEXT), min_size=1, max_size=4))
    def test_anything(self, rows: list[tuple[str, str, str]]) -> None:
        """Whatever stands before, in and after the key."""
        self.check([f"{before}UNIQ_KEY\x01{key}\x02{after}".encode() for before, key, after in rows])

    def test_rows_with_keys_of_their_own(self) -> None:
        """What applications send: words of any length, in blocks of any length, the properties in any order."""
        for text in (
            "KEYS\x01order-{0} c{1}\x02UNIQ_KEY\x01{0:032X}\x02TAGS\x01t{1}\x02a\x01{1}\x02",
            "a\x01{1}\x02TAGS\x01é{1}\x02KEYS\x01{0}",
            "UNIQ_KEY\x01{0}\x02KEYS\x01  {0}  {1} \x02",
        ):
            blocks = [text.format(7**i, i % 3).encode() for i in range(9)]
            self.check(blocks)
            self.patch(message_keys, "parse_text", None)  # the shortcut is taken
            batch_keys(in_columns(blocks))[1]()
            self.assertEqual(len(batch_keys(in_columns(blocks))[1]().messages), len(blocks))

    @given(st.lists(st.lists(_PIECE, max_size=5), min_size=2, max_size=5), st.booleans())
    def test_any_properties(self, rows: list[list[str]], alike: bool) -> None:
        """In any order, once, twice or not at all, with separators and borders inside."""
        self.check(["".join(row).encode() for row in ([rows[0]] * 3 if alike else rows)])

    def test_not_text(self) -> None:
        """A block that is not UTF-8 costs the batch."""
        for blocks in ([b"\xff"], [b"UNIQ_KEY\x01A\x02", b"UNIQ_KEY\x01\xff\x02"]):
            self.assertRaises(RemoteProtocolError, batch_keys, in_columns(blocks))
