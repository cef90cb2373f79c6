"""What the ends of an HA link say, as values, and which numbers in them can be at all.

Pure.  Every number is a signed one of Java's: what is negative, overflows or goes backwards is a
:class:`RemoteProtocolError` with its text, on the way in and on the way out.  What it must not know: bytes.
:mod:`rocketha.wire.ha_frames` is where everybody else gets these from.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from rocketha.errors import RemoteProtocolError

BODY_BYTES_MAX = 4 * 1024 * 1024
"""Largest body that is accepted unless a splitter is told otherwise."""

JAVA_BODY_BYTES_MAX = 4 * 1024 * 1024 - 36
"""Largest body that a Java slave can take: head and body must fit its buffer."""

EPOCHS_MAX = 65_536
"""Most epochs in a greeting or a file; a Java master fails beyond 1,000."""

OFFSET_MAX = (1 << 63) - 1
EPOCH_MAX = (1 << 31) - 1


class Dialect(Enum):
    """How the ends of an autoswitch link greet each other; named by the first release that speaks so."""

    V5_0_0 = "5.0.0"  # the slave names its address; the master answers with 36 bytes and the epochs
    V5_1_0 = "5.1.0"  # the slave names its address; the master answers with 20 bytes and the epochs
    V5_1_1 = "5.1.1"  # the slave names its broker id; the answer is that of 5.1.0
    SEED = "seed"  # of the design document: as 5.1.0, the address padded to 50 bytes


class EpochEntry(NamedTuple):
    """Where in the log a master's epoch begins."""

    epoch: int
    start_offset: int


class ClassicPiece(NamedTuple):
    """Bytes of the log, or a heartbeat when ``data`` is empty.

    ``offset`` is that of the first byte; of a heartbeat the master's next transfer position.
    """

    offset: int
    data: memoryview


class LogPiece(NamedTuple):
    """Bytes of the log, or a heartbeat when ``data`` is empty, with what the head of their frame says.

    ``offset`` is that of the first byte; of a heartbeat the master's next transfer position, -1 where the master has no
    file.  Beware: Java stamps a body that ends where an epoch ends with the *next* epoch.
    """

    offset: int
    data: memoryview
    epoch: int
    epoch_start: int
    confirm_offset: int  # -1: the master does not know it yet


class SlaveHello(NamedTuple):
    """A slave's greeting.  ``broker_id`` is -1 in the dialects that name an address instead."""

    broker_id: int
    sync_from_last_file: bool = False
    async_learner: bool = False
    dialect: Dialect = Dialect.V5_1_1
    address: str = ""


class Report(NamedTuple):
    """The end of a slave's log, in TRANSFER."""

    offset: int


class MasterHello(NamedTuple):
    """A master's answer to the greeting: the end of its log, its newest epoch (-1: none) and all its epochs."""

    max_offset: int
    epoch: int
    entries: tuple[EpochEntry, ...]


def log_offset(offset: int, what: str) -> int:
    """An offset as it is, refused where it can not be one."""
    if not 0 <= offset <= OFFSET_MAX:
        raise RemoteProtocolError(f"a {what} of log offset {offset}")
    return offset


def check_range(offset: int, size: int) -> None:
    """Bytes of the log lie within what can be one."""
    if size < 0 or not 0 <= offset <= OFFSET_MAX - size:
        raise RemoteProtocolError(f"{size} bytes at log offset {offset}")


def check_log_head(size: int, offset: int, epoch: int, epoch_start: int, confirm_offset: int) -> None:
    """The head of a log frame says what can be."""
    lowest = -1 if size == 0 else 0  # a master without a file or an epoch still sends heartbeats
    if size < 0 or not lowest <= offset <= OFFSET_MAX - size:
        raise RemoteProtocolError(f"{size} bytes at log offset {offset}")
    if epoch < lowest or epoch_start < lowest or confirm_offset < -1:
        raise RemoteProtocolError(
            f"a log frame of epoch {epoch}, which starts at {epoch_start}, confirmed up to {confirm_offset}"
        )


def check_entries(entries: Sequence[EpochEntry]) -> None:
    """Epochs ascend, and no start comes before the one of the epoch before it.

    :raises RemoteProtocolError: if not, if one is no number of Java's, or if there are more than :data:`EPOCHS_MAX`.
    """
    if len(entries) > EPOCHS_MAX:
        raise RemoteProtocolError(f"{len(entries)} epochs, {EPOCHS_MAX} are allowed")
    before, start = -1, 0
    for entry in entries:
        if not before < entry.epoch <= EPOCH_MAX or not start <= entry.start_offset <= OFFSET_MAX:
            raise RemoteProtocolError(
                f"epoch {entry.epoch} from {entry.start_offset} after epoch {before} from {start}"
            )
        before, start = entry


def check_answer(hello: MasterHello) -> None:
    """A master's answer says what can be."""
    check_entries(hello.entries)
    log_offset(hello.max_offset, "greeting")
    if hello.epoch < -1:
        raise RemoteProtocolError(f"a master of epoch {hello.epoch}")


def slave_address(data: bytes) -> str:
    """The address in a greeting, which goes into logs."""
    try:
        address = data.decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("the address in an HA greeting is not UTF-8") from None
    if not address.isprintable():
        raise RemoteProtocolError(f"the address in an HA greeting is {address!r}")
    return address
