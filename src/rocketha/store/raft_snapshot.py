"""The snapshots of a Raft node: one file each, ``snapshot-<index>-<term>``, of which the two newest are kept.

Pure.  It must not know the log.  A file is written beside, synced, renamed and its directory synced, so one with its
real name is whole; what another start finds with ``.tmp`` behind its name is removed.  The data stand in blocks with a
checksum each, so that a part can be read, and is checked, without the rest; the header has the checksum of all.
"""

from __future__ import annotations

import re

import attrs

from rocketha.errors import CorruptStore
from rocketha.store.disk import Disk, File
from rocketha.store.raft_state import check_owner
from rocketha.wire import raft_records
from rocketha.wire.crc import crc32
from rocketha.wire.raft_entries import Compacted, Members, SnapshotMeta
from rocketha.wire.raft_records import PREFIX_BYTES, SnapshotHeader
from rocketha.wire.spec.raft_log import SNAPSHOT_BLOCK_BYTES, SNAPSHOT_HEADER_BYTES_MAX

KEPT = 2
"""Snapshots kept: a transfer of the older one can end while a newer one is made, and one may rot."""

WRITE_BLOCKS = 64
"""Blocks of a snapshot that are written at once."""

PREFIX = "snapshot-"
_NAME = re.compile(r"snapshot-\d{20}-\d{20}")


@attrs.frozen
class SnapshotFile:
    """A snapshot on the disk.

    :ivar meta: what it is about.
    :ivar length: bytes of data.
    :ivar data_crc: CRC-32 of the data.
    :ivar blocks_at: where the first block begins.
    """

    path: str
    meta: SnapshotMeta
    length: int
    data_crc: int
    blocks_at: int

    def read(self, disk: Disk, offset: int, size: int) -> bytes:
        """Data bytes from ``offset``: ``size``, fewer only at the end.

        :raises CorruptStore: a block is damaged; it is not served.
        """
        size = min(size, self.length - offset)
        if offset < 0 or size <= 0:
            return b""
        first, last = offset // SNAPSHOT_BLOCK_BYTES, (offset + size - 1) // SNAPSHOT_BLOCK_BYTES
        file = disk.open(self.path)
        try:
            data = b"".join(self._block(file, number) for number in range(first, last + 1))
        finally:
            file.close()
        start = offset - first * SNAPSHOT_BLOCK_BYTES
        return data[start : start + size]

    def check(self, disk: Disk) -> None:
        """Read it all.

        :raises CorruptStore: it is damaged.
        """
        file = disk.open(self.path)
        crc = 0
        try:
            blocks = -(-self.length // SNAPSHOT_BLOCK_BYTES)
            for number in range(blocks):
                crc = crc32(self._block(file, number), crc)
            wanted = self.blocks_at + blocks * 4 + self.length
            if file.size() != wanted:
                raise CorruptStore(self.path, file.size(), f"the file has {file.size()} bytes, {wanted} were written")
        finally:
            file.close()
        if crc != self.data_crc:
            raise CorruptStore(self.path, self.blocks_at, "the checksum of the data does not match")

    def _block(self, file: File, number: int) -> bytes:
        at = self.blocks_at + number * (4 + SNAPSHOT_BLOCK_BYTES)
        size = min(SNAPSHOT_BLOCK_BYTES, self.length - number * SNAPSHOT_BLOCK_BYTES)
        block = file.read(at, 4 + size)
        if len(block) != 4 + size:
            raise CorruptStore(self.path, at, f"the file ends within block {number}")
        seed = raft_records.block_seed(self.meta.index, self.meta.term, number)
        return raft_records.parse_block(block, seed, lambda reason: CorruptStore(self.path, at, reason))


class Snapshots:
    """The snapshots of a directory.

    :ivar files: good ones, oldest first.
    :ivar problems: what was wrong with the others.
    """

    def __init__(self, disk: Disk, directory: str, owner: tuple[str, str]) -> None:
        self._disk = disk
        self._directory = directory
        self._owner = owner
        self.files: list[SnapshotFile] = []
        self.problems: list[CorruptStore] = []

    @property
    def newest(self) -> SnapshotFile | None:
        """The newest good one."""
        return self.files[-1] if self.files else None

    def load(self, names: list[str]) -> None:
        """Find and check the snapshots among these names.

        :raises ConfigError: one is another node's.
        """
        for name in sorted(names):
            if _NAME.fullmatch(name):
                try:
                    self.files.append(self._open(f"{self._directory}/{name}"))
                except CorruptStore as problem:
                    self.problems.append(problem)

    def _open(self, path: str) -> SnapshotFile:
        owner, found = open_snapshot(self._disk, path)
        check_owner(path, owner, self._owner)
        if path != self._path(found.meta):
            raise CorruptStore(path, 0, f"the snapshot is that of {found.meta.index} in term {found.meta.term}")
        found.check(self._disk)
        return found

    def write(self, meta: SnapshotMeta, data: bytes) -> SnapshotFile:
        """Put a snapshot on the disk: whole, and under its name, when this returns.

        :raises DiskFailure: it is not there; what was written is removed by the next attempt, or start.
        """
        return write_snapshot(self._disk, self._path(meta), self._owner, meta, data)

    def add(self, file: SnapshotFile) -> None:
        """A snapshot that was written is the newest now; older ones than the last two are removed."""
        self.files = [each for each in self.files if each.path != file.path] + [file]
        keep = {each.path for each in self.files[-KEPT:]}
        for name in self._disk.list(self._directory):
            path = f"{self._directory}/{name}"
            if _NAME.fullmatch(name) and path not in keep and path < file.path:
                self._disk.remove(path)
        self.files = self.files[-KEPT:]

    def get(self, index: int | None) -> SnapshotFile:
        """The newest one, or that of ``index``.

        :raises Compacted: it is not there.
        """
        for file in reversed(self.files):
            if index is None or file.meta.index == index:
                return file
        raise Compacted(f"there is no snapshot at {index}" if index is not None else "there is no snapshot yet")

    def read(self, offset: int, size: int, index: int | None) -> bytes:
        """Data of one; see :meth:`SnapshotFile.read`."""
        return self.get(index).read(self._disk, offset, size)

    def _path(self, meta: SnapshotMeta) -> str:
        return f"{self._directory}/{PREFIX}{meta.index:020d}-{meta.term:020d}"


def open_snapshot(disk: Disk, path: str) -> tuple[tuple[str, str], SnapshotFile]:
    """Group and node that a file was written for, and what it holds: the header is good, the data are not read yet.

    :raises CorruptStore: it is no snapshot, or its header is damaged.
    """

    def refuse(reason: str) -> CorruptStore:
        return CorruptStore(path, 0, reason)

    file = disk.open(path)
    try:
        prefix = file.read(0, PREFIX_BYTES)
        data = file.read(0, raft_records.header_bytes(prefix, SNAPSHOT_HEADER_BYTES_MAX, refuse))
    finally:
        file.close()
    header = raft_records.parse_snapshot_header(data, refuse)
    meta = SnapshotMeta(header.index, header.term, Members.decode(header.members, refuse))
    return (header.group, header.node), SnapshotFile(path, meta, header.length, header.data_crc, header.header_bytes)


def write_snapshot(disk: Disk, path: str, owner: tuple[str, str], meta: SnapshotMeta, data: bytes) -> SnapshotFile:
    """Put a snapshot into a file: whole, and under its name, when this returns.

    :param owner: the group, and the node in it.
    :raises DiskFailure: it is not there; what was written has ``.tmp`` behind its name.
    """
    members, crc = meta.members.encode(), crc32(data)
    header = raft_records.build_snapshot_header(SnapshotHeader(meta.index, meta.term, len(data), crc, *owner, members))
    temporary = f"{path}.tmp"
    if disk.exists(temporary):
        disk.remove(temporary)
    file = disk.create(temporary, 0)
    try:
        file.write(0, [header])
        at, view = len(header), memoryview(data)
        for start in range(0, len(data), WRITE_BLOCKS * SNAPSHOT_BLOCK_BYTES):
            blocks = []
            end = min(len(data), start + WRITE_BLOCKS * SNAPSHOT_BLOCK_BYTES)
            for block in range(start, end, SNAPSHOT_BLOCK_BYTES):
                seed = raft_records.block_seed(meta.index, meta.term, block // SNAPSHOT_BLOCK_BYTES)
                blocks.append(raft_records.build_block(view[block : block + SNAPSHOT_BLOCK_BYTES], seed))
            file.write(at, blocks)
            at += sum(map(len, blocks))
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_dir(path.rpartition("/")[0] or "/")
    return SnapshotFile(path, meta, len(data), crc, len(header))
