"""Which sends waited for long, and for what: a disk, a replica, or this process itself.

Theory of operation.  While sends wait, the one that waits for longest is looked at twenty times a second.  What it
lacks is looked into while it lacks it, for afterwards nobody knows; told is one line when the wait is over, or has gone
on for a second.  A look that comes late says how long nothing was done at all, sends included.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketha.broker.acknowledgements import Acknowledgements, Lack, Oldest
from rocketha.observe import events
from rocketha.observe.logging import emit, lasting, make_logger
from rocketha.observe.metrics import Counter, Registry
from rocketha.protocols.turn import Turn
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.process.platform import Platform
from rocketha.services.process.ticker import Ticker
from rocketha.services.replication.service import Replication, ReplicaView
from rocketha.services.waiting.flusher import SLOW_SYNC_S, Flusher

LOOK_S = 0.05
SLOW_MS = 200
"""What is waited for longer than this is told; clients see 250 ms as "broker busy"."""
AGAIN_MS = 1000
SYNC_MS = 50
"""A sync is named as a cause only from here on: under SYNC_FLUSH one is nearly always under way."""


@attrs.frozen
class _Wait:
    waited_ms: int
    lack: Lack
    cause: str
    told_ms: int


class SlowPuts(BrokerFeature):
    """Of one broker.

    :ivar stalls: how often this process stood still.
    """

    def __init__(
        self, waiting: Acknowledgements, flusher: Flusher, replication: Replication, turn: Turn, platform: Platform
    ) -> None:
        self._told: dict[Lack, Counter] = {lack: Counter() for lack in Lack}
        self.stalls = 0
        self._waiting = waiting
        self._flusher = flusher
        self._replication = replication
        self._turn = turn
        self._reactor = reactor = platform.reactor
        self._wait: _Wait | None = None
        self._last: tuple[float, _Wait] | None = None
        self._lookout = platform.stalls.lookout(LOOK_S, SLOW_MS / 1000)
        self._ticker = Ticker(reactor, lasting(self._look, "the look for slow sends"), LOOK_S)
        self._log = make_logger()

    def start(self) -> None:
        self._turn.afterwards.append(self._turn_ended)

    def stop(self) -> None:
        self._turn.afterwards.remove(self._turn_ended)
        self._ticker.stop()
        self._tell()

    def _turn_ended(self) -> None:
        if not self._ticker.running and len(self._waiting):
            self._lookout.begin()
            self._ticker.start()

    def install(self, metrics: Registry) -> None:
        slow = metrics.counters(
            "rocketha_slow_puts_total", f"Times that sends waited for more than {SLOW_MS} ms.", ("lacked",)
        )
        self._told = {lack: slow.labelled(lack.value) for lack in Lack}
        metrics.ask(
            "rocketha_reactor_stalls_total",
            f"Times that this process did nothing for {SLOW_MS} ms while sends waited.",
            lambda: self.stalls,
            "counter",
        )

    def runtime_facts(self) -> Mapping[str, str]:
        """The last slow wait, and the last slow sync, which sends need not have waited for."""
        now_s, facts = self._reactor.seconds(), {}
        if self._last is not None:
            at_s, wait = self._last
            facts["rocketha.slowPut"] = (
                f"{wait.waited_ms} ms, {int(now_s - at_s)} s ago, {wait.lack.value}: {wait.cause}"
            )
        began_s = self._flusher.syncing_since_s
        syncing_s = 0.0 if began_s is None else now_s - began_s
        if syncing_s >= SLOW_SYNC_S:
            facts["rocketha.slowSync"] = f"{int(syncing_s * 1000)} ms, 0 s ago"
        elif self._flusher.slow_sync is not None:
            took_s, ended_s = self._flusher.slow_sync
            facts["rocketha.slowSync"] = f"{int(took_s * 1000)} ms, {int(now_s - ended_s)} s ago"
        return facts

    def _look(self) -> None:
        now_s = self._reactor.seconds()
        if self._lookout.look():
            self.stalls += 1
        oldest, now_ms = self._waiting.oldest, int(now_s * 1000)
        if oldest is None:
            self._ticker.stop()
        if oldest is None or now_ms - oldest.since_ms < SLOW_MS:
            self._tell()
            return
        before, waited_ms = self._wait, now_ms - oldest.since_ms
        told_ms = now_ms if before is None else before.told_ms
        if before is None or waited_ms >= before.waited_ms:
            self._wait = _Wait(waited_ms, oldest.lack, self._cause(oldest, now_s), told_ms)
        if now_ms - told_ms >= AGAIN_MS:
            self._tell()

    def _tell(self) -> None:
        wait, self._wait = self._wait, None
        if wait is not None:
            self._told[wait.lack].value += 1
            self._last = self._reactor.seconds(), wait
            emit(self._log, events.PutsSlow(wait.waited_ms, wait.lack.value, wait.cause))

    def _cause(self, oldest: Oldest, now_s: float) -> str:
        since_s = self._flusher.syncing_since_s
        sync_ms = 0 if since_s is None else int((now_s - since_s) * 1000)
        sync = f"a sync of the log has been under way for {sync_ms} ms"
        if oldest.lack is Lack.DISK:
            return "the log waits to be synced" if since_s is None else sync
        behind = [
            f"{_named(view)} lacks {oldest.end - view.acknowledged} bytes"
            if view.acknowledged >= 0
            else f"{_named(view)} has said nothing yet"
            for view in self._replication.replica_views().values()
            if view.acknowledged < oldest.end
        ]
        return "; ".join([*behind, *([sync] if sync_ms >= SYNC_MS else [])]) or "too few replicas answer"


def _named(view: ReplicaView) -> str:
    """By its id where that is known: the port of its connection says little."""
    return f"replica {view.broker_id} at {view.peer}" if view.broker_id is not None else view.peer
