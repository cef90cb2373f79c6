"""The configuration that sends, pulls and queries obey.

Pure.  The service fills it from the configuration and changes it when a live key changes.  Java's key names in
comments.
"""

from __future__ import annotations

import attrs


@attrs.define
class MessageRules:
    """One broker's rules; bytes, milliseconds and counts as named."""

    cluster_name: str = "DefaultCluster"  # brokerClusterName
    broker_ip: str = "127.0.0.1"  # brokerIP1
    region_id: str = "DefaultRegion"  # regionId
    trace_on: bool = True  # traceOn
    permission: int = 6  # brokerPermission: 4 read, 2 write
    message_bytes_max: int = 4 * 1024 * 1024  # maxMessageSize
    nul: bool = True  # whether properties may have it: a log of entries takes it for what a power cut left
    batch_bytes_max: int = 1 << 30  # mappedFileSizeCommitLog: the records of a batch lie in one file
    long_polling: bool = True  # longPollingEnable
    short_polling_ms: int = 1000  # shortPollingTimeMills
    transfer_bytes_max: int = 256 * 1024  # maxTransferBytesOnMessageInMemory
    transfer_count_max: int = 32  # maxTransferCountOnMessageInMemory
    query_max: int = 64  # maxMsgsNumBatch
    unique_query_max: int = 32  # defaultQueryMaxNum
    offset_check_in_slave: bool = False  # offsetCheckInSlave
    slave_read_enable: bool = False  # slaveReadEnable
    recent_bytes: int = 0  # accessMessageInMemoryMaxRatio of the memory: the end of the log that counts as recent

    @property
    def writeable(self) -> bool:
        """Whether the broker takes messages."""
        return bool(self.permission & 2)

    @property
    def readable(self) -> bool:
        """Whether the broker gives messages out."""
        return bool(self.permission & 4)
