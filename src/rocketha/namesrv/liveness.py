"""Which registered brokers are dead.

Knows no socket and no clock.  Theory of operation: a registration holds for the time the broker asked for (120 s
otherwise); a scan removes what ran out.  **A broken connection is a suspicion, not a death** (regression B8: Java drops
the routes at once and senders stand until the next periodic registration): the service is asked to probe the broker's
own port, once, and only at the host that the connection came from (:mod:`rocketha.namesrv.own_port`), and not as often
as strangers may like (:mod:`rocketha.namesrv.budget`).  Refused means dead, and the routes go now.  A port that is
silent, or may not be asked, is dead after a grace of ``broken_connection_grace`` ms.  One that answered only lost a
connection: it keeps its routes for the longest time that a Java broker lets pass between two registrations, and then is
gone if it has not registered anew.
Java: ``RouteInfoManager.scanNotActiveBroker`` and ``onChannelDestroy``.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from rocketha.namesrv.budget import Budget
from rocketha.namesrv.effects import Address, CloseConnection, Effect, ProbePort
from rocketha.namesrv.own_port import own_port
from rocketha.namesrv.route_table import RouteTable


class Options(Protocol):
    """The part of ``NamesrvConfig`` read here."""

    @property
    def broken_connection_grace(self) -> int: ...
    @property
    def un_register_broker_queue_capacity(self) -> int: ...


REGISTERS_WITHIN_MS = 60_000
"""Java's largest ``registerNameServerPeriod``."""


PROBES_OF_PORT = 3
PROBES_OF_HOST = 8
PROBES_OF_SETTLED = 64
"""Of the ports of one host that have been registered for a while: a broken network breaks all their connections."""
SETTLED_MS = 60_000


@attrs.define(slots=True)
class _Suspect:
    """A broker whose connection broke.  ``answered``: its port accepted a connection."""

    connection: int
    deadline_ms: int
    round: int
    answered: bool = False


class Liveness:
    """Suspects and expiry over one :class:`RouteTable`."""

    def __init__(self, table: RouteTable, options: Options) -> None:
        self._table = table
        self._options = options
        self._suspects: dict[Address, _Suspect] = {}
        self._probes = Budget(PROBES_OF_PORT, PROBES_OF_HOST)
        self._probes_of_settled = Budget(PROBES_OF_PORT, PROBES_OF_SETTLED)
        self._round = 0

    @property
    def suspects(self) -> int:
        """How many brokers are in their grace."""
        return len(self._suspects)

    def connection_lost(self, connection: int, host: str, now_ms: int) -> list[Effect]:
        """A connection from a host ended; brokers that registered by it, and not anew by another one, are suspects."""
        effects: list[Effect] = []
        for here, live in [each for each in self._table.live.items() if each[1].connection == connection]:
            grace_ms = self._options.broken_connection_grace
            if not grace_ms or len(self._suspects) >= self._options.un_register_broker_queue_capacity:
                effects.extend(self._table.remove([here], "its connection broke"))
                continue
            self._round += 1
            self._suspects[here] = _Suspect(connection, now_ms + grace_ms, self._round)
            port = own_port(here.address, host)
            settled = now_ms - live.since_ms >= SETTLED_MS
            budget = self._probes_of_settled if settled else self._probes
            if port is not None and budget.take(port.address, now_ms):
                effects.append(ProbePort(here, port, self._round))
        return effects

    def has_left(self, here: Address) -> bool:
        """Whether the connection of a registered broker is over."""
        suspect = self._suspects.get(here)
        return suspect is not None and not self._acquitted(here, suspect)

    def probed(self, probe: ProbePort, accepted: bool | None) -> list[Effect]:
        """What came of a :class:`ProbePort`: ``True`` the port answered, ``False`` refused, ``None`` silence."""
        suspect = self._suspects.get(probe.broker)
        if suspect is None or suspect.round != probe.round:
            return []
        if self._acquitted(probe.broker, suspect):
            return []
        if accepted is False and probe.port.proves_death:
            del self._suspects[probe.broker]
            return self._table.remove([probe.broker], "its connection broke and its port refuses")
        if accepted:
            suspect.answered = True
            suspect.deadline_ms += REGISTERS_WITHIN_MS
        return []

    def tick(self, now_ms: int) -> list[Effect]:
        """End graces that are over.  To be called a few times a second while there are suspects."""
        effects: list[Effect] = []
        for here, suspect in list(self._suspects.items()):
            if self._acquitted(here, suspect):
                continue
            if now_ms < suspect.deadline_ms:
                continue
            del self._suspects[here]
            why = "it has not registered anew" if suspect.answered else "its port is silent, or may not be asked"
            effects.extend(self._table.remove([here], f"its connection broke and {why}"))
        return effects

    def scan(self, now_ms: int) -> list[Effect]:
        """Remove the brokers whose registration ran out and ask for their connections to be closed."""
        effects: list[Effect] = []
        for here, live in list(self._table.live.items()):
            if live.heard_ms + live.timeout_ms < now_ms:
                self._suspects.pop(here, None)
                reason = f"nothing heard for {live.timeout_ms} ms"
                effects.append(CloseConnection(live.connection, f"broker {here.address}: {reason}"))
                effects.extend(self._table.remove([here], reason))
        return effects

    def paused(self, late_ms: int) -> None:
        """This process stood still for so long: nothing that a broker could have said in that time was heard."""
        for live in self._table.live.values():
            live.heard_ms += late_ms
        for suspect in self._suspects.values():
            suspect.deadline_ms += late_ms

    def _acquitted(self, here: Address, suspect: _Suspect) -> bool:
        """Whether the broker registered by another connection, or is gone for another reason."""
        live = self._table.live.get(here)
        if live is not None and live.connection == suspect.connection:
            return False
        del self._suspects[here]
        return True
