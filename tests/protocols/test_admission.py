"""Who has a place at a port, and who loses it to whom."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from rocketha.observe.refusals import Ended
from rocketha.protocols.admission import CROWDED_S, IDLE_PLACE_S, Admission
from rocketha.protocols.limits import Limits


class Connection:
    """Somebody at the door."""

    def __init__(self, name: str, host: str, ended: list[str]) -> None:
        self.id = int(name) if name.isdecimal() else 0
        self.name = name
        self.peer_host = host
        self.greeted = self.on_trial = False
        self.rest_s: int | None = None
        self.ended = ended
        self.unread: Callable[[], None] | None = None  # what it said and nobody read yet does that

    def hear(self) -> None:
        if self.unread is not None:
            self.unread()

    def lose_place(self, cause: Ended, why: str) -> None:
        self.ended.append(self.name)


class AdmissionTests(SynchronousTestCase):
    """Five places, two for an address."""

    def setUp(self) -> None:
        self.ended: list[str] = []
        self.admission = Admission(Limits(connections=5, connections_per_address=2))
        self.known: dict[str, Connection] = {}

    def come(self, name: str, host: str = "10.0.0.1", speaks: bool = False) -> str | None:
        connection = self.known[name] = Connection(name, host, self.ended)
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

    def test_who_spoke_and_was_not_heard(self) -> None:
        """In a turn of the reactor in which many come: what they said is read before one loses his place, or left."""
        for name in ("a", "b", "c", "d", "e"):
            self.come(name, "127.0.0.1")

        def speak() -> None:
            self.known["a"].greeted = True

        self.known["a"].unread = speak
        self.known["b"].unread = lambda: self.admission.leave(self.known["b"])
        for name in "fg":
            self.assertIsNone(self.come(name, "127.0.0.1"))
        self.assertEqual(self.ended, ["c"])

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
        self.admission = Admission(Limits(connections=5, connections_per_address=1))
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


class ReserveTests(SynchronousTestCase):
    """32 places, 20 for an address, four more of either in reserve."""

    def setUp(self) -> None:
        self.ended: list[str] = []
        self.holding: set[int] = set()
        limits = Limits(connections=32, connections_per_address=20)
        self.admission = Admission(limits, lambda ids: self.holding, reserve=True)
        self.known: dict[str, Connection] = {}

    def come(self, name: str, host: str = "127.0.0.1") -> str | None:
        """Somebody who speaks at once, and may show later that the reserve is for him."""
        connection = self.known[name] = Connection(name, host, self.ended)
        refusal = self.admission.admit(connection)
        connection.greeted = True
        return refusal

    def fill(self, host: str = "127.0.0.1", places: int = 32) -> None:
        for number in range(1, places + 1):
            self.assertIsNone(self.come(str(number), host))
            self.assertFalse(self.known[str(number)].on_trial)

    def show(self, name: str) -> None:
        self.admission.shown(self.known[name])

    def test_who_shows_it_stays(self) -> None:
        """Clients have all places, and more clients come for ever; the operator who speaks keeps his place."""
        self.fill()
        self.assertIsNone(self.come("operator"))
        self.assertTrue(self.known["operator"].on_trial)
        self.show("operator")
        self.assertFalse(self.known["operator"].on_trial)
        for number in range(100, 150):
            self.assertIsNone(self.come(str(number)))
        self.assertEqual(self.ended, [str(number) for number in range(100, 147)], "each for the next one")
        self.assertTrue(all(self.known[str(number)].on_trial for number in range(147, 150)))

    def test_who_showed_it_and_was_not_heard(self) -> None:
        """The operator keeps his place though as many came after him before his request was read."""
        self.fill()
        self.come("operator")
        self.known["operator"].unread = lambda: self.show("operator")
        for name in "abcde":
            self.assertIsNone(self.come(name))
        self.assertEqual((self.ended, self.known["operator"].on_trial), (["a", "b"], False))

    def test_who_said_nothing_yet(self) -> None:
        """Has time as long as there are others who have asked for what the reserve is not for."""
        self.fill()
        operator = self.known["operator"] = Connection("operator", "127.0.0.1", self.ended)
        self.assertIsNone(self.admission.admit(operator))
        for number in range(100, 120):
            self.come(str(number))
        self.assertEqual(self.ended, [str(number) for number in range(100, 117)])
        silent = [Connection(name, "127.0.0.1", self.ended) for name in "abcd"]
        for each in silent:
            self.assertIsNone(self.admission.admit(each))
        self.assertEqual(self.ended[17:], ["117", "118", "119", "operator"])

    def test_the_reserve_is_bounded(self) -> None:
        """Four have shown it, and none of them is idle."""
        self.fill()
        for name in "abcd":
            self.assertIsNone(self.come(name))
            self.show(name)
        self.assertEqual(self.come("e"), "36 connections are open")
        self.admission.leave(self.known["b"])
        self.assertIsNone(self.come("e"))
        self.assertEqual(self.ended, [])

    def test_idle_ones_of_the_reserve(self) -> None:
        """They make room for others who come there, never for clients."""
        self.fill()
        for name in ("101", "102", "103", "104"):
            self.come(name)
            self.show(name)
            self.known[name].rest_s = IDLE_PLACE_S
        self.holding = {101, 103}
        self.admission.settle()
        self.assertIsNone(self.come("105"))
        self.assertTrue(self.known["105"].on_trial)
        self.assertEqual(self.ended, ["102"])

    def test_those_whom_it_is_for_leave_last(self) -> None:
        """Of the idle ones within the limit."""
        self.fill()
        for number in (3, 9, 20):
            self.known[str(number)].rest_s = IDLE_PLACE_S + number
        self.show("20")
        self.admission.settle()
        for name in ("a", "b", "c"):
            self.assertIsNone(self.come(name))
            self.assertFalse(self.known[name].on_trial)
        self.assertEqual(self.ended, ["9", "3", "20"])
        self.assertIsNone(self.come("d"))
        self.assertTrue(self.known["d"].on_trial)

    def test_places_that_became_free(self) -> None:
        """Who stays takes one, and the reserve is whole again."""
        self.fill()
        for name in "abcd":
            self.come(name)
            self.show(name)
        for number in range(1, 5):
            self.admission.leave(self.known[str(number)])
        self.admission.settle()
        for name in "efgh":
            self.assertIsNone(self.come(name))
            self.assertTrue(self.known[name].on_trial, "the places within the limit are taken")
            self.show(name)
        self.assertIsNotNone(self.come("i"))
        for each in self.known.values():
            self.admission.leave(each)
        self.fill()

    def test_an_address(self) -> None:
        """Its share has a reserve of its own, and none beyond that of all."""
        self.fill("10.0.0.1", 20)
        for name in "abcd":
            self.assertIsNone(self.come(name, "10.0.0.1"))
            self.assertTrue(self.known[name].on_trial)
            self.show(name)
        self.assertEqual(self.come("e", "10.0.0.1"), "24 connections of 10.0.0.1 are open")
        self.fill("10.0.0.2", 12)
        self.assertEqual(self.come("f", "10.0.0.3"), "36 connections are open", "the reserve of all is taken")

    def test_strangers_of_the_reserve_make_no_room_for_clients(self) -> None:
        """Else clients would fill it, one by one."""
        self.fill()
        silent = self.known["silent"] = Connection("silent", "127.0.0.1", self.ended)
        self.assertIsNone(self.admission.admit(silent))
        self.assertIsNone(self.come("a"))
        self.assertEqual((silent.on_trial, self.known["a"].on_trial, self.ended), (True, True, []))
