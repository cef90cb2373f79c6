"""Blocks of the log for slaves: from memory at once, from the disk in a thread.

Theory of operation.  Most blocks were written a moment ago, or read ahead, and are in the page cache: those are read in
the reactor's thread, into one buffer that all links share, because each is sent before the next one is read.  What is
not there is read by a worker, so that a slow disk, or one that stands still, holds up the slaves that need it and
nobody else: who keeps up is served without the worker (:meth:`rocketha.store.raw_reader.RawReader.read_cached`).  A
link asks for one block at a time, so as many reads wait as there are links; those of links that have ended since are
not made.

A log that is cut while such a read is out is no danger to anybody: who cuts it ended its links first, and what the read
brings is thrown away.
"""

from __future__ import annotations

import contextlib
from typing import Any

from twisted.internet.defer import Deferred

from rocketha.errors import DiskFailure
from rocketha.replication.link import BATCH_BYTES
from rocketha.services.waiting.blocking import BlockingWork
from rocketha.store.raw_reader import RawReader


class LogReads:
    """Of one broker.

    :param work: for what the disk has to be waited for.
    """

    def __init__(self, work: BlockingWork) -> None:
        self.work = work
        self._buffer = memoryview(bytearray(BATCH_BYTES))

    def view(self, size: int) -> memoryview:
        """So many bytes of the shared buffer; what was read before is gone."""
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size))
        return self._buffer[:size]


class LinkReader:
    """One link's; a :class:`rocketha.protocols.ha_master.BlockReader`."""

    def __init__(self, raw: RawReader, reads: LogReads) -> None:
        self._raw = raw
        self._reads = reads
        self._out = False
        self._closed = False

    def read(self, offset: int, size: int) -> memoryview | Deferred[bytes]:
        view = self._reads.view(size)
        if self._raw.read_cached(offset, view):
            return view
        self._out = True
        return self._reads.work.run(lambda: self._wait_for(offset, size)).addBoth(self._over)

    def _wait_for(self, offset: int, size: int) -> bytes:
        """In the thread."""
        return b"" if self._closed else self._raw.read(offset, size)

    def _over(self, result: Any) -> Any:
        self._out = False
        if self._closed:
            with contextlib.suppress(DiskFailure):  # nobody is left to be told
                self._raw.close()
        return result

    def close(self) -> None:
        self._closed = True
        if not self._out:
            self._raw.close()
