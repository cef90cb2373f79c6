"""Request 106: who is registered, as Java's nameservers and ours say it; and that all who ask read it by one reader."""

from __future__ import annotations

import pathlib
import unittest

import rocketha
from rocketha.errors import RemoteProtocolError
from rocketha.wire.cluster_info import BrokerSet, ClusterInfo, cluster_info

JAVA = (
    b'{"brokerAddrTable":{"b":{"brokerAddrs":{2:"h:3",0:"h:1"},"brokerName":"b","cluster":"D","enableActingMaster":false},'
    b'"a":{"brokerAddrs":{1:"h:2"},"brokerName":"a","cluster":"C"}},"clusterAddrTable":{"D":["b"],"C":["a","b"]}}'
)
"""Integer keys without quotes."""


class ClusterInfoTests(unittest.TestCase):
    """What is told, and what cannot be."""

    def test_all_that_is_registered(self) -> None:
        """Sorted; a name in two clusters is in one set, and in both clusters."""
        found = cluster_info(JAVA)
        self.assertEqual(found.sets, (BrokerSet("C", "a", {1: "h:2"}), BrokerSet("D", "b", {0: "h:1", 2: "h:3"})))
        self.assertEqual([each.master for each in found.sets], ["", "h:1"])
        self.assertEqual(list(found.sets[1].addresses), [0, 2])
        self.assertEqual(found.clusters, {"C": ("a", "b"), "D": ("b",)})

    def test_nobody(self) -> None:
        """What is left out is empty."""
        for body in (b"{}", b'{"brokerAddrTable":{},"clusterAddrTable":null}'):
            self.assertEqual(cluster_info(body), ClusterInfo((), {}))

    def test_no_role_yet(self) -> None:
        """Java's broker in DLedger mode registers itself as -1 until it has one; the others are told all the same."""
        body = b'{"brokerAddrTable":{"b":{"brokerAddrs":{-1:"h:3",1:"h:1"}},"a":{"brokerAddrs":{0:"h:2"}}}}'
        self.assertEqual([each.addresses for each in cluster_info(body).sets], [{0: "h:2"}, {-1: "h:3", 1: "h:1"}])

    def test_what_cannot_be(self) -> None:
        """Ids and addresses that are none, tables that are none."""
        for bad in (b"", b"[]", b'{"brokerAddrTable":[]}', b'{"brokerAddrTable":{"b":7}}'):
            self.assertRaises(RemoteProtocolError, cluster_info, bad)
        for bad in (b"{0:7}", b'{"x":"h:1"}', b"[1]", b'{0:["h:1"]}', b'{"%s":"h:1"}' % (b"9" * 5000)):
            self.assertRaises(RemoteProtocolError, cluster_info, b'{"brokerAddrTable":{"b":{"brokerAddrs":%s}}}' % bad)

    def test_one_reader(self) -> None:
        """Besides who writes them, one module each knows the tables of 106 and 1006."""
        source = pathlib.Path(rocketha.__file__).parent
        for name, modules in (
            ("brokerAddrTable", {"namesrv/answers.py", "wire/cluster_info.py"}),
            ("replicasInfoTable", {"controller/answers.py", "wire/replica_list.py"}),
        ):
            found = {str(path.relative_to(source)) for path in source.rglob("*.py") if f'"{name}"' in path.read_text()}
            self.assertEqual(found, modules)


if __name__ == "__main__":
    unittest.main()
