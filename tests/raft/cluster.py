"""A group in one process, driven by hand: nodes on storages in memory, and a network that is a list of messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from rocketha.raft.config import RaftConfig, Role
from rocketha.raft.memory_storage import MemoryStorage
from rocketha.raft.messages import Entry, EntryKind, Members, Message, ReadState, Ready
from rocketha.raft.node import RaftNode


def group(voters: Iterable[str] | int, learners: Iterable[str] = ()) -> Members:
    """A configuration; a number stands for that many ids, "1", "2", ..."""
    ids = [str(each + 1) for each in range(voters)] if isinstance(voters, int) else list(voters)
    return Members(ids, (), learners, (), {each: f"host{each}:9878" for each in [*ids, *learners]})


class Server:
    """One node with its storage and a state machine that keeps what it applies.

    :ivar outbox: messages that left.
    :ivar applied: the NORMAL entries' data, in order; after a snapshot, what it contained too.
    :ivar unsynced: what waits for :meth:`sync` when ``lazy``: (last index, its term, messages to send then).
    """

    def __init__(self, name: str, members: Members, seed: int = 0, lazy: bool = False, **settings: Any) -> None:
        self.name = name
        self.settings = settings
        self.lazy = lazy
        self.random = random.Random(f"{seed} {name}")
        self.storage = self.new_storage(members)
        self.readys: list[Ready] = []
        self.outbox: list[Message] = []
        self.reads: list[ReadState] = []
        self.lost_reads: list[int] = []
        self.on_ready: Callable[[Server, Ready], None] = lambda server, ready: None
        self.restart()

    def new_storage(self, members: Members) -> MemoryStorage:
        """An empty one."""
        return MemoryStorage(members)

    def restart(self) -> None:
        """Begin from what is stored."""
        self.node = RaftNode(RaftConfig(self.name, **self.settings), self.storage, self.random)
        self.outbox = []
        self.unsynced: list[tuple[int, int, tuple[Message, ...]]] = []
        self.applied: list[bytes] = []
        meta = self.storage.snapshot()
        if meta.index:
            self._restore(self.storage.read_snapshot(0, 1 << 30, meta.index))

    def crash(self) -> None:
        """Lose what is not synced, and begin again."""
        self.storage.crash()
        self.restart()

    def turn(self) -> None:
        """Carry out Readys until there is none."""
        while self.node.has_ready():
            self.carry_out(self.node.ready())

    def carry_out(self, ready: Ready) -> None:
        """One Ready, in the order that its documentation demands."""
        self.on_ready(self, ready)
        self.outbox += ready.messages_now
        self.storage.save(ready.hard_state, ())
        if ready.snapshot is not None:
            meta, data = ready.snapshot
            self.storage.save_snapshot(meta, data)
            self._restore(data)
            self.node.persisted_snapshot(meta)
        self.storage.save(None, ready.entries)
        last = ready.entries[-1] if ready.entries else None
        if ready.must_sync or ready.messages_after_sync:
            self.unsynced.append((last.last if last else 0, last.term if last else 0, ready.messages_after_sync))
        if not self.lazy:
            self.sync()
        self.reads += ready.reads
        self.lost_reads += ready.lost_reads
        self.apply(ready.committed)

    def sync(self, count: int | None = None) -> None:
        """What was saved (by the first ``count`` Readys) is on disk; say so, and send what waited for it."""
        done = self.unsynced[:count]
        del self.unsynced[: len(done)]
        for index, term, messages in done:
            if index:
                self.storage.sync(None if not self.unsynced else index)
                self.node.persisted(index, term)
            self.outbox += messages

    def apply(self, entries: tuple[Entry, ...]) -> None:
        """Give entries to the state machine."""
        for entry in entries:
            if entry.kind == EntryKind.NORMAL:
                self.applied.append(entry.data)
        if entries:
            self.node.applied_to(entries[-1].index)

    def _restore(self, data: bytes) -> None:
        self.applied = [line for line in data.split(b"\n") if line]

    def take_snapshot(self, keep: int = 0) -> None:
        """Save the state machine, and compact all but ``keep`` entries before it."""
        if self.node._core.log.installing is not None:
            return
        meta = self.node.snapshot_meta(self.node.applied)
        if meta.index <= self.storage.snapshot().index:
            return
        self.storage.save_snapshot(meta, b"".join(each + b"\n" for each in self.applied))
        self.storage.compact(max(meta.index - keep, self.storage.first_index() - 1))
        self.node.compacted()


class Cluster:
    """Servers and the messages between them, in order.

    :ivar wire: messages under way.
    :ivar cut: pairs (sender, to) whose messages are lost.
    :ivar lose: says of a message whether it is lost.
    """

    def __init__(self, members: Members | int = 3, seed: int = 0, **settings: Any) -> None:
        self.members = members if isinstance(members, Members) else group(members)
        self.seed = seed
        self.settings: dict[str, Any] = {"election_ticks": 10, "heartbeat_ticks": 1, **settings}
        self.servers = {each: self.make(each, self.members) for each in self.members.ids()}
        self.wire: list[Message] = []
        self.cut: set[tuple[str, str]] = set()
        self.lose: Callable[[Message], bool] = lambda message: False

    def make(self, name: str, members: Members) -> Server:
        """A new server, not added yet."""
        return Server(name, members, self.seed, **self.settings)

    def __getitem__(self, name: str) -> Server:
        return self.servers[name]

    def node(self, name: str) -> RaftNode:
        """A server's node."""
        return self.servers[name].node

    def leader(self) -> str:
        """The leader of the newest term, "" if nobody."""
        leading = [each for each in self.servers.values() if each.node.role is Role.LEADER]
        return max(leading, key=lambda each: each.node.term).name if leading else ""

    def isolate(self, *names: str) -> None:
        """Cut these, as a group, from the others."""
        for name in names:
            for other in self.servers:
                if other not in names:
                    self.cut |= {(name, other), (other, name)}

    def heal(self) -> None:
        """All links work."""
        self.cut.clear()

    def collect(self) -> None:
        """Let every server do what it has to; its messages are then under way."""
        for server in self.servers.values():
            server.turn()
            for message in server.outbox:
                if (message.sender, message.to) not in self.cut and not self.lose(message):
                    self.wire.append(message)
            server.outbox.clear()

    def deliver(self) -> int:
        """Deliver all that is under way now; how much that was."""
        self.collect()
        wire, self.wire = self.wire, []
        for message in wire:
            if message.to in self.servers:
                self.servers[message.to].node.step(message)
        self.collect()
        return len(wire)

    def settle(self, rounds: int = 200) -> None:
        """Deliver until nothing is under way."""
        for _ in range(rounds):
            if not self.deliver() and not self.wire:
                return
        raise AssertionError(f"still talking after {rounds} rounds: {self.wire[:5]}")

    def tick(self, count: int = 1, *names: str) -> None:
        """Ticks for all (or those named), each followed by what it leads to."""
        for _ in range(count):
            for name in names or list(self.servers):
                self.servers[name].node.tick()
            self.settle()

    def elect(self, name: str) -> None:
        """Make a node the leader."""
        self.node(name).campaign()
        self.settle()
        assert self.node(name).role is Role.LEADER, f"{name} did not become leader"
