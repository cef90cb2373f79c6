"""Whether a configuration would start its process, and what it amounts to.

Theory of operation.  The checks are those of ``twistd``: a file is given to the very options that a start would parse,
which open nothing but the files that it names.  Of which process a file is, its keys tell: those that only one kind of
process has.

What this cannot tell: whether a port is free, a directory may be written, or a store can be recovered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from twisted.python import usage

from rocketha.admin import check
from rocketha.errors import ConfigError
from rocketha.services.broker import tap as broker
from rocketha.services.config import loading, properties_file
from rocketha.services.config.settings import Section, show
from rocketha.services.config.tls import TlsConfig
from rocketha.services.controller import tap as controller
from rocketha.services.namesrv import tap as namesrv
from rocketha.services.tls.network import TlsNetwork
from rocketha.services.witness import tap as witness

BROKER, NAMESRV, CONTROLLER, WITNESS, LEARNER = KINDS = ("broker", "namesrv", "controller", "witness", "learner")

_OPTIONS: Mapping[str, Callable[[], Any]] = {
    BROKER: broker.Options,
    NAMESRV: namesrv.Options,
    CONTROLLER: controller.Options,
    WITNESS: witness.Options,
}

_OWN_KEYS: Mapping[str, frozenset[str]] = {
    BROKER: frozenset(
        key
        for section in (loading.BrokerConfig, loading.StoreSettings, loading.ReplicationConfig, loading.AccessConfig)
        for key in section.declared()
    ),
    NAMESRV: frozenset(loading.NamesrvConfig.declared()),
    CONTROLLER: frozenset(loading.ControllerConfig.declared()),
}


@attrs.frozen(kw_only=True)
class Effective:
    """One key as it would count; a secret's value is hidden.

    :ivar source: where it is set: a file and its line, a flag, ``default``, or ``follows from other keys``.
    """

    key: str
    value: str
    source: str
    doc: str


@attrs.frozen(kw_only=True)
class Verdict:
    """What was found.

    :ivar problems: why it would not start.
    :ivar plugins: of a broker, what :mod:`rocketha.admin.check` says of its plug-ins.
    """

    file: str
    kind: str
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    effective: tuple[Effective, ...] = ()
    plugins: check.Report | None = None


def kind_of(data: bytes, name: str) -> str:
    """Of which process a file is.

    :raises ConfigError: it is no configuration, or nobody can tell.
    """
    texts = {key: value.strip() for key, value, _ in properties_file.parse(data, name)}
    if texts.get("enableControllerInNamesrv", "").lower() == "true":
        return NAMESRV
    if texts.get("dLegerWitness") and not texts.get("dLegerSelfId"):
        return WITNESS
    counts = {kind: sum(_only(kind, key) for key in texts) for kind in _OWN_KEYS}
    most = max(counts.values())
    likely = [kind for kind, count in counts.items() if count == most]
    if len(likely) == 1:
        return likely[0]
    named = [kind for kind in likely if kind in os.path.basename(name).lower()]
    if len(named) == 1:
        return named[0]
    raise ConfigError(f"{name}: its keys do not tell of which process it is; say --as {', '.join(KINDS)}")


def _only(kind: str, key: str) -> bool:
    """Whether a key is one of this kind of process alone."""
    return key in _OWN_KEYS[kind] and not any(key in keys for other, keys in _OWN_KEYS.items() if other != kind)


def examine(path: str, kind: str | None, flags: Mapping[str, str]) -> Verdict:
    """Look at a file.

    :param kind: one of :data:`KINDS`; None: what its keys tell.
    :param flags: keys over the file.
    :raises ConfigError: the file cannot be read, or nobody can tell of which process it is.
    """
    data = loading.read_file(path)
    kind = kind or kind_of(data, path)
    problems: list[str] = []
    loaded: Sequence[loading.Loaded[Any]] = ()
    try:
        loaded = _learner(data, path, flags) if kind == LEARNER else _parsed(kind, path, flags)
    except (usage.UsageError, ConfigError) as problem:
        problems.append(str(problem))
    plugins = check.examine(path, flags) if kind == BROKER else None
    if plugins is not None:
        problems += [each for each in plugins.problems if each not in problems]
    warnings = [each for one in loaded for each in one.warnings]
    return Verdict(
        file=path,
        kind=kind,
        problems=tuple(problems),
        warnings=tuple(dict.fromkeys(warnings)),
        effective=tuple(_effective([one.config for one in loaded], data, path, flags)),
        plugins=plugins,
    )


def _parsed(kind: str, path: str, flags: Mapping[str, str]) -> Sequence[loading.Loaded[Any]]:
    """What the options of the process's own command make of it; a nameserver may have a controller in it."""
    options = _OPTIONS[kind]()
    options.parseOptions(["--config", path, *(word for pair in flags.items() for word in ("--set", "=".join(pair)))])
    return [each for each in (options.loaded, getattr(options, "controller", None)) if each is not None]


def _learner(data: bytes, path: str, flags: Mapping[str, str]) -> Sequence[loading.Loaded[Any]]:
    """Its command needs flags that are in no file: where to, above all."""
    loaded = loading.load_learner(data, path, flags)
    TlsNetwork(loaded.config.remoting.tls, listens=False)
    return [loaded]


def _effective(configs: Iterable[Any], data: bytes, path: str, flags: Mapping[str, str]) -> Iterator[Effective]:
    given = {key: f"{path}, line {line}" for key, _, line in properties_file.parse(data, path)}
    given |= {key: f"--set {key}" for key in flags}
    found: dict[str, Effective] = {}
    for config in configs:
        for section in loading.sections(config):
            for key, (attribute, declared) in section.declared().items():
                value = getattr(section, attribute)
                follows = "default" if show(value) == show(declared.default) else "follows from other keys"
                source = given.get(key, _tls_file(section) or follows)
                found.setdefault(key, Effective(key=key, value=declared.shown(value), source=source, doc=declared.doc))
    yield from (found[key] for key in sorted(found))


def _tls_file(section: Section) -> str:
    """Keys of TLS may stand in a file of their own."""
    if isinstance(section, TlsConfig) and section.config_file and os.path.exists(section.config_file):
        return f"default, or {section.config_file}"
    return ""


def as_json(verdict: Verdict, effective: bool) -> dict[str, Any]:
    """For programs; of a broker with its plug-ins."""
    found: dict[str, Any] = {} if verdict.plugins is None else check.as_json(verdict.plugins)
    found |= {
        "config": verdict.file,
        "kind": verdict.kind,
        "problems": list(verdict.problems),
        "warnings": list(verdict.warnings),
    }
    if effective:
        found["effective"] = [attrs.asdict(each) for each in verdict.effective]
    return found


def as_text(verdict: Verdict, effective: bool) -> Iterator[str]:
    """For people."""
    good = "it would not start" if verdict.problems else "good"
    yield f"configuration ({verdict.file}) of a {verdict.kind}: {good}"
    yield from (f"  error: {problem}" for problem in verdict.problems)
    yield from (f"  warning: {each}" for each in verdict.warnings)
    if verdict.plugins is not None and verdict.plugins.found:
        yield from check.plugins_text(verdict.plugins)
    if effective:
        yield from (f"{each.key} = {each.value}    # {each.source}" for each in verdict.effective)
