"""DLedger's bodies: Java's are understood and come out again, and what can not be is named.

Source: facts/dledger.md, sections 2 and 3 (printed by the shipped classes of dledger 0.3.2, and seen on running
members); ``RequestOrResponse`` and its subclasses.
"""

from __future__ import annotations

import base64
import functools
import json
import random
import unittest
from collections.abc import Callable
from typing import Any

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.protocols.endpoints import parse_peers
from rocketha.wire import dledger, dledger_json, remoting
from rocketha.wire import dledger_values as values
from rocketha.wire.dledger_json import decode, decode_entry, decode_request, encode, encode_entry
from rocketha.wire.dledger_values import (
    CODES,
    EXCHANGES,
    AppendAnswer,
    AppendRequest,
    DLedgerRequestCode,
    DLedgerResponseCode,
    Entry,
    GetAnswer,
    GetRequest,
    HeartBeatAnswer,
    HeartBeatRequest,
    Message,
    MetadataAnswer,
    MetadataRequest,
    PushAnswer,
    PushRequest,
    PushType,
    TransferAnswer,
    TransferRequest,
    VoteAnswer,
    VoteRequest,
    VoteResult,
    entries_of,
    peers_text,
    raw_entries,
)
from rocketha.wire.fuzz.case import CUT, HOSTILE, MUTATED, VALID
from rocketha.wire.fuzz.contract import judge
from rocketha.wire.fuzz.generator import Generator
from rocketha.wire.registry import FORMATS
from rocketha.wire.spec import dledger_json as spec

SEED = 51004
LONG_MAX = (1 << 63) - 1

ENTRY = b'{"body":"aGVsbG8=","bodyCrc":0,"chainCrc":0,"channel":0,"index":7,"magic":1,"pos":292,"size":53,"term":3}'
PUSH = (
    b'{"batch":false,"batchEntry":[],"code":200,"commitIndex":6,"count":1,"entry":%b,"firstEntryIndex":7,'
    b'"group":"g","lastEntryIndex":7,"leaderId":"n0","localId":"n0","remoteId":"n1","term":3,"totalSize":0,'
    b'"type":"APPEND"}' % ENTRY
)
"""As the shipped classes print it."""

HELLO = Entry(1, 53, 7, 3, 292, 0, 0, 0, b"hello")


def entry(index: int, body: bytes = b"", term: int = 3, position: int = 0) -> Entry:
    """An entry that is right in itself."""
    return Entry(1, 48 + len(body), index, term, position, 0, 0, 0, body)


def run(chance: random.Random, count: int, filled: int = 200) -> tuple[Entry, ...]:
    """Entries as they lie in a log."""
    index, term, position = chance.randrange(1 << 40), chance.randrange(1 << 20), chance.randrange(1 << 50)
    found = []
    for number in range(count):
        found.append(entry(index + number, chance.randbytes(chance.randrange(filled)), term, position))
        position += found[-1].size
        term += chance.random() < 0.1
    return tuple(found)


def some(chance: random.Random, kind: type[Message]) -> Message:
    """A message of a type, with something in every member."""
    made: dict[str, Any] = {}
    for field in attrs.fields(kind):
        if field.name == "entry":
            made["entry"] = None if chance.random() < 0.5 else run(chance, 1)[0]
        elif field.name in ("batch", "entries"):
            made[field.name] = run(chance, chance.choice((0, 1, 2, 30)))
        elif field.name == "peers":
            made["peers"] = {f"n{number}": f"10.0.0.{number}:9878" for number in range(chance.randrange(5))}
        elif field.name == "kind":
            made["kind"] = chance.choice(list(PushType))
        elif field.name == "vote_result":
            made["vote_result"] = chance.choice(list(VoteResult))
        elif field.name == "body":
            made["body"] = chance.randbytes(chance.randrange(300))
        elif field.name in ("code", "count"):
            made[field.name] = chance.choice((-(1 << 31), 0, 200, 406, (1 << 31) - 1))
        elif isinstance(field.default, str):
            made[field.name] = chance.choice(("", "n0", "broker-a", "Größe 量", '\x01"\\', "a" * 255))
        else:
            made[field.name] = chance.choice((-(1 << 63), -1, 0, chance.getrandbits(62), LONG_MAX))
    return kind(**made)


KINDS = [kind for exchange in EXCHANGES.values() for kind in exchange]


class VectorTests(unittest.TestCase):
    """What Java wrote."""

    def test_a_push(self) -> None:
        """Its values, and the same bytes again: members in fastjson's order, those that it computes included."""
        found = decode(PushRequest, PUSH)
        wanted = PushRequest(
            group="g",
            leader_id="n0",
            local_id="n0",
            remote_id="n1",
            term=3,
            kind=PushType.APPEND,
            commit_index=6,
            entry=HELLO,
        )
        self.assertEqual(found, wanted)
        self.assertEqual((found.entries, found.count, found.first_index, found.last_index), ((HELLO,), 1, 7, 7))
        self.assertEqual(json.loads(encode(found)), json.loads(PUSH))
        self.assertEqual(encode(found), PUSH)

    def test_an_entry(self) -> None:
        """By itself."""
        self.assertEqual(decode_entry(ENTRY), HELLO)
        self.assertEqual(encode_entry(HELLO), ENTRY)

    def test_a_batch(self) -> None:
        """The computed members are of the batch; an entry beside it does not count; totalSize is of the batch only."""
        batch = (entry(8, b"ab"), entry(9, b"", 4), entry(10, b"abc", 4))
        found = json.loads(encode(PushRequest(batch=batch, entry=HELLO)))
        computed = {name: found[name] for name in ("batch", "count", "firstEntryIndex", "lastEntryIndex", "totalSize")}
        self.assertEqual(
            computed, {"batch": True, "count": 3, "firstEntryIndex": 8, "lastEntryIndex": 10, "totalSize": 149}
        )
        self.assertEqual([row["body"] for row in found["batchEntry"]], ["YWI=", "", "YWJj"])
        commit = json.loads(encode(PushRequest(kind=PushType.COMMIT, commit_index=9)))
        self.assertNotIn("entry", commit)
        self.assertEqual(
            [commit[name] for name in ("batchEntry", "count", "firstEntryIndex", "lastEntryIndex")], [[], 0, -1, -1]
        )

    def test_the_frame_of_an_answer(self) -> None:
        """Seen live: its header says 200 whatever the body says."""
        header = b'{"code":200,"flag":1,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":513}'
        body = b'{"code":200,"group":"group1","leaderId":"n0","peers":{"n0":"127.0.0.1:9878"},"term":-1}'
        command = remoting.decode(len(header).to_bytes(4, "big") + header + body)
        self.assertEqual((command.code, command.is_response), (DLedgerResponseCode.SUCCESS, True))
        wanted = MetadataAnswer(group="group1", leader_id="n0", peers={"n0": "127.0.0.1:9878"})
        self.assertEqual(decode(MetadataAnswer, command.body), wanted)
        self.assertEqual(encode(wanted), body)

    def test_small_ones(self) -> None:
        """What Java's classes print when they are new, and filled: null texts are left out, numbers never are."""
        rows: tuple[tuple[Message, bytes], ...] = (
            (HeartBeatRequest(), b'{"code":200,"term":-1}'),
            (GetRequest(), b'{"code":200,"term":-1}'),
            (GetRequest(begin_index=5), b'{"beginIndex":5,"code":200,"term":-1}'),
            (GetAnswer(), b'{"code":200,"entries":[],"term":-1}'),
            (AppendRequest(group="g", body=b"\xff\xfe"), b'{"body":"//4=","code":200,"group":"g","term":-1}'),
            (AppendAnswer(), b'{"code":200,"index":-1,"pos":-1,"term":-1}'),
            (VoteRequest(), b'{"code":200,"ledgerEndIndex":-1,"ledgerEndTerm":-1,"term":-1}'),
            (VoteAnswer(term=4), b'{"code":200,"term":4,"voteResult":"UNKNOWN"}'),
            (PushAnswer(), b'{"beginIndex":0,"code":200,"count":0,"endIndex":0,"term":-1}'),
            (
                PushAnswer(entry_index=7, count=1, begin_index=2, end_index=6, code=406),
                b'{"beginIndex":2,"code":406,"count":1,"endIndex":6,"index":7,"term":-1}',
            ),
            (
                TransferRequest(transfer_id="n0", transferee_id="n1"),
                b'{"code":200,"takeLeadershipLedgerIndex":0,"term":-1,"transferId":"n0","transfereeId":"n1"}',
            ),
        )
        for message, body in rows:
            with self.subTest(body):
                self.assertEqual(encode(message), body)
                self.assertEqual(decode(type(message), body), message)


class NumberTests(unittest.TestCase):
    """Codes and names."""

    def test_codes(self) -> None:
        """Section 2 of the facts; a number that nobody knows is UNKNOWN, as Java has it."""
        self.assertEqual(
            [code.value for code in DLedgerRequestCode], [50000, 50001, 50002, 51001, 51002, 51003, 51004, 51005]
        )
        numbers = [-1, 200, *range(300, 304), *range(400, 421), *range(500, 508)]
        self.assertEqual([code.value for code in DLedgerResponseCode], numbers)
        self.assertIs(DLedgerResponseCode(406), DLedgerResponseCode.INCONSISTENT_STATE)
        self.assertIs(DLedgerResponseCode(421), DLedgerResponseCode.UNKNOWN)

    def test_names(self) -> None:
        """A name is what is written; their order is that of Java's ordinals."""
        for names in (VoteResult, PushType):
            self.assertEqual([each.name for each in names], [each.value for each in names])
        self.assertEqual([each.name for each in PushType], ["APPEND", "COMMIT", "COMPARE", "TRUNCATE"])
        self.assertEqual(len(VoteResult), 12)

    def test_requests_by_code(self) -> None:
        """Every code but PULL's has a request and an answer."""
        for code, exchange in EXCHANGES.items():
            self.assertEqual(CODES[exchange.request], code)
            self.assertEqual(decode_request(code, b"{}"), exchange.request())
        for code in (DLedgerRequestCode.PULL, 51006, 1005, -1):
            with self.assertRaisesRegex(RemoteProtocolError, f"^request {int(code)} is none of DLedger's$"):
                decode_request(code, b"{}")

    def test_the_specification_says_the_same(self) -> None:
        """Each declared format names what its message writes, no more and no less, in the same order."""
        chance = random.Random(SEED)
        full: tuple[tuple[Any, Message], ...] = (
            (spec.MESSAGE, HeartBeatRequest()),
            (spec.METADATA_ANSWER, MetadataAnswer(peers={"n0": "h:1"})),
            (spec.APPEND_REQUEST, AppendRequest()),
            (spec.APPEND_ANSWER, AppendAnswer()),
            (spec.GET_REQUEST, GetRequest(begin_index=0)),
            (spec.GET_ANSWER, GetAnswer()),
            (spec.VOTE_REQUEST, VoteRequest()),
            (spec.VOTE_ANSWER, VoteAnswer()),
            (spec.PUSH_REQUEST, PushRequest(entry=run(chance, 1)[0])),
            (spec.PUSH_ANSWER, PushAnswer(entry_index=0)),
            (spec.TRANSFER_REQUEST, TransferRequest(transfer_id="a", transferee_id="b")),
        )
        for declared, message in full:
            named = attrs.evolve(message, group="g", local_id="a", remote_id="b", leader_id="c")
            self.assertEqual(list(json.loads(encode(named))), list(declared.subcon.members), declared.name)
        self.assertEqual(list(json.loads(ENTRY)), list(spec.ENTRY.subcon.members))
        for kind in (MetadataRequest, HeartBeatAnswer, TransferAnswer):
            self.assertEqual(encode(kind()), encode(HeartBeatRequest()))


class LeniencyTests(unittest.TestCase):
    """What fastjson takes is taken."""

    def test_defaults(self) -> None:
        """What is absent, null or an empty text is what Java's class begins with."""
        for kind in KINDS:
            names = {member for form in dledger_json.FORMATS for member in form.spec.subcon.members}
            names -= {"type"}  # null is no type
            empty = json.dumps(dict.fromkeys(sorted(names))).encode()
            for body in (b"{}", b" {} ", empty, b'{"term":"","code":"null","group":null}'):
                with self.subTest(kind.__name__, body=body[:40]):
                    self.assertEqual(decode(kind, body), kind())

    def test_unknown_members(self) -> None:
        """A newer member may say more, in messages and in entries."""
        more = b'{"a":[1,{"b":null}],"preLogIndex":5,' + PUSH[1:]
        self.assertEqual(decode(PushRequest, more), decode(PushRequest, PUSH))
        self.assertEqual(decode_entry(b'{"x":{},' + ENTRY[1:]), HELLO)

    def test_computed_members_are_not_read(self) -> None:
        """They may say anything."""
        wrong = PUSH.replace(b'"count":1', b'"count":"x"').replace(b'"batch":false', b'"batch":[]')
        self.assertEqual(decode(PushRequest, wrong), decode(PushRequest, PUSH))

    def test_coercions(self) -> None:
        """Numbers may be texts, decimals or booleans; texts may be numbers."""
        found = decode(VoteRequest, b'{"term":"12","code":"401","ledgerEndIndex":5.9,"ledgerEndTerm":true,"group":7}')
        self.assertEqual(found, VoteRequest(term=12, code=401, ledger_end_index=5, ledger_end_term=1, group="7"))
        quoted = ENTRY.replace(b":7,", b':"7",').replace(b":53,", b':"53",')
        self.assertEqual(decode_entry(quoted), HELLO)

    def test_names_of_enumerations(self) -> None:
        """In any case and by ordinal; a vote's outcome that has no name is UNKNOWN."""
        rows = (
            ('"ACCEPT"', VoteResult.ACCEPT),
            ('"accept"', VoteResult.ACCEPT),
            ("11", VoteResult.REJECT_TAKING_LEADERSHIP),
            ('"REJECT_BY_TASTE"', VoteResult.UNKNOWN),
            ('""', VoteResult.UNKNOWN),
            ("null", VoteResult.UNKNOWN),
        )
        for text, wanted in rows:
            self.assertEqual(decode(VoteAnswer, b'{"voteResult":%b}' % text.encode()).vote_result, wanted, text)
        self.assertEqual(decode(PushRequest, b'{"type":"compare"}').kind, PushType.COMPARE)
        self.assertEqual(decode(PushRequest, b'{"type":3}').kind, PushType.TRUNCATE)

    def test_no_plain_json(self) -> None:
        """Keys without quotes, as people and fastjson's features write them; in a small body only."""
        self.assertEqual(decode(HeartBeatRequest, b'{term:5,"group":"g"}'), HeartBeatRequest(term=5, group="g"))
        with self.assertRaisesRegex(RemoteProtocolError, "JSON"):
            decode(AppendRequest, b'{term:5,"body":"%b"}' % (b"A" * 70_000))

    def test_nulls_among_entries(self) -> None:
        """Are none."""
        self.assertEqual(decode(GetAnswer, b'{"entries":[null,%b]}' % ENTRY).entries, (HELLO,))
        self.assertEqual(decode(PushRequest, b'{"entry":null,"batchEntry":null}'), PushRequest())


class RefusalTests(unittest.TestCase):
    """What can not be, by the name of its member."""

    def assert_refused(self, read: Callable[[], Any], text: str) -> None:
        """With that text in it."""
        with self.subTest(text), self.assertRaisesRegex(RemoteProtocolError, text):
            read()

    def test_bodies(self) -> None:
        """What is no message."""
        rows: tuple[tuple[type[Message], bytes, str], ...] = (
            (HeartBeatRequest, b"", "JSON"),
            (HeartBeatRequest, b"[]", "a HEART_BEAT request is no JSON object"),
            (HeartBeatRequest, b"null", "no JSON object"),
            (HeartBeatRequest, b'{"term":1', "JSON"),
            (HeartBeatRequest, b'{"x":%b}' % (b"[" * 40 + b"]" * 40), "deeper than 32"),
            (HeartBeatRequest, b" " * 65537, "a HEART_BEAT request of 65537 bytes, allowed are 65536"),
            (HeartBeatRequest, b'{"term":"x"}', "a HEART_BEAT request: term: 'x' where a long is wanted"),
            (HeartBeatRequest, b'{"term":9223372036854775808}', "term: .* where a long is wanted"),
            (HeartBeatRequest, b'{"term":"-9223372036854775809"}', "term: .* where a long is wanted"),
            (HeartBeatRequest, b'{"term":{}}', "term: .* where a long is wanted"),
            (HeartBeatRequest, b'{"code":2147483648}', "code: .* where an int is wanted"),
            (HeartBeatRequest, b'{"group":"%b"}' % (b"a" * 256), "group has 256 characters, allowed are 255"),
            (VoteRequest, b'{"ledgerEndIndex":[1,2]}', "ledgerEndIndex: .* where a long is wanted"),
            (VoteAnswer, b'{"voteResult":{}}', "voteResult: .* where one of UNKNOWN, ACCEPT"),
            (PushRequest, b'{"type":"SNAPSHOT"}', "type is 'SNAPSHOT', wanted is one of APPEND, COMMIT, COMPARE, TR"),
            (PushRequest, b'{"type":null}', "type is 'None', wanted is one of"),
            (PushRequest, b'{"type":4}', "type: '4' where one of APPEND"),
            (AppendRequest, b'{"body":5}', "body is '5', wanted is base64"),
            (AppendRequest, b'{"body":"YQ"}', "body is no base64: Incorrect padding"),
            (AppendRequest, b'{"body":"Y Q="}', "body is no base64"),
            (AppendRequest, b'{"body":"\xc3\xa4"}', "body is no base64"),
            (AppendRequest, b'{"body":"YQ==YQ=="}', "body is no base64"),
            (MetadataAnswer, b'{"peers":[]}', "peers: .* where an object is wanted"),
            (MetadataAnswer, b'{"peers":{"%b":"h:1"}}' % (b"a" * 256), "a peer of 256 characters"),
            (MetadataAnswer, b'{"peers":{"n0":"%b"}}' % (b"a" * 301), "an address of 301"),
            (
                MetadataAnswer,
                json.dumps({"peers": dict.fromkeys(map(str, range(65)), "h:1")}).encode(),
                "peers has 65 members, allowed are 64",
            ),
            (GetAnswer, b'{"entries":{}}', "a GET answer: entry 0: magic 0"),
            (GetAnswer, b'{"entries":[1]}', "entries: '1' where an object is wanted"),
            (GetAnswer, b'{"entries":[%b0]}' % (b"0," * 80_000), "entries has 80001 entries, allowed are 80000"),
            (PushRequest, b'{"entry":[]}', "entry: .* where an object is wanted"),
            (PushRequest, b'{"batchEntry":[%b,%b]}' % (ENTRY, ENTRY), "entry 7 of term 3 does not follow entry 7 of t"),
            (PushRequest, b'{"x":[%b0]}' % (b"0," * 800_001), "a PUSH request has more than 800000 members"),
        )
        for kind, body, text in rows:
            self.assert_refused(functools.partial(decode, kind, body), text)

    def test_entries(self) -> None:
        """What can not be laid on the disk."""
        rows = (
            (b'"magic":1', b'"magic":2', "^entry 7: magic 2$"),
            (b'"magic":1,', b"", "^entry 7: magic 0$"),
            (b'"size":53', b'"size":54', "^entry 7: 54 bytes with a body of 5$"),
            (b'"size":53,', b"", "^entry 7: 0 bytes with a body of 5$"),
            (b'"aGVsbG8="', b"null", "^entry 7: 53 bytes with a body of 0$"),
            (b'"aGVsbG8="', b'"aGVsbG8"', "^body is no base64"),
            (b'"index":7', b'"index":-1', r"^entry -1: EntryHead\("),
            (b'"term":3', b'"term":-1', r"^entry 7: EntryHead\("),
            (b'"pos":292', b'"pos":-1', r"^entry 7: EntryHead\("),
            (b'"pos":292', b'"pos":9223372036854775808', "^pos: .* where a long is wanted"),
            (b'"channel":0', b'"channel":2147483648', "^channel: .* where an int is wanted"),
        )
        for old, new, text in rows:
            self.assertIn(old, ENTRY)
            self.assert_refused(functools.partial(decode_entry, ENTRY.replace(old, new)), text)
        falling = b'{"batchEntry":[%b,%b]}' % (encode_entry(entry(1, term=3)), encode_entry(entry(2, term=2)))
        self.assert_refused(lambda: decode(PushRequest, falling), "entry 2 of term 2 does not follow entry 1 of term 3")

    def test_nothing_of_it_is_written(self) -> None:
        """The other side of each rule."""
        rows: tuple[tuple[Message, str], ...] = (
            (HeartBeatRequest(term=LONG_MAX + 1), "a HEART_BEAT request, term: 9223372036854775808 is out of range"),
            (HeartBeatRequest(code=1 << 31), "code: 2147483648 is out of range"),
            (HeartBeatRequest(group="a" * 256), "group: 256 characters, allowed are 255"),
            (HeartBeatRequest(group="\ud800"), "a HEART_BEAT request: .*surrogates"),
            (VoteRequest(ledger_end_index=-LONG_MAX - 2), "ledgerEndIndex: -9223372036854775809 is out of range"),
            (MetadataAnswer(peers=dict.fromkeys(map(str, range(65)), "h:1")), "peers: 65 members, allowed are 64"),
            (MetadataAnswer(peers={"n0": "a" * 301}), "an address of 301"),
            (PushRequest(entry=HELLO._replace(size=54)), "a PUSH request, entry: entry 7: 54 bytes with a body of 5"),
            (PushRequest(entry=HELLO._replace(channel=1 << 31)), "entry: cannot write magic, size"),
            (PushRequest(entry=HELLO._replace(position=LONG_MAX + 1)), "entry: cannot write magic, size"),
            (PushRequest(batch=(entry(1), entry(3))), "batchEntry: entry 3 of term 3 does not follow entry 1"),
            (GetAnswer(entries=(entry(1),) * 80_001), "entries: 80001 entries, allowed are 80000"),
            (AppendRequest(body=bytes(13 << 20)), "an APPEND request of .* bytes, allowed are 16777216"),
        )
        for message, text in rows:
            self.assert_refused(functools.partial(encode, message), text)
        self.assert_refused(lambda: encode_entry(HELLO._replace(magic=2)), "^entry 7: magic 2$")


class DiskTests(unittest.TestCase):
    """Entries as they lie in a log."""

    def test_seen_live(self) -> None:
        """Index 0 is 0x30 bytes with an empty body, index 1 behind it 0xf4."""
        data = dledger.build_head(0, 0, 0, 0) + dledger.build_head(1, 0, 0x30, 0xF4 - 48) + bytes(0xF4 - 48)
        first, second = entries_of(data)
        self.assertEqual(first, Entry(1, 0x30, 0, 0, 0, 0, 0, 0, b""))
        self.assertEqual((second.size, second.position, len(second.body)), (0xF4, 0x30, 0xF4 - 48))
        self.assertEqual(raw_entries((first, second)), data)
        self.assertEqual(first.head(), dledger.parse_head(data))

    def test_a_run_becomes_a_batch(self) -> None:
        """From the leader's disk through JSON to the follower's: the same bytes."""
        chance = random.Random(SEED)
        for count in (0, 1, 2, 40):
            data = raw_entries(run(chance, count))
            pushed = decode(PushRequest, encode(PushRequest(batch=entries_of(data))))
            self.assertEqual(raw_entries(pushed.entries), data)
            self.assertEqual((pushed.count, pushed.batch_bytes), (count, len(data)))
            dledger.units_of(data)

    def test_the_fields_that_are_never_set(self) -> None:
        """Come through where somebody did set them."""
        odd = HELLO._replace(channel=1, chain_crc=-2, body_crc=3)
        (again,) = entries_of(raw_entries((decode_entry(encode_entry(odd)),)))
        self.assertEqual(again, odd)

    def test_the_end_of_a_file(self) -> None:
        """What is behind the filler is not looked at."""
        data = raw_entries((HELLO,)) + dledger.build_filler(20) + b"\xff" * 12
        self.assertEqual(entries_of(data), (HELLO,))

    def test_no_run(self) -> None:
        """What is cut, or out of order."""
        first, second = run(random.Random(SEED), 2, 9)
        whole = raw_entries((first, second))
        rows = (
            (whole[:-1] if second.body else whole[:-2], f"entry at {first.size}|1 are missing"),
            (whole[: first.size + 20], f"entry at {first.size}: 20 bytes left"),
            (raw_entries((second, first)), "does not follow"),
            (raw_entries((first, second._replace(position=second.position + 1))), "does not follow"),
            (raw_entries((first, second._replace(entry_index=second.entry_index + 1))), "does not follow"),
            (bytes(48), "entry at 0: magic 0"),
        )
        for data, text in rows:
            with self.subTest(text), self.assertRaisesRegex(RemoteProtocolError, text):
                entries_of(data)
        with self.assertRaisesRegex(RemoteProtocolError, "entry 7: 54 bytes with a body of 5"):
            raw_entries((HELLO._replace(size=54),))


class RoundTripTests(unittest.TestCase):
    """Ours to ours."""

    def test_every_type(self) -> None:
        """Forty of each, from a fixed seed."""
        chance = random.Random(SEED)
        for kind in KINDS:
            for _ in range(40):
                message = some(chance, kind)
                body = encode(message)
                self.assertEqual(decode(kind, body), message)
                names = list(json.loads(body))
                self.assertEqual(names, sorted(names))

    def test_bodies_are_base64(self) -> None:
        """The standard alphabet, padded, on one line."""
        for size in (0, 1, 2, 3, 57, 58, 1000):
            body = random.Random(size).randbytes(size)
            found = json.loads(encode(AppendRequest(body=body)))["body"]
            self.assertEqual(found, base64.b64encode(body).decode())

    def test_a_full_batch(self) -> None:
        """As many entries as may be."""
        batch = tuple(entry(number) for number in range(dledger_json.ENTRIES_MAX))
        self.assertEqual(decode(PushRequest, encode(PushRequest(batch=batch))).batch, batch)


class FuzzTests(unittest.TestCase):
    """Two thousand bodies that something was done to."""

    def test_contract(self) -> None:
        """Nothing but a RemoteProtocolError comes out, and what is taken is written and read again."""
        ours = [form for form in dledger_json.FORMATS if FORMATS[form.name] is form]
        self.assertEqual(len(ours), 12)
        for form in ours:
            generator = Generator(form, SEED, (CUT, MUTATED, HOSTILE))
            for case in map(generator.case, range(170)):
                try:
                    form.parse(case.data)
                except RemoteProtocolError:
                    continue
                self.assertIsNone(judge(form, case).problem, str(case))

    def test_valid_ones_are_taken(self) -> None:
        """Else the fuzzer would test refusals only."""
        for form in dledger_json.FORMATS:
            generator = Generator(form, SEED, (VALID,))
            judgments = [judge(form, generator.case(index)) for index in range(60)]
            self.assertEqual([each.problem for each in judgments if each.problem], [])
            self.assertGreater(sum(each.accepted for each in judgments), 40, form.name)


class PeersTests(unittest.TestCase):
    """dLegerPeers."""

    def test_both_ways(self) -> None:
        """The id ends at the first dash, so that hosts may have some."""
        text = "n0-controller-0.my-net:9878;n1-10.0.0.1:80;n2-[2001:db8::2]:65535"
        self.assertEqual(peers_text(parse_peers(text)), text)
        self.assertEqual(values.peers_text({}), "")
