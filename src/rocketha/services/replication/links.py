"""The slaves of a broker: the port they connect to, what they have, and what that acknowledges.

Theory of operation.  The port listens whatever the role is and serves slaves while this broker is master.  News go one
way: the log grew, a slave acknowledged, the controller said who is in the SyncStateSet.  After each the answers that
have become safe leave, the confirm offset moves, and the controller is asked for another set where that is due.

A mode counts them its own way: :class:`~rocketha.services.replication.classic.ClassicLinks`,
:class:`~rocketha.services.replication.set_links.SetLinks`.

Java: ``DefaultHAService`` with ``GroupTransferService``; ``AutoSwitchHAService``.
"""

from __future__ import annotations

import attrs

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.observe.logging import emit_disk_failure, make_logger
from rocketha.observe.refusals import Ended
from rocketha.protocols.ha_master import HA_LIMITS, MasterHaFactory, MasterHaProtocol, NoLink, OpenLink
from rocketha.replication.autoswitch_master import AutoswitchMaster
from rocketha.replication.classic_master import ClassicMaster
from rocketha.replication.link import Cause
from rocketha.replication.throttle import Throttle
from rocketha.services.process.open_files import replica_links
from rocketha.services.replication.context import ReplicationContext
from rocketha.services.waiting.log_reads import LinkReader
from rocketha.wire.ha_frames import SlaveHello


class SlaveLinks:
    """What all modes have in common; a :class:`rocketha.protocols.ha_master.LinkOwner`.

    :ivar factory: of the port.
    :ivar serving: this broker is master.
    """

    def __init__(self, context: ReplicationContext) -> None:
        self.now_ms = context.platform.now_ms
        self._log = context.log
        self._keys = context.keys
        self._timing = context.timing
        self._waiting = context.waiting
        self._as_turn = context.as_turn
        self._reactor = context.platform.reactor
        self._reads = context.reads
        self._askers = context.platform.askers
        limits = attrs.evolve(HA_LIMITS, connections=replica_links())
        self.factory = MasterHaFactory(self, self._reactor, limits, context.refusals)
        self.serving = False
        self._logger = make_logger()

    def _throttle(self) -> Throttle | None:
        if not self._keys.ha_flow_control_enable:
            return None
        rate = self._keys.max_ha_transfer_byte_in_second
        return Throttle(rate, max(1, rate // 10))

    # -- of each mode

    def log_grew(self, now_ms: int) -> None:
        """This broker stored messages."""
        raise NotImplementedError

    def acknowledged(self, replica: MasterHaProtocol) -> int:
        """Up to where the slave of a connection has the log, -1 if it did not say."""
        raise NotImplementedError

    def is_in_sync(self, replica: MasterHaProtocol) -> bool:
        """Whether it is counted on."""
        raise NotImplementedError

    def broker_id(self, replica: MasterHaProtocol) -> int | None:
        """Whose connection it is; None where slaves do not say."""
        return None

    def stop(self, why: str) -> None:
        """This broker is master no more: at once nobody is served and nothing acknowledged."""
        raise NotImplementedError

    def _machine(self, now_ms: int) -> ClassicMaster | AutoswitchMaster:
        raise NotImplementedError

    # -- the owner

    def open_link(self, connection: MasterHaProtocol, now_ms: int) -> OpenLink | NoLink:
        if not self.serving:
            return NoLink(Ended.NOT_SERVED, "this broker is not the master")
        if not self._keys.may_replicate(connection.peer_host):
            return NoLink(Ended.NOT_ALLOWED, "haAllowedAddresses does not name it")
        return OpenLink(self._machine(now_ms), LinkReader(self._log.reader(), self._reads))

    def may_follow(self, connection: MasterHaProtocol) -> bool:
        return self._askers.is_replica(connection.transport, connection.peer_host)

    def introduced(self, connection: MasterHaProtocol, hello: SlaveHello, epoch: int) -> None:
        """See :class:`LinkOwner`."""

    def is_replica(self, connection: MasterHaProtocol) -> bool:
        return True

    def acked(self, connection: MasterHaProtocol, offset: int) -> None:
        raise NotImplementedError

    def disk_failed(self, connection: MasterHaProtocol, error: DiskFailure | CorruptStore) -> None:
        emit_disk_failure(self._logger, error)
        self._logger.error("the log can not be read for {peer}: {why}", peer=connection.peer, why=str(error))

    def closed(self, connection: MasterHaProtocol, reason: str, cause: Cause | None) -> None:
        raise NotImplementedError
