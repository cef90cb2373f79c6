"""The controller's promises about one broker group, as a model that a history is checked against.

Pure, and written from the facts of the protocol, not from the controller's code.  The state is what a client can learn:
the next id, who has which id, the master and its epoch, the set and its epoch.  Elections come into a history as
operations of their own (``elected``), with the outcome that the log has: a client's own 1002 then only has to see it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from rocketha.simulation.linearizability import UNKNOWN
from rocketha.wire.codes import ResponseCode

ID_GAP_MAX = 1024


class GroupState(NamedTuple):
    """See the module.  ``members`` and ``cleaned``: (id, check code) by id."""

    next_id: int = 1
    members: tuple[tuple[int, str], ...] = ()
    master: int = 0
    epoch: int = 0
    in_sync: tuple[int, ...] = ()
    set_epoch: int = 0
    cleaned: tuple[tuple[int, str], ...] = ()

    def has(self, number: int) -> bool:
        """Whether an id is registered."""
        return any(each == number for each, _ in self.members)


def step(state: Hashable, what: tuple[Any, ...], output: Any) -> tuple[bool, Hashable]:
    """One operation; see :data:`rocketha.simulation.linearizability.Step`."""
    assert isinstance(state, GroupState)
    return _STEPS[what[0]](state, what, output)


def _next(state: GroupState, what: tuple[Any, ...], output: Any) -> tuple[bool, GroupState]:
    if output is UNKNOWN or output[0]:
        return True, state
    return int(dict(output[1])["nextBrokerId"]) == state.next_id, state


def _apply(state: GroupState, what: tuple[Any, ...], output: Any) -> tuple[bool, GroupState]:
    number, code = what[1:]
    again = (number, code) in state.members
    fresh = state.next_id <= number < state.next_id + ID_GAP_MAX and (state.next_id > 1 or number == 1)
    after = state
    if fresh:
        members = tuple(sorted((*state.members, (number, code))))
        after = state._replace(next_id=number + 1, members=members)
    if output is UNKNOWN:
        return True, after
    if output[0] == 0:
        return again or fresh, after
    return not (again or fresh), state


def _register(state: GroupState, what: tuple[Any, ...], output: Any) -> tuple[bool, GroupState]:
    back = [each for each in state.cleaned if each[0] == what[1] and each[1].split(";")[0] == what[2]]
    if back and (output is UNKNOWN or not output[0]):
        cleaned = tuple(each for each in state.cleaned if each not in back)
        state = state._replace(members=tuple(sorted((*state.members, *back))), cleaned=cleaned)
    if output is UNKNOWN:
        return True, state
    if output[0]:
        return not state.has(what[1]), state
    return state.has(what[1]) and output[2] == state.in_sync and _tells(state, dict(output[1])), state


def _get(state: GroupState, what: tuple[Any, ...], output: Any) -> tuple[bool, GroupState]:
    if output is UNKNOWN:
        return True, state
    if output[0]:
        return not state.members, state
    fields = dict(output[1])
    named = int(fields.get("masterBrokerId", 0)) == state.master
    return named and output[2] == state.in_sync and _tells(state, fields), state


def _tells(state: GroupState, fields: dict[str, str]) -> bool:
    """Whether the master and the epochs in an answer, where it names them, are those of the state."""
    wanted = {"masterBrokerId": state.master, "masterEpoch": state.epoch, "syncStateSetEpoch": state.set_epoch}
    return all(int(fields[name]) == value for name, value in wanted.items() if name in fields)


def _elect(state: GroupState, what: tuple[Any, ...], output: Any) -> tuple[bool, GroupState]:
    """The change itself is an ``elected`` beside it."""
    if output is UNKNOWN or output[0] not in (0, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
        return True, state
    fields = dict(output[1])
    return bool(state.master) and _tells(state, fields), state


def _elected(state: GroupState, what: tuple[Any, ...], output: Any) -> tuple[bool, GroupState]:
    """An election as the log has it: nobody wins two epochs, no epoch is skipped."""
    winner, epoch, set_epoch = what[1:]
    allowed = state.epoch + 1 == epoch and state.set_epoch + bool(winner) == set_epoch
    if not winner:
        return allowed, state._replace(master=0, epoch=epoch)
    return allowed, state._replace(master=winner, epoch=epoch, in_sync=(winner,), set_epoch=set_epoch)


def _alter(state: GroupState, what: tuple[Any, ...], output: Any) -> tuple[bool, GroupState]:
    number, epoch, set_epoch, wanted = what[1:]
    equal = wanted == state.in_sync
    may = state.master == number and (state.epoch, state.set_epoch) == (epoch, set_epoch) and not equal
    after = state._replace(in_sync=wanted, set_epoch=set_epoch + 1) if may else state
    if output is UNKNOWN:
        return True, after
    code = output[0]
    if code == 0:
        told = int(dict(output[1])["newSyncStateSetEpoch"]) == set_epoch + 1 and output[2] == wanted
        return may and told, after
    excuses = {
        ResponseCode.CONTROLLER_INVALID_MASTER: state.master != number,
        ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH: state.epoch != epoch,
        ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH: state.set_epoch != set_epoch,
        ResponseCode.CONTROLLER_INVALID_REPLICAS: not all(state.has(each) for each in wanted),
        ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED: equal or number not in wanted or not state.members,
    }
    return excuses.get(code, True), state


def _clean(state: GroupState, what: tuple[Any, ...], output: Any) -> tuple[bool, GroupState]:
    number = what[1]
    if output is not UNKNOWN and output[0]:
        return True, state
    if not state.has(number):
        return True, state
    members = tuple(each for each in state.members if each[0] != number)
    kept = tuple(each for each in state.in_sync if each != number)
    cleaned = tuple(sorted({*state.cleaned, *state.members} - {*members}))
    after = state._replace(members=members, in_sync=kept, set_epoch=state.set_epoch + (kept != state.in_sync))
    after = after._replace(cleaned=cleaned)
    if number == state.master:
        after = after._replace(master=0, epoch=state.epoch + 1)
    return True, after


_STEPS = {
    "next": _next,
    "apply": _apply,
    "register": _register,
    "get": _get,
    "elect": _elect,
    "elected": _elected,
    "alter": _alter,
    "clean": _clean,
}
