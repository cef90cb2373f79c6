"""Who belongs to a Raft group: the body of a membership entry and part of a snapshot's description.  Declarations only.

Ours; DLedger has no membership change, its peers are configuration.
"""

from __future__ import annotations

from construct import Const, Int8ub, Int16ub, PascalString, PrefixedArray, Struct, Terminated

VERSION = b"\x01"

VOTER = 1
OUTGOING = 2
LEARNER = 4
LEARNER_NEXT = 8

MEMBER = "member" / Struct(
    "parts" / Int8ub,  # sum of VOTER, OUTGOING (a voter of the configuration that is being left), LEARNER, LEARNER_NEXT
    "id" / PascalString(Int8ub, "utf8"),  # selfId of the controller ("n0")
    "address" / PascalString(Int16ub, "utf8"),  # host:port, "" if unknown
)

MEMBERS = "members" / Struct(
    "version" / Const(VERSION),
    "members" / PrefixedArray(Int16ub, MEMBER),  # sorted by id, each id once
    Terminated,
)
