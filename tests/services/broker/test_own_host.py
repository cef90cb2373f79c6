"""A broker whose addresses are host names: told as they are, looked up here for what has no room for a name."""

from __future__ import annotations

import socket
from typing import Any
from unittest import mock

from rocketha.errors import ConfigError
from rocketha.services.broker.own_host import address_of
from rocketha.services.broker.service import BrokerService
from rocketha.services.config.loading import load_broker, load_namesrv
from rocketha.wire import record
from tests.services.broker_case import CONFIG, BrokerCase, HeldWork

NAME = "broker-a.example.com"
V4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", 0))
V6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::7", 0, 0, 0))


class _Names:
    """Stands for the system's look-up."""

    def __init__(self, *found: Any) -> None:
        self.found = found
        self.asked: list[str] = []

    def __call__(self, host: str, *rest: Any, **more: Any) -> list[Any]:
        self.asked.append(host)
        if not self.found:
            raise socket.gaierror(-2, "Name or service not known")
        return list(self.found)


class NamedCase(BrokerCase):
    """Looks names up in a table of its own."""

    config = f"brokerIP1={NAME}\nbrokerIP2=replicas.example.com\n"
    names = _Names(V6, V4)

    def setUp(self) -> None:
        self.names = type(self).names
        self.names.asked.clear()
        patch = mock.patch("rocketha.services.broker.own_host.socket.getaddrinfo", self.names)
        patch.start()
        self.addCleanup(patch.stop)
        super().setUp()


class NamedTests(NamedCase):
    """It has an address of each kind."""

    def test_what_others_are_told(self) -> None:
        """The names, of which only the one that records need is looked up."""
        identity = self.broker.state.identity
        self.assertEqual((identity.address, identity.ha_address), (f"{NAME}:10911", "replicas.example.com:10912"))
        self.assertEqual(self.names.asked, [NAME])

    def test_records_and_ids_have_the_address(self) -> None:
        """Of version 4, as Java's; the id leads a query by id to it."""
        client = self.connect()
        answer = self.send(client)
        self.assertEqual(answer.fields["msgId"], "C000020700002A9F" + "0" * 16)
        stored = record.decode(self.broker.store.get("T", 0, 0, 1, 1 << 20).buffers[0])
        self.assertEqual(stored.store_host, bytes([192, 0, 2, 7]) + (10911).to_bytes(4))


class Version6Tests(NamedCase):
    """It has an address of version 6 only."""

    names = _Names(V6)

    def test_ids(self) -> None:
        self.assertEqual(self.send(self.connect()).fields["msgId"][:32], "20010DB8000000000000000000000007")


class StartTests(BrokerCase):
    """What may go wrong."""

    def begun(self, names: _Names, held: bool = False) -> BrokerService:
        patch = mock.patch("rocketha.services.broker.own_host.socket.getaddrinfo", names)
        patch.start()
        self.addCleanup(patch.stop)
        loaded = load_broker(f"{CONFIG}brokerIP1={NAME}\nstorePathRootDir=/other".encode(), environment={"HOME": "/"})
        self.works.clear()
        HeldWork.held = held
        self.addCleanup(setattr, HeldWork, "held", False)
        broker = BrokerService(loaded.config, self.platform())
        broker.startService()
        return broker

    def test_a_name_without_an_address(self) -> None:
        """The start ends with a line that names key and host, nothing is opened, and it can be stopped."""
        self.clock.running = False
        broker = self.begun(_Names())
        self.assertEqual(broker.healthy(), f"brokerIP1={NAME} has no address: Name or service not known")
        self.assertFalse(self.disk.exists("/other"))
        self.successResultOf(broker.stopService())

    def test_the_reactor_does_not_wait(self) -> None:
        """The look-up is a thread's; stopping before it is done works too."""
        names = _Names(V4)
        broker = self.begun(names, held=True)
        self.assertEqual((names.asked, broker.ready()), ([], "starting"))
        stopped = broker.stopService()
        self.assertNoResult(stopped)
        HeldWork.held = False
        self.works[0].let_go()
        self.successResultOf(stopped)
        self.assertEqual(names.asked, [NAME])


class TextTests(BrokerCase):
    """The keys' values."""

    def test_allowed(self) -> None:
        """Names as hosts have them, addresses, IPv6 in brackets or without."""
        for value, kept in (
            ("rmq-0.rmq.prod.svc.cluster.local", "rmq-0.rmq.prod.svc.cluster.local"),
            ("localhost", "localhost"),
            ("h", "h"),
            ("10.0.0.7", "10.0.0.7"),
            ("[fd00::1]", "fd00::1"),
            ("fd00::1", "fd00::1"),
        ):
            for key in ("brokerIP1", "brokerIP2"):
                config = load_broker(f"{key}={value}".encode(), environment={"HOME": "/"}).config
                self.assertEqual(getattr(config, "broker_ip1" if key == "brokerIP1" else "broker_ip2"), kept)

    def test_refused(self) -> None:
        """A mistyped address is no name."""
        for value in ("10.0.0.256", "10.0.0", "a b", "-h", "h-", "[h]", "h:1", "ho\\u0073t!", "1"):
            with self.assertRaisesRegex(ConfigError, "an IPv4 or IPv6 address, or a host name", msg=value):
                load_broker(f"brokerIP1={value}".encode(), environment={"HOME": "/"})

    def test_to_listen_on(self) -> None:
        """An interface has no name, but for the one of the machine itself."""
        config = load_broker(b"bindAddress=localhost", environment={"HOME": "/"}).config
        self.assertEqual(config.broker_ip1, "127.0.0.1")
        config = load_namesrv(b"bindAddress=localhost", environment={"HOME": "/"}).config
        self.assertEqual(config.bind_address, "127.0.0.1")
        with self.assertRaisesRegex(ConfigError, "an IPv4 or IPv6 address"):
            load_broker(b"bindAddress=somewhere", environment={"HOME": "/"})

    def test_this_machine(self) -> None:
        """By the system's own look-up."""
        self.assertEqual(address_of("localhost"), "127.0.0.1")
