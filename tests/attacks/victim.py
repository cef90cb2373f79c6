"""A client that sends without a pause while others attack, and keeps account; and a port that counts who connects."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import socket
import threading
import time
from collections.abc import Callable

from tests.attacks.attack import wait
from tests.attacks.wire import HOST, SEND_V2, Connection, message

TIMEOUT_S = 3.0


@dataclasses.dataclass(frozen=True)
class Rate:
    """What became of the sends of a while."""

    good: int
    bad: int
    seconds: float
    longest_s: float
    """The longest time without a good send."""

    def __str__(self) -> str:
        return f"{self.good / self.seconds:.0f}/s ({self.bad} refused or lost, longest gap {self.longest_s:.2f} s)"


class Victim:
    """Sends one message after another to whatever port it is told, waiting for each answer."""

    def __init__(self, port: Callable[[], int], topic: str = "victims", pause_s: float = 0.002) -> None:
        """Begin in a thread of its own."""
        self._port, self._topic, self._pause = port, topic, pause_s
        self._good: list[float] = []
        self._bad: list[float] = []
        self.acknowledged: list[tuple[int, int, str]] = []
        self.refusals: dict[str, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Victim:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(2 * TIMEOUT_S)

    def _run(self) -> None:
        connection: Connection | None = None
        number = 0
        while not self._ended.is_set():
            number += 1
            try:
                connection = connection or Connection(self._port(), TIMEOUT_S)
                answer = connection.ask(SEND_V2, message(self._topic), b"%d" % number)
                if answer.code == 0:
                    self._good.append(time.monotonic())
                    self.acknowledged.append(
                        (int(answer.fields["queueId"]), int(answer.fields["queueOffset"]), str(number))
                    )
                else:
                    self._refused(f"{answer.code} {answer.remark[:60]}")
            except (OSError, ValueError, KeyError) as problem:
                self._refused(type(problem).__name__)
                if connection is not None:
                    connection.close()
                connection = None
            wait(self._pause)
        if connection is not None:
            connection.close()

    def _refused(self, why: str) -> None:
        self._bad.append(time.monotonic())
        self.refusals[why] = self.refusals.get(why, 0) + 1
        wait(0.02)

    def during(self, seconds: float) -> Rate:
        """Wait so long; what became of the sends meanwhile."""
        began = time.monotonic()
        wait(seconds)
        return self.between(began, time.monotonic())

    def between(self, began: float, ended: float) -> Rate:
        """What became of the sends of that while."""
        good = [each for each in self._good if began <= each <= ended]
        bad = sum(began <= each <= ended for each in self._bad)
        edges = [began, *good, ended]
        longest = max(after - before for before, after in itertools.pairwise(edges))
        return Rate(len(good), bad, ended - began, longest)


class Counter:
    """A port that takes connections, counts them and says nothing."""

    def __init__(self, host: str = HOST, close: bool = True) -> None:
        """Listen on a free port; ``close`` closes each connection at once."""
        self._socket = socket.create_server((host, 0))
        self.port: int = self._socket.getsockname()[1]
        self.address = f"{host}:{self.port}"
        self.count = 0
        self._kept: list[socket.socket] = []
        self._close = close
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.count += 1
                if self._close:
                    connection.close()
                else:
                    self._kept.append(connection)

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for each in self._kept:
            each.close()


class Flood:
    """Bytes sent at a rate from a thread of its own."""

    def __init__(self, port: int, data: Callable[[int], bytes], rate: int, source: str = HOST) -> None:
        """Begin; ``data`` makes the n-th frame, which nobody answers."""
        self.sent = 0
        self.broken = 0
        self._port, self._data, self._rate, self._source = port, data, rate, source
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Flood:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(10)

    def _run(self) -> None:
        began, connection = time.monotonic(), None
        while not self._ended.is_set():
            due = int((time.monotonic() - began) * self._rate)
            try:
                connection = connection or Connection(self._port, source=self._source)
                while self.sent < due and not self._ended.is_set():
                    many = range(self.sent, min(due, self.sent + 100))
                    connection.socket.sendall(b"".join(map(self._data, many)))
                    self.sent += len(many)
            except OSError:
                self.broken += 1
                connection = None
            wait(0.005)
        if connection is not None:
            connection.close()
