"""A failover benchmark whose rounds run under a load, and which looks for every acknowledged message in the end."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tests.interop.harness.controllers import TOPIC
from tests.interop.harness.disk import Record
from tests.interop.harness.processes import end_all, scratch, wait_until
from tests.interop.harness.roles import _Broker

from . import failover
from .failover import Figure, say
from .producer import POLL_ROUTE_S, Ack, Producer, count_lost, longest_gap, send_straight

LOADED_BY = 50
"""Messages before the fault, half a second."""
PATIENCE_S = 180

Measure = Callable[[_Broker, Producer], Mapping[str, float]]
"""One round: it is given the master and the load, which runs, and returns what it measured, by name."""


class Side(failover.Side):
    """A group under a load."""

    def __init__(self, kind: str, group: failover.Group, rounds: int) -> None:
        super().__init__(kind, group)
        self.rounds = rounds
        self.row = ""
        self.acks: dict[str, list[Ack]] = {}
        self.failed: Counter[str] = Counter()
        self.lost: Counter[str] | None = None
        """By row; None: nobody could look."""

    def measures(self) -> Mapping[str, Measure]:
        """By row."""
        raise NotImplementedError

    def namesrvs(self) -> str:
        """Where the producer asks for the route."""
        raise NotImplementedError

    def stored(self) -> Iterable[Record]:
        """What the master's log holds."""
        raise NotImplementedError

    def measure(self, row: str) -> Mapping[str, float]:
        """Every row begins with a master under load."""
        self.row = row
        master = self.group.master()
        assert master is not None
        done = len(self.samples.get(row, ()))
        load = Producer(self.namesrvs(), (done + 0.5) / self.rounds * POLL_ROUTE_S).start()
        try:
            wait_until("messages", lambda: len(load.acks) >= LOADED_BY, PATIENCE_S)
            return self.measures()[row](master, load)
        finally:
            load.join()
            self.acks.setdefault(row, []).extend(load.acks)
            self.failed[row] += load.failed

    def send(self, address: str) -> bool:
        """Straight to a broker; what is acknowledged counts."""
        ack = send_straight(address)
        if ack is not None:
            self.acks.setdefault(self.row, []).append(ack)
        return ack is not None

    def taken_away(
        self, how: signal.Signals, master: _Broker, load: Producer, back: Callable[[], object]
    ) -> failover.Switched:
        """Wait for the successor of a master that a signal takes away; `back` is called whether there is one or not."""
        began = time.monotonic()
        master.signal(how)
        load.halt()
        try:
            return self.switched(began, master)
        finally:
            back()

    def kill(self, master: _Broker, load: Producer) -> Mapping[str, float]:
        found = self.taken_away(signal.SIGKILL, master, load, master.kill)  # which reaps it
        master.spawn()  # it comes back while the other side is measured
        return {"kill": found.accepted_s, "kill-route": found.routed_s}

    def stop(self, master: _Broker, load: Producer) -> Mapping[str, float]:
        began = time.monotonic()
        master.signal(signal.SIGTERM)
        seconds = self.gap(load, master, began)
        load.join()
        wait_until("the stopped master to end", lambda: not master.running(), PATIENCE_S)
        master.kill()  # reaps it
        master.spawn()
        return {"stop": seconds}

    def moved(self, load: Producer, old: _Broker, since: float) -> list[Ack]:
        """What the producer was told by the new master, as soon as it went over to it."""

        def told() -> list[Ack]:
            acks = load.answered_by_another(old.address, since)
            return acks if len(acks) >= LOADED_BY else []

        found = wait_until("the producer to find the new master", told, PATIENCE_S)
        assert isinstance(found, list)
        return found

    def gap(self, load: Producer, old: _Broker, since: float) -> float:
        """The longest time in which no send was accepted, once the producer found the new master."""
        self.moved(load, old, since)
        return longest_gap([ack.at for ack in list(load.acks)], since)

    def look_for_all(self) -> None:
        """Find the lost ones. To be called last, when nobody sends."""
        self.switches.seen(self.whole().master_epoch)
        stored = {(record.queue, record.queue_offset): record.body for record in self.stored() if record.topic == TOPIC}
        self.lost = Counter({row: count_lost(acks, stored) for row, acks in self.acks.items()})


def counts(sides: Sequence[Side], rows: Sequence[str]) -> str:
    """What happened to messages and masters, by row."""
    lines = [f"{'row':8} {'side':5} {'needless':>8} {'acknowledged':>12} {'lost':>6} {'failed sends':>12}"]
    for row in rows:
        for side in sides:
            if row in side.acks:
                lines.append(
                    f"{row:8} {side.kind:5} {side.switches.needless[row] if side.switching else '?':>8} "
                    f"{len(side.acks[row]):12} {'?' if side.lost is None else side.lost[row]:>6} {side.failed[row]:12}"
                )
    return "\n".join(lines)


def program(
    argv: list[str],
    name: str,
    words: str | None,
    figures: Mapping[str, Sequence[Figure]],
    make: Callable[[str, Path, int], Side],
) -> int:
    """The whole benchmark ``benchmarks.<name>``: measure, print the two tables, keep the samples.

    :param figures: of each row.
    :param make: a side from its kind, a folder for its group, and the rounds a row.
    :return: 1 if a message of ours was lost or a round of ours failed.
    """
    prefix = name.replace("_", "-")
    given = failover.arguments(
        argv, f"benchmarks.{name}", words, list(figures), rounds=20, sides="ours,java", prefix=prefix
    )
    folder = scratch(prefix)
    sides = [make(kind, folder / kind, given.rounds) for kind in given.sides]
    try:
        failover.begin(sides)
        for row in given.rows:
            failover.take_turns(sides, row, given.rounds)
        for side in sides:
            if not side.given_up:
                side.attempt("to look for what was acknowledged", side.look_for_all)
        shown = [figure for row in figures.values() for figure in row]
        say("\n" + failover.table(sides, shown) + "\n\n" + counts(sides, given.rows))
        messages = {
            side.kind: {
                row: {
                    "acknowledged": len(acks),
                    "lost": None if side.lost is None else side.lost[row],
                    "failed_sends": side.failed[row],
                }
                for row, acks in side.acks.items()
            }
            for side in sides
        }
        failover.keep(given.out, prefix, failover.document(sides, messages=messages))
        return int(
            any(side.kind == "ours" and (side.failures or side.lost is None or side.lost.total()) for side in sides)
        )
    finally:
        end_all()
