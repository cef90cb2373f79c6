"""The controller's state as the Raft service applies it; decides nothing, and knows no connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocketha.controller.group import Did
from rocketha.controller.state import ControllerState, Outcome
from rocketha.raft.messages import Entry


class ControllerMachine:
    """See the module.

    :param applied: told of every entry that changed something, on whatever node.
    """

    def __init__(self, state: ControllerState, applied: Callable[[Outcome, Entry], None]) -> None:
        self._state = state
        self._applied = applied

    def apply(self, entries: Sequence[Entry]) -> list[object]:
        """Decide entries; one outcome each."""
        outcomes: list[object] = []
        for entry in entries:
            outcome = self._state.apply_entry(entry.data, entry.index)
            outcomes.append(outcome)
            if outcome.did is not Did.NOTHING:
                self._applied(outcome, entry)
        return outcomes

    def save(self) -> bytes:
        """The whole state."""
        return self._state.snapshot()

    def restore(self, data: bytes) -> None:
        """Be that state."""
        self._state.restore(data)
