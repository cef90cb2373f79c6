"""One run of an export: what the broker has and the export has not is copied, what it took back is put aside.

Pure.  Theory of operation.  A run goes on where the manifest ends, in these steps:

1. The directory is new, empty, or an export of this store; else it is refused, unchanged.  A new one gets a manifest
   before anything else.
2. The export's last block is compared with the broker's bytes, and the blocks before it until one is equal.  Where
   they part the broker was a replica that cut its log: those records are kept under ``cuts/``, and go from the export.
   That is believed only of bytes that match the export's own digests, and of a log that has records in common with it.
3. Records are read, checked and copied in pieces of a block; the manifest is saved every few seconds, at the end of
   each file, and when the run is told to stop.
4. Step 2 again, since the broker runs on: while it finds a cut, steps 3 and 4.
5. The small files, the epochs and the manifest.

At any moment the manifest names only bytes that are synced, so a run may end anywhere: by a signal, a full disk, a
power cut.  Files are removed or written over only if a manifest names them, or says that they are being written; what
stands in a file behind the manifest's end is of a run that broke off, and is cut away when the broker's file is read
again.  Nobody else may write to the export meanwhile; its lock says so.

A broker writes while it is read.  In the newest file each piece is read twice, and only what both have counts: what a
first look found whole was written before the second one.  ``scan.is_torn`` says what is not known of the last record.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

import attrs

from rocketha.errors import ConfigError, CorruptStore, RemoteProtocolError, RockethaError
from rocketha.export import log_bytes
from rocketha.export.blocks import Digests, spans, within
from rocketha.export.layouts import LAYOUTS, Layout
from rocketha.export.manifest import (
    BLOCK_BYTES,
    COMMITLOG,
    COPY,
    DLEDGER,
    FILE_BYTES_MAX,
    NAME,
    Block,
    Cut,
    EpochRange,
    Manifest,
    Segment,
    SmallFile,
    decode,
    encode,
    offsets_name,
)
from rocketha.export.scan import END_OF_FILE_BYTES, Tally
from rocketha.export.source import SMALL_FILES, Identity, Source
from rocketha.export.target import LOCK, refuse_foreign
from rocketha.store import atomic_file
from rocketha.store.disk import Disk, File

ROUNDS_MAX = 100
"""A log that is cut as often while it is exported is no log to export."""

SAVE_EVERY_MS = 4000
"""What was copied since the manifest was saved is copied again after a kill."""

LOOKS = 5
"""At what is no record, before it counts as damage: a broker may be writing it."""
PAUSE_MS = 50


class ExportGap(RockethaError):
    """The broker deleted messages that were not exported yet."""


class Progress(NamedTuple):
    """After a piece.

    :ivar position: log offset up to which records are exported.
    :ivar end: where the broker's last file ends: it has less.
    :ivar read: bytes read of the broker's store for this piece.
    :ivar pause_ms: what comes next is no record: wait so long, as it may have been seen half written.
    """

    position: int
    end: int
    read: int
    pause_ms: int = 0


class Exporter:
    """Of one store into one directory.

    :ivar manifest: as it was saved last; None before the first run has saved one.
    """

    def __init__(
        self, source: Source, target: Disk, directory: str, now_ms: Callable[[], int], corrupt_too: bool = False
    ) -> None:
        """
        :param now_ms: since 1970.
        :param corrupt_too: copy records that do not match their CRC, and count them; else the run ends there.
        """
        self.manifest: Manifest | None = None
        self._source = source
        self._target = target
        self._directory = directory
        self._now_ms = now_ms
        self._corrupt_too = corrupt_too
        self._stopping = False

    # --- the run

    def run(self, identity: Identity, replica: str = "") -> Iterator[Progress]:
        """Export what there is; ends when all steps are done, or soon after :meth:`stop`.

        :param identity: what is not empty or 0 stands for what the store says of itself.
        :raises ConfigError: the directory is not empty and no export, or that of another broker.
        :raises CorruptStore: a record is damaged, a file is none of a log, the manifest is none, or the export was
            damaged since it was written.
        :raises ExportGap: what comes next was deleted.
        :raises DiskFailure: of either side.
        """
        refuse_foreign(self._target, self._directory, (self._source.root, *self._source.logs))
        self._load(identity, replica)
        self._refuse_links((NAME, LOCK))
        atomic_file.make_dirs(self._target, self._directory)
        lock = self._target.lock(f"{self._directory}/{LOCK}")
        try:
            manifest = self.manifest = self._load(identity, replica)  # another run may have ended just now
            if not self._target.exists(f"{self._directory}/{NAME}"):
                self._save(manifest)
            self._look_at_files(manifest)
            for _ in range(ROUNDS_MAX):
                self._rejoin()
                for name in (*self._layout_names, "offsets", "config"):
                    atomic_file.make_dirs(self._target, f"{self._directory}/{name}")
                yield from self._copy()
                if self._stopping:
                    return
                if self._parted() is None:
                    break
            else:
                raise ConfigError(f"the log was cut {ROUNDS_MAX} times while it was exported")
            self._finish()
        finally:
            lock.release()

    def stop(self) -> None:
        """Let the run end with what it has copied, in the manifest; the next one goes on there."""
        self._stopping = True

    def _load(self, identity: Identity, replica: str) -> Manifest:
        """The manifest that is there; of a directory without one, what its first one says."""
        path, size = f"{self._directory}/{NAME}", self._source.file_size()
        said = self._source.identity()
        known = Identity(
            identity.cluster or said.cluster,
            identity.broker_name or said.broker_name,
            identity.broker_id or said.broker_id,
        )
        if not self._target.exists(path):
            return Manifest(
                known.cluster,
                known.broker_name,
                known.broker_id,
                replica or f"{known.broker_name}-{known.broker_id}",
                size,
                0,
                0,
                layout=self._source.layout,
                divided=self._source.divided(),
            )
        self._refuse_links((NAME,))
        manifest = decode(self._target.read_all(path, FILE_BYTES_MAX), path)
        there = Identity(manifest.cluster, manifest.broker_name, manifest.broker_id)
        if there != known or manifest.file_size != size or (replica and replica != manifest.replica):
            raise ConfigError(
                f"{self._directory} holds the export of {'#'.join(map(str, attrs.astuple(there)))}, replica"
                f" {manifest.replica!r}, with files of {manifest.file_size} bytes; this is"
                f" {'#'.join(map(str, attrs.astuple(known)))} with {size}"
            )
        divided = self._source.divided()
        if manifest.layout == COMMITLOG and divided:
            return attrs.evolve(manifest, layout=DLEDGER, divided=divided)
        another = manifest.divided and divided not in (0, manifest.divided)
        if manifest.layout != self._source.layout or another:
            raise ConfigError(
                f"{self._directory} holds an export of layout {manifest.layout}; this is {self._source.layout}"
            )
        return manifest

    def _refuse_links(self, names: Iterable[str]) -> None:
        for name in names:
            path = f"{self._directory}/{name}"
            if self._target.is_link(path):
                raise ConfigError(f"{path} is a symbolic link, which no export has; nothing was changed")

    def _look_at_files(self, manifest: Manifest) -> None:
        """What the manifest names is there, and itself."""
        replaced = [f"{name}{end}" for name in (NAME, COPY, *SMALL_FILES) for end in ("", ".tmp")]
        self._refuse_links((*self._layout_names, "offsets", "cuts", "config", *replaced))
        for segment in manifest.segments:
            for path, size in (
                (self._log_path(segment.base), segment.end - segment.base),
                (self._offsets_path(segment.base), 4 * segment.messages),
            ):
                self._refuse_links((path.removeprefix(f"{self._directory}/"),))
                there = self._target.size(path) if self._target.exists(path) else 0
                if there < size:
                    raise CorruptStore(path, there, f"the manifest says that it has {size} bytes")

    # --- names

    def _log_path(self, base: int) -> str:
        assert self.manifest is not None
        return f"{self._directory}/{self.manifest.log_name(base)}"

    @property
    def _layout_names(self) -> tuple[str, ...]:
        assert self.manifest is not None
        return (COMMITLOG, DLEDGER) if self.manifest.divided else (self.manifest.layout,)

    def _layout(self, base: int) -> Layout:
        """Of a file."""
        assert self.manifest is not None
        return LAYOUTS[self.manifest.layout_of(base)]

    def _offsets_path(self, base: int) -> str:
        return f"{self._directory}/{offsets_name(base)}"

    # --- step 2

    def _parted(self) -> int | None:
        """The first byte at which the export is not what the broker has; None while it is.

        :raises CorruptStore: the export is not what it was when it was written, so nothing follows from that.
        """
        manifest = self.manifest
        assert manifest is not None
        paths = self._source.segments()
        lowest = next(iter(paths), 0)
        parted: int | None = None
        for block in reversed(manifest.blocks):
            if block.end <= lowest:  # expired at the broker
                break
            begin = max(block.begin, lowest)
            ours = self._exported(begin, block.end)
            theirs = log_bytes.of_store(self._source.disk, paths, manifest, begin, block.end)
            if ours == theirs:
                break
            self._prove(block)
            parted = begin + next(
                at for at, pair in enumerate(itertools.zip_longest(ours, theirs)) if pair[0] != pair[1]
            )
        return parted

    def _prove(self, block: Block) -> None:
        """A block is what it was when it was written.

        :raises CorruptStore: it is not.
        """
        if hashlib.sha256(self._exported(block.begin, block.end)).hexdigest() != block.sha256:
            base = block.begin - block.begin % self._file_size
            raise CorruptStore(
                self._log_path(base),
                block.begin - base,
                f"the export is damaged: its bytes {block.begin} to {block.end} of the log do not match the digest that"
                " was taken when they were written; nothing was changed",
            )

    @property
    def _file_size(self) -> int:
        assert self.manifest is not None
        return self.manifest.file_size

    def _exported(self, begin: int, end: int) -> bytes:
        assert self.manifest is not None
        return log_bytes.of_export(self._target, self._directory, self.manifest, begin, end)

    def _rejoin(self) -> None:
        """Put aside what the broker does not have any more."""
        manifest = self.manifest
        parted = self._parted()
        if manifest is None or parted is None:
            return
        at = next(index for index, each in enumerate(manifest.segments) if each.base <= parted < each.end)
        segment, before = manifest.segments[at], manifest.segments[:at]
        kept, gone = self._split(segment, parted)
        self._believe_cut(manifest, kept)
        left = (*before, kept) if kept.end > kept.begin or not before else before
        behind = (gone, *manifest.segments[at + 1 :])
        atomic_file.make_dirs(self._target, f"{self._directory}/cuts")
        path = self._new_cut(f"{kept.end:020d}-{manifest.end:020d}", len(manifest.cuts))
        self._write_new(f"{path}.offsets", [self._read_offsets(kept, gone), *map(self._all_offsets, behind[1:])])
        sha256 = self._write_new(path, (self._exported(*each) for each in spans(kept.end, manifest.end)))
        digests = Digests(manifest.begin, within(manifest.blocks, kept.end - kept.end % BLOCK_BYTES))
        for block in manifest.blocks:
            if block.begin <= digests.end < block.end:
                self._prove(block)
        digests.add(self._exported(digests.end, kept.end))
        epochs = tuple(
            attrs.evolve(each, start=max(each.start, kept.end)) for each in manifest.epochs if each.end > kept.end
        )
        cut = Cut(kept.end, manifest.end, self._now_ms(), path, behind, epochs, sha256)
        self._save(
            attrs.evolve(
                manifest,
                segments=left,
                blocks=digests.blocks(),
                epochs=self._epochs(manifest, kept.end),
                confirmed=min(manifest.confirmed, kept.end),
                cuts=(*manifest.cuts, cut),
            )
        )
        stays = {each.base for each in left}
        for base in (each.base for each in behind if each.base not in stays):
            self._target.remove(self._log_path(base))
            self._target.remove(self._offsets_path(base))

    def _believe_cut(self, manifest: Manifest, kept: Segment) -> None:
        """The log goes on otherwise where the export parts from it, or ends there.

        :param kept: the segment in which that is, up to there.
        :raises ConfigError: they have nothing in common: it is another log.
        :raises CorruptStore: the broker's log is damaged there.
        """
        paths = self._source.segments()
        if kept.end <= max(manifest.begin, next(iter(paths), 0)):
            raise ConfigError(
                f"{self._directory} holds the export of another log: from {kept.end} on it has no record that"
                f" {self._source.root} has; nothing was changed"
            )
        path = paths.get(kept.base)
        if path is None or kept.end >= kept.base + manifest.file_size:
            return
        room = kept.base + manifest.file_size - kept.end
        with contextlib.closing(self._source.disk.open(path)) as theirs:
            for look in range(LOOKS):
                tally = self._tally(manifest, kept)
                try:
                    piece = self._piece(theirs, kept.base, kept.end - kept.base, room, True)
                    any(True for _ in self._layout(kept.base).units(piece, tally, room, False))
                    return
                except RemoteProtocolError as error:
                    if self._ends(theirs, kept.base, tally):
                        return
                    if look == LOOKS - 1:
                        raise CorruptStore(path, kept.end - kept.base, str(error)) from None

    def _new_cut(self, ends: str, number: int) -> str:
        """A name that nothing has yet: what a run left that broke off may be all there is of it."""
        while any(self._target.exists(f"{self._directory}/cuts/{ends}-{number}{each}") for each in ("", ".offsets")):
            number += 1
        return f"cuts/{ends}-{number}"

    def _split(self, segment: Segment, parted: int) -> tuple[Segment, Segment]:
        """What of a segment lies before the unit in which a byte is, and the rest."""
        assert self.manifest is not None
        size = self.manifest.file_size
        tally = self._tally(self.manifest, Segment(segment.base, segment.begin, segment.begin, segment.begin, False))
        data = self._exported(segment.begin, segment.end)
        for unit in self._layout(segment.base).units(data, tally, segment.base + size - segment.begin, True):
            if tally.end + unit.size > parted:
                break
            tally.add(unit)
        tally.blank = False
        kept = tally.segment(size)
        return kept, _rest(segment, kept)

    def _read_offsets(self, kept: Segment, gone: Segment) -> bytes:
        """Of the messages of a segment that go."""
        file = self._target.open(self._offsets_path(gone.base))
        try:
            return file.read(4 * kept.messages, 4 * gone.messages)
        finally:
            file.close()

    def _all_offsets(self, segment: Segment) -> bytes:
        return self._read_offsets(attrs.evolve(segment, messages=0), segment)

    def _write_new(self, path: str, parts: Iterable[bytes]) -> str:
        """A file of their own; its digest."""
        path, digest = f"{self._directory}/{path}", hashlib.sha256()
        file = self._target.create(path, 0)
        try:
            at = 0
            for part in filter(None, parts):
                file.write(at, [part])
                digest.update(part)
                at += len(part)
            file.sync()
        finally:
            file.close()
        self._target.sync_dir(f"{self._directory}/cuts")
        return digest.hexdigest()

    # --- step 3

    def _copy(self) -> Iterator[Progress]:
        """All that is there."""
        while not self._stopping:
            assert self.manifest is not None
            manifest, paths = self.manifest, self._source.segments()
            if not paths:
                raise ConfigError("the log is gone")
            last = max(paths)
            segment = manifest.segments[-1] if manifest.segments else None
            if segment is None or segment.full:
                base = min(paths) if segment is None else segment.end
                segment = Segment(base, base, base, base, False)
            if segment.base not in paths:
                if segment.base > last:
                    return
                raise ExportGap(
                    f"the export ends at {segment.end}, the broker's log begins at {min(paths)}: what was between is"
                    " deleted; begin another export, in another directory"
                )
            goes_on = yield from self._copy_segment(segment, paths[segment.base], last)
            if not goes_on:
                return

    def _copy_segment(self, segment: Segment, path: str, last: int) -> Generator[Progress, None, bool]:
        """Go on with one file, as far as it has records, or until it is time to save the manifest.

        :param last: base of the newest.
        :return: whether there may be more, of it or of the next one.
        """
        manifest = self.manifest
        assert manifest is not None
        size, limit = manifest.file_size, segment.base + manifest.file_size
        tally, last_end, problem, looks = self._tally(manifest, segment), last + size, None, 0
        for block in manifest.blocks[-1:]:
            if block.end % BLOCK_BYTES:  # it is made anew, of these bytes
                self._prove(block)
        digests = Digests(
            manifest.begin if manifest.segments else segment.begin,
            within(manifest.blocks, segment.end - segment.end % BLOCK_BYTES),
        )
        digests.add(self._exported(digests.end, segment.end))
        said = attrs.evolve(manifest, segments=(attrs.evolve(segment, end=limit),))  # before what is read is cut
        said = attrs.evolve(said, epochs=self._source.epochs(said))
        growing, began_ms, pausing = self._is_newest(segment.base), self._now_ms(), False
        with contextlib.ExitStack() as opened:
            theirs = opened.enter_context(contextlib.closing(self._source.disk.open(path)))
            log, offsets = (opened.enter_context(contextlib.closing(each)) for each in self._files(segment))
            while not tally.blank and tally.end < limit and not pausing:
                begin = tally.end
                data = self._piece(theirs, segment.base, begin - segment.base, limit - begin, growing)
                problem = self._take(tally, data)
                whole = data[: tally.end - begin]
                log.write(begin - segment.base, [whole])
                digests.add(whole)
                looks = 0 if whole or tally.blank else looks + 1
                if looks and (looks == LOOKS or self._ends(theirs, segment.base, tally)):
                    break
                yield Progress(tally.end, last_end, len(data), PAUSE_MS if looks else 0)
                pausing = self._stopping or (not looks and abs(self._now_ms() - began_ms) >= SAVE_EVERY_MS)
            if tally.blank:
                head = self._layout(segment.base).files.blank(limit - tally.end)
                log.write(tally.end - segment.base, [head])
                log.truncate(size)
                digests.add(head)
                for low, high in spans(digests.end, limit):
                    digests.add(bytes(high - low))
            offsets.write(4 * segment.messages, [tally.offsets()])
            log.sync()
            offsets.sync()
        made = tally.segment(size)
        before = [each for each in manifest.segments if each.base != segment.base]
        if made.records_end > made.begin or made.full:
            self._target.sync_dir(f"{self._directory}/{manifest.layout_of(segment.base)}")
            self._target.sync_dir(f"{self._directory}/offsets")
            grown = attrs.evolve(manifest, segments=(*before, made), blocks=digests.blocks(), writing=-1)
            self._save(attrs.evolve(grown, epochs=self._epochs(said, made.end, tally.terms)))
        if looks == LOOKS:  # what was good before it is saved
            raise CorruptStore(path, made.records_end - made.base, problem or "the file ends within a record")
        return made.full or pausing  # the next file may have nothing yet

    @staticmethod
    def _tally(manifest: Manifest, segment: Segment) -> Tally:
        """Of a segment as far as it goes."""
        before = [each.last_index for each in manifest.segments if each.base < segment.base]
        since = manifest.divided if segment.base >= manifest.divided else 0  # what is before has a controller's epochs
        terms = [each.epoch for each in manifest.epochs if since <= each.start < segment.end]
        return Tally(segment, before[-1] if before else -1, terms[-1] if terms else -1)

    def _epochs(self, manifest: Manifest, end: int, more: Sequence[tuple[int, int]] = ()) -> tuple[EpochRange, ...]:
        """Of the log up to ``end``: terms, as entries say them; of other logs the store says it in the end."""
        if self._source.layout != DLEDGER:
            return tuple(attrs.evolve(each, end=min(each.end, end)) for each in manifest.epochs if each.start < end)
        known = [(each.epoch, each.start) for each in manifest.epochs if each.start < end]
        starts = [*known, *more]
        untils = (*(start for _, start in starts[1:]), end)
        return tuple(EpochRange(epoch, start, until) for (epoch, start), until in zip(starts, untils, strict=False))

    def _files(self, segment: Segment) -> Iterator[File]:
        """What a segment goes to, the log's bytes and the begins of its records, as long as the manifest says.

        :raises ConfigError: something has that name that no run has made.
        """
        manifest, base = self.manifest, segment.base
        assert manifest is not None
        sizes = {self._log_path(base): segment.end - base, self._offsets_path(base): 4 * segment.messages}
        cut = {each.base for cut in manifest.cuts for each in cut.segments}  # may not have come to removing them
        if segment not in manifest.segments and manifest.writing != base:
            for path in sizes:
                if base not in cut and (self._target.exists(path) or self._target.is_link(path)):
                    raise ConfigError(f"{path} is in the way: the manifest does not name it; move it away")
            self._save(attrs.evolve(manifest, writing=base))
        for path, size in sizes.items():
            if self._target.is_link(path):
                raise ConfigError(f"{path} is a symbolic link, which no export has")
            file = self._target.open(path) if self._target.exists(path) else self._target.create(path, 0)
            if file.size() > size:
                file.truncate(size)
            yield file

    def _piece(self, file: File, base: int, at: int, room: int, growing: bool) -> bytes:
        """Up to a block, or a whole unit where that is longer, and what tells that it is.

        :param growing: the broker may be writing it: bytes that two looks have in common.
        """
        data, layout = file.read(at, min(BLOCK_BYTES, room)), self._layout(base)
        total = layout.size(data)
        if len(data) <= total <= min(room, layout.unit_bytes_max):
            data = file.read(at, min(room, total + END_OF_FILE_BYTES))
        return _in_common(data, file.read(at, len(data))) if growing else data

    def _take(self, tally: Tally, data: bytes) -> str | None:
        """Count the records at the begin of a piece; what is wrong with what comes next, if it is no good record."""
        assert self.manifest is not None
        size = self.manifest.file_size
        layout = self._layout(tally.end - tally.end % size)
        try:
            for unit in layout.units(data, tally, size - tally.end % size, self._corrupt_too):
                tally.add(unit)
        except RemoteProtocolError as error:
            return str(error)
        return None

    def _ends(self, theirs: File, base: int, tally: Tally) -> bool:
        """Whether the log ends here: no record stands behind what is none, which is being written, or was when the
        broker died.  What that says of its length does not count: it may be what is damaged."""
        layout = self._layout(base)
        for at in range(tally.end + 1, tally.end + layout.unit_bytes_max, BLOCK_BYTES):
            if layout.follows(theirs.read(at - base, BLOCK_BYTES + layout.look_bytes), at, tally):
                return False
        return self._is_newest(base)

    def _is_newest(self, base: int) -> bool:
        """Whether no later file has anything; brokers make the next one ahead of time."""
        paths = self._source.segments()
        return not any(any(self._head(paths[each])) for each in paths if each > base)

    def _head(self, path: str) -> bytes:
        file = self._source.disk.open(path)
        try:
            return file.read(0, 8)
        finally:
            file.close()

    # --- step 5

    def _finish(self) -> None:
        """All but the log."""
        assert self.manifest is not None
        end, epochs = self.manifest.end, self._source.epochs(self.manifest)
        contents = self._source.small_files()
        files = tuple(SmallFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in contents)
        if files != self.manifest.files:
            self._save(attrs.evolve(self.manifest, replacing=files))
        for name, data in contents:
            atomic_file.save(self._target, f"{self._directory}/{name}", data, backup=False)
        self._save(
            attrs.evolve(
                self.manifest,
                exported_ms=self._now_ms(),
                confirmed=min(end, max(self.manifest.confirmed, self._source.confirmed(end, epochs))),
                epochs=epochs,
                files=files,
                replacing=(),
            )
        )

    def _save(self, manifest: Manifest) -> None:
        copy = f"{self._directory}/{COPY}"
        manifest = attrs.evolve(manifest, copied=self._target.exists(copy))  # the first one may die before it is there
        data = encode(manifest)
        atomic_file.save(self._target, f"{self._directory}/{NAME}", data, backup=False)
        self.manifest = manifest
        atomic_file.save(self._target, copy, data, backup=False)


def _in_common(one: bytes, other: bytes) -> bytes:
    """The bytes with which both begin."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return one[:high]
    ours, theirs = memoryview(one), memoryview(other)
    while low < high:  # equal up to low, not up to high + 1
        middle = (low + high + 1) // 2
        if ours[low:middle] == theirs[low:middle]:
            low = middle
        else:
            high = middle - 1
    return one[:low]


def _rest(segment: Segment, kept: Segment) -> Segment:
    """What a segment has besides what was kept of it.  Nothing of it is read: it may be damaged.  Counts are exact,
    times and queue offsets those of the whole segment."""
    before = {(each.topic, each.queue_id): each.messages for each in kept.queues}
    queues = (
        attrs.evolve(each, messages=each.messages - before.get((each.topic, each.queue_id), 0))
        for each in segment.queues
    )
    return attrs.evolve(
        segment,
        begin=kept.end,
        messages=segment.messages - kept.messages,
        corrupt=segment.corrupt - kept.corrupt,
        queues=tuple(each for each in queues if each.messages),
    )
