"""The store checkpoint: how far each part of the store is safely on disk.  Declarations only.

Java: ``StoreCheckpoint``, a file of 4096 bytes of which these are the first.
"""

from __future__ import annotations

from construct import Int64sb, Struct

CHECKPOINT = "checkpoint" / Struct(
    "physic_timestamp_ms" / Int64sb,  # store time of the last record synced in the log
    "logics_timestamp_ms" / Int64sb,  # store time of the last record synced in the consume queues
    "index_timestamp_ms" / Int64sb,  # store time of the last record synced in the index
    "master_flushed_offset" / Int64sb,  # replication: bytes of the log the master has synced
    "confirm_offset" / Int64sb,  # replication: bytes of the log that are committed
    "logics_offset" / Int64sb,  # since 5.5: log offset of the last record synced in the consume queues
)

FILE_SIZE = 4096
"""Bytes of the file; Java maps one page."""
