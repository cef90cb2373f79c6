"""What the tests of the Raft log share: short ways to make entries, a disk that can be copied and hooked, and a model
of what a log owes to whoever was told that something is safe."""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs

from rocketha.errors import DiskFailure
from rocketha.store.disk import Disk
from rocketha.store.memory_disk import MemoryDisk, MemoryFile
from rocketha.store.raft_log import RaftLog
from rocketha.wire.raft_entries import Entry, EntryKind, HardState, Members, SnapshotMeta

ROOT = "/data/controller/raft"
GROUP, NODE = "group-a", "n0"
MEMBERS = Members({"n0", "n1", "n2"}, addresses={"n0": "127.0.0.1:9877", "n1": "[::1]:9878", "n2": "c-2.example:9879"})
GROWN = Members(
    {"n0", "n1", "n3"}, {"n0", "n1", "n2"}, {"n4"}, {"n2"}, {f"n{number}": f"h{number}:1" for number in range(5)}
)
SEGMENT_BYTES = 1024
MEMORY_BYTES = 3000


def entry(index: int, term: int, size: int | None = None) -> Entry:
    """An entry whose data tell where it belongs."""
    data = b"%d of term %d;" % (index, term)
    if size is not None:
        data = (data * (size // len(data) + 1))[:size]
    return Entry(index, term, EntryKind.NORMAL, data)


def entries(first: int, last: int, term: int, size: int | None = None) -> list[Entry]:
    """Adjacent ones."""
    return [entry(index, term, size) for index in range(first, last + 1)]


def open_log(disk: Disk, directory: str = ROOT, segment_bytes: int = SEGMENT_BYTES, id: str = NODE) -> RaftLog:
    """A log of small segments and a short memory."""
    return RaftLog.open(disk, directory, GROUP, id, MEMBERS, segment_bytes, MEMORY_BYTES)


def held(log: RaftLog) -> list[Entry]:
    """Every entry that a log gives."""
    return log.entries(log.first_index(), log.last_index() + 1, 1 << 40)


def snapshot_data(meta: SnapshotMeta, size: int = 300) -> bytes:
    """What a snapshot at ``meta`` contains."""
    return (b"all up to %d;" % meta.index * size)[:size]


def save_snapshot(log: RaftLog, meta: SnapshotMeta, data: bytes) -> None:
    """As the driver does it in two steps, in two threads."""
    log.write_snapshot(meta, data)
    log.install_snapshot(meta)


def image(disk: MemoryDisk, directory: str = ROOT) -> dict[str, bytes]:
    """The files of a directory."""
    return {f"{directory}/{name}": disk.read_all(f"{directory}/{name}", 1 << 30) for name in disk.list(directory)}


def restored(files: dict[str, bytes], seed: int = 1) -> MemoryDisk:
    """A disk with these files, synced."""
    disk = MemoryDisk(random.Random(seed))
    for path, data in files.items():
        disk.make_dirs(path.rpartition("/")[0])
        file = disk.create(path, len(data))
        file.write(0, [data])
        file.sync()
        disk.sync_dir(path.rpartition("/")[0])
    return disk


class HookedFile(MemoryFile):
    """Calls the disk's hook when a sync of a segment has done its work, before the caller knows."""

    def sync(self) -> None:
        super().sync()
        disk = self._disk
        assert isinstance(disk, HookedDisk)
        hook, disk.hook = disk.hook, None
        if hook is not None and self.path.endswith(".log"):
            hook()
        else:
            disk.hook = hook


class HookedDisk(MemoryDisk):
    """A memory disk on which something can happen while a sync runs in its worker."""

    hook: Callable[[], None] | None = None

    def open(self, path: str) -> MemoryFile:
        file = super().open(path)
        file.__class__ = HookedFile
        return file

    def create(self, path: str, size: int, preallocate: bool = False) -> MemoryFile:
        file = super().create(path, size, preallocate)
        file.__class__ = HookedFile
        return file


@attrs.frozen
class Chain:
    """A log that may be what is there: entries from ``start`` on."""

    start: int
    entries: tuple[Entry, ...]

    @property
    def last(self) -> int:
        """Its last entry."""
        return self.start + len(self.entries) - 1

    def get(self, low: int, high: int) -> tuple[Entry, ...]:
        """Entries from ``low`` to before ``high``."""
        return self.entries[low - self.start : high - self.start]

    def replaced(self, new: list[Entry]) -> Chain:
        """With these in place of what is from the first of them on."""
        return Chain(self.start, (*self.get(self.start, new[0].index), *new))


def _common(one: Chain, other: Chain) -> int:
    """The last entry up to which two logs agree."""
    last = max(one.start, other.start) - 1
    for mine, theirs in zip(one.get(last + 1, 1 << 62), other.get(last + 1, 1 << 62)):
        if mine != theirs:
            break
        last = mine.index
    return last


@attrs.define
class Model:
    """What the log owes.

    :ivar chain: the log as it is read now.
    :ivar others: what else a new start may find: what operations that failed half way may have left.
    :ivar floor: entries up to here were synced.
    :ivar votes: the pairs (term, vote) that a new start may find; one, unless a save of one failed.
    :ivar commit: the highest commit that the log was told.
    :ivar snapshots: snapshots a new start may find as the newest; the first one counts now.
    """

    chain: Chain = Chain(1, ())
    others: list[Chain] = attrs.Factory(list)
    floor: int = 0
    votes: list[tuple[int, str]] = attrs.Factory(lambda: [(0, "")])
    commit: int = 0
    snapshots: list[SnapshotMeta] = attrs.Factory(lambda: [SnapshotMeta(0, 0, MEMBERS)])

    def problems(self, log: RaftLog) -> list[str]:
        """Promises that a log just opened does not keep; what it does hold is what counts from now on."""
        found = []
        hard_state, members = log.initial()
        meta = log.snapshot()
        first, last = log.first_index(), log.last_index()
        if (hard_state.term, hard_state.vote) not in self.votes:
            found.append(f"votes are {self.votes}, found {hard_state}")
        if (meta.index and meta not in self.snapshots) or meta.index < self.snapshots[0].index:
            found.append(f"snapshots are {[each.index for each in self.snapshots]}, found {meta.index}")
        if members != (meta.members if meta.index else MEMBERS):
            found.append(f"members are {members}")
        if meta.index and log.read_snapshot(0, 1 << 20) != snapshot_data(meta):
            found.append("the snapshot has other data")
        if not first - 1 <= meta.index <= last:
            found.append(f"the snapshot is at {meta.index}, the log holds {first} to {last}")
        if last < self.floor or hard_state.commit > min(last, max(self.commit, meta.index)):
            found.append(f"synced up to {self.floor}, committed {self.commit}; found {last} and {hard_state.commit}")
        now = tuple(held(log))
        fitting = [
            chain for chain in (self.chain, *self.others) if first >= chain.start and chain.get(first, last + 1) == now
        ]
        if now and not fitting:
            found.append(f"entries {first} to {last} are none of what was saved: {now}, saved {self.chain}")
        self.chain, self.others = Chain(first, now), []
        self.floor = last
        self.votes = [(hard_state.term, hard_state.vote)]
        self.commit = max(hard_state.commit, meta.index)
        self.snapshots = [attrs.evolve(meta, members=members)]
        return found


class Run:
    """A node that uses its log in an order that a seed decides, on a disk that may fail."""

    def __init__(self, disk: MemoryDisk, seed: int) -> None:
        self.disk = disk
        self.random = random.Random(seed)
        self.model = Model()
        self.log: RaftLog | None = None
        self.counts: dict[str, int] = {}

    def start(self) -> list[str]:
        """Open; what is wrong with what is found."""
        self.log = open_log(self.disk)
        return self.model.problems(self.log)

    def step(self) -> list[str]:
        """One operation; what it gave that it should not have.

        :raises DiskFailure: it failed, and the log is unusable now.
        """
        log = self.log
        assert log is not None
        chosen = self.random.choices(
            (self.append, self.replace, self.vote, self.sync, self.sync_beside, self.take, self.receive, self.look),
            (6, 2, 1, 4, 2, 1.5, 0.4, 3),
        )[0]
        self.counts[chosen.__name__] = self.counts.get(chosen.__name__, 0) + 1
        try:
            return chosen(log) or []
        except DiskFailure:
            if log.failed is not None:
                raise
            return self._settle(log)

    def _settle(self, log: RaftLog) -> list[str]:
        """After a failure that left the log usable: it is what it was, or what it was to be, or a beginning of that."""
        model = self.model
        first, last = log.first_index(), log.last_index()
        now = tuple(held(log))
        for chain in (*reversed(model.others), model.chain):
            if chain.start <= first and model.floor <= last <= chain.last and chain.get(first, last + 1) == now:
                model.chain = Chain(chain.start, chain.get(chain.start, last + 1))
                break
        else:
            return [f"after a failure the log is {first} to {last}: {now}, saved were {model.chain}, {model.others}"]
        if log.snapshot().index != model.snapshots[0].index:
            model.snapshots = [meta for meta in model.snapshots if meta.index == log.snapshot().index]
            model.commit = max(model.commit, log.snapshot().index)
        return self.look(log)

    def _save(self, log: RaftLog, new: list[Entry]) -> None:
        model = self.model
        before, after = model.chain, model.chain.replaced(new)
        common = _common(before, Chain(after.start, after.entries))
        if common < before.last:
            model.floor = min(model.floor, common)
        model.others.append(after)
        log.save(HardState(*model.votes[0], self._commit(new[0].index - 1)), new)
        model.chain, model.others = after, []

    def _commit(self, most: int) -> int:
        if self.random.random() < 0.3:
            self.model.commit = max(self.model.commit, min(most, self.model.chain.last))
        return self.model.commit

    def _term(self) -> int:
        return self.model.votes[0][0]

    def append(self, log: RaftLog) -> None:
        """Some entries at the end."""
        last, term = self.model.chain.last, self._term()
        if not term:
            self.vote(log)
            return
        count = self.random.choice((1, 1, 2, 5, 9))
        size = self.random.choice((None, None, 0, 90, 400, 3000 if count == 1 else 200))
        self._save(log, entries(last + 1, last + count, term, size))

    def replace(self, log: RaftLog) -> None:
        """A new leader's entries in place of a suffix; sometimes the same ones again."""
        chain = self.model.chain
        low = max(self.model.commit, log.first_index() - 1, self.model.snapshots[0].index) + 1
        if low > chain.last:
            return
        first = self.random.randrange(low, chain.last + 1)
        old = list(chain.get(first, chain.last + 1))
        if self.random.random() < 0.3:
            self._save(log, old[: self.random.randrange(1, len(old) + 1)])
            return
        self.vote(log)
        keep = old[: self.random.randrange(len(old))]
        start = first + len(keep)
        self._save(log, keep + entries(start, start + self.random.randrange(4), self._term()))

    def vote(self, log: RaftLog) -> None:
        """A new term."""
        term, _ = self.model.votes[0]
        wanted = (term + 1, self.random.choice(("", "n0", "n1", "n2")))
        try:
            log.save(HardState(*wanted, self.model.commit), [])
        except DiskFailure:
            if log.failed is not None:
                self.model.votes.append(wanted)
            raise
        self.model.votes = [wanted]

    def sync(self, log: RaftLog) -> None:
        """All that was saved is safe now."""
        last = log.last_index()
        log.sync()
        self.model.floor = max(self.model.floor, last)

    def sync_beside(self, log: RaftLog) -> None:
        """The same while the reactor goes on: only what was there before, and still is, is safe."""
        disk, model, failures = self.disk, self.model, []
        assert isinstance(disk, HookedDisk)

        def meanwhile() -> None:
            for _ in range(self.random.randrange(1, 3)):
                try:
                    self.random.choice((self.append, self.append, self.replace))(log)
                except DiskFailure as failure:
                    failures.append(failure)
                    return

        before = model.chain
        disk.hook = meanwhile
        try:
            log.sync()
        finally:
            disk.hook = None
        if failures:
            raise failures[0]
        common = _common(before, model.chain)
        model.floor = max(model.floor, common)
        assert log.synced_index() >= common, (log.synced_index(), common)

    def take(self, log: RaftLog) -> None:
        """A snapshot of what is applied, and sometimes compaction behind it."""
        model = self.model
        self._commit(model.chain.last)
        low = max(log.first_index(), model.snapshots[0].index + 1)
        if low <= model.commit:
            index = self.random.randrange(low, model.commit + 1)
            meta = SnapshotMeta(index, log.term(index), self.random.choice((MEMBERS, GROWN)))
            self._snapshot(log, meta)
        if self.random.random() < 0.7:
            log.compact(self.random.randrange(log.first_index() - 1, model.snapshots[0].index + 1))

    def receive(self, log: RaftLog) -> None:
        """A snapshot from a leader that is ahead; it replaces the log."""
        model = self.model
        if not self._term():
            return
        index = max(model.commit, model.snapshots[0].index) + self.random.randrange(1, 12)
        meta = SnapshotMeta(index, self._term(), GROWN)
        if index <= model.chain.last and log.term(index) == meta.term:
            return
        self._snapshot(log, meta)

    def _snapshot(self, log: RaftLog, meta: SnapshotMeta) -> None:
        model = self.model
        holds = log.first_index() - 1 <= meta.index <= log.last_index() and log.term(meta.index) == meta.term
        after = model.chain if holds else Chain(meta.index + 1, ())
        model.snapshots.append(meta)
        model.others.append(Chain(meta.index + 1, ()))  # also of one's own: entries before it may be lost unsynced
        if not holds:
            model.floor = min(model.floor, meta.index)
        try:
            save_snapshot(log, meta, snapshot_data(meta))
        except DiskFailure:
            if log.failed is not None or holds:
                raise
            save_snapshot(log, meta, snapshot_data(meta))  # a node that was sent one gets it again before it goes on
        model.chain, model.snapshots = after, [meta]
        model.commit = max(model.commit, meta.index)

    def look(self, log: RaftLog) -> list[str]:
        """Read a part, from memory or disk."""
        chain = self.model.chain
        if (log.last_index(), log.snapshot().index) != (chain.last, self.model.snapshots[0].index):
            return [f"the log ends with {log.last_index()}, {chain.last} were saved; snapshot {log.snapshot().index}"]
        low = self.random.randrange(log.first_index(), log.last_index() + 2)
        high = self.random.randrange(low, log.last_index() + 2)
        most = self.random.choice((0, 50, 500, 1 << 30))
        got, wanted = log.entries(low, high, most), list(chain.get(low, high))
        while len(wanted) > 1 and sum(len(each.data) for each in wanted) > most:
            wanted.pop()
        return [] if got == wanted else [f"[{low}, {high}) at most {most} gives {got}, wanted {wanted}"]
