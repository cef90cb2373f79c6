"""What handlers want done outside: values that the service carries out after the handler returned.

Pure.  The order is the contract: effects of a request are carried out **before** its answer is written, because Java
clients see NOTIFY_CONSUMER_IDS_CHANGED before the answer to the heartbeat that caused it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import attrs

from rocketha.wire.remoting import Answer, Command

ConfigFile = Literal["topics", "groups", "offsets", "deleted"]


@attrs.frozen
class NotifyClient:
    """Send a oneway request to a client; nothing happens when the connection is gone."""

    connection_id: int
    code: int
    fields: Mapping[str, str]
    body: bytes = b""


@attrs.frozen
class RegisterTopics:
    """Tell the nameservers now: about these topics, or with ``None`` the whole table (a topic was deleted)."""

    topics: tuple[str, ...] | None


@attrs.frozen
class SaveConfig:
    """Have a table's file written; the answer that the handler returns waits for that, except for offsets."""

    which: ConfigFile


@attrs.frozen
class CloseConnection:
    """Close a client's connection."""

    connection_id: int
    reason: str


@attrs.frozen
class Audit:
    """An administrative act or a refusal that must be in the log, with who asked for it."""

    event: str
    peer: str
    details: Mapping[str, str]


@attrs.frozen
class Reply:
    """What one client said to a :class:`CallClients`; ``code`` is ``None`` when it said nothing."""

    client_id: str
    code: int | None
    remark: str | None = None
    fields: Mapping[str, str] | None = None
    body: bytes = b""
    timed_out: bool = False


class Combine(Protocol):
    """Makes the answer to the administrator from the clients' replies, in the order of ``CallClients.targets``."""

    def __call__(self, replies: Sequence[Reply]) -> Answer: ...


@attrs.frozen
class CallClients:
    """Send a two-way request to every target ``(connection_id, client_id)``; then answer the one who asked.

    The handler returned ``None``: the answer goes to ``answer_to`` ``(connection_id, the request's head)`` once all
    replies, timeouts and lost connections are in.
    """

    targets: tuple[tuple[int, str], ...]
    code: int
    fields: Mapping[str, str]
    body: bytes
    timeout_ms: int
    answer_to: tuple[int, Command]
    combine: Combine


Effect = NotifyClient | RegisterTopics | SaveConfig | CloseConnection | Audit | CallClients
