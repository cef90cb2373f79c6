"""Delay levels, and how far each level's queue has been delivered.

Pure.  A message with DELAY=n waits in queue n-1 of the schedule topic.  Progress per level is config/delayOffset.json.

Java: ``ScheduleMessageService`` (parseDelayLevel, encode, decode, correctDelayOffset), ``DelayOffsetSerializeWrapper``.

When a message's time has come.  A record says at which time of day it was stored, and somebody may set that clock while
the message waits.  :class:`StoreTimes` remembers how far the time of day was ahead of the steady clock, and from which
place of the log on: where it changed, a new line begins.  So the steady time of every message that this broker stored
follows from its place and its stamp.  What another process stored is another matter: its clock's steps are not known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from rocketha.broker.data_version import DataVersion
from rocketha.errors import ConfigError, CorruptStore, RemoteProtocolError
from rocketha.wire import java_types, json_dialect, json_members

STEP_MS = 50
"""Less than this is two clocks read one after the other."""
LINES_MAX = 1000
"""Steps that are remembered."""
CLOCK_AHEAD_MS = 60_000
"""By so much another broker's clock may be ahead of ours."""


class StoreTimes:
    """Of one log; told before each write."""

    def __init__(self) -> None:
        self._places = [0]
        self._ahead_ms = [0]
        self._own_from = 0
        self._began_ms = 0

    def begin(self, place: int, now_ms: int, wall_ms: int) -> None:
        """What lies before ``place`` was stored by somebody else."""
        self._places, self._ahead_ms = [0], [wall_ms - now_ms]
        self._own_from, self._began_ms = place, now_ms

    def stores_at(self, place: int, now_ms: int, wall_ms: int) -> None:
        """What lies from ``place`` on gets this time of day."""
        ahead_ms = wall_ms - now_ms
        if -STEP_MS < ahead_ms - self._ahead_ms[-1] < STEP_MS:
            return
        self._places.append(place)
        self._ahead_ms.append(ahead_ms)
        del self._places[:-LINES_MAX], self._ahead_ms[:-LINES_MAX]

    def due_ms(self, place: int, stamp_ms: int, delay_ms: int) -> int:
        """When, by the steady clock, a message's delay is over.

        Another process's message was stored before we began, whatever its stamp says: a broker whose clock is ahead of
        ours may have written it.  If it is much further ahead, a clock was set back: it is due now, as in Java.
        """
        stored_ms = stamp_ms - self._ahead_ms[max(0, bisect_right(self._places, place) - 1)]
        if place < self._own_from:
            if stored_ms > self._began_ms + CLOCK_AHEAD_MS:
                return self._began_ms
            stored_ms = min(stored_ms, self._began_ms)
        return stored_ms + delay_ms


class ClockSteps:
    """By how much the time of day was set since somebody looked."""

    def __init__(self) -> None:
        self._ahead_ms: int | None = None

    def stepped_ms(self, now_ms: int, wall_ms: int) -> int:
        """Since the last call; back where it is less than 0, and 0 at the first."""
        before, self._ahead_ms = self._ahead_ms, wall_ms - now_ms
        return 0 if before is None else self._ahead_ms - before


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
