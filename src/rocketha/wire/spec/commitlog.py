"""The message log: one record a message, and the blank record that ends a full file.  Declarations only.

Java: ``MessageExtEncoder.encode`` writes, ``CommitLog.checkMessageAndReturnSize`` and ``MessageDecoder.decode`` read,
``CommitLog.DefaultAppendMessageCallback`` writes the blank record.  All integers big-endian and signed.
"""

from __future__ import annotations

import construct
from construct import Bytes, IfThenElse, Int8sb, Int16sb, Int32sb, Int64sb, Rebuild, Struct, Terminated, len_, this

MAGIC_V1 = -626843481
"""0xDAA320A7: topic length is one byte.  MessageDecoder.MESSAGE_MAGIC_CODE"""

MAGIC_V2 = -626843477
"""0xDAA320AB: topic length is two bytes.  MessageDecoder.MESSAGE_MAGIC_CODE_V2"""

MAGIC_BLANK = -875286124
"""0xCBD43194: the rest of this file is unused.  CommitLog.BLANK_MAGIC_CODE"""

BORN_HOST_V6 = 0x10
"""Bit of sys_flag: born_host holds 16 + 4 bytes.  MessageSysFlag.BORNHOST_V6_FLAG"""

STORE_HOST_V6 = 0x20
"""Bit of sys_flag: store_host holds 16 + 4 bytes.  MessageSysFlag.STOREHOSTADDRESS_V6_FLAG"""


def _head(born_host_bytes: object, store_host_bytes: object) -> list[construct.Construct]:
    """The fields before the body; the two host addresses are the only ones whose width varies."""
    return [
        "total" / Int32sb,  # bytes of the whole record, this field included
        "magic" / Int32sb,  # MAGIC_V1 or MAGIC_V2
        "body_crc" / Int32sb,  # CRC-32 of the stored body without its sign bit; 0 for an empty body
        "queue_id" / Int32sb,  # number of the queue in its topic
        "flag" / Int32sb,  # the producer's own flag, Message.getFlag
        "queue_offset" / Int64sb,  # logical index in the queue; 0 for prepared and rollback records
        "physical_offset" / Int64sb,  # bytes from the beginning of the log to this record
        "sys_flag" / Int32sb,  # MessageSysFlag
        "born_timestamp_ms" / Int64sb,  # producer's clock
        "born_host" / Bytes(born_host_bytes),  # IP, then port as an int
        "store_timestamp_ms" / Int64sb,  # broker's clock at the append
        "store_host" / Bytes(store_host_bytes),  # IP, then port as an int
        "reconsume_times" / Int32sb,  # deliveries that failed so far
        "prepared_offset" / Int64sb,  # log offset of the prepared record of a transaction, bytes
        "body_length" / Int32sb,  # bytes
    ]


HEAD_V4_V4 = "commitlog-head-v4-v4" / Struct(*_head(8, 8))
HEAD_V6_V4 = "commitlog-head-v6-v4" / Struct(*_head(20, 8))
HEAD_V4_V6 = "commitlog-head-v4-v6" / Struct(*_head(8, 20))
HEAD_V6_V6 = "commitlog-head-v6-v6" / Struct(*_head(20, 20))

RECORD = "commitlog-record" / Struct(
    "total" / Int32sb,
    "magic" / Int32sb,
    "body_crc" / Int32sb,
    "queue_id" / Int32sb,
    "flag" / Int32sb,
    "queue_offset" / Int64sb,
    "physical_offset" / Int64sb,
    "sys_flag" / Int32sb,
    "born_timestamp_ms" / Int64sb,
    "born_host" / Bytes(lambda context: 20 if context["sys_flag"] & BORN_HOST_V6 else 8),
    "store_timestamp_ms" / Int64sb,
    "store_host" / Bytes(lambda context: 20 if context["sys_flag"] & STORE_HOST_V6 else 8),
    "reconsume_times" / Int32sb,
    "prepared_offset" / Int64sb,
    "body_length" / Rebuild(Int32sb, len_(this.body)),
    "body" / Bytes(this.body_length),  # maybe compressed, see sys_flag
    "topic_length" / Rebuild(IfThenElse(this.magic == MAGIC_V2, Int16sb, Int8sb), len_(this.topic)),  # bytes
    "topic" / Bytes(this.topic_length),  # UTF-8
    "properties_length" / Rebuild(Int16sb, len_(this.properties)),  # bytes
    "properties" / Bytes(this.properties_length),  # wire/properties.py
    Terminated,
)

BLANK = "commitlog-blank" / Struct(
    "total" / Int32sb,  # bytes from here to the end of the file
    "magic" / Int32sb,  # MAGIC_BLANK; what follows it is undefined, zeros in practice
)

MESSAGE_ID_V4 = "message-id-v4" / Struct(
    "host" / Bytes(8),  # IP of the broker, then its port as an int
    "physical_offset" / Int64sb,  # bytes; MessageDecoder.createMessageId
)

MESSAGE_ID_V6 = "message-id-v6" / Struct(
    "host" / Bytes(20),
    "physical_offset" / Int64sb,
)
