"""``rocketha controller``: what a person is shown, and the whole command against running controllers."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import click
from twisted.internet import defer, reactor
from twisted.trial.unittest import SynchronousTestCase

from rocketha.admin import controller, output
from rocketha.admin.client import NoRoute, RequestFailed
from rocketha.admin.controller import HEAD, status_table, why_lines
from rocketha.admin.controllers import Controllers, opened
from rocketha.errors import ConfigError
from rocketha.protocols.endpoints import Dialer
from tests.admin.parsing import parsed
from tests.interop.harness.ports import free_ports
from tests.services.controller_case import CLUSTER, NAME, ControllerCase


def lines(rows: list[output.Row], notes: list[str]) -> list[str]:
    return [*output.aligned(HEAD, rows), *notes]


class LinesTests(SynchronousTestCase):
    """Tables."""

    def test_status(self) -> None:
        """One line a controller, the unreachable too; below it whoever is suspected."""
        rows: dict[str, dict[str, Any]] = {
            "n0": {
                "address": "h:1",
                "role": "leader",
                "term": 3,
                "committedIndex": 9,
                "appliedIndex": 9,
                "brokerSets": 1,
                "brokersHeard": 2,
                "suspicions": {"C/b:1": "dead"},
            },
            "n1": {"address": "long-host:10", "problem": "refused"},
        }
        self.assertEqual(
            lines(*status_table(rows)),
            [
                "ID  ADDRESS       ROLE    TERM  COMMITTED  APPLIED  SETS  HEARD  SUSPECTED",
                "n0  h:1           leader  3     9          9        1     2      1",
                "n1  long-host:10  -       -     -          -        -     -      -",
                "n0 suspects C/b:1: dead",
                "n1: refused",
            ],
        )

    def test_why(self) -> None:
        """The newest last, with the time of day and what was seen; each broker by its id and its address."""
        decision = {
            "index": 7,
            "did": "ELECTED",
            "why": "PORT_REFUSED",
            "reason": "gone",
            "masterBrokerId": 2,
            "leaderClockMs": 1_700_000_000_123,
            "masterEpoch": 2,
            "syncStateSet": [2],
            "syncStateSetEpoch": 5,
            "seen": [{"brokerId": 1, "saw": "PORT_REFUSED", "text": ""}],
        }
        found = {
            "clusterName": "C",
            "brokerName": "b",
            "masterBrokerId": 2,
            "masterEpoch": 2,
            "syncStateSet": [2],
            "syncStateSetEpoch": 6,
            "brokerAddrs": {"2": "h:2"},
            "cleanedBrokerAddrs": {"1": "h:1"},
            "decisions": [{**decision, "index": 6}, decision],
        }
        self.assertEqual(
            why_lines(found, 1),
            [
                "C/b: master 2 (h:2) in epoch 2, in sync 2 (h:2) in set epoch 6",
                "2023-11-14T22:13:20.123Z  7  ELECTED  PORT_REFUSED: gone  ->  "
                "master 2 (h:2) in epoch 2, in sync 2 (h:2) in set epoch 5",
                "      broker 1 (h:1) PORT_REFUSED",
            ],
        )
        self.assertIn("imported", why_lines({**found, "decisions": []}, 16)[1])

    def test_controllers_of_java(self) -> None:
        """They do not know the question; that is no number to look up, but a name."""

        class Java:
            async def peers(self) -> dict[str, str]:
                return {"n0": "h:1"}

            async def ask(self, address: str, code: int) -> None:
                raise RequestFailed(3, f" request type {code} not supported", address)

        action, args = parsed(controller.command, "status")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            code = self.successResultOf(defer.Deferred.fromCoroutine(action(Java(), args)))
        self.assertEqual(code, 1)
        self.assertIn("n0: a controller of Java's", printed.getvalue())

    def test_no_address(self) -> None:
        """Wrong usage."""
        _, given = parsed(controller.command, "-a", ";", "status")
        self.assertRaises(ConfigError, opened, reactor, given)


class CommandTests(ControllerCase):
    """Against three controllers, asked through one that does not lead."""

    count = 3

    def act(self, *arguments: str) -> defer.Deferred[tuple[int, str]]:
        """Its exit code and output."""
        follower = next(node for node in self.nodes.values() if not node.leading)
        action, args = parsed(controller.command, "-a", follower.config.self_address, *arguments)
        controllers = Controllers(Dialer(reactor), [args.controllers])
        self.addCleanup(controllers.close)
        output = io.StringIO()

        async def main() -> tuple[int, str]:
            with contextlib.redirect_stdout(output):
                code = await action(controllers, args)
            return code, output.getvalue()

        return defer.Deferred.fromCoroutine(main())

    @defer.inlineCallbacks
    def test_all(self) -> Any:
        """Status, why, members, transfer, and a refusal, from a follower's address."""
        yield self.start_brokers(1)
        code, text = yield self.act("status")
        self.assertEqual((code, text.count("follower"), text.count("leader")), (0, 2, 1))
        code, text = yield self.act("why", NAME, "--cluster", CLUSTER)
        self.assertIn("ELECTED  BROKER_ASKED", text)
        code, text = yield self.act("members")
        self.assertEqual(text.count("votes"), 3)
        to = next(name for name, node in self.nodes.items() if not node.leading)
        code, text = yield self.act("transfer", to)
        self.assertEqual((code, text), (0, f"{to} leads\n"))
        yield self.await_leader()
        self.assertTrue(self.nodes[to].leading)
        # A term begins with an entry that is not of the state machine: it is applied like any other.
        code, text = yield self.act("status", "--json")
        leader = json.loads(text)[to]
        self.assertEqual(leader["appliedIndex"], leader["committedIndex"])
        yield self.assertFailure(self.act("why", "nobody"), RequestFailed)
        yield self.assertFailure(self.act("remove", "n9"), click.UsageError)
        yield self.assertFailure(self.act("clean", NAME, "7"), click.UsageError)
        yield self.assertFailure(self.act("clean", NAME, "1", "--yes"), RequestFailed)
        code, text = yield self.act("clean", NAME, "7", "--yes")
        self.assertEqual((code, text), (0, f"{NAME}: without 7; there was no 7\n"))
        yield self.assertFailure(self.act("remove", "n9", "--yes"), RequestFailed)

    @defer.inlineCallbacks
    def test_nobody_answers(self) -> Any:
        """Said with the reason of each."""
        controllers = Controllers(Dialer(reactor), [f"127.0.0.1:{port}" for port in free_ports(2)])
        self.addCleanup(controllers.close)
        problem = yield self.assertFailure(defer.Deferred.fromCoroutine(controllers.metadata()), NoRoute)
        self.assertEqual(str(problem).count("was refused"), 2)
