"""What a new master sets right in its tables before it serves: topics from its log, offsets that lie behind it.

Pure.  Must not know about elections.  The log of a new master holds every acknowledged message; its tables are as old
as its last question to the former master.  So three things can be found in the log that the tables lack or
contradict:

Topics.  A topic that came to be by a send (autoCreateTopicEnable, retry and DLQ topics) after that question has
records and no entry.  It is made again.  How many queues it had the log does not say, only which it used; but an
automatic topic has at most as many as its default topic, so it gets those: a producer with the former master's route
is refused nowhere. A topic that was *deleted* has no queues here either, unless its records came after the deletion
was taken; then all of them are below where the log ended when our table was taken
(:attr:`DeletedTopics.complete`).  A store that was Java's lacks that note, and it is forgotten where Java had the
store since.  There the newest record counts, if it is
older than the table: their time stamps are the former master's, and wrong where its clock was set back.

Consumer offsets behind the end of their queue (an unclean election cut the log, or a topic was made anew; regression
A18, F4).  They are set to the end: otherwise the group would pass over whatever is written up to there.

Delay levels are set right by :meth:`DelayedDelivery.start`.

Java does none of this: topics gone after a switch are apache/rocketmq #9804.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rocketha.broker import names
from rocketha.broker.offsets import ConsumerOffsets, split_key
from rocketha.broker.topics import QUEUE_NUMS_MAX, TopicConfig, TopicTable

SLACK_MS = 1000
"""The former master's clock may have been set back by this much between a topic's creation and its first message."""


class QueueEnd(NamedTuple):
    """One queue as the log shows it.

    :ivar next_offset: the offset that the next message of the queue gets.
    :ivar newest_ms: when its newest message was stored; -1 when none is there.
    :ivar newest_at: log offset of that message, -1 likewise.
    """

    next_offset: int
    newest_ms: int
    newest_at: int = -1


Ends = Mapping[str, Mapping[int, QueueEnd]]
"""topic -> queue id -> its end."""


class Lowered(NamedTuple):
    """A consumer offset that was behind the end of its queue."""

    group: str
    topic: str
    queue_id: int
    committed: int
    end: int


def topics_of_log(table: TopicTable, ends: Ends, complete_below: int | None = None) -> list[TopicConfig]:
    """The topics that have messages, are missing in the table, and were made after the table was.

    :param complete_below: log offset below which the table has every topic that was not deleted, if that is known.
    """
    known_ms = table.data_version.timestamp_ms - SLACK_MS if table.data_version.counter else -1
    default = table.get(names.DEFAULT_TOPIC)
    automatic = default.write_queue_nums if default is not None else 1
    found = []
    for topic in sorted(ends):
        queues = ends[topic]
        newest_ms = max((end.newest_ms for end in queues.values()), default=-1)
        newest_at = max((end.newest_at for end in queues.values()), default=-1)
        deleted = newest_ms < known_ms if complete_below is None else newest_at < complete_below
        if topic in table or deleted or newest_ms < 0 or names.path_problem(topic) is not None:
            continue
        shown = max(queue_id for queue_id, end in queues.items() if end.newest_ms >= 0) + 1
        if shown > QUEUE_NUMS_MAX:
            continue
        of_group = topic.startswith((names.RETRY_PREFIX, names.DLQ_PREFIX))
        count = shown if of_group else max(shown, automatic)
        found.append(TopicConfig(topic, count, count))
    return found


def lower_offsets(offsets: ConsumerOffsets, ends: Ends) -> list[Lowered]:
    """Set the offsets that lie behind their queue's end to that end; what was done, in order of key and queue."""
    done = []
    for key in sorted(offsets.committed):
        topic, group = split_key(key)
        queues = ends.get(topic, {})
        for queue_id, committed in sorted(offsets.committed[key].items()):
            end = queues[queue_id].next_offset if queue_id in queues else 0
            if committed > end:
                offsets.lower(key, queue_id, end)
                done.append(Lowered(group, topic, queue_id, committed, end))
    return done
