"""How slow the processor is just now, for tests that bound what something costs in seconds of it.

Such a bound is set for the machine on which it was written; another one is given the same room by multiplying it.
"""

from __future__ import annotations

import gc
import json
import statistics
import time

USUAL_S = 0.014
"""Processor time of :func:`_work` on the machine on which the bounds were set, with nothing beside it."""

TIMES = 5


def slowness() -> float:
    """How many times slower than that machine this one is, at least 1: measured anew, about a tenth of a second."""
    collects = gc.isenabled()
    gc.disable()  # what other tests left in this process is no measure of the processor
    try:
        return max(1.0, statistics.median(_work() for _ in range(TIMES)) / USUAL_S)
    finally:
        if collects:
            gc.enable()


def _work() -> float:
    """Objects, strings, a dict and its text: what readers and tables cost.  Its processor time, seconds."""
    began = time.process_time()
    made = {str(number): (number, -number) for number in range(20_000)}
    ranks = {name: rank for rank, name in enumerate(sorted(made, reverse=True))}
    read = json.loads(json.dumps({name: ranks[name] + sum(pair) for name, pair in made.items()}))
    assert read == ranks
    return time.process_time() - began
