"""What a leader knows of one follower's log, and how much may be under way to it.

Pure.  States (the seeds' words, etcd's mechanics)::

    COMPARE --- accepted, follower ends there ----------------> APPEND
       |  ^                                                     |   ^
       |  +--------------- refused, or messages lost -----------+   |
       |                                                            |
       +--- accepted, follower's log goes on ---> TRUNCATE ---------+  one APPEND accepted: what conflicts is cut
       |
       +--- what it needs is compacted ---------> SNAPSHOT ---------+  installed

COMPARE looks for the last equal entry, one APPEND with few entries at a time.  TRUNCATE knows it, and sends one APPEND
at which the follower cuts its log at the first conflict.  APPEND is pipelined: ``next`` runs ahead of ``match``.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from rocketha.raft.messages import SnapshotMeta


class ProgressState(Enum):
    """How a follower is being served."""

    COMPARE = "COMPARE"
    TRUNCATE = "TRUNCATE"
    APPEND = "APPEND"
    SNAPSHOT = "SNAPSHOT"


class Progress:
    """One follower or learner, as its leader sees it.

    Invariant: ``match < next``; ``inflight`` is empty unless the state is APPEND.

    :ivar match: the last entry known to be equal and synced there.
    :ivar next: the next entry to send.
    :ivar asked: COMPARE, TRUNCATE: an APPEND is under way; no other is sent until it is answered or a heartbeat is.
    :ivar nudge: send an APPEND, an empty one if the window is full: something may have been lost.
    :ivar inflight: (last index, bytes) of each APPEND not answered.
    :ivar inflight_bytes: their sum.
    :ivar quota: bytes that may be sent while it is far behind.
    :ivar told: the highest commit index told.
    :ivar active: heard of since the last look.
    :ivar was_active: heard of between the last two looks.
    :ivar healthy: may become leader, as far as it says.
    :ivar round: the last reading round it answered.
    :ivar promised_round: the last one with whose answer it promised to elect nobody else for a while.
    :ivar match_round: the last round sent when ``match`` was last raised.
    :ivar snapshot: SNAPSHOT: what is being sent.
    :ivar offset: SNAPSHOT: bytes of it that arrived.
    :ivar sent: SNAPSHOT: bytes of it that were sent.
    :ivar stalled: SNAPSHOT: heartbeats answered since bytes last arrived.
    :ivar departing: index of the membership entry that removes it; 0 if it stays.
    """

    __slots__ = (
        "active",
        "asked",
        "departing",
        "departing_ticks",
        "healthy",
        "inflight",
        "inflight_bytes",
        "match",
        "match_round",
        "next",
        "nudge",
        "offset",
        "promised_round",
        "quota",
        "round",
        "sent",
        "snapshot",
        "stalled",
        "state",
        "told",
        "was_active",
    )

    def __init__(self, next_index: int) -> None:
        self.state = ProgressState.COMPARE
        self.match = 0
        self.next = next_index
        self.asked = False
        self.nudge = True
        self.inflight: deque[tuple[int, int]] = deque()
        self.inflight_bytes = 0
        self.quota = 0
        self.told = 0
        self.active = True
        self.was_active = True
        self.healthy = True
        self.round = 0
        self.promised_round = 0
        self.match_round = 0
        self.snapshot: SnapshotMeta | None = None
        self.offset = 0
        self.sent = 0
        self.stalled = 0
        self.departing = 0
        self.departing_ticks = 0

    def compare(self, next_index: int) -> None:
        """Look for the last equal entry again, from before ``next_index``."""
        self._enter(ProgressState.COMPARE)
        self.next = max(next_index, self.match + 1)
        self.nudge = True
        self.told = 0

    def truncate(self) -> None:
        """The last equal entry is known; the follower's log goes on after it."""
        self._enter(ProgressState.TRUNCATE)
        self.next = self.match + 1

    def append(self) -> None:
        """The logs are equal up to ``match``: send without waiting."""
        self._enter(ProgressState.APPEND)
        self.next = self.match + 1

    def send_snapshot(self, snapshot: SnapshotMeta) -> None:
        """Only a snapshot helps."""
        self._enter(ProgressState.SNAPSHOT)
        self.snapshot = snapshot

    def _enter(self, state: ProgressState) -> None:
        self.state = state
        self.asked = False
        self.nudge = False
        self.inflight.clear()
        self.inflight_bytes = 0
        self.snapshot = None
        self.offset = self.sent = self.stalled = 0

    def forget(self, last_index: int) -> None:
        """The follower lost what it had (its disk was replaced): begin anew."""
        self.match = 0
        self.compare(last_index + 1)

    def sent_entries(self, last: int, size: int) -> None:
        """An APPEND left with entries up to ``last``."""
        if self.state is ProgressState.APPEND:
            self.next = last + 1
            self.inflight.append((last, size))
            self.inflight_bytes += size
        else:
            self.asked = True

    def acknowledged(self, index: int, round_number: int) -> bool:
        """The follower has everything up to ``index``; whether that is news.

        :param round_number: the last heartbeat round sent.
        """
        inflight = self.inflight
        while inflight and inflight[0][0] <= index:
            self.inflight_bytes -= inflight.popleft()[1]
        if index <= self.match:
            return False
        self.match = index
        self.match_round = round_number
        if self.next <= index:
            self.next = index + 1
        return True
