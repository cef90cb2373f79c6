"""The controller's log entry and snapshot.  Declarations only.

Ours alone: Java's controllers write Hessian objects, which nothing but Java reads.  One layout serves every kind of
entry; what a kind does not use is zero or empty.  An entry is one request with what the leader knew when it asked;
the decision is made when the entry is applied.  Texts are UTF-8.
"""

from __future__ import annotations

import construct
from construct import (
    Array,
    Bytes,
    GreedyBytes,
    Int8ub,
    Int16ub,
    Int32sb,
    Int32ub,
    Int64sb,
    Prefixed,
    Rebuild,
    Struct,
    Terminated,
    len_,
    this,
)

VERSION = 1
"""Of an entry.  A reader refuses any other."""

SNAPSHOT_VERSION = 2
"""A reader takes version 1 too, whose members have no flags, and whose groups no cleaned members."""

ENTRY_FLAGS, ALIVE_FLAGS, GROUP_FLAGS, ELECTED_FLAGS, MEMBER_FLAGS = 63, 1, 7, 1, 1
"""The bits that have a meaning.  A reader refuses any other: who ignored one would decide otherwise than the rest."""

SNAPSHOT_MAGIC = b"RHCS"

TEXT = Prefixed(Int16ub, GreedyBytes)

ALIVE = "alive" / Struct(
    "broker_id" / Int64sb,
    "epoch" / Int32sb,  # last epoch of its log, from its heartbeat; -1 none
    "max_offset" / Int64sb,  # end of its log in bytes, from its heartbeat
    "priority" / Int32sb,  # electionPriority; the smallest wins
    "flags" / Int8ub,  # bit 0: it announced that it acknowledges nothing before its role is confirmed
)

SEEN = "seen" / Struct(
    "broker_id" / Int64sb,  # whom it is about
    "saw" / Int8ub,  # Saw
    "text" / TEXT,  # who saw it and how
)


def _entry_head() -> list[construct.Construct]:
    return [
        "version" / Int8ub,  # 1
        "kind" / Int8ub,  # EventKind
        "why" / Int8ub,  # Why
        "flags" / Int8ub,  # bit 0 designated, 1 the living too, 2 unclean, 3 may adopt, 4 an operator, 5 a newest epoch
        "broker_id" / Int64sb,  # whom it is about or who asks; -1 the controller
        "expected_master" / Int64sb,  # an election only if this is still the master; 0 whoever it is
        "master_epoch" / Int32sb,  # the asker's, or the one expected
        "set_epoch" / Int32sb,  # the SyncStateSet's that the asker knows; of an election, the newest that a member has
        "now_ms" / Int64sb,  # the leader's clock, for people
        "never_told" / Int64sb,  # index of the election whose winner was never told of it; 0 none
    ]


ENTRY_FIXED = "controller-entry-fixed" / Struct(*_entry_head())

ENTRY = "controller-log-entry" / Struct(
    *_entry_head(),
    "cluster" / TEXT,  # empty where the request names none
    "broker_name" / TEXT,
    "subject" / TEXT,  # check code or address
    "asker" / TEXT,  # address of who asked; empty for the controller itself
    "reason" / TEXT,  # the why in words
    "id_count" / Rebuild(Int16ub, len_(this.ids)),
    "ids" / Array(this.id_count, Int64sb),  # the new SyncStateSet, or the ids to clean, ascending
    "alive_count" / Rebuild(Int16ub, len_(this.alive)),
    "alive" / Array(this.alive_count, ALIVE),  # replicas thought alive, by id
    "seen_count" / Rebuild(Int16ub, len_(this.seen)),
    "seen" / Array(this.seen_count, SEEN),  # what probes and others said
    Terminated,
)

MEMBER = "member" / Struct(
    "broker_id" / Int64sb,  # 1 or more
    "address" / TEXT,  # host:port
    "check_code" / TEXT,  # what it applied with; empty for an adopted one
    "flags" / Int8ub,  # bit 0: it registered from another host than the one that its address names
)

DECISION = "decision" / Struct(
    "log_index" / Int64sb,  # of the log entry
    "did" / Int8ub,  # Did
    "master" / Int64sb,  # after it; 0 none
    "master_epoch" / Int32sb,  # after it
    "set_epoch" / Int32sb,  # after it
    "in_sync_count" / Rebuild(Int16ub, len_(this.in_sync)),
    "in_sync" / Array(this.in_sync_count, Int64sb),  # after it
    "entry" / Prefixed(Int32ub, GreedyBytes),  # the log entry
)


def _group_head() -> list[construct.Construct]:
    return [
        "next_id" / Int64sb,  # given to the next newcomer
        "master" / Int64sb,  # 0 none
        "master_epoch" / Int32sb,  # it never falls
        "set_epoch" / Int32sb,  # of the SyncStateSet; it never falls
        "flags" / Int8ub,  # bit 0 never had a master, 1 adopted, 2 forgotten
        "elected_id" / Int64sb,  # of the election that is not confirmed; 0 none
        "elected_index" / Int64sb,  # its log entry
        "elected_flags" / Int8ub,  # bit 0: its winner acknowledges nothing before it is confirmed
    ]


GROUP_FIXED = "controller-group-fixed" / Struct(*_group_head())

GROUP = "group" / Struct(
    *_group_head(),
    "cluster" / TEXT,
    "broker_name" / TEXT,
    "member_count" / Rebuild(Int16ub, len_(this.members)),
    "members" / Array(this.member_count, MEMBER),  # by id
    "in_sync_count" / Rebuild(Int16ub, len_(this.in_sync)),
    "in_sync" / Array(this.in_sync_count, Int64sb),  # the SyncStateSet, ascending
    "before_count" / Rebuild(Int16ub, len_(this.before)),
    "before" / Array(this.before_count, Int64sb),  # the SyncStateSet before the election that is not confirmed
    "retired_count" / Rebuild(Int16ub, len_(this.retired)),
    "retired" / Array(this.retired_count, Int64sb),  # ids that were cleaned, not given again
    "cleaned_count" / Rebuild(Int16ub, len_(this.cleaned)),
    "cleaned" / Array(this.cleaned_count, MEMBER),  # members that were, the one cleaned first is first
    "holder_count" / Rebuild(Int16ub, len_(this.holders)),
    "holders" / Array(this.holder_count, Int64sb),  # the last SyncStateSet, where cleaning left nobody of it
    "decision_count" / Rebuild(Int16ub, len_(this.decisions)),
    "decisions" / Array(this.decision_count, Prefixed(Int32ub, DECISION)),  # oldest first
)

SNAPSHOT_FIXED = "controller-snapshot-fixed" / Struct(
    "magic" / Bytes(4),  # RHCS
    "version" / Int8ub,
    "log_index" / Int64sb,  # of the last entry in it
    "group_count" / Int32ub,
)

SNAPSHOT = "controller-snapshot" / Struct(
    "magic" / Bytes(4),  # RHCS
    "version" / Int8ub,  # 2
    "log_index" / Int64sb,  # of the last entry in it
    "group_count" / Rebuild(Int32ub, len_(this.groups)),
    "groups" / Array(this.group_count, GROUP),  # by cluster, then broker name
    "crc32" / Int32ub,  # over everything before it
    Terminated,
)
