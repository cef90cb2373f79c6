"""The file of the epochs: which master wrote which part of the log.

Pure.  Knows when a file or its backup counts; the text is ``wire/epoch_file.py``'s, what the epochs mean is
``replication``'s.  Java: ``CheckpointFile``, ``EpochFileCache``.

The file and the log are two things that a crash can catch apart.  The order that keeps them a consistent pair:

- An epoch is on the disk before the first byte that it covers is written.  A crash in between leaves an epoch that
  begins where the log ends: true, and without bytes.  The other order would give its bytes to the epoch before.
- The log is cut, on the disk, before epochs are taken out.  A crash in between leaves epochs that begin behind the
  end: :func:`within` drops those when the file is loaded.  The other order would leave bytes of the old epoch in the
  log under the number of the one before, and the next handshake would find them good.
- A list from which epochs were taken out replaces the backup too, so that they do not come back by that way.

Where we differ from Java: the file is replaced, not written in place; an empty list is written as an empty list (Java
leaves the old one); a damaged file without a good backup stops the start: with no epochs a replica would count as new,
and be given the log of any master from its end on without a cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketha.errors import CorruptStore
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.wire import epoch_file as epoch_text
from rocketha.wire.ha_values import EpochEntry

Epochs = tuple[EpochEntry, ...]


def load(disk: Disk, path: str) -> Epochs:
    """The epochs of the file, or of its backup where the file is damaged, empty or missing; none where neither exists.

    :raises CorruptStore: what there is cannot be read.
    """
    problem: CorruptStore | None = None
    for name in (path, path + ".bak"):
        if not disk.exists(name):
            continue
        data = disk.read_all(name, epoch_text.FILE_BYTES_MAX)
        if not data:  # Java died while it wrote, or made the backup of nothing
            continue
        try:
            return epoch_text.decode(data, name)
        except CorruptStore as error:
            problem = problem or error
    if problem is not None:
        raise problem
    return ()


def save(disk: Disk, path: str, epochs: Sequence[EpochEntry], shorter: bool = False) -> None:
    """Replace the file; on the disk when this returns.

    :param shorter: epochs were taken out: the backup must not hold them either.
    :raises DiskFailure: the file holds the former or the new epochs.
    """
    data = epoch_text.encode(epochs)
    atomic_file.save(disk, path, data, backup=not shorter)
    if shorter and disk.exists(path + ".bak"):
        atomic_file.save(disk, path + ".bak", data, backup=False)


def within(epochs: Sequence[EpochEntry], log_end: int) -> Epochs:
    """The epochs that begin at or before the end of the log: what a crash left of later ones is no part of it."""
    return tuple(entry for entry in epochs if entry.start_offset <= log_end)
