"""The broker as a Twisted service: from a closed store to an open one, and back.

Theory of operation.  Start: the store is recovered in a thread, then the broker is made
(:mod:`rocketha.services.broker.running`), then the ports open, then it serves; a request never meets a half-recovered
store.  Nothing is opened before ``startService``.  Stop: hand the role over, unregister, save, close the store, close
the ports; between these two a former master may stay for clients that do not know yet
(:mod:`rocketha.services.broker.draining`).

Java: ``BrokerController``, ``BrokerStartup``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from twisted.application import service
from twisted.internet import defer
from twisted.python.failure import Failure

from rocketha import compiled
from rocketha.broker.state import BrokerIdentity
from rocketha.errors import ConfigError, DiskFailure
from rocketha.observe import events
from rocketha.observe.logging import emit, emit_disk_failure, make_logger
from rocketha.observe.metrics import Registry
from rocketha.observe.overview import Overview
from rocketha.observe.refusals import Refusals
from rocketha.services.broker.java_metrics import exported_registry
from rocketha.services.broker.overview import overview
from rocketha.services.broker.own_host import address_of, is_address
from rocketha.services.broker.running import MakeRoleSource, RunningBroker
from rocketha.services.config import views
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.core.core import Works, make_core
from rocketha.services.core.parts import Opened, make_parts, store_host_of
from rocketha.services.features.finding import Enabled
from rocketha.services.process.platform import Platform
from rocketha.services.replication.mode import mode_of
from rocketha.store.message_store import MessageStore


class BrokerService(service.MultiService):
    """A broker.

    :param listen: endpoint strings of the main port; from ``bindAddress`` and ``listenPort`` where empty.
    :param warnings: what to log at the start.
    :param role_source: who decides about the role; what the configuration says where not given.
    :param plugins: that are on, in order.
    :ivar metrics: what it tells Prometheus.
    :ivar exported: the same under Java's names; None: nobody asks for it.
    :ivar started: fires when the ports are open, or with what went wrong.
    """

    def __init__(
        self,
        config: BrokerConfig,
        platform: Platform,
        listen: Sequence[str] = (),
        warnings: Sequence[str] = (),
        role_source: MakeRoleSource | None = None,
        plugins: Sequence[Enabled] = (),
    ) -> None:
        super().__init__()
        self.setName("broker")
        self.config = config
        self.platform = platform
        self.log = make_logger()
        self.started: defer.Deferred[None] = defer.Deferred()
        self.metrics = Registry()
        self.exported = exported_registry(config)
        self.refusals = Refusals("broker", platform.seconds, self._client_id)
        self._listen = tuple(listen)
        self._warnings = tuple(warnings)
        self._mode = mode_of(config.replication)
        self._role_source = role_source
        self._plugins = tuple(plugins)
        self._failed: str | None = None
        self._works: Works | None = None
        self._starting: defer.Deferred[Any] | None = None
        self._opened: Opened | None = None
        self._broker: RunningBroker | None = None

    @property
    def broker(self) -> RunningBroker:
        """The broker; there once its store is recovered."""
        if self._broker is None:
            raise RuntimeError("the broker is not started")
        return self._broker

    @property
    def serving(self) -> bool:
        """Whether its ports are open and it has not begun to stop."""
        return self._broker is not None and self._broker.serving

    def _client_id(self, connection_id: int) -> str | None:
        return None if self._broker is None else self._broker.state.clients.client_id(connection_id)

    # --- start

    def startService(self) -> None:
        """Twisted: recover, then serve; ``started`` fires when the ports are open."""
        super().startService()
        for warning in self._warnings:
            self.log.warn("{text}", text=warning)
        began_s = self.platform.seconds()
        works = self._works = Works.start(self.platform)
        self._starting = self._own_address(works)
        self._starting.addCallback(self._recover, works).addCallback(self._recovered, works, began_s)
        self._starting.addErrback(self._not_started)

    def _own_address(self, works: Works) -> defer.Deferred[str]:
        host = self.config.broker_ip1
        return defer.succeed(host) if is_address(host) else works.log.run(functools.partial(address_of, host))

    def _recover(self, address: str, works: Works) -> defer.Deferred[Opened]:
        keys, platform = self.config.store, self.platform
        store = MessageStore(
            platform.disk,
            keys.store_path_root_dir,
            views.store_config(self.config),
            store_host_of(self.config, address),
        )
        sync_flush = keys.flush_disk_type == "SYNC_FLUSH"
        now_ms, pid = platform.now_ms(), platform.pid()

        def recover() -> Opened:
            report, log = self._mode.open_log(store, platform.disk, self.config.replication, sync_flush, now_ms, pid)
            return Opened(address, store, log, report)

        return works.log.run(recover)

    def _recovered(self, opened: Opened, works: Works, began_s: float) -> None:
        self._opened = opened
        for note in opened.report.notes:
            self.log.warn("store: {note}", note=note)
        parts = make_parts(
            self.config, self.platform, self._identity(), opened, works.files, lambda now_ms: self.broker.facts()
        )
        core = make_core(self.config, self.platform, works, parts, self.metrics, self.refusals, self.exported)
        broker = self._broker = RunningBroker(core, opened, self._mode, self._role_source, self._plugins)
        if not self.running:
            return
        broker.open(self, self._listen)
        broker.serve()
        if not compiled.AVAILABLE:
            self.log.info("rocketha was installed without its compiled part: batches cost two to four times the CPU")
        report, identity = opened.report, broker.state.identity
        how = "new" if not report.end else "clean" if report.clean else "after a crash"
        seconds = self.platform.seconds() - began_s
        root = self.config.store.store_path_root_dir
        emit(self.log, events.BrokerStarted(identity.broker_name, identity.address, root, how, seconds))
        self.started.callback(None)

    def _identity(self) -> BrokerIdentity:
        config = self.config
        return BrokerIdentity(
            config.broker_cluster_name,
            config.broker_name,
            config.broker_id,
            _address(config.broker_ip1, config.listen_port),
            _address(config.broker_ip2, config.replication.ha_listen_port),
        )

    def _not_started(self, failure: Failure) -> None:
        self._failed = failure.getErrorMessage()
        emit_disk_failure(self.log, failure.value)
        if not isinstance(failure.value, (ConfigError, DiskFailure)):
            self.log.error("{trace}", trace=failure.getTraceback())
        self.platform.end(f"the broker can not start: {self._failed}")
        self.started.errback(failure)
        self.started.addErrback(lambda _: None)

    # --- stop

    @defer.inlineCallbacks
    def stopService(self) -> Any:
        """Twisted: leave in order; fires when the store is closed."""
        try:
            yield self._leave()
        finally:  # a process that ends without a signal waits for its threads
            if self._works is not None:
                self._works.stop()

    @defer.inlineCallbacks
    def _leave(self) -> Any:
        served, broker = self.serving, self._broker
        if served and broker is not None:
            name = broker.state.identity.broker_name
            emit(self.log, events.BrokerStopping(name, broker.replication.role.name))
        if served and broker is not None and (yield broker.leave()):
            broker.dispatcher.only_pass_on()
            yield self._end_store(served)
            yield broker.drain()
            yield self._close_ports()
        else:
            yield self._close_ports()
            yield self._end_store(served)

    @defer.inlineCallbacks
    def _close_ports(self) -> Any:
        broker = self._broker
        if broker is not None:
            broker.end()
        yield defer.maybeDeferred(super().stopService)
        if broker is not None:
            for factory in broker.core.factories:
                factory.close_all()

    def hurry(self) -> None:
        """Stop without waiting for clients, if it stops."""
        if self._broker is not None and self._broker.draining is not None:
            self._broker.draining.hurry()

    @defer.inlineCallbacks
    def _end_store(self, served: bool) -> Any:
        if self._starting is not None:
            yield self._starting
        if self._works is None or self._opened is None:
            return
        if self._broker is not None:
            yield self._broker.idle()
        yield self._works.log.run(functools.partial(self._close, self._opened, served))
        if served and self._broker is not None:
            name = self._broker.state.identity.broker_name
            emit(self.log, events.BrokerStopped(name, self._opened.store.max_physical_offset))

    def _close(self, opened: Opened, served: bool) -> None:
        """In the log's thread, while nothing else runs."""
        try:
            if served:
                self.broker.core.parts.files.save_all_blocking()
        finally:
            if served:
                self._mode.end_log(opened.log)
            if served or opened.report.clean:  # what a crash may have cost is the next start's to find, too
                opened.store.close(self.platform.now_ms())

    # --- for people and machines

    def overview(self) -> Overview:
        """For the status page."""
        return overview(self._broker, self.refusals)

    def healthy(self) -> str | None:
        """None, or why this process should be restarted."""
        return self._failed

    def ready(self) -> str | None:
        """None, or why the broker can not serve now."""
        if self._failed is not None:
            return self._failed
        if not self.serving:
            return "starting" if self.running else "stopped"
        return self.broker.unready()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
