"""Answers to sends that wait: for the own disk, for replicas, or for both.

Pure.  Theory of operation.  A send is answered once every byte of the log up to the end of its message is where it has
to be: under SYNC_FLUSH on this disk, and with replicas that count on as many of them.  Ends only grow, and all waits
need the same, so they are a queue: each news of the disk or of a replica releases a prefix of it, in order.  Sends that
came while no replica was there wait for the disk alone, in a queue of their own.

A wait past its deadline is answered with the full success header (the message is stored) and a code that says what is
behind, as Java does: FLUSH_SLAVE_TIMEOUT if replicas are, else FLUSH_DISK_TIMEOUT.  Each need has its own deadline.
Where a majority has to have a message before it counts, one that is late may still vanish: its answer is an error, also
where a disk is behind (Java's DLedger: IN_SYNC_REPLICAS_NOT_ENOUGH).
Deadlines are looked at by the clock, whatever is sent meanwhile (regression G1); what is there by then counts.

Java: ``CommitLog.GroupCommitService``, ``FlushDiskWatcher``, ``GroupTransferService``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple, Protocol

from rocketha.latencies import NO_TIME, SEND_KEY, Latencies
from rocketha.wire.codes import ResponseCode


class Writer(Protocol):
    """The part of a connection an answer needs."""

    def write(self, data: bytes) -> None:
        """Whole frames to the peer."""


class Replicas(Enum):
    """What a send needs of replicas."""

    NOT_ASKED = "nobody waits for them"
    AWAITED = "as many as count must have it"
    MAJORITY = "a majority must have it, whoever sent it; before that it is no success"
    MISSING = "they should have it, and too few are there to wait for: SLAVE_NOT_AVAILABLE"


class Waiting(NamedTuple):
    """One unanswered send.

    :ivar end: of its last message in the log.
    :ivar since_ms: when it was stored.
    :ivar frame: makes the answer from its code.
    :ivar arrived_s: when the send came.
    """

    end: int
    since_ms: int
    connection: Writer
    frame: Callable[[int], bytes]
    arrived_s: float


class Lack(Enum):
    """What a send still waits for."""

    DISK = "disk"
    REPLICAS = "replicas"


class Oldest(NamedTuple):
    """The send that waits for longest.

    :ivar end: of its last message in the log.
    """

    since_ms: int
    end: int
    lack: Lack


class Acknowledgements:
    """The sends that wait, in the order of their ends.

    :ivar sync_flush: sends wait for the disk.
    :ivar replicas: what sends need of replicas from now on; those that wait already go on as they began.
    :ivar flush_timeout_ms: how long one waits for the disk.
    :ivar slave_timeout_ms: how long for replicas.
    :ivar late: how many sends were told that too few replicas have them.
    :ivar latencies: how long each took, and the replicas.
    """

    def __init__(
        self,
        sync_flush: bool = False,
        flush_timeout_ms: int = 5000,
        slave_timeout_ms: int = 3000,
        latencies: Latencies | None = None,
    ) -> None:
        self.sync_flush = sync_flush
        self.replicas = Replicas.NOT_ASKED
        self.flush_timeout_ms = flush_timeout_ms
        self.slave_timeout_ms = slave_timeout_ms
        self.late = 0
        self.latencies = Latencies() if latencies is None else latencies
        self._sends, self._written = self.latencies.sends, self.latencies.written
        self._replicated: deque[Waiting] = deque()  # for replicas; under SYNC_FLUSH for the disk too
        self._local: deque[Waiting] = deque()  # for the disk alone, answered with _local_code
        self._on_disk = 0
        self._at_replicas = 0

    def __len__(self) -> int:
        return len(self._replicated) + len(self._local)

    def stored(
        self, end: int, now_ms: int, connection: Writer, frame: Callable[[int], bytes], arrived_s: float = NO_TIME
    ) -> None:
        """A message was stored whose sender wants to know that it is safe: answer now, or when it is.

        :param end: not below those before it.
        :param arrived_s: when the send came.
        """
        replicas = self.replicas
        if replicas is Replicas.AWAITED or replicas is Replicas.MAJORITY:
            self._replicated.append(Waiting(end, now_ms, connection, frame, arrived_s))
            return
        if replicas is Replicas.MISSING:
            frame = _without_slave(frame)
        if self.sync_flush:
            self._local.append(Waiting(end, now_ms, connection, frame, arrived_s))
        else:
            connection.write(frame(ResponseCode.SUCCESS))
            self._sends.note(arrived_s)

    def appended(self, end: int) -> None:
        """A turn's messages were stored, the last up to ``end``."""
        if self._replicated:
            self._written(end)

    @property
    def oldest(self) -> Oldest | None:
        """None where nobody waits."""
        found = []
        if self._replicated:
            head = self._replicated[0]
            lack = Lack.REPLICAS if head.end > self._at_replicas else Lack.DISK
            found.append(Oldest(head.since_ms, head.end, lack))
        if self._local:
            head = self._local[0]
            found.append(Oldest(head.since_ms, head.end, Lack.DISK))
        return min(found, default=None, key=lambda each: each.since_ms)

    @property
    def asks_all(self) -> bool:
        """Whether also senders wait that did not ask for it."""
        return self.replicas is Replicas.MAJORITY

    def _told(self, code: int) -> int:
        """The code that says what is behind."""
        return ResponseCode.SYSTEM_ERROR if self.replicas is Replicas.MAJORITY else code

    def flushed(self, offset: int) -> int:
        """The disk has everything below ``offset``: answer those that waited for no more; how many."""
        self._on_disk = max(self._on_disk, offset)
        return self._answer_until(self._local, self._on_disk) + self._release()

    def replicated(self, offset: int) -> int:
        """As many replicas as count have everything below ``offset``; how many were answered."""
        self._at_replicas = max(self._at_replicas, offset)
        self.latencies.replicated(offset)
        return self._release()

    def _release(self) -> int:
        safe = min(self._at_replicas, self._on_disk) if self.sync_flush else self._at_replicas
        return self._answer_until(self._replicated, safe)

    def _answer_until(self, waiting: deque[Waiting], offset: int) -> int:
        count, note = 0, self._sends.note
        while waiting and waiting[0].end <= offset:
            entry = waiting.popleft()
            entry.connection.write(entry.frame(ResponseCode.SUCCESS))
            note(entry.arrived_s)
            count += 1
        return count

    def _tell(self, entry: Waiting, code: int) -> None:
        entry.connection.write(entry.frame(code))
        self.latencies.told(SEND_KEY._replace(answer=code), entry.arrived_s, self._sends.ended)

    def _fail(self, waiting: deque[Waiting], code: int) -> int:
        count = len(waiting)
        while waiting:
            self._tell(waiting.popleft(), code)
        return count

    def expired(self, now_ms: int) -> int:
        """Answer those past a deadline; how many."""
        count = 0
        while self._local and self._local[0].since_ms + self.flush_timeout_ms <= now_ms:
            self._tell(self._local.popleft(), ResponseCode.FLUSH_DISK_TIMEOUT)
            count += 1
        waiting, kept = self._replicated, []
        first_ms = self._first_ms()
        while waiting and waiting[0].since_ms + first_ms <= now_ms:
            entry = waiting.popleft()
            code = self._late(entry, now_ms)
            if code is None:
                kept.append(entry)
            else:
                self._tell(entry, self._told(code))
                self.late += code == ResponseCode.FLUSH_SLAVE_TIMEOUT
                count += 1
        waiting.extendleft(reversed(kept))
        return count

    def _late(self, entry: Waiting, now_ms: int) -> int | None:
        if entry.end > self._at_replicas and entry.since_ms + self.slave_timeout_ms <= now_ms:
            return ResponseCode.FLUSH_SLAVE_TIMEOUT
        if self.sync_flush and entry.end > self._on_disk and entry.since_ms + self.flush_timeout_ms <= now_ms:
            return ResponseCode.FLUSH_DISK_TIMEOUT
        return None

    def _first_ms(self) -> int:
        return min(self.slave_timeout_ms, self.flush_timeout_ms) if self.sync_flush else self.slave_timeout_ms

    def next_deadline_ms(self) -> int | None:
        """When :meth:`expired` has something to do, if nothing is released before."""
        dues = []
        if self._local:
            dues.append(self._local[0].since_ms + self.flush_timeout_ms)
        if self._replicated:
            head = self._replicated[0]
            behind = head.end > self._at_replicas
            dues.append(head.since_ms + (self.slave_timeout_ms if behind else self.flush_timeout_ms))
        return min(dues, default=None)

    def disk_failed(self) -> int:
        """A sync failed, and nothing will reach the disk any more: answer all; how many.

        Also those that wait for replicas only: the page cache may have dropped what was to be synced, so that success,
        which says that this broker has the message, would not be true.
        """
        self.latencies.forget_writes()
        count = self._fail(self._local, ResponseCode.FLUSH_DISK_TIMEOUT)
        return count + self._fail(self._replicated, self._told(ResponseCode.FLUSH_DISK_TIMEOUT))

    def abandon(self) -> int:
        """This broker is the master no more: nobody can say that a message is safe; how many were answered."""
        self.latencies.forget_writes()
        count = self._fail(self._local, ResponseCode.FLUSH_DISK_TIMEOUT)
        late = self._fail(self._replicated, self._told(ResponseCode.FLUSH_SLAVE_TIMEOUT))
        self.late += late
        return count + late

    def log_cut(self, end: int) -> None:
        """The log ends at ``end`` now; nobody may wait.  What was said of bytes behind it is of other bytes."""
        self.latencies.forget_writes()
        self._on_disk = min(self._on_disk, end)
        self._at_replicas = min(self._at_replicas, end)


def _without_slave(frame: Callable[[int], bytes]) -> Callable[[int], bytes]:
    """Success of the disk is SLAVE_NOT_AVAILABLE; its failure stays what it is."""
    return lambda code: frame(code or ResponseCode.SLAVE_NOT_AVAILABLE)
