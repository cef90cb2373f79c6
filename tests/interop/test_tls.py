"""TLS with Java at either end, and a group of ours that speaks nothing else.

Certificates are trustme's; what a process shows and believes is in its configuration, ours and Java's in the same keys.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives import serialization

from tests.services.tls.authority import Authority

from .harness import InteropCase, remoting
from .harness.clients import JavaClient
from .harness.controllers import TOPIC, ReplicaGroup
from .harness.pairs import await_equal
from .harness.roles import BROKERS, NAMESRVS, JavaBroker, JavaNamesrv

MESSAGES = 300


class TlsCase(InteropCase):
    """A CA, and certificates for the servers and for the clients."""

    @classmethod
    def prepare(cls) -> None:
        folder = cls.folder / "pki"
        folder.mkdir()
        authority = Authority(folder)
        cls.trust = authority.trust
        cls.certificate, cls.key = authority.issue("everybody")
        cls.javas_key = str(folder / "everybody.pkcs8")  # Java reads no other form
        loaded = serialization.load_pem_private_key(Path(cls.key).read_bytes(), None)
        Path(cls.javas_key).write_bytes(
            loaded.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        os.chmod(cls.javas_key, 0o600)
        context = ssl.create_default_context(cafile=cls.trust)
        context.load_cert_chain(cls.certificate, cls.key)
        remoting.tls = context
        cls.addClassCleanup(setattr, remoting, "tls", None)

    @classmethod
    def keys(cls, mutual: bool = True) -> dict[str, object]:
        """Of a server that takes nothing but TLS, and speaks it to all others."""
        keys: dict[str, object] = {
            "tls.config.file": "",
            "tls.test.mode.enable": False,
            "tls.server.mode": "enforcing",
            "tls.server.certPath": cls.certificate,
            "tls.server.keyPath": cls.javas_key,
            "tls.enable": True,
            "tls.client.authServer": True,
            "tls.client.trustCertPath": cls.trust,
            "tls.client.certPath": cls.certificate,
            "tls.client.keyPath": cls.javas_key,
        }
        if mutual:
            keys |= {
                "tls.server.need.client.auth": "require",
                "tls.server.authClient": True,
                "tls.server.trustCertPath": cls.trust,
            }
        return keys

    @classmethod
    def flags(cls) -> tuple[str, ...]:
        """The same as Java's system properties."""
        shown: Mapping[str, object] = {**cls.keys(), "tls.config.file": "/nowhere"}
        return tuple(
            f"-D{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in shown.items()
        )

    def send_and_receive(self, client: JavaClient, topic: str) -> None:
        """Every message that is acknowledged comes, once."""
        client.producer(topic)
        sent = client.send(topic, "sync", MESSAGES // 3, prefix=f"{topic}-s", producer=topic, max_size=20_000)
        sent += client.send(topic, "async", 2 * MESSAGES // 3, prefix=f"{topic}-a", producer=topic, max_size=2_000)
        client.consume(topic, topic)
        received = client.await_received(topic, len(sent), 90)
        self.assertEqual(sorted(each["key"] for each in received), sorted(each["key"] for each in sent))


class PairsUnderTls(TlsCase):
    """Nameserver and broker, ours and Java's."""

    def pair(self, namesrv: str, broker: str) -> JavaClient:
        names = self.names = NAMESRVS[namesrv]("namesrv", self.subfolder("namesrv"))
        broker_ = BROKERS[broker](self.subfolder("broker"), names)
        for role in (names, broker_):
            if isinstance(role, JavaNamesrv | JavaBroker):
                role.flags = self.flags()
            else:
                role.extra |= self.keys()
            self.use(role)
        return self.use(JavaClient(names.address, folder=self.subfolder("client"), flags=self.flags()))

    def test_ours_and_ours(self) -> None:
        client = self.pair("ours", "ours")
        self.send_and_receive(client, "Secret")
        stranger = self.use(JavaClient(client.namesrv, "stranger", folder=self.subfolder("stranger")))
        stranger.producer()
        self.assertEqual(stranger.send("Secret", "sync", 1, prefix="stranger", allow_errors=True), [])
        self.assertIn("tls_needed", self.names.log_path.read_text())

    def test_java_names_our_broker(self) -> None:
        self.send_and_receive(self.pair("java", "ours"), "Secret")

    def test_we_name_javas_broker(self) -> None:
        self.send_and_receive(self.pair("ours", "java"), "Secret")


class GroupUnderTls(TlsCase):
    """Controllers, brokers and a nameserver of ours: Raft, HA links, heartbeats, everything."""

    def test_switches(self) -> None:
        group = ReplicaGroup(
            "ours",
            self.folder,
            extra=self.keys(),
            controller_extra=self.keys(),
            kinds=("ours",) * 3,
            namesrv="ours",
        )
        assert group.namesrv is not None
        group.namesrv.extra |= self.keys()
        self.addCleanup(group.kill)
        group.start()
        client = self.use(JavaClient(group.namesrv_addresses, folder=self.folder / "client", flags=self.flags()))
        client.producer()
        sent = 0
        for number in range(2):
            client.send(TOPIC, "async", MESSAGES, prefix=f"g{number}", max_size=4_000)
            sent += MESSAGES
            master = group.master()
            master.kill()
            group.await_master(lambda state, before=master: state.master_address != before.address)
            master.start()
            group.await_whole()
        await_equal(group.brokers)
        client.consume("c", TOPIC)
        self.assertEqual(len({each["key"] for each in client.await_received("c", sent, 90)}), sent)
