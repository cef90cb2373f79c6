"""``raftLeaseReads`` with real controllers: what is asked of whom."""

from __future__ import annotations

from typing import Any

from twisted.internet import defer

from rocketha.raft.messages import Kind, Message
from tests.services.controller_case import ControllerCase, until

READS = 60


class _Reads(ControllerCase):
    """Three controllers; reads one after the other, at the leader and elsewhere."""

    count = 3

    @defer.inlineCallbacks
    def rounds(self) -> Any:
        """How many rounds of heartbeats the leader began for reads, beside those that are due anyway."""
        leader = self.leader()
        driver, said = leader.raft._driver, []
        send = driver._peers.send

        def noted(message: Message) -> bool:
            said.append(message)
            return send(message)

        self.patch(driver._peers, "send", noted)
        ticks = driver.tick
        for _ in range(READS):
            yield leader.raft.barrier()
        due = (driver.tick - ticks) // leader.raft.config.heartbeat_ticks + 1
        return len({each.context for each in said if each.kind == Kind.HEART_BEAT}) - due


class LeaseTests(_Reads):
    """The key is set."""

    keys = "raftElectionTimeout=1000\nraftHeartbeatInterval=200\nraftLeaseReads=true\n"

    @defer.inlineCallbacks
    def test_reads_ask_nobody(self) -> Any:
        """Promises come with the heartbeats; a few rounds may be needed when none came for long."""
        leader = self.leader()
        core = leader.raft.node._core
        yield until("a lease", lambda: core.clock < leader.raft.node._elections.leadership._reads.lease_until)
        rounds = yield self.rounds()
        self.assertLess(rounds, READS // 4)

    @defer.inlineCallbacks
    def test_the_next_leader(self) -> Any:
        """The leader's process ends: whoever follows reads what was there, also where it is not asked directly."""
        yield self.start_brokers(1)
        yield self.leader().stopService()
        yield self.await_leader()
        for node in self.nodes.values():
            if node.running:
                yield node.raft.barrier()
                self.assertEqual(node.state.group("C", "broker-a").master_id, 1)


class AloneTests(ControllerCase):
    """One controller, with the key."""

    count = 1
    keys = "raftElectionTimeout=60000\nraftHeartbeatInterval=200\nraftLeaseReads=true\n"

    @defer.inlineCallbacks
    def test_starts_at_once(self) -> Any:
        """Nobody else can have a lease: also after a restart it need not wait a minute."""
        yield self.nodes["n0"].stopService()
        self.start_node("n0")
        yield self.await_leader()


class RoundTests(_Reads):
    """The key is not set."""

    keys = "raftElectionTimeout=1000\nraftHeartbeatInterval=200\n"

    @defer.inlineCallbacks
    def test_each_read_asks(self) -> Any:
        """A majority, anew."""
        rounds = yield self.rounds()
        self.assertGreaterEqual(rounds, READS - 2)
