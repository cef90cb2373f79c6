"""Asks the live holder of a name and id whether it serves under them, before another address gets them.

Decides nothing about routes.  One holder is asked once at a time and its answer holds for a second, however many claim
its place, and longer once it was asked often; it is asked by 907 at its own port, at the host that its registration
came from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.namesrv.budget import Budget
from rocketha.protocols.endpoints import Dialer, TlsFailed
from rocketha.protocols.peer_connections import PeerConnections
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.services.controller.probes import reading_of
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Command

TIMEOUT_S = 0.5
LATE_S = 0.1
"""A time-out that comes so much later than it was due tells of a pause of this process: the holder was not silent."""
ASKED_AGAIN_MAX = 3
HOLDS_S = 1.0
REMEMBERED_S = 20.0
"""An answer holds as long where its holder may not be asked yet."""
QUESTIONS_OF_PORT, QUESTIONS_OF_HOST = 10, 32
WAITING_MAX = 256
"""Claims that wait for holders; of more the holder is taken to live."""


class Holders:
    """The questions of one nameserver."""

    def __init__(self, dialer: Dialer) -> None:
        self._reactor = dialer.reactor
        self._connections = PeerConnections(dialer, lambda address: None)
        self._waiting: dict[tuple[str, bool], list[Callable[[bool], None]]] = {}
        self._known: dict[tuple[str, bool], tuple[bool, float]] = {}  # what it said, and when
        self._budget = Budget(QUESTIONS_OF_PORT, QUESTIONS_OF_HOST)
        self.asked = 0

    def serves(self, address: str, leads: bool, report: Callable[[bool], None]) -> None:
        """Report whether a broker answers there, as a master where ``leads``.

        Silence and refusal are a no, TLS that fails is a yes.
        """
        question = address, leads
        waiting = self._waiting.get(question)
        now_s = self._reactor.seconds()
        said, when_s = self._known.get(question, (True, -HOLDS_S))
        if now_s - when_s < HOLDS_S or sum(map(len, self._waiting.values())) >= WAITING_MAX:
            report(said)
        elif waiting is not None:
            waiting.append(report)
        elif self._budget.take(address, int(now_s * 1000)):
            self._waiting[question] = [report]
            self._ask(question)
        else:
            report(said)

    def _ask(self, question: tuple[str, bool], again: int = 0) -> None:
        address, leads = question
        self.asked += 1
        until_s = self._reactor.seconds() + TIMEOUT_S
        attempt = self._connections.dial(address, TIMEOUT_S)
        due = self._reactor.callLater(TIMEOUT_S, attempt.cancel)

        def ask(connection: RemotingProtocol) -> defer.Deferred[Command]:
            asking = connection.request(RequestCode.GET_BROKER_HA_STATUS, timeout_s=TIMEOUT_S)

            def over(result: Any) -> Any:
                connection.abort()
                return result

            return asking.addBoth(over)

        def settled(result: Any) -> None:
            if due.active():
                due.cancel()
            now_s = self._reactor.seconds()
            paused = isinstance(result, Failure) and now_s - until_s > LATE_S
            if paused and again < ASKED_AGAIN_MAX and question in self._waiting:
                self._ask(question, again + 1)
                return
            said = reading_of(result).leads if isinstance(result, Command) else None
            serves = said is not None and (said or not leads)
            if isinstance(result, Failure) and result.check(TlsFailed):
                serves = True  # somebody is there, and a certificate is no reason to give his name to another
            self._known = {each: told for each, told in self._known.items() if now_s - told[1] < REMEMBERED_S}
            self._known[question] = serves, now_s
            for report in self._waiting.pop(question, []):
                report(serves)

        attempt.addCallback(ask).addBoth(settled)

    def close(self) -> None:
        """Ask nobody any more; who waits is not told."""
        self._waiting.clear()
        self._connections.close()
