"""Message filters other than tags: which expression types there are, and what their expressions say.

Pure.  A filter reads a message's properties.  What cannot be decided is an error, never "no match": that would lose
messages without a word.

Java: ``FilterFactory``, ``FilterSpi``, ``ExpressionMessageFilter.isMatchedByCommitLog``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire import record
from rocketha.wire.codes import ResponseCode
from rocketha.wire.properties import parse

Matches = Callable[[Mapping[str, str]], bool]
COMPILED_MAX = 1000


class MessageFilter(Protocol):
    """One expression type; see :class:`rocketha.interfaces.IMessageFilter`."""

    expression_type: str

    def matches(self, expression: str) -> Matches:
        """What tells whether a message's properties match.

        :raises ValueError: the expression is wrong.
        """


class MessageFilters:
    """Those of one broker, by expression type."""

    def __init__(self) -> None:
        self._filters: dict[str, MessageFilter] = {}
        self._compiled: OrderedDict[tuple[str, str], Matches] = OrderedDict()

    def add(self, message_filter: MessageFilter) -> None:
        """One more."""
        self._filters[message_filter.expression_type] = message_filter

    def compiled(self, expression_type: str, expression: str) -> Matches:
        """What an expression says of a message's properties.

        :raises RequestRefused: Java's answers to a type that this broker does not have (1), and to an expression that
            is wrong (23).
        """
        key = expression_type, expression
        found = self._compiled.get(key)
        if found is not None:
            self._compiled.move_to_end(key)
            return found
        message_filter = self._filters.get(expression_type)
        if message_filter is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {expression_type[:64]}",
            )
        try:
            found = message_filter.matches(expression)
        except ValueError as problem:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(problem)[:1000]) from None
        self._compiled[key] = found
        if len(self._compiled) > COMPILED_MAX:
            self._compiled.popitem(last=False)
        return found


def matching(buffers: Iterable[Any], matches: Matches) -> tuple[list[Any], int]:
    """Of records that lie one behind the other in each buffer, those whose properties match: pieces of the buffers, and
    how many records they hold.  A damaged record is given: it cannot be said that it does not match."""
    pieces: list[Any] = []
    count = 0
    for buffer in buffers:
        begin = end = 0
        for at, total, found in record.walk(buffer):
            if isinstance(found, record.Record) and not _matches(found, matches):
                continue
            count += 1
            if at != end:
                if end > begin:
                    pieces.append(buffer[begin:end])
                begin = at
            end = at + total
        if end > begin:
            pieces.append(buffer[begin:end])
    return pieces, count


def _matches(found: record.Record, matches: Matches) -> bool:
    try:
        values = parse(found.properties)
    except RemoteProtocolError:
        return True
    return matches(values)
