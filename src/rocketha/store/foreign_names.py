"""Names in our directories that nobody of us wrote: the one place that decides what is left alone.

Pure.  The root of every ext4 disk has a ``lost+found``, network storage makes ``.snapshot`` and ``.nfs...``, a desktop
``.DS_Store``.  Whoever reads a directory says which names could be its own; the others are somebody else's: never
opened, never removed, and listed once for the operator.  What bears a name of ours and is damaged is the reader's to
refuse.  Java skips directories, and stops at files.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketha.store.disk import Disk

SHOWN_MAX = 10
"""Names that the note lists."""


class ForeignNames:
    """Those that were met in the directories of one start."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._count = 0

    def skip(self, path: str) -> None:
        """Remember one."""
        self._count += 1
        if len(self._shown) < SHOWN_MAX:
            self._shown.append(path)

    def join(self, other: ForeignNames) -> None:
        """Remember those of another one too."""
        for path in other._shown:
            self.skip(path)
        self._count += other._count - len(other._shown)

    def ours(self, disk: Disk, directory: str, could_be_ours: Callable[[str], bool]) -> list[str]:
        """The names in a directory that could be its reader's, sorted; none where there is no such directory."""
        found = []
        for name in disk.list(directory) if disk.is_dir(directory) else []:
            if could_be_ours(name):
                found.append(name)
            else:
                self.skip(f"{directory}/{name}")
        return found

    @property
    def notes(self) -> list[str]:
        """What an operator should know: one sentence, or none."""
        if not self._count:
            return []
        more = self._count - len(self._shown)
        listed = ", ".join(self._shown) + (f" and {more} more" if more else "")
        return [f"left alone, since the names are not those of our files: {listed}"]


def is_number(name: str) -> bool:
    """Whether a name is a number, as those of a log's files and of a queue's directory are."""
    return name.isascii() and name.isdigit()
