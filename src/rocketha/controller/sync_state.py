"""May the master change its SyncStateSet?

Knows the group and the entry's evidence.  Every check of Java's ``ReplicasInfoManager.alterSyncStateSet``, in its
order, with its codes and texts; the comparison of both epochs is what makes the change a compare-and-set.
"""

from __future__ import annotations

from rocketha.controller import answers
from rocketha.controller.events import AlterSyncStateSet, ConfirmMaster
from rocketha.controller.group import BrokerGroup, Confirmed, SetChanged
from rocketha.controller.verdict import Verdict
from rocketha.wire.codes import ResponseCode

_REJECTED = "Rejecting alter syncStateSet request because"


def alter(group: BrokerGroup | None, event: AlterSyncStateSet) -> Verdict:
    """Judge 1001.

    A master that knows its epoch has confirmed its election, whatever becomes of the set it reports.
    """
    failed = ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED
    if group is None:
        return Verdict(answers.not_altered(failed, "Broker metadata is not existed"))
    knows = event.master_id == group.master and event.master_epoch == group.master_epoch
    heard = Confirmed() if knows and group.unconfirmed is not None else None
    if event.new_set == group.in_sync:
        remark = "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"
        return Verdict(answers.not_altered(failed, remark), heard)
    if not group.master or event.master_id != group.master:
        remark = f"{_REJECTED} the current leader is:{{{group.master or 'null'}}}, not {{{event.master_id}}}"
        return Verdict(answers.not_altered(ResponseCode.CONTROLLER_INVALID_MASTER, remark))
    if event.master_epoch != group.master_epoch:
        remark = f"{_REJECTED} the current master epoch is:{{{group.master_epoch}}}, not {{{event.master_epoch}}}"
        return Verdict(answers.not_altered(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, remark))
    if event.set_epoch != group.set_epoch:
        remark = f"{_REJECTED} the current syncStateSet epoch is:{{{group.set_epoch}}}, not {{{event.set_epoch}}}"
        return Verdict(answers.not_altered(ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH, remark), heard)
    alive = [replica.broker_id for replica in event.evidence.alive]
    for broker_id in event.new_set:
        if broker_id not in group.members:
            remark = f"{_REJECTED} the replicas {{{broker_id}}} don't exist"
            return Verdict(answers.not_altered(ResponseCode.CONTROLLER_INVALID_REPLICAS, remark), heard)
        if broker_id not in alive:
            remark = f"{_REJECTED} the replicas {{{broker_id}}} don't alive"
            return Verdict(answers.not_altered(ResponseCode.CONTROLLER_BROKER_NOT_ALIVE, remark), heard)
    if group.master not in event.new_set:
        remark = f"{_REJECTED} the newSyncStateSet don't contains origin leader {{{group.master}}}"
        return Verdict(answers.not_altered(failed, remark), heard)
    return Verdict(answers.altered(event.new_set, group.set_epoch + 1), SetChanged(event.new_set))


def confirm(group: BrokerGroup | None, event: ConfirmMaster) -> Verdict:
    """Judge 11006: may this broker act as master of this epoch?"""
    if group is None or event.broker_id not in group.members:
        remark = f"BrokerId: {event.broker_id} hasn't been registered in broker-set: {event.broker_name}"
        return Verdict(answers.refusal(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark))
    if event.broker_id != group.master:
        remark = f"the current leader is:{{{group.master or 'null'}}}, not {{{event.broker_id}}}"
        return Verdict(answers.refusal(ResponseCode.CONTROLLER_INVALID_MASTER, remark, answers.master_fields(group)))
    if event.master_epoch != group.master_epoch:
        remark = f"the current master epoch is:{{{group.master_epoch}}}, not {{{event.master_epoch}}}"
        fields = answers.master_fields(group)
        return Verdict(answers.refusal(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, remark, fields))
    return Verdict(answers.confirmed(group), Confirmed() if group.unconfirmed is not None else None)
