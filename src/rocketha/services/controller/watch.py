"""Watching brokers: the heartbeat table and the failure detector, driven by the clock, connections and probes.

Decides nothing itself: what happened goes into :class:`~rocketha.controller.failure_detector.FailureDetector`, and the
effects that come back are carried out here; an election is handed to the controller's service.

Java: ``DefaultBrokerHeartbeatManager`` with its scan, ``ControllerManager.onBrokerInactive``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
from twisted.internet import defer

from rocketha.controller.detector_effects import (
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
from rocketha.controller.elections import is_behind
from rocketha.controller.events import Alive
from rocketha.controller.failure_detector import FailureDetector
from rocketha.controller.liveness import Heartbeat, Liveness, ReplicaKey
from rocketha.controller.state import ControllerState
from rocketha.controller.watched import Times, address_of
from rocketha.errors import RequestRefused
from rocketha.namesrv.own_port import OwnPort, own_port
from rocketha.observe import events
from rocketha.observe.logging import emit, make_logger
from rocketha.protocols.endpoints import Dialer
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.controller.probes import Probes
from rocketha.services.process.stalls import Stalls
from rocketha.wire.codes import ResponseCode

TICK_S = 0.05
STALL_S = 0.2
"""Later than this is a standstill of this process: brokers are not blamed for that time."""

UPKEEP_S = 0.5
PATIENCE_S = 2.0
"""How long a request may wait until it is known whether a master lives."""


class Watch:
    """What one controller knows of who is alive.

    :param others: id to ``host:port`` of the other voting controllers, now.
    :param elect: carries out an election; :meth:`election_ended` must follow.
    :param stalls: whether this process stood still.
    """

    def __init__(
        self,
        dialer: Dialer,
        config: ControllerConfig,
        state: ControllerState,
        others: Callable[[], Mapping[str, str]],
        elect: Callable[[Elect], None],
        stalls: Stalls,
    ) -> None:
        self._reactor = dialer.reactor
        self._config = config
        self._state = state
        self._others = others
        self._elect = elect
        self._log = make_logger()
        self._lookout = stalls.lookout(TICK_S, STALL_S)
        self._stood_still_s = 0.0
        self._next_scan_ms = self._next_upkeep_ms = 0
        self._waiting: dict[ReplicaKey, list[defer.Deferred[None]]] = {}
        self.liveness = Liveness(config.broker_lease, held_ms=config.broker_silence)
        times = Times(silence=config.broker_silence, round=config.broker_probe_timeout, pause=config.broker_probe_pause)
        self.detector = FailureDetector(state, self.liveness, times, config.enable_elect_unclean_master)
        self.probes = Probes(dialer, self._link_tried)
        self._linked: dict[str, ReplicaKey] = {}  # where there is to be a link -> to whom
        self._ahead: dict[ReplicaKey, int] = {}  # members -> an epoch of theirs that the state does not have
        self._ahead_said: dict[ReplicaKey, int] = {}
        self.heartbeats = self.suspected = self.deaths = 0

    def now_ms(self) -> int:
        """Attended time: without the spells in which this process did not run, but for one tick of each."""
        self._stood_still_s += self._lookout.look()
        return int((self._reactor.seconds() - self._stood_still_s) * 1000)

    # -- what happens ---------------------------------------------------------------------------------------------

    def heard(self, key: ReplicaKey, beat: Heartbeat, connection: int, host: str) -> None:
        """A heartbeat came by a connection from a host.

        :raises RequestRefused: it does not say that this replica lives: it is registered elsewhere, or heard by another
            connection at the same time.
        """
        self.heartbeats += 1
        now_ms = self.now_ms()
        address = address_of(self._state, key)
        if address not in (None, beat.address):
            remark = f"broker {key} is registered at {address}, not at {beat.address}"
            raise RequestRefused(ResponseCode.CONTROLLER_INVALID_REQUEST, remark)
        if self.liveness.held(key, connection, now_ms, host):
            remark = f"broker {key} is heard by another connection"
            raise RequestRefused(ResponseCode.CONTROLLER_INVALID_REQUEST, remark)
        self.liveness.heard(key, beat, connection, now_ms)
        self.liveness.came_from(key, host)
        self._look_behind(key, beat.epoch)
        self._carry_out(self.detector.heard(key))

    def _look_behind(self, key: ReplicaKey, epoch: int) -> None:
        """Remember it, and say it once, if a member knows of an election that the state does not.

        Not by ``liveness``: there an epoch only moves forward, and a broker that followed a master has cut its own.
        """
        group = self._state.group(key.cluster, key.broker_name)
        if group is None or key.broker_id not in group.members or not is_behind(group, epoch):
            self._ahead.pop(key, None)
            return
        self._ahead[key] = epoch
        if self.detector.leading and self._ahead_said.get(key) != epoch:
            self._ahead_said[key] = epoch
            emit(self._log, events.ControllersBehind(str(key), epoch, group.master_epoch))

    def connection_lost(self, connection: int) -> None:
        """A connection ended; it may be that of heartbeats."""
        for key in self.liveness.connection_lost(connection):
            self._carry_out(self.detector.connection_closed(key, self.now_ms()))

    def led(self) -> None:
        """This controller leads."""
        self._next_scan_ms = self._next_upkeep_ms = 0
        self.detector.controllers = len(self._others()) + 1
        self._carry_out(self.detector.led(self.now_ms()))

    def deposed(self) -> None:
        """It does not."""
        self._ahead_said.clear()
        self.detector.deposed()
        self.probes.drop_links()
        self._release()

    def election_ended(self, cluster: str, broker_name: str) -> None:
        """An election handed out was applied or failed."""
        self.detector.election_ended(cluster, broker_name, self.now_ms())

    def tick(self) -> None:
        """To be called every :data:`TICK_S`."""
        now_ms = self.now_ms()
        detector = self.detector
        if not detector.leading:
            return
        detector.unclean = self._config.enable_elect_unclean_master
        detector.controllers = len(self._others()) + 1
        self._carry_out(detector.tick(now_ms))
        if now_ms >= self._next_scan_ms:
            self._next_scan_ms = now_ms + self._config.scan_inactive_master_interval
            self._carry_out(detector.scan(now_ms))
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

    def may_come(self, cluster: str, broker_name: str, broker_id: int) -> bool:
        """Whether a broker that was never heard may live (``requests.Hearing``)."""
        return self.detector.fresh.awaits(ReplicaKey(cluster, broker_name, broker_id), self.now_ms())

    def newest_epoch(self, cluster: str, broker_name: str) -> int:
        """The newest that a member named and that the state does not have, 0 if none did (``requests.Hearing``)."""
        group = self._state.find(cluster, broker_name)
        if group is None:
            return 0
        epochs = [self._ahead.get(ReplicaKey(*group.key, each), 0) for each in group.members]
        return max([each for each in epochs if is_behind(group, each)], default=0)

    def sets_behind(self) -> int:
        """Sets in which nobody is elected by itself, since a member names an epoch that the state does not have."""
        return sum(self.newest_epoch(*each) > 0 for each in {(key.cluster, key.broker_name) for key in self._ahead})

    def evidence(self, key: ReplicaKey) -> Alive:
        """The last heartbeat of a broker, however old."""
        last = self.liveness.last(key)
        if last is None:
            return Alive(key.broker_id)
        return Alive(key.broker_id, last.epoch, last.max_offset, last.priority, last.confirms)

    def find_out(self, key: ReplicaKey, why: str) -> defer.Deferred[None]:
        """Fires when it is known whether this master lives, or cannot be known soon."""
        self._carry_out(self.detector.doubt(key, why, self.now_ms()))
        return self._when_settled(key)

    def port_of(self, key: ReplicaKey) -> OwnPort | None:
        """Where a replica may be asked something: at the host that it speaks from.

        Of one that was not heard yet it is known whether it registered from the address that it named.
        """
        group = self._state.group(key.cluster, key.broker_name)
        member = group.members.get(key.broker_id) if group is not None else None
        if member is None:
            return None
        host = self.liveness.host(key)
        if host:
            return own_port(member.address, host)
        return None if member.elsewhere else OwnPort(member.address, True)

    def registers(self, key: ReplicaKey, moved: bool, host: str) -> defer.Deferred[None]:
        """A member registers; fires when it is known whether it was restarted.

        :param moved: whether at another address than before; fails with ``RequestRefused`` where it is not known to be
            gone from there: told that it still leads, it would be a second master of that epoch.
        :param host: where the registration came from.
        """
        if not moved:
            self._spoke_from(key, host)
        self._carry_out(self.detector.registered(key, self.now_ms(), moved))
        settled = self._when_settled(key)
        if not moved:
            return settled

        def known(_: None) -> None:
            self._refuse_a_second(key)
            self.liveness.moved(key)
            self._spoke_from(key, host)

        return settled.addCallback(known)

    def _spoke_from(self, key: ReplicaKey, host: str) -> None:
        """A registration came from there; while heartbeats come, where they come from counts."""
        if self.liveness.unheard(key, self._config.broker_silence, self.now_ms()):
            self.liveness.came_from(key, host)

    def _refuse_a_second(self, key: ReplicaKey) -> None:
        last = self.liveness.last(key)
        if self.detector.leading and self.liveness.alive(key, self.now_ms()):
            where = last.address if last is not None else "its address"
            remark = f"broker {key} still lives at {where}: one that registers elsewhere has to wait until it is gone"
            raise RequestRefused(ResponseCode.CONTROLLER_INVALID_REQUEST, remark)

    def _when_settled(self, key: ReplicaKey) -> defer.Deferred[None]:
        waiter: defer.Deferred[None] = defer.Deferred()
        if self.detector.settled(key):
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
        for key in [key for key in self._waiting if self.detector.settled(key)]:
            for waiter in self._waiting.pop(key):
                waiter.callback(None)

    # -- effects --------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """First what others wait for, then what is only said: a line of log costs as much as a probe."""
        said: list[Suspected | Held | Died | Cleared] = []
        for effect in effects:
            if isinstance(effect, Probe):
                self._probe(effect)
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
            emit(self._log, events.BrokerSuspected(str(effect.replica), effect.why))
        elif isinstance(effect, Held):
            emit(self._log, events.BrokerCleared(str(effect.replica), effect.why))
        elif isinstance(effect, Died):
            self.deaths += 1
            emit(self._log, events.BrokerDied(str(effect.replica), effect.why))
        else:
            was = "dead" if effect.was_dead else "suspected"
            emit(self._log, events.BrokerHeard(str(effect.replica), was))

    def _probe(self, effect: Probe) -> None:
        """Ask, where it may be asked; else the round ends by its time."""
        port = self.port_of(effect.replica)
        if port is None:
            return

        def answered(probe: Probe, verdict: Verdict, reading: Reading) -> None:
            if verdict is Verdict.REFUSED and not port.proves_death:
                return
            now_ms = self.now_ms()
            self._carry_out(self.detector.port_answered(probe.question, probe.replica, verdict, reading, now_ms))

        self.probes.probe(attrs.evolve(effect, address=port.address), answered)

    def _ask_controllers(self, effect: AskControllers) -> None:
        timeout_s = self._config.broker_probe_timeout / 1000
        for node, address in sorted(self._others().items()):
            self.probes.do_you_hear(address, effect.replica, timeout_s, self._voice_of(effect, node))

    def _voice_of(self, effect: AskControllers, node: str) -> Callable[[bool, int | None], None]:
        def voice(connected: bool, heard_ms_ago: int | None) -> None:
            now_ms = self.now_ms()
            self._carry_out(self.detector.controller_answered(effect.question, node, connected, heard_ms_ago, now_ms))

        return voice

    def _keep_links(self, now_ms: int) -> None:
        """Where somebody could follow, or be followed."""
        keys = {}
        for group in self._state.groups():
            for number in group.in_sync if len(group.members) > 1 else ():
                key = ReplicaKey(group.cluster, group.broker_name, number)
                port = self.port_of(key) if self.liveness.connected(key) else None
                if port is not None:
                    keys[port.address] = key
        self._linked = keys
        self.probes.keep_links(keys, now_ms, lambda address: self.liveness.age_ms(keys[address], self.now_ms()))

    def _link_tried(self, port: str, reached: bool) -> None:
        key = self._linked.get(port)
        address = None if key is None else address_of(self._state, key)
        if address is not None:
            self.detector.reachable(address, reached)
