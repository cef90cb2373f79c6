"""Real partitions of our own group: three replicas and three controllers, each in a network namespace of its own.

One of each kind by ``make test``, twenty with ROCKETHA_INTEROP_FULL=1, on Java's processes too, which are measured
only. A consumer reads all the while: nothing that it was given may be gone later. Skipped where there is no root or no
namespace to be had. Source: issue 9 "Shows" 4; regressions A5.
"""

from __future__ import annotations

from collections.abc import Callable

from .harness.case import FULL
from .harness.partitioned import PartitionedCase
from .harness.switching import Storm

TIMES = 20 if FULL else 1
HOLD_S = 8.0
WHOLE_S = 3.0


class HaPartitions(PartitionedCase):
    """`kind` is that of the controllers, the nameserver is Java's."""

    kind = "ours"
    kinds = ("ours", "ours", "ours")

    def partitioned(self, begin: Callable[[], None], *, rate: float = 200) -> Storm:
        """Nothing acknowledged is lost, nothing delivered is gone, the set is full soon after it heals."""
        group = self._testMethodName
        self.load.consume(group)
        storm = self.during(begin, hold_s=HOLD_S, rate=rate, times=TIMES)
        delivered = self.load.stop_consumer(group)
        gone = sorted(set(delivered) - set(storm.present))
        slowest = max(seconds for _, seconds in storm.settled_s)
        self.say(f"{len(delivered)} delivered, {len(gone)} of them gone; set full {slowest:.2f} s after the heal")
        self.assertGreater(len(delivered), storm.verdict.acknowledged * 0.5, "the push consumer stood still")
        if self.kind == "ours":
            self.assertEqual(storm.verdict.lost, 0, storm.text())
            self.assertEqual(gone, [])
            self.assertEqual(storm.stuck, 0)
            self.assertLessEqual(slowest, WHOLE_S)
        return storm

    def test_master_cut_from_all_but_its_clients(self) -> None:
        """It may acknowledge and show nothing that the others do not have; another is elected."""

        def cut() -> None:
            master = self.broker_name(master=True)
            self.network.cut(master, [name for name in self.network.hosts if name not in (master, "client", "namesrv")])

        storm = self.partitioned(cut)
        self.assertGreaterEqual(len(storm.switches), TIMES)

    def test_controllers_deaf_to_the_master(self) -> None:
        """It hears them and its replicas; they hear nothing of it (A5: Java delivered what it then lost)."""

        def deafen() -> None:
            controllers = [node.host.name for node in self.group.controllers.nodes]
            self.network.deafen(self.broker_name(master=True), controllers)

        self.partitioned(deafen)

    def test_slave_cut_from_the_master(self) -> None:
        """Its place in the set is given up, and it comes back; nobody else is elected."""
        storm = self.partitioned(
            lambda: self.network.cut(self.broker_name(master=True), self.broker_name(master=False))
        )
        if self.kind == "ours":
            self.assertEqual(storm.switches, [])

    def test_lead_controller_cut_from_the_others(self) -> None:
        """The other two elect one of them, and the brokers stay as they are."""

        def cut() -> None:
            lead = self.leader_name()
            self.network.cut(lead, [n.host.name for n in self.group.controllers.nodes if n.host.name != lead])

        storm = self.partitioned(cut)
        if self.kind == "ours":
            self.assertEqual(storm.switches, [])

    def test_loss_and_delay_on_every_link(self) -> None:
        """3 % of all packets lost and all of them 30 ms late."""
        storm = self.partitioned(lambda: self.network.weather(loss=0.03, delay_ms=30), rate=100)
        if self.kind == "ours":
            self.assertEqual(storm.switches, [])


class HaPartitionsJava(HaPartitions):
    """Java's, to be measured beside."""

    kind = "java"
    kinds = ("java", "java", "java")


if not FULL:
    del HaPartitionsJava
