"""What a broker tells a nameserver about its topics: all of them at once, in parts, or one that changed.

Pure.  Theory of operation.  A nameserver compares the version of a registration with that of the one before, and
Java's passes over topics that it knows if the two are equal (rocketmq issue 10425).  So each part has a version of its
own, and only the last one that of the table: a nameserver that has the table's version has the whole table.  Versions
of parts count below zero, so none was ever a table's; ``stateVersion``, which says whose broker is the newer one, is
always true.

Java: ``BrokerController.registerBrokerAll``, ``TopicConfigManager.buildSerializeWrapper``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from rocketha.broker.data_version import DataVersion
from rocketha.broker.permissions import READ_WRITE
from rocketha.broker.topics import TopicConfig, TopicTable
from rocketha.wire import json_dialect
from rocketha.wire.limits import WHOLE_TOPICS_MAX

_PARTS_MAX = 1 << 20


@attrs.frozen
class RegistrationRules:
    """How often, how long, how much at a time.

    :ivar split: tell a table in parts even where it would fit into a frame.
    :ivar part_topics: of one part.
    """

    period_s: float = 30.0
    timeout_s: float = 24.0
    split: bool = False
    part_topics: int = 800

    @property
    def whole_topics(self) -> int:
        """Topics that go into one request."""
        return min(self.part_topics, WHOLE_TOPICS_MAX) if self.split else WHOLE_TOPICS_MAX


def whole(topics: TopicTable, permission: int = READ_WRITE) -> bytes:
    """One registration of all topics.

    :param permission: brokerPermission: no topic may do more here.
    """
    return _body(topics.table, topics.data_version, permission)


def parts(topics: TopicTable, size: int, permission: int = READ_WRITE) -> Iterator[bytes]:
    """Registrations of at most ``size`` topics, which together name all that are there now."""
    return _parts(topics, list(topics.table), size, True, permission)


def updates(topics: TopicTable, names: Sequence[str], whole: bool, permission: int = READ_WRITE) -> Iterator[bytes]:
    """A registration for each of these topics, as far as they are there.

    :param whole: the nameserver has the whole table with the last one.
    """
    return _parts(topics, names, 1, whole, permission)


def _parts(topics: TopicTable, names: Sequence[str], size: int, whole: bool, permission: int) -> Iterator[bytes]:
    version = DataVersion()
    version.assign(topics.data_version)
    first = -1 - version.counter * _PARTS_MAX
    for number, begin in enumerate(range(0, len(names), size)):
        last = whole and begin + size >= len(names)
        own = version if last else DataVersion(first - number, version.state_version, version.timestamp_ms)
        present = ((name, topics.get(name)) for name in names[begin : begin + size])
        yield _body({name: config for name, config in present if config is not None}, own, permission)


def _body(table: Mapping[str, TopicConfig], version: DataVersion, permission: int) -> bytes:
    if permission & READ_WRITE != READ_WRITE:
        table = {name: attrs.evolve(config, perm=config.perm & permission) for name, config in table.items()}
    wrapper = {
        "dataVersion": version.as_json(),
        "mappingDataVersion": DataVersion().as_json(),
        "topicConfigTable": {name: config.as_json() for name, config in table.items()},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    return json_dialect.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})
