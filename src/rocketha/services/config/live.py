"""The broker's configuration while it runs: shown and changed by request, and what follows from it.

Java: ``Configuration``, ``AdminBrokerProcessor.updateBrokerConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocketha.broker.acknowledgements import Acknowledgements
from rocketha.broker.data_version import DataVersion
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.state import BrokerRules
from rocketha.errors import ConfigError, RequestRefused
from rocketha.services.config.loading import BrokerConfig, all_texts, update


class LiveConfig:
    """GET_ and UPDATE_BROKER_CONFIG act on the configuration in use.

    :param changed: called after a change, so that what was derived from the configuration follows.
    """

    def __init__(self, config: BrokerConfig, changed: Callable[[], None]) -> None:
        self._config = config
        self._changed = changed
        self.version = DataVersion()

    def texts(self) -> dict[str, str]:
        """Every key with its present value."""
        return all_texts(self._config)

    def change(self, changes: Mapping[str, str], wall_ms: int) -> None:
        """Change live keys, all or none.

        :raises ConfigError: a key may not change, or its value is refused.
        """
        for value in changes.values():
            if "\n" in value or "\r" in value:
                raise ConfigError("a value holds a line break")
        body = "".join(f"{key}={value}\n" for key, value in changes.items()).encode()
        try:
            if update(self._config, body):
                self.version.next(wall_ms, 0)
                self._changed()
        except RequestRefused as refusal:
            raise ConfigError(refusal.remark) from None


def apply_config(
    config: BrokerConfig, rules: BrokerRules, own: MessageRules, waiting: Acknowledgements, memory_bytes: int
) -> None:
    """What handlers obey follows the configuration: at the start, and when a live key changed.

    :param memory_bytes: the machine's memory.
    """
    keys = config.store
    rules.auto_create_topic = config.auto_create_topic_enable
    rules.auto_create_group = config.auto_create_subscription_group
    rules.default_topic_queue_nums = config.default_topic_queue_nums
    rules.validate_system_topic = config.validate_system_topic_when_update_topic
    rules.notify_consumer_ids_changed = config.notify_consumer_ids_changed_enable
    rules.server_side_reset_offset = config.use_server_side_reset_offset
    rules.reject_pull_consumer = config.reject_pull_consumer_enable
    own.cluster_name = config.broker_cluster_name
    own.broker_ip = config.broker_ip1
    own.region_id = config.region_id
    own.trace_on = config.trace_on
    own.permission = config.broker_permission
    own.message_bytes_max = keys.max_message_size
    own.nul = not config.replication.enable_dleger_commit_log
    own.batch_bytes_max = keys.mapped_file_size_commit_log - 8  # room for the blank record
    waiting.sync_flush = keys.flush_disk_type == "SYNC_FLUSH"
    waiting.flush_timeout_ms = keys.sync_flush_timeout
    waiting.slave_timeout_ms = config.replication.slave_timeout
    own.offset_check_in_slave = config.replication.offset_check_in_slave
    own.slave_read_enable = config.replication.slave_read_enable
    own.recent_bytes = memory_bytes * keys.access_message_in_memory_max_ratio // 100
    own.long_polling = config.long_polling_enable
    own.short_polling_ms = config.short_polling_time_mills
    own.transfer_bytes_max = keys.max_transfer_bytes_on_message_in_memory
    own.transfer_count_max = keys.max_transfer_count_on_message_in_memory
    own.query_max, own.unique_query_max = keys.max_msgs_num_batch, keys.default_query_max_num
