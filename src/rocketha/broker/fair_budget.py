"""Memory that clients share, so that one of them cannot take what the others need.

Pure.  Theory of operation: nobody gets more than is left free.  One that asks for all gets half, each of ``n`` such
ones gets one part of ``n + 1``, and there is always a part for the next.  No number of clients has to be known.

Source: Choudhury, Hahne: Dynamic queue length thresholds for shared-memory packet switches (1998), factor 1.
"""

from __future__ import annotations

from sys import getsizeof

from rocketha.wire.remoting import Command

OVERHEAD_BYTES = 1024
"""Of one request that waits, beside its fields and its body: what refers to it, a timer."""


def held_bytes(command: Command) -> int:
    """Bytes of memory that a request takes while it waits.

    By what its fields are in memory: a header of many short ones takes many times its own length.
    """
    fields = command.fields
    texts = sum(getsizeof(name) + getsizeof(value) for name, value in fields.items())
    return OVERHEAD_BYTES + getsizeof(fields) + texts + getsizeof(command.remark) + len(command.body)


class FairBudget:
    """Places and bytes.

    :ivar count_max: places.
    :ivar bytes_max: bytes.
    :ivar count: places taken.
    :ivar bytes: bytes taken.
    """

    def __init__(self, count_max: int, bytes_max: int) -> None:
        self.count_max = count_max
        self.bytes_max = bytes_max
        self.count = self.bytes = 0
        self._shares: dict[int, tuple[int, int]] = {}  # invariant: their sums are count and bytes, none has no place

    def take(self, owner: int, size: int) -> bool:
        """One place and ``size`` bytes for ``owner``; False: it has as much as is left for the others."""
        count, taken = self._shares.get(owner, (0, 0))
        if count >= self.count_max - self.count or taken + size > self.bytes_max - self.bytes:
            return False
        self._shares[owner] = count + 1, taken + size
        self.count += 1
        self.bytes += size
        return True

    def give_back(self, owner: int, size: int) -> None:
        """What one :meth:`take` took."""
        count, taken = self._shares.pop(owner)
        if count > 1:
            self._shares[owner] = count - 1, taken - size
        self.count -= 1
        self.bytes -= size
