"""Logs by number: entries of every kind over three groups, most of which do something, some nonsense."""

from __future__ import annotations

from random import Random

import attrs

from rocketha.controller.events import (
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
from rocketha.controller.state import ControllerState
from tests.controller.support import code_of

NAMES = (("c", "b"), ("c", "b2"), ("d", "b"), ("", "b2"), ("", "b"))
KINDS = ("apply", "register", "ask", "gone", "gone", "alter", "alter", "alter", "alter", "clean", "confirm")


def some_events(seed: int, count: int) -> list[Event]:
    """The entries; a state of its own lets the generator know what would make sense."""
    chance, model = Random(f"events:{seed}"), ControllerState()
    found: list[Event] = []
    for number in range(1, count + 1):
        cluster, name = chance.choice(NAMES)
        group = model.find(cluster, name)
        event = _opening(chance, cluster or "c", name, group, number) or _event(chance, cluster, name, group, number)
        found.append(event)
        model.apply(event, number)
    return found


def _opening(chance: Random, cluster: str, name: str, group: BrokerGroup | None, number: int) -> Event | None:
    """Three brokers and a master, for a group that has fewer."""
    members = group.members if group is not None else {}
    if group is None and chance.random() < 0.1:
        broker_id, evidence = chance.randrange(1, 4), Evidence(adopt=True, now_ms=number)
        return RegisterBroker(cluster, name, broker_id, f"h{broker_id}:1", evidence)
    if len(members) < 3 and chance.random() < 0.8:
        broker_id = group.next_id if group is not None else 1
        return ApplyBrokerId(cluster, name, broker_id, code_of(broker_id % 200), _evidence(chance, group, number))
    if group is not None and group.never_elected and chance.random() < 0.7:
        return ElectMaster(cluster, name, chance.choice(sorted(members)), evidence=_evidence(chance, group, number))
    return None


def _evidence(chance: Random, group: BrokerGroup | None, number: int) -> Evidence:
    members = sorted(group.members) if group is not None else [1, 2]
    living = tuple(
        Alive(each, chance.randrange(3), chance.randrange(3), chance.choice((1, 9)), chance.random() < 0.1)
        for each in members
        if chance.random() < 0.7
    )
    void = group.unconfirmed if group is not None else None
    never_told = void.log_index if void is not None and chance.random() < 0.7 else 0
    unclean, adopt = chance.random() < 0.1, chance.random() < 0.1
    return Evidence(Why.REQUESTED, "generated", number, "h:1", unclean, adopt, never_told, living)


def _event(chance: Random, cluster: str, name: str, group: BrokerGroup | None, number: int) -> Event:
    evidence = _evidence(chance, group, number)
    members = sorted(group.members) if group is not None else [1, 2]
    master, epoch, set_epoch = (group.master, group.master_epoch, group.set_epoch) if group is not None else (1, 1, 1)
    somebody = chance.choice([*members, chance.randrange(1, 5)])
    ids = tuple(each for each in members if each == master or chance.random() < 0.5)
    kind = chance.choice(KINDS)
    if kind == "apply":
        broker_id = chance.choice([somebody, group.next_id if group is not None else 1])
        return ApplyBrokerId(cluster or "c", name, broker_id, code_of(chance.randrange(1, 4)), evidence)
    if kind == "register":
        return RegisterBroker(cluster or "c", name, somebody, f"h{chance.randrange(3)}:1", evidence)
    if kind == "ask":
        return ElectMaster(cluster, name, somebody, chance.random() < 0.3, evidence=evidence)
    if kind == "gone":
        newest = epoch + 1 if number % 10 == 0 else 0
        return ElectMaster(cluster, name, -1, False, master, epoch, evidence, newest)
    if kind == "alter":
        near = chance.choice((0, 0, 0, 0, 1))
        return AlterSyncStateSet(cluster, name, master or somebody, epoch, set_epoch + near, ids, evidence)
    if kind == "clean":
        living = chance.random() < 0.1
        return CleanBrokerData(
            cluster, name, (somebody,), living, attrs.evolve(evidence, alive=()) if living else evidence
        )
    return ConfirmMaster(cluster, name, master or somebody, epoch, evidence)
