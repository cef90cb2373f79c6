"""All requests about a broker's tables, by code.

Pure.  The service puts this table beside its own for send, pull and queries; a code in neither is answered
REQUEST_CODE_NOT_SUPPORTED.
"""

from __future__ import annotations

from rocketha.broker.client_requests import ClientRequests
from rocketha.broker.group_requests import GroupRequests
from rocketha.broker.progress_requests import ProgressRequests
from rocketha.broker.proxied_requests import ProxiedRequests
from rocketha.broker.request import Responder
from rocketha.broker.runtime_requests import RuntimeRequests
from rocketha.broker.state import BrokerState
from rocketha.broker.store_requests import StoreRequests
from rocketha.broker.topic_requests import TopicRequests
from rocketha.wire.codes import RequestCode

CONSUMERS_READS = (
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.CONSUMER_SEND_MSG_BACK,
)
"""Requests beside pulls that a consumer needs to go on, and that read messages or queues' entries."""
LOOK_UPS = (
    RequestCode.QUERY_MESSAGE,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.GET_EARLIEST_MSG_STORETIME,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.GET_CONSUME_STATS,
    RequestCode.GET_BROKER_CONSUME_STATS,
    RequestCode.QUERY_CONSUME_TIME_SPAN,
    RequestCode.QUERY_CONSUME_QUEUE,
)
"""The others that do: people and tools wait for them, and some are long.

Each of both runs with :class:`~rocketha.store.patient_reads.PatientReads`, perhaps more than once.
"""


def request_table(state: BrokerState) -> dict[int, Responder]:
    """Request code to handler, over one broker's state."""
    table: dict[int, Responder] = {}
    for requests in (
        ClientRequests(state),
        TopicRequests(state),
        GroupRequests(state),
        ProgressRequests(state),
        ProxiedRequests(state),
        RuntimeRequests(state),
        StoreRequests(state),
    ):
        table.update(requests.table)
    return table
