"""The newest events of this process, with the time of day of each, and how many there were of each name.

Pure: the clock is given.  It is told of events by :func:`rocketha.observe.logging.watch`; the status page shows it, and
``rocketha_events_total`` counts.

Where there are too many, the oldest of the subjects that have most go: the routes of a large cluster
must not push out who became master.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import attrs

from rocketha.observe.events import Event
from rocketha.observe.metrics import Registry

MOMENTS_MAX = 200


@attrs.frozen
class Moment:
    """Something that happened.

    :ivar at_ms: milliseconds since 1970; 0 where nobody noted it.
    :ivar event: its name.
    :ivar text: for a person.
    :ivar why: likewise; empty where the text says it.
    """

    at_ms: int
    event: str
    level: str
    text: str
    why: str = ""


class Timeline:
    """See the module.

    :param wall: seconds since 1970.
    :ivar counts: of all events, by name.
    """

    def __init__(self, wall: Callable[[], float]) -> None:
        self.counts: Counter[str] = Counter()
        self._wall = wall
        self._moments: list[Moment] = []

    def happened(self, event: Event) -> None:
        """An event, as it happens."""
        self.counts[event.name] += 1
        if event.shown:
            self._moments.append(Moment(int(self._wall() * 1000), event.name, event.level, event.words()))
            if len(self._moments) == 2 * MOMENTS_MAX:
                self._moments = _bounded(self._moments)

    def newest_first(self, others: Iterable[Moment] = ()) -> list[Moment]:
        """What this process saw, and what others noted: of what both have (the controllers' decisions) theirs."""
        theirs = list(others)
        names = {each.event for each in theirs}
        own = [each for each in self._moments if each.event not in names]
        return _bounded(sorted([*own, *theirs], key=_at))[::-1]

    def install(self, metrics: Registry) -> None:
        """Register the counts."""
        metrics.ask_series(
            "rocketha_events_total",
            "What happened, by the name that its line in the log has.",
            ("event",),
            lambda: [((name,), count) for name, count in sorted(self.counts.items())],
            "counter",
        )


def _at(moment: Moment) -> int:
    return moment.at_ms


def _subject(moment: Moment) -> str:
    return moment.event.partition(".")[0]


def _bounded(moments: list[Moment]) -> list[Moment]:
    """At most :data:`MOMENTS_MAX` of them, in their order; the first go, of the subjects that have most."""
    left, dropped = Counter(map(_subject, moments)), Counter[str]()
    for _ in range(len(moments) - MOMENTS_MAX):
        most = max(left, key=left.__getitem__)
        left[most] -= 1
        dropped[most] += 1
    kept = []
    for each in moments:
        if dropped[_subject(each)]:
            dropped[_subject(each)] -= 1
        else:
            kept.append(each)
    return kept
