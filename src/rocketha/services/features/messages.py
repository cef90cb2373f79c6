"""A broker's own producer and consumer: what a plug-in puts, pulls and follows goes the way of a client's requests.

Theory of operation.  A request of a plug-in is a command on a connection that has no socket; the broker checks, parks,
forwards, acknowledges and answers it like any other, so that all rules hold without being written twice.  Answers are
kept until the turn is over, and told then: whoever hears of one may ask the next thing at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha import interfaces
from rocketha.broker.names import SYSTEM_GROUP_PREFIX
from rocketha.broker.pull import SUBSCRIPTION, SUSPEND
from rocketha.errors import Ignored, RemoteProtocolError, RequestRefused
from rocketha.interfaces import Message, Placed, Pulled, Refused
from rocketha.observe.logging import make_logger
from rocketha.services.core.core import BrokerCore
from rocketha.wire import properties as pairs
from rocketha.wire import record
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.remoting import FLAG_RESPONSE, Answer, Command, decode

STORED = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    )
)
"""Answers to a send whose message is stored."""
NOTHING = frozenset((ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED))
"""Answers to a pull that say where to go on."""
BATCH = 32
FOLLOW_WAIT_S = 15.0
AGAIN_S = 1.0
"""After a refusal, and between two looks at how many queues a topic has."""
WAITING_MAX = 10_000
"""Requests of one plug-in that may wait for their answer."""

_numbers = itertools.count(-1, -1)  # connections of clients count up from 1


class OwnConnection:
    """Stands for a client's connection; see :class:`rocketha.protocols.remoting.RemotingProtocol`.

    :param name: the plug-in's.
    :param host: the address that records have as the producer's.
    :param hear: gets each response.
    """

    closed = False
    language, version = "PYTHON", 0
    peer_port = 0
    socket_host = ""  # it is the broker itself

    def __init__(self, name: str, host: str, hear: Callable[[Command], None]) -> None:
        self.id = next(_numbers)
        self.peer, self.peer_host = f":{name}", host
        self._hear = hear
        self._frames = FrameBuffer()

    def write(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._hear(decode(frame))

    def answer(self, command: Command, answer: Answer) -> None:
        fields = {key: str(value) for key, value in (answer.fields or {}).items()}
        self._hear(
            Command(
                answer.code,
                opaque=command.opaque,
                flag=FLAG_RESPONSE,
                remark=answer.remark,
                fields=fields,
                body=answer.body,
            )
        )

    def has_room(self, unsent_max: int) -> bool:
        return True

    def ignored(self, command: Command, reason: Ignored, what: str) -> None:
        """Nothing that a plug-in says beside its request is left out."""


@implementer(interfaces.IMessages)
class Messages:
    """One plug-in's.

    :param request: the broker's answer to a request, as of :class:`rocketha.protocols.remoting.RequestService`.
    :param serving: whether the broker serves.
    :param failed: told of who fails at a message.
    """

    def __init__(
        self,
        name: str,
        core: BrokerCore,
        request: Callable[[Any, Command], Answer | None],
        serving: Callable[[], bool],
        failed: Callable[[Failure], None],
    ) -> None:
        host = core.state.identity.address.rpartition(":")[0].strip("[]")
        self.connection = OwnConnection(name, host, self._hear)
        self._group = f"{SYSTEM_GROUP_PREFIX}{name}"
        self._topics = core.state.topics
        self._clock, self._wall_ms = core.platform.reactor, core.platform.wall_ms
        self._request = request
        self._as_turn = core.turns.run
        self.end = core.store.max_offset
        self._serving = serving
        self.failed = failed
        self._opaques = itertools.cycle(range(1, 1 << 31))
        self._waiting: dict[int, defer.Deferred[Command]] = {}
        self._heard: list[Command] = []
        self._following: list[Following] = []
        self._log = make_logger()

    # --- for the plug-in

    def put(
        self, topic: str, body: bytes, properties: Mapping[str, str] | None = None, queue_id: int | None = None
    ) -> defer.Deferred[Placed]:
        given = dict(properties or {})
        for name, value in given.items():
            if not _is_property(name) or not _is_property(value):
                return defer.fail(Refused(f"{name!r}: {value!r} is no property", ResponseCode.MESSAGE_ILLEGAL))
        given_as: tuple[Any, Any] = topic, body
        if not isinstance(given_as[0], str) or not isinstance(given_as[1], bytes):
            wrong = f"a text and bytes are wanted, not {type(topic).__name__} and {type(body).__name__}"
            return defer.fail(Refused(wrong, ResponseCode.MESSAGE_ILLEGAL))
        fields = {
            "a": self._group,
            "b": topic,
            "c": "TBW102",
            "d": "4",
            "e": str(-1 if queue_id is None else queue_id),
            "f": "0",
            "g": str(self._wall_ms()),
            "h": "0",
            "i": pairs.build_text(given),
            "j": "0",
            "k": "false",
            "m": "false",
        }
        return self.ask(RequestCode.SEND_MESSAGE_V2, fields, body).addCallback(_placed)

    def pull(
        self, topic: str, queue_id: int, offset: int, count: int = BATCH, wait_s: float = 0.0
    ) -> defer.Deferred[Pulled]:
        fields = {
            "consumerGroup": self._group,
            "topic": topic,
            "queueId": str(queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(count),
            "sysFlag": str(SUBSCRIPTION | (SUSPEND if wait_s > 0 else 0)),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(int(wait_s * 1000)),
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        return self.ask(RequestCode.PULL_MESSAGE, fields).addCallback(_pulled)

    def queues(self, topic: str) -> int:
        config = self._topics.table.get(topic)
        return 0 if config is None else config.read_queue_nums

    def follow(self, topic: str, receive: Callable[[Message], Any], from_begin: bool = False) -> Following:
        following = Following(self, topic, receive, from_begin, self._clock)
        self._following.append(following)
        following.look()
        return following

    # --- the way there and back

    def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> defer.Deferred[Command]:
        """A request and its response, whatever its code."""
        if not self._serving() or self.connection.closed:
            return defer.fail(Refused("the broker does not serve", ResponseCode.SERVICE_NOT_AVAILABLE))
        if len(self._waiting) >= WAITING_MAX:
            return defer.fail(Refused(f"{WAITING_MAX} requests wait for their answers", ResponseCode.SYSTEM_BUSY))
        command = Command(code, opaque=next(self._opaques), fields=fields, body=body)
        result = self._waiting[command.opaque] = defer.Deferred()
        self._as_turn(lambda: self._serve(command))
        return result

    def _serve(self, command: Command) -> None:
        try:
            answer = self._request(self.connection, command)
        except RequestRefused as refusal:
            answer = Answer(refusal.code, refusal.remark)
        except RemoteProtocolError as problem:
            answer = Answer(ResponseCode.SYSTEM_ERROR, str(problem))
        except Exception as problem:
            self._log.failure("a request of a plug-in failed: {log_failure.value}")
            answer = Answer(ResponseCode.SYSTEM_ERROR, f"{type(problem).__name__}: {problem}"[:1000])
        if answer is not None:
            self.connection.answer(command, answer)

    def _hear(self, response: Command) -> None:
        if not self._heard:
            self._clock.callLater(0, self._tell)
        self._heard.append(response)

    def _tell(self) -> None:
        heard, self._heard = self._heard, []
        for response in heard:
            waiting = self._waiting.pop(response.opaque, None)
            if waiting is not None:
                waiting.callback(response)

    def stop(self) -> None:
        """Whoever waits for an answer hears that there will be none."""
        self.connection.closed = True
        for following in tuple(self._following):
            following.stop()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.errback(Refused("the broker stops", ResponseCode.SERVICE_NOT_AVAILABLE))

    def forget(self, following: Following) -> None:
        """It was stopped."""
        if following in self._following:
            self._following.remove(following)


@implementer(interfaces.IFollowing)
class Following:
    """One topic, followed; a pull for each queue waits at the broker."""

    def __init__(
        self, messages: Messages, topic: str, receive: Callable[[Message], Any], from_begin: bool, clock: Any
    ) -> None:
        self._messages = messages
        self._topic = topic
        self._receive = receive
        self._clock = clock
        self._stopped = False
        self._queues: set[int] = set()
        # of each queue that there is now; one that comes later is followed from its first message on
        numbers = () if from_begin else range(messages.queues(topic))
        self._begins = {number: messages.end(topic, number) for number in numbers}
        self._timers: dict[str, Any] = {}

    def stop(self) -> None:
        self._stopped = True
        for timer in self._timers.values():
            if timer.active():
                timer.cancel()
        self._messages.forget(self)

    def look(self) -> None:
        """Follow the queues that are not followed yet."""
        if self._stopped:
            return
        for queue_id in range(self._messages.queues(self._topic)):
            if queue_id not in self._queues:
                self._queues.add(queue_id)
                running = defer.ensureDeferred(self._follow(queue_id, self._begins.get(queue_id, 0)))
                running.addErrback(self._messages.failed)
        self._timers["look"] = self._clock.callLater(AGAIN_S, self.look)

    async def _follow(self, queue_id: int, offset: int) -> None:
        while self._goes_on():
            began_s = self._clock.seconds()
            try:
                found = await self._messages.pull(self._topic, queue_id, offset, BATCH, FOLLOW_WAIT_S)
            except RequestRefused:
                await self._pause(queue_id, AGAIN_S)
                continue
            for message in found.messages:
                if not self._goes_on():
                    return
                try:
                    await defer.maybeDeferred(self._receive, message)
                except Exception:
                    self._messages.failed(Failure())
            if not found.messages and found.next_offset == offset:  # the broker did not let it wait
                waited = self._clock.seconds() - began_s >= AGAIN_S
                await self._pause(queue_id, 0 if waited else AGAIN_S)
            offset = found.next_offset

    def _goes_on(self) -> bool:
        return not self._stopped

    def _pause(self, queue_id: int, seconds: float) -> defer.Deferred[None]:
        over: defer.Deferred[None] = defer.Deferred()
        if not self._stopped:
            self._timers[str(queue_id)] = self._clock.callLater(seconds, over.callback, None)
        return over


def message_of(found: record.Record) -> Message:
    """A stored record, for a plug-in; without properties where these are damaged."""
    try:
        properties = pairs.parse(found.properties)
    except RemoteProtocolError:
        properties = {}
    return Message(
        found.topic,
        found.queue_id,
        found.queue_offset,
        found.physical_offset,
        found.total,
        found.body,
        properties,
        found.born_timestamp_ms,
        found.store_timestamp_ms,
        record.compression(found.sys_flag),
    )


def _is_property(text: Any) -> bool:
    return isinstance(text, str) and bool(text) and {pairs.NAME_VALUE, pairs.PAIR}.isdisjoint(text)


def _refused(response: Command) -> Refused:
    return Refused(response.remark or "refused", response.code)


def _placed(response: Command) -> Placed:
    if response.code not in STORED:
        raise _refused(response)
    fields = response.fields
    return Placed(int(fields["queueId"]), int(fields["queueOffset"]), fields.get("msgId", ""), response.code)


def _pulled(response: Command) -> Pulled:
    if response.code != ResponseCode.SUCCESS and response.code not in NOTHING:
        raise _refused(response)
    fields = response.fields
    found = [each for _, _, each in record.walk(response.body)] if not response.code else []
    messages = [message_of(each) for each in found if isinstance(each, record.Record)]
    return Pulled(messages, int(fields["nextBeginOffset"]), int(fields["minOffset"]), int(fields["maxOffset"]))
