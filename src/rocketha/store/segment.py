"""A directory of equally long files that together hold one long run of bytes, each named by the offset of its first
byte.

Pure.  Java: ``MappedFileQueue`` and ``DefaultMappedFile``.  It knows names, sizes and descriptors, not what the bytes
mean. Invariants: file sizes are all ``file_size``; names are adjacent multiples of it; only the newest file may be
incomplete, and then only because a crash cut its creation short.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocketha.errors import CorruptStore, NotOpened
from rocketha.store.disk import Buffer, Disk, File
from rocketha.store.foreign_names import ForeignNames, is_number
from rocketha.store.in_memory import Part, Wait

NAME_DIGITS = 20


def first_offset(directory: str, name: str) -> int:
    """Which offset a file of a log begins with, by its name, which is a number.

    :raises CorruptStore: it is none of ours; Java would take such a file.
    """
    if len(name) != NAME_DIGITS or int(name) >= 1 << 63:
        raise CorruptStore(f"{directory}/{name}", 0, "the name is not an offset of 20 digits")
    return int(name)


class OpenFiles:
    """Descriptors kept open for reading, the least recently used closed first, also where the system has
    none left.  One for the whole store."""

    def __init__(self, disk: Disk, limit: int) -> None:
        self._disk = disk
        self._limit = limit
        self._files: dict[str, File] = {}

    def get(self, path: str) -> File:
        """The open file; opens it if need be."""
        file = self._files.pop(path, None)
        if file is None:
            file = self._open(path)
            while len(self._files) >= self._limit:
                self._files.pop(next(iter(self._files))).close()
        self._files[path] = file  # now the youngest
        return file

    def _open(self, path: str) -> File:
        while True:
            try:
                return self._disk.open(path)
            except NotOpened:
                if not self._files:
                    raise
                self._files.pop(next(iter(self._files))).close()

    def has(self, path: str) -> bool:
        """Whether it is open."""
        return path in self._files

    def forget(self, path: str) -> None:
        """Close a file that is about to go."""
        file = self._files.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all."""
        for file in self._files.values():
            file.close()
        self._files.clear()


def file_name(base: int) -> str:
    """The name of the file that begins at ``base``."""
    return f"{base:020d}"


class SegmentedFile:
    """The files of one directory, and perhaps of another one before them.

    :ivar bases: first offsets of the files, ascending.
    :ivar divide: those that begin before are in the older directory, where no file is made; 0 without one.
    :ivar names_changed: files were made or removed since the directory was last synced.
    :ivar notes: what an operator should know of the files that were found.
    """

    __slots__ = ("_disk", "_files", "_older", "bases", "directory", "divide", "file_size", "names_changed", "notes")

    def __init__(self, disk: Disk, files: OpenFiles, directory: str, file_size: int, older: str | None = None) -> None:
        """Looks at nothing.

        :param older: where the run of bytes began: whoever wrote there is not to write any more.
        """
        self._disk = disk
        self._files = files
        self._older = older or directory
        self.directory = directory
        self.file_size = file_size
        self.bases: list[int] = []
        self.divide = 0
        self.names_changed = False
        self.notes: list[str] = []

    def path(self, base: int) -> str:
        """Path of the file that begins at ``base``."""
        return f"{self.directory if base >= self.divide else self._older}/{base:020d}"

    def load(self, foreign: ForeignNames) -> None:
        """Find the files.

        :param foreign: is told of what is somebody else's.
        :raises CorruptStore: a name, a size or a gap that cannot be; the newest file is removed instead if it is
            empty, as a crash leaves it.
        """
        self.divide, self.notes = 0, []
        self.bases = self._load(self.directory, foreign)
        if self._older == self.directory or not self._disk.exists(self._older):
            return
        older = self._load(self._older, foreign)
        if older and self.bases and older[-1] + self.file_size != self.bases[0]:
            self.notes.append(f"{self._older} does not end where {self.directory} begins, and is not read")
        elif older:
            self.divide = older[-1] + self.file_size
            self.bases = older + self.bases

    def _load(self, directory: str, foreign: ForeignNames) -> list[int]:
        bases: list[int] = []
        names = foreign.ours(self._disk, directory, is_number)
        for name in names:
            path = f"{directory}/{name}"
            base = first_offset(directory, name)
            size = self._disk.size(path)
            if size == 0 and name == names[-1]:
                self._disk.remove(path)
                self.names_changed = True
                continue
            if size != self.file_size:
                raise CorruptStore(path, size, f"the file has {size} bytes, configured are {self.file_size}")
            if base % self.file_size or (bases and base != bases[-1] + self.file_size):
                raise CorruptStore(path, 0, f"the file does not follow {bases[-1] if bases else 0}")
            bases.append(base)
        return bases

    @property
    def begin(self) -> int:
        """First offset held; 0 without files."""
        return self.bases[0] if self.bases else 0

    @property
    def end(self) -> int:
        """Offset behind the last file; 0 without files."""
        return self.bases[-1] + self.file_size if self.bases else 0

    @property
    def own_begin(self) -> int:
        """First offset that is in :attr:`directory`, or would be."""
        return max(self.begin, self.divide)

    def has(self, offset: int) -> bool:
        """Whether a byte lies in a file."""
        return bool(self.bases) and self.bases[0] <= offset < self.bases[-1] + self.file_size

    def base_of(self, offset: int) -> int:
        """The base of the file that holds an offset."""
        return offset - offset % self.file_size

    def file(self, base: int) -> File:
        """The file that begins at ``base``, open."""
        return self._files.get(self.path(base))

    def create(self, base: int, preallocate: bool = False) -> File:
        """Make the next file; the caller owns the descriptor."""
        file = self._disk.create(self.path(base), self.file_size, preallocate)
        self.bases.append(base)
        self.names_changed = True
        return file

    def read(self, offset: int, size: int) -> bytes:
        """Bytes that may span files; short where the last file ends, empty outside."""
        if not self.has(offset) or size <= 0:
            return b""
        start = offset % self.file_size
        base = offset - start
        if start + size <= self.file_size:
            return self._files.get(self.path(base)).read(start, size)
        parts = []
        while size > 0 and base < self.end:
            step = min(size, self.file_size - start)
            parts.append(self.file(base).read(start, step))
            base, start, size = base + self.file_size, 0, size - step
        return b"".join(parts)

    def read_cached(self, offset: int, view: memoryview, wait: Wait) -> bool | None:
        """Fill ``view`` with the bytes at ``offset`` if that takes no more than ``wait`` says.

        :returns: False: it takes more; None: nobody knows, or they are not all there.  Then :meth:`read` has them.
        """
        while self.has(offset):
            start = offset % self.file_size
            room = self.file_size - start
            path = self.path(offset - start)
            if wait is Wait.NOTHING and not self._files.has(path):
                return False
            file = self._files.get(path)
            if len(view) <= room:
                return file.read_cached(start, view)
            found = file.read_cached(start, view[:room])
            if not found:
                return found
            view, offset = view[room:], offset + room
        return None

    def parts(self, offset: int, size: int) -> list[Part]:
        """Where these bytes lie, as far as there are files."""
        found = []
        end = min(offset + size, self.end)
        while offset < end:
            start = offset % self.file_size
            step = min(end - offset, self.file_size - start)
            found.append(Part(self.path(offset - start), start, step))
            offset += step
        return found

    def write(self, offset: int, data: Buffer) -> None:
        """Write bytes that may span files; missing files behind the last are made."""
        view = memoryview(data)
        while view:
            start = offset % self.file_size
            base = offset - start
            step = min(len(view), self.file_size - start)
            if not self.has(base):
                self.create(base).close()
            self.file(base).write(start, [view[:step]])
            view = view[step:]
            offset += step

    def zero_from(self, offset: int) -> int:
        """Make every byte from ``offset`` to the end of its file zero, and sync: returns how many were not.

        The first bytes go first and are synced before the others, so that a crash in between leaves nothing that a
        reader would start to read.
        """
        base = self.base_of(offset)
        if not self.has(base):
            return 0
        return zero_tail(self.file(base), offset - base, self.file_size)

    def sync(self, bases: Sequence[int]) -> None:
        """Sync some files, then the directory if names changed."""
        for base in bases:
            self.file(base).sync()
        self.sync_names()

    def sync_names(self) -> None:
        """Sync the directory if names changed."""
        if self.names_changed:
            self._disk.sync_dir(self.directory)
            self.names_changed = False

    def remove_after(self, offset: int) -> int:
        """Remove the files that begin at or behind ``offset``, newest first; returns how many."""
        removed = 0
        while self.bases and self.bases[-1] >= offset:
            self._remove(self.bases[-1])
            self.bases.pop()  # not before: what could not be removed is still there
            removed += 1
        if not self.bases:
            self.divide = 0
        return removed

    def detach_first(self) -> str:
        """Forget the oldest file and return its path: the caller removes it."""
        path = self.path(self.bases.pop(0))
        self._files.forget(path)
        self.names_changed = True
        return path

    def forget_all(self) -> None:
        """Close every descriptor of this directory."""
        for base in self.bases:
            self._files.forget(self.path(base))

    def _remove(self, base: int) -> None:
        path = self.path(base)
        self._files.forget(path)
        self._disk.remove(path)
        self.names_changed = True


CHUNK = 1 << 20


def zero_tail(file: File, start: int, end: int) -> int:
    """Zero ``start`` to ``end`` of a file where it is not zero, the beginning first, and sync; returns the bytes
    changed."""
    changed = 0
    first = True
    position = file.next_data(start)
    while position is not None and position < end:
        size = min(CHUNK if not first else 4096, end - position)
        data = file.read(position, size)
        if data.count(0) != len(data):
            file.write(position, [bytes(len(data))])
            changed += len(data) - data.count(0)
            if first:
                file.sync()
        first = False
        position = file.next_data(position + size)
    if changed:
        file.sync()
    return changed
