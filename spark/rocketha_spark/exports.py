"""Directories of exports: which there are, what their manifests say, and the bytes that those name.

An export may come from elsewhere, and whoever made it may have put a symbolic link in the place of a file: to read a
file that its reader may read and its maker may not.  So none is followed within it; the directory that the user named
may be one.
"""

from __future__ import annotations

import errno
import glob
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import attrs
import numpy as np
import numpy.typing as npt

from rocketha.errors import ConfigError, CorruptStore
from rocketha.export.manifest import FILE_BYTES_MAX, NAME, Cut, Manifest, Segment, decode, offsets_name
from rocketha.export.target import local_path

OFFSET_BYTES = 4


@attrs.frozen
class Export:
    """One replica's export.

    :ivar manifest: as it was when the export was opened; a run that goes on meanwhile changes nothing below its end.
    """

    directory: str
    manifest: Manifest

    def log_path(self, segment: Segment) -> str:
        """Of a segment's bytes."""
        return f"{self.directory}/{self.manifest.log_name(segment.base)}"

    def offsets_path(self, segment: Segment) -> str:
        """Of the index of its records."""
        return f"{self.directory}/{offsets_name(segment.base)}"

    def starts(self, segment: Segment, first: int, count: int) -> npt.NDArray[np.int64]:
        """Where some of a segment's records begin, as log offsets, ascending.

        :raises CorruptStore: the index is shorter than the manifest says.
        """
        return self._starts(self.offsets_path(segment), first, count, segment.base)

    def read_into(self, target: memoryview, segment: Segment, begin: int) -> None:
        """The bytes from a log offset on, as many as the target has.

        :raises CorruptStore: the file is shorter than the manifest says.
        """
        self._read_into(target, self.log_path(segment), begin - segment.base)

    def _starts(self, path: str, first: int, count: int, base: int) -> npt.NDArray[np.int64]:
        data = bytearray(count * OFFSET_BYTES)
        self._read_into(memoryview(data), path, first * OFFSET_BYTES)
        return np.frombuffer(data, ">u4").astype(np.int64) + base

    def _read_into(self, target: memoryview, path: str, at: int) -> None:
        done = 0
        try:
            with open_within(self.directory, path) as file:
                while done < len(target):
                    more = os.preadv(file, [target[done:]], at + done)
                    if not more:
                        raise CorruptStore(path, at + done, "ends before what the manifest says")
                    done += more
        except OSError as error:
            raise CorruptStore(path, at, str(error)) from None


@attrs.frozen
class CutExport(Export):
    """What was taken back at one time: as an export of its own, whose files are those of the cut.

    :ivar cut: without its segments, which the manifest has.
    :ivar before: how many messages segments have that lie before a segment, by its base.
    """

    cut: Cut
    before: Mapping[int, int]

    def log_path(self, segment: Segment) -> str:
        """One file for all segments."""
        return f"{self.directory}/{self.cut.path}"

    def offsets_path(self, segment: Segment) -> str:
        """One file here too."""
        return f"{self.directory}/{self.cut.path}.offsets"

    def starts(self, segment: Segment, first: int, count: int) -> npt.NDArray[np.int64]:
        """As of an export."""
        return self._starts(self.offsets_path(segment), self.before[segment.base] + first, count, segment.base)

    def read_into(self, target: memoryview, segment: Segment, begin: int) -> None:
        """As of an export."""
        self._read_into(target, self.log_path(segment), begin - self.cut.begin)


def cuts_of(export: Export) -> Iterator[Export]:
    """What was taken back, each time.

    :raises ConfigError: an earlier version of the exporter kept it without saying where its records begin.
    """
    for cut in export.manifest.cuts:
        if not cut.segments:
            raise ConfigError(f"{export.directory}/{cut.path} has no index: an earlier version of the exporter kept it")
        counts = itertools.accumulate((each.messages for each in cut.segments), initial=0)
        before = {each.base: count for each, count in zip(cut.segments, counts, strict=False)}
        manifest = attrs.evolve(
            export.manifest, segments=cut.segments, epochs=cut.epochs, confirmed=cut.begin, blocks=(), files=(), cuts=()
        )
        yield CutExport(export.directory, manifest, attrs.evolve(cut, segments=(), epochs=()), before)


@contextmanager
def open_within(directory: str, path: str) -> Iterator[int]:
    """A descriptor of a file in an export, for reading.

    :param path: begins with the directory.
    :raises CorruptStore: a symbolic link stands there, or on the way.
    :raises OSError: it cannot be opened.
    """
    *folders, name = path.removeprefix(f"{directory}/").split("/")
    flags = os.O_RDONLY | os.O_CLOEXEC
    with ExitStack() as opened_ones:
        try:
            at = os.open(directory, flags | os.O_DIRECTORY)
            opened_ones.callback(os.close, at)
            for folder in folders:
                at = os.open(folder, flags | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                opened_ones.callback(os.close, at)
            file = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise CorruptStore(path, 0, "a symbolic link, or behind one: none is followed in an export") from None
            raise
        opened_ones.callback(os.close, file)
        yield file


def read_within(directory: str, name: str, bytes_max: int) -> bytes:
    """A small file of an export.

    :raises CorruptStore: it is too long, or a symbolic link.
    :raises OSError: it cannot be read.
    """
    path = f"{directory}/{name}"
    with open_within(directory, path) as file, open(file, "rb", closefd=False) as data:
        found = data.read(bytes_max + 1)
    if len(found) > bytes_max:
        raise CorruptStore(path, bytes_max, "too long")
    return found


def opened(path: str, replica: str = "all") -> tuple[Export, ...]:
    """The exports that a path names.

    :param path: a directory with a manifest, or a glob of such directories.
    :param replica: which of them: ``all``, ``master`` (broker id 0), another broker id, or a replica's name.
    :raises ConfigError: there is none, two are of one replica, or it is on another kind of storage.
    :raises CorruptStore: a manifest is none.
    """
    path = local_path(path)
    directories = sorted(glob.glob(path)) if glob.has_magic(path) and not os.path.isdir(path) else [path]
    found = [_open(os.path.abspath(each)) for each in directories if os.path.isdir(each)]
    if not found:
        raise ConfigError(f"no export at {path}: a directory that `rocketha export` made")
    names = [each.manifest.replica for each in found]
    for each in found:
        if names.count(each.manifest.replica) > 1:
            raise ConfigError(f"two exports of replica {each.manifest.replica!r}, one of them {each.directory}")
    return tuple(found) if replica == "all" else _chosen(found, replica)


def _chosen(exports: Sequence[Export], replica: str) -> tuple[Export, ...]:
    """A name goes before an id."""
    number = "0" if replica == "master" else replica
    found = [each for each in exports if each.manifest.replica == replica]
    found = found or [each for each in exports if str(each.manifest.broker_id) == number]
    if not found:
        there = ", ".join(f"{each.manifest.replica} (broker id {each.manifest.broker_id})" for each in exports)
        raise ConfigError(f"replica is all, master (broker id 0), a broker id or a name of {there}; not {replica!r}")
    return tuple(found)


def _open(directory: str) -> Export:
    try:
        data = read_within(directory, NAME, FILE_BYTES_MAX)
    except FileNotFoundError:
        raise ConfigError(f"{directory} is no export: it has no {NAME}") from None
    return Export(directory, decode(data, f"{directory}/{NAME}"))
