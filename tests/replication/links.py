"""Both ends of an HA link on a byte pipe, with logs in memory: for the tests of the link machines.

The ends carry out the machines' effects as a broker would, and check what a store relies on: bytes continue the log,
lie in one file, and no byte is appended before its epoch is in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rocketha.replication.autoswitch_master import AutoswitchMaster
from rocketha.replication.autoswitch_slave import AutoswitchSlave
from rocketha.replication.classic_master import ClassicMaster
from rocketha.replication.classic_slave import ClassicSlave
from rocketha.replication.confirm import ConfirmOffset
from rocketha.replication.epochs import NO_EPOCH, EpochCache, EpochEntry
from rocketha.replication.link import (
    Ack,
    Align,
    Append,
    Close,
    Compare,
    Compared,
    Confirm,
    Effect,
    Introduced,
    LinkTiming,
    SaveEpochs,
    Send,
    SendLog,
)
from rocketha.replication.throttle import Throttle
from rocketha.wire.ha_frames import SlaveHello

FILE = 64
"""Bytes of a log file in these tests."""

Cut = Callable[[bytes], int]
"""How many of the bytes under way arrive in the next read."""


def whole(waiting: bytes) -> int:
    """All of them."""
    return len(waiting)


def bytewise(waiting: bytes) -> int:
    """One at a time."""
    return 1


def entries(*pairs: tuple[int, int]) -> tuple[EpochEntry, ...]:
    """Epochs of (number, start)."""
    return tuple(EpochEntry(*pair) for pair in pairs)


def text(size: int, start: int = 0, by: int = 0) -> bytes:
    """Log bytes that differ by place and by who wrote them."""
    return bytes((7 * place + 13 * (place // 256) + 101 * by) % 251 for place in range(start, start + size))


class Log:
    """A log in memory, as a LogView."""

    def __init__(self, data: bytes = b"", begin: int = 0, file_size: int = FILE) -> None:
        self.begin = begin
        self.data = bytearray(data)
        self.file_size = file_size
        self.record = 1  # bytes of each

    @property
    def end(self) -> int:
        return self.begin + len(self.data)

    def part_of_record(self, offset: int, limit: int) -> bool:
        return limit <= offset or (offset % self.record == 0 and limit < offset + self.record)

    def readable(self, offset: int) -> int:
        if not self.begin <= offset < self.end:
            return 0
        return min(self.end - offset, self.file_size - offset % self.file_size)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes, which must lie in one file."""
        if not 0 < size <= self.readable(offset):
            raise AssertionError(f"{size} bytes asked for at {offset}, {self.readable(offset)} are readable")
        return bytes(self.data[offset - self.begin : offset - self.begin + size])

    def append(self, offset: int, data: bytes) -> None:
        """Bytes at the end, within one file."""
        if not self.data and not self.begin:
            self.begin = offset
        if offset != self.end or offset % self.file_size + len(data) > self.file_size or not data:
            raise AssertionError(f"{len(data)} bytes appended at {offset}, the log ends at {self.end}")
        self.data += data

    def cut(self, offset: int) -> None:
        """Only what is before ``offset``."""
        if not self.begin <= offset <= self.end:
            raise AssertionError(f"cut at {offset}, the log goes from {self.begin} to {self.end}")
        del self.data[offset - self.begin :]

    def drop_files(self, begin: int) -> None:
        """The oldest files expire."""
        del self.data[: begin - self.begin]
        self.begin = begin


class End:
    """One side: its machine's bytes to the peer in ``out``, what became of it in the lists."""

    def __init__(self) -> None:
        self.out = b""
        self.effects: list[Effect] = []
        self.closed = ""

    def of(self, kind: type) -> list[Effect]:
        """The effects of one kind so far."""
        return [each for each in self.effects if isinstance(each, kind)]

    def common(self, effect: Effect) -> None:
        """Effects of either side."""
        self.effects.append(effect)
        if isinstance(effect, Send):
            self.out += effect.data
        elif isinstance(effect, Close):
            self.closed = effect.reason


class MasterEnd(End):
    """A master: its machine, and a transport that takes each block at once unless ``stuck``."""

    def __init__(self, machine: ClassicMaster | AutoswitchMaster, log: Log) -> None:
        super().__init__()
        self.machine = machine
        self.log = log
        self.stuck = False

    def run(self, effects: list[Effect], now_ms: int) -> None:
        """Carry them out, and what follows from them."""
        pending = list(effects)
        while pending:
            effect = pending.pop(0)
            assert isinstance(effect, Send | SendLog | Introduced | Ack | Close), effect
            self.common(effect)
            if isinstance(effect, SendLog):
                self.out += effect.head + self.log.read(effect.offset, effect.size)
                if not self.stuck:
                    pending += self.machine.drained(now_ms)

    def acked(self) -> int:
        """The last acknowledgement; -1: none."""
        acks = [each.offset for each in self.effects if isinstance(each, Ack)]
        return acks[-1] if acks else -1


class SlaveEnd(End):
    """A slave: its machine, its log and its epoch file; appends are durable at once."""

    def __init__(self, machine: ClassicSlave | AutoswitchSlave, log: Log, own: Sequence[EpochEntry] = ()) -> None:
        super().__init__()
        self.machine = machine
        self.log = log
        self.epochs = tuple(own)
        self.truth: EpochCache | None = None  # the master's, for the check that bytes come after their epochs
        self.confirm = 0

    def run(self, effects: list[Effect], now_ms: int) -> None:
        """Carry them out, and what follows from them."""
        appended = False
        for effect in effects:
            assert isinstance(effect, Send | Compare | Compared | Append | Align | SaveEpochs | Confirm | Close), effect
            self.common(effect)
            if isinstance(effect, Compare):
                at = effect.offset - self.log.begin
                assert self.log.data[at : at + len(effect.data)] == effect.data, "of another log"
            if isinstance(effect, Append):
                self.log.append(effect.offset, bytes(effect.data))
                self.check_epochs(effect.offset, self.log.end)
                appended = True
            elif isinstance(effect, SaveEpochs):
                empty = not self.log.data
                assert empty or effect.epochs[-1].start_offset <= self.log.end, "an epoch before the bytes before it"
                self.epochs = effect.epochs
            elif isinstance(effect, Confirm):
                assert self.confirm <= effect.offset <= self.log.end
                self.confirm = effect.offset
            elif isinstance(effect, Align):
                end = effect.offset - effect.offset % self.log.record
                self.log.cut(end)
                self.epochs = tuple(entry for entry in effect.epochs if entry.start_offset <= end)
                assert isinstance(self.machine, AutoswitchSlave)
                self.run(self.machine.aligned(end, self.epochs, now_ms), now_ms)
        if appended or any(isinstance(effect, Compared) for effect in effects):
            self.run(self.machine.appended(self.log.end, now_ms), now_ms)

    def check_epochs(self, offset: int, end: int) -> None:
        """The epoch file knows who wrote the bytes that are being appended."""
        if self.truth is not None:
            own = EpochCache(self.epochs)
            for place in (offset, end - 1):
                mine, theirs = own.at(place), self.truth.at(place)
                assert mine is not None and theirs is not None and mine[:2] == theirs[:2], (place, mine, theirs)


class Pair:
    """A master and a slave on a pipe, at a time that stands still unless told."""

    def __init__(self, master: MasterEnd, slave: SlaveEnd, cut: Cut = whole, now_ms: int = 0) -> None:
        self.master = master
        self.slave = slave
        self.cut = cut
        self.now_ms = now_ms
        self.turns = 0

    def start(self) -> Pair:
        """The connection is there; everything that follows from that."""
        self.slave.run(self.slave.machine.begin(self.now_ms), self.now_ms)
        return self.pump()

    def pump(self) -> Pair:
        """Deliver until nothing is under way."""
        steps = 0
        while self.step():
            steps += 1
            assert steps < 100_000, "steps without end"
        return self

    def step(self) -> bool:
        """Deliver one read to each side; whether there was any.  What one closed, the other reads no more."""
        moved = False
        for source, target in ((self.master, self.slave), (self.slave, self.master)):
            if source.out and not source.closed and not target.closed:
                size = self.cut(source.out)
                data, source.out = source.out[:size], source.out[size:]
                target.run(target.machine.received(data, self.now_ms), self.now_ms)
                moved = True
        return moved

    def grow(self, data: bytes) -> Pair:
        """The master appends, file by file, and everything that follows."""
        while data:
            end = self.master.log.end
            size = min(len(data), FILE - end % FILE)
            self.master.log.append(end, data[:size])
            data = data[size:]
        self.master.run(self.master.machine.log_grew(self.now_ms), self.now_ms)
        return self.pump()

    def wait(self, duration_ms: int) -> Pair:
        """Let time pass, calling each side when it asked to be."""
        until = self.now_ms + duration_ms
        while True:
            dues = [end.machine.next_due_ms() for end in (self.master, self.slave)]
            due = min((each for each in dues if each is not None), default=until + 1)
            if due > until:
                break
            self.now_ms = max(self.now_ms, due)
            self.turns += 1
            assert self.turns < 100_000, "turns without end"
            for end in (self.master, self.slave):
                end.run(end.machine.tick(self.now_ms), self.now_ms)
            self.pump()
        self.now_ms = until
        return self


def classic(
    master: Log,
    slave: Log,
    batch: int = 1000,
    cut: Cut = whole,
    timing: LinkTiming | None = None,
    compare_from: int | None = None,
) -> Pair:
    """A classic pair, not started."""
    machine = ClassicMaster(master, 0, timing, batch)
    at_slave = ClassicSlave(slave.end, FILE, 0, timing, compare_from)
    return Pair(MasterEnd(machine, master), SlaveEnd(at_slave, slave), cut)


def autoswitch(
    master: Log,
    epochs: Iterable[EpochEntry],
    slave: Log,
    own: Sequence[EpochEntry] = (),
    *,
    batch: int = 1000,
    cut: Cut = whole,
    hello: SlaveHello | None = None,
    min_epoch: int = NO_EPOCH,
    confirm: ConfirmOffset | None = None,
    timing: LinkTiming | None = None,
    confirmed: int = 0,
    unclean_cut: bool = False,
    throttle: Throttle | None = None,
) -> Pair:
    """An autoswitch pair, not started; ``epochs`` may be the master's live cache."""
    cache = epochs if isinstance(epochs, EpochCache) else EpochCache(epochs)
    confirm = confirm or ConfirmOffset(0, master.end)
    machine = AutoswitchMaster(master, cache, confirm, 0, timing, batch, throttle)
    at_slave = AutoswitchSlave(hello or SlaveHello(2), slave, own, min_epoch, confirmed, 0, timing, unclean_cut)
    pair = Pair(MasterEnd(machine, master), SlaveEnd(at_slave, slave, own), cut)
    pair.slave.truth = cache
    return pair
