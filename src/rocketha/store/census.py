"""What the queues were at a clean stop, so that the next start notices a queue that was lost or cut short meanwhile.

Pure.  No counterpart in Java, which would give the offsets of a lost queue a second time.  The file stands beside the
checkpoint, is written by a clean stop and removed by the next start; it counts only if the log still ends where it
ended then, so that a Java broker may run in between.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketha.errors import DiskFailure, RemoteProtocolError
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.store.queue_table import QueueTable
from rocketha.wire import json_dialect

NAME = "rocketha-queues.json"


def save(disk: Disk, root: str, log_end: int, queues: QueueTable) -> None:
    """Write the file; on the disk when this returns."""
    table: dict[str, dict[str, list[int]]] = {}
    for queue in queues.all():
        table.setdefault(queue.topic, {})[str(queue.queue_id)] = [queue.min_offset, queue.next_offset]
    atomic_file.save(disk, f"{root}/{NAME}", json_dialect.dumps({"logEnd": log_end, "queues": table}), backup=False)


Census = tuple[int, Mapping[tuple[str, int], tuple[int, int]]]
"""End of the log, and (min, next) offset by topic and queue id."""
UNKNOWN: Census = (-1, {})


def take(disk: Disk, root: str) -> Census:
    """The census of the last clean stop; :data:`UNKNOWN` where there is none."""
    path = f"{root}/{NAME}"
    try:
        if not disk.exists(path):
            return UNKNOWN
        content = json_dialect.loads(disk.read_all(path, atomic_file.SIZE_MAX))
        table = {
            (str(topic), int(number)): (int(low), int(high))
            for topic, by_id in content["queues"].items()
            for number, (low, high) in by_id.items()
        }
        return int(content["logEnd"]), table
    except (DiskFailure, RemoteProtocolError, KeyError, TypeError, ValueError, AttributeError):
        return UNKNOWN  # it only ever adds a check


def remove(disk: Disk, root: str) -> None:
    """The queues are about to change."""
    path = f"{root}/{NAME}"
    if disk.exists(path):
        disk.remove(path)
