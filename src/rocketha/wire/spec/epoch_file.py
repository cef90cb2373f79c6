"""The file epochFileCheckpoint: which master wrote which part of the log.  Declarations only.

Text; numbers are decimal ASCII, lines end with a line feed.  Java: ``CheckpointFile``, ``EpochFileCache``.
"""

from __future__ import annotations

from construct import FocusedSeq, GreedyBytes, GreedyRange, NullTerminated, Struct, Terminated

ENTRY = "epoch-file-entry" / Struct(
    "epoch" / NullTerminated(GreedyBytes, term=b"-"),  # of a master
    "start_offset" / NullTerminated(GreedyBytes, term=b"\n"),  # log offset of the first byte written in that epoch
)

FILE = "epoch-file" / Struct(
    "count" / NullTerminated(GreedyBytes, term=b"\n"),  # of entries
    "crc" / NullTerminated(GreedyBytes, term=b"\n"),  # CRC-32 of the lines that follow, sign bit cleared; 0: unchecked
    "entries" / FocusedSeq("rows", "rows" / GreedyRange(ENTRY), Terminated),  # ascending
)
