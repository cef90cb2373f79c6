"""Who becomes master.

Knows the group and the evidence of one entry; no clock, no liveness of its own.  Theory of operation, in this order:

1. The entry is about another master or epoch than the present one: nothing.
2. The group never had a master and a broker asks: that broker, alive or not (it is about to send its first heartbeat).
3. The policy, first over the SyncStateSet (where cleaning left nobody of it, over those of the last one that came back)
   and then, if the evidence allows unclean elections, over all members; of
   those only who is alive in the evidence: the present master if it may stay; the designated broker or nobody; else
   the largest (epoch, max offset), then the smallest election priority, then the smallest id.
4. But if a member knows of an epoch that the group does not, elections were lost (a state restored from an old copy, a
   minority of controllers made the only one), and the SyncStateSet is older than what was acknowledged since.  Nobody
   wins but the present master or, once that is gone, whom an operator designates, over all members, in an epoch above
   all that are known.
   When the controller asks, the group is outdated from then on: it has no master and no set, as an adopted one.
5. Nobody, and the last election was never heard of by its winner: the policy over the SyncStateSet before it.
6. Nobody: when the controller asks, the group loses its master, once.

Java classes: ``ReplicasInfoManager.electMaster``, ``DefaultElectPolicy``.  Differences are in docs/divergence.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rocketha.controller import answers
from rocketha.controller.events import CONTROLLER, Alive, ElectMaster
from rocketha.controller.group import (
    ADOPTED_EPOCH_MARGIN,
    EPOCH_MAX,
    LOST_MAX,
    BrokerGroup,
    Confirmed,
    Did,
    Elected,
    Outdated,
    Unseated,
)
from rocketha.controller.verdict import Verdict
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer

NOBODY = 0
"""No broker has this id: they begin at 1."""


def best(alive: Iterable[Alive]) -> int:
    """The id of the replica that is ahead; NOBODY of none."""
    order = sorted(
        alive, key=lambda replica: (-replica.epoch, -replica.max_offset, replica.priority, replica.broker_id)
    )
    return order[0].broker_id if order else NOBODY


def choose(candidates: Sequence[Alive], old_master: int, preferred: int) -> int:
    """One pass of the policy.

    :param candidates: who is alive of those that may win.
    :param preferred: the designated broker, NOBODY if none is.
    """
    ids = [replica.broker_id for replica in candidates]
    if old_master in ids and preferred in (NOBODY, old_master):
        return old_master
    if preferred != NOBODY:
        return preferred if preferred in ids else NOBODY
    return best(candidates)


def elect(group: BrokerGroup | None, event: ElectMaster) -> Verdict:
    """Judge an election."""
    if group is None:
        return Verdict(
            answers.refusal(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, "Broker hasn't been registered", {})
        )
    expected = (event.expected_master, event.expected_epoch)
    if expected != (0, 0) and expected != (group.master, group.master_epoch):
        return Verdict(_overtaken(group, event))
    asker, evidence = event.broker_id, event.evidence
    if event.designate and asker not in group.members:
        return Verdict(_failed())
    alive = {replica.broker_id: replica for replica in evidence.alive if replica.broker_id in group.members}
    if group.never_elected and not group.adopted and not group.master_epoch and asker != CONTROLLER:
        return _first(group, event, alive)
    preferred = asker if event.designate else NOBODY
    behind = is_behind(group, event.newest_epoch)
    no_set = not group.in_sync or (behind and group.master not in alive)
    gives_up = event.designate and evidence.operator and no_set
    if (gives_up and not group.adopted and not behind) or asker in group.returned:
        alive.setdefault(asker, Alive(asker))  # as a first master: it is about to send its first heartbeat
    winner = choose(_those(alive, group.in_sync or group.returned), group.master, preferred)
    if winner == NOBODY and (evidence.unclean or gives_up):
        winner = choose(_those(alive, group.members), group.master, preferred)
    if winner != NOBODY and winner == group.master:
        knows = group.unconfirmed is not None and asker == group.master
        return Verdict(answers.master_still_exists(group), Confirmed() if knows else None)
    if behind and not (gives_up and winner != NOBODY):
        return Verdict(_refused_as_old(group, event), Outdated(event.newest_epoch) if asker == CONTROLLER else None)
    if winner != NOBODY:
        return _elected(group, event, alive, winner, Did.ELECTED)
    winner = _taken_back(group, event, alive, preferred)
    if winner != NOBODY:
        return _elected(group, event, alive, winner, Did.TAKEN_BACK)
    if asker != CONTROLLER:
        return Verdict(_failed(_awaited(group)))
    unavailable = answers.refusal(
        ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, "Old master has down and failed to elect a new broker master", {}
    )
    return Verdict(unavailable, Unseated() if group.master else None)


def is_behind(group: BrokerGroup, newest_epoch: int) -> bool:
    """Whether members name an epoch that can only be of an election that this state has lost.

    Not of one that never had a master: of an adopted one it is known, and it elects nobody by itself.
    """
    lost = newest_epoch - group.master_epoch
    return 0 < lost <= LOST_MAX and not group.never_elected


def _those(alive: Mapping[int, Alive], broker_ids: Iterable[int]) -> list[Alive]:
    return [alive[broker_id] for broker_id in sorted(broker_ids) if broker_id in alive]


def _first(group: BrokerGroup, event: ElectMaster, alive: Mapping[int, Alive]) -> Verdict:
    """Java would seat any id, registered or not."""
    if event.broker_id not in group.members:
        remark = f"BrokerId: {event.broker_id} hasn't been registered in broker-set: {group.broker_name}"
        return Verdict(answers.refusal(ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, remark, {}))
    return _elected(group, event, alive, event.broker_id, Did.ELECTED)


def _taken_back(group: BrokerGroup, event: ElectMaster, alive: Mapping[int, Alive], preferred: int) -> int:
    """Who wins if the last election is void, NOBODY if it is not.

    It is void when its winner is gone and can not have acknowledged anything in its role: either it acknowledges
    nothing before it is confirmed, and was not, or the leader vouches that it never heard of the election.  Then
    everything acknowledged is still held by every member of the set before it.
    """
    void = group.unconfirmed
    if void is None or void.winner in alive or group.master not in (NOBODY, void.winner):
        return NOBODY
    if not void.confirms and event.evidence.never_told != void.log_index:
        return NOBODY
    return choose(_those(alive, void.before), NOBODY, preferred)


def _elected(group: BrokerGroup, event: ElectMaster, alive: Mapping[int, Alive], winner: int, did: Did) -> Verdict:
    base = 0
    if group.adopted and group.never_elected:
        base = max([group.master_epoch, *(replica.epoch for replica in alive.values())]) + ADOPTED_EPOCH_MARGIN
    elif is_behind(group, event.newest_epoch):
        base = event.newest_epoch + ADOPTED_EPOCH_MARGIN
    if max(group.master_epoch, base) >= EPOCH_MAX:
        remark = f"Epoch {max(group.master_epoch, base)} is beyond what an election may reach ({EPOCH_MAX})"
        return Verdict(answers.refusal(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, remark, {}))
    # Who asks learns of it from the answer; everybody else may die before hearing of it.
    asked_itself = event.broker_id == winner and not event.designate
    before = group.in_sync
    if did is Did.TAKEN_BACK and group.unconfirmed is not None:
        before = group.unconfirmed.before
    confirms = winner in alive and alive[winner].confirms
    unconfirmed = any(broker_id != winner for broker_id in before) and (confirms or not asked_itself)
    change = Elected(winner, unconfirmed, before if unconfirmed else (), confirms, base, did)
    master_epoch = max(group.master_epoch, base) + 1
    return Verdict(answers.elected(group, winner, master_epoch, group.set_epoch + 1), change)


def _refused_as_old(group: BrokerGroup, event: ElectMaster) -> Answer:
    asked = event.broker_id != CONTROLLER
    code = ResponseCode.CONTROLLER_ELECT_MASTER_FAILED if asked else ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    remark = (
        f"Elections were lost: a broker has epoch {event.newest_epoch}, the controllers know of none after "
        f"{group.master_epoch}, so the SyncStateSet is too old to elect from it. When its master is stopped, elect "
        f"the newest log: rocketha controller elect {group.broker_name}, on the leading controller's machine "
        f"({OPERATOR})"
    )
    return answers.refusal(code, remark, {})


def _failed(why: str = "") -> Answer:
    return answers.refusal(ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, f"Failed to elect a new master{why}", {})


def _awaited(group: BrokerGroup) -> str:
    """Why nobody may lead a group without a SyncStateSet, and what an operator can do."""
    if group.in_sync:
        return ""
    known = {**group.cleaned, **group.members}
    those = [f"broker {each} of {known[each].address}" for each in group.holders]
    who = f"of its last SyncStateSet {', '.join(those)} may lead it, none of them is back" if those else _NOBODY_KNOWN
    command = f"mqadmin electMaster -a CONTROLLER -c {group.cluster} -bn {group.broker_name} -b ID"
    return f": {who}. To give up what the others hold: {command}, on the leading controller's machine ({OPERATOR})"


_NOBODY_KNOWN = "it is not known who holds what it acknowledged"
OPERATOR = "remoteAdminEnable=true allows it from others"


def _overtaken(group: BrokerGroup, event: ElectMaster) -> Answer:
    remark = (
        f"The election was about master {event.expected_master} in epoch {event.expected_epoch}, by now it is "
        f"{group.master or 'none'} in epoch {group.master_epoch}"
    )
    return answers.refusal(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, remark, {})
