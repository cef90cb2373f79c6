"""What the broker tells Prometheus and ``mqadmin brokerStatus``: values that it keeps anyway, asked when they are
read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from rocketha.broker.lag import Lags
from rocketha.broker.runtime_requests import readable_bytes
from rocketha.latencies import Histogram
from rocketha.observe.metrics import Registry
from rocketha.services.core.core import BrokerCore
from rocketha.services.core.feature import BrokerFeature
from rocketha.store import expiry
from rocketha.store.sizes import sizes

SERIES_MAX = 1000


def _same(histogram: Histogram) -> Histogram:
    return histogram


class Statistics(BrokerFeature):
    """Of one broker.

    :ivar lags: of its consumer groups.
    """

    def __init__(self, core: BrokerCore) -> None:
        self._core = core
        self.lags = Lags(core.state.offsets, core.store, core.platform.now_ms, core.busy)

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
        self._install_latencies(metrics)
        self._install_disk(metrics)
        self._install_lags(metrics)

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

    def _install_latencies(self, metrics: Registry) -> None:
        latencies = self._core.parts.waiting.latencies
        for name, text, histogram in (
            ("send", "From a send to its answer, of sends that were stored.", latencies.sends.ended),
            ("replicas_ack", "From a write of the log until enough replicas have it.", latencies.replicas),
            ("sync", "Syncs of the commit log (fdatasync).", latencies.syncs),
            ("pull", "From a pull to its answer, of pulls that found messages at once.", latencies.pulls.ended),
            (
                "held_pull",
                "Likewise of pulls that waited until there was one (long polls).",
                latencies.held_pulls.ended,
            ),
        ):
            metrics.ask(f"rocketha_{name}_seconds", text, partial(_same, histogram), "histogram")

    def _install_disk(self, metrics: Registry) -> None:
        store = self._core.store
        metrics.ask_series(
            "rocketha_store_bytes",
            "Of the store's files that hold something, by part; sparse ends and small tables not counted.",
            ("part",),
            lambda: [((part,), size) for part, size in sizes(store)],
        )
        metrics.ask("rocketha_disk_free_bytes", "Free on the store's disk, root's share left out.", self._free)
        metrics.ask("rocketha_disk_total_bytes", "Size of the store's disk.", lambda: store.space.total)
        metrics.ask("rocketha_disk_failed", "1 where the disk failed, and nothing more is stored.", self._failed)
        marks = (
            (("expire",), expiry.expire_ratio(store.config)),
            (("clean",), expiry.force_ratio(store.config)),
            (("refuse",), store.config.disk_full_ratio),
        )
        metrics.ask_series(
            "rocketha_disk_mark_ratio",
            "Used part of the disk from which expired files go at any hour (expire), the oldest files go although not "
            "expired (clean), messages are refused (refuse).",
            ("mark",),
            lambda: marks,
        )

    def _install_lags(self, metrics: Registry) -> None:
        lags, labels, wall_ms = self.lags, ("group", "topic"), self._core.platform.wall_ms
        metrics.ask_series(
            "rocketha_consumer_lag_messages",
            "Messages stored and not consumed, of groups that have offsets, the largest first.",
            labels,
            lambda: [((row.group, row.topic), row.messages) for row in lags.rows()],
        )

        def ages() -> Iterable[tuple[tuple[str, ...], int]]:
            now_ms = wall_ms()
            for row in lags.rows():
                if row.oldest_ms is not None:
                    yield (row.group, row.topic), max(0, now_ms - row.oldest_ms) if row.oldest_ms else 0

        metrics.ask_series(
            "rocketha_consumer_lag_age_milliseconds",
            "How long ago the oldest message that is not consumed was stored, where that is in memory; 0 without one.",
            labels,
            ages,
        )
        metrics.ask(
            "rocketha_consumer_lag_left_out", "Groups and topics whose lag is not shown.", lambda: lags.left_out
        )

    def _free(self) -> int:
        return self._core.store.space.available

    def _failed(self) -> int:
        return int(self._core.store.log.broken is not None)

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
