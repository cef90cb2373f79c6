"""What a server's process tells its operators of itself, whatever it serves: its release, its clock, its log's level.

What it must not know: whose process it is.  The facts are part of the answer to CLIENTS (11007); LOG_LEVEL (11009)
reads the level, and changes it.

A change of level needs no restart and is not kept: a process begins with its ``--log-level``.
"""

from __future__ import annotations

from typing import Any

import rocketha
from rocketha.errors import RequestRefused
from rocketha.observe.events import LogLevelChanged
from rocketha.observe.logging import LEVELS, current_level, emit, make_logger, set_level
from rocketha.protocols.endpoints import is_loopback
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.services.process.platform import Platform
from rocketha.wire import fields
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command


class OwnProcess:
    """Of one server.

    :param judged: whether who may ask what is decided before a request comes here (identities, users); else only who
        is on this machine changes anything.
    """

    def __init__(self, platform: Platform, judged: bool) -> None:
        self._platform = platform
        self._judged = judged
        self._started_ms = platform.wall_ms()
        self._log = make_logger()

    def facts(self) -> dict[str, Any]:
        """In JSON; times are ms since 1970 by this process's clock."""
        return {
            "version": rocketha.__version__,
            "pid": self._platform.pid(),
            "nowMillis": self._platform.wall_ms(),
            "startedMillis": self._started_ms,
            "logLevel": current_level(),
        }

    def log_level(self, connection: RemotingProtocol, command: Command, now_ms: int = 0) -> Answer:
        """LOG_LEVEL: the level, after a change where ``level`` asks for one.

        :raises RequestRefused: 16, not from there; 29, there is no such level.
        """
        before = current_level()
        wanted = fields.optional_text(command.fields, "level", 16)
        if wanted is None or wanted == before:
            return Answer(fields={"level": before})
        here = is_loopback(connection.proven_host) or connection.proven_host == connection.local_host
        if not (here or self._judged):
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                "the log's level is changed on the server's own machine only, where nobody has to show who he is",
            )
        if wanted not in LEVELS:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, f"level={wanted!r} is refused, allowed is {', '.join(LEVELS)}"
            )
        # Told at the more talkative of the two, or nobody would read that the log became silent.
        set_level(max(before, wanted, key=LEVELS.index))
        emit(self._log, LogLevelChanged(before, wanted, connection.peer))
        set_level(wanted)
        return Answer(fields={"level": wanted})
