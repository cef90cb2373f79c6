"""A group of Java brokers becomes one of ours, and the other way round: one broker at a time, under load.

Each stops cleanly, and the other implementation starts on its store, its ports and its property file. ``make test``
goes from Java to ours under our controllers; with ROCKETHA_INTEROP_FULL=1 also back, and under Java's controllers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .harness.faults import Faults
from .harness.pairs import await_equal, roots_of
from .harness.replica_files import compare_epochs, compare_whole_logs
from .harness.switching import FULL, SwitchingCase


class Replacement(SwitchingCase):
    """Three replicas."""

    controllers = 1
    kinds = ("java", "java", "java")

    def exchange(self, wanted: str) -> None:
        """Slaves first, the master last; nothing acknowledged is lost, and all logs are the same bytes."""

        def one(change: Callable[[Faults, str], Any]) -> Callable[[Faults], None]:
            def exchanged(acting: Faults) -> None:
                type(self)._shared.append(change(acting, wanted))

            exchanged.__name__ = change.__name__
            return exchanged

        changes = [Faults.exchange_slave] * (self.replicas - 1) + [Faults.exchange_master]
        storm = self.storm([one(change) for change in changes])
        self.say(storm.text())
        self.assertNoneLost(storm)
        self.assertEqual([broker.implementation for broker in self.group.brokers], [wanted] * self.replicas)
        self.assertEqual(len(storm.switches), 1, storm.text())
        await_equal(self.group.brokers)
        compare_whole_logs(roots_of(self.group.brokers))
        compare_epochs(roots_of(self.group.brokers))

    def test_one_broker_at_a_time(self) -> None:
        for wanted in ("ours", "java") if FULL else ("ours",):
            self.exchange(wanted)


for side in ("ours", "java") if FULL else ("ours",):
    name = f"Replacement_under_{side}"
    members = {"kind": side, "__module__": __name__, "__doc__": Replacement.__doc__}
    globals()[name] = type(name, (Replacement,), members)
del Replacement
