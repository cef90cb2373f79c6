"""Which groups consume which topics by POP, as a Java broker of the group was told: kept, saved and passed on.

Pure.  This broker serves no POP, so nothing here reads a mode.  But a broker group may change between Java's and ours:
what a Java master knows must be there when the next Java master takes over from us.

Java: ``MessageRequestModeManager``, ``MessageRequestModeSerializeWrapper``, config/messageRequestMode.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.wire import java_types, json_dialect, json_members

_KEY = "messageRequestModeMap"


def read_modes(value: Any) -> dict[str, dict[str, Any]]:
    """topic -> group -> mode in a parsed wrapper: a file's, a master's.

    :raises RemoteProtocolError: it is none.
    """
    modes = {}
    for topic, groups in (java_types.bean(json_members.as_object(value, "a table of modes").get(_KEY)) or {}).items():
        try:
            found = java_types.mapping(groups, str, java_types.bean) or {}
        except RemoteProtocolError as problem:
            raise RemoteProtocolError(f"{_KEY} of {topic[:300]!r}: {problem}") from None
        modes[topic] = {group: mode for group, mode in found.items() if mode is not None}
    return modes


class RequestModes:
    """The modes of one broker.  ``dirty`` is set by every change and cleared by whoever saved the table."""

    def __init__(self) -> None:
        self.modes: dict[str, dict[str, Any]] = {}
        self.dirty = False

    def replace(self, modes: dict[str, dict[str, Any]]) -> bool:
        """Take over a master's modes; whether they differ."""
        if modes == self.modes:
            return False
        self.modes, self.dirty = modes, True
        return True

    def as_json(self) -> dict[str, Any]:
        """The file's content and the body of GET_ALL_MESSAGE_REQUEST_MODE."""
        return {_KEY: self.modes}

    def dump(self) -> bytes:
        """The text of config/messageRequestMode.json."""
        return self.dump_later()()

    def dump_later(self) -> Callable[[], bytes]:
        """The same of the modes as they are now, made by a thread; they are only ever replaced."""
        modes = self.modes
        return lambda: json_dialect.dumps_pretty({_KEY: modes})

    def load(self, data: bytes, path: str = "config/messageRequestMode.json") -> None:
        """Replace the modes by a file's.

        :raises CorruptStore: it is no such file.
        """
        try:
            self.modes = read_modes(json_dialect.loads(data, json_dialect.FILE_BYTES_MAX))
        except RemoteProtocolError as problem:
            raise CorruptStore(path, 0, str(problem)) from None
