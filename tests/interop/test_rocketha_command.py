"""``rocketha send`` and ``receive`` with RocketMQ's own nameserver and broker, and beside its own clients.

The command's client library is ours, and so are the servers it meets elsewhere: here Java says whether it is right.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from .harness import FULL, PAIRS, PairCase, wait_until
from .harness.case import for_pairs
from .harness.roles import our_environment

PATIENCE_S = 90


class CommandCase(PairCase):
    """The command in processes of its own."""

    def command(self, *arguments: str) -> list[str]:
        """A subcommand that talks to this pair."""
        name, *rest = arguments
        return [sys.executable, "-m", "rocketha.admin.cli", name, "--namesrv", self.namesrv.address, *rest]

    def rocketha(self, *arguments: str, stdin: str = "") -> str:
        """Run it to its end; its output."""
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=our_environment(),
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def received(self, output: str) -> list[dict[str, Any]]:
        """The messages of ``receive --format json``."""
        return [json.loads(line) for line in output.splitlines()]

    def test_java_reads_what_the_command_sends(self) -> None:
        """Single, batch and oneway messages arrive at a Java push consumer with body, tag, keys and properties."""
        topic = "CommandSends"
        self.rocketha("send", topic, "first")
        self.client.consume("reader", topic, group="command-reader", subscription="*")
        self.rocketha("send", topic, "tagged", "--tags", "A", "--keys", "k1 k2", "--property", "colour=grün")
        self.rocketha("send", topic, "b1", "b2", "b3", "--batch")
        self.rocketha("send", topic, "one", "--oneway")
        self.rocketha("send", topic, "--quiet", stdin="".join(f"line {number}\n" for number in range(20)))
        messages = self.client.await_received("reader", 26)
        self.client.stop_consumer("reader")
        self.assertEqual(len(messages), 26)
        (tagged,) = [each for each in messages if each.get("tags") == "A"]
        self.assertEqual(tagged["key"], "k1 k2")
        self.assertEqual(tagged["props"]["colour"], "grün")

    def test_the_command_reads_what_java_sends(self) -> None:
        """Bodies that Java compressed too; tags are filtered; every message once, with Java's unique keys."""
        topic = "CommandReceives"
        self.rocketha("send", topic, "makes the topic")
        sent = self.client.send(topic, "sync", 60, prefix="java", tags=["A", "B"], max_size=9000)
        got = self.received(self.rocketha("receive", topic, "--from", "first", "--count", "61", "--format", "json"))
        self.assertEqual(
            sorted(each["properties"]["UNIQ_KEY"] for each in got if "TAGS" in each["properties"]),
            sorted(each["id"] for each in sent),
        )
        only = self.rocketha("receive", topic, "--from", "first", "--tags", "B", "--idle", "3", "--format", "json")
        self.assertEqual({each["properties"]["TAGS"] for each in self.received(only)}, {"B"})
        self.assertEqual(len(only.splitlines()), 30)

    def test_one_group_with_java(self) -> None:
        """The command and a Java push consumer share a group: each message once; what one leaves, the other takes."""
        topic, group = "CommandShares", "command-shares"
        self.rocketha("send", topic, "makes the topic")
        self.client.consume("java", topic, group=group, persist_ms=200)
        self.client.await_queues("java", topic, 4)
        self.client.await_received("java", 1)
        output = self.subfolder("receive") / "out.jsonl"
        with output.open("wb") as file:
            ours = subprocess.Popen(
                self.command("receive", topic, "--group", group, "--format", "json"), stdout=file, env=our_environment()
            )
        try:
            self.client.await_queues("java", topic, 2)
            sent = self.client.send(topic, "sync", 40, prefix="both")

            def all_came() -> bool:
                lines = output.read_bytes().count(b"\n")
                return lines > 0 and lines + len(self.client.received("java")) >= 41

            wait_until("both to have received everything", all_came, PATIENCE_S, lambda: ours.poll() is None)
        finally:
            ours.terminate()
            ours.wait(PATIENCE_S)
        self.client.await_queues("java", topic, 4)
        sent += self.client.send(topic, "sync", 20, prefix="alone")
        mine = [each["properties"]["UNIQ_KEY"] for each in self.received(output.read_text(encoding="utf-8"))]
        theirs = [each["id"] for each in self.client.await_received("java", 61 - len(mine))]
        self.client.stop_consumer("java")
        self.assertEqual(len(set(mine) & set(theirs)), 0)
        self.assertEqual(len(mine), len(set(mine)))
        self.assertLessEqual({each["id"] for each in sent}, set(mine) | set(theirs))


globals().update(for_pairs(CommandCase, sample=PAIRS[:1] if not FULL else PAIRS))
del CommandCase
