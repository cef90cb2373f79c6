"""Requests that wait for a moment, and are then served as if they came at that moment.

Bounded in number, bytes and time.  They are served in the order in which they came; not those whose client will soon
give up, since a send that it repeats would then be stored twice.  One that has to wait once more when it is served, for
the same or for something else, is still refused when its first time is over; so is one that was kept for a master
(:mod:`rocketha.services.broker.forwarding`) and is served here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from twisted.python.failure import Failure

from rocketha.broker.fair_budget import FairBudget, held_bytes
from rocketha.broker.role import BUSY
from rocketha.errors import RequestRefused
from rocketha.observe.logging import make_logger
from rocketha.services.waiting.deadline_line import DeadlineLine
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
    """Those of one broker.

    :param clock: the reactor.
    """

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self._parked: DeadlineLine[_Parked] = DeadlineLine(lambda parked: parked.until_s)
        self._serving: _Parked | None = None  # it comes back here if it has to wait once more
        self._budget = FairBudget(PARKED_MAX, PARKED_BYTES_MAX)
        self._timer: Any = None
        self._log = make_logger()

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, connection: Any, command: Command, needs: str = "") -> Answer | None:
        """Let a request wait; the answer to one for which there is no room.

        :param needs: what it waits for beside the store.
        """
        size, until_s = held_bytes(command), self._clock.seconds() + PARKED_S
        if not self._budget.take(connection.id, size):
            return BUSY
        if self._serving is not None and self._serving.command is command:
            until_s = min(until_s, self._serving.until_s)
        self._parked.add(_Parked(connection, command, size, until_s, needs))
        self._arm()
        return None

    def serve(self, request: Callable[[Any, Command], Answer | None], now: Callable[[str], bool]) -> None:
        """Serve those that wait for nothing any more.

        :param now: whether what somebody waits for is there, or will not come.
        """
        self._refuse_overdue()  # after a freeze of the process its timer may come later than this
        for each in self._take(now):
            answer, outer, self._serving = None, self._serving, each
            if not each.connection.closed or each.command.is_oneway:
                try:
                    answer = request(each.connection, each.command)
                except RequestRefused as refusal:
                    answer = Answer(refusal.code, refusal.remark)
                except Exception:
                    self._log.error("request {code}: {trace}", code=each.command.code, trace=Failure().getTraceback())
                    answer = Answer(ResponseCode.SYSTEM_ERROR, "the request failed")
            self._serving = outer
            self._answer(each, answer)

    def resume(
        self, request: Callable[[Any, Command], Answer | None], connection: Any, command: Command, until_s: float
    ) -> Answer | None:
        """Serve one that has waited elsewhere; if it has to wait here, too, then no longer than that.

        :param until_s: when its time is over.
        """
        outer, self._serving = self._serving, _Parked(connection, command, 0, until_s, "")
        try:
            return request(connection, command)
        finally:
            self._serving = outer

    def refuse(self, answer: Answer, which: Callable[[str], bool]) -> int:
        """Give this answer to those that wait for ``which``; how many."""
        taken = self._take(which)
        for each in taken:
            self._answer(each, answer)
        return len(taken)

    def _take(self, which: Callable[[str], bool]) -> list[_Parked]:
        taken = self._parked.sift(lambda each: not which(each.needs))
        for each in taken:
            self._budget.give_back(each.connection.id, each.bytes)
        if not self._parked and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return taken

    def _arm(self) -> None:
        due_s = self._parked.due_s
        if due_s is None:
            return
        if self._timer is not None:
            if self._timer.getTime() <= due_s:
                return
            self._timer.cancel()
        self._timer = self._clock.callLater(max(0.0, due_s - self._clock.seconds()), self._time_over)

    def _time_over(self) -> None:
        self._timer = None
        self._refuse_overdue()
        self._arm()

    def _refuse_overdue(self) -> None:
        for overdue in self._parked.overdue(self._clock.seconds()):
            self._budget.give_back(overdue.connection.id, overdue.bytes)
            self._answer(overdue, BUSY)

    @staticmethod
    def _answer(parked: _Parked, answer: Answer | None) -> None:
        if answer is not None and not parked.connection.closed:
            parked.connection.answer(parked.command, answer)
