"""Who belongs to the group: changes, and which configuration holds at which place of the log.

Pure.  Ongaro's thesis, 4.3: a configuration holds from the moment its entry is in the log, committed or not, and a cut
of the log takes it back.  Each entry carries the whole configuration.  A change of voters goes through a joint
configuration, which the leader leaves by itself once it is committed.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import attrs

from rocketha.raft.errors import MembersRefused
from rocketha.raft.messages import Members
from rocketha.raft.quorum import votes

MEMBERS_MAX = 64
"""Members of a group, learners included."""

WITNESSES_MAX = 1


@attrs.frozen
class MembersChange:
    """What to change; ids not named stay as they are.

    :ivar add_voters: id -> "host:port"; an id that is a learner is promoted, one that is a voter gets a new address.
    :ivar add_learners: id -> "host:port"; an id that is a voter is demoted.
    :ivar remove: ids that leave.
    :ivar witnesses: of those that are added, who keep no data.
    """

    add_voters: Mapping[str, str] = attrs.field(factory=dict)
    add_learners: Mapping[str, str] = attrs.field(factory=dict)
    remove: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)
    witnesses: frozenset[str] = attrs.field(default=frozenset(), converter=frozenset)


def changed(members: Members, change: MembersChange) -> Members:
    """The configuration to propose: joint if the voters change, else the new one.

    :raises MembersRefused: when the change makes no sense.
    """
    if members.outgoing:
        raise MembersRefused("a membership change is under way")
    named = [*change.add_voters, *change.add_learners, *change.remove]
    if len(set(named)) != len(named):
        raise MembersRefused("an id is named twice in one change")
    unknown = change.remove.difference(members.ids())
    if unknown:
        raise MembersRefused(f"not members: {', '.join(sorted(unknown))}")
    voters = (members.voters | set(change.add_voters)) - set(change.add_learners) - change.remove
    learners = (members.learners | set(change.add_learners)) - set(change.add_voters) - change.remove
    witnesses = _witnesses(members, change)
    if not voters - witnesses:
        raise MembersRefused("no voter that can lead would be left" if voters else "no voter would be left")
    if len(voters) + len(learners) > MEMBERS_MAX:
        raise MembersRefused(f"more than {MEMBERS_MAX} members")
    addresses = {**members.addresses, **change.add_voters, **change.add_learners}
    final = _named(Members(voters, learners=learners, addresses=addresses, witnesses=witnesses))
    if final == members:
        raise MembersRefused("nothing would change")
    if voters == members.voters:
        return final
    now, then = learners - members.voters, learners & members.voters
    return _named(Members(voters, members.voters, now, then, addresses, witnesses=witnesses))


def _witnesses(members: Members, change: MembersChange) -> frozenset[str]:
    """Those of the configuration to propose; one that leaves stays one until it has left."""
    if strangers := change.witnesses - {*change.add_voters, *change.add_learners}:
        raise MembersRefused(f"not added: {', '.join(sorted(strangers))}")
    others = change.witnesses & set(members.ids()) - members.witnesses
    if others:
        raise MembersRefused(f"{', '.join(sorted(others))} can not become a witness: remove it first")
    witnesses = members.witnesses | change.witnesses
    if len(witnesses - change.remove) > WITNESSES_MAX:
        raise MembersRefused(f"{', '.join(sorted(witnesses))}: a group has one witness, for more could be a majority")
    return witnesses


def left(members: Members) -> Members:
    """The configuration after a joint one."""
    learners = members.learners | members.learners_next
    return _named(attrs.evolve(members, outgoing=(), learners=learners, learners_next=(), since_ms=None))


def _named(members: Members) -> Members:
    """The same, with the addresses of its members only."""
    ids = sorted(members.voters | members.outgoing | members.learners | members.learners_next)
    addresses = {each: members.addresses.get(each, "") for each in ids}
    return attrs.evolve(members, addresses=addresses, witnesses=members.witnesses & addresses.keys())


class MembershipHistory:
    """The configurations of the log, as far as they can still be taken back or asked for.

    :ivar current: the one in force, that of the last membership entry in the log.
    :ivar index: that entry; 0 for the initial configuration, the snapshot's index for the snapshot's.
    """

    __slots__ = ("_earlier", "current", "index")

    def __init__(self, members: Members, index: int) -> None:
        self.current = members
        self.index = index
        self._earlier: list[tuple[int, Members]] = []

    def appended(self, index: int, members: Members) -> None:
        """A membership entry is in the log."""
        self._earlier.append((self.index, self.current))
        self.index, self.current = index, members

    def cut(self, index: int) -> None:
        """The log is cut from ``index`` on, and the configurations there taken back."""
        while self.index >= index and self._earlier:
            self.index, self.current = self._earlier.pop()

    def names_voter(self, member: str, commit: int) -> bool:
        """Whether a member votes in the configuration in force, or in one that is in force if what follows is lost.

        :param commit: configurations before the last one up to here are history.
        """
        if votes(self.current, member):
            return True
        if self.index <= commit:
            return False
        for since, members in reversed(self._earlier):
            if votes(members, member):
                return True
            if since <= commit:
                break
        return False

    def alone(self, member: str, commit: int) -> bool:
        """Whether a member is the only voter in the configuration in force, and in all that are in force if what
        follows is lost: then nobody else leads.  Before the end of its removal is committed, a voter that is removed
        may still.

        :param commit: configurations before the last one up to here are history.
        """
        for since, members in reversed([*self._earlier, (self.index, self.current)]):
            if members.voters != {member} or members.outgoing:
                return False
            if since <= commit:
                break
        return True

    @property
    def forced(self) -> int:
        """The last entry, as far as is remembered, that changed the voters without a joint phase: no leader does that,
        an operator did (``store/raft_offline.py``); 0 if none did."""
        chain = [*self._earlier, (self.index, self.current)]
        for (_, before), (index, after) in reversed(list(itertools.pairwise(chain))):
            if before.voters and before.voters != after.voters and not after.outgoing:
                return index
        return 0

    def at(self, index: int) -> Members:
        """The configuration as of an entry that is not compacted."""
        if index >= self.index:
            return self.current
        for since, members in reversed(self._earlier):
            if index >= since:
                return members
        return self._earlier[0][1] if self._earlier else self.current

    def compacted(self, index: int) -> None:
        """Nothing before ``index`` will be asked for or taken back."""
        while len(self._earlier) > 1 and self._earlier[1][0] <= index:
            del self._earlier[0]
        if self._earlier and self.index <= index:
            self._earlier.clear()

    def restored(self, index: int, members: Members) -> None:
        """A snapshot replaces the log."""
        self._earlier.clear()
        self.index, self.current = index, members
