"""Replication modes: how a broker's log comes to have more than one copy.

A mode is one :class:`ReplicationMode`; :func:`mode_of` chooses it, and nobody else asks which one it is.
"""

from __future__ import annotations

from typing import Protocol

from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.replication.autoswitch import AutoSwitchMode
from rocketha.services.replication.classic import ClassicMode
from rocketha.services.replication.context import ReplicationContext
from rocketha.services.replication.dledger import DLedgerMode
from rocketha.services.replication.service import Replication
from rocketha.services.replication.slave import Dialect
from rocketha.store.disk import Disk
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import RecoveryReport
from rocketha.store.replica_log import ReplicaLog


class ReplicationMode(Protocol):
    """One of them: what is made of it, from the start of a broker to its end.

    The two calls that touch the log block: they run in its thread, while nothing else does.
    """

    def open_log(
        self, store: MessageStore, disk: Disk, keys: ReplicationConfig, sync_flush: bool, now_ms: int, pid: int
    ) -> tuple[RecoveryReport, ReplicaLog]:
        """The log at the start: recovered as what it was, made fit for what the broker is to be.

        :raises CorruptStore: files that cannot be this store's.
        :raises DiskFailure: the disk, or the lock is held.
        """

    def end_log(self, log: ReplicaLog) -> None:
        """Before the store is closed."""

    def dialect(self, log: ReplicaLog, keys: ReplicationConfig, own_id: int) -> Dialect:
        """Spoken to a master by whoever only follows."""

    def replication(self, context: ReplicationContext) -> Replication:
        """Of a broker."""


def mode_of(keys: ReplicationConfig) -> ReplicationMode:
    """The mode that a configuration asks for."""
    if keys.enable_dleger_commit_log:
        return DLedgerMode()
    return AutoSwitchMode() if keys.enable_controller_mode else ClassicMode()
