"""One process of a group: started, started again when it ends or could not be started, stopped in the end.

What it must not know: what the process does, and who the master is.  What the process writes goes to a file, not
through this process, so that it never waits for us; the process itself rotates it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from twisted.internet import defer, error, protocol
from twisted.python.failure import Failure

from rocketha.services.cluster.layout import Plan
from rocketha.store.posix_disk import private_dirs, private_file

RESTART_S, RESTART_MAX_S = 1.0, 30.0
"""How long a process that ended soon stays away: the first time, and at most when it ends again and again.  The same
where the machine had no process, file descriptor or disk space left for it."""

STEADY_S = 10.0
"""One that ran for so long is started again at once: a killed master's clients do not look for another one for up to
30 s, and the new process passes on what they send."""

HURRY_S = 5.0
"""After so long a process that was told to stop is told again: a broker does not stay for its clients then."""

LOG_END_BYTES = 64 << 10


class _Life(protocol.ProcessProtocol):
    """From one start to its end."""

    def __init__(self, ended: Callable[[Failure], None]) -> None:
        self._ended = ended

    def processExited(self, reason: Failure) -> None:
        """Twisted: it is gone, and was waited for."""
        self._ended(reason)


class Member:
    """A process that is to run.

    :param ended: called with this and what happened, each time it ended unless it was told to, each time it could
        not be started, and when it did not stop: ``ended: exit code 1``.
    :param started: called with this each time it was started.
    :ivar pid: None while there is no process.
    :ivar starts: how often it was started.
    :ivar tries: how often that was tried.
    :ivar exit_code: of the last end; None if there was none, or a signal ended it, or it could not be started.
    """

    def __init__(
        self,
        plan: Plan,
        log_path: str,
        reactor: Any,
        ended: Callable[[Member, str], None],
        started: Callable[[Member], None],
    ) -> None:
        self.plan = plan
        self.name = plan.name
        self.pid: int | None = None
        self.starts = self.tries = 0
        self.exit_code: int | None = None
        self.log_path = log_path
        self._reactor = reactor
        self._told_ended = ended
        self._told_started = started
        self._process: Any = None
        self._began_s = 0.0
        self._delay_s = RESTART_S
        self._again: Any = None
        self._log_begin = 0
        self._stopping: defer.Deferred[None] | None = None

    def start(self) -> None:
        """Start it now, or later if that fails."""
        self._again = None
        self.tries += 1
        try:
            self._spawn()
        except OSError as problem:
            self.exit_code = None
            self._start_later(f"can not be started: {problem}")
            return
        self.pid = self._process.pid
        self._began_s = self._reactor.seconds()
        self.starts += 1
        self._told_started(self)

    def _spawn(self) -> None:
        private_dirs(self.plan.directory)
        arguments = [sys.executable, "-m", "rocketha.services.cluster.child", "--nodaemon", "--pidfile="]
        arguments += ["--logger", "rocketha.observe.logging.no_observer", *self.plan.arguments]
        arguments += ["--log-file", self.log_path]
        with self._open_log() as log:
            self._log_begin = log.tell()
            self._process = self._reactor.spawnProcess(
                _Life(self._ended),
                sys.executable,
                arguments,
                env=dict(os.environ),
                childFDs={0: "w", 1: log.fileno(), 2: log.fileno()},
            )

    def _open_log(self) -> BinaryIO:
        private_dirs(os.path.dirname(self.log_path))
        return open(self.log_path, "ab", opener=private_file)

    def stop(self, kill_after_s: float) -> defer.Deferred[None]:
        """SIGTERM, once more, and SIGKILL; fires when it is gone.  It is not started again."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        gone = self._stopping = defer.Deferred()
        if self.pid is None:
            gone.callback(None)
            return gone
        self._signal(signal.SIGTERM)
        calls = [self._reactor.callLater(kill_after_s, self._kill, kill_after_s)]
        if kill_after_s > HURRY_S:
            calls.append(self._reactor.callLater(HURRY_S, self._signal, signal.SIGTERM))

        def done(result: Any) -> Any:
            for call in calls:
                if call.active():
                    call.cancel()
            return result

        return gone.addBoth(done)

    def _kill(self, after_s: float) -> None:
        self._told_ended(self, f"has not stopped after {after_s:g} s and is killed: its next start recovers")
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(error.ProcessExitedAlready):
            self._process.signalProcess(int(number))
            if number is signal.SIGTERM:
                self._process.signalProcess(int(signal.SIGCONT))  # one that was frozen would not hear it

    def _ended(self, reason: Failure) -> None:
        value: Any = reason.value
        self.pid, self.exit_code = None, value.exitCode
        if self._stopping is not None:
            self._stopping.callback(None)
            return
        if self._reactor.seconds() - self._began_s >= STEADY_S:
            self._delay_s = 0.0
        self._start_later(f"ended: {_how(value)}")

    def _start_later(self, why: str) -> None:
        self._again = self._reactor.callLater(self._delay_s, self.start)
        self._delay_s = min(RESTART_MAX_S, max(RESTART_S, self._delay_s * 2))
        self._told_ended(self, why)

    def last_word(self) -> str:
        """What it logged last before it ended: its reason, where it gave one."""
        try:
            with open(self.log_path, "rb") as log:
                size = os.path.getsize(self.log_path)
                log.seek(max(0 if size < self._log_begin else self._log_begin, size - LOG_END_BYTES))
                lines = log.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        found = next((line for line in reversed(lines) if line.strip()), "")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                record = json.loads(line)
                found = str(record["message"])
                if record["level"] == "critical":
                    break
        return found


def _how(value: Any) -> str:
    """``killed by SIGKILL``, ``exit code 1``."""
    if value.signal is None:
        return f"exit code {value.exitCode}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(value.signal).name}"
    return f"killed by signal {value.signal}"
