"""Headers that are known: read exactly as if they were parsed, whatever is changed in them."""

from __future__ import annotations

import json
import tracemalloc
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError
from rocketha.wire import remoting
from rocketha.wire.known_sends import (
    CREDIT_FIRST,
    HEADER_MAX,
    LEARNING_COSTS,
    SHAPES_BYTES_MAX,
    HeaderMemory,
    KnownSend,
)
from rocketha.wire.remoting import Command

KEY = "FD0000000000000000000000000000027B995FFD2B276CC36DDC0011"


def send(opaque: int = 43, body: bytes = b"body", properties: str = "", code: int = 310, **more: str) -> bytes:
    """A frame (without its length word) as Java's producer writes it."""
    fields = {
        "a": "load-producer",
        "b": "Load128",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1795315946972",
        "h": "0",
        "i": properties or f"UNIQ_KEY\x01{KEY}\x02WAIT\x01true\x02",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "broker-a",
        **more,
    }
    return remoting.encode(Command(code, "JAVA", 513, opaque, 0, None, fields, body))[4:]


def go(opaque: int = 43, **more: str) -> bytes:
    """The same as the Go client writes it: the number before the fields, a remark, no broker's name."""
    fields = remoting.decode(send(**more)).fields
    del fields["n"]
    header = {"code": 310, "language": "GO", "version": 317, "opaque": opaque, "flag": 0, "remark": ""}
    text = json.dumps({**header, "extFields": fields}, separators=(",", ":"), ensure_ascii=False).encode()
    return len(text).to_bytes(4, "big") + text + b"body"


def signed(signature: str = "DUbzVR53BtHOe/qvRVhI+CgoFNo=", **more: str) -> bytes:
    """One of who logs in."""
    return send(AccessKey="root", Signature=signature, **more)


def seen(decode: object, frame: bytes) -> object:
    """What comes of a frame: every field of the command, or the kind of error."""
    try:
        command = decode(frame)  # type: ignore[operator]
    except RemoteProtocolError as problem:
        return str(problem)
    return (
        command.code,
        command.language,
        command.version,
        command.opaque,
        command.flag,
        command.remark,
        list(command.fields.items()),
        command.body,
    )


class KnownSendTests(unittest.TestCase):
    """A memory's commands are those of :func:`rocketha.wire.remoting.decode`."""

    def known(self, frame: bytes, *before: bytes) -> bool:
        """Whether a frame is of a shape that ``before`` taught; it reads as if it were not."""
        memory = HeaderMemory()
        for each in before:
            seen(memory.decode, each)
        kinds = []

        def decode(data: bytes) -> Command:
            command = memory.decode(data)
            kinds.append(type(command))
            return command

        self.assertEqual(seen(decode, frame), seen(remoting.decode, frame))
        return kinds == [KnownSend]

    def test_what_may_differ(self) -> None:
        """Queue, time and number, each as long as before, properties and body; anything else is parsed."""
        frame = send()
        self.assertFalse(self.known(frame))
        for known in (
            frame,
            send(99),
            send(body=b""),
            send(e="3"),
            send(g="1895315946972"),
            send(e="7", g="2" * 13, body=b"x"),
            send(properties=f"UNIQ_KEY\x01{KEY[::-1]}\x02WAIT\x01true\x02"),
            send(properties="K\x01" + "x" * 89),
            send(properties=f"UNIQ_KEY\x01{KEY[:-1]}-\x02WAIT\x01nein\x02"),
            send(properties="K\x01v"),
            send(properties="KEYS\x01k1 k2\x02UNIQ_KEY\x01x\x02a\x01b"),
            send(properties="x" * 500),
        ):
            self.assertTrue(self.known(known, frame))
        for unknown in (
            send(100),
            send(e="10"),
            send(b="Load129"),
            send(a="load-consumer"),
            send(f="1"),
            send(code=320),
            send(k="FALSE"),
            send(m="true"),
            send(properties="UNIQ_KEY\x01" + "\u00e9" * 20),
            send(e="-"),
            send(g="12345678901 2"),
        ):
            self.assertFalse(self.known(unknown, frame))

    def test_signatures(self) -> None:
        """Each is another one; what is none is parsed."""
        for known in (signed(), signed("A" * 27 + "="), signed("a+/9" * 7, e="3"), signed("=" * 28)):
            self.assertTrue(self.known(known, signed()))
        for unknown in (
            signed("A" * 28 + "="),
            signed("A" * 27),
            signed(""),
            signed('A","x":"' + "y" * 20),
            signed("A" * 26 + "\\="),
            signed("A" * 26 + "-="),
            send(),
            send(AccessKey="root"),
            signed().replace(b"root", b"ann!"),
        ):
            self.assertFalse(self.known(unknown, signed()))
        twice = signed().replace(b'"AccessKey":"root"', b'"Signature":"root"')
        self.known(twice, twice)  # the second counts, so it is no value that may differ
        self.assertFalse(self.known(twice.replace(b"DUbz", b"EUbz"), twice))

    def test_other_clients(self) -> None:
        """Other orders of the header's members, and a 4.x client's, which does not name the broker."""
        self.assertTrue(self.known(go(99, e="3", properties="KEYS\x01k\x02UNIQ_KEY\x01x"), go()))
        old = send().replace(b',"n":"broker-a"', b"")
        old = (int.from_bytes(old[:4], "big") - 15).to_bytes(4, "big") + old[4:]
        self.assertTrue(self.known(old, old))

    def test_where_another_value_may_hide(self) -> None:
        """Such headers are parsed: a name twice, or as a value; an escape; a number as a text, a text as a number."""
        for old, new in (
            (b'"e":"0"', b'"e":"0","e":"1"'),
            (b'"e":"0"', b'"e":0'),
            (b'"a":"load-producer"', b'"a":"e"'),
            (b'"opaque":43', b'"opaque":"43"'),
            (b'"opaque":43', b'"opaque":43.0'),
            (b'"a":"load', b'"a":"\\u006coad'),
            (b'"flag":0', b'"flag":0,"i":"x"'),
            (b'"a":"load-producer"', b'"opaque":"load-producer"'),
        ):
            with self.subTest(new=new):
                frame = send().replace(old, new, 1)
                self.assertNotEqual(frame, send())
                frame = (int.from_bytes(frame[:4], "big") + len(new) - len(old)).to_bytes(4, "big") + frame[4:]
                self.assertFalse(self.known(frame, frame))

    def test_every_byte_changed(self) -> None:
        """No change of one byte of header or header word is read differently, whether or not whoever serves the sends
        has met the properties."""
        for frame in (send(), go(), signed()):
            self.check_every_byte(frame)

    def check_every_byte(self, frame: bytes) -> None:
        """Of this frame's header."""
        for at in range(4 + int.from_bytes(frame[1:4], "big")):
            for value in b'\x00\x01 "+-.019:@A\\_n{}\x7f\x80\xe9\xff':
                changed = frame[:at] + bytes((value,)) + frame[at + 1 :]
                for met in (False, True):
                    memory = HeaderMemory()
                    memory.decode(frame)
                    known = memory.decode(frame)
                    assert isinstance(known, KnownSend)
                    if met:
                        known.shape.keep(("UNIQ_KEY", "WAIT"), True)
                        known = memory.decode(frame)
                        assert isinstance(known, KnownSend)
                        assert known.values is not None and known.values.groups() == (KEY.encode(), b"true")
                    self.assertEqual(seen(memory.decode, changed), seen(remoting.decode, changed), changed)

    @given(st.binary(max_size=12), st.integers(0, 500), st.integers(0, 12))
    @settings(max_examples=400)
    def test_any_bytes_anywhere(self, data: bytes, at: int, removed: int) -> None:
        """Likewise of several bytes, with the header word put right."""
        for frame in (send(), signed()):
            stop = 4 + int.from_bytes(frame[1:4], "big")
            place = min(4 + at, stop)
            header = frame[4:place] + data + frame[min(place + removed, stop) : stop]
            self.known(len(header).to_bytes(4, "big") + header + frame[stop:], frame)

    @given(st.lists(st.tuples(st.sampled_from('\x01\x02 UNIQ_KEY=k%"\\\u00e9\x00'), st.integers(1, 3)), max_size=40))
    @settings(max_examples=400)
    def test_any_properties(self, pieces: list[tuple[str, int]]) -> None:
        """Any properties, of a header that learned the like of them and of one that did not."""
        text = "".join(piece * count for piece, count in pieces)
        self.known(send(properties=text), send(properties=text[::-1] or "x"), send(properties=text or "x"))

    def test_cut_frames(self) -> None:
        """A frame that ends inside a known header is refused as ever."""
        frame = send(body=b"")
        for stop in range(len(frame)):
            self.known(frame[:stop], frame)

    def test_fields_may_be_set(self) -> None:
        """As of any command."""
        memory = HeaderMemory()
        memory.decode(send())
        command = memory.decode(send())
        command.fields = {"b": "other"}
        self.assertEqual((type(command), command.fields), (KnownSend, {"b": "other"}))

    def test_bounded(self) -> None:
        """However many shapes come, few are kept; who is never known again is not learned for ever."""
        memory = HeaderMemory()
        for number in range(1000):
            memory._credit = CREDIT_FIRST
            memory.decode(send(b=f"T{number}", a="x" * (number % 1000)))
            kept = sum(shape.cost for shape in memory._shapes)
            self.assertEqual(memory._shapes_bytes, kept)
            self.assertLessEqual(kept, SHAPES_BYTES_MAX)
        for number in range(CREDIT_FIRST):
            memory.decode(send(b=f"U{number}"))
        self.assertLess(memory._credit, LEARNING_COSTS)
        new = send(b="another")
        memory.decode(new)
        self.assertIs(type(memory.decode(new)), Command)

    def test_memory(self) -> None:
        """The longest headers that are learned leave about as much memory as is counted; longer ones are parsed."""
        memory, kept = HeaderMemory(), []
        longest = HEADER_MAX - 4 - int.from_bytes(send(b="")[1:4], "big")
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for number in range(200):
            memory._credit = CREDIT_FIRST
            memory.decode(send(b=f"{number:03}" + "x" * (longest - 3 - number % 20)))
            kept.append(tracemalloc.get_traced_memory()[0])
        self.assertLess(
            max(kept), SHAPES_BYTES_MAX + (32 << 10)
        )  # this test's own, frames, what others left to collect
        for more, kind in ((0, KnownSend), (1, Command)):
            frame = send(b="y" * (longest + more))
            self.assertIs(type([memory.decode(frame) for _ in range(2)][1]), kind)

    def test_use_pays_for_learning(self) -> None:
        """A producer of four topics in turn is known however long it goes on."""
        memory = HeaderMemory()
        frames = [send(b=f"Topic{number}") for number in range(4)]
        kinds = [type(memory.decode(frame)) for _ in range(1000) for frame in frames]
        self.assertEqual(kinds[4:].count(KnownSend), len(kinds) - 4)
        for number in range(50):
            memory.decode(send(b=f"Other{number}"))
        self.assertGreater(memory._credit, CREDIT_FIRST)


if __name__ == "__main__":
    unittest.main()
