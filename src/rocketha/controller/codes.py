"""Request codes of our own, outside Java's ranges: those of our controllers, and of our other servers."""

from __future__ import annotations

from enum import IntEnum


class PrivateCode(IntEnum):
    """11001 to 11006 are the controller's; CLIENTS is for every server, AWAIT_METADATA for a master."""

    STATUS = 11001
    DO_YOU_HEAR = 11002
    WHY = 11003  # clusterName (may be absent), brokerName; the answer's body is audit.body
    TRANSFER = 11004
    MEMBERS = 11005
    CONFIRM_MASTER = 11006  # clusterName, brokerName, brokerId, masterEpoch: see sync_state.confirm
    CLIENTS = 11007  # after (may be absent); see rocketha.services.process.clients
    AWAIT_METADATA = 31000  # see rocketha.services.replication.metadata_master
