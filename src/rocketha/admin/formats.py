"""``rocketha formats``: the layout of every wire and disk format, from the specification that the code itself runs on.

What it must not know: any format. It walks the construct declaration; the words beside a field are the comments in the
declaration's source. ``docs/formats`` is this command's output, and a test says when it is stale.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from typing import Any

import attrs
import click
import construct

from rocketha import plugins
from rocketha.admin.commands import Given
from rocketha.admin.commands import command as declared
from rocketha.errors import ConfigError
from rocketha.services.features.finding import formats_with
from rocketha.wire import spec as spec_package
from rocketha.wire.spec.format import Format

_INTEGERS = {"b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32", "l": "int32"}
_INTEGERS |= {"L": "uint32", "q": "int64", "Q": "uint64"}
_PLUGINS = f"{plugins.__name__}."
_FIELD_COMMENT = re.compile(r'^\s*"(\w+)".*?#\s*(.+?)\s*$', re.MULTILINE)


@attrs.frozen
class Row:
    """One field: where it stands (None after the first field of variable size), how long, what kind, what it means."""

    offset: int | None
    size: int | None
    name: str
    kind: str
    meaning: str


@attrs.frozen
class Table:
    """The fields of one Struct."""

    name: str
    rows: tuple[Row, ...]


@declared("formats")
@click.argument("name", metavar="[FORMAT]", required=False)
@click.option("--plugins", metavar="NAME,NAME", default="", help="With the formats of these plug-ins.")
@click.option("--rst", metavar="DIRECTORY", help="Write one reStructuredText page a format there instead.")
def command(args: Given) -> int:
    """Print the layout of every wire and disk format, or of one."""
    formats = formats_with(args.plugins)
    if args.name is not None and args.name not in formats:
        raise ConfigError(f"no format {args.name!r}; there are {', '.join(sorted(formats))}")
    chosen = [formats[args.name]] if args.name else [formats[name] for name in sorted(formats)]
    if args.rst is None:
        print("\n\n".join(as_text(each) for each in chosen))
        return 0
    target = pathlib.Path(args.rst)
    for name, text in pages(chosen).items():
        (target / name).write_text(text, encoding="utf-8")
    return 0


def pages(formats: list[Format]) -> dict[str, str]:
    """File name -> reStructuredText of every page, the index included."""
    found = {f"{each.name}.rst": as_rst(each) for each in formats}
    rows = [f"- `{each.name} <{each.name}.rst>`_: {each.doc}" for each in formats]
    head = [
        "Formats",
        "=======",
        "",
        "Written by ``rocketha formats --rst docs/formats`` from the specifications in ``rocketha/wire/spec``.",
        "All integers are big-endian; ``int`` is signed, ``uint`` is not.",
        "",
    ]
    found["index.rst"] = "\n".join([*head, *rows, ""])
    return found


def as_text(form: Format) -> str:
    """For a terminal."""
    lines = [f"{form.name}: {form.doc}", f"at most {form.bound} bytes"]
    for table in tables(form.spec):
        lines += ["", f"  {table.name}"]
        for row in table.rows:
            at = "" if row.offset is None else str(row.offset)
            lines.append(f"  {at:>5} {row.name:22} {row.kind:30} {row.meaning}".rstrip())
    return "\n".join(lines)


def as_rst(form: Format) -> str:
    """A page."""
    lines = [form.name, "=" * len(form.name), "", form.doc, "", f"At most {form.bound:,} bytes."]
    if form.prefix:
        lines[-1] += f" The first {form.prefix} bytes are the length word of the socket."
    for table in tables(form.spec):
        lines += ["", f".. list-table:: {table.name}", "   :header-rows: 1", ""]
        rows = [("Byte", "Bytes", "Field", "Type", "Meaning")]
        for row in table.rows:
            offset, size = ("" if each is None else str(each) for each in (row.offset, row.size))
            rows.append((offset, size, f"``{row.name}``", row.kind, row.meaning))
        for cells in rows:
            bullets = ["*", *" " * (len(cells) - 1)]
            lines += [f"   {bullet} - {_escaped(cell)}".rstrip() for bullet, cell in zip(bullets, cells, strict=True)]
    return "\n".join([*lines, ""])


def _escaped(cell: str) -> str:
    return cell if cell.startswith("``") else re.sub(r"([*`|_]+)(?=\W|$)", r"\\\1", cell)


def tables(spec: Any) -> list[Table]:
    """The Struct of a specification and those nested in it, each once, outermost first."""
    found: dict[str, Table] = {}
    pending = [spec]
    while pending:
        current = pending.pop(0)
        name, inner = _named(current)
        name = name or "value"
        if name in found:
            continue
        comments = comments_of(current)
        members = getattr(inner, "members", None)
        if isinstance(members, dict):
            rows = [Row(None, None, key, kind, comments.get(key, "")) for key, kind in members.items()]
            found[name] = Table(name, tuple(rows))
            continue
        structs = list(_structs(inner))
        if not structs:
            found[name] = Table(name, (Row(0, _size(inner), name, kind_of(inner), ""),))
            continue
        found[name] = Table(name, tuple(_rows(structs[0], comments)))
        pending += [nested for struct in structs for field in struct.subcons for nested in _nested(field)]
    return list(found.values())


def _rows(struct: construct.Struct, comments: dict[str, str]) -> Iterator[Row]:
    offset: int | None = 0
    for field in struct.subcons:
        name, inner = _named(field)
        if name is None:
            continue  # Terminated, checks
        size = _size(inner)
        yield Row(offset, size, name, kind_of(inner), comments.get(name, ""))
        offset = None if offset is None or size is None else offset + size


def _named(subcon: Any) -> tuple[str | None, Any]:
    name = None
    while isinstance(subcon, construct.Renamed):
        name = name or subcon.name
        subcon = subcon.subcon
    return name, subcon


def _structs(subcon: Any) -> Iterator[construct.Struct]:
    """The Struct that a construct is or wraps."""
    inner = _named(subcon)[1]
    if isinstance(inner, construct.Struct):
        yield inner
    elif isinstance(inner, construct.FocusedSeq):
        for each in inner.subcons:
            yield from _structs(each)
    elif hasattr(inner, "subcon"):
        yield from _structs(inner.subcon)


def _nested(subcon: Any) -> Iterator[Any]:
    """Named Structs inside a field, still with their names."""
    inner = _named(subcon)[1]
    if isinstance(inner, construct.Struct):
        yield subcon
    elif isinstance(inner, construct.FocusedSeq):
        for each in inner.subcons:
            yield from _nested(each)
    elif hasattr(inner, "subcon"):
        yield from _nested(inner.subcon)


def _size(subcon: Any) -> int | None:
    try:
        return int(subcon.sizeof())
    except (construct.ConstructError, KeyError, AttributeError, TypeError):
        return None


def kind_of(subcon: Any) -> str:
    """A construct in words."""
    name, inner = _named(subcon)
    if isinstance(inner, construct.FormatField):
        return _INTEGERS.get(str(inner.fmtstr)[-1], str(inner.fmtstr))
    if isinstance(inner, construct.BytesInteger):
        return f"{'int' if inner.signed else 'uint'}{int(inner.length) * 8}"
    if isinstance(inner, construct.Bytes):
        return f"bytes, {_length(inner.length)}"
    if isinstance(inner, construct.IfThenElse):
        if inner.elsesubcon is construct.Pass:
            return f"{kind_of(inner.thensubcon)}, or nothing"
        return f"{kind_of(inner.thensubcon)} or {kind_of(inner.elsesubcon)}"
    if isinstance(inner, construct.Prefixed):
        return f"{kind_of(inner.lengthfield)} length, then {kind_of(inner.subcon)}"
    if isinstance(inner, construct.NullTerminated):
        return f"{kind_of(inner.subcon)} up to {bytes(inner.term).hex(' ')} (hex)"
    if isinstance(inner, construct.GreedyRange):
        return f"repeated {kind_of(inner.subcon)}"
    if isinstance(inner, construct.Array):
        return f"{_length(inner.count)} times {kind_of(inner.subcon)}"
    if isinstance(inner, construct.FixedSized):
        return f"{_length(inner.length)}: {kind_of(inner.subcon)}"
    if isinstance(inner, construct.FocusedSeq):
        return kind_of(inner.subcons[0])
    if isinstance(inner, construct.Struct):
        return name or "struct"
    if inner is construct.GreedyBytes:
        return "bytes"
    if hasattr(inner, "members"):
        return "JSON text"
    return kind_of(inner.subcon) if hasattr(inner, "subcon") else type(inner).__name__


def _length(length: Any) -> str:
    if isinstance(length, int):
        return str(length)
    if isinstance(length, construct.core.Path | construct.expr.BinExpr):
        return re.sub(r"this\['(\w+)'\]|[()]", r"\1", repr(length))
    return "as the fields before say"


def comments_of(spec: Any) -> dict[str, str]:
    """Field name -> comment, from the source of the declaration, and of functions that make fields in its module."""
    for module in _spec_modules():
        for variable, value in vars(module).items():
            if value is spec:
                source = inspect.getsource(module)
                own = _assignment(source, variable)
                functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
                functions.sort(key=lambda node: f"{node.name}(" in own)  # what it calls itself comes last, and counts
                made = "\n".join(_lines(source, node) for node in functions)
                found = dict(_FIELD_COMMENT.findall(f"{made}\n{own}"))
                return {name: _sentence(text) for name, text in found.items()}
    return {}


def _sentence(text: str) -> str:
    """Capitalised, unless it begins with a name."""
    return text[0].upper() + text[1:] if re.match(r"[a-z]+([ ,;]|$)", text) else text


def _lines(source: str, node: ast.stmt) -> str:
    return "\n".join(source.split("\n")[node.lineno - 1 : node.end_lineno])


def _assignment(source: str, variable: str) -> str:
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(ast.unparse(each) == variable for each in node.targets):
            return _lines(source, node)
    return ""


def _spec_modules() -> list[Any]:
    names = sorted(each.name for each in pkgutil.iter_modules(spec_package.__path__))
    ours = [importlib.import_module(f"{spec_package.__name__}.{name}") for name in names]
    return ours + [module for name, module in sorted(sys.modules.items()) if name.startswith(_PLUGINS)]
