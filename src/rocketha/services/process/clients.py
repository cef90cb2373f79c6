"""Who is connected to a server, what for, and what was refused lately: the answer to CLIENTS (11007).

What it must not know: whose server it is; it is given the ports, the refusals, and a function that says what
connections are for.  A code of our own, because RocketMQ's (203, 204, 328) answer for one group at a time, know nobody
who has no group yet (whose heartbeat was refused, say), and say nothing of refusals.

Theory of operation.  The answer is in pages of about :data:`PAGE_BYTES`: it holds the connections with an id above
the field ``after``, and the field ``next`` to ask with for those that follow, absent where none do.  The first page
also has the kinds of refusals that are remembered, newest first, and what the process says of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rocketha.observe.refusals import Refusals
from rocketha.protocols.remoting import RemotingFactory, RemotingProtocol
from rocketha.services.process.own_process import OwnProcess
from rocketha.wire import fields, json_dialect
from rocketha.wire.remoting import Answer, Command

PAGE_BYTES = 1024 * 1024

Purposes = Callable[[Sequence[int]], Mapping[int, Mapping[str, Any]]]
"""What connections are for, in JSON, by their ids; ids that are for nothing known may be left out."""


class ConnectedClients:
    """Of one server.

    :param factories: its ports; a list that may grow.
    """

    def __init__(
        self, factories: Sequence[RemotingFactory], refusals: Refusals, purposes: Purposes, process: OwnProcess
    ) -> None:
        self._factories = factories
        self._refusals = refusals
        self._purposes = purposes
        self._process = process

    def answer(self, connection: Any, command: Command, now_ms: int = 0) -> Answer:
        """CLIENTS: one page.

        :raises RequestRefused: ``after`` is no number.
        """
        after = fields.optional_long(command.fields, "after", -1)
        found = {
            peer.id: peer
            for factory in self._factories
            for peer in factory.connections.values()
            if after is None or peer.id > after
        }
        ids = sorted(found)
        rows: list[bytes] = []
        size, last = 0, len(ids)
        for begin in range(0, len(ids), 64):
            some = ids[begin : begin + 64]
            purposes = self._purposes(some)
            rows += [json_dialect.dumps(self._row(found[number], purposes.get(number, {}))) for number in some]
            size += sum(map(len, rows[begin:]))
            if size >= PAGE_BYTES:
                last = begin + len(some)
                break
        first = after is None
        body = b'{"connections":[%b],"refusals":%b,"role":%b,"process":%b}' % (
            b",".join(rows),
            json_dialect.dumps(self._refusals.kinds() if first else []),
            json_dialect.dumps(self._refusals.role),
            json_dialect.dumps(self._process.facts() if first else {}),
        )
        return Answer(fields={"next": str(ids[last - 1])} if last < len(ids) else {}, body=body)

    def _row(self, peer: RemotingProtocol, purpose: Mapping[str, Any]) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": peer.id,
            "address": peer.peer,
            "port": peer.local_port,
            "language": peer.language,
            "version": peer.version,
            "openSeconds": peer.age_s,
            "refusedCount": 0,
            **purpose,
        }
        refused = peer.refused
        if refused is not None:
            row["refusedCount"] = refused.count
            if not row.get("clientIds"):
                row["clientIds"] = [refused.client_id] if refused.client_id else []
            if refused.last is not None:
                row["lastRefusal"] = self._refusals.shown(refused.last)
        return row
