"""HA links: what Java wrote is read and written again, at any cut, and every breach is refused by its name.

Source: facts of DefaultHAConnection and AutoSwitchHAConnection; recorded traffic of RocketMQ 5.5.0; security.md.
"""

from __future__ import annotations

import struct
import unittest
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketha.errors import RemoteProtocolError
from rocketha.wire import ha_formats, ha_frames
from rocketha.wire.ha_frames import (
    BODY_BYTES_MAX,
    EPOCHS_MAX,
    JAVA_BODY_BYTES_MAX,
    OFFSET_MAX,
    ClassicPiece,
    ClassicPieces,
    ClassicReports,
    Dialect,
    EpochEntry,
    LogPiece,
    MasterFrames,
    MasterHello,
    Report,
    SlaveFrames,
    SlaveHello,
)
from tests.wire.support import one_way

HELLO = bytes.fromhex("00000001 0000 0000 0000000000000002")
OLD_HELLO = bytes.fromhex("00000001 0001 0001 0000000f") + b"127.0.0.1:10911"
SEED_HELLO = OLD_HELLO + bytes(35)
NOBODY = memoryview(b"")


def in_cuts(splitter: Any, data: bytes, cuts: Iterable[int]) -> list[Any]:
    """What a splitter makes of a stream that comes in pieces."""
    found, start = [], 0
    for cut in [*sorted(cuts), len(data)]:
        found += splitter.feed(data[start:cut])
        start = cut
    return found


def joined(frames: Sequence[Any]) -> list[Any]:
    """Pieces that follow one another under the same head, as one; a heartbeat stays for itself."""
    found: list[Any] = []
    for frame in frames:
        last = found[-1] if found else None
        if (
            isinstance(frame, LogPiece | ClassicPiece)
            and type(last) is type(frame)
            and last.data
            and frame.data
            and last.offset + len(last.data) == frame.offset
            and last[2:] == frame[2:]
        ):
            found[-1] = last._replace(data=bytes(last.data) + bytes(frame.data))
        else:
            found.append(frame)
    return found


class GoldenTests(unittest.TestCase):
    """Links of RocketMQ 5.5.0."""

    def test_classic(self) -> None:
        """Reports and log frames; the log adds up; the same bytes come out of our writers."""
        pieces = ClassicPieces().feed(one_way("classic", "s2c"))
        self.assertEqual(
            [(piece.offset, len(piece.data)) for piece in pieces], [(0, 18982), (18982, 295), (19277, 0), (19277, 295)]
        )
        written = b"".join(
            ha_frames.encode_classic_head(piece.offset, len(piece.data)) + piece.data for piece in pieces
        )
        self.assertEqual(written, one_way("classic", "s2c"))
        reports = ClassicReports().feed(one_way("classic", "c2s"))
        self.assertEqual(reports, [0, 18982, 19277, 19277, 19572])
        self.assertEqual(b"".join(map(ha_frames.encode_classic_report, reports)), one_way("classic", "c2s"))

    def test_an_empty_slave_joins(self) -> None:
        """Greeting, answer, first report, a heartbeat and the whole log."""
        slave = SlaveFrames().feed(one_way("autoswitch", "c2s"))
        self.assertEqual(slave, [SlaveHello(2), Report(0), Report(19572)])
        master = MasterFrames().feed(one_way("autoswitch", "s2c"))
        self.assertEqual(master[0], MasterHello(19277, 1, (EpochEntry(1, 0),)))
        self.assertEqual(master[1], LogPiece(0, NOBODY, 1, 0, 19572))
        self.assertEqual(master[2]._replace(data=NOBODY), LogPiece(0, NOBODY, 1, 0, 19572))
        self.assertEqual(len(master[2].data), 19572)  # type: ignore[union-attr]

    def test_after_an_election(self) -> None:
        """Two epochs, a greeting that Java sent twice, small frames."""
        slave = SlaveFrames().feed(one_way("autoswitch-epoch-2", "c2s"))
        self.assertEqual(slave[:3], [SlaveHello(1), SlaveHello(1), Report(247)])
        master = MasterFrames().feed(one_way("autoswitch-epoch-2", "s2c"))
        self.assertEqual(master[0], MasterHello(247, 2, (EpochEntry(1, 0), EpochEntry(2, 247))))
        at = 247
        for piece in master[1:]:
            assert isinstance(piece, LogPiece)
            self.assertEqual((piece.offset, piece.epoch, piece.epoch_start), (at, 2, 247))
            at += len(piece.data)
        reports = [frame.offset for frame in slave if isinstance(frame, Report)]
        self.assertEqual(max(reports), at)

    def test_written_again(self) -> None:
        """Our writers make Java's bytes of what was read."""
        for name in ("autoswitch", "autoswitch-epoch-2"):
            slave = [
                ha_frames.encode_slave_hello(frame)
                if isinstance(frame, SlaveHello)
                else ha_frames.encode_report(frame.offset)
                for frame in SlaveFrames().feed(one_way(name, "c2s"))
            ]
            self.assertEqual(b"".join(slave), one_way(name, "c2s"))
            master = [
                ha_frames.encode_master_hello(frame)
                if isinstance(frame, MasterHello)
                else ha_frames.encode_log_head(frame.offset, len(frame.data), *frame[2:]) + frame.data
                for frame in MasterFrames().feed(one_way(name, "s2c"))
            ]
            self.assertEqual(b"".join(master), one_way(name, "s2c"))

    def test_byte_by_byte(self) -> None:
        """However slowly a peer speaks, the same is understood."""
        for splitter, name, way in (
            (ClassicReports, "classic", "c2s"),
            (ClassicPieces, "classic", "s2c"),
            (SlaveFrames, "autoswitch-epoch-2", "c2s"),
            (MasterFrames, "autoswitch-epoch-2", "s2c"),
        ):
            data = one_way(name, way)
            self.assertEqual(joined(in_cuts(splitter(), data, range(len(data)))), joined(splitter().feed(data)))


offsets = st.integers(0, OFFSET_MAX - 1000)
bodies = st.binary(max_size=200)
classic_frames = st.lists(st.tuples(offsets, bodies), max_size=6)
log_frames = st.tuples(offsets, bodies, st.integers(0, 2**31 - 1), offsets, st.integers(-1, OFFSET_MAX))
starts = st.lists(offsets, max_size=5).map(sorted)
greetings = st.builds(
    lambda at, found: MasterHello(
        at, len(found) if found else -1, tuple(EpochEntry(1 + number, each) for number, each in enumerate(found))
    ),
    offsets,
    starts,
)
flags = st.booleans()
old = st.sampled_from([Dialect.V5_0_0, Dialect.V5_1_0, Dialect.SEED])
addresses = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=50)
slave_frames = st.lists(
    st.one_of(
        st.builds(Report, offsets),
        st.builds(SlaveHello, st.integers(1, 2**32 - 1), flags, flags, st.just(Dialect.V5_1_1), st.just("")),
        st.builds(SlaveHello, st.just(-1), flags, flags, old, addresses),
    ),
    max_size=6,
)


class CutTests(unittest.TestCase):
    """Any stream, cut anywhere, is what it is in one piece."""

    @given(classic_frames, st.data())
    def test_classic(self, frames: list[tuple[int, bytes]], data: st.DataObject) -> None:
        """Heads and bodies of a classic master."""
        stream = b"".join(ha_frames.encode_classic_head(at, len(body)) + body for at, body in frames)
        cuts = data.draw(st.sets(st.integers(0, len(stream)), max_size=12))
        expected = [ClassicPiece(at, memoryview(body)) for at, body in frames]
        self.assertEqual(joined(in_cuts(ClassicPieces(), stream, cuts)), joined(expected))

    @given(st.lists(offsets, max_size=8), st.data())
    def test_classic_reports(self, reports: list[int], data: st.DataObject) -> None:
        """Reports of a classic slave."""
        stream = b"".join(map(ha_frames.encode_classic_report, reports))
        cuts = data.draw(st.sets(st.integers(0, len(stream)), max_size=12))
        self.assertEqual(in_cuts(ClassicReports(), stream, cuts), reports)

    @given(slave_frames, st.data())
    def test_slave(self, frames: list[SlaveHello | Report], data: st.DataObject) -> None:
        """Greetings in all dialects and reports; of old greetings alike only the padded one tells, if it came along."""
        stream = b"".join(
            ha_frames.encode_slave_hello(frame)
            if isinstance(frame, SlaveHello)
            else ha_frames.encode_report(frame.offset)
            for frame in frames
        )
        cuts = data.draw(st.sets(st.integers(0, len(stream)), max_size=12))
        found = in_cuts(SlaveFrames(Dialect.V5_0_0), stream, cuts)
        plain = [
            frame._replace(dialect=Dialect.V5_0_0) if isinstance(frame, SlaveHello) and frame.address else frame
            for frame in frames
        ]
        self.assertEqual(
            [
                frame._replace(dialect=Dialect.V5_0_0) if isinstance(frame, SlaveHello) and frame.address else frame
                for frame in found
            ],
            plain,
        )

    @given(st.lists(greetings | log_frames, max_size=6), st.sampled_from(Dialect), st.data())
    def test_master(self, frames: list[Any], dialect: Dialect, data: st.DataObject) -> None:
        """Answers and log frames, in each dialect."""
        stream, expected = b"", []
        for frame in frames:
            if isinstance(frame, MasterHello):
                stream += ha_frames.encode_master_hello(frame, dialect)
                expected.append(frame)
            else:
                at, body, *rest = frame
                stream += ha_frames.encode_log_head(at, len(body), *rest) + body
                expected.append(LogPiece(at, memoryview(body), *rest))
        cuts = data.draw(st.sets(st.integers(0, len(stream)), max_size=12))
        self.assertEqual(joined(in_cuts(MasterFrames(dialect), stream, cuts)), joined(expected))


class DialectTests(unittest.TestCase):
    """A master knows who greets it."""

    def test_each_greeting(self) -> None:
        """By the word after the flags, and by the padding."""
        for data, hello in (
            (HELLO, SlaveHello(2)),
            (OLD_HELLO, SlaveHello(-1, True, True, Dialect.V5_1_0, "127.0.0.1:10911")),
            (SEED_HELLO, SlaveHello(-1, True, True, Dialect.SEED, "127.0.0.1:10911")),
        ):
            self.assertEqual(SlaveFrames().feed(data), [hello])
            self.assertEqual(ha_frames.encode_slave_hello(hello), data)
            report = ha_frames.encode_report(7)
            self.assertEqual(SlaveFrames().feed(data + report), [hello, Report(7)])
        self.assertEqual(len(SEED_HELLO), 62)

    def test_an_old_slave_is_known_before_its_padding_comes(self) -> None:
        """It waits for the answer after 12 + n bytes, so nothing more may be waited for."""
        splitter = SlaveFrames(Dialect.V5_0_0)
        (hello,) = splitter.feed(OLD_HELLO)
        self.assertEqual(hello, SlaveHello(-1, True, True, Dialect.V5_0_0, "127.0.0.1:10911"))
        self.assertEqual(splitter.feed(bytes(20)), [])
        self.assertEqual(splitter.feed(bytes(15) + ha_frames.encode_report(9)), [Report(9)])

    def test_padding_of_each_width(self) -> None:
        """From none (an address of 50 bytes) to 49, followed by a greeting again or a report."""
        for width in range(1, 51):
            hello = SlaveHello(-1, False, False, Dialect.SEED, "a" * width)
            data = ha_frames.encode_slave_hello(hello)
            self.assertEqual(len(data), 62)
            found = SlaveFrames().feed(data + data + ha_frames.encode_report(1))
            self.assertEqual([type(frame) for frame in found], [SlaveHello, SlaveHello, Report])
            self.assertEqual(found[0].address, hello.address)  # type: ignore[union-attr]

    def test_the_short_greeting_waits_for_its_id(self) -> None:
        """Java reads past 12 to 15 bytes; here all 16 have to be there."""
        splitter = SlaveFrames()
        for cut in range(12, 16):
            self.assertEqual(splitter.feed(HELLO[cut - 1 : cut] if cut > 12 else HELLO[:12]), [])
        self.assertEqual(splitter.feed(HELLO[15:]), [SlaveHello(2)])

    def test_two_greetings_without_an_address_never_report(self) -> None:
        """5.1.0 without an address, sent twice, looks like id 1 until the second one's flags stand for a state."""
        nameless = bytes.fromhex("00000001 0000 0000 00000000")
        splitter = SlaveFrames()
        self.assertEqual(splitter.feed(nameless), [])
        with self.assertRaisesRegex(RemoteProtocolError, "state 0 from a slave"):
            splitter.feed(nameless)

    def test_the_answer_of_5_0_0(self) -> None:
        """36 bytes before the epochs, where all others have 20."""
        hello = MasterHello(500, 3, (EpochEntry(1, 0), EpochEntry(3, 100)))
        short, long = ha_frames.encode_master_hello(hello), ha_frames.encode_master_hello(hello, Dialect.V5_0_0)
        self.assertEqual((len(short), len(long)), (44, 60))
        self.assertEqual(long, short[:20] + bytes(16) + short[20:])
        self.assertEqual(MasterFrames(Dialect.V5_0_0).feed(long), [hello])
        for dialect in (Dialect.V5_1_0, Dialect.V5_1_1, Dialect.SEED):
            self.assertEqual(MasterFrames(dialect).feed(ha_frames.encode_master_hello(hello, dialect)), [hello])

    def test_a_master_without_log_and_epochs(self) -> None:
        """Greeting and heartbeats of an empty master."""
        empty = MasterHello(0, -1, ())
        heartbeat = ha_frames.encode_log_head(-1, 0, -1, -1, -1)
        found = MasterFrames().feed(ha_frames.encode_master_hello(empty) + heartbeat)
        self.assertEqual(found, [empty, LogPiece(-1, NOBODY, -1, -1, -1)])


class BoundTests(unittest.TestCase):
    """Nothing that a peer says makes us hold more than one head."""

    def test_bodies_are_passed_on_without_a_copy(self) -> None:
        """The pieces are views of what was read, and nothing of a body is held."""
        body = bytes(BODY_BYTES_MAX)
        for splitter, head in (
            (ClassicPieces(), ha_frames.encode_classic_head(100, len(body))),
            (MasterFrames(), ha_frames.encode_log_head(100, len(body), 1, 0, 0)),
        ):
            self.assertEqual(splitter.feed(head), [])
            at = 100
            for start in range(0, len(body), 1 << 16):
                read = body[start : start + (1 << 16)]
                (piece,) = splitter.feed(read)
                self.assertIs(piece.data.obj, read)  # type: ignore[union-attr]
                self.assertEqual((piece.offset, len(piece.data), splitter.held), (at, 1 << 16, 0))  # type: ignore[union-attr]
                at += 1 << 16
        self.assertEqual(JAVA_BODY_BYTES_MAX + 36, 4 * 1024 * 1024)

    def test_held(self) -> None:
        """At most a head less one byte; of a greeting its announced and judged size."""
        for splitter, data, most in (
            (ClassicReports(), ha_frames.encode_classic_report(1), 7),
            (ClassicPieces(), ha_frames.encode_classic_head(1, 5), 11),
            (SlaveFrames(), ha_frames.encode_slave_hello(SlaveHello(-1, address="a" * 50, dialect=Dialect.SEED)), 61),
            (SlaveFrames(), SEED_HELLO, 26),
            (MasterFrames(), ha_frames.encode_log_head(1, 5, 1, 0, 0), 35),
            (MasterFrames(), ha_frames.encode_master_hello(MasterHello(1, 1, (EpochEntry(1, 0),) * 1)), 31),
        ):
            held = 0
            for byte in data:
                splitter.feed(bytes((byte,)))  # type: ignore[attr-defined]
                held = max(held, splitter.held)  # type: ignore[attr-defined]
            self.assertEqual((held, splitter.held), (most, 0), data)  # type: ignore[attr-defined]

    def test_most_epochs(self) -> None:
        """The largest greeting that is allowed, slowly, and one epoch more."""
        entries = tuple(EpochEntry(number, number) for number in range(EPOCHS_MAX))
        data = ha_frames.encode_master_hello(MasterHello(0, EPOCHS_MAX - 1, entries))
        (hello,) = in_cuts(MasterFrames(), data, range(0, len(data), 100))
        self.assertEqual(hello.entries, entries)
        with self.assertRaisesRegex(RemoteProtocolError, "65537 epochs"):
            ha_frames.encode_master_hello(MasterHello(0, 1, (*entries, EpochEntry(EPOCHS_MAX, EPOCHS_MAX))))
        with self.assertRaisesRegex(RemoteProtocolError, "bytes of epochs"):
            MasterFrames().feed(struct.pack(">ii", 1, 12 * (EPOCHS_MAX + 1)))

    def test_body_limit(self) -> None:
        """A master may be allowed larger bodies than Java's buffers have room for."""
        for splitter, head in (
            (ClassicPieces, ha_frames.encode_classic_head(0, BODY_BYTES_MAX + 1)),
            (MasterFrames, ha_frames.encode_log_head(0, BODY_BYTES_MAX + 1, 1, 0, 0)),
        ):
            with self.assertRaisesRegex(RemoteProtocolError, "4194304 are allowed"):
                splitter().feed(head)
            self.assertEqual(splitter(body_limit=BODY_BYTES_MAX + 1).feed(head), [])


def log_head(size: int, offset: int, epoch: int = 1, start: int = 0, confirmed: int = 0, state: int = 2) -> bytes:
    """A head as nobody checks it."""
    return struct.pack(">iiqiqq", state, size, offset, epoch, start, confirmed)


def answer(*entries: tuple[int, int], size: int | None = None, offset: int = 0, epoch: int = 1) -> bytes:
    """An answer as nobody checks it."""
    rows = b"".join(struct.pack(">iq", *entry) for entry in entries)
    return struct.pack(">iiqi", 1, len(rows) if size is None else size, offset, epoch) + rows


class RefusalTests(unittest.TestCase):
    """Signed numbers of Java: negative and overflowing ones are named, not used."""

    def refused(self, splitter: Any, data: bytes, text: str) -> None:
        """At once, and when the bytes come one by one."""
        for cuts in ((), range(len(data))):
            with (
                self.subTest(text, data=data[:40].hex(), cuts=bool(cuts)),
                self.assertRaisesRegex(RemoteProtocolError, text),
            ):
                in_cuts(splitter(), data, cuts)

    def test_master_streams(self) -> None:
        """What a slave does not take."""
        for data, text in (
            (log_head(5, 0, state=0), "state 0 from a master"),
            (log_head(5, 0, state=3), "state 3 from a master"),
            (log_head(5, 0, state=-1), "state -1 from a master"),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "state 1213486160 from a master"),
            (log_head(-1, 0), "-1 bytes at log offset 0"),
            (log_head(-(2**31), 0), "-2147483648 bytes"),
            (log_head(2**31 - 1, 0), "2147483647 bytes, 4194304 are allowed"),
            (log_head(5, -1), "5 bytes at log offset -1"),
            (log_head(0, -2), "0 bytes at log offset -2"),
            (log_head(5, 2**63 - 5), "5 bytes at log offset 9223372036854775803"),
            (log_head(5, 0, epoch=-1), "epoch -1"),
            (log_head(0, 0, epoch=-2), "epoch -2"),
            (log_head(5, 0, start=-1), "starts at -1"),
            (log_head(0, 0, start=-2), "starts at -2"),
            (log_head(5, 0, confirmed=-2), "confirmed up to -2"),
            (answer(size=-12), "-12 bytes of epochs"),
            (answer(size=13), "13 bytes of epochs"),
            (answer(size=12 * 10**6), "12000000 bytes of epochs"),
            (answer(offset=-1), "a greeting of log offset -1"),
            (answer(epoch=-2), "a master of epoch -2"),
            (answer((1, 0), (1, 5)), "epoch 1 from 5 after epoch 1 from 0"),
            (answer((1, 7), (2, 5)), "epoch 2 from 5 after epoch 1 from 7"),
            (answer((-1, 0)), "epoch -1 from 0"),
            (answer((1, -1)), "epoch 1 from -1"),
        ):
            self.refused(MasterFrames, data, text)
        for offset, size, text in (
            (-1, 5, "5 bytes at log offset -1"),
            (-1, 0, "0 bytes at log offset -1"),
            (0, -1, "-1 bytes"),
            (2**63 - 5, 5, "5 bytes at log offset"),
            (0, 2**31 - 1, "are allowed"),
        ):
            self.refused(ClassicPieces, struct.pack(">qi", offset, size), text)

    def test_slave_streams(self) -> None:
        """What a master does not take."""
        self.refused(ClassicReports, struct.pack(">qqq", 1, -1, 2), "a report of log offset -1")
        for data, text in (
            (struct.pack(">iq", 2, -1), "a report of log offset -1"),
            (struct.pack(">iq", 2, -(2**63)), "a report of log offset -9223372036854775808"),
            (struct.pack(">iq", 0, 1), "state 0 from a slave"),
            (struct.pack(">iq", 4, 1), "state 4 from a slave"),
            (struct.pack(">iq", -(2**31), 1), "state -2147483648"),
            (b"GET / HTTP/1.1\r\n", "state 1195725856 from a slave"),
            (struct.pack(">ihhq", 1, 2, 0, 1), "flags 2 and 0"),
            (struct.pack(">ihhq", 1, 0, -1, 1), "flags 0 and -1"),
            (struct.pack(">ihhq", 1, 0, 0, 0), "broker id 0"),
            (struct.pack(">ihhq", 1, 0, 0, -1), "neither a broker id nor an address: -0x1"),
            (struct.pack(">ihhq", 1, 0, 0, 51 << 32), "neither a broker id nor an address: 0x33"),
            (struct.pack(">ihhi", 1, 0, 0, 3) + b"\xff\xfe\xfd", "not UTF-8"),
            (struct.pack(">ihhi", 1, 0, 0, 3) + b"a\nb", "address in an HA greeting is 'a"),
            (struct.pack(">ihhi", 1, 0, 0, 3) + b"a:1" + bytes(4) + b"x" * 43, "padding is not zero"),
        ):
            self.refused(SlaveFrames, data, text)

    def test_writers(self) -> None:
        """What no reader of ours would take is not written."""
        hello = SlaveHello(-1, address="a" * 51, dialect=Dialect.V5_1_0)
        for write, text in (
            (lambda: ha_frames.encode_report(-1), "a report of log offset -1"),
            (lambda: ha_frames.encode_report(2**63), "a report of log offset 9223372036854775808"),
            (lambda: ha_frames.encode_classic_report(-1), "a report of log offset -1"),
            (lambda: ha_frames.encode_classic_head(-1, 1), "1 bytes at log offset -1"),
            (lambda: ha_frames.encode_classic_head(0, 1 << 31), "cannot write offset, size"),
            (lambda: ha_frames.encode_log_head(-1, 1, 1, 0, 0), "1 bytes at log offset -1"),
            (lambda: ha_frames.encode_log_head(0, 1, -1, 0, 0), "epoch -1"),
            (lambda: ha_frames.encode_log_head(0, 1, 1 << 31, 0, 0), "cannot write state"),
            (lambda: ha_frames.encode_slave_hello(SlaveHello(0)), "broker id 0"),
            (lambda: ha_frames.encode_slave_hello(SlaveHello(1 << 32)), "broker id 4294967296"),
            (lambda: ha_frames.encode_slave_hello(hello), "an address of 51 bytes"),
            (lambda: ha_frames.encode_slave_hello(hello._replace(address="")), "an address of 0 bytes"),
            (lambda: ha_frames.encode_slave_hello(hello._replace(address="a\n")), "the address in an HA greeting"),
            (lambda: ha_frames.encode_master_hello(MasterHello(-1, 1, ())), "a greeting of log offset -1"),
            (lambda: ha_frames.encode_master_hello(MasterHello(0, 1, (EpochEntry(2, 0), EpochEntry(1, 5)))), "epoch 1"),
            (lambda: ha_frames.encode_master_hello(MasterHello(0, 1, (EpochEntry(1 << 31, 0),))), "epoch 2147483648"),
        ):
            with self.subTest(text), self.assertRaisesRegex(RemoteProtocolError, text):
                write()


class WholeFrameTests(unittest.TestCase):
    """The readers that tools use."""

    def test_one_frame_and_no_more(self) -> None:
        """Half a frame, two frames and frames of another kind are refused."""
        data = ha_formats.write_log_frame(ha_formats.LogFrame(10, 1, 0, 5, b"abc"))
        self.assertEqual(ha_formats.read_log_frame(data), ha_formats.LogFrame(10, 1, 0, 5, b"abc"))
        classic = ha_formats.write_classic_frame(ha_formats.ClassicFrame(10, b"abc"))
        self.assertEqual(ha_formats.read_classic_frame(classic), ha_formats.ClassicFrame(10, b"abc"))
        for read, bad in (
            (ha_formats.read_log_frame, data[:-1]),
            (ha_formats.read_log_frame, data + data),
            (ha_formats.read_log_frame, data + b"\0"),
            (ha_formats.read_log_frame, b""),
            (ha_formats.read_log_frame, answer((1, 0))),
            (ha_formats.read_master_hello, data),
            (ha_formats.read_classic_frame, classic[:-1]),
            (ha_formats.read_classic_frame, classic + classic),
            (ha_formats.read_classic_report, bytes(16)),
            (lambda each: ha_formats.read_slave_frame(each, Report), HELLO),
            (lambda each: ha_formats.read_slave_frame(each, SlaveHello), ha_frames.encode_report(1)),
        ):
            with self.assertRaises(RemoteProtocolError):
                read(bad)
