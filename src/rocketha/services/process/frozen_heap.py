"""What was there when the process began is not looked at again by the garbage collector.

Modules, classes and functions are most of what a full collection walks through, and none of it ever becomes garbage: a
leading controller under load spent 7 % of its time there, up to 28 ms at once (``benchmarks/README.rst``).

Only the taps use it: a process that is not a server's has reasons of its own to collect.
"""

from __future__ import annotations

import gc

from twisted.application import service


class FrozenHeap(service.Service):
    """Collects once, then takes what is left out of every later collection (``gc.freeze``)."""

    def __init__(self) -> None:
        self.setName("frozen heap")

    def privilegedStartService(self) -> None:
        """Twisted: before any port is opened."""
        super().privilegedStartService()
        gc.collect()
        gc.freeze()
