"""What a classic slave has its master send once more: the end of its own log, to see whether both are one log.

Pure.  No counterpart in Java, whose slave appends whatever it is sent from its end on.

Two brokers that wrote one log have the same bytes in it; two that did not differ in every record: in its store
timestamp, in its born timestamp and host, in its unique key.  Logs are only appended to, so when the last record is
the same in both, so is what is before it.
"""

from __future__ import annotations

from rocketha.store.replica_log import ReplicaLog

OVERLAP_BYTES = 64 * 1024
"""Sent again at least, unless that reaches into an older file, which the master may not have any more."""
OVERLAP_BYTES_MAX = 8 * 1024 * 1024
"""A record that begins farther from the end is not sent again."""


def overlap_begin(log: ReplicaLog) -> int:
    """The log offset from which its end is to be compared; the end itself of an empty log.

    The newest record that was dispatched is all in it: where queues are made that is the last record, or it is near.
    """
    end = log.end
    if log.begin >= end:
        return end
    begin = max(end - OVERLAP_BYTES, (end - 1) // log.file_size * log.file_size)
    newest, _ = log.store.upkeep.last_record
    if end - OVERLAP_BYTES_MAX <= newest < begin:
        begin = newest
    return max(begin, log.begin)


def first_difference(log: ReplicaLog, offset: int, data: bytes | memoryview) -> int | None:
    """Where the log has another byte than ``data``, which stands at ``offset``; None: nowhere.

    Blocking: it may be called in a thread, while the log grows.

    :raises DiskFailure: it cannot be read.
    :raises CorruptStore: part of it is not there.
    """
    reader, view = log.reader(), memoryview(data)
    try:
        while view:
            theirs = bytes(view[: log.file_size - offset % log.file_size])
            own = reader.read(offset, len(theirs))
            if own != theirs:
                return offset + next(at for at, mine in enumerate(own) if mine != theirs[at])
            view, offset = view[len(theirs) :], offset + len(theirs)
        return None
    finally:
        reader.close()
