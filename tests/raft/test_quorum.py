"""Majorities, against a definition by counting."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial import unittest

from rocketha.raft.messages import Members
from rocketha.raft.quorum import VoteResult, agreed, election, present, votes

IDS = "abcdefg"
SETS = st.frozensets(st.sampled_from(IDS), max_size=7)


class QuorumTests(unittest.SynchronousTestCase):
    """Plain and joint."""

    @settings(deadline=None)
    @given(SETS, SETS, st.dictionaries(st.sampled_from(IDS), st.integers(0, 9)))
    def test_agreed(self, voters: frozenset[str], outgoing: frozenset[str], reached: dict[str, int]) -> None:
        """The largest number that a majority of each configuration has reached."""

        def most(ids: frozenset[str]) -> int:
            return max(
                number for number in range(10) if 2 * sum(reached.get(each, 0) >= number for each in ids) > len(ids)
            )

        if voters:
            expected = min(most(voters), most(outgoing)) if outgoing else most(voters)
            self.assertEqual(agreed(Members(voters, outgoing), lambda each: reached.get(each, 0)), expected)

    @settings(deadline=None)
    @given(SETS, SETS, st.dictionaries(st.sampled_from(IDS), st.booleans()))
    def test_election(self, voters: frozenset[str], outgoing: frozenset[str], cast: dict[str, bool]) -> None:
        """Won when whatever the missing votes are it is won; lost when it is then never won."""

        def won(all_votes: dict[str, bool]) -> bool:
            groups = [voters, outgoing] if outgoing else [voters]
            return all(2 * sum(all_votes.get(each, False) for each in ids) > len(ids) for ids in groups)

        missing = sorted((voters | outgoing) - set(cast))
        outcomes = {
            won({**cast, **dict(zip(missing, rest, strict=True))})
            for rest in itertools.product([True, False], repeat=len(missing))
        }
        expected = {(True,): VoteResult.WON, (False,): VoteResult.LOST}.get(tuple(outcomes), VoteResult.PENDING)
        self.assertEqual(election(Members(voters, outgoing), cast), expected)

    @settings(deadline=None, max_examples=40)
    @given(SETS.filter(bool), st.frozensets(st.sampled_from(IDS)))
    def test_unsure_voters(self, voters: frozenset[str], unsure: frozenset[str]) -> None:
        """Won if and only if all grant, or no majority consists of unsure ones and of some that refused."""
        for count in range(len(voters) + 1):
            for granting in itertools.combinations(sorted(voters), count):
                cast = {each: each in granting for each in sorted(voters)}
                result = election(Members(voters), cast, unsure)
                sure = set(granting) - unsure
                # What was committed stood on a majority; of it the unsure may have lost theirs.
                majorities = [
                    set(each)
                    for size in range(len(voters) // 2 + 1, len(voters) + 1)
                    for each in itertools.combinations(sorted(voters), size)
                ]
                safe = all(sure & (each - set(granting).intersection(unsure)) for each in majorities)
                won = 2 * count > len(voters) and (safe or count == len(voters))
                self.assertEqual(result, VoteResult.WON if won else VoteResult.LOST)

    def test_strangers_and_nobody(self) -> None:
        """Learners and strangers count nothing; without voters nothing is agreed or won."""
        members = Members("ab", (), "c")
        self.assertEqual(agreed(members, lambda each: {"c": 9, "a": 5}.get(each, 0)), 0)
        self.assertIs(election(members, {"a": True, "c": True, "x": True}), VoteResult.PENDING)
        self.assertEqual(agreed(Members(), lambda each: 9), 0)
        self.assertIs(election(Members(), {"a": True}), VoteResult.LOST)
        self.assertTrue(present(members, lambda each: each in "ab"))
        self.assertFalse(present(members, lambda each: each in "ac"))
        self.assertEqual([votes(Members("a", "b", "c"), each) for each in "abc"], [True, True, False])
