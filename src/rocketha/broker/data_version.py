"""The version of a table: what a slave or a nameserver compares to see whether it has the newest one.

Pure.  Java: ``DataVersion``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from rocketha.errors import RemoteProtocolError
from rocketha.wire import java_types, json_dialect


@attrs.define
class DataVersion:
    """Counter, time and term of the last change; two tables are the same when all three are equal."""

    counter: int = 0
    state_version: int = 0  # the master epoch under which the change was made; 0 without a controller
    timestamp_ms: int = 0

    def next(self, wall_ms: int, state_version: int = 0) -> None:
        """Something changed."""
        self.counter += 1
        self.timestamp_ms = wall_ms
        self.state_version = state_version

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Counter, state version and time in ms, as a value that does not change."""
        return self.counter, self.state_version, self.timestamp_ms

    def as_json(self) -> dict[str, int]:
        """As fastjson writes it."""
        return {"counter": self.counter, "stateVersion": self.state_version, "timestamp": self.timestamp_ms}

    def assign(self, other: DataVersion) -> None:
        """Take over another's version (a file's, a master's)."""
        self.counter, self.state_version, self.timestamp_ms = other.counter, other.state_version, other.timestamp_ms

    @classmethod
    def from_json(cls, value: Any) -> DataVersion:
        """From a parsed object.  What is missing or no number counts as 0: the table is what matters, and a version
        that is another only makes it be asked for again.
        """
        found = value if isinstance(value, dict) else {}
        return cls(*(_number(found.get(key)) for key in ("counter", "stateVersion", "timestamp")))

    @classmethod
    def from_text(cls, text: str | None) -> DataVersion | None:
        """From a header field; ``None`` when it is blank or no JSON."""
        if text is None or not text.strip() or len(text) > 1024:
            return None
        try:
            return cls.from_json(json_dialect.loads(text))
        except RemoteProtocolError:
            return None


def _number(value: Any) -> int:
    try:
        return java_types.long(value) or 0
    except RemoteProtocolError:
        return 0


class VersionedTable:
    """A table of the broker that its slaves copy: what topics and consumer groups have in common.

    :ivar state_version: goes into ``data_version`` with the next change: the master epoch.
    :ivar dirty: set by every change and cleared by whoever saved the table.
    """

    def __init__(self) -> None:
        self.data_version = DataVersion()
        self.state_version = 0
        self.dirty = False
        self._watchers: list[Callable[[], None]] = []

    def watch(self, call: Callable[[], None]) -> None:
        """Have it called after every change of this broker's own; not after one that was copied from a master."""
        self._watchers.append(call)

    def begin_term(self, epoch: int, wall_ms: int) -> None:
        """This broker is master of ``epoch``: a new version, so that slaves and nameservers see whose table it is."""
        self.state_version = epoch
        self._changed(wall_ms)

    def _changed(self, wall_ms: int) -> None:
        self.data_version.next(wall_ms, self.state_version)
        self.dirty = True
        for call in self._watchers:
            call()
