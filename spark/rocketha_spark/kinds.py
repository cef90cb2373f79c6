"""What a record is to RocketMQ: a message that consumers see, or one that waits in a topic of the broker's own.

A message that is delayed, timed or in a transaction is stored first in such a topic, with the topic that it is for
among its properties, and again when its time comes or it is committed.  Java: ``TopicValidator``, ``MessageConst``.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rocketha.broker import names
from rocketha.wire import properties
from rocketha.wire.record import TRANSACTION_BITS, TRANSACTION_COMMIT
from rocketha_spark.text import Pairs

PLAIN, DELAYED, TIMER, HALF, OP, RETRY, DEAD_LETTER = "plain", "delayed", "timer", "half", "op", "retry", "dead letter"
_BY_TOPIC = {
    names.SCHEDULE_TOPIC: DELAYED,
    names.TIMER_TOPIC: TIMER,
    names.HALF_TOPIC: HALF,
    names.ROCKSDB_HALF_TOPIC: HALF,
    names.OP_HALF_TOPIC: OP,
    names.ROCKSDB_OP_HALF_TOPIC: OP,
}
_BY_PREFIX = {names.RETRY_PREFIX: RETRY, names.DLQ_PREFIX: DEAD_LETTER}
_CHECKED, _ROLLED = "TRANSACTION_CHECK_TIMES", "TIMER_ROLL_TIMES"


def kind_of(topic: str) -> str:
    """Of the records of a topic."""
    found = _BY_TOPIC.get(topic)
    return found or next((kind for prefix, kind in _BY_PREFIX.items() if topic.startswith(prefix)), PLAIN)


def kinds(topics: pa.StringArray) -> pa.StringArray:
    """Of records of these topics."""
    encoded = topics.dictionary_encode()
    known = [None if each is None else kind_of(each) for each in encoded.dictionary.to_pylist()]
    return pa.array(known, pa.string()).take(encoded.indices)


def real_topics(kind: pa.StringArray, topics: pa.StringArray, pairs: Pairs) -> pa.StringArray:
    """The topics that records wait for, or that consumers had them from; their own where they say nothing of it."""
    waits = pc.is_in(kind, pa.array([DELAYED, TIMER, HALF]))
    given_back = pc.is_in(kind, pa.array([RETRY, DEAD_LETTER]))
    came_from = pc.coalesce(pairs.of(properties.DLQ_ORIGIN_TOPIC), pairs.of(properties.RETRY_TOPIC))
    said = pc.if_else(waits, pairs.of(properties.REAL_TOPIC), pc.if_else(given_back, came_from, None))
    return pc.coalesce(said, topics)


def stored_again(kind: pa.StringArray, pairs: Pairs, sys_flag: pa.Int32Array) -> pa.BooleanArray:
    """Whether the broker stored a record of its own accord, or a consumer gave it back, so that its born time tells
    nothing of its way to the log: it was delivered when it was due, committed, rolled on, checked or retried."""
    real = pairs.of(properties.REAL_TOPIC)
    committed = pc.equal(pc.bit_wise_and(sys_flag, TRANSACTION_BITS), TRANSACTION_COMMIT)
    retried = pc.fill_null(pc.starts_with(real, names.RETRY_PREFIX), False)
    rolled = pc.fill_null(pc.not_equal(pairs.of(_ROLLED), "0"), False)
    again = pc.if_else(pc.equal(kind, PLAIN), pc.or_(pc.is_valid(real), committed), True)
    again = pc.if_else(pc.equal(kind, DELAYED), retried, again)
    again = pc.if_else(pc.equal(kind, TIMER), rolled, again)
    return pc.if_else(pc.equal(kind, HALF), pc.is_valid(pairs.of(_CHECKED)), again)
