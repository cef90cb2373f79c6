"""What the tests of a log of entries share."""

from __future__ import annotations

import random
import unittest

import attrs

from rocketha.store import atomic_file
from rocketha.store.config import StoreConfig
from rocketha.store.entry_log import EntryLog, load_committed
from rocketha.store.layout import DLEDGER
from rocketha.store.memory_disk import MemoryDisk
from rocketha.store.message_store import MessageStore
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.dledger_terms import TermStart, build_term_start
from rocketha.wire.raft_entries import Entry, EntryKind, HardState, Members
from tests.store.support import HOST, NOW_MS, ROOT, SMALL, message

CONFIG: StoreConfig = attrs.evolve(SMALL, layout=DLEDGER)
DIRECTORY = f"{ROOT}/dledger-n0"
MEMBERS = Members(frozenset({"n0", "n1", "n2"}))


class EntryLogCase(unittest.TestCase):
    """The log of one member, on a disk in memory."""

    config = CONFIG

    def setUp(self) -> None:
        self.disk = MemoryDisk(random.Random(1))
        self.open()

    def open(self) -> None:
        self.store = MessageStore(self.disk, ROOT, self.config, HOST)
        committed = load_committed(self.disk, DIRECTORY).committed
        self.store.load(NOW_MS, 1, f"{ROOT}/epochs", committed=committed)
        self.replica = ReplicaLog(self.store, self.disk, f"{ROOT}/epochs")
        self.replica.load()
        self.log = EntryLog(self.replica, self.disk, DIRECTORY, MEMBERS)
        atomic_file.make_dirs(self.disk, DIRECTORY)
        self.log.load()

    def begin_term(self, term: int) -> None:
        self.log.save(HardState(term, "n0", 0), ())
        data = build_term_start(TermStart(NOW_MS, f"leader-of-{term}:1"))
        self.log.save(None, [Entry(self.log.last_index() + 1, term, EntryKind.NO_OP, data)])

    def lead(self, count: int, last: int = 300) -> None:
        """Append as a master does.

        :param last: bytes of the last body.
        """
        self.replica.confirm(self.replica.end)
        self.replica.promote()
        for number in range(count):
            body = bytes(last if number == count - 1 else 300)
            self.store.append([[message(number, body=body)]], NOW_MS + number)
        assert self.store.ledger is not None
        self.runs = self.store.ledger.take_fresh(1 << 20)
        self.replica.follow()

    def read(self, low: int) -> list[Entry]:
        return self.entries_of(self.log, low)

    @staticmethod
    def entries_of(log: EntryLog, low: int) -> list[Entry]:
        """All from there on."""
        found: list[Entry] = []
        while low <= log.last_index():
            found += log.entries(low, log.last_index() + 1, 4096)
            low = found[-1].last + 1
        return found
