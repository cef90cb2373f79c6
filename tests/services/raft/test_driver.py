"""What the driver of the Raft service says, and when."""

from __future__ import annotations

from typing import Any

from rocketha.raft.messages import COMMIT_ONLY, Kind, Message
from tests.services.raft_case import RaftCase, defer


class CommitWordTests(RaftCase):
    @defer.inlineCallbacks
    def test_followers_are_not_woken_for_each_commit(self) -> Any:
        """While proposals come the next entries say what is committed; a message of its own is for the last one.

        Word of a commit alone may leave once a tick; said at once, forty messages would leave here.
        """
        yield self.start("n0", "n1", "n2")
        yield self.propose(b"first")
        leader = self.leader()
        assert leader is not None
        driver, said = leader.service._driver, []
        send = driver._peers.send

        def noted(message: Message) -> bool:
            said.append(message)
            return send(message)

        self.patch(driver._peers, "send", noted)
        ticks = driver.tick
        for number in range(20):
            yield self.propose(b"%d" % number)
        ticks = driver.tick - ticks
        yield self.assert_same_words()
        alone = [each for each in said if each.kind == Kind.APPEND and each.context == COMMIT_ONLY]
        self.assertLessEqual(len(alone), 2 * (ticks + 1))
        self.assertGreaterEqual(sum(len(each.entries) for each in said), 40)  # to a slow follower several at once
