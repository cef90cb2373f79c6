"""``rocketha topic``, ``group``, ``route``, ``message`` and ``broker`` with Java's own servers and clients, in place of
``mqadmin``: what the commands change Java's clients see, and what those do the commands show.

Only with ROCKETHA_INTEROP_FULL=1.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from .harness import FULL, PAIRS, PairCase, wait_until
from .harness.case import for_pairs
from .harness.roles import our_environment
from .harness.switching import SIDES, SwitchingCase, for_controllers

PATIENCE_S = 90


def rocketha(*arguments: str) -> tuple[int, Any]:
    """Exit code, and what is on standard output, or error, as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "rocketha.admin.cli", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=our_environment(),
        check=False,
    )
    return done.returncode, json.loads(done.stdout if done.returncode == 0 else done.stderr)


class ClusterCommandCase(PairCase):
    """One nameserver and one broker."""

    def ask(self, *arguments: str) -> Any:
        code, found = rocketha(*arguments, "--namesrv", self.namesrv.address)
        self.assertEqual(code, 0, found)
        return found

    def refused(self, *arguments: str) -> str:
        code, found = rocketha(*arguments, "--namesrv", self.namesrv.address)
        self.assertEqual((code, found["exit"]), (1, 1))
        return str(found["error"])

    def test_topics(self) -> None:
        """Made, shown, changed, counted, drained, deleted."""
        topic = "CommandTopic"
        self.assertEqual(self.ask("topic", "create", topic, "--queues", "3"), {"brokers": ["broker-a"]})
        wait_until("the nameserver to know it", lambda: topic in self.ask("topic", "list"), PATIENCE_S)
        self.assertIn("already", self.refused("topic", "create", topic))
        self.assertIn("TBW102", self.ask("topic", "list", "--all"))
        self.assertEqual(len(self.client.send(topic, "sync", 6, prefix="t")), 6)
        self.assertEqual(sum(row["maxOffset"] for row in self.ask("topic", "status", topic)), 6)
        self.ask("topic", "update", topic, "--write", "2")

        def shown() -> bool:
            (row,) = self.ask("route", topic)
            return (row["readQueues"], row["writeQueues"]) == (3, 2)

        wait_until("the route to change", shown, PATIENCE_S)
        (row,) = self.ask("topic", "show", topic)
        self.assertEqual((row["readQueueNums"], row["writeQueueNums"], row["perm"]), (3, 2, 6))
        self.ask("broker", "drain", "broker-a", "--yes")
        self.assertEqual(self.ask("route", topic)[0]["writeQueues"], 0)
        self.ask("broker", "drain", "broker-a", "--undo")
        self.assertEqual(self.ask("route", topic)[0]["writeQueues"], 2)
        self.ask("topic", "delete", topic, "--yes")
        self.assertNotIn(topic, self.ask("topic", "list"))
        self.assertIn("TOPIC_NOT_EXIST", self.refused("topic", "show", topic))

    def test_groups(self) -> None:
        """A Java push consumer is shown, moved while it is connected, and moved when it is gone."""
        topic, group = "CommandGroup", "command-workers"
        self.ask("topic", "create", topic, "--queues", "2")
        self.ask("group", "create", group, "--retries", "3")
        self.assertIn(group, [row["group"] for row in self.ask("group", "list")])
        self.assertEqual(self.ask("group", "show", group)["configurations"]["broker-a"]["retryMaxTimes"], 3)
        self.client.send(topic, "sync", 10, prefix="g")
        self.client.consume("worker", topic, group=group, persist_ms=200)
        self.client.await_received("worker", 10)
        self.assertEqual(len(self.ask("group", "show", group)["members"]), 1)

        def lag(wanted: int) -> bool:
            code, found = rocketha("group", "lag", group, "--topic", topic, "--namesrv", self.namesrv.address)
            return code == 0 and found["lag"] == wanted

        wait_until("nothing to be left", lambda: lag(0), PATIENCE_S)
        self.assertFalse(self.ask("group", "reset", group, topic, "--to", "earliest")["done"])
        self.ask("group", "reset", group, topic, "--to", "earliest", "--execute", "--yes")
        self.client.await_received("worker", 20)
        wait_until("nothing to be left", lambda: lag(0), PATIENCE_S)
        self.ask("group", "reset", group, topic, "--to", "3", "--execute", "--yes")
        self.client.await_received("worker", 24)
        self.client.stop_consumer("worker")
        wait_until("it to be gone", lambda: not self.ask("group", "show", group)["members"], PATIENCE_S)
        for where, left in (("earliest", 10), ("2", 6), ("latest", 0), ("2020-01-01T00:00", 10)):
            self.ask("group", "reset", group, topic, "--to", where, "--execute", "--yes")
            self.assertTrue(lag(left), where)
        self.ask("group", "delete", group, "--yes")
        self.assertNotIn(group, [row["group"] for row in self.ask("group", "list")])

    def test_messages(self) -> None:
        """What Java sent is found by both of its ids."""
        topic = "CommandMessages"
        self.ask("topic", "create", topic, "--queues", "2")
        (sent,) = self.client.send(topic, "sync", 1, prefix="m")

        def found() -> Any:
            code, rows = rocketha("message", "show", sent["id"], "--topic", topic, "--namesrv", self.namesrv.address)
            return rows if code == 0 else None

        (message,) = wait_until("it to be indexed", found, PATIENCE_S)
        self.assertEqual(self.ask("message", "show", message["id"])[0]["properties"]["UNIQ_KEY"], sent["id"])
        code, out = subprocess.getstatusoutput(
            f"{sys.executable} -m rocketha.admin.cli message tail {topic} --since 1h --count 1 --json "
            f"--namesrv {self.namesrv.address}"
        )
        self.assertEqual((code, json.loads(out)["id"]), (0, message["id"]))

    def test_brokers(self) -> None:
        (row,) = self.ask("broker", "list")
        self.assertEqual((row["broker"], row["id"]), ("broker-a", 0))
        self.assertIn("brokerVersionDesc", self.ask("broker", "status", "broker-a")[row["address"]])


class ReplicaCommandCase(SwitchingCase):
    """Two replicas of Java under three controllers."""

    replicas = 2

    def ask(self, *arguments: str, controllers: bool = True) -> tuple[int, Any]:
        leader = self.group.controllers.await_leader()
        where = ("--controllers", leader.address) if controllers else ()
        return rocketha("broker", *arguments, "--namesrv", self.group.namesrv_addresses, *where)

    def send(self) -> None:
        """Messages, so that the epoch is not empty: an empty one is forgotten."""
        words = ("send", "CommandReplicas", "x", "--count", "5", "--timeout", "30")
        done = subprocess.run(
            [sys.executable, "-m", "rocketha.admin.cli", *words, "--namesrv", self.group.namesrv_addresses],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=our_environment(),
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_replica_leaves(self) -> None:
        """Its role is handed over, it stops, the controllers miss it and then forget it."""
        state = self.group.await_whole()
        master = self.group.master()
        self.send()
        number = str(state.master_id)
        wait_until(
            "both to be registered",
            lambda: len(self.ask("list", controllers=False)[1]) == 2,
            PATIENCE_S,
        )
        code, said = self.ask("decommission", "broker-a", "--id", number, "--yes")
        self.assertEqual(code, 1, said)
        code, said = self.ask("drain", "broker-a", "--id", number, "--yes")
        self.assertEqual(code, 0, said)
        changed = self.group.await_master(lambda found: found.master_epoch > state.master_epoch)
        self.assertEqual(changed.master_id, said["master"])
        self.group.await_whole()
        self.send()

        def epochs() -> bool:
            code, rows = self.ask("epochs", "broker-a", controllers=False)
            return code == 0 and {row["epoch"] for row in rows} == {state.master_epoch, changed.master_epoch}

        wait_until("both to have both epochs", epochs, PATIENCE_S)
        master.kill()
        arguments = ("decommission", "broker-a", "--id", number, "--yes")
        wait_until("it to be forgotten", lambda: self.ask(*arguments)[0] == 0, PATIENCE_S)
        code, said = self.ask(*arguments)
        self.assertEqual(code, 2, said)


globals().update(for_pairs(ClusterCommandCase, sample=PAIRS if FULL else ()))
globals().update(for_controllers(ReplicaCommandCase, sample=(), full=(SIDES[0], SIDES[2])))
del ClusterCommandCase, ReplicaCommandCase
