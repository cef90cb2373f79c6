"""``java.util.Properties`` files, as ``Properties.load(InputStream)`` reads them."""

from __future__ import annotations

import unittest

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import ConfigError
from rocketha.services.config.properties_file import FILE_BYTES_MAX, parse


def pairs(text: bytes) -> dict[str, str]:
    return {key: value for key, value, _ in parse(text, "x.conf")}


class PropertiesTests(unittest.TestCase):
    """The format of broker.conf."""

    def test_separators(self) -> None:
        """``=``, ``:`` or blanks; only the first counts, and blanks around it do not."""
        text = b"a=1\nb : 2\nc 3\nd\te=f\n  g  =  h i \nj=\nk\n=v\nl==m\nn=:o\n"
        wanted = {
            "a": "1",
            "b": "2",
            "c": "3",
            "d": "e=f",
            "g": "h i ",
            "j": "",
            "k": "",
            "": "v",
            "l": "=m",
            "n": ":o",
        }
        self.assertEqual(pairs(text), wanted)

    def test_comments_and_blank_lines(self) -> None:
        """``#`` and ``!`` count at the start of a line only; a comment is not continued."""
        self.assertEqual(pairs(b"# x=1\\\n a=1\n\n  ! y=2\n\t\nb=#2\nc=3!\n"), {"a": "1", "b": "#2", "c": "3!"})

    def test_continuation(self) -> None:
        """An odd number of backslashes at the end; the next line's leading blanks go, its ``#`` is text."""
        self.assertEqual(pairs(b"a=1\\\n   2\\\n\t3\nb=x\\\\\nc=y\\\\\\\nz\n"), {"a": "123", "b": "x\\", "c": "y\\z"})
        self.assertEqual(pairs(b"a=1\\\n#2\nb=1\\\n\nc=3\\"), {"a": "1#2", "b": "1", "c": "3"})
        self.assertEqual(pairs(b"a\\\nb=1"), {"ab": "1"})

    def test_escapes(self) -> None:
        """Known ones, hexadecimal ones, and any other character stands for itself."""
        self.assertEqual(pairs(rb"a=\t\n\r\f\u0041\q\"\\"), {"a": '\t\n\r\fAq"\\'})
        self.assertEqual(pairs(rb"k\=e\:y\ x=1"), {"k=e:y x": "1"})

    def test_line_ends(self) -> None:
        """Unix, DOS, old Macintosh, and none at the end."""
        self.assertEqual(pairs(b"a=1\r\nb=2\rc=3\nd=4"), {"a": "1", "b": "2", "c": "3", "d": "4"})

    def test_latin_1(self) -> None:
        """As Java reads a stream."""
        self.assertEqual(pairs(b"a=\xe9"), {"a": "\xe9"})

    def test_line_numbers(self) -> None:
        """Of the first natural line, and repeated keys are all listed."""
        self.assertEqual(
            [(e.key, e.line) for e in parse(b"#\na=1\\\n2\n\nb=1\na=3\n", "x")], [("a", 2), ("b", 5), ("a", 6)]
        )

    def test_refused(self) -> None:
        """A bad escape is named with its line; what is no text file is refused whole."""
        for text in (rb"a=\u12g4", rb"a=\u12", b"b=1\n\na=\\u"):
            with self.assertRaises(ConfigError) as caught:
                parse(text, "x.conf")
            self.assertIn("x.conf, line", str(caught.exception))
        for text in (b"a=\0", b"#" * (FILE_BYTES_MAX + 1)):
            with self.assertRaises(ConfigError):
                parse(text, "x.conf")

    @given(
        st.dictionaries(
            st.text(st.characters(max_codepoint=255, exclude_characters="\0"), max_size=8),
            st.text(st.characters(max_codepoint=255, exclude_characters="\0"), max_size=12),
            max_size=5,
        )
    )
    def test_round_trip(self, wanted: dict[str, str]) -> None:
        """What ``Properties.store`` escapes comes back."""

        def escaped(text: str) -> str:
            names = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
            return "".join(names.get(c, "\\" + c if c in " =:#!\\" else c) for c in text)

        text = "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in wanted.items())
        self.assertEqual(pairs(text.encode("latin-1")), wanted)

    @given(st.binary(max_size=60))
    def test_any_bytes(self, data: bytes) -> None:
        """Entries or a ConfigError, never anything else."""
        try:
            parse(data, "x")
        except ConfigError as problem:
            self.assertIn("x", str(problem))
