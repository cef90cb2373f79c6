"""Builders that the name server's tests share."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

import orjson

from rocketha.errors import RequestRefused
from rocketha.namesrv.data_version import DataVersion
from rocketha.namesrv.effects import HolderToBeAsked
from rocketha.namesrv.kv_config import KvConfig
from rocketha.namesrv.register_body import RegisterBody, Topic
from rocketha.namesrv.requests import Caller, NameServer
from rocketha.namesrv.route_table import Registration
from rocketha.services.config.loading import NamesrvConfig, describe, update
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Answer, Command


class ConfigSettings:
    """The settings of a :class:`NamesrvConfig`, as the service wires them."""

    def __init__(self, config: NamesrvConfig) -> None:
        self._config = config

    def describe(self) -> bytes:
        return describe(self._config)

    def update(self, body: bytes) -> Mapping[str, tuple[str, str]]:
        return update(self._config, body)


def name_server(started_ms: int = 0, kv: KvConfig | None = None, **keys: object) -> NameServer:
    """A name server with defaults but for the given attributes of :class:`NamesrvConfig`."""
    config = NamesrvConfig(**keys)  # type: ignore[arg-type]
    return NameServer(config, ConfigSettings(config), kv if kv is not None else KvConfig(), started_ms)


def body(topics: Iterable[str | Topic] = ("T1", "T2"), state_version: int = 0, counter: int = 1) -> RegisterBody:
    """A registration's content."""
    found = tuple(topic if isinstance(topic, Topic) else Topic(topic) for topic in topics)
    return RegisterBody(DataVersion(state_version, 5, counter), found)


def registration(
    name: str = "broker-a",
    address: str = "10.0.0.1:10911",
    broker_id: int = 0,
    *,
    cluster: str = "C",
    connection: int = 1,
    content: RegisterBody | None = None,
    enable_acting_master: bool | None = False,
    zone: str | None = None,
    timeout_ms: int = 120_000,
) -> Registration:
    """A registration with what does not matter filled in."""
    return Registration(
        cluster,
        name,
        address,
        broker_id,
        "ha-" + address,
        connection,
        content if content is not None else body(),
        timeout_ms,
        enable_acting_master,
        zone,
    )


def json_body(topics: Mapping[str, int] | None = None, state_version: int = 0, counter: int = 1) -> bytes:
    """The JSON body of a registration; ``topics`` is name to perm."""
    table = {
        name: {
            "attributes": {},
            "order": False,
            "perm": perm,
            "readQueueNums": 4,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": 0,
            "writeQueueNums": 4,
        }
        for name, perm in (topics if topics is not None else {"T1": 6, "T2": 6}).items()
    }
    version = {"counter": counter, "stateVersion": state_version, "timestamp": 5}
    wrapper = {"dataVersion": version, "topicConfigTable": table, "topicQueueMappingInfoMap": {}}
    return orjson.dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def register_command(
    name: str = "broker-a",
    address: str = "10.0.0.1:10911",
    broker_id: int = 0,
    cluster: str = "C",
    content: bytes | None = None,
    **fields: str,
) -> Command:
    """A REGISTER_BROKER request as a Java 5.5.0 broker sends it."""
    data = json_body() if content is None else content
    header = {
        "brokerName": name,
        "brokerAddr": address,
        "clusterName": cluster,
        "haServerAddr": "ha-" + address,
        "brokerId": str(broker_id),
        "compressed": "false",
        "enableActingMaster": "false",
        "bodyCrc32": str(zlib.crc32(data) & 0x7FFFFFFF),
    }
    return Command(RequestCode.REGISTER_BROKER, fields={**header, **fields}, body=data, version=513)


def command(code: int, content: bytes = b"", version: int = 513, **fields: str) -> Command:
    """Any request."""
    return Command(code, fields=fields, body=content, version=version)


def ask(server: NameServer, request: Command, connection: int = 1, now_ms: int = 0, host: str = "10.0.0.1") -> Answer:
    """The answer as it goes on the wire: a refusal is an answer too."""
    try:
        return server.answer(request, Caller(connection, host), now_ms)
    except HolderToBeAsked as claim:
        return server.take_over(claim.request, now_ms)
    except RequestRefused as refusal:
        return Answer(refusal.code, refusal.remark)
