"""All that a broker does is done in turns: reads of its ports, timers, news of replicas.

At the end of one, what it staged is appended as one write, and what it said leaves together.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketha.protocols.turn import Turn


class BrokerTurns:
    """Of one broker.

    :ivar turn: that of its ports.
    """

    def __init__(self) -> None:
        self.turn = Turn()
        self._ends: list[Callable[[], None]] = []

    def at_end(self, call: Callable[[], None]) -> None:
        """Have it called at the end of each, before what was said leaves; in the order in which they asked."""
        self._ends.append(call)

    def ended(self) -> None:
        """The read of a port ends, or another turn."""
        for call in self._ends:
            call()

    def run(self, work: Callable[[], None]) -> None:
        """Do the work of a timer, or of news of a replica, as one turn; within one it is part of it."""
        turn = self.turn
        if turn.active:
            work()
            return
        turn.active = True
        try:
            work()
            self.ended()
        finally:
            turn.end()
