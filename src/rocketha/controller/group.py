"""One broker group as the controller knows it, and every change that can happen to it.

Knows no request, no answer and no evidence: what is allowed is decided in ``elections.py``, ``sync_state.py`` and
``registration.py``.  Theory of operation: those return a frozen change, :meth:`BrokerGroup.take` carries it out; all
transitions are here.  Java keeps the same in two classes keyed by broker name alone, ``BrokerReplicaInfo`` and
``SyncStateInfo``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from rocketha.wire.controller_log import GroupRow, MemberRow

FIRST_BROKER_ID = 1
DECISIONS_MAX = 16
"""Decisions of the audit trail that are kept of one group."""

ADOPTED_SET_EPOCH = 1 << 20
"""The SyncStateSet's epoch of an adopted group begins at a multiple of this, above whatever its brokers remember."""

ADOPTED_ROUNDS_MAX = 2046
"""The largest such multiple: set epochs are 32 bits on Java's wire, and there is to be room above."""

EPOCH_MAX = 2**31 - 2**16
"""Epochs are 32 bits on Java's wire, in its brokers' files and in our log; no election goes beyond this one."""

CLEANED_MAX = 256
"""Cleaned members that a group remembers: as many as it may have members."""

LOST_MAX = 1 << 20
"""Elections that controllers may have lost.  A member that is further ahead is wrong or lies: to go on above it would
use up the epochs."""

ADOPTED_EPOCH_MARGIN = 100
"""How far above the newest epoch in the logs of an adopted group's brokers its first master's epoch lies."""

RESTORED_IDS_MARGIN = 100
"""How far above those that an old copy knows of the ids lie that are given next: ids were given since."""


class GroupKey(NamedTuple):
    """Broker names are unique within their cluster only."""

    cluster: str
    broker_name: str


class Member(NamedTuple):
    """A registered broker."""

    address: str  # host:port
    check_code: str  # what it applied for its id with; empty for an adopted one
    elsewhere: bool = False  # it registered from another host than the one that its address names


class Unconfirmed(NamedTuple):
    """The last election, while it is not known that its winner heard of it."""

    winner: int
    log_index: int  # of the election in the log
    before: tuple[int, ...]  # the SyncStateSet before it, ascending: all of them hold what was acknowledged
    confirms: bool  # the winner acknowledges nothing before it is confirmed


class Did(IntEnum):
    """What an entry did to its group."""

    NOTHING = 0
    ID_APPLIED = 1
    ADDRESS_CHANGED = 2
    ADOPTED = 3
    ELECTED = 4
    UNSEATED = 5  # the group has no master
    TAKEN_BACK = 6  # an unconfirmed election was replaced by another from the set before it
    SET_CHANGED = 7
    CLEANED = 8
    FORGOTTEN = 9
    CONFIRMED = 10
    RETURNED = 11  # a cleaned member came back
    OUTDATED = 12  # its elections since were lost: it has no master and no set until an operator elects


# -- changes ------------------------------------------------------------------------------------------------------


class Joined(NamedTuple):
    """A broker got an id that nobody had before."""

    broker_id: int
    member: Member
    did: Did = Did.ID_APPLIED


class Returned(NamedTuple):
    """A member that was cleaned is one again."""

    broker_id: int
    did: Did = Did.RETURNED


class Moved(NamedTuple):
    """A broker has a new address."""

    broker_id: int
    address: str
    elsewhere: bool = False
    did: Did = Did.ADDRESS_CHANGED


class Elected(NamedTuple):
    """A new master, alone in the SyncStateSet."""

    winner: int
    unconfirmed: bool  # it does not know yet
    before: tuple[int, ...]  # see Unconfirmed
    confirms: bool
    epoch_base: int = 0  # the new epoch is above this one too
    did: Did = Did.ELECTED


class Unseated(NamedTuple):
    """The master is gone and nobody may take its place."""

    did: Did = Did.UNSEATED


class Outdated(NamedTuple):
    """The master is gone, and a member knows of an election that the group does not."""

    newest_epoch: int  # of that election: it may be that only the dead have it, and it is given to nobody again
    did: Did = Did.OUTDATED


class SetChanged(NamedTuple):
    """The master's report of who is in sync."""

    new_set: tuple[int, ...]
    did: Did = Did.SET_CHANGED


class Cleaned(NamedTuple):
    """Some ids are no more."""

    broker_ids: tuple[int, ...]
    did: Did = Did.CLEANED


class Forgotten(NamedTuple):
    """The whole group is no more; what must never come again is kept."""

    did: Did = Did.FORGOTTEN


class Confirmed(NamedTuple):
    """The master knows that it is."""

    did: Did = Did.CONFIRMED


Change = Joined | Returned | Moved | Elected | Unseated | Outdated | SetChanged | Cleaned | Forgotten | Confirmed


class BrokerGroup:
    """The members of one broker name in one cluster, their master and their SyncStateSet.

    Invariants: the epochs and ``next_id`` never fall; an id in ``retired`` never is a member again; ``in_sync`` holds
    members only, ascending; a master is a member and in ``in_sync``; while ``forgotten`` there are no members;
    ``holders`` are members or in ``cleaned``, ascending, and none while there is an ``in_sync``.
    """

    __slots__ = (
        "adopted",
        "cleaned",
        "decisions",
        "forgotten",
        "holders",
        "in_sync",
        "key",
        "master",
        "master_epoch",
        "members",
        "never_elected",
        "next_id",
        "retired",
        "set_epoch",
        "unconfirmed",
    )

    def __init__(self, key: GroupKey) -> None:
        self.key = key
        self.next_id = FIRST_BROKER_ID
        self.members: dict[int, Member] = {}
        self.master = 0  # 0: none
        self.master_epoch = 0
        self.in_sync: tuple[int, ...] = ()
        self.set_epoch = 0
        self.never_elected = True  # since it was made, or made again after it was forgotten
        self.adopted = False  # made from what a broker brought: nobody knows who holds what was acknowledged
        self.forgotten = False
        self.retired: tuple[int, ...] = ()
        self.cleaned: dict[int, Member] = {}  # members that were, and may come back; the one cleaned first is first
        self.holders: tuple[int, ...] = ()  # the last SyncStateSet, since cleaning left nobody of it
        self.unconfirmed: Unconfirmed | None = None
        self.decisions: deque[bytes] = deque(maxlen=DECISIONS_MAX)  # encoded DecisionRow, oldest first

    @property
    def cluster(self) -> str:
        return self.key.cluster

    @property
    def broker_name(self) -> str:
        return self.key.broker_name

    @property
    def master_id(self) -> int | None:
        return self.master or None

    @property
    def former(self) -> tuple[int, ...]:
        """The set before the last election while that one is void if its winner dies; else nobody.  Where cleaning left
        no set: ``returned``.

        Not of a winner that acknowledges as soon as it hears of it (Java's): whether it did is not in the log.
        """
        void = self.unconfirmed
        if not self.in_sync:
            return self.returned
        return void.before if void is not None and void.confirms and self.master in (0, void.winner) else ()

    @property
    def returned(self) -> tuple[int, ...]:
        """The holders that are members again and register from the host that their address names.

        Anybody may name an address; only who lives there has what its holder acknowledged.
        """
        members = self.members
        return tuple([each for each in self.holders if each in members and not members[each].elsewhere])

    @property
    def addresses(self) -> Mapping[int, str]:
        """Id to host:port, ascending."""
        return {broker_id: self.members[broker_id].address for broker_id in sorted(self.members)}

    def address(self, broker_id: int) -> str | None:
        """Of a member; None for anybody else."""
        member = self.members.get(broker_id)
        return member.address if member is not None else None

    # -- transitions ------------------------------------------------------------------------------------------------

    def take(self, change: Change, index: int) -> None:
        """Carry out a change that log entry ``index`` decided."""
        _TRANSITIONS[type(change)](self, change, index)

    def _join(self, change: Joined, index: int) -> None:
        if change.did is Did.ADOPTED and self.next_id == FIRST_BROKER_ID:
            self.adopted = True  # of such a group nobody knows which ids were given
            self.set_epoch = max(self.set_epoch, ADOPTED_SET_EPOCH)
        self.forgotten = False
        self.members[change.broker_id] = change.member
        self.next_id = max(self.next_id, change.broker_id + 1)

    def _return(self, change: Returned, index: int) -> None:
        self.forgotten = False
        self.members[change.broker_id] = self.cleaned.pop(change.broker_id)
        self.retired = tuple([broker_id for broker_id in self.retired if broker_id != change.broker_id])

    def _move(self, change: Moved, index: int) -> None:
        member = self.members[change.broker_id]
        if member.address != change.address:
            self.holders = tuple([broker_id for broker_id in self.holders if broker_id != change.broker_id])
        self.members[change.broker_id] = member._replace(address=change.address, elsewhere=change.elsewhere)
        if self.unconfirmed is not None and self.unconfirmed.winner == change.broker_id:
            self.unconfirmed = None  # the answer to its registration may have told it

    def _elect(self, change: Elected, index: int) -> None:
        self.master = change.winner
        self.master_epoch = max(self.master_epoch, change.epoch_base) + 1
        self.in_sync = (change.winner,)
        self.holders = ()
        # Its logs have the epochs of every adoption before, so that a second one begins above the first.
        adoptions = min(change.epoch_base // ADOPTED_EPOCH_MARGIN, ADOPTED_ROUNDS_MAX)
        self.set_epoch = max(self.set_epoch, adoptions * ADOPTED_SET_EPOCH) + 1
        self.never_elected = False
        self.unconfirmed = (
            Unconfirmed(change.winner, index, change.before, change.confirms) if change.unconfirmed else None
        )

    def _unseat(self, change: Unseated, index: int) -> None:
        self.master = 0
        self.master_epoch += 1

    def _outdate(self, change: Outdated, index: int) -> None:
        self.forget_roles()
        self.master_epoch = max(self.master_epoch + 1, change.newest_epoch)
        self.set_epoch += 1

    def _change_set(self, change: SetChanged, index: int) -> None:
        self.in_sync = change.new_set
        self.set_epoch += 1
        self.unconfirmed = None

    def _clean(self, change: Cleaned, index: int) -> None:
        gone = [broker_id for broker_id in change.broker_ids if broker_id in self.members]
        self._put_away(gone)
        self.retired = tuple(sorted({*self.retired, *gone}))
        if self.unconfirmed is not None:
            before = tuple([broker_id for broker_id in self.unconfirmed.before if broker_id in self.members])
            self.unconfirmed = self.unconfirmed._replace(before=before) if before else None
        if not self.members:
            self._forget(Forgotten(), index)

    def _forget(self, change: Forgotten, index: int) -> None:
        self._put_away(sorted(self.members))
        self.retired = ()  # next_id is above them all, and nobody is adopted below it
        self.never_elected = True
        self.adopted = False
        self.forgotten = True
        self.unconfirmed = None

    def _put_away(self, gone: Sequence[int]) -> None:
        """These are no members any more; they are remembered, and who held what was acknowledged is."""
        for broker_id in gone:
            self.cleaned.pop(broker_id, None)
            self.cleaned[broker_id] = self.members.pop(broker_id)
        if self.master in gone:
            self.master = 0
            self.master_epoch += 1
        kept = tuple([broker_id for broker_id in self.in_sync if broker_id in self.members])
        if kept != self.in_sync:
            # Java keeps the epoch, and a master that holds the larger set under the same epoch never learns.
            self.holders = () if kept else self.in_sync
            self.in_sync = kept
            self.set_epoch += 1
        spare = [broker_id for broker_id in self.cleaned if broker_id not in self.holders]
        for broker_id in spare[: max(0, len(self.cleaned) - CLEANED_MAX)]:
            del self.cleaned[broker_id]

    def _confirm(self, change: Confirmed, index: int) -> None:
        self.unconfirmed = None

    # -- disasters --------------------------------------------------------------------------------------------------

    def forget_roles(self) -> None:
        """This is an old copy: nobody knows who leads by now, and who holds what was acknowledged since.

        As if it were adopted, with the ids that were given: the first election's epochs begin above its brokers', and
        new ids above those of brokers that joined since.
        """
        self.next_id += RESTORED_IDS_MARGIN
        self.master = 0
        self.in_sync = self.holders = ()
        self.unconfirmed = None
        self.never_elected = self.adopted = True
        self.set_epoch = max(self.set_epoch, ADOPTED_SET_EPOCH)

    # -- snapshot ---------------------------------------------------------------------------------------------------

    def row(self) -> GroupRow:
        """Its part of a snapshot, cut off from what happens to the group later."""
        unconfirmed = self.unconfirmed or _NO_ELECTION
        return GroupRow(
            self.next_id,
            self.master,
            self.master_epoch,
            self.set_epoch,
            self.never_elected | self.adopted << 1 | self.forgotten << 2,
            unconfirmed.winner,
            unconfirmed.log_index,
            int(unconfirmed.confirms),
            self.cluster,
            self.broker_name,
            tuple([MemberRow(broker_id, *self.members[broker_id]) for broker_id in sorted(self.members)]),
            self.in_sync,
            unconfirmed.before,
            self.retired,
            tuple([MemberRow(broker_id, *member) for broker_id, member in self.cleaned.items()]),
            self.holders,
            tuple(self.decisions),
        )


_NO_ELECTION = Unconfirmed(0, 0, (), False)

_TRANSITIONS: dict[type, Callable[[BrokerGroup, Any, int], None]] = {
    Joined: BrokerGroup._join,
    Returned: BrokerGroup._return,
    Moved: BrokerGroup._move,
    Elected: BrokerGroup._elect,
    Unseated: BrokerGroup._unseat,
    Outdated: BrokerGroup._outdate,
    SetChanged: BrokerGroup._change_set,
    Cleaned: BrokerGroup._clean,
    Forgotten: BrokerGroup._forget,
    Confirmed: BrokerGroup._confirm,
}


def group_of(row: GroupRow) -> BrokerGroup:
    """The group of a snapshot's row."""
    group = BrokerGroup(GroupKey(row.cluster, row.broker_name))
    group.next_id, group.master, group.master_epoch, group.set_epoch = row[:4]
    group.never_elected = bool(row.flags & 1)
    group.adopted = bool(row.flags & 2)
    group.forgotten = bool(row.flags & 4)
    group.members, group.cleaned = _members(row.members), _members(row.cleaned)
    group.holders = row.holders
    group.in_sync = row.in_sync
    group.retired = row.retired
    if row.elected_id:
        group.unconfirmed = Unconfirmed(row.elected_id, row.elected_index, row.before, bool(row.elected_flags & 1))
    group.decisions.extend(row.decisions)
    return group


def _members(rows: Sequence[MemberRow]) -> dict[int, Member]:
    return {broker_id: Member(address, code, bool(flags & 1)) for broker_id, address, code, flags in rows}
