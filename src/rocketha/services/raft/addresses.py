"""Where the members of a Raft group live, as far as this one knows.

Pure but for its place.  What it must not know: connections, rules of Raft.

Theory of operation.  The log says who is a member; but a member that was away does not have the newest log, and must
be able to speak with members it never heard of in order to get it.  So addresses from three more places count: the
configured list, what members we know told us in their greetings, and for some time who was a member until now: the
entry that removes a member has to be committed, maybe by itself as the leader.

What was told comes from a log up to some entry.  Once ours is as long it knows better: who is still not in it does not
belong to the group any more, and is forgotten when it was not heard of for a while.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketha.raft.messages import Members


class AddressBook:
    """Addresses by id.

    :ivar members: as the log says.
    """

    def __init__(self, configured: Mapping[str, str], linger_ticks: int) -> None:
        self.members = Members(addresses=configured)
        self._configured = dict(configured)
        self._linger_ticks = linger_ticks
        # Address, the end of the log that it comes from, and the tick until which it is kept anyway.
        self._learned: dict[str, tuple[str, int, int]] = {}
        self._leaving: dict[str, tuple[str, int]] = {}  # address, and the tick to forget it

    def get(self, member: str) -> str | None:
        """``host:port``, "" where it is not known; None for who is no member as far as we know."""
        for known in (self.members.addresses, self._told(), self._configured):
            if member in known:
                return known[member]
        return self._leaving[member][0] if member in self._leaving else None

    def wanted(self) -> dict[str, str]:
        """Whom to keep a connection to."""
        leaving = {name: address for name, (address, _) in self._leaving.items()}
        return {**leaving, **self._told(), **self.members.addresses}

    def _told(self) -> dict[str, str]:
        return {name: address for name, (address, _, _) in self._learned.items()}

    def changed(self, members: Members, tick: int) -> None:
        """The log says something else."""
        before, self.members = self.members.addresses, members
        now = members.addresses
        for name in before:
            if name not in now:
                self._leaving[name] = (before[name], tick + self._linger_ticks)
        self._leaving = {name: each for name, each in self._leaving.items() if name not in now}
        self._learned = {name: each for name, each in self._learned.items() if name not in now}

    def spoke(self, member: str, index: int, tick: int) -> bool:
        """A member with a log up to ``index`` connected to us; whether it was not among the wanted."""
        news = member not in self.wanted()
        if news or member in self._learned:
            self._learned[member] = (self.get(member) or "", index, tick + self._linger_ticks)
        return news

    def told(self, members: Members, index: int, own: int, tick: int) -> bool:
        """A member with a log up to ``index`` says who the members are; whether that was news.

        :param own: the end of our log: what a shorter one says is old.
        """
        if own >= max(index, 1):
            return False
        new = {name: address for name, address in members.addresses.items() if self.get(name) is None}
        heard = {name: each[0] for name, each in self._learned.items() if name in members.addresses}
        for name, address in {**heard, **new}.items():
            self._learned[name] = (address, index, tick + self._linger_ticks)
        return bool(new)

    def expire(self, tick: int, own: int) -> bool:
        """It is this tick, and our log ends there; whether somebody was forgotten."""
        late = [name for name, (_, until) in self._leaving.items() if until <= tick]
        for name in late:
            del self._leaving[name]
        gone = [name for name, (_, index, until) in self._learned.items() if index <= own and until <= tick]
        for name in gone:
            del self._learned[name]
        return bool(late or gone)
