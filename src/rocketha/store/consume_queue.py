"""One queue of one topic: twenty bytes a message, in order, pointing into the log.

Pure.  Java: ``ConsumeQueue``.  How they lie in files and memory: :mod:`rocketha.store.units`.

Invariant, in entries: ``0 <= min_offset <= next_offset``.  A queue whose first entry has a later offset is padded from
the beginning of that file with (0, 0x7FFFFFFF, 0), as Java does.
"""

from __future__ import annotations

from collections.abc import Callable

from rocketha.errors import CorruptStore
from rocketha.store.disk import Disk
from rocketha.store.foreign_names import ForeignNames
from rocketha.store.segment import OpenFiles
from rocketha.store.units import UnitFiles
from rocketha.wire.spec.consume_queue import PADDING_SIZE
from rocketha.wire.store_files import QUEUE_UNIT, QueueUnit

UNIT = QUEUE_UNIT.size
pack_unit = QUEUE_UNIT.layout.pack
_unpack_unit = QUEUE_UNIT.layout.unpack_from
_PADDING = pack_unit(0, PADDING_SIZE, 0)
NO_UNIT = QueueUnit(-1, 0, 0)


class ConsumeQueue(UnitFiles):
    """The entries of one queue; ``next_offset`` is the index that the next message gets (Java's max offset).

    :ivar min_offset: smallest index whose message is still in the log.
    """

    __slots__ = ("min_offset", "queue_id", "topic")
    unit_bytes = UNIT

    def __init__(self, disk: Disk, files: OpenFiles, directory: str, file_size: int, topic: str, queue_id: int) -> None:
        super().__init__(disk, files, directory, file_size)
        self.topic = topic
        self.queue_id = queue_id
        self.min_offset = 0

    # Reading

    def unit(self, offset: int) -> QueueUnit:
        """The entry at ``offset``; :data:`NO_UNIT` where there is none."""
        data = self.read(offset, 1) if offset >= 0 else b""
        return QueueUnit(*_unpack_unit(data)) if len(data) == UNIT else NO_UNIT

    def last(self) -> QueueUnit:
        """The newest entry, :data:`NO_UNIT` in an empty queue."""
        return self.unit(self.next_offset - 1) if self.next_offset > self.first_held() else NO_UNIT

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

    # Starting

    def load(self, foreign: ForeignNames, begin: int = 0) -> None:
        super().load(foreign, begin)
        self.min_offset = self.first_held()

    def is_vacant(self, offset: int) -> bool:
        return _is_vacant(self.unit(offset))

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
        self.min_offset = min(self.min_offset, end)
        return super().cut(end)

    def check_units(self, from_offset: int) -> None:
        """:class:`CorruptStore` for the first hole from ``from_offset`` on."""
        for offset in range(from_offset, self.next_offset):
            if _is_vacant(self.unit(offset)):
                raise CorruptStore(self.files.directory, offset * UNIT, f"no entry for offset {offset}")


def _is_vacant(unit: QueueUnit) -> bool:
    return unit.size <= 0 or unit.physical_offset < 0
