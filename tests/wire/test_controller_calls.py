"""A broker's calls to its controller: what Java's brokers sent is what we send, what Java answered is understood.

Source: recorded dialogue of brokers and controller of RocketMQ 5.5.0; facts of controller mode, 1.
"""

from __future__ import annotations

import unittest
from typing import Any

from rocketha.controller.registration import MEMBERS_MAX
from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire import controller_calls as calls
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.controller_calls import Beat, Call, ControllerInfo, MasterInfo, SyncSet
from rocketha.wire.remoting import Command
from tests.wire.support import ha_dialogue

MASTER = {"masterBrokerId": "1", "masterAddress": "h:1", "masterEpoch": "4", "syncStateSetEpoch": "7"}


def answer(
    code: int = 0, fields: dict[str, str] | None = None, body: bytes = b"", remark: str | None = None
) -> Command:
    """An answer of a controller."""
    return Command(code, flag=1, fields=fields or {}, body=body, remark=remark)


class GoldenTests(unittest.TestCase):
    """Recorded requests come out of our functions; recorded answers give what they say."""

    def made(self, code: int, fields: dict[str, str], body: bytes) -> Call:
        """Our request from the values of Java's."""
        number = {name: int(text) for name, text in fields.items() if text.isdigit()}
        if code == 1001:
            wanted = calls.decode_set(body)
            return calls.alter_sync_state_set(
                "c",
                fields["brokerName"],
                number["masterBrokerId"],
                number["masterEpoch"],
                frozenset(wanted.members),
                wanted.epoch,
                number["invokeTime"],
            )
        if code == 1004:
            return calls.get_replica_info("c", fields["brokerName"])
        if code == 1005:
            return calls.get_metadata()
        names = fields["clusterName"], fields["brokerName"]
        if code == 1002:
            designate = fields["designateElect"] == "true"
            return calls.elect_master(*names, number["brokerId"], number["invokeTime"], designate)
        if code == 1003:
            return calls.register_broker(*names, number["brokerId"], fields["brokerAddress"], number["invokeTime"])
        if code == 1012:
            return calls.get_next_broker_id(*names)
        if code == 1013:
            return calls.apply_broker_id(*names, number["appliedBrokerId"], fields["registerCheckCode"])
        return calls.heartbeat(
            Beat(
                *names,
                number["brokerId"],
                fields["brokerAddr"],
                number["epoch"],
                number["maxOffset"],
                number["confirmOffset"],
                number["heartbeatTimeoutMills"],
                number["electionPriority"],
            )
        )

    def test_requests(self) -> None:
        """Code, fields and body, for every request that a Java broker was seen to send."""
        seen = set()
        for request, _ in ha_dialogue():
            if request.code in (904, 1001, 1002, 1003, 1004, 1005, 1012, 1013):
                seen.add(request.code)
                with self.subTest(request.code, fields=request.fields):
                    made = self.made(request.code, request.fields, request.body)
                    ours = {"clusterName": "c"} if request.code in (1001, 1004) else {}
                    self.assertEqual(made, (request.code, {**ours, **request.fields}, request.body))
        self.assertEqual(seen, {904, 1001, 1002, 1003, 1004, 1005, 1012, 1013})

    def test_answers(self) -> None:
        """In the order of the recording."""
        readers: dict[int, Any] = {
            1001: calls.altered,
            1002: calls.elected,
            1003: calls.registered,
            1004: calls.replica_info,
            1005: calls.metadata,
            1012: calls.next_broker_id,
        }
        found: dict[int, list[Any]] = {}
        for request, reply in ha_dialogue():
            if request.code in readers and reply is not None:
                found.setdefault(request.code, []).append(readers[request.code](reply))
        one, two = "127.0.0.1:32011", "127.0.0.1:32021"
        self.assertEqual(found[1001][:2], [SyncSet((1, 2), 2), SyncSet((1, 2), 4)])
        self.assertEqual(
            found[1002], [MasterInfo(1, one, 1, SyncSet((1,), 1)), MasterInfo(2, two, 2, SyncSet((2,), 3))]
        )
        self.assertEqual(found[1003], [MasterInfo(0, "", 0, SyncSet((), 0)), MasterInfo(1, one, 1, SyncSet((1,), 1))])
        self.assertIn(MasterInfo(1, one, 1, SyncSet((1, 2), 2)), found[1004])
        peers = {"n0": "127.0.0.1:32878"}
        self.assertEqual(found[1005], [ControllerInfo("n0", peers["n0"], True, peers, "group1")])
        self.assertEqual(found[1012], [1, 2])

    def test_notice(self) -> None:
        """1008 as Java's controller sent it."""
        (notice,) = [request for request, _ in ha_dialogue() if request.code == 1008]
        self.assertEqual(calls.role_changed(notice), MasterInfo(2, "127.0.0.1:32021", 2, SyncSet((2,), 3)))

    def test_set_again(self) -> None:
        """A set is written byte for byte as Java wrote it."""
        for request, reply in ha_dialogue():
            for side in (request, reply):
                if side is not None and side.body.startswith(b'{"syncStateSet"'):
                    self.assertEqual(calls.encode_set(calls.decode_set(side.body)), side.body)


class AnswerTests(unittest.TestCase):
    """Refusals keep their code, nonsense is named."""

    def test_refusals(self) -> None:
        """Whatever was asked: the controller's own code and words."""
        no = answer(ResponseCode.CONTROLLER_NOT_LEADER, remark="The controller is not in leader state")
        for read in (
            calls.altered,
            calls.elected,
            calls.registered,
            calls.replica_info,
            calls.metadata,
            calls.next_broker_id,
            calls.applied,
            calls.confirmed,
        ):
            with self.assertRaises(RequestRefused) as caught:
                read(no)
            self.assertEqual(caught.exception.code, 2007)
            self.assertEqual(caught.exception.remark, "The controller is not in leader state")
        with self.assertRaises(RequestRefused):
            calls.applied(answer(ResponseCode.CONTROLLER_BROKER_ID_INVALID))
        self.assertIsNone(calls.applied(answer()))

    def test_the_master_lives(self) -> None:
        """2011 is a success of 1002 alone, as Java's brokers have it."""
        still = answer(ResponseCode.CONTROLLER_MASTER_STILL_EXIST, MASTER, b'{"syncStateSet":[2,1]}')
        self.assertEqual(calls.elected(still), MasterInfo(1, "h:1", 4, SyncSet((1, 2), 7)))
        with self.assertRaises(RequestRefused):
            calls.registered(still)

    def test_the_headers_epoch_counts(self) -> None:
        """The body of 1002 has none; where both are there Java takes the header's."""
        body = b'{"syncStateSet":[1,3],"syncStateSetEpoch":5}'
        self.assertEqual(calls.registered(answer(0, MASTER, body)).in_sync, SyncSet((1, 3), 7))
        self.assertEqual(calls.replica_info(answer(0, {"masterEpoch": "3"}, body)), (0, "", 3, SyncSet((1, 3), 5)))
        self.assertEqual(calls.replica_info(answer(0, {"masterEpoch": "3"})), (0, "", 3, SyncSet((), 0)))
        self.assertEqual(calls.confirmed(answer(0, MASTER, body)), (1, "h:1", 4, SyncSet((1, 3), 7)))

    def test_no_leader_and_many_peers(self) -> None:
        """1005 of a group without a leader; IPv6; JRaft's empty texts."""
        found = calls.metadata(answer(0, {"isLeader": "false", "peers": "n0:[::1]:9878;n1:h:2;", "group": "g"}))
        self.assertEqual(found, ControllerInfo("", "", False, {"n0": "[::1]:9878", "n1": "h:2"}, "g"))
        found = calls.metadata(answer(0, {"controllerLeaderId": "", "controllerLeaderAddress": ""}))
        self.assertEqual(found, ControllerInfo("", "", False, {}, ""))
        with self.assertRaisesRegex(RemoteProtocolError, "65 controllers"):
            calls.metadata(answer(0, {"peers": "n:h:1;" * 65}))

    def test_nonsense(self) -> None:
        """Each breach by the name of its field."""
        good = b'{"syncStateSet":[1],"syncStateSetEpoch":7}'
        for read, fields, body, text in (
            (calls.altered, {"newSyncStateSetEpoch": "8"}, good, "of epoch 8 in its header, 7 in its body"),
            (calls.altered, {}, b'{"syncStateSet":[],"syncStateSetEpoch":7}', "without members"),
            (calls.altered, {}, b"", "JSON"),
            (calls.altered, {}, b"[]", "no JSON object"),
            (calls.altered, {}, b'{"syncStateSet":{"1":1}}', "a list of longs is wanted"),
            (calls.altered, {}, b'{"syncStateSet":[%b1]}' % (b"1," * 256), "257 entries, allowed are 256"),
            (calls.altered, {}, b'{"syncStateSet":[0]}', "no broker id"),
            (calls.altered, {}, b'{"syncStateSet":[-1]}', "no broker id"),
            (calls.altered, {}, b'{"syncStateSet":[false]}', "no broker id"),
            (calls.altered, {}, b'{"syncStateSet":["x"]}', "a long is wanted"),
            (calls.altered, {}, b'{"syncStateSet":[9223372036854775808]}', "a long is wanted"),
            (calls.altered, {}, b'{"syncStateSet":[1],"syncStateSetEpoch":-1}', "syncStateSetEpoch is -1"),
            (calls.altered, {}, b'{"syncStateSet":[1],"syncStateSetEpoch":2147483648}', "syncStateSetEpoch"),
            (calls.elected, {}, b"{}", "names no master"),
            (calls.elected, {**MASTER, "masterBrokerId": "0"}, b"", "masterBrokerId is '0'"),
            (calls.elected, {**MASTER, "masterBrokerId": "x"}, b"", "masterBrokerId is 'x'"),
            (calls.elected, {**MASTER, "masterBrokerId": "9" * 19}, b"", "masterBrokerId"),
            (calls.elected, {**MASTER, "masterEpoch": "-1"}, b"", "masterEpoch is '-1'"),
            (calls.elected, {**MASTER, "masterEpoch": "2147483648"}, b"", "masterEpoch"),
            (calls.elected, {**MASTER, "masterEpoch": "\u00b2"}, b"", "masterEpoch"),
            (calls.elected, {**MASTER, "syncStateSetEpoch": ""}, b"", "syncStateSetEpoch is ''"),
            (calls.elected, {**MASTER, "masterAddress": ""}, b"", "masterAddress is ''"),
            (calls.elected, {**MASTER, "masterAddress": "h"}, b"", "masterAddress is 'h'"),
            (calls.elected, {**MASTER, "masterAddress": ":1"}, b"", "masterAddress is ':1'"),
            (calls.elected, {**MASTER, "masterAddress": "h:0"}, b"", "masterAddress is 'h:0'"),
            (calls.elected, {**MASTER, "masterAddress": "h:65536"}, b"", "masterAddress"),
            (calls.elected, {**MASTER, "masterAddress": "h\n:1"}, b"", "masterAddress"),
            (calls.elected, {**MASTER, "masterAddress": "a b:1"}, b"", "masterAddress"),
            (calls.elected, {**MASTER, "masterAddress": "h" * 300 + ":1"}, b"", "masterAddress"),
            (calls.next_broker_id, {}, b"", "nextBrokerId is ''"),
            (calls.next_broker_id, {"nextBrokerId": "0"}, b"", "nextBrokerId is '0'"),
            (calls.metadata, {"controllerLeaderAddress": "nowhere"}, b"", "controllerLeaderAddress"),
            (calls.metadata, {"peers": "n0;"}, b"", "peers is ''"),
        ):
            with self.subTest(text, fields=fields, body=body), self.assertRaisesRegex(RemoteProtocolError, text):
                read(answer(0, fields, body))

    def test_notices_that_say_nothing(self) -> None:
        """Without a master, without an epoch, of another code."""
        body = b'{"syncStateSet":[1],"syncStateSetEpoch":7}'
        for code, fields, text in (
            (1008, {"masterEpoch": "3"}, "names no master"),
            (1008, {**MASTER, "masterEpoch": "0"}, "masterEpoch is '0'"),
            (1008, {key: MASTER[key] for key in MASTER if key != "masterEpoch"}, "masterEpoch is ''"),
            (1009, MASTER, "request 1009 is no notice"),
        ):
            with self.subTest(text), self.assertRaisesRegex(RemoteProtocolError, text):
                calls.role_changed(Command(code, fields=dict(fields), body=body))

    def test_one_with_the_controller(self) -> None:
        """What both ends have to say alike."""
        self.assertEqual(calls.CONFIRM_MASTER, PrivateCode.CONFIRM_MASTER)
        self.assertEqual(calls.MEMBERS_MAX, MEMBERS_MAX)
        call = calls.confirm_master("c", "b", 2, 9)
        self.assertEqual(call.code, 11006)
        self.assertEqual(call.fields, {"clusterName": "c", "brokerName": "b", "brokerId": "2", "masterEpoch": "9"})
        beat = calls.heartbeat(Beat("c", "b", 2, "h:1", 9, 5, 4, confirms_role=True))
        self.assertEqual(beat.code, RequestCode.BROKER_HEARTBEAT)
        self.assertEqual(beat.fields["confirmsRole"], "true")
