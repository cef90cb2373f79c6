"""A broker whose id and role the controllers give: the role's life, carried out.

Decides nothing: :class:`~rocketha.broker.role_life.RoleLife` says what is to be done; here it is done to the broker's
:class:`~rocketha.services.replication.autoswitch.AutoSwitchReplication`, its disk and its controllers, and the life is
told what comes of it.

Theory of operation.  Every event becomes effects, and these are carried out one by one; an event that comes meanwhile
queues its effects behind them.  Afterwards the timer is set for when the life is due next.  Heartbeats have a clock of
their own, and one goes out as soon as a connection to a controller breaks: ours suspects a broker then.

The controllers know where a master's main port is, not its HA port: it is asked for that (906), which it answers once
it serves as master; Java's brokers learn it from the nameservers, as we do too.

Java: ``ReplicasManager``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.broker.controller_identity import Identity, IdentityFiles
from rocketha.broker.request import Responder
from rocketha.broker.role import Role
from rocketha.broker.role_effects import (
    Ask,
    Beat,
    Effect,
    Fence,
    Follow,
    GiveUp,
    HangUp,
    Keep,
    Lead,
    LeaseConfirmed,
    Left,
    Noticed,
    Question,
    Registered,
    Resume,
    Retire,
    RoleTiming,
    Setback,
    SetKnown,
    SetRefused,
    SetUnanswered,
    Suspend,
    Trouble,
    Want,
)
from rocketha.broker.role_life import RoleLife
from rocketha.broker.role_questions import Place
from rocketha.errors import CorruptStore, DiskFailure, RemoteProtocolError, RequestRefused, RockethaError
from rocketha.observe import events
from rocketha.observe.logging import emit, emit_disk_failure, lasting, make_logger
from rocketha.protocols.remoting import RemotingProtocol
from rocketha.replication.epochs import NO_EPOCH, ElectionNeeded
from rocketha.replication.link import Cause
from rocketha.replication.sync_state import SetChange
from rocketha.services.broker.controller_client import ControllerClient, Reply
from rocketha.services.broker.role import RoleContext, RoleSource
from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.process.ticker import Ticker
from rocketha.services.replication.autoswitch import AutoSwitchReplication
from rocketha.services.replication.ha_address import HaAddress
from rocketha.wire import controller_calls as calls
from rocketha.wire.codes import RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, Command

NOTICES_MAX = 64
"""That wait for what the controllers say; beyond, the oldest is answered at once, and asked about all the same."""

NO_SUCH_ELECTION = Answer(ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH, "the controllers know of no such election")
"""To a notice that they do not confirm: ours tries again, should it know better."""

LAST_CHOICE = (1 << 31) - 1
"""The election priority of a broker whose health checks say that another one should be master: the lowest."""

AGAIN_MS = 500
"""After a turn that failed, as no turn should."""


def timing_of(keys: ReplicationConfig) -> RoleTiming:
    """The configuration's times."""
    return RoleTiming(
        request=keys.controller_request_timeout,
        poll=keys.sync_broker_metadata_period,
        lease=keys.master_lease,
        hand_over=keys.handover_timeout,
    )


class ControllerMode(RoleSource):
    """See the module.

    :ivar life: None before the id's files were read.
    """

    hands_over = True

    def __init__(self, context: RoleContext) -> None:
        keys, identity, replication = context.keys, context.identity, context.replication
        assert isinstance(replication, AutoSwitchReplication)
        replication.report_to(self)
        self.life: RoleLife | None = None
        self.requests: Mapping[int, Responder] = {RequestCode.NOTIFY_BROKER_ROLE_CHANGED: self._notice}
        self._context = context
        self._reactor = context.platform.reactor
        self._now_ms = context.platform.now_ms
        self._replication = replication
        self._keys = keys
        self._timing = timing_of(keys)
        self._place = Place(identity.cluster_name, identity.broker_name, identity.address)
        self._files = IdentityFiles(context.platform.disk, keys.store_path_broker_identity, *self._place[:2])
        poll_s = keys.sync_controller_metadata_period / 1000
        platform = context.platform
        self._client = ControllerClient(platform.dialer, keys.controllers, platform.chance, poll_s, self._beat)
        self._ha_address = HaAddress(context.platform.dialer, self._ha_address_found)
        beat_s = keys.broker_heartbeat_interval / 1000
        self._beats = Ticker(context.platform.reactor, lasting(self._beat, "a heartbeat"), beat_s)
        self._timer: Any = None
        self._turn = lasting(lambda: self._happened("tick"), "a turn of the role's life")
        self._todo: deque[Effect] = deque()
        self._busy = False
        self._notices: dict[int, tuple[RemotingProtocol, Command]] = {}
        self._noticed = 0
        self._fit_epoch = NO_EPOCH
        self._registered: tuple[int, ...] = ()
        self._left: defer.Deferred[None] = defer.Deferred()
        self._failed = ""
        self._log = make_logger()

    # --- what the broker calls

    def start(self) -> None:
        self._client.start()
        loading = self._context.file_work.run(self._files.load)
        loading.addCallbacks(self._loaded, self._not_loaded)
        loading.addErrback(self._bug)

    def _loaded(self, identity: Identity) -> None:
        self.life = RoleLife(
            self._place,
            identity,
            self._replication.last_epoch,
            self._timing,
            self._context.platform.chance,
            self._context.platform.wall_ms,
            self._keys.async_learner,
        )
        self._know_id(identity)
        self._beats.start()
        self._happened("begin")

    def _not_loaded(self, failure: Failure) -> None:
        """Another broker's disk, or a damaged one: this process must not go on under whatever id."""
        self._failed = failure.getErrorMessage()
        if not failure.check(RockethaError):
            self._log.error("{trace}", trace=failure.getTraceback())
        self._context.platform.end(f"the broker can not join its group: {self._failed}")

    def learned(self, address: str, ha_address: str) -> None:
        replication = self._replication
        if replication.role is Role.SLAVE and ha_address and address == replication.master_address:
            replication.ha_address_known(ha_address)

    def leave(self) -> defer.Deferred[None]:
        if self.life is None:
            self._close()
            return defer.succeed(None)
        self._happened("leave")
        return self._left

    def unready(self) -> str | None:
        life = self.life
        if self._failed or life is None:
            return self._failed or "its id is not known yet"
        if self._replication.role is Role.FENCED:
            return life.problem or "no controller has given it a role yet"
        return None

    # --- events

    def _happened(self, event: str, *what: Any) -> None:
        """Tell the life, and do what follows."""
        life = self.life
        if life is None or self._left.called:
            return
        self._todo.extend(getattr(life, event)(*what, self._now_ms()))
        if self._busy:
            return
        self._busy = True
        try:
            while self._todo:
                self._carry_out(self._todo.popleft())
        finally:
            self._busy = False
            self._arm(life.next_due_ms())

    def _arm(self, due_ms: int | None) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None
        if due_ms is not None and not self._left.called:
            self._timer = self._reactor.callLater(max(0, due_ms - self._now_ms()) / 1000 + 0.0005, self._due)

    def _due(self) -> None:
        self._timer = None
        if not self._turn():
            self._arm(self._now_ms() + AGAIN_MS)

    def _beat(self) -> None:
        life, replication = self.life, self._replication
        if life is None or not life.beating:
            return
        unfit = self._context.unfit()
        broken = replication.log.store.log.broken
        if broken is not None and replication.role is Role.MASTER and len(replication.members) > 1:
            self._happened("failed", None, Setback.FAILED, broken)  # the others can do what it cannot (regression D10)
            return
        if unfit is None:
            self._fit_epoch = replication.epoch
        elif self._fit_epoch == replication.epoch:  # one that was elected though it was unfit leads: who else would
            self._happened("unfit", unfit)
        beat = calls.Beat(
            self._place.cluster,
            self._place.broker_name,
            life.number,
            self._place.address,
            max(0, replication.last_epoch),
            replication.log_end,
            replication.confirm_offset,
            self._keys.controller_heart_beat_timeout_mills,
            self._keys.broker_election_priority if unfit is None else LAST_CHOICE,
            # By 1004 nothing is confirmed: ours might take an election back whose winner had acknowledged.
            confirms_role=life.ours is not False,
        )
        self._client.beat(calls.heartbeat(beat))

    def _notice(self, connection: RemotingProtocol, command: Command, now_ms: int) -> Answer | None:
        """1008: who sent it may be anybody, so the controllers are asked."""
        try:
            info = calls.role_changed(command)
        except (RemoteProtocolError, RequestRefused) as problem:
            return Answer(ResponseCode.SYSTEM_ERROR, str(problem))
        if self.life is None or self._left.called:
            return Answer()
        if len(self._notices) >= NOTICES_MAX:
            self._answer_notice(next(iter(self._notices)), True)  # it is asked about all the same
        self._noticed += 1
        self._notices[self._noticed] = (connection, command)
        if not self.life.joins(self._noticed, info):
            self._happened("noticed", self._noticed, info)
        return None

    # --- what the replication tells

    def wants_set(self, change: SetChange) -> None:
        self._happened("wants_set", change)

    def stranger(self, replica: int) -> None:
        self._happened("doubted", Question.REPLICAS)

    def link_trouble(self, cause: Cause, reason: str) -> None:
        self._ha_address.again()
        self._happened("doubted", Question.INFO)

    def _ha_address_found(self, ha_address: str, epoch: int, shows_epoch: bool) -> None:
        self._replication.ha_address_known(ha_address, shows_epoch)
        self._happened("master_serves", epoch)

    # --- effects

    def _carry_out(self, effect: Effect) -> None:
        replication = self._replication
        match effect:
            case Ask():
                asking = self._client.ask(effect.call, effect.timeout_ms / 1000)
                asking.addCallbacks(
                    self._answered, self._unanswered, callbackArgs=(effect.number,), errbackArgs=(effect.number,)
                )
                asking.addErrback(self._bug)
            case Beat():
                self._beat()
            case HangUp():
                self._client.hang_up()
            case Want() | GiveUp() | Keep():
                self._save(effect)
            case Fence() | Retire() | Lead() | Follow():
                self._order(effect)
            case Suspend(from_ms):
                replication.suspend(from_ms)
            case Resume():
                replication.resume()
            case LeaseConfirmed(epoch, asked_ms):
                replication.lease_confirmed(epoch, asked_ms)
            case SetKnown(members, set_epoch):
                replication.set_known(members, set_epoch)
                self._watch_members()
            case SetRefused(change, code, in_order):
                replication.refused(change, code, in_order)
            case SetUnanswered(change):
                replication.unanswered(change)
            case Registered(replicas):
                self._registered = replicas
                replication.registered(replicas)
            case Noticed(notice, confirmed):
                self._answer_notice(notice, confirmed)
            case Trouble(text):
                self._tell(text)
            case Left():
                self._close()
                self._left.callback(None)

    def _answered(self, reply: Reply, number: int) -> None:
        self._happened("answered", number, reply.command, reply.asked_ms)

    def _unanswered(self, failure: Failure, number: int) -> None:
        self._happened("unanswered", number, failure.getErrorMessage())

    def _save(self, effect: Want | GiveUp | Keep) -> None:
        files = self._files

        def save() -> Identity:
            match effect:
                case Want(broker_id, check_code):
                    return files.want(broker_id, check_code)
                case Keep(broker_id):
                    return files.keep(broker_id)
            return files.give_up()

        def saved(identity: Identity) -> None:
            self._know_id(identity)
            self._happened("saved", identity)

        def not_saved(failure: Failure) -> None:
            failure.trap(DiskFailure)
            emit_disk_failure(self._log, failure.value)
            self._happened("not_saved", failure.getErrorMessage())

        self._context.file_work.run(save).addCallbacks(saved, not_saved).addErrback(self._bug)

    def _know_id(self, identity: Identity) -> None:
        if identity.number is not None:
            self._replication.own_id = identity.number
            emit(self._log, events.BrokerIdentified("/".join(self._place[:2]), identity.number))

    # --- orders

    def _order(self, order: Fence | Retire | Lead | Follow) -> None:
        replication, watch = self._replication, self._context.watch
        if not isinstance(order, Follow):
            self._ha_address.stop()
        match order:
            case Fence(why):
                emit(self._log, events.BrokerFenced(why))
                watch.unknown()
                replication.fence(why).addErrback(self._bug)
            case Retire(number, why, replaced):
                emit(self._log, events.MasterRetires(why))
                watch.unknown()
                self._follow_up(replication.retire(why, replaced), number)
            case Lead(number, epoch, members, set_epoch, again):
                self._lead(number, epoch, members, set_epoch, again)
            case Follow(number, master_id, address, epoch):
                emit(self._log, events.MasterFollowed(master_id, address, epoch))
                following = replication.follow(master_id, "", epoch, address)
                watch.other(address, epoch, master_id)
                self._follow_up(following, number)
                self._ha_address.find(address, epoch)

    def _lead(self, number: int, epoch: int, members: tuple[int, ...], set_epoch: int, again: bool) -> None:
        replication, watch = self._replication, self._context.watch
        if again:
            leading = replication.reelected(epoch, members, set_epoch, None)
        else:
            watch.unknown()
            leading = replication.lead(epoch, members, set_epoch, {*members, *self._registered}, None)

        def leads(_: None) -> None:
            emit(self._log, events.MasterLeads(replication.own_id, epoch))
            watch.own(epoch, frozenset(replication.members))

        self._follow_up(leading.addCallback(leads), number)

    def _follow_up(self, order: defer.Deferred[None], number: int) -> None:
        order.addCallbacks(lambda _: self._happened("done", number), lambda failure: self._setback(failure, number))
        order.addErrback(self._bug)

    def _setback(self, failure: Failure, number: int) -> None:
        if failure.check(defer.CancelledError):
            setback = Setback.REPLACED
        elif failure.check(ElectionNeeded):
            setback = Setback.ELECTION_NEEDED
        else:
            setback = Setback.FAILED
            if not failure.check(DiskFailure, CorruptStore, RemoteProtocolError):
                self._log.error("{trace}", trace=failure.getTraceback())
        self._happened("failed", number, setback, failure.getErrorMessage())

    def _watch_members(self) -> None:
        if self._context.watch.leads:
            self._context.watch.members_are(frozenset(self._replication.members))

    # --- others

    def _answer_notice(self, notice: int, confirmed: bool) -> None:
        connection, command = self._notices.pop(notice, (None, None))
        if connection is not None and command is not None and not connection.closed:
            connection.answer(command, Answer() if confirmed else NO_SUCH_ELECTION)

    def _tell(self, text: str) -> None:
        if text:
            self._log.warn("{text}", text=text)

    def _close(self) -> None:
        self._beats.stop()
        self._arm(None)
        self._ha_address.close()
        self._client.close()

    def _bug(self, failure: Failure) -> None:
        """Our own mistake: a broker that does not know any more what it is must not go on."""
        self._log.error("{trace}", trace=failure.getTraceback())
        self._context.platform.end(f"the broker's role: {failure.getErrorMessage()}")
