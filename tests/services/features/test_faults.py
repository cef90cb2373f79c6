"""Bad plug-ins, each in its own way: what the operator sees, and that the broker stays whole."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

from twisted.internet import defer
from twisted.internet.protocol import Factory, Protocol
from zope.interface import implementer

from rocketha.errors import ConfigError, CorruptStore
from rocketha.interfaces import (
    FeatureParts,
    File,
    IAuthenticator,
    IHealthCheck,
    IMessageFilter,
    IStoreObserver,
    Listener,
    Refused,
    Reply,
    Route,
    Timer,
    Topic,
)
from rocketha.wire import record
from rocketha.wire.codes import RequestCode, ResponseCode
from tests.services.broker_case import heartbeat, pull_fields, records
from tests.services.features.cases import Feature, PluginCase

CODE = 20_001


class Trouble(Exception):
    """What a plug-in raises."""


def fails(*arguments: Any) -> Any:
    """A plug-in's callback that does not work."""
    raise Trouble("it broke")


def parts(**given: Any) -> Callable[[Any], FeatureParts]:
    """A build that brings these."""
    return lambda context: FeatureParts(**given)


@implementer(IMessageFilter)
class Filter:
    """By a function."""

    expression_type = "SQL92"

    def __init__(self, compiled: Any) -> None:
        self.compile = compiled


@implementer(IHealthCheck)
class Check:
    """By a function."""

    every_s, timeout_s, hands_over = 1.0, 2.0, False

    def __init__(self, check: Any, name: str = "own") -> None:
        self.check = check
        self.name = name


@implementer(IStoreObserver)
class Observer:
    """By a function."""

    name = "own"

    def __init__(self, confirmed: Any) -> None:
        self.confirmed = confirmed


@implementer(IAuthenticator)
class Judge:
    """By a function."""

    name = "own"

    def __init__(self, denies: Any) -> None:
        self.denies = denies


def route(respond: Any = lambda request: Reply(), code: Any = CODE, name: Any = "ACME") -> Route:
    """One of a plug-in's."""
    return Route(code, name, respond)


class NotStartedTests(PluginCase):
    """What cannot be used stops the start, with one line that names the plug-in."""

    def setUp(self) -> None:
        """Nothing starts by itself."""

    def reason(self, *features: Feature) -> str:
        """Why a broker with these does not start."""
        self.plugins = lambda: list(features)  # type: ignore[method-assign]
        self.started = lambda: None  # type: ignore[method-assign]
        super().setUp()
        failure = self.service.ready()
        assert failure is not None
        self.flushLoggedErrors(Trouble)
        self.successResultOf(self.service.stopService())
        return failure

    def test_build(self) -> None:
        for build, reason in (
            (fails, "build failed: Trouble: it broke"),
            (lambda context: None, "build gave NoneType, and FeatureParts is wanted"),
            (parts(routes=[route(code=10)]), "request code 10 is not within 20000 and 29999"),
            (parts(routes=[route(name="acme")]), "request 20001 is named 'acme'"),
            (parts(routes=[route(respond=None)]), "has nothing that answers it"),
            (parts(routes=[route(), route(name="OTHER")]), "request code 20001 is there already"),
            (parts(routes=["x"]), "routes has str, and Route is wanted"),
            (parts(timers=[Timer("t", 0, print)]), "timer t runs every 0 s"),
            (parts(listeners=[Listener("l", "nonsense", None)]), "listener l: 'nonsense' cannot be listened on"),
            (parts(topics=[Topic("bad topic")]), "contains illegal characters"),
            (parts(topics=[Topic("T", 0)]), "topic T is to have 0 queues"),
            (parts(file="x"), "file is str, and File is wanted"),
            (parts(filters=[object()]), "Does not declaratively implement"),
            (parts(health=[Check(print, name="Not Good")]), "a name is 'Not Good'"),
            (parts(observers=[Observer(None)]), "is not a method"),
            (parts(authenticators=[Check(print)]), "Does not declaratively implement"),
            (parts(on_role=3), "on_role cannot be called"),
            (parts(routes=None), "its parts cannot be looked at: TypeError"),
            (parts(topics=[Topic(5)]), "its parts cannot be looked at"),
        ):
            with self.subTest(reason):
                found = self.reason(Feature(build))
                self.assertIn(reason, found)
                self.assertIn("plug-in acme", found)

    def test_a_listener_with_a_key_that_others_can_read(self) -> None:
        key = pathlib.Path(self.mktemp())
        key.touch()
        key.chmod(0o644)
        listener = Listener("l", f"ssl:0:privateKey={key}", None)
        found = self.reason(Feature(parts(listeners=[listener])))
        self.assertIn("others can read or write this secret", found)

    def test_two_that_want_the_same(self) -> None:
        found = self.reason(Feature(parts(routes=[route()])), Feature(parts(routes=[route()]), name="other"))
        self.assertIn("plug-in other: request code 20001 is there already, of plug-in acme", found)

    def test_a_file_that_it_does_not_understand(self) -> None:
        """It is not overwritten: the operator decides."""
        self.plugins = lambda: [Feature(parts(file=File(lambda: b"{}", fails)))]  # type: ignore[method-assign]
        self.started = lambda: None  # type: ignore[method-assign]
        super().setUp()
        self.successResultOf(self.service.started)  # it has no file yet
        self.successResultOf(self.context().save())
        self.successResultOf(self.service.stopService())
        self.start()
        self.assertIn("plugin-acme.json", self.service.ready() or "")
        self.assertEqual(self.disk.open("/store/config/plugin-acme.json").read(0, 10), b"{}")
        self.flushLoggedErrors(Trouble, CorruptStore)

    def test_a_config_error_is_what_it_is(self) -> None:
        self.plugins = lambda: [Feature(fails)]  # type: ignore[method-assign]
        self.started = lambda: None  # type: ignore[method-assign]
        super().setUp()
        self.flushLoggedErrors(Trouble)
        self.assertTrue(self.service.ready())
        self.assertTrue(issubclass(ConfigError, Exception))


class RunningTests(PluginCase):
    """Whatever fails later is logged with its name, counted, and harms nobody else."""

    def setUp(self) -> None:
        """Each test starts what it wants."""

    def tearDown(self) -> None:
        self.stop()

    def begin(self, build: Callable[[Any], Any], config: str = "") -> None:
        """A broker with this feature."""
        self.config = config
        self.plugins = lambda: [Feature(build)]  # type: ignore[method-assign]
        super().setUp()

    def logged(self, count: int = 1) -> None:
        """So many failures of the plug-in are in the log."""
        self.assertEqual(len(self.flushLoggedErrors(Trouble)), count)

    def test_a_request(self) -> None:
        """An error for who asked; a refusal is no failure."""

        def refuse(request: Any) -> Reply:
            raise Refused("not today", 16)

        for respond, code, remark, failures in (
            (fails, ResponseCode.SYSTEM_ERROR, "Trouble: it broke", 1),
            (lambda request: defer.fail(Trouble("it broke")), ResponseCode.SYSTEM_ERROR, "Trouble: it broke", 1),
            (lambda request: "text", ResponseCode.SYSTEM_ERROR, "str was given", 0),
            (lambda request: Reply(body="text"), ResponseCode.SYSTEM_ERROR, "its body bytes", 0),
            (lambda request: Reply(code="x"), ResponseCode.SYSTEM_ERROR, "must be a number", 0),
            (lambda request: Reply(fields={"n": 3}), ResponseCode.SYSTEM_ERROR, "must be texts", 0),
            (lambda request: defer.succeed(Reply(remark=3)), ResponseCode.SYSTEM_ERROR, "must be a text", 0),
            (refuse, 16, "not today", 0),
        ):
            self.begin(parts(routes=[route(respond)]))
            answer = self.connect().ask(CODE)
            self.assertEqual(answer.code, code)
            self.assertIn(remark, answer.remark or "")
            self.logged(failures)
            self.flushLoggedErrors(TypeError)
            self.stop()
        self.begin(parts())

    def test_a_timer_goes_on(self) -> None:
        runs: list[int] = []

        def run() -> None:
            runs.append(1)
            fails()

        self.begin(parts(timers=[Timer("t", 1.0, run)]))
        self.advance(3.5)
        self.assertEqual(len(runs), 3)
        self.logged(3)
        self.assertEqual(self.failures(), {("acme", "timer t"): 3})
        self.assertIn(
            'rocketha_plugin_failures_total{plugin="acme",what="timer t"} 3', self.service.metrics.exposition()
        )

    def test_roles_and_clients(self) -> None:
        self.begin(parts(on_role=fails, on_disconnect=fails))
        self.logged(2)  # FENCED, MASTER
        self.connect().close()
        self.logged()
        self.assertEqual(self.send(self.connect()).code, 0)
        self.stop()
        self.logged()
        self.begin(parts())

    def test_stopping(self) -> None:
        """One that fails, and one that never ends: after five seconds the broker stops all the same."""
        self.begin(parts(on_stop=fails))
        self.stop()
        self.logged()
        self.begin(parts(on_stop=lambda: defer.Deferred()))
        stopping = self.service.stopService()
        self.assertNoResult(stopping)
        self.advance(5.1)
        self.successResultOf(stopping)
        self.begin(parts())

    def sql_pull(self, expression: str = "a = 'b'") -> Any:
        """By a consumer that brings its expression."""
        fields = pull_fields(expressionType="SQL92", subscription=expression)
        return self.connect().ask(RequestCode.PULL_MESSAGE, fields)

    def test_a_filter(self) -> None:
        """It fails the pull and loses nothing; a wrong expression is told."""

        def wrong(expression: str) -> Any:
            raise ValueError("at character 3: a name is wanted")

        for compiled, code, remark, failures in (
            (wrong, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "at character 3", 0),
            (fails, ResponseCode.SYSTEM_ERROR, "filter SQL92 failed: it broke", 1),
            (lambda expression: fails, ResponseCode.SYSTEM_ERROR, "filter SQL92 failed: it broke", 1),
        ):
            self.begin(parts(filters=[Filter(compiled)]))
            self.send(self.connect())
            answer = self.sql_pull()
            self.assertEqual((answer.code, remark in (answer.remark or "")), (code, True), answer)
            self.logged(failures)
            self.stop()
        self.begin(parts())
        self.assertEqual(self.sql_pull().code, ResponseCode.TOPIC_NOT_EXIST)

    def test_health(self) -> None:
        """A check that fails, one that gives a reason, one that does not answer: unready, each with its reason."""
        for check, reason in (
            (fails, "own: the check failed: Trouble: it broke"),
            (lambda: "no power", "own: no power"),
            (lambda: defer.Deferred(), "own: no answer within 2 s"),
        ):
            self.begin(parts(health=[Check(check)]))
            self.advance(2.1)
            self.assertEqual(self.service.ready(), reason)
            self.assertIn('rocketha_healthy{check="own"} 0', self.service.metrics.exposition())
            self.assertIsNone(self.service.healthy(), "no reason to restart the process")
            self.logged(1 if check is fails else 0)
            self.stop()
        self.begin(parts())

    def test_an_observer_is_left_out(self) -> None:
        """After three failures in a row; sends never notice."""
        seen: list[int] = []

        def confirmed(messages: Any) -> None:
            seen.append(len(messages))
            fails()

        self.begin(parts(observers=[Observer(confirmed)]))
        client = self.connect()
        for _ in range(6):
            self.assertEqual(self.send(client).code, 0)
            self.advance(0.2)
        self.assertEqual(seen, [1, 1, 1])
        self.logged(3)

    def test_an_authenticator_denies(self) -> None:
        """When it says so, and when it fails."""
        for denies, remark, failures in (
            (lambda request: "go away", "go away", 0),
            (fails, "could not be found out", 1),
        ):
            self.begin(parts(authenticators=[Judge(denies)]))
            answer = self.connect().ask(RequestCode.GET_BROKER_RUNTIME_INFO)
            self.assertEqual(answer.code, ResponseCode.NO_PERMISSION)
            self.assertIn(remark, answer.remark or "")
            self.logged(failures)
            self.stop()
        self.begin(parts())

    def test_saving_what_cannot_be_dumped(self) -> None:
        """The plug-in hears of it; the broker's own files are written, and it stops."""
        self.begin(parts(file=File(fails, lambda data: None)))
        self.failureResultOf(self.context().save(), Trouble)
        self.assertEqual(self.send(self.connect()).code, 0)
        self.stop()
        self.assertFalse(self.disk.exists("/store/abort"))
        self.begin(parts())

    def test_a_port_that_does_not_close(self) -> None:
        """The broker stops all the same, and closes its store."""
        factory = Factory.forProtocol(Protocol)
        factory.doStop = fails  # type: ignore[method-assign]
        self.begin(parts(listeners=[Listener("own", "tcp:7000", factory)]))
        self.broker.plugins._ports[0].stopService = fails
        self.stop()
        self.logged()
        self.assertFalse(self.disk.exists("/store/abort"))
        self.begin(parts())

    def test_a_gauge(self) -> None:
        """The other metrics are shown."""
        self.begin(parts())
        self.context().gauge("level", "Level.", fails)
        self.assertIn("rocketha_plugin_acme_level NaN", self.service.metrics.exposition())
        self.logged()

    def test_what_is_put_is_looked_at_first(self) -> None:
        """A body that is no bytes would take the sends of others in the same turn with it."""
        self.begin(parts())
        for topic, body, values in (("T", "text", {}), (5, b"x", {}), ("T", b"x", {"a": 3})):
            putting = self.context().messages.put(topic, body, values)
            self.assertEqual(self.failureResultOf(putting, Refused).value.code, ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.send(self.connect()).code, 0)


class PartsOfOthersTests(PluginCase):
    """Filters, observers and authenticators that work."""

    def plugins(self) -> list[Feature]:
        self.seen: list[tuple[str, bytes]] = []
        self.denied: set[int] = set()

        def compiled(expression: str) -> Any:
            return lambda properties: properties.get("colour") == expression

        return [
            Feature(
                parts(
                    filters=[Filter(compiled)],
                    observers=[Observer(lambda found: self.seen.extend((each.topic, each.body) for each in found))],
                    authenticators=[Judge(lambda request: "no" if request.code in self.denied else None)],
                )
            )
        ]

    def colours(self, *colours: str) -> None:
        """A message of each into queue 0."""
        client = self.connect()
        for colour in colours:
            self.send(client, colour.encode(), properties=f"colour\x01{colour}\x02", queue_id="0")

    def test_filtered(self) -> None:
        """Those that match, whichever lie between; none is a reason to go on at once."""
        self.colours("red", "red", "blue", "red", "green", "red", "red")
        client = self.connect()
        fields = pull_fields(expressionType="SQL92", subscription="red")
        answer = client.ask(RequestCode.PULL_MESSAGE, fields)
        self.assertEqual([found.queue_offset for found in records(answer)], [0, 1, 3, 5, 6])
        self.assertEqual(answer.fields["nextBeginOffset"], "7")
        fields["subscription"] = "white"
        answer = client.ask(RequestCode.PULL_MESSAGE, fields)
        self.assertEqual(answer.code, ResponseCode.PULL_RETRY_IMMEDIATELY)
        self.assertEqual(answer.fields["nextBeginOffset"], "7")

    def test_by_heartbeat(self) -> None:
        """A consumer whose group has an expression."""
        self.colours("red", "blue")
        client = self.connect()
        body = heartbeat("c", "G", "T", tags="blue").replace(b'"expressionType":"TAG"', b'"expressionType":"SQL92"')
        client.ask(RequestCode.HEART_BEAT, body=body)
        answer = client.ask(RequestCode.PULL_MESSAGE, pull_fields(sysFlag="0"))
        self.assertEqual([found.body for found in records(answer)], [b"blue"])

    def test_a_waiting_pull(self) -> None:
        """It goes on when something comes that it may want, and gives only what it wants."""
        self.colours("blue")
        client = self.connect()
        fields = pull_fields(expressionType="SQL92", subscription="red", offset="1", sysFlag="6")
        fields["queueOffset"] = "1"
        client.say(client.command(RequestCode.PULL_MESSAGE, fields))
        self.assertEqual(client.heard(), [])
        self.colours("red")
        (answer,) = client.heard()
        self.assertEqual([found.body for found in records(answer)], [b"red"])

    def test_observed(self) -> None:
        """In the order of the log, each once."""
        self.colours(*(f"{number}" for number in range(300)))
        self.advance(1.0)
        self.assertEqual(self.seen, [("T", b"%d" % number) for number in range(300)])

    def test_behind_a_damaged_record(self) -> None:
        """Of three the second one is damaged in its properties: the third is neither lost to a filter, nor to a plug-in
        that pulls, nor to an observer."""
        self.colours("red", "red", "red")
        log = "/store/commitlog/00000000000000000000"
        file = self.disk.open(log)
        (_, (at, total, second), _) = list(record.walk(file.read(0, self.broker.store.max_physical_offset)))
        assert second is not None
        file.write(at + total - len(second.properties) - 2, [b"\x7f\xff"])
        file.close()
        fields = pull_fields(expressionType="SQL92", subscription="red")
        answer = self.connect().ask(RequestCode.PULL_MESSAGE, fields)
        self.assertEqual(answer.fields["nextBeginOffset"], "3")
        self.assertEqual(answer.body.count(b"colour\x01red"), 3)
        pulling = self.context().messages.pull("T", 0, 0)
        self.clock.advance(0)
        self.assertEqual([each.offset for each in self.successResultOf(pulling).messages], [0, 2])
        self.advance(1.0)
        self.assertEqual(len(self.seen), 2)
        self.assertGreater(self.broker.plugins._observing.passed_over, 0)

    def test_denied(self) -> None:
        self.denied = {RequestCode.PULL_MESSAGE}
        self.colours("red")
        client = self.connect()
        self.assertEqual(client.ask(RequestCode.PULL_MESSAGE, pull_fields()).code, ResponseCode.NO_PERMISSION)
        pulling = self.context().messages.pull("T", 0, 0)
        self.clock.advance(0)
        self.assertEqual(self.failureResultOf(pulling, Refused).value.code, ResponseCode.NO_PERMISSION)
