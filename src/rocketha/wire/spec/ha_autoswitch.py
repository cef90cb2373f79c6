"""The HA link of controller mode, in its four dialects: construct declarations only.

A connection begins with the slave's greeting and the master's answer (HANDSHAKE), then the slave reports and the master
sends its log (TRANSFER).  The greeting is of 16 bytes since RocketMQ 5.1.1; 5.0.0 to 5.1.0 name an address in place of
the broker id; the design document pads that address to 50 bytes; 5.0.0 answers with a longer head.
Java: ``AutoSwitchHAClient``, ``AutoSwitchHAConnection``.
"""

from __future__ import annotations

from construct import Bytes, Const, Int16sb, Int32sb, Int64sb, Padded, Rebuild, Struct, Terminated, len_, this

HANDSHAKE, TRANSFER = 1, 2
"""``HAConnectionState``; its other members (READY, SUSPEND, SHUTDOWN) are never on the wire."""

ADDRESS_BYTES = 50
"""Most bytes of a slave's address, and the width it is padded to in the design document's greeting."""

ENTRY_BYTES = 12

SLAVE_HELLO = "ha-slave-hello" / Struct(
    "state" / Const(HANDSHAKE, Int32sb),
    "sync_from_last_file" / Int16sb,  # 1: an empty slave wants only the master's last file
    "async_learner" / Int16sb,  # 1: never to be counted in the SyncStateSet
    "broker_id" / Int64sb,  # the slave's id at the controller, from 1
    Terminated,
)

SLAVE_HELLO_HEAD = "ha-slave-hello-head" / Struct(
    "state" / Int32sb,  # HANDSHAKE
    "sync_from_last_file" / Int16sb,  # 1: an empty slave wants only the master's last file
    "async_learner" / Int16sb,  # 1: never to be counted in the SyncStateSet
    "word" / Int32sb,  # 0: upper half of a broker id; 1 to 50: bytes of an address
)

SLAVE_HELLO_ADDRESS = "ha-slave-hello-address" / Struct(
    "state" / Const(HANDSHAKE, Int32sb),
    "sync_from_last_file" / Int16sb,  # 1: an empty slave wants only the master's last file
    "async_learner" / Int16sb,  # 1: never to be counted in the SyncStateSet
    "length" / Rebuild(Int32sb, len_(this.address)),  # bytes, 1 to 50
    "address" / Bytes(this.length),  # host:port of the slave, UTF-8
    Terminated,
)

SLAVE_HELLO_SEED = "ha-slave-hello-seed" / Struct(
    "state" / Const(HANDSHAKE, Int32sb),
    "sync_from_last_file" / Int16sb,  # 1: an empty slave wants only the master's last file
    "async_learner" / Int16sb,  # 1: never to be counted in the SyncStateSet
    "length" / Rebuild(Int32sb, len_(this.address)),  # bytes of the address itself, 1 to 50
    "address" / Padded(ADDRESS_BYTES, Bytes(this.length)),  # host:port of the slave, UTF-8, then zeros up to 50 bytes
    Terminated,
)

REPORT_HEAD = "ha-report-head" / Struct(
    "state" / Int32sb,  # TRANSFER
    "offset" / Int64sb,  # end of the slave's log
)

REPORT = "ha-report" / Struct(
    "state" / Const(TRANSFER, Int32sb),
    "offset" / Int64sb,  # end of the slave's log; the first report asks for the log from there
    Terminated,
)

ENTRY = "ha-epoch-entry" / Struct(
    "epoch" / Int32sb,  # of a master
    "start_offset" / Int64sb,  # log offset of the first byte written in that epoch
)

MASTER_HELLO_HEAD = "ha-master-hello-head" / Struct(
    "state" / Int32sb,  # HANDSHAKE
    "size" / Int32sb,  # bytes of the entries
    "max_offset" / Int64sb,  # end of the master's log
    "epoch" / Int32sb,  # of the newest entry, -1 if there is none
)

MASTER_HELLO = "ha-master-hello" / Struct(
    "state" / Const(HANDSHAKE, Int32sb),
    "size" / Rebuild(Int32sb, ENTRY_BYTES * len_(this.entries)),  # bytes of the entries
    "max_offset" / Int64sb,  # end of the master's log
    "epoch" / Int32sb,  # of the newest entry, -1 if there is none
    "entries" / ENTRY[this.size // ENTRY_BYTES],  # ascending
    Terminated,
)

MASTER_HELLO_5_0_0 = "ha-master-hello-5.0.0" / Struct(
    "state" / Const(HANDSHAKE, Int32sb),
    "size" / Rebuild(Int32sb, ENTRY_BYTES * len_(this.entries)),  # bytes of the entries
    "max_offset" / Int64sb,  # end of the master's log
    "epoch" / Int32sb,  # of the newest entry, -1 if there is none
    "epoch_start" / Int64sb,  # 0, not read
    "confirm_offset" / Int64sb,  # 0, not read
    "entries" / ENTRY[this.size // ENTRY_BYTES],  # ascending
    Terminated,
)

DATA_HEAD = "ha-data-head" / Struct(
    "state" / Int32sb,  # TRANSFER
    "size" / Int32sb,  # bytes of the body that follows
    "offset" / Int64sb,  # log offset of the first body byte
    "epoch" / Int32sb,  # of the master that wrote the body
    "epoch_start" / Int64sb,  # log offset at which that epoch begins
    "confirm_offset" / Int64sb,  # end of what every member of the SyncStateSet holds
)

DATA = "ha-data" / Struct(
    "state" / Const(TRANSFER, Int32sb),
    "size" / Rebuild(Int32sb, len_(this.body)),  # bytes of the body; 0 for a heartbeat and to announce an epoch
    "offset" / Int64sb,  # log offset of the first body byte; -1 in a heartbeat of a master without a file
    "epoch" / Int32sb,  # of the master that wrote the body
    "epoch_start" / Int64sb,  # log offset at which that epoch begins
    "confirm_offset" / Int64sb,  # end of what every member of the SyncStateSet holds; -1 while it is not known
    "body" / Bytes(this.size),  # log bytes of one file and one epoch, cut anywhere
    Terminated,
)
