"""A plug-in of pytest: servers as fixtures.  Nothing happens before a test asks for one.

``rocketmq`` and ``rocketmq_group`` are one test's own; ``rocketmq_session`` and ``rocketmq_group_session`` are shared
by all tests of a run.  A single broker keeps all in memory, the group of three with three controllers in a temporary
directory.  ``start_rocketmq`` makes others.  A ``rocketmq_keys`` of one's own gives all of them keys of
``broker.conf``.

pytest finds it by its entry point; ``-p no:rocketha`` turns it off.  It imports little: every run of pytest pays for
that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from rocketha.testing.servers import RocketMQ


@pytest.fixture(scope="session")
def rocketmq_keys() -> Mapping[str, str]:
    """Keys of ``broker.conf`` for all brokers of these fixtures; to be overridden in a ``conftest.py``."""
    return {}


@pytest.fixture
def rocketmq(rocketmq_keys: Mapping[str, str]) -> Iterator[RocketMQ]:
    """A broker and its nameserver, in memory, for one test."""
    with RocketMQ(keys=rocketmq_keys) as servers:
        yield servers


@pytest.fixture(scope="session")
def rocketmq_session(rocketmq_keys: Mapping[str, str]) -> Iterator[RocketMQ]:
    """A broker and its nameserver, in memory, for all tests."""
    with RocketMQ(keys=rocketmq_keys) as servers:
        yield servers


@pytest.fixture
def rocketmq_group(rocketmq_keys: Mapping[str, str]) -> Iterator[RocketMQ]:
    """Three replicas of a broker under three controllers, for one test."""
    with RocketMQ(brokers=3, controllers=3, keys=rocketmq_keys) as servers:
        yield servers


@pytest.fixture(scope="session")
def rocketmq_group_session(rocketmq_keys: Mapping[str, str]) -> Iterator[RocketMQ]:
    """The same for all tests."""
    with RocketMQ(brokers=3, controllers=3, keys=rocketmq_keys) as servers:
        yield servers


@pytest.fixture
def start_rocketmq(rocketmq_keys: Mapping[str, str]) -> Iterator[Callable[..., RocketMQ]]:
    """Starts servers as :class:`RocketMQ` takes them; they end with the test."""
    started: list[RocketMQ] = []

    def start(*, keys: Mapping[str, str] | None = None, **wanted: Any) -> RocketMQ:
        servers = RocketMQ(keys={**rocketmq_keys, **(keys or {})}, **wanted)
        started.append(servers)
        servers.start()
        return servers

    yield start
    for servers in reversed(started):
        servers.stop()
