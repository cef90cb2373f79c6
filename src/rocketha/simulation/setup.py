"""One run's configuration, drawn from its seed: how many nodes, what network, which clocks, what goes wrong.

Printed whole when a run fails, so that a reader need not run anything to see what it was.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import attrs

from rocketha.simulation import faults
from rocketha.simulation.faults import Fault
from rocketha.simulation.link import Quality

SETTLE_S = 3.0
"""Nothing goes wrong before: most runs have something to lose first."""
RECOVER_S = 20.0
"""At the end of a run, without faults: in this time the cluster must be whole again.  A third of it in short runs."""
SLOW_SEGMENT_BYTES = 16 << 10
"""Of a log's file where disks are slow: making one holds up its process, and hundreds of them would for a whole run."""


@attrs.frozen
class Setup:
    """See the module.

    :ivar nodes: names of the group's members.
    :ivar clients: names of the other hosts.
    :ivar rates: each host's clock, local seconds a true second.
    :ivar errors_s: each host's clock, how wrong it is at first.
    :ivar operations_per_s: of all clients together.
    :ivar snapshot_entries: a node takes a snapshot after so many entries.
    :ivar segment_bytes: of one file of a node's log: so few that runs go on to another one often.
    :ivar lease_reads: whether nodes answer reads by leases; such a leader that dies is missed for an election time.
    """

    seed: int
    seconds: float
    nodes: tuple[str, ...]
    clients: tuple[str, ...]
    quality: Quality
    rates: tuple[float, ...]
    errors_s: tuple[float, ...]
    operations_per_s: float
    keys: int
    snapshot_entries: int
    tear_bytes: int
    segment_bytes: int
    lease_reads: bool
    faults: tuple[Fault, ...]

    @property
    def heal_s(self) -> float:
        """When everything is healed."""
        return max(SETTLE_S, self.seconds - RECOVER_S, self.seconds * 2 / 3)

    def lines(self) -> Iterator[str]:
        """As printed."""
        for field in attrs.fields(type(self)):
            if field.name != "faults":
                yield f"  {field.name}: {getattr(self, field.name)}"
        yield f"  faults: {len(self.faults)}, all healed at {self.heal_s:.1f} s"
        for fault in self.faults:
            yield f"    {fault}"


def expand(
    seed: int,
    seconds: float,
    kinds: Sequence[str] = faults.ALL_KINDS,
    sizes: Sequence[int] = (1, 3, 3, 3, 3, 5),
    clients: int = 0,
    only: Sequence[Fault] | None = None,
) -> Setup:
    """The configuration of a seed.

    :param sizes: of groups, to choose from.
    :param clients: how many hosts beside the group's.
    :param only: these faults instead of drawn ones.
    """
    chance = random.Random(f"{seed}/setup")
    nodes = tuple(f"n{number}" for number in range(chance.choice(list(sizes))))
    others = tuple(f"b{number}" for number in range(clients))
    hosts = len(nodes) + len(others)
    drifting = chance.random() < 0.5
    quality = Quality(
        delay_s=chance.choice((0.0002, 0.001, 0.02)),
        jitter_s=chance.choice((0.0002, 0.002, 0.02)),
        loss=chance.choice((0.0, 0.0, 0.001, 0.01)),
        split=chance.choice((0.0, 0.05, 0.5)),
        give_up_s=chance.choice((5.0, 15.0, 900.0)),
    )
    # Drawn apart: what was there before stays what it was for each seed.
    later = random.Random(f"{seed}/setup, continued")
    setup = Setup(
        seed=seed,
        seconds=seconds,
        nodes=nodes,
        clients=others,
        quality=quality,
        rates=tuple(round(1.0 + chance.uniform(-0.05, 0.05), 4) if drifting else 1.0 for _ in range(hosts)),
        errors_s=tuple(round(chance.uniform(-60, 60), 1) if drifting else 0.0 for _ in range(hosts)),
        operations_per_s=chance.choice((1.0, 4.0, 8.0)),
        keys=chance.choice((1, 2, 4)),
        snapshot_entries=chance.choice((5, 20, 100, 1000)),
        tear_bytes=chance.choice((1, 512)),
        segment_bytes=later.choice((512, 1024, 2048)),
        lease_reads=later.random() < 0.25,
        faults=(),
    )
    drawn = only
    if drawn is None:
        drawn = faults.draw(chance, nodes, others, SETTLE_S, setup.heal_s, kinds)
    slow = any(fault.kind in ("slow-disk", "stuck-disk") for fault in drawn)
    return attrs.evolve(setup, faults=tuple(drawn), segment_bytes=SLOW_SEGMENT_BYTES if slow else setup.segment_bytes)
