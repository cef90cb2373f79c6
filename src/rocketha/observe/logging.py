"""Structured logs: one JSON object a line for machines, one readable line for a person at a terminal.

What it must not know: what is logged. Modules make a logger with :func:`make_logger` (txaio's, so that code which may
also live on asyncio logs the same way) and log a text with named values::

    log = make_logger()
    log.info("closing {peer}: {reason}", peer=connection.peer, reason=reason)

Theory of operation.  ``twistd --logger rocketha.observe.logging.observer`` gives Twisted our observer. An event's
named values become fields beside the message. Values named like a secret are never written, neither as a field nor
inside the message. What a peer sent may be in a value: control characters are escaped and lengths are bounded, so that
one event stays one line. Twisted's own chatter ("Starting factory ...") is shown from level debug on; its warnings
always.

Java: the logback files of a RocketMQ distribution, whose place this takes.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import attrs
import orjson
import txaio
from twisted.logger import ILogObserver, LogLevel, LogPublisher, formatEvent
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha.errors import ConfigError, DiskFailure
from rocketha.observe.events import DiskFailed, Event

txaio.use_twisted()

make_logger = txaio.make_logger

LEVELS = ("critical", "error", "warn", "info", "debug", "trace")

VALUE_CHARACTERS_MAX = 2000
"""Of one field; what is longer is cut and says so."""

MESSAGE_CHARACTERS_MAX = 8000
FIELDS_MAX = 64

_SECRET = re.compile(r"secret|passw|signature|credential|private|security.?token|access.?key", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# What Twisted itself puts into an event; the rest are the caller's named values.
_PLUMBING = frozenset({"message", "time", "isError", "system", "format", "txaio_trace", "why", "failure", "logLevel"})


def set_level(level: str) -> None:
    """Log this level and what is worse.

    :raises ConfigError: when there is no such level.
    """
    if level not in LEVELS:
        raise ConfigError(f"log level {level!r}: one of {', '.join(LEVELS)} is wanted")
    txaio.set_global_log_level(level)


def current_level() -> str:
    """The level that is logged now, one of :data:`LEVELS`."""
    return str(txaio.get_global_log_level())


_watchers: list[Callable[[Event], None]] = []


def watch(happened: Callable[[Event], None]) -> None:
    """Tell somebody of each event of this process from now on, whatever the log's level."""
    _watchers.append(happened)


def unwatch(happened: Callable[[Event], None]) -> None:
    """No more."""
    _watchers.remove(happened)


def emit(log: Any, event: Event) -> None:
    """Say a structured event: in the log, its name as the field ``event``, its attributes as fields; to who watches."""
    getattr(log, event.level)(event.message, event=event.name, **attrs.asdict(event))
    for happened in tuple(_watchers):
        happened(event)


def emit_disk_failure(log: Any, error: BaseException | None) -> bool:
    """``disk.failed``, if that is what the error says; whether it is."""
    if not isinstance(error, DiskFailure):
        return False
    emit(log, DiskFailed.of(error))
    return True


def hide(name: str, value: object) -> object:
    """A value, or ``***`` where its name says that it is a secret. Mappings are looked into."""
    if _SECRET.search(name):
        return "***"
    if isinstance(value, Mapping):
        return {str(key): hide(str(key), item) for key, item in list(value.items())[:FIELDS_MAX]}
    return value


def one_line(text: str, characters_max: int) -> str:
    """Text without control characters (they are escaped) and of bounded length."""
    if len(text) > characters_max:
        text = f"{text[:characters_max]}... ({len(text)} characters)"
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


def fields_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's named values of a Twisted log event, without secrets."""
    names = [name for name in event if not name.startswith("log_") and name not in _PLUMBING]
    return {name: hide(name, event[name]) for name in names[:FIELDS_MAX]}


def level_of(event: Mapping[str, Any]) -> str:
    """The level, one of :data:`LEVELS`. Old-style Twisted events carry none."""
    if event.get("txaio_trace"):
        return "trace"
    level = event.get("log_level")
    if isinstance(level, type(LogLevel.info)):
        return str(level.name)
    return "error" if event.get("isError") else "info"


def _plain(value: object) -> object:
    """What orjson can write without surprises: numbers out of its range and foreign types become text."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < (1 << 63) else str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    # A lone surrogate cannot be written as UTF-8.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= VALUE_CHARACTERS_MAX else f"{text[:VALUE_CHARACTERS_MAX]}... ({len(text)} characters)"


@implementer(ILogObserver)
class LineObserver:
    """Writes events to a stream, one line each (a traceback follows its line in the readable form).

    :param stream: flushed after each line, so that nothing is lost with the process.
    :param as_json: one JSON object a line; else readable.
    """

    def __init__(self, stream: TextIO, as_json: bool) -> None:
        self._stream = stream
        self._as_json = as_json

    def __call__(self, event: dict[str, Any]) -> None:
        """Twisted: an event."""
        level = level_of(event)
        if not self._wanted(event, level):
            return
        try:
            line = self._json(event, level) if self._as_json else self._readable(event, level)
            self._stream.write(line)
            self._stream.flush()
        except (OSError, ValueError):
            # A closed or full log must not stop the service, and there is nowhere left to say so.
            return

    @staticmethod
    def _wanted(event: Mapping[str, Any], level: str) -> bool:
        chosen = LEVELS.index(current_level())
        if LEVELS.index(level) > chosen:
            return False
        namespace = str(event.get("log_namespace", ""))
        ours = namespace.startswith(("rocketha", "stdout", "stderr"))
        return ours or LEVELS.index(level) < LEVELS.index("info") or chosen >= LEVELS.index("debug")

    @staticmethod
    def _message(event: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
        text = formatEvent({**event, **fields})
        if not text and "log_failure" in event:
            text = str(event.get("why") or "unhandled error")
        return one_line(text, MESSAGE_CHARACTERS_MAX)

    def _json(self, event: Mapping[str, Any], level: str) -> str:
        fields = fields_of(event)
        record: dict[str, Any] = {
            "time": _moment(event).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": level,
            "logger": str(event.get("log_namespace", "twisted")),
            "message": _plain(self._message(event, fields)),
        }
        for name, value in fields.items():
            record[name if name not in record else f"field_{name}"] = _plain(value)
        failure = event.get("log_failure")
        if failure is not None:
            record["error"] = getattr(failure.type, "__name__", str(failure.type))
            record["traceback"] = failure.getTraceback()[-MESSAGE_CHARACTERS_MAX:]
        return orjson.dumps(record).decode("utf-8") + "\n"

    def _readable(self, event: Mapping[str, Any], level: str) -> str:
        text = f"{_time_of_day(event)} {level:5} {self._message(event, fields_of(event))}\n"
        failure = event.get("log_failure")
        return text if failure is None else text + str(failure.getTraceback())


class ConsoleObserver(LineObserver):
    """Tells a person only what went wrong, without tracebacks: the whole log is in a file.

    :param stream: the terminal, or a file that a person reads.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream, as_json=False)

    @staticmethod
    def _wanted(event: Mapping[str, Any], level: str) -> bool:
        return LEVELS.index(level) <= LEVELS.index("error") and LineObserver._wanted(event, level)

    def _readable(self, event: Mapping[str, Any], level: str) -> str:
        return f"{_time_of_day(event)}  {level}: {self._message(event, fields_of(event))}\n"


def lasting(call: Callable[[], object], what: str) -> Callable[[], bool]:
    """``call`` for a timer that has to go on: what it raises is logged, with its name, and goes no further.

    Twisted ends a ``LoopingCall`` at the first exception, and a timer that sets itself anew at the end of its turn is
    gone likewise: then a broker sends no more heartbeats, or flushes no more.

    :returns: calls it, and returns whether it came through.
    """
    log = make_logger()

    def turn() -> bool:
        try:
            call()
        except Exception:
            log.error("{what} failed, it goes on: {trace}", what=what, trace=Failure().getTraceback())
            return False
        return True

    return turn


def _moment(event: Mapping[str, Any]) -> datetime.datetime:
    seconds = event.get("log_time", event.get("time", 0.0))
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _time_of_day(event: Mapping[str, Any]) -> str:
    return _moment(event).astimezone().strftime("%H:%M:%S")


def json_observer() -> LineObserver:
    """For ``twistd --logger``: JSON lines on standard error."""
    return LineObserver(sys.stderr, as_json=True)


def text_observer() -> LineObserver:
    """For ``twistd --logger``: readable lines on standard error."""
    return LineObserver(sys.stderr, as_json=False)


def console_observer() -> LineObserver:
    """For ``twistd --logger`` beside ``--log-file``: errors as readable lines on standard error."""
    return ConsoleObserver(sys.stderr)


def no_observer() -> ILogObserver:
    """For ``twistd --logger`` beside ``--log-file``, where standard error is that file."""
    return LogPublisher()


def observer() -> LineObserver:
    """For ``twistd --logger``: readable when standard error is a terminal, else JSON."""
    return text_observer() if sys.stderr.isatty() else json_observer()
