"""Receiving: all queues of a topic by oneself, or a share of them as a member of a consumer group.

What it must not know: the command line, what happens to a message.

Theory of operation.  Each queue has its own loop: pull with long polling, hand the messages over one by one, move on.
As a member of a group, a heartbeat says who we are and what we want; every 20 s, and whenever a broker says that the
members changed, all members compute the same shares from the same sorted lists (``subscription.share``). A queue that
is not ours any more is committed and let go. When a pull fails, its broker may be gone or have another role: a second
later the route is asked again, and who has the role now is told of us. Offsets are committed every 5 s and at the end:
a message may come twice after a crash, never not at all.

Java: ``DefaultMQPushConsumerImpl``, ``RebalanceImpl``, ``PullAPIWrapper``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, DeferredLock, gatherResults
from twisted.internet.task import LoopingCall, deferLater

from rocketha.admin.client import NETWORK_ERRORS, Client, Queue, RequestFailed, Route, plain
from rocketha.admin.received import Received, received
from rocketha.admin.subscription import Subscription, share
from rocketha.errors import RemoteProtocolError, RockethaError
from rocketha.observe.logging import make_logger
from rocketha.wire import json_dialect, record
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Command

SUSPEND_MS = 15_000
PULL_TIMEOUT_S = 30.0
RETRY_AFTER_S = 1.0
HEARTBEAT_S = 30.0
REBALANCE_S = 20.0
COMMIT_S = 5.0

TOOLS_GROUP = "TOOLS_CONSUMER"
"""Who pulls without being a member of a group: every broker has it (``MixAll.TOOLS_CONSUMER_GROUP``)."""

_SUSPEND, _SUBSCRIPTION = 2, 4


class _Reader:
    """The loop over one queue.

    Invariant: ``offset`` is the first message not yet handed over; only ``run`` moves it.
    """

    def __init__(self, consumer: Consumer, queue: Queue) -> None:
        self.queue = queue
        self.offset: int | None = None
        self.committed: int | None = None
        self._leaving = False
        self.done: Deferred[None] | None = None
        self._consumer = consumer
        self._waiting: Deferred[Any] | None = None
        self._complaint = ""

    def start(self) -> None:
        """Begin."""
        self.done = Deferred.fromCoroutine(self._run())

    def leave(self) -> Deferred[None]:
        """Stop as soon as the message at hand is done; fires then."""
        self._leaving = True
        if self._waiting is not None:
            self._waiting.cancel()
        assert self.done is not None
        return self.done

    def _must_leave(self) -> bool:
        return self._leaving

    async def _run(self) -> None:
        consumer = self._consumer
        while not self._must_leave():
            try:
                if self.offset is None:
                    self.offset = self.committed = await self._wait(consumer.first_offset(self.queue))
                messages, following = await self._wait(consumer.pull(self.queue, self.offset))
                if following < self.offset:
                    self.committed = None  # who moved the group back has committed another offset
                self._complaint = ""
                for message in messages:
                    if self._must_leave() or not consumer.deliver(message):
                        return
                    self.offset = message.queue_offset + 1
                if not self._must_leave():
                    self.offset = following
            except CancelledError:
                return
            except (RockethaError, *NETWORK_ERRORS) as problem:
                self._complain(plain(problem))
                try:
                    await self._wait(consumer.pause(RETRY_AFTER_S))
                    await self._wait(consumer.look_again())
                except CancelledError:
                    return

    def _complain(self, problem: str) -> None:
        """Once, not at every try."""
        if problem != self._complaint:
            self._complaint = problem
            self._consumer.log.warn("{queue}: {problem}", queue=str(self.queue), problem=problem)

    async def _wait(self, coroutine: Any) -> Any:
        self._waiting = Deferred.fromCoroutine(coroutine)
        try:
            return await self._waiting
        finally:
            self._waiting = None


class Consumer:
    """Receives until stopped.

    :param deliver: called with each message, in order within a queue. It answers whether it took the message; one it
        did not take is not committed, and its queue is not read on.
    """

    def __init__(self, client: Client, subscription: Subscription, deliver: Callable[[Received], bool]) -> None:
        self.deliver = deliver
        self.log = make_logger()
        self._client = client
        self._wanted = subscription
        self._group = subscription.group or TOOLS_GROUP
        self._readers: dict[Queue, _Reader] = {}
        self._version_ms = 0
        self._client_id = ""
        self._timers: list[LoopingCall] = []
        self._rebalancing = False
        self._again = False
        self._stopped = False
        self._looking = DeferredLock()
        self._looked_s = 0.0

    @property
    def _topics(self) -> list[str]:
        retry = [f"%RETRY%{self._group}"] if self._wanted.group else []
        return [self._wanted.topic, *retry]

    async def start(self) -> None:
        """Find the queues and begin.

        :raises RockethaError: the topic is unknown, or nobody answers.
        """
        self._version_ms = self._client.now_ms()
        # Java's ip@pid, with something that tells two consumers of one process apart.
        unique = self._client.chance.getrandbits(32)
        self._client_id = f"{await self._client.local_host()}@{os.getpid()}#{unique}"
        self._client.members_changed = self.members_changed
        await self._client.route(self._wanted.topic)
        if self._wanted.group:
            await self._heartbeat()
            self._every(HEARTBEAT_S, self._heartbeat)
            self._every(COMMIT_S, self.commit)
        await self.rebalance()
        self._every(REBALANCE_S, self.rebalance)

    async def stop(self) -> None:
        """Let every queue go, commit, and say goodbye."""
        self._stopped = True
        for timer in self._timers:
            timer.stop()
        self._timers = []
        await self._let_go(list(self._readers))
        if self._wanted.group:
            fields = {"clientID": self._client_id, "producerGroup": "", "consumerGroup": self._group}
            for address in await self._masters():
                try:
                    await self._client.request(address, RequestCode.UNREGISTER_CLIENT, fields)
                except (RequestFailed, *NETWORK_ERRORS) as problem:
                    self.log.warn("unregistering at {address}: {problem}", address=address, problem=str(problem))

    def _every(self, seconds: float, work: Callable[[], Any]) -> None:
        async def once() -> None:
            try:
                await work()
            except (RockethaError, *NETWORK_ERRORS) as problem:
                self.log.warn("{problem}", problem=str(problem))

        timer = LoopingCall(lambda: Deferred.fromCoroutine(once()))
        timer.clock = self._client.reactor
        timer.start(seconds, now=False)
        self._timers.append(timer)

    # --- membership

    async def _masters(self) -> list[str]:
        return (await self._client.route(self._wanted.topic)).masters()

    async def _heartbeat(self) -> None:
        consumer = {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"
            if self._wanted.start == "first"
            else "CONSUME_FROM_LAST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": self._group,
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [self._wanted.as_json(topic, self._version_ms) for topic in self._topics],
            "unitMode": False,
        }
        body = json_dialect.dumps(
            {
                "clientID": self._client_id,
                "consumerDataSet": [consumer],
                "heartbeatFingerprint": 0,
                "producerDataSet": [],
                "withoutSub": False,
            }
        )
        problem: Exception | None = None
        for address in await self._masters():
            try:
                await self._client.request(address, RequestCode.HEART_BEAT, {}, body)
            except (RequestFailed, *NETWORK_ERRORS) as failed:  # the others are told all the same
                problem = failed
        if problem is not None:
            raise problem

    async def look_again(self) -> None:
        """A pull failed: ask who has the role of its broker now, and tell him of us; once for all queues."""
        came_s = self._client.reactor.seconds()
        await self._looking.acquire()
        try:
            if self._looked_s >= came_s:
                return
            await self._client.route(self._wanted.topic, fresh=True)
            if self._wanted.group:
                await self._heartbeat()
                await self._client.route(f"%RETRY%{self._group}", fresh=True)
        except (RockethaError, *NETWORK_ERRORS):
            pass  # the next pull says what is wrong
        finally:
            self._looked_s = self._client.reactor.seconds()
            self._looking.release()

    async def rebalance(self) -> None:
        """Take our share of the queues, let the others go."""
        if self._rebalancing:
            self._again = True
            return
        self._rebalancing = True
        try:
            self._again = True
            while self._again and not self._stopped:
                self._again = False
                ours: list[Queue] = []
                for topic in self._topics:
                    ours += await self._share_of(topic)
                await self._let_go([queue for queue in self._readers if queue not in ours])
                for queue in ours:
                    if queue not in self._readers and not self._stopped:
                        reader = self._readers[queue] = _Reader(self, queue)
                        reader.start()
        finally:
            self._rebalancing = False

    async def _share_of(self, topic: str) -> list[Queue]:
        try:
            route = await self._client.route(topic)
        except RequestFailed as problem:
            if topic == self._wanted.topic or problem.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return []  # the retry topic is registered a moment after the first heartbeat
        queues = route.readable()
        if not self._wanted.group:
            return queues
        return share(queues, await self._members(route), self._client_id)

    async def _members(self, route: Route) -> list[str]:
        address = self._client.chance.choice(route.masters() or [route.address(min(route.brokers))])
        fields = {"consumerGroup": self._group}
        answer = await self._client.request(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
        value = json_dialect.loads(answer.body)
        members = value.get("consumerIdList") if isinstance(value, dict) else None
        if not isinstance(members, list) or not all(isinstance(each, str) for each in members):
            raise RemoteProtocolError(f"the members of {self._group} are no list of names")
        return members

    async def _let_go(self, queues: Iterable[Queue]) -> None:
        leaving = [self._readers[queue] for queue in queues]
        await gatherResults([reader.leave() for reader in leaving])
        for reader in leaving:
            await self._commit(reader)
            del self._readers[reader.queue]

    # --- offsets

    async def first_offset(self, queue: Queue) -> int:
        """Where to begin: the committed offset, else where the subscription says."""
        address = (await self._client.route(queue.topic)).address(queue.broker_name)
        fields = {"topic": queue.topic, "queueId": str(queue.queue_id)}
        if self._wanted.group:
            named = {**fields, "consumerGroup": self._group, "setZeroIfNotFound": "false"}
            accepted = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
            code = RequestCode.QUERY_CONSUMER_OFFSET
            answer = await self._client.request(address, code, named, accepted=accepted)
            if answer.code == ResponseCode.SUCCESS:
                return _offset(answer)
        if self._wanted.start == "first" or queue.topic != self._wanted.topic:
            return _offset(await self._client.request(address, RequestCode.GET_MIN_OFFSET, fields))
        if isinstance(self._wanted.start, int):
            timed = {**fields, "timestamp": str(self._wanted.start)}
            return _offset(await self._client.request(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timed))
        return _offset(await self._client.request(address, RequestCode.GET_MAX_OFFSET, fields))

    async def commit(self) -> None:
        """Tell the brokers how far every queue is."""
        for reader in list(self._readers.values()):
            await self._commit(reader)

    async def _commit(self, reader: _Reader) -> None:
        if not self._wanted.group or reader.offset is None or reader.offset == reader.committed:
            return
        try:
            address = (await self._client.route(reader.queue.topic)).address(reader.queue.broker_name)
            # Read now, not before the route was known: a later commit may have gone out meanwhile, and must stand.
            offset = reader.offset
            fields = {
                "consumerGroup": self._group,
                "topic": reader.queue.topic,
                "queueId": str(reader.queue.queue_id),
                "commitOffset": str(offset),
            }
            await self._client.request(address, RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        except (RockethaError, *NETWORK_ERRORS) as problem:
            self.log.warn("committing {queue}: {problem}", queue=str(reader.queue), problem=str(problem))
            return
        reader.committed = offset

    # --- pulling

    async def pull(self, queue: Queue, offset: int) -> tuple[list[Received], int]:
        """One long poll: the messages that are wanted, and where to go on."""
        address = (await self._client.route(queue.topic)).address(queue.broker_name)
        member = self._wanted.group is not None
        fields = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": "32",
            "sysFlag": str(_SUSPEND if member else _SUSPEND | _SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(SUSPEND_MS),
            "subVersion": str(self._version_ms),
            "expressionType": "TAG",
        }
        if not member:
            fields["subscription"] = self._wanted.expression
        accepted = (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        )
        answer = await self._client.request(
            address, RequestCode.PULL_MESSAGE, fields, timeout_s=PULL_TIMEOUT_S, accepted=accepted
        )
        following = _offset(answer, "nextBeginOffset")
        if answer.code == ResponseCode.PULL_OFFSET_MOVED:
            self.log.warn(
                "{queue}: going on at {following}, not at {offset}: the group was reset, or the queue does not have"
                " that offset",
                queue=str(queue),
                offset=offset,
                following=following,
            )
        if answer.code != ResponseCode.SUCCESS:
            return [], following
        records = [each for _at, each in record.scan(answer.body)]
        unread = len(answer.body) - sum(each.total for each in records)
        if unread:
            self.log.error(
                "{queue}: {unread} bytes from {address} are no records",
                queue=str(queue),
                unread=unread,
                address=address,
            )
        found = [received(queue, each) for each in records]
        retried = queue.topic != self._wanted.topic
        return [each for each in found if retried or self._wanted.accepts(each.properties)], following

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await deferLater(self._client.reactor, seconds, lambda: None)

    def members_changed(self, group: str) -> None:
        """A broker says so: take the new share at once."""
        if group == self._group and self._timers:
            Deferred.fromCoroutine(self.rebalance()).addErrback(
                lambda failure: self.log.warn("{problem}", problem=failure.getErrorMessage())
            )


def _offset(answer: Command, name: str = "offset") -> int:
    try:
        return int(answer.fields[name])
    except (KeyError, ValueError):
        raise RemoteProtocolError(f"the answer's {name} is {answer.fields.get(name)!r}") from None
