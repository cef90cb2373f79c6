"""Whether a history of operations on one object could have happened one at a time.

Pure.  Theory of operation: Wing and Gong's search with Lowe's memory, as porcupine and knossos do it.  A call may take
effect at any moment between its invocation and its return; an operation whose outcome is unknown may take effect at any
moment after its invocation, or never.  The search takes the first call that the object's model accepts, removes it and
goes on; where a return stands that no choice satisfies, it goes back.  What was tried (the set of operations taken and
the state they led to) is remembered and not tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

UNKNOWN = object()
"""The output of an operation whose answer never came."""

FOREVER = float("inf")


class Operation(NamedTuple):
    """One call.

    :ivar invoked: when.
    :ivar returned: when; :data:`FOREVER` where ``output`` is :data:`UNKNOWN`.
    """

    invoked: float
    returned: float
    input: Any
    output: Any
    client: str = ""


Step = Callable[[Any, Any, Any], tuple[bool, Hashable]]
"""(state, input, output) -> (whether the model allows it, the state after).  Of an unknown output it says what the
operation would do if it happened."""


class _Entry:
    """A node of the list of calls and returns."""

    __slots__ = ("match", "next", "number", "previous")

    def __init__(self, number: int) -> None:
        self.number = number
        self.match: _Entry | None = None  # of a call, its return
        self.previous: _Entry = self
        self.next: _Entry | None = None


class _Steps:
    """What the model says of each operation in each state, asked once; states are numbered as they are met."""

    def __init__(self, history: Sequence[Operation], initial: Hashable, step: Step) -> None:
        self._history = history
        self._step = step
        self._states = [initial]
        self._numbers = {initial: 0}
        self._known: list[dict[int, int | None]] = [{} for _ in history]

    def after(self, number: int, state: int) -> int | None:
        """The state after an operation; None where it may not come next, or need not.

        One without an answer that changes nothing need not: whatever comes after it can come as well without it.
        """
        known = self._known[number]
        if state not in known:
            operation = self._history[number]
            allowed, made = self._step(self._states[state], operation.input, operation.output)
            after = self._numbers.setdefault(made, len(self._states)) if allowed else state
            if after == len(self._states):
                self._states.append(made)
            known[state] = None if not allowed or (after == state and operation.output is UNKNOWN) else after
        return known[state]


def linearizable(history: Sequence[Operation], initial: Hashable, step: Step, limit: int = 2_000_000) -> bool:
    """Whether some order explains the history.

    :param limit: steps after which it gives up, and finds it explained: a search is not a proof of guilt.
    """
    head, known = _entries(history)
    steps = _Steps(history, initial, step)
    taken, state, left = 0, 0, known
    tried: set[tuple[int, int]] = set()
    path: list[tuple[_Entry, int]] = []
    entry = head.next
    for _ in range(limit):
        if not left:
            return True
        if entry is None or entry.match is entry:  # a return: its call is still in the list, so this choice is wrong
            if not path:
                return False
            entry, state = path.pop()
            taken &= ~(1 << entry.number)
            left += history[entry.number].output is not UNKNOWN
            _put_back(entry)
            entry = entry.next
            continue
        after = steps.after(entry.number, state)
        if after is not None and (key := (taken | 1 << entry.number, after)) not in tried:
            tried.add(key)
            path.append((entry, state))
            taken, state = key
            left -= history[entry.number].output is not UNKNOWN
            _take_out(entry)
            entry = head.next
        else:
            entry = entry.next
    return True


def _entries(history: Sequence[Operation]) -> tuple[_Entry, int]:
    """The list, in order of time (calls before returns of the same moment), and how many outcomes are known."""
    events: list[tuple[float, int, int]] = []
    known = 0
    for number, operation in enumerate(history):
        events.append((operation.invoked, 1, number))
        if operation.output is not UNKNOWN:
            known += 1
            events.append((max(operation.returned, operation.invoked), 2, number))
    events.sort()
    head = last = _Entry(-1)
    calls: dict[int, _Entry] = {}
    for _, kind, number in events:
        entry = _Entry(number)
        if kind == 1:
            calls[number] = entry
        else:
            calls[number].match = entry
            entry.match = entry
        last.next, entry.previous = entry, last
        last = entry
    return head, known


def _take_out(entry: _Entry) -> None:
    for each in (entry, entry.match):
        if each is not None:
            each.previous.next = each.next
            if each.next is not None:
                each.next.previous = each.previous


def _put_back(entry: _Entry) -> None:
    for each in (entry.match, entry):
        if each is not None:
            each.previous.next = each
            if each.next is not None:
                each.next.previous = each


def explain(history: Sequence[Operation], initial: Hashable, step: Step) -> str | None:
    """None when linearizable; else the shortest beginning (by returns) that is not, as text."""
    if linearizable(history, initial, step):
        return None
    ends = sorted(operation.returned for operation in history if operation.output is not UNKNOWN)
    low, high = 0, len(ends) - 1
    while low < high:
        middle = (low + high) // 2
        if linearizable(_until(history, ends[middle]), initial, step):
            low = middle + 1
        else:
            high = middle
    shown = _until(history, ends[low])
    lines = [
        f"  {each.invoked:.6f}..{'?' if each.output is UNKNOWN else f'{each.returned:.6f}'} {each.client} "
        f"{each.input} -> {'?' if each.output is UNKNOWN else each.output}"
        for each in shown[-20:]
    ]
    return "not linearizable; no order explains the last of these:\n" + "\n".join(lines)


def _until(history: Sequence[Operation], end: float) -> list[Operation]:
    """The history as known at a moment: what had not returned is unknown, what was not invoked is not there."""
    return [
        each if each.returned <= end else each._replace(returned=FOREVER, output=UNKNOWN)
        for each in sorted(history, key=lambda each: (each.returned, each.invoked))
        if each.invoked <= end
    ]
