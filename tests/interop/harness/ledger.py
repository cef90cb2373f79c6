"""What was acknowledged, what is still there, and who was master when: the checker of the switching tests.

`Load` drives java/Load.java. `Watch` asks the controllers many times a second and keeps every change of master, epoch
and SyncStateSet with its time. `Ledger` joins both with the faults that the test made, and says of each lost message
how it was lost:

frozen    acknowledged by a master that had been stopped (SIGSTOP) and replaced, from its own sockets after it thawed:
          Java's broker does that whatever the controllers do
replaced  acknowledged by a broker that the controllers had replaced while it ran: a switch it had not heard of
other     anything else. Never allowed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .clients import LineProcess
from .controllers import GET_SYNC_STATE_DATA, GROUP, TOPIC, Controllers, GroupState, Replica, parse_state
from .remoting import frame, read_reply
from .roles import LOOPBACK, READY_S, Host

Present = dict[str, list[tuple[int, int]]]


class Ack(NamedTuple):
    """One line of the load's file."""

    at_ms: int
    key: str
    queue: int
    offset: int
    store: str  # address of the broker that acknowledged
    physical: int  # where it put it


def read_acks(path: Path) -> list[Ack]:
    found = []
    for line in path.read_text().splitlines():
        at, key, queue, offset, place = line.split("\t")
        ip = ".".join(str(int(place[i : i + 2], 16)) for i in range(0, 8, 2))
        store = f"{ip}:{int(place[8:16], 16)}"
        found.append(Ack(int(at), key, int(queue), int(offset), store, int(place[16:32], 16)))
    return found


class Load(LineProcess):
    """A JVM with senders and readers (java/Load.java). Files are in its folder."""

    main = "Load"

    def __init__(
        self, namesrvs: str, folder: Path, name: str = "load", *, host: Host = LOOPBACK, flags: tuple[str, ...] = ()
    ) -> None:
        super().__init__(name, folder, flags)
        self.namesrvs = namesrvs
        self.prefix = host.prefix
        self._runs = 0

    def begin(self, *, threads: int = 8, rate: float = 400, timeout_ms: int = 3000, **options: Any) -> str:
        """Start sending `rate` messages a second in all; the name of the run.

        Options: size of a body (256), retries of the client's own (0), poll_namesrv_ms (100), no_wait (neither flush
        nor replicas are waited for).
        """
        self._runs += 1
        run = f"run{self._runs}"
        self.ask(
            op="load",
            prefix=run,
            namesrv=self.namesrvs,
            topic=TOPIC,
            file=str(self.folder / f"{run}.acked"),
            threads=threads,
            rate=rate,
            timeout_ms=timeout_ms,
            **options,
        )
        return run

    def state(self, run: str, *, reset_gap: bool = False) -> dict[str, Any]:
        """count, last_ms, longest_gap_ms (since it was last reset), errors so far, and ended: sends of each thread that
        were acknowledged or failed.
        """
        return self.ask(op="state", prefix=run, reset_gap=reset_gap)

    def await_more(self, run: str, more: int = 50, timeout_s: float = READY_S) -> None:
        """Until `more` further messages were acknowledged."""
        from .processes import wait_until

        target = self.state(run)["count"] + more
        wait_until(f"{more} more acknowledged messages", lambda: self.state(run)["count"] >= target, timeout_s)

    def await_ended(self, run: str, timeout_s: float = READY_S) -> None:
        """Until each send that is under way now has been acknowledged, or has failed."""
        from .processes import wait_until

        before = self.state(run)["ended"]
        wait_until(
            "the sends that were under way",
            lambda: all(map(int.__gt__, self.state(run)["ended"], before)),
            timeout_s,
            self.running,
        )

    def end(self, run: str) -> list[Ack]:
        """Stop the senders; everything that was acknowledged in this run."""
        self.ask(op="stop", prefix=run)
        return read_acks(self.folder / f"{run}.acked")

    def fill(self, mib: int, *, size: int = 32 << 10, timeout_s: float = 600, **options: Any) -> list[Ack]:
        """Send at least so many MiB of bodies as fast as it goes; what was acknowledged. `options` as for begin()."""
        return self.end(self.begin_fill(mib, size=size, timeout_s=timeout_s, **options))

    def begin_fill(self, mib: int, *, size: int = 32 << 10, timeout_s: float = 600, **options: Any) -> str:
        """The same, and it goes on until end(), which takes leave of every broker: frozen ones take 3 s each."""
        from .processes import wait_until

        run = self.begin(rate=1e9, size=size, **options)
        wait_until(f"{mib} MiB", lambda: self.state(run)["count"] * size >= mib << 20, timeout_s, self.running)
        return run

    def consume(self, group: str) -> None:
        self.ask(op="consume", namesrv=self.namesrvs, topic=TOPIC, group=group, file=str(self.folder / f"{group}.got"))

    def await_delivered(self, group: str, messages: int, timeout_s: float = 90) -> None:
        """Until the push consumer was given so many different ones.

        Java's client may get nothing for the first half minute: it drops a heartbeat while another is under way, and is
        refused until the next one has told the broker of its subscription.
        """
        from .processes import wait_until

        path = self.folder / f"{group}.got"
        what = f"{messages} messages at the push consumer"
        wait_until(what, lambda: len(_keys(path)) >= messages, timeout_s, self.running)

    def stop_consumer(self, group: str) -> Counter[str]:
        """How often each key was given to the push consumer."""
        self.ask(op="stop_consumer", group=group)
        return _keys(self.folder / f"{group}.got")

    def read(self, *, retried: bool = False) -> Present:
        """Everything the queues hold: key -> its places, each (queue, queue offset).

        AssertionError for a key that is there twice, unless `retried`: a client that sends again what was not answered
        may well store it twice.
        """
        self._runs += 1
        path = self.folder / f"read{self._runs}"
        self.ask(op="read", namesrv=self.namesrvs, topic=TOPIC, group=f"read{self._runs}", file=str(path))
        found: Present = {}
        for line in path.read_text().splitlines():
            key, queue, offset, _physical = line.split("\t")
            places = found.setdefault(key, [])
            places.append((int(queue), int(offset)))
            if len(places) > 1 and not retried:
                raise AssertionError(f"{key} is at {places}")
        return found


def _keys(path: Path) -> Counter[str]:
    """How often each key is in a consumer's file; a line that is still being written does not count."""
    whole = path.read_text().rpartition("\n")[0]
    return Counter(line.split("\t")[1] for line in whole.splitlines())


class Seen(NamedTuple):
    """From `at_ms` on the controllers said this."""

    at_ms: int
    state: GroupState


class Watch:
    """A thread that asks whichever controller leads for the group's state every `every_s`, and keeps the changes."""

    def __init__(self, controllers: Controllers, every_s: float = 0.02) -> None:
        self.controllers = controllers
        self.every_s = every_s
        self.seen: list[Seen] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> Watch:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        import socket

        nodes = self.controllers.nodes
        at, sock = 0, None
        while not self._stop.wait(self.every_s):
            try:
                if sock is None:
                    host, port = nodes[at].address.rsplit(":", 1)
                    sock = socket.create_connection((host, int(port)), 0.5)
                    sock.settimeout(0.5)
                sock.sendall(frame(GET_SYNC_STATE_DATA, body=f'["{GROUP}"]'.encode()))
                reply = read_reply(sock)
                if reply.code != 0:
                    raise ConnectionError(str(reply.code))
                state = parse_state(reply.body, GROUP)
            except (OSError, ValueError):
                if sock is not None:
                    sock.close()
                sock, at = None, (at + 1) % len(nodes)
                continue
            last = self.seen[-1].state if self.seen else None
            # an old leader that was cut off may still answer: epochs only grow
            stale = last is not None and state is not None and epochs(state) < epochs(last)
            if state is not None and state != last and not stale:
                self.seen.append(Seen(int(time.time() * 1000), state))

    # ---- what it saw

    def masters(self) -> list[tuple[int, int, str]]:
        """(time, epoch, address) of each change of master; address "" for "none"."""
        found: list[tuple[int, int, str]] = []
        for at_ms, state in list(self.seen):
            if not found or found[-1][1:] != (state.master_epoch, state.master_address):
                found.append((at_ms, state.master_epoch, state.master_address))
        return found

    def elections(self) -> list[tuple[int, int, str]]:
        """The masters that were named.

        A new leading controller that has heard of nobody yet says "none" before it elects, seen by the watch or not.
        """
        return [named for named in self.masters() if named[2]]

    def master_at(self, at_ms: int) -> str:
        """The master's address as of a time; "" before anything was seen."""
        address = ""
        for since, _epoch, master in self.elections():
            if since > at_ms:
                break
            address = master
        return address


def epochs(state: GroupState) -> tuple[int, int]:
    return state.master_epoch, state.set_epoch


class Freeze(NamedTuple):
    """A broker was stopped (SIGSTOP) and continued."""

    store: str
    begin_ms: int
    end_ms: int


class Verdict(NamedTuple):
    """How many were acknowledged, and the lost ones by cause."""

    acknowledged: int
    frozen: list[Ack]
    replaced: list[Ack]
    other: list[Ack]

    @property
    def lost(self) -> int:
        return len(self.frozen) + len(self.replaced) + len(self.other)

    def text(self) -> str:
        return (
            f"{self.acknowledged} acknowledged, {self.lost} lost: {len(self.frozen)} by a thawed master's own "
            f"acknowledgement, {len(self.replaced)} by a replaced master that had not heard of it, {len(self.other)} "
            "otherwise"
        )


def judge(acks: Sequence[Ack], present: Present, watch: Watch, freezes: Iterable[Freeze] = ()) -> Verdict:
    """Find the lost, and why. A message that is present elsewhere than it was told counts as lost too."""
    verdict = Verdict(len(acks), [], [], [])
    thawed = list(freezes)
    for ack in acks:
        if (ack.queue, ack.offset) in present.get(ack.key, ()):
            continue
        if any(f.store == ack.store and f.begin_ms <= ack.at_ms <= f.end_ms + 60_000 for f in thawed):
            verdict.frozen.append(ack)
        elif watch.master_at(ack.at_ms) != ack.store:
            verdict.replaced.append(ack)
        else:
            verdict.other.append(ack)
    return verdict


def shared_epochs(brokers: Iterable[Replica]) -> dict[int, list[str]]:
    """Epochs in which more than one broker became master, by the brokers' own logs. Must be empty."""
    by_epoch: dict[int, set[str]] = {}
    for broker in brokers:
        for epoch, _address in broker.masterships():
            by_epoch.setdefault(epoch, set()).add(broker.name)
    return {epoch: sorted(names) for epoch, names in sorted(by_epoch.items()) if len(names) > 1}
