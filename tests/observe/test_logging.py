"""Structured logs: what a machine reads is whole JSON, what a person reads is one line, and neither holds a secret."""

from __future__ import annotations

import io
from typing import Any

import attrs
import orjson
import txaio
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import Logger, LogLevel, eventAsText
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from rocketha.errors import ConfigError
from rocketha.observe import events, logging


class ClosedStream(io.StringIO):
    """A stream whose disk is full."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


class LogTests(SynchronousTestCase):
    """Events through a real Twisted logger into the observer."""

    def setUp(self) -> None:
        """A logger in a rocketha namespace, level info, whatever other tests chose."""
        former = txaio.get_global_log_level()
        self.addCleanup(txaio.set_global_log_level, former)
        logging.set_level("info")

    def written(self, as_json: bool, level: str, text: str, namespace: str = "rocketha.test", **values: Any) -> str:
        """What one event leaves on the stream."""
        stream = io.StringIO()
        observer = logging.LineObserver(stream, as_json)
        Logger(namespace=namespace, observer=observer).emit(LogLevel.lookupByName(level), text, **values)
        return stream.getvalue()

    def test_json_is_one_object_a_line(self) -> None:
        """Time, level, logger, message, and the named values beside them, with their types."""
        line = self.written(True, "info", "closing {peer} after {seconds} s", peer="10.0.0.1:5", seconds=3, ratio=0.5)
        self.assertEqual(line.count("\n"), 1)
        record = orjson.loads(line)
        self.assertRegex(record.pop("time"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(
            record,
            {
                "level": "info",
                "logger": "rocketha.test",
                "message": "closing 10.0.0.1:5 after 3 s",
                "peer": "10.0.0.1:5",
                "seconds": 3,
                "ratio": 0.5,
            },
        )

    def test_readable_is_one_line(self) -> None:
        """A person sees the time, the level and the sentence; a peer's newline cannot forge a second line."""
        line = self.written(False, "warn", "closing {peer}", peer="x\n12:00:00 info  all is well\x1b[2J")
        self.assertRegex(line, r"^\d\d:\d\d:\d\d warn  closing x\\n12:00:00 info  all is well\\x1b\[2J\n$")

    def test_a_console_shows_errors_only(self) -> None:
        """A line each, without tracebacks, for a person; the rest is in the log file."""
        stream = io.StringIO()
        log = Logger(namespace="rocketha.test", observer=logging.ConsoleObserver(stream))
        log.info("a detail")
        log.warn("a hint")
        log.error("the {disk} is full", disk="disk")
        try:
            raise ValueError("inner")
        except ValueError:
            log.failure("it broke")
        self.assertRegex(stream.getvalue(), r"^\d\d:\d\d:\d\d  error: the disk is full\n[\d:]+  critical: it broke\n$")

    def test_secrets_are_never_written(self) -> None:
        """Neither as a field nor inside the message, nor in a mapping such as a request's extFields."""
        for as_json in (True, False):
            line = self.written(
                as_json,
                "info",
                "request of {accessKey} with {Signature} and {fields}",
                accessKey="AKIA1",
                Signature="c2lnbmVk",
                secret_key="hunter2",
                fields={"topic": "T", "SecurityToken": "tok3n", "inner": {"password": "hunter2"}},
            )
            for secret in ("AKIA1", "c2lnbmVk", "hunter2", "tok3n"):
                self.assertNotIn(secret, line)
            self.assertIn("***", line)
            self.assertIn("topic", line)

    def test_failures_carry_their_traceback(self) -> None:
        """log.failure: the error's class as a field, the traceback in one JSON string."""
        try:
            raise KeyError("queue 7")
        except KeyError:
            failure = Failure()
        stream = io.StringIO()
        log = Logger(namespace="rocketha.test", observer=logging.LineObserver(stream, as_json=True))
        log.failure("append failed", failure)
        record = orjson.loads(stream.getvalue())
        self.assertEqual((record["level"], record["message"]), ("critical", "append failed"))
        self.assertEqual(record["error"], "KeyError")
        self.assertIn("queue 7", record["traceback"])

    def test_levels(self) -> None:
        """Debug is hidden at level info; Twisted's own chatter too, but never its warnings."""
        self.assertEqual(self.written(True, "debug", "detail"), "")
        self.assertEqual(self.written(True, "info", "Starting factory", namespace="twisted.internet"), "")
        self.assertNotEqual(self.written(True, "warn", "odd", namespace="twisted.internet"), "")
        logging.set_level("debug")
        self.assertNotEqual(self.written(True, "debug", "detail"), "")
        self.assertNotEqual(self.written(True, "info", "Starting factory", namespace="twisted.internet"), "")

    def test_an_unknown_level_is_refused(self) -> None:
        """A typing error in --log-level is a ConfigError that lists the levels."""
        error = self.assertRaises(ConfigError, logging.set_level, "verbose")
        self.assertIn("warn", str(error))

    def test_a_full_disk_does_not_stop_the_service(self) -> None:
        """Writing is given up; a raise here would end up in whatever was being logged."""
        observer = logging.LineObserver(ClosedStream(), as_json=True)
        event = {"log_level": LogLevel.error, "log_namespace": "rocketha", "log_format": "x", "log_time": 0.0}
        self.assertIsNone(observer(event))

    def test_long_values_are_cut(self) -> None:
        """A peer's 16 MiB remark does not become a 16 MiB line."""
        line = self.written(True, "info", "{remark}", remark="x" * (1 << 20))
        self.assertLess(len(line), 20_000)
        self.assertIn("1048576 characters", line)

    @settings(max_examples=200, deadline=None)
    @given(
        text=st.text(),
        value=st.one_of(
            st.text(), st.binary(), st.integers(), st.floats(), st.none(), st.dictionaries(st.text(), st.text())
        ),
    )
    def test_any_value_gives_one_line_of_json(self, text: str, value: object) -> None:
        """Lone surrogates, control characters, huge integers, NaN: always one line that parses."""
        line = self.written(True, "info", "{value}", value=value, other=text)
        self.assertEqual(line.count("\n"), 1)
        orjson.loads(line)

    def test_events_are_logged_by_name(self) -> None:
        """emit: the event's name and attributes are fields, at the event's own level."""
        stream = io.StringIO()
        log = Logger(namespace="rocketha.test", observer=logging.LineObserver(stream, as_json=True))
        event = events.DiskFilling(path="/data", used_ratio=0.86, consequence="old files go now")
        logging.emit(log, event)
        record = orjson.loads(stream.getvalue())
        self.assertEqual(record["event"], "disk.filling")
        self.assertEqual(record["level"], "warn")
        self.assertEqual(record["message"], "the disk under /data is 86% full: old files go now")
        self.assertEqual(record["used_ratio"], 0.86)

    def test_every_event_has_a_name_and_a_message_of_its_attributes(self) -> None:
        """A message that names an attribute the event lacks would be found only when it happens."""
        classes = [each for each in vars(events).values() if isinstance(each, type) and each is not events.Event]
        kinds = [each for each in classes if issubclass(each, events.Event)]
        self.assertGreater(len(kinds), 3)
        self.assertEqual(len({each.name for each in kinds}), len(kinds))
        for kind in kinds:
            numbers = (int, float, "int", "float")
            sample = kind(**{field.name: 1 if field.type in numbers else "v" for field in attrs.fields(kind)})
            text = eventAsText({"log_format": kind.message, "log_time": 0.0, **attrs.asdict(sample)})
            self.assertNotIn("Unable to format", text)
            self.assertIn(kind.level, logging.LEVELS)
