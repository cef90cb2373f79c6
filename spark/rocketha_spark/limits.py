"""Micro-batches of a limited size, and queries that end with what is there now: Spark has them from 4.2 on."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from rocketha_spark.source import StreamReader


class LimitedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """The same; Spark says where a micro-batch begins, and how much it may have."""

    def getDefaultReadLimit(self) -> ReadLimit:
        """As ``maxBytesPerTrigger`` says."""
        size = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if size is None else ReadMaxBytes(size)

    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is all that this query reads."""
        self._positions.end_now()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # type: ignore[override]
        """Where the next micro-batch ends."""
        return self._positions.latest(start, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None)
