"""What the route table wants done or known: values that cross from the pure rules to the service.

Frozen and comparable, so that a test is an equality of lists.  The service carries out the first group and logs the
second.
"""

from __future__ import annotations

from typing import Any

import attrs

from rocketha.errors import Ignored
from rocketha.namesrv.kv_config import KvConfig
from rocketha.namesrv.own_port import OwnPort


@attrs.frozen(slots=True)
class Address:
    """Who a live record belongs to; brokers of two clusters may share an address only if they are the same broker."""

    cluster: str
    address: str  # host:port


@attrs.frozen(slots=True)
class ProbePort:
    """Open a TCP connection to the broker's own port and report what came of it to ``Liveness.probed``."""

    broker: Address
    port: OwnPort
    round: int  # hand it back: an answer to an older question is void


class HolderToBeAsked(Exception):
    """A registration takes the address, or the name and id, of a broker that may live; raised instead of an answer.

    :ivar holder: its address.
    :ivar host: from which it registered.
    :ivar request: for ``NameServer.take_over`` if it does not serve any more.
    """

    def __init__(self, holder: Address, host: str, request: Any) -> None:
        super().__init__(holder)
        self.holder = holder
        self.host = host
        self.request = request


@attrs.frozen(slots=True)
class CloseConnection:
    """The broker behind this connection is expired."""

    connection: int
    reason: str


@attrs.frozen(slots=True)
class NotifyMinBrokerId:
    """Send NOTIFY_MIN_BROKER_ID_CHANGE (905), oneway, to each of ``receivers`` (``host:port``)."""

    receivers: tuple[str, ...]
    min_broker_id: int
    min_broker_address: str
    offline_address: str | None = None
    ha_address: str | None = None

    def fields(self) -> dict[str, str]:
        """The request's header."""
        found = {
            "minBrokerId": str(self.min_broker_id),
            "minBrokerAddr": self.min_broker_address,
            "offlineBrokerAddr": self.offline_address,
            "haBrokerAddr": self.ha_address,
        }
        return {name: value for name, value in found.items() if value is not None}


@attrs.frozen(slots=True)
class SaveKvConfig:
    """Replace kvConfig.json by ``table``; the request is answered when that is on the disk.

    Then ``NameServer.kv_saved``, or ``NameServer.kv_not_saved``.
    """

    table: KvConfig


@attrs.frozen(slots=True)
class BrokerAppeared:
    """To log: a new live record."""

    broker: Address
    name: str
    broker_id: int


@attrs.frozen(slots=True)
class BrokerRejected:
    """To log: a registration older than the one that holds its id."""

    broker: Address
    name: str
    broker_id: int
    held_by: str
    state_version: int
    held_state_version: int


@attrs.frozen(slots=True)
class BrokerRemoved:
    """To log: a record is gone and why."""

    broker: Address
    name: str
    broker_id: int | None
    reason: str


@attrs.frozen(slots=True)
class NameShared:
    """To log: a broker name is used in several clusters; clients of both see only the first."""

    name: str
    clusters: tuple[str, ...]


@attrs.frozen(slots=True)
class ConfigChanged:
    """To log: who changed what in the running configuration."""

    connection: int
    changes: tuple[tuple[str, str, str], ...]  # key, old, new


@attrs.frozen(slots=True)
class RowIgnored:
    """To count and log: a part of the present request is left out and the rest of it served; see :class:`Ignored`."""

    reason: Ignored
    what: str


Effect = (
    ProbePort
    | CloseConnection
    | NotifyMinBrokerId
    | SaveKvConfig
    | BrokerAppeared
    | BrokerRejected
    | BrokerRemoved
    | NameShared
    | ConfigChanged
    | RowIgnored
)
