"""A process of the test bed: started in its own session and folder, awaited, signalled and ended by its pid, log kept.

Nothing outlives the tests: each process is in a group of its own that is killed at the end of its test, at the
interpreter's exit, and (on Linux, with setpriv) by the kernel should the interpreter itself be killed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

LIVE: set[Process] = set()
TAIL = 4000
JAVA_FULL_PERCENT = 90  # diskSpaceWarningLevelRatio, which cannot be set higher


class NotReady(AssertionError):
    """A process did not become ready, or died first. The message holds the end of its log."""


def wait_until(
    what: str, check: Callable[[], object], timeout_s: float, alive: Callable[[], object] = lambda: True
) -> object:
    """The first true value of `check`, asked again every few milliseconds; AssertionError after `timeout_s`.

    For states that send no event, such as a port that begins to accept. `alive` false ends the wait at once.
    """
    end = time.monotonic() + timeout_s
    pause = 0.005
    while True:
        value = check()
        if value:
            return value
        if not alive():
            raise NotReady(f"died while we waited for: {what}")
        if time.monotonic() > end:
            raise NotReady(f"not within {timeout_s:g} s: {what}")
        time.sleep(pause)  # see above
        pause = min(pause * 1.5, 0.05)


def disk_percent(path: Path) -> int:
    """How full the disk is that a file would lie on, rounded up as by df: of what others than root may have.

    Java: ``UtilAll.getDiskPartitionSpaceUsedPercent``.
    """
    path = path.absolute()
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    found = os.statvfs(there)
    used = found.f_blocks - found.f_bfree
    return -(-100 * used // max(1, used + found.f_bavail))


def scratch(prefix: str) -> Path:
    """A new folder that is removed at exit (kept with ROCKETHA_KEEP=1).

    NotReady where its disk is so full that Java's broker refuses messages.
    """
    percent = disk_percent(Path(tempfile.gettempdir()))
    if percent > JAVA_FULL_PERCENT:
        raise NotReady(
            f"the disk of {tempfile.gettempdir()} is {percent} % full, and Java's broker refuses messages over "
            f"{JAVA_FULL_PERCENT} %: make room, or set TMPDIR"
        )
    folder = Path(tempfile.mkdtemp(prefix=f"rocketha-{prefix}-"))
    if not os.environ.get("ROCKETHA_KEEP"):
        atexit.register(shutil.rmtree, folder, True)
    return folder


class Process:
    """One child process. `folder` holds its log file `<name>.log` and whatever it writes."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log_path = folder / f"{name}.log"
        self.prefix: tuple[str, ...] = ()  # goes before the command, such as nsenter
        self.child: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        return os.environ

    def _stdin(self) -> int:
        return subprocess.DEVNULL

    def _stdout(self) -> int | None:
        return None

    def spawn(self) -> None:
        """Start the process; returns at once."""
        assert self.child is None or self.child.poll() is not None, f"{self.name} runs already"
        command = [*self.prefix, *self.command()]
        setpriv = shutil.which("setpriv")
        if setpriv and threading.current_thread() is threading.main_thread():
            # the kernel sends this when the *thread* that forked ends, so only the main thread may ask for it
            command = [setpriv, "--pdeathsig", "KILL", *command]
        self.started_at = time.monotonic()
        with open(self.log_path, "ab") as log:
            out = self._stdout()
            self.child = subprocess.Popen(
                command,
                stdin=self._stdin(),
                stdout=log if out is None else out,
                stderr=log,
                cwd=self.folder,
                env=dict(self.environment()),
                start_new_session=True,
            )
        LIVE.add(self)

    @property
    def pid(self) -> int:
        assert self.child is not None, f"{self.name} was never started"
        return self.child.pid

    def running(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to the process itself (SIGSTOP, SIGCONT, SIGHUP, ...)."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9, and wait until it is gone. Harmless for a process that is not running."""
        if self.child is None:
            return
        if self.child.poll() is None:
            try:
                os.killpg(self.child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.child.wait(30)
        LIVE.discard(self)

    def stop(self, timeout_s: float = 60) -> int:
        """Ask it to end (SIGTERM) and wait; the exit status. One that does not end is killed, and that is a failure."""
        assert self.child is not None
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise NotReady(f"{self.name} did not end {timeout_s:g} s after SIGTERM\n{self.tail()}") from None
        LIVE.discard(self)
        return self.child.returncode

    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def logs(self) -> list[Path]:
        """Files worth showing when a test fails."""
        return [self.log_path]

    def tail(self) -> str:
        """The end of every log of this process."""
        parts = []
        for path in self.logs():
            if not path.exists():
                continue
            lines = path.read_text(errors="replace")[-8 * TAIL :].splitlines()
            # logback's report on its own configuration is all that Java's servers print at start
            text = "\n".join(line for line in lines if "|-" not in line)[-TAIL:].strip()
            if text:
                parts.append(f"--- {self.name} ({'running' if self.running() else 'ended'}) {path.name}:\n{text}")
        return "\n".join(parts)

    # ---- /proc: what it costs

    def cpu_seconds(self) -> float:
        """User and system CPU time used so far, all threads, to the nanosecond (``/proc`` has it to 10 ms).

        See CPUCLOCK_SCHED in the kernel's include/linux/posix-timers.h.
        """
        return time.clock_gettime(~self.pid << 3 | 2)

    def rss_bytes(self) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0


def end_all() -> None:
    for process in list(LIVE):
        process.kill()


atexit.register(end_all)
