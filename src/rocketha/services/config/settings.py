"""How one configuration key is declared, read, shown and changed: the machinery under
:mod:`rocketha.services.config.loading`.

A section is an attrs class whose every attribute is declared by :func:`number`, :func:`flag`, :func:`text`,
:func:`choice` or
:func:`decimal`.  That one line is everything there is to know about a key (name, type, default, unit, limits, whether
it may change in a running process, what it does), so the parser, ``getBrokerConfig``, the live update and
docs/configuration.rst cannot disagree.  Must not know any key by name, nor open a file.

The attribute is Java's key in snake case (``flushDiskType`` is ``flush_disk_type``); where that is not so the
declaration says. Java reads the same keys by reflection over setters (``MixAll.properties2Object``) and **ignores** a
value that does not parse; here every such value is a :class:`~rocketha.errors.ConfigError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import attrs

from rocketha.errors import ConfigError

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
TEXT_CHARACTERS_MAX = 4096
HIDDEN = "********"
"""Stands for a secret."""

_METADATA = "rocketha.key"
_HUMP = re.compile("(?<=[a-z0-9])(?=[A-Z])")
_CONTROL = re.compile("[\x00-\x1f\x7f]")

Value = int | float | bool | str
Check = Callable[[str], str | None]
"""Given the text of a value: ``None``, or what is allowed instead."""


@attrs.frozen(slots=True)
class Key:
    """The declaration of one key."""

    kind: str  # "integer" "decimal" "flag" "text" "choice"
    default: Value
    doc: str
    name: str = ""  # Java's spelling; filled in from the attribute where empty
    unit: str = ""
    low: float = 0
    high: float = INT_MAX
    choices: tuple[str, ...] = ()
    check: Check | None = None
    no_effect: str = ""  # why nothing acts on it yet
    live: bool = False  # may be changed by an update request while the process runs
    ours: bool = False  # Java does not know this key
    java_default: str = ""  # where it differs from ours
    secret: bool = False  # shown to nobody

    @property
    def allowed(self) -> str:
        """The values this key may have, for an error and for the manual."""
        if self.kind == "flag":
            return "true or false"
        if self.kind == "choice":
            return " or ".join(self.choices)
        if self.kind == "text":
            by_check = self.check("\x01") if self.check is not None else None
            return by_check or f"text without control characters, at most {TEXT_CHARACTERS_MAX} characters"
        noun = "a whole number" if self.kind == "integer" else "a number"
        unit = f" ({self.unit})" if self.unit else ""
        return (
            f"{noun} from {self.low:.16g} to {self.high:.16g}{unit}"
            if self.kind == "decimal"
            else (f"{noun} from {int(self.low)} to {int(self.high)}{unit}")
        )

    def shown(self, value: Value) -> str:
        """A value as people and tools may see it."""
        return HIDDEN if self.secret and value else show(value)

    def parse(self, raw: str) -> Value:
        """The value, from its text.  Surrounding blanks do not count.

        :raises ValueError: what is allowed instead.
        """
        value = raw.strip()
        if self.kind == "flag":
            if value.lower() not in ("true", "false"):
                raise ValueError(self.allowed)
            return value.lower() == "true"
        if self.kind == "choice":
            if value not in self.choices:
                raise ValueError(self.allowed)
            return value
        if self.kind == "text":
            if len(value) > TEXT_CHARACTERS_MAX or _CONTROL.search(value):
                raise ValueError(self.allowed)
            problem = self.check(value) if self.check is not None else None
            if problem is not None:
                raise ValueError(problem)
            return value
        return self._parse_number(value)

    def _parse_number(self, value: str) -> Value:
        pattern = r"[+-]?[0-9]{1,19}" if self.kind == "integer" else r"[+-]?[0-9]{1,19}(\.[0-9]{1,19})?"
        if not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError(self.allowed)
        number = int(value) if self.kind == "integer" else float(value)
        if not self.low <= number <= self.high:
            raise ValueError(self.allowed)
        return number


def show(value: Value) -> str:
    """A value as Java's ``Properties`` shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def number(default: int, doc: str, *, low: int = 0, high: int = INT_MAX, unit: str = "", **more: Any) -> Any:
    """An integer key."""
    return _declare(Key("integer", default, doc, low=low, high=high, unit=unit, **more))


def decimal(default: float, doc: str, *, low: float, high: float, unit: str = "", **more: Any) -> Any:
    """A key with a fractional value."""
    return _declare(Key("decimal", default, doc, low=low, high=high, unit=unit, **more))


def flag(default: bool, doc: str, **more: Any) -> Any:
    """A true-or-false key."""
    return _declare(Key("flag", default, doc, **more))


def text(default: str, doc: str, *, check: Check | None = None, **more: Any) -> Any:
    """A text key."""
    return _declare(Key("text", default, doc, check=check, **more))


def choice(default: str, choices: Sequence[str], doc: str, **more: Any) -> Any:
    """A key whose value is one of a few words."""
    return _declare(Key("choice", default, doc, choices=tuple(choices), **more))


def _declare(key: Key) -> Any:
    return attrs.field(default=key.default, metadata={_METADATA: key}, repr=not key.secret)


def snake_case(name: str) -> str:
    """``maxMessageSize`` to ``max_message_size``; ``brokerIP1`` to ``broker_ip1``."""
    return _HUMP.sub("_", name).lower()


def camel_case(attribute: str) -> str:
    """``max_message_size`` to ``maxMessageSize``."""
    head, *rest = attribute.split("_")
    return head + "".join(word.capitalize() for word in rest)


@attrs.define(slots=True)
class Section:
    """The base of the typed configuration classes."""

    @classmethod
    def declared(cls) -> dict[str, tuple[str, Key]]:
        """Java's key name to (attribute, declaration), in the order of declaration."""
        table = {}
        for field in attrs.fields(cls):
            key = field.metadata.get(_METADATA)
            if key is not None:
                name = key.name or camel_case(field.name)
                table[name] = (field.name, attrs.evolve(key, name=name))
        return table

    @classmethod
    def from_texts(cls, texts: Mapping[str, tuple[str, str]]) -> Self:
        """Build the section from ``key -> (text, where it came from)``; keys of other sections are passed over.

        :raises ConfigError: the first bad value, with its place, its key and what is allowed.
        """
        values = {}
        for name, (attribute, key) in cls.declared().items():
            if name not in texts:
                continue
            raw, where = texts[name]
            try:
                values[attribute] = key.parse(raw)
            except ValueError as error:
                raise ConfigError(f"{where}: {name}={clip(key.shown(raw))!r} is refused, allowed is {error}") from None
        return cls(**values)

    def as_texts(self) -> dict[str, str]:
        """Every key with its present value, as ``getBrokerConfig`` and ``getNamesrvConfig`` show it."""
        return {name: key.shown(getattr(self, attribute)) for name, (attribute, key) in self.declared().items()}


def clip(raw: str, limit: int = 80) -> str:
    """A value short enough for an error line."""
    return raw if len(raw) <= limit else raw[:limit] + "..."
