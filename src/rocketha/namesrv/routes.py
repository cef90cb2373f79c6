"""The requests that a nameserver answers, one row a code.  Pure."""

from __future__ import annotations

from rocketha.access.claims import ANY_MEMBER, Claim, of_broker
from rocketha.access.identity import Part
from rocketha.access.routes import Asker, Route, table
from rocketha.namesrv.queue_rows import broker_names
from rocketha.wire.codes import PrivateCode, RequestCode

_OWN = of_broker("clusterName", "brokerName")
_TOPIC = Claim(frozenset((Part.BROKER, Part.OPERATOR)), names=broker_names)

ROUTES = table(
    (
        # What clients look up
        Route(RequestCode.GET_ROUTEINFO_BY_TOPIC, Asker.CLIENT),
        Route(RequestCode.GET_KV_CONFIG, Asker.CLIENT),
        # Brokers
        Route(RequestCode.REGISTER_BROKER, Asker.PEER, claims=_OWN),
        Route(RequestCode.UNREGISTER_BROKER, Asker.PEER, claims=_OWN),
        Route(RequestCode.BROKER_HEARTBEAT, Asker.PEER, claims=_OWN),
        Route(RequestCode.QUERY_DATA_VERSION, Asker.PEER, claims=_OWN),
        Route(RequestCode.REGISTER_TOPIC_IN_NAMESRV, Asker.PEER, claims=_TOPIC),
        Route(RequestCode.GET_BROKER_MEMBER_GROUP, Asker.PEER, claims=ANY_MEMBER),
        # Clusters and topics
        Route(RequestCode.GET_BROKER_CLUSTER_INFO, Asker.OPERATOR, claims=ANY_MEMBER),
        Route(RequestCode.WIPE_WRITE_PERM_OF_BROKER, Asker.OPERATOR),
        Route(RequestCode.ADD_WRITE_PERM_OF_BROKER, Asker.OPERATOR),
        Route(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Asker.OPERATOR),
        Route(RequestCode.GET_TOPICS_BY_CLUSTER, Asker.OPERATOR),
        Route(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, Asker.OPERATOR),
        Route(RequestCode.GET_UNIT_TOPIC_LIST, Asker.OPERATOR),
        Route(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, Asker.OPERATOR),
        Route(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, Asker.OPERATOR),
        Route(RequestCode.DELETE_TOPIC_IN_NAMESRV, Asker.OPERATOR),
        # The nameserver itself
        Route(RequestCode.PUT_KV_CONFIG, Asker.OPERATOR),
        Route(RequestCode.DELETE_KV_CONFIG, Asker.OPERATOR),
        Route(RequestCode.GET_KVLIST_BY_NAMESPACE, Asker.OPERATOR),
        Route(RequestCode.GET_NAMESRV_CONFIG, Asker.OPERATOR),
        Route(RequestCode.UPDATE_NAMESRV_CONFIG, Asker.OPERATOR),
        Route(PrivateCode.CLIENTS, Asker.OPERATOR),
        Route(PrivateCode.LOG_LEVEL, Asker.OPERATOR),
    )
)
