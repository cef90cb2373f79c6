"""The base of tests on real partitions: each process of a group in a network namespace of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .faults import Faults
from .network import OnNetwork
from .switching import Storm, SwitchingCase


class PartitionedCase(OnNetwork, SwitchingCase):
    """Controllers c0..c2, brokers b1..b3, namesrv and client, each on a host of its own."""

    def during(
        self,
        begin: Callable[[], None],
        *,
        hold_s: float,
        rate: float = 200,
        times: int = 1,
        client: Mapping[str, Any] | None = None,
    ) -> Storm:
        """Load, with something wrong for `hold_s`, then healed; so many times."""

        def partition(acting: Faults) -> None:
            begin()
            try:
                acting.stay(hold_s)
            finally:
                self.say(f"{self._testMethodName}: packets {self.network.heal()}")

        storm = self.storm([partition] * times, rate=rate, patience_s=90, client=client)
        self.say(storm.text() + f"; longest time without an acknowledgement {storm.longest_gap_ms} ms")
        return storm

    def leader_name(self) -> str:
        return self.group.controllers.await_leader().host.name

    def broker_name(self, master: bool) -> str:
        return (self.group.master() if master else self.group.slaves()[0]).host.name
