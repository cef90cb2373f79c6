"""The manifest of an export: what its directory holds.  Written last, whole, so that what it names is there.

Pure.  Theory of operation: a reader opens the manifest first and believes nothing that it does not name; files beside
those are of an export that is under way, or was broken off.  It is JSON, version 1; a reader refuses other versions,
and later ones only add members.  It is read and written by the standard library, since readers are other programs too.
Numbers are offsets in bytes from the begin of the log, times ms since 1970.

- ``layout``: what a file of the log is made of: ``commitlog``, records one behind the other, or ``dledger``, DLedger's
  entries with a record in each.
- ``divided``: of a log that an ordinary broker began and DLedger went on with: files before it are ``commitlog``; 0 of
  others.
- ``segments``: the copied files, ascending, each adjacent to the one before: ``<layout>/<20 digits>``.  A segment
  holds bytes ``begin`` to ``end`` of the log at their own places; what stands before and behind is zeros, or no bytes.
  Each says how many messages it has, between which times they were stored, and what of which queue.
- ``blocks``: SHA-256 of each aligned :data:`BLOCK_BYTES` of the log, the first and the last as far as they go: two
  exports of replicas are compared by them, and a copy that was damaged later is found out.
- ``epochs``: which master wrote from where: of controller mode, or the terms of DLedger.
- ``confirmed``: below it nothing is ever taken back.
- ``cuts``: what an earlier export had and the broker does not have any more, as it was cut when a master switched.
- ``writing``: the file that a run has begun, before a segment names it; so no file is written over that is not ours.
- ``replacing``: small files that a run is about to write over those of ``files``: either may be there.
- ``copied``: there is a second copy of the manifest, written behind it, so one save older where a run died; false of
  the first save, which makes it.
- ``sha256``: of the manifest up to it, so that a damaged one is not believed; earlier versions wrote none.

No counterpart in Java.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from rocketha.errors import CorruptStore

VERSION = 1
NAME = "manifest.json"
COPY = "manifest.copy.json"
"""The same once more, for :mod:`rocketha.export.repairing`; nobody else reads it."""
COMMITLOG, DLEDGER = "commitlog", "dledger"
"""Layouts of a log's files."""
BLOCK_BYTES = 4 << 20
"""Of the log, from a multiple of itself on."""
OFFSET_MAX = (1 << 63) - 1
_DIGEST = b',\n"sha256": "'
_END = b'"\n}\n'
_CUT_PATH = re.compile(r"cuts/[0-9]{20}-[0-9]{20}(-[0-9]{1,9})?")
FILE_BYTES_MAX = 256 << 20
"""A longer manifest is not believed; a terabyte of log with 1,000 queues in each file has one of 120 MB."""


@attrs.frozen
class QueuePart:
    """What a segment has of one queue.

    :ivar messages: records of it; prepared and rolled back ones count here too.
    :ivar first: least queue offset.
    :ivar last: greatest queue offset.
    """

    topic: str
    queue_id: int
    messages: int
    first: int
    last: int


@attrs.frozen
class Segment:
    """One copied file.

    :ivar base: log offset of the file's first byte, and its name.
    :ivar begin: log offset of its first whole record here.
    :ivar end: log offset behind its last record; the next segment's base where it is full.
    :ivar records_end: the same but for an end-of-file record, which stands there, with zeros behind its eight bytes.
    :ivar full: nothing will be added any more.
    :ivar messages: records in it.
    :ivar corrupt: how many of them do not match their CRC; none unless that was allowed.
    :ivar first_stored_ms: least store time; 0 without records, as are the next three.
    :ivar last_stored_ms: greatest store time.
    :ivar first_born_ms: least born time.
    :ivar last_born_ms: greatest born time.
    :ivar last_index: number of DLedger's last entry up to here; -1 of other logs, and while there is none.
    """

    base: int
    begin: int
    end: int
    records_end: int
    full: bool
    messages: int = 0
    corrupt: int = 0
    first_stored_ms: int = 0
    last_stored_ms: int = 0
    first_born_ms: int = 0
    last_born_ms: int = 0
    queues: tuple[QueuePart, ...] = ()
    last_index: int = -1


@attrs.frozen
class Block:
    """A digest.

    :ivar begin: log offset of its first byte.
    :ivar end: behind its last byte.
    :ivar sha256: of the bytes between, in hex.
    """

    begin: int
    end: int
    sha256: str


@attrs.frozen
class EpochRange:
    """What one master wrote; ``end`` is the next one's start, of the last one the export's end."""

    epoch: int
    start: int
    end: int


@attrs.frozen
class SmallFile:
    """A file that was copied whole, by its path in the export."""

    path: str
    size: int
    sha256: str


@attrs.frozen
class Cut:
    """Bytes that an earlier run exported, and that were taken back.

    :ivar path: where in the export they are kept; where their records begin is in ``path`` and ``.offsets``.
    :ivar segments: what of which file they are.
    :ivar epochs: which masters had written them.
    :ivar sha256: of the bytes, in hex; empty of cuts by earlier versions.
    """

    begin: int
    end: int
    noticed_ms: int
    path: str
    segments: tuple[Segment, ...] = ()
    epochs: tuple[EpochRange, ...] = ()
    sha256: str = ""


@attrs.frozen
class Manifest:
    """One export.

    :ivar file_size: bytes of a whole segment.
    :ivar exported_ms: when the last run ended.
    :ivar confirmed: log offset up to which the broker's checkpoint, or its clean end, promises that nothing is cut.
    :ivar writing: base of the file that a run has begun and no segment names yet; -1 of none.
    """

    cluster: str
    broker_name: str
    broker_id: int
    replica: str
    file_size: int
    exported_ms: int
    confirmed: int
    segments: tuple[Segment, ...] = ()
    blocks: tuple[Block, ...] = ()
    epochs: tuple[EpochRange, ...] = ()
    files: tuple[SmallFile, ...] = ()
    cuts: tuple[Cut, ...] = ()
    layout: str = COMMITLOG
    writing: int = -1
    divided: int = 0
    copied: bool = False
    replacing: tuple[SmallFile, ...] = ()

    def layout_of(self, base: int) -> str:
        """Of a file."""
        return self.layout if base >= self.divided else COMMITLOG

    def log_name(self, base: int) -> str:
        """Of the file that begins there, in the export."""
        return f"{self.layout_of(base)}/{base:020d}"

    def has_been(self, file: SmallFile, data: bytes) -> bool:
        """Whether a small file with these bytes is one that was written."""
        sha256 = hashlib.sha256(data).hexdigest()
        return any(each.path == file.path and each.sha256 == sha256 for each in (*self.files, *self.replacing))

    @property
    def begin(self) -> int:
        """Log offset of the first exported record; 0 of none."""
        return self.segments[0].begin if self.segments else 0

    @property
    def end(self) -> int:
        """Log offset behind the last exported record."""
        return self.segments[-1].end if self.segments else 0

    @property
    def messages(self) -> int:
        """Records in all segments."""
        return sum(segment.messages for segment in self.segments)


def offsets_name(base: int) -> str:
    """Of the file that says where the records of a file begin."""
    return f"offsets/{base:020d}"


def encode(manifest: Manifest) -> bytes:
    """The file's bytes: a line for each segment, block and so on, and a digest of them."""
    members = {"version": VERSION, "block_bytes": BLOCK_BYTES, **attrs.asdict(manifest)}
    lines = [f"{json.dumps(name)}: {_lines(value)}" for name, value in members.items()]
    data = ("{\n" + ",\n".join(lines)).encode()
    return data + _DIGEST + hashlib.sha256(data).hexdigest().encode() + _END


def _lines(value: object) -> str:
    if not isinstance(value, list | tuple) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(map(json.dumps, value)) + "\n]"


T = TypeVar("T", bound=attrs.AttrsInstance)


def decode(data: bytes, path: str) -> Manifest:
    """The manifest in a file's bytes.

    :param path: named in the error.
    :raises CorruptStore: not a manifest of this version, or one that contradicts itself.
    """
    try:
        members = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptStore(path, 0, f"not JSON: {error}") from None
    if not isinstance(members, dict) or members.get("version") != VERSION or members.get("block_bytes") != BLOCK_BYTES:
        raise CorruptStore(path, 0, f"not the manifest of an export of version {VERSION}")
    if "sha256" in members:
        before, mark, said = data.rpartition(_DIGEST)
        if not mark or said != hashlib.sha256(before).hexdigest().encode() + _END:
            raise CorruptStore(path, 0, "it does not match its own digest: it was changed after it was written")
    try:
        manifest = _manifest(members)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptStore(path, 0, f"a member is missing or of another kind: {error!r}") from None
    problem = contradiction(manifest)
    if problem is not None:
        raise CorruptStore(path, 0, problem)
    return manifest


def _manifest(members: Mapping[str, Any]) -> Manifest:
    nested = {
        **_parts(members["segments"], members["epochs"]),
        "blocks": tuple(_made(Block, each) for each in members["blocks"]),
        "files": tuple(_made(SmallFile, each) for each in members["files"]),
        "replacing": tuple(_made(SmallFile, each) for each in members.get("replacing", ())),
        "cuts": tuple(
            _made(Cut, {**each, **_parts(each.get("segments", ()), each.get("epochs", ()))}) for each in members["cuts"]
        ),
    }
    return _made(Manifest, {**members, **nested})


def _parts(segments: Iterable[Mapping[str, Any]], epochs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    queues = [tuple(_made(QueuePart, queue) for queue in each.get("queues", ())) for each in segments]
    return {
        "segments": tuple(
            _made(Segment, {**each, "queues": of_it}) for each, of_it in zip(segments, queues, strict=True)
        ),
        "epochs": tuple(_made(EpochRange, each) for each in epochs),
    }


def _made(kind: type[T], members: Mapping[str, Any]) -> T:
    """A value of the members it knows, of the types that its fields have."""
    given: dict[str, Any] = {}
    for field in attrs.fields(kind):
        if field.default is attrs.NOTHING or field.name in members:
            value = given[field.name] = members[field.name]
            wanted = {"int": int, "str": str, "bool": bool}.get(str(field.type), tuple)
            if type(value) is not wanted:
                raise TypeError(f"{field.name} is {value!r}")
    return kind(**given)


def _inside(path: str) -> bool:
    """Whether a path stays in the directory that it is relative to."""
    return "\0" not in path and all(part not in ("", ".", "..") for part in path.split("/"))


def contradiction(manifest: Manifest) -> str | None:
    """What cannot be; None of a sound manifest."""
    if manifest.file_size <= 0:
        return "no file size"
    if manifest.layout not in (COMMITLOG, DLEDGER):
        return f"no layout {manifest.layout!r}"
    if manifest.divided and (manifest.divided % manifest.file_size or manifest.layout != DLEDGER):
        return f"a log of layout {manifest.layout} that is divided at {manifest.divided}"
    paths = {each.path for each in manifest.cuts}
    if len(paths) < len(manifest.cuts) or not all(map(_CUT_PATH.fullmatch, paths)):
        return "cuts whose paths are none of an export"
    if not all(_inside(each.path) for each in (*manifest.files, *manifest.replacing)):
        return "a file whose path is none of an export"
    for epochs in (manifest.epochs, *(each.epochs for each in manifest.cuts)):
        if any(not -1 <= each.epoch < 1 << 31 for each in epochs):
            return "an epoch that is none"
    for each in manifest.cuts:
        if each.segments and (each.segments[0].begin, each.segments[-1].end) != (each.begin, each.end):
            return f"the cut at {each.begin} has segments of other places"
    for segments in (manifest.segments, *(each.segments for each in manifest.cuts)):
        problem = _of_segments(segments, manifest.file_size)
        if problem is not None:
            return problem
    position = manifest.begin
    for block in manifest.blocks:
        if block.begin != position or block.end <= block.begin or block.end - 1 - block.begin >= BLOCK_BYTES:
            return f"the block at {block.begin} does not follow {position}"
        position = block.end
    if position != manifest.end:
        return f"blocks end at {position}, segments at {manifest.end}"
    return None


def _of_segments(segments: Sequence[Segment], file_size: int) -> str | None:
    before: Segment | None = None
    for segment in segments:
        limit = segment.base + file_size
        inside = segment.base <= segment.begin <= segment.records_end <= segment.end <= limit
        if not inside or segment.base % file_size or (segment.full and segment.end != limit):
            return f"segment {segment.base} with bytes {segment.begin} to {segment.end}"
        if before is not None and (not before.full or segment.begin != before.end):
            return f"segment {segment.base} does not follow {before.base}"
        if not (segment.base >= 0 and limit <= OFFSET_MAX and 0 <= segment.corrupt <= segment.messages):
            return f"segment {segment.base} with {segment.corrupt} of {segment.messages} messages damaged"
        if segment.messages > segment.records_end - segment.begin or any(each.messages < 1 for each in segment.queues):
            return f"segment {segment.base} counts {segment.messages} messages in too few bytes, or queues without any"
        if sum(queue.messages for queue in segment.queues) != segment.messages:
            return f"segment {segment.base} counts {segment.messages} messages, its queues have others"
        before = segment
    return None
