"""Bytes of a log by their places in it, of an export and of the store that it was made of.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rocketha.export.manifest import Manifest
from rocketha.export.scan import END_OF_FILE_BYTES
from rocketha.store.disk import Disk


def in_files(begin: int, end: int, file_size: int) -> Iterator[tuple[int, int, int]]:
    """A part of a log, file by file: the file's first offset, and begin and end of what it has."""
    while begin < end:
        base = begin - begin % file_size
        stop = min(end, base + file_size)
        yield base, begin, stop
        begin = stop


def of_export(disk: Disk, directory: str, manifest: Manifest, begin: int, end: int) -> bytes:
    """As the files of an export have them; fewer where a file is missing or too short."""
    return _read(disk, lambda base: f"{directory}/{manifest.log_name(base)}", manifest, begin, end)


def of_store(disk: Disk, paths: Mapping[int, str], manifest: Manifest, begin: int, end: int) -> bytes:
    """As an export holds what a store has: zeros behind the end-of-file record.

    :param paths: the store's files, by their first offsets.
    """
    data = bytearray(_read(disk, lambda base: paths.get(base, ""), manifest, begin, end))
    for segment in manifest.segments:
        unused = max(segment.records_end + END_OF_FILE_BYTES, begin)
        until = min(segment.end, end)
        if segment.full and unused < until:
            data[unused - begin : until - begin] = bytes(until - unused)
    return bytes(data)


def _read(disk: Disk, path_of: Callable[[int], str], manifest: Manifest, begin: int, end: int) -> bytes:
    parts = []
    for base, start, stop in in_files(begin, end, manifest.file_size):
        path = path_of(base)
        if not path or not disk.exists(path):
            break
        file = disk.open(path)
        try:
            parts.append(file.read(start - base, stop - start))
        finally:
            file.close()
        if len(parts[-1]) < stop - start:
            break
    return b"".join(parts)
