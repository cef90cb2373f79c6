"""The state as a whole: the fold of its log (invariant 17), the same on every node, apart by cluster (B5), snapshots at
every index (C13), and what an operator is told (why)."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import struct
import subprocess
import sys
import time
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller import audit, events, state
from rocketha.controller.events import (
    AlterSyncStateSet,
    ApplyBrokerId,
    CleanBrokerData,
    ElectMaster,
    Evidence,
    RegisterBroker,
    Saw,
    Seen,
    Why,
)
from rocketha.controller.group import DECISIONS_MAX, Did, Member
from rocketha.controller.state import ControllerState
from rocketha.errors import InvariantBroken, RemoteProtocolError
from rocketha.wire import codec, controller_log
from rocketha.wire.codes import ResponseCode as Code
from rocketha.wire.registry import FORMATS
from rocketha.wire.remoting import request
from rocketha.wire.spec import controller_log as spec
from tests import processor
from tests.controller.logs import some_events
from tests.controller.support import (
    CLUSTER,
    NAME,
    Caller,
    Controller,
    alive,
    code_of,
    contents,
    gone,
    knows,
    make_group,
)


def digest(seed: int, count: int) -> str:
    """A hash over all outcomes and the state at the end: what a subprocess compares."""
    machine, found = ControllerState(), hashlib.sha256()
    for number, event in enumerate(some_events(seed, count), 1):
        found.update(repr(machine.apply(event, number)).encode())
    found.update(machine.snapshot())
    return found.hexdigest()


class FoldTests(SynchronousTestCase):
    """One log, one state."""

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**32))
    def test_invariants_after_each_entry(self, seed: int) -> None:
        """Epochs and ids never fall; the set is of members, changes only with its epoch; its master is in it (14); who
        is elected was in the set, or the evidence said unclean, or it was the set before (15)."""
        machine = ControllerState()
        for number, event in enumerate(some_events(seed, 60), 1):
            before = {group.key: (*_numbers(machine, group.key), group.unconfirmed) for group in machine.groups()}
            outcome = machine.apply(event, number)
            for group in machine.groups():
                self.assertLessEqual({*group.in_sync}, {*group.members})
                self.assertTrue(not group.master or group.master in group.in_sync)
                self.assertTrue(all(each < group.next_id for each in group.members))
                old = before.get(group.key)
                if old is None:
                    continue
                now = _numbers(machine, group.key)
                self.assertTrue(all(b <= a for a, b in zip(now[:3], old[:3], strict=True)))
                if outcome.did is Did.OUTDATED and outcome.group == group.key:
                    self.assertTrue(now[2] > old[2] and now[3] == (), (old, now, event))
                else:
                    self.assertTrue(now[3] == old[3] or now[2] == old[2] + 1, (old, now, event))
                self.assertTrue(now[4] == old[4] or now[1] > old[1], (old, now, event))
                if outcome.did is Did.ELECTED and outcome.group == group.key and not group.adopted and old[3]:
                    self.assertTrue(group.master in old[3] or event.evidence.unclean, (old, now, event))
                if outcome.did is Did.TAKEN_BACK and outcome.group == group.key:
                    self.assertIn(group.master, old[5].before)

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 2**32))
    def test_replay_of_the_bytes(self, seed: int) -> None:
        """From the entries as they stand in the log, the same outcomes and the same bytes (17)."""
        one, two = ControllerState(), ControllerState()
        for number, event in enumerate(some_events(seed, 60), 1):
            self.assertEqual(one.preview(event).answer.code, one.preview(event).answer.code)
            seen = one.preview(event)
            outcome = one.apply(event, number)
            self.assertEqual(two.apply_entry(events.encode(event), number), outcome)
            self.assertEqual(seen.did, outcome.did)
            if outcome.did not in (Did.ADOPTED, Did.RETURNED):
                self.assertEqual(seen.answer, outcome.answer)
        self.assertEqual(one.snapshot(), two.snapshot())

    def test_generated_logs_do_something(self) -> None:
        """The properties above are about something: every kind of change happens often."""
        counts: dict[Did, int] = {}
        for seed in range(60):
            machine = ControllerState()
            for number, event in enumerate(some_events(seed, 100), 1):
                did = machine.apply(event, number).did
                counts[did] = counts.get(did, 0) + 1
        for did in Did:
            least = 2 if did is Did.RETURNED else 5  # who was cleaned must come back at the same address
            self.assertGreaterEqual(counts.get(did, 0), least, (did, counts))

    def test_any_hash_seed(self) -> None:
        """Two processes with different PYTHONHASHSEED agree on every outcome and every byte."""
        code = "import sys; from tests.controller.test_state import digest; sys.stdout.write(digest(5, 400))"
        found = set()
        for hash_seed in ("0", "1", "4242"):
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=True
            )
            found.add(done.stdout)
        self.assertEqual(found, {digest(5, 400)})

    def test_order_of_entries(self) -> None:
        """An index that does not rise is a fault of ours and ends the process; so is an entry nobody can read."""
        machine = ControllerState()
        machine.apply(ApplyBrokerId(CLUSTER, NAME, 1, code_of(1)), 5)
        self.assertRaises(InvariantBroken, machine.apply, ApplyBrokerId(CLUSTER, NAME, 2, code_of(2)), 5)
        self.assertRaises(InvariantBroken, machine.apply_entry, b"\x01\x63", 6)


def _numbers(machine: ControllerState, key: tuple[str, str]) -> tuple[int, int, int, tuple[int, ...], int]:
    group = machine.group(*key)
    assert group is not None
    return group.next_id, group.master_epoch, group.set_epoch, group.in_sync, group.master


class ClusterTests(SynchronousTestCase):
    """B5: the same broker name in two clusters."""

    def setUp(self) -> None:
        self.controller = Controller()
        make_group(self.controller, 3, cluster="c")
        make_group(self.controller, 2, (1,), cluster="d")

    def test_independent(self) -> None:
        """Ids, sets, epochs, elections."""
        self.controller.apply(ElectMaster("d", NAME, 1, True, evidence=knows(1, 2)))
        before = contents(self.controller.state)
        self.controller.apply(ElectMaster("c", NAME, -1, evidence=knows(2, 3)))
        after = contents(self.controller.state)
        self.assertEqual([row.cluster for row in after], ["c", "d"])
        self.assertEqual((before[1], after[0].master), (after[1], 2))
        self.assertEqual([row.next_id for row in after], [4, 3])

    def test_request_without_a_cluster(self) -> None:
        """1001 and 1004 are refused with a remark that says why, also where there is one group of that name: it may be
        another cluster's.  1004 not so that a Java broker registers, which would pass for one that was restarted; only
        where there is no group of that name.
        """
        remark = "neither the request nor anything before it on this connection names a cluster"
        fields, body = {"brokerName": NAME, "masterBrokerId": "1", "masterEpoch": "1"}, b'{"syncStateSet":[1]}'
        for cleaned in ("", "d"):
            if cleaned:
                self.controller.apply(CleanBrokerData(cleaned, NAME, (), True))
            for code, refused in ((1004, 2005), (1001, 2013)):
                answer = self.controller.ask(request(code, fields, body), Caller("h:1"))
                self.assertEqual((answer.code, answer.remark), (refused, remark))
        self.assertEqual(self.controller.ask(request(1004, {"brokerName": "x"}), Caller("h:1")).code, 2008)

    def test_entry_without_a_cluster(self) -> None:
        """Of several groups of that name it means none."""
        remark = "Broker b is in several clusters (c, d), the request names none"
        outcome = self.controller.apply(AlterSyncStateSet("", NAME, 1, 1, 2, (1, 2), knows(1, 2, 3)))
        self.assertEqual((outcome.answer.code, outcome.answer.remark, outcome.did), (2013, remark, Did.NOTHING))

    def test_cluster_of_the_connection(self) -> None:
        """What the connection said before decides."""
        for cluster, body in (("c", b'{"syncStateSet":[1,2,3],"syncStateSetEpoch":2}'), ("d", b'{"syncStateSet":[1],')):
            answer = self.controller.ask(request(1004, {"brokerName": NAME}), Caller("h:1", cluster))
            self.assertTrue(answer.body.startswith(body))

    def test_cluster_that_a_request_names(self) -> None:
        """Ours: 1004 may name one; it decides where the connection said nothing."""
        named, unknown = (request(1004, {"brokerName": NAME, "clusterName": cluster}) for cluster in "de")
        self.assertTrue(self.controller.ask(named, Caller("h:1")).body.startswith(b'{"syncStateSet":[1],'))
        self.assertTrue(self.controller.ask(named, Caller("h:1", "c")).body.startswith(b'{"syncStateSet":[1,2,3],'))
        self.assertEqual(self.controller.ask(unknown, Caller("h:1")).code, 2008)

    def test_both_are_shown(self) -> None:
        """1006 names groups only; two of a name are told apart."""
        answer = self.controller.ask(request(1006, body=b'["b","x"]'))
        table = json.loads(answer.body)["replicasInfoTable"]
        self.assertEqual({key: len(table[key]["inSyncReplicas"]) for key in table}, {"c:b": 3, "d:b": 1})

    def test_one_of_them_forgotten(self) -> None:
        """Then the name is clear again, to who asks why; not to its brokers."""
        self.controller.apply(CleanBrokerData("c", NAME, (), True))
        self.assertEqual(self.controller.ask(request(11003, {"brokerName": NAME})).code, 0)
        self.assertEqual(self.controller.ask(request(1004, {"brokerName": NAME}), Caller("h:1", "c")).code, 2008)


class SnapshotTests(SynchronousTestCase):
    """I1, C13."""

    def test_every_index(self) -> None:
        """A snapshot at any index and the entries after it make the same state as the whole log."""
        log = some_events(3, 120)
        whole = ControllerState()
        taken = [whole.snapshot()]
        for number, event in enumerate(log, 1):
            whole.apply(event, number)
            taken.append(whole.snapshot())
        for start in range(0, len(log) + 1, 5):
            later = ControllerState()
            later.restore(taken[start])
            self.assertEqual((later.snapshot(), later.index), (taken[start], start))
            for number in range(start, len(log)):
                later.apply(log[number], number + 1)
                self.assertEqual(later.snapshot(), taken[number + 1])

    def test_as_construct_reads_it(self) -> None:
        """The specification is what is written, down to the decisions."""
        machine = ControllerState()
        for number, event in enumerate(some_events(9, 200), 1):
            machine.apply(event, number)
        data = machine.snapshot()
        plain = codec.parse(spec.SNAPSHOT, data)
        rows = controller_log.decode_snapshot(data).groups
        self.assertEqual(codec.build(spec.SNAPSHOT, plain), data)
        self.assertEqual([group.broker_name.decode() for group in plain.groups], [row.broker_name for row in rows])
        for group, row in zip(plain.groups, rows, strict=True):
            self.assertEqual((group.next_id, group.flags, tuple(group.in_sync)), (row.next_id, row.flags, row.in_sync))
            self.assertEqual([m.address.decode() for m in group.members], [m.address for m in row.members])
            last = controller_log.decode_decision(row.decisions[-1])
            self.assertEqual((group.decisions[-1].log_index, group.decisions[-1].entry), (last.log_index, last.entry))

    def test_frozen(self) -> None:
        """What another thread writes is the state as it was."""
        controller = Controller()
        make_group(controller)
        whole, write = controller.state.snapshot(), controller.state.freeze()
        controller.apply(gone(knows(2, 3)))
        self.assertEqual(write(), whole)
        self.assertNotEqual(controller.state.snapshot(), whole)

    def test_garbage(self) -> None:
        """Refused with a reason, and the state stays: a flipped bit anywhere, a cut, another file."""
        controller = Controller()
        make_group(controller)
        data = controller.state.snapshot()
        other = ControllerState()
        other.apply(ApplyBrokerId("x", "y", 1, code_of(1)), 1)
        kept = other.snapshot()
        for bad in (b"", b"RHCS", data[:-1], data + b"\x00", b"{}" + data, b"RHCS\x03" + data[5:], *_flipped(data)):
            self.assertRaises(RemoteProtocolError, other.restore, bad)
        self.assertEqual(other.snapshot(), kept)

    def test_version_1(self) -> None:
        """Its members have no flags: they are taken for registered from their own addresses."""
        here, there = "10.0.0.1:1", "10.0.0.2:1"
        whole = ControllerState()
        whole.apply(ApplyBrokerId("c", "b", 1, f"{here};1", Evidence(asker="10.0.0.1:7")), 1)
        whole.apply(ApplyBrokerId("c", "b", 2, f"{there};1", Evidence(asker="10.0.0.1:7")), 2)
        whole.apply(RegisterBroker("c", "b", 1, here, Evidence(asker="10.0.0.1:8")), 3)
        again, old = ControllerState(), ControllerState()
        again.restore(whole.snapshot())
        self.assertEqual([each.elsewhere for each in _members(again)], [False, True])
        data = bytearray(whole.snapshot()[:-4])
        data[4] = 1
        for address in (there, here):
            at = data.index(f"{address};1".encode()) + len(address) + 2
            del data[at]
        at = data.index(struct.pack(">I", len(whole.group("c", "b").decisions[0]))) - 2  # type: ignore[union-attr]
        del data[at - 4 : at]  # no cleaned members, no former set
        old.restore(bytes(data) + struct.pack(">I", zlib.crc32(data)))
        self.assertEqual(_members(old), [each._replace(elsewhere=False) for each in _members(whole)])

    def test_who_comes_from_elsewhere(self) -> None:
        """A registration from another host than the address names, and from there again: entries that change it."""
        whole, dids = ControllerState(), []
        whole.apply(ApplyBrokerId("c", "b", 1, "10.0.0.1:1;1", Evidence(asker="10.0.0.1:7")), 1)
        for index, host in enumerate(("10.0.0.1", "10.0.0.9", "10.0.0.9", "127.0.0.1", "10.0.0.1"), 2):
            event = RegisterBroker("c", "b", 1, "10.0.0.1:1", Evidence(asker=f"{host}:7"))
            dids.append((whole.apply(event, index).did, _members(whole)[0].elsewhere))
        changed, not_changed = Did.ADDRESS_CHANGED, Did.NOTHING
        self.assertEqual(
            dids,
            [(not_changed, False), (changed, True), (not_changed, True), (not_changed, True), (changed, False)],
        )

    def test_against_the_invariants(self) -> None:
        """Bytes with a right CRC that no log can make."""
        controller = Controller()
        make_group(controller)
        row = contents(controller.state)[0]
        for bad in (
            row._replace(next_id=3),
            row._replace(in_sync=(2, 3)),
            row._replace(in_sync=(1, 3, 2)),
            row._replace(in_sync=(1, 9)),
            row._replace(master=4),
            row._replace(retired=(2,)),
            row._replace(flags=4),
        ):
            data = controller_log.encode_snapshot(9, [controller_log.encode_group(bad)])
            self.assertRaises(RemoteProtocolError, controller.state.restore, data)
        twice = controller_log.encode_snapshot(9, [controller_log.encode_group(row)] * 2)
        self.assertRaises(RemoteProtocolError, controller.state.restore, twice)
        start = struct.pack(">4sBqI", b"RHCS", 1, 9, 2**32 - 1)
        self.assertRaises(RemoteProtocolError, controller.state.restore, start + struct.pack(">I", zlib.crc32(start)))

    def test_bounds_of_the_format(self) -> None:
        """A snapshot larger than may be is not read; what the registered format builds is what it parsed."""
        self.patch(controller_log, "SNAPSHOT_BYTES_MAX", 100)
        self.assertRaises(RemoteProtocolError, controller_log.decode_snapshot, bytes(101))
        data = ControllerState().snapshot()
        form = FORMATS["controller-snapshot"]
        assert form.build is not None
        self.assertEqual(form.build(form.parse(data)), data)

    def test_large(self) -> None:
        """10,000 groups: frozen and written well within half a second of CPU, read within two."""
        machine, number = ControllerState(), 0
        for group in range(10_000):
            for broker_id in (1, 2):
                number += 1
                machine.apply(ApplyBrokerId(CLUSTER, f"b{group}", broker_id, code_of(broker_id)), number)
        gc.collect()
        gc.freeze()  # what other tests left in this process is not searched through while the time is taken
        self.addCleanup(gc.unfreeze)
        slowness, writing = processor.slowness(), []
        for _ in range(3):
            start = time.process_time()
            data = machine.snapshot()
            writing.append(time.process_time() - start)
        self.assertLess(min(writing), 0.5 * slowness)
        other = ControllerState()
        start = time.process_time()
        other.restore(data)
        self.assertLess(time.process_time() - start, 2 * slowness)
        self.assertEqual(other.snapshot(), data)

    def test_bounded(self) -> None:
        """A flood of names ends with a refusal."""
        self.patch(state, "GROUPS_MAX", 3)
        controller = Controller()
        codes = [
            controller.apply(ApplyBrokerId(CLUSTER, f"b{number}", 1, code_of(1))).answer.code for number in range(5)
        ]
        self.assertEqual(codes, [0, 0, 0, 1, 1])
        self.assertEqual(controller.apply(ApplyBrokerId(CLUSTER, "b0", 2, code_of(2))).answer.code, 0)


def _flipped(data: bytes) -> list[bytes]:
    return [data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :] for at in range(0, len(data), 11)]


class WhyTests(SynchronousTestCase):
    """Each election and set change says why."""

    def test_trail(self) -> None:
        """11003: the evidence that the leader had, and the state after it; the same after a snapshot."""
        controller = Controller()
        make_group(controller)
        evidence = Evidence(
            why=Why.PORT_REFUSED,
            reason="the master's port refused a connection 3 ms after its connection closed",
            now_ms=1_795_256_479_764,
            alive=alive(2, 3),
            seen=(Seen(1, Saw.CONNECTION_CLOSED, "by peer"), Seen(1, Saw.PORT_REFUSED, "10.0.0.1:10911")),
        )
        controller.apply(gone(evidence, expected_master=1, expected_epoch=1))
        answer = controller.ask(request(11003, {"brokerName": NAME}))
        found = json.loads(answer.body)
        self.assertEqual(
            [row["did"] for row in found["decisions"]], [*["ID_APPLIED"] * 3, "ELECTED", "SET_CHANGED", "ELECTED"]
        )
        last = found["decisions"][-1]
        self.assertEqual((last["why"], last["reason"], last["index"]), ("PORT_REFUSED", evidence.reason, 6))
        self.assertEqual([row["saw"] for row in last["seen"]], ["CONNECTION_CLOSED", "PORT_REFUSED"])
        self.assertEqual([row["brokerId"] for row in last["alive"]], [2, 3])
        self.assertEqual((last["masterBrokerId"], last["masterEpoch"], last["syncStateSet"]), (2, 2, [2]))
        wanted = {
            "kind": "ElectMaster",
            "brokerId": -1,
            "designateElect": False,
            "expectedMaster": 1,
            "expectedEpoch": 1,
        }
        self.assertEqual(last["request"], wanted)
        self.assertEqual((found["masterBrokerId"], found["unconfirmedMaster"]), (2, 2))
        later = ControllerState()
        later.restore(controller.state.snapshot())
        group = later.group(CLUSTER, NAME)
        assert group is not None
        self.assertEqual(audit.body(group), answer.body)

    def test_bounded_and_only_what_changed(self) -> None:
        """The last N; refusals are in the log, not in the trail."""
        controller = Controller()
        make_group(controller, 2, (1, 2))
        for number in range(40):
            sets = ((1,), (1, 2))
            controller.apply(AlterSyncStateSet("", NAME, 1, 1, 2 + number, sets[number % 2], knows(1, 2)))
            controller.apply(AlterSyncStateSet("", NAME, 1, 9, 2 + number, sets[number % 2], knows(1, 2)))
        group = controller.state.group(CLUSTER, NAME)
        assert group is not None
        trail = audit.trail(group)
        self.assertEqual(len(trail), DECISIONS_MAX)
        self.assertEqual({row["did"] for row in trail}, {"SET_CHANGED"})
        self.assertEqual(trail[-1]["syncStateSetEpoch"], 42)

    def test_every_kind(self) -> None:
        """Registrations, cleanings and codes of a later version have a form too."""
        controller = Controller()
        make_group(controller, 2, (1,))
        late = Evidence(why=200, seen=(Seen(1, 201, "?"),))
        controller.apply(RegisterBroker(CLUSTER, NAME, 2, "10.9.9.9:1", late))
        controller.apply(CleanBrokerData(CLUSTER, NAME, (2,), evidence=late))
        group = controller.state.group(CLUSTER, NAME)
        assert group is not None
        moved, cleaned = audit.trail(group)[-2:]
        self.assertEqual(moved["request"], {"kind": "RegisterBroker", "brokerId": 2, "brokerAddress": "10.9.9.9:1"})
        wanted = {"kind": "CleanBrokerData", "brokerIds": [2], "isCleanLivingBroker": False}
        self.assertEqual((cleaned["request"], cleaned["why"], cleaned["seen"][0]["saw"]), (wanted, "200", "201"))
        newer = controller_log.decode_decision(group.decisions[-1])._replace(did=202)
        group.decisions.append(controller_log.encode_decision(newer))  # of a snapshot
        self.assertEqual(audit.trail(group)[-1]["did"], "202")

    def test_forgotten_group(self) -> None:
        """Its trail says who forgot it; a group nobody ever knew has none."""
        controller = Controller()
        make_group(controller)
        controller.apply(
            CleanBrokerData(CLUSTER, NAME, (), True, Evidence(asker="10.1.1.1:5", reason="an operator cleans"))
        )
        found = json.loads(controller.ask(request(11003, {"clusterName": CLUSTER, "brokerName": NAME})).body)
        self.assertEqual((found["forgotten"], found["decisions"][-1]["did"]), (True, "FORGOTTEN"))
        self.assertEqual(found["decisions"][-1]["asker"], "10.1.1.1:5")
        answer = controller.ask(request(11003, {"clusterName": CLUSTER, "brokerName": "x"}))
        self.assertEqual(answer.code, Code.CONTROLLER_BROKER_METADATA_NOT_EXIST)


def _members(whole: ControllerState) -> list[Member]:
    (group,) = whole.groups()
    return [group.members[broker_id] for broker_id in sorted(group.members)]
