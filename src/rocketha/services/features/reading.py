"""Reading as a capability of a broker: pulls that wait for a message, and reads that wait for the disk.

Java: ``PullRequestHoldService``; a pool of threads for each kind of read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketha.broker.hold import HeldPulls
from rocketha.broker.role import Role
from rocketha.observe.metrics import Registry
from rocketha.services.features.feature import BrokerFeature
from rocketha.services.waiting.cold_reads import ColdReads
from rocketha.services.waiting.wakeups import Wakeups


class Reading(BrokerFeature):
    """Of one broker.

    :param pulls: what consumers need to go on.
    :param look_ups: what people and tools ask.
    """

    def __init__(
        self, held: HeldPulls, wakeups: Wakeups, pulls: ColdReads, look_ups: ColdReads,
        as_turn: Callable[[Callable[[], None]], None], now_ms: Callable[[], int],
    ) -> None:  # fmt: skip
        self._held = held
        self._wakeups = wakeups
        self._pulls = pulls
        self._look_ups = look_ups
        self._as_turn = as_turn
        self._now_ms = now_ms

    def install(self, metrics: Registry) -> None:
        held, pulls, look_ups = self._held, self._pulls, self._look_ups
        metrics.ask("rocketha_pulls_held", "Pulls that wait for a message.", lambda: held.count)
        metrics.ask("rocketha_pulls_at_disk", "Consumers' requests that wait for the disk.", lambda: pulls.count)
        metrics.ask("rocketha_queries_at_disk", "Look-ups that wait for the disk.", lambda: look_ups.count)

    def role_changed(self, role: Role) -> None:
        """Who is no master shows nothing more: what waits is answered."""
        if role is not Role.MASTER:
            now_ms = self._now_ms()
            self._as_turn(lambda: self._wakeups.role_lost(now_ms))

    def disconnected(self, connection: Any) -> None:
        for waiting in (self._held, self._pulls, self._look_ups):
            waiting.disconnected(connection.id)
