"""The requests that a controller answers, one row a code.  Pure."""

from __future__ import annotations

import attrs

from rocketha.wire.codes import PrivateCode, RequestCode
from rocketha.wire.routes import Asker, Route, table


@attrs.frozen
class ControllerRoute(Route):
    """One row.

    :ivar leader: only the controller that leads answers, after its log or a majority did.
    :ivar names: it says which cluster the broker at the other end belongs to; later requests of its connection may
        leave that out.
    :ivar joins: a broker that is not known may come in by it: so many at a time from one host.
    :ivar doubts: what may change who is master is decided only when the master was asked whether it serves.
    :ivar tells: the answer may tell a broker that it is the master.
    """

    leader: bool = True
    names: bool = False
    joins: bool = False
    doubts: bool = False
    tells: bool = False


ROUTES = table(
    (
        # Brokers
        ControllerRoute(RequestCode.BROKER_HEARTBEAT, Asker.PEER, leader=False),
        ControllerRoute(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, Asker.PEER, names=True),
        ControllerRoute(RequestCode.CONTROLLER_APPLY_BROKER_ID, Asker.PEER, names=True, joins=True),
        ControllerRoute(
            RequestCode.CONTROLLER_REGISTER_BROKER, Asker.PEER, names=True, joins=True, doubts=True, tells=True
        ),
        ControllerRoute(RequestCode.CONTROLLER_GET_REPLICA_INFO, Asker.PEER, tells=True),
        ControllerRoute(RequestCode.CONTROLLER_ELECT_MASTER, Asker.PEER, doubts=True, tells=True),
        ControllerRoute(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, Asker.PEER),
        ControllerRoute(PrivateCode.CONFIRM_MASTER, Asker.PEER),
        ControllerRoute(RequestCode.CONTROLLER_GET_METADATA_INFO, Asker.PEER, leader=False),
        # Other controllers
        ControllerRoute(PrivateCode.DO_YOU_HEAR, Asker.PEER, leader=False),
        # Operators
        ControllerRoute(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, Asker.OPERATOR),
        ControllerRoute(RequestCode.CLEAN_BROKER_DATA, Asker.OPERATOR),
        ControllerRoute(PrivateCode.WHY, Asker.OPERATOR),
        ControllerRoute(RequestCode.GET_CONTROLLER_CONFIG, Asker.OPERATOR, leader=False),
        ControllerRoute(RequestCode.UPDATE_CONTROLLER_CONFIG, Asker.OPERATOR, leader=False),
        ControllerRoute(PrivateCode.STATUS, Asker.OPERATOR, leader=False),
        ControllerRoute(PrivateCode.TRANSFER, Asker.OPERATOR, leader=False),
        ControllerRoute(PrivateCode.MEMBERS, Asker.OPERATOR, leader=False),
        ControllerRoute(PrivateCode.CLIENTS, Asker.OPERATOR, leader=False),
    )
)
