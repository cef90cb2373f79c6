"""Requests about the broker itself: how it is, how it is configured, what it counted.

Pure.  Codes 28, 25, 26, 315, 907, 60, 61, 905, 908 (``AdminBrokerProcessor``).
"""

from __future__ import annotations

import re

from rocketha.broker.clients import Peer
from rocketha.broker.effects import RegisterTopics
from rocketha.broker.request import OK, Responder
from rocketha.broker.state import BrokerState
from rocketha.errors import ConfigError
from rocketha.wire import fields, json_dialect
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.fields import refused
from rocketha.wire.remoting import VERSION, Answer, Command

VERSION_NAME = "V5_5_0"
"""The name of :data:`rocketha.wire.remoting.VERSION`."""

CONFIG_BYTES_MAX = 64 * 1024
CONFIG_KEYS_MAX = 1024

_SECRET = re.compile(r"secret|password|privatekey|accesskey|credential|token", re.IGNORECASE)
_HIDDEN = "******"
_POOLS = ("send", "pull", "litePull", "query", "ack")
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class RuntimeRequests:
    """Handlers of requests about the broker itself."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.table: dict[int, Responder] = {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.runtime_info,
            RequestCode.UPDATE_BROKER_CONFIG: self.update_config,
            RequestCode.GET_BROKER_CONFIG: self.config,
            RequestCode.VIEW_BROKER_STATS_DATA: self.stats_data,
            RequestCode.GET_TIMER_CHECK_POINT: self.timer_checkpoint,
            RequestCode.GET_TIMER_METRICS: self.timer_metrics,
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: self.nothing_to_do,
            RequestCode.RESET_MASTER_FLUSH_OFFSET: self.nothing_to_do,
        }

    def nothing_to_do(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """NOTIFY_MIN_BROKER_ID_CHANGE concerns acting masters, and so does nothing in Java without that feature.
        RESET_MASTER_FLUSH_OFFSET sets what a Java slave remembers of its master's disk; ours hears it over its link.
        """
        return OK

    def runtime_info(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_BROKER_RUNTIME_INFO: a table of texts; ``mqadmin clusterList`` and ``brokerStatus`` show it."""
        state, store = self._state, self._state.store
        table = state.stats.runtime_info(now_ms)
        table |= {
            "brokerActive": str(not state.is_slave).lower(),
            "brokerVersion": str(VERSION),  # which 5.5.0 left out, and rocketmq-exporter shows nothing without
            "brokerVersionDesc": VERSION_NAME,
            "commitLogMaxOffset": str(store.max_physical_offset),
            "commitLogMinOffset": str(store.min_physical_offset),
            "dispatchBehindBytes": "0",
            "dispatchMaxBuffer": "0",
            "earliestMessageTimeStamp": str(store.earliest_message_time()),
            "pageCacheLockTimeMills": "0",
            "remainHowManyDataToFlush": readable_bytes(store.max_physical_offset - store.flushed_offset),
            "remainTransientStoreBufferNumbs": str(fields.INT_MAX),
            "startAcceptSendRequestTimeStamp": "0",
            # no timer wheel, and no thread pools: work is done as it arrives
            "timerCongestNum": "0",
            "timerDequeueTps": "0.0",
            "timerEnqueueTps": "0.0",
            "timerOffsetBehind": "0",
            "timerReadBehind": "0",
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": "0",
        }
        for pool in _POOLS:
            table[f"{pool}ThreadPoolQueueSize"] = "0"
            table[f"{pool}ThreadPoolQueueCapacity"] = "0"
            table[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        with store.together():
            table |= state.runtime_facts(now_ms)
        return Answer(body=json_dialect.dumps({"table": table}))

    def config(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_BROKER_CONFIG: every key, sorted; what looks like a secret is not shown."""
        view = self._state.config
        rows = [f"{key}={_HIDDEN if _SECRET.search(key) else value}\n" for key, value in sorted(view.texts().items())]
        version = json_dialect.dumps(view.version.as_json()).decode()
        return Answer(fields={"version": version}, body="".join(rows).encode())

    def update_config(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """UPDATE_BROKER_CONFIG: change keys that may change while the broker runs.

        In Java this request is a list of forbidden keys around a setter of everything (CVE-2023-33246); here it is
        off unless the configuration allows it, and then for a list of allowed keys.  Both outcomes are logged.
        """
        changes = _parse_properties(command.body)
        shown = ",".join(sorted(changes))[:1024]
        try:
            self._state.config.change(changes, self._state.wall_ms())
        except ConfigError as problem:
            self._state.audit("configuration change refused", connection.peer, keys=shown, reason=str(problem))
            raise refused(str(problem), ResponseCode.NO_PERMISSION) from None
        self._state.audit("configuration changed", connection.peer, keys=shown)
        if "brokerPermission" in changes:
            self._state.topics.data_version.next(self._state.wall_ms(), self._state.topics.state_version)
            self._state.effects.append(RegisterTopics(None))
        return OK

    def stats_data(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """VIEW_BROKER_STATS_DATA: one counter in the last minute, hour and day."""
        name, key = fields.text(command.fields, "statsName"), fields.text(command.fields, "statsKey")
        windows = self._state.stats.snapshots(name, key, now_ms)
        if windows is None:
            raise refused(f"The stats <{name[:255]}> <{key[:511]}> not exist", ResponseCode.SYSTEM_ERROR)
        minute, hour, day = (window.as_json() for window in windows)
        return Answer(body=json_dialect.dumps({"statsDay": day, "statsHour": hour, "statsMinute": minute}))

    def timer_checkpoint(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_TIMER_CHECK_POINT: what a Java broker without a timer wheel says; a Java slave goes on."""
        raise refused("The checkpoint is null", ResponseCode.SYSTEM_ERROR)

    def timer_metrics(self, connection: Peer, command: Command, now_ms: int) -> Answer:
        """GET_TIMER_METRICS: the same."""
        raise refused("The timer message store is null", ResponseCode.SYSTEM_ERROR)


def readable_bytes(count: int) -> str:
    """A size as ``MixAll.humanReadableByteCount`` writes it: ``295 B``, ``1.5 KiB``."""
    if count < 1024:
        return f"{count} B"
    value, unit = count / 1024, 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {_UNITS[unit]}"


def _parse_properties(body: bytes) -> dict[str, str]:
    """``key=value`` lines, as mqadmin sends them.

    :raises RequestRefused: 29, too long, no UTF-8, a line without ``=``, a control character or an escape.
    """
    if len(body) > CONFIG_BYTES_MAX:
        raise refused(f"a configuration of {len(body)} bytes, allowed are {CONFIG_BYTES_MAX}")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise refused("the configuration is not UTF-8") from None
    changes = {}
    for line in text.split("\n"):
        line = line.strip()
        if not line or line.startswith(("#", "!")):
            continue
        key, equals, value = line.partition("=")
        key, value = key.strip(), value.strip()
        if not equals or not key:
            raise refused(f"no key=value: {line[:80]!r}")
        if "\\" in line or any(ord(character) < 32 or ord(character) == 127 for character in line):
            raise refused(f"control characters and escapes are not allowed: {key[:80]!r}")
        changes[key] = value
        if len(changes) > CONFIG_KEYS_MAX:
            raise refused(f"more than {CONFIG_KEYS_MAX} keys")
    return changes
