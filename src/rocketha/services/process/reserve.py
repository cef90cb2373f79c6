"""Whom a server's places in reserve are for: replicas, other brokers, controllers and operators, by what they ask.

Theory of operation.  RocketMQ has one port for all, and no word in which a peer says what it is.  So the codes decide
that producers and consumers use, in any language: every other code that has a name is not theirs.  One who passes
requests of clients on marks them.  This keeps clients that work from keeping out those who keep the service going; it
is no protection from somebody who means harm and knows the codes.
"""

from __future__ import annotations

from rocketha.broker.forward_rules import MARK
from rocketha.controller.codes import PrivateCode
from rocketha.wire.codes import RequestCode
from rocketha.wire.remoting import Command

OF_CLIENTS = frozenset(
    (
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE,
        RequestCode.SEND_REPLY_MESSAGE_V2,
        RequestCode.RECALL_MESSAGE,
        RequestCode.END_TRANSACTION,
        RequestCode.CONSUMER_SEND_MSG_BACK,
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.ACK_MESSAGE,
        RequestCode.BATCH_ACK_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
        RequestCode.POP_ROLLBACK,
        RequestCode.QUERY_ASSIGNMENT,
        RequestCode.QUERY_MESSAGE,
        RequestCode.VIEW_MESSAGE_BY_ID,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.GET_EARLIEST_MSG_STORETIME,
        RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_KV_CONFIG,
    )
)
"""What producers and consumers ask brokers and nameservers."""

OF_OTHERS = frozenset((*RequestCode, *PrivateCode)) - OF_CLIENTS


def shows(command: Command) -> bool:
    """Whether a request is one of a replica, another broker, a controller or an operator."""
    return command.code in OF_OTHERS or MARK in command.fields
