"""Who may have a place at a master's HA port, and what strangers can say there (security.md)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketha.observe.refusals import Ended
from rocketha.protocols.ha_master import NOTES_MAX, NoLink
from rocketha.protocols.limits import Limits
from rocketha.replication.link import Cause
from rocketha.wire.ha_frames import (
    MasterHello,
    SlaveHello,
    encode_classic_head,
    encode_classic_report,
    encode_log_head,
    encode_master_hello,
    encode_report,
    encode_slave_hello,
)
from tests.protocols.ha_case import HaCase, Owner, Replica
from tests.replication.links import FILE, Log, entries, text

HELLO = encode_slave_hello(SlaveHello(2))


class PlaceTests(HaCase):
    """Four places, two of each address."""

    limits = Limits(connections=4, connections_per_address=2)

    def setUp(self) -> None:
        super().setUp()
        self.listen(Owner(Log(text(60)), entries((1, 0))))

    def test_slaves_keep_their_places(self) -> None:
        """Where everybody has reported the newcomer is refused; when one leaves there is room."""
        slaves = [self.accept(f"10.0.0.{number}") for number in range(4)]
        for protocol, _ in slaves:
            protocol.dataReceived(HELLO + encode_report(10))
        refused, transport = self.accept("10.0.0.9")
        self.assertEqual((refused.over, transport.aborted), ("4 connections are open", True))
        self.assertEqual(self.owner.opened, 4)
        slaves[1][1].lose()
        self.assertEqual(self.accept("10.0.0.9")[0].over, "")

    def test_strangers_make_room(self) -> None:
        """Who has only greeted is a stranger; the oldest loses his place, and what was read for him is given back."""
        strangers = [self.accept(f"10.0.0.{number}") for number in range(4)]
        strangers[0][0].dataReceived(HELLO)
        protocol, _ = self.accept("10.0.0.9")
        self.assertEqual((protocol.over, strangers[0][1].aborted), ("", True))
        self.assertIn("no places are left", strangers[0][0].over)
        self.assertEqual((self.owner.open_readers, self.owner.of("closed")[0][1]), (4, 1))
        protocol.dataReceived(HELLO + encode_report(10))
        for number in range(10, 15):
            self.accept(f"10.0.0.{number}")
        self.assertEqual(protocol.over, "")

    def test_who_reports_and_is_no_replica(self) -> None:
        """Makes room for whoever comes, however well he reports; from when he is known as one his place is his."""
        self.owner.known = False
        impostors = [self.accept(f"10.0.0.{number}") for number in range(4)]
        for protocol, _ in impostors:
            protocol.dataReceived(HELLO + encode_report(10))
        self.owner.known = True
        impostors[0][0].dataReceived(encode_report(10))
        replica, _ = self.accept("10.0.0.9")
        replica.dataReceived(HELLO + encode_report(10))
        self.assertEqual([bool(protocol.over) for protocol, _ in impostors], [False, True, False, False])
        for number in range(10, 20):
            self.owner.known = False
            self.accept(f"10.0.0.{number}")[0].dataReceived(HELLO + encode_report(10))
        self.assertEqual((replica.over, impostors[0][0].over), ("", ""))

    def test_places_of_an_address(self) -> None:
        """One address cannot have them all; loopback, where all brokers of a machine are, can."""
        for host, wanted in (("10.0.0.1", 2), ("127.0.0.1", 2)):
            for _ in range(4):
                protocol, _ = self.accept(host)
                protocol.dataReceived(HELLO + encode_report(10))
            open_now = [each for each in self.port.connections.values() if each.peer_host == host]
            self.assertEqual(len(open_now), wanted)
        self.assertEqual(len(self.port.connections), 4)

    def test_ended_links_count_until_their_connections_are_gone(self) -> None:
        """Who does not take our last frame has a place for some seconds, unless he never reported anything good."""
        for number, offset in enumerate((10, 10, 1000, 10)):
            protocol, transport = self.accept(f"10.0.0.{number}")
            protocol.dataReceived(HELLO + encode_report(offset))
            protocol.close("the test ends it")
            self.assertTrue(transport.disconnecting)
        self.assertEqual(self.port.connections, {})
        self.accept("10.0.0.9")[0].dataReceived(HELLO + encode_report(10))
        self.assertEqual(self.accept("10.0.0.9")[0].over, "4 connections are open")

    def test_flood_of_refusals_does_not_fill_the_log(self) -> None:
        """At most so many lines a second of those that went, and one a minute of a host that was refused."""
        lines: list[str] = []
        self.port.log.info = lambda text, **values: lines.append(text)
        for _ in range(500):
            _, transport = self.accept()
            transport.lose()
        self.assertEqual(len(lines), NOTES_MAX)
        self.clock.advance(1)
        self.accept()[1].lose()
        self.assertEqual(len(lines), NOTES_MAX + 1)
        said: list[str] = []
        log = type("Log", (), {"warn": lambda _, text, **values: said.append(text.format(**values))})
        self.port.refusals.log = log()
        for _ in range(4):
            self.accept()[0].dataReceived(HELLO + encode_report(10))
        for _ in range(500):
            self.accept()
        self.assertEqual(len(said), 1)
        self.assertIn("127.0.0.1:40000", said[0])
        self.assertEqual(self.port.refusals.ended, {"no_place": 500})

    def test_each_end_is_counted(self) -> None:
        """By a reason of its own, whatever the port, or a slave, ends a connection for."""
        for _ in range(5):
            self.accept()
        self.accept()[0].dataReceived(b"GET / HTTP/1.1\r\n\r\n" * 4)
        self.accept()[0].dataReceived(HELLO + encode_report(1000))
        self.owner.refusal = NoLink(Ended.NOT_ALLOWED, "not named")
        self.accept()
        self.wait(30)
        self.assertEqual(
            self.port.refusals.ended,
            {"lost_place": 4, "bad_frame": 1, "logs_differ": 1, "not_allowed": 1, "idle": 1},
        )
        silent, _ = self.dial(Replica(Log()))
        self.wait(30)
        deaf, _ = self.dial(Replica(Log()))
        deaf.pauseProducing()
        mad, _ = self.dial(Replica(Log(), ()))
        mad.dataReceived(b"\xff" * 64)
        self.assertTrue(silent.over and deaf.over and mad.over)
        self.assertEqual(self.dialed.ended, {"idle": 1, "unread_answers": 1, "bad_frame": 1})


FROM_SLAVES = (
    HELLO,
    encode_report(0),
    encode_report(10),
    encode_report(61),
    encode_slave_hello(SlaveHello(2, True, True)),
    encode_classic_report(10),
    encode_classic_report(1 << 62),
)
FROM_MASTERS = (
    encode_master_hello(MasterHello(60, 1, entries((1, 0)))),
    encode_log_head(10, 5, 1, 0, 0) + bytes(5),
    encode_log_head(10, 0, 1, 0, 10),
    encode_log_head(15, 0, 2, 15, 1 << 60),
    encode_classic_head(10, 5) + bytes(5),
    encode_classic_head(10, 1 << 20),
    encode_classic_head(FILE, 3) + bytes(3),
)


def streams(parts: tuple[bytes, ...]) -> st.SearchStrategy[list[bytes]]:
    """Frames in any order, and bytes that are none, in any cut."""
    return st.lists(st.sampled_from(parts) | st.binary(max_size=20), max_size=8)


class HostileTests(HaCase):
    """Whatever a peer says: nothing escapes, and a link that ended said why, once."""

    @settings(max_examples=150, deadline=None)
    @given(streams(FROM_SLAVES), st.booleans(), st.sampled_from((0, 1, 30)))
    def test_slaves(self, reads: list[bytes], classic: bool, wait_s: int) -> None:
        """At a master."""
        self.setUp()
        self.listen(Owner(Log(text(60)), None if classic else entries((1, 0))))
        protocol, transport = self.accept()
        for data in reads:
            protocol.dataReceived(data)
            self.wait(wait_s)
        closed = self.owner.of("closed")
        self.assertEqual(len(closed), int(bool(protocol.over)))
        self.assertEqual(self.owner.open_readers, int(not protocol.over))
        if protocol.over:
            self.assertTrue(closed[0][2] and closed[0][3] in Cause)
            self.assertTrue(transport.disconnecting)
            self.assertEqual(self.owner.events[-1], closed[0])
        transport.lose()
        self.assertEqual((self.owner.open_readers, self.clock.getDelayedCalls()), (0, []))

    @settings(max_examples=150, deadline=None)
    @given(streams(FROM_MASTERS), st.booleans(), st.sampled_from((0, 1, 30)))
    def test_masters(self, reads: list[bytes], classic: bool, wait_s: int) -> None:
        """At a slave: its log keeps what it had, and only what follows it is appended."""
        self.setUp()
        replica = Replica(Log(text(10)), None if classic else entries((1, 0)))
        protocol, transport = self.dial(replica)
        for data in reads:
            protocol.dataReceived(data)
            self.wait(wait_s)
        self.assertEqual(len(replica.of("closed")), int(bool(protocol.over)))
        self.assertEqual(bytes(replica.log.data[:10]), text(10))
        if protocol.over:
            self.assertEqual(replica.events[-1][0], "closed")
        transport.lose()
        self.assertEqual(self.clock.getDelayedCalls(), [])
