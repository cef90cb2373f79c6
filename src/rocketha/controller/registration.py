"""Broker ids: who gets which, who is there, and what is forgotten.

Knows the group and the entry.  Theory of operation (seed S3): a broker asks for the next id (1012), writes it down with
a check code of its own making, applies for it (1013) and may apply again with the same code as often as it likes; the
first code that an id is applied with owns it for ever.  Ids are never given twice, not even after the group was
cleaned, since a broker that was off at that moment still has its id on disk: it registers, and is a member again.
Java class: ``ReplicasInfoManager``.
"""

from __future__ import annotations

from rocketha.controller import answers
from rocketha.controller.events import ApplyBrokerId, CleanBrokerData, RegisterBroker
from rocketha.controller.group import (
    FIRST_BROKER_ID,
    BrokerGroup,
    Change,
    Cleaned,
    Confirmed,
    Did,
    Forgotten,
    Joined,
    Member,
    Moved,
)
from rocketha.controller.verdict import Verdict
from rocketha.namesrv.own_port import names
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer

MEMBERS_MAX = 256
"""Brokers of one group."""

ID_GAP_MAX = 1024
"""How far beyond the next id one may be applied for: Java takes any free number."""

RETIRED_MAX = 4096
"""Ids cleaned out of one group; the group as a whole can still be cleaned beyond."""


def next_id(group: BrokerGroup | None) -> int:
    """What 1012 answers: reserves nothing.

    :param group: also one that is forgotten.
    """
    return group.next_id if group is not None else FIRST_BROKER_ID


def apply_id(group: BrokerGroup | None, event: ApplyBrokerId) -> Verdict:
    """Judge 1013.

    :param group: also one that is forgotten.
    """
    fields = answers.named(event.cluster, event.broker_name)
    if group is None and event.broker_id != FIRST_BROKER_ID:
        remark = (
            f"Broker-set: {event.broker_name} hasn't been registered in controller, "
            f"but broker try to apply brokerId: {event.broker_id}"
        )
        return Verdict(answers.refusal(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, fields))
    address = event.check_code.split(";", 1)[0]
    joined = Joined(event.broker_id, Member(address, event.check_code, _elsewhere(address, event)))
    if group is None:
        return Verdict(Answer(fields=fields), joined)
    member = group.members.get(event.broker_id)
    if member is not None and member.check_code == event.check_code:
        return Verdict(Answer(fields=fields))
    if not group.next_id <= event.broker_id < group.next_id + ID_GAP_MAX:
        remark = f"Fail to apply brokerId: {event.broker_id} in broker-set: {event.broker_name}"
        return Verdict(answers.refusal(ResponseCode.CONTROLLER_BROKER_ID_INVALID, remark, fields))
    if len(group.members) >= MEMBERS_MAX:
        remark = f"broker-set {event.broker_name} has {MEMBERS_MAX} brokers already"
        return Verdict(answers.refusal(ResponseCode.SYSTEM_ERROR, remark, fields))
    return Verdict(Answer(fields=fields), joined)


def register(group: BrokerGroup | None, event: RegisterBroker) -> Verdict:
    """Judge 1003: registration elects nobody.  A broker that is told its own epoch has confirmed it.

    :param group: None also for one that is forgotten.
    """
    fields = answers.named(event.cluster, event.broker_name)
    member = group.members.get(event.broker_id) if group is not None else None
    if group is None:
        remark = f"Broker-set: {event.broker_name} hasn't been registered in controller"
        return Verdict(answers.refusal(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, fields))
    if member is None:
        remark = f"BrokerId: {event.broker_id} hasn't been registered in broker-set: {event.broker_name}"
        return Verdict(answers.refusal(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, fields))
    master_alive = any(replica.broker_id == group.master for replica in event.evidence.alive)
    answer = answers.registered(event.cluster, event.broker_name, group, master_alive)
    change: Change | None = None
    elsewhere = _elsewhere(event.address, event)
    if (member.address, member.elsewhere) != (event.address, elsewhere):
        change = Moved(event.broker_id, event.address, elsewhere)
    elif group.unconfirmed is not None and group.unconfirmed.winner == event.broker_id and master_alive:
        change = Confirmed()
    return Verdict(answer, change)


def may_return(group: BrokerGroup | None, event: RegisterBroker) -> bool:
    """Whether it is a cleaned member that comes back: at the address that it had, and no less surely from there.

    :param group: also one that is forgotten.
    """
    member = group.cleaned.get(event.broker_id) if group is not None else None
    if group is None or member is None or len(group.members) >= MEMBERS_MAX:
        return False
    return (member.address, member.elsewhere) == (event.address, _elsewhere(event.address, event))


def may_adopt(group: BrokerGroup | None, event: RegisterBroker) -> bool:
    """Whether a broker that nobody knows may keep the id it brings (``Evidence.adopt``).

    After the controllers lost their disks, the brokers' own files are all there is.  An id that this state gave or
    cleaned before is never adopted.
    """
    if not event.evidence.adopt or event.broker_id < FIRST_BROKER_ID:
        return False
    if group is None:
        return event.broker_id < FIRST_BROKER_ID + ID_GAP_MAX
    if event.broker_id in group.members or len(group.members) >= MEMBERS_MAX:
        return False
    if group.adopted and event.broker_id not in group.retired:
        return event.broker_id < group.next_id + ID_GAP_MAX
    return group.next_id <= event.broker_id < group.next_id + ID_GAP_MAX


def adopt(event: RegisterBroker) -> Joined:
    """The broker keeps its id; it has no check code, so nobody can apply for the id again."""
    return Joined(event.broker_id, Member(event.address, "", _elsewhere(event.address, event)), Did.ADOPTED)


def _elsewhere(address: str, event: ApplyBrokerId | RegisterBroker) -> bool:
    """Whether it asks from another host than the one that its address names: then nothing is asked at that address."""
    host = event.evidence.asker.rpartition(":")[0]
    return bool(host) and not names(address, host)


def clean(group: BrokerGroup | None, event: CleanBrokerData) -> Verdict:
    """Judge 1011.

    A group is not forgotten while a member lives, also if ``living`` asks for that: what it acknowledged would be given
    up, and whoever came next would be its first master.

    :param group: None also for one that is forgotten.
    """
    code = ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    name = event.broker_name
    alive = [replica.broker_id for replica in event.evidence.alive]
    if not event.living:
        if not event.broker_ids and group is not None and group.master:
            return Verdict(answers.refusal(code, f"Broker {name} is still alive, clean up failure"))
        for broker_id in event.broker_ids:
            if broker_id in alive:
                return Verdict(answers.refusal(code, f"Broker [{name},  {broker_id}] is still alive, clean up failure"))
    if group is None:
        return Verdict(answers.refusal(code, f"Broker {name} is not existed,clean broker data failure."))
    if event.living or not event.broker_ids:
        if alive:
            ids = ", ".join(map(str, alive))
            return Verdict(answers.refusal(code, f"Broker {name} is still alive (ids {ids}): stop it first"))
        return Verdict(Answer(), Forgotten())
    gone = tuple([broker_id for broker_id in event.broker_ids if broker_id in group.members])
    if len(gone) + len(group.retired) > RETIRED_MAX:
        return Verdict(answers.refusal(code, f"Broker {name}: more than {RETIRED_MAX} ids were cleaned already"))
    return Verdict(Answer(), Cleaned(gone) if gone else None)
