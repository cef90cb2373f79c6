"""What a Raft node keeps on its disk: log segments, the hard state, progress hints, snapshots.  Declarations only.

Ours alone; no Java counterpart (DLedger keeps ``term`` and ``vote`` as text without fsync and no CRC over an entry).
All integers are big-endian and unsigned.  ``store/raft_log.py`` says how the files work together.
"""

from __future__ import annotations

from construct import (
    Bytes,
    GreedyBytes,
    If,
    Int8ub,
    Int16ub,
    Int32ub,
    Int64ub,
    PascalString,
    Prefixed,
    PrefixedArray,
    Struct,
    Terminated,
    this,
)

VERSION = 1
"""Format version of every file here; a reader refuses others."""

SEGMENT_MAGIC = b"RHRLOG\r\n"
STATE_MAGIC = b"RHRVOTE\n"
PROGRESS_MAGIC = b"RHRHINT\n"
SNAPSHOT_MAGIC = b"RHRSNAP\n"
MEMBERSHIPS_MAGIC = b"RHRMBRS\n"
WITNESS_MAGIC = b"RHRWTNS\n"

RECORD_MARK = b"RLE"
"""Begins what a record's CRC covers: what a search for records behind a damaged one looks for."""

SEGMENT_HEADER_BYTES_MAX = 1024
SNAPSHOT_HEADER_BYTES_MAX = 192 * 1024
"""A header's length word is believed up to here."""

MEMBER_VOTER = 1
MEMBER_OUTGOING = 2
MEMBER_LEARNER = 4
MEMBER_LEARNER_NEXT = 8
MEMBER_WITNESS = 16

MEMBERS_TIMED = 2
"""Version of members that say when they became so, which those of a message log do."""

MEMBERS = "raft-members" / Struct(
    "version" / Int8ub,  # VERSION, or MEMBERS_TIMED
    "since_ms" / If(this.version == MEMBERS_TIMED, Int64ub),  # when the leader wrote this
    "nodes"
    / PrefixedArray(
        Int8ub,
        "raft-member"
        / Struct(
            "id" / PascalString(Int8ub, "utf8"),  # of the node; ids ascend
            "address" / PascalString(Int16ub, "utf8"),  # host:port, empty when unknown
            "roles"
            / Int8ub,  # bits: 1 voter, 2 outgoing voter, 4 learner, 8 learner when the joint phase ends, 16 witness
        ),
    ),
    Terminated,
)

RECORD_HEAD = "raft-record-head" / Struct(
    "crc" / Int32ub,  # CRC-32 of all that follows in the record, begun with the crc of the segment's header
    "mark" / Bytes(3),  # RECORD_MARK
    "kind" / Int8ub,  # EntryKind: 1 normal, 2 no-op, 3 membership
    "length" / Int32ub,  # bytes of data
    "unsynced" / Int32ub,  # index minus the highest index known to be synced when this was written, saturated
    "uncommitted" / Int32ub,  # index minus the highest index known to be committed then, saturated
    "index" / Int64ub,  # of the entry, from 1
    "term" / Int64ub,  # of the leader that made the entry
)

RECORD = "raft-record" / Struct(
    "crc" / Int32ub,  # CRC-32 of all that follows, begun with the crc of the segment's header
    "mark" / Bytes(3),  # "RLE"
    "kind" / Int8ub,  # 1 normal, 2 no-op, 3 membership
    "length" / Int32ub,  # bytes of data
    "unsynced" / Int32ub,  # index minus the highest index known to be synced when this was written, saturated
    "uncommitted" / Int32ub,  # index minus the highest index known to be committed then, saturated
    "index" / Int64ub,  # of the entry, from 1
    "term" / Int64ub,  # of the leader that made the entry
    "data" / Bytes(lambda context: context["length"]),  # what was proposed; of a membership entry, raft-members
    Terminated,
)

SEGMENT_HEADER = "raft-segment-header" / Struct(
    "magic" / Bytes(8),  # SEGMENT_MAGIC
    "crc" / Int32ub,  # CRC-32 of all that follows in the header
    "header_bytes" / Int32ub,  # bytes of the header: where the first record begins
    "version" / Int8ub,  # VERSION
    "base" / Int8ub,  # 1: the log begins here, behind a snapshot (or nothing); older segments are dead
    "sequence" / Int64ub,  # number of the segment, rising; it replaces what older segments hold from first_index on
    "first_index" / Int64ub,  # index of the first entry
    "previous_term" / Int64ub,  # term of the entry before the first; 0 where there is none
    "previous_crc" / Int32ub,  # crc of the record before the first; 0 where base is 1
    "group" / PascalString(Int8ub, "utf8"),  # the Raft group
    "node" / PascalString(Int8ub, "utf8"),  # the node whose log this is
    Terminated,
)

HARD_STATE = "raft-hard-state" / Struct(
    "magic" / Bytes(8),  # STATE_MAGIC
    "crc" / Int32ub,  # CRC-32 of all that follows
    "version" / Int8ub,  # VERSION
    "term" / Int64ub,  # the highest term this node has seen
    "vote" / PascalString(Int8ub, "utf8"),  # the node voted for in that term, empty for none
    "commit" / Int64ub,  # a hint: entries up to here were known to be committed
    "sequence" / Int64ub,  # of the newest segment when this was written
    "group" / PascalString(Int8ub, "utf8"),  # the Raft group
    "node" / PascalString(Int8ub, "utf8"),  # the node whose state this is
    "members" / Prefixed(Int32ub, GreedyBytes),  # raft-members the group began with
    Terminated,
)

MEMBERSHIPS = "raft-memberships" / Struct(
    "magic" / Bytes(8),  # MEMBERSHIPS_MAGIC
    "crc" / Int32ub,  # CRC-32 of all that follows
    "version" / Int8ub,  # VERSION
    "rows"
    / PrefixedArray(
        Int16ub,
        "raft-membership"
        / Struct(
            "index" / Int64ub,  # of the membership entry, rising
            "term" / Int64ub,  # of that entry
            "members" / Prefixed(Int32ub, GreedyBytes),  # raft-members, the entry's data
        ),
    ),
    Terminated,
)

WITNESS = "raft-witness" / Struct(
    "magic" / Bytes(8),  # WITNESS_MAGIC
    "crc" / Int32ub,  # CRC-32 of all that follows
    "length" / Int32ub,  # bytes of all that follows
    "version" / Int8ub,  # VERSION
    "number" / Int64ub,  # of this state, rising: the larger of the two slots' is the newer
    "last_index" / Int64ub,  # of the last entry
    "members" / Prefixed(Int32ub, GreedyBytes),  # raft-members as of the first span's begin
    "spans"
    / PrefixedArray(
        Int32ub,
        "raft-witness-span"
        / Struct(
            "index" / Int64ub,  # of the first entry, rising; of the first span, the last entry that was committed
            "term" / Int64ub,  # of all entries up to the next span, or the last entry
        ),
    ),
    "memberships"
    / PrefixedArray(
        Int16ub,
        "raft-membership"
        / Struct(
            "index" / Int64ub,  # of a membership entry behind the first span's begin, rising
            "term" / Int64ub,  # of that entry
            "members" / Prefixed(Int32ub, GreedyBytes),  # raft-members, the entry's data
        ),
    ),
    Terminated,
)

WITNESS_SLOT_BYTES = 1 << 20
"""The file has two slots, written in turn, each synced before the other is written."""

PROGRESS = "raft-progress" / Struct(
    "magic" / Bytes(8),  # PROGRESS_MAGIC
    "crc" / Int32ub,  # CRC-32 of all that follows
    "number" / Int64ub,  # of the hint, rising: the larger of the two slots' is the newer
    "sequence" / Int64ub,  # of the segment that synced is about
    "synced" / Int64ub,  # entries up to here were synced
    "commit" / Int64ub,  # entries up to here were known to be committed
)

PROGRESS_SLOT_BYTES = 4096
"""The file has two slots, written in turn, so that a torn write leaves one."""

SNAPSHOT_HEADER = "raft-snapshot-header" / Struct(
    "magic" / Bytes(8),  # SNAPSHOT_MAGIC
    "crc" / Int32ub,  # CRC-32 of all that follows in the header
    "header_bytes" / Int32ub,  # bytes of the header: where the first block begins
    "version" / Int8ub,  # VERSION
    "index" / Int64ub,  # of the last entry whose effects are in the data
    "term" / Int64ub,  # of that entry
    "length" / Int64ub,  # bytes of data, block checksums not counted
    "data_crc" / Int32ub,  # CRC-32 of the data
    "group" / PascalString(Int8ub, "utf8"),  # the Raft group
    "node" / PascalString(Int8ub, "utf8"),  # the node that wrote the file
    "members" / Prefixed(Int32ub, GreedyBytes),  # raft-members as of that entry
    Terminated,
)

SNAPSHOT_BLOCK = "raft-snapshot-block" / Struct(
    "crc" / Int32ub,  # CRC-32 of the data, begun with that of the snapshot's index and term and the block's number
    "data" / GreedyBytes,  # SNAPSHOT_BLOCK_BYTES, fewer in the last block
)

SNAPSHOT_BLOCK_BYTES = 64 * 1024
"""Data bytes of a block."""
