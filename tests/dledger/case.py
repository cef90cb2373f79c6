"""This node and one Java member, ``j``: what is told to the core, and what is asked of the member."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable, Sequence

from rocketha.dledger.here import Here
from rocketha.raft.config import RaftConfig
from rocketha.raft.memory_storage import MemoryStorage
from rocketha.raft.messages import Entry, EntryKind, HardState, Members, Message, SnapshotMeta
from rocketha.raft.node import RaftNode
from rocketha.wire import dledger
from rocketha.wire import dledger_values as values

FILE_BYTES = 1024
BODY = 52
"""Entries of 100 bytes: ten in a file, with room for what ends it."""

PEERS = {"n": "127.0.0.1:1", "j": "127.0.0.1:2", "k": "127.0.0.1:3"}


def position(number: int) -> int:
    """Where an entry stands."""
    return number // 10 * FILE_BYTES + number % 10 * 100


def java_entry(number: int, term: int, text: bytes = b"") -> values.Entry:
    """As Java counts."""
    body = text or b"%d/%d" % (number, term)
    return values.Entry(1, 100, number, term, position(number), 0, 0, 0, body.ljust(BODY))


def java_log(*terms: int) -> list[values.Entry]:
    """A log whose entries have these terms."""
    return [java_entry(number, term) for number, term in enumerate(terms)]


def core_entry(entry: values.Entry) -> Entry:
    """As the core counts."""
    return Entry(entry.entry_index + 1, entry.term + 1, int(EntryKind.NORMAL), values.raw_entries([entry]))


class Storage:
    """Of a log of such entries."""

    file_size = FILE_BYTES

    def __init__(self, log: MemoryStorage) -> None:
        self._log = log

    def raw(self, entry: Entry) -> bytes:
        return entry.data

    def end_of(self, index: int) -> int:
        if index == 0:
            return 0
        head = dledger.parse_head(self._log.entries(index, index + 1, 1)[0].data)
        return head.position + head.size


class JavaCase(unittest.TestCase):
    """See the module.

    :ivar told: to the core.
    :ivar asked: of the member: the request, and whom to tell the answer.
    :ivar later: what waits for its time, in order of being asked for.
    """

    def make(self, log: Sequence[values.Entry] = (), term: int = 0, commit: int = 0, first: int = 0) -> Here:
        """This node, with a log.

        :param term: the core's; that of the last entry where it is not said.
        :param first: Java's number of the first entry that is still there.
        """
        storage = MemoryStorage(Members(frozenset(PEERS), addresses=PEERS))
        entries = [core_entry(entry) for entry in log]
        storage.save(HardState(term or (entries[-1].term if entries else 0), "", commit), entries)
        storage.sync()
        if first:
            storage.save_snapshot(SnapshotMeta(first, storage.term(first), storage.initial()[1]), b"")
            storage.compact(first)
        self.told: list[Message] = []
        self.asked: list[tuple[values.Message, Callable[[values.Message | None], None]]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.now_s = 0.0
        self.node = RaftNode(RaftConfig("n", hands_out=False), storage, random.Random(0))
        self.here = Here(
            "g",
            "n",
            self.node,
            Storage(storage),
            self.told.extend,
            lambda: self.now_s,
            lambda seconds, call: self.later.append((seconds, call)),
        )
        return self.here

    def ask(self, request: values.Message, answered: Callable[[values.Message | None], None]) -> None:
        """Of the member."""
        self.asked.append((request, answered))

    def take_told(self) -> list[Message]:
        """And forget it."""
        told = list(self.told)
        self.told.clear()
        return told

    def pass_time(self) -> None:
        """All that waits comes."""
        waiting, self.later = self.later, []
        for seconds, call in waiting:
            self.now_s += seconds
            call()
