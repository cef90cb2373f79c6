"""Requests 1001 to 1013: fields, bodies and bounds; what becomes an entry, with which evidence, and what a question."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller import answers, events
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
    Why,
)
from rocketha.controller.registration import MEMBERS_MAX
from rocketha.controller.requests import AskNextBrokerId, AskReplicaInfo, AskSyncStateData, AskWhy, Caller, Intent
from rocketha.errors import RequestRefused
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, request
from tests.controller.support import CLUSTER, NAME, Controller, Options, contents, gone, knows, make_group

CALLER = Caller("10.0.0.9:7", "c")
NAMED = {"clusterName": CLUSTER, "brokerName": NAME}
SET = b'{"syncStateSet":[2,1],"syncStateSetEpoch":3}'
GOOD: dict[int, tuple[dict[str, str], bytes]] = {
    1001: ({"brokerName": NAME, "masterBrokerId": "1", "masterEpoch": "2", "invokeTime": "1"}, SET),
    1002: ({**NAMED, "brokerId": "2", "designateElect": "false", "invokeTime": "1"}, b""),
    1003: ({**NAMED, "brokerId": "2", "brokerAddress": "h:1", "invokeTime": "1"}, b""),
    1004: ({"brokerName": NAME}, b""),
    1006: ({}, b'["b"]'),
    1011: ({**NAMED, "brokerControllerIdsToClean": "2;1", "isCleanLivingBroker": "false"}, b""),
    1012: (NAMED, b""),
    1013: ({**NAMED, "appliedBrokerId": "2", "registerCheckCode": "h:1;5"}, b""),
    11003: (NAMED, b""),
    11006: ({**NAMED, "brokerId": "2", "masterEpoch": "3"}, b""),
}
REQUIRED = {
    1001: ("brokerName", "masterBrokerId", "masterEpoch"),
    1002: ("clusterName", "brokerName", "brokerId", "designateElect"),
    1003: ("clusterName", "brokerName", "brokerId", "brokerAddress"),
    1004: ("brokerName",),
    1011: ("brokerName",),
    1012: ("clusterName", "brokerName"),
    1013: ("clusterName", "brokerName", "appliedBrokerId", "registerCheckCode"),
    11003: ("brokerName",),
    11006: ("clusterName", "brokerName", "brokerId", "masterEpoch"),
}


class DecodeTests(SynchronousTestCase):
    """Requests.decode."""

    def setUp(self) -> None:
        self.controller = Controller(Options(enable_elect_unclean_master=True))
        make_group(self.controller)
        for broker_id, epoch in ((2, 5), (3, 4)):
            fields = {
                **NAMED,
                "brokerId": str(broker_id),
                "epoch": str(epoch),
                "maxOffset": "9",
                "electionPriority": "7",
            }
            self.controller.ask(request(904, fields))

    def decode(self, code: int, fields: dict[str, str] | None = None, body: bytes | None = None, **how: Any) -> Any:
        good_fields, good_body = GOOD[code]
        command = request(code, good_fields if fields is None else fields, good_body if body is None else body)
        return self.controller.requests.decode(command, how.get("caller", CALLER), how.get("leading", True), 77)

    def refused(self, code: int, fields: dict[str, str] | None = None, body: bytes | None = None) -> RequestRefused:
        before = contents(self.controller.state)
        refusal = self.assertRaises(RequestRefused, self.decode, code, fields, body)
        self.assertEqual(contents(self.controller.state), before)
        return refusal  # type: ignore[no-any-return]

    def _evidence(self, why: Why, reason: str) -> Evidence:
        return Evidence(why, reason, 77, "10.0.0.9:7", True, alive=(Alive(2, 5, 9, 7), Alive(3, 4, 9, 7)))

    def test_intents(self) -> None:
        """Each with what was heard at that moment, who asked and why."""
        wanted: dict[int, Event] = {
            1001: AlterSyncStateSet(
                CLUSTER, NAME, 1, 2, 3, (1, 2), self._evidence(Why.REQUESTED, "the master reports who is in sync")
            ),
            1002: ElectMaster(CLUSTER, NAME, 2, evidence=self._evidence(Why.BROKER_ASKED, "broker 2 knows no master")),
            1003: RegisterBroker(CLUSTER, NAME, 2, "h:1", self._evidence(Why.REQUESTED, "broker 2 registers")),
            1011: CleanBrokerData(CLUSTER, NAME, (1, 2), False, self._evidence(Why.REQUESTED, "an operator cleans")),
            1013: ApplyBrokerId(
                CLUSTER, NAME, 2, "h:1;5", Evidence(now_ms=77, asker="10.0.0.9:7", reason="a broker applies for id 2")
            ),
            11006: ConfirmMaster(
                CLUSTER, NAME, 2, 3, self._evidence(Why.REQUESTED, "an elected broker confirms its role")
            ),
        }
        for code, event in wanted.items():
            found = self.decode(code)
            self.assertEqual(found, Intent(event))
            self.assertEqual(events.decode(events.encode(event)), event)

    def test_elections(self) -> None:
        """mqadmin designates; -1 is a controller's."""
        fields = {**GOOD[1002][0], "designateElect": "TRUE"}
        event = self.decode(1002, fields).event
        self.assertEqual((event.designate, event.evidence.why), (True, Why.ADMIN_ASKED))
        event = self.decode(1002, {**fields, "brokerId": "-1", "designateElect": "no"}).event
        self.assertEqual((event.broker_id, event.designate, event.evidence.why), (-1, False, Why.ADMIN_ASKED))

    def test_the_master_hands_over(self) -> None:
        """And only the master: it gives up nobody, as an operator may.  Where nobody leads nothing is judged."""
        fields = {**GOOD[1002][0], "designateElect": "true", "brokerId": "3"}
        master = self.controller.state.group(CLUSTER, NAME)
        assert master is not None and master.master_id is not None
        asked = {**fields, "retiringMasterId": str(master.master_id)}
        event = self.decode(1002, asked).event
        self.assertEqual((event.broker_id, event.designate), (3, True))
        self.assertEqual((event.evidence.why, event.evidence.operator), (Why.HANDED_OVER, False))
        before, after = (f"broker {each} ({master.address(each)})" for each in (master.master_id, 3))
        self.assertEqual(event.evidence.reason, f"{before} was stopping and handed over to {after}")
        unfit = self.decode(1002, {**asked, "retiringReason": "its disk is slow"}).event.evidence
        self.assertEqual(unfit.reason, f"{before} handed over to {after}: its disk is slow")
        self.refused(1002, {**asked, "retiringReason": "x" * 301})
        self.assertEqual((event.expected_master, event.expected_epoch), (master.master_id, master.master_epoch))
        self.assertEqual(self.decode(1002, {**fields, "retiringMasterId": "99"}).event.expected_master, 99)
        self.assertIs(self.decode(1002, asked, leading=False), answers.NOT_LEADER)
        for wrong in ("x", "0", "-1", ""):
            self.refused(1002, {**fields, "retiringMasterId": wrong})

    def test_a_hand_over_that_comes_late(self) -> None:
        """Meanwhile another one was elected: it stays."""
        group = self.controller.state.group(CLUSTER, NAME)
        assert group is not None and group.master_id is not None
        fields = {**GOOD[1002][0], "designateElect": "true", "brokerId": "3", "retiringMasterId": str(group.master_id)}
        late = self.decode(1002, fields).event
        self.controller.apply(gone(knows(2, 3)))
        self.assertEqual(self.controller.apply(late).answer.code, ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH)
        self.assertEqual(group.master_id, 2)

    def test_questions(self) -> None:
        """They wait for a barrier."""
        self.assertEqual(self.decode(1004), AskReplicaInfo(CLUSTER, NAME))
        self.assertEqual(self.decode(1004, caller=Caller()), AskReplicaInfo("", NAME))
        self.assertEqual(self.decode(1004, caller=Caller(), leading=False).code, 2007)
        self.assertEqual(self.decode(1006, body=b'["b","a","b"]'), AskSyncStateData(("b", "a")))
        self.assertEqual(self.decode(1012), AskNextBrokerId(CLUSTER, NAME))
        self.assertEqual(self.decode(11003, {"brokerName": NAME}), AskWhy("", NAME))

    def test_cluster_of_the_connection(self) -> None:
        """1001, and 1002 with an empty one, mean the cluster that the connection is of."""
        self.assertEqual(self.decode(1001, caller=Caller("h:1", "d")).event.cluster, "d")
        self.assertEqual(self.decode(1002, {**GOOD[1002][0], "clusterName": ""}).event.cluster, "c")
        event = self.decode(1001, {**GOOD[1001][0], "clusterName": CLUSTER}, GOOD[1001][1], caller=Caller()).event
        self.assertEqual((event.cluster, len(event.evidence.alive)), (CLUSTER, 2))
        self.assertEqual(self.decode(1001, caller=Caller()).code, 2013)
        self.assertEqual(self.decode(1001, caller=Caller(), leading=False).code, 2007)

    def test_not_leading(self) -> None:
        """2007, no header, no body; 1006 that asks nothing is answered first, as Java does."""
        for code in GOOD:
            found = self.decode(code, leading=False)
            self.assertEqual(found, Answer(2007, "The controller is not in leader state"))
        for leading in (True, False):
            for body in (b"", b"[]", b"null"):
                found = self.decode(1006, body=body, leading=leading)
                self.assertEqual(found, Answer(1, "not set any response code"))

    def test_required_fields(self) -> None:
        """Each one missing is refused by name; those that Java leaves null may be absent."""
        for code, names in REQUIRED.items():
            fields = GOOD[code][0]
            for name in names:
                refusal = self.refused(code, {key: value for key, value in fields.items() if key != name})
                self.assertEqual((refusal.code, name in refusal.remark), (ResponseCode.INVALID_PARAMETER, True))
            self.decode(code, {name: fields[name] for name in names})

    def test_hostile_fields(self) -> None:
        """Numbers that are none or too large, names that are too long or not printable, addresses that are none."""
        numbers = ("", "x", "1.5", "1e3", "0x1", "\u00b2", str(2**63), "9" * 400)
        for code, names in REQUIRED.items():
            for name in names:
                values = ("", "x" * 5000, "a\nb", "a\x00b")
                if name in ("masterBrokerId", "masterEpoch", "brokerId", "appliedBrokerId"):
                    values = numbers
                elif name in ("brokerAddress", "registerCheckCode"):
                    values = ("", "nohost", "h:0", "h:65536", "a b:1", ":1", "h:x;1", "h:1 ;2", ";", "x" * 600 + ":1")
                for value in values:
                    if name == "designateElect" or (name == "clusterName" and code == 1002 and value == ""):
                        continue
                    self.refused(code, {**GOOD[code][0], name: value})
        self.refused(1001, {**GOOD[1001][0], "masterEpoch": str(2**31)})

    def test_hostile_bodies(self) -> None:
        """No SyncStateSet, no list of names; code 1 as where Java's parser throws."""
        long_list = json.dumps({"syncStateSet": list(range(MEMBERS_MAX + 1)), "syncStateSetEpoch": 1}).encode()
        for body in (
            b"",
            b"{",
            b"[]",
            b"1",
            b'{"syncStateSet":1}',
            b'{"syncStateSet":["x"]}',
            b'{"syncStateSet":[9223372036854775808]}',
            b'{"syncStateSet":[1],"syncStateSetEpoch":2147483648}',
            b"[" * 100_000,
            b"\xff",
            long_list,
        ):
            self.assertEqual(self.refused(1001, body=body).code, ResponseCode.SYSTEM_ERROR, body[:60])
        for body in (b"true", b"1", json.dumps(["x"] * 1001).encode()):
            self.assertEqual(self.refused(1006, body=body).code, ResponseCode.SYSTEM_ERROR, body[:60])
        self.assertEqual(self.decode(1001, body=b'{"syncStateSet":[]}').event.set_epoch, 0)
        as_texts = self.decode(1001, body=b'{"syncStateSet":["2","1"],"syncStateSetEpoch":"7"}').event
        self.assertEqual(as_texts, self.decode(1001, body=b'{"syncStateSet":[1,2],"syncStateSetEpoch":7}').event)

    def test_ids_to_clean(self) -> None:
        """As Java splits and reads them; with living they are not looked at."""
        fields = GOOD[1011][0]

        def event(text: str, living: str = "false") -> Any:
            return self.decode(
                1011, {**fields, "brokerControllerIdsToClean": text, "isCleanLivingBroker": living}
            ).event

        for text, wanted in (
            ("1", (1,)),
            ("3;1;3", (1, 3)),
            ("+2;", (2,)),
            ("", ()),
            ("  ", ()),
            (";", ()),
            ("-1", (-1,)),
        ):
            self.assertEqual(event(text).broker_ids, wanted, text)
        self.assertEqual((event("x", "true").broker_ids, event("x", "true").living), ((), True))
        for text, bad in (("x", "x"), ("1; 2", " 2"), ("1;;2", ""), (str(2**63), str(2**63)), ("1.0", "1.0")):
            refusal = self.refused(1011, {**fields, "brokerControllerIdsToClean": text})
            self.assertEqual(refusal.code, ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA)
            self.assertTrue(
                refusal.remark.endswith(f'NumberFormatException: For input string: "{bad}"'), refusal.remark
            )
        many = ";".join(str(each) for each in range(MEMBERS_MAX + 1))
        self.assertEqual(self.refused(1011, {**fields, "brokerControllerIdsToClean": many}).code, 2009)

    def test_unknown_code(self) -> None:
        """As Java: 3."""
        refusal = self.assertRaises(RequestRefused, self.controller.requests.decode, request(1014), CALLER, True, 1)
        self.assertEqual((refusal.code, refusal.remark), (3, " request type 1014 not supported"))
        self.assertEqual(set(self.controller.requests._codes), set(GOOD), "all of them are tried here")

    @settings(max_examples=150, deadline=None)
    @given(
        st.sampled_from(sorted(GOOD)),
        st.dictionaries(
            st.sampled_from(sorted({name for fields, _ in GOOD.values() for name in fields})),
            st.one_of(st.text(max_size=20), st.integers().map(str), st.sampled_from(("h:1;2", "true", "1;2", "b"))),
        ),
        st.one_of(st.none(), st.binary(max_size=30), st.sampled_from((SET, b"[]", b'["b"]', b"{}"))),
    )
    def test_anything(self, code: int, changes: dict[str, str], body: bytes | None) -> None:
        """Whatever comes: an entry that can be written and applied, a question that can be answered, or a refusal."""
        controller = Controller()
        make_group(controller)
        fields, good = GOOD[code]
        command = request(code, {**fields, **changes}, good if body is None else body)
        try:
            found = controller.requests.decode(command, CALLER, True, 1)
        except RequestRefused as refusal:
            self.assertTrue(refusal.remark)
            return
        if isinstance(found, Intent):
            self.assertEqual(events.decode(events.encode(found.event)), found.event)
            found = controller.apply(found.event).answer
        elif not isinstance(found, Answer):
            found = controller.requests.answer(found, 1)
        self.assertIn(found.code, {0, 1, 2000, 2001, 2002, 2003, 2004, 2006, 2008, 2009, 2010, 2011, 2012, 2013, 2014})


class QuestionTests(SynchronousTestCase):
    """What the state says to those who ask."""

    def setUp(self) -> None:
        self.controller = Controller()
        make_group(self.controller, 3, (1, 2))

    def test_sync_state_data(self) -> None:
        """1006: who is alive is as heard now; unknown names are skipped; without a master its fields are absent."""
        self.controller.ask(request(904, {**NAMED, "brokerId": "2"}))
        found = json.loads(self.controller.ask(request(1006, body=b'["x","b"]')).body)["replicasInfoTable"]
        self.assertEqual(list(found), ["b"])
        self.assertEqual([row["alive"] for row in found["b"]["inSyncReplicas"]], [False, True])
        self.assertEqual([row["brokerId"] for row in found["b"]["notInSyncReplicas"]], [3])
        self.controller.apply(ElectMaster(CLUSTER, NAME))
        found = json.loads(self.controller.ask(request(1006, body=b'["b"]')).body)["replicasInfoTable"]["b"]
        self.assertEqual({"masterAddress", "masterBrokerId"} & set(found), set())
        self.assertEqual(found["masterEpoch"], 2)

    def test_replica_info(self) -> None:
        """1004: master, address, epoch; without a master only the epoch."""
        answer = self.controller.ask(request(1004, {"brokerName": NAME}))
        self.assertEqual(
            list((answer.fields or {}).items()),
            [("masterBrokerId", "1"), ("masterAddress", "10.0.0.1:10911"), ("masterEpoch", "1")],
        )
        self.controller.apply(ElectMaster(CLUSTER, NAME))
        self.assertEqual(self.controller.ask(request(1004, {"brokerName": NAME})).fields, {"masterEpoch": "2"})
        answer = self.controller.ask(request(1004, {"brokerName": "x"}))
        self.assertEqual(answer, Answer(2008, "Broker metadata is not existed", {}))

    def test_every_java_code_is_named(self) -> None:
        """The numbers in this file are those of Java."""
        self.assertEqual(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, 1001)
        self.assertEqual(RequestCode.CONTROLLER_APPLY_BROKER_ID, 1013)
