"""A broker's log at the start: recovered as what it was, made fit for what the broker is to be.

Blocking: it runs in the log's thread, before anything is served.
"""

from __future__ import annotations

from rocketha.services.config.replication import SLAVE, ReplicationConfig
from rocketha.store.disk import Disk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import RecoveryReport
from rocketha.store.replica_log import ReplicaLog


def open_log(
    store: MessageStore, disk: Disk, keys: ReplicationConfig, sync_flush: bool, now_ms: int, pid: int
) -> tuple[RecoveryReport, ReplicaLog]:
    """Load the store.  Under controllers it follows afterwards, whatever its role will be.

    A classic master may have been a slave before: its log then ends behind the last whole record.

    :raises CorruptStore: files that cannot be this store's.
    :raises DiskFailure: the disk, or the lock is held.
    """
    controlled, slave = keys.enable_controller_mode, keys.broker_role == SLAVE
    epoch_path = keys.store_path_epoch_file
    report = store.load(now_ms, pid, epoch_path if controlled else None, replica=slave and not controlled)
    log = ReplicaLog(store, disk, epoch_path, synced_acks=sync_flush, bounded=controlled)
    if controlled:
        log.load()
    elif slave:
        log.follow()
    elif not store.leads:
        log.follow()
        log.promote()
    return report, log
