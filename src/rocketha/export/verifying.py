"""Whether an export still is what was written: each file and byte that its manifest names.

Pure; it only reads.  Theory of operation.  The manifest has a digest of itself, and stands in the directory twice.  It
has digests of the log's blocks, of what was cut and of the small files.  What is right of the log says where its
records begin, so the files that repeat that are compared with it.
"""

from __future__ import annotations

import array
import hashlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator

import attrs

from rocketha.errors import ConfigError, CorruptStore, RemoteProtocolError
from rocketha.export import log_bytes
from rocketha.export.blocks import digest_of, spans
from rocketha.export.layouts import LAYOUTS
from rocketha.export.manifest import (
    BLOCK_BYTES,
    COMMITLOG,
    COPY,
    DLEDGER,
    FILE_BYTES_MAX,
    NAME,
    Block,
    Cut,
    Manifest,
    Segment,
    SmallFile,
    decode,
    offsets_name,
)
from rocketha.export.scan import HEAD_BYTES, decoded, marked
from rocketha.export.target import LOCK, is_export
from rocketha.store.disk import Disk
from rocketha.wire.limits import TABLE_FILE_BYTES_MAX
from rocketha.wire.record import Blank

DIRECTORIES = (COMMITLOG, DLEDGER, "offsets", "cuts", "config")

MISSING, CHANGED = "it is missing", "it does not match the digest of when it was written"

Read = Callable[[int, int], bytes]
"""The log's bytes from one place to another."""


Lost = bytes | tuple[Block, ...] | Cut | SmallFile
"""What a fault needs to be mended: what the file has to have, which follows from the rest of the export; or what it is
that must be had from elsewhere: blocks of the log, what was taken back, a small file."""


@attrs.frozen
class Fault:
    """Something that is not as it was written.

    :ivar path: of the file, in the export.
    :ivar offset: in that file, of the first byte that is known to be wrong, or to be missing.
    """

    path: str
    offset: int
    what: str
    lost: Lost = attrs.field(repr=False)

    def __str__(self) -> str:
        return f"{self.path} at byte {self.offset}: {self.what}"


class Verifier:
    """Of one export.

    :ivar manifest: None before the run, and where there is none to believe.
    :ivar faults: that were found so far.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self.manifest: Manifest | None = None
        self.faults: list[Fault] = []
        self._disk, self._directory = disk, directory

    def run(self) -> Iterator[int]:
        """Look at everything; yields how many bytes of the log have been looked at.

        :raises ConfigError: there is no export.
        :raises DiskFailure: a file is there, and cannot be read.
        """
        self.faults.clear()
        manifest = self.manifest = self._look_at_manifests()
        if manifest is None:
            return
        self._look_at_small_files(manifest)
        yield from self._look_at_log(manifest)
        damaged = [block for each in self.faults if isinstance(each.lost, tuple) for block in each.lost]
        for segment in manifest.segments:
            if not any(block.begin < segment.end and block.end > segment.begin for block in damaged):
                self._look_at_offsets(offsets_name(segment.base), self._read, manifest, [segment], ())
                yield segment.end - manifest.begin
        for cut in manifest.cuts:
            self._look_at_cut(manifest, cut)
        if self.faults and self._manifests()[0].get(NAME, (manifest, b""))[0] != manifest:
            raise ConfigError(f"{self._directory} was written meanwhile; look again when that has ended")

    # --- the manifest

    def refuse_others(self) -> None:
        """
        :raises ConfigError: there is no export, or a directory in it or its lock is a link.
        """
        if not is_export(self._disk, self._directory):
            raise ConfigError(f"{self._directory} is no export: it has no {NAME}")
        self._refuse_links((*DIRECTORIES, LOCK))

    def _refuse_links(self, names: Iterable[str]) -> None:
        for name in names:
            if self._disk.is_link(f"{self._directory}/{name}"):
                raise ConfigError(f"{self._directory}/{name} is a symbolic link, which no export has")

    def believed(self) -> Manifest:
        """The manifest, or its copy.

        :raises ConfigError: there is no export.
        :raises CorruptStore: it has neither.
        """
        manifest = self._look_at_manifests()
        if manifest is None:
            raise CorruptStore(f"{self._directory}/{NAME}", 0, "there is no manifest to believe, nor a copy of it")
        return manifest

    def _look_at_manifests(self) -> Manifest | None:
        """The one to believe."""
        self.refuse_others()
        found, problems = self._manifests()
        manifest, data = found.get(NAME) or found.get(COPY) or (None, b"")
        for name, problem in problems.items():
            if name == NAME or manifest is None or manifest.copied:
                self._add(name, 0, problem, data)  # not encoded again: a later version's has members unknown here
        return manifest

    def _manifests(self) -> tuple[dict[str, tuple[Manifest, bytes]], dict[str, str]]:
        """Those that are sound, with their bytes, and what is wrong with the others, by their names."""
        found: dict[str, tuple[Manifest, bytes]] = {}
        problems: dict[str, str] = {}
        for name in (NAME, COPY):
            path = f"{self._directory}/{name}"
            if self._disk.is_link(path) or not self._disk.exists(path):
                problems[name] = MISSING
                continue
            try:
                data = self._disk.read_all(path, FILE_BYTES_MAX)
                found[name] = decode(data, path), data
            except CorruptStore as error:
                problems[name] = error.reason
        return found, problems

    # --- the log

    def _read(self, begin: int, end: int) -> bytes:
        assert self.manifest is not None
        return log_bytes.of_export(self._disk, self._directory, self.manifest, begin, end)

    def _look_at_log(self, manifest: Manifest) -> Iterator[int]:
        missing: set[Block] = set()
        for segment in manifest.segments:
            name, size = manifest.log_name(segment.base), segment.end - segment.base
            there = self._size(name)
            if there < size:
                begin = max(segment.begin, segment.base + there)
                lost = tuple(each for each in manifest.blocks if each.begin < segment.end and each.end > begin)
                self._add(name, there, _ends(there, size), lost)
                missing.update(lost)
        for block in manifest.blocks:
            if block not in missing:
                data = self._read(block.begin, block.end)
                if hashlib.sha256(data).hexdigest() != block.sha256:
                    self._add_block(manifest, block, data)
            yield block.end - manifest.begin

    def _add_block(self, manifest: Manifest, block: Block, data: bytes) -> None:
        """It is not what it was: where, as far as its records tell."""
        lead = LAYOUTS[manifest.layout_of(block.begin - block.begin % manifest.file_size)].files.head_bytes
        at = block.begin + _first_bad(data, block.begin, lead)
        base = at - at % manifest.file_size
        what = f"bytes {block.begin} to {block.end} of the log do not match the digest of when they were written"
        self._add(manifest.log_name(base), at - base, what, (block,))

    # --- what else there is

    def _look_at_cut(self, manifest: Manifest, cut: Cut) -> None:
        size = cut.end - cut.begin
        there = self._size(cut.path)
        if there < size:
            self._add(cut.path, there, _ends(there, size), cut)
            return
        read = self._read_cut(cut)
        if cut.sha256 and digest_of(read(*each) for each in spans(cut.begin, cut.end)) != cut.sha256:
            self._add(cut.path, 0, CHANGED, cut)
            return
        self._look_at_offsets(f"{cut.path}.offsets", read, manifest, cut.segments, cut)

    def _read_cut(self, cut: Cut) -> Read:
        return lambda begin, end: self._piece(cut.path, begin - cut.begin, end - begin)

    def _look_at_small_files(self, manifest: Manifest) -> None:
        for each in manifest.files:
            self._refuse_links(itertools.accumulate(each.path.split("/")[:-1], "{}/{}".format))
            there = self._size(each.path)
            if not there and each.size:
                self._add(each.path, 0, MISSING, each)
                continue
            data = self._piece(each.path, 0, min(there, TABLE_FILE_BYTES_MAX)) if there else b""
            if not manifest.has_been(each, data):
                self._add(each.path, 0, CHANGED, each)

    def _look_at_offsets(
        self, name: str, read: Read, manifest: Manifest, segments: Iterable[Segment], of: Lost
    ) -> None:
        try:
            wanted = offsets_of(read, manifest, segments)
        except CorruptStore as error:  # a cut by an earlier version, which took no digest
            path = of.path if isinstance(of, Cut) else error.path
            self._add(path, error.offset, error.reason, of)
        else:
            self._compare(name, wanted)

    def _compare(self, name: str, wanted: bytes) -> None:
        """A file that repeats what the log says."""
        data = self._piece(name, 0, len(wanted)) if self._size(name) else b""
        if data == wanted:
            return
        at = next((at for at, pair in enumerate(zip(data, wanted, strict=False)) if pair[0] != pair[1]), len(data))
        if at < len(data):
            self._add(name, at - at % 4, "no record begins there", wanted)
        elif data or wanted:
            self._add(name, at, _ends(at, len(wanted)), wanted)

    def _add(self, name: str, offset: int, what: str, lost: Lost) -> None:
        self.faults.append(Fault(name, offset, what, lost))

    def _size(self, name: str) -> int:
        """Of a file; 0 where there is none, or a link."""
        path = f"{self._directory}/{name}"
        return 0 if self._disk.is_link(path) or not self._disk.exists(path) else self._disk.size(path)

    def _piece(self, name: str, offset: int, size: int) -> bytes:
        file = self._disk.open(f"{self._directory}/{name}")
        try:
            return bytes(file.read(offset, size))
        finally:
            file.close()


def _ends(there: int, wanted: int) -> str:
    return f"it ends there, and {wanted} bytes were written" if there else MISSING


def _first_bad(data: bytes, offset: int, lead: int) -> int:
    """Where in a piece of a log the first record stands that is damaged, as far as records tell; 0: they do not.

    :param offset: log offset of the piece.
    :param lead: bytes before each record, of its entry.
    """
    expected = 0
    for at in sorted(marked(data, offset)):
        if at < expected:
            continue  # a body that looks like a record
        if expected and at > expected and not _ends_file(data, expected):
            return expected
        total = int.from_bytes(data[at : at + 4], "big")
        if total > len(data) - at:
            return 0
        try:
            decoded(data, at, False)
        except RemoteProtocolError:
            return at
        expected = at + total + lead
    return expected if expected + HEAD_BYTES <= len(data) and not _ends_file(data, expected) else 0


def _ends_file(data: bytes, at: int) -> bool:
    """Whether what stands there says that a file of records ends."""
    try:
        return isinstance(decoded(data, at, False)[0], Blank)
    except RemoteProtocolError:
        return False


def offsets_of(read: Read, manifest: Manifest, segments: Iterable[Segment]) -> bytes:
    """Where records begin in their files, as an export keeps it: four bytes each.

    :param read: gives bytes of the log, which are right.
    :raises CorruptStore: they are not those that the manifest counted.
    """
    found = array.array("I")
    for segment in segments:
        files, position = LAYOUTS[manifest.layout_of(segment.base)].files, segment.begin
        begin, data = position, b""
        while position < segment.records_end:
            at = position - begin
            if len(data) - at < files.size_at + 4:
                begin, data, at = position, read(position, min(segment.records_end, position + BLOCK_BYTES)), 0
            size = int.from_bytes(data[at + files.size_at : at + files.size_at + 4], "big")
            if not files.head_bytes <= size <= segment.records_end - position or not size:
                path = manifest.log_name(segment.base)
                raise CorruptStore(path, position - segment.base, f"{size} bytes are none of a record")
            if size > files.head_bytes:
                found.append(position - segment.base)
            position += size
    if sys.byteorder == "little":
        found.byteswap()
    return found.tobytes()
