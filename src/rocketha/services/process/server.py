"""What every server's process has, whatever it serves: the log at the wanted level, and what its whole life is for.

Only the taps use it: a test or a benchmark that runs a service in its own process keeps its clock and its heap.
"""

from __future__ import annotations

from typing import Any

from twisted.application import service

from rocketha.observe.logging import set_level
from rocketha.services.process.frozen_heap import FrozenHeap
from rocketha.services.process.lean_rounds import LeanRounds
from rocketha.services.process.log_file import LogFileService
from rocketha.services.process.open_files import raise_limit
from rocketha.services.process.steady import SteadyClock


def server_process(options: Any) -> service.MultiService:
    """The parent of a server's services.

    :param options: the command's, for the level of the log, and its file.
    """
    set_level(options["log-level"])
    raise_limit()
    whole = service.MultiService()
    if options["log-file"] is not None:
        LogFileService(options["log-file"]).setServiceParent(whole)
    SteadyClock().setServiceParent(whole)
    LeanRounds().setServiceParent(whole)
    FrozenHeap().setServiceParent(whole)
    return whole
