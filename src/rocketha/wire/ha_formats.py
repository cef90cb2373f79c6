"""The frames of HA links as values of their own, each read whole: for the fuzzer, the documentation and tools.

Pure.  Production reads streams, by the splitters of :mod:`rocketha.wire.ha_frames`; so do these, of the one frame they
are given.  Java: see there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rocketha.errors import RemoteProtocolError
from rocketha.wire import ha_frames
from rocketha.wire.ha_frames import (
    BODY_BYTES_MAX,
    EPOCHS_MAX,
    ClassicPieces,
    ClassicReports,
    Dialect,
    LogPiece,
    MasterFrames,
    MasterHello,
    Report,
    SlaveFrames,
    SlaveHello,
)
from rocketha.wire.spec import ha_autoswitch, ha_classic
from rocketha.wire.spec.format import Format


class ClassicFrame(NamedTuple):
    """A classic master's frame."""

    offset: int
    body: bytes


class LogFrame(NamedTuple):
    """An autoswitch master's log frame."""

    offset: int
    epoch: int
    epoch_start: int
    confirm_offset: int
    body: bytes


def read_classic_report(data: bytes) -> int:
    """A classic slave's report."""
    return int(_only(ClassicReports(), data))


def read_classic_frame(data: bytes) -> ClassicFrame:
    """A classic master's frame with its body."""
    splitter = ClassicPieces()
    piece = _only(splitter, data)
    if splitter.left:
        raise RemoteProtocolError(f"{splitter.left} bytes of a log frame are missing")
    return ClassicFrame(piece.offset, bytes(piece.data))


def write_classic_frame(frame: ClassicFrame) -> bytes:
    """A classic master's frame with its body."""
    return ha_frames.encode_classic_head(frame.offset, len(frame.body)) + frame.body


def read_slave_frame(data: bytes, kind: type[SlaveHello] | type[Report]) -> Any:
    """A slave's greeting in any dialect, or its report."""
    frame = _only(SlaveFrames(), data)
    if not isinstance(frame, kind):
        raise RemoteProtocolError(f"not a {kind.__name__}")
    return frame


def read_master_hello(data: bytes, dialect: Dialect = Dialect.V5_1_1) -> MasterHello:
    """A master's answer to a greeting."""
    frame = _only(MasterFrames(dialect), data)
    if not isinstance(frame, MasterHello):
        raise RemoteProtocolError("a log frame where the answer to a greeting is due")
    return frame


def read_log_frame(data: bytes) -> LogFrame:
    """A log frame with its body."""
    splitter = MasterFrames()
    piece = _only(splitter, data)
    if not isinstance(piece, LogPiece) or splitter.left:
        raise RemoteProtocolError("not a whole log frame")
    return LogFrame(piece.offset, piece.epoch, piece.epoch_start, piece.confirm_offset, bytes(piece.data))


def write_log_frame(frame: LogFrame) -> bytes:
    """A log frame with its body."""
    head = (frame.offset, len(frame.body), frame.epoch, frame.epoch_start, frame.confirm_offset)
    return ha_frames.encode_log_head(*head) + frame.body


def _only(splitter: Any, data: bytes) -> Any:
    found = splitter.feed(data)
    if len(found) != 1 or splitter.held:
        raise RemoteProtocolError(f"{len(found)} frames and {splitter.held} bytes where one frame is due")
    return found[0]


def _read_hello(data: bytes) -> SlaveHello:
    hello: SlaveHello = read_slave_frame(data, SlaveHello)
    return hello


def _read_report(data: bytes) -> Report:
    report: Report = read_slave_frame(data, Report)
    return report


FORMATS = (
    Format(
        name="ha-classic-report",
        spec=ha_classic.REPORT,
        parse=read_classic_report,
        build=ha_frames.encode_classic_report,
        bound=8,
        doc="How far a classic slave's log reaches (DefaultHAClient).",
    ),
    Format(
        name="ha-classic-data",
        spec=ha_classic.DATA,
        parse=read_classic_frame,
        build=write_classic_frame,
        bound=12 + BODY_BYTES_MAX,
        doc="A piece of the log, or a heartbeat, of a classic master (DefaultHAConnection).",
    ),
    Format(
        name="ha-slave-hello",
        spec=ha_autoswitch.SLAVE_HELLO,
        parse=_read_hello,
        build=ha_frames.encode_slave_hello,
        bound=16,
        doc="How a slave begins in controller mode, since RocketMQ 5.1.1 (AutoSwitchHAClient).",
    ),
    Format(
        name="ha-slave-hello-address",
        spec=ha_autoswitch.SLAVE_HELLO_ADDRESS,
        parse=_read_hello,
        build=ha_frames.encode_slave_hello,
        bound=12 + ha_autoswitch.ADDRESS_BYTES,
        doc="How a slave begins in controller mode, RocketMQ 5.0.0 to 5.1.0 (AutoSwitchHAClient).",
    ),
    Format(
        name="ha-slave-hello-seed",
        spec=ha_autoswitch.SLAVE_HELLO_SEED,
        parse=_read_hello,
        build=ha_frames.encode_slave_hello,
        bound=12 + ha_autoswitch.ADDRESS_BYTES,
        doc="How a slave begins in controller mode by the design document, which no release followed.",
    ),
    Format(
        name="ha-report",
        spec=ha_autoswitch.REPORT,
        parse=_read_report,
        build=lambda report: ha_frames.encode_report(report.offset),
        bound=12,
        doc="How far a slave's log reaches, in controller mode (AutoSwitchHAClient).",
    ),
    Format(
        name="ha-master-hello",
        spec=ha_autoswitch.MASTER_HELLO,
        parse=read_master_hello,
        build=ha_frames.encode_master_hello,
        bound=20 + ha_autoswitch.ENTRY_BYTES * EPOCHS_MAX,
        doc="A master's epochs, in answer to a slave's greeting, since RocketMQ 5.1.0 (AutoSwitchHAConnection).",
    ),
    Format(
        name="ha-master-hello-5.0.0",
        spec=ha_autoswitch.MASTER_HELLO_5_0_0,
        parse=lambda data: read_master_hello(data, Dialect.V5_0_0),
        build=lambda hello: ha_frames.encode_master_hello(hello, Dialect.V5_0_0),
        bound=36 + ha_autoswitch.ENTRY_BYTES * EPOCHS_MAX,
        doc="A master's epochs, in answer to a slave's greeting, in RocketMQ 5.0.0 (AutoSwitchHAConnection).",
    ),
    Format(
        name="ha-data",
        spec=ha_autoswitch.DATA,
        parse=read_log_frame,
        build=write_log_frame,
        bound=36 + BODY_BYTES_MAX,
        doc="A piece of the log, a heartbeat or the news of an epoch in controller mode (AutoSwitchHAConnection).",
    ),
)
