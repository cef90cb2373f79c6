"""The log of a witness as what a member of a Raft group keeps."""

from __future__ import annotations

from typing import Any

from twisted.internet import defer

from rocketha.errors import ConfigError
from rocketha.raft.messages import Entry, SnapshotMeta
from rocketha.raft.storage import Unavailable
from rocketha.services.process.platform import Platform
from rocketha.services.raft.commit_watch import CommitWatch
from rocketha.services.raft.store import Member
from rocketha.store.witness_log import WitnessLog


class WitnessStore:
    """A :class:`~rocketha.services.raft.store.RaftStore`.  What it acknowledges is on the disk."""

    def __init__(self, log: WitnessLog, platform: Platform) -> None:
        self.log = log
        self._work = platform.sync_work(platform.reactor, "rocketha-raft-sync")
        self._installing = False

    def open(self) -> defer.Deferred[None]:
        self._work.start()
        return self._work.run(self.log.load)

    def way(self, index: int) -> None:
        """The log replaces entries by itself."""

    def sync(self) -> defer.Deferred[None]:
        number, image = self.log.image()
        return self._work.run(lambda: self.log.write(number, image))

    def applying(self, member: Member) -> CommitWatch:
        def committed(index: int) -> None:
            if self.log.forget(index):
                member.compacted()

        return CommitWatch(self.log, member, lambda: self._installing, self._install, committed)

    def _install(self, meta: SnapshotMeta, data: bytes) -> defer.Deferred[None]:
        self._installing = True
        self.log.begin_at(meta)
        return self.sync().addCallback(self._installed)

    def _installed(self, _: None) -> None:
        self._installing = False

    def close(self) -> defer.Deferred[Any]:
        return self._work.run(self.log.close).addBoth(self._closed)

    def _closed(self, result: Any) -> Any:
        self._work.stop()
        return result


class NoBodies:
    """A :class:`~rocketha.dledger.here.Storage` that has none."""

    file_size = 1

    def raw(self, entry: Entry) -> bytes:
        raise Unavailable("a witness keeps no messages")

    def end_of(self, index: int) -> int:
        raise ConfigError("a witness does not speak with Java's members")
