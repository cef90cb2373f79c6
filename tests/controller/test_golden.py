"""Answers recorded from Apache RocketMQ 5.5.0 (controller in a name server, two real brokers, mqadmin): ours are the
same bytes for the same requests.

data/golden.json: the requests of both brokers' first starts, of the election by mqadmin and of getSyncStateSet, in the
order in which they came, each with Java's answer; heartbeats stand where the brokers sent them.
"""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rocketha.controller import answers
from rocketha.controller.requests import Caller
from rocketha.wire import json_dialect, remoting
from rocketha.wire.remoting import Answer, Command
from tests.controller.support import Controller, load


def recorded() -> list[tuple[Command, Answer | None]]:
    """Request and answer, None for a oneway one."""
    found: list[tuple[Command, Answer | None]] = []
    for row in load("golden.json")["conversation"]:
        command = remoting.request(row["code"], row.get("fields"), row.get("body", "").encode(), row["code"] == 904)
        answer = row.get("answer")
        reply = None
        if answer is not None:
            reply = Answer(answer["code"], answer.get("remark"), answer.get("fields"), answer.get("body", "").encode())
        found.append((command, reply))
    return found


class GoldenTests(SynchronousTestCase):
    """golden/controller-mode, golden/elect, golden/admin-getSyncStateSet, golden/admin-getControllerMetaData."""

    def test_conversation(self) -> None:
        """Header fields in Java's order and bodies byte for byte; the election's body holds Java's and more."""
        controller, seen = Controller(), set()
        for command, wanted in recorded():
            if command.code == 1005:
                found = answers.metadata("group1", "n0", "127.0.0.1:32878", True, {"n0": "127.0.0.1:32878"})
            else:
                found = controller.ask(command)
            if wanted is None:
                continue
            seen.add(command.code)
            if command.code == 1002:
                theirs, mine = json_dialect.loads(wanted.body), json_dialect.loads(found.body)
                self.assertEqual({key: mine[key] for key in theirs}, theirs)
                found, wanted = found._replace(body=b""), wanted._replace(body=b"")
            self.assertEqual(_bytes(found), _bytes(wanted), command)
        self.assertEqual(seen, {1001, 1002, 1003, 1004, 1005, 1006, 1012, 1013})

    def test_notices(self) -> None:
        """1008 as the brokers got it."""
        controller, notices = Controller(), []
        for command, _ in recorded():
            if command.code == 1002:
                found: Any = controller.requests.decode(command, Caller("", controller.cluster), True, 1)
                notices = list(controller.apply(found.event).notices)
            elif command.code != 1005:
                controller.ask(command)
        theirs = load("golden.json")["notices"]
        self.assertEqual([notice.receiver_address for notice in notices], [row["to"] for row in theirs])
        for notice, row in zip(notices, theirs, strict=True):
            command = notice.command()
            self.assertEqual((command.code, command.flag), (1008, 2))
            self.assertEqual(list(command.fields.items()), list(row["fields"].items()))
            self.assertEqual(command.body, row["body"].encode())

    def test_mqadmin_reads_the_election(self) -> None:
        """It decodes the whole body as a BrokerMemberGroup: no bare integer key anywhere, its keys at the top."""
        controller = Controller()
        body = b""
        for command, _ in recorded():
            if command.code != 1005:
                answer = controller.ask(command)
                body = answer.body if command.code == 1002 else body
        found = json.loads(body)
        self.assertEqual(found["brokerAddrs"], {"1": "127.0.0.1:32011", "2": "127.0.0.1:32021"})
        self.assertEqual((found["brokerName"], found["cluster"]), ("broker-a", "DefaultCluster"))

    def test_metadata_without_a_leader(self) -> None:
        """The leader's fields are left out, as DLedger's controller does."""
        answer = answers.metadata("g", "", "", False, {"n1": "b:2", "n0": "a:1"})
        self.assertEqual(answer.fields, {"isLeader": "false", "peers": "n0:a:1;n1:b:2;", "group": "g"})


def _bytes(answer: Answer) -> tuple[Any, ...]:
    return answer.code, answer.remark, json.dumps(answer.fields), answer.body
