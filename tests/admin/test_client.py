"""The client library's arithmetic: routes, shares, bodies. Its conversations are in
tests/services/cluster/test_service.py."""

from __future__ import annotations

import random
import zlib
from typing import Any, cast
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionRefusedError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from rocketha.admin.client import Client, NoMaster, NoRoute, Queue, RequestFailed, Route, parse_route
from rocketha.admin.consumer import Consumer, _Reader
from rocketha.admin.producer import Message, Producer
from rocketha.admin.received import BODY_BYTES_MAX, uncompressed
from rocketha.admin.subscription import Subscription, share
from rocketha.errors import RemoteProtocolError
from rocketha.wire import record
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command
from tests.export.stores import made

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{0:"h:1",2:"h:3"},"brokerName":"b1","cluster":"c"},'
    b'{"brokerAddrs":{"1":"h:9"},"brokerName":"b2","cluster":"c"}],"filterServerTable":{},'
    b'"queueDatas":[{"brokerName":"b2","perm":6,"readQueueNums":1,"topicSysFlag":0,"writeQueueNums":1},'
    b'{"brokerName":"b1","perm":4,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":2},'
    b'{"brokerName":"gone","perm":6,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":2}]}'
)


class RouteTests(SynchronousTestCase):
    """GET_ROUTEINFO_BY_TOPIC's body, fastjson's unquoted keys included (facts/namesrv.md section 3)."""

    def test_queues(self) -> None:
        """Readable without a master, writable only with one and the write bit; without an address, neither."""
        route = parse_route("T", ROUTE)
        self.assertEqual(route.readable(), [Queue("T", "b1", 0), Queue("T", "b1", 1), Queue("T", "b2", 0)])
        self.assertEqual(route.writable(), [])
        self.assertEqual(route.masters(), ["h:1"])
        self.assertEqual((route.address("b1"), route.address("b2")), ("h:1", "h:9"))
        self.assertRaises(NoRoute, route.address, "gone")

    def test_writable(self) -> None:
        """Perm 6 at a broker with id 0."""
        route = parse_route("T", ROUTE.replace(b'"perm":4', b'"perm":6'))
        self.assertEqual(route.writable(), [Queue("T", "b1", 0), Queue("T", "b1", 1)])

    def test_nonsense_is_refused(self) -> None:
        """Whatever a nameserver says: a route or RemoteProtocolError."""
        broken = (b'{"brokerDatas":[1],"queueDatas":[]}', b'{"brokerDatas":null,"queueDatas":[]}')
        for body in (b"", b"[]", b"{}", *broken):
            self.assertRaises(RemoteProtocolError, parse_route, "T", body)
        huge = ROUTE.replace(b'"readQueueNums":1', b'"readQueueNums":1000000000')
        self.assertRaises(RemoteProtocolError, parse_route, "T", huge)

    @given(st.binary(max_size=200))
    def test_any_bytes(self, body: bytes) -> None:
        """The same for arbitrary bytes."""
        try:
            parse_route("T", body)
        except RemoteProtocolError:
            return


class ShareTests(SynchronousTestCase):
    """AllocateMessageQueueAveragely: every member computes it alone, so the shares must fit together."""

    @given(st.integers(0, 40), st.lists(st.text("abcdef", min_size=1), min_size=1, max_size=12, unique=True))
    def test_shares_partition_the_queues(self, count: int, members: list[str]) -> None:
        """Every queue has exactly one owner, in order, and no two shares differ by more than one."""
        shares = [share(list(range(count)), members, member) for member in sorted(members)]
        self.assertEqual([item for each in shares for item in each], list(range(count)))
        self.assertLessEqual(max(map(len, shares)) - min(map(len, shares)), 1)

    def test_as_java(self) -> None:
        """Values computed by hand from AllocateMessageQueueAveragely.allocate for 8 queues and 3 members."""
        queues, members = list(range(8)), ["c", "a", "b"]
        self.assertEqual(share(queues, members, "a"), [0, 1, 2])
        self.assertEqual(share(queues, members, "b"), [3, 4, 5])
        self.assertEqual(share(queues, members, "c"), [6, 7])
        self.assertEqual(share(queues, members, "stranger"), [])


class BodyTests(SynchronousTestCase):
    """Bodies that a Java producer compressed."""

    def test_zlib(self) -> None:
        """sysFlag 1, with or without the type bits, is zlib; without bit 1 the body is as it is."""
        packed = zlib.compress(b"x" * 5000)
        self.assertEqual(uncompressed(packed, 0x1), b"x" * 5000)
        self.assertEqual(uncompressed(packed, 0x301), b"x" * 5000)
        self.assertEqual(uncompressed(packed, 0x0), packed)

    def test_what_cannot_be_read_is_said(self) -> None:
        """LZ4, garbage, and a bomb."""
        for body, flag, word in (
            (b"x", 0x101, "LZ4"),
            (b"garbage", 0x1, "compressed"),
            (zlib.compress(b"x" * 5000)[:-8], 0x1, "too early"),
            (zlib.compress(bytes(BODY_BYTES_MAX + 1)), 0x1, "more than"),
        ):
            error = self.assertRaises(RemoteProtocolError, uncompressed, body, flag)
            self.assertIn(word, str(error))


class SubscriptionTests(SynchronousTestCase):
    """What a heartbeat says."""

    def test_as_json(self) -> None:
        """facts/broker-requests.md section 5: TagA's hash code is 2598919; a retry topic is wanted whole."""
        wanted = Subscription("T", "G", ("TagA",))
        found = wanted.as_json("T", 7)
        self.assertEqual((found["codeSet"], found["subString"], found["subVersion"]), ([2598919], "TagA", 7))
        self.assertEqual(wanted.as_json("%RETRY%G", 7)["subString"], "*")

    def test_tags_are_compared_whole(self) -> None:
        """Two tags can share a hash ("Aa" and "BB"): the broker lets both through, the client does not."""
        wanted = Subscription("T", None, ("Aa",))
        self.assertTrue(wanted.accepts({"TAGS": "Aa"}))
        self.assertFalse(wanted.accepts({"TAGS": "BB"}))
        self.assertFalse(wanted.accepts({}))
        self.assertTrue(Subscription("T").accepts({}))


class ClientTests(SynchronousTestCase):
    """Mistakes before anything is sent."""

    def test_no_nameserver(self) -> None:
        """An empty list is refused at once."""
        reactor: Any = None
        self.assertRaises(NoRoute, Client, reactor, [], random.Random(1))

    def test_failures_name_the_code(self) -> None:
        """A person reads 17 TOPIC_NOT_EXIST, who said so, and why; a code of the future is shown as a number."""
        self.assertEqual(str(RequestFailed(17, "no T", "h:1")), "h:1 answered 17 TOPIC_NOT_EXIST: no T")
        self.assertIn("9999", str(RequestFailed(9999, None, "h:1")))


class SlowRoutes:
    """A client whose routes come when the test says."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[Any]] = []
        self.committed: list[str] = []

    def route(self, topic: str) -> Deferred[Any]:
        self.waiting.append(Deferred())
        return self.waiting[-1]

    async def request(self, address: str, code: int, fields: dict[str, str]) -> None:
        self.committed.append(fields["commitOffset"])


class Reset:
    """A client of a queue with five messages; a pull at its end waits for the test."""

    message = record.sealed(made(random.Random(1), "T", 0))

    def __init__(self) -> None:
        self.committed: list[str] = []
        self._pulls: list[Deferred[Command]] = []

    def route(self, topic: str) -> Deferred[Any]:
        return succeed(parse_route(topic, ROUTE))

    def request(self, address: str, code: int, fields: dict[str, str], **kwargs: Any) -> Deferred[Command]:
        if code == RequestCode.UPDATE_CONSUMER_OFFSET:
            self.committed.append(fields["commitOffset"])
        if code != RequestCode.PULL_MESSAGE:
            return succeed(Command(ResponseCode.SUCCESS, fields={"offset": "0"}))
        at = int(fields["queueOffset"])
        if at < 5:
            body = b"".join(record.encode(self.message._replace(queue_offset=each)) for each in range(at, 5))
            return succeed(Command(ResponseCode.SUCCESS, fields={"nextBeginOffset": "5"}, body=body))
        self._pulls.append(Deferred())
        return self._pulls[-1]

    def answer(self, code: int, following: int) -> None:
        """The pull that waits."""
        self._pulls.pop().callback(Command(code, fields={"nextBeginOffset": str(following)}))


class CommitTests(SynchronousTestCase):
    """A consumer's offsets."""

    def test_a_commit_that_is_overtaken_takes_nothing_back(self) -> None:
        """The last commit before a queue is let go stands, although an older one still waited for the route."""
        client = SlowRoutes()
        consumer = Consumer(cast(Any, client), Subscription("T", "G"), lambda message: True)
        reader = _Reader(consumer, Queue("T", "b1", 0))
        reader.offset = 17
        timed = Deferred.fromCoroutine(consumer._commit(reader))
        reader.offset = 18
        last = Deferred.fromCoroutine(consumer._commit(reader))
        for route in reversed(client.waiting):
            route.callback(parse_route("T", ROUTE))
        self.successResultOf(timed)
        self.successResultOf(last)
        self.assertEqual(client.committed[-1], "18")
        self.assertEqual(reader.committed, 18)

    def test_after_a_reset_the_same_offset_is_committed_again(self) -> None:
        """A member read up to 5 and said so; the group was moved to 0, it reads the same, and says so again."""
        client = Reset()
        taken: list[int] = []
        consumer = Consumer(cast(Any, client), Subscription("T", "G"), lambda each: not taken.append(each.queue_offset))
        reader = _Reader(consumer, Queue("T", "b1", 0))
        consumer._readers[reader.queue] = reader
        reader.start()
        self.successResultOf(Deferred.fromCoroutine(consumer.commit()))
        self.assertEqual((client.committed, taken), (["5"], [0, 1, 2, 3, 4]))
        client.answer(ResponseCode.PULL_OFFSET_MOVED, 0)
        self.assertEqual(taken, [0, 1, 2, 3, 4] * 2)
        self.successResultOf(Deferred.fromCoroutine(consumer.commit()))
        self.successResultOf(Deferred.fromCoroutine(consumer.commit()))
        self.assertEqual(client.committed, ["5", "5"])
        self.successResultOf(reader.leave())


class Masterless:
    """A client of a group that has no master for a while."""

    def __init__(self, until_s: float, refusal: Exception) -> None:
        self.reactor = Clock()
        self.chance = random.Random(1)
        self.tries = 0
        self._until_s = until_s
        self._refusal = refusal

    def now_ms(self) -> int:
        return int(self.reactor.seconds() * 1000)

    async def local_host(self) -> str:
        return "127.0.0.1"

    async def route(self, topic: str, fresh: bool = False) -> Route:
        return Route(topic, {"b": {0: "h:1"}}, {"b": (2, 2)})

    async def request(self, address: str, code: int, fields: Any, body: bytes = b"", *more: Any, **others: Any) -> Any:
        self.tries += 1
        if self.reactor.seconds() < self._until_s:
            raise self._refusal
        return Command(0, fields={"queueId": "0", "queueOffset": "5", "msgId": "m"})


class Unregistered(Masterless):
    """A client of a nameserver that knows no master for a while: slaves only, or no broker at all."""

    def __init__(self, until_s: float, brokers: dict[int, str], queues: tuple[int, int] = (2, 2)) -> None:
        super().__init__(0.0, AssertionError("never raised"))
        self._registered_s = until_s
        self._brokers = brokers
        self._queues = queues

    async def route(self, topic: str, fresh: bool = False) -> Route:
        if self.reactor.seconds() >= self._registered_s:
            return Route(topic, {"b": {**self._brokers, 0: "h:1"}}, {"b": self._queues})
        if not self._brokers:
            raise RequestFailed(17, "no route", "n:1")
        return Route(topic, {"b": self._brokers}, {"b": self._queues})

    async def brokers(self) -> list[str]:
        return list(self._brokers.values())


class MasterlessTests(SynchronousTestCase):
    """Sends while a master is being replaced."""

    def send(self, client: Masterless) -> Deferred[Any]:
        sending = Deferred.fromCoroutine(Producer(cast(Any, client)).send(Message("T", b"x")))
        for _ in range(50):
            client.reactor.advance(0.1)
        return sending

    def test_until_there_is_one(self) -> None:
        """Nobody listens; then somebody is not master yet: neither is a failure before the time is over."""
        for refusal in (ConnectionRefusedError(), RequestFailed(14, "no master", "h:1"), RequestFailed(2, "", "h:1")):
            client = Masterless(1.0, refusal)
            self.assertEqual(self.successResultOf(self.send(client)).queue_offset, 5)

    def test_no_longer_than_the_timeout(self) -> None:
        client = Masterless(10.0, RequestFailed(14, "no master", "h:1"))
        self.failureResultOf(self.send(client), RequestFailed)
        self.assertLess(client.tries, 40)

    def test_other_refusals_are_told_at_once(self) -> None:
        """Three tries, as Java's producer."""
        client = Masterless(10.0, RequestFailed(16, "no permission", "h:1"))
        self.failureResultOf(self.send(client), RequestFailed)
        self.assertEqual(client.tries, 3)

    def test_until_one_is_registered(self) -> None:
        """The nameserver knows slaves alone, or nobody yet: no failure before the time is over."""
        for brokers in ({1: "h:2", 2: "h:3"}, {}):
            client = Unregistered(1.0, brokers)
            self.assertEqual(self.successResultOf(self.send(client)).queue_offset, 5)

    def test_what_was_missing_is_said(self) -> None:
        """When the time is over: a broker's master, or all brokers."""
        problem = self.failureResultOf(self.send(Unregistered(10.0, {1: "h:2"})), NoMaster)
        self.assertEqual(str(problem.value), "no broker with a queue of topic T has a master: b")
        problem = self.failureResultOf(self.send(Unregistered(10.0, {})), NoMaster)
        self.assertEqual(str(problem.value), "topic T does not exist, and no broker is registered")

    def test_no_queue_is_not_waited_for(self) -> None:
        """A topic that may not be written to, a queue that it does not have."""
        problem = self.failureResultOf(self.send(Unregistered(0.0, {1: "h:2"}, (2, 0))), NoRoute)
        self.assertEqual(str(problem.value), "topic T has no writable queue")
        client = Unregistered(10.0, {1: "h:2"})
        sending = Deferred.fromCoroutine(Producer(cast(Any, client)).send(Message("T", b"x"), queue_id=7))
        self.assertEqual(str(self.failureResultOf(sending, NoRoute).value), "topic T has no writable queue 7")


class Switched:
    """A client of a group whose master is another one now; the route that it knows still names the old one."""

    def __init__(self) -> None:
        self.reactor = Clock()
        self.master = "old"
        self.told: list[str] = []
        self.fresh: list[str] = []
        self.held: list[Deferred[Any]] = []

    async def route(self, topic: str, fresh: bool = False) -> Route:
        if fresh:
            self.fresh.append(topic)
            self.master = "new"
        return Route(topic, {"b": {0: self.master}}, {"b": (2, 2)})

    async def request(self, address: str, code: int, fields: Any, body: bytes = b"", **more: Any) -> Any:
        if address == "old":
            raise ConnectionRefusedError
        if code == RequestCode.HEART_BEAT:
            self.told.append(address)
        elif address not in self.told:
            raise RequestFailed(24, "the consumer's group info not exist", address)
        else:
            self.held.append(Deferred())
            await self.held[-1]


class SwitchTests(SynchronousTestCase):
    """The master of a group that is consumed changes."""

    def consume(self, client: Switched) -> mock.Mock:
        """A member of a group that pulls two queues; what it logs."""
        consumer = Consumer(cast(Any, client), Subscription("T", "G"), lambda message: True)
        log = consumer.log = mock.Mock()
        for number in range(2):
            reader = _Reader(consumer, Queue("T", "b", number))
            reader.offset = 0
            reader.start()
            self.addCleanup(reader.leave)
        return log

    def test_the_new_master_is_told_of_us(self) -> None:
        """A second after the old one was gone, not at the next heartbeat; once, for however many queues."""
        client = Switched()
        log = self.consume(client)
        self.assertEqual((client.held, log.warn.call_count), ([], 2))
        client.reactor.advance(1)
        self.assertEqual((client.fresh, client.told, len(client.held)), (["T", "%RETRY%G"], ["new"], 2))
        self.assertEqual(log.warn.call_count, 2)

    def test_a_complaint_is_made_once(self) -> None:
        """As long as it is the same one."""
        client = Switched()
        with mock.patch.object(Switched, "request", side_effect=RequestFailed(24, "unknown", "old")):
            log = self.consume(client)
            for _ in range(5):
                client.reactor.advance(1)
        self.assertEqual(log.warn.call_count, 2)
        self.assertEqual(client.fresh.count("T"), 5)
