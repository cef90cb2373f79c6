"""How long a group of brokers without its master stands still: ours under our controllers, Java's under Java's.

    python -m benchmarks.broker_failover                                   twenty rounds a row, hours: see README.rst
    python -m benchmarks.broker_failover --rounds 3 --rows kill,freeze     a quick look

Each side is three brokers of one group under three controllers, on loopback, with equal settings (each message waits
for the whole SyncStateSet) and a nameserver of ours each; both live side by side through the whole run and are measured
in turn, each time when both are whole again and the machine is quiet.  Everything is polled every 10 ms.

kill     kill -9 of the master to a send that the new master accepts; kill-route: and the nameserver names it
client   kill -9 of the master, to the first accepted send of a producer that works as Java's default one
again    the same of a master that is started again at once, as by a supervisor
freeze   SIGSTOP of the master to a send that the new one accepts; thaw: from SIGCONT, a second later, to the full set
elect    electMaster by request: the longest time in which no send of that producer was accepted
stop     SIGTERM of the master: the same
back     the killed master's start to its place in the SyncStateSet
both     kill -9 of the lead controller and the master at once, to a send that the new master accepts

That producer (``producer.py``) asks for the route every 30 s, so when it asked last decides how long it stays away: in
n rounds of a row that is spread evenly over these 30 s, in the same way for both sides.  A load of 100 messages a
second runs until the fault in every row, in client, again, elect and stop through it.  In the end every message that
was acknowledged is looked for in the master's log, at the place that the sender was told; of ours none may be missing.
"""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.interop.harness import disk
from tests.interop.harness.controllers import CLUSTER, GROUP, TOPIC, GroupState, Replica, ReplicaGroup
from tests.interop.harness.processes import end_all, scratch, wait_until

from . import failover
from .failover import Figure, Race, say
from .producer import POLL_ROUTE_S, Ack, Producer, count_lost, longest_gap, send_straight

ELECT_MASTER = 1002
ROWS = ("kill", "client", "again", "freeze", "elect", "stop", "back", "both")
FIGURES = [
    Figure(name)
    for name in ("kill", "kill-route", "client", "again", "freeze", "thaw", "elect", "stop", "back", "both")
]
LOADED_BY = 50  # messages before the fault, half a second
THAWED_AFTER_S = 1.0
PATIENCE_S = 180


class Side(failover.Side):
    """Brokers of one kind under controllers of the same."""

    switching = dict.fromkeys(ROWS, 1)

    def __init__(self, kind: str, folder: Path, rounds: int) -> None:
        super().__init__(kind, ReplicaGroup(kind, folder, kinds=(kind,) * 3, namesrv="ours"))
        self.rounds = rounds
        self.row = ""
        self.acks: dict[str, list[Ack]] = {}
        self.failed: Counter[str] = Counter()
        self.lost: Counter[str] | None = None
        """By row; None: nobody could look."""

    def measure(self, row: str) -> Mapping[str, float]:
        """Every row begins with a master under load."""
        measures: dict[str, Callable[[Replica, Producer], Mapping[str, float]]] = {
            "kill": self.kill,
            "client": self.client,
            "again": self.again,
            "freeze": self.freeze,
            "elect": self.elect,
            "stop": self.stop,
            "back": self.back,
            "both": self.both,
        }
        self.row = row
        master = self.group.master()
        done = len(self.samples.get(row, ()))
        load = Producer(self.group.namesrv_addresses, (done + 0.5) / self.rounds * POLL_ROUTE_S).start()
        try:
            wait_until("messages", lambda: len(load.acks) >= LOADED_BY, PATIENCE_S)
            return measures[row](master, load)
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

    def kill(self, master: Replica, load: Producer) -> Mapping[str, float]:
        began = time.monotonic()
        master.signal(signal.SIGKILL)
        load.halt()
        try:
            found = self.switched(began, master)
        finally:
            master.kill()  # reaps it
        master.spawn()  # it comes back while the other side is measured
        return {"kill": found.accepted_s, "kill-route": found.routed_s}

    def client(self, master: Replica, load: Producer) -> Mapping[str, float]:
        began = time.monotonic()
        master.kill()
        seconds = self._moved(load, master, began)[0].at - began
        master.spawn()
        return {"client": seconds}

    def again(self, master: Replica, load: Producer) -> Mapping[str, float]:
        began = time.monotonic()
        master.kill()
        dead = time.monotonic()
        master.spawn()

        def told() -> bool:
            return sum(ack.at > dead for ack in list(load.acks)) >= LOADED_BY

        wait_until("the producer to be answered again", told, PATIENCE_S)
        return {"again": longest_gap([ack.at for ack in list(load.acks)], began)}

    def freeze(self, master: Replica, load: Producer) -> Mapping[str, float]:
        epoch = self.group.await_master().master_epoch
        began = time.monotonic()
        master.signal(signal.SIGSTOP)
        load.halt()
        try:
            found = self.switched(began, master)
            time.sleep(THAWED_AFTER_S)
        finally:
            thawed = time.monotonic()
            master.signal(signal.SIGCONT)
        return {"freeze": found.accepted_s, "thaw": self._until(thawed, lambda s: s.master_epoch > epoch and full(s))}

    def elect(self, master: Replica, load: Producer) -> Mapping[str, float]:
        """As mqadmin's electMaster does."""
        heir = next(broker for broker in self.group.brokers if broker is not master)
        fields = {
            "clusterName": CLUSTER,
            "brokerName": GROUP,
            "brokerId": str(heir.broker_id()),
            "designateElect": "true",
        }
        began = time.monotonic()
        reply = self.group.controllers.call(ELECT_MASTER, fields)
        if reply.code != 0:
            raise AssertionError(f"{self.kind}: electMaster: {reply.code} {reply.remark}")
        return {"elect": self._gap(load, master, began)}

    def stop(self, master: Replica, load: Producer) -> Mapping[str, float]:
        began = time.monotonic()
        master.signal(signal.SIGTERM)
        seconds = self._gap(load, master, began)
        load.join()
        wait_until("the stopped master to end", lambda: not master.running(), PATIENCE_S)
        master.kill()  # reaps it
        master.spawn()
        return {"stop": seconds}

    def back(self, master: Replica, load: Producer) -> Mapping[str, float]:
        began = time.monotonic()
        master.kill()
        load.halt()
        self.switched(began, master)
        number = master.broker_id()
        self.group.await_master(lambda state: number not in state.in_sync)
        failover.await_quiet()
        began = time.monotonic()
        master.spawn()
        return {"back": self._until(began, lambda state: number in state.in_sync and number in state.alive)}

    def both(self, master: Replica, load: Producer) -> Mapping[str, float]:
        leader = self.group.controllers.await_leader()
        began = time.monotonic()
        for process in (leader, master):
            process.signal(signal.SIGKILL)
        load.halt()
        try:
            found = self.switched(began, master)
        finally:
            for process in (leader, master):
                process.kill()  # reaps it
        for process in (leader, master):
            process.spawn()
        return {"both": found.accepted_s}

    def _moved(self, load: Producer, old: Replica, since: float) -> list[Ack]:
        """What the producer was told by the new master, as soon as it went over to it."""

        def told() -> list[Ack]:
            acks = load.answered_by_another(old.address, since)
            return acks if len(acks) >= LOADED_BY else []

        found = wait_until("the producer to find the new master", told, PATIENCE_S)
        assert isinstance(found, list)
        return found

    def _gap(self, load: Producer, old: Replica, since: float) -> float:
        self._moved(load, old, since)
        return longest_gap([ack.at for ack in list(load.acks)], since)

    def _until(self, began: float, wanted: Callable[[GroupState], bool]) -> float:
        """Seconds until the controllers say so; a replica that stays outside is started anew, and counted."""

        def said() -> bool:
            state = self.group.state()
            return state is not None and state.master_id > 0 and wanted(state)

        race = Race(began, 60)
        race.enter(said, None)
        try:
            return race.run()[0]
        except AssertionError:
            self.whole()
            return time.monotonic() - began

    def look_for_all(self) -> None:
        """Find the lost ones. To be called last, when nobody sends."""
        self.switches.seen(self.whole().master_epoch)
        records = disk.log(self.group.master().root)
        stored = {(record.queue, record.queue_offset): record.body for record in records if record.topic == TOPIC}
        self.lost = Counter({row: count_lost(acks, stored) for row, acks in self.acks.items()})


def full(state: GroupState) -> bool:
    """All replicas count, and live."""
    return len(state.in_sync) == len(state.addresses) == len(state.alive)


def counts(sides: list[Side], rows: list[str]) -> str:
    """What happened to messages and masters, by row."""
    lines = [f"{'row':8} {'side':5} {'needless':>8} {'acknowledged':>12} {'lost':>6} {'failed sends':>12}"]
    for row in rows:
        for side in sides:
            if row in side.acks:
                lines.append(
                    f"{row:8} {side.kind:5} {side.switches.needless[row]:8} {len(side.acks[row]):12} "
                    f"{'?' if side.lost is None else side.lost[row]:>6} {side.failed[row]:12}"
                )
    return "\n".join(lines)


def main(argv: list[str]) -> int:
    """Measure, and print the two tables; 1 if a message of ours was lost or a round of ours failed."""
    given = failover.arguments(
        argv, "benchmarks.broker_failover", __doc__, ROWS, rounds=20, sides="ours,java", prefix="broker-failover"
    )
    folder = scratch("broker-failover")
    sides = [Side(kind, folder / kind, given.rounds) for kind in given.sides]
    try:
        failover.begin(sides)
        for row in given.rows:
            failover.take_turns(sides, row, given.rounds)
        for side in sides:
            if not side.given_up:
                side.attempt("to look for what was acknowledged", side.look_for_all)
        say("\n" + failover.table(sides, FIGURES) + "\n\n" + counts(sides, given.rows))
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
        failover.keep(given.out, "broker-failover", failover.document(sides, messages=messages))
        return int(
            any(side.kind == "ours" and (side.failures or side.lost is None or side.lost.total()) for side in sides)
        )
    finally:
        end_all()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
