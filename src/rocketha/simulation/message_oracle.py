"""What clients were told about messages, and whether the brokers keep to it.

Knows records and answers, not brokers.  A message is named by its body: an identity, then filler.  Each attempt to send
it ends acknowledged (SEND_OK: it is at this offset of this queue, for ever), refused (it was not stored and never will
be), or open (no answer, or one that says "stored, perhaps not safely": it may appear or not, and may go again).

Theory of operation: a queue is a list; per offset it is kept what was acknowledged there and the checksum of the bytes
that a consumer got.  Both are compared whenever something new is said, so most violations show at their moment.  The
names follow Jepsen's checks of a log: lost write, duplicate, inconsistent offset, skipped poll, non-monotonic send.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import attrs

from rocketha.broker.delay_levels import STEP_MS
from rocketha.simulation.findings import Findings
from rocketha.wire.record import Record

SEPARATOR = b"|"
LATE_S = 1.0
"""A delayed message may come so much later."""
SLOWEST = 0.95
"""Of hosts' steady clocks: they are up to 5 % slow or fast."""


class QueueName(NamedTuple):
    """A queue of one group of brokers."""

    group: str
    topic: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.group}/{self.topic}/{self.queue_id}"


@attrs.define(eq=False)
class Attempt:
    """One request of a producer.

    :ivar messages: identities, in the order of their offsets.
    :ivar above: the highest offset of the queue that was acknowledged before this was sent; -1 for none.
    """

    queue: QueueName
    messages: tuple[str, ...]
    above: int


@attrs.define(eq=False)
class _Message:
    """A message as its producer made it.

    :ivar possible: attempts that stored it or may have.
    """

    body_crc: int
    possible: int = 0


class Delayed(NamedTuple):
    """A message with a delay that was acknowledged, in seconds of true time.

    :ivar offset: in its level's queue.
    """

    name: str
    group: str
    level: int
    offset: int
    sent_s: float
    acknowledged_s: float
    delay_s: float

    @property
    def earliest_s(self) -> float:
        """When it may come: a step of the time of day that is too small for one is not reckoned with."""
        return self.sent_s + self.delay_s * SLOWEST - STEP_MS / 1000

    @property
    def latest_s(self) -> float:
        """When it must have come."""
        return self.acknowledged_s + self.delay_s / SLOWEST + LATE_S


@attrs.define(eq=False)
class _Told:
    """What was told of a queue.

    :ivar acknowledged: offset to identity.
    :ivar seen: offset to checksum of the record's bytes and identity.
    :ivar newest: the highest acknowledged offset.
    """

    acknowledged: dict[int, str] = attrs.Factory(dict)
    seen: dict[int, tuple[int, str]] = attrs.Factory(dict)
    newest: int = -1


def identity(body: bytes) -> str:
    """Whose body it is."""
    return body.partition(SEPARATOR)[0].decode("ascii", "replace")


class MessageOracle:
    """See the module.

    :ivar topics: topics that a group's master said it has made.
    :ivar last_acknowledged_s: when a group last acknowledged a message, in true time.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._messages: dict[str, _Message] = {}
        self._queues: dict[QueueName, _Told] = {}
        self.topics: dict[str, list[str]] = {}
        self.last_acknowledged_s: dict[str, float] = {}
        self._power_losses: Counter[str] = Counter()
        self.delayed: dict[str, Delayed] = {}
        self._read_s: dict[str, float] = {}
        self._stored: set[str] = set()

    # -- producers

    def made(self, name: str, body: bytes) -> None:
        """A producer made a message."""
        self._messages[name] = _Message(zlib.crc32(body))
        self._findings.count("messages")

    def sending(self, queue: QueueName, messages: Sequence[str]) -> Attempt:
        """A request leaves; its outcome is open."""
        for name in messages:
            self._messages[name].possible += 1
        return Attempt(queue, tuple(messages), self._told(queue).newest)

    def refused(self, attempt: Attempt, code: int) -> None:
        """The broker said that it did not store it."""
        for name in attempt.messages:
            self._messages[name].possible -= 1
        self._findings.count(f"sends refused ({code})")

    def left_open(self, code: int) -> None:
        """Stored and perhaps not safely, or no answer at all (code 0)."""
        self._findings.count(f"sends open ({code})" if code else "sends open (no answer)")

    def acknowledged(self, attempt: Attempt, offset: int) -> None:
        """SEND_OK, with the queue offset of the first message."""
        told = self._told(attempt.queue)
        self._findings.count("messages acknowledged", len(attempt.messages))
        self.last_acknowledged_s[attempt.queue.group] = self._findings.now
        if offset <= attempt.above:
            self._violated(
                "sends are ordered as they were acknowledged",
                f"{attempt.messages} got offset {offset} of {attempt.queue}, {attempt.above} was acknowledged before",
            )
        for at, name in enumerate(attempt.messages, offset):
            other = told.acknowledged.setdefault(at, name)
            if other != name:
                self._violated(
                    "queue offsets unique (12)", f"{attempt.queue} {at} is acknowledged for {other} and {name}"
                )
            seen = told.seen.get(at)
            if seen is not None and seen[1] != name:
                self._violated(
                    "read bytes never change (18)",
                    f"{attempt.queue} {at} was read as {seen[1]}, acknowledged for {name}",
                )
        told.newest = max(told.newest, offset + len(attempt.messages) - 1)

    def acknowledged_delayed(self, attempt: Attempt, level: int, offset: int, sent_s: float, delay_s: float) -> None:
        """SEND_OK for a message that is to come to its queue later, with the offset in its level's queue."""
        self._findings.count("messages acknowledged", len(attempt.messages))
        for name in attempt.messages:
            group = attempt.queue.group
            self.delayed[name] = Delayed(name, group, level, offset, sent_s, self._findings.now, delay_s)

    # -- consumers

    def read(self, queue: QueueName, data: bytes, record: Record, who: str, power_losses: int = 0) -> None:
        """A consumer got a record.

        :param power_losses: what :meth:`power_losses` said when the consumer asked.
        """
        told, at = self._told(queue), record.queue_offset
        name, crc = identity(record.body), zlib.crc32(data)
        before = told.seen.get(at, (crc, name))
        if power_losses == self.power_losses(queue.group) or at in told.acknowledged:  # else it may be gone already
            told.seen[at] = before
        if before != (crc, name):
            self._violated(
                "read bytes never change (18)", f"{queue} {at} was {before[1]}, {who} reads {name} of other bytes"
            )
        self._read_s.setdefault(name, self._findings.now)
        self._judge(queue, record, told, name, who)

    def beyond(self, queue: QueueName, offset: int, highest: int, who: str) -> None:
        """A master said that a consumer's offset is beyond its queue's end."""
        gone = [at for at in self._told(queue).seen if at >= highest]
        if gone:
            self._violated(
                "what was delivered stays (7)", f"{who} says {queue} ends at {highest}, {sorted(gone)[:3]} were read"
            )

    def skipped(self, queue: QueueName, expected: int, got: int, who: str) -> None:
        """A pull went over offsets."""
        self._violated("no pull skips messages", f"{who} goes from {expected} to {got} in {queue}")

    # -- machines

    def power_lost(self, group: str) -> None:
        """The only disk of a group lost what was not synced: what was read and never acknowledged may be gone.

        So may what is in an answer that is still under way.
        """
        self._power_losses[group] += 1
        for queue, told in self._queues.items():
            if queue.group == group:
                told.seen = {at: seen for at, seen in told.seen.items() if at in told.acknowledged}

    def power_losses(self, group: str) -> int:
        """How often the only disk of a group lost what was not synced."""
        return self._power_losses[group]

    # -- whole queues

    def whole_queue(self, queue: QueueName, first: int, records: Iterable[Record], who: str) -> None:
        """All that a broker has of a queue; ``first`` is above 0 where old files were deleted."""
        told, expected = self._told(queue), first
        counts: dict[str, int] = {}
        for record in records:
            if record.queue_offset != expected:
                self._violated(
                    "queue offsets dense (12)", f"{who}: {queue} has {record.queue_offset} where {expected} should be"
                )
                return
            name = identity(record.body)
            counts[name] = counts.get(name, 0) + 1
            self._stored.add(name)
            self._judge(queue, record, told, name, who)
            seen = told.seen.get(expected)
            if seen is not None and seen[1] != name:
                self._violated("read bytes never change (18)", f"{who}: {queue} {expected} was {seen[1]}, is {name}")
            expected += 1
        missing = sorted(at for at in told.acknowledged if at >= expected)
        if missing:
            lost = [f"{at} {told.acknowledged[at]}" for at in missing[:3]]
            self._violated(
                "acknowledged messages are there (7)", f"{who}: {queue} ends at {expected}, {len(missing)} lost: {lost}"
            )
        gone = sorted(at for at in told.seen if at >= expected)
        if gone:
            self._violated("what was delivered stays (7)", f"{who}: {queue} ends at {expected}, {gone[:3]} were read")
        # Of a delayed message too: a crash may come between its copy and the progress that says so, or another broker
        # take over with older progress, but then the copies in the log decide, which the index has or is given again.
        # Left over is an index whose files somebody took away, and nobody here does.
        for name, count in counts.items():
            if count > self._messages[name].possible:
                self._violated(
                    "no message is stored more often than it was sent",
                    f"{who}: {name} is {count} times in {queue}, sent {self._messages[name].possible} times",
                )
        self._findings.count("records compared at the end", expected - first)

    def delays(self, calm_s: float, deleted: frozenset[str]) -> None:
        """At the end: whether delayed messages came, and those of the time after ``calm_s`` not before their time.

        :param deleted: groups of which a full disk took the oldest files.
        """
        for message in self.delayed.values():
            read_s = self._read_s.get(message.name)
            if read_s is None and message.name not in self._stored and message.group not in deleted:
                self._violated("delayed messages arrive (7)", str(message))
            self._findings.count("delayed messages")
            if read_s is not None and message.sent_s >= calm_s and read_s < message.earliest_s:
                self._violated("delay levels deliver at their time", f"{message} came at {read_s:.2f} s")

    def _judge(self, queue: QueueName, record: Record, told: _Told, name: str, who: str) -> None:
        """A record against what its producer made and was told."""
        at = record.queue_offset
        if (record.topic, record.queue_id) != (queue.topic, queue.queue_id):
            self._violated("a queue has its own messages only", f"{who}: {queue} {at} is of {record.topic}")
            return
        made = self._messages.get(name)
        if made is None or made.body_crc != zlib.crc32(record.body):
            self._violated("bodies are as they were sent (22)", f"{who}: {queue} {at} has {name!r}")
            return
        if not made.possible:
            self._violated("what was refused is never seen", f"{who}: {queue} {at} is {name}")
        acknowledged = told.acknowledged.get(at)
        if acknowledged is not None and acknowledged != name:
            self._violated(
                "acknowledged messages are there (7)", f"{who}: {queue} {at} is {name}, acknowledged was {acknowledged}"
            )

    def queues(self, group: str) -> list[QueueName]:
        """Queues of a group that anybody sent to or read from."""
        return sorted(queue for queue in self._queues if queue.group == group)

    def end(self, queue: QueueName) -> int:
        """Behind the highest offset that was acknowledged."""
        return self._told(queue).newest + 1

    def _told(self, queue: QueueName) -> _Told:
        told = self._queues.get(queue)
        if told is None:
            told = self._queues[queue] = _Told()
        return told

    def _violated(self, rule: str, what: str) -> None:
        self._findings.violated(rule, what)
