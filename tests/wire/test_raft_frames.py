"""Raft's frames: whole, cut, altered, and refused where a rule of theirs is broken."""

from __future__ import annotations

import struct
import unittest
import zlib

from rocketha.errors import RemoteProtocolError
from rocketha.wire import raft_frames
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.raft_frames import (
    Hello,
    MessageWriter,
    Ping,
    Proof,
    Refusal,
    UnknownVersion,
    decode,
    encode,
    opened,
    seal,
)
from rocketha.wire.raft_values import Entry, EntryKind, Kind, Members, Message, SnapshotMeta
from rocketha.wire.spec import raft as spec

MEMBERS = Members(voters=frozenset({"n0", "n1"}), addresses={"n0": "host-a:1", "n1": "[::1]:2"})
ENTRIES = (Entry(8, 2, EntryKind.NORMAL, b"a" * 300), Entry(9, 3, EntryKind.NO_OP, b""), Entry(10, 3, 1, b"b"))
MESSAGES = (
    Message(Kind.VOTE, "n0", "n1", 3, 10, 2, 8, context=1),
    Message(Kind.HEART_BEAT_ANSWER, "n0", "n1", (1 << 63) - 1, reject=True, context=77),
    Message(Kind.APPEND, "n0", "n1", 3, 7, 2, 6),
    Message(Kind.APPEND, "n0", "n1", 3, 7, 2, 6, entries=ENTRIES),
    Message(Kind.APPEND_ANSWER, "n0", "n1", 3, 7, reject=True, hint_index=5, hint_term=2),
    Message(Kind.SNAPSHOT, "n0", "n1", 3, snapshot=SnapshotMeta(5, 2, MEMBERS), offset=10, data=b"xyz", done=True),
    Message(Kind.SNAPSHOT, "n0", "n1", 3, snapshot=SnapshotMeta(5, 2, MEMBERS)),
)


class FrameTests(unittest.TestCase):
    """What is written is read, and nothing else is."""

    def test_messages_round_trip(self) -> None:
        """Every field of every kind comes back, with the names of the connection."""
        for message in MESSAGES:
            with self.subTest(message.kind.name):  # type: ignore[attr-defined]
                (frame,) = FrameBuffer().feed(MessageWriter().frame(message))
                self.assertEqual(decode(opened(frame), "n0", "n1"), message)
                self.assertEqual(seal(encode(message)), MessageWriter().frame(message))

    def test_a_changed_byte_is_noticed(self) -> None:
        """Whatever byte of a frame changes, its CRC or its length says so."""
        whole = MessageWriter().frame(MESSAGES[1])
        for at in range(4, len(whole)):
            with self.assertRaises(RemoteProtocolError):
                opened(whole[4:at] + bytes([whole[at] ^ 0x40]) + whole[at + 1 :])

    def test_entries_are_written_once_for_all_followers(self) -> None:
        """The bytes of the last APPEND's entries are kept, and never taken for other entries."""
        writer = MessageWriter()
        one = writer.frame(MESSAGES[3])
        self.assertEqual(writer.frame(MESSAGES[3]._replace(to="n2")), one)
        kept = writer._bytes
        again = tuple(ENTRIES)
        writer.frame(MESSAGES[3]._replace(entries=again))
        self.assertIs(writer._bytes, kept)
        other = (ENTRIES[0], Entry(9, 4, 1, b"other"), ENTRIES[2]._replace(term=4))
        self.assertEqual(
            decode(opened(writer.frame(MESSAGES[3]._replace(entries=other))[4:]), "n0", "n1").entries, other
        )
        self.assertEqual(decode(opened(writer.frame(MESSAGES[3])[4:])).entries, ENTRIES)

    def test_refused(self) -> None:
        """Each breach by its name; nothing but RemoteProtocolError leaves the codec."""
        plain, append, snapshot = (encode(MESSAGES[at]) for at in (0, 3, 5))
        head = 58
        for what, data in {
            "empty": b"",
            "short": plain[:-1],
            "a byte too many": plain + b"\0",
            "kind 0": b"\0" + plain[1:],
            "kind 14": b"\x0e" + plain[1:],
            "flags": plain[:1] + b"\x04" + plain[2:],
            "term": plain[:2] + b"\x80" + plain[3:],
            "entry cut": append[:-1],
            "entry head cut": append[: head + 5],
            "entry kind 0": append[:head] + b"\0" + append[head + 1 :],
            "entry term": append[: head + 1] + b"\xff" + append[head + 2 :],
            "entry length": append[: head + 9] + b"\xff\xff\xff\xff" + append[head + 13 :],
            "members length": snapshot[: head + 24] + b"\xff\xff\xff\xff" + snapshot[head + 28 :],
            "members": snapshot[: head + 28] + b"\xff" * 20 + snapshot[head + 48 :],
            "snapshot index": snapshot[:head] + b"\xff" + snapshot[head + 1 :],
        }.items():
            with self.subTest(what), self.assertRaises(RemoteProtocolError):
                decode(data)
        for frame in (b"", b"\0\0\0\0", b"\0\0\0\0x"):
            with self.subTest(frame), self.assertRaises(RemoteProtocolError):
                opened(frame)

    def test_numbers_that_do_not_fit(self) -> None:
        """Our own mistake is named when it is written, not sent."""
        for message in (MESSAGES[0]._replace(term=-1), MESSAGES[5]._replace(snapshot=None)):
            with self.assertRaises(RemoteProtocolError):
                encode(message)


class GreetingTests(unittest.TestCase):
    """HELLO, WELCOME, ERROR, PING, PONG."""

    def test_round_trip(self) -> None:
        """Names in any language, host names with dashes, IPv6."""
        for hello in (
            Hello("group", "n0", "n1", "controller-0.my-net.example:9878", 1 << 63, False, b"", 99),
            Hello("\u7ec4", "\u8282\u70b9", "n" * 64, "[fe80::1%eth0]:9878", 0, True),
        ):
            self.assertEqual(raft_frames.decode_hello(raft_frames.encode_hello(hello)), hello)
        refusal = Refusal(4, "who are you")
        self.assertEqual(raft_frames.decode_refusal(raft_frames.encode_refusal(refusal)), refusal)
        for proof in (Proof(b"p" * 32), Proof(b"p" * 32, b"n" * 16, True)):
            self.assertEqual(raft_frames.decode_proof(raft_frames.encode_proof(proof)), proof)
        for ping in (Ping(7), Ping(7, True)):
            self.assertEqual(raft_frames.decode_ping(raft_frames.encode_ping(ping)), ping)

    def test_another_version_can_be_told(self) -> None:
        """What follows the version may be anything there: it is not looked at."""
        data = struct.pack(">BHQ", spec.HELLO, 2, 5) + b"something new"
        with self.assertRaises(UnknownVersion):
            raft_frames.decode_hello(data)

    def test_a_newer_program_that_still_speaks_ours(self) -> None:
        """It writes its HELLO in the oldest version and names the newest; today's bytes say 1 and none newer."""
        hello = Hello("group", "n0", "n1", "h:1", 1)
        data = raft_frames.encode_hello(hello)
        self.assertEqual((data[1:3], raft_frames.decode_hello(data).newest), (b"\x00\x01", 1))
        self.assertEqual(raft_frames.decode_hello(data[:1] + b"\x02" + data[2:]), hello._replace(newest=3))
        self.assertEqual(raft_frames.encode_hello(hello._replace(newest=3))[1:3], b"\x02\x01")
        with self.assertRaisesRegex(UnknownVersion, "version 2 to 4 of the raft protocol, 1 is spoken here"):
            raft_frames.decode_hello(data[:1] + b"\x02\x02" + data[3:])
        with self.assertRaisesRegex(UnknownVersion, "version 0 of"):
            raft_frames.decode_hello(data[:1] + b"\x00\x00" + data[3:])

    def test_bounds(self) -> None:
        """Names that are empty, too long or no UTF-8; kinds that are none of these."""
        good = Hello("group", "n0", "n1", "h:1", 1)
        for bad in (good._replace(group="g" * 121), good._replace(sender=""), good._replace(receiver="r" * 65)):
            with self.assertRaises(RemoteProtocolError):
                raft_frames.decode_hello(raft_frames.encode_hello(bad))
        data = raft_frames.encode_hello(good)
        for broken in (b"\x07" + data[1:], data[:-1], data + b"\0", data.replace(b"n0", b"\xff\xfe"), data[:18]):
            with self.subTest(broken), self.assertRaises(RemoteProtocolError):
                raft_frames.decode_hello(broken)
        for broken in (b"", b"\x46" + b"\0" * 8, b"\x43" + b"\0" * 9):
            with self.subTest(broken), self.assertRaises(RemoteProtocolError):
                raft_frames.decode_ping(broken)
        for broken in (b"", b"\x44" + b"\0" * 48, b"\x45" + b"\0" * 49):
            with self.subTest(broken), self.assertRaises(RemoteProtocolError):
                raft_frames.decode_proof(broken)
        with self.assertRaises(RemoteProtocolError):
            raft_frames.decode_refusal(b"\x40\x01\x00\x00")

    def test_a_long_reason_is_cut_between_characters(self) -> None:
        """An ERROR never is refused for its length."""
        text = raft_frames.decode_refusal(raft_frames.encode_refusal(Refusal(1, "\u00fc" * 5000))).text
        self.assertEqual(text, "\u00fc" * 500)

    def test_crc_is_the_usual_one(self) -> None:
        """Another implementation needs no table of ours: zlib's CRC-32, big-endian, behind the length."""
        self.assertEqual(seal(b"abc"), struct.pack(">II", 7, zlib.crc32(b"abc")) + b"abc")
