"""What the commands print: JSON where ``--json`` is given, else lines and tables for a person.

What it must not know: what is told.  A table is drawn by rich where standard output is a terminal and rich is there:
it fits the terminal's width, and is without colours where ``NO_COLOR`` is set.  Elsewhere its columns are aligned by
blanks, with one line a row, for ``awk`` and ``grep``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rocketha.admin.commands import Given

Row = Sequence[object]


def show(given: Given, found: Any, head: Sequence[str], rows: Iterable[Row], notes: Iterable[str] = ()) -> None:
    """Print what was found.

    :param found: for programs, as JSON.
    :param head: of the table for a person, with ``rows`` of as many cells.
    :param notes: lines below the table.
    """
    if given.json:
        say_json(found)
        return
    table(head, rows)
    for line in notes:
        print(clean(line))


def say(given: Given, line: str, **found: Any) -> None:
    """Print one line, or as JSON what it says."""
    if given.json:
        say_json(found)
    else:
        print(clean(line))


def say_json(found: Any) -> None:
    """Print JSON."""
    print(json.dumps(found, indent=2))


def table(head: Sequence[str], rows: Iterable[Row]) -> None:
    """Print a table."""
    if sys.stdout.isatty():
        try:
            _drawn(head, rows)
            return
        except ImportError:
            pass  # without rich
    for line in aligned(head, rows):
        print(line)


def aligned(head: Sequence[str], rows: Iterable[Row]) -> list[str]:
    """The lines of a table, with two blanks between the columns."""
    cells = [[clean(cell) for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def clean(value: object) -> str:
    """A cell or a line; what a terminal would act upon is escaped, and nothing is "-"."""
    text = "-" if value is None or value == "" else str(value)
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _drawn(head: Sequence[str], rows: Iterable[Row]) -> None:
    from rich import box  # here, because most runs draw nothing
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for title in head:
        drawn.add_column(title, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(clean(cell)) for cell in row))
    Console().print(drawn)
