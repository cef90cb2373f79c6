"""Which plug-ins are installed, and those that a configuration names.

Theory of operation.  Each module of the package ``rocketha.plugins`` is imported, whatever it is called, as only its
objects say what the plug-ins' names are.  A module that cannot be imported, and an object that is not what its
interface says, is remembered with the reason: it matters only to a configuration that names it, which is refused then
(:func:`twisted.plugin.getPlugins` would leave it out with a line in the log).  Nothing is on because it is installed.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import attrs
from zope.interface.exceptions import Invalid
from zope.interface.verify import verifyObject

from rocketha import plugins as package
from rocketha.errors import ConfigError
from rocketha.interfaces import API, IBrokerFeature, IPlugin, IWireFormat, Key, WireFormat
from rocketha.services.config.checks import is_plugin_name, plugin_names
from rocketha.wire.registry import FORMATS

KINDS: Mapping[str, Any] = {"broker feature": IBrokerFeature, "wire format": IWireFormat}
NO_OBJECT = "no object in it provides IBrokerFeature or IWireFormat: an instance of a class with @implementer is wanted"
_KEY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


@attrs.frozen
class Found:
    """An object that is, or should be, a plug-in; or a module without one.

    :ivar name: the plug-in's; empty where nobody knows it.
    :ivar kind: a key of :data:`KINDS`; empty where it is none.
    :ivar file: of its module.
    :ivar problem: why it cannot be used; empty: it can.
    :ivar trace: of a problem that is an exception.
    """

    name: str
    kind: str
    module: str
    file: str
    plugin: Any = None
    problem: str = ""
    trace: str = ""

    @property
    def place(self) -> str:
        """For a person: the module and where it is."""
        return f"{self.module} ({self.file})"


@attrs.frozen
class Enabled:
    """A plug-in that is on, with its configuration.

    :ivar keys: all of its keys, checked.
    """

    plugin: Any
    keys: Mapping[str, str]

    @property
    def name(self) -> str:
        """The plug-in's."""
        return str(self.plugin.name)


def installed() -> list[Found]:
    """Everything in ``rocketha.plugins``, by module."""
    found = list(_hiding())
    importlib.invalidate_caches()
    directories = list(dict.fromkeys(package.__path__))  # one by one: of two modules of a name, one would be left out
    infos = [info for each in directories for info in pkgutil.iter_modules([each], f"{package.__name__}.")]
    for info in sorted(infos, key=lambda each: each.name):
        file = _file(info)
        try:
            module = importlib.import_module(info.name)
        except (Exception, SystemExit) as problem:
            reason = f"it cannot be imported: {type(problem).__name__}: {problem}"
            found.append(Found("", "", info.name, file, problem=reason, trace=traceback.format_exc()))
            continue
        other = str(getattr(module, "__file__", ""))
        if file and other and file != other:
            found.append(Found("", "", info.name, file, problem=f"{other} is imported in its place"))
            continue
        found += _of_module(module, file) or [Found("", "", info.name, file, problem=NO_OBJECT)]
    return found


def _hiding() -> Iterator[Found]:
    """Files that make a directory of plug-ins a package of its own, which hides all that are in it."""
    for path in dict.fromkeys(sys.path):
        stray = os.path.join(os.path.abspath(path), *package.__name__.split("."), "__init__.py")
        if os.path.exists(stray) and not os.path.samefile(stray, str(package.__file__)):
            yield Found("", "", package.__name__, stray, problem="this file hides all plug-ins beside it: remove it")


def _file(info: pkgutil.ModuleInfo) -> str:
    finder: Any = info.module_finder
    spec = finder.find_spec(info.name)
    return str(spec.origin) if spec is not None and spec.origin else str(getattr(finder, "path", ""))


def _of_module(module: ModuleType, file: str) -> list[Found]:
    found, seen = [], set()
    for value in vars(module).values():
        if not isinstance(value, type) and _provides(IPlugin, value) and id(value) not in seen:
            seen.add(id(value))
            found.append(_examined(value, module.__name__, file))
    return found


def _provides(interface: Any, value: Any) -> bool:
    """Whether it does; what cannot be asked, such as construct's ``this``, is no plug-in."""
    try:
        return bool(interface.providedBy(value))
    except Exception:
        return False


def _examined(plugin: Any, module: str, file: str) -> Found:
    kind = next((word for word, interface in KINDS.items() if _provides(interface, plugin)), "")
    name = getattr(plugin, "name", "")
    name = name if isinstance(name, str) else ""
    try:
        problem, trace = problem_of(plugin, kind), ""
    except Exception as crash:
        problem, trace = f"it cannot be examined: {type(crash).__name__}: {crash}", traceback.format_exc()
    return Found(name, kind, module, file, plugin, problem, trace)


def problem_of(plugin: Any, kind: str) -> str:
    """Why an object cannot be used as a plug-in of a kind; empty: it can."""
    if not kind:
        return "it provides IPlugin alone, neither IBrokerFeature nor IWireFormat"
    try:
        verifyObject(KINDS[kind], plugin)
    except Invalid as problem:
        return " ".join(str(problem).split())
    if not isinstance(plugin.name, str) or not is_plugin_name(plugin.name):
        return f"its name is {plugin.name!r}: small letters, digits and hyphens are allowed, at most 40"
    if plugin.api != API:
        return f"it is written for api {plugin.api!r}, this is api {API}"
    if not isinstance(plugin.version, str) or not isinstance(plugin.summary, str):
        return "its version and its summary must be texts"
    if kind == "broker feature":
        for name, key in dict(plugin.keys).items():
            if not isinstance(name, str) or not _KEY_NAME.fullmatch(name) or not isinstance(key, Key):
                return f"its key {name!r} must be a name of letters, digits, _ . and -, and its value a Key"
    return ""


def distributions(files: Collection[str]) -> dict[str, str]:
    """``NAME VERSION`` of the installed distribution that brought each file, where one says so."""
    names = {file.rpartition("/")[2] for file in files}
    return {
        str(distribution.locate_file(each)): f"{distribution.metadata['Name']} {distribution.version}"
        for distribution in importlib.metadata.distributions()
        for each in distribution.files or ()
        if each.name in names and str(distribution.locate_file(each)) in files
    }


def chosen(names: Sequence[str], kind: str, among: Sequence[Found]) -> list[Any]:
    """The plug-ins of these names, in this order.

    :raises ConfigError: one is named twice, not there, there twice, not of this kind, or cannot be used.
    """
    found = []
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"plug-in {name} is named twice")
        owners = [each for each in among if each.name == name]
        if not owners:
            raise ConfigError(f"plug-in {name} {_missing(name, among)}")
        if len(owners) > 1:
            places = " and ".join(each.place for each in owners)
            raise ConfigError(f"plug-in {name} is there twice: in {places}")
        (owner,) = owners
        if owner.problem:
            raise ConfigError(f"plug-in {name} in {owner.place} cannot be used: {owner.problem}")
        if owner.kind != kind:
            raise ConfigError(f"plug-in {name} in {owner.place} is a {owner.kind}, and a {kind} is wanted")
        found.append(owner.plugin)
    return found


def _missing(name: str, among: Sequence[Found]) -> str:
    """Why there is no plug-in of a name, as far as can be told."""
    module = f"{package.__name__}.{name.replace('-', '_')}"
    for each in among:
        if each.module == module and each.problem:
            return f"cannot be used: {each.place}: {each.problem}"
    names = sorted({each.name for each in among if not each.problem})
    near = difflib.get_close_matches(name, names, 1)
    broken = sum(bool(each.problem) for each in among)
    parts = [f"did you mean {near[0]}?" if near else f"there are: {', '.join(names) or 'none'}"]
    parts += [f"{broken} modules are broken, see rocketha check"] if broken else []
    return f"is named and not installed ({'; '.join(parts)})"


def enabled(names: Sequence[str], given: Mapping[str, Mapping[str, str]], among: Sequence[Found]) -> list[Enabled]:
    """The broker features of these names, with their configuration.

    :param given: of each plug-in, keys and their texts.
    :raises ConfigError: see :func:`chosen`; or a key is unknown, or refused by the plug-in.
    """
    plugins = chosen(names, "broker feature", among)
    return [Enabled(plugin, _settings(plugin, given.get(plugin.name, {}))) for plugin in plugins]


def _settings(plugin: Any, given: Mapping[str, str]) -> dict[str, str]:
    unknown = sorted(given.keys() - dict(plugin.keys).keys())
    if unknown:
        known = ", ".join(sorted(plugin.keys)) or "none"
        raise ConfigError(f"{plugin.name}.{unknown[0]} is no key of plug-in {plugin.name}; it has: {known}")
    keys = {**{name: key.default for name, key in plugin.keys.items()}, **given}
    try:
        plugin_says = plugin.check_keys(dict(keys))
        problems = list(plugin_says)
    except Exception as crash:
        raise ConfigError(f"plug-in {plugin.name}: check_keys failed: {type(crash).__name__}: {crash}") from crash
    if isinstance(plugin_says, str):
        problems = [plugin_says]
    if problems:
        raise ConfigError(f"plug-in {plugin.name}: {'; '.join(map(str, problems))}")
    return keys


def built(each: Enabled, context: Any) -> Any:
    """What a plug-in says that it brings.

    :raises ConfigError: it failed; the cause is its own exception.
    """
    try:
        return each.plugin.build(context)
    except Exception as problem:
        raise ConfigError(f"plug-in {each.name}: build failed: {type(problem).__name__}: {problem}") from problem


def file_of(plugin: str) -> str:
    """The file that a plug-in may have, below ``config/`` of the store."""
    return f"plugin-{plugin}.json"


def needed(text: str, given: Mapping[str, Mapping[str, str]]) -> list[Enabled]:
    """Those of ``plugins = TEXT``; where it names none, nothing is looked for."""
    names = plugin_names(text)
    return enabled(names, given, installed()) if names else []


def formats_with(text: str) -> dict[str, WireFormat]:
    """Our formats by name, and those of the wire format plug-ins in ``NAME,NAME``.

    :raises ConfigError: see :func:`chosen`; or a plug-in brings what is no format, or has the name of another.
    """
    found, names = dict(FORMATS), plugin_names(text)
    for plugin in chosen(names, "wire format", installed()) if names else ():
        try:
            brought = list(plugin.formats())
        except Exception as crash:
            raise ConfigError(f"plug-in {plugin.name}: formats failed: {type(crash).__name__}: {crash}") from crash
        for each in brought:
            if not isinstance(each, WireFormat) or not each.name.startswith(plugin.name):
                raise ConfigError(f"plug-in {plugin.name}: {each!r} is no WireFormat named after the plug-in"[:1000])
            if each.name in found:
                raise ConfigError(f"plug-in {plugin.name}: there is a format {each.name} already")
            found[each.name] = each
    return found
