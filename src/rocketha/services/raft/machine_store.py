"""A log in files of its own, and a state machine that its entries are applied to: what controllers keep."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from twisted.internet import defer

from rocketha.errors import DiskFailure
from rocketha.raft.messages import Members, SnapshotMeta
from rocketha.raft.node import RaftNode
from rocketha.services.process.platform import Platform
from rocketha.services.raft.apply import Applier, StateMachine
from rocketha.services.raft.options import RaftMember, RaftOptions
from rocketha.services.raft.snapshots import RaftSnapshots
from rocketha.services.raft.store import Applying, Member
from rocketha.store.raft_log import RaftLog


class MachineStore:
    """A :class:`~rocketha.services.raft.store.RaftStore`.

    :ivar sync_work: where the log is synced.
    :ivar file_work: where it is opened, and snapshots are written.
    """

    def __init__(self, member: RaftMember, machine: StateMachine, platform: Platform, options: RaftOptions) -> None:
        self._member = member
        self._machine = machine
        self._platform = platform
        self._options = options
        self._log: RaftLog | None = None
        self._snapshots: RaftSnapshots | None = None
        self._node: RaftNode | None = None

    @property
    def log(self) -> RaftLog:
        if self._log is None:
            raise RuntimeError("the raft log is not open")
        return self._log

    def open(self) -> defer.Deferred[None]:
        platform, member, size = self._platform, self._member, self._options.segment_bytes
        self.sync_work = platform.sync_work(platform.reactor, "rocketha-raft-sync")
        self.file_work = platform.work(platform.reactor, "rocketha-raft-files")
        self.sync_work.start()
        self.file_work.start()
        voters = {} if member.joins else dict(member.peers)
        members = Members(voters=frozenset(voters), addresses=voters)

        def opened(log: RaftLog) -> None:
            self._log = log

        return self.file_work.run(
            lambda: RaftLog.open(platform.disk, member.directory, member.group, member.id, members, size)
        ).addCallback(opened)

    @defer.inlineCallbacks
    def save(self) -> Generator[Any, Any, SnapshotMeta]:
        """What the newest snapshot is about, which has everything that is applied when this is called.

        Where there is none it is made.  ``log.read_snapshot`` gives its data until two newer ones were made.

        :raises DiskFailure: it could not be made, which was logged.
        """
        snapshots, node = self._snapshots, self._node
        if snapshots is None or node is None:
            raise RuntimeError("the raft log is not open")
        wanted = node.applied
        yield snapshots.underway.idle()
        if self.log.snapshot().index < wanted:
            yield snapshots.make(node.snapshot_meta(node.applied))
        found = self.log.snapshot()
        if found.index < wanted:
            raise DiskFailure(self._member.directory, "write", 0, "a snapshot could not be made")
        return found

    def way(self, index: int) -> None:
        """The log replaces entries by itself."""

    def sync(self) -> defer.Deferred[None]:
        return self.sync_work.run(self.log.sync)

    def applying(self, member: Member) -> Applying:
        """The state machine stands on the newest snapshot then."""
        options = self._options
        snapshots = self._snapshots = RaftSnapshots(
            self.log,
            self._machine,
            self.file_work,
            options.snapshot_entries,
            options.snapshot_bytes,
            options.keep_entries,
            member.compacted,
            member.broken,
        )
        snapshots.restore()
        self._node = member.node
        return Applier(member, self._machine, snapshots, options, self._platform.reactor.seconds)

    @defer.inlineCallbacks
    def close(self) -> Generator[Any, Any, None]:
        if self._snapshots is not None:
            yield self._snapshots.underway.idle()
        try:
            if self._log is not None:
                yield self.file_work.run(self._log.close)
        finally:
            self.sync_work.stop()
            self.file_work.stop()
