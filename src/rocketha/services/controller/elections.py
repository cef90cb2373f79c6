"""Elections from both ends: proposing those that the watch wants, and telling brokers what was decided.

Decides nothing.  Theory of operation.  Every node applies every election.  The one that leads tells the brokers; all
remember it for a while, and a new leader tells again what was decided lately, since its predecessor may have died
before it could (a broker that knows already answers at once).  Of each election it is remembered whether its winner can
have heard of it: one that surely did not can be taken back (regression A23, ``Evidence.never_told``).

Java: ``ControllerManager.triggerElectMaster`` and ``notifyBrokerRoleChanged``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.controller import audit, events
from rocketha.controller.detector_effects import Elect
from rocketha.controller.events import CONTROLLER, ElectMaster, Event, Evidence
from rocketha.controller.group import BrokerGroup, Did, GroupKey
from rocketha.controller.liveness import ReplicaKey
from rocketha.controller.notices import RoleChanged, brought_up_to_date, role_changed
from rocketha.controller.state import ControllerState, Outcome
from rocketha.namesrv.own_port import OwnPort
from rocketha.observe.events import GroupElected, GroupNotElected, GroupSetChanged
from rocketha.observe.logging import emit, make_logger
from rocketha.raft.messages import Entry
from rocketha.services.config.controller import ControllerConfig
from rocketha.services.controller.notices import Notices
from rocketha.services.controller.watch import Watch

RECENT_S = 600.0
RECENT_MAX = 1000
"""Elections that a new leader tells brokers of once more."""

TELL_MAX = 10
"""Of them in one tick, so that a large cluster does not stop its new leader."""

_SAID = frozenset(
    {Did.ELECTED, Did.TAKEN_BACK, Did.UNSEATED, Did.OUTDATED, Did.SET_CHANGED, Did.CLEANED, Did.FORGOTTEN, Did.RETURNED}
)
"""What becomes an event; the rest is in the audit trail."""


class Elections:
    """One controller's.

    :param seconds: a clock for what is recent.
    :param wall: time of day, for the audit trail.
    :param decide: the answer of an event, once it is decided; no entry where it changes nothing, as one that is tried
        again each second.
    :ivar watch: attached by the service before anything happens, as are ``notices`` and ``barrier``.
    :ivar count: elections applied here as they happened.
    :ivar elected: told of each.
    :ivar replayed: entries up to this one were in the log when it was opened.
    """

    watch: Watch
    notices: Notices
    barrier: Callable[[], defer.Deferred[None]]  # see Decisions

    def __init__(
        self,
        config: ControllerConfig,
        state: ControllerState,
        seconds: Callable[[], float],
        wall: Callable[[], float],
        decide: Callable[[Event], defer.Deferred[Any]],
    ) -> None:
        self._config = config
        self._state = state
        self._seconds = seconds
        self._wall = wall
        self._decide = decide
        self._log = make_logger()
        self._leading = False
        self._recent: deque[tuple[float, tuple[RoleChanged, ...]]] = deque(maxlen=RECENT_MAX)
        self._to_tell: deque[tuple[RoleChanged, ...]] = deque()
        # Elections of this term whose winner surely heard nothing: group -> log index; of these, whose port refused.
        self._quiet: dict[GroupKey, int] = {}
        self._refused: set[GroupKey] = set()
        self._vain: dict[GroupKey, str] = {}  # why there was none: tried again each second, and said once
        self.count = self.replayed = 0
        self.elected: Callable[[GroupKey], None] = lambda group: None

    def attach(self, watch: Watch, notices: Notices, barrier: Callable[[], defer.Deferred[None]]) -> None:
        """What was made after this."""
        self.watch, self.notices, self.barrier = watch, notices, barrier

    # -- proposing ------------------------------------------------------------------------------------------------

    def elect(self, effect: Elect) -> None:
        """The watch wants an election."""
        cluster, name = effect.cluster, effect.broker_name
        key = GroupKey(cluster, name)
        evidence = Evidence(
            why=effect.kind,
            reason=effect.why,
            now_ms=int(self._wall() * 1000),
            unclean=self._config.enable_elect_unclean_master,
            never_told=self._quiet.get(key, 0) if key in self._refused else 0,
            alive=tuple(self.watch.evidence(ReplicaKey(cluster, name, number)) for number in effect.alive),
            seen=effect.seen,
        )
        expected = (effect.dead_id or 0, effect.master_epoch)
        newest = self.watch.newest_epoch(cluster, name)
        event = ElectMaster(cluster, name, CONTROLLER, False, *expected, evidence, newest)

        def ended(result: Any) -> None:
            if isinstance(result, Failure) or result.code:
                why = str(result.getErrorMessage() if isinstance(result, Failure) else result.remark)
                if self._vain.get(key) != why:
                    self._vain[key] = why
                    emit(self._log, GroupNotElected(f"{cluster}/{name}", why))
            if self._leading:
                self.watch.election_ended(cluster, name)

        self._decide(event).addBoth(ended)

    # -- what was decided -----------------------------------------------------------------------------------------

    def applied(self, outcome: Outcome, entry: Entry) -> None:
        """An entry changed something, on this node as on every other."""
        key = outcome.group
        if key is None:
            return
        if outcome.notices:
            self._vain.pop(key, None)
        if outcome.notices and entry.index > self.replayed:
            self.count += 1
            self.elected(key)
            self._recent.append((self._seconds(), outcome.notices))
        if outcome.notices and self._leading:
            self._quiet[key] = entry.index
            self._refused.discard(key)
            self._tell(outcome.notices, prompt=True)
        if outcome.did in _SAID and entry.index > self.replayed:  # last: nobody waits for a line of log
            self._say(outcome.did, key, entry)

    def _say(self, did: Did, key: GroupKey, entry: Entry) -> None:
        group, name = self._state.group(*key), f"{key.cluster}/{key.broker_name}"
        if did is Did.SET_CHANGED:
            assert group is not None
            now = group.master_id, group.master_epoch, list(group.in_sync), group.set_epoch
            emit(self._log, GroupSetChanged(entry.index, name, *now))
            return
        evidence = events.decode(entry.data).evidence
        emit(
            self._log,
            GroupElected(
                entry.index,
                name,
                did.name.lower().replace("_", " "),
                group.master_id if group is not None else None,
                group.master_epoch if group is not None else None,
                list(group.in_sync) if group is not None else [],
                audit.named(events.Why, evidence.why),
                evidence.reason,
                evidence.now_ms,
            ),
        )

    def _tell(self, notices: tuple[RoleChanged, ...], prompt: bool) -> None:
        if not self._config.notify_broker_role_changed:
            return
        first = notices[0]
        key = ReplicaKey(first.group.cluster, first.group.broker_name, first.receiver_id)
        self.notices.send(notices, self.watch.liveness.alive(key, self.watch.now_ms()), prompt)

    def led(self) -> None:
        """This controller became leader: what was decided lately may not have been told."""
        self._leading = True
        since = self._seconds() - RECENT_S
        newest = {notices[0].group: notices for at, notices in self._recent if at >= since}
        self._to_tell.extend(newest[key] for key in sorted(newest))

    def tick(self) -> None:
        """To be called some times a second: tell a few sets more."""
        for _ in range(min(len(self._to_tell), TELL_MAX)):
            first = self._to_tell.popleft()[0]
            group = self._state.group(*first.group)
            if group is not None and (group.master, group.master_epoch) == (first.master_id, first.master_epoch):
                # Anew: members came, went and moved since.
                self._tell(role_changed(group, first.receiver_id, first.index), prompt=False)

    def deposed(self) -> None:
        """It leads no more: it can vouch for nothing."""
        self._leading = False
        self._to_tell.clear()
        self._quiet.clear()
        self._refused.clear()
        self._vain.clear()

    # -- who knows ------------------------------------------------------------------------------------------------

    def answered(self, group: BrokerGroup, broker_ids: Iterable[int]) -> None:
        """Somebody was told who leads a set; these of its brokers asked for it themselves."""
        self._quiet.pop(group.key, None)
        if self.notices.pending:
            for broker_id in broker_ids:
                address = group.addresses.get(broker_id)
                if address is not None:
                    self.notices.asked(group.key, address)

    def current(self, notice: RoleChanged) -> RoleChanged | None:
        """A notice as it is now, None if it is void."""
        return brought_up_to_date(notice, self._state.group(*notice.group))

    def port(self, notice: RoleChanged) -> OwnPort | None:
        """Where its receiver may be told."""
        return self.watch.port_of(ReplicaKey(*notice.group, notice.receiver_id))

    def lives_there(self, notice: RoleChanged, by_link: bool) -> bool:
        """Whether a connection to its address leads to a broker of its group, as far as heartbeats tell.

        Of one that is frozen or cut off they come no more; but the connection that they came by is still open.  And a
        leader that was just restarted has heard nobody yet: whoever says at a member's address that it is of the group
        is that member, unless it began within those few seconds.

        :param by_link: the connection was made when a broker of an address was heard, and ends with its process.
        """
        liveness, address, now_ms = self.watch.liveness, notice.receiver_address, self.watch.now_ms()
        heard = liveness.at(address, now_ms)
        if heard is not None and heard[:2] != notice.group:
            return False
        key = heard or ReplicaKey(*notice.group, notice.receiver_id)
        last = liveness.last(key)
        if last is None:
            return by_link or self.watch.detector.fresh.awaits(key, now_ms)
        return by_link or (last.address == address and liveness.connected(key))

    def told(self, notice: RoleChanged) -> None:
        """A notice was written to its broker."""
        if notice.receiver_id == notice.master_id:
            self._quiet.pop(notice.group, None)

    def untold(self, notice: RoleChanged) -> None:
        """A notice was not written, and its broker's port refused."""
        if notice.receiver_id == notice.master_id and self._quiet.get(notice.group) == notice.index:
            self._refused.add(notice.group)
