"""The fuzzer against a live remoting port, ours or Java's.

Theory of operation: a few dozen *lanes*, each a connection, share one selector. What a case should get is told by
our own reader: a whole readable request is *answered* (and so many of them are sent one after another on a lane); a
oneway request or a stray response gets nothing; an unreadable frame must *close* the connection, and an unfinished
one is followed by our end of the connection. The last two end their lane, and are only sent once every request
before them on the lane is answered: so each answer and each close belongs to one case, at full speed. Lanes bind to
different loopback addresses, which keeps a million connections within the ephemeral ports and under a server's
limit for one address.

A *probe*, a plain request on a connection of its own once a second, says whether the port still serves; the
process's memory is read from /proc. What is found: the port refuses or drops the probe (crash), does not answer it
(hang), answers it late, or the process grew. Differences from what our reader expects (an unreadable frame kept, a
readable one closed on, a request never answered) are reported, and count as found only when ``strict``.

Under TLS the same cases go inside sessions.  A port that speaks something else than remoting is tried with ``stream``:
each case on a connection of its own, then our end, and nothing is expected but the other end; what comes back is
counted in bytes, and the probe is a connection that is taken.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import select
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from typing import Literal

import attrs

from rocketha.admin.fuzz_probe import AGAIN, ANSWER_LIMIT, READ_BYTES, Probe, ProbeAnswer
from rocketha.admin.fuzz_report import READABLE_CLOSED, PortReport, resident_bytes
from rocketha.errors import RemoteProtocolError
from rocketha.protocols.first_byte import TLS_RECORD
from rocketha.wire import remoting
from rocketha.wire.codes import RequestCode
from rocketha.wire.dledger_values import DLedgerRequestCode
from rocketha.wire.framing import FrameBuffer
from rocketha.wire.fuzz.case import Case
from rocketha.wire.fuzz.request_table import HELD

LANES = 24
WINDOW = 48
"""Requests in flight on one lane."""

CLOSE_SECONDS = 5.0
"""How long an unreadable frame may go without a close before we end the connection ourselves."""

PATIENCE_SECONDS = 8.0
"""How long an answer, or a close after our end, may take."""

LATE_SECONDS = 2.0
PROBE_SECONDS = 1.0
SUSPECTS = 64

MAY_STAY_SILENT = HELD | {
    int(RequestCode.END_TRANSACTION),
    int(DLedgerRequestCode.HEART_BEAT),
    int(DLedgerRequestCode.PUSH),
    int(DLedgerRequestCode.LEADERSHIP_TRANSFER),
}
"""Two-way requests that a server may leave without an answer, or answer much later."""

TLS_ALERT = 0x15

_IP_BIND_ADDRESS_NO_PORT = 24
_RESET = struct.pack("ii", 1, 0)

Shape = Literal["requests", "silent", "unreadable", "unfinished"]


@attrs.frozen
class Expected:
    """What our own reader makes of a case.

    :ivar shape: how it must be taken.
    :ivar requests: (opaque, code) of each request in it that wants an answer.
    """

    shape: Shape
    requests: tuple[tuple[int, int], ...] = ()


def expect(data: bytes) -> Expected:
    """Read a case as a server of ours would; what begins as TLS does is a handshake that never ends."""
    if data[:1] == bytes((TLS_RECORD,)):
        return Expected("unfinished")
    buffer = FrameBuffer()
    try:
        commands = [_heard(frame) for frame in buffer.feed(data)]
    except RemoteProtocolError:
        return Expected("unreadable")
    if buffer.started_frame or not commands:
        return Expected("unfinished")
    wanted = tuple((each.opaque, each.code) for each in commands if not each.is_response and not each.is_oneway)
    if len({opaque for opaque, _ in wanted}) < len(wanted):
        # One opaque twice in a case: its answers could not be told apart.
        return Expected("silent")
    return Expected("requests" if wanted else "silent", wanted)


def _heard(frame: bytes) -> remoting.Command:
    """What is answered of a frame: of a header that is too long, that it is."""
    try:
        return remoting.decode(frame)
    except remoting.HeaderTooLong as problem:
        return problem.command


@attrs.define(eq=False)
class _Lane:
    """One connection.

    :ivar outstanding: opaque -> (case, request code, when sent) of answers that must come.
    :ivar held: the same of answers that may take their time.
    :ivar ending: the case after which the connection ends, once it is sent.
    """

    sock: socket.socket
    buffer: FrameBuffer
    out: bytearray = attrs.Factory(bytearray)
    connected: bool = False
    outstanding: dict[int, tuple[Case, int, float]] = attrs.Factory(dict)
    held: dict[int, tuple[Case, int, float]] = attrs.Factory(dict)
    quiet: list[Case] = attrs.Factory(list)
    ending: Case | None = None
    ending_shape: Shape = "unreadable"
    ending_since: float = 0.0
    shut: bool = False
    writing: bool = True


_ALONE = Expected("unfinished")


class PortRun:
    """One run of cases against one port.

    :param tls: the cases go inside TLS sessions of this.
    :param stream: the port speaks something else than remoting.
    """

    def __init__(
        self,
        address: tuple[str, int],
        cases: Iterator[Case],
        report: PortReport,
        pid: int | None = None,
        lanes: int = LANES,
        close_seconds: float = CLOSE_SECONDS,
        progress: Callable[[PortReport], None] | None = None,
        tls: ssl.SSLContext | None = None,
        stream: bool = False,
    ) -> None:
        self._tls = tls
        self._stream = stream
        self._address = address
        self._cases = cases
        self._report = report
        self._pid = pid
        self._lanes_max = lanes
        self._close_seconds = close_seconds
        self._clock = time.monotonic
        self._progress = progress
        self._selector = selectors.DefaultSelector()
        self._lanes: set[_Lane] = set()
        self._next: tuple[Case, Expected] | None = None
        self._exhausted = False
        self._connections = 0
        self._recent: collections.deque[Case] = collections.deque(maxlen=SUSPECTS)
        self._probe: Probe | None = None
        self._probe_due = 0.0
        self._refused_since: float | None = None
        self.stopped = False

    def run(self) -> PortReport:
        """Send every case, wait for what is owed, and report."""
        report, started = self._report, self._clock()
        try:
            while not self.stopped and not self._finished():
                self._turn()
            report.seconds = self._clock() - started
            if not self.stopped:
                self._last_probe()
        finally:
            for lane in list(self._lanes):
                self._drop(lane)
            if self._probe is not None:
                self._probe.close()
            self._selector.close()
        if self._pid is not None:
            report.sample(resident_bytes(self._pid), last=True)
        return report

    def _finished(self) -> bool:
        return self._exhausted and self._next is None and not self._lanes

    # ---- one turn

    def _turn(self) -> None:
        now = self._clock()
        while len(self._lanes) < self._lanes_max and self._peek() is not None and not self.stopped:
            if not self._connect():
                break
        for key, events in self._selector.select(0.05):
            lane = key.data
            if isinstance(lane, Probe):
                self._probed(lane)
                continue
            if lane not in self._lanes:
                continue
            if events & selectors.EVENT_READ:
                self._read(lane)
            if lane in self._lanes and events & selectors.EVENT_WRITE:
                self._connected(lane)
            if lane in self._lanes and events & selectors.EVENT_WRITE:
                self._write(lane)
        for lane in list(self._lanes):
            if lane in self._lanes:
                self._fill(lane)
        if now >= self._probe_due:
            self._probe_due = now + PROBE_SECONDS
            self._look_after(self._clock())

    def _peek(self) -> tuple[Case, Expected] | None:
        if self._next is None and not self._exhausted:
            case = next(self._cases, None)
            if case is None:
                self._exhausted = True
            else:
                self._next = case, _ALONE if self._stream else expect(case.data)
        return self._next

    def _connect(self) -> bool:
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._address[0].startswith("127."):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            self._connections += 1
            sock.bind((f"127.0.{self._connections // 200 % 200}.{2 + self._connections % 200}", 0))
        code = sock.connect_ex(self._address)
        if code not in (0, errno.EINPROGRESS):
            sock.close()
            self._refused(errno.errorcode.get(code, str(code)))
            return False
        lane = _Lane(sock, FrameBuffer(ANSWER_LIMIT))
        self._lanes.add(lane)
        self._report.connections += 1
        self._selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE, lane)
        return True

    def _connected(self, lane: _Lane) -> None:
        """TCP has it; the handshake goes on with what is written and read."""
        if lane.connected:
            return
        lane.connected = True
        if self._tls is None:
            return
        self._selector.unregister(lane.sock)
        try:
            lane.sock = self._tls.wrap_socket(
                lane.sock, server_hostname=self._address[0], do_handshake_on_connect=False
            )
        except OSError as problem:  # it has ended already
            self._lanes.discard(lane)
            self._refused(str(problem))
            return
        self._selector.register(lane.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, lane)

    def _refused(self, why: str) -> None:
        now = self._clock()
        if self._refused_since is None:
            self._refused_since = now
        elif now - self._refused_since > PATIENCE_SECONDS:
            self._stop("crash", f"the port takes no connections ({why})")

    def _stop(self, what: str, why: str) -> None:
        suspects = ", ".join(str(case.index) for case in self._recent)
        self._report.found.append(f"{what}: {why}; the last cases sent were {suspects}")
        self.stopped = True

    # ---- sending

    def _fill(self, lane: _Lane) -> None:
        if lane.ending is not None or not lane.connected:
            return
        while len(lane.outstanding) < WINDOW and len(lane.out) < READ_BYTES:
            upcoming = self._peek()
            if upcoming is None:
                if not lane.outstanding and not lane.out:
                    self._drop(lane)
                    return
                break
            case, expected = upcoming
            if expected.shape in ("unreadable", "unfinished"):
                if lane.outstanding or lane.out:
                    break
                lane.ending, lane.ending_shape, lane.ending_since = case, expected.shape, self._clock()
            elif any(opaque in lane.outstanding or opaque in lane.held for opaque, _ in expected.requests):
                if lane.held and not lane.outstanding:
                    self._drop(lane)
                    return
                break
            self._next = None
            self._sent(lane, case, expected)
            if lane.ending is not None:
                break
        if (lane.out or lane.ending is not None) and not lane.writing:
            self._write(lane)

    def _sent(self, lane: _Lane, case: Case, expected: Expected) -> None:
        lane.out += case.data
        self._recent.append(case)
        self._report.sent += 1
        self._report.kinds[case.kind] += 1
        if expected.shape == "silent":
            self._report.outcomes["silent"] += 1
            lane.quiet.append(case)
        now = self._clock()
        for opaque, code in expected.requests:
            (lane.held if code in MAY_STAY_SILENT else lane.outstanding)[opaque] = case, code, now

    def _write(self, lane: _Lane) -> None:
        if lane.out:
            waits = False
            try:
                count = lane.sock.send(lane.out)
            except AGAIN as problem:
                count, waits = 0, isinstance(problem, ssl.SSLWantReadError)
            except OSError as problem:
                self._lost(lane, problem)
                return
            del lane.out[:count]
            if waits:  # for the other end's part of the handshake
                self._want(lane, writing=False)
                return
        if not lane.out and lane.ending is not None and lane.ending_shape == "unfinished" and not lane.shut:
            self._shut(lane)
        self._want(lane, bool(lane.out) or not lane.connected)

    def _want(self, lane: _Lane, writing: bool) -> None:
        if writing != lane.writing:
            lane.writing = writing
            self._selector.modify(lane.sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0), lane)

    def _shut(self, lane: _Lane) -> None:
        lane.shut = True
        lane.ending_since = self._clock()
        with contextlib.suppress(OSError):
            socket.socket.shutdown(lane.sock, socket.SHUT_WR)  # that of a TLS socket goes on in the clear

    # ---- receiving

    def _read(self, lane: _Lane) -> None:
        if self._tls is None:
            self._read_once(lane)
            return
        while lane in self._lanes and self._read_once(lane):
            """What TLS has decrypted already wakes no selector."""
        if lane in self._lanes and lane.out:
            self._write(lane)

    def _read_once(self, lane: _Lane) -> bool:
        """Whether there was something."""
        try:
            data = lane.sock.recv(READ_BYTES)
        except AGAIN:
            return False
        except OSError as problem:
            self._lost(lane, problem)
            return False
        if not data:
            self._lost(lane, None)
            return False
        self._refused_since = None
        if (
            self._tls is None
            and lane.ending is not None
            and data[0] == TLS_ALERT
            and lane.ending.data[:1] == bytes((TLS_RECORD,))
        ):
            return True  # the port took it for TLS, and says so before it ends the connection
        if self._stream:
            self._report.outcomes["bytes back"] += len(data)
            return True
        try:
            for frame in lane.buffer.feed(data):
                self._answered(lane, frame)
        except RemoteProtocolError as problem:
            self._report.note("answer unreadable", self._first(lane), str(problem))
            self._drop(lane)
        return True

    def _answered(self, lane: _Lane, frame: bytes) -> None:
        command = remoting.decode(frame, ANSWER_LIMIT)
        if not command.is_response:
            self._report.outcomes["server's own requests"] += 1
            return
        waiting = lane.outstanding.pop(command.opaque, None) or lane.held.pop(command.opaque, None)
        if waiting is None:
            self._report.outcomes["answers to no request"] += 1
            return
        case, code, _ = waiting
        self._report.answer(case, code, command.code, command.remark)
        lane.quiet.clear()

    def _first(self, lane: _Lane) -> Case | None:
        for case, _, _ in (*lane.outstanding.values(), *lane.held.values()):
            return case
        return lane.ending or (lane.quiet[-1] if lane.quiet else None)

    def _lost(self, lane: _Lane, problem: OSError | None) -> None:
        report = self._report
        if not lane.connected:
            self._refused(errno.errorcode.get(problem.errno or 0, "?") if problem else "closed at once")
        elif lane.ending is not None:
            if lane.ending_shape == "unfinished":
                report.outcomes["closed after our end"] += 1
            elif lane.shut:
                report.note("unreadable and kept open", lane.ending)
            else:
                report.outcomes["unreadable and closed"] += 1
        elif lane.outstanding or lane.quiet:
            suspects = {case.index for case, _, _ in lane.outstanding.values()} | {case.index for case in lane.quiet}
            report.suspects.append(sorted(suspects))
            report.note(READABLE_CLOSED, self._first(lane), f"one of {len(suspects)}: {sorted(suspects)[:WINDOW]}")
        else:
            report.outcomes["closed between cases"] += 1
        self._drop(lane)

    def _drop(self, lane: _Lane) -> None:
        self._report.outcomes["held"] += len(lane.held)
        self._lanes.discard(lane)
        self._selector.unregister(lane.sock)
        with contextlib.suppress(OSError):
            # A reset leaves no TIME_WAIT behind; the server must bear it as well as an orderly end.
            lane.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        lane.sock.close()

    # ---- once a second

    def _look_after(self, now: float) -> None:
        for lane in list(self._lanes):
            self._overdue(lane, now)
        if self._pid is not None:
            resident = resident_bytes(self._pid)
            if resident is None:
                self._stop("crash", f"process {self._pid} is gone")
                return
            self._report.sample(resident)
        self._probe_step(now)
        if self._progress is not None:
            self._progress(self._report)

    def _overdue(self, lane: _Lane, now: float) -> None:
        if lane.ending is not None:
            waited = now - lane.ending_since
            if not lane.shut and waited > self._close_seconds and not lane.out:
                self._shut(lane)
            elif (lane.shut and waited > PATIENCE_SECONDS) or waited > 2 * PATIENCE_SECONDS:
                self._report.note("our end ignored", lane.ending)
                self._drop(lane)
            return
        late = [each for each in lane.outstanding.values() if now - each[2] > PATIENCE_SECONDS]
        if late:
            for case, code, _ in late:
                self._report.note("unanswered", case, f"request {code}")
            self._drop(lane)

    def _probe_step(self, now: float) -> None:
        """Begin a probe, or look after the one that is out."""
        if self._probe is None:
            probe = Probe(self._address, now, self._tls, self._stream)
            answer = probe.poll(self._clock())
            if answer is None:
                self._probe = probe
                self._selector.register(probe.sock, selectors.EVENT_READ, probe)
            else:
                self._judge(probe, answer)
        elif now - self._probe.since > 2 * PATIENCE_SECONDS:
            self._stop("hang", f"a plain request has no answer after {2 * PATIENCE_SECONDS:.0f} s")

    def _probed(self, probe: Probe) -> None:
        answer = probe.poll(self._clock())
        if answer is not None:
            self._selector.unregister(probe.sock)
            self._probe = None
            self._judge(probe, answer)

    def _judge(self, probe: Probe, answer: ProbeAnswer) -> None:
        probe.close()
        if answer.seconds is None:
            self._stop("crash", f"a plain request was not served: {answer.problem}")
        else:
            self._report.probe(answer.seconds, LATE_SECONDS)

    def _last_probe(self) -> None:
        """The port must still serve when all is done."""
        probe = Probe(self._address, self._clock(), self._tls, self._stream)
        while (answer := probe.poll(self._clock())) is None and self._clock() - probe.since < 2 * PATIENCE_SECONDS:
            select.select([probe.sock], [], [], 0.1)
        if answer is None:
            probe.close()
            self._stop("hang", "a plain request after the last case has no answer")
        else:
            self._judge(probe, answer)
