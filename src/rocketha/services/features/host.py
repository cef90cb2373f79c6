"""The features that plug-ins bring, within one broker: made, started, told what happens, and stopped.

Theory of operation.  A feature is built once its broker's store is recovered, before its tables are read and a port
opens; what it brings is checked then, so that a plug-in that is wrong stops the start with one line and never fails
later.  Ports open with the broker's own; timers, checks and observers begin when it serves.  Whatever of a plug-in
fails afterwards is logged with its name and counted, and has the effect that :mod:`rocketha.interfaces` says: a
request is answered with an error, a timer goes on, a filter fails the pull, a check is unhealthy, an authenticator
denies, an observer is left out.  Stopping goes in the reverse order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import attrs
from twisted.application import strports
from twisted.internet import defer, task
from twisted.internet.error import CannotListenError
from twisted.python.failure import Failure
from zope.interface import implementer

from rocketha import interfaces
from rocketha.access.routes import Asker
from rocketha.broker.request import Responder
from rocketha.broker.role import BUSY, Role
from rocketha.broker.routes import BrokerRoute, Kind
from rocketha.broker.subscription import Matches
from rocketha.errors import ConfigError, CorruptStore, DiskFailure, RequestRefused
from rocketha.interfaces import BrokerRole, FeatureParts, Reply, Request, Route, ServedBy
from rocketha.observe.logging import make_logger
from rocketha.observe.metrics import Registry
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.features.checks import check_parts
from rocketha.services.features.finding import Enabled, built, file_of
from rocketha.services.features.health import HealthChecks
from rocketha.services.features.messages import Messages
from rocketha.services.features.observing import Observing
from rocketha.wire.codes import ResponseCode
from rocketha.wire.remoting import Answer, Command

STOP_S = 5.0
"""How long a feature may take to stop."""
OPEN_MAX = 10_000
"""Requests that one feature may answer later."""


class Standing(Protocol):
    """What a broker is at this moment."""

    @property
    def serving(self) -> bool:
        """Whether it serves."""

    @property
    def storing(self) -> bool:
        """Whether it is a master that takes messages."""

    @property
    def shown_end(self) -> int:
        """The end of the log that observers are shown."""


class _FileTable:
    """A feature's file as one of the broker's tables."""

    def __init__(self, file: interfaces.File) -> None:
        self.dirty = False
        self._file = file
        self._text = b""

    def changed(self) -> None:
        """What the feature has now is to be written.

        :raises Exception: what its ``dump`` raised.
        """
        self._text = bytes(self._file.dump())
        self.dirty = True

    def dump_later(self) -> Callable[[], bytes]:
        text = self._text
        return lambda: text

    def load(self, data: bytes, path: str = "") -> None:
        try:
            self._file.load(data)
        except Exception as problem:
            raise CorruptStore(path, 0, f"{type(problem).__name__}: {problem}") from problem


@implementer(interfaces.IBrokerContext)
class _Context:
    """See :class:`rocketha.interfaces.IBrokerContext`.

    :ivar table: the feature's file, if it has one.
    """

    def __init__(self, enabled: Enabled, core: BrokerCore, messages: Messages, host: PluginHost) -> None:
        identity = core.state.identity
        self.keys: Mapping[str, str] = dict(enabled.keys)
        self.cluster, self.broker, self.address = identity.cluster_name, identity.broker_name, identity.address
        self.clock = core.platform.reactor
        self.log = make_logger()
        self.messages = messages
        self.wall_ms = core.platform.wall_ms
        self._host = host
        self._core = core
        self._plugin = enabled.name
        self.table: _FileTable | None = None
        self._prefix = f"rocketha_plugin_{enabled.name.replace('-', '_')}"

    def role(self) -> BrokerRole:
        return self._host.role

    def save(self) -> defer.Deferred[None]:
        if self.table is None:
            return defer.fail(interfaces.Refused("this feature has no file"))
        try:
            self.table.changed()
        except Exception:
            return defer.fail()

        def saved(failure: Exception | None) -> None:
            if failure is not None:
                raise failure

        return self._core.parts.files[file_of(self._plugin)].save().addCallback(saved)

    def counter(self, name: str, doc: str) -> Any:
        return self._core.metrics.counter(f"{self._prefix}_{name}_total", doc)

    def gauge(self, name: str, doc: str, ask: Callable[[], float]) -> None:
        def guarded() -> float:
            try:
                return float(ask())
            except Exception:
                self._host.failed(Failure(), self._plugin, f"gauge {name}")
                return math.nan

        self._core.metrics.ask(f"{self._prefix}_{name}", doc, guarded)


@attrs.frozen
class _Feature:
    """A plug-in and what it brought."""

    name: str
    version: str
    context: _Context
    parts: FeatureParts


class PluginHost(BrokerFeature):
    """Of one broker.

    :raises ConfigError: a plug-in brings what cannot be used.
    :ivar routes: of all features.
    :ivar judges: whether there is an authenticator.
    :ivar role: of the broker, now.
    """

    def __init__(
        self,
        enabled: Sequence[Enabled],
        core: BrokerCore,
        request: Callable[[Any, Command], Answer | None],
        standing: Standing,
    ) -> None:
        self._core = core
        self._request = request
        self._standing = standing
        self._reactor = core.platform.reactor
        self.role = BrokerRole.FENCED
        self._log = make_logger()
        self._failures: Counter[tuple[str, str]] = Counter()
        self._loops: list[task.LoopingCall] = []
        self._ports: list[Any] = []
        self._features = [self._built(each) for each in enabled]
        check_parts([(each.name, each.parts) for each in self._features])
        self.routes: dict[int, BrokerRoute] = {}
        self.requests: dict[int, Responder] = {}
        for feature in self._features:
            self._install(feature)
        every = [(each.name, each.parts) for each in self._features]
        self.health = HealthChecks(
            [(name, check) for name, parts in every for check in parts.health], self._reactor, self.failed
        )
        self._observing = Observing(
            [(name, observer) for name, parts in every for observer in parts.observers],
            core,
            lambda: standing.shown_end,
            self.failed,
        )
        self._authenticators: list[tuple[str, Any]] = [
            (each.name, judge) for each in self._features for judge in each.parts.authenticators
        ]
        self.judges = bool(self._authenticators)

    def _built(self, enabled: Enabled) -> _Feature:
        messages = Messages(
            enabled.name,
            self._core,
            self._request,
            lambda: self._standing.serving,
            lambda failure: self.failed(failure, enabled.name, "follow"),
        )
        context = _Context(enabled, self._core, messages, self)
        try:
            parts = built(enabled, context)
        except ConfigError as problem:
            cause = Failure(problem.__cause__ or problem)
            self._log.failure("plug-in {name}: {log_failure.value}", failure=cause, name=enabled.name)
            raise
        return _Feature(enabled.name, str(enabled.plugin.version), context, parts)

    def _install(self, feature: _Feature) -> None:
        parts, core = feature.parts, self._core
        for route in parts.routes:
            kind = Kind.SEND if route.served_by is ServedBy.MASTER else Kind.OTHER
            self.routes[route.code] = BrokerRoute(route.code, Asker.CLIENT, kind)
            self.requests[route.code] = _Responder(self, feature.name, route).respond
            core.refusals.name_request(route.code, route.name)
        for each in parts.filters:
            core.state.filters.add(_GuardedFilter(self, feature.name, each))
        if parts.file is not None:
            feature.context.table = _FileTable(parts.file)
            core.parts.files.add(file_of(feature.name), file_of(feature.name), feature.context.table)

    # --- the broker's life

    def open(self, parent: Any) -> None:
        """Open the ports, and tell the role before anything is served.

        :raises ConfigError: a port is taken.
        """
        self._tell_role()
        for feature in self._features:
            self._log.info("plug-in {name} {version} is on", name=feature.name, version=feature.version)
            for listener in feature.parts.listeners:
                port: Any = strports.service(listener.endpoint, listener.factory, self._reactor)
                port.setName(f"port-{feature.name}-{listener.name}")
                try:
                    port.setServiceParent(parent)
                except CannotListenError as problem:
                    raise ConfigError(f"plug-in {feature.name}, port {listener.name}: {problem}") from None
                self._ports.append(port)

    def start(self) -> None:
        """The broker serves."""
        for feature in self._features:
            for timer in feature.parts.timers:
                loop = task.LoopingCall(self._run, feature.name, timer)
                loop.clock = self._reactor
                loop.start(timer.every_s, now=False)
                self._loops.append(loop)
        self.health.start()
        self._observing.start()

    @defer.inlineCallbacks
    def leave(self) -> Any:
        """Fires when all have stopped, or had time to."""
        self.health.stop()
        for loop in self._loops:
            if loop.running:
                loop.stop()
        for port in reversed(self._ports):
            closing = defer.maybeDeferred(port.disownServiceParent).addTimeout(STOP_S, self._reactor)
            yield closing.addErrback(self.failed, port.name, "closing")
        yield self._observing.stop()
        for feature in reversed(self._features):
            if feature.parts.on_stop is not None:
                stopping = defer.maybeDeferred(feature.parts.on_stop).addTimeout(STOP_S, self._reactor)
                yield stopping.addErrback(self.failed, feature.name, "on_stop")
            feature.context.messages.stop()

    def second(self) -> None:
        """Topics that are missing are made."""
        if not self._features or not self._standing.storing:
            return
        state = self._core.state
        for feature in self._features:
            for topic in feature.parts.topics:
                if topic.name not in state.topics.table:
                    state.topic_for_group(topic.name, topic.queues)
        if state.effects:
            self._core.effects.carry_out()

    def role_changed(self, role: Role) -> None:
        self.role = BrokerRole[role.name]
        self._tell_role()

    def unready(self) -> str | None:
        return self.health.problem

    def _tell_role(self) -> None:
        order = self._features if self.role is BrokerRole.MASTER else reversed(self._features)
        for feature in tuple(order):
            if feature.parts.on_role is not None:
                self._call(feature.name, "on_role", feature.parts.on_role, self.role)

    def disconnected(self, connection: Any) -> None:
        for feature in self._features:
            if feature.parts.on_disconnect is not None:
                self._call(feature.name, "on_disconnect", feature.parts.on_disconnect, connection.peer)

    def judge(self, connection: Any, command: Command) -> None:
        """Whether the peer may ask this.

        :raises RequestRefused: 16 and the reason.
        """
        for name, authenticator in self._authenticators:
            try:
                reason = authenticator.denies(request_of(connection, command))
            except Exception:
                self.failed(Failure(), name, "denies")
                reason = "it could not be found out whether this is allowed"
            if reason is not None:
                raise RequestRefused(ResponseCode.NO_PERMISSION, str(reason))

    # --- what a plug-in does

    def _run(self, name: str, timer: interfaces.Timer) -> Any:
        if timer.by is ServedBy.MASTER and self.role is not BrokerRole.MASTER:
            return None
        return defer.maybeDeferred(timer.run).addErrback(self.failed, name, f"timer {timer.name}")

    def _call(self, name: str, what: str, call: Callable[..., Any], *arguments: Any) -> None:
        try:
            call(*arguments)
        except Exception:
            self.failed(Failure(), name, what)

    def failed(self, failure: Failure, name: str, what: str) -> None:
        """Something of a plug-in failed: logged and counted."""
        self._failures[name, what] += 1
        text = "plug-in {plugin}, {what}: {log_failure.value}"
        if failure.check(DiskFailure, defer.TimeoutError):
            self._log.error("plug-in {plugin}, {what}: {reason}", plugin=name, what=what, reason=str(failure.value))
        else:
            self._log.failure(text, failure=failure, plugin=name, what=what)

    def install(self, metrics: Registry) -> None:
        """Register the metrics of this."""
        if not self._features:
            return
        metrics.ask_series(
            "rocketha_plugin_failures_total",
            "Failures of plug-ins, by what failed.",
            ("plugin", "what"),
            lambda: sorted(self._failures.items()),
            "counter",
        )
        metrics.ask_series(
            "rocketha_healthy", "1 of a health check that finds nothing wrong.", ("check",), self.health.series
        )
        metrics.ask_series(
            "rocketha_observed_messages_total",
            "Messages that a store observer was shown.",
            ("observer",),
            self._observing.series,
            "counter",
        )
        metrics.ask(
            "rocketha_unobserved_bytes_total",
            "Bytes of the log that expired before observers were shown them.",
            lambda: self._observing.passed_over,
            "counter",
        )

    def __iter__(self) -> Iterator[tuple[str, FeatureParts]]:
        return iter([(each.name, each.parts) for each in self._features])


def request_of(connection: Any, command: Command) -> Request:
    """A request as plug-ins see it."""
    return Request(command.code, command.fields, command.body, connection.peer, command.language, command.version)


class _Responder:
    """One route's."""

    def __init__(self, host: PluginHost, plugin: str, route: Route) -> None:
        self._host = host
        self._plugin = plugin
        self._route = route
        self._open = 0

    def respond(self, connection: Any, command: Command, now_ms: int) -> Answer | None:
        """The answer, or None: it follows."""
        if self._open >= OPEN_MAX:
            return BUSY
        try:
            reply = self._route.respond(request_of(connection, command))
        except Exception:
            return self._error(Failure())
        if not isinstance(reply, defer.Deferred):
            return self._answer(reply)
        self._open += 1

        def done(result: Any) -> None:
            self._open -= 1
            answer = self._error(result) if isinstance(result, Failure) else self._answer(result)
            if not connection.closed:
                connection.answer(command, answer)

        reply.addBoth(done)
        return None

    def _answer(self, reply: Any) -> Answer:
        problem = _wrong(reply)
        if problem:
            return self._error(Failure(TypeError(problem)))
        return Answer(int(reply.code), reply.remark, reply.fields or None, reply.body)

    def _error(self, failure: Failure) -> Answer:
        refusal = failure.value
        if isinstance(refusal, RequestRefused):
            return Answer(refusal.code, refusal.remark)
        self._host.failed(failure, self._plugin, f"request {self._route.name}")
        remark = f"{failure.type.__name__ if failure.type else 'error'}: {failure.getErrorMessage()}"
        return Answer(ResponseCode.SYSTEM_ERROR, remark[:1000])


def _wrong(reply: Any) -> str:
    """What of a reply is not as it should be."""
    if not isinstance(reply, Reply):
        return f"{type(reply).__name__} was given, and a Reply is wanted"
    fields: Any = reply.fields
    if not isinstance(fields, Mapping) or not all(isinstance(each, str) for pair in fields.items() for each in pair):
        return "a Reply's fields must be texts by name"
    if not isinstance(reply.body, bytes) or not isinstance(reply.code, int) or not -(1 << 31) <= reply.code < 1 << 31:
        return "a Reply's code must be a number, its body bytes"
    return "" if isinstance(reply.remark, str | None) else "a Reply's remark must be a text"


class _GuardedFilter:
    """A message filter whose failures are the pull's, and are logged."""

    def __init__(self, host: PluginHost, plugin: str, message_filter: Any) -> None:
        self.expression_type: str = message_filter.expression_type
        self._host = host
        self._plugin = plugin
        self._filter = message_filter

    def matches(self, expression: str) -> Matches:
        try:
            matches = self._filter.compile(expression)
        except ValueError:
            raise
        except Exception:
            raise self._failed() from None

        def guarded(properties: Mapping[str, str]) -> bool:
            try:
                return bool(matches(properties))
            except Exception:
                raise self._failed() from None

        return guarded

    def _failed(self) -> RequestRefused:
        failure = Failure()
        self._host.failed(failure, self._plugin, f"filter {self.expression_type}")
        return RequestRefused(
            ResponseCode.SYSTEM_ERROR,
            f"the broker's filter {self.expression_type} failed: {failure.getErrorMessage()}"[:1000],
        )
