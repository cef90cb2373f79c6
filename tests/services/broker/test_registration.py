"""What a broker tells its nameservers, against the nameserver's own rules and no network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet import defer, error, task
from twisted.trial.unittest import SynchronousTestCase

from rocketha.broker import register_parts
from rocketha.broker.register_parts import RegistrationRules
from rocketha.broker.state import BrokerIdentity
from rocketha.broker.topics import TopicConfig, TopicTable
from rocketha.errors import RequestRefused
from rocketha.namesrv import register_body
from rocketha.namesrv.effects import Address, HolderToBeAsked
from rocketha.namesrv.requests import Caller, NameServer
from rocketha.namesrv.route_table import BrokerKey
from rocketha.protocols.endpoints import Dialer
from rocketha.services.broker.registration import ROUND_PERIODS, Registration
from rocketha.wire.codes import RequestCode
from rocketha.wire.limits import FRAME_BYTES_MAX, WHOLE_TOPICS_MAX
from rocketha.wire.remoting import Answer, Command
from tests.namesrv.helpers import name_server

REGISTER, ASK, MEMBERS = (
    RequestCode.REGISTER_BROKER,
    RequestCode.QUERY_DATA_VERSION,
    RequestCode.GET_BROKER_MEMBER_GROUP,
)
PERIOD_S = 30.0
IDENTITY = BrokerIdentity("C", "broker-a", 0, "10.0.0.1:10911", "10.0.0.1:10912")


class Client:
    """A client of one nameserver that answers at once; ``broken`` is after how many requests it is not there."""

    def __init__(self, clock: task.Clock, server: NameServer) -> None:
        self.clock, self.server = clock, server
        self.said: list[tuple[int, bytes]] = []
        self.broken: int | None = None
        self.lost: set[str] = set()

    def request(
        self, address: str, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", timeout_s: float = 3
    ) -> defer.Deferred[Command]:
        if self.broken is not None:
            self.broken -= 1
            if self.broken < 0:
                return defer.fail(error.ConnectionRefusedError())
        self.said.append((code, body))
        command = Command(code, fields=dict(fields or {}), body=body)
        try:
            answer = self.server.answer(command, Caller(1, "10.0.0.1"), int(self.clock.seconds() * 1000))
        except RequestRefused as refusal:
            answer = Answer(refusal.code, refusal.remark)
        return defer.succeed(Command(answer.code, flag=1, fields=dict(answer.fields or {}), body=answer.body))

    def is_open(self, address: str) -> bool:
        return address not in self.lost

    def give_up(self, address: str) -> None:
        """Nothing to end."""

    def close(self) -> None:
        """Nothing to close."""


class RegistrationCase(SynchronousTestCase):
    """A broker of 35 topics and its own, which registers ten at a time."""

    rules = RegistrationRules(PERIOD_S, split=True, part_topics=10)
    keys: dict[str, object] = {}

    def setUp(self) -> None:
        self.clock = task.Clock()
        self.topics = TopicTable()
        self.topics.install([TopicConfig("broker-a")])
        for number in range(35):
            self.topics.put(TopicConfig(f"T{number}", 4, 4), 1)
        self.server = name_server(**self.keys)
        self.learned: list[tuple[str, str]] = []
        self.identity = IDENTITY
        self.registration = Registration(
            Dialer(self.clock),
            ("namesrv:9876",),
            lambda: self.identity,
            self.topics,
            self.rules,
            lambda *where: self.learned.append(where),
        )
        self.registration._client.close()
        self.client: Any = Client(self.clock, self.server)
        self.registration._client = self.client
        self.registration.start()

    def said(self) -> list[int]:
        """Codes since the last call."""
        said, self.client.said = [code for code, _ in self.client.said], []
        return said

    def routes(self) -> list[str]:
        return sorted(self.server.table.topics)

    def stored(self) -> Any:
        version = self.server.table.version_of("C", self.identity.address)
        return version.as_json() if version is not None else None


class PermissionTests(RegistrationCase):
    """brokerPermission, in one registration and in parts."""

    def perms(self) -> set[int]:
        return {queues.perm for topic in self.server.table.topics.values() for queues in topic.values()}

    def test_what_the_broker_may_not_its_topics_may_not(self) -> None:
        """The route says so, whatever a topic's own permission is; nothing of that stays in the table."""
        for rules in (self.rules, RegistrationRules(PERIOD_S)):
            self.registration._rules = rules
            self.registration._permission = lambda: 4
            self.topics.data_version.next(2, 0)
            self.registration.register()
            self.clock.advance(PERIOD_S)
            self.assertEqual(self.perms(), {4})
            self.registration._permission = lambda: 6
            self.topics.data_version.next(3, 0)
            self.registration.register()
            self.clock.advance(PERIOD_S)
            self.assertEqual(self.perms(), {6})
        self.assertEqual({config.perm for config in self.topics.table.values()}, {6})


class LargeTableTests(RegistrationCase):
    """More topics than go into one request."""

    def test_at_first(self) -> None:
        """All are told, in parts of which each has a version of its own, and the last one the table's."""
        bodies = [register_body.parse(body, False, 513) for _, body in self.client.said]
        self.assertEqual([len(body.topics) for body in bodies], [10, 10, 10, 6])
        self.assertEqual(len({body.version for body in bodies}), 4)
        self.assertEqual(self.routes(), sorted(self.topics.table))
        self.assertEqual(self.stored(), self.topics.data_version.as_json())
        self.assertTrue(self.registration.registered)

    def test_a_period(self) -> None:
        """Is one question, which keeps the broker alive, and a whole round now and then."""
        self.said()
        heard = self.server.table.live[Address("C", IDENTITY.address)]
        for _ in range(ROUND_PERIODS - 1):
            self.clock.advance(PERIOD_S)
            self.assertEqual(self.said(), [ASK])
        self.assertEqual(heard.heard_ms, int(self.clock.seconds() * 1000))
        self.server.table.delete_topic("T7")
        self.clock.advance(PERIOD_S)
        self.assertEqual(self.said(), [REGISTER] * 4)
        self.assertEqual(self.routes(), sorted(self.topics.table))

    def test_a_topic_is_made(self) -> None:
        """It is told at once, alone; the nameserver then has the whole table."""
        self.said()
        for name in ("new", "newer"):
            self.topics.put(TopicConfig(name), 2)
            self.registration.topics_changed([name])
        self.assertEqual(self.said(), [REGISTER] * 2)
        self.assertLess({"new", "newer"}, set(self.routes()))
        self.clock.advance(PERIOD_S)
        self.assertEqual(self.said(), [ASK])

    def test_many_topics_are_made(self) -> None:
        """As at a slave that has just taken its master's: parts, not a request for each."""
        self.said()
        names = [f"new{number}" for number in range(60)]
        for name in names:
            self.topics.put(TopicConfig(name), 2)
        self.registration.topics_changed(names)
        self.assertEqual(self.said(), [REGISTER] * 10)
        self.assertEqual(self.routes(), sorted(self.topics.table))

    def test_a_topic_is_changed(self) -> None:
        """Java's nameserver takes it by its version, ours by what it says."""
        self.topics.put(TopicConfig("T3", 8, 8), 2)
        self.registration.topics_changed(["T3"])
        self.assertEqual(self.server.table.topics["T3"][BrokerKey("C", "broker-a")].read_queues, 8)

    def test_a_topic_goes(self) -> None:
        """Nothing is said at once, however many go; with the next period the whole table, also after an update."""
        self.said()
        self.topics.delete("T3", 2)
        self.registration.topics_changed([])
        self.assertEqual(self.said(), [])
        self.topics.put(TopicConfig("new"), 3)
        self.registration.topics_changed(["new"])
        self.assertEqual(self.said(), [REGISTER])
        self.clock.advance(PERIOD_S)
        self.assertEqual(self.said(), [ASK, *[REGISTER] * 4])
        self.clock.advance(PERIOD_S)
        self.assertEqual(self.said(), [ASK])

    def test_a_nameserver_that_forgot(self) -> None:
        """Hears everything again with the next period."""
        self.said()
        self.client.server = self.server = name_server()
        self.clock.advance(PERIOD_S)
        self.assertEqual(self.said(), [ASK, *[REGISTER] * 4])
        self.assertEqual(self.routes(), sorted(self.topics.table))

    def test_a_connection_breaks(self) -> None:
        """Its nameserver forgets the broker, and hears everything again at once; another one nothing."""
        self.said()
        self.registration.disconnected(None, "another one's")  # type: ignore[arg-type]
        self.clock.advance(0)
        self.assertEqual(self.said(), [])
        self.client.lost.add("namesrv:9876")
        self.registration.disconnected(None, "lost")  # type: ignore[arg-type]
        self.clock.advance(0)
        self.assertEqual(self.said(), [REGISTER] * 4)

    def test_a_round_breaks(self) -> None:
        """The whole round again; meanwhile the version that the nameserver has is no table's."""
        self.topics.put(TopicConfig("T3", 8, 8), 2)
        self.registration.topics_changed([])
        self.client.broken = 3
        self.clock.advance(PERIOD_S)
        self.assertFalse(self.registration.registered)
        self.assertLess(self.stored()["counter"], 0)
        self.client.broken = None
        self.said()
        self.clock.advance(1.0)
        self.assertEqual(self.said(), [REGISTER] * 4)
        self.assertEqual(self.stored(), self.topics.data_version.as_json())

    def test_another_role(self) -> None:
        """A broker that is something else now says everything."""
        self.said()
        self.topics.begin_term(2, 5)
        self.identity = BrokerIdentity("C", "broker-a", 3, IDENTITY.address, IDENTITY.ha_address)
        self.registration.register()
        self.assertEqual(self.said(), [REGISTER] * 4)
        self.assertEqual(self.server.table.brokers[BrokerKey("C", "broker-a")].addresses, {3: IDENTITY.address})


class DeletingNameserverTests(RegistrationCase):
    """A nameserver with deleteTopicWithBrokerRegistration."""

    keys = {"delete_topic_with_broker_registration": True}

    def test_what_is_told_in_parts(self) -> None:
        """Stays; what went is gone with the second round that does not name it."""
        self.topics.delete("T3", 2)
        self.registration.topics_changed([])
        for _ in range(3 * ROUND_PERIODS):
            self.clock.advance(PERIOD_S)
            self.assertLessEqual(set(self.topics.table), set(self.routes()))
        self.assertEqual(self.routes(), sorted(self.topics.table))


class SlaveTests(RegistrationCase):
    """A slave with many topics: it has to hear where its master is."""

    def test_the_master_moves(self) -> None:
        """Each period costs two questions; the address comes by the registration, when it is another."""
        slave = BrokerIdentity("C", "broker-a", 2, "10.0.0.2:10911", "10.0.0.2:10912")
        self.identity = slave
        self.registration.register()
        self.learned.clear()
        self.said()
        for master in ("10.0.0.3:10911", "10.0.0.4:10911"):
            fields = {
                "brokerAddr": master,
                "brokerId": "0",
                "brokerName": "broker-a",
                "clusterName": "C",
                "haServerAddr": f"ha-{master}",
            }
            now_ms = int(self.clock.seconds() * 1000)
            try:
                self.server.answer(Command(REGISTER, fields=fields), Caller(9, "10.0.0.9"), now_ms)
            except HolderToBeAsked as claim:  # the former master, which does not answer
                self.server.take_over(claim.request, now_ms)
            self.clock.advance(PERIOD_S)
            self.assertEqual(self.said()[-6:], [ASK, MEMBERS, *[REGISTER] * 4])
            self.assertEqual(self.learned[-1], (master, f"ha-{master}"))
            self.clock.advance(PERIOD_S)
            self.assertEqual(self.said(), [ASK, MEMBERS])


class SmallTableTests(RegistrationCase):
    """What fits into a frame is told whole, each time, as Java does."""

    rules = RegistrationRules(PERIOD_S)

    def test_always_whole(self) -> None:
        """At first, each period, and when something came or went."""
        self.assertEqual(self.said(), [REGISTER])
        self.clock.advance(PERIOD_S)
        self.topics.put(TopicConfig("new"), 2)
        self.registration.topics_changed(["new"])
        self.topics.delete("new", 2)
        self.registration.topics_changed([])
        self.assertEqual(self.said(), [REGISTER] * 3)


class SizeTests(SynchronousTestCase):
    """Bodies and the frame."""

    def test_eighty_thousand_topics(self) -> None:
        """Whatever their names, no part and no whole table is longer than a frame, and nobody is left out."""
        topics = TopicTable()
        topics.table = {name: TopicConfig(name) for name in (f"{number:0127d}" for number in range(80_000))}
        rules = RegistrationRules()
        seen: set[str] = set()
        for body in register_parts.parts(topics, rules.part_topics):
            self.assertLess(len(body), FRAME_BYTES_MAX // 16)
            seen.update(topic.name for topic in register_body.parse(body, False, 513).topics)
        self.assertEqual(seen, set(topics.table))
        self.assertGreater(len(topics.table), rules.whole_topics)
        topics.table = dict(list(topics.table.items())[:WHOLE_TOPICS_MAX])
        self.assertLess(len(register_parts.whole(topics)), FRAME_BYTES_MAX)
