"""Members of a Raft group as services, on real ports and disks."""

from __future__ import annotations

import time
from typing import Any

from twisted.internet import defer

from tests.services.raft_case import RaftCase


class ThreeMembers(RaftCase):
    """Elect, propose, fail over, restart."""

    @defer.inlineCallbacks
    def test_elect_and_propose(self) -> Any:
        """One leads; proposals of one turn are applied in order on all, their outcomes answered."""
        yield self.start("n0", "n1", "n2")
        leader = yield self.until(self.leader)
        outcomes = yield defer.gatherResults([leader.service.propose(b"%d" % number) for number in range(100)])
        self.assertEqual([data for _, data in outcomes], [b"%d" % number for number in range(100)])
        yield self.assert_same_words()
        self.assertEqual(leader.machine.words, [b"%d" % number for number in range(100)])

    @defer.inlineCallbacks
    def test_failover(self) -> Any:
        """The leader's process ends: another takes proposals within a second."""
        yield self.start("n0", "n1", "n2")
        yield self.propose(b"before")
        leader = yield self.until(self.leader)
        began = time.monotonic()
        yield leader.kill()
        outcome = yield self.propose(b"after")
        took = time.monotonic() - began
        self.assertEqual(outcome[1], b"after")
        self.assertLess(took, 1.0)
