"""A cluster as its nameservers tell it: who its brokers are, and requests to one, to all masters, to all nameservers.

What it must not know: what is asked.  Requests are those of RocketMQ, so that Java's servers answer them as ours do.

Java: ``DefaultMQAdminExtImpl``, ``ClusterInfo``.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

from rocketha.admin import options
from rocketha.admin.client import NETWORK_ERRORS, Client, NoRoute, Queue, plain
from rocketha.admin.commands import Given
from rocketha.admin.secure import dialer_of
from rocketha.errors import ConfigError, RemoteProtocolError
from rocketha.wire import json_dialect
from rocketha.wire.cluster_info import BrokerSet
from rocketha.wire.codes import ResponseCode
from rocketha.wire.json_dialect import ObjectKeyed
from rocketha.wire.remoting import Command

WRONG_SHAPE = (KeyError, TypeError, ValueError, AttributeError)
"""What reading a body raises that is not what it should be."""


class Cluster:
    """What is asked of brokers and nameservers.

    :param timeout_s: of each request.
    """

    def __init__(self, client: Client, timeout_s: float) -> None:
        self.client = client
        self._timeout_s = timeout_s

    def close(self) -> None:
        """End all connections."""
        self.client.close()

    async def ask(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        accepted: Iterable[int] = (ResponseCode.SUCCESS,),
    ) -> Command:
        """One request to one server.

        :raises RequestFailed: it is refused.
        """
        return await self.client.request(address, code, fields, body, self._timeout_s, accepted)

    async def nameserver(self, code: int, fields: Mapping[str, str] | None = None) -> Any:
        """What one nameserver, whichever answers, has as JSON."""
        answer: Command = await self.client.try_nameservers(lambda address: self.ask(address, code, fields))
        return json_dialect.loads(answer.body)

    async def every_nameserver(self, code: int, fields: Mapping[str, str]) -> dict[str, Command]:
        """The answer of each nameserver: they know nothing of each other.

        :raises NoRoute: one did not answer; the others did.
        """
        answers, problems = {}, []
        for address in self.client.nameservers:
            try:
                answers[address] = await self.ask(address, code, fields)
            except NETWORK_ERRORS as problem:
                problems.append(f"{address}: {plain(problem)}")
        if problems:
            raise NoRoute(f"not told: {'; '.join(problems)}" + (f"; told: {', '.join(answers)}" if answers else ""))
        return answers

    async def sets(self, cluster: str = "") -> list[BrokerSet]:
        """The registered brokers, of one cluster or of all.

        :raises ConfigError: no such cluster.
        """
        found = (await self.client.registered(self._timeout_s)).sets
        chosen = [each for each in found if cluster in ("", each.cluster)]
        if not chosen:
            there = ", ".join(sorted({each.cluster for each in found}))
            raise ConfigError(f"no cluster {cluster!r}; there are {there}" if found else "no broker is registered")
        return chosen

    async def one_cluster(self, cluster: str) -> list[BrokerSet]:
        """The brokers of a cluster, which need not be named where there is but one.

        :raises ConfigError: it must be, or there is none of that name.
        """
        found = await self.sets(cluster)
        names = sorted({each.cluster for each in found})
        if len(names) > 1:
            raise ConfigError(f"--cluster is wanted: there are {', '.join(names)}")
        return found

    async def one_set(self, name: str) -> BrokerSet:
        """The brokers of a name.

        :raises ConfigError: there are none.
        """
        found = await self.sets()
        for each in found:
            if each.name == name:
                return each
        raise ConfigError(f"no broker {name!r}; there are {', '.join(each.name for each in found)}")

    def masters(self, sets: Sequence[BrokerSet]) -> list[BrokerSet]:
        """All of them, if each has a master.

        :raises NoRoute: one has none: what is told to some and not to others is worse than nothing.
        """
        lacking = [each.name for each in sets if not each.master]
        if lacking:
            raise NoRoute(f"without a master: {', '.join(lacking)}")
        return list(sets)

    async def of_topic(self, topic: str, replicas: bool = False) -> list[tuple[str, int, str]]:
        """Name, id and address of a broker of each set that has a topic: its master, else the lowest id.

        :param replicas: of all brokers of each set.
        """
        route = await self.client.route(topic, fresh=True)
        return [
            (name, number, address)
            for name in sorted(route.queues)
            for number, address in sorted(route.brokers.get(name, {}).items())[: None if replicas else 1]
        ]


def cluster_of(reactor: Any, given: Given) -> Cluster:
    """The one that is named by the options of :func:`.options.cluster`."""
    nameservers = options.addresses(given.namesrv, "--namesrv")
    return Cluster(Client(dialer_of(reactor, given), nameservers, random.SystemRandom()), given.timeout)


def opened(reactor: Any, given: Given) -> AbstractContextManager[Cluster]:
    """The same for :func:`~rocketha.admin.main_loop.run_with`."""
    return closing(cluster_of(reactor, given))


def by_queue(body: bytes, name: str = "offsetTable") -> dict[Queue, Any]:
    """A table by queues out of a body.

    :raises RemoteProtocolError: there is none.
    """
    value = json_dialect.loads(body)
    try:
        table = value.get(name) or {}
        entries = table.entries if isinstance(table, ObjectKeyed) else tuple(table.items())
        return {Queue(str(key["topic"]), str(key["brokerName"]), int(key["queueId"])): entry for key, entry in entries}
    except WRONG_SHAPE as problem:
        raise RemoteProtocolError(f"{name}: {type(problem).__name__} {problem}") from None
