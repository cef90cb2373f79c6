"""The work of one read, and who has something to say at its end."""

from __future__ import annotations

from typing import Protocol


class Speaker(Protocol):
    """A connection with something to say."""

    def flush(self) -> None:
        """Say it."""


class Turn:
    """The connections that have something to say at the end of the present read."""

    __slots__ = ("active", "speakers")

    def __init__(self) -> None:
        self.active = False
        self.speakers: list[Speaker] = []

    def end(self) -> None:
        """Every speaker says it."""
        speakers, self.speakers = self.speakers, []
        self.active = False
        for connection in speakers:
            connection.flush()
