"""A log of runs: a storage in memory that joins entries as it likes, and the random network on it.

The data of an entry is a line, so that a run can be split.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rocketha.raft.config import Role
from rocketha.raft.errors import RaftRefused
from rocketha.raft.log import Log
from rocketha.raft.memory_storage import MemoryStorage
from rocketha.raft.messages import Entry, EntryKind, HardState, Members, SnapshotMeta
from tests.raft.chaos import Chaos, Witness
from tests.raft.cluster import Server


def singles(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The entries that some runs are."""
    for entry in entries:
        if entry.count == 1:
            yield entry
            continue
        lines = entry.data.splitlines(keepends=True)
        assert len(lines) == entry.count, f"{entry.count} entries, {lines}"
        for at, line in enumerate(lines):
            yield Entry(entry.index + at, entry.term, entry.kind, line)


def joined(entries: Sequence[Entry]) -> Entry:
    """One run of them."""
    first = entries[0]
    return Entry(first.index, first.term, first.kind, b"".join([entry.data for entry in entries]), len(entries))


def runs(entries: Iterable[Entry], chance: random.Random) -> list[Entry]:
    """Some entries, those that may be joined in runs of any length."""
    found: list[list[Entry]] = []
    for entry in singles(entries):
        last = found[-1][-1] if found else None
        alike = last is not None and last.term == entry.term and last.kind == entry.kind == EntryKind.NORMAL
        if alike and chance.random() < 0.7:
            found[-1].append(entry)
        else:
            found.append([entry])
    return [joined(each) if len(each) > 1 else each[0] for each in found]


def save_some(log: Log, storage: MemoryStorage, chance: random.Random) -> None:
    """What is not saved yet; its sync may be late."""
    taken = log.take_unsaved()
    storage.save(None, taken)
    if taken and chance.random() < 0.7:
        storage.sync()
        log.persisted_to(taken[-1].last, taken[-1].term)


def compact_some(log: Log, storage: MemoryStorage, chance: random.Random) -> None:
    """A snapshot of what is applied, if that is more than the last one has."""
    if log.applied > storage.snapshot().index:
        storage.save_snapshot(SnapshotMeta(log.applied, log.term(log.applied), Members()), b"")
        storage.compact(chance.randint(storage.first_index() - 1, log.applied))


class RunStorage(MemoryStorage):
    """Keeps entries one by one, and gives them in other runs than it took."""

    def __init__(self, members: Members, chance: random.Random) -> None:
        super().__init__(members)
        self._chance = chance

    def save(self, hard_state: HardState | None, entries: Sequence[Entry]) -> None:
        super().save(hard_state, list(singles(entries)))

    def entries(self, low: int, high: int, max_bytes: int) -> list[Entry]:
        found = super().entries(low, high, max_bytes)
        beyond = self._chance.randrange(3)
        stop = found[-1].index + 1 if found else low
        if found and beyond and found[-1].kind == EntryKind.NORMAL:
            found += (
                super().entries(stop, min(stop + beyond, self.last_index() + 1), 1 << 20)
                if (stop <= self.last_index())
                else []
            )
        made = runs(found, self._chance)
        while len(made) > 1 and made[-1].index >= stop:  # only the last that was asked for may go on
            made.pop()
        return made

    def split(self, run: Entry, index: int) -> tuple[Entry, Entry]:
        assert run.index < index <= run.last, f"{run} is split at {index}"
        parts = list(singles([run]))
        left, right = parts[: index - run.index], parts[index - run.index :]
        return joined(left), joined(right)


class RunServer(Server):
    """A node on such a storage."""

    def __init__(self, name: str, members: Members, seed: int = 0, lazy: bool = False, **settings: Any) -> None:
        self.runs = random.Random(f"runs {seed} {name}")
        super().__init__(name, members, seed, lazy, **settings)

    def new_storage(self, members: Members) -> RunStorage:
        return RunStorage(members, self.runs)

    def apply(self, entries: tuple[Entry, ...]) -> None:
        super().apply(tuple(entry._replace(data=entry.data.rstrip(b"\n")) for entry in singles(entries)))

    def propose(self, lines: list[bytes]) -> None:
        """Store a run, then propose it.

        :raises RaftRefused: nothing is stored.
        """
        self.turn()
        self.node.check_room(len(lines), sum(map(len, lines)))
        first = self.node.last_index + 1
        stored = runs([Entry(first + at, self.node.term, 1, line) for at, line in enumerate(lines)], self.runs)
        self.storage.save(None, stored)
        self.node.stored(stored)
        self.unsynced.append((stored[-1].last, stored[-1].term, ()))
        if not self.lazy:
            self.sync()


class RunWitness(Witness):
    """Compares entries, however they are joined."""

    @staticmethod
    def singles(entries: Sequence[Entry]) -> Iterable[Entry]:
        return singles(entries)


class RunChaos(Chaos):
    """The random network, with runs."""

    witness_type = RunWitness

    def new_server(self, name: str, members: Members) -> RunServer:
        return RunServer(name, members, self.seed, self.lazy, **self.settings)

    def propose(self) -> None:
        for name in self.names:
            server = self.servers[name]
            if name not in self.down and server.node.role is Role.LEADER:
                assert isinstance(server, RunServer)
                count = self.random.choice([1, 1, 2, 7, 30])
                try:
                    server.propose([b"%d.%d\n" % (self.proposed + each, self.seed) for each in range(count)])
                except RaftRefused:
                    continue
                finally:
                    self.send(server)
                self.proposed += count
