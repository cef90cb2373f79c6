"""A remoting request to what the controller does with it: an entry for the log, a question to the state, or an answer.

Knows header fields, bodies and their bounds; no connection, no raft, no clock.  Theory of operation: ``decode`` reads
the request.  What may change the state becomes an :class:`Intent`, its evidence taken from ``hearing`` at that moment.
What only asks becomes a question, to be answered by ``answer`` once a barrier has shown that this node still leads.
Missing or unreadable fields are refused with code 29 and their name, where Java answers 1 and an exception's text.
Java class: ``ControllerRequestProcessor``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import attrs

from rocketha.access.routes import unsupported
from rocketha.controller import answers, audit, registration
from rocketha.controller.events import (
    CONTROLLER,
    Alive,
    AlterSyncStateSet,
    ApplyBrokerId,
    CleanBrokerData,
    ConfirmMaster,
    ElectMaster,
    Event,
    Evidence,
    RegisterBroker,
    Why,
)
from rocketha.controller.group import BrokerGroup
from rocketha.controller.names import name_in
from rocketha.controller.state import ControllerState
from rocketha.errors import RemoteProtocolError
from rocketha.wire import fields, json_dialect, json_members
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.controller_calls import REASON_CHARACTERS_MAX, RETIRING_MASTER, RETIRING_REASON
from rocketha.wire.java_types import parsed
from rocketha.wire.remoting import Answer, Command

_T = TypeVar("_T")

CHECK_CODE_CHARACTERS_MAX = 512
NAMES_MAX = 1000
"""Broker names in one 1006."""

_OF_NO_CLUSTER = "neither the request nor anything before it on this connection names a cluster"
"""1001 and 1004: another cluster may have a group of that name, which this controller does not know, and whose broker
would follow this one's master.
"""
_ADDRESS = re.compile(r"(\[[0-9a-zA-Z:.%]{2,60}\]|[^\s\[\]\x00-\x1f]{1,253}):([0-9]{1,5})")


class Options(Protocol):
    """The part of ``ControllerConfig`` that requests need."""

    @property
    def enable_elect_unclean_master(self) -> bool: ...
    @property
    def adopt_unknown_brokers(self) -> bool: ...


class Hearing(Protocol):
    """What this controller hears of brokers (heartbeats)."""

    def alive(self, cluster: str, broker_name: str, broker_id: int, now_ms: int) -> Alive | None:
        """The last heartbeat of a broker that is thought alive; None of one that is not."""

    def may_come(self, cluster: str, broker_name: str, broker_id: int) -> bool:
        """Whether it may live although nothing was heard of it: this controller leads only since a moment ago."""

    def newest_epoch(self, cluster: str, broker_name: str) -> int:
        """The newest that a member of a group named in its last heartbeat, alive or not; 0: none named any."""


class Caller(NamedTuple):
    """Where a request came from.

    ``cluster`` is the one that heartbeats and registrations on the same connection named, empty if there were none:
    Java's 1001 and 1004 name none themselves.  ``operator``: on the controller's own machine, or as good as.
    """

    address: str = ""
    cluster: str = ""
    operator: bool = False


@attrs.frozen(slots=True)
class Intent:
    """To be proposed; the answer is the outcome's."""

    event: Event


@attrs.frozen(slots=True)
class AskReplicaInfo:
    """1004."""

    cluster: str
    broker_name: str


@attrs.frozen(slots=True)
class AskSyncStateData:
    """1006."""

    broker_names: tuple[str, ...]


@attrs.frozen(slots=True)
class AskNextBrokerId:
    """1012."""

    cluster: str
    broker_name: str


@attrs.frozen(slots=True)
class AskWhy:
    """11003."""

    cluster: str
    broker_name: str


Question = AskReplicaInfo | AskSyncStateData | AskNextBrokerId | AskWhy


class Requests:
    """Reads the requests of one controller.

    :param state: to learn who belongs to the group in question; decisions are made when the entry is applied.
    """

    def __init__(self, state: ControllerState, hearing: Hearing, options: Options) -> None:
        self._state = state
        self._hearing = hearing
        self._options = options
        self._codes: dict[int, Callable[[Command, Caller, int], Intent | Question | Answer]] = {
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: self._alter,
            RequestCode.CONTROLLER_ELECT_MASTER: self._elect,
            RequestCode.CONTROLLER_REGISTER_BROKER: self._register,
            RequestCode.CONTROLLER_GET_REPLICA_INFO: self._replica_info,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self._sync_state_data,
            RequestCode.CLEAN_BROKER_DATA: self._clean,
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: self._next_broker_id,
            RequestCode.CONTROLLER_APPLY_BROKER_ID: self._apply_broker_id,
            PrivateCode.WHY: self._why,
            PrivateCode.CONFIRM_MASTER: self._confirm,
        }

    def decode(self, command: Command, caller: Caller, leading: bool, now_ms: int) -> Intent | Question | Answer:
        """What to do with a request.

        :param leading: whether this node leads; if not, what is understood is answered ``NOT_LEADER``.
        :param now_ms: for the evidence, and to know who is alive.
        :raises RequestRefused: with the code and remark to answer.
        """
        method = self._codes.get(command.code)
        if method is None:
            raise unsupported(command.code)
        found = method(command, caller, now_ms)
        if isinstance(found, Answer):
            return found
        if not leading:
            return answers.NOT_LEADER
        if isinstance(found, Intent) and type(found.event) is AlterSyncStateSet and not found.event.cluster:
            return answers.not_altered(ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, _OF_NO_CLUSTER)
        return found

    def answer(self, question: Question, now_ms: int) -> Answer:
        """The answer to a question, from the state as it is now (ask after a barrier)."""
        state = self._state
        if isinstance(question, AskReplicaInfo):
            if not question.cluster and state.clusters_of(question.broker_name):
                # Not 2008: a Java broker that hears it registers, and would pass for one that was restarted.  After any
                # other code it asks again, and by then its heartbeats have named its cluster.
                return answers.refusal(ResponseCode.CONTROLLER_INVALID_REQUEST, _OF_NO_CLUSTER, {})
            group = state.find(question.cluster, question.broker_name)
            return answers.replica_info(group) if group is not None else self._unknown(question)
        if isinstance(question, AskNextBrokerId):
            record = state.record(question.cluster, question.broker_name)
            return answers.next_broker_id(question.cluster, question.broker_name, registration.next_id(record))
        if isinstance(question, AskWhy):
            record = state.record(question.cluster, question.broker_name)
            if record is None:
                return self._unknown(question)
            return Answer(body=audit.body(record, self.alive(record, now_ms)))
        table: dict[str, Any] = {}
        for name in question.broker_names:
            clusters = state.clusters_of(name)
            for cluster in clusters:
                group = state.find(cluster, name)
                assert group is not None  # clusters_of names groups that are there
                alive = [replica.broker_id for replica in self.alive(group, now_ms)]
                # Java has one group a name; of several each is shown under a name that says which.
                table[name if len(clusters) == 1 else f"{cluster}:{name}"] = answers.replicas_info(group, alive)
        return answers.sync_state_data(table)

    def alive(self, group: BrokerGroup, now_ms: int) -> tuple[Alive, ...]:
        """The members of a group that are heard, by id."""
        found = []
        for broker_id in sorted(group.members):
            replica = self._hearing.alive(group.cluster, group.broker_name, broker_id, now_ms)
            if replica is not None:
                found.append(replica)
        return tuple(found)

    def _unknown(self, question: AskReplicaInfo | AskWhy) -> Answer:
        remark = "Broker metadata is not existed"
        if not question.cluster and len(self._state.clusters_of(question.broker_name)) > 1:
            remark = self._state.ambiguous(question.broker_name)
        return answers.refusal(ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST, remark, {})

    # -- what may change the state ------------------------------------------------------------------------------------

    def _evidence(self, caller: Caller, cluster: str, name: str, now_ms: int, why: Why, reason: str) -> Evidence:
        group = self._state.find(cluster, name)
        return Evidence(
            why=why,
            reason=reason,
            now_ms=now_ms,
            asker=caller.address,
            unclean=self._options.enable_elect_unclean_master,
            adopt=self._options.adopt_unknown_brokers,
            alive=self.alive(group, now_ms) if group is not None else (),
        )

    def _alter(self, command: Command, caller: Caller, now_ms: int) -> Intent:
        name = _name(command, "brokerName")
        master_id = fields.long(command.fields, "masterBrokerId")
        master_epoch = fields.integer(command.fields, "masterEpoch")
        new_set, set_epoch = _sync_state_set(command)
        cluster = caller.cluster or _optional_name(command, "clusterName")
        evidence = self._evidence(caller, cluster, name, now_ms, Why.REQUESTED, "the master reports who is in sync")
        return Intent(AlterSyncStateSet(cluster, name, master_id, master_epoch, set_epoch, new_set, evidence))

    def _elect(self, command: Command, caller: Caller, now_ms: int) -> Intent:
        cluster, name = _required_cluster(command), _name(command, "brokerName")
        broker_id = fields.long(command.fields, "brokerId")
        fields.text(command.fields, "designateElect")
        designate = fields.flag(command.fields, "designateElect")
        cluster = cluster or caller.cluster
        if designate and RETIRING_MASTER in command.fields:
            master = fields.integer(command.fields, RETIRING_MASTER, low=1)
            unfit = fields.optional_text(command.fields, RETIRING_REASON, REASON_CHARACTERS_MAX)
            return self._hand_over(cluster, name, master, broker_id, unfit or "", caller, now_ms)
        if designate:
            why, reason = Why.ADMIN_ASKED, f"an operator designated broker {broker_id}"
        elif broker_id == CONTROLLER:
            why, reason = Why.ADMIN_ASKED, "somebody asked for an election as a controller does"
        else:
            why, reason = Why.BROKER_ASKED, f"broker {broker_id} knows no master"
        evidence = self._evidence(caller, cluster, name, now_ms, why, reason)
        evidence = attrs.evolve(evidence, operator=designate and caller.operator)
        newest = self._hearing.newest_epoch(cluster, name)
        return Intent(ElectMaster(cluster, name, broker_id, designate, evidence=evidence, newest_epoch=newest))

    def _hand_over(
        self, cluster: str, name: str, master: int, broker_id: int, unfit: str, caller: Caller, now_ms: int
    ) -> Intent:
        """A master stops, or is unfit, and names who follows: only if it is the master still, in the same epoch."""
        group = self._state.find(cluster, name)
        epoch = group.master_epoch if group is not None else 0
        before, after = (
            f"broker {each}" if group is None or not group.address(each) else f"broker {each} ({group.address(each)})"
            for each in (master, broker_id)
        )
        reason = (
            f"{before} handed over to {after}: {unfit}"
            if unfit
            else f"{before} was stopping and handed over to {after}"
        )
        evidence = self._evidence(caller, cluster, name, now_ms, Why.HANDED_OVER, reason)
        newest = self._hearing.newest_epoch(cluster, name)
        return Intent(ElectMaster(cluster, name, broker_id, True, master, epoch, evidence, newest))

    def _register(self, command: Command, caller: Caller, now_ms: int) -> Intent:
        cluster, name = _name(command, "clusterName"), _name(command, "brokerName")
        broker_id = fields.long(command.fields, "brokerId")
        address = _address(fields.text(command.fields, "brokerAddress"), "brokerAddress")
        evidence = self._evidence(caller, cluster, name, now_ms, Why.REQUESTED, f"broker {broker_id} registers")
        return Intent(RegisterBroker(cluster, name, broker_id, address, evidence))

    def _apply_broker_id(self, command: Command, caller: Caller, now_ms: int) -> Intent:
        cluster, name = _name(command, "clusterName"), _name(command, "brokerName")
        broker_id = fields.long(command.fields, "appliedBrokerId")
        check_code = fields.text(command.fields, "registerCheckCode", CHECK_CODE_CHARACTERS_MAX)
        _address(check_code.split(";", 1)[0], "registerCheckCode")
        evidence = Evidence(now_ms=now_ms, asker=caller.address, reason=f"a broker applies for id {broker_id}")
        return Intent(ApplyBrokerId(cluster, name, broker_id, check_code, evidence))

    def _clean(self, command: Command, caller: Caller, now_ms: int) -> Intent:
        cluster, name = _optional_name(command, "clusterName"), _name(command, "brokerName")
        living = fields.flag(command.fields, "isCleanLivingBroker")
        text = fields.optional_text(command.fields, "brokerControllerIdsToClean")
        broker_ids = () if living or text is None else _broker_ids(text)
        evidence = self._evidence(caller, cluster, name, now_ms, Why.REQUESTED, "an operator cleans")
        group = self._state.find(cluster, name)
        if group is not None:
            heard = {replica.broker_id: replica for replica in evidence.alive}
            may_come = [each for each in sorted(group.members) if self._hearing.may_come(*group.key, each)]
            spared = [heard.get(each, Alive(each)) for each in sorted({*heard, *may_come})]
            evidence = attrs.evolve(evidence, alive=tuple(spared))
        return Intent(CleanBrokerData(cluster, name, broker_ids, living, evidence))

    def _confirm(self, command: Command, caller: Caller, now_ms: int) -> Intent:
        cluster, name = _name(command, "clusterName"), _name(command, "brokerName")
        broker_id = fields.long(command.fields, "brokerId")
        epoch = fields.integer(command.fields, "masterEpoch")
        evidence = self._evidence(caller, cluster, name, now_ms, Why.REQUESTED, "an elected broker confirms its role")
        return Intent(ConfirmMaster(cluster, name, broker_id, epoch, evidence))

    # -- questions ----------------------------------------------------------------------------------------------------

    def _replica_info(self, command: Command, caller: Caller, now_ms: int) -> AskReplicaInfo:
        cluster = caller.cluster or _optional_name(command, "clusterName")
        return AskReplicaInfo(cluster, _name(command, "brokerName"))

    def _next_broker_id(self, command: Command, caller: Caller, now_ms: int) -> AskNextBrokerId:
        return AskNextBrokerId(_name(command, "clusterName"), _name(command, "brokerName"))

    def _sync_state_data(self, command: Command, caller: Caller, now_ms: int) -> AskSyncStateData | Answer:
        names = _json(command) if command.body else None
        if names is None or names == []:
            return answers.NOTHING_ASKED
        found = _body(lambda: json_members.texts({"names": names}, "names", NAMES_MAX))
        return AskSyncStateData(tuple(dict.fromkeys(found)))

    def _why(self, command: Command, caller: Caller, now_ms: int) -> AskWhy:
        return AskWhy(_optional_name(command, "clusterName"), _name(command, "brokerName"))


# -- fields -------------------------------------------------------------------------------------------------------


def _name(command: Command, field: str) -> str:
    return name_in(command.fields, field)


def _optional_name(command: Command, field: str) -> str:
    return _name(command, field) if command.fields.get(field) else ""


def _required_cluster(command: Command) -> str:
    """1002 must have the field, but Java's own default is the empty text."""
    if "clusterName" not in command.fields:
        raise fields.refused("the header field clusterName is missing")
    return _optional_name(command, "clusterName")


def _address(value: str, field: str) -> str:
    found = _ADDRESS.fullmatch(value)
    if found is None or not 0 < int(found.group(2)) < 65536:
        raise fields.refused(f"the header field {field} is not host:port: {value[:80]!r}")
    return value


def _json(command: Command) -> Any:
    try:
        return json_dialect.loads(command.body)
    except RemoteProtocolError as problem:
        raise fields.refused(f"the body is not JSON: {problem}", ResponseCode.SYSTEM_ERROR) from None


def _sync_state_set(command: Command) -> tuple[tuple[int, ...], int]:
    """The ids, ascending, and the epoch of a ``SyncStateSet`` body."""

    def read() -> tuple[tuple[int, ...], int]:
        body = json_members.json_object(command.body or b"null", "a SyncStateSet")
        ids = json_members.longs(body, "syncStateSet", registration.MEMBERS_MAX)
        return tuple(sorted(set(ids))), json_members.integer(body, "syncStateSetEpoch", 0)

    return _body(read)


def _body(read: Callable[[], _T]) -> _T:
    try:
        return read()
    except RemoteProtocolError as problem:
        raise fields.refused(f"the body: {problem}", ResponseCode.SYSTEM_ERROR) from None


def _broker_ids(text: str) -> tuple[int, ...]:
    """``1;2`` as Java's ``split`` and ``Long.valueOf`` read it."""
    parts = text.split(";")
    while parts and not parts[-1]:
        parts.pop()
    found = []
    for part in parts:
        number = parsed(part)
        if number is None or not fields.LONG_MIN <= number <= fields.LONG_MAX:
            raise fields.refused(
                "Please set the option <brokerControllerIdsToClean> according to the format, exception: "
                f'java.lang.NumberFormatException: For input string: "{part}"',
                ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
            )
        found.append(number)
    if len(found) > registration.MEMBERS_MAX:
        raise fields.refused(
            f"more than {registration.MEMBERS_MAX} broker ids", ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
        )
    return tuple(sorted(set(found)))
