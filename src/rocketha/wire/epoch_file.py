"""The text of epochFileCheckpoint.

Pure.  Knows the text, not the file: who writes it safely, and when its backup counts, is ``store/epoch_file.py``.

Theory of operation: the number of entries, the CRC of their lines, the lines.  An empty list is a text too
(``0\\n0\\n``); Java never writes one, and reads its backup where it finds one.  Java's reader also takes a last line
without its end, and any CRC where the line says 0; so does this one, and nothing else that is not as Java writes it.

Java: ``CheckpointFile``, ``EpochFileCache.EpochEntrySerializer``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rocketha.errors import CorruptStore, RemoteProtocolError
from rocketha.wire.crc import crc32_31
from rocketha.wire.ha_frames import EPOCHS_MAX, EpochEntry, check_entries
from rocketha.wire.spec import epoch_file as spec
from rocketha.wire.spec.format import Format

NAME = "epochFileCheckpoint"
FILE_BYTES_MAX = 32 * (EPOCHS_MAX + 1)
"""Largest text that is read."""

_NUMBER = re.compile(rb"[0-9]{1,10}")
_ENTRY = re.compile(rb"([0-9]{1,10})-([0-9]{1,19})")


def encode(entries: Sequence[EpochEntry]) -> bytes:
    """The file's bytes, as Java writes them.

    :raises RemoteProtocolError: for entries that do not ascend, are negative or too large, or are too many.
    """
    check_entries(entries)
    lines = b"".join([b"%d-%d\n" % entry for entry in entries])
    return b"%d\n%d\n" % (len(entries), crc32_31(lines)) + lines


def decode(data: bytes, path: str = NAME) -> tuple[EpochEntry, ...]:
    """The entries, ascending.

    :param path: of the file, for the error.
    :raises CorruptStore: where the text is not what :func:`encode` or Java wrote.
    """
    if len(data) > FILE_BYTES_MAX:
        raise CorruptStore(path, FILE_BYTES_MAX, f"{len(data)} bytes of epochs, {FILE_BYTES_MAX} are allowed")
    if data and not data.endswith(b"\n"):
        data += b"\n"
    lines = data.split(b"\n")
    # split() leaves an empty piece after the last line; less than the two numbers leaves fewer than three pieces.
    if len(lines) < 3 or not _NUMBER.fullmatch(lines[0]) or not _NUMBER.fullmatch(lines[1]):
        raise CorruptStore(path, 0, "no number of entries and CRC where they are due")
    count, crc = int(lines[0]), int(lines[1])
    start = at = len(lines[0]) + len(lines[1]) + 2
    entries: list[EpochEntry] = []
    for line in lines[2:-1]:
        found = _ENTRY.fullmatch(line)
        if found is None:
            raise CorruptStore(path, at, f"no epoch: {line[:40]!r}")
        entries.append(EpochEntry(int(found[1]), int(found[2])))
        at += len(line) + 1
    if len(entries) != count:
        raise CorruptStore(path, 0, f"{count} entries announced, {len(entries)} there")
    if crc and crc != crc32_31(memoryview(data)[start:]):
        raise CorruptStore(path, start, "the CRC of the entries does not match them")
    try:
        check_entries(entries)
    except RemoteProtocolError as problem:
        raise CorruptStore(path, start, str(problem)) from None
    return tuple(entries)


FORMATS = (
    Format(
        name="epoch-file",
        spec=spec.FILE,
        parse=decode,
        build=encode,
        bound=FILE_BYTES_MAX,
        doc="The file epochFileCheckpoint (CheckpointFile, EpochFileCache).",
    ),
)
