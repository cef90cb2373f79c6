"""Where reading begins and ends, as a user says it: offsets of the log, of queues or of DLedger's entries, and times.

Theory of operation: what is said is made into bounds of one export's records, which the plan passes over files by, and
which each batch is cut to.  What was asked for and is not there any more, or not yet, ends the query unless
``failOnDataLoss`` is false: who names an offset wants what stands there.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping

import attrs

from rocketha.errors import ConfigError
from rocketha.export.manifest import DLEDGER, Manifest
from rocketha_spark.bounds import HIGHEST, LOWEST, Bounds

PHYS, QUEUE, LEDGER = KINDS = ("phys", "queue", "ledger")
"""Offsets in bytes of the log, in messages of a queue, in entries of DLedger."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@attrs.frozen
class Edge:
    """One end.

    :ivar everywhere: of every replica that is not named; None is the export's own.
    :ivar replicas: offsets by the names of replicas.
    :ivar queues: queue offsets by topic and queue id; other queues are read as far as they go.
    """

    everywhere: int | None = None
    replicas: Mapping[str, int] = attrs.field(factory=dict)
    queues: Mapping[tuple[str, int], int] = attrs.field(factory=dict)

    def of(self, replica: str) -> int | None:
        """Where it is for a replica."""
        return self.replicas.get(replica, self.everywhere)

    @property
    def open(self) -> bool:
        """Nothing was said."""
        return self.everywhere is None and not self.replicas and not self.queues


@attrs.frozen
class Span:
    """Both ends; the second is exclusive.

    :ivar kind: of the offsets: of :data:`KINDS`.
    :ivar latest: a new stream begins where the exports end.
    :ivar stored_low: ms; the earliest store time, ``stored_high`` the last.
    """

    kind: str = PHYS
    low: Edge = Edge()
    high: Edge = Edge()
    latest: bool = False
    stored_low: int = LOWEST
    stored_high: int = HIGHEST

    @property
    def ends(self) -> bool:
        """An end was named."""
        return not self.high.open or self.stored_high != HIGHEST

    @property
    def of_the_log(self) -> bool:
        """Places in the log say it all."""
        timed = self.stored_low != LOWEST or self.stored_high != HIGHEST
        return not timed and (self.kind == PHYS or (self.low.open and self.high.open))

    def known(self, replicas: Iterable[str]) -> None:
        """What is named is there.

        :raises ConfigError: it is not.
        """
        missing = sorted({*self.low.replicas, *self.high.replicas} - set(replicas))
        if missing:
            raise ConfigError(f"offsets of replica {', '.join(missing)}, of which there is no export")

    def bounds(self, manifest: Manifest, end: int, strict: bool) -> Bounds:
        """Of an export's records.

        :param end: the log offset at which reading ends at the latest.
        :param strict: offsets that the export has not are refused.
        :raises ConfigError: they are, or are those of entries in a log without any.
        """
        bounds = Bounds(stored_low=self.stored_low, stored_high=self.stored_high)
        low, high = self.low.of(manifest.replica), self.high.of(manifest.replica)
        if self.kind == QUEUE:
            return attrs.evolve(bounds, queues=self._queues(manifest, strict))
        if self.kind == LEDGER and not (low is None and high is None):
            if manifest.layout != DLEDGER:
                raise ConfigError(f"{manifest.replica} has no entries of DLedger: offsetKind ledger makes no sense")
            last = max((each.last_index for each in manifest.segments), default=-1)
            _there(strict, f"{manifest.replica} ends with entry {last}", max(low or 0, high or 0) <= last + 1)
            return attrs.evolve(
                bounds, index_low=LOWEST if low is None else low, index_high=HIGHEST if high is None else high
            )
        _there(strict, f"{manifest.replica} begins at {manifest.begin}", low is None or low >= manifest.begin)
        _there(strict, f"{manifest.replica} is read up to {end}", max(low or 0, high or 0) <= end)
        return attrs.evolve(
            bounds, phys_low=LOWEST if low is None else low, phys_high=HIGHEST if high is None else high
        )

    def _queues(self, manifest: Manifest, strict: bool) -> dict[tuple[str, int], tuple[int, int]]:
        found = {}
        for queue in {*self.low.queues, *self.high.queues}:
            parts = [
                each for segment in manifest.segments for each in segment.queues if (each.topic, each.queue_id) == queue
            ]
            low, high = self.low.queues.get(queue, LOWEST), self.high.queues.get(queue, HIGHEST)
            name = f"queue {queue[1]} of {queue[0]} in {manifest.replica}"
            _there(strict, f"there is no {name}", bool(parts))
            if parts:
                first, last = min(each.first for each in parts), max(each.last for each in parts)
                _there(strict, f"{name} begins at {first}", low == LOWEST or low >= first)
                _there(strict, f"{name} ends with {last}", low <= last + 1 and (high == HIGHEST or high <= last + 1))
            found[queue] = low, high
        return found


def _there(strict: bool, says: str, right: bool) -> None:
    if strict and not right:
        raise ConfigError(f"{says} (failOnDataLoss)")


def span(options: Mapping[str, str]) -> Span:
    """What ``offsetKind``, ``startingOffsets``, ``endingOffsets``, ``startingTimestamp`` and ``endingTimestamp`` say.

    :param options: by their exact names.
    :raises ConfigError: a value makes no sense.
    """
    kind = options.get("offsetKind", PHYS).lower()
    if kind not in KINDS:
        raise ConfigError(f"offsetKind is one of {', '.join(KINDS)}, not {kind!r}")
    starting, ending = options.get("startingOffsets", "earliest"), options.get("endingOffsets", "latest")
    latest = starting.lower() == "latest"
    return Span(
        kind,
        Edge() if latest or starting.lower() == "earliest" else _edge("startingOffsets", starting, kind),
        Edge() if ending.lower() == "latest" else _edge("endingOffsets", ending, kind),
        latest,
        _ms("startingTimestamp", options.get("startingTimestamp"), LOWEST),
        _ms("endingTimestamp", options.get("endingTimestamp"), HIGHEST + 1) - 1,
    )


def _edge(name: str, text: str, kind: str) -> Edge:
    try:
        said = json.loads(text, object_pairs_hook=_once)
        if kind == QUEUE:
            return Edge(
                queues={
                    (topic, int(_digits(queue))): _offset(offset)
                    for topic, queues in said.items()
                    for queue, offset in queues.items()
                }
            )
        if isinstance(said, dict):
            return Edge(replicas={replica: _offset(offset) for replica, offset in said.items()})
        return Edge(everywhere=_offset(said))
    except (ValueError, AttributeError, RecursionError):
        word = "earliest or latest" if name == "startingOffsets" else "latest"
        like = '{"topic": {"0": 17}}' if kind == QUEUE else 'a number, or {"replica": 17}'
        raise ConfigError(f"{name} is {word}, or of offsetKind {kind} {like}; not {text!r}") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs) or not found:
        raise ValueError("a name twice, or none")
    return found


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= HIGHEST:
        raise ValueError("no offset")
    return value


def _digits(text: str) -> str:
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise ValueError("no queue")
    return text


def _ms(name: str, text: str | None, default: int) -> int:
    """Whole ms, up: records have whole ones."""
    if text is None:
        return default
    if re.fullmatch(r"[0-9]{1,18}", text.strip()):
        return int(text)
    try:
        time = datetime.datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(f"{name} is ms since 1970, or like 2026-11-24T09:30:00Z, not {text!r}") from None
    aware = time if time.tzinfo is not None else time.replace(tzinfo=datetime.UTC)
    return -(-((aware - _EPOCH) // datetime.timedelta(microseconds=1)) // 1000)
