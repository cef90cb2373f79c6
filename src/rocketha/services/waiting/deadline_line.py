"""Requests that wait in the order of their deadlines, which mostly is that in which they came.

Knows no request: who puts them in says when the time of each is over.  Whoever goes through a line may add to it
meanwhile, as what becomes of one request may bring another back.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

_Request = TypeVar("_Request")


class DeadlineLine(Generic[_Request]):
    """One line.

    :param deadline_s: when the time of a request is over.
    """

    def __init__(self, deadline_s: Callable[[_Request], float]) -> None:
        self._deadline_s = deadline_s
        self._requests: deque[_Request] = deque()  # invariant: by deadline; of equal ones the first came first

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def first(self) -> _Request | None:
        """Whose time is over first."""
        return self._requests[0] if self._requests else None

    @property
    def due_s(self) -> float | None:
        """When the first one's time is over."""
        return self._deadline_s(self._requests[0]) if self._requests else None

    def add(self, request: _Request) -> None:
        """Behind all whose time is over no later: mostly at the end; one that comes back is older than others."""
        bisect.insort(self._requests, request, key=self._deadline_s)

    def overdue(self, now_s: float) -> Iterator[_Request]:
        """Those whose time is over; each waits no more when it is given."""
        while self._requests and self._deadline_s(self._requests[0]) <= now_s:
            yield self._requests.popleft()

    def all(self) -> Iterator[_Request]:
        """Every one; each waits no more when it is given."""
        while self._requests:
            yield self._requests.popleft()

    def sift(self, stays: Callable[[_Request], bool]) -> list[_Request]:
        """Go through all, once; those that do not stay."""
        requests, gone = list(self._requests), []
        self._requests.clear()
        for request in requests:
            if stays(request):
                self.add(request)
            else:
                gone.append(request)
        return gone
