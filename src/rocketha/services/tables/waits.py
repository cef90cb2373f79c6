"""What waits until a table is on the disk: the answers to those who changed it, and sends to topics that are new.

Theory of operation.  *Answers.*  A request that changes topics or groups is carried out in memory at once and answered
when the table is saved, or with an error when it could not be: then it is in memory, on no disk, and tried again every
second.  The same change once more changes nothing and is answered no sooner.  Under controllers the answer then waits
for the replicas too (:class:`~rocketha.services.replication.metadata_master.MasterTables`), from that moment on; if the
broker lost its role meanwhile, nobody knows whether the change stays.

*Sends.*  A message must not be in the log before its topic is on the disk: after a crash it would have been
acknowledged, and be out of reach.  A send whose topic a crash would take back is parked, and is served like any other
when the topic is saved: by then the topic may have changed or gone, the broker may be none that takes messages.  Sends
to one topic keep their order, and those to all other topics go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from twisted.internet import defer

from rocketha.broker.fair_budget import FairBudget, held_bytes
from rocketha.broker.routes import CHANGES
from rocketha.broker.send import Sends
from rocketha.broker.state import BrokerState
from rocketha.observe.logging import make_logger
from rocketha.services.tables.broker_files import BrokerFiles, Saved
from rocketha.services.waiting.parked_requests import ParkedRequests
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command

ANSWERS_MAX = 4096
"""Answers that wait for the disk; a further one is an error at once."""
ANSWERS_BYTES_MAX = 64 * 1024 * 1024
"""Likewise, of the requests that they answer."""


class Promises(Protocol):
    """Who says that a change outlives this broker
    (:class:`~rocketha.services.replication.metadata_master.MasterTables`)."""

    def term(self) -> int | None:
        """In which a change is made."""

    def acknowledged(self, connection: Any, command: Command, answer: Answer, term: int | None) -> Answer | None:
        """The answer to a change that is saved here; None: it comes later."""


class SavedAnswers:
    """Answers that wait, of one broker."""

    def __init__(self, files: BrokerFiles, promises: Promises) -> None:
        self._files = files
        self._promises = promises
        self._budget = FairBudget(ANSWERS_MAX, ANSWERS_BYTES_MAX)
        self._log = make_logger()

    def answer(self, connection: Any, command: Command, answer: Answer, saves: Sequence[Saved]) -> Answer | None:
        """The answer to a request that has changed tables: now, or (None) when they are on the disk.

        :param saves: of those tables.
        """
        if command.is_oneway:
            return answer
        term = None
        if command.code in CHANGES:
            if answer.code:
                return answer
            term = self._promises.term()
            saves = (*saves, self._files[CHANGES[command.code]].save())  # also where somebody else made this change
        size = held_bytes(command) + len(answer.body)
        if not self._budget.take(connection.id, size):
            remark = "the change is made and not saved, too many wait for the disk: ask again"
            return Answer(ResponseCode.SYSTEM_ERROR, remark)
        saved = defer.gatherResults(saves)
        saved.addCallback(self._saved, connection, command, answer, term, size)
        saved.addErrback(lambda failure: self._log.error("{trace}", trace=failure.getTraceback()))
        return None

    def _saved(
        self,
        failures: list[Exception | None],
        connection: Any,
        command: Command,
        answer: Answer,
        term: int | None,
        size: int,
    ) -> None:
        self._budget.give_back(connection.id, size)
        failure = next(filter(None, failures), None)
        final: Answer | None = answer
        if failure is not None:
            final = Answer(ResponseCode.SYSTEM_ERROR, f"the change could not be saved: {failure}")
        elif command.code in CHANGES:
            final = self._promises.acknowledged(connection, command, answer, term)
        if final is not None and not connection.closed:
            connection.answer(command, final)


class NewTopics:
    """Sends that wait for their topic, of one broker.

    :param parked: takes them, as ones that need the topic; others in it need nothing but the store.
    :param request: serves one.
    :param as_turn: does work as one turn.
    :param store_busy: whether the store may not be touched now.
    """

    def __init__(
        self,
        parked: ParkedRequests,
        state: BrokerState,
        files: BrokerFiles,
        sends: Sends,
        request: Callable[[Any, Command], Answer | None],
        as_turn: Callable[[Callable[[], None]], None],
        store_busy: Callable[[], bool],
    ) -> None:
        self._parked = parked
        self._unsaved = state.topics.unsaved
        self._stats = state.stats
        self._file = files["topics"]
        self._sends = sends
        self._request = request
        self._as_turn = as_turn
        self._store_busy = store_busy
        self._file.watch(self)

    def park(self, connection: Any, command: Command, topic: str) -> Answer | None:
        """Let a send wait until its topic is on the disk; the answer to one for which there is no room."""
        refusal = self._parked.park(connection, command, topic)
        self._file.begin()  # behind that: a disk that fails at once tells it too
        return refusal

    def write_began(self) -> None:
        self._unsaved.write_began()

    def write_ended(self, failure: Exception | None) -> None:
        topics = self._unsaved.write_ended(failure is not None)
        if failure is not None and len(self._parked):
            answer = self._sends.disk_failed(failure)
            self._as_turn(lambda: self._refuse(answer, topics))
        self.go_on()

    def _refuse(self, answer: Answer, topics: frozenset[str]) -> None:
        self._stats.put_failed += self._parked.refuse(answer, topics.__contains__)

    def go_on(self) -> None:
        """Serve those whose topics are on the disk, and those that need none, if the store may be touched."""
        if len(self._parked) and not self._store_busy():
            self._as_turn(lambda: self._parked.serve(self._request, lambda topic: topic not in self._unsaved))

    def role_lost(self) -> None:
        """This broker takes no messages: all that wait for a topic are served as that."""
        if len(self._parked):
            self._as_turn(lambda: self._parked.serve(self._request, bool))
