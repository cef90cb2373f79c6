"""What a rule says of one request: the answer, and the change if there is one."""

from __future__ import annotations

from typing import NamedTuple

from rocketha.controller.group import Change
from rocketha.wire.remoting import Answer


class Verdict(NamedTuple):
    """``change`` None leaves the state as it is.

    An answer that shows the state after the change is made by the state machine when ``answer`` is None.
    """

    answer: Answer
    change: Change | None = None
