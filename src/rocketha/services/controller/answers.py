"""The requests that a controller answers whether it leads or not, and those for its operators.

1005 comes from the Raft state, 1009 and 1010 act on the configuration, 11001 to 11005 and 11008 are rocketha's own: a
status for people, "do you hear this broker" for the other controllers, leadership transfer, membership change, a copy
of the state.  Decides nothing about broker sets.  Also what is answered to requests that a controller cannot carry out.

Java: ``ControllerRequestProcessor.handleControllerGetMetadataInfo``, ``handleGetControllerConfig``,
``handleUpdateControllerConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.controller import answers, audit
from rocketha.controller.group import BrokerGroup
from rocketha.controller.liveness import ReplicaKey
from rocketha.controller.state import ControllerState
from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.observe.events import ConfigChanged
from rocketha.observe.logging import emit, make_logger
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.raft.errors import Busy, RaftRefused
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.config.loading import describe, update
from rocketha.services.controller.notices import Notices
from rocketha.services.controller.saved_state import SavedState
from rocketha.services.controller.watch import Watch
from rocketha.services.raft.machine_store import MachineStore
from rocketha.services.raft.operators import Operators, members_view
from rocketha.services.raft.options import RaftView
from rocketha.services.raft.service import RaftService
from rocketha.services.raft.waiting import Lost, NoMajority
from rocketha.wire import fields, json_dialect
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, Command

FULL = answers.refusal(ResponseCode.SYSTEM_BUSY, "too many requests wait here")
"""One more would take what those of other connections need."""


def answer_to_failure(failure: Failure, log: Any) -> Answer:
    """The answer to a request that failed; 2007, which brokers ask the next leader after, only where nothing happened.

    :param log: is told of what should not fail.
    """
    problem = failure.value
    if isinstance(problem, RequestRefused):
        return Answer(problem.code, problem.remark)
    if isinstance(problem, Busy):
        return answers.refusal(ResponseCode.SYSTEM_BUSY, str(problem))
    if isinstance(problem, RaftRefused | NoMajority) or (isinstance(problem, Lost) and not problem.maybe_applied):
        return answers.NOT_LEADER
    if isinstance(problem, Lost | RemoteProtocolError):
        return answers.refusal(ResponseCode.SYSTEM_ERROR, str(problem))
    log.error("a request failed: {trace}", trace=failure.getTraceback())
    return answers.refusal(ResponseCode.SYSTEM_ERROR, f"{type(problem).__name__}: {problem}"[:1000])


SETS_SHOWN_MAX = 1000
"""Of the broker sets in a status: an answer is for people."""

Method = Callable[[RemotingProtocol, Command], "Answer | defer.Deferred[Any]"]


class OwnAnswers:
    """See the module.

    :param identified: operators show who they are, so they may be anywhere.
    :ivar operators: answers operators.
    :ivar methods: request code -> what answers it.
    """

    def __init__(
        self,
        config: ControllerConfig,
        raft: RaftService,
        watch: Watch,
        notices: Notices,
        state: ControllerState,
        store: MachineStore,
        identified: bool = False,
    ) -> None:
        self._config = config
        self._raft = raft
        self._watch = watch
        self._notices = notices
        self._state = state
        self._log = make_logger()
        not_leader = Answer(answers.NOT_LEADER.code, answers.NOT_LEADER.remark)
        self.operators = operators = Operators(
            raft, "controller", lambda: config.remote_admin_enable or identified, lambda change, ids: None, not_leader
        )
        self.methods: Mapping[int, Method] = {
            RequestCode.CONTROLLER_GET_METADATA_INFO: self._metadata,
            RequestCode.GET_CONTROLLER_CONFIG: self._get_config,
            RequestCode.UPDATE_CONTROLLER_CONFIG: self._update_config,
            PrivateCode.STATUS: self._status,
            PrivateCode.DO_YOU_HEAR: self._do_you_hear,
            PrivateCode.TRANSFER: operators.transfer,
            PrivateCode.MEMBERS: operators.members,
            PrivateCode.SNAPSHOT: SavedState(raft, store, config, operators).answer,
        }

    # -- Java's ---------------------------------------------------------------------------------------------------

    def _metadata(self, connection: RemotingProtocol, command: Command) -> Answer:
        raft, config = self._raft, self._config
        leader, address = raft.leader_id, raft.leader_address
        peers = self._addresses()
        return answers.metadata(
            config.controller_dleger_group, leader if address else "", address, raft.is_leader, peers
        )

    def _get_config(self, connection: RemotingProtocol, command: Command) -> Answer:
        return Answer(body=describe(self._config))

    def _update_config(self, connection: RemotingProtocol, command: Command) -> Answer:
        changed = update(self._config, command.body)
        for key, (old, new) in changed.items():
            emit(self._log, ConfigChanged(connection.peer, key, old, new))
        return Answer()

    # -- the other controllers' -----------------------------------------------------------------------------------

    def _do_you_hear(self, connection: RemotingProtocol, command: Command) -> Answer:
        found = command.fields
        key = ReplicaKey(
            fields.text(found, "clusterName"), fields.text(found, "brokerName"), fields.long(found, "brokerId")
        )
        liveness = self._watch.liveness
        age_ms = liveness.age_ms(key, self._watch.now_ms())
        told = {"connected": "true" if liveness.connected(key) else "false"}
        if age_ms is not None:
            told["heardMillisAgo"] = str(max(0, age_ms))
        return Answer(fields=told)

    # -- operators' -----------------------------------------------------------------------------------------------

    def _addresses(self) -> dict[str, str]:
        try:
            return dict(self._raft.node.members.addresses)
        except RuntimeError:
            return dict(self._config.peers)

    def _status(self, connection: RemotingProtocol, command: Command) -> Answer:
        return Answer(body=json_dialect.dumps(self.describe()))

    def describe(self) -> dict[str, Any]:
        """What this controller knows of itself, for people."""
        raft, watch = self._raft, self._watch
        now_ms = watch.now_ms()
        found: dict[str, Any] = {
            "group": self._config.controller_dleger_group,
            "id": self._config.controller_dleger_self_id,
            "leader": raft.leader_id,
            "leaderAddress": raft.leader_address,
            "isLeader": raft.is_leader,
            "brokerSets": sum(1 for _ in self._state.groups()),
            "brokersHeard": sum(watch.liveness.alive(key, now_ms) for key in watch.liveness),
            "heartbeats": watch.heartbeats,
            "suspicions": {str(key): state.value for key, state in sorted(watch.detector.states().items())},
            "noticesPending": self._notices.pending,
            "appliedIndex": self._state.index,
            "sets": [self._set(group) for group in islice(self._state.groups(), SETS_SHOWN_MAX)],
        }
        view = self.raft_view()
        if view is None:
            return found
        node = view.node
        found |= {
            "role": node.role.value,
            "term": node.term,
            "committedIndex": node.commit,
            "appliedIndex": node.applied,  # the state's own index stands still at entries of Raft's
            "firstIndex": view.first_index,
            "snapshotIndex": view.snapshot_index,
            **members_view(node.members),
            "hears": sorted(view.hears),
            "matchIndex": {name: peer.match for name, peer in sorted(node.peers.items())},
        }
        return found

    def _set(self, group: BrokerGroup) -> dict[str, Any]:
        """As this controller's log has it, which is not the newest where another one leads, or nobody."""
        watch, now_ms = self._watch, self._watch.now_ms()
        keys = {number: ReplicaKey(group.cluster, group.broker_name, number) for number in group.addresses}
        ages = {number: watch.liveness.age_ms(key, now_ms) for number, key in keys.items()}
        return {
            **audit.describe(group),
            "aliveBrokerIds": [number for number, key in keys.items() if watch.liveness.alive(key, now_ms)],
            "heardMillisAgo": {str(number): age_ms for number, age_ms in ages.items() if age_ms is not None},
        }

    def raft_view(self) -> RaftView | None:
        """The Raft member as it is; None before it has recovered its log."""
        started = self._raft.started
        return self._raft.status() if started.called and self._raft.running else None
