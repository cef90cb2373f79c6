"""An ordinary broker's log becomes DLedger's in place: its files stay, and the log goes on in DLedger's.

Pure.  Java: ``DLedgerCommitLog.setRecoverPosition``, ``dividedCommitlogOffset``.

Theory of operation.  The log is recovered as the ordinary broker would, with its queues and index.  Its last file is
ended with a blank record, so that the first entry stands at the begin of the next file, in DLedger's directory.  From
then on both directories are one log (:class:`~rocketha.store.segment.SegmentedFile`), whose files lie in two ways
(:class:`~rocketha.store.layout.Divided`): offsets, queues and index mean what they meant.  The old files expire first.
A crash at any moment leaves an ordinary log, or one that is ended; doing it again does the same.
"""

from __future__ import annotations

import attrs

from rocketha.errors import CorruptStore
from rocketha.store import missing_file
from rocketha.store.disk import Disk
from rocketha.store.layout import COMMITLOG
from rocketha.store.message_store import ABORT_BYTES_MAX, REPLICA, MessageStore, has_log_files
from rocketha.store.messages import RecoveryReport


def adopt(disk: Disk, store: MessageStore, now_ms: int, pid: int, epoch_path: str) -> RecoveryReport | None:
    """Let a log of entries begin behind that of an ordinary broker; None where there is none, or nothing is to be done.
    Blocking.

    :param store: of the log of entries; it is not loaded yet.
    :param epoch_path: storePathEpochFile: a broker in controller mode had one.
    :raises CorruptStore: the log can not be one of an ordinary broker, or only its broker can recover it.
    :raises DiskFailure: the disk; starting again begins anew.
    """
    older, config = store.config.older_log_directory, store.config
    own = store.log.segments.directory
    if older is None or older == own or has_log_files(disk, own) or not has_log_files(disk, older):
        return None
    abort = f"{store.root}/abort"
    if disk.exists(abort):
        replica = REPLICA in disk.read_all(abort, ABORT_BYTES_MAX)
        if replica or disk.exists(epoch_path):
            why = "the broker of this store was replicated and did not end: start it as it was, and stop it"
            raise CorruptStore(abort, 0, why)
    missing = missing_file.load(disk, epoch_path)
    if missing:
        why = f"the log lacks some of what was confirmed up to {missing}: start the broker as it was, to have it copied"
        raise CorruptStore(epoch_path + missing_file.SUFFIX, 0, why)
    ordinary = MessageStore(
        disk,
        store.root,
        attrs.evolve(config, layout=COMMITLOG, commitlog_directory=older, older_log_directory=None),
        bytes(8),
    )
    report = ordinary.load(now_ms, pid)
    ordinary.close(now_ms)
    segments = ordinary.log.segments
    if report.end > segments.begin:
        _end(disk, ordinary)
    else:  # files without a message
        segments.remove_after(segments.begin)
        segments.sync_names()
    return report


def _end(disk: Disk, ordinary: MessageStore) -> None:
    """End the last file."""
    log = ordinary.log
    size, end = log.segments.file_size, log.end
    room = -end % size
    if not room:
        return
    file = disk.open(log.segments.path(end - end % size))
    try:
        file.write(end % size, [COMMITLOG.blank(room)])
        file.sync()
    finally:
        file.close()
