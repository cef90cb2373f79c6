"""Reads at a follower, which wait until it has all that was acknowledged before they came.

Those of a turn wait for one question to the leader.  Where it can not be answered they are refused or passed on to the
master, as without this; where no answer comes within two seconds the broker says that it is busy.  Raft's thesis 6.4
calls it ReadIndex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from rocketha.errors import RockethaError
from rocketha.services.waiting.parked_requests import ParkedRequests
from rocketha.wire.remoting import Answer, Command

Respond = Callable[[Any, Command], Answer | None]


class FreshReads:
    """Those of one broker.

    :param fresh: fires when this broker has what was acknowledged before the call; fails with a
        :class:`~rocketha.errors.RockethaError` where nobody knows.
    :param serve: answers one then.
    :param refuse: answers one otherwise.
    :param as_turn: does work as one turn of this broker's ports.
    """

    def __init__(
        self,
        reactor: Any,
        fresh: Callable[[], Deferred[None]],
        serve: Respond,
        refuse: Respond,
        as_turn: Callable[[Callable[[], None]], None],
    ) -> None:
        self._reactor = reactor
        self._fresh = fresh
        self._serve = serve
        self._refuse = refuse
        self._as_turn = as_turn
        self._parked = ParkedRequests(reactor)
        self._round = 0
        self._asking = False

    def take(self, connection: Any, command: Command) -> Answer | None:
        """A read came; the answer to one for which there is no room."""
        refusal = self._parked.park(connection, command, str(self._round))
        if refusal is None and not self._asking:
            self._asking = True
            self._reactor.callLater(0, self._ask)
        return refusal

    def _ask(self) -> None:
        self._asking = False
        number, self._round = str(self._round), self._round + 1

        def answer(respond: Respond) -> None:
            self._as_turn(lambda: self._parked.serve(respond, lambda needs: needs == number))

        def unknown(failure: Any) -> None:
            failure.trap(RockethaError)
            answer(self._refuse)

        self._fresh().addCallbacks(lambda _: answer(self._serve), unknown)
