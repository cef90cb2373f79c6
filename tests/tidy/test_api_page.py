"""docs/api.rst is what the docstrings of the public modules say: ``python -m tests.tidy.test_api_page`` writes it."""

from __future__ import annotations

import ast
import inspect
import itertools
import pathlib
import re
import textwrap
import unittest
from collections.abc import Iterator
from types import ModuleType

from rocketha import interfaces, testing
from rocketha.testing import features, fixtures, servers

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "api.rst"
HEAD = """\
API
===

The public modules, from their docstrings. `Plug-ins <plugins.rst>`_ is the guide, and says what stays as it is."""
MODULES = interfaces, testing, servers, fixtures, features
_ROLE = re.compile(r":(?:\w+:)?\w+:`~?\.?([^`<]+)`")
_FIELD = re.compile(r"^:(ivar|cvar|param|raises) (\w+):", re.MULTILINE)


def page() -> str:
    """All of it."""
    paragraphs = (each for module in MODULES for each in _module(module))
    return "\n\n".join((HEAD, *paragraphs)) + "\n"


def write() -> None:
    PAGE.write_text(page())


# Each of these yields paragraphs.


def _module(module: ModuleType) -> Iterator[str]:
    tree = ast.parse(inspect.getsource(module))
    public = getattr(module, "__all__", None)
    yield from (_title(module.__name__, "-"), _described(tree)[0])
    for node, after in itertools.pairwise((*tree.body, None)):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and (not public or node.name in public):
            yield from _class(node)
        elif isinstance(node, ast.Assign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            names = [ast.unparse(each) for each in getattr(node.targets[0], "elts", node.targets)]
            values = [getattr(module, name) for name in names]
            known = [f"{name} = {value}" if isinstance(value, int) else name for name, value in zip(names, values)]
            yield f"``{', '.join(known)}``\n{_indented(_marked(inspect.cleandoc(str(after.value.value))))}"


def _class(node: ast.ClassDef) -> Iterator[str]:
    bases = ", ".join(ast.unparse(base) for base in node.bases if ast.unparse(base) not in ("Interface", "Enum"))
    text, fields = _described(node)
    yield from (_title(f"{node.name}({bases})" if bases else node.name, "~"), text)
    for member in node.body:
        if isinstance(member, ast.AnnAssign):
            yield _item(ast.unparse(member), fields.pop(ast.unparse(member.target), ""))
        elif isinstance(member, ast.FunctionDef) and member.name == "__init__":
            yield f"``{node.name}({_arguments(member)})``"
            yield from itertools.starmap(_item, fields.items())
            fields = {}
        elif isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            yield from _method(member)
        elif isinstance(member, ast.Assign):
            value = member.value.args[0] if isinstance(member.value, ast.Call) else member.value
            yield _item(ast.unparse(member.targets[0]), _marked(ast.literal_eval(value)))
    yield from itertools.starmap(_item, fields.items())


def _method(node: ast.FunctionDef) -> Iterator[str]:
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    text, fields = _described(node)
    head = f"``{node.name}({_arguments(node)}){returns}``"
    yield f"{head}\n{_indented(text)}" if text else head
    yield from (_indented(_item(name, said)) for name, said in fields.items())


def _arguments(node: ast.FunctionDef) -> str:
    return ast.unparse(node.args).removeprefix("self").removeprefix(", ")


def _described(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> tuple[str, dict[str, str]]:
    """What a docstring says before its fields, and of each field."""
    text, *rest = _FIELD.split(_marked(ast.get_docstring(node) or ""))
    named = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    fields = {f"raises {name}" if kind == "raises" else name: said for kind, name, said in named}
    return text.rstrip(), fields


def _item(name: str, said: str) -> str:
    return f"- ``{name}``: {' '.join(said.split())}" if said else f"- ``{name}``"


def _marked(text: str) -> str:
    """Roles become literals."""
    return _ROLE.sub(r"``\1``", text)


def _indented(text: str) -> str:
    return textwrap.indent(text, "   ")


def _title(text: str, line: str) -> str:
    return f"{text}\n{line * len(text)}"


class PageTests(unittest.TestCase):
    def test_it_is_what_the_docstrings_say(self) -> None:
        """After a change: ``python -m tests.tidy.test_api_page``."""
        self.assertEqual(PAGE.read_text(), page())


if __name__ == "__main__":
    write()
