"""What reads lack is fetched by a thread, and they go on when it is in memory: nobody else waits for the disk.

Must not know what is read, and for whom.  Theory of operation: see :mod:`rocketha.store.in_memory`.  Whoever lacked
something goes on in a turn of its own, when somebody may look at the store; if it lacks more then, it comes here again.

Java: a pool of threads reads from mapped files, and a thread each level delivers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.observe.logging import make_logger
from rocketha.services.waiting.blocking import BlockingWork, exception_of
from rocketha.store.disk import Disk
from rocketha.store.in_memory import Lack, Tries, Wanted, fetch

GoOn = Callable[[int], None]
"""Told the time in ms, as one turn."""
AGAIN_S = 0.02
"""Between two looks at whether it may go on."""
TURN_PARTS = 256
"""Read for one before the next one has its turn: a request over many queues may lack thousands."""


class Fetches:
    """By one thread.

    :param work: the thread.
    :param clock: the reactor.
    :param now_ms: the steady clock.
    :param busy: nobody may look at the store.
    """

    def __init__(
        self,
        disk: Disk,
        work: BlockingWork,
        clock: Any,
        now_ms: Callable[[], int],
        as_turn: Callable[[Callable[[], None]], None],
        busy: Callable[[], bool],
    ) -> None:
        self._disk = disk
        self._work = work
        self._clock = clock
        self._now_ms = now_ms
        self._as_turn = as_turn
        self._busy = busy
        self._log = make_logger()

    def begin(self, tries: Tries, go_on: GoOn, wanted: Wanted, ready: Callable[[], bool] = lambda: True) -> None:
        """Fetch what was lacked.

        :param go_on: called then, whether or not it could be read: ``tries`` says what could not.
        :param wanted: nothing more is read, and nobody goes on, once it says no.
        :param ready: it may go on yet.
        """

        def fetched(failed: dict[Lack, Exception]) -> None:
            tries.fetched(failed)
            self._go_on(go_on, wanted, ready)

        def failed(failure: Failure) -> None:
            self._log.failure("what was fetched could not be gone on with: {log_failure.value}", failure=failure)

        self._fetch(tries.parts, wanted).addCallback(fetched).addErrback(failed)

    @defer.inlineCallbacks
    def _fetch(self, parts: Sequence[Lack], wanted: Wanted) -> Any:
        """In turns with others; which could not be read, and why."""
        failed: dict[Lack, Exception] = {}
        for first in range(0, len(parts), TURN_PARTS):
            turn = parts[first : first + TURN_PARTS]
            failed |= yield self._work.run(functools.partial(self._read, turn, wanted)).addErrback(self._not_read, turn)
            if not wanted():
                break
        return failed

    def _read(self, parts: Sequence[Lack], wanted: Wanted) -> dict[Lack, Exception]:
        """In the thread."""
        return fetch(self._disk, parts, wanted)

    def _not_read(self, failure: Failure, parts: Sequence[Lack]) -> dict[Lack, Exception]:
        """For nothing that a disk does."""
        self._log.failure("what is not in memory was not fetched: {log_failure.value}", failure=failure)
        error = exception_of(failure)
        assert error is not None
        return dict.fromkeys(parts, error)

    def _go_on(self, go_on: GoOn, wanted: Wanted, ready: Callable[[], bool]) -> None:
        if not wanted():
            return
        if self._busy() or not ready():
            self._clock.callLater(AGAIN_S, self._go_on, go_on, wanted, ready)
        else:
            self._as_turn(lambda: go_on(self._now_ms()))
