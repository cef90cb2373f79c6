"""The operations of simulated clients, with the moments they began and ended.

Pure.  An operation is recorded when it is invoked and settled when its answer came; what never is stays open, and a
checker takes it as one that may have happened at any later time, or not at all.
"""

from __future__ import annotations

from typing import Any

from rocketha.simulation.linearizability import FOREVER, UNKNOWN, Operation


class History:
    """Operations by key; each key is one object to the checker."""

    def __init__(self) -> None:
        self._operations: dict[Any, list[Operation]] = {}

    def invoke(self, key: Any, now: float, client: str, what: Any) -> tuple[Any, int]:
        """An operation begins; the token for :meth:`settle`."""
        operations = self._operations.setdefault(key, [])
        operations.append(Operation(now, FOREVER, what, UNKNOWN, client))
        return key, len(operations) - 1

    def settle(self, token: tuple[Any, int], now: float, output: Any) -> None:
        """It ended, and this is what it said."""
        key, number = token
        operation = self._operations[key][number]
        self._operations[key][number] = operation._replace(returned=now, output=output)

    def drop(self, token: tuple[Any, int]) -> None:
        """It is known that it had no effect: nothing to explain."""
        key, number = token
        self._operations[key][number] = self._operations[key][number]._replace(input=None)

    def of(self, key: Any) -> list[Operation]:
        """The operations of one object, without the dropped ones."""
        return [operation for operation in self._operations.get(key, ()) if operation.input is not None]

    def objects(self) -> list[Any]:
        """The keys, in the order they were first used."""
        return list(self._operations)
