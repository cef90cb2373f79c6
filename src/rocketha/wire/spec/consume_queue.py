"""The consume queue: one fixed entry a message of a queue.  Declarations only.

Java: ``ConsumeQueue``; files of 300,000 entries named by their first byte's offset.
"""

from __future__ import annotations

from construct import Int32sb, Int64sb, Struct

UNIT = "consume-queue-unit" / Struct(
    "physical_offset" / Int64sb,  # bytes, where the record begins in the log
    "size" / Int32sb,  # bytes of the record; > 0, or the entry is not written yet
    "tags_code" / Int64sb,  # String.hashCode of TAGS; in the schedule topic the time of delivery in ms
)

PADDING_SIZE = 0x7FFFFFFF
"""``size`` of the entries (0, PADDING_SIZE, 0) that fill the first file of a queue which begins at a later offset."""
