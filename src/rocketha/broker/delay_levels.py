"""Delay levels, and how far each level's queue has been delivered.

Pure.  A message with DELAY=n waits in queue n-1 of the schedule topic.  Progress per level is config/delayOffset.json.

Java: ``ScheduleMessageService`` (parseDelayLevel, encode, decode, correctDelayOffset), ``DelayOffsetSerializeWrapper``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketha.broker.data_version import DataVersion
from rocketha.errors import ConfigError, CorruptStore, RemoteProtocolError
from rocketha.wire import java_types, json_dialect, json_members

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_levels(text: str) -> tuple[int, ...]:
    """The delays of a ``messageDelayLevel`` such as ``1s 5s 1m``, in ms, level 1 first.

    :raises ConfigError: when a word of it is no delay.
    """
    delays = []
    for word in text.split():
        unit, number = _UNITS_MS.get(word[-1:]), word[:-1]
        if unit is None or not (number.isascii() and number.isdigit()) or int(number) > 1_000_000_000:
            raise ConfigError(f"messageDelayLevel: {word!r} is no delay such as 30s, 5m, 2h or 1d")
        delays.append(int(number) * unit)
    return tuple(delays)


def read_progress(value: Any) -> dict[int, int]:
    """Level to offset in a parsed ``DelayOffsetSerializeWrapper``: a file's, a master's.

    :raises RemoteProtocolError: it is none.
    """
    table = java_types.offset_table(json_members.as_object(value, "a table of levels").get("offsetTable")) or {}
    for level, offset in table.items():
        if level < 0 or offset < 0:
            raise RemoteProtocolError(f"level {level} has offset {offset}")
    return table


class DelayLevels:
    """The levels of one broker and their progress.

    ``offsets``: level -> queue offset of the first message not delivered yet.  ``dirty`` is set by every change.
    """

    def __init__(self, delays_ms: tuple[int, ...]) -> None:
        self._delays_ms = delays_ms
        self.offsets: dict[int, int] = {}
        self.data_version = DataVersion()
        self.dirty = False

    @property
    def highest(self) -> int:
        """The highest level."""
        return len(self._delays_ms)

    def delay_ms(self, level: int) -> int:
        """How long a message of ``level`` (from 1) waits."""
        return self._delays_ms[level - 1]

    def advance(self, level: int, offset: int, wall_ms: int) -> None:
        """Everything of the level below ``offset`` is delivered."""
        if self.offsets.get(level) != offset:
            self.offsets[level] = offset
            self.dirty = True
            self.data_version.next(wall_ms, 0)

    def as_json(self) -> dict[str, Any]:
        """The file's content and the body of GET_ALL_DELAY_OFFSET."""
        return {
            "dataVersion": self.data_version.as_json(),
            "offsetTable": {str(level): self.offsets[level] for level in sorted(self.offsets)},
        }

    def dump(self) -> bytes:
        """The text of config/delayOffset.json."""
        return json_dialect.dumps_pretty(self.as_json())

    def dump_later(self) -> Callable[[], bytes]:
        """The same of the progress as it is now; of few levels it is made at once."""
        text = self.dump()
        return lambda: text

    def load(self, data: bytes, path: str = "config/delayOffset.json") -> None:
        """Take over a file's progress.

        :raises CorruptStore: when it is no such file.
        """
        try:
            value = json_dialect.loads(data, json_dialect.FILE_BYTES_MAX)
            self.offsets.update(read_progress(value))
            self.data_version.assign(DataVersion.from_json(value.get("dataVersion")))
        except RemoteProtocolError as problem:
            raise CorruptStore(path, 0, str(problem)) from None

    def replace(self, offsets: dict[int, int], version: DataVersion) -> None:
        """The progress is a master's from now on."""
        self.offsets = offsets
        self.data_version.assign(version)
        self.dirty = True
