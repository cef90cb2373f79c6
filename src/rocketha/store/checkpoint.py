"""The checkpoint file: what recovery may believe without looking.

Pure.  Java: ``StoreCheckpoint``.  The rule that makes it safe: a field is raised only after what it speaks of was
synced, and ``logics_offset`` (5.5) only after every queue file was.  Java's abnormal recovery begins at the newest
file that these fields cover; so does ours.  The file is replaced atomically; Java writes it in place.
"""

from __future__ import annotations

from rocketha.errors import RemoteProtocolError
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.wire.spec.checkpoint import FILE_SIZE
from rocketha.wire.store_files import CHECKPOINT, CheckpointFields, parse_checkpoint

NOTHING = CheckpointFields()


def load(disk: Disk, path: str) -> CheckpointFields:
    """The checkpoint; :data:`NOTHING`, which makes recovery check everything, where there is none or it makes no
    sense."""
    if not disk.exists(path):
        return NOTHING
    data = disk.read_all(path, FILE_SIZE)
    if len(data) < 40:
        return NOTHING
    try:
        fields = parse_checkpoint(data[: CHECKPOINT.size].ljust(CHECKPOINT.size, b"\0"))
    except RemoteProtocolError:
        return NOTHING
    return NOTHING if min(fields) < 0 else fields


def save(disk: Disk, path: str, fields: CheckpointFields) -> None:
    """Replace the file; on the disk when this returns.

    :raises DiskFailure: the file holds the former or the new fields.
    """
    atomic_file.save(disk, path, CHECKPOINT.pack(*fields).ljust(FILE_SIZE, b"\0"), backup=False)
