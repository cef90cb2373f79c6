"""The values that a Raft log is made of: entries, the hard state, who belongs to the group, what a snapshot is about.

Pure values, known to the log on disk, the frames on the wire and the Raft core alike; ``raft/messages.py`` gives them
on.  It must not know how an entry is stored (``wire/raft_records.py``) or sent (``wire/raft_frames.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import attrs

from rocketha.errors import RemoteProtocolError, RockethaError
from rocketha.wire import codec
from rocketha.wire.spec import raft_log as spec
from rocketha.wire.spec.format import Format

MEMBERS_MAX = 255
"""Nodes of one group, learners included."""

ID_BYTES_MAX = 255
"""UTF-8 bytes of a node's or a group's name."""

ADDRESS_BYTES_MAX = 300
"""UTF-8 bytes of ``host:port``: a host name has at most 253."""

INDEX_MAX = (1 << 63) - 1
"""Largest index and term."""

SCAN_BYTES = 1 << 20
"""Bytes of entries read at once to look for membership entries."""

MEMBERS_BYTES_MAX = 10 + MEMBERS_MAX * (1 + ID_BYTES_MAX + 2 + ADDRESS_BYTES_MAX + 1)


class Compacted(RockethaError):
    """The entry asked for is older than the oldest one kept: only a snapshot still has its effects."""


class Unavailable(RockethaError):
    """The entry asked for is behind the end of the log."""


class EntryKind(IntEnum):
    """What an entry's data is."""

    NORMAL = 1
    NO_OP = 2
    MEMBERSHIP = 3


class Entry(NamedTuple):
    """One entry of the log, or several of one term, one behind the other: a *run*, which a log of messages has.

    :ivar index: its place, from 1, without gaps; of a run, the first one's.
    :ivar term: of the leader that made it; never falls from one entry to the next.
    :ivar kind: an :class:`EntryKind` as a plain number; of a run NORMAL.
    :ivar data: what was proposed; for MEMBERSHIP, :meth:`Members.encode`'s bytes; of a run, all of them together.
    :ivar count: how many entries this is.
    """

    index: int  # type: ignore[assignment]  # tuple.index, which nobody calls
    term: int
    kind: int
    data: bytes
    count: int = 1  # type: ignore[assignment]  # tuple.count, likewise

    @property
    def last(self) -> int:
        """Index of the last one."""
        return self.index + self.count - 1


def memberships_among(read: Callable[[int, int, int], list[Entry]], low: int, high: int) -> list[Entry]:
    """The membership entries of a log that has no list of them.

    :param read: gives entries from one index to before another, of about so many bytes.
    """
    found: list[Entry] = []
    while low < high:
        batch = read(low, high, SCAN_BYTES)
        found += [entry for entry in batch if entry.kind == EntryKind.MEMBERSHIP]
        low = batch[-1].last + 1
    return found


class HardState(NamedTuple):
    """What a node must never forget.

    :ivar term: the highest term it has seen.
    :ivar vote: the node it voted for in that term, "" for none.
    :ivar commit: entries up to here are known to be committed; a hint that may lag.
    """

    term: int = 0
    vote: str = ""
    commit: int = 0


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(names)


def _copied(addresses: Mapping[str, str]) -> dict[str, str]:
    return dict(addresses)


@attrs.frozen
class Members:
    """Who belongs to the group.  The change is joint while ``outgoing`` is not empty.

    :ivar voters: vote and count for a majority (in a joint phase: the incoming configuration).
    :ivar outgoing: the voters before the change; a majority of them is needed too.
    :ivar learners: get the log, neither vote nor count.
    :ivar learners_next: outgoing voters that become learners when the joint phase ends.
    :ivar addresses: node id -> ``host:port`` where it is reached.
    :ivar witnesses: of all these, who keep no data: they vote, and never lead.
    :ivar since_ms: when they became so; None where nobody asks.  Equal members may be so since different times.
    """

    voters: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    outgoing: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    learners: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    learners_next: frozenset[str] = attrs.field(default=frozenset(), converter=_names)
    addresses: Mapping[str, str] = attrs.field(factory=dict, converter=_copied, hash=False)
    since_ms: int | None = attrs.field(default=None, eq=False)
    witnesses: frozenset[str] = attrs.field(default=frozenset(), converter=_names)

    @property
    def leaders(self) -> frozenset[str]:
        """The voters that may lead."""
        return self.voters - self.witnesses

    def ids(self) -> list[str]:
        """Every node named, sorted."""
        return sorted(self.voters | self.outgoing | self.learners | self.learners_next | set(self.addresses))

    def encode(self) -> bytes:
        """The bytes of a MEMBERSHIP entry; equal members give equal bytes, but for the time.

        :raises RemoteProtocolError: for a name that is empty or too long, or too many nodes.
        """
        nodes = [
            {
                "id": name,
                "address": self.addresses.get(name, ""),
                "roles": spec.MEMBER_VOTER * (name in self.voters)
                | spec.MEMBER_OUTGOING * (name in self.outgoing)
                | spec.MEMBER_LEARNER * (name in self.learners)
                | spec.MEMBER_LEARNER_NEXT * (name in self.learners_next)
                | spec.MEMBER_WITNESS * (name in self.witnesses),
            }
            for name in self.ids()
        ]
        _check_nodes(nodes, RemoteProtocolError)
        version = spec.VERSION if self.since_ms is None else spec.MEMBERS_TIMED
        return codec.build(spec.MEMBERS, {"version": version, "since_ms": self.since_ms, "nodes": nodes})

    @staticmethod
    def decode(data: bytes, error: Callable[[str], RockethaError] = RemoteProtocolError) -> Members:
        """The members of :meth:`encode`'s bytes.

        :raises RemoteProtocolError: (or what ``error`` makes) for anything that ``encode`` would not have written.
        """
        if len(data) > MEMBERS_BYTES_MAX:
            raise error(f"raft-members: {len(data)} bytes, at most {MEMBERS_BYTES_MAX}")
        parsed = codec.parse(spec.MEMBERS, data, error)
        if parsed.version not in (spec.VERSION, spec.MEMBERS_TIMED):
            raise error(f"raft-members: version {parsed.version}, this is {spec.MEMBERS_TIMED}")
        if parsed.since_ms is not None and parsed.since_ms > INDEX_MAX:
            raise error(f"raft-members: since {parsed.since_ms} ms")
        nodes = list(parsed.nodes)
        _check_nodes(nodes, error)

        def having(role: int) -> frozenset[str]:
            return frozenset(node["id"] for node in nodes if node["roles"] & role)

        return Members(
            having(spec.MEMBER_VOTER),
            having(spec.MEMBER_OUTGOING),
            having(spec.MEMBER_LEARNER),
            having(spec.MEMBER_LEARNER_NEXT),
            {node["id"]: node["address"] for node in nodes if node["address"]},
            parsed.since_ms,
            having(spec.MEMBER_WITNESS),
        )


def _check_nodes(nodes: list[Any], error: Callable[[str], RockethaError]) -> None:
    """Names in order, short enough, each with a role or an address."""
    if len(nodes) > MEMBERS_MAX:
        raise error(f"raft-members: {len(nodes)} nodes, at most {MEMBERS_MAX}")
    former = ""
    for node in nodes:
        name, address, roles = node["id"], node["address"], node["roles"]
        if not name or not _fits(name, ID_BYTES_MAX):
            raise error(f"raft-members: a node id of 1 to {ID_BYTES_MAX} bytes wanted, not {name[:80]!r}")
        if not _fits(address, ADDRESS_BYTES_MAX):
            raise error(f"raft-members: the address of {name} is longer than {ADDRESS_BYTES_MAX} bytes")
        if name <= former:
            raise error(f"raft-members: {name} stands behind {former}")
        if roles > 31 or not (roles & ~spec.MEMBER_WITNESS or address):
            raise error(f"raft-members: {name} has the roles {roles}")
        former = name


def _fits(text: str, size: int) -> bool:
    try:
        return len(text.encode("utf-8")) <= size
    except UnicodeEncodeError:
        return False


@attrs.frozen
class SnapshotMeta:
    """What a snapshot is about.

    :ivar index: of the last entry whose effects are in it; 0 for none.
    :ivar term: of that entry.
    :ivar members: the group as of that entry.
    """

    index: int = 0
    term: int = 0
    members: Members = attrs.field(factory=Members)


FORMATS = (
    Format(
        name="raft-members",
        spec=spec.MEMBERS,
        parse=Members.decode,
        build=Members.encode,
        bound=MEMBERS_BYTES_MAX,
        doc="Who belongs to a Raft group: the data of a membership entry, and a part of states and snapshots (ours).",
    ),
)
