"""The links over real stores: replicas that follow a master, and a master that comes back with a tail nobody knows."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from rocketha.replication.autoswitch_master import AutoswitchMaster
from rocketha.replication.autoswitch_slave import AutoswitchSlave
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.epochs import EpochCache
from rocketha.replication.link import Align, Append, Close, Confirm, Effect, SaveEpochs, Send, SendLog
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.ha_frames import SlaveHello
from tests.store.replica_support import catch_up, elect, files, fill, memory, open_master, open_replica, raw
from tests.store.support import NOW_MS


def at_slave(link: AutoswitchSlave, log: ReplicaLog, effects: list[Effect]) -> bytes:
    """Carry out a slave's effects on its store; what it says to the master."""
    said = b""
    for effect in effects:
        if isinstance(effect, Send):
            said += effect.data
        elif isinstance(effect, Append):
            log.append_raw(effect.offset, effect.data)
        elif isinstance(effect, SaveEpochs):
            log.save_epochs(effect.epochs)
        elif isinstance(effect, Confirm):
            log.confirm(effect.offset)
        elif isinstance(effect, Align):
            end = log.truncate(effect.offset, effect.epochs)
            log.save_epochs([entry for entry in effect.epochs if entry.start_offset <= end])
            said += at_slave(link, log, link.aligned(log.end, log.epochs, 0))
        else:
            raise AssertionError(effect)
    if any(isinstance(effect, Append) for effect in effects):
        log.dispatch()
        said += at_slave(link, log, link.appended(log.ack_offset, 0))
    return said


def follow(master: ReplicaLog, replica: ReplicaLog, chance: random.Random) -> AutoswitchMaster:
    """One connection, until the replica acknowledged all; reads are cut anywhere."""
    confirm = ConfirmOffset(master.end, master.end)
    epoch = master.epochs[-1].epoch
    at_master = AutoswitchMaster(
        master, EpochCache(master.epochs), confirm, 0, batch_bytes=chance.choice((700, 1 << 20))
    )
    link = AutoswitchSlave(SlaveHello(2), replica, replica.epochs, epoch, replica.store.confirm_offset, 0)
    reader = master.reader()
    up, down = at_slave(link, replica, link.begin(0)), b""
    while up or down:
        pending = at_master.received(up, 0)
        up = b""
        while pending:
            effect = pending.pop(0)
            assert not isinstance(effect, Close), effect
            if isinstance(effect, Send):
                down += effect.data
            elif isinstance(effect, SendLog):
                down += effect.head + reader.read(effect.offset, effect.size)
                pending += at_master.drained(0)
        while down:
            size = chance.randint(1, min(900, len(down)))
            up += at_slave(link, replica, link.received(down[:size], 0))
            down = down[size:]
    reader.close()
    return at_master


class StoreTests(SynchronousTestCase):
    """What a store and a link promise each other holds."""

    def assert_equal(self, one: ReplicaLog, other: ReplicaLog) -> None:
        """Same bytes, same epochs."""
        self.assertEqual(raw(one), raw(other))
        self.assertEqual(one.epochs, other.epochs)

    def test_empty_replica(self) -> None:
        """Over several files and two epochs: log, queues and index are the master's, byte for byte."""
        for seed in range(2):
            theirs, ours = memory(), memory(seed)
            master, replica = open_master(theirs), open_replica(ours)
            fill(master, 0, 70)
            master.follow()
            elect(master, 2)
            fill(master, 70, 50)
            link = follow(master, replica, random.Random(seed))
            self.assertEqual(link.acked, master.end)
            self.assert_equal(master, replica)
            catch_up(replica)
            for log in (master, replica):
                log.store.close(NOW_MS)
            for folder in ("commitlog", "consumequeue", "index"):
                self.assertEqual(files(ours, folder), files(theirs, folder), folder)

    def test_s0_28_old_master_comes_back(self) -> None:
        """It wrote what nobody has; that is cut, and its queues follow the new master's log."""
        for seed in range(2):
            first, second = open_master(memory(seed)), open_replica(memory(seed + 9))
            fill(first, 0, 40)
            follow(first, second, random.Random(seed))
            fill(first, 500, 30)
            elect(second, 2)
            fill(second, 40, 60)
            first.follow()
            link = follow(second, first, random.Random(seed))
            self.assertEqual(link.acked, second.end)
            self.assert_equal(first, second)
            elect(first, 3)
            fill(first, 100, 10)
            second.follow()
            follow(first, second, random.Random(seed))
            self.assert_equal(first, second)
