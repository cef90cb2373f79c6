"""Requests for messages that are not in memory: they wait for a thread that fetches them, and nobody else does.

Theory of operation.  A request is answered at once if what it needs is in the page cache.  If not it waits, what it
lacks is fetched (:class:`~rocketha.services.waiting.fetches.Fetches`), and it runs again from the beginning, as the
log, the role and the connection are by then, until it lacks nothing.  What cannot be read is said to whoever asked for
it.

The requests of one connection that wait do so in a row, one at the disk at a time: their answers leave in the order in
which they came, no client takes the disk from others, and one that does not take its answers has none made.  A request
that finds its messages in memory overtakes them, as a pull overtakes one that waits for a message to come.

Java: a pool of threads reads from mapped files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from rocketha.broker.fair_budget import FairBudget, held_bytes
from rocketha.broker.long_polling import HeldPull
from rocketha.broker.role import BUSY
from rocketha.errors import RequestRefused
from rocketha.observe.logging import make_logger
from rocketha.services.waiting.fetches import Fetches
from rocketha.services.waiting.wakeups import UNSENT_MAX
from rocketha.store.in_memory import NotInMemory, Tries, Wait
from rocketha.store.patient_reads import PatientReads
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command

Read = Callable[[Any, Command, int, bool, Wait], Answer | None]
"""Answers a request of a connection at a time in ms, as :meth:`rocketha.broker.pull.Pulls.pull`: ``first`` is False of
one that waited for a message to come; NotInMemory: it would take more than Wait says, and nothing was done."""
Respond = Callable[[Any, Command, int], Answer | None]
"""Answers a request likewise, and reads through :class:`PatientReads` only."""
WAITING_MAX = 20_000
WAITING_BYTES_MAX = 64 * 1024 * 1024
LACK_BYTES = 512
"""Of memory, to remember that something is not there."""


def patient(respond: Respond, store: PatientReads) -> Read:
    """The same request, and what it may wait for."""

    def read(connection: Any, command: Command, now_ms: int, first: bool, wait: Wait) -> Answer | None:
        with store.waiting(wait):
            return respond(connection, command, now_ms)

    return read


@attrs.define(eq=False)
class _Cold:
    """A request that waits.

    :ivar held: it has waited for a message before, and does so no more.
    """

    connection: Any
    command: Command
    held: HeldPull | None
    bytes: int
    tries: Tries = attrs.Factory(Tries)


class ColdReads:
    """Those of one broker that share a thread.

    :param reads: by request code.
    :param request: goes on with a request that has what it lacked.
    :param refusal: why a pull that waited gets nothing now; None: it is answered.
    """

    def __init__(
        self,
        reads: Mapping[int, Read],
        fetches: Fetches,
        request: Callable[[Any, Command], Answer | None],
        refusal: Callable[[], Answer | None],
    ) -> None:
        self._reads = reads
        self.fetches = fetches
        self._request = request
        self._refusal = refusal
        self._rows: dict[int, deque[_Cold]] = {}  # by connection; the first one is at the disk, or about to run
        self._running: _Cold | None = None
        self._budget = FairBudget(WAITING_MAX, WAITING_BYTES_MAX)
        self._log = make_logger()

    @property
    def count(self) -> int:
        """How many wait."""
        return self._budget.count

    def ask(self, connection: Any, command: Command, now_ms: int) -> Answer | None:
        """A client's request; None: it is answered later, or was."""
        return self._try(connection, command, None, now_ms)

    def again(self, held: HeldPull, now_ms: int) -> None:
        """A pull that waited for a message is answered."""
        connection, command = held.connection, held.command
        if connection.closed:
            return
        try:
            answer = self._refusal() or self._try(connection, command, held, now_ms)
        except RequestRefused as refusal:
            answer = Answer(refusal.code, refusal.remark)
        if answer is not None:
            connection.answer(command, answer)

    def disconnected(self, connection_id: int) -> None:
        """A client is gone: nothing more is read for it."""
        for cold in self._rows.pop(connection_id, ()):
            self._budget.give_back(connection_id, cold.bytes)

    def _try(self, connection: Any, command: Command, held: HeldPull | None, now_ms: int) -> Answer | None:
        running = self._running if self._running is not None and self._running.command is command else None
        if running is not None:
            wait = running.tries.wait
        else:  # who is gone has no row any more, and may have asked for no answer: what was told is carried out
            wait = Wait.ANYTHING if connection.closed else Wait.NOTHING
        try:
            return self._reads[command.code](connection, command, now_ms, held is None, wait)
        except NotInMemory as lacks:
            parts = lacks.parts
        if running is not None:
            running.tries.lacked(parts)
            return None
        cold = _Cold(connection, command, held, held_bytes(command) + LACK_BYTES * len(parts))
        if not self._budget.take(connection.id, cold.bytes):
            return BUSY
        cold.tries.lacked(parts)
        row = self._rows.setdefault(connection.id, deque())
        row.append(cold)
        if len(row) == 1:
            self._fetch(row)
        return None

    def _fetch(self, row: deque[_Cold]) -> None:
        connection = row[0].connection
        self.fetches.begin(
            row[0].tries,
            lambda now_ms: self._run(row, now_ms),
            lambda: self._rows.get(connection.id) is row and not connection.closed,
            lambda: bool(connection.has_room(UNSENT_MAX)),
        )

    def _run(self, row: deque[_Cold], now_ms: int) -> None:
        """The first one of a row has what it lacked."""
        cold = row[0]
        connection, lacked = cold.connection, cold.tries.parts
        answer: Answer | None = None
        self._running = cold
        try:
            if cold.held is not None:
                self.again(cold.held, now_ms)
            else:
                answer = self._request(connection, cold.command)
        except RequestRefused as refusal:
            answer = Answer(refusal.code, refusal.remark)
        except Exception as problem:
            self._log.failure("a request failed: {log_failure.value}")
            answer = Answer(ResponseCode.SYSTEM_ERROR, f"{type(problem).__name__}: {problem}"[:1000])
        finally:
            self._running = None
        if self._rows.get(connection.id) is not row:  # it ended with its answer
            return
        if cold.tries.parts is lacked:  # it lacks nothing more
            row.popleft()
            self._budget.give_back(connection.id, cold.bytes)
            if answer is not None:
                connection.answer(cold.command, answer)
        if self._rows.get(connection.id) is not row:
            return
        if row:  # before the turn ends, in which another request of this connection may join
            self._fetch(row)
        else:
            del self._rows[connection.id]
