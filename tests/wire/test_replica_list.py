"""Request 1006: who is registered, as Java's controllers and ours say it."""

from __future__ import annotations

import json
import unittest
from typing import Any

from rocketha.errors import RemoteProtocolError, RequestRefused
from rocketha.wire.remoting import Command
from rocketha.wire.replica_list import get_replicas, replicas


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
