"""The values the core speaks in: entries, members, snapshots' descriptions, messages, and what a turn hands out.

Pure.  The values that go through codecs are declared in ``wire`` (codecs may not import the core) and named
here; :class:`Ready` and :class:`ReadState` are between the core and its driver only.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs

from rocketha.wire.raft_entries import Entry as Entry
from rocketha.wire.raft_entries import EntryKind as EntryKind
from rocketha.wire.raft_entries import HardState as HardState
from rocketha.wire.raft_entries import Members as Members
from rocketha.wire.raft_entries import SnapshotMeta as SnapshotMeta
from rocketha.wire.raft_values import Kind as Kind
from rocketha.wire.raft_values import Message as Message

FORCED = 1
"""``context`` of a VOTE that the leader itself asked for: leader stickiness does not refuse it."""

UNSURE = 1
"""``context`` of a granted vote: the voter's disk was empty, it cannot know what it acknowledged before."""

COMMIT_ONLY = 1
"""``context`` of an APPEND that only tells the commit index: accepted, it is not answered."""


class ReadState(NamedTuple):
    """A read that may be served once everything up to ``index`` is applied; ``context`` is the asker's number."""

    context: int
    index: int  # type: ignore[assignment]


@attrs.frozen
class Ready:
    """What the driver has to do now.  In this order:

    1. ``messages_now`` may leave at any time from here on.
    2. Save ``hard_state`` (atomically, on disk before the next step if term or vote changed), then install
       ``snapshot`` in place of log and state machine and call ``RaftNode.persisted_snapshot``, then write ``entries``
       (the stored log is cut before ``entries[0].index`` first).  All this before the next Ready is taken.
    3. Sync, if ``must_sync``; call ``RaftNode.persisted(last index, its term)`` when that is done.  Syncs may run
       beside later Readys; one sync may cover several.
    4. Send ``messages_after_sync``.
    5. Apply ``committed`` (in order; NO_OP and MEMBERSHIP entries too) and call ``RaftNode.applied_to``.

    :ivar hard_state: None if there is nothing to save.
    :ivar must_sync: False if nothing here needs to be on disk (``hard_state`` is a new commit hint only).
    :ivar snapshot: a snapshot received whole, with its bytes.
    :ivar entries: what to append.
    :ivar messages_now: promise nothing that is not on disk already.
    :ivar messages_after_sync: promise what this Ready saves (votes).  A follower's answer to an APPEND is made only
        after ``persisted`` and is then a message of ``messages_now``.
    :ivar committed: to apply; always synced here before.
    :ivar reads: may be served once ``index`` is applied.
    :ivar lost_reads: contexts of reads that will not be answered (the leader changed); ask again.
    :ivar leader_changed: ``role``, ``term`` or ``leader_id`` differ from the last Ready's.
    """

    hard_state: HardState | None = None
    must_sync: bool = False
    snapshot: tuple[SnapshotMeta, bytes] | None = None
    entries: tuple[Entry, ...] = ()
    messages_now: tuple[Message, ...] = ()
    messages_after_sync: tuple[Message, ...] = ()
    committed: tuple[Entry, ...] = ()
    reads: tuple[ReadState, ...] = ()
    lost_reads: tuple[int, ...] = ()
    leader_changed: bool = False
