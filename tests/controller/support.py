"""What several tests of the controller need: evidence and groups in short, and heartbeats by hand."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable
from typing import Any

import attrs

from rocketha.controller.events import (
    CONTROLLER,
    Alive,
    AlterSyncStateSet,
    ApplyBrokerId,
    ElectMaster,
    Event,
    Evidence,
)
from rocketha.controller.requests import Caller, Intent, Requests
from rocketha.controller.state import ControllerState, Outcome
from rocketha.errors import RequestRefused
from rocketha.wire.controller_log import GroupRow, decode_snapshot
from rocketha.wire.remoting import Answer, Command

DATA = pathlib.Path(__file__).resolve().parent / "data"
CLUSTER, NAME = "c", "b"


@attrs.frozen
class Options:
    """The part of the configuration that requests read."""

    enable_elect_unclean_master: bool = False
    adopt_unknown_brokers: bool = False


class Heartbeats:
    """Who is heard, as Java's DefaultBrokerHeartbeatManager keeps it: numbers only move forward.

    A heartbeat with a negative timeout is expired when it arrives, which is how a test kills a broker.
    """

    def __init__(self) -> None:
        self.table: dict[tuple[str, str, int], tuple[int, int, int, int]] = {}
        self.awaited: set[int] = set()  # ids never heard, that may be
        self.newest = 0  # an epoch that no election of the state gave

    def beat(self, command: Command) -> None:
        """One request 904."""
        get = command.fields.get
        key = (get("clusterName", ""), get("brokerName", ""), int(get("brokerId", "0")))
        epoch, offset = int(get("epoch", "-1")), int(get("maxOffset", "-1"))
        priority, timeout = int(get("electionPriority", str(2**31 - 1))), int(get("heartbeatTimeoutMills", "10000"))
        known = self.table.get(key)
        if known is not None and (epoch, offset) <= known[:2]:
            epoch, offset = known[:2]
        self.table[key] = (epoch, offset, priority, timeout)

    def alive(self, cluster: str, broker_name: str, broker_id: int, now_ms: int) -> Alive | None:
        """As requests.Hearing wants it."""
        known = self.table.get((cluster, broker_name, broker_id))
        return None if known is None or known[3] < 0 else Alive(broker_id, *known[:3])

    def may_come(self, cluster: str, broker_name: str, broker_id: int) -> bool:
        """As requests.Hearing wants it."""
        return broker_id in self.awaited

    def newest_epoch(self, cluster: str, broker_name: str) -> int:
        """As requests.Hearing wants it."""
        return self.newest


class Controller:
    """A state with its requests: every intent is applied at once, as on a leader that is alone."""

    def __init__(self, options: Options | None = None) -> None:
        self.state = ControllerState()
        self.heartbeats = Heartbeats()
        self.requests = Requests(self.state, self.heartbeats, options or Options())
        self.log: list[Event] = []
        self.cluster = CLUSTER  # that the last request named, as if all came by one connection

    def apply(self, event: Event) -> Outcome:
        """Commit one event."""
        self.log.append(event)
        return self.state.apply(event, len(self.log))

    def ask(self, command: Command, caller: Caller | None = None) -> Answer:
        """The answer to one request; 904 has none."""
        self.cluster = command.fields.get("clusterName") or self.cluster
        caller = caller or Caller("10.0.0.9:1", self.cluster)
        if command.code == 904:
            self.heartbeats.beat(command)
            return Answer()
        try:
            found = self.requests.decode(command, caller, True, 1_000)
        except RequestRefused as refusal:
            return Answer(refusal.code, refusal.remark)
        if isinstance(found, Intent):
            return self.apply(found.event).answer
        return found if isinstance(found, Answer) else self.requests.answer(found, 1_000)


def alive(*broker_ids: int, epoch: int = 1, offset: int = 100) -> tuple[Alive, ...]:
    """Replicas that are heard, all equally far."""
    return tuple(Alive(broker_id, epoch, offset) for broker_id in broker_ids)


def knows(*broker_ids: int, **others: Any) -> Evidence:
    """Evidence that these are alive."""
    return Evidence(alive=alive(*broker_ids), **others)


def code_of(broker_id: int) -> str:
    """A check code."""
    return f"10.0.0.{broker_id}:10911;17952564797{broker_id:02d}"


def make_group(
    controller: Controller,
    members: int = 3,
    in_sync: Iterable[int] = (1, 2, 3),
    name: str = NAME,
    cluster: str = CLUSTER,
) -> None:
    """Brokers 1 to ``members``; 1 is master in epoch 1, the SyncStateSet as given (epoch 2 if it is more than 1)."""
    for broker_id in range(1, members + 1):
        controller.apply(ApplyBrokerId(cluster, name, broker_id, code_of(broker_id)))
    everybody = knows(*range(1, members + 1))
    controller.apply(ElectMaster(cluster, name, 1, evidence=everybody))
    if tuple(in_sync) != (1,):
        controller.apply(AlterSyncStateSet(cluster, name, 1, 1, 1, tuple(in_sync), everybody))


def contents(state: ControllerState) -> tuple[GroupRow, ...]:
    """All of a state except the number of entries that made it."""
    return decode_snapshot(state.snapshot()).groups


def gone(evidence: Evidence, cluster: str = CLUSTER, name: str = NAME, **others: Any) -> ElectMaster:
    """The controller's own election."""
    return ElectMaster(cluster, name, CONTROLLER, evidence=evidence, **others)


def load(name: str) -> Any:
    """A file of recorded answers."""
    return json.loads((DATA / name).read_text(encoding="utf-8"))
