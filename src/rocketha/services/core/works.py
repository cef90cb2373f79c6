"""The threads of a broker."""

from __future__ import annotations

import attrs

from rocketha.services.process.platform import Platform
from rocketha.services.waiting.blocking import BlockingWork


@attrs.frozen
class Works:
    """One for each kind of blocking work, so that none waits for another: upkeep is long, and a query may be.

    :ivar log: syncs, and changes of the log.
    :ivar files: tables and other small files.
    :ivar upkeep: the store's own jobs.
    :ivar reads: of the log, for replicas that are far behind and for observers.
    :ivar pulls: what consumers ask for and is not in memory.
    :ivar queries: what people and tools ask for likewise.
    """

    log: BlockingWork
    files: BlockingWork
    upkeep: BlockingWork
    reads: BlockingWork
    pulls: BlockingWork
    queries: BlockingWork

    @classmethod
    def start(cls, platform: Platform) -> Works:
        """All of them, running."""
        works = [platform.work(platform.reactor, f"rocketha-{field.name}") for field in attrs.fields(cls)]
        for work in works:
            work.start()
        return cls(*works)

    def stop(self) -> None:
        """Blocks until each has finished what it was given."""
        for field in attrs.fields(type(self)):
            getattr(self, field.name).stop()
