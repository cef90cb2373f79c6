"""A group of three in DLedger mode whose leader's disk fills up, or becomes read-only: real file systems.

Skipped where none can be mounted.
"""

from __future__ import annotations

import sys
import time
import unittest
from collections.abc import Sequence

from .harness import JavaNamesrv, mounts
from .harness.ledger import Load
from .harness.ledgers import LedgerGroup
from .harness.processes import wait_until
from .harness.roles import _Broker
from .test_dledger import ELECTION_S, GroupCase

SUCCESSOR_S = 3.0
DISK_BYTES = 320 << 20


class DiskCase(GroupCase):
    """Each member's store is on a file system of its own."""

    @classmethod
    def setUpClass(cls) -> None:
        if mounts.why_not():
            raise unittest.SkipTest(mounts.why_not())
        super().setUpClass()

    @classmethod
    def prepare(cls) -> None:
        cls.namesrv = cls.share(JavaNamesrv("namesrv", cls.folder / "namesrv"))
        cls.group = LedgerGroup(cls.kinds, cls.folder, cls.namesrv)
        cls.disks = [cls.mount(broker) for broker in cls.group.brokers]
        cls._shared += cls.group.brokers
        cls.group.start()
        cls.load = cls.share(Load(cls.namesrv.address, cls.folder / "load"))

    @classmethod
    def mount(cls, broker: _Broker) -> mounts.Small | mounts.Fragile:
        raise NotImplementedError

    def succeeded(self, master: _Broker, began: float) -> None:
        """Another one leads in time."""
        took_s = self.group.await_successor(master, began)
        sys.stderr.write(f"{type(self).__name__}: a successor after {took_s:.2f} s\n")
        self.assertLess(took_s, SUCCESSOR_S)

    def says(self, broker: _Broker, words: Sequence[str]) -> None:
        """The log of a broker has all of these in a line."""

        def said() -> bool:
            lines = broker.log_path.read_text(errors="replace").splitlines()
            return any(all(word in line for word in words) for line in lines)

        wait_until(f"{words} in the log", said, ELECTION_S)


class FullDisk(DiskCase):
    """Somebody else takes all that is left."""

    @classmethod
    def mount(cls, broker: _Broker) -> mounts.Small:
        made = mounts.Small(broker.root, DISK_BYTES)
        cls.addClassCleanup(made.close)
        return made

    def test_full(self) -> None:
        """Another one leads, nothing acknowledged is lost, and with room again it follows."""
        run = self.load.begin(rate=200)
        self.load.await_more(run, 200)
        master = self.group.await_master()
        disk = self.disks[self.group.brokers.index(master)]
        assert isinstance(disk, mounts.Small)
        filler, began = disk.fill(), time.monotonic()
        self.succeeded(master, began)
        self.load.await_more(run, 200)
        self.says(master, ["another member is to lead, where one can: the disk is"])
        filler.unlink()
        self.load.await_more(run, 200)
        acks = self.load.end(run)
        self.assertEqual(self.lost(acks)[:5], [])
        self.same_logs()
        self.assertEqual(self.group.not_stored(acks)[:5], [])


class ReadOnlyDisk(DiskCase):
    """The kernel found an error."""

    @classmethod
    def mount(cls, broker: _Broker) -> mounts.Fragile:
        made = mounts.Fragile(broker.root, cls.folder / f"{broker.root.parent.name}.img", DISK_BYTES)
        cls.addClassCleanup(made.close)
        return made

    def test_read_only(self) -> None:
        """Another one leads, nothing acknowledged is lost; repaired and started again it follows."""
        run = self.load.begin(rate=200)
        self.load.await_more(run, 200)
        master = self.group.await_master()
        disk = self.disks[self.group.brokers.index(master)]
        assert isinstance(disk, mounts.Fragile)
        disk.fail()
        self.succeeded(master, time.monotonic())
        self.load.await_more(run, 200)
        self.says(master, ["Read-only file system"])
        master.kill()
        disk.repair()
        master.start()
        self.load.await_more(run, 200)
        acks = self.load.end(run)
        self.assertEqual(self.lost(acks)[:5], [])
        self.same_logs()
        self.assertEqual(self.group.not_stored(acks)[:5], [])
