"""What a probe finds at a real port, what a link's fate means, and what 907 tells."""

from __future__ import annotations

from typing import Any

from twisted.internet import defer, error, protocol, reactor, task
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase, TestCase

from rocketha.controller.detector_effects import Probe, Reading, Verdict
from rocketha.controller.liveness import ReplicaKey
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.remoting import RemotingFactory
from rocketha.services.controller.probes import Probes, group_of, reading_of
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Answer, Command
from tests.interop.harness.ports import free_ports
from tests.services.controller_case import until

KEY = ReplicaKey("C", "broker-a", 1)
JAVA_SLAVE = (
    b'{"haClientRuntimeInfo":{"lastReadTimestamp":1795256625162,"lastWriteTimestamp":7,"masterAddr":"h:1",'
    b'"masterFlushOffset":0,"maxOffset":62073,"transferredByteInSecond":0},"haConnectionInfo":[],"inSyncSlaveNums":0,'
    b'"master":false,"masterCommitLogMaxOffset":0}'
)


WHO = RequestCode.GET_BROKER_EPOCH_CACHE
JAVA_EPOCHS = (
    b'{"brokerId":2,"brokerName":"broker-a","clusterName":"C","epochList":[{"endOffset":9223372036854775807,"epoch":1,'
    b'"startOffset":0}],"maxOffset":62073}'
)
CLASSIC = Answer(1, "this request only for controllerMode ")


class Broker:
    """Answers 907 and 1007, or nothing."""

    def __init__(self, answer: Answer | None, who: Answer | None = Answer(body=JAVA_EPOCHS)) -> None:  # noqa: B008
        self.answer = answer
        self.who = who
        self.codes: list[int] = []

    def connected(self, connection: Any) -> None:
        pass

    def disconnected(self, connection: Any, reason: str) -> None:
        pass

    def turn_ended(self) -> None:
        pass

    def request(self, connection: Any, command: Command) -> Answer | None:
        self.codes.append(command.code)
        return self.who if command.code == WHO else self.answer


class Closing(protocol.Protocol):
    """Takes a connection, reads, and closes it unanswered."""

    def dataReceived(self, data: bytes) -> None:
        self.transport.loseConnection()  # type: ignore[union-attr]


class ProbeTests(TestCase):
    """Each verdict, from a socket."""

    timeout = 120

    def setUp(self) -> None:
        self.probes = Probes(Dialer(reactor), lambda address, reached: None)
        self.ports: list[Any] = []

    @defer.inlineCallbacks
    def tearDown(self) -> Any:
        self.probes.close()
        for port, factory in self.ports:
            yield port.stopListening()
            if isinstance(factory, RemotingFactory):
                factory.close_all()
                yield until("the end of connections", lambda factory=factory: not factory.connections)
        yield until("the end of probes", lambda: not self.probes.connections._factory.connections)

    def listen(self, factory: Any) -> str:
        port = reactor.listenTCP(0, factory, interface="127.0.0.1")  # type: ignore[attr-defined]
        self.ports.append((port, factory))
        return f"127.0.0.1:{port.getHost().port}"

    def broker(self, answer: Answer | None, who: Answer | None = Answer(body=JAVA_EPOCHS)) -> str:  # noqa: B008
        self.service = Broker(answer, who)
        return self.listen(RemotingFactory(self.service, reactor))  # type: ignore[arg-type]

    def ask(self, address: str, timeout_ms: int = 5000) -> defer.Deferred[tuple[Verdict, Reading]]:
        found: defer.Deferred[tuple[Verdict, Reading]] = defer.Deferred()
        self.probes.probe(
            Probe(1, KEY, address, timeout_ms), lambda probe, verdict, reading: found.callback((verdict, reading))
        )
        return found

    @defer.inlineCallbacks
    def test_answers(self) -> Any:
        """A slave of Java's; on a connection that ends then."""
        found = yield self.ask(self.broker(Answer(body=JAVA_SLAVE)))
        self.assertEqual(found, (Verdict.ANSWERED, Reading(False, 1795256625162, 62073, ("C", "broker-a"))))
        self.assertEqual(sorted(self.service.codes), [RequestCode.GET_BROKER_HA_STATUS, WHO])
        yield until("its end", lambda: not self.probes.connections._factory.connections)

    @defer.inlineCallbacks
    def test_any_answer_is_one(self) -> Any:
        """Busy, or not permitted: it lives."""
        found = yield self.ask(self.broker(Answer(16, "no permission")))
        self.assertEqual(found, (Verdict.ANSWERED, Reading(group=("C", "broker-a"))))

    @defer.inlineCallbacks
    def test_who_answers(self) -> Any:
        """A broker without controllers, or whatever else got the address, is of no group; nothing said is nothing."""
        for who, wanted in ((CLASSIC, ("", "")), (Answer(3, "?"), ("", "")), (Answer(1, "busy"), None), (None, None)):
            found = yield self.ask(self.broker(Answer(body=b'{"master":true}'), who), 300)
            self.assertEqual(found, (Verdict.ANSWERED, Reading(True, group=wanted)))

    @defer.inlineCallbacks
    def test_by_an_open_link(self) -> Any:
        """A replica is asked without making a connection; when the link has just broken, on a new one."""
        address = self.broker(Answer(body=JAVA_SLAVE))
        link = yield self.probes.connections.connect(address, 5.0)
        found: defer.Deferred[Any] = defer.Deferred()
        self.probes.probe(Probe(1, KEY, address, 5000, False), lambda *told: found.callback(told[1]))
        self.assertEqual(len(self.probes.connections._factory.connections), 1)
        self.assertEqual((yield found), Verdict.ANSWERED)
        self.service.answer = None
        again: defer.Deferred[Any] = defer.Deferred()
        self.probes.probe(Probe(1, KEY, address, 5000, False), lambda *told: again.callback(told[1]))
        self.service.answer = Answer(body=JAVA_SLAVE)
        link.transport.abortConnection()
        self.assertEqual((yield again), Verdict.ANSWERED)

    @defer.inlineCallbacks
    def test_refused(self) -> Any:
        """Nobody listens."""
        found = yield self.ask(f"127.0.0.1:{free_ports(1)[0]}")
        self.assertEqual(found, (Verdict.REFUSED, Reading()))

    @defer.inlineCallbacks
    def test_frozen(self) -> Any:
        """The kernel takes the connection; silence when the time is up."""
        begun = reactor.seconds()  # type: ignore[attr-defined]
        found = yield self.ask(self.broker(None), 200)
        self.assertEqual(found, (Verdict.SILENT, Reading()))
        self.assertGreater(reactor.seconds() - begun, 0.19)  # type: ignore[attr-defined]

    @defer.inlineCallbacks
    def test_closed(self) -> Any:
        """Taken and closed."""
        found = yield self.ask(self.listen(protocol.ServerFactory.forProtocol(Closing)))
        self.assertEqual(found, (Verdict.CLOSED, Reading()))

    @defer.inlineCallbacks
    def test_no_address(self) -> Any:
        """Says nothing about the broker."""
        found = yield self.ask("nonsense")
        self.assertEqual(found, (Verdict.SILENT, Reading()))


class ReadingTests(SynchronousTestCase):
    """Bodies that brokers, or others, may send."""

    def test_bodies(self) -> None:
        """What cannot be read tells nothing."""
        for body, wanted in (
            (b'{"master":true,"masterCommitLogMaxOffset":5}', Reading(True)),
            (b'{"master":"yes","haClientRuntimeInfo":{"lastReadTimestamp":"7","maxOffset":true}}', Reading()),
            (b'{"haClientRuntimeInfo":[1]}', Reading()),
            (b"[]", Reading()),
            (b"{", Reading()),
            (b"", Reading()),
        ):
            self.assertEqual(reading_of(Command(0, body=body)), wanted)
        self.assertEqual(reading_of(Command(1, body=JAVA_SLAVE)), Reading())


class GroupTests(SynchronousTestCase):
    """What 1007 says of who answers."""

    def test_bodies(self) -> None:
        """Names, or nothing."""
        self.assertEqual(group_of(Command(0, body=JAVA_EPOCHS)), ("C", "broker-a"))
        for body in (b"", b"{", b"[]", b'{"clusterName":"C"}', b'{"clusterName":null,"brokerName":"b"}'):
            self.assertIsNone(group_of(Command(0, body=body)))


class _Link:
    def __init__(self) -> None:
        self.closed = False
        self.waiting: list[defer.Deferred[Any]] = []

    @property
    def asked(self) -> int:
        return len(self.waiting)

    def request(self, code: int, timeout_s: float) -> defer.Deferred[Any]:
        assert code == WHO
        self.waiting.append(defer.Deferred())
        return self.waiting[-1]


class LinkTests(SynchronousTestCase):
    """The connection to a master's port, kept while this controller leads."""

    def setUp(self) -> None:
        self.known: list[tuple[str, bool]] = []
        self.probes = Probes(Dialer(task.Clock()), lambda address, reached: self.known.append((address, reached)))
        self.connections = self.probes.connections
        self.fate: Any = _Link()
        self.tried: list[str] = []
        self.dropped: list[str] = []
        self.pool: dict[str, _Link] = {}
        self.connections.connect = self.connect  # type: ignore[method-assign,assignment]
        self.connections.open = self.pool.get  # type: ignore[method-assign,assignment]
        self.connections.drop = self.drop  # type: ignore[method-assign]
        self.age_ms: int | None = 100

    def connect(self, address: str, timeout_s: float) -> Any:
        self.tried.append(address)
        if isinstance(self.fate, Exception):
            return defer.fail(Failure(self.fate))
        self.pool[address] = self.fate
        return defer.succeed(self.fate)

    def drop(self, address: str) -> None:
        self.dropped.append(address)

    def keep(self, now_ms: int, *addresses: str) -> None:
        self.probes.keep_links(addresses, now_ms, lambda address: self.age_ms)

    def test_opened_once_and_kept_alive(self) -> None:
        """It says something at once and then every half minute; brokers close who is silent."""
        for now_ms in range(0, 61_000, 500):
            self.keep(now_ms, "h:1")
        self.assertEqual((self.tried, self.known, self.fate.asked), (["h:1"], [("h:1", True)], 3))

    def test_whose_it_is(self) -> None:
        """Known when it has said so, and as long as that process is there."""
        self.assertIsNone(self.probes.behind("h:1"))
        self.keep(0, "h:1")
        self.assertIsNone(self.probes.behind("h:1"))
        first, self.fate = self.fate, _Link()
        first.waiting[0].callback(Command(0, body=JAVA_EPOCHS))
        self.assertEqual(self.probes.behind("h:1"), ("C", "broker-a"))
        del self.pool["h:1"]
        self.assertIsNone(self.probes.behind("h:1"))
        self.probes._link_ended("h:1")
        self.keep(500, "h:1")
        self.assertIsNone(self.probes.behind("h:1"))
        self.fate.waiting[0].callback(Command(1, remark=CLASSIC.remark))
        self.assertEqual(self.probes.behind("h:1"), ("", ""))

    def test_whose_a_former_one_was(self) -> None:
        """Says nothing of the one that took its place."""
        self.keep(0, "h:1")
        first = self.fate
        self.pool["h:1"] = _Link()
        first.waiting[0].callback(Command(0, body=JAVA_EPOCHS))
        self.assertIsNone(self.probes.behind("h:1"))

    def test_not_wanted_any_more(self) -> None:
        """Another broker leads, or another controller."""
        self.keep(0, "h:1", "h:2")
        self.keep(500, "h:2")
        self.probes.drop_links()
        self.assertEqual(self.dropped, ["h:1", "h:2"])

    def test_opened_too_late(self) -> None:
        """What a controller learns that leads no more is not known to it when it leads again, years later."""
        late: list[defer.Deferred[Any]] = []
        self.connections.connect = lambda address, timeout_s: (late.append(defer.Deferred()), late[-1])[1]  # type: ignore[method-assign,assignment,func-returns-value]
        self.keep(0, "h:1")
        self.probes.drop_links()
        self.dropped.clear()
        late.pop().callback(self.fate)
        self.assertEqual((self.known, self.fate.asked, self.dropped), ([], 0, ["h:1"]))
        self.keep(500, "h:1")
        first = late.pop()
        self.probes.drop_links()
        self.keep(1000, "h:1")
        self.dropped.clear()
        for each in (first, late.pop()):
            each.callback(self.fate)
        self.assertEqual((self.known, self.dropped), ([("h:1", True)], []))

    def test_ended(self) -> None:
        """Made anew with the next upkeep."""
        self.keep(0, "h:1")
        del self.pool["h:1"]
        self.probes._link_ended("h:1")
        self.keep(500, "h:1")
        self.assertEqual(self.tried, ["h:1", "h:1"])

    def test_refused_once(self) -> None:
        """Proves nothing: it may just have died."""
        self.fate = error.ConnectionRefusedError()
        self.keep(0, "h:1")
        self.age_ms = 5000
        self.keep(5000, "h:1")
        self.assertEqual((self.known, len(self.tried)), ([], 2))

    def test_refused_and_heard_afterwards(self) -> None:
        """Then the address is wrong, and no refusal means anything."""
        self.fate = error.ConnectionRefusedError()
        self.keep(0, "h:1")
        self.keep(5000, "h:1")
        self.assertEqual(self.known, [("h:1", False)])

    def test_unreachable(self) -> None:
        """A way that is blocked is no refusal."""
        self.fate = error.TimeoutError()
        self.keep(0, "h:1")
        self.keep(5000, "h:1")
        self.assertEqual(self.known, [])

    def test_what_cannot_be_reached_is_tried_less_and_less(self) -> None:
        """Each 5 s for ever, and whoever registers has us knock at a port as long as he likes."""
        self.fate = error.TimeoutError()
        at_s = []
        for now_s in range(3600):
            self.keep(now_s * 1000, "h:1")
            at_s += [now_s] * (len(self.tried) - len(at_s))
        self.assertEqual(at_s[:6], [0, 5, 15, 35, 75, 155])
        self.assertEqual(at_s[-1] - at_s[-2], 300)
        self.fate = _Link()
        self.keep(4000_000, "h:1")
        self.pool.clear()
        self.probes._link_ended("h:1")
        self.fate = error.TimeoutError()
        self.keep(4001_000, "h:1")
        self.keep(4006_000, "h:1")
        self.assertEqual(len(self.tried) - len(at_s), 3)

    def test_a_few_attempts_at_a_time(self) -> None:
        """A new leader of thousands of sets does not open all links in one turn."""
        self.connections.connect = lambda address, timeout_s: (self.tried.append(address), defer.Deferred())[1]  # type: ignore[method-assign,assignment,func-returns-value]
        self.keep(0, *(f"h{number}:1" for number in range(100)))
        self.keep(500, *(f"h{number}:1" for number in range(100)))
        self.assertEqual(len(self.tried), 32)
