"""Which brokers are registered: the answer to request 106 (GET_BROKER_CLUSTER_INFO).

Pure.  Java: ``ClusterInfo``, ``BrokerData``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.wire import json_members

MASTER_ID = 0
CLUSTERS_MAX, SETS_MAX, BROKERS_MAX = 1000, 20_000, 4096
BYTES_MAX = 16 << 20
_ID = re.compile("-?[0-9]{1,19}")


@attrs.frozen(order=True)
class BrokerSet:
    """Brokers of one name: a master, which has id 0, and its slaves.

    :ivar addresses: id to ``host:port``, ascending; -1 is a broker of Java's in DLedger mode that has no role yet.
    """

    cluster: str
    name: str
    addresses: Mapping[int, str] = attrs.field(order=False)

    @property
    def master(self) -> str:
        """The master's address, "" where there is none."""
        return self.addresses.get(MASTER_ID, "")


@attrs.frozen
class ClusterInfo:
    """What a nameserver knows.

    :ivar sets: sorted; of two clusters that have a set of one name Java's nameservers tell one.
    :ivar clusters: to the names of their sets, all of them.
    """

    sets: tuple[BrokerSet, ...]
    clusters: Mapping[str, tuple[str, ...]]


def cluster_info(body: bytes) -> ClusterInfo:
    """A nameserver's answer.

    :raises RemoteProtocolError: it is not what a nameserver writes.
    """
    if len(body) > BYTES_MAX:
        raise RemoteProtocolError(f"the list of brokers has {len(body)} bytes, allowed are {BYTES_MAX}")
    found = json_members.json_object(body, "the list of brokers", BYTES_MAX)
    table = json_members.table(found, "brokerAddrTable", SETS_MAX)
    clusters = json_members.table(found, "clusterAddrTable", CLUSTERS_MAX)
    return ClusterInfo(
        tuple(sorted(_set(str(name), json_members.as_object(row, "a set of brokers")) for name, row in table.items())),
        {str(each): tuple(json_members.texts(clusters, each, SETS_MAX)) for each in sorted(clusters)},
    )


def _set(name: str, row: Mapping[str, object]) -> BrokerSet:
    addresses = {}
    for key, address in json_members.table(row, "brokerAddrs", BROKERS_MAX).items():
        number = str(key)
        if not (isinstance(address, str) and _ID.fullmatch(number)):
            raise RemoteProtocolError(f"broker {number[:80]!r} of {name[:80]} is at {str(address)[:80]!r}")
        addresses[int(number)] = address
    return BrokerSet(json_members.text(row, "cluster", ""), name, dict(sorted(addresses.items())))
