"""The KV configuration: namespaces of keys and values that tools write and brokers read.

Knows the shape of kvConfig.json, not where it lies.  The only namespace in use is ``ORDER_TOPIC_CONFIG``.  Changes are
made on a copy: ``put`` and ``delete`` return the new table, and the caller keeps the old one if the new one cannot be
saved. Java classes: ``KVConfigManager``, ``KVConfigSerializeWrapper``, ``KVTable``.
"""

from __future__ import annotations

from typing import Any, Self

import attrs

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire import java_types, json_dialect, json_members
from rocketha.wire.codes import ResponseCode
from rocketha.wire.limits import TEXT_CHARACTERS_MAX

NAMESPACE_ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
NAME_CHARACTERS_MAX = 255
VALUE_CHARACTERS_MAX = TEXT_CHARACTERS_MAX
NAMESPACES_MAX = 100
KEYS_MAX = 10_000
FILE_BYTES_MAX = 256 << 20


@attrs.frozen(slots=True)
class KvConfig:
    """An unchanging table; ``tables`` is namespace to key to value."""

    tables: dict[str, dict[str, str]] = attrs.Factory(dict)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read kvConfig.json.

        :raises RemoteProtocolError: not such a file.
        """
        value = json_members.as_object(json_dialect.loads(data), "kvConfig.json")
        tables = java_types.mapping(value.get("configTable"), str, _texts)
        if tables is None:
            raise RemoteProtocolError("kvConfig.json has no configTable")
        return cls(tables)

    def encode(self) -> bytes:
        """The bytes of kvConfig.json."""
        tables = {namespace: dict(sorted(table.items())) for namespace, table in sorted(self.tables.items())}
        return json_dialect.dumps({"configTable": tables})

    def get(self, namespace: str, key: str) -> str | None:
        """One value."""
        return self.tables.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> bytes | None:
        """A namespace as the JSON of a ``KVTable``; ``None`` where there is none."""
        table = self.tables.get(namespace)
        return None if table is None else json_dialect.dumps({"table": dict(sorted(table.items()))})

    def put(self, namespace: str, key: str, value: str) -> KvConfig:
        """The table with one value more.

        :raises RequestRefused: SYSTEM_ERROR (1), for names and values that are too long, and for too many of them.
        """
        for text, what in ((namespace, "namespace"), (key, "key")):
            if not 0 < len(text) <= NAME_CHARACTERS_MAX:
                raise _refused(f"{what} must have 1 to {NAME_CHARACTERS_MAX} characters")
        if len(value) > VALUE_CHARACTERS_MAX:
            raise _refused(f"value must have at most {VALUE_CHARACTERS_MAX} characters")
        table = self.tables.get(namespace)
        if table is None and len(self.tables) >= NAMESPACES_MAX:
            raise _refused(f"there are {NAMESPACES_MAX} namespaces already")
        if key not in (table or {}) and sum(map(len, self.tables.values())) >= KEYS_MAX:
            raise _refused(f"there are {KEYS_MAX} keys already")
        return KvConfig({**self.tables, namespace: {**(table or {}), key: value}})

    def delete(self, namespace: str, key: str) -> KvConfig:
        """The table without that key; an empty namespace stays, as in Java."""
        table = self.tables.get(namespace)
        if table is None or key not in table:
            return self
        return KvConfig({**self.tables, namespace: {k: v for k, v in table.items() if k != key}})


def _texts(value: Any) -> dict[str, str]:
    found = java_types.mapping(value, str, java_types.text) or {}
    return {key: text for key, text in found.items() if text is not None}


def _refused(reason: str) -> RequestRefused:
    return RequestRefused(ResponseCode.SYSTEM_ERROR, reason)
