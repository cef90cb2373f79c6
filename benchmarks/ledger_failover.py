"""How long a group in DLedger mode without its leader stands still: three brokers of ours, three of Java's.

    python -m benchmarks.ledger_failover                                   twenty rounds a row
    python -m benchmarks.ledger_failover --rounds 3 --rows kill,freeze     a quick look

Each side is three brokers with RocketMQ's defaults on loopback under a nameserver of ours; both live side by side
through the whole run and are measured in turn, each time when both are whole again and the machine is quiet.
Everything is polled every 10 ms.

kill      kill -9 of the master to a send that its successor accepts; kill-route: and the nameserver names it
freeze    SIGSTOP of the master, the same
stop      SIGTERM of the master: the longest time in which no send of a producer that works as Java's default one was
          accepted; stop-failed: sends of it that failed after all their tries
transfer  DLedger's LEADERSHIP_TRANSFER to another member: until it is answered with success

A load of 100 messages a second runs until the fault, in stop through it (``producer.py``).  In the end every message
that was acknowledged is looked for in the master's log, at the place that the sender was told.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.interop.harness import disk, remoting
from tests.interop.harness.controllers import TOPIC
from tests.interop.harness.ledgers import GROUP, LedgerGroup
from tests.interop.harness.pairs import log_state, seed_topics
from tests.interop.harness.processes import NotReady, end_all, scratch, wait_until
from tests.interop.harness.roles import OurNamesrv, _Broker

from rocketha.wire import dledger_json
from rocketha.wire import dledger_values as values

from . import failover
from .failover import Figure, say, send_once
from .producer import POLL_ROUTE_S, Ack, Producer, count_lost, longest_gap, send_straight

ROWS = ("kill", "freeze", "stop", "transfer")
FIGURES = [
    Figure("kill", target=0.5),
    Figure("kill-route"),
    Figure("freeze", target=2.5),
    Figure("freeze-route"),
    Figure("stop", target=0.3),
    Figure("stop-failed", "sends", target=0),
    Figure("transfer", target=0.2),
]
LOADED_BY = 50
PATIENCE_S = 180
STOP_S = 8.0
"""After SIGTERM: a producer asks for the route each 30 s, which is not what is measured."""


class Ledgers(LedgerGroup):
    """What a side needs of its group."""

    @property
    def processes(self) -> list[_Broker]:
        return self.brokers

    def kill(self) -> None:
        for broker in self.brokers:
            broker.kill()

    def whole(self) -> bool:
        """All registered, and with the same log."""
        reply = remoting.call(self.namesrv.address, 106)
        known = remoting.loads(reply.body)["brokerAddrTable"].get(GROUP, {"brokerAddrs": {}})["brokerAddrs"]
        states = [log_state(broker) for broker in self.brokers]
        ends = {state.end for state in states if state is not None}
        return len(known) == len(self.brokers) and None not in states and len(ends) == 1


class Side(failover.Side):
    """A group of one kind."""

    def __init__(self, kind: str, folder: Path, rounds: int) -> None:
        namesrv = OurNamesrv("namesrv", folder / "namesrv")
        super().__init__(kind, Ledgers((kind,) * 3, folder, namesrv))  # type: ignore[arg-type]
        self.ledger: Ledgers = self.group  # type: ignore[assignment]
        self.rounds = rounds
        self.acks: list[Ack] = []
        self.lost: Counter[str] | None = None

    def begin(self) -> None:
        self.ledger.namesrv.start()
        for broker in self.ledger.brokers:
            seed_topics(broker)
        self.ledger.start()
        wait_until("the first message", lambda: send_once(self.ledger.await_master().address), 60)

    def round(self, row: str, *, whole: bool = True) -> Mapping[str, float]:
        self.whole()
        found = self.measure(row)
        for name, value in found.items():
            self.samples.setdefault(name, []).append(value)
        return found

    def whole(self) -> Any:
        try:
            wait_until("a whole group", self.ledger.whole, failover.ANEW_S)
        except NotReady:
            self.stuck += 1
            raise AssertionError(f"{self.kind} does not become whole") from None

    def measure(self, row: str) -> Mapping[str, float]:
        measures: dict[str, Callable[[_Broker, Producer], Mapping[str, float]]] = {
            "kill": partial(self.taken_away, row, signal.SIGKILL),
            "freeze": partial(self.taken_away, row, signal.SIGSTOP),
            "stop": self.stop,
            "transfer": self.transfer,
        }
        master = self.ledger.await_master()
        done = len(self.samples.get(row, ()))
        load = Producer(self.ledger.namesrv.address, (done + 0.5) / self.rounds * POLL_ROUTE_S).start()
        try:
            wait_until("messages", lambda: len(load.acks) >= LOADED_BY, PATIENCE_S)
            return measures[row](master, load)
        finally:
            load.join()
            self.acks += load.acks

    def send(self, address: str) -> bool:
        ack = send_straight(address)
        if ack is not None:
            self.acks.append(ack)
        return ack is not None

    def taken_away(self, row: str, how: signal.Signals, master: _Broker, load: Producer) -> Mapping[str, float]:
        began = time.monotonic()
        master.signal(how)
        load.halt()
        try:
            found = self.switched(began, master)  # type: ignore[arg-type]
        finally:
            if how is signal.SIGSTOP:
                master.signal(signal.SIGCONT)
            else:
                master.kill()  # reaps it
        if how is not signal.SIGSTOP:
            master.spawn()
        return {row: found.accepted_s, f"{row}-route": found.routed_s}

    def stop(self, master: _Broker, load: Producer) -> Mapping[str, float]:
        failed, began = load.failed, time.monotonic()
        master.signal(signal.SIGTERM)
        wait_until("the stopped master to end", lambda: not master.running(), PATIENCE_S)
        master.kill()  # reaps it
        self.ledger.await_successor(master)
        time.sleep(max(0.0, began + STOP_S - time.monotonic()))
        load.join()
        master.spawn()
        times = [ack.at for ack in load.acks]
        return {"stop": longest_gap(times, began) if times[-1] > began else STOP_S, "stop-failed": load.failed - failed}

    def transfer(self, master: _Broker, load: Producer) -> Mapping[str, float]:
        """As dledger's own command line does it."""
        brokers, peers = self.ledger.brokers, dict(each.split("-", 1) for each in self.ledger.peers.split(";"))
        leader, to = (f"n{brokers.index(broker)}" for broker in (master, self.ledger.followers()[0]))

        def ask(request: values.Message) -> values.Message:
            code = values.CODES[type(request)]
            reply = remoting.call(peers[leader], code, {}, dledger_json.encode(request), timeout_s=10)
            return dledger_json.decode(values.EXCHANGES[code].answer, reply.body)

        term = ask(values.HeartBeatRequest(group=GROUP, remote_id=leader, leader_id="-")).term
        request = values.TransferRequest(group=GROUP, remote_id=leader, term=term, transfer_id=leader, transferee_id=to)
        began = time.monotonic()
        answer = ask(request)
        took_s = time.monotonic() - began
        if answer.code != values.DLedgerResponseCode.SUCCESS:
            raise AssertionError(f"{self.kind}: transfer from {leader} to {to}: {answer.code}")
        load.halt()
        self.ledger.await_successor(master)
        return {"transfer": took_s}

    def look_for_all(self) -> None:
        """Find the lost ones. To be called last, when nobody sends."""
        self.whole()
        master = self.ledger.await_master()
        number = self.ledger.brokers.index(master)
        records = disk.ledger(master.root / f"dledger-n{number}" / "data")
        stored = {(record.queue, record.queue_offset): record.body for record in records if record.topic == TOPIC}
        self.lost = Counter({"all": count_lost(self.acks, stored)})


def main(argv: list[str]) -> int:
    """Measure, and print the table; 1 if a message of ours was lost or a round of ours failed."""
    given = failover.arguments(
        argv, "benchmarks.ledger_failover", __doc__, ROWS, rounds=20, sides="ours,java", prefix="ledger-failover"
    )
    folder = scratch("ledger-failover")
    sides = [Side(kind, folder / kind, given.rounds) for kind in given.sides]
    try:
        failover.begin(sides)
        for row in given.rows:
            failover.take_turns(sides, row, given.rounds)
        for side in sides:
            if not side.given_up:
                side.attempt("to be looked through", side.look_for_all)
    finally:
        end_all()
    say(failover.table(sides, FIGURES))
    for side in sides:
        say(f"{side.kind}: {len(side.acks)} acknowledged, lost {side.lost and side.lost.total()}")
    failover.keep(given.out, "ledger-failover", failover.document(sides, lost=json.dumps([s.lost for s in sides])))
    return int(any(side.kind == "ours" and (side.failures or side.lost is None or side.lost.total()) for side in sides))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
