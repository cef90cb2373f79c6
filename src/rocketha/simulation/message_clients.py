"""Clients of a simulated cluster: producers that retry as Java's do, consumers that pull, and who makes the topics.

They speak the real wire through the real :class:`RemotingClient`, find masters by the name server's routes, and tell
:class:`MessageOracle` everything they are told.  What they do is what the Java client does where that matters for
safety: one try after another within the send's time, at another group if there is one, again after a refusal whose
cause may pass, and never a claim about an attempt that got no answer.

Java: ``DefaultMQProducerImpl.sendDefaultImpl``, ``DefaultMQPullConsumerImpl``, ``MQClientInstance``.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from typing import Any

from twisted.internet import defer, error, task

from rocketha.broker.send import MAYBE_STORED
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.simulation.host import Process
from rocketha.simulation.message_oracle import SEPARATOR, Attempt, MessageOracle, QueueName
from rocketha.wire import batch, json_dialect, properties
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.record import scan
from rocketha.wire.remoting import Command

NO_ANSWER = (error.ConnectionClosed, error.TimeoutError, error.ConnectionAborted)
"""The request may have arrived."""
OPEN = frozenset({ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE, ResponseCode.FLUSH_SLAVE_TIMEOUT})
"""Stored, and no promise that it stays."""
SEND_S, TRIES = 3.0, 3
ROUTE_S = 5.0
SUSPEND_S = 3.0
PAUSE_S = 0.3
SUSPEND_FLAG, SUBSCRIPTION_FLAG = 0x2, 0x4
PULL_MAX = 32
DELAYS_S = {1: 1.0, 2: 5.0}
"""Of the lowest delay levels."""
SYSTEM_TOPIC = "TBW102"
"""Every master that makes topics by itself has it: its route says who the masters are."""


class Routes:
    """Where the brokers of a topic are, as the name server last said."""

    def __init__(self, process: Process, nameserver: str) -> None:
        self._client = RemotingClient(Dialer(process.reactor))
        self._reactor = process.reactor
        self._nameserver = nameserver
        self._brokers: dict[str, dict[str, dict[int, str]]] = {}
        self._asked_s: dict[str, float] = {}

    def address(self, topic: str, group: str, number: int = 0) -> str | None:
        """Of a broker by its id, 0 for the master; None where the route has none."""
        return self._brokers.get(topic, {}).get(group, {}).get(number)

    def numbers(self, topic: str, group: str) -> list[int]:
        """Ids of a group's brokers in the route."""
        return sorted(self._brokers.get(topic, {}).get(group, {}))

    @defer.inlineCallbacks
    def request(
        self, address: str, code: int, fields: Mapping[str, str], body: bytes = b"", timeout_s: float = 3.0
    ) -> Generator[Any, Any, Command]:
        """See :meth:`RemotingClient.request`.  A connection on which no answer came in time is given up, as by Java's
        client: whoever was there may have lost its power, and TCP may take minutes to find out."""
        try:
            answer: Command = yield self._client.request(address, code, fields, body, timeout_s)
        except error.TimeoutError:
            self._client.connect(address).addCallbacks(lambda connection: connection.abort(), lambda _: None)
            raise
        return answer

    @defer.inlineCallbacks
    def look(self, topic: str, anew: bool = False) -> Generator[Any, Any, None]:
        """Ask the name server, if the last answer is old or did not help."""
        now = self._reactor.seconds()
        if now - self._asked_s.get(topic, -ROUTE_S) < (PAUSE_S if anew else ROUTE_S):
            return
        self._asked_s[topic] = now
        try:
            answer = yield self.request(
                self._nameserver, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}, timeout_s=2.0
            )
        except (error.ConnectError, *NO_ANSWER):
            return
        if answer.code == ResponseCode.SUCCESS:
            self._brokers[topic] = {
                str(each["brokerName"]): {int(number): str(at) for number, at in each["brokerAddrs"].items()}
                for each in json_dialect.loads(answer.body)["brokerDatas"]
            }


class Producer:
    """Sends, one message or batch at a time, to the groups in turn.

    :param groups: broker names.
    :param per_s: how many a second on the average.
    :param until_s: true time; then it is silent.
    """

    suffix = ""

    def __init__(
        self,
        process: Process,
        nameserver: str,
        groups: tuple[str, ...],
        queues: int,
        per_s: float,
        body_max: int,
        until_s: float,
        oracle: MessageOracle,
    ) -> None:
        self._reactor = process.reactor
        self._chance: random.Random = self._stream(process)
        self._name = f"{process.host.name}.{process.number}{self.suffix}"
        self._routes = Routes(process, nameserver)
        self._groups = groups
        self._queues = queues
        self._per_s = per_s
        self._body_max = body_max
        self._until_s = until_s
        self._oracle = oracle
        self._count = 0
        self._turn = 0
        _insist(process, self._run())

    @defer.inlineCallbacks
    def _run(self) -> Generator[Any, Any, None]:
        chance = self._chance
        while self._reactor.scheduler.now < self._until_s:
            yield _pause(self._reactor, (0.2 + 1.6 * chance.random()) / self._per_s)
            topics = sorted({topic for made in self._oracle.topics.values() for topic in made})
            if topics:
                yield self._send(chance.choice(topics), 1 if chance.random() < 0.9 else chance.randrange(2, 12))

    def _stream(self, process: Process) -> random.Random:
        return process.host.random

    def _properties(self, name: str) -> dict[str, str]:
        return {"UNIQ_KEY": name, "WAIT": "true", "KEYS": name}

    def _make(self, count: int) -> dict[str, bytes]:
        """Messages by their identities."""
        made = {}
        for _ in range(count):
            self._count += 1
            name = f"{self._name}.{self._count}"
            size = int(self._body_max * self._chance.random() ** 3)
            body = made[name] = name.encode() + SEPARATOR + bytes([97 + self._count % 26]) * size
            self._oracle.made(name, body)
        return made

    @defer.inlineCallbacks
    def _send(self, topic: str, count: int) -> Generator[Any, Any, None]:
        """A send with its retries."""
        messages = self._make(count)
        deadline, failed = self._reactor.seconds() + SEND_S, ""
        yield self._routes.look(topic)
        for _ in range(TRIES):
            group = self._next_group(topic, failed)
            left_s = deadline - self._reactor.seconds()
            if left_s <= 0:
                return
            if group is None:
                yield _pause(self._reactor, PAUSE_S)
                yield self._routes.look(topic, anew=True)
                continue
            if (yield self._attempt(topic, group, messages, left_s)):
                return
            failed = group
            yield self._routes.look(topic, anew=True)

    def _next_group(self, topic: str, but: str) -> str | None:
        """The next group in turn that has a master, another than the one that failed if possible."""
        there = [group for group in self._groups if self._routes.address(topic, group) is not None]
        there = [group for group in there if group != but] or there
        if not there:
            return None
        self._turn += 1
        return there[self._turn % len(there)]

    @defer.inlineCallbacks
    def _attempt(
        self, topic: str, group: str, messages: Mapping[str, bytes], left_s: float
    ) -> Generator[Any, Any, bool]:
        """One request; whether it needs no other."""
        address = self._routes.address(topic, group)
        assert address is not None
        queue = QueueName(group, topic, self._chance.randrange(self._queues))
        attempt = self._oracle.sending(queue, tuple(messages))
        fields = {
            "a": "producers",
            "b": topic,
            "c": SYSTEM_TOPIC,
            "d": "4",
            "e": str(queue.queue_id),
            "f": "0",
            "g": str(int(self._reactor.wall() * 1000)),
            "h": "0",
            "j": "0",
            "k": "false",
        }
        if len(messages) == 1:
            ((name, body),) = messages.items()
            code = RequestCode.SEND_MESSAGE_V2
            fields["i"] = properties.build_text(self._properties(name))
        else:
            code, fields["m"] = RequestCode.SEND_BATCH_MESSAGE, "true"
            parts = [
                batch.BatchMessage(0, body, properties.build({"UNIQ_KEY": name, "WAIT": "true"}))
                for name, body in messages.items()
            ]
            body, fields["i"] = batch.join(parts), ""
        try:
            answer = yield self._routes.request(address, code, fields, body, left_s)
        except NO_ANSWER:  # first: Twisted's TimeoutError is a ConnectError
            self._oracle.left_open(0)
            return False
        except error.ConnectError:
            self._oracle.refused(attempt, 0)
            return False
        return self._answered(attempt, answer)

    def _answered(self, attempt: Attempt, answer: Command) -> bool:
        if answer.code == ResponseCode.SUCCESS:
            self._acknowledged(attempt, int(answer.fields["queueOffset"]))
        elif answer.code in OPEN:
            self._oracle.left_open(answer.code)
        elif answer.code == ResponseCode.SYSTEM_ERROR and (answer.remark or "").endswith(MAYBE_STORED):
            self._oracle.left_open(answer.code)
            return False  # Java's producer sends it again
        else:
            self._oracle.refused(attempt, answer.code)
            return False
        return True

    def _acknowledged(self, attempt: Attempt, offset: int) -> None:
        self._oracle.acknowledged(attempt, offset)


class DelayedProducer(Producer):
    """Sends messages with a delay level, one after the other, and tries none again.  Its chance is its own, so that it
    changes nothing that its host draws.
    """

    suffix = "d"
    _level, _sent_s = 1, 0.0

    def _stream(self, process: Process) -> random.Random:
        return random.Random(f"{process.name}.{process.number} delayed")

    def _properties(self, name: str) -> dict[str, str]:
        return {**super()._properties(name), "DELAY": str(self._level)}

    @defer.inlineCallbacks
    def _run(self) -> Generator[Any, Any, None]:
        chance = self._chance
        while True:
            yield _pause(self._reactor, (0.2 + 1.6 * chance.random()) / self._per_s)
            self._level, self._sent_s = chance.choice(sorted(DELAYS_S)), self._reactor.scheduler.now
            if self._sent_s + SEND_S + 1.1 * DELAYS_S[self._level] > self._until_s:  # the end is to be quiet
                continue
            topics = sorted({topic for made in self._oracle.topics.values() for topic in made})
            if not topics:
                continue
            topic = chance.choice(topics)
            yield self._routes.look(topic)
            group = self._next_group(topic, "")
            if group is not None:
                yield self._attempt(topic, group, self._make(1), SEND_S)

    def _acknowledged(self, attempt: Attempt, offset: int) -> None:
        """The offset is that of its delay level."""
        self._oracle.acknowledged_delayed(attempt, self._level, offset, self._sent_s, DELAYS_S[self._level])


class Consumer:
    """Pulls the queues of every group: at their ends with long polls, and whole ones from their beginning now and then.

    :param queues: of each topic.
    :ivar reached: the next offset of each queue followed.
    """

    def __init__(
        self, process: Process, nameserver: str, queues: int, oracle: MessageOracle, reads_slaves: bool
    ) -> None:
        self._process = process
        self._reactor = process.reactor
        self._chance: random.Random = process.host.random
        self._routes = Routes(process, nameserver)
        self._queues = queues
        self._oracle = oracle
        self._reads_slaves = reads_slaves
        self._name = f"{process.host.name}.{process.number}"
        self.reached: dict[QueueName, int] = {}
        _insist(process, self._watch())
        _insist(process, self._reread())

    @defer.inlineCallbacks
    def _watch(self) -> Generator[Any, Any, None]:
        """Follow queues as their topics are made."""
        while True:
            for group in sorted(self._oracle.topics):
                for topic in self._oracle.topics[group]:
                    for queue_id in range(self._queues):
                        queue = QueueName(group, topic, queue_id)
                        if queue not in self.reached:
                            self.reached[queue] = 0
                            _insist(self._process, self._follow(queue))
            yield _pause(self._reactor, 1.0)

    @defer.inlineCallbacks
    def _follow(self, queue: QueueName) -> Generator[Any, Any, None]:
        while True:
            offset = self.reached[queue]
            reached = yield self._pull(queue, offset, self._number(queue), SUSPEND_S)
            if reached is None:
                yield _pause(self._reactor, PAUSE_S)
                yield self._routes.look(queue.topic, anew=True)
            else:
                self.reached[queue] = max(reached, offset)

    @defer.inlineCallbacks
    def _reread(self) -> Generator[Any, Any, None]:
        while True:
            yield _pause(self._reactor, 2.0 + 6.0 * self._chance.random())
            if not self.reached:
                continue
            queue = self._chance.choice(sorted(self.reached))
            offset: int | None = 0
            while offset is not None:
                before, offset = offset, (yield self._pull(queue, offset, self._number(queue), 0.0))
                if offset == before:
                    break

    def _number(self, queue: QueueName) -> int:
        """Whom to read from: the master, sometimes a slave, and a slave where there is no master."""
        numbers = self._routes.numbers(queue.topic, queue.group)
        slaves = [number for number in numbers if number] if self._reads_slaves else []
        if slaves and (0 not in numbers or self._chance.random() < 0.1):
            return self._chance.choice(slaves)
        return 0

    @defer.inlineCallbacks
    def _pull(self, queue: QueueName, offset: int, number: int, suspend_s: float) -> Generator[Any, Any, int | None]:
        """One pull; the next offset, or None where there was no answer of use."""
        yield self._routes.look(queue.topic)
        address = self._routes.address(queue.topic, queue.group, number)
        if address is None:
            return None
        fields = {
            "consumerGroup": "consumers",
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(PULL_MAX),
            "commitOffset": "0",
            "subscription": "*",
            "sysFlag": str(SUBSCRIPTION_FLAG | (SUSPEND_FLAG if suspend_s else 0)),
            "subVersion": "0",
            "suspendTimeoutMillis": str(int(suspend_s * 1000)),
            "expressionType": "TAG",
        }
        losses = self._oracle.power_losses(queue.group)
        try:
            answer = yield self._routes.request(address, RequestCode.PULL_MESSAGE, fields, timeout_s=suspend_s + 3.0)
        except (error.ConnectError, *NO_ANSWER):
            return None
        return self._got(queue, offset, answer, f"{self._name} at {address}", number == 0, losses)

    def _got(self, queue: QueueName, offset: int, answer: Command, who: str, master: bool, losses: int) -> int | None:
        oracle = self._oracle
        if answer.code == ResponseCode.SUCCESS:
            for at, record in scan(answer.body):
                if record.queue_offset != offset:
                    oracle.skipped(queue, offset, record.queue_offset, who)
                oracle.read(queue, bytes(answer.body[at : at + record.total]), record, who, losses)
                offset += 1
            following = int(answer.fields["nextBeginOffset"])
            if following != offset:
                oracle.skipped(queue, offset, following, who)
            return offset
        if answer.code in (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY):
            return offset if master else None
        if answer.code == ResponseCode.PULL_OFFSET_MOVED and master:
            oracle.beyond(queue, offset, int(answer.fields["maxOffset"]), who)
            if int(answer.fields["minOffset"]) > offset:  # deleted before it was read: a full disk
                return int(answer.fields["minOffset"])
        return None


class TopicMaker:
    """Makes a group's topics, one after the other, and insists until the master says that it has each.

    :param every_s: true seconds between two, on the average.
    """

    def __init__(
        self,
        process: Process,
        nameserver: str,
        groups: tuple[str, ...],
        topics: int,
        queues: int,
        every_s: float,
        oracle: MessageOracle,
    ) -> None:
        self._reactor = process.reactor
        self._chance: random.Random = process.host.random
        self._routes = Routes(process, nameserver)
        self._oracle = oracle
        self._queues = queues
        self._every_s = every_s
        for group in groups:
            _insist(process, self._run(group, topics))

    @defer.inlineCallbacks
    def _run(self, group: str, topics: int) -> Generator[Any, Any, None]:
        for number in range(topics):
            topic = f"t{number}"
            if topic in self._oracle.topics.get(group, ()):
                continue
            while not (yield self._make(group, topic)):
                yield _pause(self._reactor, PAUSE_S)
            self._oracle.topics.setdefault(group, []).append(topic)
            yield _pause(self._reactor, self._every_s * (0.2 + 1.6 * self._chance.random()))

    @defer.inlineCallbacks
    def _make(self, group: str, topic: str) -> Generator[Any, Any, bool]:
        yield self._routes.look(SYSTEM_TOPIC, anew=True)
        address = self._routes.address(SYSTEM_TOPIC, group)
        if address is None:
            return False
        fields = {
            "topic": topic,
            "defaultTopic": SYSTEM_TOPIC,
            "readQueueNums": str(self._queues),
            "writeQueueNums": str(self._queues),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        }
        try:
            answer = yield self._routes.request(address, RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        except (error.ConnectError, *NO_ANSWER):
            return False
        return bool(answer.code == ResponseCode.SUCCESS)


def _pause(reactor: Any, seconds: float) -> defer.Deferred[None]:
    return task.deferLater(reactor, seconds, lambda: None)


def _insist(process: Process, running: defer.Deferred[Any]) -> None:
    """A client's own failure is a finding."""
    running.addErrback(lambda failure: process.reactor.scheduler.failed(process.name, failure))
