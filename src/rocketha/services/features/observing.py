"""Store observers: they are shown the confirmed part of the log, as it grows, beside the send path.

Theory of operation.  One reader follows the confirm offset, a block at a time; reading and decoding happen in a thread,
so that no producer waits, and an observer that is slow only makes the reader fall behind.  What the broker has expired
before it was read, and what is damaged, is passed over, and counted.  An observer that fails three times in a row is
shown nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
from twisted.internet import defer, task
from twisted.python.failure import Failure

from rocketha.errors import RockethaError
from rocketha.interfaces import Message
from rocketha.observe.logging import make_logger
from rocketha.services.core.core import BrokerCore
from rocketha.services.features.messages import message_of
from rocketha.store.raw_reader import RawReader
from rocketha.wire import record

BLOCK_BYTES = 256 * 1024
EVERY_S = 0.1
FAILURES_MAX = 3


@attrs.define
class _Observer:
    plugin: str
    observer: Any
    failures: int = 0
    seen: int = 0


class Observing:
    """Of one broker.

    :param observers: of each plug-in; they provide :class:`rocketha.interfaces.IStoreObserver`.
    :param end: the end of the log that they are shown.
    :param failed: told of one that fails: the failure, the plug-in, what failed.
    :ivar passed_over: bytes that expired before they were read, or cannot be read.
    """

    def __init__(
        self,
        observers: Iterable[tuple[str, Any]],
        core: BrokerCore,
        end: Callable[[], int],
        failed: Callable[[Failure, str, str], None],
    ) -> None:
        self._observers = [_Observer(plugin, each) for plugin, each in observers]
        self._store = core.store
        self._end = end
        self._failed = failed
        self._disk = core.platform.disk
        self._work = core.works.reads
        self._busy = core.busy
        self._offset = 0
        self._reading = False
        self.passed_over = 0
        self._loop = task.LoopingCall(self._look)
        self._loop.clock = core.platform.reactor
        self._idle: defer.Deferred[None] = defer.succeed(None)
        self._log = make_logger()

    def start(self) -> None:
        """Begin with the first message after this moment."""
        if self._observers:
            self._offset = self._end()
            self._loop.start(EVERY_S, now=False)

    def stop(self) -> defer.Deferred[None]:
        """Fires when nothing is read any more."""
        if self._loop.running:
            self._loop.stop()
        self._observers.clear()
        idle: defer.Deferred[None] = defer.Deferred()
        self._idle.addBoth(lambda _: idle.callback(None))
        return idle

    def series(self) -> list[tuple[tuple[str, ...], int]]:
        """For the metric: messages shown to each observer."""
        return [((each.observer.name,), each.seen) for each in self._observers]

    def _look(self) -> None:
        store = self._store
        if self._reading or self._busy():
            return
        begin, end = store.min_physical_offset, self._end()
        if self._offset < begin:
            self.passed_over += begin - self._offset
            self._offset = begin
        if self._offset >= end:
            return
        self._reading = True
        offset = self._offset
        self._idle = self._work.run(lambda: self._read(offset, end)).addCallbacks(self._show, self._not_read)

    def _read(self, offset: int, end: int) -> tuple[list[Message], int, int]:
        """In the thread: some messages, where the next ones are, and the bytes of damaged ones between them."""
        log = self._store.log
        raw = RawReader(log, self._disk)
        try:
            size = min(log.readable(offset), end - offset, BLOCK_BYTES)
            block = raw.read(offset, size)
            total = int.from_bytes(block[:4], "big")
            if total > size:  # one message larger than a block, or a blank up to the end of the file
                size = min(log.readable(offset), end - offset)
                block = raw.read(offset, min(size, total))
            return _decoded(block, offset)
        finally:
            raw.close()

    def _show(self, read: tuple[list[Message], int, int]) -> None:
        self._reading = False
        messages, self._offset, damaged = read
        if damaged:
            self.passed_over += damaged
            self._log.error("{count} bytes of damaged messages were not shown to observers", count=damaged)
        for each in tuple(self._observers) if messages else ():
            try:
                each.observer.confirmed(tuple(messages))
                each.failures = 0
                each.seen += len(messages)
            except Exception:
                each.failures += 1
                self._failed(Failure(), each.plugin, f"observer {each.observer.name}")
                if each.failures >= FAILURES_MAX:
                    self._observers.remove(each)
                    self._log.error(
                        "observer {name} failed {count} times in a row: it is shown nothing more",
                        name=each.observer.name,
                        count=FAILURES_MAX,
                    )
        if self._observers and messages:
            self._look()

    def _not_read(self, failure: Any) -> None:
        self._reading = False
        if not failure.check(RockethaError):
            self._log.failure("the log was not read for observers: {log_failure.value}", failure=failure)
        # expired or cut meanwhile: the next look begins where the log does


def _decoded(block: bytes, offset: int) -> tuple[list[Message], int, int]:
    """The whole records at the beginning of a block of the log, the log offset behind them, and how many bytes of these
    are damaged."""
    messages: list[Message] = []
    end = damaged = 0
    for at, total, found in record.walk(block, check_crc=True):
        end = at + total
        if found is None:
            damaged += total
        elif isinstance(found, record.Record):
            messages.append(message_of(found))
    return messages, offset + end, damaged
