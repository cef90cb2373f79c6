"""The cluster in this process, on free loopback ports, talked to with our own client library.

The real nameserver, broker and store, on a real directory. What the real Java clients make of them is tests/interop's.
"""

from __future__ import annotations

import io
import pathlib
import random
from collections.abc import Callable
from typing import Any

from twisted.internet import defer, reactor, task
from twisted.trial.unittest import TestCase

from rocketha.admin.client import Client, NoRoute, RequestFailed
from rocketha.admin.consumer import Consumer
from rocketha.admin.producer import Message, Producer
from rocketha.admin.received import Received
from rocketha.admin.subscription import Subscription
from rocketha.errors import RemoteProtocolError
from rocketha.protocols.endpoints import Dialer
from rocketha.services.cluster import tap as cluster_tap
from rocketha.services.cluster.service import ClusterService
from tests.interop.harness import ports

PATIENCE_S = 90


class Inbox:
    """Collects messages, and fires when there are as many as somebody waits for."""

    def __init__(self) -> None:
        self.messages: list[Received] = []
        self._waiting: list[tuple[int, defer.Deferred[list[Received]]]] = []

    def deliver(self, message: Received) -> bool:
        """What a Consumer calls."""
        self.messages.append(message)
        for count, waiter in list(self._waiting):
            if len(self.messages) >= count:
                self._waiting.remove((count, waiter))
                waiter.callback(self.messages)
        return True

    def wait_for(self, count: int) -> defer.Deferred[list[Received]]:
        """The messages, once there are ``count``."""
        waiter: defer.Deferred[list[Received]] = defer.Deferred()
        waiter.addTimeout(PATIENCE_S, reactor)
        if len(self.messages) >= count:
            waiter.callback(self.messages)
        else:
            self._waiting.append((count, waiter))
        return waiter

    @property
    def bodies(self) -> list[bytes]:
        """In order of arrival."""
        return [message.body for message in self.messages]


class ClusterTestCase(TestCase):
    """Starts and stops clusters on one directory."""

    timeout = 300

    def setUp(self) -> None:
        """A directory and ports."""
        self.data = self.mktemp()
        self.namesrv = ports.block()
        self.broker = ports.block()
        self.told = io.StringIO()
        self.clients = 0

    async def start_cluster(self, *more: str) -> ClusterService:
        """A cluster that serves; stopped at the end of the test if it still runs."""
        options = cluster_tap.Options()
        ports = ["--namesrv-port", str(self.namesrv), "--broker-port", str(self.broker)]
        # Small files, so that a test does not preallocate a gigabyte.
        small = ["--set", "mappedFileSizeCommitLog=8388608", "--set", "maxMessageSize=1048576"]
        options.parseOptions(["--data", self.data, *ports, *small, *more])
        whole: Any = cluster_tap.makeService(options)
        cluster = whole.getServiceNamed("cluster")
        cluster.disownServiceParent()  # without the clock of the process, which is the test runner's here
        cluster._tell = self.told.write
        cluster.privilegedStartService()
        cluster.startService()
        self.addCleanup(lambda: cluster.stopService() if cluster.running else None)
        cluster.served.addTimeout(PATIENCE_S, reactor)
        await cluster.served
        return cluster

    def client(self) -> Client:
        """A client of that cluster, closed at the end."""
        # Each its own seed: a consumer's id is made of it, and two equal ids are one member.
        self.clients += 1
        client = Client(Dialer(reactor), [f"127.0.0.1:{self.namesrv}"], random.Random(self.clients))
        self.addCleanup(client.close)
        return client

    async def consume(self, subscription: Subscription) -> tuple[Consumer, Inbox]:
        """A consumer that has started, stopped at the end."""
        inbox = Inbox()
        consumer = Consumer(self.client(), subscription, inbox.deliver)
        await consumer.start()
        self.addCleanup(lambda: defer.Deferred.fromCoroutine(consumer.stop()))
        return consumer, inbox

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """For what tells nobody."""
        end = reactor.seconds() + PATIENCE_S
        while not holds():
            self.assertLess(reactor.seconds(), end, f"{what} did not come about")
            await task.deferLater(reactor, 0.01)


class ConversationTests(ClusterTestCase):
    """Messages through the cluster."""

    async def test_what_is_sent_is_received(self) -> None:
        """Single, batch and oneway messages, with tags, keys and properties, arrive once each, exactly as sent."""
        await self.start_cluster()
        producer = Producer(self.client())
        named = {"TAGS": "A", "KEYS": "k1 k2", "colour": "grün"}
        sent = await producer.send(Message("T", b"one \x00\xff", named))
        self.assertEqual((sent.status, sent.queue.topic, sent.queue_offset), ("SEND_OK", "T", 0))
        many = await producer.send_batch([Message("T", b"two", {"TAGS": "A"}), Message("T", b"three")])
        self.assertEqual(len(many.message_id.split(",")), 2)
        await producer.send_oneway(Message("T", b"four"))
        await producer.drain()
        _consumer, inbox = await self.consume(Subscription("T", start="first"))
        messages = await inbox.wait_for(4)
        self.assertEqual(sorted(inbox.bodies), [b"four", b"one \x00\xff", b"three", b"two"])
        (first,) = [each for each in messages if each.body.startswith(b"one")]
        self.assertEqual({name: first.properties[name] for name in named}, named)
        self.assertEqual(first.properties["UNIQ_KEY"], sent.message_id)
        self.assertEqual(first.offset_message_id, sent.offset_message_id)

    async def test_a_waiting_consumer_is_woken(self) -> None:
        """Long polling: a message sent later arrives well before the 15 s of a poll, filtered by its tag."""
        cluster = await self.start_cluster()
        producer = Producer(self.client())
        await producer.send(Message("T", b"before"))
        consumer, inbox = await self.consume(Subscription("T", tags=("B",), start="last"))
        held = cluster.broker.broker.reading.held
        await self.until("a pull of each queue", lambda: 0 < len(consumer._readers) == held.count)
        for tag in ("A", "B"):
            await producer.send(Message("T", tag.encode(), {"TAGS": tag}))
        began = reactor.seconds()
        await inbox.wait_for(1)
        self.assertLess(reactor.seconds() - began, 5)
        self.assertEqual(inbox.bodies, [b"B"])

    async def test_a_group_shares_and_remembers(self) -> None:
        """Two members share the queues; when one leaves, the other takes over; nothing comes twice or is lost."""
        await self.start_cluster()
        producer = Producer(self.client())
        await producer.send(Message("T", b"0"))
        wanted = Subscription("T", "G", start="first")
        first, inbox = await self.consume(wanted)
        await inbox.wait_for(1)
        second, other = await self.consume(wanted)

        def are_shared() -> bool:
            mine, theirs = set(first._readers), set(second._readers)
            return bool(mine and theirs) and not mine & theirs and len(mine | theirs) == 5

        await self.until("the queues are shared", are_shared)
        for number in range(1, 41):
            await producer.send(Message("T", str(number).encode()))
        await self.until("all have come", lambda: len(inbox.messages) + len(other.messages) >= 41)
        self.assertTrue(other.messages)
        await second.stop()
        await self.until("the first has all queues", lambda: len(first._readers) == 5)
        await producer.send(Message("T", b"41"))
        await self.until("the last has come", lambda: b"41" in inbox.bodies)
        self.assertEqual(sorted(map(int, inbox.bodies + other.bodies)), list(range(42)))
        await first.stop()
        _third, third = await self.consume(wanted)
        await producer.send(Message("T", b"42"))
        await third.wait_for(1)
        self.assertEqual(third.bodies, [b"42"])

    async def test_what_is_not_taken_is_not_committed(self) -> None:
        """A consumer that has enough (receive --count 1) leaves the rest to the next member of the group."""
        await self.start_cluster()
        await Producer(self.client()).send_batch([Message("T", b"a"), Message("T", b"b")])
        taken: list[bytes] = []

        def deliver(message: Received) -> bool:
            if taken:
                return False
            taken.append(message.body)
            return True

        consumer = Consumer(self.client(), Subscription("T", "G", start="first"), deliver)
        await consumer.start()
        await self.until("one was taken", lambda: bool(taken))
        await consumer.stop()
        _second, inbox = await self.consume(Subscription("T", "G", start="first"))
        await inbox.wait_for(1)
        self.assertEqual((taken, inbox.bodies), ([b"a"], [b"b"]))

    async def test_mistakes_are_answered(self) -> None:
        """An unknown topic, an empty body, a body over the limit: each a clear error, and the cluster goes on."""
        await self.start_cluster()
        client = self.client()
        producer = Producer(client)
        with self.assertRaises(RequestFailed) as refused:
            await client.route("Nope")
        self.assertEqual(refused.exception.code, 17)
        with self.assertRaises(RemoteProtocolError):
            await producer.send(Message("T", b""))
        with self.assertRaises(RequestFailed) as refused:
            await producer.send(Message("T", bytes(1048577)))
        self.assertEqual(refused.exception.code, 13)
        with self.assertRaises(RequestFailed) as refused:
            await producer.send(Message("../../etc", b"x"))
        with self.assertRaises(NoRoute):
            await producer.send(Message("T", b"x"), queue_id=99)
        self.assertEqual((await producer.send(Message("T", b"x"))).status, "SEND_OK")


class LifeTests(ClusterTestCase):
    """Starting, stopping, starting again."""

    async def test_the_words_at_the_start(self) -> None:
        """Addresses, state, and a line to copy that names this nameserver."""
        await self.start_cluster()
        words = self.told.getvalue()
        self.assertIn(f"127.0.0.1:{self.namesrv}", words)
        self.assertIn(f"127.0.0.1:{self.broker}", words)
        self.assertIn(": new\n", words)
        self.assertRegex(words, rf"rocketha send --namesrv 127.0.0.1:{self.namesrv} TopicTest hello\n")

    async def test_a_restart_keeps_everything(self) -> None:
        """Messages, topics and the group's progress are there again, and the state says so."""
        cluster = await self.start_cluster()
        producer = Producer(self.client())
        await producer.send_batch([Message("T", b"a"), Message("T", b"b")])
        consumer, inbox = await self.consume(Subscription("T", "G", start="first"))
        await inbox.wait_for(2)
        await consumer.stop()
        await cluster.stopService()
        self.assertFalse((pathlib.Path(self.data) / "store" / "abort").exists())
        self.told = io.StringIO()
        await self.start_cluster()
        self.assertIn("2 messages in 1 topics, stopped cleanly", self.told.getvalue())
        _again, second = await self.consume(Subscription("T", "G", start="first"))
        await Producer(self.client()).send(Message("T", b"c"))
        await second.wait_for(1)
        self.assertEqual(second.bodies, [b"c"])
        _all, everything = await self.consume(Subscription("T", start="first"))
        await everything.wait_for(3)
        self.assertEqual(sorted(everything.bodies), [b"a", b"b", b"c"])
