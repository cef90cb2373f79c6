"""The name server's answers: one method a request code.

Knows header fields and rules; no socket, clock or file.  Theory of operation: ``answer`` looks the code up in a table,
the method checks every header field it needs, asks or changes the :class:`~rocketha.namesrv.route_table.RouteTable`,
and leaves in ``effects`` what the service must do before the answer goes out.  A refusal is a ``RequestRefused``; it
changes nothing.

The KV configuration takes time to reach the disk, and nobody is shown what may not outlive a crash: questions are
answered from the table that is there (``kv``), changes are made to the newest one (``kv_wanted``), which takes its
place when it is there, too.

Java classes: ``DefaultRequestProcessor``, ``ClientRequestProcessor``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

from rocketha.access.routes import unsupported
from rocketha.errors import Ignored, RemoteProtocolError, RequestRefused
from rocketha.namesrv import answers, data_version, register_body
from rocketha.namesrv.effects import Address, ConfigChanged, Effect, HolderToBeAsked, RowIgnored, SaveKvConfig
from rocketha.namesrv.kv_config import NAMESPACE_ORDER_TOPIC_CONFIG, KvConfig
from rocketha.namesrv.liveness import Liveness
from rocketha.namesrv.queue_rows import queue_rows
from rocketha.namesrv.route_table import (
    HEARTBEAT_TIMEOUT_MS,
    SYS_FLAG_UNIT,
    SYS_FLAG_UNIT_SUB,
    BrokerKey,
    Registration,
    RouteTable,
)
from rocketha.wire import fields, json_dialect, json_members
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.crc import crc32_31
from rocketha.wire.java_types import parsed
from rocketha.wire.remoting import Answer, Command

_T = TypeVar("_T")

VERSION_QUOTED_KEYS = 401
"""``MQVersion`` V4_9_4: from it on clients are given routes in standard JSON."""
KV_UNSAVED_MAX = 10_000
"""Changes of the KV configuration that may wait for the disk."""
HEARTBEAT_TIMEOUT_MS_MAX = 24 * 3600 * 1000
"""A broker that announces more is believed no longer."""
FAQ = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"

_ADDRESS = re.compile(r"(\[[0-9a-zA-Z:.%]{2,60}\]|[^\s\[\]\x00-\x1f]{1,253}):([0-9]{1,5})")


class Caller(NamedTuple):
    """Whose request it is.

    :ivar connection: its number; numbers rise with time.
    :ivar host: where it comes from.
    """

    connection: int
    host: str


class Options(Protocol):
    """The part of ``NamesrvConfig`` that requests need."""

    @property
    def order_message_enable(self) -> bool: ...
    @property
    def return_order_topic_config_to_broker(self) -> bool: ...
    @property
    def support_acting_master(self) -> bool: ...
    @property
    def enable_all_topic_list(self) -> bool: ...
    @property
    def enable_topic_list(self) -> bool: ...
    @property
    def need_wait_for_service(self) -> bool: ...
    @property
    def wait_seconds_for_service(self) -> int: ...
    @property
    def delete_topic_with_broker_registration(self) -> bool: ...
    @property
    def notify_min_broker_id_changed(self) -> bool: ...
    @property
    def brokers_max(self) -> int: ...
    @property
    def topics_max(self) -> int: ...
    @property
    def broken_connection_grace(self) -> int: ...
    @property
    def un_register_broker_queue_capacity(self) -> int: ...


class Settings(Protocol):
    """Where GET_ and UPDATE_NAMESRV_CONFIG go."""

    def describe(self) -> bytes:
        """Sorted ``key=value`` lines."""

    def update(self, body: bytes) -> Mapping[str, tuple[str, str]]:
        """Change keys, all or none; key to (old, new).  Raises ``RequestRefused``."""


class NameServer:
    """All state of one name server and its answers.

    ``effects`` collects what the service has to do; it takes the list with :meth:`take_effects` after every call.

    :ivar kv: the KV configuration as it is on the disk.
    :ivar kv_wanted: with the changes that are not there yet.
    :ivar kv_fixed: why it takes no changes; empty: it does.
    """

    def __init__(self, options: Options, settings: Settings, kv: KvConfig, started_ms: int) -> None:
        self._options = options
        self._settings = settings
        self.started_ms = started_ms
        self.kv = self.kv_wanted = kv
        self.kv_fixed = ""
        self._kv_unsaved = 0
        self.table = RouteTable(options)
        self.liveness = Liveness(self.table, options)
        self._effects: list[Effect] = []
        self._codes: dict[int, Callable[[Command, Caller, int], Answer]] = {
            RequestCode.PUT_KV_CONFIG: self._put_kv,
            RequestCode.GET_KV_CONFIG: self._get_kv,
            RequestCode.DELETE_KV_CONFIG: self._delete_kv,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._get_kv_list,
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.UNREGISTER_BROKER: self._unregister,
            RequestCode.QUERY_DATA_VERSION: self._query_data_version,
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
            RequestCode.GET_BROKER_MEMBER_GROUP: self._member_group,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe_write_perm,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add_write_perm,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._all_topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._topics_by_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self._unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._unit_sub_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._unit_sub_only_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.REGISTER_TOPIC_IN_NAMESRV: self._register_topic,
            RequestCode.GET_NAMESRV_CONFIG: self._get_config,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update_config,
        }

    def answer(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        """Answer one request.

        :param caller: whose request it is.
        :raises RequestRefused: with the code and remark to answer.
        """
        method = self._codes.get(command.code)
        if method is None:
            raise unsupported(command.code)
        return method(command, caller, now_ms)

    def is_newcomer(self, command: Command) -> bool:
        """Whether a broker registers that is not in the table."""
        if command.code != RequestCode.REGISTER_BROKER:
            return False
        here = Address(command.fields.get("clusterName", ""), command.fields.get("brokerAddr", ""))
        return here not in self.table.live

    def take_effects(self) -> list[Effect]:
        """What is to be done, oldest first; the list is emptied."""
        effects, self._effects = self._effects, []
        return effects

    # -- brokers --------------------------------------------------------------------------------------------------

    def _register(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        checksum = fields.optional_integer(command.fields, "bodyCrc32")
        if checksum and checksum != crc32_31(command.body):
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        timeout_ms = fields.optional_long(command.fields, "heartbeatTimeoutMillis") or HEARTBEAT_TIMEOUT_MS
        compressed = fields.flag(command.fields, "compressed")
        request = Registration(
            cluster=_name(command, "clusterName"),
            name=_name(command, "brokerName"),
            address=_address(command, "brokerAddr"),
            broker_id=_integer(command, "brokerId", 0, json_members.LONG_MAX),
            ha_address=_name(command, "haServerAddr"),
            connection=caller.connection,
            host=caller.host,
            body=register_body.parse(command.body, compressed, command.version),
            timeout_ms=min(timeout_ms, HEARTBEAT_TIMEOUT_MS_MAX) if timeout_ms > 0 else HEARTBEAT_TIMEOUT_MS,
            enable_acting_master=fields.optional_flag(command.fields, "enableActingMaster"),
            zone=_optional_name(command, "__ZONE_NAME"),
        )
        holder = self._holder(request)
        if holder is not None:
            raise HolderToBeAsked(holder, self.table.live[holder].host, request)
        return self.take_over(request, now_ms)

    def _holder(self, request: Registration) -> Address | None:
        """Who may live, and has the address or the name and id that somebody else claims."""
        here = Address(request.cluster, request.address)
        live = self.table.live.get(here)
        if live is not None and live.host != request.host and not self.liveness.has_left(here):
            return here
        return self.table.holder(request)

    def take_over(self, request: Registration, now_ms: int) -> Answer:
        """Take a registration in, whoever holds its name and id.

        :raises RequestRefused: as :meth:`answer`.
        """
        master_address, ha_address, effects = self.table.register(request, now_ms)
        self._effects.extend(effects)
        found = {"haServerAddr": ha_address, "masterAddr": master_address}
        order = (
            self.kv.namespace(NAMESPACE_ORDER_TOPIC_CONFIG)
            if self._options.return_order_topic_config_to_broker
            else None
        )
        return Answer(fields={name: value for name, value in found.items() if value is not None}, body=order or b"")

    def _unregister(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        _name(command, "brokerName")
        here = Address(_name(command, "clusterName"), _address(command, "brokerAddr"))
        live = self.table.live.get(here)
        same_host = live is not None and live.host == caller.host
        left = same_host and self.liveness.has_left(here)
        self._effects.extend(self.table.unregister(here, caller.connection, left))
        return Answer()

    def _query_data_version(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        cluster, address = _name(command, "clusterName"), _address(command, "brokerAddr")
        asked = _read(command, data_version.from_json) if command.body else data_version.DataVersion()
        stored = self.table.version_of(cluster, address)
        self._heard(command, cluster, address, now_ms)
        changed = "false" if stored == asked else "true"
        return Answer(fields={"changed": changed}, body=stored.encode() if stored is not None else b"")

    def _heartbeat(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        self._heard(command, _name(command, "clusterName"), _address(command, "brokerAddr"), now_ms)
        return Answer()

    def _heard(self, command: Command, cluster: str, address: str, now_ms: int) -> None:
        """A sign of life of the broker there, if that is who sent it."""
        live = self.table.live.get(Address(cluster, address))
        said = command.fields.get("brokerName")
        if live is not None and said and live.key.name != said:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{address} is a broker of {live.key.name}")
        self.table.heard(cluster, address, now_ms)

    def _member_group(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        key = BrokerKey(_name(command, "clusterName"), _name(command, "brokerName"))
        return Answer(body=answers.member_group(self.table, key))

    def _cluster_info(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        return Answer(body=answers.cluster_info(self.table))

    def _wipe_write_perm(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        return Answer(fields={"wipeTopicCount": str(self.table.wipe_write_perm(_name(command, "brokerName")))})

    def _add_write_perm(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        return Answer(fields={"addTopicCount": str(self.table.add_write_perm(_name(command, "brokerName")))})

    # -- topics ---------------------------------------------------------------------------------------------------

    def _route(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        options = self._options
        if options.need_wait_for_service and now_ms - self.started_ms < options.wait_seconds_for_service * 1000:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "name server not ready")
        header = command.fields
        topic = header.get("topic")
        zone = header.get("__ZONE_NAME", "").strip() if fields.flag(header, "__ZONE_MODE") else ""
        body = None
        if topic is not None:
            body = answers.topic_route(
                self.table,
                topic,
                quoted=command.version >= VERSION_QUOTED_KEYS or fields.flag(header, "acceptStandardJsonOnly"),
                zone=zone or None,
                acting_master=options.support_acting_master,
                order_conf=self.kv.get(NAMESPACE_ORDER_TOPIC_CONFIG, topic) if options.order_message_enable else None,
            )
        if body is None:
            shown = "null" if topic is None else topic[: register_body.NAME_CHARACTERS_MAX]
            raise RequestRefused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {shown}\nSee {FAQ} for further details.",
            )
        return Answer(body=body)

    def _all_topics(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        return _list_if(self._options.enable_all_topic_list, lambda: sorted(self.table.topics))

    def _topics_by_cluster(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        cluster = command.fields.get("cluster", "")
        return _list_if(self._options.enable_topic_list, lambda: self.table.topics_of_cluster(cluster))

    def _system_topics(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        return Answer(body=answers.system_topics(self.table))

    def _unit_topics(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        return _list_if(self._options.enable_topic_list, lambda: self.table.unit_topics(SYS_FLAG_UNIT))

    def _unit_sub_topics(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        return _list_if(self._options.enable_topic_list, lambda: self.table.unit_topics(SYS_FLAG_UNIT_SUB))

    def _unit_sub_only_topics(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        return _list_if(
            self._options.enable_topic_list, lambda: self.table.unit_topics(SYS_FLAG_UNIT_SUB, SYS_FLAG_UNIT)
        )

    def _delete_topic(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        self.table.delete_topic(_name(command, "topic"), command.fields.get("clusterName") or None)
        return Answer()

    def _register_topic(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        topic = _name(command, "topic")
        rows = _read(command, queue_rows) if command.body else {}
        if rows:
            self.table.register_topic(topic, rows)
        elif command.body:
            self._effects.append(RowIgnored(Ignored.BAD_VALUE, f"queueDatas of topic {topic} is empty"))
        return Answer()

    # -- configuration --------------------------------------------------------------------------------------------

    def _put_kv(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        if "namespace" not in command.fields or "key" not in command.fields:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
        self._change_kv(self.kv_wanted.put(command.fields["namespace"], command.fields["key"], _text(command, "value")))
        return Answer()

    def _get_kv(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        namespace, key = _text(command, "namespace"), _text(command, "key")
        value = self.kv.get(namespace, key)
        if value is None:
            raise RequestRefused(
                ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace[:255]} Key: {key[:255]}"
            )
        return Answer(fields={"value": value})

    def _delete_kv(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        self._change_kv(self.kv_wanted.delete(_text(command, "namespace"), _text(command, "key")))
        return Answer()

    def _change_kv(self, table: KvConfig) -> None:
        if table is self.kv:
            return
        if self.kv_fixed:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, self.kv_fixed)
        if self._kv_unsaved >= KV_UNSAVED_MAX:
            raise RequestRefused(ResponseCode.SYSTEM_BUSY, f"{KV_UNSAVED_MAX} changes wait for the disk")
        self._kv_unsaved += 1
        self.kv_wanted = table
        self._effects.append(SaveKvConfig(table))

    def kv_saved(self, table: KvConfig, changes: int) -> None:
        """So many effects more are carried out: ``table`` is on the disk."""
        self.kv = table
        self._kv_unsaved -= changes

    def kv_not_saved(self) -> None:
        """All effects that are not carried out are given up: their changes are undone."""
        self.kv_wanted = self.kv
        self._kv_unsaved = 0

    def _get_kv_list(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        namespace = _text(command, "namespace")
        body = self.kv.namespace(namespace)
        if body is None:
            raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {namespace[:255]}")
        return Answer(body=body)

    def _get_config(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        return Answer(body=self._settings.describe())

    def _update_config(self, command: Command, caller: Caller, now_ms: int) -> Answer:
        changed = self._settings.update(command.body)
        if changed:
            self._effects.append(
                ConfigChanged(caller.connection, tuple((key, *pair) for key, pair in sorted(changed.items())))
            )
        return Answer()


def _list_if(enabled: bool, topics: Callable[[], list[str]]) -> Answer:
    if not enabled:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "disable")
    return Answer(body=answers.topic_list(topics()))


def _text(command: Command, field: str) -> str:
    value = command.fields.get(field)
    if value is None:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the request has no {field}")
    return value


def _name(command: Command, field: str) -> str:
    value = _text(command, field)
    if not 0 < len(value) <= register_body.NAME_CHARACTERS_MAX or not value.isprintable():
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"{field} must have 1 to {register_body.NAME_CHARACTERS_MAX} printable characters",
        )
    return value


def _optional_name(command: Command, field: str) -> str | None:
    return _name(command, field) if command.fields.get(field) else None


def _address(command: Command, field: str) -> str:
    value = _text(command, field)
    found = _ADDRESS.fullmatch(value)
    if found is None or not 0 < int(found.group(2)) < 65536:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{field} is not host:port")
    return value


def _integer(command: Command, field: str, low: int, high: int) -> int:
    number = parsed(command.fields.get(field, ""))
    if number is None or not low <= number <= high:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{field} must be a whole number from {low} to {high}")
    return number


def _read(command: Command, parse: Callable[[Any], _T]) -> _T:
    try:
        return parse(json_dialect.loads(command.body))
    except RemoteProtocolError as error:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the body: {error}") from None
