"""The classic HA link: construct declarations only.

Two one-way streams on one TCP connection, without a handshake.  A slave speaks first: its first report says from where
it wants the log.  Java: ``DefaultHAClient``, ``DefaultHAConnection``.
"""

from __future__ import annotations

from construct import Bytes, Int32sb, Int64sb, Rebuild, Struct, Terminated, len_, this

REPORT = "ha-classic-report" / Struct(
    "offset" / Int64sb,  # end of the slave's log; the first report on a connection asks for the log from there
)

HEAD = "ha-classic-head" / Struct(
    "offset" / Int64sb,  # log offset of the first body byte; of a heartbeat the master's next transfer position
    "size" / Int32sb,  # bytes of the body that follows, 0 for a heartbeat
)

DATA = "ha-classic-data" / Struct(
    "offset" / Int64sb,  # log offset of the first body byte; of a heartbeat the master's next transfer position
    "size" / Rebuild(Int32sb, len_(this.body)),  # bytes of the body, 0 for a heartbeat
    "body" / Bytes(this.size),  # log bytes of one file, cut anywhere
    Terminated,
)
