"""A member whose log is empty in a group that has a history: it lost its disk, or it joins.

Raft counts on what a member once acknowledged.  One that forgot it all must not vote as if nothing had been: together
with another that lags it would elect a leader that lacks committed entries.  So it gives no vote and does not stand for
election until a leader, elected without it, has given it everything that was committed then; and it never votes in that
leader's term, in which it may have voted before.  A file beside the log keeps that across restarts.  A group's first
start is no such case: nobody has any entry then.

What it must not know: connections.
"""

from __future__ import annotations

from rocketha.errors import RemoteProtocolError
from rocketha.observe.logging import make_logger
from rocketha.raft.messages import COMMIT_ONLY, Kind, Message
from rocketha.raft.node import RaftNode
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.store.raft_log import RaftLog
from rocketha.wire.raft_frames import decode_newcomer, encode_newcomer

_VOTES = (Kind.VOTE, Kind.PRE_VOTE)
_SIZE_MAX = 4096


class Newcomer:
    """Watches over the votes of one member.

    :ivar watching: whether messages have to be judged at all.
    :ivar behind: whether committed entries may be missing here.
    """

    def __init__(self, disk: Disk, directory: str, log: RaftLog) -> None:
        self._disk = disk
        self._path = f"{directory}/newcomer"
        self._log = log
        self._no_vote_up_to = 0
        self._leader_term = 0
        self._target = 0
        state, _ = log.initial()
        self._fresh = state.term == 0 and log.last_index() == 0
        self.behind = False
        if disk.exists(self._path):
            try:
                self._no_vote_up_to = decode_newcomer(disk.read_all(self._path, _SIZE_MAX))
            except RemoteProtocolError:
                self._no_vote_up_to = 0  # torn or altered: the careful meaning
            self.behind = self._no_vote_up_to == 0
        self.watching = self._fresh or self.behind or self._no_vote_up_to > 0

    def history(self, last_index: int) -> None:
        """A member of the group has a log up to there: if we have none, we lost it, or join.

        :raises DiskFailure: that could not be written down.
        """
        if not self._fresh or last_index == 0:
            return
        self._fresh = False
        if self._log.last_index() > 0:  # we were there when it began
            self.watching = False
            return
        self._save(0)
        self.behind = True
        make_logger().warn("the raft log here is empty and the group's is not: this member votes when it has caught up")

    def takes(self, message: Message) -> bool:
        """Whether the core may see a message."""
        kind = message.kind
        if kind in _VOTES:
            return not self.behind and message.term > self._no_vote_up_to
        if kind == Kind.TAKE_LEADERSHIP:
            return not self.behind
        if self.behind and kind == Kind.APPEND and message.context != COMMIT_ONLY and message.term > self._leader_term:
            self._leader_term = message.term
            self._target = message.commit
        return True

    def look(self, node: RaftNode) -> None:
        """Is everything that was committed when its leader first spoke to us committed here by now?

        The newest committed entry must be of the leader's own term: only then it knows what else is committed.
        """
        if not self.behind:
            if 0 < self._no_vote_up_to < node.term:
                self._no_vote_up_to = 0
                self._disk.remove(self._path)
            self.watching = self._fresh or self._no_vote_up_to > 0
            return
        commit, term = min(node.commit, self._log.last_index()), self._leader_term
        if not term or node.term != term or commit < max(1, self._target) or self._log.term(commit) != term:
            return
        self._save(term)
        self.behind, self._no_vote_up_to = False, term
        make_logger().info("this member has caught up with its group and votes from term {term} on", term=term + 1)

    def _save(self, term: int) -> None:
        atomic_file.save(self._disk, self._path, encode_newcomer(term), backup=False)
