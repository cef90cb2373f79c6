"""What a broker asks the leading controller: of each kind one question at a time, each again when it is due.

Must not know what an answer means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rocketha.broker.controller_identity import Identity, Step
from rocketha.broker.role_effects import Ask, Question
from rocketha.replication.sync_state import SetChange
from rocketha.wire import controller_calls as calls
from rocketha.wire.controller_calls import Call
from rocketha.wire.replica_list import get_replicas

GAP_MS = 200
"""Between questions that a peer can bring about."""

_JOINING = frozenset((Question.NEXT_ID, Question.APPLY, Question.REGISTER))


class Place(NamedTuple):
    """Who asks; ``address`` is ``host:port`` of the main port, as the controllers tell others."""

    cluster: str
    broker_name: str
    address: str


def joining_call(question: Question, place: Place, identity: Identity, now_ms: int) -> Call | None:
    """On the way to an id and under it; None where that step is done.

    :param now_ms: ms since 1970.
    """
    cluster, name, address = place
    if question is Question.NEXT_ID and identity.step is Step.NEXT_ID:
        return calls.get_next_broker_id(cluster, name)
    if question is Question.APPLY and identity.application is not None:
        return calls.apply_broker_id(cluster, name, identity.application.number, identity.application.check_code)
    if question is Question.REGISTER and identity.number is not None:
        return calls.register_broker(cluster, name, identity.number, address, now_ms)
    return None


def master_call(
    question: Question, place: Place, number: int, epoch: int, change: SetChange | None, ours: bool, now_ms: int
) -> Call | None:
    """Of a master; None where there is nothing to ask.

    :param epoch: that it leads.
    :param change: of its SyncStateSet, that it wants.
    :param ours: whether the controllers may know 11006.
    """
    cluster, name, _ = place
    if question is Question.CONFIRM:
        return calls.confirm_master(cluster, name, number, epoch) if ours else calls.get_replica_info(cluster, name)
    if question is Question.REPLICAS:
        return get_replicas(name)
    if question is Question.ALTER and change is not None:
        return calls.alter_sync_state_set(cluster, name, number, change.epoch, change.members, change.set_epoch, now_ms)
    return None


class Questions:
    """See the module.

    :param timeout_ms: how long the controller may take over a question of this kind.
    """

    def __init__(self, timeout_ms: Callable[[Question], int]) -> None:
        self._last = 0
        self._timeout_ms = timeout_ms
        self._due: dict[Question, int] = {}
        self._open: dict[Question, int] = {}  # number of the one that is not answered yet
        self._asked_ms: dict[Question, int] = {}

    def at(self, question: Question, at_ms: int) -> None:
        """Ask then, or as soon as the present one of that kind is answered."""
        self._due[question] = at_ms

    def by(self, question: Question, at_ms: int) -> None:
        """Ask then, unless it is to be asked anyway."""
        self._due.setdefault(question, at_ms)

    def hasten(self, question: Question, now_ms: int) -> None:
        """Ask now; but not, whatever peers do, without end."""
        self.at(question, max(now_ms, self._asked_ms.get(question, now_ms - GAP_MS) + GAP_MS))

    def drop(self, question: Question) -> None:
        """Ask it no more; an answer that is on its way is not looked at."""
        self._due.pop(question, None)
        self._open.pop(question, None)

    def disregard(self, question: Question) -> None:
        """The answer that is on its way is too old."""
        self._open.pop(question, None)

    def clear(self) -> None:
        """Drop all."""
        self._due.clear()
        self._open.clear()

    def close(self, number: int) -> Question | None:
        """The kind of a question that was answered; None: nobody waits for it any more."""
        for question, asked in self._open.items():
            if asked == number:
                del self._open[question]
                return question
        return None

    def due_ms(self, registered: bool) -> list[int]:
        """When each of those is due that can be asked."""
        return [at_ms for question, at_ms in self._due.items() if self._may(question, registered)]

    def ask(self, call_of: Callable[[Question], Call | None], now_ms: int, registered: bool) -> list[Ask]:
        """Those that are due.

        :param call_of: what to ask; None: it is of no interest any more.
        :param registered: whether the controllers know us; if not, what does not lead to that waits until they do.
        """
        asked = []
        for question in Question:
            at_ms = self._due.get(question)
            if at_ms is None or at_ms > now_ms or not self._may(question, registered):
                continue
            del self._due[question]
            call = call_of(question)
            if call is not None:
                self._last += 1
                self._open[question] = self._last
                self._asked_ms[question] = now_ms
                asked.append(Ask(self._last, question, call, self._timeout_ms(question)))
        return asked

    def _may(self, question: Question, registered: bool) -> bool:
        return question not in self._open and (registered or question in _JOINING)
