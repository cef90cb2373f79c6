"""The ports and connections of one process: in the clear, or under TLS, as ``tls.*`` says.

Theory of operation.  A port takes both kinds of connections and tells them apart by their first byte
(:mod:`rocketha.protocols.first_byte`), which with listed proxies is the first one behind their header
(:mod:`rocketha.protocols.proxy_port`).  The files are looked at once a second while a server runs.  When other ones are
taken, open connections whose other end they would not let in are ended, between other work.

Without the extra ``rocketha[tls]`` whoever asks for TLS is refused, and a configuration that wants it does not start.
Where nothing is configured the certificate is made when the first client asks for TLS: that costs nobody else anything.
"""

from __future__ import annotations

import datetime
import importlib.util
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from twisted.application import service, strports
from twisted.internet import task
from twisted.internet.interfaces import IProtocol

from rocketha.access.askers import ANYBODY, Askers
from rocketha.access.identity import Identity, Part
from rocketha.access.trusted import parse
from rocketha.addresses import NOBODY, Networks
from rocketha.errors import ConfigError, InvariantBroken
from rocketha.observe.logging import lasting, make_logger
from rocketha.observe.metrics import Registry
from rocketha.observe.refusals import Refusals
from rocketha.protocols.endpoints import client_endpoint, literal_host, split_address
from rocketha.protocols.first_byte import FirstBytePort, TlsMode
from rocketha.protocols.proxy_port import ProxyPort
from rocketha.services.config.exposure import INSECURE, check_exposure
from rocketha.services.config.proxies import check_proxies
from rocketha.services.config.tls import TlsConfig, words
from rocketha.services.process.ticker import Ticker

if TYPE_CHECKING:
    from rocketha.protocols.tls_layer import Opened, TlsFactory
    from rocketha.services.tls.certificates import Credentials

LOOK_S = 1.0
"""Between two looks at the files."""
EXPIRES_SOON = datetime.timedelta(days=14)
NOT_INSTALLED = "TLS needs OpenSSL for Python, which is not installed: pip install 'rocketha[tls]'"


def installed() -> bool:
    """Whether the extra is."""
    return all(importlib.util.find_spec(name) is not None for name in ("OpenSSL", "service_identity"))


class _Loaded(NamedTuple):
    """What needs OpenSSL."""

    credentials: Credentials
    opened: Opened
    factory: TlsFactory


class ServerTls:
    """TLS of the ports (:class:`rocketha.protocols.first_byte.Secured`).

    :raises ConfigError: a file is missing or holds something else; the extra is missing.
    """

    def __init__(self, config: TlsConfig) -> None:
        self._config = config
        self._loaded: _Loaded | None = None
        self._problem = ""
        if not installed():
            self._problem = NOT_INSTALLED
            if config.server_mode == "enforcing" or config.server_cert_path:
                raise ConfigError(NOT_INSTALLED)
        elif not config.test_server and not config.server_cert_path:
            self._problem = "there is no tls.server.certPath, and tls.test.mode.enable is false"
        elif config.server_cert_path or config.ciphers or config.protocols:
            self._loaded = self._load()

    @property
    def credentials(self) -> Credentials | None:
        """Those in use; None: nobody has asked for TLS yet, or nobody can."""
        return self._loaded.credentials if self._loaded is not None else None

    @property
    def opened(self) -> Opened | None:
        """The connections made with them."""
        return self._loaded.opened if self._loaded is not None else None

    @property
    def problem(self) -> str:
        """See :class:`~rocketha.protocols.first_byte.Secured`."""
        if self._loaded is None and not self._problem:
            try:
                self._loaded = self._load()
            except ConfigError as problem:
                self._problem = str(problem)
        return self._problem

    def _load(self) -> _Loaded:
        from rocketha.protocols.tls_layer import Opened, accepting
        from rocketha.services.tls.certificates import Credentials, Side

        config = self._config
        credentials = Credentials(
            Side(
                cert_path=config.server_cert_path,
                key_path=config.server_key_path,
                key_password=config.server_key_password,
                trust_path=config.server_trust_cert_path,
                demands=config.server_need_client_auth == "require",
                self_made=config.test_server,
                protocols=words(config.protocols),
                ciphers=words(config.ciphers),
            )
        )
        opened = Opened(credentials)
        return _Loaded(credentials, opened, accepting(credentials, opened))

    def secure(self, inner: Any, transport: Any, failed: Any) -> IProtocol:
        """See :class:`~rocketha.protocols.first_byte.Secured`."""
        from rocketha.protocols.tls_layer import secure_accepted

        if self._loaded is None:
            raise InvariantBroken("TLS was offered without a certificate")
        return secure_accepted(self._loaded.factory, inner, transport, failed)


class ClientTls:
    """TLS of the connections that this process makes.

    :raises ConfigError: as :class:`ServerTls`.
    """

    def __init__(self, config: TlsConfig) -> None:
        if not installed():
            raise ConfigError(NOT_INSTALLED)
        from rocketha.protocols.tls_layer import Opened, Sessions
        from rocketha.services.tls.certificates import Credentials, Side

        self._sessions = Sessions()
        self._checks_host = config.client_auth_server and config.client_check_host
        self.credentials = Credentials(
            Side(
                cert_path=config.client_cert_path,
                key_path=config.client_key_path,
                key_password=config.client_key_password,
                trust_path=config.client_trust_cert_path,
                protocols=words(config.protocols),
                ciphers=words(config.ciphers),
            )
        )
        self.opened = Opened(self.credentials)

    def endpoint(self, reactor: Any, address: str, timeout_s: float) -> Any:
        """As :func:`~rocketha.protocols.endpoints.client_endpoint`."""
        from rocketha.protocols.tls_layer import TlsEndpoint, dialing

        host, ip = split_address(address)[0], literal_host(address)
        beneath = client_endpoint(reactor, address, timeout_s)
        tls = dialing(self.credentials, self.opened, host if ip is None else None, address, self._sessions)
        return TlsEndpoint(reactor, beneath, tls, timeout_s, address, self._check(host, ip))

    def _check(self, host: str, ip: str | None) -> Any:
        if not self._checks_host:
            return lambda connection: None
        from service_identity import pyopenssl

        if ip is None:
            return lambda connection: pyopenssl.verify_hostname(connection, host)
        return lambda connection: pyopenssl.verify_ip_address(connection, ip)


class TlsNetwork(service.Service):
    """The :class:`~rocketha.protocols.network.Network` of a server; while it runs it looks at its files.

    :param listens: whether there are ports that may need a certificate.
    :param reactor: keeps the time between two looks; the global one, taken at the start, where not given.
    :param wall: the time of day, seconds since 1970.
    :raises ConfigError: the configured files cannot be used.
    """

    def __init__(
        self, config: TlsConfig, listens: bool = True, reactor: Any = None, wall: Callable[[], float] = time.time
    ) -> None:
        self.setName("tls")
        self._config = config
        self._mode = TlsMode(config.server_mode)
        self._server = ServerTls(config) if listens else None
        self._client = ClientTls(config) if config.enable else None
        self._trusted = parse(config.trusted_peers)
        demanded = config.identities == "required"
        self._askers = Askers(self._shown, self._own(), self._trusted) if demanded else ANYBODY
        self._reactor = reactor
        self._wall = wall
        self._warned: dict[str, datetime.datetime] = {}
        self._looks: Ticker | None = None
        self._sweeps: task.Cooperator | None = None
        self._ended: Counter[str] = Counter()
        self._log = make_logger()

    # -- the ports and the connections

    def port(
        self, reactor: Any, description: str, factory: Any, refusals: Refusals, proxies: Networks = NOBODY
    ) -> service.Service:
        """See there; an endpoint string that brings TLS of its own (``ssl:``) is left to that."""
        if self._server is None:
            raise InvariantBroken("a port is opened by a network that was made without")
        check_exposure(description, self._config)
        check_proxies(description, proxies, self._trusted)
        if not description.startswith("ssl:"):
            factory = FirstBytePort(factory, self._mode, self._server, refusals)
        if proxies:
            factory = ProxyPort(factory, proxies, refusals)
        return strports.service(description, factory, reactor)

    @property
    def notice(self) -> str:
        """What an operator should be reminded of; empty for nothing."""
        return INSECURE if self._config.insecure_network else ""

    def endpoint(self, reactor: Any, address: str, timeout_s: float) -> Any:
        connect = client_endpoint if self._client is None else self._client.endpoint
        return connect(reactor, address, timeout_s)

    # -- identities

    @property
    def askers(self) -> Askers:
        return self._askers

    def _own(self) -> Sequence[Identity]:
        """Who this process is.

        :raises ConfigError: its certificates do not say it, or not the same.
        """
        found = {side: each.identities for side, each in self.credentials.items()}
        who = next(iter(found.values()), ())
        if not who or len(set(found.values())) != 1:
            said = "; ".join(
                f"tls.{side}.certPath: {', '.join(map(str, each)) or 'none'}" for side, each in found.items()
            )
            raise ConfigError(
                f"tls.identities=required needs the identity of this process in its certificates, the same one in both "
                f"({said}): rocketha pki issue --as makes them"
            )
        return who

    def must_be(self, part: Part, name: str = "", cluster: str = "") -> None:
        """See that this process is what it is configured to be.

        :raises ConfigError: its certificate says something else.
        """
        own = self._askers.own
        wanted = [each for each in own if each.part is part and each.name == (name or each.name)]
        if own and not any(each.belongs_to(cluster or each.cluster) for each in wanted):
            what = f"{part.value} {name}".strip() + (f" of {cluster}" if cluster else "")
            raise ConfigError(f"the certificate says {', '.join(map(str, own))}, and the configuration {what}")

    @staticmethod
    def _shown(transport: Any) -> Sequence[Identity]:
        certificate = getattr(transport, "getPeerCertificate", lambda: None)()
        if certificate is None:
            return ()
        from rocketha.services.tls.certificates import identities_in

        try:
            return identities_in(certificate.to_cryptography())
        except (ConfigError, ValueError):  # an authority that issues what is none: not ours to say who that is
            return ()

    # -- the files

    @property
    def credentials(self) -> dict[str, Credentials]:
        """Those in use, by the side that shows them."""
        client = None if self._client is None else self._client.credentials
        server = None if self._server is None else self._server.credentials
        both = {"server": server, "client": client}
        return {side: each for side, each in both.items() if each is not None}

    def install(self, metrics: Registry) -> None:
        """Register what there is to watch."""
        metrics.ask(
            "rocketha_insecure_network",
            "1: ports are open to other machines, and identities are not demanded there.",
            lambda: int(bool(self.notice)),
        )
        metrics.ask_series(
            "rocketha_tls_certificate_expires_seconds",
            "Until when the own certificates are valid, since 1970.",
            ("side",),
            lambda: [((side,), each.expires.timestamp()) for side, each in self.credentials.items() if each.expires],
        )
        metrics.ask_series(
            "rocketha_tls_reloads_total",
            "How often changed files were taken.",
            ("side",),
            lambda: [((side,), each.changes) for side, each in self.credentials.items()],
            "counter",
        )
        metrics.ask_series(
            "rocketha_tls_distrusted_total",
            "Open connections that were ended because changed files would not let their other end in.",
            ("side",),
            lambda: [((side,), self._ended[side]) for side in self.credentials],
            "counter",
        )
        metrics.ask_series(
            "rocketha_tls_files_broken",
            "1: the files have changed and cannot be used, so the old ones are; the log says why.",
            ("side",),
            lambda: [((side,), int(bool(each.problem))) for side, each in self.credentials.items()],
        )

    def startService(self) -> None:
        super().startService()
        if self.notice:
            self._log.warn("{notice}", notice=self.notice)
        if self._reactor is None:
            from twisted.internet import reactor

            self._reactor = reactor
        self._sweeps = task.Cooperator(scheduler=lambda call: self._reactor.callLater(0, call))
        self._looks = Ticker(self._reactor, lasting(self._look, "a look at certificates"), LOOK_S)
        self._looks.start()

    def stopService(self) -> None:
        super().stopService()
        if self._looks is not None:
            self._looks.stop()
            self._looks = None
        if self._sweeps is not None:
            self._sweeps.stop()
            self._sweeps = None

    def _look(self) -> None:
        for side, each in self.credentials.items():
            if each.look():
                if each.problem:
                    self._log.error("tls {side}: the old files stay in use: {problem}", side=side, problem=each.problem)
                else:
                    self._log.info("tls {side}: the files have changed and are in use", side=side)
                    self._sweep(side)
            self._warn(side, each)

    def _sweep(self, side: str) -> None:
        end = self._server if side == "server" else self._client
        if end is None or end.opened is None or self._sweeps is None:
            return
        swept = self._sweeps.coiterate(self._end_unbelieved(side, end.opened))
        swept.addErrback(lambda failure: failure.trap(task.SchedulerStopped))
        swept.addErrback(lambda failure: self._log.failure("old connections were not looked at", failure=failure))

    def _end_unbelieved(self, side: str, opened: Opened) -> Iterator[None]:
        ended = []
        for peer in opened.end_unbelieved():
            if peer:
                ended.append(peer)
                self._ended[side] += 1
            yield
        if ended:
            self._log.warn(
                "tls {side}: {count} open connections were ended whose certificates are believed no more, the first of "
                "{peer}",
                side=side,
                count=len(ended),
                peer=ended[0],
            )

    def _warn(self, side: str, credentials: Credentials) -> None:
        expires = credentials.expires
        if expires is None or self._warned.get(side) == expires:
            return
        left = expires - datetime.datetime.fromtimestamp(self._wall(), datetime.UTC)
        if left < EXPIRES_SOON:
            self._warned[side] = expires
            until = expires.isoformat()
            self._log.warn("tls {side}: the certificate is valid until {until}", side=side, until=until)
