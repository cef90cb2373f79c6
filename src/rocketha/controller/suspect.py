"""What is known of one suspected broker.  The transitions are all in :mod:`rocketha.controller.failure_detector`."""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

import attrs

from rocketha.controller.detector_effects import Reading, Verdict
from rocketha.controller.events import Saw, Seen, Why
from rocketha.controller.liveness import Heartbeat, ReplicaKey


class State(Enum):
    """Where a suspicion stands."""

    QUEUED = "queued"  # too many rounds began just now
    ASKING = "asking"
    HELD = "held"  # not confirmed; the next round begins after a pause
    CHOOSING = "choosing"  # dead; the set's other members are given a moment to answer
    DEAD = "dead"  # until it is heard


@attrs.define(slots=True)
class Suspect:
    """One replica's.  ``voices``: other controller -> whether it hears the suspect."""

    replica: ReplicaKey
    why: str
    state: State
    question: int
    due_ms: int  # the end of the round, the pause, or the choosing
    again_ms: int | None = None  # when the replicas' links and the controllers are asked a second time
    kind: Why = Why.REQUESTED  # of the election, once it is dead
    registers: bool = False
    heard: bool = False  # in this round, although it registers
    refused: bool = False
    closed: int = 0
    voices: dict[str, bool] = attrs.Factory(dict)
    hung_up: set[str] = attrs.Factory(set)  # controllers whose last word is that its connection to them is closed
    links: dict[int, Reading] = attrs.Factory(dict)  # members that answered, with the newest reading
    moving: set[int] = attrs.Factory(set)
    absent: set[int] = attrs.Factory(set)  # members whose port refused
    lacking: set[int] = attrs.Factory(set)  # members that answered, with less than they had
    asked: tuple[int, ...] = ()  # members asked in this round
    witnessed: bool = False  # a controller has heard it, and its connection is closed

    @property
    def unfit(self) -> set[int]:
        """Members that should not be elected, as long as there are others."""
        return self.absent | self.lacking

    def begin(self, question: int, due_ms: int, again_ms: int) -> None:
        """A new round: what was found in the one before is forgotten."""
        self.state, self.question, self.due_ms, self.again_ms = State.ASKING, question, due_ms, again_ms
        self.heard, self.refused, self.closed, self.asked, self.witnessed = False, False, 0, (), False
        for answers in (self.voices, self.hung_up, self.links, self.moving, self.absent, self.lacking):
            answers.clear()

    def voice(self, node: str, connected: bool, heard_ms_ago: int | None, fresh_ms: int) -> None:
        """Another controller said whether it hears it: by a heartbeat no older than ``fresh_ms``."""
        hears = connected and heard_ms_ago is not None and heard_ms_ago <= fresh_ms
        self.voices[node] = self.voices.get(node, False) or hears
        (self.hung_up.discard if connected else self.hung_up.add)(node)
        self.witnessed |= heard_ms_ago is not None and not connected

    @property
    def against(self) -> int:
        """How many controllers do not hear it, or hear no more what they heard when they were asked before."""
        return sum(not hears or node in self.hung_up for node, hears in self.voices.items())

    def member_answered(self, number: int, verdict: Verdict, reading: Reading, last: Heartbeat | None) -> None:
        """A member of its set answered, or could not.

        :param last: that member's last heartbeat.
        """
        if verdict is Verdict.ANSWERED:
            if reading.lacks(last):
                self.lacking.add(number)
            before = self.links.get(number)
            self.links[number] = reading
            if before is not None and reading.moved(before):
                self.moving.add(number)
        elif verdict is Verdict.REFUSED:
            self.absent.add(number)
            self.links.pop(number, None)

    def candidates(self, in_sync: Collection[int], alive: Collection[int]) -> tuple[int, ...]:
        """Who may be elected in its place: who answered, else who is thought alive, else who has less than it had.

        Outsiders, where they may be elected at all, not while one of the SyncStateSet is thought alive: it may only be
        slower than they are.

        :param alive: members that are, by the table, and may be elected.
        """
        answered = set(self.links) - self.unfit
        hoped = set(alive) - self.unfit - {self.replica.broker_id}
        if answered.isdisjoint(in_sync) and not hoped.isdisjoint(in_sync):
            answered = hoped
        return tuple(sorted(answered or hoped or self.lacking))

    def seen(self) -> tuple[Seen, ...]:
        """What this round brought to light, for the log entry."""
        own = self.replica.broker_id
        port = Saw.PORT_REFUSED if self.refused else Saw.PORT_SILENT
        found = [Seen(own, port, self.why)]
        for node, hears in sorted(self.voices.items()):
            found.append(Seen(own, Saw.CONTROLLER_HEARS if hears else Saw.CONTROLLER_DOES_NOT_HEAR, node))
        for number in sorted(self.links):
            saw = Saw.REPLICA_HEARS if number in self.moving else Saw.REPLICA_DOES_NOT_HEAR
            found.append(Seen(own, saw, f"broker {number}"))
        return (*found, *(Seen(number, Saw.PORT_REFUSED) for number in sorted(self.absent)))
