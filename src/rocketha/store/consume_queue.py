"""One queue of one topic: twenty bytes a message, in order, pointing into the log.

Pure.  Java: ``ConsumeQueue``.  Theory of operation: new entries go to ``tail``, a piece of memory; a job writes it to
the files now and then, and reads are served from files and tail together.  Nothing is lost by that: entries follow
from the log, and recovery writes them anew from the point that the checkpoint proves.

Invariants, in entries: ``0 <= min_offset <= next_offset``; files hold ``[.., tail_from)``, the tail holds
``[tail_from, next_offset)``.  A queue whose first entry has a later offset is padded from the beginning of that file
with (0, 0x7FFFFFFF, 0), as Java does.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketha.errors import CorruptStore
from rocketha.store.disk import Disk
from rocketha.store.foreign_names import ForeignNames
from rocketha.store.segment import OpenFiles, SegmentedFile, zero_tail
from rocketha.wire.spec.consume_queue import PADDING_SIZE
from rocketha.wire.store_files import QUEUE_UNIT, QueueUnit

UNIT = QUEUE_UNIT.size
pack_unit = QUEUE_UNIT.layout.pack
_unpack_unit = QUEUE_UNIT.layout.unpack_from
_PADDING = pack_unit(0, PADDING_SIZE, 0)
NO_UNIT = QueueUnit(-1, 0, 0)


class ConsumeQueue:
    """The entries of one queue.

    :ivar next_offset: index that the next message gets (Java's max offset).
    :ivar min_offset: smallest index whose message is still in the log.
    :ivar tail: packed entries not known to be in the files.
    :ivar dirty: the tail waits for a write; kept by :class:`QueueTable`.
    """

    __slots__ = ("dirty", "files", "min_offset", "next_offset", "queue_id", "tail", "tail_from", "topic")

    def __init__(self, disk: Disk, files: OpenFiles, directory: str, file_size: int, topic: str, queue_id: int) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = SegmentedFile(disk, files, directory, file_size)
        self.next_offset = 0
        self.min_offset = 0
        self.tail = bytearray()
        self.tail_from = 0
        self.dirty = False

    # Reading

    def read(self, offset: int, count: int) -> bytes:
        """Packed entries from ``offset``, at most ``count``; fewer at the end or where a file is gone."""
        in_files = self.tail_from - offset
        if in_files <= 0:
            start = -in_files * UNIT
            return bytes(self.tail[start : start + count * UNIT])
        if count <= in_files:
            return self.files.read(offset * UNIT, count * UNIT)
        data = self.files.read(offset * UNIT, in_files * UNIT)
        if len(data) < in_files * UNIT:
            return data
        return data + bytes(self.tail[: (count - in_files) * UNIT])

    def unit(self, offset: int) -> QueueUnit:
        """The entry at ``offset``; :data:`NO_UNIT` where there is none."""
        data = self.read(offset, 1) if offset >= 0 else b""
        return QueueUnit(*_unpack_unit(data)) if len(data) == UNIT else NO_UNIT

    def last(self) -> QueueUnit:
        """The newest entry, :data:`NO_UNIT` in an empty queue."""
        return self.unit(self.next_offset - 1) if self.next_offset > self.first_held() else NO_UNIT

    def first_held(self) -> int:
        """The oldest index for which there is a file or tail entry."""
        return self.files.begin // UNIT if self.files.bases else self.tail_from

    def find_first(self, wanted: Callable[[QueueUnit], bool], low: int, high: int) -> int:
        """Binary search: the smallest index in ``[low, high)`` whose entry is ``wanted``, else ``high``.

        ``wanted`` must be false up to some index and true from there on.
        """
        while low < high:
            middle = (low + high) // 2
            if wanted(self.unit(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    # Writing

    def start_at(self, offset: int) -> None:
        """Begin an empty queue at a later index: pads the file as Java does."""
        self.files.remove_after(0)
        file_first = offset - offset % (self.files.file_size // UNIT)
        self.tail_from = file_first
        self.tail = bytearray(_PADDING * (offset - file_first))
        self.next_offset = self.min_offset = offset

    def reset(self) -> None:
        """Become empty, on disk too."""
        self.files.remove_after(0)
        self.tail = bytearray()
        self.next_offset = self.min_offset = self.tail_from = 0

    def put(self, physical_offset: int, size: int, tags_code: int) -> None:
        """Add the entry of the next index; the hot path in ``append.py`` does the same in place."""
        self.tail += pack_unit(physical_offset, size, tags_code)
        self.next_offset += 1

    def written(self, upto: int) -> None:
        """The entries below ``upto`` are in the files now."""
        if upto > self.tail_from:
            del self.tail[: (upto - self.tail_from) * UNIT]
            self.tail_from = upto

    def take_back(self, offset: int) -> int:
        """The entries from ``offset`` on may not be in the files after all: they go to the tail again.

        :return: bytes that the tail grew by.
        :raises DiskFailure: they cannot be read; nothing is changed.
        """
        offset = max(offset, self.first_held())
        wanted = max(0, self.tail_from - offset) * UNIT
        data = self.files.read(offset * UNIT, wanted)
        if len(data) < wanted:
            return 0
        self.tail[:0] = data
        self.tail_from -= len(data) // UNIT
        return len(data)

    # Starting

    def load(self, foreign: ForeignNames) -> None:
        """Find the files and the end of the written entries.

        :raises CorruptStore: see :meth:`SegmentedFile.load`.
        """
        self.files.load(foreign)
        self.tail = bytearray()
        if not self.files.bases:
            self.next_offset = self.min_offset = self.tail_from = 0
            return
        per_file = self.files.file_size // UNIT
        first = self.files.begin // UNIT
        # A file is made when its first entry is written, so only the newest can be partly filled; after a crash
        # several of the newest may be empty, hence the walk back.
        for base in reversed(self.files.bases):
            low = base // UNIT
            self.tail_from = low + per_file
            end = self.find_first(_is_vacant, low, low + per_file)
            if end > low or low == first:
                break
        self.tail_from = self.next_offset = end
        self.min_offset = first

    def correct_min(self, log_begin: int) -> None:
        """Move ``min_offset`` to the first entry whose record is still in the log
        (``ConsumeQueue.correctMinOffset``)."""
        low = max(self.min_offset, self.first_held())
        self.min_offset = self.find_first(
            lambda unit: unit.physical_offset >= log_begin and unit.size != PADDING_SIZE, low, self.next_offset
        )

    def pad_dead(self, log_begin: int) -> bool:
        """Of a queue without a live entry, after a crash: what is neither padding nor points before ``log_begin`` was
        torn, and becomes padding, or it would count as live one day.  Offsets stay as they are.

        From the first padding on it is in the tail again: the crashed process may have failed to sync it.

        :return: the tail is to be written.
        """
        held = self.first_held()
        data = bytearray(self.read(held, self.next_offset - held))
        again = self.next_offset
        for offset, (physical_offset, size, _) in enumerate(QUEUE_UNIT.layout.iter_unpack(bytes(data)), held):
            if size != PADDING_SIZE:
                if size > 0 and 0 <= physical_offset < log_begin:
                    continue
                at = (offset - held) * UNIT
                data[at : at + UNIT] = _PADDING
            again = min(again, offset)
        if again < self.tail_from:
            self.tail, self.tail_from = data[(again - held) * UNIT :], again
        return bool(self.tail)

    def truncate(self, log_end: int) -> int:
        """Drop the entries that point at or behind ``log_end``, on disk too; returns how many.

        Entries that were never written, or hold zeros from a crash, count as behind.
        """
        first = self.first_held()
        end = self.find_first(lambda unit: _is_vacant(unit) or unit.physical_offset >= log_end, first, self.next_offset)
        return self.cut(end)

    def cut(self, end: int) -> int:
        """Drop the entries from index ``end`` on, in memory; :meth:`clean_behind` does it on disk."""
        dropped = self.next_offset - end
        del self.tail[max(0, (end - self.tail_from)) * UNIT :]
        self.tail_from = min(self.tail_from, end)
        self.next_offset = end
        self.min_offset = min(self.min_offset, end)
        return dropped

    def clean_behind(self) -> int:
        """Zero what the files hold behind the last entry, so that a crash cannot bring it back; returns the bytes
        changed."""
        end = self.tail_from * UNIT
        removed = self.files.remove_after(end)
        changed = 0
        if self.files.has(end):
            base = self.files.base_of(end)
            changed = zero_tail(self.files.file(base), end - base, self.files.file_size)
        if removed:
            self.files.sync_names()
        return changed

    def check_units(self, from_offset: int) -> None:
        """:class:`CorruptStore` for the first hole from ``from_offset`` on."""
        for offset in range(from_offset, self.next_offset):
            if _is_vacant(self.unit(offset)):
                raise CorruptStore(self.files.directory, offset * UNIT, f"no entry for offset {offset}")


def _is_vacant(unit: QueueUnit) -> bool:
    return unit.size <= 0 or unit.physical_offset < 0
