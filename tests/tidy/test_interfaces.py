"""The public interfaces stay as they are: every name, argument and field, as a text that a change has to change.

After a change that the promise of docs/plugins.rst allows: ``python -m tests.tidy.test_interfaces``.
"""

from __future__ import annotations

import inspect
import pathlib
import unittest
from collections.abc import Iterator
from enum import Enum
from typing import Any

import attrs
from zope.interface import Interface
from zope.interface.interface import InterfaceClass, Method

from rocketha import interfaces, testing

GOLDEN = pathlib.Path(__file__).parent / "data" / "interfaces.txt"


def lines() -> Iterator[str]:
    """One for each thing that plug-ins or their tests can name."""
    yield f"API = {interfaces.API}"
    for name, value in sorted(vars(interfaces).items()):
        if isinstance(value, InterfaceClass) and value is not Interface:
            bases = ", ".join(each.__name__ for each in value.__bases__ if each is not Interface)
            yield f"interface {name}({bases})"
            for member, description in sorted(value.namesAndDescriptions()):
                yield f"  {member}{description.getSignatureString() if isinstance(description, Method) else ''}"
        elif isinstance(value, type) and value.__module__ == interfaces.__name__:
            yield from _class(name, value)
    for name in testing.__all__:
        yield f"testing {name}"
        public = [each for each in vars(getattr(testing, name)) if not each.startswith("_")]
        yield from (f"  {each}" for each in sorted(public))


def _class(name: str, value: Any) -> Iterator[str]:
    if attrs.has(value):
        yield f"value {name}"
        for field in attrs.fields(value):
            optional = "" if field.default is attrs.NOTHING else " optional"
            yield f"  {field.name}: {field.type}{optional}"
    elif issubclass(value, Enum):
        yield f"enum {name}: {', '.join(value.__members__)}"
    else:
        yield f"class {name}{inspect.signature(value)}"


def text() -> str:
    """All of it."""
    return "\n".join(lines()) + "\n"


class InterfacesTests(unittest.TestCase):
    """Compared with the text that is kept."""

    def test_as_promised(self) -> None:
        self.assertEqual(text(), GOLDEN.read_text(encoding="utf-8"))

    def test_sees_a_change(self) -> None:
        self.assertIn("interface IBrokerFeature(IPlugin)\n  build(context)\n", text())
        self.assertIn("value Timer\n  name: str\n", text())


if __name__ == "__main__":
    GOLDEN.write_text(text(), encoding="utf-8")
