"""A member whose log is empty in a group that has a history: it lost its disk, or it joins.

Raft counts on what a member once acknowledged.  One that forgot it all must not vote as if nothing had been: together
with another that lags it would elect a leader that lacks committed entries.  The core marks the votes of an empty disk
as unsure, and weighs them (docs/raft.rst); this part remembers, in a file beside the log, that a member is such a one,
until everything that was committed when its leader first spoke to it is committed here: a restart halfway must not
forget it, and a leader that is new does not know yet what is committed.  A group's first start is no such case: nobody
has any entry then.

What it must not know: connections.
"""

from __future__ import annotations

from rocketha.observe.logging import make_logger
from rocketha.raft.config import Role
from rocketha.raft.messages import COMMIT_ONLY, Kind, Message
from rocketha.raft.node import RaftNode
from rocketha.raft.storage import LogStorage
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.wire.spec.raft import NEWCOMER_BYTES


class Newcomer:
    """Knows whether the votes of one member are sure.

    :param cautious: False: they always are (``RaftConfig.cautious``).
    :ivar behind: whether committed entries may be missing here.
    """

    def __init__(self, disk: Disk, directory: str, log: LogStorage, cautious: bool = True) -> None:
        self._disk = disk
        self._path = f"{directory}/newcomer"
        self._log = log
        self._leader_term = 0
        self._target = 0
        state, _ = log.initial()
        self._fresh = cautious and state.term == 0
        self._began = log.last_index()  # 0, or what members with equal logs make by themselves
        self.behind = cautious and disk.exists(self._path)
        if not cautious and disk.exists(self._path):
            disk.remove(self._path)

    def history(self, last_index: int) -> None:
        """A member of the group has a log up to there: if we have none, we lost it, or join.

        :raises DiskFailure: that could not be written down.
        """
        if not self._fresh or last_index <= self._began:
            return
        self._fresh = False
        if self._log.last_index() > self._began:  # we were there when it began
            return
        atomic_file.save(self._disk, self._path, NEWCOMER_BYTES, backup=False)
        self.behind = True
        make_logger().warn("the raft log here is empty and the group's is not: votes of this member are unsure")

    def heard(self, message: Message) -> None:
        """A message came while this member is behind."""
        if message.kind == Kind.APPEND and message.context != COMMIT_ONLY and message.term > self._leader_term:
            self._leader_term = message.term
            self._target = message.commit

    def look(self, node: RaftNode) -> bool:
        """Whether it has just caught up: all that was committed when its leader first spoke to it is committed here.

        The newest committed entry must be of the leader's own term: only then it knows what else is committed.
        """
        commit, term = min(node.commit, self._log.last_index()), self._leader_term
        filled = 0 < term == node.term and commit >= max(1, self._target) and self._log.term(commit) == term
        if not filled and node.role is not Role.LEADER:  # a leader was elected by enough who are sure, or by all
            return False
        self._disk.remove(self._path)
        self.behind = False
        make_logger().info("this member has caught up with its group: its votes are sure")
        return True
