"""What holds for a broker's requests, by code: one row for each, and no other list of codes.

Pure.  A code without a row is served in every role, reads no messages, and changes nothing that others wait for.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import attrs

from rocketha.broker.effects import ConfigFile
from rocketha.wire.codes import RequestCode


class Kind(Enum):
    """What a request does; :func:`rocketha.broker.role.gate` says in which role a broker serves it."""

    SEND = "stores messages"
    PULL = "reads a queue for a consumer"
    PROGRESS = "how far a group is in a queue, and who consumes it"
    """A Java slave answers these itself: by offsets that are as old as its last round of metadata, which the next one
    overwrites, and by locks on queues that another consumer gets from the master."""
    LOOK = "shows stored messages to people"
    BOUND = "an offset of a queue"
    """Served without a lease, but not while there may be another master."""
    CHANGE = "changes topics or groups"
    """The answer promises that the change stays."""
    OTHER = "anything else"


class Fetch(Enum):
    """Which thread fetches messages and queue entries that a request needs and that are not in memory."""

    CONSUMERS = "that of the pulls: consumers need it to go on"
    LOOK_UPS = "its own: people and tools wait for it, and some requests are long"


@attrs.frozen
class Route:
    """One row.

    :ivar fetches: the request may run more than once (:class:`~rocketha.store.patient_reads.PatientReads`); pulls,
        which have a way of their own, say None.
    :ivar changes: the table that a CHANGE changes.
    """

    code: RequestCode
    kind: Kind = Kind.OTHER
    fetches: Fetch | None = None
    changes: ConfigFile | None = None

    @property
    def forwarded(self) -> bool:
        """Whether a broker that is not master may pass it on to the master."""
        return self.kind in (Kind.SEND, Kind.PULL, Kind.PROGRESS)


ROUTES: dict[int, Route] = {
    route.code: route
    for route in (
        Route(RequestCode.SEND_MESSAGE, Kind.SEND),
        Route(RequestCode.SEND_MESSAGE_V2, Kind.SEND),
        Route(RequestCode.SEND_BATCH_MESSAGE, Kind.SEND),
        Route(RequestCode.CONSUMER_SEND_MSG_BACK, Kind.SEND, Fetch.CONSUMERS),
        Route(RequestCode.PULL_MESSAGE, Kind.PULL),
        Route(RequestCode.LITE_PULL_MESSAGE, Kind.PULL),
        Route(RequestCode.QUERY_CONSUMER_OFFSET, Kind.PROGRESS, Fetch.CONSUMERS),
        Route(RequestCode.UPDATE_CONSUMER_OFFSET, Kind.PROGRESS),
        Route(RequestCode.LOCK_BATCH_MQ, Kind.PROGRESS),
        Route(RequestCode.UNLOCK_BATCH_MQ, Kind.PROGRESS),
        Route(RequestCode.QUERY_MESSAGE, Kind.LOOK, Fetch.LOOK_UPS),
        Route(RequestCode.VIEW_MESSAGE_BY_ID, Kind.LOOK, Fetch.LOOK_UPS),
        Route(RequestCode.GET_MAX_OFFSET, Kind.BOUND, Fetch.CONSUMERS),
        Route(RequestCode.GET_MIN_OFFSET, Kind.BOUND),
        Route(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, Kind.BOUND, Fetch.LOOK_UPS),
        Route(RequestCode.GET_EARLIEST_MSG_STORETIME, fetches=Fetch.LOOK_UPS),
        Route(RequestCode.GET_BROKER_RUNTIME_INFO, fetches=Fetch.LOOK_UPS),
        Route(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fetches=Fetch.LOOK_UPS),
        Route(RequestCode.CONSUME_MESSAGE_DIRECTLY, fetches=Fetch.LOOK_UPS),
        Route(RequestCode.GET_TOPIC_STATS_INFO, fetches=Fetch.LOOK_UPS),
        Route(RequestCode.GET_CONSUME_STATS, fetches=Fetch.LOOK_UPS),
        Route(RequestCode.GET_BROKER_CONSUME_STATS, fetches=Fetch.LOOK_UPS),
        Route(RequestCode.QUERY_CONSUME_TIME_SPAN, fetches=Fetch.LOOK_UPS),
        Route(RequestCode.QUERY_CONSUME_QUEUE, fetches=Fetch.LOOK_UPS),
        Route(RequestCode.UPDATE_AND_CREATE_TOPIC, Kind.CHANGE, changes="topics"),
        Route(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, Kind.CHANGE, changes="topics"),
        Route(RequestCode.DELETE_TOPIC_IN_BROKER, Kind.CHANGE, changes="topics"),
        Route(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Kind.CHANGE, changes="groups"),
        Route(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, Kind.CHANGE, changes="groups"),
        Route(RequestCode.DELETE_SUBSCRIPTIONGROUP, Kind.CHANGE, changes="groups"),
        Route(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, Kind.CHANGE, changes="groups"),
    )
}


def kind_of(code: int) -> Kind:
    """Of any code."""
    route = ROUTES.get(code)
    return Kind.OTHER if route is None else route.kind


def of_kind(*kinds: Kind) -> frozenset[int]:
    """The codes of requests of some kinds."""
    return _codes(route for route in ROUTES.values() if route.kind in kinds)


def fetched_by(thread: Fetch) -> frozenset[int]:
    """The codes of requests that this thread fetches for."""
    return _codes(route for route in ROUTES.values() if route.fetches is thread)


def _codes(routes: Iterable[Route]) -> frozenset[int]:
    return frozenset(int(route.code) for route in routes)


SENDS = of_kind(Kind.SEND)
PULLS = of_kind(Kind.PULL)
CHANGES: dict[int, ConfigFile] = {code: route.changes for code, route in ROUTES.items() if route.changes is not None}
FORWARDED = _codes(route for route in ROUTES.values() if route.forwarded)
