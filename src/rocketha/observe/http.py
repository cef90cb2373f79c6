"""The status port: a page for people at /, /metrics for Prometheus, /healthz and /readyz for whoever starts processes.

What it must not know: what makes a service healthy. It is given functions.

Off unless asked for, on loopback unless told, read-only, and without secrets: it still tells a stranger topic names and
volumes, so do not put it on a public address. Requests are bounded: no bodies (413), Twisted's 16 KiB of headers, three
seconds for the first request, ten of silence, 16 connections. One more ends the connection whose last request is the
longest ago, so that nobody keeps a scraper out by holding them.

- ``/``: a page for people, and what it asks for (:mod:`rocketha.observe.page`).
- ``/healthz``: 200 while the process should be left alone; 503 with the reason when it should be restarted.
- ``/readyz``: 200 while it can serve; 503 with the reason while it recovers, stops, or refuses writes.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.internet.protocol import connectionDone
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, GzipEncoderFactory, Request, Site

from rocketha.observe.metrics import Registry
from rocketha.observe.refusals import Ended, Refusals, Refused

CONNECTIONS_MAX = 16
FIRST_REQUEST_S = 3
TIMEOUT_S = 10

TEXT = b"text/plain; charset=utf-8"

Check = Callable[[], str | None]
"""None when all is well, else the reason why not. Asked on every request: it must be cheap."""


class StatusRequest(Request):
    """A request without a body: one that announces a body is refused and its bytes are dropped."""

    _refused = False

    def __repr__(self) -> str:
        """For logs: Twisted's own fails where a path is not ASCII, and the line is lost."""
        return f"<request {self.method!r} {self.uri!r}>"

    def getRequestHostname(self) -> bytes:
        """Twisted: asked where addresses of pages are made up, which is nowhere; so nobody has to check what it is."""
        return b"status"

    def gotLength(self, length: int | None) -> None:
        """Twisted: the head is read; ``length`` is None for a chunked body."""
        super().gotLength(0)
        if length != 0:
            self._refused = True
            self.channel.write(b"HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.channel.loseConnection()

    def handleContentChunk(self, data: bytes) -> None:
        """Twisted: a piece of a body."""

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """Twisted: the request is whole."""
        cast(StatusConnection, self.channel.transport).asked()
        if not self._refused:
            super().requestReceived(command, path, version)


class Page(Resource):
    """One read-only page.

    :param headers: beside its type.
    """

    def __init__(
        self,
        content_type: bytes,
        render: Callable[[Request], bytes | int],
        headers: Mapping[bytes, bytes] | None = None,
    ) -> None:
        super().__init__()
        self._headers = {b"content-type": content_type, b"cache-control": b"no-store", **(headers or {})}
        self._render = render

    def getChild(self, path: bytes, request: Request) -> Resource:
        """Twisted: what is left of a path, which is at most a slash."""
        return self

    def render(self, request: Request) -> bytes | int:
        """Twisted: a request for this page."""
        for name, value in self._headers.items():
            request.setHeader(name, value)
        answer = self._render(request)
        if request.method != b"HEAD" or not isinstance(answer, bytes):
            return answer
        request.setHeader(b"content-length", b"%d" % len(answer))
        return b""  # Twisted would drop the body, and log that for each such request


def only_reading(request: Request) -> bytes:
    """The answer to other methods than GET and HEAD. (Twisted's own is HTML that quotes the request.)"""
    request.setResponseCode(405)
    request.setHeader(b"allow", b"GET, HEAD")
    request.setHeader(b"content-type", TEXT)
    return b"only GET and HEAD\n"


def not_found(request: Request) -> bytes:
    """The answer to any other path."""
    request.setResponseCode(404)
    return b"not found\n"


class _Gzip(GzipEncoderFactory):
    """Metrics for who asks for it, at the least cost: their text is a tenth in any case."""

    compressLevel = 1


_GZIP = _Gzip()


class MetricsPage(Page):
    """What Prometheus reads.  A large page is made in several turns of the reactor, so that nobody waits for it.

    :param clock: the reactor.
    """

    def __init__(self, metrics: Registry, clock: Any) -> None:
        super().__init__(TEXT, self._begin)
        self._metrics = metrics
        self._clock = clock

    def _begin(self, request: Request) -> bytes | int:
        pieces, content_type = self._metrics.page((request.getHeader(b"accept") or b"").decode("latin-1"))
        request.setHeader(b"content-type", content_type.encode("ascii", "replace"))
        encoder = _GZIP.encoderForRequest(request)
        first, second = next(pieces), next(pieces, None)
        if second is None:
            return first if encoder is None else encoder.encode(first) + encoder.finish()
        rest, over = itertools.chain((first, second), pieces), request.notifyFinish()
        over.addErrback(lambda _: None)
        self._go_on(request, rest if encoder is None else _encoded(rest, encoder), over)
        return NOT_DONE_YET

    def _go_on(self, request: Request, pieces: Iterator[bytes], over: Deferred[None]) -> None:
        if over.called:  # the connection is gone
            return
        try:
            piece = next(pieces, None)
        except Exception:
            request.loseConnection()  # so that the half is not taken for the whole
            raise
        if piece is None:
            request.finish()
            return
        if piece:
            request.write(piece)
        self._clock.callLater(0, self._go_on, request, pieces, over)


def _encoded(pieces: Iterator[bytes], encoder: Any) -> Iterator[bytes]:
    for piece in pieces:
        yield encoder.encode(piece)
    yield encoder.finish()


def _checked(check: Check, notice: str = "") -> Callable[[Request], bytes]:
    def render(request: Request) -> bytes:
        reason = check()
        if reason is None:
            return f"ok\n{notice}".encode()
        request.setResponseCode(503)
        return reason.encode("utf-8", "backslashreplace") + b"\n"

    return render


class StatusConnection(ProtocolWrapper):
    """One connection; what :class:`~rocketha.observe.refusals.Peer` wants is told of it."""

    factory: StatusFactory
    id = 0
    language: str | None = None
    version: int | None = None
    refused: Refused | None = None

    def __init__(self, factory: StatusFactory, wrapped: Any) -> None:
        super().__init__(cast(Any, factory), wrapped)
        self.peer = self.peer_host = ""
        self._deadline: IDelayedCall | None = None

    def connectionMade(self) -> None:
        """Twisted: the transport is there."""
        peer = self.getPeer()
        self.peer_host = str(getattr(peer, "host", "unknown"))
        self.peer = f"{self.peer_host}:{getattr(peer, 'port', 0)}"
        why = f"no request within {FIRST_REQUEST_S} s"
        self._deadline = self.factory.clock.callLater(FIRST_REQUEST_S, self.end, Ended.NO_REQUEST, why)
        self.factory.opened(self)
        super().connectionMade()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Twisted: it ended."""
        self._wait_no_more()
        self.factory.places.pop(self, None)
        super().connectionLost(reason)

    def asked(self) -> None:
        """A request is whole."""
        self._wait_no_more()
        if self in self.factory.places:
            self.factory.places.move_to_end(self)

    def end(self, cause: Ended, why: str) -> None:
        """End it because of what the peer did not do."""
        self._wait_no_more()
        self.factory.places.pop(self, None)
        if self.factory.refusals is not None:
            self.factory.refusals.ended_by_us(self, cause, why)
        cast(Any, self.transport).abortConnection()

    def _wait_no_more(self) -> None:
        deadline, self._deadline = self._deadline, None
        if deadline is not None and deadline.active():
            deadline.cancel()


class StatusFactory(WrappingFactory):
    """The status pages as a factory for ``strports.service``, with a bound on connections.

    :param metrics: shown at /metrics.
    :param healthy: asked at /healthz.
    :param ready: asked at /readyz.
    :param notice: shown at /readyz.
    :param document: the JSON that the page shows.
    :param refusals: told of the connections that are ended; a service that has none only ends them.
    :ivar places: the connections, the one whose last request is the longest ago first.
    """

    noisy = False

    def __init__(
        self,
        metrics: Registry,
        healthy: Check,
        ready: Check,
        clock: Any | None = None,
        refusals: Refusals | None = None,
        notice: str = "",
        document: Callable[[], bytes] = lambda: b"{}",
    ) -> None:
        from rocketha.observe.status_app import Plain, StatusApp  # Klein: a process without this port does without it

        if clock is None:
            from twisted.internet import reactor as clock
        plain = Plain(
            metrics=MetricsPage(metrics, clock),
            healthz=Page(TEXT, _checked(healthy)),
            readyz=Page(TEXT, _checked(ready, notice)),
        )
        root = StatusApp(plain, document).resource()
        # Not logged: a scraper asks every few seconds.
        site = Site(root, requestFactory=StatusRequest, timeout=TIMEOUT_S, reactor=clock)
        site.displayTracebacks = False
        site.noisy = False
        site.log = lambda request: None  # type: ignore[method-assign]
        super().__init__(site)
        self.clock: Any = site.reactor
        self.refusals = refusals
        self.places: OrderedDict[StatusConnection, None] = OrderedDict()

    def buildProtocol(self, addr: IAddress | None) -> ProtocolWrapper:
        """Twisted: a client connects."""
        return StatusConnection(self, self.wrappedFactory.buildProtocol(addr))

    def opened(self, connection: StatusConnection) -> None:
        """Give a place, that of another where all are taken."""
        if len(self.places) >= CONNECTIONS_MAX:
            why = f"{CONNECTIONS_MAX} connections are open, and on this one the last request is the longest ago"
            next(iter(self.places)).end(Ended.LOST_PLACE, why)
        self.places[connection] = None
