"""A copy of a master's log that is no replica of its group, and an export that grows with it.

Theory of operation.  The log is a replica's: the same link, the same rules when masters change, in a store of its own
(:mod:`rocketha.services.replication.slave`).  But this one is no broker.  It is registered nowhere, so it is never
elected and serves nobody; in controller mode it tells the master that it is an async learner, so it is never in the
SyncStateSet and no sender waits for it; and on a classic link, where a master cannot be told that, it reports no
progress after its first report, so that no acknowledgement is due to it.

Every so often what is new is exported, in a thread of its own that only reads the store
(:mod:`rocketha.export.exporter`): it checks each record, and what an election took back goes to the export's ``cuts``.
The store forgets old files as a broker's does (fileReservedTime); the export keeps them.

Java: a slave with ``asyncLearner=true``; the export has no counterpart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from twisted.application import service
from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha.broker.acknowledgements import Acknowledgements
from rocketha.broker.send import host_bytes
from rocketha.errors import RockethaError
from rocketha.export.exporter import Exporter
from rocketha.export.manifest import Manifest
from rocketha.export.source import Identity, found
from rocketha.observe import events, refusals
from rocketha.observe.logging import emit, lasting, make_logger
from rocketha.observe.metrics import Registry
from rocketha.observe.overview import Group, Overview, Process, Replica
from rocketha.observe.refusals import Refusals, refused_by
from rocketha.replication.epochs import NO_EPOCH
from rocketha.services.config import views
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.core.log_changes import LogChanges
from rocketha.services.core.upkeep import StoreUpkeep
from rocketha.services.learner.finder import MasterFinder
from rocketha.services.process.platform import Platform
from rocketha.services.process.ticker import Ticker
from rocketha.services.replication.context import ReplicaContext
from rocketha.services.replication.ha_address import HaAddress
from rocketha.services.replication.mode import mode_of
from rocketha.services.replication.slave import Following
from rocketha.services.waiting.blocking import BlockingWork
from rocketha.services.waiting.flusher import Flusher
from rocketha.store import atomic_file
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import RecoveryReport
from rocketha.store.posix_disk import ReadingDisk
from rocketha.store.replica_log import ReplicaLog

LOOK_EVERY_S = 2


@attrs.frozen
class LearnerSettings:
    """What is no key of a broker.

    :ivar directory: of the export.
    :ivar replica: what this copy is called in tables.
    :ivar learner_id: what the master is told in controller mode; of no broker of the group.
    :ivar every_s: between two exports.
    :ivar master: its main port, where no nameserver is asked.
    """

    directory: str
    replica: str
    learner_id: int
    every_s: float = 10.0
    master: str = ""


class Learner(service.Service):
    """See the module.

    :ivar manifest: of the export, as it was saved last; None before.
    :ivar problem: why the last export failed; empty: it did not.
    :ivar refusals: connections that it gave up, and those that its status port ended.
    """

    def __init__(
        self, config: BrokerConfig, settings: LearnerSettings, platform: Platform, warnings: Sequence[str] = ()
    ) -> None:
        self.setName("learner")
        self._config = config
        self._mode = mode_of(config.replication)
        self._settings = settings
        self._platform = platform
        self._disk, self._reactor = platform.disk, platform.reactor
        self._warnings = tuple(warnings)
        self._logger = make_logger()
        self._works: list[BlockingWork] = []
        self._clocks: list[Ticker] = []
        self._starting: defer.Deferred[Any] | None = None
        self._exporting: defer.Deferred[Any] | None = None
        self._exported_s = float("-inf")
        self._looking = False
        self._seconds = 0
        self._main = ""  # the main port whose HA port is looked for, or was found
        self.refusals = Refusals("learner", platform.seconds)
        self.following: Following | None = None
        self.log: ReplicaLog | None = None
        self.manifest: Manifest | None = None
        self.problem = ""

    # --- start

    def startService(self) -> None:
        """Twisted: recover, then follow."""
        super().startService()
        for warning in self._warnings:
            self._logger.warn("{text}", text=warning)
        config, keys = self._config, self._config.replication
        self._works = [self._platform.work(self._reactor, f"rocketha-{name}") for name in ("log", "upkeep", "export")]
        for each in self._works:
            each.start()
        store_host = host_bytes(config.broker_ip1) + config.listen_port.to_bytes(4)
        self._store = MessageStore(self._disk, config.store.store_path_root_dir, views.store_config(config), store_host)
        self._flusher = Flusher(
            self._store, Acknowledgements(), self._works[0], lambda turn: turn(), self._platform.seconds
        )
        self._upkeep = StoreUpkeep(self._store, self._works[1])
        self._changes = LogChanges((self._flusher, self._upkeep), self._works[0])
        addresses = [] if self._settings.master else config.namesrv_addr.replace(" ", "").split(";")
        self._finder = MasterFinder(self._platform.dialer, [each for each in addresses if each], config.broker_name)
        self._finder.address = self._settings.master
        self._ha = HaAddress(self._platform.dialer, self._found)
        self._starting = self._works[0].run(
            lambda: self._mode.open_log(
                self._store, self._disk, keys, False, self._platform.now_ms(), self._platform.pid()
            )
        )
        self._starting.addCallback(self._opened).addErrback(self._not_started)

    def _opened(self, loaded: tuple[RecoveryReport, ReplicaLog]) -> None:
        report, log = loaded
        for note in report.notes:
            self._logger.warn("store: {note}", note=note)
        keys = self._config.replication
        self.log = log
        context = ReplicaContext(log, keys, self._platform, self._changes, self._flusher, self.refusals)
        dialect = self._mode.dialect(log, keys, self._settings.learner_id)
        following = Following(
            context,
            dialect,
            lambda: None,
            lambda cause, reason: self._ha.again(),
            counts=dialect.handshake,  # else the master would take it for a slave
        )
        self._flusher.watch(following.synced, following.sync_failed)
        self._changes.when_over(following.dispatch)
        if not self.running:
            return
        self.following = following
        following.start("")
        following.dispatch()
        settings = self._settings
        emit(self._logger, events.LearnerStarted(settings.replica, self._config.broker_name, settings.directory))
        if self._settings.master:
            self._follow(self._settings.master)
        self._run(self._flusher.kick, "a flush", self._config.store.flush_interval_commit_log / 1000)
        self._run(self._second, "upkeep", 1.0)

    def _run(self, call: Callable[[], None], what: str, every_s: float) -> None:
        guarded = lasting(call, what)
        clock = Ticker(self._reactor, guarded, every_s)
        clock.start()
        guarded()
        self._clocks.append(clock)

    def _not_started(self, failure: Failure) -> None:
        if not isinstance(failure.value, RockethaError):
            self._logger.error("{trace}", trace=failure.getTraceback())
        self._platform.end(f"the learner can not start: {failure.getErrorMessage()}")

    # --- time

    def _second(self) -> None:
        self._upkeep.second(self._platform.now_ms(), self._platform.wall_ms())
        self.refusals.settle()
        if not self._settings.master and not self._looking and self._seconds % LOOK_EVERY_S == 0:
            self._looking = True
            self._finder.look().addCallback(self._looked).addErrback(self._failed, "looking for the master")
        elif self._main and self.following is not None and self.following.connection is None:
            self._ha.again()  # it may have another HA port now
        self._seconds += 1
        now_s = self._reactor.seconds()
        if self._exporting is None and now_s - self._exported_s >= self._settings.every_s:
            self._exported_s = now_s
            self._exporting = self._export()
            self._exporting.addErrback(self._failed, "the export").addBoth(self._export_ended)

    def _failed(self, failure: Failure, what: str) -> None:
        self._logger.error("{what}: {trace}", what=what, trace=failure.getTraceback())

    # --- whom

    def _looked(self, address: str) -> None:
        self._looking = False
        if self.running and address and address != self._main:
            self._follow(address)

    def _follow(self, address: str) -> None:
        self._main = address
        self._ha.find(address, NO_EPOCH)

    def _found(self, address: str, epoch: int, _shows_epoch: bool) -> None:
        following = self.following
        if following is not None and self.running and address != following.address:  # else it tries by itself
            following.start(address, epoch)

    # --- the export

    @defer.inlineCallbacks
    def _export(self) -> Any:
        offsets = yield self._finder.consumer_offsets()
        try:
            self.manifest = yield self._works[2].run(lambda: self._export_here(offsets))
        except RockethaError as error:
            if str(error) != self.problem:
                emit(self._logger, events.ExportFailed(str(error)))
            self.problem = str(error)
        else:
            self.problem = ""

    def _export_here(self, offsets: bytes | None) -> Manifest | None:
        """In the export's thread."""
        config, root = self._config, self._config.store.store_path_root_dir
        if offsets is not None:
            atomic_file.make_dirs(self._disk, f"{root}/config")
            atomic_file.save(self._disk, f"{root}/config/consumerOffset.json", offsets)
        commitlog = config.store.store_path_commit_log
        source = found(ReadingDisk(), root, (commitlog,) if commitlog else ())
        if not source.has_log():
            return None
        exporter = Exporter(source, self._disk, self._settings.directory, self._platform.wall_ms)
        identity = Identity(config.broker_cluster_name, config.broker_name, self._settings.learner_id)
        for _ in exporter.run(identity, self._settings.replica):
            pass
        return exporter.manifest

    def _export_ended(self, _: Any) -> None:
        self._exporting = None

    # --- what is

    @property
    def exported(self) -> int:
        """Log offset up to which there is an export; 0 of none."""
        return 0 if self.manifest is None else self.manifest.end

    @property
    def expired_early(self) -> int:
        """Files of the copied log that the disk had no room for; the export keeps what was exported."""
        return 0 if self.log is None else self._store.upkeep.expired_early

    def healthy(self) -> str | None:
        """For the status port: why nothing is exported; None: it is."""
        return self.problem or None

    def ready(self) -> str | None:
        """For the status port: why the log is not being copied; None: it is."""
        following = self.following
        if following is None:
            return "the log is being recovered"
        return None if following.transfers else following.problem or "the log is not being copied yet"

    def overview(self) -> Overview:
        """For the status page."""
        config, following, end = self._config, self.following, 0 if self.log is None else self.log.end
        why, failed = self.ready(), self.healthy()
        detail = why or failed or f"exported up to {self.exported} of {end}"
        own = Process(self._settings.replica, "learner", "", "follows" if why is None else "waits", not why, detail)
        master = Process(config.broker_name, "broker", self._main, "master", why is None) if self._main else None
        replica = Replica(None, "this learner", "learner", False, None, end)
        source = "this learner" if following is not None else "nobody yet"
        return Overview(
            f"learner of {config.broker_name}",
            [own, *([master] if master is not None else [])],
            [Group(config.broker_cluster_name, config.broker_name, source, [replica])],
            refused=refused_by(self.refusals),
            notes=["Replicas, topics and consumer groups are on the page of the group's master."],
        )

    def install(self, metrics: Registry) -> None:
        """Register the metrics."""
        refusals.install(metrics, self.refusals)
        for name, text, ask in (
            ("log_end", "Where the copied log ends, bytes.", lambda: 0 if self.log is None else self.log.end),
            ("exported", "Up to where it is exported, bytes.", lambda: self.exported),
            ("following", "1 while the log is being copied.", lambda: int(self.ready() is None)),
            ("files_expired_early", "Files of the copied log that went before their time.", lambda: self.expired_early),
            ("export_failed", "1 where the last export failed.", lambda: int(bool(self.problem))),
        ):
            metrics.ask(f"rocketha_learner_{name}", text, ask)

    # --- stop

    @defer.inlineCallbacks
    def stopService(self) -> Any:
        """Twisted: leave in order, with a last export; fires when the store is closed."""
        yield defer.maybeDeferred(super().stopService)
        if self._starting is None:
            return
        try:
            yield self._leave()
        finally:  # a process that ends without a signal waits for its threads
            self._finder.close()
            for each in self._works:
                each.stop()

    @defer.inlineCallbacks
    def _leave(self) -> Any:
        yield self._starting
        for clock in self._clocks:
            clock.stop()
        self._ha.close()
        following = self.following
        if following is not None:
            following.stop("the learner ends")
        self.refusals.close()
        if self._exporting is not None:
            yield self._exporting
        if self.log is not None:
            yield self._changes.idle()
            yield self._flusher.idle()
            yield self._upkeep.idle()
            yield self._works[0].run(self._close)
            yield self._export()
            name = self._settings.replica
            emit(self._logger, events.LearnerStopped(name, self._config.broker_name, self.exported))

    def _close(self) -> None:
        """In the log's thread, while nothing else runs."""
        if self.log is not None:
            self._mode.end_log(self.log)
        self._store.close(self._platform.now_ms())
