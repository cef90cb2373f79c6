"""Java's brokers and ours in one group: masters die, freeze, stop and are cut back under load, and nothing is lost.

``make test`` runs each fault once on one mixture, with one controller; with ROCKETHA_INTEROP_FULL=1 forty switches on
both mixtures under three controllers, ours and Java's. A frozen Java master acknowledges by itself when it thaws
(regressions A21): that is counted apart. Nothing of the kind is forgiven ours.
Source: issue 9 "Shows" 2, 5 and 7.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import Any

from .harness.case import FULL
from .harness.controllers import CLUSTER, GROUP, GroupState, Replica
from .harness.faults import Faults, reset_connections, why_no_resets
from .harness.pairs import await_equal, compare_at_rest, roots_of
from .harness.processes import Process, wait_until
from .harness.replica_files import compare_epochs, compare_whole_logs, epochs
from .harness.roles import READY_S
from .harness.switching import SwitchingCase

ELECT_MASTER = 1002
SEED = int(os.environ.get("ROCKETHA_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
SWITCHES = 40 if FULL else 4
# the promise is 2 s; a machine that runs other tests too takes that long to start a process
BACK_S = 2.0 if FULL else 15.0
RESETS = 20 if FULL else 1
RESET_STAYS_S = 1.5
# what a switch that nobody notices may take: the default client's own time to send
DEFAULT_CLIENT = {"retries": 2, "poll_namesrv_ms": 30000}
Fault = Callable[[Faults], Any]


class MixedGroup(SwitchingCase):
    """The tests run in the order of their names, on one group."""

    kinds = ("java", "ours", "ours")

    def faults(self, chance: random.Random) -> Sequence[Fault]:
        """Each fault a quarter of the time, in random order."""

        def diverge_master(acting: Faults) -> None:
            acting.diverge_master(self.load)

        kinds: list[Fault] = [Faults.kill_master, Faults.freeze_master, Faults.stop_master, diverge_master]
        drawn = kinds * (SWITCHES // len(kinds))
        chance.shuffle(drawn)
        return drawn

    def whole(self) -> GroupState:
        """The group whole again; who does not come back by itself is restarted, and is none of ours (A22)."""
        stuck: list[int] = []
        state = self.settle(stuck)
        ours = {broker.broker_id() for broker in self.group.brokers if broker.implementation == "ours"}
        self.assertEqual(ours & set(stuck), set(), "replicas of ours were missing")
        return state

    def assertReplicasEqual(self) -> None:
        """Nobody sends: logs are the same bytes to the same end, epoch files the same lines."""
        self.whole()
        await_equal(self.group.brokers)
        compare_whole_logs(roots_of(self.group.brokers))
        compare_epochs(roots_of(self.group.brokers))

    def master_of(self, kind: str) -> Replica:
        """Elect until the master is one of `kind`."""
        state = self.whole()
        if self.group.master().implementation != kind:
            heir = next(broker for broker in self.group.brokers if broker.implementation == kind)
            self.elect(heir)
            self.group.await_master(lambda s: s.master_epoch > state.master_epoch)
            self.whole()
        return self.group.master()

    def elect(self, heir: Replica) -> None:
        """As mqadmin's electMaster does."""
        fields = {
            "clusterName": CLUSTER,
            "brokerName": GROUP,
            "brokerId": str(heir.broker_id()),
            "designateElect": "true",
        }
        reply = self.group.controllers.call(ELECT_MASTER, fields)
        self.assertEqual(reply.code, 0, reply.remark)

    def test_1_switches(self) -> None:
        """Every acknowledged message is delivered, none is there twice, all replicas are equal when it is quiet."""
        storm = self.storm(self.faults(random.Random(SEED)), patience_s=60)
        self.say(f"seed {SEED}: {storm.text()}; {storm.switches}")
        self.assertNoneLost(storm)
        self.assertGreaterEqual(len(storm.switches), SWITCHES)
        self.assertGreaterEqual(sum(size > 0 for size in storm.diverged), SWITCHES // 4)
        self.assertReplicasEqual()

    def test_2_back_in_the_set(self) -> None:
        """A killed replica of ours counts again soon after its process started; a frozen master of ours once thawed."""
        self.master_of("ours")
        storm = self.storm([self.slave_of_ours_restarts, Faults.freeze_master])
        self.say(storm.text())
        self.assertEqual(storm.verdict.lost, 0, storm.text())
        ours = [seconds for what, seconds in storm.back_s if what.startswith("ours")]
        self.assertGreaterEqual(len(ours), min(2, self.kinds.count("ours")))
        self.assertLessEqual(max(ours), BACK_S, storm.text())

    def slave_of_ours_restarts(self, acting: Faults) -> None:
        """kill -9 of a slave of ours, if there is one, and its return."""
        slave = next((broker for broker in self.group.slaves() if broker.implementation == "ours"), None)
        if slave is not None:
            slave.kill()
            self.group.await_master(lambda state: slave.broker_id() not in state.in_sync)
            acting.back(slave)

    def test_3_planned_switch(self) -> None:
        """electMaster takes the role from a master of ours: no send of a default client fails, it is passed on."""

        def elect(acting: Faults) -> None:
            state = self.group.await_master()
            slaves = self.group.slaves()
            self.elect(next((broker for broker in slaves if broker.implementation == "ours"), slaves[0]))
            self.group.await_master(lambda s: s.master_epoch > state.master_epoch)

        self.master_of("ours")
        storm = self.storm([elect], client=DEFAULT_CLIENT)
        self.say(f"{storm.longest_gap_ms} ms without an acknowledgement; {storm.text()}")
        self.assertEqual((storm.errors, storm.verdict.lost), ({}, 0), storm.text())

    def test_3_planned_stop(self) -> None:
        """SIGTERM of a master of ours: no send of a default client fails while it has not polled its route."""
        self.master_of("ours")
        storm = self.storm([Faults.stop_master], client=DEFAULT_CLIENT)
        self.say(f"{storm.longest_gap_ms} ms without an acknowledgement; {storm.text()}")
        self.assertEqual((storm.errors, storm.verdict.lost), ({}, 0), storm.text())

    def test_4_a_java_master_that_writes_no_epoch_down(self) -> None:
        """Elected again with nothing sent since it last was, it shows the older epoch; ours follow it all the same."""
        java, ours = (self.replica_of(kind) for kind in ("java", "ours"))
        self.storm([lambda acting: acting.stay(1.0)])
        state = self.whole()
        for heir in (java, ours, java):
            if self.group.master() is not heir:
                self.elect(heir)
                self.group.await_master(lambda s, last=state: s.master_epoch > last.master_epoch)
            state = self.whole()
        written, _ = epochs(java.root)[-1]
        self.assertLess(written, state.master_epoch, "Java has learned to write it down: see ha_address.py")
        storm = self.storm([lambda acting: acting.stay(1.0)])
        self.assertEqual((storm.errors, storm.verdict.lost), ({}, 0), storm.text())
        self.assertReplicasEqual()
        java.kill()
        self.group.await_master(lambda s: s.master_epoch > state.master_epoch)
        java.start()
        self.storm([lambda acting: acting.stay(1.0)])  # a Java slave knows an epoch by its messages
        self.assertReplicasEqual()

    def replica_of(self, kind: str) -> Replica:
        return next(broker for broker in self.group.brokers if broker.implementation == kind)

    def test_4_resets(self) -> None:
        """Every connection of a healthy master of ours reset, one kind after the other: nobody notices (A24, B8)."""
        if why_no_resets():
            self.skipTest(why_no_resets())
        group = self.group
        kinds: dict[str, Callable[[], Sequence[Process]]] = {
            "controllers": lambda: group.controllers.nodes,
            "replicas": lambda: group.slaves(),
            "nameservers": lambda: [group.namesrv] if group.namesrv else group.controllers.nodes,
            "clients": lambda: [self.load],
        }
        broken: dict[str, list[int]] = {}

        def reset(kind: str) -> Fault:
            def fault(acting: Faults) -> None:
                master = self.master_of("ours")  # as it was, unless these are Java's controllers
                count = reset_connections(master, kinds[kind]())
                if not count and self.kind == "java":  # a client may not have found this master yet
                    found = wait_until("one to reset", lambda: reset_connections(master, kinds[kind]()), READY_S)
                    assert isinstance(found, int)
                    count = found
                broken.setdefault(kind, []).append(count)
                acting.stay(RESET_STAYS_S)

            fault.__name__ = f"a reset to {kind}"
            return fault

        storm = self.storm([reset(kind) for kind in kinds for _ in range(RESETS)], client=DEFAULT_CLIENT)
        self.say(f"connections reset: {broken}; {storm.text()}")
        self.assertGreaterEqual(min(min(counts) for counts in broken.values()), 1, broken)
        java = {broker.address for broker in group.brokers if broker.implementation == "java"}
        by_java = [ack for ack in storm.verdict.replaced if ack.store in java]
        self.say(f"of the lost, {len(by_java)} were acknowledged by a Java master that was replaced")
        if self.kind == "ours":
            self.assertEqual((storm.verdict.lost, storm.switches, storm.errors), (0, [], {}), storm.text())
        else:  # Java's controllers elect another when a connection breaks; their own masters lose by that (A21, A24)
            self.assertEqual(storm.verdict.lost, len(by_java), storm.text())

    def test_5_at_rest(self) -> None:
        """All stopped: also the consume queues are equal, and say what the logs say."""
        self.assertReplicasEqual()
        self.group.stop_brokers()
        size, entries = compare_at_rest(self.group.brokers)
        said = compare_epochs(roots_of(self.group.brokers))
        self.say(f"{size} bytes, {entries} queue entries, {len(said)} epochs, all equal")


def mixtures() -> list[tuple[str, tuple[str, ...]]]:
    """(whose controllers, whose replicas)."""
    one, two = ("java", "ours", "ours"), ("java", "java", "ours")
    if not FULL:
        return [("ours", one)]
    return [(side, kinds) for side in ("ours", "java") for kinds in (one, two)]


for side, kinds in mixtures():
    name = f"MixedGroup_{'_'.join(kinds)}_under_{side}"
    members = {"kind": side, "kinds": kinds, "embedded": not FULL, "controllers": 3 if FULL else 1}
    globals()[name] = type(name, (MixedGroup,), {**members, "__module__": __name__, "__doc__": MixedGroup.__doc__})
del MixedGroup
