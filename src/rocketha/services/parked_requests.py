"""Requests that wait for a moment, and are then served as if they came at that moment.

Bounded in number, bytes and time.  They are served in the order in which they came; not those whose client will soon
give up, since a send that it repeats would then be stored twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from twisted.python.failure import Failure

from rocketha.broker.fair_budget import FairBudget, held_bytes
from rocketha.broker.role import BUSY
from rocketha.errors import RequestRefused
from rocketha.observe.logging import make_logger
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command

PARKED_MAX = 20_000
PARKED_BYTES_MAX = 64 * 1024 * 1024
PARKED_S = 2.0
"""A Java producer waits for 3 s."""


class _Parked(NamedTuple):
    connection: Any
    command: Command
    bytes: int
    until_s: float
    needs: str


class ParkedRequests:
    """One line of them.

    :param clock: the reactor.
    """

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._parked: deque[_Parked] = deque()  # in the order of their deadlines, all patience being the same
        self._budget = FairBudget(PARKED_MAX, PARKED_BYTES_MAX)
        self._timer: Any = None
        self._log = make_logger()

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, connection: Any, command: Command, needs: str = "") -> Answer | None:
        """Let a request wait; the answer to one for which there is no room.

        :param needs: what it waits for.
        """
        size = held_bytes(command)
        if not self._budget.take(connection.id, size):
            return BUSY
        self._parked.append(_Parked(connection, command, size, self._clock.seconds() + PARKED_S, needs))
        if self._timer is None:
            self._timer = self._clock.callLater(PARKED_S, self._time_over)
        return None

    def serve(
        self, request: Callable[[Any, Command], Answer | None], now: Callable[[str], bool] = lambda needs: True
    ) -> None:
        """Serve those that wait for nothing any more.

        :param now: whether what somebody waits for is there.
        """
        self._refuse_overdue()  # after a freeze of the process its timer may come later than this
        for each in self._take(now):
            answer = None
            if not each.connection.closed or each.command.is_oneway:
                try:
                    answer = request(each.connection, each.command)
                except RequestRefused as refusal:
                    answer = Answer(refusal.code, refusal.remark)
                except Exception:
                    self._log.error("request {code}: {trace}", code=each.command.code, trace=Failure().getTraceback())
                    answer = Answer(ResponseCode.SYSTEM_ERROR, "the request failed")
            self._answer(each, answer)

    def refuse(self, answer: Answer, which: Callable[[str], bool]) -> int:
        """Give this answer to those that wait for ``which``; how many."""
        taken = self._take(which)
        for each in taken:
            self._answer(each, answer)
        return len(taken)

    def _take(self, which: Callable[[str], bool]) -> list[_Parked]:
        taken: list[_Parked] = []
        kept: deque[_Parked] = deque()
        for each in self._parked:
            (taken if which(each.needs) else kept).append(each)
        self._parked = kept
        if not kept and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return taken

    def _time_over(self) -> None:
        self._timer = None
        self._refuse_overdue()
        if self._parked:
            left_s = max(0.0, self._parked[0].until_s - self._clock.seconds())
            self._timer = self._clock.callLater(left_s, self._time_over)

    def _refuse_overdue(self) -> None:
        now_s = self._clock.seconds()
        while self._parked and self._parked[0].until_s <= now_s:
            self._answer(self._parked.popleft(), BUSY)

    def _answer(self, parked: _Parked, answer: Answer | None) -> None:
        self._budget.give_back(parked.connection.id, parked.bytes)
        if answer is not None and not parked.command.is_oneway and not parked.connection.closed:
            parked.connection.answer(parked.command.opaque, answer)
