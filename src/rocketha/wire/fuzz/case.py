"""What a case is: some bytes, where they come from, and the name by which they come again.

Pure.
"""

from __future__ import annotations

import attrs

VALID = "valid"
CUT = "cut"
MUTATED = "mutated"
HOSTILE = "hostile"

KINDS = (VALID, CUT, MUTATED, HOSTILE)
"""valid: built from the spec; cut: a piece of one; mutated: damaged without intent; hostile: wrong on purpose."""


@attrs.frozen
class Case:
    """One input for one reader.

    :ivar format: name of the registered format.
    :ivar seed: the run's seed.
    :ivar index: the case's number in the run; seed, index and the run's kinds make the same bytes again, anywhere.
    :ivar kind: one of :data:`KINDS`.
    :ivar note: what was done, for a person.
    :ivar data: the bytes.
    """

    format: str
    seed: int
    index: int
    kind: str
    note: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.format} case {self.index} of seed {self.seed} ({self.kind}: {self.note}, {len(self.data)} bytes)"
