"""The version that a broker gives its topic table.

Knows nothing but the three numbers.  Two versions are the same only if all three numbers are; only ``state_version``
(the master epoch in controller mode, otherwise 0) says which of two registrations is newer.  Java class:
``DataVersion``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rocketha.wire import java_types, json_dialect, json_members


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
    """Read the object; absent fields are 0, as are those of none.

    :raises RemoteProtocolError: Java would not read it either.
    """
    row = java_types.bean(value) or {}
    return DataVersion(*(json_members.long(row, name, 0) for name in ("stateVersion", "timestamp", "counter")))
