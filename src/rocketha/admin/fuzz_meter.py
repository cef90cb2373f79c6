"""Time and memory bounds around one case of the fuzzer, in this process.

Theory of operation: CPU time by ``ITIMER_PROF`` and a signal, so that a busy machine does not look like a slow
reader; memory by ``tracemalloc``'s peak, and an address space limit, so that a reader that believes a length of 2
GiB fails instead of taking the machine with it. Works in the main thread only.
"""

from __future__ import annotations

import resource
import signal
import tracemalloc
from types import FrameType, TracebackType

from rocketha.wire.fuzz.case import Case
from rocketha.wire.fuzz.contract import Judgment, judge
from rocketha.wire.spec.format import Format

CPU_SECONDS_MAX = 2.0
"""CPU time of one case; ordinary ones take well under a millisecond."""

MEMORY_BYTES_FLOOR = 8 << 20
MEMORY_TIMES_INPUT = 64
"""A case may hold the floor and so many times its own size: a parsed value, its text and plain construct's copy of
it.
"""

ADDRESS_SPACE_BYTES_SPARE = 1 << 30


class _TooSlow(BaseException):
    """Not an Exception: nothing under test may catch it by the way."""


def _ring(signum: int, frame: FrameType | None) -> None:
    raise _TooSlow


class Meter:
    """Judges cases within bounds.  A context manager: signals and limits are put back at its end.

    Memory is traced while a case is judged only: what makes the cases takes three times as long when it is traced.

    :ivar slowest_seconds: not kept; the bound is the statement.
    """

    def __init__(self, cpu_seconds_max: float = CPU_SECONDS_MAX) -> None:
        self._cpu_seconds_max = cpu_seconds_max
        self._former_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        self._former_signal: signal.Handlers | object = signal.SIG_DFL

    def __enter__(self) -> Meter:
        self._former_signal = signal.signal(signal.SIGPROF, _ring)
        self._former_limit = resource.getrlimit(resource.RLIMIT_AS)
        wanted = _address_space_bytes() + ADDRESS_SPACE_BYTES_SPARE
        soft, hard = self._former_limit
        if soft == resource.RLIM_INFINITY or soft > wanted:
            resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        resource.setrlimit(resource.RLIMIT_AS, self._former_limit)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self._former_signal)  # type: ignore[arg-type]

    def judge(self, target: Format, case: Case) -> Judgment:
        """The judgment of a case; a breach of a bound is its problem."""
        if tracemalloc.is_tracing():  # somebody else's, who wants to go on
            return self._judge(target, case)
        tracemalloc.start(1)
        try:
            return self._judge(target, case)
        finally:
            tracemalloc.stop()

    def _judge(self, target: Format, case: Case) -> Judgment:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            try:
                signal.setitimer(signal.ITIMER_PROF, self._cpu_seconds_max)
                judgment = judge(target, case)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except _TooSlow:
            return Judgment(False, f"not done after {self._cpu_seconds_max} s of CPU time", "")
        held = tracemalloc.get_traced_memory()[1] - before
        if judgment.problem is None and held > MEMORY_BYTES_FLOOR + MEMORY_TIMES_INPUT * len(case.data):
            return Judgment(judgment.accepted, f"held {held} bytes for {len(case.data)} of input", judgment.detail)
        return judgment


def _address_space_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[0]) * resource.getpagesize()
