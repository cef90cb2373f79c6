"""A producer that sends as Java's default one does, in Python: a JVM beside six brokers would take their processors.

Java 5.5.0, ``DefaultMQProducerImpl.sendDefaultImpl`` and ``MQClientInstance``: the route is asked for at the start and
every 30 s, and nothing that happens to a connection makes it be asked for sooner, unless it names no master; a send has
three tries and three seconds in all, without a pause; some codes are tried again, others and a lost acknowledgement
of a copy (FLUSH_SLAVE_TIMEOUT and its like) are the caller's.  GO_AWAY is followed by another connection to the same
address.  What it does not have is other brokers to turn to: a group is one.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from tests.interop.harness import remoting

from .failover import SEND_MESSAGE, master_in_route, send_fields

POLL_ROUTE_S = 30.0
TRIES, SEND_S = 3, 3.0
QUEUES = 4
THREADS, EVERY_S = 4, 0.04
ERROR_PAUSE_S = 0.02
HEARTBEAT, SEND_OK, GO_AWAY = 34, 0, 1500
TRIED_AGAIN = (1, 2, 14, 16, 17, 204, 205)
_numbers = itertools.count(1)


def new_key() -> str:
    """The body of a message that nobody else sends."""
    return f"{os.getpid()}-{next(_numbers)}".ljust(64, ".")


class Ack(NamedTuple):
    """A message was acknowledged: when, by whom, and where it is said to be."""

    at: float  # of time.monotonic()
    address: str  # that was asked; it may have passed the message on
    key: str
    queue: int
    offset: int


class Refused(OSError):
    """An answer other than SEND_OK."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


def acknowledged(reply: remoting.Reply, address: str, key: str) -> Ack:
    """What an answer to a send says.

    :raises Refused: not that it is stored, and safe.
    """
    if reply.code != SEND_OK:
        raise Refused(reply.code)
    return Ack(time.monotonic(), address, key, int(reply.fields["queueId"]), int(reply.fields["queueOffset"]))


def send_straight(address: str) -> Ack | None:
    """One message to this broker over a new connection, whatever the route says; None unless it was acknowledged."""
    key = new_key()
    try:
        reply = remoting.call(address, SEND_MESSAGE, send_fields(), key.encode(), timeout_s=1)
        return acknowledged(reply, address, key)
    except (OSError, ValueError):
        return None


def longest_gap(times: Iterable[float], since: float) -> float:
    """The longest time without an acknowledgement that ended after `since`."""
    return max(after - before for before, after in pairwise(sorted(times)) if after > since)


def count_lost(acks: Iterable[Ack], stored: Mapping[tuple[int, int], bytes]) -> int:
    """How many are not at the place, queue and offset, that the client was told."""
    return sum(stored.get((ack.queue, ack.offset)) != ack.key.encode() for ack in acks)


class _Sender:
    """One connection at a time, to whoever was asked last."""

    def __init__(self) -> None:
        self.address = ""
        self.sock: socket.socket | None = None

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()
        self.sock = None

    def ask(self, address: str, code: int, fields: dict[str, str], body: bytes, due: float) -> remoting.Reply:
        """An answer before `due`, or OSError and no connection."""
        try:
            if self.sock is None or self.address != address:
                self.close()
                host, port = address.rsplit(":", 1)
                self.address = address
                self.sock = socket.create_connection((host, int(port)), _left(due))
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._call(HEARTBEAT, {}, json.dumps(_CLIENT).encode(), due)
            reply = self._call(code, fields, body, due)
        except OSError:
            self.close()
            raise
        if reply.code == GO_AWAY:
            self.close()
        return reply

    def _call(self, code: int, fields: dict[str, str], body: bytes, due: float) -> remoting.Reply:
        assert self.sock is not None
        self.sock.settimeout(_left(due))
        self.sock.sendall(remoting.frame(code, fields, body))
        return remoting.read_reply(self.sock)


_CLIENT = {
    "clientID": f"127.0.0.1@{os.getpid()}",
    "heartbeatFingerprint": 0,
    "producerDataSet": [{"groupName": "failover"}],
    "consumerDataSet": [],
}


def _left(due: float) -> float:
    left = due - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time of this send is over")
    return left


class Producer:
    """Four threads that send a message each every 40 ms, one at a time.

    `polled_ago_s`: the route is not asked for again until 30 s after that.
    """

    def __init__(self, namesrv: str, polled_ago_s: float = 0.0) -> None:
        self.namesrv = namesrv
        self.polled_ago_s = polled_ago_s
        self.acks: list[Ack] = []
        self.failed = 0
        self.master = ""
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._poll, daemon=True)]
        self._threads += [threading.Thread(target=self._send_on, args=(n,), daemon=True) for n in range(THREADS)]

    def start(self) -> Producer:
        self.master = master_in_route(self.namesrv)
        for thread in self._threads:
            thread.start()
        return self

    def halt(self) -> None:
        """No new sends; those under way have their time."""
        self._stop.set()

    def join(self) -> None:
        """Until the last send is over."""
        self.halt()
        for thread in self._threads:
            thread.join()

    def answered_by_another(self, old: str, since: float) -> list[Ack]:
        """Acknowledgements of others than this one, in the order of their times."""
        return sorted(ack for ack in list(self.acks) if ack.address != old and ack.at > since)

    def send(self, sender: _Sender, key: str, queue: int) -> Ack | None:
        """One call of the producer's ``send``; None: it failed."""
        due = time.monotonic() + SEND_S
        for attempt in range(TRIES):
            address = self.master or self._asked()
            if not address:
                return None  # "No route info of this topic"
            fields = send_fields((queue + attempt) % QUEUES)
            try:
                reply = sender.ask(address, SEND_MESSAGE, fields, key.encode(), due)
                if reply.code == GO_AWAY:
                    reply = sender.ask(address, SEND_MESSAGE, fields, key.encode(), due)
                return acknowledged(reply, address, key)
            except Refused as refused:
                if refused.code not in TRIED_AGAIN:
                    return None
            except (OSError, ValueError):
                if time.monotonic() >= due:
                    return None
        return None

    def _asked(self) -> str:
        self.master = master_in_route(self.namesrv)
        return self.master

    def _poll(self) -> None:
        pause = POLL_ROUTE_S - self.polled_ago_s
        while not self._stop.wait(pause):
            self._asked()
            pause = POLL_ROUTE_S

    def _send_on(self, number: int) -> None:
        sender = _Sender()
        due = time.monotonic() + number * EVERY_S / THREADS
        for queue in itertools.count(number):
            if self._stop.wait(max(0.0, due - time.monotonic())):
                break
            ack = self.send(sender, new_key(), queue)
            with self._lock:
                if ack is not None:
                    self.acks.append(ack)
                else:
                    self.failed += 1
            due = max(due + EVERY_S, time.monotonic() + (0 if ack else ERROR_PAUSE_S))
        sender.close()
