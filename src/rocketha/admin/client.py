"""A small asynchronous client: routes from the nameservers, requests to brokers.

What it must not know: what is sent or received (:mod:`rocketha.admin.producer`, :mod:`rocketha.admin.consumer`), or the
command line. Time and chance come in: the reactor and a ``random.Random``.

Theory of operation.  A route is asked of one nameserver, the same one until it fails, then of the next. It is kept for
30 s, as Java's clients do, and asked again when a broker refuses or cannot be reached. Retrying a request is the
caller's affair: only it knows whether it may be sent twice.

Java: ``MQClientInstance``, ``MQClientAPIImpl``, ``TopicRouteData``.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
from twisted.internet.error import ConnectError, ConnectionClosed, ConnectionLost, TimeoutError

from rocketha.errors import RemoteProtocolError, RockethaError
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.wire import json_dialect
from rocketha.wire.cluster_info import MASTER_ID, ClusterInfo, cluster_info
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, Command

DEFAULT_TOPIC = "TBW102"
"""The topic whose queues a new topic is created after (``TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC``)."""

ROUTE_AGE_MAX_S = 30.0
REQUEST_TIMEOUT_S = 3.0
PERM_WRITE, PERM_READ = 2, 4
QUEUES_MAX = 65536

NETWORK_ERRORS = (ConnectError, ConnectionClosed, ConnectionLost, TimeoutError)
"""What a request fails with when there is no answer: the peer may or may not have acted on it."""


class RequestFailed(RockethaError):
    """A server answered, and the answer is no.

    :param code: a response code.
    :param remark: the server's words.
    :param address: whose.
    """

    def __init__(self, code: int, remark: str | None, address: str) -> None:
        super().__init__(f"{address} answered {code_name(code)}: {remark or 'without a reason'}")
        self.code = code
        self.remark = remark
        self.address = address


class NoRoute(RockethaError):
    """There is nobody to send to: the topic has no queue of the wanted kind, or no nameserver answers."""


class NoMaster(NoRoute):
    """There is no master to send to at the moment: a set elects one, or no broker is registered."""


class NoAnswer(RockethaError):
    """A server could not be reached, or its connection ended before it answered."""


LEARNER = "a learner has no port for requests: its --log-level and its status port (--http) are what it has"
"""Said where nobody answers what every other process of ours answers."""


def code_name(code: int) -> str:
    """A response code for a person: ``17 TOPIC_NOT_EXIST``."""
    try:
        return f"{code} {ResponseCode(code).name}"
    except ValueError:
        return str(code)


def unsent(problem: Exception) -> bool:
    """Of :data:`NETWORK_ERRORS`, whether no connection came about, so that the request did not leave."""
    return isinstance(problem, ConnectError) and not isinstance(problem, TimeoutError)


def plain(problem: Exception) -> str:
    """A network error in few words (Twisted's begin with its class's sentence)."""
    text = str(problem).rstrip(".")
    return text.removeprefix("An error occurred while connecting: ") or type(problem).__name__


@attrs.frozen(order=True)
class Queue:
    """One queue of a topic on one broker, in Java's order (``MessageQueue.compareTo``)."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker_name}:{self.queue_id}"


@attrs.frozen
class Route:
    """Where a topic lives.

    :ivar brokers: broker name -> broker id -> ``host:port``.
    :ivar queues: broker name -> (readable queues, writable queues).
    """

    topic: str
    brokers: Mapping[str, Mapping[int, str]]
    queues: Mapping[str, tuple[int, int]]

    def readable(self) -> list[Queue]:
        """The queues to consume, sorted; a slave alone will do."""
        return [
            Queue(self.topic, name, number)
            for name, (read, _write) in sorted(self.queues.items())
            if name in self.brokers
            for number in range(read)
        ]

    def writable(self) -> list[Queue]:
        """The queues to send to, sorted; only of brokers that have a master."""
        return [queue for queue in self.with_write_permission() if MASTER_ID in self.brokers[queue.broker_name]]

    def with_write_permission(self) -> list[Queue]:
        """The queues to send to, sorted, whether their brokers have a master at the moment or not."""
        return [
            Queue(self.topic, name, number)
            for name, (_read, write) in sorted(self.queues.items())
            if name in self.brokers
            for number in range(write)
        ]

    def address(self, broker_name: str) -> str:
        """The master's address, else that of the lowest id.

        :raises NoRoute: no address is known.
        """
        addresses = self.brokers.get(broker_name)
        if not addresses:
            raise NoRoute(f"broker {broker_name} has no address in the route of {self.topic}")
        return addresses[min(addresses)]

    def masters(self) -> list[str]:
        """The addresses of all masters, sorted."""
        return sorted(ids[MASTER_ID] for ids in self.brokers.values() if MASTER_ID in ids)


def parse_route(topic: str, body: bytes) -> Route:
    """The body of GET_ROUTEINFO_BY_TOPIC.

    :raises RemoteProtocolError: it is not what a nameserver writes.
    """
    value = json_dialect.loads(body)
    try:
        brokers = {
            str(each["brokerName"]): {int(number): str(at) for number, at in each["brokerAddrs"].items()}
            for each in value["brokerDatas"]
        }
        queues = {}
        for each in value["queueDatas"]:
            perm = int(each["perm"])
            read = int(each["readQueueNums"]) if perm & PERM_READ else 0
            write = int(each["writeQueueNums"]) if perm & PERM_WRITE else 0
            if max(read, write) > QUEUES_MAX:
                raise RemoteProtocolError(f"route of {topic}: {max(read, write)} queues on one broker")
            queues[str(each["brokerName"])] = (read, write)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise RemoteProtocolError(f"route of {topic}: {type(problem).__name__} {problem}") from None
    return Route(topic, {name: ids for name, ids in brokers.items() if ids}, queues)


class Client:
    """Routes and requests over one pool of connections.

    :param dialer: connects and keeps time.
    :param nameservers: ``host:port`` each; at least one.
    :param chance: picks the first nameserver, and brokers where any will do.
    :ivar members_changed: called with a consumer group's name when a broker says that its members changed.
    """

    def __init__(self, dialer: Dialer, nameservers: Sequence[str], chance: random.Random) -> None:
        if not nameservers:
            raise NoRoute("no nameserver is given")
        self.reactor = dialer.reactor
        self.chance = chance
        self.members_changed: Callable[[str], None] = lambda group: None
        self._connections = RemotingClient(dialer, _Notified(self))
        self._nameservers = list(nameservers)
        self._chosen = chance.randrange(len(nameservers))
        self._routes: dict[str, tuple[float, Route]] = {}

    def now_ms(self) -> int:
        """Wall clock."""
        return int(self.reactor.seconds() * 1000)

    async def local_host(self) -> str:
        """The address this machine has towards its nameserver: what ids are made of.

        :raises NoRoute: no nameserver can be reached.
        """
        connection: RemotingProtocol = await self.try_nameservers(self._connections.connect)
        return connection.local_host

    async def request(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = REQUEST_TIMEOUT_S,
        accepted: Iterable[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        """One request.

        :raises RequestFailed: the answer's code is not among ``accepted``.
        :raises Exception: one of :data:`NETWORK_ERRORS` when there is no answer.
        """
        answer = await self._connections.request(address, code, fields, body, timeout_s)
        if answer.code not in accepted:
            raise RequestFailed(answer.code, answer.remark, address)
        return answer

    async def oneway(self, address: str, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        """A request without an answer; returns when it was handed to the connection."""
        await self._connections.oneway(address, code, fields, body)

    async def route(self, topic: str, fresh: bool = False) -> Route:
        """The topic's route, at most 30 s old.

        :param fresh: ask even when one is known.
        :raises RequestFailed: 17, the topic is unknown.
        :raises NoRoute: no nameserver answers.
        """
        known = self._routes.get(topic)
        if known is not None and not fresh and self.reactor.seconds() - known[0] < ROUTE_AGE_MAX_S:
            return known[1]
        fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer: Command = await self.try_nameservers(
            lambda address: self.request(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
        )
        route = parse_route(topic, answer.body)
        self._routes[topic] = (self.reactor.seconds(), route)
        return route

    async def registered(self, timeout_s: float = REQUEST_TIMEOUT_S) -> ClusterInfo:
        """What the nameservers know of clusters and brokers.

        :raises NoRoute: no nameserver answers.
        :raises RemoteProtocolError: the answer is not what a nameserver writes.
        """
        answer: Command = await self.try_nameservers(
            lambda address: self.request(address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=timeout_s)
        )
        return cluster_info(answer.body)

    async def brokers(self) -> list[str]:
        """The addresses of all registered brokers, sorted by their clusters, names and ids."""
        return [address for each in (await self.registered()).sets for address in each.addresses.values()]

    async def broker_sets(self) -> dict[str, str]:
        """The names of all registered broker sets, each with its cluster.

        :raises RemoteProtocolError: two clusters have a set of one name.
        """
        found: dict[str, str] = {}
        for cluster, names in (await self.registered()).clusters.items():
            for name in names:
                if found.setdefault(name, cluster) != cluster:
                    raise RemoteProtocolError(
                        f"broker set {name} is in {found[name]} and in {cluster}: name one of them"
                    )
        return found

    async def try_nameservers(self, ask: Callable[[str], Awaitable[Any]]) -> Any:
        """What ``ask(address)`` gives for the present nameserver, or, while the network fails, for the next."""
        problems = []
        for _attempt in self._nameservers:
            address = self._nameservers[self._chosen]
            try:
                return await ask(address)
            except NETWORK_ERRORS as problem:
                problems.append(plain(problem))
                self._chosen = (self._chosen + 1) % len(self._nameservers)
        raise NoRoute("no nameserver answers: " + "; ".join(problems))

    @property
    def nameservers(self) -> Sequence[str]:
        """All of them."""
        return tuple(self._nameservers)

    def close(self) -> None:
        """End all connections."""
        self._connections.close()


class _Notified:
    """The little that brokers may ask of a client (``RequestService``)."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def connected(self, connection: RemotingProtocol) -> None:
        """Nothing to do."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """Nothing to do: requests in flight fail by themselves."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """NOTIFY_CONSUMER_IDS_CHANGED, a oneway; all else is not supported."""
        if command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self._client.members_changed(command.fields.get("consumerGroup", ""))
            return None
        return Answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")

    def turn_ended(self) -> None:
        """Nothing to do."""
