"""A configuration as the parts of rocketha want it: the store's settings, a port's limits, endpoint strings.

Knows both sides' names; decides nothing but their correspondence and units.
"""

from __future__ import annotations

from rocketha.broker.delay_levels import parse_levels
from rocketha.broker.register_parts import RegistrationRules
from rocketha.protocols.limits import Limits
from rocketha.services.config.keys import BrokerConfig, RemotingConfig
from rocketha.services.process.local_time import local_utc_offset_ms
from rocketha.services.process.open_files import store_files
from rocketha.store.config import StoreConfig
from rocketha.store.layout import COMMITLOG, DLEDGER


def store_config(config: BrokerConfig, utc_offset_ms: int | None = None) -> StoreConfig:
    """The store's settings.

    :param utc_offset_ms: local time minus UTC; the host's where not given.
    :raises ConfigError: settings that cannot work together.
    """
    keys, replication = config.store, config.replication
    hour_ms = 3_600_000
    entries = replication.enable_dleger_commit_log
    log = replication.store_path_dledger_commit_log if entries else keys.store_path_commit_log
    store = StoreConfig(
        commitlog_directory=log or None,
        layout=DLEDGER if entries else COMMITLOG,
        older_log_directory=keys.store_path_commit_log if entries else None,
        entry_index_directory=f"{replication.dledger_directory}/index" if entries else None,
        segment_size=keys.mapped_file_size_commit_log,
        queue_file_size=keys.mapped_file_size_consume_queue,
        index_enable=keys.message_index_enable,
        index_slots=keys.max_hash_slot_num,
        index_units=keys.max_index_num,
        message_bytes_max=keys.max_message_size,
        delay_levels_ms=parse_levels(keys.message_delay_level),
        warm=keys.warm_maped_file_enable,
        flush_queue_interval_ms=keys.flush_interval_consume_queue,
        flush_queue_thorough_interval_ms=keys.flush_consume_queue_thorough_interval,
        file_reserved_ms=keys.file_reserved_time * hour_ms,
        delete_hours=frozenset(int(hour) for hour in keys.delete_when.split(";")),
        utc_offset_ms=local_utc_offset_ms() if utc_offset_ms is None else utc_offset_ms,
        delete_files_max=keys.delete_file_batch_max,
        disk_expire_ratio=keys.disk_max_used_space_ratio / 100,
        disk_force_ratio=keys.disk_space_clean_forcibly_ratio / 100,
        disk_force_enable=keys.clean_file_forcibly_enable,
        disk_full_ratio=keys.disk_space_warning_level_ratio / 100,
        expire_interval_ms=keys.clean_resource_interval,
        open_files_max=store_files(),
    )
    store.check()
    return store


def limits(keys: RemotingConfig) -> Limits:
    """What a listening port allows."""
    return Limits(
        frame_bytes=keys.frame_max_length,
        first_frame_s=keys.first_frame_timeout_seconds,
        whole_frame_s=keys.frame_timeout_seconds,
        idle_s=keys.server_channel_max_idle_time_seconds,
        connections=keys.connections_max,
        connections_per_address=keys.connections_per_address_max,
        queued_bytes=keys.unsent_bytes_max,
    )


def registration(config: BrokerConfig) -> RegistrationRules:
    """How a broker registers with its nameservers."""
    return RegistrationRules(
        period_s=config.register_name_server_period / 1000,
        timeout_s=config.register_broker_timeout_mills / 1000,
        split=config.enable_split_registration,
        part_topics=config.split_registration_size,
    )


def endpoint(address: str, port: int, backlog: int = 50) -> str:
    """The endpoint string of a plain TCP port."""
    kind = "tcp6" if ":" in address else "tcp"
    return f"{kind}:{port}:interface={address.replace(':', chr(92) + ':')}:backlog={backlog}"
