"""What several tests of wire/ need: recorded Java frames, and strategies for commands."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from hypothesis import strategies as st

from rocketha.wire.remoting import LANGUAGES, Command

DATA = pathlib.Path(__file__).resolve().parent / "data"


def java_frames() -> list[tuple[dict[str, Any], bytes]]:
    """Frames recorded from Apache RocketMQ 5.5.0 (clients, brokers, nameserver, controller, mqadmin): (what, whole
    frame).
    """
    rows = [json.loads(line) for line in (DATA / "frames.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(row, bytes.fromhex(row["hex"])) for row in rows]


int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
text = st.text(max_size=40)
filled = st.text(min_size=1, max_size=40)


def commands(binary: bool) -> st.SearchStrategy[Command]:
    """Commands that the header form can carry: the packed one has 16-bit codes and no empty strings."""
    number, word = (int16, filled) if binary else (int32, text)
    return st.builds(
        Command,
        code=number,
        language=st.sampled_from((*LANGUAGES, None)),
        version=number,
        opaque=int32,
        flag=int32,
        remark=st.none() | word,
        fields=st.dictionaries(word, word, max_size=6),
        body=st.binary(max_size=200),
    )


def ha_link(name: str) -> list[tuple[str, bytes]]:
    """An HA connection recorded from Apache RocketMQ 5.5.0: (``c2s`` or ``s2c``, the bytes of one segment).

    :param name: ``classic``, ``autoswitch`` (an empty slave joins) or ``autoswitch-epoch-2`` (after an election).
    """
    rows = [json.loads(line) for line in (DATA / "ha" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return [(row["dir"], bytes.fromhex(row["hex"])) for row in rows]


def one_way(name: str, direction: str) -> bytes:
    """All bytes of one direction of such a connection; ``c2s`` is the slave's."""
    return b"".join(data for way, data in ha_link(name) if way == direction)


def ha_dialogue() -> list[tuple[Command, Command | None]]:
    """What brokers of Apache RocketMQ 5.5.0 asked their controller and each other: (request, answer if any)."""
    found: list[tuple[Command, Command | None]] = []
    for line in (DATA / "ha" / "dialogue.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        asked, answered = row["request"], row.get("answer")
        found.append((_command(asked, 0), _command(answered, 1) if answered else None))
    return found


def _command(row: dict[str, Any], flag: int) -> Command:
    body = row.get("body", "").encode()
    return Command(row["code"], flag=flag, remark=row.get("remark"), fields=dict(row["fields"] or {}), body=body)
