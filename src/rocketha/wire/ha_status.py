"""What a broker tells of its replication: 907 (links and offsets) and 1007 (epochs).

Pure.  Keys in fastjson's order, so that a recorded body comes out again byte for byte; a slave's master address that is
not known is left out.  Java: ``HARuntimeInfo``, ``EpochEntryCache``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rocketha.errors import RemoteProtocolError
from rocketha.wire import json_dialect, json_members
from rocketha.wire.ha_frames import EPOCH_MAX, EPOCHS_MAX, EpochEntry, check_entries
from rocketha.wire.json_members import LONG_MAX
from rocketha.wire.spec import ha_bodies
from rocketha.wire.spec.format import Format

LINKS_MAX = 1024
BYTES_MAX = 16 * 1024 * 1024


class LinkStatus(NamedTuple):
    """One slave as its master sees it; offsets are bytes of the log."""

    address: str  # host:port of the slave's end
    ack_offset: int
    behind: int  # bytes; negative if the slave reports more than there is
    in_sync: bool
    bytes_per_second: int
    transfer_from: int  # -1: nothing was asked for yet


class SlaveStatus(NamedTuple):
    """A slave's own end of its link; zeros on a master."""

    master_address: str = ""
    bytes_per_second: int = 0
    max_offset: int = 0
    last_read_ms: int = 0
    last_write_ms: int = 0
    master_flush_offset: int = 0


class HaStatus(NamedTuple):
    """A 907."""

    master: bool
    max_offset: int  # end of the master's log; 0 on a slave
    in_sync: int  # slaves that are near enough
    links: tuple[LinkStatus, ...] = ()
    slave: SlaveStatus = SlaveStatus()


class EpochStatus(NamedTuple):
    """A 1007."""

    cluster: str
    broker_name: str
    broker_id: int  # 0 of a master
    entries: tuple[EpochEntry, ...]
    max_offset: int


def encode_ha_status(status: HaStatus) -> bytes:
    """The body of 907."""
    slave = status.slave
    client: dict[str, Any] = {"lastReadTimestamp": slave.last_read_ms, "lastWriteTimestamp": slave.last_write_ms}
    if slave.master_address:
        client["masterAddr"] = slave.master_address
    client["masterFlushOffset"] = slave.master_flush_offset
    client["maxOffset"] = slave.max_offset
    client["transferredByteInSecond"] = slave.bytes_per_second
    links = [
        {
            "addr": link.address,
            "diff": link.behind,
            "inSync": link.in_sync,
            "slaveAckOffset": link.ack_offset,
            "transferFromWhere": link.transfer_from,
            "transferredByteInSecond": link.bytes_per_second,
        }
        for link in status.links
    ]
    return json_dialect.dumps(
        {
            "haClientRuntimeInfo": client,
            "haConnectionInfo": links,
            "inSyncSlaveNums": status.in_sync,
            "master": status.master,
            "masterCommitLogMaxOffset": status.max_offset,
        }
    )


def decode_ha_status(data: bytes) -> HaStatus:
    """A body of 907; what is absent has Java's default."""
    found = json_members.json_object(data, "an HA status")
    client = json_members.table(found, "haClientRuntimeInfo", 100)
    slave = SlaveStatus(
        json_members.text(client, "masterAddr", "", 300),
        _any(client, "transferredByteInSecond"),
        _any(client, "maxOffset"),
        _any(client, "lastReadTimestamp"),
        _any(client, "lastWriteTimestamp"),
        _any(client, "masterFlushOffset"),
    )
    links = [
        LinkStatus(
            json_members.text(row, "addr", "", 300),
            _any(row, "slaveAckOffset"),
            _any(row, "diff"),
            json_members.flag(row, "inSync"),
            _any(row, "transferredByteInSecond"),
            _any(row, "transferFromWhere"),
        )
        for row in json_members.rows(found, "haConnectionInfo", LINKS_MAX)
    ]
    return HaStatus(
        json_members.flag(found, "master"),
        _any(found, "masterCommitLogMaxOffset"),
        json_members.integer(found, "inSyncSlaveNums", 0, 0),
        tuple(links),
        slave,
    )


def _any(found: dict[str, Any], name: str) -> int:
    return json_members.long(found, name, 0)


def encode_epochs(status: EpochStatus) -> bytes:
    """The body of 1007; each epoch ends where the next begins."""
    ends = [entry.start_offset for entry in status.entries[1:]] + [LONG_MAX]
    rows = [
        {"endOffset": end, "epoch": entry.epoch, "startOffset": entry.start_offset}
        for entry, end in zip(status.entries, ends)
    ]
    return json_dialect.dumps(
        {
            "brokerId": status.broker_id,
            "brokerName": status.broker_name,
            "clusterName": status.cluster,
            "epochList": rows,
            "maxOffset": status.max_offset,
        }
    )


def decode_epochs(data: bytes) -> EpochStatus:
    """A body of 1007.

    :raises RemoteProtocolError: also for epochs that do not ascend, or do not end where the next begins.
    """
    found = json_members.json_object(data, "an epoch cache")
    rows = json_members.rows(found, "epochList", EPOCHS_MAX)
    entries = [
        EpochEntry(
            json_members.integer(row, "epoch", low=0, high=EPOCH_MAX), json_members.long(row, "startOffset", low=0)
        )
        for row in rows
    ]
    check_entries(entries)
    _check_ends(rows, entries)
    return EpochStatus(
        json_members.text(found, "clusterName", ""),
        json_members.text(found, "brokerName", ""),
        json_members.long(found, "brokerId", 0, 0),
        tuple(entries),
        json_members.long(found, "maxOffset", 0, 0),
    )


def _check_ends(rows: Sequence[dict[str, Any]], entries: Sequence[EpochEntry]) -> None:
    # Of the last one nothing is said: Java's can be left over from an epoch that was dropped.
    for row, following in zip(rows, entries[1:]):
        end = json_members.long(row, "endOffset", following.start_offset, 0)
        if end != following.start_offset:
            raise RemoteProtocolError(f"an epoch ends at {end} and the next begins at {following.start_offset}")


FORMATS = (
    Format(
        name="ha-status",
        spec=ha_bodies.HA_STATUS,
        parse=decode_ha_status,
        build=encode_ha_status,
        bound=BYTES_MAX,
        doc="The answer to GET_BROKER_HA_STATUS (HARuntimeInfo).",
    ),
    Format(
        name="epoch-cache",
        spec=ha_bodies.EPOCH_CACHE,
        parse=decode_epochs,
        build=encode_epochs,
        bound=BYTES_MAX,
        doc="The answer to GET_BROKER_EPOCH_CACHE (EpochEntryCache).",
    ),
)
