"""Delayed messages as a capability of a broker: a master delivers them, nobody else does.

Java: ``ScheduleMessageService``.
"""

from __future__ import annotations

from twisted.python.failure import Failure

from rocketha.broker import names
from rocketha.broker.delayed_delivery import DelayedDelivery
from rocketha.broker.role import Role
from rocketha.observe.logging import make_logger
from rocketha.observe.metrics import Registry
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.waiting.fetches import Fetches


class DelayedMessages(BrokerFeature):
    """Of one broker.

    :param fetches: of what is not in memory.
    """

    def __init__(self, core: BrokerCore, fetches: Fetches) -> None:
        self._levels = core.parts.delays
        self._store = core.state.store
        self._now_ms = core.platform.now_ms
        self._log = make_logger()
        self.delivery = DelayedDelivery(
            core.state, core.store, self._levels, core.parts.sends, fetches.begin, self._failed
        )

    def _failed(self) -> None:
        self._log.error("delayed messages: {trace}", trace=Failure().getTraceback())

    def install(self, metrics: Registry) -> None:
        delivery = self.delivery
        text = "Delayed messages not deliverable."
        metrics.ask("rocketha_delayed_skipped_total", text, lambda: delivery.skipped, "counter")

    def role_changed(self, role: Role) -> None:
        if role is Role.MASTER:
            self.delivery.start(self._now_ms())
        else:
            self.delivery.stop()

    def runtime_facts(self) -> dict[str, str]:
        """Of each level, what is delivered, and what there is."""
        facts = {}
        for level in range(1, self._levels.highest + 1):
            high = self._store.max_offset(names.SCHEDULE_TOPIC, level - 1)
            if high:
                facts[f"scheduleMessageOffset_{level}"] = f"{self._levels.offsets.get(level, 0)},{high}"
        return facts
