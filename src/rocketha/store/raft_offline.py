"""What is done to the log of a Raft node that does not run: make it the only member, or begin one from a snapshot.

Both break what Raft promises, and are for an operator who knows that there is no majority any more.  Pure but for the
disk; it must not know what the entries mean.

Theory of operation.  Raft keeps whatever a majority acknowledged, as long as a majority is there.  Where it is not, the
one that is left is taken for the truth: a membership entry behind its last one, in a term of its own, says that it is
the only voter, and it is elected at its next start.  All entries that it has count, also those of which it does not
know whether a majority had them: one that was acknowledged may be among them, and whoever proposed one that was not was
told "unknown".  etcd's ``--force-new-cluster`` drops them; HashiCorp's ``peers.json`` keeps them, as here.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketha.errors import ConfigError
from rocketha.store.disk import Disk
from rocketha.store.raft_log import SEGMENT_BYTES, RaftLog
from rocketha.wire.raft_entries import Entry, EntryKind, HardState, Members, SnapshotMeta

READ_BYTES = 1 << 20
FORCED_TERMS = 1000
"""The entry that leaves the others out is of a term so far above the newest that the node knows: above those of the
others, which may have gone on without it.  Who has this entry votes for none of them that comes back."""
UNFINISHED = ".unfinished"
"""Behind the name of a log's directory until it is whole."""


@attrs.frozen
class Place:
    """The log of one node.

    :ivar directory: of the log.
    :ivar group: the Raft group, and ``id`` the node in it.
    """

    directory: str
    group: str
    id: str


@attrs.frozen
class FoundLog:
    """What a node that does not run has.

    :ivar term: the newest that it knows.
    :ivar last_index: its last entry, and ``last_term`` that one's term.
    :ivar commit: entries up to here were certainly committed; later ones may have been.
    :ivar members: as its last membership entry says.
    :ivar snapshot: the state that the entries after it are applied to; none where its index is 0.
    :ivar entries: those after the snapshot, without membership entries.
    """

    term: int
    last_index: int
    last_term: int
    commit: int
    members: Members
    snapshot: SnapshotMeta
    snapshot_data: bytes
    entries: tuple[Entry, ...]


def look(disk: Disk, place: Place) -> FoundLog:
    """Read a log.  Opening it repairs what a crash left, as any start does, and takes its lock.

    :raises ConfigError: there is none, or it is another node's.
    :raises DiskFailure: the node runs, or the disk would not.
    :raises CorruptStore: it is damaged.
    """
    log = _open(disk, place)
    try:
        return _found(log)
    finally:
        log.close()


def force_alone(disk: Disk, place: Place, address: str, wall_ms: int) -> int:
    """Make the node the only member of its group; the index of the entry that says so.

    :param address: ``host:port`` where it is reached.
    :raises ConfigError: as of :func:`look`; the others too.
    """
    log = _open(disk, place)
    try:
        found = _found(log)
        members = Members(voters=frozenset({place.id}), addresses={place.id: address}, since_ms=wall_ms)
        term = found.term + FORCED_TERMS
        entry = Entry(found.last_index + 1, term, EntryKind.MEMBERSHIP, members.encode())
        log.save(HardState(term, place.id, found.commit), [entry])
        log.sync()
        return entry.index
    finally:
        log.close()


def begin(disk: Disk, place: Place, peers: Mapping[str, str], meta: SnapshotMeta, data: bytes) -> None:
    """A new log that begins with a snapshot; the same on each of the group's nodes.

    It is written beside and gets its name last: a node that starts on a part of it would take part in elections as one
    that knows nothing.

    :param peers: id to ``host:port`` of all voters.
    :param meta: of the snapshot; its members do not count.
    :raises ConfigError: the directory has something in it.
    :raises DiskFailure: the disk would not; the same can be done again.
    """
    if disk.exists(place.directory) and disk.list(place.directory):
        raise ConfigError(f"{place.directory} is not empty: move it away first")
    unfinished = f"{place.directory}{UNFINISHED}"
    disk.remove_tree(unfinished)
    members = Members(voters=frozenset(peers), addresses=peers)
    log = RaftLog.open(disk, unfinished, place.group, place.id, members, SEGMENT_BYTES)
    try:
        log.save(HardState(meta.term, "", 0), ())
        whole = SnapshotMeta(meta.index, meta.term, members)
        log.write_snapshot(whole, data)
        log.install_snapshot(whole)
    finally:
        log.close()
    disk.remove_tree(place.directory)
    disk.rename(unfinished, place.directory)
    disk.sync_dir(place.directory.rpartition("/")[0] or "/")


def _open(disk: Disk, place: Place) -> RaftLog:
    if not disk.exists(f"{place.directory}/state"):
        raise ConfigError(f"{place.directory} holds no log of a controller")
    return RaftLog.open(disk, place.directory, place.group, place.id, Members())


def _found(log: RaftLog) -> FoundLog:
    state, members = log.initial()
    changes = log.memberships()
    snapshot, last = log.snapshot(), log.last_index()
    data = _snapshot_data(log, snapshot.index) if snapshot.index else b""
    entries: list[Entry] = []
    low = max(snapshot.index + 1, log.first_index())
    while low <= last:
        entries += log.entries(low, last + 1, READ_BYTES)
        low = entries[-1].index + 1
    return FoundLog(
        state.term,
        last,
        log.term(last),
        max(state.commit, snapshot.index),
        Members.decode(changes[-1].data) if changes else members,
        snapshot,
        data,
        tuple([entry for entry in entries if entry.kind == EntryKind.NORMAL]),
    )


def _snapshot_data(log: RaftLog, index: int) -> bytes:
    pieces, offset = [], 0
    while piece := log.read_snapshot(offset, READ_BYTES, index):
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)
