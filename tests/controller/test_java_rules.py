"""Our rules against answers recorded from a Java controller 5.5.0 (tests/interop/test_controller_rules.py makes them).

200 generated sequences of registrations, heartbeats, elections, set changes and cleanings must be answered as Java did,
byte for byte; and where we differ on purpose, the difference is the one that docs/divergence.md describes.
"""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from rocketha.wire.remoting import Answer
from tests.controller.java_rules import DIFFERENCES, SEQUENCES, expanded, ours, theirs
from tests.controller.sequences import sequence
from tests.controller.support import Controller, load


class SequenceTests(SynchronousTestCase):
    """facts/controller.md 3 and 4, S0, S3."""

    def test_same_answers(self) -> None:
        """Code, remark, header in its order, body."""
        recorded = expanded(load("java-sequences.json"))
        self.assertEqual(len(recorded), SEQUENCES)
        for name, (steps, answers) in recorded.items():
            self.assertEqual(ours(steps, name), theirs(steps, answers), name)

    def test_sequences_are_what_was_recorded(self) -> None:
        """The generator still makes the sequences that Java answered."""
        recorded = expanded(load("java-sequences.json"))
        for number in range(0, SEQUENCES, 10):
            self.assertEqual(sequence(number), recorded[f"s{number}"][0])

    def test_sequences_reach_every_case(self) -> None:
        """Each code that each request can have is among them often enough to mean something."""
        seen: dict[tuple[str, int], int] = {}
        for steps, answers in expanded(load("java-sequences.json")).values():
            for step, answer in zip(steps, answers, strict=True):
                seen[step.what, answer.code] = seen.get((step.what, answer.code), 0) + 1
        wanted = {
            "alter": (0, 2000, 2001, 2002, 2003, 2006, 2013),
            "elect": (0, 2004, 2010, 2011, 2012),
            "register": (0, 2010),
            "apply": (0, 2014),
            "info": (0, 2008),
            "clean": (0, 2009),
        }
        for what, codes in wanted.items():
            for code in codes:
                self.assertGreaterEqual(seen.get((what, code), 0), 3, (what, code))


class DifferenceTests(SynchronousTestCase):
    """docs/divergence.md, "The controller": what Java did (recorded) and what we do."""

    def _both(self, title: str) -> tuple[list[Answer], list[Answer]]:
        steps, java = expanded(load("java-differences.json"))[title]
        self.assertEqual(steps, DIFFERENCES[title])
        controller = Controller()
        return [controller.ask(step.command(title)) for step in steps], java

    def _epochs(self, answers: list[Answer], *steps: int) -> list[Any]:
        return [(answers[step].fields or {}).get("masterEpoch") for step in steps]

    def test_master_epoch_rises_once_without_a_master(self) -> None:
        """A second election that finds nobody leaves the epoch; Java raises it each time."""
        mine, java = self._both("none-twice")
        self.assertEqual([answer.code for answer in mine], [answer.code for answer in java])
        self.assertEqual((self._epochs(mine, -1), self._epochs(java, -1)), (["2"], ["3"]))

    def test_a_stranger_is_not_seated(self) -> None:
        """Java makes an unregistered id the first master."""
        mine, java = self._both("first-election-of-a-stranger")
        self.assertEqual((mine[1].code, java[1].code), (2010, 0))
        self.assertEqual(mine[2].fields, {"masterEpoch": "0"})

    def test_an_early_election_spoils_nothing(self) -> None:
        """Java raises the epoch of a group that never had a master, and then nobody can become its first."""
        mine, java = self._both("first-election-by-the-controller")
        self.assertEqual(([a.code for a in mine[1:4]], [a.code for a in java[1:4]]), ([2004, 0, 0], [2004, 0, 2012]))
        self.assertEqual(self._epochs(mine, 2, 4), ["0", "1"])

    def test_designating_nobody_unseats_nobody(self) -> None:
        """Java takes a healthy master away when an operator designates broker -1."""
        mine, java = self._both("designate-nobody")
        self.assertEqual((mine[3].code, java[3].code), (2012, 2004))
        self.assertEqual((mine[4].fields or {})["masterBrokerId"], "1")
        self.assertNotIn("masterBrokerId", java[4].fields or {})

    def test_next_id_is_never_taken(self) -> None:
        """Java counts applications: after a far id its next id is one that is taken."""
        mine, java = self._both("id-far-away")
        self.assertEqual(([a.code for a in mine], [a.code for a in java]), ([0, 0, 0, 2014, 2014, 0], [0] * 6))
        self.assertEqual((java[-1].fields or {})["nextBrokerId"], "5")  # held already
        self.assertEqual((mine[-1].fields or {})["nextBrokerId"], "6")

    def test_ids_begin_at_1(self) -> None:
        """Java assigns 0 and negative ids."""
        mine, java = self._both("id-zero")
        self.assertEqual(([a.code for a in mine[1:3]], [a.code for a in java[1:3]]), ([2014, 2014], [0, 0]))

    def test_a_cleaned_id_never_comes_again(self) -> None:
        """Java gives it to the next who asks for it, while its first owner still has it on disk."""
        mine, java = self._both("cleaned-id-again")
        self.assertEqual((mine[6].code, java[6].code), (2014, 0))

    def test_cleaning_a_member_raises_the_set_epoch(self) -> None:
        """Java's master would hold the larger set under the same epoch for ever."""
        mine, java = self._both("clean-a-member-of-the-set")
        self.assertEqual(mine[8].body, b'{"syncStateSet":[1],"syncStateSetEpoch":3}')
        self.assertEqual(java[8].body, b'{"syncStateSet":[1],"syncStateSetEpoch":2}')

    def test_cleaning_the_last_member_keeps_the_others(self) -> None:
        """Java forgets a group whose set became empty, though brokers of it are registered."""
        mine, java = self._both("clean-the-master")
        self.assertEqual((mine[4].fields, mine[6].code), ({"masterEpoch": "2"}, 0))
        self.assertEqual((java[4].code, java[6].code), (2008, 2010))

    def test_ids_and_epochs_go_on_after_a_group_was_forgotten(self) -> None:
        """Java begins both again."""
        mine, java = self._both("clean-everything")
        self.assertEqual(((mine[5].fields or {})["nextBrokerId"], (java[5].fields or {})["nextBrokerId"]), ("3", "1"))
        self.assertEqual((mine[6].code, java[6].code), (2014, 0))

    def test_offsets_far_apart(self) -> None:
        """Java's comparison overflows 32 bits: 4 GB behind, and elected."""
        mine, java = self._both("offsets-more-than-2-GiB-apart")
        self.assertEqual((mine[-1].fields or {})["masterBrokerId"], "2")
        self.assertEqual((java[-1].fields or {})["masterBrokerId"], "3")

    def test_priorities_far_apart(self) -> None:
        """The same with priorities."""
        mine, java = self._both("priorities-far-apart")
        self.assertEqual((mine[-1].fields or {})["masterBrokerId"], "3")
        self.assertEqual((java[-1].fields or {})["masterBrokerId"], "2")
