"""The work of one read, and who has something to say at its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Speaker(Protocol):
    """A connection with something to say."""

    def flush(self) -> None:
        """Say it."""


class Turn:
    """The connections that have something to say at the end of the present read.

    :ivar afterwards: each is called when all have said it: work that nobody waits for.
    """

    __slots__ = ("active", "afterwards", "speakers")

    def __init__(self) -> None:
        self.active = False
        self.speakers: list[Speaker] = []
        self.afterwards: list[Callable[[], None]] = []

    def say(self) -> None:
        """Every speaker says it."""
        if self.speakers:
            speakers, self.speakers = self.speakers, []
            for connection in speakers:
                connection.flush()

    def end(self) -> None:
        """The same, at the end."""
        self.active = False
        self.say()
        for call in self.afterwards:
            call()
