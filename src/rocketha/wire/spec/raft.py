"""What two members of a Raft group say to each other: construct declarations only.

Ours: no Java counterpart (DLedger's JSON dialect is another encoding of the same messages).  A connection begins with
:data:`MAGIC`, then frames.  Who dials says HELLO and waits for WELCOME (or ERROR, after which the connection ends),
with CHALLENGE and PROOF before it where the group has a secret;
then the dialer sends messages and PING, the other end only PONG and ERROR: each member dials each other member.  All
integers are big-endian; terms, indexes and rounds are below 2**63.
"""

from __future__ import annotations

from construct import (
    Bytes,
    Const,
    FocusedSeq,
    GreedyBytes,
    GreedyRange,
    If,
    Int8ub,
    Int16ub,
    Int32sb,
    Int32ub,
    Int64ub,
    Prefixed,
    Rebuild,
    Struct,
    Terminated,
    len_,
    this,
)

from rocketha.wire.crc import crc32

MAGIC = b"RHRA"
"""The first bytes of a connection.  A remoting frame cannot begin so: its length word would be over a gigabyte."""

OLDEST, VERSION = 1, 1
"""Of everything below: what this program speaks.  A HELLO is written in the oldest version and names the newest; who
can speak nothing that the other can is answered by an ERROR."""

HELLO, WELCOME, ERROR, PING, PONG, CHALLENGE, PROOF = 64, 65, 66, 67, 68, 69, 70
"""Kinds of frames that are no message of the algorithm (those are 1 to 13, ``Kind``)."""

REJECT, DONE = 1, 2
"""Bits of ``flags``."""

FRAME = "raft-frame" / Struct(
    "length" / Rebuild(Int32sb, 4 + len_(this.message)),  # bytes after this word
    "crc" / Rebuild(Int32ub, lambda context: crc32(context["message"])),  # CRC-32 of the message
    "message" / Bytes(this.length - 4),  # its first byte is its kind
    Terminated,
)

HELLO_FIXED = "raft-hello-fixed" / Struct(
    "kind" / Int8ub,  # HELLO, or WELCOME in the answer
    "newer" / Int8ub,  # how many versions beyond the next number the sender speaks as well
    "version" / Int8ub,  # the oldest that it speaks: what follows is of this version, and may differ in another
)

HELLO_MESSAGE = "raft-hello" / Struct(
    "kind" / Int8ub,  # HELLO, or WELCOME in the answer
    "newer" / Int8ub,  # how many versions beyond the next number the sender speaks as well
    "version" / Int8ub,  # the oldest that it speaks, in which this is written
    "incarnation" / Int64ub,  # drawn when the process began: tells a restart from a second process
    "last_index" / Int64ub,  # newest entry of the sender's log; 0 tells that it has none
    "nonce" / Bytes(16),  # of a HELLO where the group has a secret: drawn anew for each connection; else zeros
    "group" / Prefixed(Int8ub, GreedyBytes),  # UTF-8, at most 120 bytes; both must have the same
    "sender" / Prefixed(Int8ub, GreedyBytes),  # id of the member who speaks, UTF-8, 1 to 64 bytes
    "receiver" / Prefixed(Int8ub, GreedyBytes),  # id of the member who is meant
    "address" / Prefixed(Int16ub, GreedyBytes),  # host:port of the sender in its own list, at most 300 bytes
    "members" / Prefixed(Int32ub, GreedyBytes),  # raft-members as the sender knows them (WELCOME), or nothing
    Terminated,
)

PROOF_MESSAGE = "raft-proof" / Struct(
    "kind" / Int8ub,  # CHALLENGE, or PROOF in the answer
    "nonce" / Bytes(16),  # CHALLENGE: drawn anew for each connection; PROOF: zeros
    "proof" / Bytes(32),  # HMAC-SHA256 with the group's secret, see protocols/raft_secret.py
)

ERROR_MESSAGE = "raft-error" / Struct(
    "kind" / Int8ub,  # ERROR
    "code" / Int8ub,  # RefusalCode
    "text" / Prefixed(Int16ub, GreedyBytes),  # for a person, UTF-8, at most 1,000 bytes
    Terminated,
)

PING_MESSAGE = "raft-ping" / Struct(
    "kind" / Int8ub,  # PING, or PONG in the answer
    "number" / Int64ub,  # of the ping; the answer repeats it
)

HEAD = "raft-message-head" / Struct(
    "kind" / Int8ub,  # Kind, 1 to 13
    "flags" / Int8ub,  # REJECT, DONE
    "term" / Int64ub,  # of the sender, or the one asked for (PRE_VOTE)
    "index" / Int64ub,  # of the entry before the first (APPEND), matched (its answer), last of the log (VOTE)
    "log_term" / Int64ub,  # term of the entry at index
    "commit" / Int64ub,  # index up to which the sender knows entries committed
    "hint_index" / Int64ub,  # where the logs may agree (an APPEND refused)
    "hint_term" / Int64ub,  # term of the entry there
    "context" / Int64ub,  # number of a read round, or why a vote is asked for
)

PLAIN = "raft-message" / Struct(
    "kind" / Int8ub,  # any Kind but APPEND and SNAPSHOT
    "flags" / Int8ub,  # REJECT, DONE
    "term" / Int64ub,  # of the sender, or the one asked for (PRE_VOTE)
    "index" / Int64ub,  # matched (APPEND_ANSWER), last of the log (votes), readable (READ_INDEX_ANSWER)
    "log_term" / Int64ub,  # term of the entry at index
    "commit" / Int64ub,  # index up to which the sender knows entries committed
    "hint_index" / Int64ub,  # where the logs may agree (APPEND_ANSWER with REJECT)
    "hint_term" / Int64ub,  # term of the entry there
    "context" / Int64ub,  # number of a read round, or why a vote is asked for
    Terminated,
)

RUN = 4
"""In the place of an EntryKind: several normal entries of one term together."""

ENTRY_HEAD = "raft-entry-head" / Struct(
    "kind" / Int8ub,  # EntryKind: 1 normal, 2 no-op, 3 membership; or RUN
    "term" / Int64ub,  # of the leader that made it
    "length" / Int32ub,  # bytes
)

ENTRY = "raft-entry" / Struct(
    "kind" / Int8ub,  # EntryKind: 1 normal, 2 no-op, 3 membership; or RUN
    "term" / Int64ub,  # of the leader that made it
    "length" / Rebuild(Int32ub, len_(this.data)),  # bytes
    "count" / If(this.kind == RUN, Int32ub),  # how many entries; of a run only, which only a log of messages has
    "data" / Bytes(this.length),  # the state machine's, or raft-members
)

APPEND_MESSAGE = "raft-append" / Struct(
    "kind" / Int8ub,  # Kind.APPEND
    "flags" / Int8ub,  # 0
    "term" / Int64ub,  # of the leader
    "index" / Int64ub,  # of the entry before the first one here
    "log_term" / Int64ub,  # term of that entry
    "commit" / Int64ub,  # index up to which entries are committed
    "hint_index" / Int64ub,  # 0
    "hint_term" / Int64ub,  # 0
    "context" / Int64ub,  # 0
    # FocusedSeq with Terminated: a bare GreedyRange would drop a stray partial entry without a word.
    "entries" / FocusedSeq("rows", "rows" / GreedyRange(ENTRY), Terminated),
)

SNAPSHOT_FIXED = "raft-snapshot-fixed" / Struct(
    "snapshot_index" / Int64ub,  # of the last entry it holds
    "snapshot_term" / Int64ub,  # of that entry
    "offset" / Int64ub,  # bytes of the snapshot before this piece
    "members_length" / Int32ub,  # bytes
)

SNAPSHOT_MESSAGE = "raft-snapshot" / Struct(
    "kind" / Int8ub,  # Kind.SNAPSHOT
    "flags" / Int8ub,  # DONE in the last piece
    "term" / Int64ub,  # of the leader
    "index" / Int64ub,  # 0
    "log_term" / Int64ub,  # 0
    "commit" / Int64ub,  # index up to which entries are committed
    "hint_index" / Int64ub,  # 0
    "hint_term" / Int64ub,  # 0
    "context" / Int64ub,  # 0
    "snapshot_index" / Int64ub,  # of the last entry it holds
    "snapshot_term" / Int64ub,  # of that entry
    "offset" / Int64ub,  # bytes of the snapshot before this piece
    "members_length" / Rebuild(Int32ub, len_(this.members)),  # bytes
    "members" / Bytes(this.members_length),  # the group's members as of that entry
    "data" / GreedyBytes,  # this piece
)

NEWCOMER = "raft-newcomer" / Struct(
    "magic" / Const(b"RHRNEW\r\n"),  # nothing else: that the file is there says it all
    Terminated,
)
"""The file ``newcomer`` beside a log that was begun anew in a group with a history (services/raft/newcomer.py)."""

NEWCOMER_BYTES = bytes(NEWCOMER.build({}))
