"""Who may ask what of whom: every row of every server, and every part of a cluster."""

from __future__ import annotations

import json
import unittest
from collections.abc import Mapping

from rocketha.access.claims import Claim
from rocketha.access.identity import EVERY, Identity, Part
from rocketha.access.routes import Asker, Route
from rocketha.broker import routes as broker_routes
from rocketha.controller import routes as controller_routes
from rocketha.namesrv import routes as namesrv_routes
from rocketha.services.raft import java_port
from rocketha.wire.codes import PrivateCode, RequestCode

TABLES: Mapping[str, Mapping[int, Route]] = {
    "broker": broker_routes.ROUTES,
    "controller": controller_routes.ROUTES,
    "nameserver": namesrv_routes.ROUTES,
    "dledger": java_port.ROUTES,
    "witness": java_port.WITNESS_ROUTES,
}
BROKER = Identity("c", Part.BROKER, "broker-a", 2)
REPLICA = Identity("c", Part.BROKER, "broker-a", 1)
OTHER = Identity("c", Part.BROKER, "broker-b", 1)
ABROAD = Identity("d", Part.BROKER, "broker-a", 1)
CONTROLLER, NAMESERVER = Identity("c", Part.CONTROLLER, "n0"), Identity("c", Part.NAMESERVER, "ns")
OPERATOR, CLIENT = Identity("c", Part.OPERATOR, "ann"), Identity("c", Part.CLIENT, "shop")
OWN = {"broker": BROKER, "controller": CONTROLLER, "nameserver": NAMESERVER, "dledger": BROKER, "witness": BROKER}
AS_SAID = {
    "clusterName": "c",
    "brokerName": "broker-a",
    "brokerId": "1",
    "appliedBrokerId": "1",
    "masterBrokerId": "1",
}
ASKERS = {
    "replica": REPLICA,
    "other": OTHER,
    "controller": CONTROLLER,
    "nameserver": NAMESERVER,
    "operator": OPERATOR,
    "client": CLIENT,
}
MAY: Mapping[str, Mapping[int, str]] = {
    "broker": {
        RequestCode.GET_BROKER_RUNTIME_INFO: "replica operator",
        RequestCode.GET_BROKER_EPOCH_CACHE: "replica controller operator",
        RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: "nameserver",
        RequestCode.NOTIFY_BROKER_ROLE_CHANGED: "controller",
        RequestCode.GET_BROKER_HA_STATUS: "replica other controller nameserver operator",
    },
    "controller": {
        RequestCode.CONTROLLER_ELECT_MASTER: "replica operator",
        RequestCode.CONTROLLER_GET_REPLICA_INFO: "replica operator",
        RequestCode.CONTROLLER_GET_METADATA_INFO: "replica other controller nameserver operator",
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: "replica other controller nameserver operator",
        PrivateCode.DO_YOU_HEAR: "controller",
    },
    "nameserver": {
        RequestCode.GET_BROKER_MEMBER_GROUP: "replica other controller nameserver operator",
        RequestCode.GET_BROKER_CLUSTER_INFO: "replica other controller nameserver operator",
        RequestCode.REGISTER_TOPIC_IN_NAMESRV: "replica other operator",
    },
    "dledger": {PrivateCode.MEMBERS: "operator"},
    "witness": {PrivateCode.MEMBERS: "operator"},
}
"""Of the requests of peers and operators, those that are unlike the others of their server."""
PEERS = {
    "broker": "replica operator",
    "controller": "replica",
    "nameserver": "replica",
    "dledger": "replica operator",
    "witness": "replica operator",
}
"""Who may ask what the other rows for peers have."""


def holds(claim: Claim, asker: Identity, own: Identity, fields: Mapping[str, str] = AS_SAID, body: bytes = b"") -> bool:
    return claim.holds(asker, (own,), fields, body)


class RowTests(unittest.TestCase):
    """The tables."""

    def test_every_row(self) -> None:
        for server, routes in TABLES.items():
            for code, route in routes.items():
                if route.asker is Asker.CLIENT:
                    self.assertIsNone(route.claims, f"{server} {route.name}")
                    continue
                assert route.claims is not None, f"{server} {route.name} has no claim"
                usual = "operator" if route.asker is Asker.OPERATOR else PEERS[server]
                if server in ("dledger", "witness") and code == PrivateCode.STATUS:
                    usual = PEERS[server]
                wanted = MAY[server].get(code, usual).split()
                found = [name for name, asker in ASKERS.items() if holds(route.claims, asker, OWN[server])]
                self.assertEqual(found, wanted, f"{server} {route.name}")

    def test_another_cluster(self) -> None:
        """Whoever issues for several clusters does not make their members one."""
        for server, routes in TABLES.items():
            for route in routes.values():
                if route.claims is not None:
                    for asker in (ABROAD, Identity("d", Part.CONTROLLER, "n0"), Identity("d", Part.OPERATOR, "bob")):
                        self.assertFalse(holds(route.claims, asker, OWN[server]), f"{server} {route.name} {asker}")


class ClaimTests(unittest.TestCase):
    """What stands in a request against what stands in a certificate."""

    def said(self, code: int, asker: Identity, **fields: str) -> bool:
        claim = controller_routes.ROUTES[code].claims
        assert claim is not None
        return holds(claim, asker, CONTROLLER, {**AS_SAID, **fields})

    def test_for_itself_only(self) -> None:
        anybody = Identity("c", Part.BROKER, "broker-a")
        for code, field in (
            (RequestCode.BROKER_HEARTBEAT, "brokerId"),
            (RequestCode.CONTROLLER_REGISTER_BROKER, "brokerId"),
            (RequestCode.CONTROLLER_APPLY_BROKER_ID, "appliedBrokerId"),
            (RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, "masterBrokerId"),
            (RequestCode.CONTROLLER_ELECT_MASTER, "brokerId"),
            (PrivateCode.CONFIRM_MASTER, "brokerId"),
        ):
            self.assertTrue(self.said(code, REPLICA))
            self.assertTrue(self.said(code, anybody, **{field: "7"}), "without an id: any replica of the name")
            for other in ("2", "01", "+1", " 1", ""):
                self.assertFalse(self.said(code, REPLICA, **{field: other}), f"{code} {other!r}")
            self.assertFalse(self.said(code, REPLICA, brokerName="broker-b"))
            self.assertFalse(self.said(code, REPLICA, clusterName="d"))

    def test_a_cluster_that_is_left_out(self) -> None:
        """Java's 1001 names none: that of the connection counts then.  An election has to name it."""
        claim = controller_routes.ROUTES[RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET].claims
        assert claim is not None
        self.assertTrue(holds(claim, REPLICA, CONTROLLER, {"brokerName": "broker-a", "masterBrokerId": "1"}))
        self.assertFalse(self.said(RequestCode.CONTROLLER_ELECT_MASTER, REPLICA, clusterName=""))
        self.assertTrue(self.said(RequestCode.CONTROLLER_ELECT_MASTER, OPERATOR, clusterName=""))

    def test_only_operators_designate(self) -> None:
        for text in ("true", "TRUE", "True"):
            self.assertFalse(self.said(RequestCode.CONTROLLER_ELECT_MASTER, REPLICA, designateElect=text))
            self.assertTrue(self.said(RequestCode.CONTROLLER_ELECT_MASTER, OPERATOR, designateElect=text, brokerId="9"))
        self.assertTrue(self.said(RequestCode.CONTROLLER_ELECT_MASTER, REPLICA, designateElect="false"))

    def test_a_master_that_stops_designates_another(self) -> None:
        """It says who it is; whether that is the master only the controller knows."""
        code = RequestCode.CONTROLLER_ELECT_MASTER
        anybody = Identity("c", Part.BROKER, "broker-a")
        for asker in (REPLICA, anybody):
            self.assertTrue(self.said(code, asker, designateElect="true", brokerId="2", retiringMasterId="1"))
            self.assertFalse(self.said(code, asker, designateElect="true", brokerId="2"))
        for other in ("2", "01", ""):
            self.assertFalse(self.said(code, REPLICA, designateElect="true", brokerId="1", retiringMasterId=other))
        self.assertFalse(self.said(code, REPLICA, designateElect="false", brokerId="2", retiringMasterId="1"))
        self.assertFalse(self.said(code, OTHER, designateElect="true", brokerId="2", retiringMasterId="1"))
        for stranger in (CLIENT, NAMESERVER, CONTROLLER):
            self.assertFalse(self.said(code, stranger, designateElect="true", brokerId="2", retiringMasterId="1"))

    def test_every_cluster(self) -> None:
        both = Identity(EVERY, Part.CONTROLLER, "n0")
        claim = broker_routes.ROUTES[RequestCode.NOTIFY_BROKER_ROLE_CHANGED].claims
        assert claim is not None
        self.assertTrue(holds(claim, both, BROKER))
        self.assertTrue(holds(claim, CONTROLLER, Identity(EVERY, Part.BROKER, "broker-a")))

    def test_rows_of_a_topic(self) -> None:
        """A broker puts no topic at another one's door."""
        claim = namesrv_routes.ROUTES[RequestCode.REGISTER_TOPIC_IN_NAMESRV].claims
        assert claim is not None

        def body(*names: str) -> bytes:
            return json.dumps({"queueDatas": [{"brokerName": name, "perm": 6} for name in names]}).encode()

        self.assertTrue(holds(claim, REPLICA, NAMESERVER, body=body("broker-a")))
        self.assertFalse(holds(claim, REPLICA, NAMESERVER, body=body("broker-a", "broker-b")))
        self.assertTrue(holds(claim, OPERATOR, NAMESERVER, body=body("broker-a", "broker-b")))
