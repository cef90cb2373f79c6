"""Users and what they may do: what each request makes of them."""

from __future__ import annotations

import json
import unittest
from typing import Any

from rocketha.access.accounts import Accounts
from rocketha.access.policies import Refused
from rocketha.errors import RemoteProtocolError

ONE = Accounts().create("u1", {"password": "secret-1"})


def policy(resource: str, actions: str = "Pub", decision: str = "Allow", kind: str | None = None) -> dict[str, Any]:
    entries = [{"resource": resource, "actions": actions.split(), "decision": decision}]
    return {"policyType": kind, "entries": entries}


class UserTests(unittest.TestCase):
    """Requests 3001 to 3005."""

    def test_made(self) -> None:
        user = ONE.users["u1"]
        self.assertEqual((user.password, user.is_super, user.enabled), ("secret-1", False, True))
        self.assertTrue(ONE.create("u2", {"password": "p", "userType": "super"}).users["u2"].is_super)
        self.assertEqual(list(ONE.users), ["u1"], "the state before is as it was")

    def test_changed(self) -> None:
        changed = ONE.update("u1", {"userStatus": "disable"}).users["u1"]
        self.assertEqual((changed.password, changed.enabled), ("secret-1", False))
        changed = ONE.update("u1", {"password": "new", "userType": "Super"}).users["u1"]
        self.assertEqual((changed.password, changed.is_super, changed.enabled), ("new", True, True))

    def test_gone(self) -> None:
        self.assertEqual(dict(ONE.delete("u1").users), {})
        self.assertEqual(ONE.delete("nobody"), ONE)

    def test_refused(self) -> None:
        for make, text in (
            (lambda: ONE.create("u1", {"password": "x"}), "The user is existed"),
            (lambda: ONE.update("u2", {}), "The user is not exist"),
            (lambda: ONE.create("u2", {}), "The password is blank"),
            (lambda: ONE.create("u2", {"password": " "}), "The password is blank"),
            (lambda: ONE.create("u2", {"password": 5}), "The password is blank"),
            (lambda: ONE.create("a\nb", {"password": "x"}), "can be printed"),
            (lambda: ONE.create("u2", {"password": "x", "userType": "King"}), "The userType is illegal"),
            (lambda: ONE.update("u1", {"userStatus": "asleep"}), "The userStatus is illegal"),
        ):
            with self.assertRaisesRegex(Refused, text):
                make()

    def test_passwords_are_not_shown(self) -> None:
        for shown in (ONE.user_infos(), ONE.grant("User:u1", [policy("*")]).acl_infos(), repr(ONE)):
            self.assertNotIn("secret-1", json.dumps(shown) if not isinstance(shown, str) else shown)
        self.assertEqual(ONE.user_infos("u2"), [])
        self.assertEqual(ONE.user_infos("1"), [{"username": "u1", "userType": "Normal", "userStatus": "enable"}])


class AclTests(unittest.TestCase):
    """Requests 3006 to 3010."""

    def test_source_addresses(self) -> None:
        """As Java's: not there where there are none, for which mqadmin prints null."""
        given = {**policy("Topic:t"), "entries": [{**policy("Topic:t")["entries"][0], "sourceIps": ["10.0.0.0/8"]}]}
        for one, wanted in ((policy("Topic:t"), None), (given, ["10.0.0.0/8"])):
            (info,) = ONE.grant("User:u1", [one]).acl_infos()
            self.assertEqual(info["policies"][0]["entries"][0].get("sourceIps"), wanted)

    def test_merged_by_type_and_resource(self) -> None:
        one = ONE.grant("User:u1", [policy("Topic:a"), policy("Topic:b", kind="Default")])
        two = one.grant("User:u1", [policy("Topic:a", "Sub", "Deny"), policy("Group:g")])
        (info,) = two.acl_infos()
        found = {
            (each["policyType"], row["resource"]): (row["actions"], row["decision"])
            for each in info["policies"]
            for row in each["entries"]
        }
        self.assertEqual(
            found,
            {
                ("Custom", "Topic:a"): (["Sub"], "Deny"),
                ("Custom", "Group:g"): (["Pub"], "Allow"),
                ("Default", "Topic:b"): (["Pub"], "Allow"),
            },
        )
        (shown,) = two.acl_infos("u1", "Group")
        self.assertEqual([row["resource"] for row in shown["policies"][0]["entries"]], ["Group:g"])
        self.assertEqual(two.acl_infos("u2"), [])
        self.assertEqual(two.update("u1", {"password": "x"}).acl_infos(), two.acl_infos())

    def test_taken_away(self) -> None:
        full = ONE.grant("User:u1", [policy("Topic:a"), policy("Topic:b"), policy("Topic:a", kind="Default")])

        def left(*arguments: str | None) -> list[tuple[str, str]]:
            infos = full.revoke("User:u1", *arguments).acl_infos()
            return [(e["policyType"], r["resource"]) for i in infos for e in i["policies"] for r in e["entries"]]

        self.assertEqual(left("Custom", "Topic:a"), [("Custom", "Topic:b"), ("Default", "Topic:a")])
        self.assertEqual(left(None, "Topic:a"), [("Custom", "Topic:b")])
        self.assertEqual(left("Default", None), [("Custom", "Topic:a"), ("Custom", "Topic:b")])
        self.assertEqual(left(None, None), [])

    def test_refused(self) -> None:
        for subject in ("User:u2", "u1", "", "Role:u1"):
            with self.assertRaisesRegex(Refused, "is not exist"):
                ONE.grant(subject, [policy("*")])
        with self.assertRaisesRegex(Refused, "The policy type is illegal"):
            ONE.grant("User:u1", [policy("*", kind="Odd")])
        with self.assertRaisesRegex(Refused, "The resource is null"):
            ONE.grant("User:u1", [policy("Odd")])


class BytesTests(unittest.TestCase):
    """There and back."""

    def test_all_of_it(self) -> None:
        full = ONE.grant("User:u1", [policy("Topic:a"), policy("*", "All", "Deny", "Default")])
        full = full.create("u2", {"password": "p", "userType": "Super", "userStatus": "disable"})
        self.assertEqual(Accounts.load(full.dump()), full)
        self.assertEqual(Accounts.load(Accounts().dump()), Accounts())

    def test_something_else(self) -> None:
        for data in (b"", b"[]", b'{"users":[5]}', b"\xff"):
            with self.assertRaises(RemoteProtocolError):
                Accounts.load(data)
        with self.assertRaises(Refused):
            Accounts.load(b'{"users":[{"username":"a"}]}')
