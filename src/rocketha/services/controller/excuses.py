"""What is answered to requests that a controller cannot carry out."""

from __future__ import annotations

from typing import Any

from twisted.python.failure import Failure

from rocketha.controller import answers
from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.raft.errors import Busy, RaftRefused
from rocketha.services.raft.waiting import Lost, NoMajority
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer

FULL = answers.refusal(ResponseCode.SYSTEM_BUSY, "too many requests wait here")
"""One more would take what those of other connections need."""


def excuse(failure: Failure, log: Any) -> Answer:
    """The answer to a request that failed; 2007, which brokers ask the next leader after, only where nothing happened.

    :param log: is told of what should not fail.
    """
    problem = failure.value
    if isinstance(problem, RequestRefused):
        return Answer(problem.code, problem.remark)
    if isinstance(problem, Busy):
        return answers.refusal(ResponseCode.SYSTEM_BUSY, str(problem))
    if isinstance(problem, RaftRefused | NoMajority) or (isinstance(problem, Lost) and not problem.maybe_applied):
        return answers.NOT_LEADER
    if isinstance(problem, Lost | RemoteProtocolError):
        return answers.refusal(ResponseCode.SYSTEM_ERROR, str(problem))
    log.error("a request failed: {trace}", trace=failure.getTraceback())
    return answers.refusal(ResponseCode.SYSTEM_ERROR, f"{type(problem).__name__}: {problem}"[:1000])
