"""A master and a slave of the classic roles, Java's and ours, each both ways: the same bytes after whatever happens.

``make test`` runs some of the pairs for a few MiB and seconds; with ROCKETHA_INTEROP_FULL=1 all of them: a GiB is
caught up and the link is idle for five minutes, on Java alone too, which proves the tests.
Source: issue 9 "Shows" 1; facts/ha-classic.md.
"""

from __future__ import annotations

import shutil
import sys
import time

from .harness.case import FULL, PAIRS, InteropCase
from .harness.controllers import Replica, ReplicaGroup
from .harness.ledger import Ack, Load
from .harness.links import LinkWatch
from .harness.pairs import ClassicPair, await_equal, compare_at_rest, log_state, roots_of, seed_topics
from .harness.processes import wait_until
from .harness.replica_files import LogFiles, check_acknowledged, compare_epochs, compare_whole_logs

FILL_MIB = 1024 if FULL else 8
LIVE_MESSAGES = 4000 if FULL else 400
# several heartbeats of both ends, which are 5 s by default
HEARTBEATS = {} if FULL else {"haSendHeartbeatInterval": 1000}
IDLE_S = 300 if FULL else 4


class Pair(InteropCase):
    """The tests run in the order of their names, on one pair; each leaves master and slave linked and equal."""

    kinds = ("java", "java")
    sync = False
    pair: ClassicPair
    load: Load
    acks: list[Ack]

    @classmethod
    def prepare(cls) -> None:
        cls.acks = []
        namesrv = "java" if cls.kinds == ("java", "java") else "ours"
        cls.pair = ClassicPair(cls.kinds, cls.folder, sync=cls.sync, extra=HEARTBEATS, namesrv=namesrv)
        cls._shared.extend(cls.pair.processes)
        cls.pair.start()
        cls.load = cls.share(Load(cls.pair.namesrv.address, cls.folder / "load"))

    @classmethod
    def say(cls, text: str) -> None:
        sys.stderr.write(f"\n{cls.__name__}: {text}\n")

    def equal(self) -> int:
        """The slave gets everything that the master has, and the same bytes; how many."""
        await_equal(self.pair.brokers)
        return compare_whole_logs(roots_of(self.pair.brokers))

    def live(self, messages: int = 100) -> None:
        """Load until so many messages were acknowledged."""
        run = self.load.begin()
        self.load.await_more(run, messages)
        self.acks += self.load.end(run)

    def test_1_catch_up_then_live(self) -> None:
        """What was written while the slave was down, without waiting for it, is caught up; then live load."""
        self.live()
        self.equal()
        self.pair.slave.stop()
        self.acks += self.load.fill(FILL_MIB, no_wait=True)
        began = time.monotonic()
        self.pair.slave.start()
        ready_s = time.monotonic() - began
        size = self.equal()
        self.say(f"{size} bytes of log equal {time.monotonic() - began:.1f} s after a start that took {ready_s:.1f} s")
        self.assertGreater(size, FILL_MIB << 20)
        self.live(LIVE_MESSAGES)
        self.equal()

    def test_2_slave_restarts_under_load(self) -> None:
        """Stopped and killed: it goes on where its log ends."""
        for end in (self.pair.slave.stop, self.pair.slave.kill):
            run = self.load.begin(no_wait=True)
            self.load.await_more(run)
            end()
            self.load.await_more(run)
            self.pair.slave.restart()
            self.load.await_more(run)
            self.acks += self.load.end(run)
            self.equal()

    def test_3_master_restarts_under_load(self) -> None:
        """Stopped and killed: the slave comes back by itself, and nothing that was acknowledged is gone."""
        for end in (self.pair.master.stop, self.pair.master.kill):
            run = self.load.begin()
            self.load.await_more(run)
            end()
            self.acks += self.load.end(run)
            if self.sync:
                check_acknowledged(self.acks, self.pair.slave.root)
            self.pair.master.restart()
            began = time.monotonic()
            self.pair.await_linked()
            self.say(f"linked again {time.monotonic() - began:.1f} s after the master was ready")
            self.live()
            self.equal()

    def test_4_idle(self) -> None:
        """Nothing to say for longer than both heartbeats: one connection all the time, and it still works."""
        self.pair.await_linked()
        with LinkWatch(self.pair.ha_port) as watch:
            watch.stay(IDLE_S)
        self.assertEqual(
            (len(watch.seen), watch.without), (1, 0), f"peers {watch.seen}, {watch.without} looks found none"
        )
        self.live()
        self.equal()

    def test_6_at_rest(self) -> None:
        """Both stopped: logs and consume queues are equal, and every acknowledged message is in both."""
        await_equal(self.pair.brokers)
        for broker in self.pair.brokers:
            broker.stop()
        size, entries = compare_at_rest(self.pair.brokers)
        for broker in self.pair.brokers:
            self.assertEqual(check_acknowledged(self.acks, broker.root), len(self.acks))
        self.say(f"{len(self.acks)} acknowledged messages, {entries} queue entries, {size} bytes, all equal")
        self.assertGreaterEqual(entries, len(self.acks))

    def test_7_a_master_that_lost_its_disk(self) -> None:
        """And has written more than its slave has (A12). Ours keeps its log; Java's goes on behind it, and nobody is
        told that these are two logs."""
        master, slave = self.pair.brokers
        end = LogFiles(slave.root).end
        shutil.rmtree(master.root)
        seed_topics(master)
        master.start()
        self.load.fill((end >> 20) + 2, no_wait=True)
        self.assertGreater(LogFiles(master.root).end, end)
        slave.start()
        if self.kinds[1] == "java":
            wait_until("the slave to go on", lambda: (state := log_state(slave)) is not None and state.end > end, 60)
            return
        wait_until("the slave to refuse it", lambda: "is another log" in slave.log(), 60)
        state = log_state(slave)
        assert state is not None
        self.assertEqual((state.end, LogFiles(slave.root).end), (end, end))


class SyncPair(Pair):
    """SYNC_MASTER: acknowledged is what both have."""

    sync = True

    def test_5_no_slave(self) -> None:
        """Without its slave a put is stored, and the producer is told that it has no second copy."""
        self.pair.slave.stop()
        said = "FLUSH_SLAVE_TIMEOUT" if self.kinds[0] == "java" else "SLAVE_NOT_AVAILABLE"
        run = self.load.begin()
        wait_until("it to be said", lambda: self.load.state(run)["errors"].get(said, 0) > 8, 60)
        self.assertLessEqual({*self.load.state(run)["errors"]}, {said})
        self.pair.slave.start()
        self.load.await_more(run)
        self.acks += self.load.end(run)
        self.equal()


class AutoswitchPair(InteropCase):
    """Two replicas in controller mode, under one controller of `controllers`; the first kind begins as master."""

    kinds = ("java", "java")
    controllers = "java"
    group: ReplicaGroup
    load: Load
    acks: list[Ack]

    @classmethod
    def prepare(cls) -> None:
        cls.acks = []
        cls.group = ReplicaGroup(
            cls.controllers,
            cls.folder,
            embedded=True,
            controllers=1,
            kinds=cls.kinds,
            extra={"totalReplicas": 2, "inSyncReplicas": 2, **HEARTBEATS},
        )
        cls._shared.extend(cls.group.processes)
        cls.group.start(first=True)
        cls.load = cls.share(Load(cls.group.namesrv_addresses, cls.folder / "load"))

    @classmethod
    def say(cls, text: str) -> None:
        sys.stderr.write(f"\n{cls.__name__}: {text}\n")

    def equal(self) -> int:
        """Both are in the set, their logs and epochs are equal; how many bytes."""
        self.group.await_whole()
        await_equal(self.group.brokers)
        compare_epochs(roots_of(self.group.brokers))
        return compare_whole_logs(roots_of(self.group.brokers))

    def live(self, messages: int = 100) -> None:
        run = self.load.begin()
        self.load.await_more(run, messages)
        self.acks += self.load.end(run)

    def back(self, broker: Replica) -> float:
        """Start a replica; the seconds until it is in the set."""
        broker.spawn()
        began = time.monotonic()
        self.group.await_whole()
        took_s = time.monotonic() - began
        broker.await_ready()
        return took_s

    def alone(self) -> None:
        """Until the set holds the master only."""
        self.group.await_master(lambda state: state.in_sync == (state.master_id,))

    def test_1_catch_up_then_live(self) -> None:
        """What was written while the slave was down is caught up before it counts again; then live load."""
        self.live()
        self.equal()
        (slave,) = self.group.slaves()
        slave.stop()
        self.alone()
        self.acks += self.load.fill(FILL_MIB)
        took_s = self.back(slave)
        size = self.equal()
        self.say(f"{slave.implementation} slave back in the set after {took_s:.1f} s, {size} bytes of log")
        self.assertGreater(size, FILL_MIB << 20)
        self.live(LIVE_MESSAGES)
        self.equal()

    def test_2_slave_restarts_under_load(self) -> None:
        """Stopped and killed: the set shrinks, acknowledgements go on, it comes back."""
        (slave,) = self.group.slaves()
        for end in (slave.stop, slave.kill):
            run = self.load.begin()
            self.load.await_more(run)
            end()
            self.alone()
            self.load.await_more(run)
            self.say(f"{slave.implementation} slave back in the set after {self.back(slave):.1f} s")
            self.load.await_more(run)
            self.acks += self.load.end(run)
            self.equal()

    def test_3_masters_die_in_turn(self) -> None:
        """Killed, then stopped, each of both: the other is elected, and the first comes back as its slave."""
        for end in (Replica.kill, Replica.kill, Replica.stop, Replica.stop):
            state, master = self.group.await_whole(), self.group.master()
            run = self.load.begin()
            self.load.await_more(run)
            began = time.monotonic()
            end(master)
            self.group.await_master(lambda s, old=state.master_epoch: s.master_epoch > old)
            self.say(
                f"{master.implementation} master replaced {time.monotonic() - began:.1f} s after its {end.__name__}"
            )
            self.load.await_more(run)
            self.say(f"{master.implementation} replica back in the set after {self.back(master):.1f} s")
            self.load.await_more(run)
            self.acks += self.load.end(run)
            self.equal()

    def test_4_idle(self) -> None:
        """Nothing to say for longer than both heartbeats: one connection all the time, and it still works."""
        with LinkWatch(self.group.master().port + 1) as watch:
            watch.stay(IDLE_S)
        self.assertEqual(
            (len(watch.seen), watch.without), (1, 0), f"peers {watch.seen}, {watch.without} looks found none"
        )
        self.live()
        self.equal()

    def test_6_at_rest(self) -> None:
        """Both stopped: logs, epochs and queues are equal, and every acknowledged message is in both."""
        self.equal()
        self.group.stop_brokers()
        size, entries = compare_at_rest(self.group.brokers)
        said = compare_epochs(roots_of(self.group.brokers))
        for broker in self.group.brokers:
            self.assertEqual(check_acknowledged(self.acks, broker.root), len(self.acks))
        self.say(f"{len(self.acks)} acknowledged messages, {entries} entries, {size} bytes, all equal; epochs {said}")
        self.assertGreaterEqual(entries, len(self.acks))


OURS_JAVA, JAVA_OURS = ("ours", "java"), ("java", "ours")
for base, sample in ((Pair, (JAVA_OURS, OURS_JAVA)), (SyncPair, (OURS_JAVA,))):
    for pair in PAIRS if FULL else sample:
        name = f"{base.__name__}_{pair[0]}_master_{pair[1]}_slave"
        globals()[name] = type(name, (base,), {"kinds": pair, "__module__": __name__, "__doc__": base.__doc__})
for controllers, sample in (("ours", (JAVA_OURS,)), ("java", ())):
    for pair in PAIRS if FULL else sample:
        name = f"AutoswitchPair_{pair[0]}_and_{pair[1]}_under_{controllers}"
        members = {"kinds": pair, "controllers": controllers, "__module__": __name__, "__doc__": AutoswitchPair.__doc__}
        globals()[name] = type(name, (AutoswitchPair,), members)
del Pair, SyncPair, AutoswitchPair, base
