"""In which order a leader's requests become entries, and which of them need none; and what applies the entries.

Decides nothing: what an event would do is said by :meth:`~rocketha.controller.state.ControllerState.preview`.

Theory of operation.  An event that would change something is proposed.  One that would not is answered from the state
once a barrier has shown that this node still leads; behind it the state may be another, and then it is proposed too.

A master asks for one change of its SyncStateSet at a time, and where no answer comes asks for the next on a new
connection.  If that one is refused for an unfit replica it takes the first for undone, and acknowledges without whom
the first was to add (:meth:`rocketha.replication.sync_state.SyncState.refused`).  So no such change is judged before
one that came earlier: while one waits for its barrier all of its set do, and barriers fire in the order in which they
were asked for.  One that came in another term than that in which its barrier fires is not proposed: another leader may
have judged a later one between the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.controller import answers
from rocketha.controller.events import AlterSyncStateSet, Event, encode
from rocketha.controller.group import Did
from rocketha.controller.state import ControllerState, Outcome
from rocketha.errors import RemoteProtocolError
from rocketha.raft.messages import Entry
from rocketha.services.raft.service import RaftService
from rocketha.services.raft.waiting import ResultUnknown
from rocketha.wire.remoting import Answer


class ControllerMachine:
    """The state of the controllers as the Raft log builds it: each entry is an event.

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


class Undecided:
    """Events on their way, by the broker name of their set.

    An event is on its way from when it is proposed until it is applied or void, and not only until its sender is told
    "unknown": while a majority answers heartbeats and its disks stand still an entry may wait in the log for much
    longer.  What changes nothing now may change something after it, so it has to follow it through the log.
    """

    def __init__(self) -> None:
        self._waited_for: Counter[str] = Counter()
        self._given_up: dict[str, int] = {}  # broker name -> the newest entry that may be one of its set's

    def begun(self, name: str) -> None:
        """An event of a set is proposed."""
        self._waited_for[name] += 1

    def ended(self, name: str) -> None:
        """It was applied, or surely never will be; or it is given up."""
        self._waited_for[name] -= 1
        if not self._waited_for[name]:
            del self._waited_for[name]

    def given_up(self, name: str, last_index: int, applied: int) -> None:
        """Nobody waits any more for an event that may be an entry.

        :param last_index: the newest entry of the log: it is none after that one.
        :param applied: the newest entry applied.
        """
        self._given_up = {each: index for each, index in self._given_up.items() if index > applied}
        self._given_up[name] = last_index

    def has(self, name: str, applied: int) -> bool:
        """Whether something about a set may be on its way.

        :param applied: the newest entry applied.
        """
        return name in self._waited_for or self._given_up.get(name, 0) > applied


class Sequencer:
    """Proposes the events of one controller, in the order in which they came (see above)."""

    def __init__(self, state: ControllerState, raft: RaftService) -> None:
        self._state = state
        self._raft = raft
        self._undecided = Undecided()
        self._held: Counter[str] = Counter()  # broker name -> changes of SyncStateSets that wait for a barrier

    def decide(self, event: Event) -> defer.Deferred[Any]:
        """The answer to a request, proposed where it has to be; fails as ``RaftService.propose`` and ``barrier`` do."""
        alters = type(event) is AlterSyncStateSet
        name, raft = event.broker_name, self._raft
        if not (alters and self._held[name]) and self._unchanging(event) is None:
            return self.propose(event)
        term = raft.node.term
        if alters:
            self._held[name] += 1

        def fired(result: Any) -> Any:
            if alters:
                self._held[name] -= 1
                self._held += Counter()  # what is zero takes no room
            if isinstance(result, Failure):
                return result
            if alters and raft.node.term != term:
                return answers.NOT_LEADER
            # Again: what came before it and waited for the same barrier may be on its way now.
            return self._unchanging(event) or self.propose(event)

        return raft.barrier().addBoth(fired)

    def _unchanging(self, event: Event) -> Answer | None:
        """The answer, if it would change nothing and nothing that is on its way could make that otherwise."""
        if self._undecided.has(event.broker_name, self._raft.node.applied):
            return None
        preview = self._state.preview(event)
        return preview.answer if preview.did is Did.NOTHING else None

    def propose(self, event: Event) -> defer.Deferred[Any]:
        """The answer to an event that is to be an entry."""
        name, raft = event.broker_name, self._raft
        try:
            data = encode(event)
        except RemoteProtocolError as problem:
            return defer.fail(problem)
        self._undecided.begun(name)

        def over(result: Any) -> Any:
            self._undecided.ended(name)
            if isinstance(result, Failure) and result.check(ResultUnknown):
                self._undecided.given_up(name, raft.node.last_index, raft.node.applied)
            return result.answer if isinstance(result, Outcome) else result

        return raft.propose(data).addBoth(over)
