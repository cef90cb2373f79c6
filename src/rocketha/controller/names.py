"""Names in requests: the same rule for those that change the state and for heartbeats."""

from __future__ import annotations

from collections.abc import Mapping

from rocketha.wire import fields

NAME_CHARACTERS_MAX = 255


def name_in(found: Mapping[str, str], field: str) -> str:
    """A name that must be there.

    :raises RequestRefused: 29: it is missing, too long or not printable.
    """
    value = fields.text(found, field, NAME_CHARACTERS_MAX)
    if not value.isprintable():
        raise fields.refused(f"the header field {field} is not printable")
    return value
