"""The JSON bodies of the name server's answers.

Knows the shapes Java reads, not how a question is asked.  Keys stand in Java's (alphabetical) order.  Integer map keys
are quoted, which every Java version reads; only the route of a topic has the older unquoted form too, because Java
keeps it for clients below version 401.  Java classes: ``TopicRouteData``, ``BrokerData``, ``QueueData``,
``ClusterInfo``, ``BrokerMemberGroup``, ``ZoneRouteRPCHook``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from rocketha.namesrv.effects import Address
from rocketha.namesrv.route_table import MASTER_ID, PERM_WRITE, Broker, BrokerKey, RouteTable
from rocketha.wire import json_dialect

SYNC_MEMBER_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Brokers find each other by these topics: an acting master would hide who really is there."""


def topic_route(
    table: RouteTable,
    topic: str,
    *,
    quoted: bool,
    zone: str | None = None,
    acting_master: bool = False,
    order_conf: str | None = None,
) -> bytes | None:
    """The body of GET_ROUTEINFO_BY_TOPIC, ``None`` where the topic has no broker.

    :param quoted: whether integer keys are quoted.
    :param zone: only brokers of that zone, and those without a master (consumers then cross zones).
    :param acting_master: present the lowest id as 0 where the master is missing and the topic is read-only.
    """
    queues = table.topics.get(topic, {})
    brokers = list(table.visible(queues))
    if not brokers:
        return None
    acting = acting_master and not topic.startswith(SYNC_MEMBER_TOPIC_PREFIX)
    # As in Java the zone counts after the acting master stood in.
    addresses = {
        broker.key: _addresses(broker, acting and not queues[broker.key].perm & PERM_WRITE) for broker in brokers
    }
    if zone is not None:
        brokers = [broker for broker in brokers if _in_zone(broker, addresses[broker.key], zone)]
    route: dict[str, Any] = {
        "brokerDatas": [_broker_data(broker, addresses[broker.key], quoted) for broker in brokers],
        "filterServerTable": _filter_servers(table, brokers, addresses),
    }
    if order_conf is not None:
        route["orderTopicConf"] = order_conf
    route["queueDatas"] = [_queue_data(broker.key, queues) for broker in brokers]
    if topic in table.mappings:
        route["topicQueueMappingByBroker"] = table.mappings[topic]
    return json_dialect.dumps(route)


def _addresses(broker: Broker, stand_in: bool) -> dict[int, str]:
    addresses = dict(sorted(broker.addresses.items()))
    if stand_in and broker.enable_acting_master and MASTER_ID not in addresses:
        lowest = min(addresses)
        return {MASTER_ID: addresses.pop(lowest), **addresses}
    return addresses


def _in_zone(broker: Broker, addresses: Mapping[int, str], zone: str) -> bool:
    return MASTER_ID not in addresses or (broker.zone or "").lower() == zone.lower()


def _broker_data(broker: Broker, addresses: Mapping[int, str], quoted: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "brokerAddrs": {str(i): a for i, a in addresses.items()} if quoted else _unquoted(addresses),
        "brokerName": broker.key.name,
        "cluster": broker.key.cluster,
        "enableActingMaster": broker.enable_acting_master,
    }
    if broker.zone is not None:
        data["zoneName"] = broker.zone
    return data


def _unquoted(addresses: Mapping[int, str]) -> Any:
    """fastjson's ``{0:"a",1:"b"}``, which is no JSON."""
    entries = (b"%d:%s" % (i, json_dialect.dumps(address)) for i, address in addresses.items())
    return orjson.Fragment(b"{" + b",".join(entries) + b"}")


def _queue_data(key: BrokerKey, queues: Mapping[BrokerKey, Any]) -> dict[str, Any]:
    data = queues[key]
    return {
        "brokerName": key.name,
        "perm": data.perm,
        "readQueueNums": data.read_queues,
        "topicSysFlag": data.sys_flag,
        "writeQueueNums": data.write_queues,
    }


def _filter_servers(
    table: RouteTable, brokers: Iterable[Broker], addresses: Mapping[BrokerKey, Mapping[int, str]]
) -> dict[str, list[str]]:
    if not table.filter_servers:
        return {}
    found = {}
    for broker in brokers:
        for address in addresses[broker.key].values():
            servers = table.filter_servers.get(Address(broker.key.cluster, address))
            if servers is not None:
                found[address] = list(servers)
    return found


def cluster_info(table: RouteTable) -> bytes:
    """The body of GET_BROKER_CLUSTER_INFO."""
    brokers = {
        broker.key.name: _broker_data(broker, dict(sorted(broker.addresses.items())), quoted=True)
        for broker in table.visible(table.brokers)
    }
    return json_dialect.dumps({"brokerAddrTable": brokers, "clusterAddrTable": table.clusters()})


def member_group(table: RouteTable, key: BrokerKey) -> bytes:
    """The body of GET_BROKER_MEMBER_GROUP; no addresses where the broker is unknown."""
    broker = table.brokers.get(key)
    addresses = {str(i): a for i, a in sorted(broker.addresses.items())} if broker is not None else {}
    group = {"brokerAddrs": addresses, "brokerName": key.name, "cluster": key.cluster}
    return json_dialect.dumps({"brokerMemberGroup": group})


def topic_list(topics: Iterable[str], broker_address: str | None = None) -> bytes:
    """A ``TopicList``."""
    value: dict[str, Any] = {} if broker_address is None else {"brokerAddr": broker_address}
    return json_dialect.dumps({**value, "topicList": list(topics)})


def system_topics(table: RouteTable) -> bytes:
    """Cluster and broker names: a topic of that name is on each; and one broker's address to ask for more."""
    names: dict[str, None] = {}
    for cluster, brokers in table.clusters().items():
        names.update(dict.fromkeys([cluster, *brokers]))
    first = next(iter(table.visible(table.brokers)), None)
    return topic_list(names, first.addresses[min(first.addresses)] if first is not None else None)
