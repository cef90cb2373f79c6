"""Whether what plug-ins bring can be used: asked before anything is opened."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from twisted.internet.endpoints import serverFromString
from twisted.internet.testing import MemoryReactor
from zope.interface.exceptions import Invalid
from zope.interface.verify import verifyObject

from rocketha.broker.names import topic_problem
from rocketha.broker.subscription import TAG
from rocketha.errors import ConfigError
from rocketha.interfaces import (
    REQUEST_CODE_MAX,
    REQUEST_CODE_MIN,
    FeatureParts,
    File,
    IAuthenticator,
    IHealthCheck,
    IMessageFilter,
    IStoreObserver,
    Listener,
    Route,
    Timer,
    Topic,
)
from rocketha.services.process.secret_file import refuse_readable_key

_ROUTE_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_PART_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


def check_parts(brought: Sequence[tuple[str, Any]]) -> None:
    """See that each part is what the interfaces say, and that nothing is there twice.

    :param brought: name of the plug-in, and its parts.
    :raises ConfigError: the first problem, with its plug-in.
    """
    taken: dict[tuple[str, Any], str] = {}
    for plugin, parts in brought:
        try:
            problem = next(_problems(parts), "")
        except Exception as crash:
            problem = f"its parts cannot be looked at: {type(crash).__name__}: {crash}"
        if problem:
            raise ConfigError(f"plug-in {plugin}: {problem}")
        for what, key in _claims(parts):
            other = taken.setdefault((what, key), plugin)
            if other != plugin or list(_claims(parts)).count((what, key)) > 1:
                raise ConfigError(f"plug-in {plugin}: {what} {key} is there already, of plug-in {other}")


def _claims(parts: FeatureParts) -> Iterator[tuple[str, Any]]:
    """What there can be only one of."""
    yield from (("request code", each.code) for each in parts.routes)
    yield from (("request name", each.name) for each in parts.routes)
    yield from (("filter", each.expression_type) for each in parts.filters)
    yield from (("health check", each.name) for each in parts.health)
    yield from (("observer", each.name) for each in parts.observers)


def _problems(parts: Any) -> Iterator[str]:
    if not isinstance(parts, FeatureParts):
        yield f"build gave {type(parts).__name__}, and FeatureParts is wanted"
        return
    values: tuple[tuple[str, type, Callable[[Any], str]], ...] = (
        ("routes", Route, _route),
        ("timers", Timer, _timer),
        ("listeners", Listener, _listener),
        ("topics", Topic, _topic),
    )
    for field, kind, problem in values:
        for each in getattr(parts, field):
            if not isinstance(each, kind):
                yield f"{field} has {type(each).__name__}, and {kind.__name__} is wanted"
            elif found := problem(each):
                yield found
    file: Any = parts.file
    if file is not None and not isinstance(file, File):
        yield f"file is {type(file).__name__}, and File is wanted"
    for field, interface, named in (
        ("filters", IMessageFilter, _filter),
        ("health", IHealthCheck, _health),
        ("observers", IStoreObserver, _named),
        ("authenticators", IAuthenticator, _named),
    ):
        for each in getattr(parts, field):
            if found := _verified(each, interface, named):
                yield f"{field}: {found}"
    for field in ("on_role", "on_disconnect", "on_stop"):
        if getattr(parts, field) is not None and not callable(getattr(parts, field)):
            yield f"{field} cannot be called"


def _verified(each: Any, interface: Any, problem: Callable[[Any], str]) -> str:
    try:
        verifyObject(interface, each)
    except Invalid as invalid:
        return " ".join(str(invalid).split())
    return problem(each)


def _route(route: Route) -> str:
    if not isinstance(route.code, int) or not REQUEST_CODE_MIN <= route.code <= REQUEST_CODE_MAX:
        return f"request code {route.code!r} is not within {REQUEST_CODE_MIN} and {REQUEST_CODE_MAX}"
    if not isinstance(route.name, str) or not _ROUTE_NAME.fullmatch(route.name):
        return f"request {route.code} is named {route.name!r}: capitals, digits and underscores are allowed"
    return "" if callable(route.respond) else f"request {route.name} has nothing that answers it"


def _timer(timer: Timer) -> str:
    if not isinstance(timer.every_s, int | float) or not timer.every_s > 0:
        return f"timer {timer.name} runs every {timer.every_s!r} s"
    return "" if callable(timer.run) else f"timer {timer.name} has nothing to run"


def _listener(listener: Listener) -> str:
    try:
        refuse_readable_key(listener.endpoint)
        serverFromString(MemoryReactor(), listener.endpoint)
    except Exception as problem:
        return f"listener {listener.name}: {listener.endpoint!r} cannot be listened on: {problem}"
    return ""


def _topic(topic: Topic) -> str:
    if problem := topic_problem(topic.name):
        return problem
    return "" if 0 < topic.queues <= 1024 else f"topic {topic.name} is to have {topic.queues} queues"


def _named(part: Any) -> str:
    if isinstance(part.name, str) and _PART_NAME.fullmatch(part.name):
        return ""
    return f"a name is {part.name!r}: small letters, digits, _ and - are allowed"


def _filter(message_filter: Any) -> str:
    kind = message_filter.expression_type
    if not isinstance(kind, str) or not 0 < len(kind) <= 64 or kind == TAG:
        return f"{kind!r} is no expression type for a filter"
    return ""


def _health(check: Any) -> str:
    if found := _named(check):
        return found
    for name in ("every_s", "timeout_s"):
        if not isinstance(getattr(check, name), int | float) or not getattr(check, name) > 0:
            return f"{check.name}.{name} is {getattr(check, name)!r}"
    return ""
