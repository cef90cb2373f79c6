"""The rows of a table as its file has them, kept from one save to the next.

Pure.  A table is saved whole at each change, as Java saves it, and of up to a hundred thousand rows few have changed
then.  So the reactor only copies the references to its rows; a thread lays out those that are new and joins them with
the others.  One save of a table is under way at a time, so one thread at a time is in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from rocketha.wire import json_dialect

Value = TypeVar("Value")

_DEPTH = 2
"""Of a row: in the table, which is in the object that is the file."""


def pretty_row(name: str, value: object) -> bytes:
    """Any row, laid out as :func:`~rocketha.wire.json_dialect.dumps_pretty` does it."""
    return json_dialect.dumps(name) + b":" + json_dialect.dumps_pretty(value, _DEPTH)


class RowTexts(Generic[Value]):
    """Of one table.

    :param layout: the text of a row, its name included.  A row whose value is equal to what it was has the same text.
    """

    def __init__(self, layout: Callable[[str, Value], bytes] = pretty_row) -> None:
        self._layout = layout
        self._rows: dict[str, tuple[Value, bytes]] = {}

    def table(self, values: Mapping[str, Value]) -> bytes:
        """The text of the table."""
        former, rows = self._rows, {}
        for name, value in values.items():
            row = former.get(name)
            if row is None or not (row[0] is value or row[0] == value):
                row = value, self._layout(name, value)
            rows[name] = row
        self._rows = rows
        # of bytes, not text: while these are joined, the interpreter runs other threads
        return b"{\n\t\t" + b",\n\t\t".join([text for _, text in rows.values()]) + b"\n\t}" if rows else b"{}"


def file_text(parts: Mapping[str, bytes]) -> bytes:
    """The text of a file that is one object, from the texts of its members."""
    return b"{\n\t" + b",\n\t".join([json_dialect.dumps(name) + b":" + text for name, text in parts.items()]) + b"\n}"
