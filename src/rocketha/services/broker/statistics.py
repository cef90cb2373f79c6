"""What the broker tells Prometheus and ``mqadmin brokerStatus``: values that it keeps anyway, asked when they are
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rocketha.broker.runtime_requests import readable_bytes
from rocketha.observe.metrics import Registry
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature

SERIES_MAX = 1000


class Statistics(BrokerFeature):
    """Of one broker."""

    def __init__(self, core: BrokerCore) -> None:
        self._core = core

    def second(self) -> None:
        self._core.parts.stats.sample(self._core.platform.now_ms())

    def install(self, metrics: Registry) -> None:
        core = self._core
        stats, store = core.parts.stats, core.store
        factories, flusher, waiting, topics_table = core.factories, core.flusher, core.parts.waiting, core.state.topics
        count, now = "counter", "gauge"
        for name, text, value, kind in (
            ("rocketha_messages_in_total", "Messages stored.", lambda: stats.put_messages, count),
            ("rocketha_bytes_in_total", "Bytes of records stored.", lambda: stats.put_bytes, count),
            ("rocketha_sends_failed_total", "Sends that the disk refused.", lambda: stats.put_failed, count),
            ("rocketha_messages_out_total", "Messages given to consumers.", lambda: stats.get_messages, count),
            ("rocketha_pulls_found_total", "Pulls that found messages.", lambda: stats.get_found, count),
            ("rocketha_pulls_empty_total", "Pulls that found nothing.", lambda: stats.get_missed, count),
            ("rocketha_sends_waiting", "Sends that wait for the disk.", lambda: len(waiting), now),
            ("rocketha_flushes_total", "Flushes of the commit log.", lambda: flusher.count, count),
            ("rocketha_log_end_bytes", "End of the commit log.", lambda: store.max_physical_offset, now),
            ("rocketha_log_begin_bytes", "Begin of the commit log.", lambda: store.min_physical_offset, now),
            (
                "rocketha_log_flushed_bytes",
                "Up to where the commit log is on the disk.",
                lambda: store.flushed_offset,
                now,
            ),
            (
                "rocketha_log_files_expired_early_total",
                "Files of the commit log deleted before fileReservedTime, for want of room.",
                lambda: store.upkeep.expired_early,
                count,
            ),
            ("rocketha_disk_used_ratio", "Used part of the store's disk, 0 to 1.", lambda: store.used_ratio, now),
            ("rocketha_topics", "Topics.", lambda: len(topics_table.table), now),
            ("rocketha_connections", "Open connections.", lambda: sum(len(f.connections) for f in factories), now),
            ("rocketha_frames_in_total", "Frames received.", lambda: sum(f.frames_in for f in factories), count),
            ("rocketha_bytes_received_total", "Bytes received.", lambda: sum(f.bytes_in for f in factories), count),
            ("rocketha_bytes_sent_total", "Bytes sent.", lambda: sum(f.bytes_out for f in factories), count),
        ):
            metrics.ask(name, text, value, kind)

        def topics() -> Iterable[tuple[tuple[str, ...], int]]:
            return [((name,), counters.put_messages) for name, counters in sorted(stats.topics.items())[:SERIES_MAX]]

        def groups() -> Iterable[tuple[tuple[str, ...], int]]:
            rows = []
            for key, counters in sorted(stats.groups.items())[:SERIES_MAX]:
                topic, _, group = key.partition("@")
                rows.append(((topic, group), counters.get_messages))
            return rows

        metrics.ask_series("rocketha_topic_messages_in_total", "Messages stored by topic.", ("topic",), topics, count)
        metrics.ask_series(
            "rocketha_group_messages_out_total", "Messages given to groups.", ("topic", "group"), groups, count
        )

    def runtime_facts(self) -> Mapping[str, str]:
        core = self._core
        ratio = repr(core.store.used_ratio)
        space = core.store.space
        return {
            "commitLogDirCapacity": f"Total : {readable_bytes(space.total)}, Free : {readable_bytes(space.free)}.",
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{core.config.store.store_path_commit_log}": ratio,
            "consumeQueueDiskRatio": ratio,
            "startAcceptSendRequestTimeStamp": str(core.config.start_accept_send_request_time_stamp),
            "rocketha.storeRefusal": core.store.unwritable_seen or "",
        }
