"""The properties block of a stored message: the client's properties, the broker's own, in Java's order.

Pure.  Theory of operation: messages of one producer carry the same property names, so the order and the broker's own
values are laid out once per set of names as a template, and each message only fills in its values.

Java: ``AbstractSendMessageProcessor.buildMsgContext``, ``SendMessageProcessor.sendMessage``,
``MessageDecoder.messageProperties2String``.

The order.  The broker in Java keeps a message's properties in a ``HashMap`` made for 128 entries and writes them in its
order, so files are equal byte for byte only when we write them so too: by bucket, and within a bucket in the order of
arrival (spread hash, table of a power of two, resize at three quarters; ``MessageDecoder.string2messageProperties``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from rocketha.wire import properties
from rocketha.wire.java_text import string_hash

CAPACITY = 128


def iteration_order(names: Iterable[str], capacity: int = CAPACITY) -> list[str]:
    """The distinct names as a HashMap of that initial capacity iterates over them."""
    distinct = list(dict.fromkeys(names))
    while len(distinct) > capacity * 3 // 4:
        capacity *= 2
    mask = capacity - 1
    return sorted(distinct, key=lambda name: _spread(string_hash(name)) & mask)


def _spread(hash_code: int) -> int:
    unsigned = hash_code & 0xFFFFFFFF
    return unsigned ^ (unsigned >> 16)


TEMPLATES_BYTES_MAX = 4 << 20
"""Of all templates together, about: the names come from clients, who may make up new ones without end."""
_TEMPLATE_COST, _NAME_COST = 512, 128
"""Bytes of memory that a template takes beside its texts, and each of its names."""


class StoredProperties:
    """Lays out properties blocks.

    :param own: what the broker sets on every message, in the order it sets it (MSG_REGION, TRACE_ON, CLUSTER).
    """

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = dict(own)
        self._templates: dict[tuple[str, ...], tuple[str, Any]] = {}
        self._templates_bytes = 0

    def text(self, values: dict[str, str]) -> str:
        """The block of a message that has these properties and the broker's own (which win)."""
        names = tuple(values)
        found = self._templates.get(names)
        if found is None:
            found = self._remembered(names)
        template, getter = found
        return template % getter(values) if getter is not None else template

    def template(self, names: tuple[str, ...]) -> tuple[str, list[str]]:
        """The block of messages whose properties have these names: a ``%`` template, and whose values it wants."""
        own = self._own
        ordered = iteration_order([*names, *own])
        pieces = [f"{_escaped(name)}\x01{_escaped(own[name]) if name in own else '%s'}\x02" for name in ordered]
        return "".join(pieces), [name for name in ordered if name not in own]

    def _remembered(self, names: tuple[str, ...]) -> tuple[str, Any]:
        template, free = self.template(names)
        getter: Any = None
        if len(free) == 1:
            only = free[0]
            getter = lambda values: (values[only],)  # noqa: E731
        elif free:
            getter = itemgetter(*free)
        result = (template if free else template.replace("%%", "%"), getter)
        # each name stands in the key, in the template and, most of them, in the getter
        size = _TEMPLATE_COST + len(names) * _NAME_COST + 3 * sum(map(len, names))
        if size <= TEMPLATES_BYTES_MAX // 256:
            if self._templates_bytes + size > TEMPLATES_BYTES_MAX:
                self._templates.clear()  # hostile or strange clients; the usual ones are back at once
                self._templates_bytes = 0
            self._templates[names] = result
            self._templates_bytes += size
        return result


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def in_java_order(values: Mapping[str, str]) -> str:
    """The block of exactly these properties."""
    return properties.build_text({name: values[name] for name in iteration_order(values)})
