"""For authors of plug-ins: contract tests, and a fake broker context.

Mix :class:`FeatureContract` into a ``unittest.TestCase`` and say which
plug-in it is about; use :class:`FakeContext` for tests of one's own::

    class CountTests(FeatureContract, unittest.TestCase):
        plugin = acme_count.plugin

        def test_counts(self):
            context = FakeContext(self.defaults())
            parts = self.plugin.build(context)
            context.messages.put("T", b"hello")
            ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet import defer, task
from zope.interface import implementer
from zope.interface.verify import verifyObject

from rocketha import interfaces
from rocketha.interfaces import BrokerRole, FeatureParts, IBrokerFeature, Message, Placed, Pulled, Refused
from rocketha.observe.logging import make_logger
from rocketha.observe.metrics import Registry
from rocketha.services.features.checks import check_parts
from rocketha.services.features.finding import problem_of

__all__ = ["FakeContext", "FakeMessages", "FeatureContract"]


@implementer(interfaces.IFollowing)
class _Following:
    def __init__(self, followers: list[tuple[str, Callable[[Message], Any]]], mine: Any) -> None:
        self._followers = followers
        self._mine = mine

    def stop(self) -> None:
        if self._mine in self._followers:
            self._followers.remove(self._mine)


@implementer(interfaces.IMessages)
class FakeMessages:
    """Topics in memory: one queue each unless :attr:`queue_numbers` says more.

    A pull never waits, and ``follow`` does not wait for a Deferred.

    :ivar stored: all messages by topic and queue.
    :ivar queue_numbers: of topics, where it is not one.
    :ivar refusal: every ``put`` and ``pull`` fails with it while it is set.
    """

    def __init__(self, clock: Any) -> None:
        self.stored: dict[tuple[str, int], list[Message]] = {}
        self.queue_numbers: dict[str, int] = {}
        self.refusal: Refused | None = None
        self._clock = clock
        self._end = 0
        self._followers: list[tuple[str, Callable[[Message], Any]]] = []

    def put(
        self, topic: str, body: bytes, properties: Mapping[str, str] | None = None, queue_id: int | None = None
    ) -> defer.Deferred[Placed]:
        if self.refusal is not None:
            return defer.fail(self.refusal)
        number = queue_id or 0
        queue = self.stored.setdefault((topic, number), [])
        now_ms = int(self._clock.seconds() * 1000)
        size = 100 + len(body)
        message = Message(topic, number, len(queue), self._end, size, body, dict(properties or {}), now_ms, now_ms)
        self._end += size
        queue.append(message)
        for name, receive in tuple(self._followers):
            if name == topic:
                receive(message)
        return defer.succeed(Placed(number, message.offset, f"{message.log_offset:032X}"))

    def pull(
        self, topic: str, queue_id: int, offset: int, count: int = 32, wait_s: float = 0.0
    ) -> defer.Deferred[Pulled]:
        if self.refusal is not None:
            return defer.fail(self.refusal)
        queue = self.stored.get((topic, queue_id), [])
        found = tuple(queue[offset : offset + count])
        return defer.succeed(Pulled(found, min(offset + len(found), len(queue)), 0, len(queue)))

    def queues(self, topic: str) -> int:
        known = topic in self.queue_numbers or any(name == topic for name, _ in self.stored)
        return self.queue_numbers.get(topic, 1) if known else 0

    def follow(self, topic: str, receive: Callable[[Message], Any], from_begin: bool = False) -> _Following:
        if from_begin:
            for (name, _), queue in self.stored.items():
                for message in queue if name == topic else ():
                    receive(message)
        mine = topic, receive
        self._followers.append(mine)
        return _Following(self._followers, mine)


@implementer(interfaces.IBrokerContext)
class FakeContext:
    """A context without a broker: time stands still until ``clock.advance``.

    :param keys: the feature's; see :meth:`FeatureContract.defaults`.
    :param name: the plug-in's, for the names of its metrics.
    :ivar clock: a :class:`twisted.internet.task.Clock`; ``wall_ms`` begins at 1,700,000,000,000.
    :ivar messages: a :class:`FakeMessages`.
    :ivar current_role: what ``role()`` says.
    :ivar saves: how often the file was saved.
    :ivar registry: where counters and gauges are.
    """

    def __init__(
        self, keys: Mapping[str, str] | None = None, role: BrokerRole = BrokerRole.MASTER, name: str = "fake"
    ) -> None:
        self.keys: Mapping[str, str] = dict(keys or {})
        self.cluster, self.broker, self.address = "DefaultCluster", "broker-a", "127.0.0.1:10911"
        self.clock = task.Clock()
        self.log = make_logger()
        self.messages = FakeMessages(self.clock)
        self.current_role = role
        self._prefix = f"rocketha_plugin_{name.replace('-', '_')}"
        self.saves = 0
        self.registry = Registry()

    def role(self) -> BrokerRole:
        return self.current_role

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.clock.seconds() * 1000)

    def save(self) -> defer.Deferred[None]:
        self.saves += 1
        return defer.succeed(None)

    def counter(self, name: str, doc: str) -> Any:
        return self.registry.counter(f"{self._prefix}_{name}_total", doc)

    def gauge(self, name: str, doc: str, ask: Callable[[], float]) -> None:
        self.registry.ask(f"{self._prefix}_{name}", doc, ask)


class FeatureContract:
    """What holds for every broker feature, as tests; a mixin for a ``TestCase``.

    :cvar plugin: the object under test.
    :cvar keys: that differ from the defaults.
    """

    plugin: Any
    keys: Mapping[str, str] = {}

    def defaults(self) -> dict[str, str]:
        """All keys, as a broker would give them."""
        return {**{name: key.default for name, key in self.plugin.keys.items()}, **self.keys}

    def test_contract_interface(self) -> None:
        """It is what IBrokerFeature says."""
        verifyObject(IBrokerFeature, self.plugin)
        problem = problem_of(self.plugin, "broker feature")
        assert not problem, problem

    def test_contract_keys(self) -> None:
        """Its own defaults are good, and looking at them changes nothing."""
        keys = self.defaults()
        for _ in range(2):
            problems = self.plugin.check_keys(dict(keys))
            assert not isinstance(problems, str), "check_keys gives a list of texts, not a text"
            assert list(problems) == [], f"check_keys refuses its own defaults: {list(problems)}"

    def test_contract_parts(self) -> None:
        """It can be built twice, and starts nothing."""
        for _ in range(2):
            context = FakeContext(self.defaults(), name=self.plugin.name)
            parts = self.plugin.build(context)
            assert isinstance(parts, FeatureParts), parts
            check_parts([(self.plugin.name, parts)])
            if parts.file is not None:
                parts.file.load(parts.file.dump())
            assert context.clock.getDelayedCalls() == [], "build started a timer"
            assert context.messages.stored == {}, "build put a message"
