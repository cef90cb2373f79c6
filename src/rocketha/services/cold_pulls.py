"""Pulls of messages that are not in memory: a thread fetches them, and nobody else waits for the disk.

Theory of operation.  A pull is answered at once if what it needs is in the page cache.  If not it waits, a worker reads
those bytes and throws them away (:mod:`rocketha.store.in_memory`), and the pull runs again from the beginning, as the
log, the role and the connection are by then; first its queue entries may be missing, then its messages.  What is gone
from memory after :data:`TRIES_MAX` times is read where it is needed.

The pulls of one connection that wait do so in a row, one at the disk at a time: their answers leave in the order in
which they came, no consumer takes the disk from others, and one that does not take its answers has none made.  A pull
that finds its messages in memory overtakes them, as it overtakes one that waits for a message to come.

Java: a pool of threads reads from mapped files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from twisted.python.failure import Failure

from rocketha.broker.fair_budget import FairBudget, held_bytes
from rocketha.broker.hold import HeldPull
from rocketha.broker.pull import Pulls
from rocketha.broker.role import BUSY
from rocketha.errors import RequestRefused
from rocketha.observe.logging import make_logger
from rocketha.services.blocking import BlockingWork
from rocketha.services.broker_wakeups import UNSENT_AGAIN_MS, UNSENT_MAX
from rocketha.store.disk import Disk
from rocketha.store.in_memory import NotInMemory, Part, Wait, fetch
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command

TRIES_MAX = 3
WAITING_MAX = 20_000
WAITING_BYTES_MAX = 64 * 1024 * 1024


@attrs.define(eq=False)
class _Cold:
    """A pull that waits.

    :ivar held: it has waited for a message before, and does so no more.
    """

    connection: Any
    command: Command
    held: HeldPull | None
    bytes: int
    parts: Sequence[Part]
    tries: int = 1


class ColdPulls:
    """Those of one broker.

    :param work: reads.
    :param clock: the reactor.
    :param now_ms: since 1970.
    :param request: answers a request as if it came now.
    :param refusal: why a pull that waited gets nothing now; None: it is answered.
    :param busy: nobody may look at the store.
    """

    def __init__(
        self, pulls: Pulls, disk: Disk, work: BlockingWork, clock: Any, now_ms: Callable[[], int],
        request: Callable[[Any, Command], Answer | None], refusal: Callable[[], Answer | None],
        as_turn: Callable[[Callable[[], None]], None], busy: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._pulls = pulls
        self._disk = disk
        self._work = work
        self._clock = clock
        self._now_ms = now_ms
        self._request = request
        self._refusal = refusal
        self._as_turn = as_turn
        self._busy = busy
        self._rows: dict[int, deque[_Cold]] = {}  # by connection; the first one is at the disk, or about to run
        self._running: _Cold | None = None
        self._budget = FairBudget(WAITING_MAX, WAITING_BYTES_MAX)
        self._log = make_logger()

    @property
    def count(self) -> int:
        """How many wait."""
        return self._budget.count

    def pull(self, connection: Any, command: Command, now_ms: int) -> Answer | None:
        """See :meth:`Pulls.pull`: of a client."""
        return self._try(connection, command, None, now_ms)

    def again(self, held: HeldPull, now_ms: int) -> None:
        """One that waited for a message is answered."""
        connection, command = held.connection, held.command
        if connection.closed:
            return
        try:
            answer = self._refusal() or self._try(connection, command, held, now_ms)
        except RequestRefused as refusal:
            answer = Answer(refusal.code, refusal.remark)
        if answer is not None:
            connection.answer(command.opaque, answer)

    def disconnected(self, connection_id: int) -> None:
        """A client is gone: nothing more is read for it."""
        for cold in self._rows.pop(connection_id, ()):
            self._budget.give_back(connection_id, cold.bytes)
            cold.parts = ()

    def _try(self, connection: Any, command: Command, held: HeldPull | None, now_ms: int) -> Answer | None:
        running = self._running if self._running is not None and self._running.command is command else None
        wait = Wait.NOTHING
        if running is not None:
            wait = Wait.OPEN if running.tries < TRIES_MAX else Wait.ANYTHING
        try:
            return self._pulls.pull(connection, command, now_ms, held is None, wait)
        except NotInMemory as lacks:
            parts = lacks.parts
        if running is not None:
            running.parts = parts
            running.tries += 1
            return None
        cold = _Cold(connection, command, held, held_bytes(command), parts)
        if not self._budget.take(connection.id, cold.bytes):
            return BUSY
        row = self._rows.setdefault(connection.id, deque())
        row.append(cold)
        if len(row) == 1:
            self._fetch(row)
        return None

    def _fetch(self, row: deque[_Cold]) -> None:
        cold = row[0]
        self._work.run(lambda: fetch(self._disk, cold.parts)).addBoth(self._fetched, row)

    def _fetched(self, result: Any, row: deque[_Cold]) -> None:
        if isinstance(result, Failure):  # none that a disk makes
            self._log.failure("messages were not fetched: {log_failure.value}", failure=result)
        self._go_on(row)

    def _go_on(self, row: deque[_Cold]) -> None:
        """The first one of a row has what it lacked."""
        connection = row[0].connection
        if self._rows.get(connection.id) is not row:
            return
        if self._busy() or connection.unsent > UNSENT_MAX:
            self._clock.callLater(UNSENT_AGAIN_MS / 1000, self._go_on, row)
            return
        self._as_turn(lambda: self._run(row))

    def _run(self, row: deque[_Cold]) -> None:
        cold = row[0]
        tries, self._running = cold.tries, cold
        answer: Answer | None = None
        try:
            if cold.held is not None:
                self.again(cold.held, self._now_ms())
            else:
                answer = self._request(cold.connection, cold.command)
        except RequestRefused as refusal:
            answer = Answer(refusal.code, refusal.remark)
        except Exception:
            self._log.failure("a pull failed: {log_failure.value}")
            answer = Answer(ResponseCode.SYSTEM_ERROR, "the request failed")
        finally:
            self._running = None
        if self._rows.get(cold.connection.id) is not row:  # it ended with its answer
            return
        if cold.tries == tries:
            row.popleft()
            self._budget.give_back(cold.connection.id, cold.bytes)
        if answer is not None:
            cold.connection.answer(cold.command.opaque, answer)
        if self._rows.get(cold.connection.id) is not row:
            return
        if row:  # before the turn ends, in which another pull of this connection may join
            self._fetch(row)
        else:
            del self._rows[cold.connection.id]
