"""A broker whose store is open: its features, put together, and what happens to all of them.

Theory of operation.  Everything is made here, once, when the store is recovered; ports open after that, so no request
meets a half-made broker.  Then nothing is known of the role: the role source says what it is, and each change is told
to every feature.  To leave, each feature has its time in the reverse order: first while the broker still has its role
and serves (:meth:`BrokerFeature.leave`), then when the role has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from twisted.internet import defer

from rocketha.broker.master_watch import MasterWatch
from rocketha.broker.role import Role
from rocketha.broker.routes import ROUTES
from rocketha.broker.state import BrokerIdentity
from rocketha.services.access.account_requests import AccountRequests
from rocketha.services.access.acl_1 import Migration, WatchedAcl
from rocketha.services.access.guard import guarded
from rocketha.services.access.users import Book, Users
from rocketha.services.broker.appending import Appending
from rocketha.services.broker.controller_mode import ControllerMode
from rocketha.services.broker.dispatcher import Dispatcher
from rocketha.services.broker.draining import Draining
from rocketha.services.broker.forwarding import Forwarding
from rocketha.services.broker.java_metrics import JavaMetrics
from rocketha.services.broker.overview import OwnPage
from rocketha.services.broker.ports import BrokerPorts
from rocketha.services.broker.raft_role import RaftRole
from rocketha.services.broker.registration import Registration
from rocketha.services.broker.role import ClassicRole, RoleContext, RoleSource
from rocketha.services.broker.sessions import Sessions
from rocketha.services.broker.statistics import Statistics
from rocketha.services.config import views
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.core.parts import Opened
from rocketha.services.core.turns import BrokerClock
from rocketha.services.features.delayed import DelayedMessages
from rocketha.services.features.finding import Enabled
from rocketha.services.features.host import PluginHost
from rocketha.services.features.reading import Reading
from rocketha.services.replication.autoswitch import AutoSwitchMode
from rocketha.services.replication.classic import ClassicMode
from rocketha.services.replication.context import ReplicationContext
from rocketha.services.replication.dledger import DLedgerMode
from rocketha.services.replication.metadata_context import TablesContext
from rocketha.services.replication.metadata_sync import MetadataSync
from rocketha.services.replication.mode import ReplicationMode
from rocketha.services.replication.slow_puts import SlowPuts
from rocketha.services.replication.status import ReplicationStatus
from rocketha.services.waiting.fetches import Fetches
from rocketha.services.waiting.log_reads import LogReads

MakeRoleSource = Callable[[RoleContext], RoleSource]


if TYPE_CHECKING:
    from rocketha.services.access.accounts_log import AccountsLog

_SOURCES: dict[type[ReplicationMode], Callable[[RoleContext], RoleSource]] = {
    ClassicMode: ClassicRole,
    AutoSwitchMode: ControllerMode,
    DLedgerMode: RaftRole,
}


def role_source_of(mode: ReplicationMode) -> Callable[[RoleContext], RoleSource]:
    """What makes the role source of a broker in this mode."""
    return _SOURCES[type(mode)]


class RunningBroker:
    """See the module.

    :param opened: its store.
    :param mode: how its log is replicated.
    :param role_source: who decides about the role; what the mode says where not given.
    :param enabled: plug-ins, in order.
    :raises ConfigError: a plug-in can not be used.
    :raises CorruptStore: a table can not be read.
    :ivar recovery: what its store was found like.
    :ivar accounts_log: where its users are; None: nobody logs in.
    :ivar statistics: among them how far consumer groups are behind.
    :ivar serving: from the moment when its ports are open until it leaves.
    """

    def __init__(
        self,
        core: BrokerCore,
        opened: Opened,
        mode: ReplicationMode,
        role_source: MakeRoleSource | None,
        enabled: Sequence[Enabled],
    ) -> None:
        platform, parts = core.platform, core.parts
        self.core, self.state, self.store = core, core.state, core.store
        self.recovery = opened.report
        self.serving = False
        self.watch = MasterWatch()
        self._mastership = self.watch.now
        self.dispatcher = Dispatcher(core)
        pulls, queries = (
            Fetches(platform.disk, work, platform.reactor, platform.now_ms, core.turns.run, core.busy)
            for work in (core.works.pulls, core.works.queries)
        )
        self.delayed = DelayedMessages(core, pulls)
        self.reading = Reading(core, (pulls, queries), self.delayed.delivery, self.dispatcher)
        self.plugins = PluginHost(enabled, core, self.dispatcher.request, self)
        self.accounts_log = self._make_accounts()
        self._load_tables()
        self.replication = mode.replication(self._replication_context(opened))
        self.metadata = MetadataSync(self._tables_context())
        self.forwarding = Forwarding(
            platform.dialer.unsigned,  # clients have signed it
            self.watch,
            self.state.identity.address,
            self.dispatcher.resume,
            core.turns.run,
            core.config.replication.forward_sends,
            lambda: self.replication.send_refusal is None,
        )
        self.watch.watch(self._mastership_changed)
        self.role_source = (role_source or role_source_of(mode))(self._role_context())
        self.draining = self._draining() if self.role_source.hands_over else None
        self.registration = self._registration()
        self.statistics = Statistics(core)
        self._sessions, self.appending = Sessions(core), Appending(core, self.replication)
        self.features: tuple[BrokerFeature, ...] = (
            self.role_source,
            ReplicationStatus(self.replication, self.state, parts.waiting, platform.reactor, platform.wall),
            SlowPuts(parts.waiting, core.flusher, self.replication, core.turns.turn, platform),
            self.statistics,
            *self._exports(self.statistics),
            self._sessions,
            OwnPage(self),
            self.appending,
            self.delayed,
            self.reading,
            self.metadata,
            self.forwarding,
            self.plugins,
            AccountRequests(self.accounts_log),
            *(() if self.accounts_log is None else (self.accounts_log,)),
            *self._of_acl_1(),
        )
        self._users = self._make_users()
        self._routes = {**ROUTES, **self.plugins.routes}
        self.dispatcher.open(
            self.replication, self.features, self._routes, self.forwarding, self.plugins, self.metadata, self._users
        )
        self._clock = BrokerClock(platform, core.turns, (self.appending, self.reading), self._second)
        core.changes.when_over(self._log_changed)
        core.effects.watch_topics(self.registration.topics_changed)
        if self._users is not None:
            self.replication.role_changed.append(self._users.role_changed)  # before anything is served in a new role
        self.replication.role_changed.append(self._role_changed)

    def _load_tables(self) -> None:
        self.core.parts.files.load()
        self.store.deleted_topics.topics_read(self.state.topics.data_version.numbers)

    def _make_accounts(self) -> AccountsLog | None:
        """Where users log in."""
        if not self.core.config.access.authentication_enabled:
            return None
        from rocketha.services.access.accounts_log import AccountsLog  # it needs an extra

        return AccountsLog(self.core, self.dispatcher.serve, lambda: self.serving)

    def _make_users(self) -> Users | None:
        """Who judges clients."""
        keys, platform = self.core.config.access, self.core.platform
        book: Book | None = self.accounts_log or keys.plain_accounts
        if book is None:
            return None
        return Users(book, keys, self.state.identity.cluster_name, platform.now_ms, platform.wall_ms)

    def _of_acl_1(self) -> Iterator[BrokerFeature]:
        """What is done with its files."""
        keys = self.core.config.access
        if keys.plain_accounts is not None:
            yield WatchedAcl(keys.plain_accounts, self.core.works.files)
        if keys.plain is not None and self.accounts_log is not None:
            yield Migration(keys.plain, self.accounts_log)

    def _exports(self, statistics: Statistics) -> Iterator[BrokerFeature]:
        """What shows Java's names."""
        exported, replication = self.core.exported, self.replication
        if exported is not None:
            yield JavaMetrics(
                self.core,
                exported,
                statistics.lags,
                lambda: replication.log_end - replication.log.dispatched_offset,
            )

    # --- what its features work with

    def _replication_context(self, opened: Opened) -> ReplicationContext:
        core = self.core
        return ReplicationContext(
            log=opened.log,
            keys=core.config.replication,
            platform=core.platform,
            changes=core.changes,
            flusher=core.flusher,
            refusals=core.refusals,
            waiting=core.parts.waiting,
            wakeups=self.reading.wakeups,
            as_turn=core.turns.run,
            reads=LogReads(core.works.reads),
            owner=self,
            address=self.state.identity.address,
            intact=opened.report.clean,
        )

    def _tables_context(self) -> TablesContext:
        core, keys, replication = self.core, self.core.config.replication, self.replication
        return TablesContext(
            dialer=core.platform.dialer,
            now_ms=core.platform.now_ms,
            state=core.state,
            store=core.store,
            delays=core.parts.delays,
            watch=self.watch,
            own_id=lambda: replication.own_id,
            store_busy=core.busy,
            save=core.effects.save,
            topics_changed=core.effects.topics_changed,
            log=replication,
            replicas=replication.replicas,
            period_s=keys.sync_broker_metadata_period / 1000,
            ack_timeout_ms=keys.metadata_ack_timeout_mills,
        )

    def _role_context(self) -> RoleContext:
        core = self.core
        return RoleContext(
            keys=core.config.replication,
            identity=self.state.identity,
            replication=self.replication,
            watch=self.watch,
            platform=core.platform,
            file_work=core.works.files,
            unfit=lambda: self.plugins.health.unfit,
            take_newest=self.metadata.take_newest,
        )

    def _draining(self) -> Draining:
        platform, keys = self.core.platform, self.core.config.replication
        return Draining(platform, keys, self.watch, self.forwarding, self.state.clients, self.state.identity)

    def _registration(self) -> Registration:
        config = self.core.config
        return Registration(
            self.core.platform.dialer,
            tuple(filter(None, (item.strip() for item in config.namesrv_addr.split(";")))),
            self._registered_as,
            self.state.topics,
            views.registration(config),
            self.role_source.learned,
            lambda: self.core.parts.rules.permission,
        )

    # --- its life

    def open(self, parent: Any, listen: Sequence[str]) -> None:
        """Open the ports.

        :param parent: the service that they belong to.
        :param listen: endpoint strings of the main port; from the configuration where empty.
        :raises CannotListenError: a port is taken.
        :raises ConfigError: a plug-in's is.
        """
        requests = guarded(self.dispatcher, self.core.platform.askers, self._routes, self._users)
        ports = BrokerPorts(self.core, listen, requests, self._routes, self._sessions.holding)
        ports.open(parent, self.replication.ports())
        self.plugins.open(parent)

    def serve(self) -> None:
        """Begin with everything that needs time, and with a role."""
        self.serving = True
        self._clock.start()
        for feature in self.features:
            feature.start()
        self.registration.start()
        for feature in self.features:
            feature.install(self.core.metrics)

    @defer.inlineCallbacks
    def leave(self) -> Any:
        """Give the role up in order, and stop; whether clients should be drained (:meth:`drain`)."""
        led = self.watch.leads
        for feature in reversed(self.features):
            yield feature.leave()
        self.replication.stop()
        self.serving = False
        for feature in reversed(self.features):
            feature.stop()
        self._clock.stop()
        yield self.registration.stop()
        yield self.core.parts.files.settle()  # whoever changed a table hears before its connection ends
        return self.draining is not None and self.draining.wanted(led)

    def drain(self) -> defer.Deferred[None]:
        """Only pass requests on, until clients have left; the store is closed.  Fires when it is over."""
        assert self.draining is not None
        return self.draining.begin()

    def end(self) -> None:
        """The ports are about to close."""
        for feature in reversed(self.features):
            feature.end()

    @defer.inlineCallbacks
    def idle(self) -> Any:
        """Fires when nothing touches the store any more, nor will."""
        core = self.core
        yield core.changes.idle()
        self.appending.closing()
        yield core.flusher.idle()
        yield core.upkeep.store.idle()
        yield core.parts.files.idle()

    # --- the role

    def _role_changed(self, role: Role) -> None:
        """Everything that depends on the role follows it."""
        self.dispatcher.role_changed(role)
        for feature in self.features:
            feature.role_changed(role)
        if role is Role.MASTER:
            self._clock.rearm_if_earlier()  # no turn need end soon
        self.dispatcher.role_settled(role)
        number = self.replication.broker_id(self.state.identity.broker_id)
        self.state.identity = attrs.evolve(self.state.identity, broker_id=number)
        if role is Role.SLAVE:
            self.registration.register()

    def _mastership_changed(self) -> None:
        """A master registers when it leads, not when its role begins: now its tables have the version of its epoch.

        Of two masters a nameserver believes the one with the newer epoch.
        """
        before, self._mastership = self._mastership, self.watch.now
        if self.watch.leads and before != self._mastership:  # else its SyncStateSet changed
            self.registration.register()

    def _registered_as(self) -> BrokerIdentity | None:
        return None if self.replication.role is Role.FENCED else self.state.identity

    def fit(self, replica: int) -> bool:
        """See :class:`~rocketha.services.replication.context.ReplicationOwner`."""
        return self.metadata.is_fit(replica)

    @property
    def versions(self) -> Mapping[str, Any]:
        topics, groups = self.state.topics, self.state.groups
        return {"topicVersion": topics.data_version.as_json(), "groupVersion": groups.data_version.as_json()}

    def resumed(self) -> None:
        """What waited goes on in the order in which it came."""
        self.forwarding.go_on()
        self.dispatcher.new_topics.go_on()

    def _log_changed(self) -> None:
        """The log was cut, or made fit for another role: what waited for that, or was staged before, goes on."""
        if self.serving:
            self.core.turns.run(self.dispatcher.new_topics.go_on)
            self.replication.second()

    # --- what it is at this moment

    @property
    def storing(self) -> bool:
        """Whether it is a master that takes messages."""
        replication = self.replication
        stores = replication.role is Role.MASTER and replication.send_refusal is None
        return self.serving and stores and not self.core.busy()

    @property
    def shown_end(self) -> int:
        """The end of the log that observers are shown."""
        confirmed = self.store.confirm_offset
        return min(confirmed, self.store.flushed_offset) if self.core.parts.waiting.sync_flush else confirmed

    def facts(self) -> dict[str, str]:
        """Of GET_BROKER_RUNTIME_INFO, what its tables do not know."""
        facts = {"rocketha.unready": self._unready(self.store.unwritable_seen is None) or ""}
        for feature in self.features:
            facts.update(feature.runtime_facts())
        return facts

    def unready(self) -> str | None:
        """None, or why it is not what it should be."""
        return self._unready(self.store.writable(self.core.platform.now_ms()))

    def _unready(self, writable: bool) -> str | None:
        if not writable:
            return "the store takes no messages: its disk is full or failed"
        for feature in self.features:
            problem = feature.unready()
            if problem is not None:
                return problem
        return None if self.registration.registered else "not registered with every nameserver"

    def _second(self) -> None:
        for feature in self.features:
            feature.second()
        if not self.core.busy():
            self.core.upkeep.second(self.core.platform.now_ms())
            self.replication.second()
