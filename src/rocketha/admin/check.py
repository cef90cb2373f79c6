"""``rocketha check``: whether a broker's configuration would start, and which plug-ins there are.

Opens nothing but the configuration file.  Features that are on are built against a broker that is none
(:class:`rocketha.testing.FakeContext`), so that what they bring can be shown: requests, ports, topics, files.

Exit status: 0 the broker would start, as far as this can say; 1 it would not; 2 wrong usage.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import click

from rocketha.admin import options
from rocketha.admin.commands import Given
from rocketha.admin.commands import command as declared
from rocketha.broker.routes import ROUTES
from rocketha.errors import ConfigError
from rocketha.interfaces import FeatureParts
from rocketha.services.config import loading
from rocketha.services.config.checks import key_and_value, plugin_names
from rocketha.services.features.checks import check_parts
from rocketha.services.features.finding import Enabled, Found, built, distributions, enabled, file_of, installed
from rocketha.services.tls.network import TlsNetwork
from rocketha.testing import FakeContext

OK, WRONG = 0, 1


@attrs.define
class Report:
    """What was found.

    :ivar problems: why the broker would not start.
    :ivar refused: of each plug-in that is named and cannot be used, why.
    :ivar brought: of each plug-in that is on, what it brings.
    """

    file: str
    problems: list[str] = attrs.field(factory=list)
    warnings: list[str] = attrs.field(factory=list)
    refused: dict[str, ConfigError] = attrs.field(factory=dict)
    on: dict[str, Enabled] = attrs.field(factory=dict)
    brought: dict[str, FeatureParts] = attrs.field(factory=dict)
    found: Sequence[Found] = ()


@declared("check")
@click.option("-c", "--config", metavar="FILE", help="The broker's configuration file (broker.conf).")
@click.option("-s", "--set", metavar="KEY=VALUE", multiple=True, help="One key over the file; may be repeated.")
@options.JSON
def command(args: Given) -> int:
    """Tell whether a broker's configuration would start, and which plug-ins there are."""
    report = examine(args.config, dict(map(key_and_value, args.set)))
    print(json.dumps(as_json(report), indent=2) if args.json else "\n".join(as_text(report)))
    return WRONG if report.problems else OK


def examine(path: str | None, flags: Mapping[str, str]) -> Report:
    """Look at a configuration and at what is installed."""
    report = Report(path or "no file", found=installed())
    try:
        data = loading.read_file(path) if path is not None else b""
        loaded = loading.load_broker(data, path or "broker.conf", flags)
    except ConfigError as problem:
        report.problems.append(str(problem))
        return report
    report.warnings += loaded.warnings
    config = loaded.config
    try:
        TlsNetwork(config.remoting.tls)
    except ConfigError as problem:
        report.problems.append(str(problem))
    for name in plugin_names(config.plugins):
        try:
            (each,) = enabled([name], config.plugin_keys, report.found)
            report.on[name] = each
            parts = built(each, FakeContext(each.keys))
            check_parts([(name, parts)])
            report.brought[name] = parts
        except ConfigError as problem:
            report.problems.append(str(problem))
            report.refused[name] = problem
    try:
        check_parts(list(report.brought.items()))
    except ConfigError as problem:
        report.problems.append(str(problem))
    return report


def _state(report: Report, found: Found) -> str:
    if found.problem:
        return "broken"
    if found.name in report.refused:
        return "refused"
    return "on" if found.name in report.on else "off"


def as_json(report: Report) -> dict[str, Any]:
    """For programs."""
    brought_by = distributions([each.file for each in report.found])
    return {
        "config": report.file,
        "problems": report.problems,
        "warnings": report.warnings,
        "plugins": [
            {
                "name": each.name,
                "state": _state(report, each),
                "kind": each.kind,
                "version": getattr(each.plugin, "version", ""),
                "api": getattr(each.plugin, "api", None),
                "summary": getattr(each.plugin, "summary", ""),
                "module": each.module,
                "file": each.file,
                "distribution": brought_by.get(each.file, ""),
                "problem": each.problem or str(report.refused.get(each.name, "")),
                "trace": each.trace or _trace(report.refused.get(each.name)),
                "keys": dict(report.on[each.name].keys) if each.name in report.on else {},
                "brings": {what: list(items) for what, items in _items(each.name, report.brought.get(each.name))},
            }
            for each in report.found
        ],
        "order": list(report.on),
        "requests": _requests(report),
    }


def _trace(problem: ConfigError | None) -> str:
    cause = problem.__cause__ if problem is not None else None
    return "" if cause is None else "".join(traceback.format_exception(cause))


def _requests(report: Report) -> list[dict[str, Any]]:
    own = [{"code": int(code), "name": route.name, "owner": "rocketha"} for code, route in sorted(ROUTES.items())]
    others = [
        {"code": route.code, "name": route.name, "owner": plugin}
        for plugin, parts in report.brought.items()
        for route in parts.routes
    ]
    return own + others


def _items(name: str, parts: FeatureParts | None) -> Iterator[tuple[str, list[str]]]:
    """What a feature brings, in words; nothing of what it has not."""
    if parts is None:
        return
    lines = {
        "requests": [f"{route.code} {route.name}, answered by {route.served_by.value}" for route in parts.routes],
        "timers": [f"{timer.name} every {timer.every_s:g} s" for timer in parts.timers],
        "ports": [f"{listener.name} on {listener.endpoint}" for listener in parts.listeners],
        "topics": [f"{topic.name}, {topic.queues} queue{'s' * (topic.queues != 1)}" for topic in parts.topics],
        "file": [f"config/{file_of(name)} below the store"] if parts.file is not None else [],
        "filters": [each.expression_type for each in parts.filters],
        "health checks": [
            f"{each.name} every {each.every_s:g} s{', hands the master role over' if each.hands_over else ''}"
            for each in parts.health
        ],
        "observers": [each.name for each in parts.observers],
        "authenticators": [each.name for each in parts.authenticators],
    }
    yield from ((what, found) for what, found in lines.items() if found)


def as_text(report: Report) -> Iterator[str]:
    """For people."""
    yield f"configuration ({report.file}): {'it would not start' if report.problems else 'good'}"
    yield from (f"  error: {problem}" for problem in report.problems)
    yield from (f"  warning: {warning}" for warning in report.warnings)
    yield from plugins_text(report)


def plugins_text(report: Report) -> Iterator[str]:
    """The plug-ins, for people."""
    yield f"plug-ins: {len(report.found) or 'none'}"
    brought_by = distributions([each.file for each in report.found])
    for each in sorted(report.found, key=lambda found: ("on", "refused", "broken", "off").index(_state(report, found))):
        state = _state(report, each)
        if state == "broken":
            yield f"  broken  {each.name or each.module} ({each.file}): {each.problem}"
            continue
        version, summary = each.plugin.version, each.plugin.summary
        yield f"  {state:7} {each.name} {version}, {each.kind}: {summary}"
        yield f"          {brought_by.get(each.file, 'no distribution')}, {each.file}"
        if each.name in report.on:
            for name, key in each.plugin.keys.items():
                yield f"          {each.name}.{name} = {report.on[each.name].keys[name]}  ({key.doc})"
        for what, items in _items(each.name, report.brought.get(each.name)):
            yield f"          {what}: {'; '.join(items)}"
