"""The source tree as the tidy tests see it: modules, their place in the layout, and where each thing stands."""

from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Iterator

import attrs

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "src" / "rocketha"

# docs/architecture.rst: the packages that know no clock, disk, network or chance.
PURE_PACKAGES = (
    "wire",
    "access",
    "raft",
    "dledger",
    "replication",
    "controller",
    "namesrv",
    "broker",
    "store",
    "export",
)
PURE_MODULES = ("addresses", "latencies", "rates")
PURE_EXCEPTIONS = ("store/posix_disk.py",)


@attrs.frozen
class Module:
    """One module of src/rocketha: its path from there ("store/segment.py"), its text and its syntax tree."""

    path: str
    text: str
    tree: ast.Module = attrs.field(eq=False, repr=False)

    @property
    def name(self) -> str:
        """Its dotted name, with rocketha in front."""
        dotted = "rocketha." + self.path.removesuffix(".py").replace("/", ".")
        return dotted.removesuffix(".__init__")

    @property
    def package(self) -> str:
        """The folder under rocketha that it lives in; for a module directly in rocketha, its own name."""
        return self.path.split("/", maxsplit=1)[0].removesuffix(".py")

    @property
    def pure(self) -> bool:
        """Whether the purity contract binds it."""
        return self.package in (*PURE_PACKAGES, *PURE_MODULES) and self.path not in PURE_EXCEPTIONS


def module(path: str, text: str) -> Module:
    """A module out of thin air, for the tests of these tests."""
    return Module(path, text, ast.parse(text, path))


@functools.cache
def modules() -> list[Module]:
    """All modules of src/rocketha, sorted by path."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        found.append(module(path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")))
    return found


def imports(source: Module) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything a module imports, wherever in it; `from a import b` gives a.b."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = source.name.split(".")
                if not source.path.endswith("__init__.py"):
                    parts = parts[:-1]
                kept = parts[: len(parts) - (node.level - 1)]
                base = ".".join([*kept, base]).rstrip(".")
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def public_definitions(source: Module) -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(qualified name, node) of the public classes, functions and methods; nothing inside a function is public."""
    pending: list[tuple[str, ast.AST]] = [("", source.tree)]
    while pending:
        prefix, parent = pending.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if node.name.startswith("_"):
                    continue
                yield prefix + node.name, node
                if isinstance(node, ast.ClassDef):
                    pending.append((f"{prefix}{node.name}.", node))
