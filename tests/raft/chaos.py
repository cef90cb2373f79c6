"""A random network of nodes, and the invariants that must hold whatever it does.

Messages are lost, doubled, reordered and delayed; links are cut one way or both; nodes crash and lose what they did not
sync; disks sync late; membership changes, transfers, snapshots, refused connections and reads happen all the while.
Numbers of invariants are those of the project's list: 1 one leader a term, 2 one vote a term and node, 3 log matching,
4 leader completeness, 5 equal applied prefixes, 6 commit never falls; and reads are linearizable.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from rocketha.raft.config import Role
from rocketha.raft.errors import RaftRefused
from rocketha.raft.membership import MembersChange
from rocketha.raft.messages import Entry, Members, Message, Ready
from tests.raft.cluster import Server, group


class Broken(AssertionError):
    """An invariant does not hold."""


class Witness:
    """Sees every Ready of every node, and remembers what must never change."""

    def __init__(self) -> None:
        self.leaders: dict[int, str] = {}
        self.votes: dict[tuple[str, int], str] = {}
        self.entries: dict[tuple[int, int], tuple[Entry, int]] = {}
        self.committed: list[tuple[int, int]] = []  # (index, term) by index - 1
        self.applied: list[Entry] = []
        self.commits: dict[str, int] = {}
        self.read_floor: dict[tuple[str, int], int] = {}
        self.reads = 0

    @staticmethod
    def singles(entries: Sequence[Entry]) -> Iterable[Entry]:
        """One by one, where runs are joined."""
        return entries

    def restarted(self, name: str) -> None:
        """What a node knew in memory is gone."""
        self.commits[name] = 0

    def see(self, server: Server, ready: Ready) -> None:
        """Check a Ready before it is carried out."""
        name, node = server.name, server.node
        if ready.hard_state is not None:
            self.see_vote(name, ready.hard_state.term, ready.hard_state.vote)
        if node.role is Role.LEADER:
            self.see_leader(server)
        before = ready.entries[0].index - 1 if ready.entries else 0
        term = self.term_at(server, before)
        for entry in self.singles(ready.entries):
            known, known_before = self.entries.setdefault((entry.index, entry.term), (entry, term))
            if known != entry or known_before != term:
                raise Broken(f"3: {name} has {entry} after term {term}, another has {known} after {known_before}")
            term = entry.term
        if node.commit < self.commits.get(name, 0):
            raise Broken(f"6: commit of {name} fell from {self.commits[name]} to {node.commit}")
        self.see_commit(server, self.commits.get(name, 0))
        self.commits[name] = node.commit
        for entry in self.singles(ready.committed):
            if entry.index <= len(self.applied):
                if self.applied[entry.index - 1] != entry:
                    raise Broken(f"5: {name} applies {entry}, another applied {self.applied[entry.index - 1]}")
            elif entry.index == len(self.applied) + 1:
                self.applied.append(entry)
            else:
                raise Broken(f"5: {name} applies {entry} after {len(self.applied)}")
        for read in ready.reads:
            self.reads += 1
            floor = self.read_floor.pop((name, read.context), 0)
            if read.index < floor:
                raise Broken(f"read of {name} at {read.index}, {floor} was committed when it was asked")

    @staticmethod
    def term_at(server: Server, index: int) -> int:
        """The term of an entry of the stored log, or of the snapshot that a Ready installs."""
        return server.node._core.log.term(index) if index > 0 else 0

    def see_vote(self, name: str, term: int, vote: str) -> None:
        """Invariant 2."""
        if vote and self.votes.setdefault((name, term), vote) != vote:
            raise Broken(f"2: {name} voted for {self.votes[name, term]} and {vote} in term {term}")

    def see_leader(self, server: Server) -> None:
        """Invariants 1 and 4."""
        name, term, log = server.name, server.node.term, server.node._core.log
        if self.leaders.get(term) == name:
            return
        if self.leaders.setdefault(term, name) != name:
            raise Broken(f"1: {self.leaders[term]} and {name} lead in term {term}")
        for index, entry_term in self.committed[max(log.first_index - 1, 0) :]:
            if index > log.last_index or log.term(index) != entry_term:
                raise Broken(f"4: {name} leads in term {term} without the committed entry {index} of term {entry_term}")

    def see_commit(self, server: Server, before: int) -> None:
        """What is committed is committed for ever (5)."""
        log = server.node._core.log
        for index in range(max(before + 1, log.first_index), log.commit + 1):
            term = log.term(index)
            if index <= len(self.committed):
                if self.committed[index - 1] != (index, term):
                    raise Broken(f"5: {server.name} commits {(index, term)}, another {self.committed[index - 1]}")
            elif index == len(self.committed) + 1:
                self.committed.append((index, term))
            else:
                raise Broken(f"5: {server.name} commits {index} after {len(self.committed)}")


class Chaos:
    """One run: a group, a network, faults, all from one seed."""

    witness_type = Witness

    def __init__(self, seed: int, **settings: Any) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        chance = self.random
        self.settings: dict[str, Any] = {
            "election_ticks": chance.choice([3, 5, 10]),
            "heartbeat_ticks": chance.choice([1, 2]),
            "max_entries_bytes_per_message": chance.choice([1, 40, 1 << 18]),
            "max_inflight_messages": chance.choice([1, 3, 64]),
            "max_inflight_bytes": chance.choice([50, 1 << 20]),
            "max_committed_bytes": chance.choice([1, 1 << 20]),
            "snapshot_chunk_bytes": chance.choice([7, 64, 1 << 18]),
            "cached_entries": chance.choice([0, 3, 4096]),
            "pre_vote": chance.random() < 0.8,
            "check_quorum": chance.random() < 0.8,
            "preferred": ("2",) if chance.random() < 0.2 else (),
            **settings,
        }
        self.names = [str(each + 1) for each in range(6)]
        members = group(chance.choice([1, 3, 3, 3, 5]), ["6"] if chance.random() < 0.3 else [])
        self.witness = self.witness_type()
        self.servers: dict[str, Server] = {}
        self.lazy = chance.random() < 0.7
        for name in self.names:
            server = self.new_server(name, members if name in members.ids() else Members())
            server.on_ready = self.witness.see
            self.servers[name] = server
        self.wire: list[Message] = []
        self.cut: set[tuple[str, str]] = set()
        self.down: set[str] = set()
        self.loss = chance.choice([0.0, 0.0, 0.02, 0.2])
        self.copies = chance.choice([0.0, 0.0, 0.1])
        self.contexts = 0
        self.proposed = 0

    def new_server(self, name: str, members: Members) -> Server:
        """One that has no log."""
        return Server(name, members, self.seed, self.lazy, **self.settings)

    # One step

    def run(self, steps: int) -> None:
        """Random steps, then a time without faults in which the group must come together."""
        actions = [
            (70, self.deliver),
            (16, self.tick),
            (12, self.turn),
            (10, self.sync),
            (8, self.propose),
            (6, self.read),
            (1, self.partition),
            (1, self.heal),
            (1, self.crash),
            (0.8, self.snapshot),
            (0.5, self.transfer),
            (0.4, self.change_members),
            (0.5, self.refuse),
            (0.3, self.sicken),
            (1, self.campaign),
        ]
        chosen = self.random.choices([each for _, each in actions], [weight for weight, _ in actions], k=steps)
        for action in chosen:
            action()
        self.come_together()

    def any_server(self) -> Server:
        """One that is up."""
        return self.servers[self.random.choice([each for each in self.names if each not in self.down])]

    def any_leader(self) -> Server:
        """One that takes itself for the leader, if there is one."""
        leading = [each for each in self.names if self.servers[each].node.role is Role.LEADER and each not in self.down]
        return self.servers[self.random.choice(leading)] if leading else self.any_server()

    def carry_out(self, server: Server) -> None:
        """Its Readys; what it says is then under way."""
        server.turn()
        self.send(server)

    def send(self, server: Server) -> None:
        """Take what a server says."""
        for message in server.outbox:
            if (message.sender, message.to) in self.cut or self.random.random() < self.loss:
                continue
            self.wire.append(message)
            if self.random.random() < self.copies:
                self.wire.append(message)
        server.outbox.clear()

    def deliver(self) -> None:
        """One message, mostly the oldest."""
        if not self.wire:
            return
        chance = self.random
        position = 0 if chance.random() < 0.7 else chance.randrange(len(self.wire))
        message = self.wire.pop(position)
        if message.to in self.down or message.to not in self.servers:
            return
        server = self.servers[message.to]
        server.node.step(message)
        if chance.random() < 0.8:
            self.carry_out(server)

    def tick(self) -> None:
        """Time passes, mostly alike for all."""
        for name in self.names:
            if name not in self.down and self.random.random() < 0.9:
                self.servers[name].node.tick()
                if self.random.random() < 0.7:
                    self.carry_out(self.servers[name])

    def turn(self) -> None:
        """A server does what it has to."""
        self.carry_out(self.any_server())

    def sync(self) -> None:
        """A disk is done with something."""
        server = self.any_server()
        server.sync(self.random.choice([1, 1, None]))
        self.carry_out(server)

    def propose(self) -> None:
        """A batch, at whoever takes itself for the leader."""
        for name in self.names:
            server = self.servers[name]
            if name not in self.down and server.node.role is Role.LEADER:
                count = self.random.choice([1, 1, 2, 7])
                batch = [b"%d.%d" % (self.proposed + each, self.seed) for each in range(count)]
                try:
                    server.node.propose(batch)
                    self.proposed += count
                except RaftRefused:
                    pass

    def read(self) -> None:
        """A read, which must see all that is committed anywhere now."""
        server = self.any_server()
        self.contexts += 1
        try:
            server.node.read_index(self.contexts)
        except RaftRefused:
            return
        self.witness.read_floor[server.name, self.contexts] = len(self.witness.committed)

    # Faults

    def partition(self) -> None:
        """Cut some links: a group from the rest, one node, or one direction."""
        chance = self.random
        kind = chance.randrange(4)
        if kind == 0:
            some = set(chance.sample(self.names, chance.randint(1, 3)))
            self.cut |= {(a, b) for a in self.names for b in self.names if (a in some) != (b in some)}
        elif kind == 1:
            a, b = chance.sample(self.names, 2)
            self.cut.add((a, b))
        else:
            a = self.any_leader().name
            self.cut |= {(a, b) for b in self.names if b != a}

    def heal(self) -> None:
        """All links work; nodes that were down come back."""
        self.cut.clear()
        self.down.clear()

    def crash(self) -> None:
        """A node loses its memory and what is not synced; it stays down for a while, or not."""
        server = self.any_leader() if self.random.random() < 0.5 else self.any_server()
        server.crash()
        self.witness.restarted(server.name)
        for key in [each for each in self.witness.read_floor if each[0] == server.name]:
            del self.witness.read_floor[key]
        if len(self.down) < 2 and self.random.random() < 0.6:
            self.down.add(server.name)

    def snapshot(self) -> None:
        """A node compacts its log."""
        self.any_server().take_snapshot(self.random.choice([0, 0, 2, 10]))

    def transfer(self) -> None:
        """Leadership is handed on, if that is possible."""
        try:
            self.any_server().node.transfer(self.random.choice(self.names))
        except RaftRefused:
            pass

    def change_members(self) -> None:
        """A random change at whoever takes it."""
        chance = self.random
        names = chance.sample(self.names, 3)
        sizes = [chance.choice([0, 1, 1]) for _ in names]
        change = MembersChange(
            dict.fromkeys(names[:1][: sizes[0]], "host:1"),
            dict.fromkeys(names[1:2][: sizes[1]], "host:1"),
            set(names[2:][: sizes[2]]),
        )
        for name in self.names:
            if name not in self.down:
                try:
                    self.servers[name].node.propose_members(change)
                    return
                except RaftRefused:
                    pass

    def refuse(self) -> None:
        """Whoever is connected to a node that is down learns that its port refuses; sometimes that is a mistake."""
        gone = sorted(self.down) if self.random.random() < 0.8 else [self.random.choice(self.names)]
        for name in self.names:
            if name not in self.down:
                for peer in gone:
                    if self.servers[name].node.peer_refused(peer) and self.random.random() < 0.8:
                        self.servers[name].node.campaign_if_leader_gone()

    def sicken(self) -> None:
        """A disk is reported to crawl, and to be well again."""
        server = self.any_server()
        self.wire += server.node.unhealthy("slow")
        self.carry_out(server)
        if self.random.random() < 0.9:
            server.node.healthy()

    def campaign(self) -> None:
        """Somebody stands for election out of turn."""
        self.any_server().node.campaign()

    # The end

    def come_together(self) -> None:
        """Without faults a leader is found, all it has is committed, and all members have it (invariant 20's core)."""
        self.heal()
        self.loss = self.copies = 0.0
        for server in self.servers.values():
            server.lazy = False
            server.sync()
            server.node.healthy()
        for round_number in range(60 * int(self.settings["election_ticks"])):
            self.calm()
            if round_number % 10 == 9 and self.together():
                return
        states = {
            each: (str(s.node.role), s.node.term, s.node.commit, s.node.applied) for each, s in self.servers.items()
        }
        raise Broken(f"20: not together: {states}")

    def calm(self) -> None:
        """One tick without faults, and all that it leads to."""
        for server in self.servers.values():
            server.node.tick()
        for _ in range(20):
            for server in self.servers.values():
                self.carry_out(server)
            wire, self.wire = self.wire, []
            for message in wire:
                self.servers[message.to].node.step(message)
            if not wire:
                return

    def together(self) -> bool:
        """Whether one leader has committed in its term, and all members applied the same."""
        leading = [each for each in self.servers.values() if each.node.role is Role.LEADER]
        if not leading:
            return False
        leader = max(leading, key=lambda each: each.node.term)
        node = leader.node
        members = [self.servers[each] for each in node.members.ids()]
        if node.members.outgoing or any(each.node.applied != node.last_index for each in members):
            return False
        for each in members:
            if each.applied != leader.applied:
                raise Broken(f"5: {each.name} and {leader.name} applied different things")
        return node._core.log.last_term == node.term


class LeaseChaos(Chaos):
    """The same with lease reads, which need clocks of like speed: all nodes tick together."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, lease_reads=True, check_quorum=True, election_ticks=20)

    def tick(self) -> None:
        """Four ticks for everybody that is up, with some messages in between."""
        for _ in range(4):
            for name in self.names:
                if name not in self.down:
                    self.servers[name].node.tick()
                    if self.random.random() < 0.7:
                        self.carry_out(self.servers[name])
            for _ in range(self.random.randrange(8)):
                self.deliver()
