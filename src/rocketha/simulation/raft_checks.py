"""The invariants of Raft over all nodes of a simulated group: what one node alone cannot see.

Knows the core's public face and the messages that arrive, not how they are made.  Numbers are those of
faults-and-invariants: 1 one leader a term, 2 one vote a term and node, 3 log matching, 4 leader completeness, 5 equal
applied prefixes, 6 commit never falls, 21 bounded timers.
"""

from __future__ import annotations

import zlib
from typing import Any

from rocketha.raft.config import Role
from rocketha.raft.messages import Entry, Kind, Message
from rocketha.raft.node import RaftNode
from rocketha.raft.storage import Compacted, Unavailable
from rocketha.simulation.findings import Findings
from rocketha.simulation.host import Host, Process

TIMERS_MAX = 400
TERMS_AHEAD_MAX = 6
"""How far a node's term may be above the newest term that had a leader: with pre-votes, a node that is cut off does not
raise its term (D7); elections that are won and then lost for want of a leader's first word are a few in a row."""
TAIL = 64
"""Entries compared at each look; all of them at the end."""

_FROM_LEADERS = (Kind.APPEND, Kind.HEART_BEAT, Kind.SNAPSHOT)


class RaftChecks:
    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._leaders: dict[int, str] = {}
        self._votes: dict[tuple[int, str], str] = {}
        self._newest_vote: dict[str, int] = {}
        self._acked: dict[str, tuple[int, int]] = {}
        self._applied: dict[int, tuple[int, int]] = {}
        self._digests: dict[int, int] = {}
        self._commits: dict[Process, int] = {}
        self.newest_applied = 0
        self.newest_term = 0
        self.hosts: list[Host] = []

    def watch(self, process: Process, service: Any) -> None:
        """A node has recovered its log and takes part."""
        node: RaftNode = service.node
        name = process.host.name
        step = node.step

        def stepped(message: Message) -> None:
            self._heard(message)
            step(message)

        node.step = stepped  # type: ignore[method-assign]
        service.on_role(lambda: self._role(name, node, service))
        self._findings.count("node starts")
        self._remembers(name, node)

    # -- what happens

    def _heard(self, message: Message) -> None:
        kind = message.kind
        if kind in _FROM_LEADERS:
            self._led(message.term, message.sender)
            self._voted(message.term, message.sender, message.sender)
        elif kind == Kind.VOTE_ANSWER and not message.reject:
            self._voted(message.term, message.sender, message.to)
        elif kind == Kind.APPEND_ANSWER and not message.reject:
            self._acked[message.sender] = max(self._acked.get(message.sender, (0, 0)), (message.term, message.index))

    def _voted(self, term: int, name: str, candidate: str) -> None:
        vote = self._votes.setdefault((term, name), candidate)
        if vote != candidate:
            self._findings.violated(
                "one vote per term and node (2)", f"{name} votes for {vote} and for {candidate} in term {term}"
            )
        self._newest_vote[name] = max(self._newest_vote.get(name, 0), term)

    def _remembers(self, name: str, node: RaftNode) -> None:
        """A15, A16: what somebody was told by a node, a vote or that it has entries, survives any end of it."""
        term = self._newest_vote.get(name, 0)
        vote = self._votes.get((term, name), "")
        if node.term < term or (node.term == term and node.vote != vote):
            self._findings.violated(
                "a vote survives a restart (2)",
                f"{name} voted for {vote} in term {term} and comes back in {node.term} with {node.vote or 'none'}",
            )
        acked_term, acked = self._acked.get(name, (0, 0))
        if node.term == acked_term and node.last_index < acked:
            self._findings.violated(
                "acknowledged entries survive a restart (4)",
                f"{name} acknowledged {acked} entries in term {acked_term} and comes back with {node.last_index}",
            )

    def _led(self, term: int, name: str) -> None:
        leader = self._leaders.get(term)
        if leader is None:
            self._leaders[term] = name
            self._findings.count("leaders")
            self.newest_term = max(self.newest_term, term)
        elif leader != name:
            self._findings.violated("one leader per term (1)", f"{leader} and {name} in term {term}")

    def _role(self, name: str, node: RaftNode, service: Any) -> None:
        if node.role is not Role.LEADER:
            return
        new = self._leaders.get(node.term) is None
        self._led(node.term, name)
        if new:
            self._complete(name, node, service)

    def _complete(self, name: str, node: RaftNode, service: Any) -> None:
        """4: a new leader has every entry that anybody ever applied."""
        log = service._store.log
        newest = self.newest_applied
        if newest > node.last_index:
            self._findings.violated(
                "leader completeness (4)", f"{name} leads term {node.term} with {node.last_index} of {newest} entries"
            )
            return
        for index in range(max(1, newest - TAIL), newest + 1):
            known = self._applied.get(index)
            try:
                term = log.term(index)
            except (Compacted, Unavailable):
                continue
            if known is not None and known[0] != term:
                self._findings.violated(
                    "leader completeness (4)", f"{name} has entry {index} of term {term}, applied was {known[0]}"
                )
                return

    def applied(self, name: str, entries: list[Entry] | tuple[Entry, ...]) -> None:
        """5: what is applied at an index is the same everywhere."""
        for entry in entries:
            mine = (entry.term, zlib.crc32(entry.data))
            known = self._applied.setdefault(entry.index, mine)
            if known != mine:
                self._findings.violated(
                    "applied prefix equal on all (5)",
                    f"{name} applies entry {entry.index} of term {entry.term}, elsewhere it was of term {known[0]}",
                )
                return
            if entry.index > self.newest_applied:
                self.newest_applied = entry.index
                self._findings.count("entries applied")
        if entries and entries[-1].index == self.newest_applied:
            self._majority_has(name, self.newest_applied)

    def _majority_has(self, name: str, index: int) -> None:
        """4, A16: what is applied anywhere is synced on a majority.  Of a node that is down the best is assumed."""
        nodes = {process.name: (node, service) for process, node, service in self._nodes(self.hosts)}
        if name not in nodes:
            return
        members = nodes[name][0].members
        if nodes[name][0]._core.membership.index > index:
            return  # it was committed by the majority of another configuration
        for voters in (members.voters, members.outgoing):
            have = [
                voter
                for voter in sorted(voters)
                if voter not in nodes or nodes[voter][1]._store.log.synced_index() >= index
            ]
            if len(have) < len(voters) // 2 + 1 and voters:
                self._findings.violated(
                    "applied => synced on a majority (4)", f"{name} applies entry {index}, synced on {have} of {voters}"
                )

    def state(self, name: str, index: int, digest: int) -> None:
        """5 and 17: the state after an entry is the same everywhere, whether by entries or by a snapshot."""
        known = self._digests.setdefault(index, digest)
        if known != digest:
            self._findings.violated(
                "applied prefix equal on all (5)", f"{name}'s state after entry {index} is not that of the others"
            )

    # -- looks

    def look(self, hosts: list[Host]) -> None:
        """What must hold at any moment."""
        nodes = self._nodes(hosts)
        for process, node, _ in nodes:
            before = self._commits.get(process, 0)
            commit = node.commit
            if commit < before:
                self._findings.violated("commit never falls (6)", f"{process.name}: {before}, then {commit}")
            self._commits[process] = commit
            if node.applied > commit:
                self._findings.violated("applied <= commit", f"{process.name}: {node.applied} > {commit}")
            if process.reactor.timers > TIMERS_MAX:
                self._findings.violated("timers bounded (21)", f"{process.name} has {process.reactor.timers}")
            if node.role is Role.LEADER:
                self._led(node.term, process.name)
            if node.term > self.newest_term + TERMS_AHEAD_MAX:
                self._findings.violated(
                    "terms do not inflate (D7)", f"{process.name} is in term {node.term}, led was {self.newest_term}"
                )

    def match(self, hosts: list[Host], tail: int = TAIL) -> None:
        """3: two logs that agree on an entry agree on all before it."""
        nodes = self._nodes(hosts)
        for number, (one, _, one_service) in enumerate(nodes):
            for two, _, two_service in nodes[number + 1 :]:
                self._match(one.name, one_service._store.log, two.name, two_service._store.log, tail)

    def _match(self, one: str, log: Any, two: str, other: Any, tail: int) -> None:
        last = min(log.last_index(), other.last_index())
        first = max(log.first_index(), other.first_index(), last - tail, 1)
        agreed = False
        for index in range(last, first - 1, -1):
            try:
                mine, theirs = log.term(index), other.term(index)
            except (Compacted, Unavailable):
                return
            if mine == theirs:
                agreed = True
            elif agreed:
                self._findings.violated(
                    "log matching (3)",
                    f"{one} and {two} agree after entry {index}, where they have {mine} and {theirs}",
                )
                return
        if first <= last and agreed and log.entries(first, first + 1, 1)[0] != other.entries(first, first + 1, 1)[0]:
            if log.term(first) == other.term(first):
                self._findings.violated("log matching (3)", f"entry {first} of {one} and {two} differs")

    def _nodes(self, hosts: list[Host]) -> list[tuple[Process, RaftNode, Any]]:
        found = []
        for host in hosts:
            process = host.process
            service = getattr(process.service, "raft", None) if process is not None else None
            if process is None or service is None or service._node is None or service._dead:
                continue
            found.append((process, service.node, service))
        return found

    # -- the end

    def recovered(self, hosts: list[Host], exact: bool = True) -> str | None:
        """What is still missing of a whole group: None when one node leads, all know it, and all applied the same.

        :param exact: else they may be a few entries apart, as they are while there is work.
        """
        nodes = self._nodes(hosts)
        if len(nodes) < len(hosts):
            missing = sorted({host.name for host in hosts} - {process.name for process, _, _ in nodes})
            return f"{', '.join(missing)} do not run"
        leaders = [process.name for process, _, service in nodes if service.is_leader]
        if len(leaders) != 1:
            return f"leaders: {leaders or 'none'}"
        strangers = [process.name for process, node, _ in nodes if node.leader_id != leaders[0]]
        if strangers:
            return f"{', '.join(strangers)} do not know that {leaders[0]} leads"
        applied = {process.name: node.applied for process, node, _ in nodes}
        if max(applied.values()) - min(applied.values()) > (0 if exact else 20):
            return f"applied: {applied}"
        return None
