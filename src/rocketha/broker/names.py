"""Names of topics and consumer groups: which are allowed, which are reserved, and how retry topics are spelled.

Pure.  Must not know which topics exist (:mod:`rocketha.broker.topics`).  A topic's name becomes a directory under
``consumequeue/``, so a name that came from a peer is checked before it is stored anywhere: ``../../`` in a topic was
CVE-2019-17572.  The remarks are Java's, because people search for them.

Java: ``TopicValidator``, ``MixAll``, ``KeyBuilder``.
"""

from __future__ import annotations

import re

from rocketha.errors import RequestRefused
from rocketha.wire.codes import ResponseCode

TOPIC_LENGTH_MAX = 127
RETRY_TOPIC_LENGTH_MAX = 255
GROUP_LENGTH_MAX = 120
CLIENT_ID_LENGTH_MAX = 1024

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
REPLY_SUFFIX = "_REPLY_TOPIC"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

DEFAULT_TOPIC = "TBW102"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC = "BenchmarkTest"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
ROCKSDB_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_HALF_TOPIC = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRANSACTION_CHECK_MAX_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
TIMER_TOPIC = "rmq_sys_wheel_timer"

TOOLS_GROUP = "TOOLS_CONSUMER"

SYSTEM_TOPICS = frozenset(
    {
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        OP_HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_HALF_TOPIC,
        TRANSACTION_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        CHECKPOINT_TOPIC,
    }
)
"""Names no client may create, change or delete; a broker adds those of its cluster and itself."""

NO_SEND_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        ROCKSDB_HALF_TOPIC,
        ROCKSDB_OP_HALF_TOPIC,
        TRANSACTION_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Topics to which no client may send (answered 16)."""

_ALLOWED = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)
_ALLOWED_TEXT = "^[%|a-zA-Z0-9_-]+$"
_SHOWN_MAX = 256


def topic_problem(topic: str) -> str | None:
    """Why a topic's name is refused, or ``None`` when it is good."""
    if not topic or topic.isspace():
        return "The specified topic is blank."
    if not _ALLOWED.fullmatch(topic):
        return f"The specified topic: {_shown(topic)}, contains illegal characters, allowing only {_ALLOWED_TEXT}"
    if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
        if len(topic) > RETRY_TOPIC_LENGTH_MAX:
            return (
                f"The specified topic is DLQ or Retry topic: {_shown(topic)}, "
                f"and it's longer than topic max length: {RETRY_TOPIC_LENGTH_MAX}"
            )
    elif len(topic) > TOPIC_LENGTH_MAX:
        return f"The specified topic: {_shown(topic)}, is longer than topic max length: {TOPIC_LENGTH_MAX}"
    return None


def group_problem(group: str) -> str | None:
    """Why a group's name is refused, or ``None`` when it is good."""
    if not group or group.isspace():
        return "The specified group is blank."
    if not _ALLOWED.fullmatch(group):
        return f"The specified group: {_shown(group)}, contains illegal characters, allowing only {_ALLOWED_TEXT}"
    if len(group) > GROUP_LENGTH_MAX:
        return f"The specified group: {_shown(group)}, is longer than group max length: {GROUP_LENGTH_MAX}"
    return None


def check_topic(topic: str) -> str:
    """The name itself when it is good.

    :raises RequestRefused: 29 with Java's remark.
    """
    problem = topic_problem(topic)
    if problem is not None:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, problem)
    return topic


def check_group(group: str) -> str:
    """The name itself when it is good.

    :raises RequestRefused: 29 with Java's remark.
    """
    problem = group_problem(group)
    if problem is not None:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, problem)
    return group


def path_problem(name: str) -> str | None:
    """Why a name read from our own files must not become a directory.

    Wider than :func:`topic_problem`: the topics named after a cluster or a broker may hold dots, as in Java.
    """
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\x00" in name or len(name) > 255:
        return f"{_shown(name)!r} can not be the name of a directory"
    return None


def retry_topic(group: str) -> str:
    """The topic in which a group finds the messages that it sent back."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """The topic of messages a group gave up."""
    return DLQ_PREFIX + group


def reply_topic(cluster_name: str) -> str:
    """The topic of request-reply answers in a cluster."""
    return cluster_name + REPLY_SUFFIX


def revive_topic(cluster_name: str) -> str:
    """The topic in which POP consumption keeps its checkpoints."""
    return f"{SYSTEM_TOPIC_PREFIX}REVIVE_LOG_{cluster_name}"


def member_topic(broker_name: str) -> str:
    """The topic whose route lists the members of a broker group."""
    return f"{SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{broker_name}"


def is_system_group(group: str) -> bool:
    """Whether a group is the broker's own."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def _shown(name: str) -> str:
    return name if len(name) <= _SHOWN_MAX else name[:_SHOWN_MAX] + "..."


def is_for_clients(topic: str) -> bool:
    """Whether applications made it: no retry or dead-letter topic, and none of RocketMQ's own."""
    ours = topic in SYSTEM_TOPICS or topic in NO_SEND_TOPICS
    return not (ours or topic.startswith(("%", SYSTEM_TOPIC_PREFIX)) or topic.endswith(REPLY_SUFFIX))
