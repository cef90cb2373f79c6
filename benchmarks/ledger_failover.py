"""How long a group in DLedger mode without its leader stands still: three brokers of ours, three of Java's.

    python -m benchmarks.ledger_failover                                   twenty rounds a row
    python -m benchmarks.ledger_failover --rounds 3 --rows kill,freeze     a quick look

Each side is three brokers with RocketMQ's defaults on loopback under a nameserver of ours; both live side by side
through the whole run and are measured in turn, each time when both are whole again and the machine is quiet.
Everything is polled every 10 ms.

kill      kill -9 of the master to a send that its successor accepts; kill-route: and the nameserver names it
freeze    SIGSTOP of the master, the same
stop      SIGTERM of the master: the longest time in which no send of a producer that works as Java's default one was
          accepted
transfer  DLedger's LEADERSHIP_TRANSFER to another member: from the first question who leads to the answer

The load, and what is looked for in the end, are those of ``broker_failover``.  Terms are not counted: an election of
DLedger's may take several.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.interop.harness import disk, remoting
from tests.interop.harness.ledgers import GROUP, LedgerGroup
from tests.interop.harness.pairs import log_state, seed_topics
from tests.interop.harness.processes import wait_until
from tests.interop.harness.roles import OurNamesrv, Role, _Broker
from twisted.internet import defer

from rocketha.admin.dledger import Ledger

from . import loaded
from .failover import Figure
from .producer import Producer

FIGURES = {
    "kill": [Figure("kill", target=0.5), Figure("kill-route")],
    "freeze": [Figure("freeze", target=2.5), Figure("freeze-route")],
    "stop": [Figure("stop", target=0.3)],
    "transfer": [Figure("transfer", target=0.2)],
}


class State(NamedTuple):
    master_epoch: int = 0


class Ledgers(LedgerGroup):
    """Three brokers of one kind, and their nameserver."""

    namesrv: OurNamesrv

    def __init__(self, kind: str, folder: Path) -> None:
        super().__init__((kind,) * 3, folder, OurNamesrv("namesrv", folder / "namesrv"))

    @property
    def processes(self) -> list[Role]:
        return [self.namesrv, *self.brokers]

    def start(self, timeout_s: float = 60) -> None:
        self.namesrv.start()
        for broker in self.brokers:
            seed_topics(broker)
        super().start()
        self.await_whole(timeout_s)

    def kill(self) -> None:
        for process in reversed(self.processes):
            process.kill()

    def outsiders(self) -> list[_Broker]:
        """Who is not registered, or behind the longest log."""
        registered = self.registered().values()
        ends = {broker: state.end for broker in self.brokers if (state := log_state(broker)) is not None}
        longest = max(ends.values(), default=0)
        return [each for each in self.brokers if each.address not in registered or ends.get(each) != longest]

    def await_whole(self, timeout_s: float) -> State:
        wait_until("a whole group", lambda: not self.outsiders() and self.master() is not None, timeout_s)
        return State()


class _Straight:
    """A client that waits for its answers, with no reactor."""

    def request(
        self, address: str, code: int, fields: Mapping[str, str] | None, body: bytes, timeout_s: float
    ) -> defer.Deferred[remoting.Reply]:
        return defer.succeed(remoting.call(address, code, dict(fields or {}), body, timeout_s))


class Side(loaded.Side):
    """A group of one kind."""

    group: Ledgers

    def __init__(self, kind: str, folder: Path, rounds: int) -> None:
        super().__init__(kind, Ledgers(kind, folder), rounds)

    def measures(self) -> Mapping[str, loaded.Measure]:
        return {row: getattr(self, row) for row in FIGURES}

    def namesrvs(self) -> str:
        return self.group.namesrv.address

    def stored(self) -> Iterable[disk.Record]:
        number = self.group.brokers.index(self.group.await_master())
        return disk.ledger(self.group.brokers[number].root / f"dledger-n{number}" / "data")

    def freeze(self, master: _Broker, load: Producer) -> Mapping[str, float]:
        found = self.taken_away(signal.SIGSTOP, master, load, lambda: master.signal(signal.SIGCONT))
        return {"freeze": found.accepted_s, "freeze-route": found.routed_s}

    def transfer(self, master: _Broker, load: Producer) -> Mapping[str, float]:
        """As ``rocketha dledger transfer`` does it."""
        peers = dict(each.split("-", 1) for each in self.group.peers.split(";"))
        to = self.group.brokers.index(self.group.followers()[0])
        began = time.monotonic()
        handed_over = Ledger(_Straight(), GROUP, peers).transfer(f"n{to}")
        failures: list[object] = []
        defer.Deferred.fromCoroutine(handed_over).addErrback(failures.append)
        took_s = time.monotonic() - began
        if failures:
            raise AssertionError(f"transfer to n{to}: {failures[0]}")
        load.halt()
        self.group.await_successor(master)
        return {"transfer": took_s}


def main(argv: list[str]) -> int:
    return loaded.program(argv, "ledger_failover", __doc__, FIGURES, Side)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
