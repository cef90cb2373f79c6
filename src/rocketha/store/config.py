"""What an operator may set about the store, with Java's names in the comments and Java's values unless said.

Pure.  Java: ``MessageStoreConfig``.
"""

from __future__ import annotations

import attrs

from rocketha.errors import ConfigError
from rocketha.store.layout import COMMITLOG, Layout

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

DELAY_LEVELS_MS = (
    1 * SECOND,
    5 * SECOND,
    10 * SECOND,
    30 * SECOND,
    1 * MINUTE,
    2 * MINUTE,
    3 * MINUTE,
    4 * MINUTE,
    5 * MINUTE,
    6 * MINUTE,
    7 * MINUTE,
    8 * MINUTE,
    9 * MINUTE,
    10 * MINUTE,
    20 * MINUTE,
    30 * MINUTE,
    1 * HOUR,
    2 * HOUR,
)
"""messageDelayLevel: delay of level 1, 2, ..."""


@attrs.frozen
class StoreConfig:
    """The store's settings.  Sizes in bytes, times in milliseconds."""

    commitlog_directory: str | None = None  # storePathCommitLog; None: commitlog under the root
    layout: Layout = COMMITLOG  # DLEDGER: enableDLegerCommitLog
    older_log_directory: str | None = None  # of a store with entries: where an ordinary broker began the log
    entry_index_directory: str | None = None  # of a layout with entries; None: entries under the root
    entry_index_file_size: int = 5 * 1024 * 1024 * 32  # DLedger's
    segment_size: int = 1 << 30  # mappedFileSizeCommitLog
    queue_file_size: int = 300_000 * 20  # mappedFileSizeConsumeQueue; a multiple of 20
    index_enable: bool = True  # messageIndexEnable
    index_slots: int = 5_000_000  # maxHashSlotNum
    index_units: int = 20_000_000  # maxIndexNum
    index_tags: bool = True  # 5.5 indexes "T#" + TAGS; older brokers do not
    message_bytes_max: int = 4 * 1024 * 1024  # maxMessageSize: body
    record_overhead_max: int = 64 * 1024  # a record may be this much larger than message_bytes_max
    delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS  # messageDelayLevel
    verify_on_read: bool = True  # check every body's CRC before it is served; Java does not
    preallocate: bool = False  # reserve the next segment's blocks ahead instead of making it sparse
    warm: bool = False  # warmMapedFileEnable: write the next segment full of zeros ahead
    flush_queue_interval_ms: int = 1 * SECOND  # flushIntervalConsumeQueue: queue tails are written
    # flushConsumeQueueThoroughInterval: tails are synced, the checkpoint saved.  Java waits 60 s; what comes after the
    # checkpoint has to be read again after a crash, about 10 us a message.
    flush_queue_thorough_interval_ms: int = 10 * SECOND
    flush_index_interval_ms: int = 30 * SECOND  # likewise; Java leaves the index to the kernel
    pending_index_units_max: int = 1_048_576  # units kept in memory before they are written early, 20 bytes each
    pending_queue_bytes_max: int = 4 * 1024 * 1024  # all queue tails together before they are written early
    file_reserved_ms: int = 72 * HOUR  # fileReservedTime
    delete_hours: frozenset[int] = frozenset((4,))  # deleteWhen, local hours of the day
    utc_offset_ms: int = 0  # local time minus UTC; names index files and decides the local hour
    delete_files_max: int = 10  # deleteFileBatchMax: files a round
    disk_expire_ratio: float = 0.75  # diskMaxUsedSpaceRatio: delete expired files at any hour
    disk_force_ratio: float = 0.85  # diskSpaceCleanForciblyRatio: delete files that are not expired
    disk_force_enable: bool = True  # cleanFileForciblyEnable: whether files that are not expired are deleted at all
    disk_full_ratio: float = 0.95  # writes are refused; Java says 0.90 (diskSpaceWarningLevelRatio)
    disk_check_interval_ms: int = 1 * SECOND
    expire_interval_ms: int = 10 * SECOND  # cleanResourceInterval
    open_files_max: int = 256  # descriptors kept open for reading
    get_bytes_max: int = 128 * 1024 * 1024  # MAX_PULL_MSG_SIZE
    filter_entries_max: int = 800  # maxFilterMessageSize / 20: entries looked at in one get

    def check(self) -> None:
        """:class:`ConfigError` for a setting that cannot work."""
        record_max = self.message_bytes_max + self.record_overhead_max
        rules = (
            (
                self.queue_file_size > 0 and self.queue_file_size % 20 == 0,
                "mappedFileSizeConsumeQueue is no multiple of 20",
            ),
            (
                self.entry_index_file_size > 0 and self.entry_index_file_size % 32 == 0,
                "the size of a file of the index of entries is no multiple of 32",
            ),
            (self.segment_size >= 4096, "mappedFileSizeCommitLog is below 4096"),
            (self.segment_size < 1 << 31, "mappedFileSizeCommitLog does not fit an int"),
            (record_max <= 1 << 26, "maxMessageSize is above 64 MiB"),
            (self.index_slots > 0 and self.index_units > 1, "maxHashSlotNum or maxIndexNum is too small"),
            (40 + 4 * self.index_slots + 20 * self.index_units < 1 << 31, "an index file would not fit an int"),
            (self.file_reserved_ms > 0, "fileReservedTime is not positive"),
            (all(0 <= hour < 24 for hour in self.delete_hours), "deleteWhen names no hour of the day"),
            (
                all(0 < each <= 1 for each in (self.disk_expire_ratio, self.disk_force_ratio, self.disk_full_ratio)),
                "a disk ratio is not between 0 and 1",
            ),
            (bool(self.delay_levels_ms), "messageDelayLevel is empty"),
        )
        for holds, message in rules:
            if not holds:
                raise ConfigError(message)
