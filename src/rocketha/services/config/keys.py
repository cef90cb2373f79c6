"""Every configuration key that rocketha acts on: one line a key.

Names and defaults are those of Apache RocketMQ (``BrokerConfig``, ``BrokerIdentity``, ``MessageStoreConfig``,
``NamesrvConfig``, ``NettyServerConfig``); ``java_default`` marks where ours is safer and docs/divergence.md says why.
The keys of replication are in :mod:`rocketha.services.config.replication`.
Keys of Java that we know and do not act on are in :mod:`rocketha.services.config.unsupported`.  How a line becomes a
parser, an answer to ``getBrokerConfig`` and a row of the manual is :mod:`rocketha.services.config.settings`.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from rocketha.services.config.access import AccessConfig
from rocketha.services.config.checks import (
    check_bind,
    check_delay_levels,
    check_endpoints,
    check_host,
    check_hours,
    check_name,
    check_plain_path,
    check_plugin_names,
)
from rocketha.services.config.metrics import MetricsConfig
from rocketha.services.config.proxies import ProxiesConfig
from rocketha.services.config.replication import ReplicationConfig
from rocketha.services.config.settings import LONG_MAX, Section, choice, flag, number, text
from rocketha.services.config.tls import TlsConfig

_NO_QUEUE = "requests are served as they come: none waits in a queue"
_FLUSH_ALL = "each flush writes whatever is dirty"
_ALL_RECENT = "the limits for recent messages hold for all"


@attrs.define(slots=True)
class StoreSettings(Section):
    """Keys of ``MessageStoreConfig`` that the store and the delivery of messages act on."""

    store_path_root_dir: str = text(
        "", "Directory of everything the broker keeps.", check=check_plain_path, java_default="~/store"
    )
    store_path_commit_log: str = text(
        "", "Directory of the commit log; empty is storePathRootDir/commitlog.", check=check_plain_path
    )
    mapped_file_size_commit_log: int = number(
        1 << 30, "Size of one commit log file.", low=64 << 10, high=(1 << 31) - 1, unit="bytes"
    )
    mapped_file_size_consume_queue: int = number(
        300_000 * 20, "Size of one consume queue file; rounded up to a multiple of 20.", low=20, unit="bytes"
    )
    max_hash_slot_num: int = number(5_000_000, "Hash slots of one index file.", low=1)
    max_index_num: int = number(20_000_000, "Entries of one index file.", low=2)
    max_message_size: int = number(
        4 << 20,
        "Longest message body accepted; no more than fits into a frame, and into a file of the log.",
        low=1,
        unit="bytes",
    )
    delete_when: str = text("04", "Hours of the day at which expired files are deleted.", check=check_hours)
    file_reserved_time: int = number(
        72, "Age at which a commit log file may be deleted.", low=1, high=24 * 366 * 100, unit="hours"
    )
    disk_max_used_space_ratio: int = number(
        75,
        "Disk use from which expired files are deleted at any hour; below 10 and above 95 it counts as these.",
        high=100,
        unit="percent",
    )
    disk_space_clean_forcibly_ratio: int = number(
        85,
        "Disk use from which the oldest files are deleted although not expired, unless cleanFileForciblyEnable is off; "
        "diskSpaceWarningLevelRatio where that is lower.",
        low=10,
        high=100,
        unit="percent",
    )
    disk_space_warning_level_ratio: int = number(
        95, "Disk use from which the broker refuses messages.", low=10, high=100, unit="percent", java_default="90"
    )
    clean_file_forcibly_enable: bool = flag(
        True,
        "Whether a nearly full disk makes unexpired files go. Without it the broker keeps them and refuses messages "
        "from diskSpaceWarningLevelRatio on.",
    )
    clean_resource_interval: int = number(10_000, "How often expired files are looked for.", low=100, unit="ms")
    delete_file_batch_max: int = number(10, "Most commit log files deleted in one look.", low=1, high=10_000)
    flush_disk_type: str = choice(
        "ASYNC_FLUSH",
        ("ASYNC_FLUSH", "SYNC_FLUSH"),
        "SYNC_FLUSH answers a sender once its message is on the disk (one fdatasync for all that wait).",
    )
    flush_interval_commit_log: int = number(500, "How often ASYNC_FLUSH writes to the disk.", low=1, unit="ms")
    flush_commit_log_least_pages: int = number(
        4,
        "Fewest dirty pages for which ASYNC_FLUSH goes to the disk.",
        unit="pages of 4096 bytes",
        no_effect=_FLUSH_ALL,
    )
    flush_commit_log_thorough_interval: int = number(
        10_000,
        "How often ASYNC_FLUSH goes to the disk however little is dirty.",
        low=1,
        unit="ms",
        no_effect=_FLUSH_ALL,
    )
    flush_interval_consume_queue: int = number(1000, "How often consume queues are flushed.", low=1, unit="ms")
    flush_consume_queue_least_pages: int = number(
        2, "Fewest dirty pages for which a consume queue is flushed.", unit="pages of 4096 bytes", no_effect=_FLUSH_ALL
    )
    flush_consume_queue_thorough_interval: int = number(
        10_000, "How often every consume queue is flushed.", low=1, unit="ms", java_default="60000"
    )
    sync_flush_timeout: int = number(
        5000, "How long a sender waits for the disk before FLUSH_DISK_TIMEOUT.", low=1, unit="ms", live=True
    )
    message_delay_level: str = text(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        "The delays of delay levels 1, 2, 3, ...",
        check=check_delay_levels,
    )
    flush_delay_offset_interval: int = number(
        10_000,
        "How often delayOffset.json is saved.",
        low=100,
        unit="ms",
        no_effect="progress of delay levels is saved with the consumer offsets",
    )
    max_transfer_bytes_on_message_in_memory: int = number(
        256 << 10, "Most bytes of one pull answer, recent messages.", low=1, high=15 << 20, unit="bytes", live=True
    )
    max_transfer_count_on_message_in_memory: int = number(
        32, "Most messages of one pull answer, recent messages.", low=1, high=100_000, live=True
    )
    max_transfer_bytes_on_message_in_disk: int = number(
        64 << 10,
        "Most bytes of one pull answer, old messages.",
        low=1,
        high=15 << 20,
        unit="bytes",
        no_effect=_ALL_RECENT,
    )
    max_transfer_count_on_message_in_disk: int = number(
        8, "Most messages of one pull answer, old messages.", low=1, high=100_000, no_effect=_ALL_RECENT
    )
    access_message_in_memory_max_ratio: int = number(
        40,
        "Share of the machine's memory up to which the end of the log counts as recent. With slaveReadEnable a "
        "consumer further behind is sent to a slave.",
        low=0,
        high=100,
        unit="percent",
        live=True,
    )
    default_query_max_num: int = number(
        32, "Most messages with one unique key that a query gives.", low=1, high=10_000, live=True
    )
    max_msgs_num_batch: int = number(
        64,
        "Most messages that any query by key gives; fewer, where more are not sure to fit into a frame.",
        low=1,
        high=10_000,
        live=True,
    )
    max_consume_queue_scan: int = number(
        20_000,
        "Most consume queue units read for one pull with a tag filter.",
        low=1,
        high=1_000_000,
        no_effect="the store bounds a read with a filter to 800 units, as RocketMQ's maxFilterMessageSize",
    )
    message_index_enable: bool = flag(True, "Whether messages are indexed by key.")
    message_index_safe: bool = flag(
        False,
        "Whether recovery goes back to the index's own check point.",
        no_effect="recovery always starts where the checkpoint proves the index",
    )
    check_crc_on_recover: bool = flag(
        True, "Whether recovery checks message bodies.", name="checkCRCOnRecover", no_effect="recovery always checks"
    )
    warm_maped_file_enable: bool = flag(False, "Whether the next commit log file is written with zeros beforehand.")


@attrs.define(slots=True)
class RemotingConfig(Section):
    """Limits of the listening ports; ``tls`` has their encryption.

    Java has the keys without ``ours``; it has no such limits otherwise.
    """

    tls: TlsConfig = attrs.field(factory=TlsConfig)

    server_channel_max_idle_time_seconds: int = number(
        120, "A connection that is silent both ways for so long is closed.", low=1, high=86_400, unit="s"
    )
    server_socket_backlog: int = number(
        1024,
        "Connections the kernel queues before they are accepted; fewer where few files may be open.",
        low=1,
        high=65_535,
    )
    connect_timeout_millis: int = number(
        3000,
        "How long a connection of our own may take to open.",
        low=1,
        unit="ms",
        no_effect="3 s, as RocketMQ's default",
    )
    frame_max_length: int = number(
        16 << 20, "Longest remoting frame.", low=64 << 10, high=256 << 20, unit="bytes", ours=True
    )
    connections_max: int = number(
        1024,
        "Most connections of clients at a time; without it, about three quarters of the open files that the system "
        "allows. A newcomer beyond that takes the place of one on which nothing was said yet, else of one that is idle "
        "and holds nothing, else of one of the address that has most newcomers; those that came first have half of "
        "the places. A sixteenth more is in reserve for replicas, other brokers, controllers and operators.",
        low=1,
        high=1_000_000,
        ours=True,
    )
    connections_per_address_max: int = number(
        64,
        "Most connections at a time from one address other than loopback; a newcomer beyond that likewise.",
        low=1,
        high=1_000_000,
        ours=True,
    )
    first_frame_timeout_seconds: int = number(
        10,
        "How long a new connection may take over its first frame; 2 s while more than half of all are such.",
        low=1,
        high=3600,
        unit="s",
        ours=True,
    )
    frame_timeout_seconds: int = number(
        30, "How long a begun frame may take to arrive.", low=1, high=3600, unit="s", ours=True
    )
    unsent_bytes_max: int = number(
        64 << 20,
        "A connection with more bytes unsent than this is closed: its client asks and does not read.",
        low=32 << 20,
        high=1 << 30,
        unit="bytes",
        ours=True,
    )


@attrs.define(slots=True)
class BrokerConfig(Section):
    """Keys of ``BrokerConfig`` and ``BrokerIdentity``; those of the store, the ports, replication, users, proxies and
    metrics are in ``store``, ``remoting``, ``replication``, ``access``, ``proxies`` and ``metrics``.
    """

    store: StoreSettings = attrs.field(factory=StoreSettings)
    remoting: RemotingConfig = attrs.field(factory=RemotingConfig)
    replication: ReplicationConfig = attrs.field(factory=ReplicationConfig)
    access: AccessConfig = attrs.field(factory=AccessConfig)
    proxies: ProxiesConfig = attrs.field(factory=ProxiesConfig)
    metrics: MetricsConfig = attrs.field(factory=MetricsConfig)
    plugin_keys: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)

    broker_cluster_name: str = text("DefaultCluster", "The cluster's name.", check=check_name)
    broker_name: str = text(
        "", "The broker's name; empty is the host's name.", check=lambda v: check_name(v) if v else None
    )
    broker_id: int = number(
        0,
        "0 is the master; in controller mode, whose sample files say -1, the controllers give ids.",
        low=-1,
        high=LONG_MAX,
    )
    broker_ip1: str = text(
        "",
        "Address told to clients; empty is the address listened on. Of a host name they are told the name, and records "
        "have the address that it has here at the start.",
        check=check_host,
        name="brokerIP1",
        java_default="the first address of the host that is not loopback",
    )
    broker_ip2: str = text(
        "", "Address or host name told to replicas; empty is brokerIP1.", check=check_host, name="brokerIP2"
    )
    namesrv_addr: str = text(
        "", "Name servers to register with, host:port;host:port.  Also from $NAMESRV_ADDR.", check=check_endpoints
    )
    listen_port: int = number(10911, "Port for clients; the fast port is two below.", low=1, high=65_535)
    bind_address: str = text(
        "127.0.0.1", "Address to listen on; 0.0.0.0 or :: is all.", check=check_bind, java_default="all addresses"
    )
    plugins: str = text(
        "",
        "Plug-ins that are on, NAME, NAME: see docs/plugins.rst.  Their own keys are written NAME.KEY.",
        check=check_plugin_names,
        ours=True,
    )
    fast_port_enable: bool = flag(True, "Whether listenPort - 2 is listened on, for admin and slaves.", ours=True)
    rocketmq_home: str = text("", "Shown to tools; the files of ACL 1 are below its conf/.  Also from $ROCKETMQ_HOME.")
    broker_permission: int = number(6, "4 read + 2 write.", low=0, high=7, live=True)
    default_topic_queue_nums: int = number(
        8, "Queues of a topic created by its first message.", low=1, high=1024, live=True
    )
    auto_create_topic_enable: bool = flag(True, "Whether the first message creates its topic.", live=True)
    auto_create_subscription_group: bool = flag(True, "Whether the first consumer creates its group.", live=True)
    cluster_topic_enable: bool = flag(True, "Whether there is a topic with the cluster's name.")
    broker_topic_enable: bool = flag(True, "Whether there is a topic with the broker's name.")
    trace_topic_enable: bool = flag(
        False,
        "Whether there is a trace topic from the start; without it one is created by its first message, as any other.",
    )
    msg_trace_topic_name: str = text("RMQ_SYS_TRACE_TOPIC", "The name of that topic.", check=check_name)
    region_id: str = text("DefaultRegion", "Put into the properties of each message as MSG_REGION.", check=check_name)
    trace_on: bool = flag(True, "Put into the properties of each message as TRACE_ON.")
    flush_consumer_offset_interval: int = number(5000, "How often consumerOffset.json is saved.", low=100, unit="ms")
    long_polling_enable: bool = flag(True, "Whether a pull that finds nothing waits as long as it asks.", live=True)
    short_polling_time_mills: int = number(
        1000, "How long such a pull waits when longPollingEnable is false.", low=1, unit="ms", live=True
    )
    notify_consumer_ids_changed_enable: bool = flag(
        True, "Whether consumers are told when their group changes.", live=True
    )
    register_name_server_period: int = number(
        30_000,
        "How often the broker registers; below 10000 and above 60000 it counts as these.",
        unit="ms",
    )
    register_broker_timeout_mills: int = number(24_000, "How long a registration may take.", low=1, unit="ms")
    enable_split_registration: bool = flag(
        False,
        "Register in parts of `splitRegistrationSize` topics. What would not fit into a frame is registered so in any "
        "case, some 15,000 topics and more.",
    )
    split_registration_size: int = number(800, "Topics of one such part.", low=2, high=10_000)
    channel_expired_timeout: int = number(
        120_000,
        "A client silent for so long is forgotten.",
        low=1000,
        high=LONG_MAX,
        unit="ms",
        no_effect="120 s, as RocketMQ's default",
    )
    broker_fast_failure_enable: bool = flag(
        True, "Whether requests that waited too long are answered busy.", no_effect=_NO_QUEUE
    )
    wait_time_mills_in_send_queue: int = number(200, "That time for sends.", low=1, unit="ms", no_effect=_NO_QUEUE)
    wait_time_mills_in_pull_queue: int = number(5000, "That time for pulls.", low=1, unit="ms", no_effect=_NO_QUEUE)
    wait_time_mills_in_heartbeat_queue: int = number(
        31_000, "That time for heartbeats.", low=1, unit="ms", no_effect=_NO_QUEUE
    )
    wait_time_mills_in_admin_broker_queue: int = number(
        5000, "That time for admin requests.", low=1, unit="ms", no_effect=_NO_QUEUE
    )
    start_accept_send_request_time_stamp: int = number(
        0, "Sends before this time are refused.", high=LONG_MAX, unit="ms since 1970"
    )
    reject_pull_consumer_enable: bool = flag(False, "Whether pull consumers are refused.", live=True)
    use_server_side_reset_offset: bool = flag(True, "Whether an offset is reset on the broker's side.", live=True)
    validate_system_topic_when_update_topic: bool = flag(
        True, "Whether creating a topic with a system topic's name is refused.", live=True
    )
    consumer_offset_update_version_step: int = number(
        500,
        "Every so many offset commits the offsets' data version rises.",
        low=1,
        high=LONG_MAX,
        unit="commits",
        no_effect="slaves hear of changed offsets within a second, whatever their version",
    )
    config_black_list: str = text("configBlackList;brokerConfigPath", "Keys that no request may change.")
    config_update_enable: bool = flag(
        False, "Whether admin requests may change the keys marked live.", ours=True, java_default="true"
    )


@attrs.define(slots=True)
class NamesrvConfig(Section):
    """Keys of ``NamesrvConfig``; the ports' limits are in ``remoting``, the proxies before them in ``proxies``."""

    remoting: RemotingConfig = attrs.field(factory=RemotingConfig)
    proxies: ProxiesConfig = attrs.field(factory=ProxiesConfig)

    listen_port: int = number(9876, "Port for brokers and clients.", low=1, high=65_535)
    bind_address: str = text(
        "127.0.0.1", "Address to listen on; 0.0.0.0 or :: is all.", check=check_bind, java_default="all addresses"
    )
    rocketmq_home: str = text("", "Shown to tools only.  Also from $ROCKETMQ_HOME.")
    kv_config_path: str = text(
        "",
        "File of the KV configuration; empty is ~/namesrv/kvConfig.json, as in Java.",
        check=check_plain_path,
    )
    config_store_path: str = text("", "Shown to tools only: changes made by request are not saved.")
    product_env_name: str = text("center", "Shown to tools only.")
    cluster_test: bool = flag(False, "Shown to tools only.")
    order_message_enable: bool = flag(False, "Whether routes carry the order configuration of their topic.", live=True)
    return_order_topic_config_to_broker: bool = flag(
        True, "Whether a registering broker is given the order configurations.", live=True
    )
    scan_not_active_broker_interval: int = number(
        5000, "How often brokers whose registration ran out are looked for.", low=10, high=600_000, unit="ms"
    )
    un_register_broker_queue_capacity: int = number(
        3000, "Most brokers that may be waiting for a probe after their connection broke.", low=1, high=1_000_000
    )
    support_acting_master: bool = flag(
        False, "Whether the slave with the lowest id stands in for a missing master.", live=True
    )
    notify_min_broker_id_changed: bool = flag(
        False, "Whether brokers are told when the lowest broker id changes.", live=True
    )
    enable_all_topic_list: bool = flag(True, "Whether the list of all topics is given out.", live=True)
    enable_topic_list: bool = flag(True, "Whether topic lists by cluster and unit are given out.", live=True)
    need_wait_for_service: bool = flag(
        False, "Whether routes are refused for waitSecondsForService after the start.", live=True
    )
    wait_seconds_for_service: int = number(45, "See needWaitForService.", high=3600, unit="s", live=True)
    delete_topic_with_broker_registration: bool = flag(
        False, "Whether topics missing from a broker's full registration are deleted.", live=True
    )
    config_black_list: str = text("configBlackList;configStorePath;kvConfigPath", "Keys that no request may change.")
    config_update_enable: bool = flag(
        False, "Whether admin requests may change the keys marked live.", ours=True, java_default="true"
    )
    broken_connection_grace: int = number(
        3000,
        "How long routes outlive the connection that registered them.",
        high=60_000,
        unit="ms",
        ours=True,
        java_default="0",
    )
    enable_controller_in_namesrv: bool = flag(
        False, "Whether a controller runs in the name server's process; its keys stand in the same file."
    )
    brokers_max: int = number(10_000, "Most registered broker addresses.", low=1, high=1_000_000, ours=True)
    topics_max: int = number(200_000, "Most topics.", low=1, high=10_000_000, ours=True)
