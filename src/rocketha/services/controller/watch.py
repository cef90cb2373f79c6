"""Watching brokers: the heartbeat table and the suspicion machine, driven by the clock, connections and probes.

Decides nothing itself: what happened goes into :class:`~rocketha.controller.suspicion.Suspicions`, and the effects that
come back are carried out here; an election is handed to the controller's service.

Java: ``DefaultBrokerHeartbeatManager`` with its scan, ``ControllerManager.onBrokerInactive``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twisted.internet import defer

from rocketha.controller.events import Alive
from rocketha.controller.liveness import AttendedClock, Heartbeat, Liveness, ReplicaKey
from rocketha.controller.state import ControllerState
from rocketha.controller.suspicion import Suspicions
from rocketha.controller.suspicion_effects import (
    AskControllers,
    Cleared,
    Died,
    Effect,
    Elect,
    Held,
    Probe,
    Reading,
    Suspected,
    Verdict,
)
from rocketha.controller.watched import Times, address_of
from rocketha.errors import RequestRefused
from rocketha.observe.logging import make_logger
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.controller.probes import Probes
from rocketha.wire.codes import ResponseCode

TICK_S = 0.05
GAP_MS = 250
"""Longer between two readings of the clock, and this process stood still: brokers are not blamed for that time."""

UPKEEP_S = 0.5
PATIENCE_S = 2.0
"""How long a request may wait until it is known whether a master lives."""


class Watch:
    """What one controller knows of who is alive.

    :param others: id to ``host:port`` of the other voting controllers, now.
    :param elect: carries out an election; :meth:`election_ended` must follow.
    """

    def __init__(
        self,
        reactor: Any,
        seconds: Callable[[], float],
        config: ControllerConfig,
        state: ControllerState,
        others: Callable[[], Mapping[str, str]],
        elect: Callable[[Elect], None],
    ) -> None:
        self._reactor = reactor
        self._seconds = seconds
        self._config = config
        self._state = state
        self._others = others
        self._elect = elect
        self._log = make_logger()
        self._clock = AttendedClock(int(TICK_S * 1000), GAP_MS)
        self._stood_still_ms = 0
        self._next_scan_ms = self._next_upkeep_ms = 0
        self._waiting: dict[ReplicaKey, list[defer.Deferred[None]]] = {}
        self.liveness = Liveness(config.broker_lease)
        times = Times(silence=config.broker_silence, round=config.broker_probe_timeout, pause=config.broker_probe_pause)
        self.suspicions = Suspicions(state, self.liveness, times, config.enable_elect_unclean_master)
        self.probes = Probes(reactor, self.suspicions.reachable)
        self.heartbeats = self.suspected = self.deaths = 0

    def now_ms(self) -> int:
        """Attended time."""
        return self._clock.read(int(self._seconds() * 1000))

    # -- what happens ---------------------------------------------------------------------------------------------

    def heard(self, key: ReplicaKey, beat: Heartbeat, connection: int) -> None:
        """A heartbeat; one from elsewhere than where the replica is registered does not say that this one lives."""
        self.heartbeats += 1
        if address_of(self._state, key) not in (None, beat.address):
            return
        self.liveness.heard(key, beat, connection, self.now_ms())
        self._carry_out(self.suspicions.heard(key))

    def connection_lost(self, connection: int) -> None:
        """A connection ended; it may be that of heartbeats."""
        for key in self.liveness.connection_lost(connection):
            self._carry_out(self.suspicions.connection_closed(key, self.now_ms()))

    def led(self) -> None:
        """This controller leads."""
        self._next_scan_ms = self._next_upkeep_ms = 0
        self.suspicions.controllers = len(self._others()) + 1
        self._carry_out(self.suspicions.led(self.now_ms()))

    def deposed(self) -> None:
        """It does not."""
        self.suspicions.deposed()
        self.probes.drop_links()
        self._release()

    def election_ended(self, cluster: str, broker_name: str) -> None:
        """An election handed out was applied or failed."""
        self.suspicions.election_ended(cluster, broker_name, self.now_ms())

    def tick(self) -> None:
        """To be called every :data:`TICK_S`."""
        now_ms = self.now_ms()
        if self._clock.stood_still_ms != self._stood_still_ms:
            late_ms = self._clock.stood_still_ms - self._stood_still_ms
            self._stood_still_ms = self._clock.stood_still_ms
            self._log.warn("this process stood still for {late_ms} ms", late_ms=late_ms)
        suspicions = self.suspicions
        if not suspicions.leading:
            return
        suspicions.unclean = self._config.enable_elect_unclean_master
        suspicions.controllers = len(self._others()) + 1
        self._carry_out(suspicions.tick(now_ms))
        if now_ms >= self._next_scan_ms:
            self._next_scan_ms = now_ms + self._config.scan_inactive_master_interval
            self._carry_out(suspicions.scan(now_ms))
        if now_ms >= self._next_upkeep_ms:
            self._next_upkeep_ms = now_ms + int(UPKEEP_S * 1000)
            self._keep_links(now_ms)

    def stop(self) -> None:
        """End every connection of ours."""
        self.deposed()
        self.probes.close()

    # -- what requests ask ----------------------------------------------------------------------------------------

    def alive(self, cluster: str, broker_name: str, broker_id: int, now_ms: int = 0) -> Alive | None:
        """The last heartbeat of a broker that is thought alive, as evidence (``requests.Hearing``).

        :param now_ms: not looked at: attended time counts here.
        """
        key = ReplicaKey(cluster, broker_name, broker_id)
        return self.evidence(key) if self.liveness.alive(key, self.now_ms()) else None

    def evidence(self, key: ReplicaKey) -> Alive:
        """The last heartbeat of a broker, however old."""
        last = self.liveness.last(key)
        if last is None:
            return Alive(key.broker_id)
        return Alive(key.broker_id, last.epoch, last.max_offset, last.priority, last.confirms)

    def find_out(self, key: ReplicaKey, why: str) -> defer.Deferred[None]:
        """Fires when it is known whether this master lives, or cannot be known soon."""
        self._carry_out(self.suspicions.doubt(key, why, self.now_ms()))
        return self._when_settled(key)

    def registers(self, key: ReplicaKey, moved: bool) -> defer.Deferred[None]:
        """The master registers; fires when it is known whether it was restarted.

        :param moved: whether at another address than before; fails with ``RequestRefused`` where it is not known to be
            gone from there: told that it still leads, it would be a second master of that epoch.
        """
        self._carry_out(self.suspicions.registered(key, self.now_ms(), moved))
        settled = self._when_settled(key)
        return settled.addCallback(lambda _: self._refuse_a_second(key)) if moved else settled

    def _refuse_a_second(self, key: ReplicaKey) -> None:
        last = self.liveness.last(key)
        if self.suspicions.leading and self.liveness.alive(key, self.now_ms()):
            where = last.address if last is not None else "its address"
            remark = f"broker {key} still lives at {where}: one that registers elsewhere has to wait until it is gone"
            raise RequestRefused(ResponseCode.CONTROLLER_INVALID_REQUEST, remark)

    def _when_settled(self, key: ReplicaKey) -> defer.Deferred[None]:
        waiter: defer.Deferred[None] = defer.Deferred()
        if self.suspicions.settled(key):
            waiter.callback(None)
            return waiter
        self._waiting.setdefault(key, []).append(waiter)
        timer = self._reactor.callLater(PATIENCE_S, self._release_one, key, waiter)

        def over(result: None) -> None:
            if timer.active():
                timer.cancel()

        return waiter.addCallback(over)

    def _release_one(self, key: ReplicaKey, waiter: defer.Deferred[None]) -> None:
        waiters = self._waiting.get(key, [])
        if waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self._waiting[key]
            waiter.callback(None)

    def _release(self) -> None:
        """Whoever waits for what is settled now goes on."""
        for key in [key for key in self._waiting if self.suspicions.settled(key)]:
            for waiter in self._waiting.pop(key):
                waiter.callback(None)

    # -- effects --------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """First what others wait for, then what is only said: a line of log costs as much as a probe."""
        said: list[Suspected | Held | Died | Cleared] = []
        for effect in effects:
            if isinstance(effect, Probe):
                self.probes.probe(effect, self._port_answered)
            elif isinstance(effect, AskControllers):
                self._ask_controllers(effect)
            elif isinstance(effect, Elect):
                self._elect(effect)
            else:
                said.append(effect)
        for line in said:
            self._audit(line)
        if self._waiting:
            self._release()

    def _audit(self, effect: Suspected | Held | Died | Cleared) -> None:
        if isinstance(effect, Suspected):
            self.suspected += 1
            self._log.warn("broker {key} is suspected: {why}", key=str(effect.replica), why=effect.why)
        elif isinstance(effect, Held):
            self._log.info("broker {key} is not given up: {why}", key=str(effect.replica), why=effect.why)
        elif isinstance(effect, Died):
            self.deaths += 1
            self._log.warn("broker {key} is dead: {why}", key=str(effect.replica), why=effect.why)
        else:
            was = "dead" if effect.was_dead else "suspected"
            self._log.info("broker {key} is heard again; it was {was}", key=str(effect.replica), was=was)

    def _port_answered(self, probe: Probe, verdict: Verdict, reading: Reading) -> None:
        now_ms = self.now_ms()
        self._carry_out(self.suspicions.port_answered(probe.question, probe.replica, verdict, reading, now_ms))

    def _ask_controllers(self, effect: AskControllers) -> None:
        timeout_s = self._config.broker_probe_timeout / 1000
        for node, address in sorted(self._others().items()):
            self.probes.do_you_hear(address, effect.replica, timeout_s, self._voice_of(effect, node))

    def _voice_of(self, effect: AskControllers, node: str) -> Callable[[bool, int | None], None]:
        def voice(connected: bool, heard_ms_ago: int | None) -> None:
            now_ms = self.now_ms()
            self._carry_out(self.suspicions.controller_answered(effect.question, node, connected, heard_ms_ago, now_ms))

        return voice

    def _keep_links(self, now_ms: int) -> None:
        keys = {}
        for group in self._state.groups():
            for number in group.in_sync:
                address = group.address(number)
                key = ReplicaKey(group.cluster, group.broker_name, number)
                if address is not None and self.liveness.connected(key):
                    keys[address] = key
        self.probes.keep_links(keys, now_ms, lambda address: self.liveness.age_ms(keys[address], self.now_ms()))
