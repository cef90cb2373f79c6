"""The status port, over Twisted's in-memory transports and once over a real socket."""

from __future__ import annotations

import gzip
from typing import Any

from twisted.internet import reactor
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, inlineCallbacks
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase, TestCase
from twisted.web.client import Agent, readBody

from rocketha.observe.http import CONNECTIONS_MAX, FIRST_REQUEST_S, TIMEOUT_S, StatusFactory
from rocketha.observe.metrics import PIECE_SAMPLES, SERIES_MAX, Registry
from rocketha.observe.refusals import Refusals

ADDRESS = IPv4Address("TCP", "127.0.0.1", 5)


class StatusTests(SynchronousTestCase):
    """One factory; each request on a connection of its own."""

    def setUp(self) -> None:
        """A service whose health a test can change."""
        self.health: str | None = None
        self.readiness: str | None = None
        self.registry = Registry()
        self.registry.counter("sent_total", "Messages.").value = 3
        self.clock = Clock()
        self.refusals = Refusals("broker", self.clock.seconds)
        self.factory = StatusFactory(
            self.registry,
            lambda: self.health,
            lambda: self.readiness,
            self.clock,
            self.refusals,
            document=lambda: b'{"a":1}',
        )
        self.host = IPv4Address("TCP", "10.0.0.1", 8088)
        self.factory.doStart()
        self.addCleanup(self.factory.doStop)

    def connect(self) -> tuple[Any, StringTransportWithDisconnection]:
        """An open connection."""
        protocol = self.factory.buildProtocol(ADDRESS)
        transport = StringTransportWithDisconnection(self.host, peerAddress=ADDRESS)
        transport.protocol = protocol
        if protocol is not None:
            protocol.makeConnection(transport)
        return protocol, transport

    def ask(self, request: bytes) -> tuple[int, bytes, bytes]:
        """(status, head, body) of the first answer."""
        protocol, transport = self.connect()
        protocol.dataReceived(request)
        head, _, body = transport.value().partition(b"\r\n\r\n")
        return int(head.split(b" ")[1]), head.lower(), body

    def get(self, path: str) -> tuple[int, bytes, bytes]:
        """A plain GET."""
        return self.ask(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    def test_metrics(self) -> None:
        """The registry's text, as the content type Prometheus asks for, never cached."""
        status, head, body = self.get("/metrics")
        self.assertEqual((status, body), (200, self.registry.exposition().encode()))
        self.assertIn(b"content-type: text/plain; version=0.0.4", head)
        self.assertIn(b"cache-control: no-store", head)

    def test_formats(self) -> None:
        """OpenMetrics for a scraper that prefers it; gzip for who takes it; a query changes nothing."""
        ask = b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n"
        status, head, body = self.ask(ask + b"Accept: application/openmetrics-text;version=1.0.0\r\n\r\n")
        self.assertEqual((status, body[-6:]), (200, b"# EOF\n"))
        self.assertIn(b"content-type: application/openmetrics-text; version=1.0.0", head)
        status, head, body = self.ask(b"GET /metrics HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n")
        self.assertIn(b"content-encoding: gzip", head)
        self.assertEqual(gzip.decompress(body), self.registry.exposition().encode())
        status, head, body = self.get("/healthz")
        self.assertNotIn(b"content-encoding", head)

    def large(self) -> bytes:
        """The text of a registry that is too large for one turn."""
        family = self.registry.gauges("level", "h", ["topic"])
        for number in range(4 * PIECE_SAMPLES // 2):
            family.labelled(f"T{number}")
        self.registry.ask_series("other", "h", ["topic"], lambda: [((str(n),), n) for n in range(SERIES_MAX)])
        return self.registry.exposition().encode()

    def test_a_large_page(self) -> None:
        """It comes in pieces, and others are served between them; compressed it is the same."""
        text = self.large()
        for encoding in (b"", b"Accept-Encoding: gzip\r\n"):
            protocol, transport = self.connect()
            protocol.dataReceived(b"GET /metrics HTTP/1.0\r\n" + encoding + b"\r\n")
            self.assertNotIn(b'other{topic="999"}', transport.value())
            self.assertTrue(transport.connected)
            self.assertEqual(self.get("/healthz")[0], 200)
            for _ in range(8):
                self.clock.advance(0)
            self.assertFalse(transport.connected)
            body = transport.value().partition(b"\r\n\r\n")[2]
            self.assertEqual(gzip.decompress(body) if encoding else body, text)

    def test_a_large_page_that_nobody_waits_for(self) -> None:
        """Whoever leaves ends it."""
        self.large()
        protocol, transport = self.connect()
        protocol.dataReceived(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        transport.loseConnection()
        self.clock.advance(0)
        self.assertEqual([call for call in self.clock.getDelayedCalls() if call.time <= self.clock.seconds()], [])

    def test_a_large_page_that_fails(self) -> None:
        """What came of it is not taken for the whole."""
        self.large()
        self.registry.ask("zero", "h", lambda: 1 // 0)
        protocol, transport = self.connect()
        protocol.dataReceived(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        with self.assertRaises(ZeroDivisionError):
            for _ in range(8):
                self.clock.advance(0)
        self.assertFalse(transport.connected)
        self.assertNotIn(b"\r\n0\r\n\r\n", transport.value())

    def test_health_and_readiness_are_told_apart(self) -> None:
        """A broker that recovers is healthy and not ready; the reason is in the body."""
        self.readiness = "recovering the store"
        self.assertEqual(self.get("/healthz")[::2], (200, b"ok\n"))
        self.assertEqual(self.get("/readyz")[::2], (503, b"recovering the store\n"))
        self.readiness, self.health = None, "the disk failed"
        self.assertEqual(self.get("/readyz")[::2], (200, b"ok\n"))
        self.assertEqual(self.get("/healthz")[::2], (503, b"the disk failed\n"))

    def test_nothing_else_is_there(self) -> None:
        """Other paths are 404, also below a page; other methods 405; HEAD has no body."""
        for path in ("/nothing", "/metrics/x", "/metrics/x/y", "/../metrics", "/%2e%2e/etc/passwd"):
            self.assertEqual(self.get(path)[0], 404, path)
        for path in ("/nothing/", "/page.css/", "/site/page.html", "/page.html", "/%ff"):
            self.assertEqual(self.get(path)[0], 404, path)
        self.assertEqual(self.get("/metrics/")[0], 200)
        for method in (b"DELETE", b"POST", b"PURGE"):
            status, head, body = self.ask(method + b" /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual((status, body), (405, b"only GET and HEAD\n"))
            self.assertIn(b"content-type: text/plain", head)
        self.assertEqual(self.ask(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")[::2], (200, b""))

    def test_any_bytes_in_a_header(self) -> None:
        """Are no error of ours."""
        for name in (b"Accept", b"Accept-Encoding", b"Host", b"If-None-Match", b"Cookie"):
            for path in (b"/", b"/metrics", b"/overview.json", b"/none"):
                request = b"GET " + path + b" HTTP/1.1\r\n" + name + b": \xe1\xff\r\n\r\n"
                self.assertIn(self.ask(request)[0], (200, 404), request)
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_a_head_is_no_line_in_the_log(self) -> None:
        """Whoever asks how long a page is, of whatever path; the answer says it."""
        logged: list[Any] = []
        globalLogPublisher.addObserver(logged.append)
        self.addCleanup(globalLogPublisher.removeObserver, logged.append)
        for path in (b"/", b"/metrics", b"/healthz", b"/none", b"/\x83\x7f", b"/../etc"):
            length = len(self.ask(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")[2])
            _, head, body = self.ask(b"HEAD " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertEqual(body, b"")
            if path != b"/metrics":  # which is made in pieces
                self.assertIn(b"content-length: %d" % length, head, path)
        self.assertEqual([each for each in logged if each["log_namespace"] != "twisted.web.http.HTTPChannel"], [])

    def test_the_page(self) -> None:
        """HTML, its style and script, and the JSON; nothing from elsewhere, nothing that a script could be put into."""
        policy = b"content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'"
        for path, kind, begin in (
            ("/", b"text/html; charset=utf-8", b"<!doctype html>"),
            ("/page.css", b"text/css; charset=utf-8", b":root"),
            ("/page.js", b"text/javascript; charset=utf-8", b'"use strict"'),
            ("/overview.json", b"application/json", b'{"a":1}'),
        ):
            status, head, body = self.get(path)
            self.assertEqual((status, body[: len(begin)]), (200, begin), path)
            for line in (b"content-type: " + kind, policy, b"x-content-type-options: nosniff", b"no-store"):
                self.assertIn(line, head, path)
            self.assertNotRegex(body, rb"https?://|innerHTML|insertAdjacentHTML|document\.write|\son[a-z]+=|style=")
            self.assertEqual(self.ask(f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())[::2], (200, b""))
            self.assertEqual(self.ask(f"POST {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())[0], 405)

    def test_whoever_is_led_here_by_name(self) -> None:
        """By loopback the page is only for who asks for loopback: a site whose name was made to mean 127.0.0.1 reads
        nothing. Programs that scrape send no page's name, and go on."""
        self.host = IPv4Address("TCP", "127.0.0.1", 8088)
        for name, wanted in (
            ("127.0.0.1:8088", 200),
            ("localhost:8088", 200),
            ("LOCALHOST", 200),
            ("[::1]:8088", 200),
            ("127.1.2.3", 200),
            ("evil.example:8088", 421),
            ("127.0.0.1.evil.example", 421),
            ("localhost.evil.example", 421),
            ("10.0.0.1", 421),
            ("", 421),
            ("\xff", 421),
        ):
            for path in ("/", "/page.js", "/overview.json"):
                status, _, _ = self.ask(f"GET {path} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode("latin-1"))
                self.assertEqual(status, wanted, (name, path))
            self.assertEqual(self.ask(f"GET /metrics HTTP/1.1\r\nHost: {name}\r\n\r\n".encode("latin-1"))[0], 200)
        self.assertEqual(self.ask(b"GET / HTTP/1.0\r\n\r\n")[0], 200)
        self.host = IPv6Address("TCP", "::ffff:127.0.0.1", 8088)  # IPv4 to a port on [::]
        self.assertEqual(self.ask(b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n")[0], 421)
        self.assertEqual(self.ask(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8088\r\n\r\n")[0], 200)
        self.host = IPv4Address("TCP", "10.0.0.1", 8088)
        self.assertEqual(self.ask(b"GET / HTTP/1.1\r\nHost: broker-1.example\r\n\r\n")[0], 200)

    def test_methods_that_are_no_text(self) -> None:
        """Nothing that a peer sends is a traceback in the log."""
        for line in (
            b"\xff\xfe / HTTP/1.1",
            b"GET /\xff\xfe HTTP/1.1",
            b"GET /a?\xff=\xff HTTP/1.1",
            b"GET * HTTP/1.1",
        ):
            protocol, transport = self.connect()
            protocol.dataReceived(line + b"\r\nHost: \xff..a\r\n\r\n")
            self.assertRegex(transport.value(), rb"^HTTP/1\.1 40[045] ")
        self.assertEqual(self.flushLoggedErrors(), [])

    def test_bodies_are_refused(self) -> None:
        """A body, announced or chunked, gives 413 and the end of the connection, and no page."""
        for head in (b"Content-Length: 1000000000", b"Transfer-Encoding: chunked", b"Content-Length: 3"):
            protocol, transport = self.connect()
            protocol.dataReceived(b"POST /metrics HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\nabc")
            self.assertTrue(transport.value().startswith(b"HTTP/1.1 413 "), transport.value())
            self.assertEqual(transport.value().count(b"HTTP/1.1 "), 1)
            self.assertFalse(transport.connected)

    def test_endless_heads_are_refused(self) -> None:
        """A head that goes on and on ends the connection."""
        protocol, transport = self.connect()
        protocol.dataReceived(b"GET /metrics HTTP/1.1\r\n")
        for number in range(10_000):
            protocol.dataReceived(b"X-%d: %s\r\n" % (number, b"x" * 100))
            if not transport.connected:
                return
        self.fail("a megabyte of headers was read")

    def test_silent_connections_keep_nobody_out(self) -> None:
        """However many of them there are, whoever comes is served; they leave oldest first, and that is counted."""
        silent = [self.connect() for _ in range(CONNECTIONS_MAX)]
        self.assertEqual(self.get("/healthz")[0], 200)
        self.assertEqual([transport.connected for _, transport in silent], [False] + [True] * (CONNECTIONS_MAX - 1))
        self.assertEqual(self.refusals.ended, {"lost_place": 1})
        self.assertLessEqual(len(self.factory.protocols), CONNECTIONS_MAX)

    def test_the_last_request_decides(self) -> None:
        """Who asked keeps his place longer than who came later and said nothing."""
        scraper, transport = self.connect()
        for _ in range(CONNECTIONS_MAX - 1):
            self.connect()
        scraper.dataReceived(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        for _ in range(CONNECTIONS_MAX - 1):
            self.connect()
        self.assertTrue(transport.connected)
        self.connect()
        self.assertFalse(transport.connected)

    def test_a_first_request_has_less_time(self) -> None:
        """However its bytes trickle; one that ends by itself, or asked, is not counted."""
        _, gone = self.connect()
        gone.loseConnection()
        asked, served = self.connect()
        asked.dataReceived(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        slow, transport = self.connect()
        for _ in range(FIRST_REQUEST_S):
            self.assertTrue(transport.connected)
            slow.dataReceived(b"G")
            self.clock.advance(1)
        self.assertFalse(transport.connected)
        self.assertTrue(served.connected)
        self.clock.advance(TIMEOUT_S)
        self.assertFalse(served.connected)
        self.assertEqual(self.refusals.ended, {"no_request": 1})

    def test_byte_by_byte(self) -> None:
        """A client that writes a byte at a time is served."""
        protocol, transport = self.connect()
        for byte in b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n":
            protocol.dataReceived(bytes([byte]))
        self.assertTrue(transport.value().endswith(b"\r\n\r\nok\n"))


class RealPortTests(TestCase):
    """Once over a socket, with Twisted's own client."""

    @inlineCallbacks
    def test_get(self) -> Any:
        """GET /metrics from a listening port."""
        registry = Registry()
        registry.counter("sent_total", "Messages.").value = 3
        port = reactor.listenTCP(0, StatusFactory(registry, lambda: None, lambda: None), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        url = f"http://127.0.0.1:{port.getHost().port}/metrics".encode()
        response = yield Agent(reactor).request(b"GET", url)
        self.assertEqual(response.code, 200)
        body: Deferred[bytes] = readBody(response)
        self.assertIn(b"sent_total 3.0\n", (yield body))
