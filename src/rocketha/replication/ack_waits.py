"""Puts that wait for replicas: each until its offset is reached or its own deadline is over.

Must not know who acknowledges nor what a put is: a wait is a number of the caller's.

Theory of operation.  What a wait needs is one number: the offset that ``need`` replicas have reached.  So waits of the
same need are ordered by offset, and one that is slow or hopeless stands in nobody's way (regression G2).  Deadlines are
of the clock and do not depend on how much was sent meanwhile (G1).  What is reached is looked at before what is late.

Java: ``GroupTransferService`` (which goes through a list, one after the other).
"""

from __future__ import annotations

from heapq import heappop, heappush

ALL = -1
"""The need of a wait for every member of the SyncStateSet (``allAckInSyncStateSet``), as Java writes it."""
WAITS_MAX = 200_000


class AckWaits:
    """A master's waiting puts.

    Invariant: a wait is in ``_open`` from :meth:`add` until it was returned once; heaps may still hold its shadow.
    """

    __slots__ = ("_by_need", "_deadlines", "_open", "_waits_max")

    def __init__(self, waits_max: int = WAITS_MAX) -> None:
        self._waits_max = waits_max
        self._open: set[int] = set()
        self._by_need: dict[int, list[tuple[int, int]]] = {}
        self._deadlines: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._open)

    def add(self, wait: int, offset: int, need: int, deadline_ms: int) -> bool:
        """A put waits until ``need`` replicas have ``[.., offset)``.

        :param wait: a number never used before.
        :returns: False if too many wait already; it is not added.
        """
        if len(self._open) >= self._waits_max:
            return False
        self._open.add(wait)
        heappush(self._by_need.setdefault(need, []), (offset, wait))
        heappush(self._deadlines, (deadline_ms, wait))
        return True

    @property
    def needs(self) -> list[int]:
        """The needs that somebody has."""
        return sorted(self._by_need)

    def reached(self, need: int, offset: int) -> list[int]:
        """``need`` replicas have everything before ``offset``: the waits that this ends, by offset."""
        heap = self._by_need.get(need, [])
        done = []
        while heap and (heap[0][0] <= offset or heap[0][1] not in self._open):
            wait = heappop(heap)[1]
            if wait in self._open:
                self._open.remove(wait)
                done.append(wait)
        if not heap:
            self._by_need.pop(need, None)
        if done:
            self._tidy()
        return done

    def expired(self, now_ms: int) -> list[int]:
        """The waits whose deadline is over, by deadline; ask :meth:`reached` first."""
        late = []
        while self._deadlines and (self._deadlines[0][0] <= now_ms or self._deadlines[0][1] not in self._open):
            wait = heappop(self._deadlines)[1]
            if wait in self._open:
                self._open.remove(wait)
                late.append(wait)
        if late:
            self._tidy()
        return late

    def abandon(self) -> list[int]:
        """Nobody will acknowledge any more (the role is lost): all waits, sorted."""
        waiting = sorted(self._open)
        self._open.clear()
        self._by_need.clear()
        self._deadlines.clear()
        return waiting

    @property
    def next_due_ms(self) -> int | None:
        """The nearest deadline; None if nobody waits."""
        while self._deadlines and self._deadlines[0][1] not in self._open:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _tidy(self) -> None:
        """Shadows never outnumber the waits by much, whatever order they end in."""
        bound = 2 * len(self._open) + 64
        if len(self._deadlines) > bound:
            self._deadlines = sorted(each for each in self._deadlines if each[1] in self._open)
        if sum(map(len, self._by_need.values())) > bound:
            kept = (
                (need, sorted(each for each in heap if each[1] in self._open)) for need, heap in self._by_need.items()
            )
            self._by_need = {need: heap for need, heap in kept if heap}
