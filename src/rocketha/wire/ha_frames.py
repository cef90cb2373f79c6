"""What master and slave say on an HA link, both protocols and every dialect: writers, and splitters of streams.

Pure.  Knows layouts and what a number may be at all; not which frame is due, whether an offset is the end of the log,
or what an acknowledgement counts for: that is ``replication/``.

Theory of operation.  A splitter takes the bytes of one direction as they come and returns the frames they complete.  A
log frame is not collected: each read yields its part as a *piece*, a ``memoryview`` into the bytes given to ``feed``,
with the log offset of its first byte.  The receiver appends raw bytes anyway, so nothing is gained by waiting and a
body of any size is held nowhere.  What is held is one head, or the epochs of one greeting; all sizes are judged before
a byte of what they announce is waited for.  A breach is a :class:`RemoteProtocolError`; then nothing of that ``feed``
counts and the connection has to be closed.

Java: ``DefaultHAClient``, ``DefaultHAConnection``, ``AutoSwitchHAClient``, ``AutoSwitchHAConnection``.
"""

from __future__ import annotations

import struct
from typing import Any

from rocketha.errors import RemoteProtocolError
from rocketha.wire import codec
from rocketha.wire.ha_values import (
    BODY_BYTES_MAX,
    EPOCH_MAX,
    EPOCHS_MAX,
    JAVA_BODY_BYTES_MAX,
    OFFSET_MAX,
    ClassicPiece,
    Dialect,
    EpochEntry,
    LogPiece,
    MasterHello,
    Report,
    SlaveHello,
    check_answer,
    check_entries,
    check_log_head,
    check_range,
    log_offset,
    slave_address,
)
from rocketha.wire.spec import ha_autoswitch as spec
from rocketha.wire.spec import ha_classic
from rocketha.wire.spec.ha_autoswitch import ADDRESS_BYTES, ENTRY_BYTES, HANDSHAKE, TRANSFER

__all__ = [
    "BODY_BYTES_MAX",
    "EPOCHS_MAX",
    "EPOCH_MAX",
    "JAVA_BODY_BYTES_MAX",
    "OFFSET_MAX",
    "ClassicPiece",
    "ClassicPieces",
    "ClassicReports",
    "Dialect",
    "EpochEntry",
    "LogPiece",
    "MasterFrames",
    "MasterHello",
    "Report",
    "SlaveFrames",
    "SlaveHello",
    "check_entries",
    "encode_classic_head",
    "encode_classic_report",
    "encode_log_head",
    "encode_master_hello",
    "encode_report",
    "encode_slave_hello",
]

_REPORT = codec.flat(ha_classic.REPORT)
_CLASSIC_HEAD = codec.flat(ha_classic.HEAD)
_HELLO = codec.flat(spec.SLAVE_HELLO_HEAD)
_TRANSFER_REPORT = codec.flat(spec.REPORT_HEAD)
_ANSWER = codec.flat(spec.MASTER_HELLO_HEAD)
_ENTRY = codec.flat(spec.ENTRY)
_HEAD = codec.flat(spec.DATA_HEAD)
_WORD = struct.Struct(">i")
_TWO_WORDS = struct.Struct(">ii")
_LONG_HEAD_BYTES = 36
"""Of the answer of 5.0.0: its writer sent the whole buffer that log frames need."""


# --- writers


def encode_classic_report(offset: int) -> bytes:
    """What a classic slave sends: the end of its log."""
    return _REPORT.pack(log_offset(offset, "report"))


def encode_classic_head(offset: int, size: int) -> bytes:
    """What stands before ``size`` bytes of a classic master's log; size 0 is a heartbeat."""
    check_range(offset, size)
    return _CLASSIC_HEAD.pack(offset, size)


def encode_slave_hello(hello: SlaveHello) -> bytes:
    """A greeting in its dialect.

    :raises RemoteProtocolError: for an id below 1 or an address that is empty or over 50 bytes.
    """
    flags = (int(hello.sync_from_last_file), int(hello.async_learner))
    if hello.dialect is Dialect.V5_1_1:
        if not 0 < hello.broker_id < 1 << 32:
            raise RemoteProtocolError(f"broker id {hello.broker_id} can not be told to a master")
        return _HELLO.pack(HANDSHAKE, *flags, 0) + hello.broker_id.to_bytes(4, "big")
    address = hello.address.encode()
    if not 0 < len(address) <= ADDRESS_BYTES:
        raise RemoteProtocolError(f"an address of {len(address)} bytes: 1 to {ADDRESS_BYTES} are allowed")
    slave_address(address)
    head = _HELLO.pack(HANDSHAKE, *flags, len(address))
    return head + (address.ljust(ADDRESS_BYTES, b"\0") if hello.dialect is Dialect.SEED else address)


def encode_report(offset: int) -> bytes:
    """What a slave sends in TRANSFER: the end of its log."""
    return _TRANSFER_REPORT.pack(TRANSFER, log_offset(offset, "report"))


def encode_master_hello(hello: MasterHello, dialect: Dialect = Dialect.V5_1_1) -> bytes:
    """The answer to a greeting; ``dialect`` is the greeting's."""
    check_answer(hello)
    pack = _ENTRY.layout.pack
    head = _ANSWER.pack(HANDSHAKE, ENTRY_BYTES * len(hello.entries), hello.max_offset, hello.epoch)
    if dialect is Dialect.V5_0_0:
        head = head.ljust(_LONG_HEAD_BYTES, b"\0")
    return head + b"".join([pack(*entry) for entry in hello.entries])


def encode_log_head(offset: int, size: int, epoch: int, epoch_start: int, confirm_offset: int) -> bytes:
    """What stands before ``size`` bytes of the log; size 0 is a heartbeat, or tells of an epoch."""
    check_log_head(size, offset, epoch, epoch_start, confirm_offset)
    return _HEAD.pack(TRANSFER, size, offset, epoch, epoch_start, confirm_offset)


# --- splitters


class ClassicReports:
    """What a classic master hears."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    @property
    def held(self) -> int:
        """Bytes of a report that is not whole yet; at most 7."""
        return len(self._held)

    def feed(self, data: bytes) -> list[int]:
        """Every report that ``data`` completes, in order: ends of the slave's log."""
        if self._held:
            data = self._held + data
        count = len(data) // 8
        reports = list(struct.unpack_from(f">{count}q", data))
        self._held = data[count * 8 :]
        if reports and min(reports) < 0:
            raise RemoteProtocolError(f"a report of log offset {min(reports)}")
        return reports


class _Body:
    """Where a splitter is in the body of the present frame.

    Invariant: ``_left`` of ``_body`` bytes are still to come, the next one belongs at ``_offset``.
    """

    __slots__ = ("_body", "_left", "_offset")

    def __init__(self) -> None:
        self._left = self._body = self._offset = 0

    @property
    def left(self) -> int:
        """Bytes of the present frame's body that are still to come."""
        return self._left

    @property
    def left_of_piece(self) -> int:
        """Bytes still to come of the frame that the last piece is of: not of one that only its head was seen of."""
        return self._left if self._left < self._body else 0


class ClassicPieces(_Body):
    """What a classic slave hears.

    :param body_limit: largest body in bytes.
    """

    __slots__ = ("_held", "_limit")

    def __init__(self, body_limit: int = BODY_BYTES_MAX) -> None:
        super().__init__()
        self._limit = body_limit
        self._held = b""  # the beginning of a head

    @property
    def held(self) -> int:
        """Bytes of a head that is not whole yet; at most 11."""
        return len(self._held)

    def feed(self, data: bytes) -> list[ClassicPiece]:
        """The pieces and heartbeats in ``data``, in order."""
        pieces: list[ClassicPiece] = []
        position, end, left = 0, len(data), self._left
        view = memoryview(data)
        while position < end:
            if left:
                stop = position + left
                if stop > end:
                    stop = end
                pieces.append(ClassicPiece(self._offset, view[position:stop]))
                self._offset += stop - position
                left -= stop - position
                position = stop
                continue
            if self._held or end - position < 12:
                wanted = 12 - len(self._held)
                self._held += data[position : position + wanted]
                position += wanted
                if len(self._held) < 12:
                    break
                offset, size = _CLASSIC_HEAD.layout.unpack(self._held)
                self._held = b""
            else:
                offset, size = _CLASSIC_HEAD.layout.unpack_from(data, position)
                position += 12
            if size > self._limit:
                raise RemoteProtocolError(f"a log frame of {size} bytes, {self._limit} are allowed")
            check_range(offset, size)
            self._offset, left = offset, size
            self._body = size
            if not size:
                pieces.append(ClassicPiece(offset, view[:0]))
        self._left = left
        return pieces


class SlaveFrames:
    """What an autoswitch master hears, in any dialect.

    The word after the flags tells: 0 is the upper half of a broker id, 1 to 50 the length of an address.  Zeros after a
    short address are the padding of the design document: a frame begins with 00 00 00 01 or 02.

    :param address_dialect: what a greeting with an address is taken for, since 5.0.0 and 5.1.0 greet alike and want
        different answers.
    """

    __slots__ = ("_address_dialect", "_held", "_maybe", "_padding")

    def __init__(self, address_dialect: Dialect = Dialect.V5_1_0) -> None:
        self._address_dialect = address_dialect
        self._held = b""
        self._maybe = 0  # bytes of padding there would be, were the next four zero
        self._padding = 0  # bytes of padding there are still to come

    @property
    def held(self) -> int:
        """Bytes of a frame that is not whole yet; at most 61."""
        return len(self._held)

    def feed(self, data: bytes) -> list[SlaveHello | Report]:
        """Every frame that ``data`` completes, in order.

        The greeting of the design document is known as such only where its padding came along; its answer is that of
        5.1.0 anyway.
        """
        if self._held:
            data = self._held + data
        frames: list[SlaveHello | Report] = []
        position, end = 0, len(data)
        while True:
            if self._padding or self._maybe:
                position = self._pad(data, position)
                if self._padding or self._maybe:
                    break
            if end - position < 4:
                break
            state = _WORD.unpack_from(data, position)[0]
            if state not in (HANDSHAKE, TRANSFER):
                raise RemoteProtocolError(f"an HA frame of state {state} from a slave")
            if end - position < 12:
                break
            if state == TRANSFER:
                offset = _TRANSFER_REPORT.layout.unpack_from(data, position)[1]
                if offset < 0:
                    raise RemoteProtocolError(f"a report of log offset {offset}")
                frames.append(Report(offset))
                position += 12
            else:
                size = self._hello(data, position, frames)
                if not size:
                    break
                position += size
        self._held = data[position:]
        return frames

    def _hello(self, data: bytes, position: int, frames: list[SlaveHello | Report]) -> int:
        """Read the greeting at ``position``; its bytes, 0 when it is not whole."""
        _, last_file, learner, word = _HELLO.layout.unpack_from(data, position)
        if last_file not in (0, 1) or learner not in (0, 1):
            raise RemoteProtocolError(f"flags {last_file} and {learner} in an HA greeting")
        if not 0 <= word <= ADDRESS_BYTES:
            raise RemoteProtocolError(f"an HA greeting with neither a broker id nor an address: {word:#x}")
        size = 12 + word if word else 16
        if len(data) - position < size:
            return 0
        flags = bool(last_file), bool(learner)
        if not word:
            broker_id = int.from_bytes(data[position + 12 : position + 16], "big")
            if not broker_id:
                raise RemoteProtocolError("an HA greeting of broker id 0")
            frames.append(SlaveHello(broker_id, *flags))
            return size
        address = slave_address(data[position + 12 : position + size])
        dialect = self._address_dialect
        self._maybe = ADDRESS_BYTES - word
        if self._maybe and data[position + size : position + size + 4] == bytes(4):
            dialect = Dialect.SEED
        frames.append(SlaveHello(-1, *flags, dialect, address))
        return size

    def _pad(self, data: bytes, position: int) -> int:
        """Step over padding; where it ends."""
        if self._maybe:
            if len(data) - position < 4:
                return position
            self._padding = 0 if _WORD.unpack_from(data, position)[0] else self._maybe
            self._maybe = 0
        zeros = data[position : position + self._padding]
        if zeros.count(0) != len(zeros):
            raise RemoteProtocolError("an HA greeting whose padding is not zero")
        self._padding -= len(zeros)
        return position + len(zeros)


class MasterFrames(_Body):
    """What an autoswitch slave hears.

    :param dialect: in which the slave greets: 5.0.0 is answered with a longer head.
    :param body_limit: largest body in bytes.
    """

    __slots__ = ("_epoch", "_held", "_hello_bytes", "_limit", "_wanted")

    def __init__(self, dialect: Dialect = Dialect.V5_1_1, body_limit: int = BODY_BYTES_MAX) -> None:
        super().__init__()
        self._limit = body_limit
        self._hello_bytes = _LONG_HEAD_BYTES if dialect is Dialect.V5_0_0 else _ANSWER.size
        self._held = bytearray()  # the beginning of a head or a greeting
        self._wanted = 8  # bytes of it until more can be said
        self._epoch: tuple[int, int, int] = (0, 0, 0)  # epoch, its start, confirm offset of the present body

    @property
    def held(self) -> int:
        """Bytes of a head or greeting that is not whole yet."""
        return len(self._held)

    def feed(self, data: bytes) -> list[MasterHello | LogPiece]:
        """The greetings, pieces and heartbeats in ``data``, in order."""
        frames: list[MasterHello | LogPiece] = []
        position, end = 0, len(data)
        view = memoryview(data)
        while position < end:
            if self._left:
                stop = position + self._left
                if stop > end:
                    stop = end
                frames.append(LogPiece(self._offset, view[position:stop], *self._epoch))
                self._offset += stop - position
                self._left -= stop - position
                position = stop
            elif not self._held and end - position >= 36 and _WORD.unpack_from(data, position)[0] == TRANSFER:
                self._begin(_HEAD.layout.unpack_from(data, position), frames)
                position += 36
            else:
                position = self._collect(data, position, frames)
        return frames

    def _begin(self, head: tuple[Any, ...], frames: list[MasterHello | LogPiece]) -> None:
        """A log frame's head is there."""
        _, size, offset, epoch, epoch_start, confirm_offset = head
        if size > self._limit:
            raise RemoteProtocolError(f"a log frame of {size} bytes, {self._limit} are allowed")
        check_log_head(size, offset, epoch, epoch_start, confirm_offset)
        self._epoch = (epoch, epoch_start, confirm_offset)
        self._offset = offset
        self._left = self._body = size
        if not size:
            frames.append(LogPiece(offset, memoryview(b""), *self._epoch))

    def _collect(self, data: bytes, position: int, frames: list[MasterHello | LogPiece]) -> int:
        """Hold more of a head or greeting, and read it once it is whole; where the rest of ``data`` begins."""
        held = self._held
        while True:
            stop = position + self._wanted - len(held)
            held += data[position:stop]
            if len(held) < self._wanted:
                return len(data)
            position = stop
            if self._wanted != 8:
                break
            self._wanted = self._size(*_TWO_WORDS.unpack_from(held))
        self._held = bytearray()
        self._wanted = 8
        if _WORD.unpack_from(held)[0] == TRANSFER:
            self._begin(_HEAD.layout.unpack(held), frames)
        else:
            frames.append(self._answer(bytes(held)))
        return position

    def _size(self, state: int, size: int) -> int:
        """Bytes of a head or greeting to wait for, from its first two words."""
        if state == TRANSFER:
            return _HEAD.size
        if state != HANDSHAKE:
            raise RemoteProtocolError(f"an HA frame of state {state} from a master")
        if size < 0 or size % ENTRY_BYTES or size > ENTRY_BYTES * EPOCHS_MAX:
            raise RemoteProtocolError(f"{size} bytes of epochs in an HA greeting")
        return self._hello_bytes + size

    def _answer(self, data: bytes) -> MasterHello:
        _, _, max_offset, epoch = _ANSWER.layout.unpack_from(data)
        rows = _ENTRY.unpack_all(memoryview(data)[self._hello_bytes :])
        hello = MasterHello(max_offset, epoch, tuple([EpochEntry(*row) for row in rows]))
        check_answer(hello)
        return hello
