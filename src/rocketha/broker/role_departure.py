"""A master that is to stop, and hands its role over first: how far that has come, and how long it may take.

Must not know how a replica is elected.

::

    NO --> RETIRING --replicas have all, or half of the time is over--> HANDING_OVER --elected--> FOLLOWING --> LEFT
             |                                                            |  ^ |                     |
             |                                                            +--+ no: the next one      |
             +----------------------- the time is over, or nobody can be elected --------------------+--> LEFT

Of one that is only unfit to be master, and stays, the end is NO and not LEFT.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketha.broker.role_effects import Leaving


class Departure:
    """See the module.

    :ivar stage: NO until :meth:`begin`.
    :ivar stays: why it hands over although it does not stop; empty: it stops.
    """

    def __init__(self) -> None:
        self.stage = Leaving.NO
        self.stays = ""
        self._candidates: list[int] = []
        self._hand_over_at = self._until = 0

    @property
    def candidate(self) -> int:
        """Who is to be elected."""
        return self._candidates[0]

    def begin(self, candidates: Iterable[int], allowed_ms: int, now_ms: int) -> None:
        """The replicas get what they lack."""
        self.stage = Leaving.RETIRING
        self._candidates = list(candidates)
        self._until = now_ms + allowed_ms
        self._hand_over_at = now_ms + allowed_ms // 2

    def next_candidate(self) -> bool:
        """That one was not elected; whether there is another."""
        self._candidates = self._candidates[1:]
        return bool(self._candidates)

    def due_ms(self) -> list[int]:
        """When something is to be done that nobody tells us of."""
        if self.stage in (Leaving.NO, Leaving.LEFT):
            return []
        return [self._until, self._hand_over_at] if self.stage is Leaving.RETIRING else [self._until]

    def waited_enough(self, now_ms: int) -> bool:
        """Whether those replicas that lack something are not waited for any longer."""
        return self.stage is Leaving.RETIRING and now_ms >= self._hand_over_at

    def over(self, now_ms: int) -> bool:
        """Whether there is no time left."""
        return self.stage not in (Leaving.NO, Leaving.LEFT) and now_ms >= self._until
