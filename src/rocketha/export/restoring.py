"""An export becomes a broker's store again: its log in files of full size, its topics, groups and offsets.

Pure.  Theory of operation.  Every byte is digested as it is read, and again as it stands in the new files once they are
synced; both must be what the manifest says.  The log gets its name last, so that no broker starts on a part of it, and
the store's lock is held meanwhile.  Queues and index are not exported: the broker makes them at its first start, as
after their directories were removed.

What the broker was in its group is not restored: an ``epochFileCheckpoint`` or ``brokerIdentity`` would let controllers
take an old copy for the member that it was, which is known to hold what was acknowledged since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rocketha.errors import ConfigError, CorruptStore
from rocketha.export.blocks import Digests
from rocketha.export.manifest import BLOCK_BYTES, COMMITLOG, FILE_BYTES_MAX, NAME, Block, Segment, decode
from rocketha.export.target import FILE_SYSTEMS, LOCK
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.wire.limits import TABLE_FILE_BYTES_MAX

CONFIG = "config/"
UNFINISHED = "commitlog.restoring"
"""The log's directory until it is whole."""


class Restorer:
    """Of one export into one directory.

    :ivar manifest: the export's.
    """

    def __init__(self, source: Disk, export: str, target: Disk, directory: str) -> None:
        """
        :raises ConfigError: there is no export, or it is of a kind that cannot be restored.
        :raises CorruptStore: its manifest is damaged.
        """
        path = f"{export}/{NAME}"
        if not source.exists(path):
            raise ConfigError(f"{export} is no export: it has no {NAME}")
        self.manifest = decode(source.read_all(path, FILE_BYTES_MAX), path)
        self._source, self._export = source, export
        self._target, self._directory = target, directory
        self._check_manifest()

    def _check_manifest(self) -> None:
        manifest = self.manifest
        if manifest.layout != COMMITLOG:
            raise ConfigError(
                f"{self._export} is of a log of DLedger's: only one of an ordinary broker can be restored"
            )
        for segment in manifest.segments:
            if segment.corrupt:
                raise ConfigError(
                    f"{self._export}: {segment.corrupt} messages in file {segment.base:020d} do not match their CRC; a"
                    " broker would cut its log there"
                )
        if manifest.segments and manifest.begin != manifest.segments[0].base:
            raise ConfigError(f"{self._export} begins at {manifest.begin}, which is not the begin of a file")

    def run(self) -> Iterator[int]:
        """Restore; yields how many bytes of the log are done, of twice as many as there are.

        :raises ConfigError: the directory has something in it.
        :raises CorruptStore: the export is damaged, or what was written reads otherwise.
        :raises DiskFailure: of either side; the same can be done again.
        """
        target, directory = self._target, self._directory
        unfinished = f"{directory}/{UNFINISHED}"
        self._refuse_others()
        atomic_file.make_dirs(target, directory)
        lock = target.lock(f"{directory}/{LOCK}")
        try:
            if target.exists(unfinished):
                target.remove_tree(unfinished)
            atomic_file.make_dirs(target, unfinished)
            yield from self._copy(unfinished)
            target.sync_dir(unfinished)
            yield from self._compare(unfinished)
            self._small_files()
            target.rename(unfinished, f"{directory}/{COMMITLOG}")
            target.sync_dir(directory)
        finally:
            lock.release()

    def _refuse_others(self) -> None:
        target, directory = self._target, self._directory
        if not target.exists(directory):
            return
        if not target.is_dir(directory):
            raise ConfigError(f"{directory} is no directory")
        names = {*target.list(directory)} - {*FILE_SYSTEMS}
        broken_off = UNFINISHED in names and names <= {UNFINISHED, CONFIG.rstrip("/"), LOCK}
        if names - {LOCK} and not broken_off:
            raise ConfigError(f"{directory} is not empty: a store is restored to a directory of its own")

    def _copy(self, unfinished: str) -> Iterator[int]:
        manifest, digests = self.manifest, Digests(self.manifest.begin)
        for segment in manifest.segments:
            file = self._target.create(f"{unfinished}/{segment.base:020d}", manifest.file_size)
            try:
                for offset, data in _pieces(self._source, self._exported(segment), segment):
                    digests.add(data)
                    self._check(digests, self._exported(segment), "the export is damaged")
                    file.write(offset, [data])
                    yield digests.end - manifest.begin
                file.sync()
            finally:
                file.close()
        self._check(digests, self._export, "the export is damaged", whole=True)

    def _compare(self, unfinished: str) -> Iterator[int]:
        manifest, digests = self.manifest, Digests(self.manifest.begin)
        copied = manifest.end - manifest.begin
        for segment in manifest.segments:
            path = f"{unfinished}/{segment.base:020d}"
            for _, data in _pieces(self._target, path, segment):
                digests.add(data)
                self._check(digests, path, "what was written is not what is read")
                yield copied + digests.end - manifest.begin
        self._check(digests, unfinished, "what was written is not what is read", whole=True)

    def _check(self, digests: Digests, path: str, problem: str, whole: bool = False) -> None:
        """Compare what is digested with the manifest: full blocks, or all."""
        wanted: Sequence[Block] = self.manifest.blocks
        found = digests.blocks()
        count = len(found) if whole or not digests.end % BLOCK_BYTES else len(found) - 1
        if found[:count] != tuple(wanted[:count]) or (whole and len(wanted) != count):
            begin = next((each.begin for each, other in zip(found, wanted) if each != other), digests.end)
            raise CorruptStore(path, begin % self.manifest.file_size, f"{problem}: the log's bytes from {begin} on")

    def _small_files(self) -> None:
        for each in self.manifest.files:
            path = f"{self._export}/{each.path}"
            data = self._source.read_all(path, TABLE_FILE_BYTES_MAX)
            if not self.manifest.has_been(each, data):
                raise CorruptStore(path, 0, "it does not match the digest in the manifest")
            if each.path.startswith(CONFIG):
                atomic_file.make_dirs(self._target, f"{self._directory}/{CONFIG.rstrip('/')}")
                atomic_file.save(self._target, f"{self._directory}/{each.path}", data, backup=False)

    def _exported(self, segment: Segment) -> str:
        return f"{self._export}/{COMMITLOG}/{segment.base:020d}"


def _pieces(disk: Disk, path: str, segment: Segment) -> Iterator[tuple[int, bytes]]:
    """Places within a file, and the bytes of its segment from there on.

    :raises CorruptStore: the file is too short.
    """
    file = disk.open(path)
    try:
        offset, end = segment.begin - segment.base, segment.end - segment.base
        while offset < end:
            data = file.read(offset, min(BLOCK_BYTES, end - offset))
            if not data:
                raise CorruptStore(path, offset, f"the file ends, the manifest says that it has {end} bytes")
            yield offset, bytes(data)
            offset += len(data)
    finally:
        file.close()
