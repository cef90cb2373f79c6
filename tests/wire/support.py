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
