"""The clients of a broker: who is connected and what for, which queues they hold, and what it means to the others when
one is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rocketha.broker.effects import CloseConnection
from rocketha.broker.request import Responder
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.process.clients import ConnectedClients
from rocketha.services.process.own_process import OwnProcess
from rocketha.wire.codes import PrivateCode

LOOK_EVERY_S = 10


class Sessions(BrokerFeature):
    """Of one broker."""

    def __init__(self, core: BrokerCore) -> None:
        self._now_ms = core.platform.now_ms
        self._state = core.state
        self._seconds = 0
        self._held = core.parts.held
        process = OwnProcess(core.platform, core.platform.askers.known or core.config.access.authentication_enabled)
        clients = ConnectedClients(core.factories, core.refusals, self._purposes, process)
        self.requests: Mapping[int, Responder] = {
            PrivateCode.CLIENTS: clients.answer,
            PrivateCode.LOG_LEVEL: process.log_level,
        }

    def disconnected(self, connection: Any) -> None:
        """Its groups rebalance."""
        for change in self._state.clients.disconnected(connection.id):
            self._state.notify(change)

    def second(self) -> None:
        """Those that say nothing any more count as gone."""
        self._seconds += 1
        if self._seconds % LOOK_EVERY_S == 0:
            state, now_ms = self._state, self._now_ms()
            closing, changes = state.clients.expire(now_ms)
            for change in changes:
                state.notify(change)
            for connection_id in closing:
                state.effects.append(CloseConnection(connection_id, "no heartbeat for 120 s"))
            state.locks.expire(now_ms)

    def holding(self, ids: Sequence[int]) -> set[int]:
        """Connections of clients that sent a heartbeat, or for which a pull waits."""
        clients, held = self._state.clients, self._held
        return {each for each in ids if held.waits_for(each) or clients.client_id(each) is not None}

    def _purposes(self, ids: Sequence[int]) -> Mapping[int, Mapping[str, Any]]:
        now_ms = self._now_ms()
        return {number: self._state.clients.purpose(number, now_ms) for number in ids}
