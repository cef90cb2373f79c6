"""A 904 as the heartbeat table wants it.

Pure.  Java: ``BrokerHeartbeatRequestHeader``; what a broker leaves out has Java's default.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketha.controller.group import EPOCH_MAX
from rocketha.controller.liveness import PRIORITY_LOWEST, TIMEOUT_MS, Heartbeat, ReplicaKey
from rocketha.controller.names import name_in
from rocketha.wire import fields
from rocketha.wire.codes import ResponseCode

TIMEOUT_MAX_MS = 3_600_000
"""A broker that announces more is believed no longer."""


def read(found: Mapping[str, str]) -> tuple[ReplicaKey, Heartbeat]:
    """Whose heartbeat it is, and what it says.

    :raises RequestRefused: 2005 without an id, as Java; 29 for a field that is missing, no name or no number.
    """
    if "brokerId" not in found:
        raise fields.refused("Heart beat with empty brokerId", ResponseCode.CONTROLLER_INVALID_REQUEST)
    key = ReplicaKey(
        name_in(found, "clusterName"),
        name_in(found, "brokerName"),
        fields.long(found, "brokerId"),
    )
    address = name_in(found, "brokerAddr")
    timeout_ms = _number(found, "heartbeatTimeoutMills", TIMEOUT_MS)
    beat = Heartbeat(
        address,
        _small(found, "epoch", -1, EPOCH_MAX),
        _number(found, "maxOffset", -1),
        _number(found, "confirmOffset", -1),
        min(timeout_ms, TIMEOUT_MAX_MS) if timeout_ms > 0 else TIMEOUT_MS,
        _small(found, "electionPriority", PRIORITY_LOWEST, PRIORITY_LOWEST),
        found.get("confirmsRole") == "true",
    )
    return key, beat


def _number(found: Mapping[str, str], field: str, default: int) -> int:
    number = fields.optional_long(found, field)
    return default if number is None else number


def _small(found: Mapping[str, str], field: str, default: int, high: int) -> int:
    """32 bits: a log entry has no more for it, and an election must never fail to be written."""
    number = fields.optional_integer(found, field, high=high)
    return default if number is None else number
