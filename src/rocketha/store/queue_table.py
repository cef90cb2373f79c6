"""All consume queues of the store: topic -> queue id -> queue, and the job that writes them.

Pure.  Java: ``ConsumeQueueStore``.
"""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator

import attrs

from rocketha.errors import CorruptStore, DiskFailure, InvariantBroken
from rocketha.store.config import StoreConfig
from rocketha.store.consume_queue import UNIT, ConsumeQueue
from rocketha.store.deleted_topics import DeletedTopics
from rocketha.store.disk import Disk
from rocketha.store.dispatch import topic_problem
from rocketha.store.foreign_names import ForeignNames, is_number
from rocketha.store.jobs import Job
from rocketha.store.segment import OpenFiles
from rocketha.store.units import UnitFiles
from rocketha.wire.spec.consume_queue import PADDING_SIZE

QUEUE_BYTES_LIMIT = 16
"""Queue tails may grow to this many times ``pending_queue_bytes_max`` while they cannot be written; then a master
takes no messages, and a replica dispatches none."""

_TOPIC = re.compile(r"[%|a-zA-Z0-9_-][%|a-zA-Z0-9_.-]*")
"""What a topic's directory may be called that has no queues; dots are in the names of clusters and brokers."""


@attrs.frozen
class _Write:
    """A tail as it was when the job was made."""

    queue: UnitFiles
    from_offset: int
    data: bytes
    known_bases: frozenset[int]
    made: list[int] = attrs.Factory(list)


def queue_directories(disk: Disk, directory: str, foreign: ForeignNames) -> Iterator[tuple[str, list[str]]]:
    """The topics that have queues in a directory, and the names of those queues' directories.

    :param foreign: is told of what is somebody else's.
    """
    for topic in foreign.ours(disk, directory, lambda name: disk.is_dir(f"{directory}/{name}")):
        path = f"{directory}/{topic}"
        within = ForeignNames()
        try:
            names = within.ours(disk, path, _is_queue_id)
        except DiskFailure as failure:
            if failure.errno not in (errno.EACCES, errno.EPERM) or _TOPIC.fullmatch(topic):
                raise
            names = []  # lost+found, of which only root sees what is in it
        if names or _TOPIC.fullmatch(topic):
            foreign.join(within)
            yield topic, names
        else:
            foreign.skip(path)


def _is_queue_id(name: str) -> bool:
    return is_number(name) and int(name) < 1 << 31 and name == str(int(name))


def _remove_queues(disk: Disk, path: str) -> None:
    """Remove what is ours in a topic's directory, and the directories that are empty then."""
    for name in ForeignNames().ours(disk, path, _is_queue_id):
        _remove_queue(disk, f"{path}/{name}")
    _remove_if_empty(disk, path)


def _remove_queue(disk: Disk, path: str) -> None:
    for name in ForeignNames().ours(disk, path, is_number):
        disk.remove(f"{path}/{name}")
    _remove_if_empty(disk, path)


def _begins_behind(queue: ConsumeQueue, log_offset: int) -> bool:
    """Whether the queue begins there or behind.  Its end may be torn, its first entry was synced before others."""
    first, per_file = queue.first_held(), queue.files.file_size // UNIT
    end = min(queue.next_offset, first + per_file)
    begin = queue.find_first(lambda unit: unit.size != PADDING_SIZE, first, end)
    return begin < end and queue.unit(begin).physical_offset >= log_offset


def _remove_if_empty(disk: Disk, directory: str) -> None:
    if disk.is_dir(directory) and not disk.list(directory):
        disk.remove_tree(directory)


class QueueTable:
    """The queues.

    :ivar queues: topic -> queue id -> queue.
    :ivar dirty: queues whose tail waits to be written.
    :ivar pending_bytes: bytes in tails, about: what the bound on memory looks at.
    """

    def __init__(self, disk: Disk, files: OpenFiles, directory: str, config: StoreConfig) -> None:
        self.directory = directory
        self.queues: dict[str, dict[int, ConsumeQueue]] = {}
        self.dirty: list[UnitFiles] = []
        self.pending_bytes = 0
        self._disk = disk
        self._files = files
        self._config = config
        self._unsynced: dict[str, None] = {}  # files written since the last thorough flush, in order
        self._unsynced_from: dict[UnitFiles, int] = {}  # their first entry that no sync is known of
        self._unsynced_directories: dict[str, None] = {}
        self._deleted: list[str] = []
        self._busy = False
        self._doubtful = False  # a job failed, and what earlier ones wrote is not in the tails again yet

    @property
    def busy(self) -> bool:
        """Whether a job that writes tails is out."""
        return self._busy

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, if it exists."""
        by_id = self.queues.get(topic)
        return None if by_id is None else by_id.get(queue_id)

    def get_or_make(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made in memory if need be; its directory appears with its first write.

        :raises InvariantBroken: a topic or queue id that no caller should have let through.
        """
        queue = self.get(topic, queue_id)
        if queue is None:
            problem = topic_problem(topic)
            if problem is not None or not 0 <= queue_id < 1 << 31:
                raise InvariantBroken(f"queue {topic!r}/{queue_id}: {problem or 'bad queue id'}")
            queue = self._make(topic, queue_id)
        return queue

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        directory = f"{self.directory}/{topic}/{queue_id}"
        queue = ConsumeQueue(self._disk, self._files, directory, self._config.queue_file_size, topic, queue_id)
        self.queues.setdefault(topic, {})[queue_id] = queue
        return queue

    def all(self) -> Iterator[ConsumeQueue]:
        """Every queue, in order of topic and id."""
        for topic in sorted(self.queues):
            for queue_id in sorted(self.queues[topic]):
                yield self.queues[topic][queue_id]

    def load(self, foreign: ForeignNames) -> None:
        """Find every queue on disk.

        :param foreign: is told of what is somebody else's.
        :raises CorruptStore: a file that has a queue's name, or files as :meth:`SegmentedFile.load` refuses them.
        """
        self.queues.clear()
        for topic, names in queue_directories(self._disk, self.directory, foreign):
            for name in names:
                path = f"{self.directory}/{topic}/{name}"
                if not self._disk.is_dir(path):
                    raise CorruptStore(path, 0, "the name is that of a queue's directory, and this is a file")
                self._make(topic, int(name)).load(foreign)

    def mark(self, queue: UnitFiles) -> None:
        """The tail of a queue, or of the index of entries, grew."""
        if not queue.dirty:
            queue.dirty = True
            self.dirty.append(queue)

    def max_physical_offset(self) -> int:
        """The largest log offset any queue's last entry points at; -1 without entries."""
        return max((queue.last().physical_offset for queue in self.all()), default=-1)

    def correct_min(self, log_begin: int) -> None:
        for queue in self.all():
            queue.correct_min(log_begin)

    # Writing

    def write_job(self, thorough: bool) -> Job | None:
        """Write the tails; None when there is nothing to do or such a job is out.

        :param thorough: sync everything written since the last thorough job too.
        """
        unsynced = self._unsynced or self._unsynced_directories
        if self._busy or not (self.dirty or (thorough and unsynced)):
            return None
        if self._doubtful:
            try:
                self._take_back()
            except DiskFailure:
                return None
        writes = [
            _Write(queue, queue.tail_from, bytes(queue.tail), frozenset(queue.files.bases)) for queue in self.dirty
        ]
        for queue in self.dirty:
            queue.dirty = False
        self.dirty = []
        self.pending_bytes = 0
        self._busy = True
        files, directories = dict(self._unsynced), dict(self._unsynced_directories)

        def run() -> None:
            for write in writes:
                self._write(write, files, directories)
            if thorough:
                self._disk.sync_all(files, directories)

        def apply() -> None:
            self._apply(writes, files, directories, thorough)

        return Job("queues", run, apply, lambda _: self._fail(writes, directories))

    def _write(self, write: _Write, files: dict[str, None], directories: dict[str, None]) -> None:
        file_size = write.queue.files.file_size
        directory = write.queue.files.directory
        if not write.known_bases:
            self._disk.make_dirs(directory)
            directories[self.directory] = directories[directory.rpartition("/")[0]] = None
        view = memoryview(write.data)
        position = write.from_offset * write.queue.unit_bytes
        while view:
            start = position % file_size
            base = position - start
            path = f"{directory}/{base:020d}"
            step = min(len(view), file_size - start)
            if base in write.known_bases or self._disk.exists(path):
                file = self._disk.open(path)
            else:
                file = self._disk.create(path, file_size)
                directories[directory] = None
            try:
                file.write(start, [view[:step]])
            finally:
                file.close()
            if base not in write.known_bases:
                write.made.append(base)
            files[path] = None
            view = view[step:]
            position += step

    def _apply(
        self, writes: list[_Write], files: dict[str, None], directories: dict[str, None], thorough: bool
    ) -> None:
        self._busy = False
        for write in writes:
            bases = write.queue.files.bases
            bases.extend(base for base in write.made if not bases or base > bases[-1])
            write.queue.written(write.from_offset + len(write.data) // write.queue.unit_bytes)
            first = self._unsynced_from.get(write.queue, write.from_offset)
            self._unsynced_from[write.queue] = min(first, write.from_offset)
        if thorough:
            self._unsynced_from.clear()
        self._unsynced = {} if thorough else files
        self._unsynced_directories = {} if thorough else directories
        self._remove_deleted()

    def _fail(self, writes: list[_Write], directories: dict[str, None]) -> None:
        """Nothing is known to be written: the tails stay, the next job writes them again.

        So it does what earlier jobs wrote and none synced: after a sync that failed, the next one succeeds without it.
        The names of files that were made are still to be synced: the next job finds the files.
        """
        self._busy = False
        self._unsynced_directories = directories
        for write in writes:
            bases = write.queue.files.bases
            bases.extend(base for base in write.made if not bases or base > bases[-1])
            self.mark(write.queue)
            self.pending_bytes += len(write.data)
        self._doubtful = bool(self._unsynced_from)
        with contextlib.suppress(DiskFailure):
            self._take_back()
        self._remove_deleted()

    def _take_back(self) -> None:
        """Have everything that is not known to be synced in the tails again.

        :raises DiskFailure: some of it cannot be read: nothing is written before it can.
        """
        for queue, offset in self._unsynced_from.items():
            self.pending_bytes += queue.take_back(offset)
            self.mark(queue)
        self._doubtful = False

    def distrust_names(self) -> None:
        """After a crash: let the next thorough job sync every directory, whoever made the names in it."""
        self._unsynced_directories[self.directory] = None
        for queue in self.all():
            directory = queue.files.directory
            self._unsynced_directories[directory.rpartition("/")[0]] = self._unsynced_directories[directory] = None

    # Removing

    def delete_topic(self, topic: str) -> None:
        """Forget a topic's queues and remove their files."""
        for queue in self.queues.pop(topic, {}).values():
            self._forget(queue)
        if topic_problem(topic) is None:
            self._deleted.append(f"{self.directory}/{topic}")
            if not self._busy:  # a job that is out would make the files again
                self._remove_deleted()

    def drop_void(self, deleted: DeletedTopics) -> None:
        """Remove the queues that hold nothing but void records."""
        for topic in [topic for topic in deleted.table if topic in self.queues]:
            queues = self.queues[topic]
            below = deleted.table[topic].below
            void = [queue for queue in queues.values() if not _begins_behind(queue, below)]
            if len(void) == len(queues):
                self.delete_topic(topic)
                continue
            for queue in void:
                del queues[queue.queue_id]
                self._forget(queue)
                self._deleted.append(queue.files.directory)
        if not self._busy:
            self._remove_deleted()

    def _forget(self, queue: ConsumeQueue) -> None:
        queue.files.forget_all()
        self._unsynced_from.pop(queue, None)
        if queue.dirty:
            self.dirty.remove(queue)

    def _remove_deleted(self) -> None:
        paths, self._deleted = self._deleted, []
        for path in paths:
            if path.rpartition("/")[0] == self.directory:
                _remove_queues(self._disk, path)
            else:
                _remove_queue(self._disk, path)
            for name in [name for name in self._unsynced if name.startswith(path + "/")]:
                del self._unsynced[name]

    def expired_paths(self, log_begin: int) -> list[str]:
        """Forget the files whose every entry points before ``log_begin``, never a queue's last; returns their paths.

        One that entries of the tail go to stays: writing them would make it anew, with nothing before them.
        """
        paths = []
        for queue in self.all():
            per_file = queue.files.file_size // UNIT
            while len(queue.files.bases) > 1:
                end = queue.files.bases[0] // UNIT + per_file
                if queue.tail_from < end or queue.unit(end - 1).physical_offset >= log_begin:
                    break
                paths.append(queue.files.detach_first())
            queue.correct_min(log_begin)
        return paths
