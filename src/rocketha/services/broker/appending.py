"""The end of a turn of a master: what it staged is appended as one write, answered, given to replicas and readers.

Also when the log is synced: by a clock, or as soon as somebody waits for it.
"""

from __future__ import annotations

from typing import Any

from rocketha.broker.role import NOT_AVAILABLE, Role
from rocketha.observe.logging import lasting
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.process.ticker import Ticker
from rocketha.services.replication.service import Replication
from rocketha.store.index import TOGETHER


class Appending(BrokerFeature):
    """Of one broker; it has deadlines (:class:`rocketha.services.core.turns.Deadlines`)."""

    def __init__(self, core: BrokerCore, replication: Replication) -> None:
        self._changes = core.changes
        self._flusher = core.flusher
        self._now_ms = core.platform.now_ms
        self._replication = replication
        self._sends, self._waiting, self._store = core.parts.sends, core.parts.waiting, core.store
        self._turn = core.turns.turn
        self._appended = 0  # bytes of the last turn, until pages are made for the next one
        every_s = core.config.store.flush_interval_commit_log / 1000
        self._syncs = Ticker(core.platform.reactor, lasting(self._flusher.kick, "a flush"), every_s)
        core.turns.at_end(self.turn_ended)
        self._turn.afterwards.append(self._settle)

    def turn_ended(self) -> None:
        if not self._sends.staged or self._changes.busy or self._replication.appends_wait:
            return
        refusal = self._replication.may_append(self._sends.staged)
        if refusal is not None:
            self._sends.refuse(refusal)
            return
        begin = self._store.log.end
        arrived = self._sends.commit(self._now_ms())
        end = self._store.log.end
        self._appended = end - begin
        self._waiting.appended(end)
        self._turn.say()  # senders need not wait until readers are woken
        if arrived:
            self._replication.stored(arrived)
        elif arrived is None:
            self._replication.not_stored("a write of messages failed")
        if self._waiting.sync_flush and (len(self._waiting) or self._replication.shows_confirmed):
            self._flusher.kick()  # also what no sender waits for, where consumers do

    def _settle(self) -> None:
        if self._changes.busy:
            return
        self._store.settle(TOGETHER)  # a few wait for others, or for the upkeep
        if self._appended and not self._waiting.sync_flush:  # a sync would write the zeros, too
            self._store.log.prefault(self._appended)  # the next turn is as large as this one, more or less
        self._appended = 0

    def start(self) -> None:
        self._syncs.start()

    def stop(self) -> None:
        self._syncs.stop()

    def closing(self) -> None:
        """The store is about to be closed in another thread, and turns go on."""
        self._turn.afterwards.remove(self._settle)

    def role_changed(self, role: Role) -> None:
        if role is not Role.MASTER:
            self._sends.refuse(NOT_AVAILABLE)

    def disconnected(self, connection: Any) -> None:
        self._sends.disconnected(connection.id)

    def second(self) -> None:
        self._waiting.expired(self._now_ms())

    # --- deadlines

    def next_due_ms(self) -> int | None:
        return self._waiting.next_deadline_ms()

    def due(self, now_ms: int) -> None:
        self._waiting.expired(now_ms)
