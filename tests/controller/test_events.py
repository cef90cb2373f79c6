"""Log entries: what is written is read again, by the fast codec and by plain construct alike."""

from __future__ import annotations

import types
from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller import events
from rocketha.controller.events import (
    Alive,
    AlterSyncStateSet,
    ApplyBrokerId,
    CleanBrokerData,
    ConfirmMaster,
    ElectMaster,
    Event,
    Evidence,
    RegisterBroker,
    Seen,
)
from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec, controller_log
from rocketha.wire.spec import controller_log as spec

int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
text = st.text(st.characters(codec="utf-8"), max_size=30)
ids = st.lists(int64, max_size=5).map(tuple)
evidences = st.builds(
    Evidence,
    why=st.integers(0, 255),
    reason=text,
    now_ms=int64,
    asker=text,
    unclean=st.booleans(),
    adopt=st.booleans(),
    never_told=int64,
    alive=st.lists(st.builds(Alive, int64, int32, int64, int32, st.booleans()), max_size=3).map(tuple),
    seen=st.lists(st.builds(Seen, int64, st.integers(0, 255), text), max_size=3).map(tuple),
)
any_event: st.SearchStrategy[Event] = st.one_of(
    st.builds(ApplyBrokerId, text, text, int64, text, evidences),
    st.builds(RegisterBroker, text, text, int64, text, evidences),
    st.builds(ElectMaster, text, text, int64, st.booleans(), int64, int32, evidences, int32),
    st.builds(AlterSyncStateSet, text, text, int64, int32, int32, ids, evidences),
    st.builds(CleanBrokerData, text, text, ids, st.booleans(), evidences),
    st.builds(ConfirmMaster, text, text, int64, int32, evidences),
)


class EventTests(SynchronousTestCase):
    """controller/events.py over wire/controller_log.py."""

    @settings(max_examples=200, deadline=None)
    @given(any_event)
    def test_round_trip(self, event: Event) -> None:
        """Every event, whole; and each cut of it is refused."""
        data = events.encode(event)
        self.assertEqual(events.decode(data), event)
        for end in range(0, len(data), 7):
            self.assertRaises(RemoteProtocolError, events.decode, data[:end])
        self.assertRaises(RemoteProtocolError, events.decode, data + b"\x00")

    @settings(max_examples=100, deadline=None)
    @given(any_event)
    def test_as_construct_reads_it(self, event: Event) -> None:
        """The specification is what the fast codec writes."""
        data = events.encode(event)
        plain: Any = codec.parse(spec.ENTRY, data)
        row = controller_log.decode_entry(data)
        for name in ("kind", "why", "flags", "broker_id", "expected_master", "master_epoch", "set_epoch", "now_ms"):
            self.assertEqual(plain[name], getattr(row, name))
        self.assertEqual(plain.never_told, row.never_told)
        for name in ("cluster", "broker_name", "subject", "asker", "reason"):
            self.assertEqual(plain[name].decode(), getattr(row, name))
        self.assertEqual(tuple(plain.ids), row.ids)
        seen = [(each.broker_id, each.saw, each.text.decode()) for each in plain.seen]
        self.assertEqual(seen, [tuple(each) for each in row.seen])
        alive = [(a.broker_id, a.epoch, a.max_offset, a.priority, bool(a.flags)) for a in plain.alive]
        self.assertEqual(alive, [tuple(each) for each in row.alive])
        self.assertEqual(codec.build(spec.ENTRY, plain), data)

    def test_kinds_are_all_there(self) -> None:
        """A class that nobody can write or read would be lost at the first restart."""
        self.assertEqual({type(event) for event in SAMPLES}, set(events.ALL_EVENTS))
        self.assertEqual(len({events.encode(event)[1] for event in SAMPLES}), len(events.EventKind))

    def test_bytes_do_not_move(self) -> None:
        """A log written by this version must be readable by the next ones: change VERSION when this fails."""
        self.assertEqual(events.encode(SAMPLES[0]).hex(), GOLDEN)

    def test_refused(self) -> None:
        """Another version, an unknown kind, no text, too long, a value that does not fit."""
        data = events.encode(SAMPLES[0])
        for bad in (b"\x02" + data[1:], data[:1] + b"\x63" + data[2:], data.replace(b"why", b"\xff\xfe\xfd")):
            self.assertNotEqual(bad, data)
            self.assertRaises(RemoteProtocolError, events.decode, bad)
        self.assertRaises(RemoteProtocolError, events.decode, bytes(controller_log.ENTRY_BYTES_MAX + 1))
        self.assertRaises(RemoteProtocolError, events.encode, attrs.evolve(SAMPLES[0], broker_id=2**63))
        self.assertRaises(RemoteProtocolError, events.encode, attrs.evolve(SAMPLES[0], cluster="x" * 70_000))
        self.assertRaises(RemoteProtocolError, events.encode, attrs.evolve(SAMPLES[0], cluster="\ud800"))
        much = attrs.evolve(_EVIDENCE, seen=(Seen(1, 2, "t" * 60_000),) * 5)
        self.assertRaises(RemoteProtocolError, events.encode, attrs.evolve(SAMPLES[0], evidence=much))
        self.assertRaises(TypeError, events.encode, types.SimpleNamespace(evidence=_EVIDENCE))

    def test_unknown_flags(self) -> None:
        """Whoever ignored a bit of a newer program would decide otherwise than that one: each is refused."""
        alive = controller_log.Alive(2, 3, 100, 0, True)
        data = controller_log.encode_entry(controller_log.EntryRow(3, flags=63, alive=(alive,)))
        self.assertEqual(controller_log.decode_entry(data).flags, 63)
        for at, known in ((3, spec.ENTRY_FLAGS), (len(data) - 3, spec.ALIVE_FLAGS)):
            self.assertEqual(data[at], known)
            for bit in range(known.bit_length(), 8):
                broken = data[:at] + bytes([known | 1 << bit]) + data[at + 1 :]
                with self.assertRaisesRegex(RemoteProtocolError, f"unknown flags {1 << bit:#x}; a newer program"):
                    events.decode(broken)

    def test_a_newest_epoch_is_a_flag_too(self) -> None:
        """A controller that knows nothing of it would elect where the others do not: it refuses the entry."""
        plain = events.ElectMaster("c", "b", -1)
        for newest, flags in ((0, 0), (7, 32)):
            data = events.encode(attrs.evolve(plain, newest_epoch=newest))
            self.assertEqual(data[3], flags)
            self.assertEqual(events.decode(data), attrs.evolve(plain, newest_epoch=newest))

    def test_unknown_flags_of_a_snapshot(self) -> None:
        """Likewise."""
        row = controller_log.GroupRow(1, 0, 0, 0, 7, 0, 0, 1, "c", "b", (), (), (), (), (), (), ())
        for good in (row, row._replace(flags=0)):
            data = controller_log.encode_snapshot(1, [controller_log.encode_group(good)])
            self.assertEqual(controller_log.decode_snapshot(data).groups, (good,))
        for bad in (row._replace(flags=8), row._replace(elected_flags=2)):
            data = controller_log.encode_snapshot(1, [controller_log.encode_group(bad)])
            with self.assertRaisesRegex(RemoteProtocolError, "unknown flags"):
                controller_log.decode_snapshot(data)


_EVIDENCE = Evidence(
    3, "why", 5, "h:1", True, True, 6, (Alive(1, 2, 3, 4, True), Alive(2, -1, -1, 2**31 - 1)), (Seen(1, 2, "t"),)
)
SAMPLES: tuple[Any, ...] = (
    ElectMaster("c", "b", 7, True, 8, 9, _EVIDENCE),
    ApplyBrokerId("c", "b", 1, "h:1;2", _EVIDENCE),
    RegisterBroker("c", "b", 1, "h:1", _EVIDENCE),
    AlterSyncStateSet("", "b", 1, 2, 3, (1, 2), _EVIDENCE),
    CleanBrokerData("", "b", (1,), True, _EVIDENCE),
    ConfirmMaster("c", "b", 1, 2, _EVIDENCE),
)
GOLDEN = (
    "0103030d00000000000000070000000000000008000000090000000000000000000000050000000000000006000163000162"
    "00000003683a31000377687900000002000000000000000100000002000000000000000300000004010000000000000002ff"
    "ffffffffffffffffffffff7fffffff000001000000000000000102000174"
)
