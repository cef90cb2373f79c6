"""Who is master: everybody who asked hears each change once, in order."""

from __future__ import annotations

import unittest

from rocketha.broker.master_watch import Mastership, MasterWatch
from rocketha.errors import InvariantBroken


class MasterWatchTests(unittest.TestCase):
    def setUp(self) -> None:
        self.watch = MasterWatch()
        self.heard: list[tuple[str, Mastership]] = []
        for name in ("first", "second"):
            self.watch.watch(lambda name=name: self.heard.append((name, self.watch.now)))  # type: ignore[misc]

    def test_nobody_at_first(self) -> None:
        """A broker that was just started serves nobody and knows nobody."""
        self.assertEqual((self.watch.leads, self.watch.address, self.watch.epoch), (False, None, 0))

    def test_each_change_is_heard_in_order(self) -> None:
        """Tables are set right before requests that waited are served: the order of asking counts."""
        self.watch.own(3, frozenset({1, 2}))
        now = Mastership(True, None, 3)
        self.assertEqual(self.heard, [("first", now), ("second", now)])
        self.assertEqual(self.watch.members, {1, 2})

    def test_the_same_again_is_no_change(self) -> None:
        """A controller's notice and its answer say the same."""
        for _ in range(2):
            self.watch.other("b:1", 4, 2)
        self.assertEqual(self.heard, [(name, Mastership(False, "b:1", 4, 2)) for name in ("first", "second")])

    def test_a_new_epoch_of_the_same_master_is_a_change(self) -> None:
        """It began a new term."""
        self.watch.own(3, frozenset({1}))
        self.watch.own(4, frozenset({1}))
        self.assertEqual([now.epoch for name, now in self.heard if name == "first"], [3, 4])

    def test_a_new_set_is_a_change(self) -> None:
        """Answers that waited for a replica that left need not wait."""
        self.watch.own(3, frozenset({1, 2}))
        self.watch.members_are(frozenset({1}))
        self.assertEqual(len(self.heard), 4)
        self.assertEqual(self.watch.members, {1})

    def test_nobody_knows_keeps_the_epoch(self) -> None:
        """What the last master's epoch was stays known, the set does not."""
        self.watch.own(3, frozenset({1}))
        self.watch.unknown()
        self.assertEqual((self.watch.leads, self.watch.address, self.watch.epoch), (False, None, 3))
        self.assertEqual(self.watch.members, frozenset())

    def test_only_a_master_has_a_set(self) -> None:
        """A set that is told to a slave is a mistake of ours."""
        self.assertRaises(InvariantBroken, self.watch.members_are, frozenset({1}))
        self.assertRaises(InvariantBroken, self.watch.other, "")
