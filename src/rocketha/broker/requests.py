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
