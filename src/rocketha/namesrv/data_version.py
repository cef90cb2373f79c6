"""The version that a broker gives its topic table.

Knows nothing but the three numbers.  Two versions are the same only if all three numbers are; only ``state_version``
(the master epoch in controller mode, otherwise 0) says which of two registrations is newer.  Java class:
``DataVersion``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rocketha.errors import RequestRefused
from rocketha.wire import json_dialect
from rocketha.wire.codes import ResponseCode

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


class DataVersion(NamedTuple):
    """``timestamp_ms`` is the broker's clock; it is compared, never interpreted."""

    state_version: int = 0
    timestamp_ms: int = 0
    counter: int = 0

    def as_json(self) -> dict[str, int]:
        """The object in Java's order of keys."""
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp_ms}

    def encode(self) -> bytes:
        """The body of an answer to QUERY_DATA_VERSION."""
        return json_dialect.dumps(self.as_json())


def from_json(value: Any) -> DataVersion:
    """Read the object; absent fields are 0, as is an absent object.

    :raises RequestRefused: not an object, or a number that is no signed 64 bit integer.
    """
    if value is None:
        return DataVersion()
    if not isinstance(value, dict):
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "dataVersion is not a JSON object")
    return DataVersion(
        *(long_of(value.get(name), f"dataVersion.{name}") for name in ("stateVersion", "timestamp", "counter"))
    )


def long_of(value: Any, name: str) -> int:
    """A Java long out of JSON; ``None`` is 0.

    :raises RequestRefused: anything else than an integer in range.
    """
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not LONG_MIN <= value <= LONG_MAX:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"{name} is not a 64 bit integer")
    return value
