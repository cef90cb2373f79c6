"""A copy of the controllers' state for whoever keeps backups: SNAPSHOT (11008), part by part.

Theory of operation.  The leader makes a snapshot of the state as of a barrier, in the thread and in the file in which
snapshots are made anyway, and hands out parts of it, which the log checks against their CRCs.  The first request names
no index and gets index and term of the snapshot, its length, and the first part; the others name the index and an
offset.  The two newest snapshots are kept, so a copy that takes very long may have to be begun again.
"""

from __future__ import annotations

from typing import Any

from twisted.internet import defer

from rocketha.controller import answers
from rocketha.errors import CorruptStore, DiskFailure, RequestRefused
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.raft.machine_store import MachineStore
from rocketha.services.raft.operators import Operators
from rocketha.services.raft.service import RaftService
from rocketha.wire import fields
from rocketha.wire.codes import ResponseCode
from rocketha.wire.raft_entries import Compacted, SnapshotMeta
from rocketha.wire.remoting import Answer, Command

PART_BYTES = 1 << 20


class SavedState:
    """See the module."""

    def __init__(self, raft: RaftService, store: MachineStore, config: ControllerConfig, operators: Operators) -> None:
        self._raft = raft
        self._store = store
        self._config = config
        self._operators = operators

    def answer(self, connection: RemotingProtocol, command: Command) -> Answer | defer.Deferred[Any]:
        """A part of a snapshot; of a new one where the request names none."""
        self._operators.check(connection)
        if not self._raft.is_leader:
            return answers.NOT_LEADER
        if "index" not in command.fields:
            saved: defer.Deferred[SnapshotMeta] = self._raft.barrier().addCallback(lambda _: self._store.save())
            return saved.addCallback(self._first)
        index, offset = fields.long(command.fields, "index"), fields.long(command.fields, "offset")
        try:
            return Answer(body=self._store.log.read_snapshot(offset, PART_BYTES, index))
        except Compacted:
            remark = f"the snapshot at {index} is not kept any more: begin again"
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, remark) from None
        except (CorruptStore, DiskFailure) as problem:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(problem)) from None

    def _first(self, meta: SnapshotMeta) -> Answer:
        config = self._config
        told = {
            "group": config.controller_dleger_group,
            "id": config.controller_dleger_self_id,
            "index": str(meta.index),
            "term": str(meta.term),
        }
        return Answer(fields=told, body=self._store.log.read_snapshot(0, PART_BYTES, meta.index))
