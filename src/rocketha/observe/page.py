"""What the status page is fed with: one JSON document, made from what the process knows.

What it must not know: what any of it means.  The page asks twice a second while somebody looks; the document is made at
most four times a second, however many ask, and less often where a great deal is known: it takes a twentieth of the
process's time at most.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import attrs

import rocketha
from rocketha.observe.http import Check
from rocketha.observe.overview import Shows, tables
from rocketha.observe.timeline import Timeline

VERSION = 1
"""Of the document: another one where a field goes or means something else."""

FRESH_S = 0.25
SHARE = 0.05


class Feed:
    """Of one process.

    :param shows: what it knows.
    :param wall: seconds since 1970.
    :param seconds: a clock that never goes back.
    """

    def __init__(
        self,
        shows: Shows,
        checks: tuple[Check, Check],
        timeline: Timeline,
        wall: Callable[[], float],
        seconds: Callable[[], float],
    ) -> None:
        self._shows = shows
        self._healthy, self._ready = checks
        self._timeline = timeline
        self._wall, self._seconds = wall, seconds
        self._since_ms = int(wall() * 1000)
        self._made = b""
        self._good_until_s = self._seconds()

    def document(self) -> bytes:
        """The JSON, not older than :data:`FRESH_S`, or than making it allows."""
        began_s = self._seconds()
        if began_s >= self._good_until_s:
            self._made = self._make()
            self._good_until_s = began_s + max(FRESH_S, (self._seconds() - began_s) / SHARE)
        return self._made

    def _make(self) -> bytes:
        overview, healthy, ready = self._shows(), self._healthy(), self._ready()
        found = {
            "version": VERSION,
            "nowMs": int(self._wall() * 1000),
            "process": {
                "title": overview.title,
                "release": rocketha.__version__,
                "sinceMs": self._since_ms,
                "unhealthy": healthy,
                "unready": ready,
            },
            **tables(overview),
            "timeline": [attrs.asdict(each) for each in self._timeline.newest_first(overview.moments)],
            "events": dict(sorted(self._timeline.counts.items())),
            "notes": list(overview.notes),
        }
        # Escaped to ASCII: a name may hold what is no character of UTF-8.
        return json.dumps(found, separators=(",", ":")).encode("ascii")
