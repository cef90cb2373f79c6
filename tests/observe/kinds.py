"""Every kind of event."""

from __future__ import annotations

from collections.abc import Iterator

from rocketha.observe.events import Event


def event_kinds(kind: type[Event] = Event) -> Iterator[type[Event]]:
    """All that have a name, and are not the class that attrs made one with slots of: that one stays until it is
    collected.
    """
    for each in kind.__subclasses__():
        if each.name and "__attrs_attrs__" in vars(each):
            yield each
        yield from event_kinds(each)
