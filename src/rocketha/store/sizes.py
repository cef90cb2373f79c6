"""How many bytes the parts of a store take.  Pure, and looks at no disk."""

from __future__ import annotations

from collections.abc import Iterator

from rocketha.store.message_store import MessageStore

QUEUES_COUNTED_MAX = 50_000
"""Of a store with more queues it is not said how much they take: to add them up would hold others up."""


def sizes(store: MessageStore) -> Iterator[tuple[str, int]]:
    """Each part of a store and its bytes, sparse ends and small tables left out."""
    yield "commitlog", store.max_physical_offset - store.min_physical_offset
    if sum(map(len, store.queues.queues.values())) <= QUEUES_COUNTED_MAX:
        yield "consumequeue", sum(map(sum, _queues(store)))
    if store.index is not None:
        yield "index", sum(file.written_bytes for file in store.index.files)


def _queues(store: MessageStore) -> Iterator[Iterator[int]]:
    for by_id in store.queues.queues.values():
        yield ((queue.next_offset - queue.first_held()) * queue.unit_bytes for queue in by_id.values())
