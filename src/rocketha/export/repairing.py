"""An export becomes again what it was when it was written, from whoever still has the bytes.

Pure.  Theory of operation.  Nothing is believed because of where it comes from: the broker's store, another replica's,
or another export is asked for a block, a cut or a small file, and what matches the digest in the manifest is right.
What only repeats the log is made of it again.  So a repair may end anywhere, and be done again.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import attrs

from rocketha.errors import CorruptStore, DiskFailure
from rocketha.export import log_bytes
from rocketha.export.blocks import digest_of, spans
from rocketha.export.manifest import Block, Cut, Manifest, SmallFile
from rocketha.export.source import Source
from rocketha.export.target import LOCK
from rocketha.export.verifying import Fault, Verifier
from rocketha.store import atomic_file
from rocketha.store.disk import Disk
from rocketha.wire.limits import TABLE_FILE_BYTES_MAX

ROUNDS_MAX = 3
"""The log, what repeats it, and a look at both."""

T = TypeVar("T")


class Origin(Protocol):
    """Who may still have what an export has lost; what it gives need not be right."""

    def log(self, wanted: Manifest, begin: int, end: int) -> bytes:
        """Bytes of the log, as the export that ``wanted`` is of holds them."""

    def cut(self, wanted: Manifest, cut: Cut) -> Iterator[bytes]:
        """What was taken back, in pieces: it may be most of a log."""

    def small_file(self, path: str) -> bytes:
        """A whole file, by its path in an export; nothing where it is not there."""


@attrs.frozen
class StoreOrigin:
    """A broker's store, its own or a replica's."""

    source: Source

    def log(self, wanted: Manifest, begin: int, end: int) -> bytes:
        return log_bytes.of_store(self.source.disk, self.source.segments(), wanted, begin, end)

    def cut(self, wanted: Manifest, cut: Cut) -> Iterator[bytes]:
        return _pieces(self.log, attrs.evolve(wanted, segments=cut.segments), cut)

    def small_file(self, path: str) -> bytes:
        return dict(self.source.small_files()).get(path, b"")


class ExportOrigin:
    """Another export, of this replica or another one."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """
        :raises ConfigError: there is none.
        :raises CorruptStore: it has no manifest to believe.
        """
        self._disk, self._directory = disk, directory
        self._manifest = Verifier(disk, directory).believed()

    def log(self, wanted: Manifest, begin: int, end: int) -> bytes:
        return log_bytes.of_export(self._disk, self._directory, self._manifest, begin, end)

    def cut(self, wanted: Manifest, cut: Cut) -> Iterator[bytes]:
        for each in self._manifest.cuts:
            path = f"{self._directory}/{each.path}"
            if each.sha256 == cut.sha256 and self._has(path):
                return self._read(path, each.end - each.begin)
        return _pieces(self.log, wanted, cut)

    def _read(self, path: str, size: int) -> Iterator[bytes]:
        with contextlib.closing(self._disk.open(path)) as file:
            for begin, end in spans(0, size):
                yield file.read(begin, end - begin)

    def small_file(self, path: str) -> bytes:
        name = f"{self._directory}/{path}"
        there = self._has(name) and self._disk.size(name) <= TABLE_FILE_BYTES_MAX
        return self._disk.read_all(name, TABLE_FILE_BYTES_MAX) if there else b""

    def _has(self, path: str) -> bool:
        return self._disk.exists(path) and not self._disk.is_link(path)


def _pieces(log: Callable[[Manifest, int, int], bytes], wanted: Manifest, cut: Cut) -> Iterator[bytes]:
    """Ends where a piece is not all there."""
    for begin, end in spans(cut.begin, cut.end):
        yield (data := log(wanted, begin, end))
        if len(data) < end - begin:
            return


class Repairer:
    """Of one export.

    :ivar manifest: None before the run, and where there is none to believe.
    :ivar found: what was wrong.
    :ivar left: what still is.
    :ivar unreadable: what of origins could not be read; another one was asked.
    """

    def __init__(self, disk: Disk, directory: str, origins: Sequence[Origin]) -> None:
        self.manifest: Manifest | None = None
        self.found: list[Fault] = []
        self.left: list[Fault] = []
        self.unreadable: list[str] = []
        self._disk, self._directory, self._origins = disk, directory, origins

    def run(self) -> Iterator[int]:
        """Mend what can be; yields how many bytes of the log were looked at in this round.

        :raises ConfigError: there is no export.
        :raises DiskFailure: of the export, or of an origin that could be read just before; the same can be done again.
        """
        verifier = Verifier(self._disk, self._directory)
        verifier.refuse_others()
        lock = self._disk.lock(f"{self._directory}/{LOCK}")
        try:
            for _ in range(ROUNDS_MAX):
                for done in verifier.run():
                    self.manifest = verifier.manifest
                    yield done
                manifest = self.manifest = verifier.manifest
                self.left = list(verifier.faults)
                self.found += [each for each in self.left if each not in self.found]
                mended = [manifest is not None and self._mend(manifest, each) for each in self.left]
                if not any(mended):
                    return
        finally:
            lock.release()

    def _mend(self, manifest: Manifest, fault: Fault) -> bool:
        """Whether something was written."""
        lost = fault.lost
        if isinstance(lost, bytes):
            return self._save(fault.path, lost)
        if isinstance(lost, SmallFile):
            path, sha256 = lost.path, lost.sha256
            return self._save(fault.path, self._proven(lambda origin: origin.small_file(path), sha256))
        if isinstance(lost, Cut):
            return self._save_cut(manifest, lost)
        mended = [self._mend_block(manifest, each) for each in lost]
        return any(mended)

    def _mend_block(self, manifest: Manifest, block: Block) -> bool:
        data = self._proven(lambda origin: origin.log(manifest, block.begin, block.end), block.sha256)
        if data is None:
            return False
        for base, begin, end in log_bytes.in_files(block.begin, block.end, manifest.file_size):
            name = manifest.log_name(base)
            path = f"{self._directory}/{name}"
            if self._disk.is_link(path):
                self._disk.remove(path)
            atomic_file.make_dirs(self._disk, path.rpartition("/")[0])
            file = self._disk.open(path) if self._disk.exists(path) else self._disk.create(path, 0)
            try:
                file.write(begin - base, [data[begin - block.begin : end - block.begin]])
                file.sync()
            finally:
                file.close()
            self._disk.sync_dir(path.rpartition("/")[0])
        return True

    def _offers(self, ask: Callable[[Origin], T]) -> Iterator[tuple[Origin, T]]:
        """What each says; one that has a bad sector does not keep the others from being asked."""
        for origin in self._origins:
            try:
                offer = ask(origin)
            except (DiskFailure, CorruptStore) as failure:
                if str(failure) not in self.unreadable:
                    self.unreadable.append(str(failure))
            else:
                yield origin, offer

    def _proven(self, ask: Callable[[Origin], bytes], sha256: str) -> bytes | None:
        """The first that matches the digest."""
        return next((data for _, data in self._offers(ask) if hashlib.sha256(data).hexdigest() == sha256), None)

    def _save_cut(self, manifest: Manifest, cut: Cut) -> bool:
        """Only what matches the digest gets the name; it is read first, so that nothing else is written in vain."""
        offers = self._offers(lambda origin: digest_of(origin.cut(manifest, cut)))
        origin = next((each for each, sha256 in offers if sha256 == cut.sha256), None)
        if origin is None:
            return False
        path = f"{self._directory}/{cut.path}"
        atomic_file.make_dirs(self._disk, path.rpartition("/")[0])
        temporary = f"{path}.tmp"
        if self._disk.is_link(temporary) or self._disk.exists(temporary):
            self._disk.remove(temporary)
        digest, at = hashlib.sha256(), 0
        with contextlib.closing(self._disk.create(temporary, 0)) as file:
            for piece in origin.cut(manifest, cut):
                file.write(at, [piece])
                digest.update(piece)
                at += len(piece)
            file.sync()
        if digest.hexdigest() != cut.sha256:  # the origin is being written
            self._disk.remove(temporary)
            return False
        self._disk.rename(temporary, path)
        self._disk.sync_dir(path.rpartition("/")[0])
        return True

    def _save(self, name: str, data: bytes | None) -> bool:
        if data is None:
            return False
        path = f"{self._directory}/{name}"
        atomic_file.make_dirs(self._disk, path.rpartition("/")[0])
        atomic_file.replace(self._disk, path, data)
        return True
