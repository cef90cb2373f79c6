"""Which entry decides, and what is no entry."""

from __future__ import annotations

import unittest

from rocketha.access.policies import (
    Action,
    Decision,
    Entry,
    Kind,
    Need,
    Policies,
    PolicyType,
    Refused,
    Resource,
    decide,
)

ALLOW, DENY = Decision.ALLOW, Decision.DENY
HERE = "10.1.2.3"


def entry(resource: str, actions: str = "Pub", decision: str = "Allow", *sources: str) -> Entry:
    return Entry.of(resource, actions.split(), sources, decision)


def custom(*entries: Entry) -> Policies:
    return {PolicyType.CUSTOM: entries}


def need(name: str = "orders", *actions: Action, kind: Kind = Kind.TOPIC) -> Need:
    return Need(kind, name, frozenset(actions or (Action.PUB,)))


class DecisionTests(unittest.TestCase):
    """Of entries that match the closest one."""

    def test_one(self) -> None:
        for resource in ("*", "Topic:*", "Topic:ord*", "Topic:orders", "topic:orders"):
            self.assertIs(decide(custom(entry(resource)), need(), HERE), ALLOW, resource)
        for resource in ("Group:*", "Topic:order", "Topic:Orders", "Topic:orders2*", "Group:orders", "Cluster:orders"):
            self.assertIsNone(decide(custom(entry(resource)), need(), HERE), resource)

    def test_closest_first(self) -> None:
        """Whatever the order they are in: literal, longer prefix, shorter prefix, any name, any kind."""
        names = ["Topic:orders", "Topic:order*", "Topic:o*", "Topic:*", "*"]
        for closer in range(len(names)):
            for farther in range(closer + 1, len(names)):
                for first, second in ((ALLOW, DENY), (DENY, ALLOW)):
                    both = entry(names[closer], "Pub", first.value), entry(names[farther], "Pub", second.value)
                    for order in (both, both[::-1]):
                        self.assertIs(decide(custom(*order), need(), HERE), first, (closer, farther))

    def test_among_equals_one_that_denies(self) -> None:
        for order in (("Allow", "Deny"), ("Deny", "Allow")):
            entries = [entry("Topic:o*", "Pub", word) for word in order]
            self.assertIs(decide(custom(*entries), need(), HERE), DENY)

    def test_one_of_the_actions(self) -> None:
        both = need("orders", Action.SUB, Action.GET)
        self.assertIs(decide(custom(entry("*", "Get")), both, HERE), ALLOW)
        self.assertIs(decide(custom(entry("*", "All")), both, HERE), ALLOW)
        self.assertIsNone(decide(custom(entry("*", "Pub Create")), both, HERE))

    def test_a_name_that_is_left_out(self) -> None:
        for resource in ("Topic:orders", "Topic:o*"):
            self.assertIsNone(decide(custom(entry(resource)), need(""), HERE))
        self.assertIs(decide(custom(entry("Topic:*")), need(""), HERE), ALLOW)

    def test_custom_before_default(self) -> None:
        policies = {PolicyType.DEFAULT: (entry("Topic:orders", "All", "Deny"),), PolicyType.CUSTOM: (entry("*"),)}
        self.assertIs(decide(policies, need(), HERE), ALLOW)
        self.assertIs(decide(policies, need("orders", Action.SUB), HERE), DENY)

    def test_sources(self) -> None:
        policies = custom(entry("*", "Pub", "Allow", "10.1.0.0/16", "fd00::1"))
        for source, found in (
            (HERE, ALLOW),
            ("::ffff:10.1.9.9", ALLOW),
            ("fd00::1", ALLOW),
            ("10.2.0.1", None),
            ("fd00::2", None),
            ("unknown", None),
        ):
            self.assertIs(decide(policies, need(), source), found, source)


class EntryTests(unittest.TestCase):
    """Java's words."""

    def test_resources(self) -> None:
        for text in ("*", "Topic:*", "Topic:a*", "Group:%RETRY%a", "Cluster:c", "Namespace:n"):
            self.assertEqual(str(Resource.of(text)), text)
        for wrong in (None, "", "Topic", "Topic:", "Any:*", "King:a", ":a", "topic a", f"Topic:{'a' * 256}"):
            with self.assertRaisesRegex(Refused, "The resource is null"):
                Resource.of(wrong)

    def test_what_is_none(self) -> None:
        for arguments, text in (
            (("*", [], [], "Allow"), "The actions is empty"),
            (("*", ["Any"], [], "Allow"), "The actions can not be Any"),
            (("*", ["Pub", "Fly"], [], "Allow"), "The actions is empty"),
            (("*", ["Pub"], ["10.0.0"], "Allow"), "The source ip is invalid"),
            (("*", ["Pub"], ["host"], "Allow"), "The source ip is invalid"),
            (("*", ["Pub"], [], None), "The decision is null or illegal"),
            (("*", ["Pub"], [], "Maybe"), "The decision is null or illegal"),
        ):
            with self.assertRaisesRegex(Refused, text):
                Entry.of(*arguments)  # type: ignore[arg-type]
        self.assertEqual(Entry.of("*", ["pub", "SUB"], [], "deny").actions, {Action.PUB, Action.SUB})
