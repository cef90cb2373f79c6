"""What all features of a running broker share: its parts, its threads, who carries out what they want."""

from __future__ import annotations

import attrs

from rocketha.broker.state import BrokerState
from rocketha.observe.metrics import Registry
from rocketha.observe.refusals import Refusals
from rocketha.protocols.remoting import RemotingFactory
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.core.effects import BrokerEffects
from rocketha.services.core.log_changes import LogChanges
from rocketha.services.core.parts import BrokerParts
from rocketha.services.core.turns import BrokerTurns
from rocketha.services.core.upkeep import BrokerUpkeep
from rocketha.services.process.platform import Platform
from rocketha.services.waiting.blocking import BlockingWork
from rocketha.services.waiting.flusher import Flusher
from rocketha.store.message_store import MessageStore


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


@attrs.frozen
class BrokerCore:
    """One broker's.

    :ivar exported: its metrics under Java's names; None: nobody asks for them.
    :ivar refusals: told of what its ports refuse.
    :ivar factories: of its ports for clients, in the order in which they were opened.
    """

    config: BrokerConfig
    platform: Platform
    works: Works
    metrics: Registry
    exported: Registry | None
    refusals: Refusals
    parts: BrokerParts
    turns: BrokerTurns
    flusher: Flusher
    effects: BrokerEffects
    upkeep: BrokerUpkeep
    changes: LogChanges
    factories: list[RemotingFactory]

    @property
    def state(self) -> BrokerState:
        """Its tables."""
        return self.parts.state

    @property
    def store(self) -> MessageStore:
        """Its messages."""
        return self.parts.store

    def busy(self) -> bool:
        """Whether the log is being changed, and the store must not be touched."""
        return self.changes.busy


def make_core(
    config: BrokerConfig,
    platform: Platform,
    works: Works,
    parts: BrokerParts,
    metrics: Registry,
    refusals: Refusals,
    exported: Registry | None = None,
) -> BrokerCore:
    """Put it together; nothing is opened."""
    turns, factories = BrokerTurns(), list[RemotingFactory]()
    turns.turn.afterwards.append(parts.waiting.latencies.settle)
    flusher = Flusher(parts.store, parts.waiting, works.log, turns.run, platform.seconds)
    effects = BrokerEffects(parts.state, factories, parts.files, flusher.on_disk)
    upkeep = BrokerUpkeep(config, parts, effects, works.upkeep)
    changes = LogChanges((flusher, upkeep.store), works.log)
    return BrokerCore(
        config, platform, works, metrics, exported, refusals, parts, turns, flusher, effects, upkeep, changes, factories
    )
