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
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.interop.harness import disk
from tests.interop.harness.controllers import CLUSTER, GROUP, GroupState, ReplicaGroup
from tests.interop.harness.processes import wait_until
from tests.interop.harness.roles import _Broker

from . import failover, loaded
from .failover import Figure, Race
from .loaded import LOADED_BY, PATIENCE_S
from .producer import Producer, longest_gap

ELECT_MASTER = 1002
ROWS = ("kill", "client", "again", "freeze", "elect", "stop", "back", "both")
FIGURES = {row: [Figure(row)] for row in ROWS} | {
    "kill": [Figure("kill"), Figure("kill-route")],
    "freeze": [Figure("freeze"), Figure("thaw")],
}
THAWED_AFTER_S = 1.0


class Side(loaded.Side):
    """Brokers of one kind under controllers of the same."""

    group: ReplicaGroup
    switching = dict.fromkeys(ROWS, 1)

    def __init__(self, kind: str, folder: Path, rounds: int) -> None:
        super().__init__(kind, ReplicaGroup(kind, folder, kinds=(kind,) * 3, namesrv="ours"), rounds)

    def measures(self) -> Mapping[str, loaded.Measure]:
        return {row: getattr(self, row) for row in ROWS}

    def namesrvs(self) -> str:
        return self.group.namesrv_addresses

    def stored(self) -> Iterable[disk.Record]:
        return disk.log(self.group.master().root)

    def client(self, master: _Broker, load: Producer) -> Mapping[str, float]:
        began = time.monotonic()
        master.kill()
        seconds = self.moved(load, master, began)[0].at - began
        master.spawn()
        return {"client": seconds}

    def again(self, master: _Broker, load: Producer) -> Mapping[str, float]:
        began = time.monotonic()
        master.kill()
        dead = time.monotonic()
        master.spawn()

        def told() -> bool:
            return sum(ack.at > dead for ack in list(load.acks)) >= LOADED_BY

        wait_until("the producer to be answered again", told, PATIENCE_S)
        return {"again": longest_gap([ack.at for ack in list(load.acks)], began)}

    def freeze(self, master: _Broker, load: Producer) -> Mapping[str, float]:
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

    def elect(self, master: _Broker, load: Producer) -> Mapping[str, float]:
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
        return {"elect": self.gap(load, master, began)}

    def back(self, master: _Broker, load: Producer) -> Mapping[str, float]:
        number = self.group.await_master().master_id
        began = time.monotonic()
        master.kill()
        load.halt()
        self.switched(began, master)
        self.group.await_master(lambda state: number not in state.in_sync)
        failover.await_quiet()
        began = time.monotonic()
        master.spawn()
        return {"back": self._until(began, lambda state: number in state.in_sync and number in state.alive)}

    def both(self, master: _Broker, load: Producer) -> Mapping[str, float]:
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


def full(state: GroupState) -> bool:
    """All replicas count, and live."""
    return len(state.in_sync) == len(state.addresses) == len(state.alive)


def main(argv: list[str]) -> int:
    return loaded.program(argv, "broker_failover", __doc__, FIGURES, Side)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
