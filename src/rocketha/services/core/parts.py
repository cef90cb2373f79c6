"""What a broker is made of: its tables, its store and the request handlers that act on them, put together.

Opens nothing.  Everything in here belongs to one broker and lives as long as it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from rocketha.broker.acknowledgements import Acknowledgements
from rocketha.broker.delay_levels import DelayLevels, parse_levels
from rocketha.broker.long_polling import HeldPulls
from rocketha.broker.message_rules import MessageRules
from rocketha.broker.pull import Pulls
from rocketha.broker.queries import Queries
from rocketha.broker.request import Responder
from rocketha.broker.requests import request_table
from rocketha.broker.routes import PULLS, Fetch, fetched_by
from rocketha.broker.send import Sends, host_bytes
from rocketha.broker.send_back import SendBacks
from rocketha.broker.state import BrokerIdentity, BrokerRules, BrokerState
from rocketha.broker.stats import BrokerStats
from rocketha.broker.traffic import Traffic
from rocketha.latencies import Latencies, RequestTimes
from rocketha.observe.refusals import NAMED
from rocketha.services.config.live import LiveConfig, apply_config
from rocketha.services.config.loading import BrokerConfig
from rocketha.services.process.local_time import local_utc_offset_ms, month_start_ms
from rocketha.services.process.platform import Platform
from rocketha.services.tables.broker_files import BrokerFiles, Table
from rocketha.services.waiting.blocking import BlockingWork
from rocketha.services.waiting.cold_reads import Read, patient
from rocketha.store import deleted_topics
from rocketha.store.message_store import MessageStore
from rocketha.store.messages import RecoveryReport
from rocketha.store.patient_reads import PatientReads
from rocketha.store.replica_log import ReplicaLog
from rocketha.wire.codes import RequestCode
from rocketha.wire.unique_id import UniqueIds


@attrs.frozen
class Opened:
    """A store as it was found, recovered.

    :ivar address: this broker's IP address, for records and ids.
    """

    address: str
    store: MessageStore
    log: ReplicaLog
    report: RecoveryReport


def store_host_of(config: BrokerConfig, address: str) -> bytes:
    """IP address and port, as records have them."""
    return host_bytes(address) + config.listen_port.to_bytes(4)


@attrs.frozen
class BrokerParts:
    """One broker's.

    :ivar requests: what answers which request code, in a broker that serves everything.
    :ivar consumers_reads: of these the ones that may have to wait for the disk, and that consumers need to go on.
    :ivar look_ups: the others that may have to.
    """

    store: MessageStore
    stats: BrokerStats
    rules: MessageRules
    delays: DelayLevels
    state: BrokerState
    held: HeldPulls
    waiting: Acknowledgements
    sends: Sends
    pulls: Pulls
    queries: Queries
    files: BrokerFiles
    requests: dict[int, Responder]
    consumers_reads: dict[int, Read]
    look_ups: dict[int, Read]


def _rules_of(config: BrokerConfig) -> BrokerRules:
    return BrokerRules(
        auto_create_topic=config.auto_create_topic_enable,
        default_topic_queue_nums=config.default_topic_queue_nums,
        cluster_topic=config.cluster_topic_enable,
        broker_topic=config.broker_topic_enable,
        trace_topic=config.msg_trace_topic_name if config.trace_topic_enable else "",
        names_count=config.access.authorizes,
    )


def _tables(state: BrokerState, store: MessageStore, delays: DelayLevels) -> dict[str, tuple[str, Table]]:
    """The files of ``config/``, each with what it keeps."""
    return {
        "topics": ("topics.json", state.topics),
        "groups": ("subscriptionGroup.json", state.groups),
        "offsets": ("consumerOffset.json", state.offsets),
        "delays": ("delayOffset.json", delays),
        "modes": ("messageRequestMode.json", state.modes),
        "deleted": (deleted_topics.NAME, store.deleted_topics),
    }


def _counted(config: BrokerConfig, platform: Platform) -> tuple[BrokerStats, Latencies]:
    """What is counted and timed; and what else Java's metrics need, where they are exported."""
    latencies = Latencies(platform.reactor.seconds)  # which is the steady clock's by now
    stats = BrokerStats(platform.now_ms(), platform.wall_ms, local_utc_offset_ms(), latencies)
    if config.metrics.exported:
        stats.traffic = Traffic() if config.metrics.enable_request_metrics else None
        latencies.requests = RequestTimes(named=NAMED) if config.metrics.enable_remoting_metrics else None
    return stats, latencies


def make_parts(
    config: BrokerConfig,
    platform: Platform,
    identity: BrokerIdentity,
    opened: Opened,
    file_work: BlockingWork,
    runtime_facts: Callable[[int], Mapping[str, str]],
) -> BrokerParts:
    """A broker's parts, on its store.

    :param file_work: where tables are written.
    :param runtime_facts: see :class:`BrokerState`.
    """
    keys, store, chance = config.store, opened.store, platform.chance
    store_host = store_host_of(config, opened.address)
    reads = PatientReads(store)
    rules = MessageRules()
    stats, latencies = _counted(config, platform)
    held, waiting = HeldPulls(), Acknowledgements(latencies=latencies)
    delays = DelayLevels(parse_levels(keys.message_delay_level))
    obeyed, memory_bytes = _rules_of(config), platform.memory_bytes()
    state = BrokerState(
        identity=identity,
        store=reads,
        stats=stats,
        wall_ms=platform.wall_ms,
        rules=obeyed,
        config=LiveConfig(config, lambda: apply_config(config, obeyed, rules, waiting, memory_bytes)),
        runtime_facts=runtime_facts,
        delay_offsets=delays.dump,
    )
    apply_config(config, obeyed, rules, waiting, memory_bytes)
    ids = UniqueIds(store_host[:-4], platform.pid(), chance.getrandbits(32))
    sends = Sends(
        state, store, rules, delays, waiting, store_host, lambda ms: ids.next(ms - month_start_ms(ms)), chance
    )
    pulls, queries = Pulls(state, store, rules, held, latencies), Queries(reads, rules)
    backs = SendBacks(state, store, rules, delays, sends, waiting, chance)
    requests: dict[int, Responder] = {
        **request_table(state),
        **queries.requests,
        RequestCode.SEND_MESSAGE: sends.send,
        RequestCode.SEND_MESSAGE_V2: sends.send,
        RequestCode.SEND_BATCH_MESSAGE: sends.send,
        RequestCode.CONSUMER_SEND_MSG_BACK: backs.send_back,
        RequestCode.PULL_MESSAGE: pulls.pull,
        RequestCode.LITE_PULL_MESSAGE: pulls.pull,
    }
    files = BrokerFiles(platform.disk, keys.store_path_root_dir, _tables(state, store, delays), file_work, ("deleted",))
    return BrokerParts(
        store=store,
        stats=stats,
        rules=rules,
        delays=delays,
        state=state,
        held=held,
        waiting=waiting,
        sends=sends,
        pulls=pulls,
        queries=queries,
        files=files,
        requests=requests,
        consumers_reads={
            **dict.fromkeys(PULLS, pulls.pull),
            **{code: patient(requests[code], reads) for code in fetched_by(Fetch.CONSUMERS)},
        },
        look_ups={code: patient(requests[code], reads) for code in fetched_by(Fetch.LOOK_UPS)},
    )
