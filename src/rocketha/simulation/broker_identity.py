"""A broker's id on its disk, as the seed S3 has it: written apart, applied for, then made the broker's own.

The steps and files are those of Java's ``ReplicasManager`` with one difference: an application whose outcome is unknown
is repeated with the same code, never given up for a new id.  The process may die before and after each step.
"""

from __future__ import annotations

from rocketha.store import atomic_file
from rocketha.store.disk import Disk

ROOT = "/broker"
FINAL, TEMP = f"{ROOT}/brokerIdentity", f"{ROOT}/brokerIdentity-temp"


class Identity:
    """The two files.

    :ivar number: the id that is ours for good; None before.
    :ivar wanted: (id, check code) that is applied for; None where nothing is.
    """

    def __init__(self, disk: Disk, cluster: str, name: str) -> None:
        self._disk = disk
        self._prefix = f"{cluster}#{name}#"
        atomic_file.make_dirs(disk, ROOT)
        final, temp = self._load(FINAL), self._load(TEMP)
        self.number = int(final) if final else None
        self.wanted: tuple[int, str] | None = None
        if temp:
            number, code = temp.split("#", 1)
            self.wanted = int(number), code

    def _load(self, path: str) -> str:
        found = self._disk.read_all(path, 1000).decode() if self._disk.exists(path) else ""
        return found.removeprefix(self._prefix)

    def want(self, number: int, code: str) -> None:
        """Step 2: the temp file."""
        atomic_file.save(self._disk, TEMP, f"{self._prefix}{number}#{code}".encode(), backup=False)
        self.wanted = number, code

    def give_up(self) -> None:
        """The controller refused: back to step 1."""
        self.wanted = None
        self._disk.remove(TEMP)
        self._disk.sync_dir(ROOT)

    def keep(self, number: int) -> None:
        """Step 4: the final file, then the temp file goes."""
        atomic_file.save(self._disk, FINAL, f"{self._prefix}{number}".encode(), backup=False)
        self.number = number
        if self._disk.exists(TEMP):
            self._disk.remove(TEMP)
            self._disk.sync_dir(ROOT)
        self.wanted = None

    def forget(self) -> None:
        """An operator cleaned this broker out of the controllers: it begins anew, with another id."""
        self._disk.remove(FINAL)
        self._disk.sync_dir(ROOT)
        self.number = None
