"""``MQVersion``: what the numbers of versions in frames stand for.

Pure.  From 4.0.0 on each version has two, that of its snapshots and its own; the numbers before are irregular.
"""

from __future__ import annotations

FIRST_REGULAR, LAST_REGULAR = 212, 611
"""V4_0_0_SNAPSHOT and V5_9_9."""


def version_name(ordinal: int) -> str:
    """Java's name of a version, such as V5_5_0; V3 for all before 4.0.0."""
    if ordinal < FIRST_REGULAR:
        return "V3"
    if ordinal > LAST_REGULAR:
        return "HIGHER_VERSION"
    number, released = divmod(ordinal - FIRST_REGULAR, 2)
    name = f"V{4 + number // 100}_{number // 10 % 10}_{number % 10}"
    return name if released else f"{name}_SNAPSHOT"
