"""Delayed messages as a capability of a broker: a master delivers them, nobody else does.

Java: ``ScheduleMessageService``.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketha.broker import names
from rocketha.broker.delay_levels import DelayLevels
from rocketha.broker.delayed_delivery import DelayedDelivery
from rocketha.broker.role import Role
from rocketha.broker.state import MessageStore
from rocketha.observe.metrics import Registry
from rocketha.services.features.feature import BrokerFeature


class DelayedMessages(BrokerFeature):
    """Of one broker.

    :param levels: and how far each is delivered.
    """

    def __init__(
        self, delivery: DelayedDelivery, levels: DelayLevels, store: MessageStore, now_ms: Callable[[], int]
    ) -> None:
        self._delivery = delivery
        self._levels = levels
        self._store = store
        self._now_ms = now_ms

    def install(self, metrics: Registry) -> None:
        delivery = self._delivery
        text = "Delayed messages not deliverable."
        metrics.ask("rocketha_delayed_skipped_total", text, lambda: delivery.skipped, "counter")

    def role_changed(self, role: Role) -> None:
        if role is Role.MASTER:
            self._delivery.start(self._now_ms())
        else:
            self._delivery.stop()

    def runtime_facts(self) -> dict[str, str]:
        """Of each level, what is delivered, and what there is."""
        facts = {}
        for level in range(1, self._levels.highest + 1):
            high = self._store.max_offset(names.SCHEDULE_TOPIC, level - 1)
            if high:
                facts[f"scheduleMessageOffset_{level}"] = f"{self._levels.offsets.get(level, 0)},{high}"
        return facts
