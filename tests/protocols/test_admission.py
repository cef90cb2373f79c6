"""Who has a place at a port, and who loses it to whom."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from rocketha.protocols.admission import CROWDED_S, Admission, Guest
from rocketha.protocols.limits import Limits


class Connection:
    """Somebody at the door."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.peer_host = host
        self.greeted = False


class AdmissionTests(SynchronousTestCase):
    """Five places, two for an address."""

    def setUp(self) -> None:
        self.ended: list[str] = []
        self.admission = Admission(Limits(connections=5, connections_per_address=2), self.end)
        self.known: dict[str, Connection] = {}

    def end(self, guest: Guest) -> None:
        assert isinstance(guest, Connection)
        self.ended.append(guest.name)

    def come(self, name: str, host: str = "10.0.0.1", speaks: bool = False) -> str | None:
        connection = self.known[name] = Connection(name, host)
        refusal = self.admission.admit(connection)
        connection.greeted = speaks
        return refusal

    def test_the_oldest_stranger_of_the_address(self) -> None:
        """Those of others keep their places as long as it is the address's share that is taken."""
        for name, host in (("o", "10.0.0.9"), ("a", "10.0.0.1"), ("b", "10.0.0.1"), ("c", "10.0.0.1")):
            self.assertIsNone(self.come(name, host))
        self.assertEqual(self.ended, ["a"])
        self.come("d")
        self.assertEqual(self.ended, ["a", "b"])

    def test_the_oldest_stranger_of_all(self) -> None:
        """When the port is full."""
        for number in range(6):
            self.assertIsNone(self.come(str(number), f"10.0.0.{number}"))
        self.assertEqual(self.ended, ["0"])

    def test_who_spoke_stays(self) -> None:
        """However old; when all have spoken there is no room."""
        self.come("a", speaks=True)
        self.come("b")
        self.assertIsNone(self.come("c", speaks=True))
        self.assertEqual(self.ended, ["b"])
        self.assertEqual(self.come("d"), "2 connections of 10.0.0.1 are open")
        for number in range(3):
            self.come(str(number), f"10.0.0.1{number}", speaks=True)
        self.assertEqual(self.come("e", "10.0.0.20"), "5 connections are open")
        self.assertEqual(self.ended, ["b"])

    def test_places_are_freed_once(self) -> None:
        """Whoever lost his place, or never had one, frees none when he goes."""
        self.come("a")
        self.come("b", speaks=True)
        self.come("c", speaks=True)
        self.assertEqual(self.ended, ["a"])
        self.admission.leave(self.known["a"])
        self.assertEqual(self.come("d"), "2 connections of 10.0.0.1 are open")
        self.admission.leave(self.known["d"])
        self.admission.leave(self.known["b"])
        self.admission.leave(self.known["b"])
        self.assertIsNone(self.come("e", speaks=True))
        self.assertIsNotNone(self.come("f"))

    def test_loopback_has_all(self) -> None:
        """And a stranger there is like any other."""
        for number in range(6):
            self.assertIsNone(self.come(str(number), "127.0.0.1"))
        self.assertEqual(self.ended, ["0"])

    def test_an_address_of_one(self) -> None:
        """The newcomer takes the place of the only one from there."""
        self.admission = Admission(Limits(connections=5, connections_per_address=1), self.end)
        for name in "abc":
            self.assertIsNone(self.come(name))
        self.assertEqual(self.ended, ["a", "b"])
        self.admission.leave(self.known["c"])
        self.assertIsNone(self.come("d", speaks=True))
        self.assertIsNotNone(self.come("e"))

    def test_patience(self) -> None:
        """Less of it for an address, or everybody, with strangers on more than half of the places."""
        self.come("a")
        self.assertEqual(self.admission.patience_s("10.0.0.1"), 10)
        self.come("b")
        self.assertEqual(
            (self.admission.patience_s("10.0.0.1"), self.admission.patience_s("10.0.0.2")), (CROWDED_S, 10)
        )
        self.come("c", "10.0.0.3")
        self.assertEqual(self.admission.patience_s("10.0.0.2"), CROWDED_S)
        for connection in self.known.values():
            connection.greeted = True
        self.assertEqual(self.admission.patience_s("10.0.0.2"), CROWDED_S, "it is seen once a second")
        self.admission.settle()
        self.assertEqual(self.admission.patience_s("10.0.0.2"), 10)

    def test_loopback_is_crowded_by_the_port_alone(self) -> None:
        """It has no share of its own."""
        self.come("a", "127.0.0.1")
        self.come("b", "127.0.0.1")
        self.assertEqual(self.admission.patience_s("127.0.0.1"), 10)
