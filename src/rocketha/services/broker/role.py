"""Who decides what a broker is: its configuration, or controllers.

Java: ``BrokerStartup`` (brokerRole), ``ReplicasManager``.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
from twisted.internet import defer

from rocketha.broker.master_watch import MasterWatch
from rocketha.broker.state import BrokerIdentity
from rocketha.observe.logging import make_logger
from rocketha.raft.messages import Members
from rocketha.services.config.replication import SLAVE, ReplicationConfig
from rocketha.services.core.feature import BrokerFeature
from rocketha.services.process.platform import Platform
from rocketha.services.replication.classic import ClassicReplication
from rocketha.services.replication.service import Replication
from rocketha.services.waiting.blocking import BlockingWork


class RoleSource(BrokerFeature):
    """See the module; one object for the life of a broker, whose role is FENCED when it starts.

    :ivar hands_over: another broker may become master when this one stops.
    """

    hands_over = False

    def learned(self, address: str, ha_address: str) -> None:
        """A nameserver said where the master of this slave is: its main port, its HA port; empty where not known."""


@attrs.frozen
class RoleContext:
    """What a role source works with: the parts of its broker.

    :ivar identity: as the broker started; the id may change with the role.
    :ivar watch: is told who the master is.
    :ivar file_work: where small files are read and written.
    :ivar unfit: why this broker should not be master, by its health checks; None: it may.
    :ivar take_newest: has the newest tables taken that other members of a Raft group have.
    """

    keys: ReplicationConfig
    identity: BrokerIdentity
    replication: Replication
    watch: MasterWatch
    platform: Platform
    file_work: BlockingWork
    unfit: Callable[[], str | None]
    take_newest: Callable[[str, Callable[[], Members]], defer.Deferred[None]]


class ClassicRole(RoleSource):
    """brokerRole, for good.

    A slave that is not told by ``haMasterAddress`` learns from the nameservers where its master is.
    """

    def __init__(self, context: RoleContext) -> None:
        replication = context.replication
        assert isinstance(replication, ClassicReplication)
        self._replication = replication
        self._keys = context.keys
        self._identity = context.identity
        self._watch = context.watch
        self._log = make_logger()
        self._complained = False

    def start(self) -> None:
        if self._keys.broker_role != SLAVE:
            self._replication.lead()
            self._watch.own()
            return
        self._replication.follow()
        if self._keys.ha_master_address:
            self._follow(self._keys.ha_master_address)

    def learned(self, address: str, ha_address: str) -> None:
        if self._keys.broker_role != SLAVE:
            return
        if address and address != self._identity.address:
            self._replication.master_known(address)
            self._watch.other(address)
        if ha_address and not self._keys.ha_master_address:
            self._follow(ha_address)

    def _follow(self, ha_address: str) -> None:
        if ha_address == self._identity.ha_address:
            if not self._complained:
                self._complained = True
                self._log.error("{address} is this slave's own HA port: it can not be its master's", address=ha_address)
            return
        self._replication.ha_address_known(ha_address)
