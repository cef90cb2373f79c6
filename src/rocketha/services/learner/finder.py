"""Which broker is master of a group, as its nameservers say (106), and what only a master can be asked for.

Java: ``BrokerOuterAPI.getBrokerClusterInfo``, ``SlaveSynchronize``.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from twisted.internet import defer

from rocketha.broker.progress_requests import OFFSETS_AFTER
from rocketha.errors import RemoteProtocolError
from rocketha.protocols.endpoints import Dialer
from rocketha.protocols.peer_connections import PeerConnections
from rocketha.services.replication.ha_address import UNREACHED
from rocketha.wire.cluster_info import cluster_info
from rocketha.wire.codes import RequestCode
from rocketha.wire.json_dialect import dumps, loads_large
from rocketha.wire.remoting import Command

ASK_S = 3.0
ANSWER_BYTES_MAX = 16 << 20


class MasterFinder:
    """Of one group.

    :param namesrvs: ``host:port`` each; they are asked in their order until one knows it.
    :ivar address: of the master's main port, as it was said last; empty before.
    """

    def __init__(self, dialer: Dialer, namesrvs: Sequence[str], broker_name: str) -> None:
        self._namesrvs = tuple(namesrvs)
        self._broker_name = broker_name
        self._connections = PeerConnections(dialer)
        self.address = ""

    @defer.inlineCallbacks
    def look(self) -> Generator[Any, Any, str]:
        """The master's main port; empty where nobody knows one."""
        for namesrv in self._namesrvs:
            answer = yield self._ask(namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
            address = _master_of(answer.body, self._broker_name) if answer is not None else ""
            if address:
                self.address = address
                return address
        return ""

    @defer.inlineCallbacks
    def consumer_offsets(self) -> Generator[Any, Any, bytes | None]:
        """What the master's ``consumerOffset.json`` has; None: it cannot be had now.

        The whole, or where no frame holds that, the parts that a master of ours gives, without what is derived.
        """
        if not self.address:
            return None
        answer = yield self._ask(self.address, RequestCode.GET_ALL_CONSUMER_OFFSET)
        if answer is not None:
            return bytes(answer.body)
        table: dict[str, Any] = {}
        version, after = None, ""
        while version is None or after:
            answer = yield self._ask(self.address, RequestCode.GET_ALL_CONSUMER_OFFSET, {OFFSETS_AFTER: after})
            try:
                value = {} if answer is None else loads_large(answer.body)
                table |= value["offsetTable"]
                version = version or value["dataVersion"]
            except (RemoteProtocolError, KeyError, TypeError):
                return None
            before, after = after, answer.fields.get(OFFSETS_AFTER, "")
            if after and after <= before:
                return None
        return dumps({"dataVersion": version, "offsetTable": table})

    @defer.inlineCallbacks
    def _ask(
        self, address: str, code: RequestCode, fields: Mapping[str, str] | None = None
    ) -> Generator[Any, Any, Command | None]:
        """The answer, if it is a success."""
        try:
            connection = yield self._connections.connect(address, ASK_S)
            answer: Command = yield connection.request(code, fields, timeout_s=ASK_S)
        except UNREACHED:
            return None
        return answer if answer.code == 0 and len(answer.body) <= ANSWER_BYTES_MAX else None

    def close(self) -> None:
        """For good."""
        self._connections.close()


def _master_of(body: bytes, broker_name: str) -> str:
    try:
        sets = cluster_info(body).sets
    except RemoteProtocolError:
        return ""
    return next((each.master for each in sets if each.name == broker_name), "")
