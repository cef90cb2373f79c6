"""The requests that a broker answers, one row a code.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import attrs

from rocketha.access.claims import (
    ANY_MEMBER,
    CONTROLLER,
    NAMESERVER,
    REPLICA,
    REPLICA_OR_CONTROLLER,
)
from rocketha.access.routes import Asker, Route, table
from rocketha.broker import needs
from rocketha.broker.effects import ConfigFile
from rocketha.broker.needs import CREATE, DELETE, GET, PUB, SUB, UPDATE, Needs
from rocketha.wire.codes import PrivateCode, RequestCode


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
    DELETION = "deletes a topic; a slave agrees, and leaves it to its master"
    """mqadmin tells every member of a group, and ends with the first that refuses."""
    ITSELF = "asks and tells about the broker itself; answered in every role, and while the log is cut"
    OTHER = "anything else"


class Fetch(Enum):
    """Which thread fetches messages and queue entries that a request needs and that are not in memory."""

    CONSUMERS = "that of the pulls: consumers need it to go on"
    LOOK_UPS = "its own: people and tools wait for it, and some requests are long"


@attrs.frozen
class BrokerRoute(Route):
    """One row.

    :ivar fetches: the request may run more than once (:class:`~rocketha.store.patient_reads.PatientReads`); pulls,
        which have a way of their own, say None.
    :ivar changes: the table that a CHANGE changes.
    :ivar needs: what its user must be allowed to do.
    :ivar supers: he must be a Super user: whoever may change users may become one.
    """

    kind: Kind = Kind.OTHER
    fetches: Fetch | None = None
    changes: ConfigFile | None = None
    needs: Needs = needs.OF_CLUSTER
    supers: bool = False

    @property
    def forwarded(self) -> bool:
        """Whether a broker that is not master may pass it on to the master."""
        return self.kind in (Kind.SEND, Kind.PULL, Kind.PROGRESS)

    @property
    def clients_alone(self) -> bool:
        """Whether it is one of a client's, about topics and groups: nothing of the broker itself, nor a plug-in's."""
        return self.asker is Asker.CLIENT and self.needs is not needs.OF_CLUSTER


ROUTES = table(
    (
        # Messages
        BrokerRoute(RequestCode.SEND_MESSAGE, Asker.CLIENT, Kind.SEND, needs=needs.topic(PUB)),
        BrokerRoute(RequestCode.SEND_MESSAGE_V2, Asker.CLIENT, Kind.SEND, needs=needs.topic(PUB, "b")),
        BrokerRoute(RequestCode.SEND_BATCH_MESSAGE, Asker.CLIENT, Kind.SEND, needs=needs.topic(PUB, "b")),
        BrokerRoute(
            RequestCode.CONSUMER_SEND_MSG_BACK,
            Asker.CLIENT,
            Kind.SEND,
            Fetch.CONSUMERS,
            needs=needs.both(needs.group(SUB, "group"), needs.topic(SUB, "originTopic")),
        ),
        BrokerRoute(
            RequestCode.PULL_MESSAGE, Asker.CLIENT, Kind.PULL, needs=needs.both(needs.topic(SUB), needs.group(SUB))
        ),
        BrokerRoute(
            RequestCode.LITE_PULL_MESSAGE, Asker.CLIENT, Kind.PULL, needs=needs.both(needs.topic(SUB), needs.group(SUB))
        ),
        BrokerRoute(RequestCode.QUERY_MESSAGE, Asker.CLIENT, Kind.LOOK, Fetch.LOOK_UPS, needs=needs.topic(SUB | GET)),
        BrokerRoute(
            RequestCode.VIEW_MESSAGE_BY_ID, Asker.CLIENT, Kind.LOOK, Fetch.LOOK_UPS, needs=needs.any_topic(GET)
        ),
        BrokerRoute(
            RequestCode.GET_MAX_OFFSET, Asker.CLIENT, Kind.BOUND, Fetch.CONSUMERS, needs=needs.topic(SUB | GET)
        ),
        BrokerRoute(RequestCode.GET_MIN_OFFSET, Asker.CLIENT, Kind.BOUND, needs=needs.topic(SUB | GET)),
        BrokerRoute(
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            Asker.CLIENT,
            Kind.BOUND,
            Fetch.LOOK_UPS,
            needs=needs.topic(SUB | GET),
        ),
        BrokerRoute(
            RequestCode.GET_EARLIEST_MSG_STORETIME, Asker.CLIENT, fetches=Fetch.LOOK_UPS, needs=needs.topic(SUB | GET)
        ),
        BrokerRoute(RequestCode.QUERY_CONSUME_QUEUE, Asker.OPERATOR, fetches=Fetch.LOOK_UPS, needs=needs.topic(GET)),
        # Clients and their progress
        BrokerRoute(RequestCode.HEART_BEAT, Asker.CLIENT, needs=needs.heartbeat),
        BrokerRoute(RequestCode.UNREGISTER_CLIENT, Asker.CLIENT, needs=needs.unregistered),
        BrokerRoute(RequestCode.CHECK_CLIENT_CONFIG, Asker.CLIENT, needs=needs.checked_client),
        BrokerRoute(RequestCode.GET_CONSUMER_LIST_BY_GROUP, Asker.CLIENT, needs=needs.group(SUB | GET)),
        BrokerRoute(
            RequestCode.QUERY_CONSUMER_OFFSET,
            Asker.CLIENT,
            Kind.PROGRESS,
            Fetch.CONSUMERS,
            needs=needs.both(needs.topic(SUB | GET), needs.group(SUB | GET)),
        ),
        BrokerRoute(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            Asker.CLIENT,
            Kind.PROGRESS,
            needs=needs.both(needs.topic(SUB | UPDATE), needs.group(SUB | UPDATE)),
        ),
        BrokerRoute(RequestCode.LOCK_BATCH_MQ, Asker.CLIENT, Kind.PROGRESS, needs=needs.locks),
        BrokerRoute(RequestCode.UNLOCK_BATCH_MQ, Asker.CLIENT, Kind.PROGRESS, needs=needs.locks),
        BrokerRoute(RequestCode.GET_CONSUMER_CONNECTION_LIST, Asker.OPERATOR, needs=needs.group(GET)),
        BrokerRoute(RequestCode.GET_PRODUCER_CONNECTION_LIST, Asker.OPERATOR, needs=needs.cluster(GET)),
        BrokerRoute(RequestCode.GET_ALL_PRODUCER_INFO, Asker.OPERATOR, needs=needs.cluster(GET)),
        BrokerRoute(RequestCode.GET_CONSUMER_RUNNING_INFO, Asker.OPERATOR, needs=needs.group(GET)),
        BrokerRoute(
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            Asker.OPERATOR,
            fetches=Fetch.LOOK_UPS,
            needs=needs.both(needs.topic(SUB), needs.group(SUB)),
        ),
        BrokerRoute(
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
            Asker.OPERATOR,
            needs=needs.both(needs.topic(GET), needs.group(GET, "group")),
        ),
        BrokerRoute(
            RequestCode.GET_CONSUME_STATS,
            Asker.OPERATOR,
            fetches=Fetch.LOOK_UPS,
            needs=needs.consume_stats,
        ),
        BrokerRoute(
            RequestCode.GET_BROKER_CONSUME_STATS, Asker.OPERATOR, fetches=Fetch.LOOK_UPS, needs=needs.cluster(GET)
        ),
        BrokerRoute(
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            Asker.OPERATOR,
            fetches=Fetch.LOOK_UPS,
            needs=needs.both(needs.topic(GET), needs.group(GET, "group")),
        ),
        BrokerRoute(
            RequestCode.CLONE_GROUP_OFFSET,
            Asker.OPERATOR,
            needs=needs.both(needs.topic(UPDATE), needs.group(UPDATE, "srcGroup", "destGroup")),
        ),
        BrokerRoute(
            RequestCode.QUERY_CORRECTION_OFFSET,
            Asker.OPERATOR,
            needs=needs.both(needs.topic(GET), needs.group(GET, "compareGroup")),
        ),
        BrokerRoute(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
            Asker.OPERATOR,
            fetches=Fetch.LOOK_UPS,
            needs=needs.both(needs.topic(UPDATE), needs.group(UPDATE, "group")),
        ),
        # Topics and groups
        BrokerRoute(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            Asker.OPERATOR,
            Kind.CHANGE,
            changes="topics",
            needs=needs.topic(CREATE),
        ),
        BrokerRoute(
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST,
            Asker.OPERATOR,
            Kind.CHANGE,
            changes="topics",
            needs=needs.topics_in_body(CREATE),
        ),
        BrokerRoute(
            RequestCode.DELETE_TOPIC_IN_BROKER,
            Asker.OPERATOR,
            Kind.DELETION,
            changes="topics",
            needs=needs.topic(DELETE),
        ),
        BrokerRoute(RequestCode.GET_TOPIC_CONFIG, Asker.OPERATOR, needs=needs.topic(GET)),
        BrokerRoute(RequestCode.GET_TOPIC_STATS_INFO, Asker.OPERATOR, fetches=Fetch.LOOK_UPS, needs=needs.topic(GET)),
        BrokerRoute(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, Asker.OPERATOR, needs=needs.topic(GET)),
        BrokerRoute(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, Asker.OPERATOR, needs=needs.cluster(GET)),
        BrokerRoute(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            Asker.OPERATOR,
            Kind.CHANGE,
            changes="groups",
            needs=needs.group_in_body(UPDATE),
        ),
        BrokerRoute(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
            Asker.OPERATOR,
            Kind.CHANGE,
            changes="groups",
            needs=needs.groups_in_body(UPDATE),
        ),
        BrokerRoute(
            RequestCode.DELETE_SUBSCRIPTIONGROUP,
            Asker.OPERATOR,
            Kind.CHANGE,
            changes="groups",
            needs=needs.group(DELETE, "groupName"),
        ),
        BrokerRoute(
            RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
            Asker.OPERATOR,
            Kind.CHANGE,
            changes="groups",
            needs=needs.both(needs.topic(UPDATE), needs.group(UPDATE, "group")),
        ),
        BrokerRoute(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, Asker.OPERATOR, needs=needs.group(GET, "group")),
        BrokerRoute(RequestCode.QUERY_TOPICS_BY_CONSUMER, Asker.OPERATOR, needs=needs.group(GET, "group")),
        BrokerRoute(
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
            Asker.OPERATOR,
            needs=needs.both(needs.topic(GET), needs.group(GET, "group")),
        ),
        # The broker and its store
        BrokerRoute(
            RequestCode.GET_BROKER_RUNTIME_INFO,
            Asker.OPERATOR,
            fetches=Fetch.LOOK_UPS,
            claims=REPLICA,
            needs=needs.cluster(GET),
        ),
        BrokerRoute(RequestCode.UPDATE_BROKER_CONFIG, Asker.OPERATOR),
        BrokerRoute(RequestCode.GET_BROKER_CONFIG, Asker.OPERATOR, needs=needs.cluster(GET)),
        BrokerRoute(RequestCode.VIEW_BROKER_STATS_DATA, Asker.OPERATOR, needs=needs.cluster(GET)),
        BrokerRoute(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, Asker.OPERATOR),
        BrokerRoute(RequestCode.CLEAN_UNUSED_TOPIC, Asker.OPERATOR),
        BrokerRoute(RequestCode.DELETE_EXPIRED_COMMITLOG, Asker.OPERATOR),
        BrokerRoute(
            RequestCode.GET_BROKER_EPOCH_CACHE,
            Asker.OPERATOR,
            Kind.ITSELF,
            claims=REPLICA_OR_CONTROLLER,
            needs=needs.cluster(GET),
        ),
        BrokerRoute(PrivateCode.CLIENTS, Asker.OPERATOR, Kind.ITSELF),
        BrokerRoute(PrivateCode.LOG_LEVEL, Asker.OPERATOR, Kind.ITSELF),
        BrokerRoute(PrivateCode.OVERVIEW, Asker.OPERATOR, Kind.ITSELF, needs=needs.cluster(GET)),
        # Users, where authenticationEnabled
        BrokerRoute(RequestCode.AUTH_CREATE_USER, Asker.OPERATOR, supers=True),
        BrokerRoute(RequestCode.AUTH_UPDATE_USER, Asker.OPERATOR, supers=True),
        BrokerRoute(RequestCode.AUTH_DELETE_USER, Asker.OPERATOR, supers=True),
        BrokerRoute(RequestCode.AUTH_GET_USER, Asker.OPERATOR, needs=needs.cluster(GET)),
        BrokerRoute(RequestCode.AUTH_LIST_USER, Asker.OPERATOR, needs=needs.cluster(GET)),
        BrokerRoute(RequestCode.AUTH_CREATE_ACL, Asker.OPERATOR, supers=True),
        BrokerRoute(RequestCode.AUTH_UPDATE_ACL, Asker.OPERATOR, supers=True),
        BrokerRoute(RequestCode.AUTH_DELETE_ACL, Asker.OPERATOR, supers=True),
        BrokerRoute(RequestCode.AUTH_GET_ACL, Asker.OPERATOR, needs=needs.cluster(GET)),
        BrokerRoute(RequestCode.AUTH_LIST_ACL, Asker.OPERATOR, needs=needs.cluster(GET)),
        # Other brokers, nameservers, controllers
        BrokerRoute(RequestCode.GET_ALL_TOPIC_CONFIG, Asker.PEER, claims=REPLICA),
        BrokerRoute(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, Asker.PEER, claims=REPLICA),
        BrokerRoute(RequestCode.GET_ALL_CONSUMER_OFFSET, Asker.PEER, claims=REPLICA),
        BrokerRoute(RequestCode.GET_ALL_DELAY_OFFSET, Asker.PEER, claims=REPLICA),
        BrokerRoute(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE, Asker.PEER, claims=REPLICA),
        BrokerRoute(RequestCode.GET_TIMER_CHECK_POINT, Asker.PEER, claims=REPLICA),
        BrokerRoute(RequestCode.GET_TIMER_METRICS, Asker.PEER, claims=REPLICA),
        BrokerRoute(PrivateCode.AWAIT_METADATA, Asker.PEER, claims=REPLICA),
        BrokerRoute(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, Asker.PEER, claims=NAMESERVER),
        BrokerRoute(RequestCode.RESET_MASTER_FLUSH_OFFSET, Asker.PEER, claims=REPLICA),
        BrokerRoute(RequestCode.EXCHANGE_BROKER_HA_INFO, Asker.PEER, Kind.ITSELF, claims=REPLICA),
        BrokerRoute(
            RequestCode.GET_BROKER_HA_STATUS, Asker.PEER, Kind.ITSELF, claims=ANY_MEMBER, needs=needs.cluster(GET)
        ),
        BrokerRoute(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, Asker.PEER, Kind.ITSELF, claims=CONTROLLER),
    )
)


def of_kind(*kinds: Kind) -> frozenset[int]:
    """The codes of requests of some kinds."""
    return _codes(route for route in ROUTES.values() if route.kind in kinds)


def fetched_by(thread: Fetch) -> frozenset[int]:
    """The codes of requests that this thread fetches for."""
    return _codes(route for route in ROUTES.values() if route.fetches is thread)


def _codes(routes: Iterable[BrokerRoute]) -> frozenset[int]:
    return frozenset(int(route.code) for route in routes)


SENDS = of_kind(Kind.SEND)
PULLS = of_kind(Kind.PULL)
REPEATABLE = of_kind(Kind.PULL, Kind.PROGRESS)
"""Of what is passed on: nothing is lost and nothing is there twice if it is asked again."""
CHANGES: dict[int, ConfigFile] = {code: route.changes for code, route in ROUTES.items() if route.changes is not None}
