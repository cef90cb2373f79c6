"""Reading as a capability of a broker: pulls that wait for a message, and reads that wait for the disk.

Java: ``PullRequestHoldService``; a pool of threads for each kind of read.
"""

from __future__ import annotations

from typing import Any, Protocol

from rocketha.broker.delayed_delivery import DelayedDelivery
from rocketha.broker.request import Responder
from rocketha.broker.role import Role
from rocketha.observe.metrics import Registry
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.waiting.cold_reads import ColdReads
from rocketha.services.waiting.fetches import Fetches
from rocketha.services.waiting.wakeups import Wakeups
from rocketha.wire.remoting import Answer, Command


class Serving(Protocol):
    """Who answers requests in the broker's present role."""

    @property
    def undecided(self) -> bool:
        """Whether it will be known soon if anything may be shown."""

    def go_on(self, connection: Any, command: Command) -> Answer | None:
        """Answer a read that was begun, and has waited for the disk since."""

    def read_refusal(self) -> Answer | None:
        """Why a pull that waited gets nothing now; None: it is answered."""


class Reading(BrokerFeature):
    """Of one broker; it has deadlines (:class:`rocketha.services.core.turns.Deadlines`).

    :param fetches: of what consumers need to go on, and of what people and tools ask.
    :param delivery: of delayed messages, which reads as consumers do.
    """

    def __init__(
        self, core: BrokerCore, fetches: tuple[Fetches, Fetches], delivery: DelayedDelivery, serving: Serving
    ) -> None:
        parts = core.parts
        self._core = core
        self._serving = serving
        self._now_ms = core.platform.now_ms
        self.held = parts.held
        self.pulls = ColdReads(parts.consumers_reads, fetches[0], serving.go_on, serving.read_refusal)
        self.look_ups = ColdReads(parts.look_ups, fetches[1], serving.go_on, serving.read_refusal)
        self.wakeups = Wakeups(parts.held, delivery, self.pulls.again)
        self.requests: dict[int, Responder] = {
            **dict.fromkeys(map(int, parts.consumers_reads), self.pulls.ask),
            **dict.fromkeys(map(int, parts.look_ups), self.look_ups.ask),
        }
        core.effects.watch_topics(lambda topics: self.wakeups.topics_changed(topics, self._now_ms()))

    def install(self, metrics: Registry) -> None:
        held, pulls, look_ups = self.held, self.pulls, self.look_ups
        metrics.ask("rocketha_pulls_held", "Pulls that wait for a message.", lambda: held.count)
        metrics.ask("rocketha_pulls_at_disk", "Consumers' requests that wait for the disk.", lambda: pulls.count)
        metrics.ask("rocketha_queries_at_disk", "Look-ups that wait for the disk.", lambda: look_ups.count)

    def role_changed(self, role: Role) -> None:
        """Who is no master shows nothing more: what waits is answered."""
        if role is not Role.MASTER:
            now_ms = self._now_ms()
            self._core.turns.run(lambda: self.wakeups.role_lost(now_ms))

    def disconnected(self, connection: Any) -> None:
        for waiting in (self.held, self.pulls, self.look_ups):
            waiting.disconnected(connection.id)

    # --- deadlines

    def next_due_ms(self) -> int | None:
        return self.wakeups.next_due_ms()

    def due(self, now_ms: int) -> None:
        # What was delivered and waits to be stored would be delivered once more.
        if not (self._core.busy() or self._serving.undecided or self._core.parts.sends.staged):
            self.wakeups.due(now_ms)
