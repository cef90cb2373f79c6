"""Entries of a table that a crash would take back.

Pure.  A table is written whole, in the time that its disk takes; meanwhile it changes on.  So an entry is safe when it
has not changed since the newest text that is on the disk was made.  Nothing is appended to the log that needs an entry
which is not: after a crash the messages would be there, acknowledged, and their topic would not.
"""

from __future__ import annotations


class NotSavedYet(Exception):
    """A request needs a topic that a crash would take back: do it when the table is on the disk.  It staged nothing.

    :ivar topic: its name.
    """

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic


class Unsaved:
    """The names of such entries."""

    def __init__(self) -> None:
        self._changed: set[str] = set()  # since the text that is being written was made, or else the one on the disk
        self._being_written: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self._changed or name in self._being_written

    def add(self, name: str) -> None:
        """It was made, or changed."""
        self._changed.add(name)

    def discard(self, name: str) -> None:
        """It is no entry any more; made again, it is a new one."""
        self._changed.discard(name)
        self._being_written.discard(name)

    def write_began(self) -> None:
        """A text with all of them was made; one is being written at a time."""
        self._being_written, self._changed = self._changed, set()

    def write_ended(self, failed: bool) -> frozenset[str]:
        """The names that were in it and had changed, and are entries still."""
        names, self._being_written = frozenset(self._being_written), set()
        if failed:
            self._changed |= names
        return names
