"""The name server as a Twisted service: ports, the tick, probes, and kvConfig.json.

Decides nothing: it gives requests and connection ends to :class:`~rocketha.namesrv.requests.NameServer` and carries
out the effects that come back. Must not know a route or a request code other than 905, which it sends. Nothing is
opened before ``startService``; the reactor enters there, or is given by a test.

Theory of operation: one request is one call of ``NameServer.answer``; its effects are carried out before the answer
goes out, so that a KV change is on the disk when it is acknowledged: a thread writes it, and the answer follows
(:mod:`rocketha.services.tables.kv_file`). One looping call ticks every quarter of a
second: it ends graces, scans for expired brokers when that is due, and survives any exception. A tick that comes
late means that *we* stood still (suspended, stopped): brokers are not blamed for that time. Java classes:
``NamesrvController``, ``BrokerHousekeepingService``, ``BatchUnregistrationService``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from twisted.application import service
from twisted.internet import defer, error
from twisted.internet.protocol import Protocol
from twisted.python import log
from twisted.python.failure import Failure

from rocketha.errors import RequestRefused
from rocketha.namesrv.effects import (
    BrokerAppeared,
    BrokerRejected,
    BrokerRemoved,
    CloseConnection,
    ConfigChanged,
    Effect,
    HolderToBeAsked,
    NameShared,
    NotifyMinBrokerId,
    ProbePort,
    RowIgnored,
    SaveKvConfig,
)
from rocketha.namesrv.kv_config import KvConfig
from rocketha.namesrv.own_port import own_port
from rocketha.namesrv.requests import Caller, NameServer
from rocketha.namesrv.route_table import MASTER_ID, Registration
from rocketha.namesrv.routes import ROUTES
from rocketha.observe import events
from rocketha.observe.logging import emit, lasting, make_logger
from rocketha.observe.overview import Overview
from rocketha.observe.refusals import Ended, Refusals
from rocketha.protocols.admission import Admission
from rocketha.protocols.endpoints import client_endpoint, connect_protocol
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol, ServerParts
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.rates import NEWCOMERS_AT_ONCE, Rates
from rocketha.services.access.guard import guarded
from rocketha.services.config import views
from rocketha.services.config.loading import NamesrvConfig, describe, update
from rocketha.services.namesrv.holders import Holders
from rocketha.services.namesrv.overview import overview
from rocketha.services.process.clients import ConnectedClients
from rocketha.services.process.own_process import OwnProcess
from rocketha.services.process.platform import Platform
from rocketha.services.process.reserve import shows_by
from rocketha.services.process.ticker import Ticker
from rocketha.services.tables.kv_file import KvConfigFile
from rocketha.services.waiting.blocking import BlockingWork
from rocketha.wire.codes import PrivateCode, RequestCode, ResponseCode
from rocketha.wire.remoting import Answer, Command

TICK_S = 0.25
PROBE_TIMEOUT_S = 2.0
PAUSE_S = 2.0
"""A tick later than this means that the process stood still."""


class _Settings:
    """GET_ and UPDATE_NAMESRV_CONFIG act on the configuration in use."""

    def __init__(self, config: NamesrvConfig) -> None:
        self._config = config

    def describe(self) -> bytes:
        """Sorted ``key=value`` lines."""
        return describe(self._config)

    def update(self, body: bytes) -> Mapping[str, tuple[str, str]]:
        """See :func:`rocketha.services.config.loading.update`."""
        return update(self._config, body)


class NameServerService(service.MultiService):
    """A running name server.

    :param config: see :class:`NamesrvConfig`.
    :param listen: endpoint strings; from ``bindAddress`` and ``listenPort`` where empty.
    :param warnings: what to log at the start.
    """

    def __init__(
        self,
        config: NamesrvConfig,
        platform: Platform,
        listen: Sequence[str] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.setName("namesrv")
        self.config = config
        self.log = make_logger()
        self._platform = platform
        self._reactor = platform.reactor
        self._listen = tuple(listen) or (
            views.endpoint(config.bind_address, config.listen_port, config.remoting.server_socket_backlog),
        )
        self._warnings = tuple(warnings)
        self._kv_work: BlockingWork | None = None  # it runs
        self.refusals = Refusals("namesrv", platform.seconds)
        self._server: NameServer | None = None
        self.factory: RemotingFactory | None = None
        self._client: RemotingClient | None = None
        self._ticker: Ticker | None = None
        self._ports: list[Any] = []
        self._newcomers = Rates(NEWCOMERS_AT_ONCE)
        self._probes: set[defer.Deferred[Any]] = set()
        self._next_scan_ms = 0
        self._lookout = platform.stalls.lookout(TICK_S, PAUSE_S)

    # -- life -----------------------------------------------------------------------------------------------------

    @property
    def server(self) -> NameServer:
        """The state; there once the service is started."""
        if self._server is None:
            raise RuntimeError("the name server is not started")
        return self._server

    @property
    def ready(self) -> bool:
        """Whether routes are answered."""
        if not self.running or self._server is None:
            return False
        return not self.config.need_wait_for_service or (
            self._platform.now_ms() - self._server.started_ms >= self.config.wait_seconds_for_service * 1000
        )

    def overview(self) -> Overview:
        """For the status page."""
        table = self._server.table if self._server is not None else None
        return overview(table, self.refusals, self._platform.now_ms())

    def privilegedStartService(self) -> None:
        """Twisted: load the KV configuration and open the ports, while still allowed to take a low one.

        :raises CorruptStore: neither kvConfig.json nor its backup can be read.
        """
        self._prepare()
        super().privilegedStartService()

    def startService(self) -> None:
        """Twisted: serve.  A port that is taken is an error, not a server without a port."""
        self._prepare()
        super().startService()
        self._kv_work = self._work
        self._kv_work.start()
        self._next_scan_ms = self._platform.now_ms() + self.config.scan_not_active_broker_interval
        self._lookout.begin()
        self._ticker = Ticker(self._reactor, lasting(self._tick, "the clock"), TICK_S)
        self._ticker.start()
        for warning in self._warnings:
            self.log.warn("{text}", text=warning)
        emit(self.log, events.NameserverStarted(", ".join(self._listen)))

    @defer.inlineCallbacks
    def stopService(self) -> Generator[Any, Any, None]:
        """Twisted: close the ports and end every connection; fires when the ports are closed.

        Whoever changed the KV configuration hears first what became of it; no change is taken any more.
        """
        if self._ticker is not None:
            self._ticker.stop()
        for probe in list(self._probes):
            probe.cancel()
        stopped = defer.maybeDeferred(super().stopService)
        if self._kv_work is not None:
            self.server.kv_fixed = "the name server stops"
            yield self._kv_file.idle()
            self._kv_work.stop()
            self._kv_work = None
        self._holders.close()
        if self.factory is not None:
            self.factory.close_all()
        if self._client is not None:
            self._client.close()
            self._client = None
        for port in self._ports:
            port.disownServiceParent()
        self._ports = []
        self._server = None
        emit(self.log, events.NameserverStopped())
        yield stopped

    def _prepare(self) -> None:
        if self._server is not None:
            return
        self._work = self._platform.work(self._reactor, "rocketha-kv")
        self._kv_file = KvConfigFile(
            self._platform.disk, self.config.kv_config_path, self._work, self._kv_saved, self._kv_not_saved
        )
        self._server = NameServer(self.config, _Settings(self.config), self._kv_file.load(), self._platform.now_ms())
        limits = views.limits(self.config.remoting)
        admission = Admission(limits, self._purposes, reserve=True)
        parts = ServerParts(refusals=self.refusals, admission=admission, shows=shows_by(ROUTES))
        requests = guarded(self, self._platform.askers, ROUTES)
        self.factory = RemotingFactory(requests, self._reactor, limits, parts=parts)
        self._holders = Holders(self._platform.dialer)
        self._process = OwnProcess(self._platform, self._platform.askers.known)
        self._clients = ConnectedClients((self.factory,), self.refusals, self._purposes, self._process)
        proxies = self.config.proxies.networks
        for description in self._listen:
            port = self._platform.network.port(self._reactor, description, self.factory, self.refusals, proxies)
            port.setServiceParent(self)
            self._ports.append(port)

    # -- kvConfig.json --------------------------------------------------------------------------------------------

    def _kv_saved(self, table: KvConfig, changes: int) -> None:
        self.server.kv_saved(table, changes)

    def _kv_not_saved(self) -> None:
        self.server.kv_not_saved()

    def _save_kv(self, table: KvConfig, connection: RemotingProtocol, command: Command, answer: Answer) -> None:
        """Answer when it is on the disk."""

        def settled(failure: Exception | None) -> None:
            told = answer
            if failure is not None:
                told = Answer(ResponseCode.SYSTEM_ERROR, f"the change could not be saved: {failure}")
            connection.answer(command, told)

        self._kv_file.save(table, settled)

    # -- what connections say -------------------------------------------------------------------------------------

    def connected(self, connection: RemotingProtocol) -> None:
        """A connection is up: nothing to do before it asks."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """A connection ended: its brokers are suspects."""
        if self._server is not None and self.running:
            self._carry_out(
                self._server.liveness.connection_lost(connection.id, connection.proven_host, self._platform.now_ms())
            )

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        """Answer one request.

        :raises RequestRefused: answered by the protocol.
        """
        server = self.server
        if command.code == PrivateCode.CLIENTS:
            return self._clients.answer(connection, command)
        if command.code == PrivateCode.LOG_LEVEL:
            return self._process.log_level(connection, command)
        now_ms = self._platform.now_ms()
        if server.is_newcomer(command) and not self._newcomers.take(connection.socket_host, now_ms):
            remark = f"register broker failed: too many new addresses from {connection.socket_host}, later"
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, remark)
        try:
            answer = server.answer(command, Caller(connection.id, connection.proven_host), now_ms)
        except HolderToBeAsked as claim:
            return self._ask_holder(connection, command, claim)
        effects = server.take_effects()
        if len(effects) == 1 and isinstance(effects[0], SaveKvConfig):  # the only one of its request
            self._save_kv(effects[0].table, connection, command, answer)
            return None
        for effect in effects:
            if isinstance(effect, RowIgnored):
                connection.ignored(command, effect.reason, effect.what)
            else:
                self._carry_out((effect,))
        return answer

    def _ask_holder(self, connection: RemotingProtocol, command: Command, claim: HolderToBeAsked) -> Answer | None:
        """Take the registration in unless the holder still serves; at once where it cannot be asked."""
        port = own_port(claim.holder.address, claim.host)
        if port is None:
            return self._take_over(claim.request)

        def settle(serves: bool) -> None:
            if self._server is None or connection.closed:
                return
            try:
                if serves:
                    raise RequestRefused(ResponseCode.SYSTEM_ERROR, self._held(claim))
                answer = self._take_over(claim.request)
            except RequestRefused as refusal:
                answer = Answer(refusal.code, refusal.remark)
            connection.answer(command, answer)

        leads = claim.request.broker_id == MASTER_ID and claim.request.address != claim.holder.address
        self._holders.serves(port.address, leads, settle)
        return None

    def _held(self, claim: HolderToBeAsked) -> str:
        wanted = claim.request
        if wanted.address == claim.holder.address:
            return f"register broker failed: {wanted.address} answers, and registered from {claim.host}"
        return (
            f"register broker failed: id {wanted.broker_id} of {wanted.name} is that of {claim.holder.address}, which"
            " answers as such"
        )

    def _take_over(self, request: Registration) -> Answer:
        answer = self.server.take_over(request, self._platform.now_ms())
        self._carry_out(self.server.take_effects())
        return answer

    def turn_ended(self) -> None:
        """Nothing is staged between requests."""

    def _purposes(self, ids: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
        """The brokers that registered by them."""
        found: dict[int, dict[str, list[str]]] = {}
        wanted = frozenset(ids)
        for broker, live in self.server.table.live.items():
            if live.connection in wanted:
                row = found.setdefault(live.connection, {"brokers": []})
                row["brokers"].append(f"{live.key.cluster}/{live.key.name} {broker.address}")
        return found

    # -- effects --------------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ProbePort):
                self._probe(effect)
            elif isinstance(effect, CloseConnection):
                self._close(effect)
            elif isinstance(effect, NotifyMinBrokerId):
                self._notify(effect)
            else:
                self._audit(effect)

    def _audit(self, effect: Effect) -> None:
        for event in _events_of(effect):
            emit(self.log, event)

    def _close(self, effect: CloseConnection) -> None:
        connection = self.factory.connections.get(effect.connection) if self.factory is not None else None
        if connection is not None:
            connection.end(Ended.EXPIRED, effect.reason)

    def _notify(self, effect: NotifyMinBrokerId) -> None:
        if self._client is None:
            self._client = RemotingClient(self._platform.dialer)
        for address in effect.receivers:
            sent = self._client.oneway(address, RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, effect.fields())
            sent.addErrback(self._not_told, address)

    def _not_told(self, failure: Failure, address: str) -> None:
        reason = failure.getErrorMessage()
        self.log.warn("{address} was not told of the new lowest broker id: {reason}", address=address, reason=reason)

    def _probe(self, probe: ProbePort) -> None:
        self.log.info("the connection of broker {address} broke: asking its port", address=probe.broker.address)
        timeout_s = min(PROBE_TIMEOUT_S, self.config.broken_connection_grace * 0.8 / 1000)
        attempt = connect_protocol(client_endpoint(self._reactor, probe.port.address, timeout_s), Protocol())
        self._probes.add(attempt)

        def settled(result: Any) -> None:
            self._probes.discard(attempt)
            accepted: bool | None = None
            if not isinstance(result, Failure):
                accepted = True
                result.transport.abortConnection()
            elif result.check(error.ConnectionRefusedError):
                accepted = False
            if self._server is not None and self.running:
                self._carry_out(self._server.liveness.probed(probe, accepted))

        attempt.addBoth(settled).addErrback(lambda failure: log.err(failure, "a probe's result was lost"))

    # -- time -----------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        try:
            self._tick_unguarded()
        except Exception:
            self.log.failure("the tick failed; it goes on")

    def _tick_unguarded(self) -> None:
        late_s = self._lookout.look()
        server, now_ms = self.server, self._platform.now_ms()
        if late_s:
            server.liveness.paused(int(late_s * 1000))
        self._carry_out(server.liveness.tick(now_ms))
        if now_ms >= self._next_scan_ms:
            self._next_scan_ms = now_ms + self.config.scan_not_active_broker_interval
            self._carry_out(server.liveness.scan(now_ms))


def _events_of(effect: Effect) -> Iterator[events.Event]:
    """What is said of an effect that is only to be known."""
    match effect:
        case BrokerAppeared(broker, name, broker_id):
            yield events.RouteRegistered(f"{broker.cluster}/{name}", broker_id, broker.address)
        case BrokerRemoved(broker, name, number, reason):
            yield events.RouteRemoved(f"{broker.cluster}/{name}", number, broker.address, reason)
        case BrokerRejected(broker, name, broker_id, held_by, version, held_version):
            full = f"{broker.cluster}/{name}"
            yield events.RouteRejected(full, broker_id, broker.address, held_by, version, held_version)
        case NameShared(name, clusters):
            yield events.NameShared(name, list(clusters))
        case ConfigChanged(connection, changes):
            for change in changes:
                yield events.ConfigChanged(f"connection {connection}", *change)
