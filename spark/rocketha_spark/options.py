"""What a user may set: ``.option(name, value)``.  Names are compared without case, as everywhere in Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from rocketha.errors import ConfigError
from rocketha_spark.ranges import Span, span

ON_CORRUPT = ("fail", "row", "skip")
NAMES = (
    "path",
    "replica",
    "cuts",
    "topics",
    "onlyConfirmed",
    "onCorrupt",
    "decompress",
    "rawBody",
    "includeProperties",
    "partitionBytes",
    "minPartitions",
    "pushFilters",
    "failOnDataLoss",
    "maxBytesPerTrigger",
    "offsetKind",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
)
PARTITION_BYTES = 256 << 20


@attrs.frozen
class Options:
    """Of one table; docs/spark.rst says what each does.

    :ivar path: a directory, or a glob of several.
    :ivar replica: which of them: all, master, a broker id, or a replica's name.
    :ivar cuts: what was taken back is read instead of the log.
    :ivar topics: names, or None.
    :ivar topic_pattern: a whole name matches it, or None.
    :ivar include_properties: the table has that column, unless a schema is given.
    :ivar partition_bytes: of log that one task reads.
    :ivar min_partitions: tasks, as far as blocks of the log go round; 0 is any.
    :ivar span: where reading begins and ends.
    :ivar max_bytes_per_trigger: of log that one micro-batch has; None without limit.
    """

    path: str
    replica: str
    cuts: bool
    topics: tuple[str, ...] | None
    topic_pattern: str | None
    only_confirmed: bool
    on_corrupt: str
    decompress: bool
    include_properties: bool
    partition_bytes: int
    min_partitions: int
    push_filters: bool
    fail_on_data_loss: bool
    max_bytes_per_trigger: int | None
    span: Span

    def wants(self, topic: str) -> bool:
        """Whether messages of a topic are asked for."""
        if self.topics is not None:
            return topic in self.topics
        return self.topic_pattern is None or re.fullmatch(self.topic_pattern, topic) is not None

    @property
    def all_topics(self) -> bool:
        """No topic was named."""
        return self.topics is None and self.topic_pattern is None


def parse(given: Mapping[str, str]) -> Options:
    """The options of a table.

    :raises ConfigError: one that is not known, or a value that makes no sense.
    """
    names = {name.lower(): name for name in NAMES}
    options = {}
    for name, value in given.items():
        if name.lower() not in names:
            raise ConfigError(f"no option {name!r}; there are {', '.join(NAMES)}")
        options[names[name.lower()]] = value
    if not options.get("path"):
        raise ConfigError("the option path is missing: the directory of an export")
    topics, pattern = _topics(options.get("topics"))
    on_corrupt = options.get("onCorrupt", "fail").lower()
    if on_corrupt not in ON_CORRUPT:
        raise ConfigError(f"onCorrupt is one of {', '.join(ON_CORRUPT)}, not {on_corrupt!r}")
    limit = options.get("maxBytesPerTrigger")
    return Options(
        options["path"],
        options.get("replica", "all"),
        _flag(options, "cuts", False),
        topics,
        pattern,
        _flag(options, "onlyConfirmed", True),
        on_corrupt,
        _decompress(options),
        _flag(options, "includeProperties", True),
        _bytes("partitionBytes", options.get("partitionBytes", str(PARTITION_BYTES))),
        _number("minPartitions", options.get("minPartitions", "0")),
        _flag(options, "pushFilters", False),
        _flag(options, "failOnDataLoss", True),
        None if limit is None else _bytes("maxBytesPerTrigger", limit),
        span(options),
    )


def _topics(text: str | None) -> tuple[tuple[str, ...] | None, str | None]:
    if text is None:
        return None, None
    if text.startswith("re:"):
        try:
            re.compile(text[3:])
        except re.error as error:
            raise ConfigError(f"topics: {text[3:]!r} is no regular expression: {error}") from None
        return None, text[3:]
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ConfigError("topics names none")
    return names, None


def _flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{name} is true or false, not {options[name]!r}")
    return text == "true"


def _decompress(options: Mapping[str, str]) -> bool:
    """``rawBody`` says the same the other way round."""
    decompress = _flag(options, "decompress", False)
    if "rawBody" not in options:
        return decompress
    raw = _flag(options, "rawBody", True)
    if "decompress" in options and raw == decompress:
        raise ConfigError(f"decompress {options['decompress']} and rawBody {options['rawBody']} contradict each other")
    return not raw


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text.strip()):
        raise ConfigError(f"{name} is a number, not {text!r}")
    return int(text)


def _bytes(name: str, text: str) -> int:
    found = re.fullmatch(r"([1-9][0-9]{0,17})([kmg]?)", text.strip().lower())
    if found is None:
        raise ConfigError(f"{name} is a number of bytes, maybe with k, m or g, not {text!r}")
    return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[found[2]]
