"""The requests that a nameserver answers, one row a code.  Pure."""

from __future__ import annotations

from rocketha.wire.codes import PrivateCode, RequestCode
from rocketha.wire.routes import Asker, Route, table

ROUTES = table(
    (
        # What clients look up
        Route(RequestCode.GET_ROUTEINFO_BY_TOPIC, Asker.CLIENT),
        Route(RequestCode.GET_KV_CONFIG, Asker.CLIENT),
        # Brokers
        Route(RequestCode.REGISTER_BROKER, Asker.PEER),
        Route(RequestCode.UNREGISTER_BROKER, Asker.PEER),
        Route(RequestCode.BROKER_HEARTBEAT, Asker.PEER),
        Route(RequestCode.QUERY_DATA_VERSION, Asker.PEER),
        Route(RequestCode.REGISTER_TOPIC_IN_NAMESRV, Asker.PEER),
        Route(RequestCode.GET_BROKER_MEMBER_GROUP, Asker.PEER),
        # Clusters and topics
        Route(RequestCode.GET_BROKER_CLUSTER_INFO, Asker.OPERATOR),
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
    )
)
