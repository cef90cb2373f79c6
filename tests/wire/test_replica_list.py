"""Request 1006: who is registered, as Java's controllers and ours say it."""

from __future__ import annotations

import json
import unittest
from typing import Any

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire.remoting import Command
from rocketha.wire.replica_list import ReplicaSet, get_replicas, named, replica_sets, replicas


def answer(table: Any, code: int = 0) -> Command:
    return Command(code, body=json.dumps({"replicasInfoTable": table}).encode(), remark="no")


def group(in_sync: Any, others: Any) -> dict[str, Any]:
    def rows(ids: Any) -> Any:
        return [{"alive": True, "brokerId": each} for each in ids] if isinstance(ids, list) else ids

    return {"inSyncReplicas": rows(in_sync), "notInSyncReplicas": rows(others), "masterEpoch": 1}


class ReplicaListTests(unittest.TestCase):
    """Who is named, and what cannot be."""

    def test_request(self) -> None:
        """Java reads the body as a list of names."""
        call = get_replicas("broker-a")
        self.assertEqual((call.code, call.fields, json.loads(call.body)), (1006, {}, ["broker-a"]))

    def test_all_of_the_group(self) -> None:
        """In sync or not, ascending; none of a group that is unknown."""
        found = answer({"g": group([3, 1], [2]), "h": group([9], [])})
        self.assertEqual(replicas(found, "C", "g"), (1, 2, 3))
        self.assertEqual(replicas(found, "C", "other"), ())
        self.assertEqual(replicas(answer({"g": group(None, [])}), "C", "g"), ())

    def test_all_that_is_told(self) -> None:
        """Who is master, who is heard and where each is; what is left out is none."""
        row = {"alive": True, "brokerAddress": "h:2", "brokerId": 2, "brokerName": "g"}
        other = {"alive": False, "brokerAddress": "h:1", "brokerId": 1, "brokerName": "g"}
        told = {"inSyncReplicas": [row], "notInSyncReplicas": [other], "masterBrokerId": 2, "masterAddress": "h:2"}
        found = replica_sets(answer({"C:g": {**told, "masterEpoch": 3, "syncStateSetEpoch": 4}, "h": {}}))
        whole = ReplicaSet(2, 3, 4, {1: "h:1", 2: "h:2"}, frozenset({2}), (2,))
        self.assertEqual(found, {"C:g": whole, "h": ReplicaSet(0, 0, 0, {}, frozenset(), ())})
        self.assertEqual(list(found["C:g"].members), [1, 2])
        self.assertEqual((named(found, "C", "g"), named(found, "D", "g")), (whole, None))

    def test_a_name_in_two_clusters(self) -> None:
        """The own cluster's."""
        found = answer({"C:g": group([1], []), "D:g": group([7], [8])})
        self.assertEqual(replicas(found, "D", "g"), (7, 8))
        self.assertEqual(replicas(found, "E", "g"), ())

    def test_refused(self) -> None:
        """With the controller's code."""
        with self.assertRaises(RequestRefused) as caught:
            replicas(answer({}, 2007), "C", "g")
        self.assertEqual(caught.exception.code, 2007)

    def test_what_cannot_be(self) -> None:
        """Ids that are none, lists that are none, more than there may be."""
        for bad in (
            group([0], []),
            group(["x"], []),
            group({"a": 1}, []),
            group(list(range(1, 200)), list(range(200, 300))),
            group(list(range(1, 300)), []),
            7,
        ):
            self.assertRaises(RemoteProtocolError, replicas, answer({"g": bad}), "C", "g")
        self.assertRaises(RemoteProtocolError, replicas, answer([]), "C", "g")
        self.assertRaises(RemoteProtocolError, replicas, Command(0, body=b"nonsense"), "C", "g")


if __name__ == "__main__":
    unittest.main()
