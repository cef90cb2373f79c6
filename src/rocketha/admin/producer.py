"""Sending: single messages, batches and oneway, with RocketMQ's retry to another queue.

What it must not know: the command line.

Theory of operation.  Queues are taken in turn from a random start. When a broker refuses with a code that may pass, or
does not answer, the message goes to the next queue of another broker if there is one, three times in all: a message
may then be stored twice, with the same unique key, exactly as with Java's producer. Where no broker can take it at the
moment, as while a master is being replaced, it is tried again with a fresh route as long as the timeout allows; Java's
gives up. Codes 10, 11 and 12 mean stored, and are results (see docs/durability.rst), not errors.

Java: ``DefaultMQProducerImpl``, ``MQFaultStrategy`` (without its latency table), ``MessageClientIDSetter``.
"""

from __future__ import annotations

import datetime
import ipaddress
import itertools
import os
from collections.abc import Mapping, Sequence

import attrs
from twisted.internet import task

from rocketha.admin.client import DEFAULT_TOPIC, NETWORK_ERRORS, Client, NoMaster, NoRoute, Queue, RequestFailed, Route
from rocketha.errors import RemoteProtocolError
from rocketha.wire import batch, properties
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.unique_id import UniqueIds

BODY_BYTES_MAX = 4 * 1024 * 1024
ATTEMPTS = 3
DEFAULT_TOPIC_QUEUES = 4

STORED = {
    ResponseCode.SUCCESS: "SEND_OK",
    ResponseCode.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
    ResponseCode.SLAVE_NOT_AVAILABLE: "SLAVE_NOT_AVAILABLE",
}
"""Codes that mean the message is in the log, and Java's names for them (``SendStatus``)."""

MAY_PASS = frozenset({17, 14, 1, 2, 16, 204, 205, 1500})
"""Codes after which another queue is tried (``DefaultMQProducer.retryResponseCodes``)."""

NO_MASTER = frozenset({ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE})
"""Those of a broker that is not master: another one is, or will be before long."""
AGAIN_S = 0.1
"""Between two tries while there is no master."""


@attrs.frozen
class Message:
    """What is sent: a topic, a body, and properties (``TAGS``, ``KEYS``, ``DELAY``, the user's own)."""

    topic: str
    body: bytes
    properties: Mapping[str, str] = attrs.Factory(dict)
    flag: int = 0


@attrs.frozen
class Sent:
    """Where a message went.

    :ivar status: a value of :data:`STORED`, or ``ONEWAY``.
    :ivar message_id: the unique key; for a batch, joined by commas.
    :ivar offset_message_id: the server's id, which points into its log; empty for oneway.
    :ivar queue_offset: of the (first) message; None for oneway.
    """

    status: str
    message_id: str
    offset_message_id: str
    queue: Queue
    queue_offset: int | None


class Producer:
    """Sends to the topics of one cluster.

    :param group: the producer group named in requests.
    """

    def __init__(self, client: Client, group: str = "rocketha_send") -> None:
        self._client = client
        self._group = group
        self._ids: UniqueIds | None = None
        self._turn: dict[str, int] = {}
        self._unconfirmed: dict[str, Queue] = {}

    async def send(self, message: Message, queue_id: int | None = None, timeout_s: float = 3.0) -> Sent:
        """Store one message.

        :raises RequestFailed: refused for good, or three times.
        :raises NoMaster: there is no master, and none came within the timeout.
        :raises NoRoute: there is nowhere to send to.
        """
        return await self._deliver(await self._with_id(message), queue_id, timeout_s, many=None)

    async def send_batch(self, messages: Sequence[Message], timeout_s: float = 3.0) -> Sent:
        """Store several messages of one topic, all or none, in one queue, without a gap."""
        if not messages or len({message.topic for message in messages}) != 1:
            raise RemoteProtocolError("a batch is of one topic and not empty")
        if any(properties.DELAY in message.properties for message in messages):
            raise RemoteProtocolError("a batch cannot be delayed")
        stamped = [await self._with_id(message) for message in messages]
        body = batch.join(
            batch.BatchMessage(message.flag, message.body, properties.build(message.properties)) for message in stamped
        )
        whole = await self._with_id(Message(messages[0].topic, body, {properties.WAIT: "true"}))
        return await self._deliver(whole, None, timeout_s, many=stamped)

    async def send_oneway(self, message: Message, queue_id: int | None = None) -> Sent:
        """Hand one message to the connection; nobody says whether it was stored."""
        stamped = await self._with_id(message)
        route = await self._route(message.topic)
        queue = self._next_queue(route, queue_id, set())
        fields = self._fields(stamped, queue, many=False)
        address = route.address(queue.broker_name)
        await self._client.oneway(address, RequestCode.SEND_MESSAGE_V2, fields, stamped.body)
        self._unconfirmed[address] = queue
        return Sent("ONEWAY", stamped.properties[properties.UNIQUE_KEY], "", queue, None)

    async def drain(self) -> None:
        """Wait until the brokers have read what was sent oneway: before the connections are closed."""
        unconfirmed, self._unconfirmed = self._unconfirmed, {}
        for address, queue in unconfirmed.items():
            # Requests of one connection are read in order; this one is answered.
            fields = {"topic": queue.topic, "queueId": str(queue.queue_id)}
            await self._client.request(address, RequestCode.GET_MAX_OFFSET, fields)

    async def _deliver(
        self, message: Message, queue_id: int | None, timeout_s: float, many: Sequence[Message] | None
    ) -> Sent:
        tried: set[str] = set()
        last: Exception | None = None
        code = RequestCode.SEND_MESSAGE_V2 if many is None else RequestCode.SEND_BATCH_MESSAGE
        clock = self._client.reactor
        until_s = clock.seconds() + timeout_s
        for attempt in itertools.count():
            if attempt >= ATTEMPTS:
                if not _is_no_master(last) or clock.seconds() >= until_s:
                    break
                await task.deferLater(clock, AGAIN_S)
            try:
                route = await self._route(message.topic, fresh=attempt > 0)
                queue = self._next_queue(route, queue_id, tried)
            except NoMaster as problem:
                last = problem
                continue
            tried.add(queue.broker_name)
            fields = self._fields(message, queue, many is not None)
            address = route.address(queue.broker_name)
            try:
                answer = await self._client.request(address, code, fields, message.body, timeout_s, accepted=STORED)
            except RequestFailed as problem:
                if problem.code not in MAY_PASS:
                    raise
                last = problem
                continue
            except NETWORK_ERRORS as problem:
                last = problem
                continue
            stamped = many or [message]
            return Sent(
                STORED[ResponseCode(answer.code)],
                ",".join(each.properties[properties.UNIQUE_KEY] for each in stamped),
                answer.fields.get("msgId", ""),
                Queue(message.topic, queue.broker_name, _number(answer.fields, "queueId")),
                _number(answer.fields, "queueOffset"),
            )
        if last is None:
            raise NoRoute("nothing was tried")
        raise last

    async def _route(self, topic: str, fresh: bool = False) -> Route:
        """The topic's route; for a topic that does not exist yet, the queues it will be created with."""
        try:
            return await self._client.route(topic, fresh)
        except RequestFailed as problem:
            if problem.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
        try:
            model = await self._client.route(DEFAULT_TOPIC, fresh)
        except RequestFailed as problem:
            if problem.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            if not await self._client.brokers():
                raise NoMaster(f"topic {topic} does not exist, and no broker is registered") from None
            raise NoRoute(f"topic {topic} does not exist, and no broker creates topics by itself") from None
        queues = {name: (0, min(DEFAULT_TOPIC_QUEUES, read)) for name, (read, _write) in model.queues.items()}
        return Route(topic, model.brokers, queues)

    def _next_queue(self, route: Route, queue_id: int | None, avoided: set[str]) -> Queue:
        """The next queue in turn, of another broker than the avoided ones where there is one.

        :raises NoMaster: there will be one once its broker has a master.
        :raises NoRoute: there is none.
        """
        queues = [queue for queue in route.writable() if queue_id in (None, queue.queue_id)]
        if not queues:
            raise _nowhere(route, queue_id)
        preferred = [queue for queue in queues if queue.broker_name not in avoided] or queues
        turn = self._turn.get(route.topic)
        if turn is None:
            turn = self._client.chance.randrange(1 << 16)
        self._turn[route.topic] = turn + 1
        return preferred[turn % len(preferred)]

    def _fields(self, message: Message, queue: Queue, many: bool) -> dict[str, str]:
        """The one-letter header of SEND_MESSAGE_V2 (``SendMessageRequestHeaderV2``)."""
        return {
            "a": self._group,
            "b": message.topic,
            "c": DEFAULT_TOPIC,
            "d": str(DEFAULT_TOPIC_QUEUES),
            "e": str(queue.queue_id),
            "f": "0",
            "g": str(self._client.now_ms()),
            "h": str(message.flag),
            "i": properties.build_text(message.properties),
            "j": "0",
            "k": "false",
            "m": "true" if many else "false",
            "n": queue.broker_name,
        }

    async def _with_id(self, message: Message) -> Message:
        """The message with a unique key and Java's defaults among its properties, checked against the limits.

        :raises RemoteProtocolError: the broker would refuse it anyway.
        """
        if len(message.body) > BODY_BYTES_MAX:
            raise RemoteProtocolError(f"a body of {len(message.body)} bytes, at most {BODY_BYTES_MAX}")
        if not message.body:
            raise RemoteProtocolError("an empty body: RocketMQ stores no such message")
        for name, value in message.properties.items():
            if not name or not value or any(mark in name + value for mark in "\x01\x02"):
                raise RemoteProtocolError(f"property {name!r}: an empty name or value, or a separator in it")
        found = dict(message.properties)
        found.setdefault(properties.UNIQUE_KEY, await self._next_id())
        found.setdefault(properties.WAIT, "true")
        return attrs.evolve(message, properties=found)

    async def _next_id(self) -> str:
        if self._ids is None:
            address = ipaddress.ip_address((await self._client.local_host()).partition("%")[0]).packed
            self._ids = UniqueIds(address, os.getpid(), self._client.chance.getrandbits(32))
        now = datetime.datetime.fromtimestamp(self._client.reactor.seconds())
        month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        return self._ids.next(int((now - month).total_seconds() * 1000))


def _nowhere(route: Route, queue_id: int | None) -> NoRoute:
    """Why a route has no queue to send to."""
    having = [queue.broker_name for queue in route.with_write_permission() if queue_id in (None, queue.queue_id)]
    if having:
        names = ", ".join(dict.fromkeys(having))
        return NoMaster(f"no broker with a queue of topic {route.topic} has a master: {names}")
    wanted = "" if queue_id is None else f" {queue_id}"
    return NoRoute(f"topic {route.topic} has no writable queue{wanted}")


def _is_no_master(problem: Exception | None) -> bool:
    if isinstance(problem, RequestFailed):
        return problem.code in NO_MASTER
    return isinstance(problem, (NoMaster, *NETWORK_ERRORS))


def _number(fields: Mapping[str, str], name: str) -> int:
    try:
        return int(fields[name])
    except (KeyError, ValueError):
        raise RemoteProtocolError(f"the answer's {name} is {fields.get(name)!r}") from None
