"""DLedger's files, of dledger 0.3.2 as RocketMQ 5.5.0 ships it: entries and the index of entries.  Declarations only.

Java: ``DLedgerEntryCoder``, ``DLedgerMmapFileStore``, ``MmapFileList``.  All integers big-endian and signed.  Nothing
here has a checksum: the two fields that are called so are never set.
"""

from __future__ import annotations

from construct import Const, If, Int8ub, Int16ub, Int32sb, Int64sb, Int64ub, PascalString, Struct, this

MAGIC = 1
"""DLedgerEntryType.NORMAL.  The 0.4.0 line adds 2, an entry without a meaning, and 3, a change of the members."""

MAGIC_FILLER = -1
"""The rest of this file is unused.  MmapFileList.BLANK_MAGIC_CODE"""

WITH_ORIGIN = 2
"""Version of a term's start whose leader has a log that an ordinary broker began."""

ENTRY_HEAD = "dledger-entry-head" / Struct(
    "magic" / Int32sb,  # MAGIC
    "size" / Int32sb,  # bytes of the whole entry, this head included
    "index" / Int64sb,  # number of the entry, from 0
    "term" / Int64sb,  # of the leader that appended it
    "position" / Int64sb,  # bytes from the begin of the log to this entry
    "channel" / Int32sb,  # 0
    "chain_crc" / Int32sb,  # 0, never set
    "body_crc" / Int32sb,  # 0, never set
    "body_length" / Int32sb,  # size - 48; the body is one record of the message log, or nothing
)

FILLER = "dledger-filler" / Struct(
    "magic" / Const(MAGIC_FILLER, Int32sb),
    "total" / Int32sb,  # bytes from here to the end of the file
)

INDEX_UNIT = "dledger-index-unit" / Struct(
    "magic" / Int32sb,  # of the entry, as are all fields
    "position" / Int64sb,
    "size" / Int32sb,
    "index" / Int64sb,  # the unit stands at 32 times this
    "term" / Int64sb,
)

TERM_START = "dledger-term-start" / Struct(
    "version" / Int8ub,  # 1, or WITH_ORIGIN
    "time_ms" / Int64sb,  # when the leader took its office
    "address" / PascalString(Int16ub, "utf8"),  # host:port of its main port, where clients send
    "origin" / If(this.version == WITH_ORIGIN, Int64ub),  # tells apart what ordinary brokers had before
)
"""Body of the record in the first entry of a term that a leader of ours wrote; in a log that an ordinary broker began
also in its first entry, which each member writes by itself."""

LOG_BEGIN = "dledger-log-begin" / Struct(
    "version" / Const(1, Int8ub),
    "position" / Int64sb,  # of the first entry that the leader still has
)
"""What a leader of ours sends a member that lacks entries which are gone: the rest of the log begins there."""
