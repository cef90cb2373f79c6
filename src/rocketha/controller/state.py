"""The controller's replicated state: every broker group, as the fold of the log.

Knows groups and events; no clock, no connection, no raft.  Theory of operation: ``apply`` is given the committed
entries in order, on every node; it finds the group, lets the rules judge, carries out the change and says what to
answer and whom to tell.  What it returns on a follower nobody needs.  A refused entry leaves all but ``index`` as it
was, so a leader may answer a refusal out of ``preview`` without an entry, after a barrier.  Groups are keyed by cluster
and broker name; a request that names no cluster means the group of that name if there is only one.  Java class:
``ReplicasInfoManager`` (keyed by broker name alone).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import attrs

from rocketha.controller import answers, elections, events, registration, sync_state
from rocketha.controller.events import (
    AlterSyncStateSet,
    ApplyBrokerId,
    CleanBrokerData,
    ConfirmMaster,
    ElectMaster,
    Event,
    RegisterBroker,
)
from rocketha.controller.group import CLEANED_MAX, BrokerGroup, Did, Elected, GroupKey, Returned, group_of
from rocketha.controller.notices import RoleChanged, role_changed
from rocketha.controller.verdict import Verdict
from rocketha.errors import InvariantBroken, RemoteProtocolError, ensure
from rocketha.wire import controller_log
from rocketha.wire.codes import ResponseCode
from rocketha.wire.controller_log import DecisionRow
from rocketha.wire.remoting import Answer

GROUPS_MAX = 20_000
"""Groups with those forgotten: what a flood of 1013 may take."""

_NOT_IN_THE_TRAIL = frozenset({Did.CONFIRMED})


@attrs.frozen(slots=True)
class Outcome:
    """What came of an entry: the answer for who asked, whom to tell, and what was done to which group."""

    answer: Answer
    notices: tuple[RoleChanged, ...] = ()
    did: Did = Did.NOTHING
    group: GroupKey | None = None


class ControllerState:
    """All groups.

    :ivar index: of the last entry applied; 0 at the beginning.
    """

    def __init__(self) -> None:
        self.index = 0
        self._groups: dict[GroupKey, BrokerGroup] = {}  # the forgotten too
        self._named: dict[str, tuple[GroupKey, ...]] = {}  # broker name to the groups of that name that live
        self._order: list[GroupKey] | None = []  # the keys of _groups, sorted; None until somebody asks again

    # -- views ------------------------------------------------------------------------------------------------------

    def groups(self) -> Iterator[BrokerGroup]:
        """Every group that is not forgotten, by cluster and name.  Not to be changed."""
        for key in self._keys():
            if not self._groups[key].forgotten:
                yield self._groups[key]

    def _keys(self) -> list[GroupKey]:
        if self._order is None:
            self._order = sorted(self._groups)
        return self._order

    def group(self, cluster: str, broker_name: str) -> BrokerGroup | None:
        """One group, None if it is unknown or forgotten.  Not to be changed."""
        group = self._groups.get(GroupKey(cluster, broker_name))
        return group if group is not None and not group.forgotten else None

    def find(self, cluster: str, broker_name: str) -> BrokerGroup | None:
        """As ``group``; without a cluster the only group of that name, None if there are several."""
        if cluster:
            return self.group(cluster, broker_name)
        keys = self._named.get(broker_name, ())
        return self._groups[keys[0]] if len(keys) == 1 else None

    def clusters_of(self, broker_name: str) -> tuple[str, ...]:
        """The clusters that have a group of this name, sorted."""
        return tuple([key.cluster for key in self._named.get(broker_name, ())])

    def record(self, cluster: str, broker_name: str) -> BrokerGroup | None:
        """As ``group``, or the record of one that is forgotten: its ids and epochs go on from there."""
        if cluster:
            return self._groups.get(GroupKey(cluster, broker_name))
        return self.find(cluster, broker_name)

    # -- the log ----------------------------------------------------------------------------------------------------

    def apply_entry(self, data: bytes, index: int) -> Outcome:
        """As ``apply``, for the bytes of a log entry.

        :raises InvariantBroken: the entry can not be read: this program is older than the log.
        """
        try:
            event = events.decode(data)
        except RemoteProtocolError as problem:
            raise InvariantBroken(f"log entry {index}: {problem}") from None
        return self.apply(event, index, data)

    def apply(self, event: Event, index: int, data: bytes | None = None) -> Outcome:
        """Decide a committed entry and carry it out.

        :param index: of the entry; they rise.
        :param data: its bytes, if they are at hand: the audit trail keeps them.
        """
        ensure(index > self.index, f"log entry {index} was applied after {self.index}")
        self.index = index
        group, verdict = self._judge(event)
        change = verdict.change
        if change is None:
            return Outcome(verdict.answer)
        if group is None:
            group = BrokerGroup(GroupKey(event.cluster, event.broker_name))
            group.forgotten = True
            self._groups[group.key] = group
            self._order = None
        old_master, was_forgotten = group.master, group.forgotten
        group.take(change, index)
        if group.forgotten is not was_forgotten:
            self._rename(group)
        answer = verdict.answer
        if change.did in (Did.ADOPTED, Did.RETURNED):
            assert isinstance(event, RegisterBroker)
            answer = registration.register(group, event).answer
        if change.did not in _NOT_IN_THE_TRAIL:
            self._remember(group, change.did, data if data is not None else events.encode(event))
        notices = role_changed(group, old_master, index) if type(change) is Elected else ()
        return Outcome(answer, notices, change.did, group.key)

    def preview(self, event: Event) -> Outcome:
        """What ``apply`` would do now, without doing it; ``notices`` are left out."""
        group, verdict = self._judge(event)
        did = verdict.change.did if verdict.change is not None else Did.NOTHING
        return Outcome(verdict.answer, (), did, group.key if group is not None else None)

    def _judge(self, event: Event) -> tuple[BrokerGroup | None, Verdict]:
        """The group (or its forgotten record) and what the rules say."""
        record = self.record(event.cluster, event.broker_name)
        group = record if record is not None and not record.forgotten else None
        if type(event) is AlterSyncStateSet:
            verdict = sync_state.alter(group, event)
        elif type(event) is ApplyBrokerId:
            verdict = registration.apply_id(record, event)
        elif type(event) is RegisterBroker:
            verdict = self._judge_registration(record, group, event)
        elif type(event) is ElectMaster:
            verdict = elections.elect(group, event)
        elif type(event) is CleanBrokerData:
            verdict = registration.clean(group, event)
        else:
            assert type(event) is ConfirmMaster
            verdict = sync_state.confirm(group, event)
        if record is None and verdict.change is not None and len(self._groups) >= GROUPS_MAX:
            remark = f"the controller holds {GROUPS_MAX} broker groups, as many as it may"
            return None, Verdict(answers.refusal(ResponseCode.SYSTEM_ERROR, remark))
        if record is None and not event.cluster and len(self.clusters_of(event.broker_name)) > 1:
            verdict = verdict._replace(answer=verdict.answer._replace(remark=self.ambiguous(event.broker_name)))
        return record, verdict

    @staticmethod
    def _judge_registration(record: BrokerGroup | None, group: BrokerGroup | None, event: RegisterBroker) -> Verdict:
        verdict = registration.register(group, event)
        if group is None or event.broker_id not in group.members:
            if registration.may_return(record, event):
                return Verdict(verdict.answer, Returned(event.broker_id))
            if registration.may_adopt(record, event):
                return Verdict(verdict.answer, registration.adopt(event))
        return verdict

    def ambiguous(self, broker_name: str) -> str:
        """The remark for a request that could mean several groups."""
        clusters = ", ".join(self.clusters_of(broker_name))
        return f"Broker {broker_name} is in several clusters ({clusters}), the request names none"

    def _rename(self, group: BrokerGroup) -> None:
        """A group came or went: which groups a bare broker name may mean."""
        keys = {*self._named.get(group.broker_name, ())} - {group.key}
        if not group.forgotten:
            keys.add(group.key)
        if keys:
            self._named[group.broker_name] = tuple(sorted(keys))
        else:
            self._named.pop(group.broker_name, None)

    def _remember(self, group: BrokerGroup, did: Did, data: bytes) -> None:
        row = DecisionRow(self.index, did, group.master, group.master_epoch, group.set_epoch, group.in_sync, data)
        group.decisions.append(controller_log.encode_decision(row))

    # -- snapshots --------------------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state; equal states give equal bytes."""
        return self.freeze()()

    def freeze(self) -> Callable[[], bytes]:
        """The state as it is now, to be made into ``snapshot``'s bytes later, in another thread if need be."""
        index, rows = self.index, [self._groups[key].row() for key in self._keys()]
        return lambda: controller_log.encode_snapshot(index, [controller_log.encode_group(row) for row in rows])

    def restore(self, data: bytes) -> None:
        """Become the state of a snapshot; on an error the present state stays.

        :raises RemoteProtocolError: damaged, of another version, or against the invariants of a state.
        """
        row = controller_log.decode_snapshot(data)
        groups = [group_of(each) for each in row.groups]
        for group in groups:
            _check(group)
        for before, after in itertools.pairwise(groups):
            if before.key >= after.key:
                raise RemoteProtocolError(f"controller snapshot: group {after.key} after {before.key}")
        self.index = row.log_index
        self._groups = {group.key: group for group in groups}
        self._order = list(self._groups)
        self._named = {}
        for group in groups:
            if not group.forgotten:
                self._named[group.broker_name] = (*self._named.get(group.broker_name, ()), group.key)

    def forget_roles(self) -> None:
        """This is an old copy: of no group is it known who leads it; see :meth:`BrokerGroup.forget_roles`."""
        for group in self.groups():
            group.forget_roles()


def _check(group: BrokerGroup) -> None:
    """The invariants of a group, for bytes that somebody else wrote."""
    members = group.members
    problem = ""
    if any(broker_id < 1 or broker_id >= group.next_id for broker_id in members):
        problem = "a member with an id that was never given"
    elif any(broker_id in members for broker_id in group.retired):
        problem = "a member whose id was cleaned"
    elif list(group.in_sync) != sorted({*group.in_sync}) or any(each not in members for each in group.in_sync):
        problem = "a SyncStateSet that is not a sorted set of members"
    elif group.master and group.master not in group.in_sync:
        problem = "a master outside its SyncStateSet"
    elif group.forgotten is not (not members):
        problem = "members although it is forgotten, or none although it is not"
    elif len(group.cleaned) > CLEANED_MAX or any(each in members or each >= group.next_id for each in group.cleaned):
        problem = "a cleaned member that is one, or was never given an id, or too many of them"
    elif group.holders != tuple(sorted({*group.holders} & {*members, *group.cleaned})) or (
        group.holders and group.in_sync
    ):
        problem = "a former SyncStateSet beside the present one, or not of members that are or were"
    if problem:
        raise RemoteProtocolError(f"controller snapshot: {group.cluster}/{group.broker_name} has {problem}")
