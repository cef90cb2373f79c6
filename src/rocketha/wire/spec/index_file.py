"""The key index: a header, hash slots, and units chained from the newest back.  Declarations only.

Java: ``IndexHeader``, ``IndexFile``; 5,000,000 slots and 20,000,000 units by default.
"""

from __future__ import annotations

from construct import Int32sb, Int64sb, Struct

HEADER = "index-header" / Struct(
    "begin_timestamp_ms" / Int64sb,  # store time of the first record indexed here
    "end_timestamp_ms" / Int64sb,  # store time of the last one
    "begin_offset" / Int64sb,  # log offset of the first record, bytes
    "end_offset" / Int64sb,  # log offset of the last record, bytes
    "slot_count" / Int32sb,  # hash slots in use
    "unit_count" / Int32sb,  # number of the next unit; starts at 1, unit 0 is never used
)

SLOT = "index-slot" / Struct(
    "unit" / Int32sb,  # number of the newest unit of this slot, 0 for none
)

UNIT = "index-unit" / Struct(
    "key_hash" / Int32sb,  # abs(String.hashCode(topic#key)), 0 where that is negative
    "physical_offset" / Int64sb,  # bytes
    "seconds" / Int32sb,  # store time since begin_timestamp_ms, whole seconds
    "previous" / Int32sb,  # number of the next older unit of this slot, 0 for none
)
