"""Java's recorded answers and ours to the same requests, in one form that can be compared.

Data rows are ``[step, number of the answer]`` with step ``[what, broker_id, a, b, text]``; answers are
``[code, remark, header, body]``; trailing defaults are cut off.  The answer to a heartbeat is not kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rocketha.wire import json_dialect
from rocketha.wire.remoting import Answer
from tests.controller.sequences import Op
from tests.controller.support import Controller

SEQUENCES = 200

DIFFERENCES: dict[str, list[Op]] = {
    "none-twice": [
        Op("apply", 1),
        Op("elect", 1),
        Op("beat", 1, 1, 1, "dead"),
        Op("elect", -1),
        Op("elect", -1),
        Op("info"),
    ],
    "first-election-of-a-stranger": [Op("apply", 1), Op("elect", 9), Op("info")],
    "first-election-by-the-controller": [Op("apply", 1), Op("elect", -1), Op("info"), Op("elect", 1), Op("info")],
    "designate-nobody": [Op("apply", 1), Op("elect", 1), Op("beat", 1, 1, 1, "7"), Op("elect", -1, 1), Op("info")],
    "id-far-away": [Op("apply", 1), Op("apply", 5), Op("next"), Op("apply", 3), Op("apply", 4), Op("next")],
    "id-zero": [Op("apply", 1), Op("apply", 0), Op("apply", -7), Op("next")],
    "cleaned-id-again": [
        Op("apply", 1),
        Op("apply", 2),
        Op("apply", 3),
        Op("elect", 1),
        Op("clean", text="3"),
        Op("next"),
        Op("apply", 3, 1),
        Op("data"),
    ],
    "clean-a-member-of-the-set": [
        Op("apply", 1),
        Op("apply", 2),
        Op("elect", 1),
        Op("beat", 1, 1, 1, "7"),
        Op("beat", 2, 1, 1, "7"),
        Op("alter", 1, 1, 1, "1,2"),
        Op("beat", 2, 1, 1, "dead"),
        Op("clean", text="2"),
        Op("info"),
        Op("data"),
    ],
    "clean-the-master": [
        Op("apply", 1),
        Op("apply", 2),
        Op("elect", 1),
        Op("clean", text="1"),
        Op("info"),
        Op("next"),
        Op("register", 2, 1),
        Op("data"),
    ],
    "clean-everything": [
        Op("apply", 1),
        Op("apply", 2),
        Op("elect", 1),
        Op("clean", a=1),
        Op("info"),
        Op("next"),
        Op("apply", 1, 1),
        Op("elect", 1),
        Op("info"),
    ],
    "offsets-more-than-2-GiB-apart": [
        Op("apply", 1),
        Op("apply", 2),
        Op("apply", 3),
        Op("elect", 1),
        Op("beat", 1, 1, 1, "7"),
        Op("beat", 2, 1, 5_000_000_000, "7"),
        Op("beat", 3, 1, 1_000_000_000, "7"),
        Op("alter", 1, 1, 1, "1,2,3"),
        Op("beat", 1, 1, 1, "dead"),
        Op("elect", -1),
    ],
    "priorities-far-apart": [
        Op("apply", 1),
        Op("apply", 2),
        Op("apply", 3),
        Op("elect", 1),
        Op("beat", 1, 1, 1, "7"),
        Op("beat", 2, 1, 1, "2147483647"),
        Op("beat", 3, 1, 1, "-2147483648"),
        Op("alter", 1, 1, 1, "1,2,3"),
        Op("beat", 1, 1, 1, "dead"),
        Op("elect", -1),
    ],
}


def compact(recorded: Mapping[str, tuple[Sequence[Op], Sequence[Answer]]]) -> dict[str, Any]:
    """What is kept of sequences by name: each different answer once, with ``$`` for the name of the group."""
    numbers: dict[str, int] = {}
    rows = {}
    for name, (steps, answers) in recorded.items():
        rows[name] = []
        for step, answer in zip(steps, answers, strict=True):
            row: list[Any] = list(_cut(step, (0, 0, 0, 0, "")))
            if step.what == "beat":
                rows[name].append([row])
                continue
            text = json.dumps(_answer(answer), ensure_ascii=False).replace(name, "$")
            rows[name].append([row, numbers.setdefault(text, len(numbers))])
    return {"answers": [json.loads(text) for text in numbers], "sequences": rows}


def _cut(row: Sequence[Any], defaults: Sequence[Any]) -> Sequence[Any]:
    end = len(row)
    while end > 1 and row[end - 1] == defaults[end - 1]:
        end -= 1
    return row[:end]


def _answer(answer: Answer) -> list[Any]:
    fields = [list(pair) for pair in (answer.fields or {}).items()]
    return list(_cut([answer.code, answer.remark, fields, answer.body.decode()], (0, None, [], "")))


def expanded(kept: Mapping[str, Any]) -> dict[str, tuple[list[Op], list[Answer]]]:
    """The other way round."""
    texts = [json.dumps(answer, ensure_ascii=False) for answer in kept["answers"]]
    found = {}
    for name, rows in kept["sequences"].items():
        steps, answers = [], []
        for row in rows:
            steps.append(Op(*row[0]))
            code, remark, fields, body = 0, None, None, None
            if len(row) > 1:
                code, remark, fields, body = [*json.loads(texts[row[1]].replace("$", name)), None, None, None][:4]
            answers.append(Answer(code, remark, dict(fields or []), (body or "").encode()))
        found[name] = (steps, answers)
    return found


def ours(steps: Sequence[Op], name: str) -> list[Any]:
    """Our answers to the same steps, from an empty controller, comparable."""
    controller = Controller()
    return [_comparable(step, controller.ask(step.command(name))) for step in steps]


def theirs(steps: Sequence[Op], answers: Sequence[Answer]) -> list[Any]:
    """Java's answers, comparable."""
    return [_comparable(step, answer) for step, answer in zip(steps, answers, strict=True)]


def _comparable(step: Op, answer: Answer) -> Any:
    """Everything byte by byte, except the body of a new master: ours has mqadmin's form beside Java's."""
    if step.what == "beat":
        return None
    body: Any = answer.body
    if step.what == "elect" and body and answer.code == 0:
        shared = ("brokerMemberGroup", "syncStateSet")
        body = {key: item for key, item in json_dialect.loads(body).items() if key in shared}
    return step, answer.code, answer.remark, list((answer.fields or {}).items()), body
