"""Who has a place at a port, and who loses it to whom."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from rocketha.observe.refusals import Ended
from rocketha.protocols.admission import CROWDED_S, HEARD_AT_ONCE, IDLE_PLACE_S, SETTLED_IDLE_S, Admission
from rocketha.protocols.limits import Limits


class Connection:
    """Somebody at the door."""

    def __init__(self, name: str, host: str, ended: list[str]) -> None:
        self.id = int(name) if name.isdecimal() else 0
        self.name = name
        self.socket_host = host
        self.stirred = False
        self.heard = 0
        self.rest_s: int | None = None
        self.ended = ended
        self.unread: Callable[[], None] | None = None  # what it said and nobody read yet does that

    def hear(self) -> None:
        self.heard += 1
        if self.unread is not None:
            self.unread()

    def lose_place(self, cause: Ended, why: str) -> None:
        self.ended.append(self.name)


class AdmissionTests(SynchronousTestCase):
    """Five places, two for an address; who has spoken stays, as a replica does."""

    def setUp(self) -> None:
        self.ended: list[str] = []
        self.admission = Admission(Limits(connections=5, connections_per_address=2))
        self.known: dict[str, Connection] = {}

    def come(self, name: str, host: str = "10.0.0.1", speaks: bool = False) -> str | None:
        connection = self.known[name] = Connection(name, host, self.ended)
        refusal = self.admission.admit(connection)
        if speaks:
            self.admission.spoke(connection)
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
            self.admission.spoke(self.known["a"])

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
            self.admission.spoke(connection)
        self.assertEqual(self.admission.patience_s("10.0.0.2"), 10)

    def test_loopback_is_crowded_by_the_port_alone(self) -> None:
        """It has no share of its own."""
        self.come("a", "127.0.0.1")
        self.come("b", "127.0.0.1")
        self.assertEqual(self.admission.patience_s("127.0.0.1"), 10)


class Crowded(SynchronousTestCase):
    """32 places, 20 for an address, four more of either in reserve; who speaks may have to leave."""

    def setUp(self) -> None:
        self.ended: list[str] = []
        self.holding: set[int] = set()
        limits = Limits(connections=32, connections_per_address=20)
        self.admission = Admission(limits, lambda ids: self.holding, reserve=True)
        self.known: dict[str, Connection] = {}

    def come(self, name: str, host: str = "127.0.0.1", shows: bool = False) -> Connection:
        """Somebody who speaks at once."""
        connection = self.enter(name, host)
        self.admission.spoke(connection, shows)
        return connection

    def enter(self, name: str, host: str = "127.0.0.1") -> Connection:
        """Somebody who says nothing yet."""
        connection = self.known[name] = Connection(name, host, self.ended)
        self.assertIsNone(self.admission.admit(connection))
        return connection

    def fill(self, host: str = "127.0.0.1", places: int = 32) -> None:
        for number in range(1, places + 1):
            self.come(str(number), host)
        self.assertEqual(self.ended, [])

    def crowd(self, count: int, host: str = "127.0.0.1", first: int = 1000) -> None:
        for number in range(first, first + count):
            self.come(str(number), host)


class CrowdTests(Crowded):
    """Who leaves for whom."""

    def test_those_that_came_first_stay(self) -> None:
        """Half of the places are theirs; the others leave in the order in which they came."""
        self.fill()
        self.crowd(100)
        self.assertEqual(self.ended, [*map(str, range(17, 33)), *map(str, range(1000, 1084))])

    def test_a_crowd_from_elsewhere(self) -> None:
        """Costs nobody else his place, neither before nor after it took half of them."""
        self.come("before", "10.0.0.1")
        self.crowd(16, "127.0.0.2", 3000)
        self.come("first", "10.0.0.2")
        self.crowd(200, "127.0.0.2")
        for number in range(8):
            self.come(f"after-{number}", f"127.0.1.{number % 4}")
        self.crowd(200, "127.0.0.2", 2000)
        self.assertEqual([name for name in self.ended if not name.isdecimal()], [])
        self.assertEqual(len(self.ended), 16 + 200 + 200 + 10 - 32)

    def test_a_crowd_of_many_addresses(self) -> None:
        """Where everybody has one place, the first of those leaves that are not settled."""
        for number in range(40):
            self.come(str(number), f"10.0.1.{number}")
        self.assertEqual(self.ended, [str(number) for number in range(16, 24)])

    def test_who_is_in_the_middle_of_something(self) -> None:
        """Stays for as long as it goes on, and no longer."""
        self.fill()
        busy = self.come("busy")
        for number in range(1000, 1100):
            busy.stirred = True
            self.come(str(number))
        self.assertNotIn("busy", self.ended)
        self.crowd(40, first=2000)
        self.assertIn("busy", self.ended)

    def test_a_request_that_nobody_read(self) -> None:
        """Is read before its connection has to leave: many may have come in one turn."""
        self.fill()
        busy = self.come("busy")

        def ask() -> None:
            busy.stirred, busy.unread = True, None

        self.crowd(15)
        busy.unread = ask
        self.crowd(15, first=2000)
        self.assertNotIn("busy", self.ended)
        self.crowd(2, first=3000)
        self.assertIn("busy", self.ended)

    def test_who_leaves_when_it_is_read(self) -> None:
        """It hung up: nobody else has to go."""
        self.fill()
        self.known["17"].unread = lambda: self.admission.leave(self.known["17"])
        self.come("a")
        self.assertEqual(self.ended, [])

    def test_everybody_speaks_all_the_time(self) -> None:
        """What is read for one who comes is bounded."""
        self.fill()
        for each in self.known.values():
            each.unread = lambda each=each: setattr(each, "stirred", True)  # type: ignore[misc]
        self.come("a")
        self.assertEqual(len(self.ended), 1)
        self.assertEqual(sum(each.heard for each in self.known.values()), HEARD_AT_ONCE)

    def test_the_silent(self) -> None:
        """A flood of them costs nobody his place who spoke."""
        self.fill()
        for number in range(8):
            self.enter(f"early-{number}")
        self.ended.clear()
        for number in range(100):
            self.enter(f"silent-{number}")
        self.assertEqual(self.ended[0], "25", "they have a quarter of the places")
        self.assertEqual(self.ended[1:9], [f"early-{number}" for number in range(8)])
        self.assertEqual(len(self.ended), 100)
        self.assertFalse(any(name.isdecimal() for name in self.ended[1:]))

    def test_who_said_nothing_yet(self) -> None:
        """Has time to, however many come that speak at once."""
        self.fill()
        slow = self.enter("slow", "127.0.0.1")
        self.crowd(100)
        self.assertNotIn("slow", self.ended)
        self.admission.spoke(slow)
        self.crowd(10, first=2000)
        self.assertNotIn("slow", self.ended)

    def test_an_address_has_its_share(self) -> None:
        """Its own leave for those who come from there, though there is room."""
        self.fill("10.0.0.1", 20)
        self.come("o", "10.0.0.2")
        self.come("a", "10.0.0.1")
        self.come("b", "10.0.0.1")
        self.assertEqual(self.ended, ["11", "12"])
        limits = Limits(connections=320, connections_per_address=20)
        self.admission = Admission(limits, lambda ids: self.holding)
        self.ended.clear()
        self.fill("10.0.0.1", 20)
        self.crowd(295)
        self.come("a", "10.0.0.1")
        self.assertEqual(self.ended, ["11"], "and not one of an address that has more")

    def test_places_of_the_settled(self) -> None:
        """As one leaves, the newcomer has its place that came first, and none that comes later."""
        self.fill()
        for number in (1, 2):
            self.admission.leave(self.known[str(number)])
        self.come("a")
        self.come("b")
        self.admission.settle()
        self.crowd(30)
        self.assertFalse({"17", "18"} & set(self.ended))
        self.assertTrue({"19", "a", "b"} <= set(self.ended))

    def test_who_is_idle(self) -> None:
        """And holds nothing leaves first, the longest idle before the others; who is settled after a longer time."""
        self.fill()
        for number, rest_s in ((3, IDLE_PLACE_S), (4, SETTLED_IDLE_S), (20, 7), (25, 9), (30, 8), (31, 4)):
            self.known[str(number)].rest_s = rest_s
        self.holding = {30}
        self.admission.settle()
        self.crowd(4)
        self.assertEqual(self.ended, ["4", "25", "20", "17"])

    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_any_order(self, data: st.DataObject) -> None:
        """Two addresses with two connections at most keep them, whatever a third does, and the bounds hold."""
        self.setUp()
        here: dict[str, list[Connection]] = {"127.0.0.1": [], "10.0.0.1": [], "127.0.0.2": []}
        came = 0
        for _ in range(data.draw(st.integers(0, 150))):
            host = data.draw(st.sampled_from(("127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.1", "10.0.0.1")))
            others = [each for each in here[host] if each.name not in self.ended]
            many = host == "127.0.0.2"
            what = data.draw(st.sampled_from(("come", "come", "come", "shows", "silent", "stir", "leave", "settle")))
            if what in ("come", "shows") or (what == "silent" and many):
                if many or len(others) < 2:
                    came += 1
                    here[host].append(self.enter(str(came), host))
                    if what != "silent":
                        self.admission.spoke(here[host][-1], what == "shows")
            elif what == "settle":
                self.admission.settle()
            elif others:
                one = data.draw(st.sampled_from(others))
                if what == "leave":
                    self.admission.leave(one)
                    here[host].remove(one)
                one.stirred = True
            self._check(here)

    def _check(self, here: dict[str, Sequence[Connection]]) -> None:
        honest = {each.name for host in ("127.0.0.1", "10.0.0.1") for each in here[host]}
        self.assertFalse(honest & set(self.ended))
        self.assertEqual(len(self.ended), len(set(self.ended)))
        inside = sum(each.name not in self.ended for each in itertools.chain(*here.values()))
        everybody = self.admission._all
        self.assertEqual(everybody.guests + everybody.in_reserve, inside)
        self.assertLessEqual(everybody.guests, 32)
        self.assertLessEqual(everybody.settled, 16)
        self.assertLessEqual(everybody.in_reserve, 4)


class ReserveTests(Crowded):
    """Those whom it is for: they say so with their first request."""

    def test_who_shows_it_stays(self) -> None:
        """Clients have all places, and more clients come for ever; the operator keeps his place, and says no more."""
        self.fill()
        self.come("operator", shows=True)
        self.crowd(200)
        self.assertNotIn("operator", self.ended)
        self.assertEqual(len(self.ended), 200, "one left for the operator, and left a place free")

    def test_it_is_bounded(self) -> None:
        """Four have it; a fifth is a newcomer like others, until one of the four has gone."""
        self.fill()
        for name in "abcde":
            self.come(name, shows=True)
        self.crowd(20)
        self.assertEqual({"a", "b", "c", "d", "e"} & set(self.ended), {"e"})
        self.come("f", shows=True)
        self.admission.leave(self.known["b"])
        self.admission.settle()
        self.crowd(40, first=2000)
        self.assertNotIn("f", self.ended)

    def test_an_address_that_has_it_all(self) -> None:
        """Gives of it to one that has none."""
        self.fill()
        for name in "abcd":
            self.come(name, "127.0.0.2", shows=True)
        for name in "efg":
            self.come(name, "127.0.0.3", shows=True)
        for name in "hi":
            self.come(name, "127.0.0.4", shows=True)
        for host in "234":
            self.crowd(100, f"127.0.0.{host}", int(host) * 1000)
        self.assertEqual({*"abcdefghi"} & set(self.ended), {"a", "b", "c", "g", "i"})

    def test_idle_ones(self) -> None:
        """They make room for others whom it is for, never for clients."""
        self.fill()
        for name in ("101", "102", "103", "104"):
            self.come(name, shows=True).rest_s = IDLE_PLACE_S
        self.holding = {101, 103}
        self.admission.settle()
        self.crowd(20)
        self.assertNotIn("102", self.ended)
        self.come("105", shows=True)
        self.assertIn("102", self.ended)
        self.crowd(40, first=2000)
        self.assertFalse({"101", "103", "104", "105"} & set(self.ended))

    def test_an_address_has_a_part_of_it(self) -> None:
        """As large a part as its share is of all places."""
        limits = Limits(connections=320, connections_per_address=20)
        self.admission = Admission(limits, lambda ids: self.holding, reserve=True)
        self.fill("10.0.0.1", 20)
        for name in "abcde":
            self.come(name, "10.0.0.1", shows=True)
        self.crowd(40, "10.0.0.1")
        self.assertEqual({*"abcde"} & set(self.ended), {"e"})

    def test_an_operator_of_a_quiet_server(self) -> None:
        """Has a place like anybody: the reserve is there when it is needed."""
        for number in range(10):
            self.come(f"early-{number}", shows=True)
        self.crowd(30)
        self.come("operator", shows=True)
        self.crowd(100, first=2000)
        self.assertFalse([name for name in self.ended if not name.isdecimal()])
