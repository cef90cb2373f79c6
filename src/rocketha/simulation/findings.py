"""What a run found wrong, and the moment it did.

A violation is an invariant of faults-and-invariants by its number or name, the moment, and what was seen.  The first
one ends the run: what comes after it proves nothing more.
"""

from __future__ import annotations

import attrs

from rocketha.simulation.world import World


@attrs.frozen
class Violation:
    """An invariant that did not hold.

    :ivar rule: its name, such as ``one leader per term``.
    :ivar at_s: true time.
    """

    rule: str
    at_s: float
    what: str

    def __str__(self) -> str:
        return f"{self.at_s:.6f} VIOLATION of {self.rule}: {self.what}"


class Findings:
    """The violations of one run.

    :ivar counts: how often each thing worth counting happened: a run that checked nothing is no proof.
    """

    def __init__(self, world: World) -> None:
        self._scheduler, self._trace = world.scheduler, world.trace
        self.violations: list[Violation] = []
        self.counts: dict[str, int] = {}

    def violated(self, rule: str, what: str) -> None:
        """Note it, and end the run."""
        violation = Violation(rule, self.now, what)
        self.violations.append(violation)
        self._trace.note(self.now, "CHECK", str(violation))
        self._scheduler.stop()

    @property
    def now(self) -> float:
        """True time."""
        return self._scheduler.now

    def count(self, what: str, by: int = 1) -> None:
        """Something happened."""
        self.counts[what] = self.counts.get(what, 0) + by
