"""The requests that a controller answers, one row a code.  Pure."""

from __future__ import annotations

import attrs

from rocketha.access.claims import ANY_MEMBER, CONTROLLER, Claim, of_broker
from rocketha.access.identity import Part
from rocketha.access.routes import Asker, Route, table
from rocketha.wire.codes import PrivateCode, RequestCode
from rocketha.wire.controller_calls import RETIRING_MASTER


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


_OWN = of_broker("clusterName", "brokerName", "brokerId")
_OWN_OR_OPERATOR = Claim(
    frozenset((Part.BROKER, Part.OPERATOR)),
    "clusterName",
    "brokerName",
    "brokerId",
    operators="designateElect",
)

_ELECTION = attrs.evolve(_OWN_OR_OPERATOR, said=True, instead=RETIRING_MASTER)

ROUTES = table(
    (
        # Brokers
        ControllerRoute(RequestCode.BROKER_HEARTBEAT, Asker.PEER, leader=False, claims=_OWN),
        ControllerRoute(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, Asker.PEER, names=True, claims=_OWN),
        ControllerRoute(
            RequestCode.CONTROLLER_APPLY_BROKER_ID,
            Asker.PEER,
            names=True,
            joins=True,
            claims=of_broker("clusterName", "brokerName", "appliedBrokerId"),
        ),
        ControllerRoute(
            RequestCode.CONTROLLER_REGISTER_BROKER,
            Asker.PEER,
            names=True,
            joins=True,
            doubts=True,
            tells=True,
            claims=_OWN,
        ),
        ControllerRoute(RequestCode.CONTROLLER_GET_REPLICA_INFO, Asker.PEER, tells=True, claims=_OWN_OR_OPERATOR),
        ControllerRoute(RequestCode.CONTROLLER_ELECT_MASTER, Asker.PEER, doubts=True, tells=True, claims=_ELECTION),
        ControllerRoute(
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET,
            Asker.PEER,
            claims=of_broker("clusterName", "brokerName", "masterBrokerId"),
        ),
        ControllerRoute(PrivateCode.CONFIRM_MASTER, Asker.PEER, claims=_OWN),
        ControllerRoute(RequestCode.CONTROLLER_GET_METADATA_INFO, Asker.PEER, leader=False, claims=ANY_MEMBER),
        # Other controllers
        ControllerRoute(PrivateCode.DO_YOU_HEAR, Asker.PEER, leader=False, claims=CONTROLLER),
        # Operators
        ControllerRoute(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, Asker.OPERATOR, claims=ANY_MEMBER),
        ControllerRoute(RequestCode.CLEAN_BROKER_DATA, Asker.OPERATOR),
        ControllerRoute(PrivateCode.WHY, Asker.OPERATOR),
        ControllerRoute(RequestCode.GET_CONTROLLER_CONFIG, Asker.OPERATOR, leader=False),
        ControllerRoute(RequestCode.UPDATE_CONTROLLER_CONFIG, Asker.OPERATOR, leader=False),
        ControllerRoute(PrivateCode.STATUS, Asker.OPERATOR, leader=False),
        ControllerRoute(PrivateCode.TRANSFER, Asker.OPERATOR, leader=False),
        ControllerRoute(PrivateCode.MEMBERS, Asker.OPERATOR, leader=False),
        ControllerRoute(PrivateCode.SNAPSHOT, Asker.OPERATOR, leader=False),
        ControllerRoute(PrivateCode.CLIENTS, Asker.OPERATOR, leader=False),
        ControllerRoute(PrivateCode.LOG_LEVEL, Asker.OPERATOR, leader=False),
    )
)
