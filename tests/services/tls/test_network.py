"""Ports and connections under TLS, on real sockets: who is served, who is refused and what is said about it."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
import ssl
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any
from unittest import mock

import trustme
from OpenSSL import SSL
from twisted.application import strports
from twisted.internet import defer, error, protocol, reactor, task, tcp, threads
from twisted.protocols import policies
from twisted.trial.unittest import TestCase

from rocketha.addresses import NOBODY, Networks
from rocketha.errors import ConfigError
from rocketha.observe.refusals import Refusals
from rocketha.protocols import tls_layer
from rocketha.protocols.endpoints import Dialer, TlsFailed
from rocketha.protocols.limits import Limits
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol, ServerParts
from rocketha.protocols.remoting_client import RemotingClient
from rocketha.services.config.proxies import check_proxies
from rocketha.services.config.tls import TlsConfig, check_tls
from rocketha.services.tls import network
from rocketha.services.tls.network import NOT_INSTALLED, TlsNetwork
from rocketha.wire.remoting import Answer, Command, encode, request
from tests.services.tls.authority import Authority, replace

CODE = 4711
HEADER = b"PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n"
CERTIFICATE_BYTES = 400
"""Of the authority's, at least."""


class _Echo:
    """Answers with what it was asked, so many times over."""

    def connected(self, connection: RemotingProtocol) -> None:
        """A connection is up."""

    def disconnected(self, connection: RemotingProtocol, reason: str) -> None:
        """It ended."""

    def turn_ended(self) -> None:
        """Nothing is staged."""

    def request(self, connection: RemotingProtocol, command: Command) -> Answer | None:
        self.turns = getattr(self, "turns", 0) + 1
        self.peer = connection.peer
        return Answer(body=command.body * int(command.fields.get("times", "1")))


class TlsCase(TestCase):
    """A server and clients, each with a configuration of its own."""

    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=self.mktemp_parent()))
        self.authority = Authority(self.folder)
        self.refusals = Refusals("test", reactor.seconds)  # type: ignore[attr-defined]
        self.echo = _Echo()

    def mktemp_parent(self) -> str:
        parent = self.mktemp()
        os.makedirs(parent)
        return parent

    def serve(self, limits: Limits | None = None, kind: str = "tcp", proxies: str = "", **keys: Any) -> str:
        """A port with this configuration: its address."""
        config = TlsConfig(**keys)
        check_tls(config)
        self.network = TlsNetwork(config)
        parts = ServerParts(refusals=self.refusals)
        self.factory = RemotingFactory(self.echo, reactor, limits, parts=parts)  # type: ignore[arg-type]
        listed = Networks.parse(proxies)
        port: Any = self.network.port(reactor, f"{kind}:0:interface=127.0.0.1", self.factory, self.refusals, listed)
        port.startService()
        self.addCleanup(port.stopService)
        self.addCleanup(self.factory.close_all)
        return f"127.0.0.1:{port._waitingForPort.result.getHost().port}"

    def client(self, **keys: Any) -> RemotingClient:
        """A client with this configuration; TLS unless it says otherwise."""
        config = TlsConfig(**{"enable": True, **keys})
        check_tls(config)
        self.clients = TlsNetwork(config)
        client = RemotingClient(Dialer(reactor, self.clients.endpoint))
        self.addCleanup(client.close)
        return client

    def certified(self, name: str = "server", *hosts: str) -> dict[str, str]:
        certificate, key = self.authority.issue(name, *hosts)
        return {"server_cert_path": certificate, "server_key_path": key}

    def shows(self, authority: Authority | None = None, name: str = "client") -> dict[str, str]:
        certificate, key = (authority or self.authority).issue(name)
        return {"client_cert_path": certificate, "client_key_path": key}

    @property
    def trusting(self) -> dict[str, Any]:
        return {"client_auth_server": True, "client_trust_cert_path": self.authority.trust}

    def assert_ended(self, **causes: int) -> None:
        self.assertEqual(dict(self.refusals.ended), causes)

    @defer.inlineCallbacks
    def refused(self, client: RemotingClient, address: str) -> Generator[Any, Any, str]:
        """Why a request gets no answer."""
        try:
            yield client.request(address, CODE, body=b"hello", timeout_s=5)
        except (error.ConnectError, error.ConnectionClosed) as problem:
            return f"{type(problem).__name__}: {problem}"
        raise AssertionError("it was served")

    @defer.inlineCallbacks
    def served(self, client: RemotingClient, address: str, times: int = 1) -> Generator[Any, Any, None]:
        answer = yield client.request(address, CODE, {"times": str(times)}, b"hello", 20)
        self.assertEqual(answer.body, b"hello" * times)

    @defer.inlineCallbacks
    def until(self, condition: Any) -> Generator[Any, Any, None]:
        for _ in range(500):
            if condition():
                return
            yield task.deferLater(reactor, 0.01, lambda: None)  # type: ignore[arg-type]
        raise AssertionError("it never came")


class ModeTests(TlsCase):
    """``tls.server.mode``, and a port without a certificate."""

    @defer.inlineCallbacks
    def test_each_mode_serves_whom_it_should(self) -> Generator[Any, Any, None]:
        tls, plain = self.client(), self.client(enable=False)
        for mode, serves_tls, serves_plain, ended in (
            ("disabled", False, True, {"no_tls": 1}),
            ("permissive", True, True, {}),
            ("enforcing", True, False, {"tls_needed": 1}),
        ):
            self.refusals.ended.clear()
            self.echo.turns = 0
            address = self.serve(server_mode=mode)
            for client, serves in ((tls, serves_tls), (plain, serves_plain)):
                if serves:
                    yield self.served(client, address)
                else:
                    yield self.refused(client, address)
            self.assertEqual(dict(self.refusals.ended), ended, mode)
            self.assertEqual(self.echo.turns, serves_tls + serves_plain, f"{mode}: who was refused reached the service")

    @defer.inlineCallbacks
    def test_a_port_without_openssl_says_what_is_missing(self) -> Generator[Any, Any, None]:
        with mock.patch.object(network, "installed", lambda: False):
            address = self.serve()
            for keys in (
                {"server_mode": "enforcing"},
                {"server_cert_path": "/a", "server_key_path": "/b"},
                {"enable": True},
            ):
                with self.assertRaisesRegex(ConfigError, r"rocketha\[tls\]"):
                    TlsNetwork(TlsConfig(**keys))
        yield self.served(self.client(enable=False), address)
        yield self.refused(self.client(), address)
        self.assert_ended(no_tls=1)
        self.assertIn(NOT_INSTALLED, self.refusals.kinds()[0]["remark"])

    @defer.inlineCallbacks
    def test_one_byte_at_a_time(self) -> Generator[Any, Any, None]:
        """However the handshake and the frames are cut."""
        address = self.serve(**self.certified())
        host, port = address.split(":")
        context = SSL.Context(SSL.TLS_METHOD)

        def talk() -> bytes:
            with socket.create_connection((host, int(port)), 10) as plain:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection = SSL.Connection(context, None)
                connection.set_connect_state()
                got, said = b"", False
                while not got:
                    try:
                        if not said:
                            connection.do_handshake()
                            connection.send(_frame())
                            said = True
                        got = connection.recv(65536)
                    except SSL.WantReadError:
                        pass
                    try:
                        for byte in connection.bio_read(65536):
                            plain.send(bytes((byte,)))
                    except SSL.WantReadError:
                        if not got:
                            connection.bio_write(plain.recv(65536))
                return got

        got = yield threads.deferToThread(talk)
        self.assertTrue(got.endswith(b"hello"))
        self.assert_ended()

    @defer.inlineCallbacks
    def test_what_is_no_handshake_is_ended_and_said(self) -> Generator[Any, Any, None]:
        address = self.serve(**self.certified())
        host, port = address.split(":")
        for junk in (
            b"\x16",
            b"\x16\x03\x01\x00\x04\xff\x00\x00\x00",
            b"\x16" * 4000,
            b"\x16\x03\x03\xff\xff" + bytes(70000),
        ):
            before = self.refusals.ended["tls_failed"]
            yield threads.deferToThread(_throw, host, int(port), junk)
            yield self.until(lambda: not self.factory.connections)
            if len(junk) > 1:  # one byte alone, and then the end, is somebody who went away
                self.assertEqual(self.refusals.ended["tls_failed"], before + 1, junk[:8])
        yield self.served(self.client(), address)
        self.assertEqual(self.flushLoggedErrors(), [])

    @defer.inlineCallbacks
    def test_behind_a_proxy_that_says_where_connections_come_from(self) -> Generator[Any, Any, None]:
        """The header comes first, then TLS or frames."""
        address = self.serve(proxies="10.0.0.0/8, 127.0.0.1", **self.certified())
        host, port = address.split(":")
        for context in (None, ssl.create_default_context(cafile=self.authority.trust)):
            got = yield threads.deferToThread(_by_proxy, host, int(port), context)
            self.assertEqual((got, self.echo.peer), (b"\x16" * 300_000, "192.0.2.1:1234"), context)
        self.assert_ended()
        yield self.refused(self.client(), address)
        yield self.refused(self.client(enable=False), address)
        self.assert_ended(proxy_header=2)

    @defer.inlineCallbacks
    def test_a_header_of_who_is_no_listed_proxy(self) -> Generator[Any, Any, None]:
        for proxies in ("", "10.0.0.0/8"):
            address = self.serve(proxies=proxies, **self.certified())
            host, port = address.split(":")
            yield threads.deferToThread(_throw, host, int(port), HEADER + _frame())
            self.assert_ended(bad_frame=1)
            yield self.served(self.client(), address)
            yield self.served(self.client(enable=False), address)
            self.refusals.ended.clear()

    @defer.inlineCallbacks
    def test_a_transport_that_is_no_tcp_connection(self) -> Generator[Any, Any, None]:
        """It goes on calling who looked at the header, and at the first byte."""

        def wrapped(description: str, factory: Any, reactor: Any) -> Any:
            return strports.service(description, policies.WrappingFactory(factory), reactor)

        with mock.patch.object(network, "strports", mock.Mock(service=wrapped)):
            address = self.serve(proxies="127.0.0.1", **self.certified())
        host, port = address.split(":")
        for context in (None, ssl.create_default_context(cafile=self.authority.trust)):
            got = yield threads.deferToThread(_by_proxy, host, int(port), context)
            self.assertEqual((got, self.echo.peer), (b"\x16" * 300_000, "192.0.2.1:1234"), context)
        self.assert_ended()

    def test_ports_that_do_not_go_with_proxies(self) -> None:
        """An endpoint string that believes everybody, TLS before the header, a peer at a proxy's address."""
        with self.assertRaisesRegex(ConfigError, "name the proxies in proxyProtocolNetworks"):
            self.serve(kind="haproxy:tcp")
        with self.assertRaisesRegex(ConfigError, "a PROXY header comes before TLS"):
            self.serve(kind="ssl", proxies="127.0.0.1")
        with self.assertRaisesRegex(ConfigError, "tls.trustedPeers names 10.0.0.3, which is in proxyProtocolNetworks"):
            check_proxies("tcp:1", Networks.parse("10.0.0.0/8"), ["192.0.2.1", "10.0.0.3"])
        check_proxies("tcp:1", Networks.parse("10.0.0.0/8"), ["192.0.2.1"])
        check_proxies("ssl:1", NOBODY, ["192.0.2.1"])


def _frame(body: bytes = b"hello") -> bytes:
    command = request(CODE, None, body)
    command.opaque = 1
    return encode(command)


def _by_proxy(host: str, port: int, context: ssl.SSLContext | None) -> bytes:
    """A request whose body looks like TLS from every read on, by a proxy: the answer's body."""
    body = b"\x16" * 300_000
    with socket.create_connection((host, port), 10) as plain:
        plain.sendall(HEADER)
        connection = plain if context is None else context.wrap_socket(plain, server_hostname="localhost")
        connection.sendall(_frame(body))
        got = b""
        while len(got) < len(body):
            piece = connection.recv(65536)
            if not piece:
                raise AssertionError(f"it was ended after {len(got)} bytes")
            got += piece
        return got[-len(body) :]


def _throw(host: str, port: int, data: bytes) -> None:
    with socket.create_connection((host, port), 10) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError:
            return


class CertificateTests(TlsCase):
    """Who believes whom."""

    @defer.inlineCallbacks
    def test_a_client_believes_its_ca_and_the_names_in_the_certificate(self) -> Generator[Any, Any, None]:
        address = self.serve(**self.certified())
        yield self.served(self.client(**self.trusting), address)
        yield self.served(self.client(**self.trusting), address.replace("127.0.0.1", "localhost"))
        other = Authority(self.folder, "other")
        strict = self.client(client_auth_server=True, client_trust_cert_path=other.trust)
        why = yield self.refused(strict, address)
        self.assertIn("certificate verify failed", why)
        self.assertIn(f"TLS with {address}", why)

    @defer.inlineCallbacks
    def test_a_certificate_of_another_host_is_refused_unless_names_are_not_checked(self) -> Generator[Any, Any, None]:
        address = self.serve(**self.certified("server", "broker.example"))
        for dialed in (address, address.replace("127.0.0.1", "localhost")):
            why = yield self.refused(self.client(**self.trusting), dialed)
            self.assertIn("its certificate is not that of this host", why)
        yield self.served(self.client(**self.trusting, client_check_host=False), address)

    @defer.inlineCallbacks
    def test_clients_show_certificates_where_they_must(self) -> Generator[Any, Any, None]:
        trust = {"server_auth_client": True, "server_trust_cert_path": self.authority.trust}
        stranger = Authority(self.folder, "stranger")
        for wanted, without, with_other in (("require", False, False), ("optional", True, False)):
            self.refusals.ended.clear()
            mode = "enforcing" if wanted == "require" else "permissive"
            address = self.serve(**self.certified(), **trust, server_need_client_auth=wanted, server_mode=mode)
            yield self.served(self.client(**self.shows(), **self.trusting), address)
            for keys, serves in ((self.trusting, without), (self.trusting | self.shows(stranger, "other"), with_other)):
                if serves:
                    yield self.served(self.client(**keys), address)
                else:
                    yield self.refused(self.client(**keys), address)
            self.assert_ended(tls_failed=(not without) + (not with_other))

    @defer.inlineCallbacks
    def test_an_authority_that_is_no_root(self) -> Generator[Any, Any, None]:
        """Each certificate in a trust file is believed, as by Java, whether the one above it is there or not."""
        root = trustme.CA()
        middle = root.create_child_ca()
        issued = middle.issue_cert("127.0.0.1")
        paths = {name: self.folder / name for name in ("middle.pem", "below.crt", "below.key")}
        replace(paths["middle.pem"], middle.cert_pem.bytes())
        replace(paths["below.crt"], issued.cert_chain_pems[0].bytes())
        replace(paths["below.key"], issued.private_key_pem.bytes())
        address = self.serve(server_cert_path=str(paths["below.crt"]), server_key_path=str(paths["below.key"]))
        client = self.client(client_auth_server=True, client_trust_cert_path=str(paths["middle.pem"]))
        yield self.served(client, address)

    @defer.inlineCallbacks
    def test_protocols_and_ciphers(self) -> Generator[Any, Any, None]:
        older = {"protocols": "TLSv1.2"}
        for keys, version, cipher in (
            (older, "TLSv1.2", ""),
            ({"protocols": "TLSv1.3"}, "TLSv1.3", ""),
            ({}, "TLSv1.3", ""),
            (
                {"protocols": "TLSv1.2", "ciphers": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"},
                "TLSv1.2",
                "ECDHE-ECDSA-AES256-GCM-SHA384",
            ),
            (
                {"protocols": "TLSv1.2", "ciphers": "ECDHE-ECDSA-CHACHA20-POLY1305"},
                "TLSv1.2",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
            ),
            ({"ciphers": "TLS_CHACHA20_POLY1305_SHA256"}, "TLSv1.3", "TLS_CHACHA20_POLY1305_SHA256"),
        ):
            address = self.serve(**self.certified(), **keys)
            client = self.client()
            yield self.served(client, address)
            spoken = client._connections[address].transport.getHandle()
            self.assertEqual(spoken.get_protocol_version_name(), version)
            self.assertIn(cipher, spoken.get_cipher_name())
        with self.assertRaisesRegex(ConfigError, "knows none"):
            self.serve(**self.certified(), ciphers="NOT-A-CIPHER")


class FileTests(TlsCase):
    """Files that are wrong, and files that change."""

    def test_what_cannot_be_used_stops_the_start(self) -> None:
        certificate, key = self.authority.issue("server")
        _, other_key = self.authority.issue("other")
        junk = self.folder / "junk"
        replace(junk, b"no certificate")
        readable = self.folder / "readable"
        replace(readable, Path(key).read_bytes())
        readable.chmod(0o644)
        missing = str(self.folder / "missing")
        for given, says in (
            ((missing, key), "cannot be read"),
            ((certificate, missing), "cannot be read"),
            ((str(junk), key), "no certificate in PEM"),
            ((certificate, str(junk)), "no private key in PEM"),
            ((certificate, other_key), "is not the key of the certificate"),
            ((certificate, str(readable)), "others can read"),
        ):
            with self.assertRaisesRegex(ConfigError, says):
                TlsNetwork(TlsConfig(server_cert_path=given[0], server_key_path=given[1]))
        for trust, says in ((missing, "cannot be read"), (str(junk), "no certificate in PEM")):
            with self.assertRaisesRegex(ConfigError, says):
                TlsNetwork(TlsConfig(enable=True, client_auth_server=True, client_trust_cert_path=trust))

    @defer.inlineCallbacks
    def test_a_changed_file_is_taken_alone(self) -> Generator[Any, Any, None]:
        """Java takes a certificate only together with its key; here each alone, once both fit."""
        address = self.serve(
            **self.certified(), server_auth_client=True, server_trust_cert_path=self.authority.trust,
            server_need_client_auth="require",
            server_mode="enforcing",
        )  # fmt: skip
        shows = self.shows()
        old = self.client(**shows, **self.trusting)
        yield self.served(old, address)
        credentials = self.network.credentials["server"]
        self.assertFalse(credentials.look(), "nothing has changed")

        before = Path(self.folder / "server.crt").read_bytes(), Path(self.folder / "server.key").read_bytes()
        self.authority.issue("server")
        new = Path(self.folder / "server.crt").read_bytes(), Path(self.folder / "server.key").read_bytes()
        replace(self.folder / "server.key", before[1])  # only the certificate is new
        self.assertTrue(credentials.look())
        self.assertIn("is not the key of", credentials.problem)
        yield self.served(self.client(**shows, **self.trusting), address)
        replace(self.folder / "server.key", new[1])
        self.assertTrue(credentials.look())
        self.assertEqual((credentials.problem, credentials.changes), ("", 1))
        yield self.served(self.client(**shows, **self.trusting), address)

        stranger = Authority(self.folder, "stranger")
        replace(Path(self.authority.trust), Path(stranger.trust).read_bytes())
        self.assertTrue(credentials.look())
        yield self.refused(self.client(**shows), address)
        yield self.served(self.client(**self.shows(stranger, "other")), address)
        yield self.served(old, address)  # it is open since before

    def looking(self, tls: TlsNetwork) -> TlsNetwork:
        """As in a server: it looks at its files, and very often."""
        with mock.patch.object(network, "LOOK_S", 0.02):
            tls.startService()
        self.addCleanup(tls.stopService)
        return tls

    @defer.inlineCallbacks
    def test_open_connections_end_that_a_new_trust_would_not_let_in(self) -> Generator[Any, Any, None]:
        """At the end that accepted them; whoever showed none, or one that is believed, stays."""
        old, new = self.authority, Authority(self.folder, "new")
        trust = self.folder / "trust"
        replace(trust, Path(old.trust).read_bytes() + Path(new.trust).read_bytes())
        believed = {"server_auth_client": True, "server_trust_cert_path": str(trust)}
        address = self.serve(**self.certified(), **believed, server_need_client_auth="optional")
        self.looking(self.network)
        clients = {
            "old": self.client(**self.shows(old, "old-client")),
            "new": self.client(**self.shows(new, "new-client")),
            "none": self.client(),
        }
        for client in clients.values():
            yield self.served(client, address)
        there = {name: set(client._factory.connections) for name, client in clients.items()}
        replace(trust, Path(new.trust).read_bytes())
        yield self.until(lambda: not clients["old"]._factory.connections)
        for name in ("new", "none"):
            yield self.served(clients[name], address)
            self.assertEqual(set(clients[name]._factory.connections), there[name], f"{name}: it is another connection")
        self.assertEqual(self.network._ended, {"server": 1})
        yield self.refused(clients["old"], address)

    @defer.inlineCallbacks
    def test_connections_stay_where_only_the_own_certificate_is_new(self) -> Generator[Any, Any, None]:
        """Also those that took up a session, where the certificates between the root and its own are not there."""
        root = trustme.CA()
        issued = root.create_child_ca().issue_cert("127.0.0.1")
        paths = {name: self.folder / name for name in ("root.pem", "below.crt", "below.key")}
        replace(paths["root.pem"], root.cert_pem.bytes())
        replace(paths["below.crt"], b"".join(each.bytes() for each in issued.cert_chain_pems))
        replace(paths["below.key"], issued.private_key_pem.bytes())
        believed = {"server_auth_client": True, "server_trust_cert_path": str(paths["root.pem"])}
        address = self.serve(**self.certified(), **believed, server_need_client_auth="require", server_mode="enforcing")
        shown = {"client_cert_path": str(paths["below.crt"]), "client_key_path": str(paths["below.key"])}
        client = self.client(**self.trusting, **shown)
        yield self.served(client, address)
        client.give_up(address)
        yield self.until(lambda: not self.factory.connections)
        yield self.served(client, address)
        there = set(client._factory.connections)
        self.looking(self.network)
        self.authority.issue("server")
        yield self.until(lambda: self.network.credentials["server"].changes == 1)
        yield self.served(client, address)
        self.assertEqual((set(client._factory.connections), self.network._ended), (there, {}))

    @defer.inlineCallbacks
    def test_connections_made_to_others_end_likewise(self) -> Generator[Any, Any, None]:
        old, new = self.authority, Authority(self.folder, "new")
        trust = self.folder / "trust"
        replace(trust, Path(old.trust).read_bytes())
        address = self.serve(**self.certified())
        client = self.client(client_auth_server=True, client_trust_cert_path=str(trust))
        looking = self.looking(self.clients)
        yield self.served(client, address)
        there = set(client._factory.connections)
        replace(trust, Path(old.trust).read_bytes() + Path(new.trust).read_bytes())
        yield self.until(lambda: looking.credentials["client"].changes == 1)
        yield self.served(client, address)
        self.assertEqual(set(client._factory.connections), there, "one whose server is believed has ended")
        replace(trust, Path(new.trust).read_bytes())
        yield self.until(lambda: not client._factory.connections)
        self.assertEqual(looking._ended, {"client": 1})
        yield self.refused(client, address)

    @defer.inlineCallbacks
    def test_a_handshake_that_an_older_trust_began(self) -> Generator[Any, Any, None]:
        """Its end does not let in who would not be let in now."""
        new = Authority(self.folder, "new")
        trust = self.folder / "trust"
        replace(trust, Path(self.authority.trust).read_bytes())
        believed = {"server_auth_client": True, "server_trust_cert_path": str(trust)}
        address = self.serve(**self.certified(), **believed, server_need_client_auth="optional")
        certificate, key = self.authority.issue("client")

        def shake() -> None:
            context = ssl.create_default_context(cafile=self.authority.trust)
            context.load_cert_chain(certificate, key)
            host, port = address.split(":")
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            with socket.create_connection((host, int(port)), 5) as plain:
                inside = context.wrap_bio(incoming, outgoing, server_hostname=host)
                try:
                    inside.do_handshake()
                except ssl.SSLWantReadError:
                    plain.sendall(outgoing.read())
                incoming.write(plain.recv(65536))
                replace(trust, Path(new.trust).read_bytes())
                self.network.credentials["server"].look()
                inside.do_handshake()
                inside.write(encode(request(CODE, body=b"hello")))
                plain.sendall(outgoing.read())
                with contextlib.suppress(OSError):
                    while plain.recv(65536):
                        pass  # tickets, which are no answer

        yield threads.deferToThread(shake)
        self.assertEqual(self.echo.__dict__.get("turns", 0), 0, "a request was heard")
        self.assertEqual(dict(self.refusals.ended), {"tls_failed": 1})

    @defer.inlineCallbacks
    def test_junk_leaves_what_was_there_and_is_told_once(self) -> Generator[Any, Any, None]:
        address = self.serve(**self.certified())
        good = Path(self.folder / "server.crt").read_bytes()
        credentials = self.network.credentials["server"]
        for junk in (b"", b"junk", good[: len(good) // 2], b"\0" * (2 << 20)):
            replace(self.folder / "server.crt", junk)
            credentials.look()
            self.assertNotEqual(credentials.problem, "", junk[:8])
            self.assertFalse(credentials.look(), "it was told")
            yield self.served(self.client(**self.trusting), address)
        os.unlink(self.folder / "server.crt")
        self.assertTrue(credentials.look())
        replace(self.folder / "server.crt", good)
        self.assertTrue(credentials.look())
        self.assertEqual(credentials.problem, "")
        yield self.served(self.client(**self.trusting), address)


class SessionTests(TlsCase):
    """The second connection to a server costs neither end a signature."""

    @defer.inlineCallbacks
    def connected(self, client: RemotingClient, address: str) -> Generator[Any, Any, int]:
        """Ask once, on a new connection: the bytes that the server wrote before its answer."""
        written: list[int] = []
        real = tls_layer.eager_write

        def count(transport: Any, data: bytes) -> bool:
            if isinstance(transport, tcp.Server):
                written.append(len(data))
            return real(transport, data)

        with mock.patch.object(tls_layer, "eager_write", count):
            yield self.served(client, address)
        client.give_up(address)
        yield self.until(lambda: not self.factory.connections and not client._factory.connections)
        return written[0]

    @defer.inlineCallbacks
    def test_taken_up(self) -> Generator[Any, Any, None]:
        for protocols in ("TLSv1.2", "TLSv1.3"):
            believed = {"server_auth_client": True, "server_trust_cert_path": self.authority.trust}
            keys = {**self.certified(), **believed, "server_need_client_auth": "optional", "protocols": protocols}
            address = self.serve(**keys)
            client = self.client(**self.trusting, **self.shows(), protocols=protocols)
            first = yield self.connected(client, address)
            second = yield self.connected(client, address)
            third = yield self.connected(client, address)
            self.assertLess(second, first - CERTIFICATE_BYTES, f"{protocols}: the server sent its certificate again")
            self.assertLess(third, first - CERTIFICATE_BYTES, protocols)
            self.authority.issue("server")
            self.network.credentials["server"].look()
            fourth = yield self.connected(client, address)
            fifth = yield self.connected(client, address)
            self.assertLess(fifth, fourth - CERTIFICATE_BYTES, protocols)
            trust = Path(self.authority.trust)
            replace(trust, trust.read_bytes() + b"\n")
            self.assertTrue(self.clients.credentials["client"].look())
            sixth = yield self.connected(client, address)
            self.assertGreater(sixth, fifth + CERTIFICATE_BYTES, f"{protocols}: a session outlived the client's trust")
            self.assertGreater(
                fourth, second + CERTIFICATE_BYTES, f"{protocols}: a session outlived the server's certificate"
            )
        self.assert_ended()

    @defer.inlineCallbacks
    def test_a_host_is_checked_all_the_same(self) -> Generator[Any, Any, None]:
        address = self.serve(**self.certified("server", "127.0.0.1"))
        client = self.client(**self.trusting)
        yield self.connected(client, address)
        yield self.connected(client, address)
        why = yield self.refused(client, address.replace("127.0.0.1", "localhost"))
        self.assertIn("its certificate is not that of this host", why)


class FlowTests(TlsCase):
    """Much data, slow peers, and connections that end."""

    @defer.inlineCallbacks
    def test_large_answers_come_whole(self) -> Generator[Any, Any, None]:
        address = self.serve(**self.certified())
        client = self.client(**self.trusting)
        wanted = [self.served(client, address, times) for times in (1, 4000, 1_000_000, 7, 2_000_000)]
        yield defer.gatherResults(wanted, consumeErrors=True)
        self.assert_ended()

    @defer.inlineCallbacks
    def test_one_read_is_one_turn(self) -> Generator[Any, Any, None]:
        """Records of 16 KiB that came in one read are answered in one turn: one append, one write."""
        address = self.serve(**self.certified())
        client = self.client(**self.trusting)
        yield self.served(client, address)
        reads: list[int] = []
        turns: list[int] = []
        (connection,) = self.factory.connections.values()
        layer = connection.transport
        received, given = layer.dataReceived, connection.dataReceived

        def read(data: bytes) -> None:
            reads.append(len(data))
            received(data)

        def turn(data: bytes) -> None:
            turns.append(len(data))
            given(data)

        with mock.patch.object(layer, "dataReceived", read), mock.patch.object(connection, "dataReceived", turn):
            answer = yield client.request(address, CODE, None, b"x" * 1_000_000, 10)
        self.assertEqual(len(answer.body), 1_000_000)
        self.assertGreater(max(turns), 2 * 16384)
        self.assertLessEqual(len(turns), len(reads))

    @defer.inlineCallbacks
    def test_an_end_after_the_end(self) -> Generator[Any, Any, None]:
        """As of a TCP transport: nothing happens."""
        address = self.serve(**self.certified())
        client = self.client(**self.trusting)
        yield self.served(client, address)
        ended, (accepted,) = client._connections[address], self.factory.connections.values()
        accepted.abort()
        yield self.until(lambda: ended.closed)
        for each in (ended, accepted):
            each.abort()
            each.transport.abortConnection()
            each.transport.unregisterProducer()
            each.transport.loseConnection()
            each.transport.write(b"nobody reads this")
        client.give_up(address)

    @defer.inlineCallbacks
    def test_who_does_not_read_is_ended(self) -> Generator[Any, Any, None]:
        """What waits under TLS counts as what waits on a plain connection."""
        limits = Limits(queued_bytes=1 << 20)
        address = self.serve(limits, **self.certified())
        client = self.client(**self.trusting)
        connection = yield client.connect(address)
        connection.transport.pauseProducing()
        for _ in range(20):
            connection.request(CODE, {"times": "1600000"}, b"hello", 30).addErrback(lambda _: None)
        yield self.until(lambda: self.refusals.ended["unread_answers"])
        self.assert_ended(unread_answers=1)
        connection.abort()

    @defer.inlineCallbacks
    def test_an_end_does_not_wait_for_the_peer(self) -> Generator[Any, Any, None]:
        """Who reads nothing any more never says that it heard of the end."""
        address = self.serve(**self.certified())
        client = self.client(**self.trusting)
        yield self.served(client, address)
        client._connections[address].transport.tcp.pauseProducing()
        (accepted,) = self.factory.connections.values()
        accepted.close()
        yield task.deferLater(reactor, 0.5, lambda: None)  # type: ignore[arg-type]
        self.assertEqual(self.factory.connections, {})

    @defer.inlineCallbacks
    def test_a_server_that_never_answers_the_handshake(self) -> Generator[Any, Any, None]:
        silent: Any = reactor.listenTCP(0, _Silent(), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(silent.stopListening)
        client = self.client()
        address = f"127.0.0.1:{silent.getHost().port}"
        with self.assertRaises(error.ConnectError) as raised:
            yield client.connect(address, 0.2)
        self.assertIn("no handshake in time", str(raised.exception))
        attempt = Dialer(reactor, TlsNetwork(TlsConfig(enable=True)).endpoint).endpoint(address, 5).connect(_Silent())
        yield task.deferLater(reactor, 0.05, lambda: None)  # type: ignore[arg-type]
        attempt.cancel()
        with self.assertRaises(defer.CancelledError):
            yield attempt

    @defer.inlineCallbacks
    def test_who_goes_away_during_the_handshake_is_told_from_who_refuses_it(self) -> Generator[Any, Any, None]:
        """A controller asks a port again at once that was taken and closed: so a process dies."""
        gone: Any = reactor.listenTCP(0, _Gone(), interface="127.0.0.1")  # type: ignore[attr-defined]
        self.addCleanup(gone.stopListening)
        address = f"127.0.0.1:{gone.getHost().port}"
        with self.assertRaises(TlsFailed) as raised:
            yield TlsNetwork(TlsConfig(enable=True)).endpoint(reactor, address, 3).connect(_Silent())
        self.assertEqual(raised.exception.osError, errno.ECONNRESET)
        address = self.serve(**self.certified())
        stranger = Authority(self.folder, "stranger")
        client = TlsNetwork(TlsConfig(enable=True, client_auth_server=True, client_trust_cert_path=stranger.trust))
        with self.assertRaises(TlsFailed) as raised:
            yield client.endpoint(reactor, address, 3).connect(_Silent())
        self.assertIsNone(raised.exception.osError)

    @defer.inlineCallbacks
    def test_a_refused_connection_is_told_as_that(self) -> Generator[Any, Any, None]:
        """Elections wait for it."""
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{held.getsockname()[1]}"
            endpoint = TlsNetwork(TlsConfig(enable=True)).endpoint(reactor, address, 3)
            with self.assertRaises(error.ConnectionRefusedError):
                yield endpoint.connect(_Silent())

    @defer.inlineCallbacks
    def test_connections_in_every_order_of_ending_leave_nothing(self) -> Generator[Any, Any, None]:
        address = self.serve(**self.certified())
        for asked, ends in itertools.product((False, True), ("close", "abort", "server closes", "server aborts")):
            client = self.client(**self.trusting)
            connection = yield client.connect(address)
            if asked:
                yield self.served(client, address)
            mine = list(self.factory.connections.values())
            match ends:
                case "close":
                    connection.close()
                case "abort":
                    connection.abort()
                case "server closes":
                    [each.close() for each in mine]
                case _:
                    [each.abort() for each in mine]
            yield self.until(lambda client=client: not self.factory.connections and not client._factory.connections)
            self.assertEqual((self.factory.connections, client._factory.connections), ({}, {}), (asked, ends))
        self.assert_ended()


class _Gone(protocol.Factory):
    """Takes a connection and ends it."""

    noisy = False

    def buildProtocol(self, addr: Any) -> None:
        """Nobody."""


class _Silent(protocol.Factory):
    """Accepts, and says nothing."""

    noisy = False
    protocol = protocol.Protocol
