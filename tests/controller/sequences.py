"""Request sequences by number, to be put to a Java controller and to ours.

Each sequence has a broker group of its own, so one Java controller answers them all.  Who is alive is set by heartbeats
with an endless or a negative timeout, so nothing depends on time.  Requests to which we answer otherwise on purpose
(docs/divergence.md) are left out of them; ``DIFFERENCES`` holds those.
"""

from __future__ import annotations

import json
from random import Random
from typing import NamedTuple

from rocketha.controller.group import BrokerGroup
from rocketha.wire.remoting import Command, request
from tests.controller.support import Controller

ENDLESS_MS = 86_400_000
CLUSTER = "c"


class Op(NamedTuple):
    """One step, short enough to be kept as test data."""

    what: str
    broker_id: int = 0
    a: int = 0
    b: int = 0
    text: str = ""

    def command(self, name: str) -> Command:
        """The request, to group ``name``."""
        return _COMMANDS[self.what](self, {"clusterName": CLUSTER, "brokerName": name})


def _beat(op: Op, head: dict[str, str]) -> Command:
    """a: epoch, b: offset, text: priority, or "dead".  Two-way: Java overtakes a oneway one with the next request."""
    timeout, priority = (-ENDLESS_MS, "2147483647") if op.text == "dead" else (ENDLESS_MS, op.text)
    numbers = {"epoch": op.a, "maxOffset": op.b, "confirmOffset": 0, "heartbeatTimeoutMills": timeout}
    fields = {**head, **{key: str(value) for key, value in numbers.items()}, "electionPriority": priority}
    return request(904, {**fields, "brokerId": str(op.broker_id), "brokerAddr": f"h{op.broker_id}:1"})


def _apply(op: Op, head: dict[str, str]) -> Command:
    """a: which of a broker's check codes."""
    code = f"h{op.broker_id}:{op.a + 1};{op.a}"
    return request(1013, {**head, "appliedBrokerId": str(op.broker_id), "registerCheckCode": code})


def _register(op: Op, head: dict[str, str]) -> Command:
    """a: port."""
    return request(
        1003, {**head, "brokerId": str(op.broker_id), "brokerAddress": f"h{op.broker_id}:{op.a}", "invokeTime": "1"}
    )


def _elect(op: Op, head: dict[str, str]) -> Command:
    """a: designated."""
    designate = "true" if op.a else "false"
    return request(1002, {**head, "brokerId": str(op.broker_id), "designateElect": designate, "invokeTime": "1"})


def _alter(op: Op, head: dict[str, str]) -> Command:
    """broker_id: the master; a: its epoch, b: the set's, text: the ids."""
    fields = {"brokerName": head["brokerName"], "masterBrokerId": str(op.broker_id), "masterEpoch": str(op.a)}
    ids = [int(each) for each in op.text.split(",") if each]
    body = json.dumps({"syncStateSet": ids, "syncStateSetEpoch": op.b}).encode()
    return request(1001, {**fields, "invokeTime": "1"}, body)


def _clean(op: Op, head: dict[str, str]) -> Command:
    """a: living too; text: the ids."""
    living = "true" if op.a else "false"
    fields = {**head, "brokerControllerIdsToClean": op.text, "isCleanLivingBroker": living, "invokeTime": "1"}
    return request(1011, fields)


_COMMANDS = {
    "beat": _beat,
    "apply": _apply,
    "register": _register,
    "elect": _elect,
    "alter": _alter,
    "clean": _clean,
    "next": lambda op, head: request(1012, head),
    "info": lambda op, head: request(1004, {"brokerName": head["brokerName"]}),
    "data": lambda op, head: request(1006, body=json.dumps([head["brokerName"]]).encode()),
}


def sequence(number: int, length: int = 17) -> list[Op]:
    """The steps of one sequence; ends with questions about all of the state."""
    chance = Random(f"controller:{number}")
    model, name = Controller(), f"s{number}"
    ops = _opening(chance) if chance.random() < 0.75 else []
    for op in ops:
        model.ask(op.command(name))
    while len(ops) < length:
        op = _any(chance, model.state.group(CLUSTER, name), model.state.record(CLUSTER, name))
        if not _differs(op, model.state.group(CLUSTER, name), model):
            ops.append(op)
            model.ask(op.command(name))
    return [*ops, Op("next"), Op("info"), Op("data")]


def _opening(chance: Random) -> list[Op]:
    """Two or three brokers, the first of them the master, all heard, mostly all in sync."""
    ids = range(1, chance.choice([3, 4]))
    ops = [*[Op("apply", each) for each in ids], Op("elect", 1)]
    ops += [Op("beat", each, 1, chance.randrange(3) * 100, "2147483647") for each in ids]
    if chance.random() < 0.8:
        ops.append(Op("alter", 1, 1, 1, ",".join(str(each) for each in ids)))
    return ops


def _any(chance: Random, group: BrokerGroup | None, record: BrokerGroup | None) -> Op:
    """A step that is often sensible."""
    members = sorted(group.members) if group is not None else []
    somebody = chance.choice([*members, 1, 2, 3]) if chance.random() < 0.9 else chance.randrange(6)
    pick = chance.random()
    if group is None or (pick < 0.2 and len(members) < 4):
        following = record.next_id if record is not None else 1
        broker_id = following if chance.random() < 0.8 else chance.choice([1, 2, following])
        what = chance.choice(["apply", "apply", "apply", "register", "info", "elect"])
        return Op(what, broker_id, 1 if what == "register" else chance.randrange(2))
    if pick < 0.5:
        words = ["dead", "2147483647", "2147483647", "7"]
        return Op("beat", somebody, chance.randrange(3), chance.randrange(4) * 100, chance.choice(words))
    if pick < 0.62:
        return Op("elect", chance.choice([somebody, somebody, -1]), int(chance.random() < 0.35))
    if pick < 0.87:
        return _any_alter(chance, group, members)
    if pick < 0.92:
        return Op("register", somebody, chance.randrange(1, 3))
    if pick < 0.95:
        return Op(
            "clean", 0, int(chance.random() < 0.3), 0, chance.choice(["", "9", f"{somebody}", "1;2", "x", "1;;2"])
        )
    return Op(chance.choice(["apply", "next", "info", "data"]), somebody, chance.randrange(2))


def _any_alter(chance: Random, group: BrokerGroup, members: list[int]) -> Op:
    def near(value: int) -> int:
        return value if chance.random() < 0.85 else value + chance.choice([-1, 1])

    ids = [each for each in members if chance.random() < 0.7]
    if chance.random() < 0.85 and group.master and group.master not in ids:
        ids.append(group.master)
    if chance.random() < 0.1:
        ids.append(chance.randrange(1, 8))
    text = ",".join(str(each) for each in sorted(set(ids)))
    return Op("alter", near(group.master or 1), near(group.master_epoch), near(group.set_epoch), text)


def _differs(op: Op, group: BrokerGroup | None, model: Controller) -> bool:
    """Whether ours answers this one otherwise than Java, on purpose."""
    if op.what == "elect":
        if op.a and op.broker_id == -1:
            return True  # Java unseats a healthy master
        if group is not None and group.never_elected:
            return op.broker_id not in group.members  # Java seats anybody, or none with an epoch
        if op.broker_id == -1 and group is not None and not group.master:
            return True  # Java raises the epoch once more
    if op.what == "apply" and group is not None:
        code = f"h{op.broker_id}:{op.a + 1};{op.a}"
        member = group.members.get(op.broker_id)
        taken = member is not None and member.check_code != code
        return not (op.broker_id == group.next_id or taken or member is not None)
    if op.what == "clean" and group is not None:
        return _cleans_otherwise(op, group, model)
    return False


def _cleans_otherwise(op: Op, group: BrokerGroup, model: Controller) -> bool:
    """Java keeps the epoch when it cleans a member of the set, drops a group without a set, and begins ids again."""
    if op.a or not op.text.strip(";"):
        return bool(op.a) or not group.master
    wanted = {int(each) for each in op.text.split(";") if each.isdigit()}
    living = {each.broker_id for each in model.requests.alive(group, 0)}
    return not wanted & living and (bool(wanted & {*group.in_sync}) or not group.in_sync)
